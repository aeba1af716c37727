//! AWS App Mesh: virtual nodes for the sides, and a router that divides traffic between them.
//!
//! ```text
//!   v1beta1   nodes: apex, primary, canary   services with their routes: <apex>-canary.<ns>, <apex>.<ns>
//!   v1beta2   nodes: primary, canary         routers and services: <apex>-canary, <apex>
//! ```
//!
//! The second router, of the canary alone, is there for tests that bypass the split. Both versions say
//! the same with other words ([`Version`]); what the mesh's own controller fills in stays.

mod node;
mod rule;

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};
use tidegate_engine::{Percent, Split};

use super::{
    RouteCx, RouteError, Scene,
    draft::{Draft, escaped},
    headers::{How, conditions},
    members::{Found, Words, parts},
    plan::Seen,
    router::{Router, put, put_all},
    said,
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

const WORDS_V1BETA1: Words = Words {
    rules: "/spec/routes",
    members: &["/http/action/weightedTargets", "/grpc/action/weightedTargets"],
    name: "/virtualNodeName",
    begins: false,
    absent: 0,
    conditions: &[("/http/match/headers", ""), ("/grpc/match/metadata", "")],
};
const WORDS_V1BETA2: Words = Words {
    members: &["/httpRoute/action/weightedTargets", "/grpcRoute/action/weightedTargets"],
    name: "/virtualNodeRef/name",
    conditions: &[("/httpRoute/match/headers", ""), ("/grpcRoute/match/metadata", "")],
    ..WORDS_V1BETA1
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
fn is_grpc(scene: &Scene<'_>) -> bool {
    scene.service.port_name().contains("grpc")
}

fn protocol(scene: &Scene<'_>) -> &'static str {
    if is_grpc(scene) { "grpc" } else { "http" }
}

/// The four of them: one that is not wanted must not stay, or the service is exposed for ever.
fn gateway_keys() -> impl Iterator<Item = Cow<'static, str>> {
    let keys = ["expose", "domain", "timeout", "retries"];
    let pointer = |name| format!("/metadata/annotations/{}", escaped(&format!("{GATEWAY}/{name}")));
    keys.into_iter().map(move |name| pointer(name).into())
}

/// What tells a gateway about the apex.
fn gateway_annotations(scene: &Scene<'_>) -> BTreeMap<String, String> {
    let service = scene.service;
    if service.hosts.is_empty() {
        return BTreeMap::new();
    }
    let key = |name: &str| format!("{GATEWAY}/{name}");
    // As Flagger: a comma after every host, after the last one too.
    let domain: String = service.hosts.iter().flat_map(|host| [host, ","]).collect();
    let mut annotations =
        BTreeMap::from([(key("expose"), "true".to_owned()), (key("domain"), domain)]);
    if let Some(timeout) = said(service.timeout.as_ref()) {
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
    fn words(&self) -> Words {
        match self.0 {
            Version::V1Beta1 => WORDS_V1BETA1,
            Version::V1Beta2 => WORDS_V1BETA2,
        }
    }

    /// The rules of the apex.
    fn rules(
        &self,
        scene: &Scene<'_>,
        split: Split,
        found: Option<Found<'_>>,
    ) -> Result<Vec<Value>, RouteError> {
        let apex = &scene.names.apex;
        let items = conditions(scene, CAN)?;
        if !scene.is_scoped() {
            let plain = rule::Named { name: apex.clone(), priority: None };
            return Ok(vec![rule::render(self.0, scene, &plain, &[], split.canary, found)]);
        }
        let rules = parts(scene, split.canary, items).into_iter().enumerate();
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
            rule::render(self.0, scene, &named, &headers, part.canary, found)
        });
        Ok(rules.collect())
    }

    /// The rule of the canary alone.
    fn direct(&self, scene: &Scene<'_>) -> Value {
        let named = rule::Named { name: scene.names.canary.clone(), priority: None };
        rule::render(self.0, scene, &named, &[], Percent::ALL, None)
    }

    /// The object that has rules: in the first version a service, with its router in it.
    fn routing(&self, scene: &Scene<'_>, router: &str, rules: &[Value]) -> Draft {
        let namespace = scene.cx.owner.namespace;
        let is_apex = *router == scene.names.apex;
        let (kind, name, spec, exact): (_, _, _, &[&str]) = match self.0 {
            Version::V1Beta1 => (
                SERVICE_V1BETA1,
                format!("{router}.{namespace}"),
                json!({
                    "meshName": scene.service.mesh_name,
                    "virtualRouter": { "name": router, "listeners": [self.listener(scene)] },
                    "routes": rules,
                }),
                &["/spec/meshName", "/spec/virtualRouter", "/spec/routes"],
            ),
            Version::V1Beta2 => (
                ROUTER_V1BETA2,
                router.to_owned(),
                json!({ "listeners": [self.listener(scene)], "routes": rules }),
                &["/spec/listeners", "/spec/routes"],
            ),
        };
        let has_gateway = is_apex && self.0 == Version::V1Beta1;
        let mut exact = exactly(exact);
        exact.extend(gateway_keys().filter(|_| has_gateway));
        Draft {
            kind,
            name,
            labels: BTreeMap::new(),
            annotations: if has_gateway { gateway_annotations(scene) } else { BTreeMap::new() },
            spec,
            beside: Map::new(),
            exact,
            shaped: !scene.cx.owner.can_own,
        }
    }

    fn listener(&self, scene: &Scene<'_>) -> Value {
        let port = match self.0 {
            Version::V1Beta1 => scene.service.port.into(),
            Version::V1Beta2 => node::port(scene),
        };
        json!({ "portMapping": { "port": port, "protocol": protocol(scene) } })
    }

    /// A service of the second version: a name for a router.
    fn named(scene: &Scene<'_>, router: &str) -> Draft {
        let is_apex = *router == scene.names.apex;
        let reference = json!({ "virtualRouterRef": { "name": router } });
        let mut exact = exactly(&["/spec/provider"]);
        exact.extend(gateway_keys().filter(|_| is_apex));
        Draft {
            kind: SERVICE_V1BETA2,
            name: router.to_owned(),
            labels: BTreeMap::new(),
            annotations: if is_apex { gateway_annotations(scene) } else { BTreeMap::new() },
            spec: json!({ "provider": { "virtualRouter": reference } }),
            beside: Map::new(),
            exact,
            shaped: !scene.cx.owner.can_own,
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

    fn check(&self, scene: &Scene<'_>) -> Result<(), RouteError> {
        if self.0 == Version::V1Beta1 && said(scene.service.mesh_name.as_ref()).is_none() {
            let why = "the provider \"appmesh\" needs the name of the mesh";
            return Err(scene.refuse("spec.service.meshName", why));
        }
        let alternatives = conditions(scene, CAN)?.len();
        if alternatives > PRIORITY_REST - PRIORITY_MATCHED {
            return Err(scene.refuse("spec.analysis.match", "has room for 10 items at most"));
        }
        Ok(())
    }

    fn seen(&self, scene: &Scene<'_>, route: &Value) -> Option<Seen> {
        self.words().seen(route, &scene.sides())
    }

    /// A pod gets its proxy when it starts, and only if there is a node for it by then.
    fn prepare(&self, scene: &Scene<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        put_all(&scene.cx.owner, live, node::nodes(self.0, scene, live)?)
    }

    fn before(&self, scene: &Scene<'_>, live: &Live) -> Result<Vec<Change>, RouteError> {
        let names = &scene.names;
        let mut drafts = node::nodes(self.0, scene, live)?;
        drafts.push(self.routing(scene, &names.canary, &[self.direct(scene)]));
        if self.0 == Version::V1Beta2 {
            drafts.push(Self::named(scene, &names.canary));
            drafts.push(Self::named(scene, &names.apex));
        }
        put_all(&scene.cx.owner, live, drafts)
    }

    fn write(
        &self,
        scene: &Scene<'_>,
        live: &Live,
        split: Split,
    ) -> Result<Option<Change>, RouteError> {
        let found = self.found(scene, live).and_then(|it| self.words().divided(it, &scene.sides()));
        let rules = self.rules(scene, split, found)?;
        let draft = self.routing(scene, &scene.names.apex, &rules);
        put(&scene.cx.owner, live, Draft { shaped: found.is_some(), ..draft })
    }

    /// What App Mesh knows an object by, and which mesh that is in. Its webhook lets neither be changed.
    fn filled_in(&self) -> &'static [&'static str] {
        &["awsName", "meshRef"]
    }

    fn retreat(&self, scene: &Scene<'_>, route: &Value) -> Option<Change> {
        self.words().retreat(self.route(scene.cx).0, route, &scene.sides())
    }
}
