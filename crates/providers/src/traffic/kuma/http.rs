//! Kuma without its older policies: one `MeshHTTPRoute`, in the canary's namespace.
//!
//! It is about calls to the `MeshService` that Kuma makes of the apex Service, from the whole mesh.
//! Of the object we own the list `to`; a rule and its backends keep the fields of others.

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

use super::{TRAFFIC_ROUTE, mesh_name};
use crate::{
    object::{Change, Kind, Live, exactly},
    traffic::{
        RouteCase, RouteCx, RouteError,
        desired_object::DesiredObject,
        plan::LiveRule,
        router::{Router, of_apex, put},
        weighted_backends::{BackendSchema, Found, over},
    },
};

pub(super) const MESH_HTTP_ROUTE: Kind =
    Kind { kind: "MeshHTTPRoute", plural: "meshhttproutes", ..TRAFFIC_ROUTE };

const BACKENDS: BackendSchema = BackendSchema {
    rules: "/spec/to/0/rules",
    backends: &["/default/backendRefs"],
    name: "/name",
    begins: false,
    absent: 1,
    conditions: &[],
};
const FIELDS: &[&str] = &["/spec/targetRef", "/spec/to"];
const OWN_RULE: &[&str] = &["matches", "default"];
const OWN_MEMBER: &[&str] = &["kind", "name", "namespace", "port", "weight", "labels"];
/// The label that names the mesh of a policy.
const MESH: &str = "kuma.io/mesh";
/// A Service, as Kuma knows it.
const MESH_SERVICE: &str = "MeshService";

/// The router of Kuma, where it has no `TrafficRoute`.
#[derive(Debug)]
pub(in crate::traffic) struct KumaHttp;

/// As with the older policy the mesh is chosen when the route is made: it cannot be changed.
fn mesh(case: &RouteCase<'_>, route: Option<&Value>) -> String {
    let live = route.and_then(|route| route["metadata"]["labels"][MESH].as_str());
    live.map_or_else(|| mesh_name(case).to_owned(), str::to_owned)
}

fn rule(case: &RouteCase<'_>, found: Option<Found<'_>>, canary: Percent) -> Value {
    let backend = |name: &str, percent: Percent, live: Option<&Value>| {
        let wanted = json!({
            "kind": MESH_SERVICE,
            "name": name,
            "port": case.service.port,
            "weight": percent.get(),
        });
        over(live, OWN_MEMBER, wanted)
    };
    let names = &case.names;
    let backends = [
        backend(&names.primary, canary.rest(), found.and_then(|found| found.primary)),
        backend(&names.canary, canary, found.and_then(|found| found.canary)),
    ];
    let live = found.map(|found| &found.rule["default"]);
    let default = over(live, &["backendRefs"], json!({ "backendRefs": backends }));
    let everything = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    let wanted = json!({ "matches": everything, "default": default });
    over(found.map(|found| found.rule), OWN_RULE, wanted)
}

impl Router for KumaHttp {
    fn kinds(&self) -> &'static [Kind] {
        super::KINDS
    }

    fn needs(&self) -> &'static [Kind] {
        &[MESH_HTTP_ROUTE]
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        (MESH_HTTP_ROUTE, cx.spec.service_names().apex)
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        BACKENDS.seen(route, &case.sides())
    }

    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let route = self.found(case, live);
        let found = route.and_then(|route| BACKENDS.divided(route, &case.sides()));
        let apex = json!({
            "kind": MESH_SERVICE,
            "name": case.names.apex,
            "sectionName": case.service.port_name(),
        });
        let (mut labels, annotations) = of_apex(case);
        labels.insert(MESH.to_owned(), mesh(case, route));
        let desired = DesiredObject {
            kind: MESH_HTTP_ROUTE,
            name: case.names.apex.clone(),
            labels,
            annotations,
            spec: json!({
                "targetRef": { "kind": "Mesh" },
                "to": [{ "targetRef": apex, "rules": [rule(case, found, split.canary)] }],
            }),
            beside: Map::new(),
            exact: exactly(FIELDS),
            shaped: found.is_some(),
        };
        put(&case.cx.owner, live, desired)
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        BACKENDS.reset_to_primary(MESH_HTTP_ROUTE, route, &case.sides())
    }
}
