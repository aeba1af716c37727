//! Kuma: one `TrafficRoute`, which belongs to the whole cluster; or a `MeshHTTPRoute` ([`http`]) where
//! the cluster does not serve that older policy.
//!
//! Its name has the namespace in it, unlike Flagger's: two canaries of one name in two namespaces
//! would fight over it. One of Flagger's that is about our apex stands in until ours is there, and
//! goes then. Nothing of a namespace can own it: an annotation says for whom it was made, and it is
//! deleted with that canary in any case. One that the user made is given back instead.

mod http;

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

pub(super) use self::http::KumaHttp;
use super::{
    RouteCx, RouteError, Scene, delete,
    draft::Draft,
    members::{Sides, Words, over},
    plan::Seen,
    router::{Router, of_apex, put},
    takeover::{Back, is_backed_up, restore},
};
use crate::object::{Change, FLUX_OFF, Kind, Live, Owner, exactly};

const TRAFFIC_ROUTE: Kind =
    Kind { group: "kuma.io", version: "v1alpha1", kind: "TrafficRoute", plural: "trafficroutes" };

/// What either of the two may have been written.
const KINDS: &[Kind] = &[TRAFFIC_ROUTE, http::MESH_HTTP_ROUTE];

const WORDS: Words = Words {
    rules: "",
    members: &["/spec/conf/split"],
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

/// Says for whom a route was made, where no owner can say it: namespace and name of a canary.
const MADE_FOR: &str = "tidegate.dev/made-for";

/// The router of Kuma.
#[derive(Debug)]
pub(super) struct Kuma;

/// Whether a route was made for this canary, under whatever name.
pub(super) fn is_made_for(owner: &Owner<'_>, kind: Kind, route: &Value) -> bool {
    kind == TRAFFIC_ROUTE && route["metadata"]["annotations"][MADE_FOR] == made_for(owner)
}

/// What becomes of a route that is of no more use: given back if it was somebody's, deleted if not.
pub(super) fn undo(owner: &Owner<'_>, route: &Value) -> Result<Option<Change>, RouteError> {
    if !is_backed_up(route) {
        return Ok(delete(TRAFFIC_ROUTE, route));
    }
    restore(owner, Back { kind: TRAFFIC_ROUTE, live: route, shaped: true, filled_in: &[] })
}

fn made_for(owner: &Owner<'_>) -> String {
    format!("{}/{}", owner.namespace, owner.name)
}

/// The beginning of a Service's tag, up to the port.
fn tag(scene: &Scene<'_>, service: &str) -> String {
    format!("{service}_{}_svc_", scene.cx.owner.namespace)
}

fn sides(scene: &Scene<'_>) -> Sides {
    Sides { primary: tag(scene, &scene.names.primary), canary: tag(scene, &scene.names.canary) }
}

/// The route under the name Flagger gives it, if it leads to our sides.
fn former<'l>(scene: &Scene<'_>, live: &'l Live) -> Option<&'l Value> {
    let route = live.get(TRAFFIC_ROUTE, &scene.names.apex)?;
    WORDS.divided(route, &sides(scene)).map(|_| route)
}

/// The same once it is in the way. Flagger's have its annotations; what has none is the user's own and
/// stays, whatever it divides.
fn undo_former(scene: &Scene<'_>, live: &Live) -> Result<Option<Change>, RouteError> {
    let is_flaggers = |route: &Value| {
        FLUX_OFF.iter().all(|(key, value)| route["metadata"]["annotations"][*key] == **value)
    };
    match former(scene, live).filter(|route| is_flaggers(route)) {
        Some(route) => undo(&scene.cx.owner, route),
        None => Ok(None),
    }
}

/// As Flagger: the mesh is chosen when the route is made.
fn mesh(scene: &Scene<'_>, route: Option<&Value>) -> Value {
    let live = route.map(|route| route["mesh"].clone()).filter(Value::is_string);
    live.unwrap_or_else(|| json!(mesh_name(scene)))
}

/// The mesh that the canary asks for.
fn mesh_name<'a>(scene: &Scene<'a>) -> &'a str {
    let asked = scene.cx.annotations.get(MESH).filter(|mesh| !mesh.is_empty());
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

    fn seen(&self, scene: &Scene<'_>, route: &Value) -> Option<Seen> {
        WORDS.seen(route, &sides(scene))
    }

    fn found<'l>(&self, scene: &Scene<'_>, live: &'l Live) -> Option<&'l Value> {
        let (kind, name) = self.route(scene.cx);
        live.get(kind, &name).or_else(|| former(scene, live))
    }

    fn write(
        &self,
        scene: &Scene<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let route = self.found(scene, live);
        let found = route.and_then(|route| WORDS.divided(route, &sides(scene)));
        let tagged = |service: &str| format!("{}{}", tag(scene, service), scene.service.port);
        let member = |service: &str, percent: Percent, live: Option<&Value>| {
            let destination = json!({ SERVICE_TAG: tagged(service) });
            let wanted = json!({ "weight": percent.get(), "destination": destination });
            over(live, OWN_MEMBER, wanted)
        };
        let (names, canary) = (&scene.names, split.canary);
        let members = [
            member(&names.primary, canary.rest(), found.and_then(|found| found.primary)),
            member(&names.canary, canary, found.and_then(|found| found.canary)),
        ];
        let (labels, mut annotations) = of_apex(scene);
        annotations.insert(MADE_FOR.to_owned(), made_for(&scene.cx.owner));
        let draft = Draft {
            kind: TRAFFIC_ROUTE,
            name: self.route(scene.cx).1,
            labels,
            annotations,
            spec: json!({
                "sources": [{ "match": { SERVICE_TAG: "*" } }],
                "destinations": [{ "match": { SERVICE_TAG: tagged(&names.apex) } }],
                "conf": { "split": members },
            }),
            beside: Map::from_iter([("mesh".to_owned(), mesh(scene, route))]),
            exact: exactly(FIELDS),
            shaped: route.is_some_and(|it| is_made_for(&scene.cx.owner, TRAFFIC_ROUTE, it)),
        };
        put(&Owner { can_own: false, ..scene.cx.owner }, live, draft)
    }

    fn after(&self, scene: &Scene<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        Ok(undo_former(scene, live)?.into_iter().collect())
    }

    fn retreat(&self, scene: &Scene<'_>, route: &Value) -> Option<Change> {
        WORDS.retreat(TRAFFIC_ROUTE, route, &sides(scene))
    }

    fn finalize(&self, scene: &Scene<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let (kind, name) = self.route(scene.cx);
        let owner = &scene.cx.owner;
        // Whatever shape it has by now: nobody else would delete it.
        let ours = live.get(kind, &name).filter(|route| is_made_for(owner, kind, route));
        let ours = ours.map(|route| undo(owner, route)).transpose()?.flatten();
        Ok(ours.into_iter().chain(undo_former(scene, live)?).collect())
    }
}
