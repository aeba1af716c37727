//! A world small enough for a test: live objects, and a server that applies changes to them.
//!
//! The server does what matters here and no more: it merges an apply, removes what an earlier apply
//! had and this one has not, keeps `exact` subtrees exact, fills in the defaults of Gateway API,
//! and refuses a change that was based on an older version.

#![expect(clippy::needless_pass_by_value, reason = "fixtures read better with `json!` in place")]

mod affinity;
mod apisix;
mod appmesh;
mod contour;
mod fixtures;
mod gateway_api;
mod gloo;
mod grpc;
mod istio;
mod knative;
mod kuma;
mod law;
mod nginx;
mod plain;
mod reference;
mod skipper;
mod smi;
mod support;
mod takeover;
mod traefik;

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};
use tidegate_api::canary::CanarySpec;
use tidegate_engine::{Percent, Split};

use super::*;

/// The meshes with rules of every shape.
const MOVING: [Mesh; 3] = [Mesh::GatewayApiV1, Mesh::GatewayApiV1Beta1, Mesh::Istio];

/// A canary called `shop` in the namespace `web`, and the objects of its cluster.
struct World {
    mesh: Mesh,
    spec: CanarySpec,
    cookies: Cookies,
    /// The primary that the status remembers.
    primary: Option<&'static str>,
    fields: RouteFields,
    can_own: bool,
    annotations: BTreeMap<String, String>,
    ingress: IngressOptions<'static>,
    live: Live,
    /// The last apply of each object.
    applied: BTreeMap<(&'static str, String), Value>,
    version: u64,
}

// === impl World ===

impl World {
    /// The plainest canary, with these members on top of `spec.service` and `spec.analysis`.
    fn new(mesh: Mesh, service: Value, analysis: Value) -> Self {
        let mut spec = json!({
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "shop" },
            "service": { "port": 80 },
            "analysis": { "interval": "1m", "threshold": 5, "stepWeight": 10 },
        });
        merge(&mut spec, &fixtures::spec_of(mesh));
        if mesh != Mesh::Knative {
            merge(&mut spec["service"], &service);
        }
        merge(&mut spec["analysis"], &analysis);
        let mut world = Self {
            mesh,
            spec: serde_json::from_value(spec).unwrap(),
            cookies: Cookies::default(),
            primary: None,
            fields: fixtures::EVERY_FIELD,
            can_own: true,
            annotations: BTreeMap::new(),
            ingress: IngressOptions::default(),
            live: Live::default(),
            applied: BTreeMap::new(),
            version: 1,
        };
        for (kind, object) in fixtures::surroundings(mesh) {
            world.put(kind, object);
        }
        world
    }

    fn plain(mesh: Mesh) -> Self {
        Self::new(mesh, json!({}), json!({}))
    }

    fn with_cookies(mut self) -> Self {
        self.cookies = Cookies {
            canary: Some("ck=CanaryAbcd".to_owned()),
            primary: Some("pk=PrimaryAbc".to_owned()),
            previous: Some("ck=OldOldOldO".to_owned()),
        };
        self
    }

    /// Changes the spec as a user would.
    fn edit_spec(&mut self, patch: Value) {
        let mut spec = json!(self.spec);
        merge(&mut spec, &patch);
        self.spec = serde_json::from_value(spec).unwrap();
    }

    fn cx(&self) -> RouteCx<'_> {
        RouteCx {
            owner: Owner { name: "shop", namespace: "web", uid: "u-1", can_own: self.can_own },
            spec: &self.spec,
            cookies: &self.cookies,
            primary: self.primary,
            iterating: false,
            inherited: Split::PRIMARY,
            fields: self.fields,
            annotations: &self.annotations,
            ingress: self.ingress,
        }
    }

    fn check(&self) -> Result<(), RouteError> {
        self.mesh.check(&self.cx())
    }

    fn planned(&self, split: Split) -> Result<Vec<Change>, RouteError> {
        self.mesh.write(&self.cx(), &self.live, split)
    }

    fn drift(&self) -> Result<Vec<Change>, RouteError> {
        self.mesh.reconcile(&self.cx(), &self.live)
    }

    fn reconcile(&mut self) {
        let changes = self.drift().unwrap();
        self.carry_out(changes);
    }

    fn write(&mut self, split: Split) {
        let changes = self.planned(split).unwrap();
        assert!(changes.len() <= 1, "a step is one write: {changes:#?}");
        self.carry_out(changes);
    }

    fn read(&self) -> Result<Split, RouteError> {
        self.mesh.read(&self.cx(), &self.live)
    }

    fn finalize(&mut self) -> Result<usize, RouteError> {
        let changes = self.mesh.finalize(&self.cx(), &self.live)?;
        let count = changes.len();
        self.carry_out(changes);
        Ok(count)
    }

    /// The object that divides traffic.
    fn route(&self) -> &Value {
        let (kind, name) = self.mesh.names(&self.cx()).pop().unwrap();
        self.live.get(kind, &name).unwrap()
    }

    /// The rules of the object that divides traffic.
    fn rules(&self) -> Vec<Value> {
        let spec = &self.route()["spec"];
        let lists = ["rules", "http", "tcp"];
        lists.into_iter().find_map(|list| spec[list].as_array()).unwrap().clone()
    }

    fn edit_route(&mut self, edit: impl FnOnce(&mut Value)) {
        let (kind, _) = self.mesh.names(&self.cx()).pop().unwrap();
        let mut object = self.route().clone();
        edit(&mut object);
        self.put(kind, object);
    }

    /// Puts an object in as a user would.
    fn put(&mut self, kind: Kind, mut object: Value) {
        self.version += 1;
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        default(&mut object);
        if kind == KNATIVE_SERVICE {
            fixtures::serve_knative(&mut object);
        }
        self.live.insert(kind, object);
    }

    fn carry_out(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Apply { body, exact } => self.apply(&body, &exact),
                Change::Merge { kind, name, patch } => {
                    let mut object = self.live.get(kind, &name).unwrap().clone();
                    assert_current(&patch, Some(&object));
                    merge(&mut object, &patch);
                    self.put(kind, object);
                }
                Change::Delete { kind, name, uid } => {
                    let object = self.live.remove(kind, &name).unwrap();
                    assert_eq!(object["metadata"]["uid"], uid, "another one than was seen");
                }
            }
        }
    }

    fn apply(&mut self, body: &Value, exact: &[Cow<'static, str>]) {
        let kinds = self.mesh.kinds().iter();
        let kind = *kinds.clone().find(|kind| body["kind"] == kind.kind).unwrap();
        assert_eq!(body["apiVersion"], kind.api_version());
        let name = body["metadata"]["name"].as_str().unwrap().to_owned();
        let found = self.live.get(kind, &name).cloned();
        assert_current(body, found.as_ref());
        let mut object = found.unwrap_or_else(|| json!({}));
        if let Some(before) = self.applied.get(&(kind.kind, name.clone())) {
            withdraw(&mut object, before, body);
        }
        merge(&mut object, body);
        for pointer in exact {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let key = key.replace("~1", "/");
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
            match (body.pointer(pointer), parent) {
                (Some(value), parent) => parent.unwrap().insert(key, value.clone()),
                (None, parent) => parent.and_then(|parent| parent.remove(&key)),
            };
        }
        self.applied.insert((kind.kind, name), body.clone());
        self.put(kind, object);
    }
}

fn assert_current(change: &Value, found: Option<&Value>) {
    let based_on = &change["metadata"]["resourceVersion"];
    match found {
        Some(found) => assert_eq!(*based_on, found["metadata"]["resourceVersion"]),
        None => assert_eq!(*based_on, Value::Null),
    }
}

/// A JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Removes the fields that the manager had applied before and no longer does.
fn withdraw(object: &mut Value, before: &Value, now: &Value) {
    let (Some(object), Some(before)) = (object.as_object_mut(), before.as_object()) else { return };
    for (key, value) in before {
        if key == "resourceVersion" {
            continue;
        }
        if now[key].is_null() {
            object.remove(key);
        } else if let Some(inner) = object.get_mut(key) {
            withdraw(inner, value, &now[key]);
        }
    }
}

/// Fills in the defaults of the definition of `HTTPRoute`.
fn default(object: &mut Value) {
    let fill = |value: &mut Value, defaults: Value| {
        for (key, default) in defaults.as_object().unwrap() {
            if value[key].is_null() {
                value[key] = default.clone();
            }
        }
    };
    let each = |value: &mut Value, key: &str, with: &dyn Fn(&mut Value)| {
        value[key].as_array_mut().into_iter().flatten().for_each(with);
    };
    let is_grpc = object["kind"] == "GRPCRoute";
    if !is_grpc && object["kind"] != "HTTPRoute" || !object["spec"].is_object() {
        return;
    }
    let backend = json!({ "group": "", "kind": "Service" });
    let root = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    let gateway = json!({ "group": "gateway.networking.k8s.io", "kind": "Gateway" });
    each(&mut object["spec"], "parentRefs", &|parent| fill(parent, gateway.clone()));
    each(&mut object["spec"], "rules", &|rule| {
        if !is_grpc {
            fill(rule, json!({ "matches": root }));
        }
        each(rule, "matches", &|item| {
            if !is_grpc {
                fill(item, json!({ "path": { "type": "PathPrefix", "value": "/" } }));
            }
            for list in ["headers", "queryParams"] {
                each(item, list, &|entry| fill(entry, json!({ "type": "Exact" })));
            }
        });
        each(rule, "backendRefs", &|found| {
            fill(found, backend.clone());
            fill(found, json!({ "weight": 1 }));
        });
        each(rule, "filters", &|filter| {
            if filter["type"] == "CORS" {
                fill(&mut filter["cors"], json!({ "maxAge": 5 }));
            }
            if filter["type"] == "RequestMirror" {
                fill(&mut filter["requestMirror"]["backendRef"], backend.clone());
            }
        });
    });
    // Indexing for writing leaves nulls behind, which a server would not store.
    strip_nulls(object);
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

fn split(canary: i64) -> Split {
    Split::canary(Percent::new(canary).unwrap())
}

fn mirrored(canary: i64) -> Split {
    Split { mirrored: true, ..split(canary) }
}

/// Every filter of this type on a rule or backend.
fn filters(rule: &Value, kind: &str) -> Vec<Value> {
    let list = rule["filters"].as_array().into_iter().flatten();
    list.filter(|filter| filter["type"] == kind).cloned().collect()
}

#[test]
fn providers_are_chosen_by_their_exact_name() {
    for mesh in Mesh::ALL {
        assert_eq!(select(mesh.as_str()), Ok(mesh));
    }
    for typo in ["", "gatewayapi", "gatewayapi:v1alpha2", "kubernetes:x", "Istio", "smi"] {
        let error = select(typo).unwrap_err();
        assert_eq!(error, UnknownProvider { provider: typo.to_owned() });
        assert!(error.to_string().contains("istio"), "{error}");
    }
}

#[test]
fn without_a_mesh_nothing_is_written_and_the_counter_tells_where_traffic_is() {
    let world = World::plain(Mesh::Kubernetes);
    assert_eq!(world.drift(), Ok(vec![]));
    assert_eq!(world.planned(split(100)), Ok(vec![]));
    assert_eq!(world.read(), Ok(Split::PRIMARY));
    let iterating = RouteCx { iterating: true, ..world.cx() };
    assert_eq!(Mesh::Kubernetes.read(&iterating, &world.live), Ok(Split::CANARY));
    assert_eq!(Mesh::Kubernetes.kinds(), []);
}

#[test]
fn a_mesh_needs_a_service() {
    for mesh in MOVING {
        let mut world = World::plain(mesh);
        world.spec.service = None;
        let error = world.check().unwrap_err();
        assert_eq!(error.label(), "spec");
        assert!(error.to_string().starts_with("Canary web/shop: spec.service"), "{error}");
    }
}

#[test]
fn a_spec_without_an_analysis_never_gets_as_far_as_a_router() {
    let mut spec = json!(World::plain(Mesh::Istio).spec);
    spec.as_object_mut().unwrap().remove("analysis");
    let error = serde_json::from_value::<CanarySpec>(spec).unwrap_err();
    assert!(error.to_string().contains("analysis"), "{error}");
}
