//! AWS App Mesh: virtual nodes for the sides, and a router that divides traffic between them.
//!
//! ```text
//!   v1beta1   nodes: apex, primary, canary   services with their routes: <apex>-canary.<ns>, <apex>.<ns>
//!   v1beta2   nodes: primary, canary         routers and services: <apex>-canary, <apex>
//! ```
//!
//! The second router, of the canary alone, is there for tests that bypass the split. Both versions
//! say the same in different fields ([`Version`]); fields that the mesh's own controller fills in
//! stay.

mod node;
mod rule;

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

use super::{
    RouteCase, RouteCx, RouteError,
    desired_object::{DesiredObject, escaped},
    headers::{How, conditions},
    non_empty,
    plan::LiveRule,
    router::{Router, put, put_all},
    weighted_backends::{BackendSchema, Found, parts},
};
use crate::{
    object::{Change, Kind, Live, exactly},
    workload::SERVICE,
};

const GROUP: &str = "appmesh.k8s.aws";
const NODE_V1BETA1: Kind =
    Kind { group: GROUP, version: "v1beta1", kind: "VirtualNode", plural: "virtualnodes" };
const NODE_V1BETA2: Kind = Kind { version: "v1beta2", ..NODE_V1BETA1 };
const SERVICE_V1BETA1: Kind =
    Kind { kind: "VirtualService", plural: "virtualservices", ..NODE_V1BETA1 };
const SERVICE_V1BETA2: Kind = Kind { version: "v1beta2", ..SERVICE_V1BETA1 };
const ROUTER_V1BETA2: Kind =
    Kind { kind: "VirtualRouter", plural: "virtualrouters", ..NODE_V1BETA2 };

const BACKENDS_V1BETA1: BackendSchema = BackendSchema {
    rules: "/spec/routes",
    backends: &["/http/action/weightedTargets", "/grpc/action/weightedTargets"],
    name: "/virtualNodeName",
    begins: false,
    absent: 0,
    conditions: &[("/http/match/headers", ""), ("/grpc/match/metadata", "")],
};
const BACKENDS_V1BETA2: BackendSchema = BackendSchema {
    backends: &["/httpRoute/action/weightedTargets", "/grpcRoute/action/weightedTargets"],
    name: "/virtualNodeRef/name",
    conditions: &[("/httpRoute/match/headers", ""), ("/grpcRoute/match/metadata", "")],
    ..BACKENDS_V1BETA1
};
const CAN: &[How] = &[How::Exact, How::Prefix, How::Suffix, How::Regex];
/// Priorities of A/B testing, as Flagger's: the lower wins. Alternatives have those in between.
const PRIORITY_MATCHED: usize = 10;
const PRIORITY_REST: usize = 20;
/// The annotations by which an ingress gateway of App Mesh finds a service.
const GATEWAY: &str = "gateway.appmesh.k8s.aws";

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1Beta1,
    V1Beta2,
}

/// The router of a version.
#[derive(Debug)]
pub(super) struct AppMesh(pub(super) Version);

/// Whether calls are routed: as Flagger, the name of the port says so.
fn is_grpc(case: &RouteCase<'_>) -> bool {
    case.service.port_name().contains("grpc")
}

fn protocol(case: &RouteCase<'_>) -> &'static str {
    if is_grpc(case) { "grpc" } else { "http" }
}

/// The four of them: one that is not wanted must not stay, or the service is exposed for ever.
fn gateway_keys() -> impl Iterator<Item = Cow<'static, str>> {
    let keys = ["expose", "domain", "timeout", "retries"];
    let pointer = |name| format!("/metadata/annotations/{}", escaped(&format!("{GATEWAY}/{name}")));
    keys.into_iter().map(move |name| pointer(name).into())
}

/// Annotations that tell a gateway about the apex.
fn gateway_annotations(case: &RouteCase<'_>) -> BTreeMap<String, String> {
    let service = case.service;
    if service.hosts.is_empty() {
        return BTreeMap::new();
    }
    let key = |name: &str| format!("{GATEWAY}/{name}");
    // As Flagger: a comma after every host, after the last one too.
    let domain: String = service.hosts.iter().flat_map(|host| [host, ","]).collect();
    let mut annotations =
        BTreeMap::from([(key("expose"), "true".to_owned()), (key("domain"), domain)]);
    if let Some(timeout) = non_empty(service.timeout.as_ref()) {
        annotations.insert(key("timeout"), timeout.to_owned());
    }
    let attempts = service.retries.as_ref().and_then(|retries| retries.attempts);
    if let Some(attempts) = attempts.filter(|attempts| *attempts > 0) {
        annotations.insert(key("retries"), attempts.to_string());
    }
    annotations
}

// === impl AppMesh ===

impl AppMesh {
    fn backends(&self) -> BackendSchema {
        match self.0 {
            Version::V1Beta1 => BACKENDS_V1BETA1,
            Version::V1Beta2 => BACKENDS_V1BETA2,
        }
    }

    /// The rules of the apex.
    fn rules(
        &self,
        case: &RouteCase<'_>,
        split: Split,
        found: Option<Found<'_>>,
    ) -> Result<Vec<Value>, RouteError> {
        let apex = &case.names.apex;
        let items = conditions(case, CAN)?;
        if !case.is_scoped() {
            let plain = rule::Named { name: apex.clone(), priority: None };
            return Ok(vec![rule::render(self.0, case, &plain, &[], split.canary, found)]);
        }
        let rules = parts(case, split.canary, items).into_iter().enumerate();
        let rules = rules.map(|(index, part)| {
            let named = match (&part.of, index) {
                (None, _) => {
                    rule::Named { name: format!("{apex}-b"), priority: Some(PRIORITY_REST) }
                }
                (Some(_), 0) => {
                    rule::Named { name: format!("{apex}-a"), priority: Some(PRIORITY_MATCHED) }
                }
                (Some(_), _) => rule::Named {
                    name: format!("{apex}-a{index}"),
                    priority: Some(PRIORITY_MATCHED + index),
                },
            };
            let headers = part.of.unwrap_or_default();
            rule::render(self.0, case, &named, &headers, part.canary, found)
        });
        Ok(rules.collect())
    }

    /// The rule of the canary alone.
    fn direct(&self, case: &RouteCase<'_>) -> Value {
        let named = rule::Named { name: case.names.canary.clone(), priority: None };
        rule::render(self.0, case, &named, &[], Percent::ALL, None)
    }

    /// The object that has rules: in the first version a service, with its router in it.
    fn routing(&self, case: &RouteCase<'_>, router: &str, rules: &[Value]) -> DesiredObject {
        let namespace = case.cx.owner.namespace;
        let is_apex = *router == case.names.apex;
        let (kind, name, spec, exact): (_, _, _, &[&str]) = match self.0 {
            Version::V1Beta1 => (
                SERVICE_V1BETA1,
                format!("{router}.{namespace}"),
                json!({
                    "meshName": case.service.mesh_name,
                    "virtualRouter": { "name": router, "listeners": [self.listener(case)] },
                    "routes": rules,
                }),
                &["/spec/meshName", "/spec/virtualRouter", "/spec/routes"],
            ),
            Version::V1Beta2 => (
                ROUTER_V1BETA2,
                router.to_owned(),
                json!({ "listeners": [self.listener(case)], "routes": rules }),
                &["/spec/listeners", "/spec/routes"],
            ),
        };
        let has_gateway = is_apex && self.0 == Version::V1Beta1;
        let mut exact = exactly(exact);
        exact.extend(gateway_keys().filter(|_| has_gateway));
        DesiredObject {
            kind,
            name,
            labels: BTreeMap::new(),
            annotations: if has_gateway { gateway_annotations(case) } else { BTreeMap::new() },
            spec,
            beside: Map::new(),
            exact,
            shaped: !case.cx.owner.can_own,
        }
    }

    fn listener(&self, case: &RouteCase<'_>) -> Value {
        let port = match self.0 {
            Version::V1Beta1 => case.service.port.into(),
            Version::V1Beta2 => node::port(case),
        };
        json!({ "portMapping": { "port": port, "protocol": protocol(case) } })
    }

    /// A service of the second version: a name for a router.
    fn named(case: &RouteCase<'_>, router: &str) -> DesiredObject {
        let is_apex = *router == case.names.apex;
        let reference = json!({ "virtualRouterRef": { "name": router } });
        let mut exact = exactly(&["/spec/provider"]);
        exact.extend(gateway_keys().filter(|_| is_apex));
        DesiredObject {
            kind: SERVICE_V1BETA2,
            name: router.to_owned(),
            labels: BTreeMap::new(),
            annotations: if is_apex { gateway_annotations(case) } else { BTreeMap::new() },
            spec: json!({ "provider": { "virtualRouter": reference } }),
            beside: Map::new(),
            exact,
            shaped: !case.cx.owner.can_own,
        }
    }
}

impl Router for AppMesh {
    fn kinds(&self) -> &'static [Kind] {
        match self.0 {
            Version::V1Beta1 => &[NODE_V1BETA1, SERVICE_V1BETA1],
            Version::V1Beta2 => &[NODE_V1BETA2, ROUTER_V1BETA2, SERVICE_V1BETA2],
        }
    }

    fn route(&self, cx: &RouteCx<'_>) -> (Kind, String) {
        let apex = cx.spec.service_names().apex;
        match self.0 {
            Version::V1Beta1 => (SERVICE_V1BETA1, format!("{apex}.{}", cx.owner.namespace)),
            Version::V1Beta2 => (ROUTER_V1BETA2, apex),
        }
    }

    fn others(&self, cx: &RouteCx<'_>) -> Vec<(Kind, String)> {
        let names = cx.spec.service_names();
        match self.0 {
            Version::V1Beta1 => vec![
                (NODE_V1BETA1, names.apex),
                (NODE_V1BETA1, names.primary),
                (NODE_V1BETA1, names.canary.clone()),
                (SERVICE_V1BETA1, format!("{}.{}", names.canary, cx.owner.namespace)),
            ],
            Version::V1Beta2 => vec![
                (SERVICE, names.primary.clone()),
                (SERVICE, names.canary.clone()),
                (NODE_V1BETA2, names.primary),
                (NODE_V1BETA2, names.canary.clone()),
                (ROUTER_V1BETA2, names.canary.clone()),
                (SERVICE_V1BETA2, names.canary),
                (SERVICE_V1BETA2, names.apex),
            ],
        }
    }

    fn check(&self, case: &RouteCase<'_>) -> Result<(), RouteError> {
        if self.0 == Version::V1Beta1 && non_empty(case.service.mesh_name.as_ref()).is_none() {
            let why = "the provider \"appmesh\" needs the name of the mesh";
            return Err(case.refuse("spec.service.meshName", why));
        }
        let alternatives = conditions(case, CAN)?.len();
        if alternatives > PRIORITY_REST - PRIORITY_MATCHED {
            return Err(case.refuse("spec.analysis.match", "has room for 10 items at most"));
        }
        Ok(())
    }

    fn seen(&self, case: &RouteCase<'_>, route: &Value) -> Option<LiveRule> {
        self.backends().seen(route, &case.sides())
    }

    /// A pod gets its proxy when it starts, and only if there is a node for it by then.
    fn prepare(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        put_all(&case.cx.owner, live, node::nodes(self.0, case, live)?)
    }

    fn before(&self, case: &RouteCase<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let names = &case.names;
        let mut desired = node::nodes(self.0, case, live)?;
        desired.push(self.routing(case, &names.canary, &[self.direct(case)]));
        if self.0 == Version::V1Beta2 {
            desired.push(Self::named(case, &names.canary));
            desired.push(Self::named(case, &names.apex));
        }
        put_all(&case.cx.owner, live, desired)
    }

    fn write(
        &self,
        case: &RouteCase<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let found =
            self.found(case, live).and_then(|it| self.backends().divided(it, &case.sides()));
        let rules = self.rules(case, split, found)?;
        let desired = self.routing(case, &case.names.apex, &rules);
        put(&case.cx.owner, live, DesiredObject { shaped: found.is_some(), ..desired })
    }

    /// App Mesh's name of an object, and its mesh. Its webhook lets neither be changed.
    fn filled_in(&self) -> &'static [&'static str] {
        &["awsName", "meshRef"]
    }

    fn reset_to_primary(&self, case: &RouteCase<'_>, route: &Value) -> Option<Change> {
        self.backends().reset_to_primary(self.route(case.cx).0, route, &case.sides())
    }
}
