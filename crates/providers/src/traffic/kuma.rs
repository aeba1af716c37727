//! Kuma: one `TrafficRoute`, which belongs to the whole cluster; or a `MeshHTTPRoute` ([`http`]) where
//! the cluster does not serve that older policy.
//!
//! Its name has the namespace in it, unlike Flagger's: two canaries of one name in two namespaces would fight
//! over it. One of Flagger's that is about our apex is used until ours exists, and is then deleted. Nothing
//! of a namespace can own it: an annotation says for whom it was made, and it is deleted with that canary in
//! any case. One that the user made is restored instead.

mod http;

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

pub(super) use self::http::KumaHttp;
use super::{
    RouteCase, RouteCx, RouteError, delete,
    desired_object::DesiredObject,
    plan::LiveRule,
    router::{Router, of_apex, put},
    takeover::{TakenOver, is_backed_up, restore},
    weighted_backends::{BackendSchema, Sides, over},
};
use crate::object::{Change, FLUX_OFF, Kind, Live, Owner, exactly};

const TRAFFIC_ROUTE: Kind =
    Kind { group: "kuma.io", version: "v1alpha1", kind: "TrafficRoute", plural: "trafficroutes" };

/// The kinds that either of the two may have been written as.
const KINDS: &[Kind] = &[TRAFFIC_ROUTE, http::MESH_HTTP_ROUTE];

const BACKENDS: BackendSchema = BackendSchema {
    rules: "",
    backends: &["/spec/conf/split"],
    name: "/destination/kuma.io~1service",
    begins: true,
    absent: 0,
    conditions: &[],
};
const FIELDS: &[&str] = &["/spec/sources", "/spec/destinations", "/spec/conf/split"];
const OWN_MEMBER: &[&str] = &["weight", "destination"];
/// The tag by which Kuma knows a Service.
const SERVICE_TAG: &str = "kuma.io/service";
/// The annotation of a canary that names its mesh.
const MESH: &str = "kuma.io/mesh";

/// Names the canary a route was made for, where no owner can: namespace and name.
const MADE_FOR: &str = "tidegate.dev/made-for";

/// The router of Kuma.
#[derive(Debug)]
pub(super) struct Kuma;

/// Whether a route was made for this canary, under any name.
pub(super) fn is_made_for(owner: &Owner<'_>, kind: Kind, route: &Value) -> bool {
    kind == TRAFFIC_ROUTE && route["metadata"]["annotations"][MADE_FOR] == made_for(owner)
}

/// Removes an orphan: restores it if it was a user's, deletes it if not.
pub(super) fn undo(owner: &Owner<'_>, route: &Value) -> Result<Option<Change>, RouteError> {
    if !is_backed_up(route) {
        return Ok(delete(TRAFFIC_ROUTE, route));
    }
    restore(owner, TakenOver { kind: TRAFFIC_ROUTE, live: route, shaped: true, filled_in: &[] })
}

fn made_for(owner: &Owner<'_>) -> String {
    format!("{}/{}", owner.namespace, owner.name)
}

/// The beginning of a Service's tag, up to the port.
fn tag(case: &RouteCase<'_>, service: &str) -> String {
    format!("{service}_{}_svc_", case.cx.owner.namespace)
}

fn sides(case: &RouteCase<'_>) -> Sides {
    Sides { primary: tag(case, &case.names.primary), canary: tag(case, &case.names.canary) }
}

/// The route under the name Flagger gives it, if it leads to our sides.
fn former<'l>(case: &RouteCase<'_>, live: &'l Live) -> Option<&'l Value> {
    let route = live.get(TRAFFIC_ROUTE, &case.names.apex)?;
    BACKENDS.divided(route, &sides(case)).map(|_| route)
}

/// Removes the same once it conflicts with ours. Flagger's routes have its annotations; a route without them
/// is a user's own and stays, with any destinations.
fn undo_previous(case: &RouteCase<'_>, live: &Live) -> Result<Option<Change>, RouteError> {
    let is_flaggers = |route: &Value| {
        FLUX_OFF.iter().all(|(key, value)| route["metadata"]["annotations"][*key] == **value)
    };
    match former(case, live).filter(|route| is_flaggers(route)) {
        Some(route) => undo(&case.cx.owner, route),
        None => Ok(None),
    }
}

/// As Flagger: the mesh is chosen when the route is made.
fn mesh(case: &RouteCase<'_>, route: Option<&Value>) -> Value {
    let live = route.map(|route| route["mesh"].clone()).filter(Value::is_string);
    live.unwrap_or_else(|| json!(mesh_name(case)))
}

/// The mesh that the canary names.
fn mesh_name<'a>(case: &RouteCase<'a>) -> &'a str {
    let asked = case.cx.annotations.get(MESH).filter(|mesh| !mesh.is_empty());
    asked.map_or("default", String::as_str)
}

/// Whether the cluster has the newer policy and not the older one.
pub(super) fn is_without_traffic_route(serves: impl Fn(Kind) -> bool) -> bool {
    !serves(TRAFFIC_ROUTE) && serves(http::MESH_HTTP_ROUTE)
}

impl Router for Kuma {
    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn needs(&self) -> &'static [Kind] {
        &[TRAFFIC_ROUTE]
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        (TRAFFIC_ROUTE, format!("{}.{}", cx.spec.apex_name(), cx.owner.namespace))
    }

    fn others(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        vec![(TRAFFIC_ROUTE, cx.spec.service_names().apex)]
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        BACKENDS.seen(route, &sides(case))
    }

    fn found<'l>(&self, case: &RouteCase<'_>, live: &'l Live) -> Option<&'l Value> {
        let (kind, name) = self.route(case.cx);
        live.get(kind, &name).or_else(|| former(case, live))
    }

    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let route = self.found(case, live);
        let found = route.and_then(|route| BACKENDS.divided(route, &sides(case)));
        let tagged = |service: &str| format!("{}{}", tag(case, service), case.service.port);
        let member = |service: &str, percent: Percent, live: Option<&Value>| {
            let destination = json!({ SERVICE_TAG: tagged(service) });
            let wanted = json!({ "weight": percent.get(), "destination": destination });
            over(live, OWN_MEMBER, wanted)
        };
        let (names, canary) = (&case.names, split.canary);
        let members = [
            member(&names.primary, canary.rest(), found.and_then(|found| found.primary)),
            member(&names.canary, canary, found.and_then(|found| found.canary)),
        ];
        let (labels, mut annotations) = of_apex(case);
        annotations.insert(MADE_FOR.to_owned(), made_for(&case.cx.owner));
        let desired = DesiredObject {
            kind: TRAFFIC_ROUTE,
            name: self.route(case.cx).1,
            labels,
            annotations,
            spec: json!({
                "sources": [{ "match": { SERVICE_TAG: "*" } }],
                "destinations": [{ "match": { SERVICE_TAG: tagged(&names.apex) } }],
                "conf": { "split": members },
            }),
            beside: Map::from_iter([("mesh".to_owned(), mesh(case, route))]),
            exact: exactly(FIELDS),
            shaped: route.is_some_and(|it| is_made_for(&case.cx.owner, TRAFFIC_ROUTE, it)),
        };
        put(&Owner { can_own: false, ..case.cx.owner }, live, desired)
    }

    fn after(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        Ok(undo_previous(case, live)?.into_iter().collect())
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        BACKENDS.reset_to_primary(TRAFFIC_ROUTE, route, &sides(case))
    }

    fn finalize(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let (kind, name) = self.route(case.cx);
        let owner = &case.cx.owner;
        // In any shape: no other controller would delete it.
        let ours = live.get(kind, &name).filter(|route| is_made_for(owner, kind, route));
        let ours = ours.map(|route| undo(owner, route)).transpose()?.flatten();
        Ok(ours.into_iter().chain(undo_previous(case, live)?).collect())
    }
}
