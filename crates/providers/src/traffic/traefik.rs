//! Traefik: one `TraefikService` that the user's own `IngressRoute` leads to.
//!
//! Traefik refuses a member that has no endpoints, and takes a missing weight for 1. So a side without
//! traffic is left out, and every weight is written. Of the object we own the list of members; a
//! sticky cookie and whatever else there is stays.

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

use super::{
    RouteCx, RouteError, Scene,
    draft::Draft,
    members::{Found, Words, over, respecified},
    plan::Seen,
    router::{Router, of_apex, put},
};
use crate::object::{Change, Kind, Live, exactly};

const TRAEFIK_SERVICE: Kind = Kind {
    group: "traefik.io",
    version: "v1alpha1",
    kind: "TraefikService",
    plural: "traefikservices",
};

const WORDS: Words = Words {
    rules: "",
    members: &["/spec/weighted/services"],
    name: "/name",
    begins: false,
    absent: 1,
    conditions: &[],
};
const FIELDS: &[&str] = &["/spec/weighted/services"];
const OWN_MEMBER: &[&str] = &["name", "namespace", "port", "weight", "kind"];

/// The router of Traefik.
#[derive(Debug)]
pub(super) struct Traefik;

/// The sides that have traffic.
fn members(scene: &Scene<'_>, found: Option<Found<'_>>, canary: Percent) -> Vec<Value> {
    let both = [(&scene.names.primary, canary.rest(), false), (&scene.names.canary, canary, true)];
    let with_traffic = both.into_iter().filter(|(_, percent, _)| *percent > Percent::ZERO);
    let member = |(name, percent, is_canary): (&String, Percent, bool)| {
        let wanted = json!({
            "name": name,
            "namespace": scene.cx.owner.namespace,
            "port": scene.service.port,
            "weight": percent.get(),
        });
        over(found.and_then(|found| found.like(is_canary)), OWN_MEMBER, wanted)
    };
    with_traffic.map(member).collect()
}

impl Router for Traefik {
    fn kinds(&self) -> &'static [Kind] {
        &[TRAEFIK_SERVICE]
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        (TRAEFIK_SERVICE, cx.spec.service_names().apex)
    }

    fn seen(&self, scene: &Scene<'_>, route: &Value) -> Option<Seen> {
        WORDS.any(route, &scene.sides()).map(|found| WORDS.weighed(&found))
    }

    fn write(
        &self,
        scene: &Scene<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let found = self.found(scene, live).and_then(|route| WORDS.any(route, &scene.sides()));
        let (labels, annotations) = of_apex(scene);
        let draft = Draft {
            kind: TRAEFIK_SERVICE,
            name: scene.names.apex.clone(),
            labels,
            annotations,
            spec: json!({ "weighted": { "services": members(scene, found, split.canary) } }),
            beside: Map::new(),
            exact: exactly(FIELDS),
            shaped: found.is_some(),
        };
        put(&scene.cx.owner, live, draft)
    }

    fn retreat(&self, scene: &Scene<'_>, route: &Value) -> Option<Change> {
        let found = WORDS.any(route, &scene.sides())?;
        let mut primary = found.like(false)?.clone();
        primary["name"] = json!(scene.names.primary);
        primary["weight"] = json!(Percent::ALL.get());
        let mut spec = route["spec"].clone();
        spec["weighted"]["services"] = json!([primary]);
        respecified(TRAEFIK_SERVICE, route, &spec)
    }
}
