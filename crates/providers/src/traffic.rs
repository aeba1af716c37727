//! Routers: a share of traffic in, routing objects out, and back.
//!
//! A [`Mesh`] is one provider's language. The caller reads the objects that [`Mesh::names`] lists
//! into a [`Live`], and carries out the [`Change`]s that come back. Nothing here remembers
//! anything: the split is read from the live object, cookies come from the canary's status.
//!
//! ```text
//!   spec, cookies ─┐
//!   live objects  ─┼─ reconcile ─▶ shape as the spec says, traffic as it is
//!   a split       ─┴─ write ─────▶ shape as the spec says, traffic as asked
//! ```
//!
//! Promises: `read` after `write(split)` answers `split` or an error, never a guess; `reconcile`
//! moves no traffic; both are empty where nothing differs; what somebody else put on an object
//! stays.

mod apisix;
mod appmesh;
mod contour;
mod cookie;
mod copied;
mod draft;
mod error;
mod gateway_api;
mod gloo;
mod headers;
mod ingress;
mod istio;
mod knative;
mod kuma;
mod members;
mod nginx;
mod page;
mod plain;
mod plan;
mod provider;
mod retreat;
mod router;
mod skipper;
mod smi;
mod support;
mod takeover;
mod traefik;
mod weights;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;
use tidegate_api::canary::{CanarySpec, Service, ServiceNames};
use tidegate_engine::{Percent, Split};

use self::router::Router;
use crate::{
    object::{Change, Kind, Live, Owner},
    workload::SERVICE,
};

pub use self::{
    error::{Place, RouteError, UnknownProvider},
    gateway_api::{GRPC_ROUTE_V1, HTTP_ROUTE_V1, HTTP_ROUTE_V1BETA1, RouteFields},
    ingress::INGRESS,
    istio::{DESTINATION_RULE, VIRTUAL_SERVICE},
    knative::{KNATIVE_SERVICE, primary_revision as knative_primary},
    page::page,
    provider::select,
    smi::{SmiTarget, SmiVersion},
    support::{Impossible, Support, matrix},
    takeover::HANDED_OVER,
};

/// What a router may look at, besides live objects.
#[derive(Clone, Copy, Debug)]
pub struct RouteCx<'a> {
    /// The canary on whose behalf traffic is routed.
    pub owner: Owner<'a>,
    /// Its spec.
    pub spec: &'a CanarySpec,
    /// The session cookies its status remembers.
    pub cookies: &'a Cookies,
    /// The revision of Knative that was the primary when the canary's status was last written.
    pub primary: Option<&'a str>,
    /// Whether `status.iterations` is above 0: all that tells where traffic goes without a mesh.
    pub iterating: bool,
    /// How a route begins that divides nothing yet: all to the primary, unless it takes over from another
    /// one in the middle of a run.
    pub inherited: Split,
    /// What the cluster's definition of the route knows.
    pub fields: RouteFields,
    /// Annotations of the canary; some providers take settings from them.
    pub annotations: &'a BTreeMap<String, String>,
    /// What the operator was told about ingresses.
    pub ingress: IngressOptions<'a>,
}

/// Settings of the operator for ingress controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngressOptions<'a> {
    /// What the annotations of the NGINX ingress controller begin with.
    pub annotation_prefix: &'a str,
    /// The class of Contour's proxies; empty for none.
    pub class: &'a str,
}

/// Session cookies as status has them, each as `name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cookies {
    /// Keeps users on the canary during this run.
    pub canary: Option<String>,
    /// Kept users on the canary during the run before; browsers are told to drop it.
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

/// What can be done for a canary. The caller leaves out, or refuses, what cannot.
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
    /// Those who met the canary, and those who met the primary.
    Both,
}

/// The objects that carry one canary's traffic: what the provider does for this spec.
#[derive(Debug)]
enum Road {
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
    /// What the provider's router says.
    By(Box<dyn Router>),
}

/// One canary's case, with everything looked up that rendering needs.
struct Scene<'a> {
    mesh: Mesh,
    cx: &'a RouteCx<'a>,
    service: &'a Service,
    names: ServiceNames,
    capabilities: Capabilities,
}

/// The settings of a canary that has none: those of Knative need none, and the way back must not.
static NO_SERVICE: LazyLock<Service> = LazyLock::new(Service::default);

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
        match self.road(spec) {
            Road::None | Road::Apex => Vec::new(),
            Road::Route(version) | Road::Reference(version) => vec![version.kind()],
            Road::Istio => self.kinds().to_vec(),
            Road::By(router) => router.needs().to_vec(),
        }
    }

    /// The objects that are read and written for this canary, in the order in which they are
    /// written; the last is the one that says where traffic goes.
    ///
    /// A route may be preceded by one of the other protocol, which is looked at for as long as it
    /// is there: it goes when the service changes its protocol.
    pub fn names(self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        let names = cx.spec.service_names();
        match self.road(cx.spec) {
            Road::None => Vec::new(),
            Road::Apex => {
                vec![(SERVICE, names.canary), (SERVICE, names.primary), (SERVICE, names.apex)]
            }
            Road::Route(version) => {
                let other = version.sibling().map(|kind| (kind, names.apex.clone()));
                other.into_iter().chain([(version.kind(), names.apex)]).collect()
            }
            Road::Reference(version) => {
                let referred = cx.spec.route_ref.as_ref().map(|route| route.name.clone());
                vec![(version.kind(), referred.unwrap_or_default())]
            }
            Road::Istio => vec![
                (DESTINATION_RULE, names.canary),
                (DESTINATION_RULE, names.primary),
                (VIRTUAL_SERVICE, names.apex),
            ],
            Road::By(router) => router.names(cx),
        }
    }

    /// The object that says where traffic goes. `None` where there is none, or where it is the target
    /// itself.
    pub fn route(self, cx: &RouteCx<'_>) -> Option<(Kind, String)> {
        if self == Self::Knative { None } else { self.names(cx).pop() }
    }

    /// Objects of other namespaces that are looked at: kind, namespace and name. They go into
    /// [`Live::insert_from`].
    pub fn elsewhere(self, cx: &RouteCx<'_>) -> Vec<(Kind, String, String)> {
        self.router().map(|router| router.elsewhere(cx)).unwrap_or_default()
    }

    /// Whether this provider can do what the spec asks for, or else what it cannot.
    ///
    /// What can be known from the capabilities alone is in [`impossible`](Self::impossible) too. Of that
    /// only conditions and routes of no use are refused here: the rest can be left out of a rollout that
    /// is under way.
    pub fn check(self, cx: &RouteCx<'_>) -> Result<(), RouteError> {
        let road = self.road(cx.spec);
        if matches!(road, Road::None | Road::Apex) {
            return Ok(());
        }
        let scene = self.scene(cx)?;
        let impossible = self.misreferred(cx.spec).or_else(|| self.untestable(cx.spec));
        if let Some(Impossible { field, why }) = impossible {
            return Err(scene.refuse(field, why));
        }
        match road {
            Road::None | Road::Apex | Road::Reference(_) => Ok(()),
            Road::Route(version) => gateway_api::check(version, &scene),
            Road::Istio => istio::check(&scene),
            Road::By(router) => router.check(&scene),
        }
    }

    /// What has to be there before the first pod of the primary starts, once both sides have their
    /// Services: the nodes of App Mesh. No traffic is moved by it. Nothing where the spec is refused.
    pub fn prepare(self, cx: &RouteCx<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        match self.router() {
            Some(router) if self.check(cx).is_ok() => router.prepare(&self.scene(cx)?, live),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// What brings the objects into the shape the spec asks for, with traffic as it is.
    ///
    /// Weights, the mirror and cookies of a live route are kept, whatever else changes. A route
    /// that is not ours yet is taken over with what is [`inherited`](RouteCx::inherited), and its spec is backed
    /// up in the same write; one of Gateway API only if it was handed over ([`HANDED_OVER`]).
    pub fn reconcile(self, cx: &RouteCx<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        self.check(cx)?;
        match self.road(cx.spec) {
            Road::None | Road::Apex => Ok(Vec::new()),
            Road::Route(version) => gateway_api::reconcile(version, &self.scene(cx)?, live),
            Road::Reference(version) => {
                gateway_api::reference::reconcile(version, &self.scene(cx)?, live)
            }
            Road::Istio => istio::reconcile(&self.scene(cx)?, live),
            Road::By(router) => router::reconcile(&*router, &self.scene(cx)?, live),
        }
    }

    /// How live traffic is divided, from the live object.
    ///
    /// Where nothing is ever moved, nothing tells but the canary's own counter; as Flagger, the
    /// canary counts as having all traffic while iterations run.
    ///
    /// A spec that cannot be written any more is no reason not to know where traffic goes.
    pub fn read(self, cx: &RouteCx<'_>, live: &Live) -> Result<Split, RouteError> {
        let scene = self.lenient_scene(cx);
        match self.road(cx.spec) {
            Road::None if cx.iterating => Ok(Split::CANARY),
            Road::None => Ok(Split::PRIMARY),
            Road::Apex => plain::read(&scene, live),
            Road::Route(version) => gateway_api::read(version, &scene, live),
            Road::Reference(version) => gateway_api::reference::read(version, &scene, live),
            Road::Istio => istio::read(&scene, live),
            Road::By(router) => router::read(&*router, &scene, live),
        }
    }

    /// What makes traffic divided like this: one change of one object, or none.
    ///
    /// With session affinity and a share for the canary, the caller has made the cookies and stored
    /// them in status before: a cookie that is only in a route is lost with it.
    ///
    /// All traffic to the primary can always be asked for: where the spec has become one that cannot
    /// be written, the live rules are kept and only weights and mirrors change. Where no route leads to the
    /// canary, because it is not there or is somebody's own, nothing has to.
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

    /// A route of the name we would give ours is of no use while it is somebody's, with backends divided.
    fn is_in_the_way(self, spec: &CanarySpec, object: &Value) -> bool {
        !self.refers(spec) && gateway_api::reference::is_divided(object)
    }

    /// The same for who does not know whether another route has a share: one that is not there is an error
    /// then, whatever the split.
    pub fn divide(
        self,
        cx: &RouteCx<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Vec<Change>, RouteError> {
        if let Err(refusal) = self.check(cx) {
            return self.retreat(cx, live, split, refusal);
        }
        let road = self.road(cx.spec);
        if matches!(road, Road::None) {
            return Ok(Vec::new());
        }
        let scene = self.scene(cx)?;
        let impossible = match scene.capabilities {
            Capabilities { mirror: false, .. } if split.mirrored => Some("mirror requests"),
            Capabilities { weighted: false, .. } if !router::is_whole(split) => {
                Some("divide traffic")
            }
            _ => None,
        };
        if let Some(what) = impossible {
            let (provider, canary) = (self.as_str(), scene.canary());
            return Err(RouteError::Unsupported { provider, canary, what });
        }
        match road {
            Road::None => Ok(Vec::new()),
            Road::Apex => plain::write(&scene, live, split),
            Road::Route(version) => gateway_api::write(version, &scene, live, split),
            Road::Reference(version) => gateway_api::reference::write(version, &scene, live, split),
            Road::Istio => istio::write(&scene, live, split),
            Road::By(router) => router::write(&*router, &scene, live, split),
        }
    }

    /// What a promotion means to the route: with Knative the latest revision becomes the primary, with
    /// all others the primary is a workload of its own and the route stays.
    pub fn promote(self, cx: &RouteCx<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        match self {
            Self::Knative => Ok(knative::promote(&self.scene(cx)?, live)?.into_iter().collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// What gives objects back as they were before they were taken over (`revertOnDeletion`).
    ///
    /// Objects made for the canary go with it and are left alone; so is what nobody backed up. An
    /// object that is gone needs nothing: an error would keep the canary from being deleted.
    pub fn finalize(self, cx: &RouteCx<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let names = cx.spec.service_names();
        match self.road(cx.spec) {
            Road::None | Road::Apex => return Ok(Vec::new()),
            Road::Reference(version) => {
                let scene = self.lenient_scene(cx);
                return Ok(gateway_api::reference::finalize(version, &scene, live));
            }
            Road::By(router) => return router.finalize(&self.lenient_scene(cx), live),
            Road::Route(_) | Road::Istio => {}
        }
        let mut changes = Vec::new();
        for (kind, name) in self.names(cx) {
            let Some(object) = live.get(kind, &name) else { continue };
            let shaped = self.is_shaped(object, &names);
            let back = takeover::Back { kind, live: object, shaped, filled_in: &[] };
            changes.extend(takeover::restore(&cx.owner, back)?);
        }
        Ok(changes)
    }

    /// Whether a route of the user's is referred to, of which only backends are changed.
    pub fn refers(self, spec: &CanarySpec) -> bool {
        matches!(self.road(spec), Road::Reference(_))
    }

    /// Whether something of this provider outlives the canary and has to be put in order in any case:
    /// a route of the user's that leads to Services which go, an object that nothing can own.
    ///
    /// With Knative nothing does: revisions stay, and traffic with the one that was proved.
    pub fn outlives(self, spec: &CanarySpec) -> bool {
        self.refers(spec) || self == Self::Kuma
    }

    /// Deletes routing objects that were made for this canary and are of no more use to it: under
    /// a name it had before, of another provider, beside a route that it refers to now. A route of the
    /// user's to which it referred before is given back.
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
        let scene = self.lenient_scene(cx);
        let undone = unused.filter_map(|object| match () {
            () if cx.owner.owns(object) => delete(kind, object),
            // What cannot be given back is left as it is: nobody is waiting for it.
            () if kuma::is_made_for(&cx.owner, kind, object) => {
                kuma::undo(&cx.owner, object).ok().flatten()
            }
            () => gateway_api::undo_former(kind, &scene, object),
        });
        undone.collect()
    }

    /// What is left to write when the spec was refused.
    fn retreat(
        self,
        cx: &RouteCx<'_>,
        live: &Live,
        split: Split,
        refusal: RouteError,
    ) -> Result<Vec<Change>, RouteError> {
        if let (Road::Reference(version), Split::PRIMARY) = (self.road(cx.spec), split) {
            // Only backends are ours there, and names are all it takes to lead them back.
            return gateway_api::reference::write(version, &self.lenient_scene(cx), live, split);
        }
        if let (Some(router), Split::PRIMARY) = (self.router(), split) {
            return router::retreat(&*router, &self.lenient_scene(cx), live, refusal);
        }
        let names = cx.spec.service_names();
        let route =
            self.names(cx).pop().and_then(|(kind, name)| Some((kind, live.get(kind, &name)?)));
        let Some((kind, object)) = route.filter(|_| split == Split::PRIMARY) else {
            return Err(refusal);
        };
        draft::refuse_taken(&cx.owner, kind, Some(object))?;
        if !self.is_shaped(object, &names) {
            return Err(refusal);
        }
        Ok(retreat::retreat(kind, object, &names).into_iter().collect())
    }

    /// What carries the traffic of a canary with this spec.
    fn road(self, spec: &CanarySpec) -> Road {
        let referred = gateway_api::Version::referred(self, spec).map(Road::Reference);
        match self {
            Self::Kubernetes if plain::switches(spec) => Road::Apex,
            Self::Kubernetes => Road::None,
            Self::GatewayApiV1 | Self::GatewayApiV1Beta1 => {
                referred.unwrap_or_else(|| Road::Route(gateway_api::Version::of(self, spec)))
            }
            Self::Istio => Road::Istio,
            _ => self.router().map_or(Road::None, Road::By),
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
            Self::Nginx => Box::new(copied::Copied(nginx::Nginx)),
            Self::Skipper => Box::new(copied::Copied(skipper::Skipper)),
            Self::Gloo => Box::new(gloo::Gloo),
            Self::Traefik => Box::new(traefik::Traefik),
            Self::Kuma => Box::new(kuma::Kuma),
            Self::KumaHttp => Box::new(kuma::KumaHttp),
            Self::Apisix => Box::new(copied::Copied(apisix::Apisix)),
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

    fn scene<'a>(self, cx: &'a RouteCx<'a>) -> Result<Scene<'a>, RouteError> {
        if cx.spec.service.is_none() && self != Self::Knative {
            return Err(RouteError::Spec {
                canary: Place::canary(&cx.owner),
                field: "spec.service".to_owned(),
                why: format!("the provider \"{}\" needs it", self.as_str()),
            });
        }
        Ok(self.lenient_scene(cx))
    }

    /// The same, where a missing service is no reason to stop.
    fn lenient_scene<'a>(self, cx: &'a RouteCx<'a>) -> Scene<'a> {
        Scene {
            mesh: self,
            cx,
            service: cx.spec.service.as_ref().unwrap_or(&NO_SERVICE),
            names: cx.spec.service_names(),
            capabilities: self.capabilities(cx.spec),
        }
    }
}

// === impl Scene ===

impl Scene<'_> {
    fn canary(&self) -> Place {
        Place::canary(&self.cx.owner)
    }

    fn place(&self, kind: Kind) -> Place {
        Place::new(kind, self.cx.owner.namespace, &self.names.apex)
    }

    /// Why something in the canary's spec cannot be done.
    fn refuse(&self, field: impl Into<String>, why: impl Into<String>) -> RouteError {
        RouteError::Spec { canary: self.canary(), field: field.into(), why: why.into() }
    }

    /// Whether only requests that fit `analysis.match` are divided.
    fn is_scoped(&self) -> bool {
        self.capabilities.ab && !self.cx.spec.analysis.matches.is_empty()
    }

    /// What the path of every request begins with, where a provider knows no other condition: that of the
    /// first `match`, as with Flagger.
    fn path_prefix(&self) -> &str {
        let first = self.service.matches.first();
        let prefix = first.and_then(|it| it.uri.as_ref()?.prefix.as_deref());
        prefix.filter(|prefix| !prefix.is_empty()).unwrap_or("/")
    }

    /// Percentage of requests that are mirrored, where the spec has one; all of them otherwise.
    fn mirror_percent(&self) -> Option<u8> {
        let percent = Percent::new(self.cx.spec.analysis.mirror_weight?)?;
        Some(percent.get()).filter(|percent| *percent > 0)
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

/// A text that says something; an empty one is as good as none, as in Flagger.
fn said(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}
