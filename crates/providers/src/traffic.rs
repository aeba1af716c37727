//! Routers: a share of traffic in, routing objects out, and back.
//!
//! A [`Mesh`] is one provider's language. The caller reads the objects that [`Mesh::names`] lists
//! into a [`Live`], and carries out the [`Change`]s that come back. Nothing here remembers
//! anything: the split is read from the live object, cookies come from the canary's status.
//!
//! ```text
//!   spec, cookies ─┐
//!   live objects  ─┼─ reconcile ─▶ shape as the spec says, traffic as it is
//! a split       ─┴─ write ─────▶ shape as the spec says, traffic as requested
//! ```
//!
//! Promises: `read` after `write(split)` returns `split` or an error, never a guess; `reconcile` moves no
//! traffic; both are empty where nothing differs; fields that others put on an object stay.

mod apisix;
mod appmesh;
mod capability_table;
mod cloned_object;
mod contour;
mod cookie;
mod desired_object;
mod error;
mod gateway_api;
mod gloo;
mod headers;
mod ingress;
mod istio;
mod knative;
mod kuma;
mod nginx;
mod plain;
mod plan;
mod provider;
mod reset_to_primary;
mod route_case;
mod router;
mod skipper;
mod smi;
mod support;
mod takeover;
mod texts;
mod traefik;
mod weighted_backends;
mod weights;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_api::canary::{CanarySpec, ServiceNames};
use tidegate_engine::Split;

use self::{route_case::RouteCase, router::Router};
use crate::{
    object::{Change, Kind, Live, Owner},
    workload::SERVICE,
};

pub use self::{
    capability_table::capability_table,
    error::{Place, RouteError, UnknownProvider},
    gateway_api::{GRPC_ROUTE_V1, HTTP_ROUTE_V1, HTTP_ROUTE_V1BETA1, RouteFields},
    ingress::INGRESS,
    istio::{DESTINATION_RULE, VIRTUAL_SERVICE, other_namespaces::OtherNamespaces},
    knative::{KNATIVE_SERVICE, primary_revision as knative_primary},
    provider::select,
    smi::{SmiTarget, SmiVersion},
    support::{Impossible, Support, matrix},
};

/// The inputs of a router besides live objects.
#[derive(Clone, Copy, Debug)]
pub struct RouteCx<'a> {
    /// The canary that traffic is routed for.
    pub owner: Owner<'a>,
    /// Its spec.
    pub spec: &'a CanarySpec,
    /// The session cookies its status remembers.
    pub cookies: &'a Cookies,
    /// The revision of Knative that was the primary when the canary's status was last written.
    pub primary: Option<&'a str>,
    /// Whether `status.iterations` is above 0: without a mesh nothing else shows where traffic goes.
    pub iterating: bool,
    /// How a route begins that divides nothing yet: all to the primary, unless it replaces another one in the
    /// middle of a run.
    pub inherited: Split,
    /// The fields that the cluster's definition of the route has.
    pub fields: RouteFields,
    /// Annotations of the canary; some providers take settings from them.
    pub annotations: &'a BTreeMap<String, String>,
    /// The operator's settings for ingresses.
    pub ingress: IngressOptions<'a>,
}

/// Settings of the operator for ingress controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngressOptions<'a> {
    /// The prefix of the annotations of the NGINX ingress controller.
    pub annotation_prefix: &'a str,
    /// The class of Contour's proxies; empty for none.
    pub class: &'a str,
}

/// Session cookies as status has them, each as `name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cookies {
    /// Keeps users on the canary during this run.
    pub canary: Option<String>,
    /// Kept users on the canary during the run before; browsers drop it.
    pub previous: Option<String>,
    /// Keeps users on the primary until the next step.
    pub primary: Option<String>,
}

/// The languages in which traffic can be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mesh {
    /// Plain Services: users reach the primary only, unless the apex Service may be switched.
    Kubernetes,
    /// An `HTTPRoute` or `GRPCRoute` of Gateway API `v1`.
    GatewayApiV1,
    /// An `HTTPRoute` of Gateway API `v1beta1`.
    GatewayApiV1Beta1,
    /// An Istio virtual service and two destination rules.
    Istio,
    /// A traffic split of the Service Mesh Interface; also for Linkerd and Open Service Mesh.
    Smi {
        /// The version of the API.
        version: SmiVersion,
        /// The mesh that acts on it.
        target: SmiTarget,
    },
    /// Virtual nodes and services of AWS App Mesh, `v1beta1`.
    AppMeshV1Beta1,
    /// Virtual nodes, routers and services of AWS App Mesh, `v1beta2`.
    AppMeshV1Beta2,
    /// A proxy of Contour.
    Contour,
    /// A second Ingress, for the NGINX ingress controller.
    Nginx,
    /// A second Ingress, for Skipper.
    Skipper,
    /// A route table of Gloo, and two upstreams.
    Gloo,
    /// A service of Traefik.
    Traefik,
    /// A traffic route of Kuma.
    Kuma,
    /// A route of Kuma, in clusters that do not serve its traffic routes; see [`served`](Self::served).
    KumaHttp,
    /// A second route of APISIX.
    Apisix,
    /// The target itself, a Service of Knative.
    Knative,
}

/// The capabilities of a provider for a canary. The caller leaves out, or refuses, the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is something that can be done or not")]
pub struct Capabilities {
    /// Live traffic can be divided by weight.
    pub weighted: bool,
    /// Live traffic can be moved, if only as a whole.
    pub switched: bool,
    /// Matching requests can be routed apart.
    pub ab: bool,
    /// Requests can be copied to the canary.
    pub mirror: bool,
    /// Users can be kept on the version they first met, for this spec.
    pub affinity: Affinity,
}

/// Which users can be kept on their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Affinity {
    /// None.
    None,
    /// Users who met the canary, and users who met the primary.
    Both,
}

/// How one canary's traffic is routed: the objects that the provider uses for this spec.
#[derive(Debug)]
enum RoutingKind {
    /// Nothing but Services that stay as they are.
    None,
    /// The apex Service, which selects one side or the other.
    Apex,
    /// A route of our own.
    Route(gateway_api::Version),
    /// A route of the user's, of which only backends are ours.
    Reference(gateway_api::Version),
    /// Istio's objects.
    Istio,
    /// The objects of the provider's router.
    Router(Box<dyn Router>),
}

// === impl Mesh ===

impl Mesh {
    /// The kinds of routing object this provider may write.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Kubernetes => &[],
            Self::GatewayApiV1 => &[HTTP_ROUTE_V1, GRPC_ROUTE_V1],
            Self::GatewayApiV1Beta1 => &[HTTP_ROUTE_V1BETA1],
            Self::Istio => &[DESTINATION_RULE, VIRTUAL_SERVICE],
            _ => self.router().map_or(&[], |router| router.kinds()),
        }
    }

    /// Of these the ones that must be known for this spec.
    pub fn kinds_for(self, spec: &CanarySpec) -> Vec<Kind> {
        match self.routing_kind(spec) {
            RoutingKind::None | RoutingKind::Apex => Vec::new(),
            RoutingKind::Route(version) | RoutingKind::Reference(version) => vec![version.kind()],
            RoutingKind::Istio => self.kinds().to_vec(),
            RoutingKind::Router(router) => router.needs().to_vec(),
        }
    }

    /// The objects that are read and written for this canary, in the order in which they are
    /// written; the last is the one that says where traffic goes.
    ///
    /// A route may be preceded by one of the other protocol, which is read for as long as it exists: it is
    /// deleted when the service changes its protocol.
    pub fn names(self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        let names = cx.spec.service_names();
        match self.routing_kind(cx.spec) {
            RoutingKind::None => Vec::new(),
            RoutingKind::Apex => {
                vec![(SERVICE, names.canary), (SERVICE, names.primary), (SERVICE, names.apex)]
            }
            RoutingKind::Route(version) => {
                let other = version.sibling().map(|kind| (kind, names.apex.clone()));
                other.into_iter().chain([(version.kind(), names.apex)]).collect()
            }
            RoutingKind::Reference(version) => {
                let referred = cx.spec.route_ref.as_ref().map(|route| route.name.clone());
                vec![(version.kind(), referred.unwrap_or_default())]
            }
            RoutingKind::Istio => vec![
                (DESTINATION_RULE, names.canary),
                (DESTINATION_RULE, names.primary),
                (VIRTUAL_SERVICE, names.apex),
            ],
            RoutingKind::Router(router) => router.names(cx),
        }
    }

    /// The object that says where traffic goes. `None` where there is none, or where it is the target
    /// itself.
    pub fn route(self, cx: &RouteCx<'_>) -> Option<(Kind, String)> {
        if self == Self::Knative { None } else { self.names(cx).pop() }
    }

    /// Objects of other namespaces that are read: kind, namespace and name. They go into
    /// [`Live::insert_from`].
    pub fn elsewhere(self, cx: &RouteCx<'_>) -> Vec<(Kind, String, String)> {
        self.router().map(|router| router.elsewhere(cx)).unwrap_or_default()
    }

    /// Whether this provider can do all that the spec asks for; otherwise the first thing it cannot
    /// do.
    ///
    /// Problems that follow from the capabilities alone are in [`impossible`](Self::impossible) too. Of those
    /// only conditions and unusable routes are refused here: the rest can be left out of a rollout in
    /// progress.
    pub fn check(self, cx: &RouteCx<'_>) -> Result<(), RouteError> {
        let routing_kind = self.routing_kind(cx.spec);
        if matches!(routing_kind, RoutingKind::None | RoutingKind::Apex) {
            return Ok(());
        }
        let case = self.case(cx)?;
        let impossible =
            self.unusable_reference(cx.spec).or_else(|| self.unsupported_conditions(cx.spec));
        let texts = || self.unusable_texts(cx.spec, cx.fields).into_iter().next();
        if let Some(Impossible { field, why }) = impossible.or_else(texts) {
            return Err(case.refuse(field, why));
        }
        match routing_kind {
            RoutingKind::None | RoutingKind::Apex | RoutingKind::Reference(_) => Ok(()),
            RoutingKind::Route(version) => gateway_api::check(version, &case),
            RoutingKind::Istio => istio::check(&case),
            RoutingKind::Router(router) => router.check(&case),
        }
    }

    /// Creates the objects that must exist before the first pod of the primary starts, once both
    /// sides have their Services: the nodes of App Mesh. Moves no traffic. Empty where the spec is
    /// refused.
    pub fn prepare(self, cx: &RouteCx<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        match self.router() {
            Some(router) if self.check(cx).is_ok() => router.prepare(&self.case(cx)?, live),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Brings the objects into the shape the spec asks for, with traffic as it is.
    ///
    /// Weights, the mirror and cookies of a live route are kept in every other change. A route that
    /// is not ours yet is taken over with the [`inherited`](RouteCx::inherited) split, and its spec
    /// is backed up in the same write; one of Gateway API only if it was handed over
    /// ([`HANDED_OVER`](crate::object::HANDED_OVER)).
    pub fn reconcile(self, cx: &RouteCx<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        self.check(cx)?;
        match self.routing_kind(cx.spec) {
            RoutingKind::None | RoutingKind::Apex => Ok(Vec::new()),
            RoutingKind::Route(version) => gateway_api::reconcile(version, &self.case(cx)?, live),
            RoutingKind::Reference(version) => {
                gateway_api::reference::reconcile(version, &self.case(cx)?, live)
            }
            RoutingKind::Istio => istio::reconcile(&self.case(cx)?, live),
            RoutingKind::Router(router) => router::reconcile(&*router, &self.case(cx)?, live),
        }
    }

    /// How live traffic is divided, from the live object.
    ///
    /// Where nothing is ever moved, only the canary's own counter shows it; as Flagger, the canary counts as
    /// having all traffic while iterations run.
    ///
    /// Traffic can be read even if the spec cannot be written any more.
    pub fn read(self, cx: &RouteCx<'_>, live: &Live) -> Result<Split, RouteError> {
        let case = self.lenient_case(cx);
        match self.routing_kind(cx.spec) {
            RoutingKind::None if cx.iterating => Ok(Split::CANARY),
            RoutingKind::None => Ok(Split::PRIMARY),
            RoutingKind::Apex => plain::read(&case, live),
            RoutingKind::Route(version) => gateway_api::read(version, &case, live),
            RoutingKind::Reference(version) => gateway_api::reference::read(version, &case, live),
            RoutingKind::Istio => istio::read(&case, live),
            RoutingKind::Router(router) => router::read(&*router, &case, live),
        }
    }

    /// Divides traffic as `split` says: one change of one object, or none.
    ///
    /// With session affinity and a share for the canary, the caller has made the cookies and stored
    /// them in status before: a cookie that is only in a route is lost with it.
    ///
    /// All traffic to the primary is always possible: where the spec has become one that cannot be written,
    /// the live rules are kept and only weights and mirrors change. Nothing is written where no route leads
    /// to the canary, because it is missing or is a user's own.
    pub fn write(
        self,
        cx: &RouteCx<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Vec<Change>, RouteError> {
        match self.divide(cx, live, split) {
            Err(_) if split == Split::PRIMARY && !self.may_lead_to_canary(cx, live) => {
                Ok(Vec::new())
            }
            outcome => outcome,
        }
    }

    /// Whether this is what the canary's traffic is divided by, and not a route of that name to which it only
    /// referred before.
    pub fn is_route(self, cx: &RouteCx<'_>, kind: Kind, object: &Value) -> bool {
        let is_it = |(of, name): (Kind, String)| {
            (of.group, of.kind) == (kind.group, kind.kind) && object["metadata"]["name"] == *name
        };
        self.route(cx).is_some_and(is_it) && !self.is_in_the_way(cx.spec, object)
    }

    /// Whether a user's route has the name of ours and divided backends: it cannot become ours.
    fn is_in_the_way(self, spec: &CanarySpec, object: &Value) -> bool {
        !self.refers(spec) && gateway_api::reference::is_divided(object)
    }

    /// As [`write`](Self::write), for a caller that does not know whether another route has a
    /// share: a missing route is then an error for every split.
    pub fn divide(
        self,
        cx: &RouteCx<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Vec<Change>, RouteError> {
        if let Err(refusal) = self.check(cx) {
            return self.reset_to_primary(cx, live, split, refusal);
        }
        let routing_kind = self.routing_kind(cx.spec);
        if matches!(routing_kind, RoutingKind::None) {
            return Ok(Vec::new());
        }
        let case = self.case(cx)?;
        let impossible = match case.capabilities {
            Capabilities { mirror: false, .. } if split.mirrored => Some("mirror requests"),
            Capabilities { weighted: false, .. } if !router::is_whole(split) => {
                Some("divide traffic")
            }
            _ => None,
        };
        if let Some(what) = impossible {
            let (provider, canary) = (self.as_str(), case.canary());
            return Err(RouteError::Unsupported { provider, canary, what });
        }
        match routing_kind {
            RoutingKind::None => Ok(Vec::new()),
            RoutingKind::Apex => plain::write(&case, live, split),
            RoutingKind::Route(version) => gateway_api::write(version, &case, live, split),
            RoutingKind::Reference(version) => {
                gateway_api::reference::write(version, &case, live, split)
            }
            RoutingKind::Istio => istio::write(&case, live, split),
            RoutingKind::Router(router) => router::write(&*router, &case, live, split),
        }
    }

    /// The route's part of a promotion: with Knative the latest revision becomes the primary; with
    /// all others the primary is a workload of its own and the route stays.
    pub fn promote(self, cx: &RouteCx<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        match self {
            Self::Knative => Ok(knative::promote(&self.case(cx)?, live)?.into_iter().collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// Restores objects as they were before they were taken over (`revertOnDeletion`).
    ///
    /// Objects made for the canary are deleted with it and are left alone; so are objects without a backup.
    /// An object that is gone needs nothing: an error would keep the canary from being deleted.
    pub fn finalize(self, cx: &RouteCx<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let names = cx.spec.service_names();
        match self.routing_kind(cx.spec) {
            RoutingKind::None | RoutingKind::Apex => return Ok(Vec::new()),
            RoutingKind::Reference(version) => {
                let case = self.lenient_case(cx);
                return Ok(gateway_api::reference::finalize(version, &case, live));
            }
            RoutingKind::Router(router) => return router.finalize(&self.lenient_case(cx), live),
            RoutingKind::Route(_) | RoutingKind::Istio => {}
        }
        let mut changes = Vec::new();
        for (kind, name) in self.names(cx) {
            let Some(object) = live.get(kind, &name) else { continue };
            let shaped = self.is_shaped(object, &names);
            let back = takeover::TakenOver { kind, live: object, shaped, filled_in: &[] };
            changes.extend(takeover::restore(&cx.owner, back)?);
        }
        Ok(changes)
    }

    /// Whether a route of the user's is referred to, of which only backends are changed.
    pub fn refers(self, spec: &CanarySpec) -> bool {
        matches!(self.routing_kind(spec), RoutingKind::Reference(_))
    }

    /// Whether something of this provider outlives the canary and has to be restored in any case: a route of
    /// the user's that leads to Services which are deleted, an object that nothing can own.
    ///
    /// With Knative nothing does: revisions stay, and traffic stays with the promoted one.
    pub fn outlives(self, spec: &CanarySpec) -> bool {
        self.refers(spec) || self == Self::Kuma
    }

    /// Deletes orphans among the routing objects of this canary: under a name it had before, of another
    /// provider, beside a route that it refers to now. A route of the user's to which it referred before is
    /// restored.
    ///
    /// `existing` are objects of one routing kind in the canary's namespace, or in none where the kind
    /// has none.
    pub fn leftovers(self, cx: &RouteCx<'_>, kind: Kind, existing: &[&Value]) -> Vec<Change> {
        let used = self.names(cx);
        let is_used = |object: &Value| {
            used.iter().any(|(of, name)| {
                (of.group, of.kind) == (kind.group, kind.kind)
                    && object["metadata"]["name"] == **name
            })
        };
        let unused = existing
            .iter()
            .filter(|object| !is_used(object) || self.is_in_the_way(cx.spec, object));
        let case = self.lenient_case(cx);
        let undone = unused.filter_map(|object| match () {
            () if cx.owner.owns(object) => delete(kind, object),
            // An object that cannot be restored is left as it is: no other work waits for it.
            () if kuma::is_made_for(&cx.owner, kind, object) => {
                kuma::undo(&cx.owner, object).ok().flatten()
            }
            () => gateway_api::undo_previous(kind, &case, object),
        });
        undone.collect()
    }

    /// Sends all traffic to the primary when the spec was refused, as far as it still can be.
    fn reset_to_primary(
        self,
        cx: &RouteCx<'_>,
        live: &Live,
        split: Split,
        refusal: RouteError,
    ) -> Result<Vec<Change>, RouteError> {
        if let (RoutingKind::Reference(version), Split::PRIMARY) =
            (self.routing_kind(cx.spec), split)
        {
            // Only backends are ours there, and names are all it takes to reset them.
            return gateway_api::reference::write(version, &self.lenient_case(cx), live, split);
        }
        if let (Some(router), Split::PRIMARY) = (self.router(), split) {
            return router::reset_to_primary(&*router, &self.lenient_case(cx), live, refusal);
        }
        let names = cx.spec.service_names();
        let route =
            self.names(cx).pop().and_then(|(kind, name)| Some((kind, live.get(kind, &name)?)));
        let Some((kind, object)) = route.filter(|_| split == Split::PRIMARY) else {
            return Err(refusal);
        };
        desired_object::refuse_taken(&cx.owner, kind, Some(object))?;
        if !self.is_shaped(object, &names) {
            return Err(refusal);
        }
        Ok(reset_to_primary::reset_to_primary(kind, object, &names).into_iter().collect())
    }

    /// How the traffic of a canary with this spec is routed.
    fn routing_kind(self, spec: &CanarySpec) -> RoutingKind {
        let referred = gateway_api::Version::referred(self, spec).map(RoutingKind::Reference);
        match self {
            Self::Kubernetes if plain::switches(spec) => RoutingKind::Apex,
            Self::Kubernetes => RoutingKind::None,
            Self::GatewayApiV1 | Self::GatewayApiV1Beta1 => {
                referred.unwrap_or_else(|| RoutingKind::Route(gateway_api::Version::of(self, spec)))
            }
            Self::Istio => RoutingKind::Istio,
            _ => self.router().map_or(RoutingKind::None, RoutingKind::Router),
        }
    }

    /// The router of a provider that has one.
    fn router(self) -> Option<Box<dyn Router>> {
        Some(match self {
            Self::Kubernetes | Self::GatewayApiV1 | Self::GatewayApiV1Beta1 | Self::Istio => {
                return None;
            }
            Self::Smi { version, target } => Box::new(smi::Smi { version, target }),
            Self::AppMeshV1Beta1 => Box::new(appmesh::AppMesh(appmesh::Version::V1Beta1)),
            Self::AppMeshV1Beta2 => Box::new(appmesh::AppMesh(appmesh::Version::V1Beta2)),
            Self::Contour => Box::new(contour::Contour),
            Self::Nginx => Box::new(cloned_object::ClonedObject(nginx::Nginx)),
            Self::Skipper => Box::new(cloned_object::ClonedObject(skipper::Skipper)),
            Self::Gloo => Box::new(gloo::Gloo),
            Self::Traefik => Box::new(traefik::Traefik),
            Self::Kuma => Box::new(kuma::Kuma),
            Self::KumaHttp => Box::new(kuma::KumaHttp),
            Self::Apisix => Box::new(cloned_object::ClonedObject(apisix::Apisix)),
            Self::Knative => Box::new(knative::Knative),
        })
    }

    /// Whether an object is as this provider makes it.
    fn is_shaped(self, object: &Value, names: &ServiceNames) -> bool {
        match self {
            Self::GatewayApiV1 | Self::GatewayApiV1Beta1 => gateway_api::is_shaped(object, names),
            Self::Istio => istio::is_shaped(object, names),
            _ => false,
        }
    }
}

// === impl IngressOptions ===

impl Default for IngressOptions<'_> {
    fn default() -> Self {
        Self { annotation_prefix: "nginx.ingress.kubernetes.io", class: "" }
    }
}

/// Deletes an object that was seen.
fn delete(kind: Kind, object: &Value) -> Option<Change> {
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    Some(Change::Delete { kind, name: text("name")?, uid: text("uid")? })
}

/// A text that is not empty; an empty one counts as none, as in Flagger.
fn non_empty(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}
