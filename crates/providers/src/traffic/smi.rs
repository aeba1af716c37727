//! Service Mesh Interface: one `TrafficSplit`, in any of three versions.
//!
//! Linkerd and Open Service Mesh are reached in this way too, each in the version it knows. The
//! split is by Service: clients must call the apex. Of the object we own `service` and `backends`;
//! the `matches` of `v1alpha3` belong to users.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

use super::{
    RouteCase, RouteCx, RouteError,
    desired_object::DesiredObject,
    plan::LiveRule,
    router::{Router, of_apex, put},
    weighted_backends::{BackendSchema, over},
};
use crate::object::{Change, Kind, Live, exactly};

const V1ALPHA1: Kind = Kind {
    group: "split.smi-spec.io",
    version: "v1alpha1",
    kind: "TrafficSplit",
    plural: "trafficsplits",
};
const V1ALPHA2: Kind = Kind { version: "v1alpha2", ..V1ALPHA1 };
const V1ALPHA3: Kind = Kind { version: "v1alpha3", ..V1ALPHA1 };

const BACKENDS: BackendSchema = BackendSchema {
    rules: "",
    backends: &["/spec/backends"],
    name: "/service",
    begins: false,
    absent: 0,
    conditions: &[],
};
const FIELDS: &[&str] = &["/spec/service", "/spec/backends"];
const OWN_MEMBER: &[&str] = &["service", "weight"];
/// Tells the adapter for Istio which gateways its virtual service is for.
const ISTIO_GATEWAYS: &str = "VirtualService.v1alpha3.networking.istio.io/spec.gateways";

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SmiVersion {
    /// Weights are quantities.
    V1Alpha1,
    /// Weights are numbers.
    V1Alpha2,
    /// The same, with conditions that we leave alone.
    V1Alpha3,
}

/// The mesh that acts on the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SmiTarget {
    /// Whichever there is.
    Any,
    /// Linkerd, through its extension.
    Linkerd,
    /// Open Service Mesh.
    Osm,
    /// Istio, through an adapter that wants to know gateways.
    Istio,
}

/// The router of a version, for a mesh.
#[derive(Debug)]
pub(super) struct Smi {
    pub(super) version: SmiVersion,
    pub(super) target: SmiTarget,
}

// === impl SmiVersion ===

impl SmiVersion {
    pub(super) const ALL: [Self; 3] = [Self::V1Alpha1, Self::V1Alpha2, Self::V1Alpha3];

    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::V1Alpha1 => V1ALPHA1,
            Self::V1Alpha2 => V1ALPHA2,
            Self::V1Alpha3 => V1ALPHA3,
        }
    }

    fn weight(self, percent: Percent) -> Value {
        match self {
            Self::V1Alpha1 => json!(percent.to_string()),
            Self::V1Alpha2 | Self::V1Alpha3 => json!(percent.get()),
        }
    }
}

// === impl Smi ===

impl Smi {
    fn annotations(&self, case: &RouteCase<'_>, annotations: &mut BTreeMap<String, String>) {
        let gateways = &case.service.gateways;
        if self.target == SmiTarget::Istio && !gateways.is_empty() {
            annotations.insert(ISTIO_GATEWAYS.to_owned(), json!(gateways).to_string());
        }
    }
}

impl Router for Smi {
    fn kinds(&self) -> &'static [Kind] {
        match self.version {
            SmiVersion::V1Alpha1 => &[V1ALPHA1],
            SmiVersion::V1Alpha2 => &[V1ALPHA2],
            SmiVersion::V1Alpha3 => &[V1ALPHA3],
        }
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        (self.version.kind(), cx.spec.service_names().apex)
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
        let found = self.found(case, live).and_then(|route| BACKENDS.divided(route, &case.sides()));
        let backend = |name: &str, percent: Percent, live: Option<&Value>| {
            let weight = self.version.weight(percent);
            over(live, OWN_MEMBER, json!({ "service": name, "weight": weight }))
        };
        let (names, canary) = (&case.names, split.canary);
        let backends = [
            backend(&names.canary, canary, found.and_then(|found| found.canary)),
            backend(&names.primary, canary.rest(), found.and_then(|found| found.primary)),
        ];
        // As Flagger: the first host is what clients call, if there is one.
        let root = case.service.hosts.first().unwrap_or(&names.apex);
        let (labels, mut annotations) = of_apex(case);
        self.annotations(case, &mut annotations);
        let desired = DesiredObject {
            kind: self.version.kind(),
            name: names.apex.clone(),
            labels,
            annotations,
            spec: json!({ "service": root, "backends": backends }),
            beside: Map::new(),
            exact: exactly(FIELDS),
            shaped: found.is_some(),
        };
        put(&case.cx.owner, live, desired)
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        BACKENDS.reset_to_primary(self.version.kind(), route, &case.sides())
    }
}
