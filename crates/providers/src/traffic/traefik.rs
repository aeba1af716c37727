//! Traefik: one `TraefikService` that the user's own `IngressRoute` leads to.
//!
//! Traefik refuses a member that has no endpoints, and takes a missing weight for 1. So a side
//! without traffic is left out, and every weight is written. Of the object we own the list of
//! members; a sticky cookie and all other fields stay.

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

use super::{
    RouteCase, RouteCx, RouteError,
    desired_object::DesiredObject,
    plan::LiveRule,
    router::{Router, of_apex, put},
    weighted_backends::{BackendSchema, Found, over, respecified},
};
use crate::object::{Change, Kind, Live, exactly};

const TRAEFIK_SERVICE: Kind = Kind {
    group: "traefik.io",
    version: "v1alpha1",
    kind: "TraefikService",
    plural: "traefikservices",
};

const BACKENDS: BackendSchema = BackendSchema {
    rules: "",
    backends: &["/spec/weighted/services"],
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
fn members(case: &RouteCase<'_>, found: Option<Found<'_>>, canary: Percent) -> Vec<Value> {
    let both = [(&case.names.primary, canary.rest(), false), (&case.names.canary, canary, true)];
    let with_traffic = both.into_iter().filter(|(_, percent, _)| *percent > Percent::ZERO);
    let member = |(name, percent, is_canary): (&String, Percent, bool)| {
        let wanted = json!({
            "name": name,
            "namespace": case.cx.owner.namespace,
            "port": case.service.port,
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

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        BACKENDS.any(route, &case.sides()).map(|found| BACKENDS.weighed(&found))
    }

    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let found = self.found(case, live).and_then(|route| BACKENDS.any(route, &case.sides()));
        let (labels, annotations) = of_apex(case);
        let desired = DesiredObject {
            kind: TRAEFIK_SERVICE,
            name: case.names.apex.clone(),
            labels,
            annotations,
            spec: json!({ "weighted": { "services": members(case, found, split.canary) } }),
            beside: Map::new(),
            exact: exactly(FIELDS),
            shaped: found.is_some(),
        };
        put(&case.cx.owner, live, desired)
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        let found = BACKENDS.any(route, &case.sides())?;
        let mut primary = found.like(false)?.clone();
        primary["name"] = json!(case.names.primary);
        primary["weight"] = json!(Percent::ALL.get());
        let mut spec = route["spec"].clone();
        spec["weighted"]["services"] = json!([primary]);
        respecified(TRAEFIK_SERVICE, route, &spec)
    }
}
