//! A bench for tables of observations: objects in, findings out.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, LazyLock},
    time::Duration,
};

use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidegate_api::canary::CanaryStatus;
use tidegate_engine::{Answers, ManagedObject, State};
use tidegate_providers::{
    object::{Change, Kind},
    traffic::Mesh,
    workload::{
        CONFIG_MAP, DAEMON_SET, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, SECRET,
        SERVICE,
    },
};
use tokio::runtime::Runtime;

use super::observe;
use crate::{
    canary::{
        env::{Env, ManagedWrite, NotYet},
        memo::Memo,
        observation::Observation,
        unready_since::Clocks,
    },
    cluster::{
        CANARY, Cluster, METRIC_TEMPLATE,
        cache::{Key, TableState},
    },
    context::Options,
    rejected_writes::RejectedWrites,
};

/// The namespace of everything.
pub(in crate::canary) const SHOP: &str = "shop";
/// The time of every look: a minute after the last transition of [`Bench::remembering`].
const NOW: &str = "2026-01-01T00:01:00Z";

/// A client needs a runtime to be made in.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// A cluster that is a cache, and one canary in it.
pub(in crate::canary) struct Bench {
    pub(in crate::canary) cluster: Cluster,
    pub(in crate::canary) options: Options,
    pub(in crate::canary) canary: Value,
    pub(in crate::canary) rejected: RejectedWrites<ManagedWrite>,
    pub(in crate::canary) unpruned_status: Option<CanaryStatus>,
    pub(in crate::canary) memo: RefCell<Memo>,
    /// Kinds that a watch was started for.
    pub(in crate::canary) watched: Mutex<BTreeSet<Kind>>,
}

// === impl Bench ===

impl Bench {
    /// An idle canary of Deployment `web`: the target is parked, everything was listed.
    pub(in crate::canary) fn new(provider: &str) -> Self {
        let _runtime = RUNTIME.enter();
        let answer = tower::service_fn(async |_: http::Request<Body>| {
            Ok::<_, std::io::Error>(http::Response::new(Body::empty()))
        });
        let client = kube::Client::new(answer, SHOP);
        let bench = Self {
            cluster: Cluster::new(client, None, Arc::new(|| true)),
            options: Options::default(),
            canary: canary(provider),
            rejected: RejectedWrites::default(),
            unpruned_status: None,
            memo: RefCell::default(),
            watched: Mutex::default(),
        };
        bench.list(&[
            CANARY,
            METRIC_TEMPLATE,
            CONFIG_MAP,
            SECRET,
            DEPLOYMENT,
            DAEMON_SET,
            SERVICE,
            HORIZONTAL_POD_AUTOSCALER,
            SCALED_OBJECT,
        ]);
        for mesh in Mesh::ALL {
            bench.list(mesh.kinds());
        }
        bench.put(DEPLOYMENT, deployment("web", "web:1.0", 2));
        bench
    }

    /// Lists of these kinds are complete, and empty but for what was put there.
    pub(in crate::canary) fn list(&self, kinds: &[Kind]) {
        for kind in kinds {
            let known = self.cluster.cache.list(*kind);
            self.cluster.cache.list_begins(*kind);
            for object in known {
                self.cluster.cache.list_has(*kind, Value::clone(&object));
            }
            self.cluster.cache.list_ends(*kind);
        }
    }

    /// A kind was never listed, for this reason.
    pub(in crate::canary) fn fail(&mut self, kind: Kind, state: TableState) {
        let fresh = Self::new("istio");
        let all = Mesh::ALL.iter().flat_map(|mesh| mesh.kinds()).copied();
        let kinds = [CANARY, DEPLOYMENT, DAEMON_SET, SERVICE, SECRET, SCALED_OBJECT];
        let kinds: BTreeSet<Kind> = kinds.into_iter().chain(all).filter(|it| *it != kind).collect();
        let _runtime = RUNTIME.enter();
        let empty = Cluster::new(fresh.cluster.client.clone(), None, Arc::new(|| true));
        for known in kinds {
            for object in self.cluster.cache.list(known) {
                empty.cache.cache_insert(known, Value::clone(&object));
            }
            empty.cache.list_begins(known);
            for object in self.cluster.cache.list(known) {
                empty.cache.list_has(known, Value::clone(&object));
            }
            empty.cache.list_ends(known);
        }
        empty.cache.failed(kind, state);
        self.cluster = empty;
    }

    /// Puts an object into the cache, or another version of it.
    pub(in crate::canary) fn put(&self, kind: Kind, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if kind.is_namespaced() && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!(SHOP);
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("{}-{name}", kind.plural));
        }
        let version = self.cluster.cache.get(kind, &Key::of(&object));
        let version =
            version.and_then(|it| it["metadata"]["resourceVersion"].as_str()?.parse().ok());
        let version: u64 = version.unwrap_or(1) + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        self.cluster.cache.cache_insert(kind, object);
    }

    pub(in crate::canary) fn get(&self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        self.cluster.cache.get(kind, &Key::of_kind(kind, SHOP, name))
    }

    /// Changes an object that is there.
    pub(in crate::canary) fn edit(&self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = Value::clone(&self.get(kind, name).expect("it is there"));
        change(&mut object);
        self.put(kind, object);
    }

    pub(in crate::canary) fn remove(&self, kind: Kind, name: &str) {
        self.cluster.cache.cache_remove(kind, &Key::of_kind(kind, SHOP, name));
    }

    /// Merges into the canary's spec.
    pub(in crate::canary) fn spec(mut self, patch: &Value) -> Self {
        merge(&mut self.canary["spec"], patch);
        self
    }

    /// Merges into the canary's metadata.
    pub(in crate::canary) fn metadata(mut self, patch: &Value) -> Self {
        merge(&mut self.canary["metadata"], patch);
        self
    }

    /// Merges into the canary's status. Its last transition was a minute ago.
    pub(in crate::canary) fn remembering(mut self, patch: &Value) -> Self {
        let mut status = json!({ "lastTransitionTime": "2026-01-01T00:00:00Z" });
        merge(&mut status, patch);
        merge(&mut self.canary["status"], &status);
        self
    }

    pub(in crate::canary) fn deleted(self) -> Self {
        self.metadata(&json!({ "deletionTimestamp": "2026-01-01T00:00:30Z" }))
    }

    /// Looks, with an environment that a closure may use.
    pub(in crate::canary) fn with_env<T>(&self, look: impl FnOnce(&Env<'_>) -> T) -> T {
        let mut raw = self.canary.clone();
        // Another content has another version.
        let mut hasher = DefaultHasher::new();
        raw.to_string().hash(&mut hasher);
        raw["metadata"]["resourceVersion"] = json!(hasher.finish().to_string());
        let raw = Arc::new(raw);
        let key = Key::new(SHOP, "web");
        let options = Arc::new(self.options.clone());
        let watched = &self.watched;
        let watch = |kind| {
            watched.lock().insert(kind);
        };
        look(&Env {
            raw: &raw,
            key: &key,
            uid: "canary-web",
            cluster: &self.cluster,
            options: &options,
            clocks: clocks(),
            rejected: &self.rejected,
            unpruned_status: self.unpruned_status.as_ref(),
            watch: &watch,
        })
    }

    pub(in crate::canary) fn look(&self) -> Result<Observation, NotYet> {
        self.with_env(|env| observe(env, &mut self.memo.borrow_mut(), &Answers::default()))
    }

    pub(in crate::canary) fn observe(&self) -> Observation {
        self.look().unwrap_or_else(|not_yet| panic!("no observation: {not_yet:?}"))
    }

    /// Sets everything up as the operator would: what differs is put in place, and the canary remembers
    /// that the target was promoted.
    pub(in crate::canary) fn set_up(self) -> Self {
        let primary = deployment("web-primary", "web:1.0", 2);
        let mut primary = owned(primary);
        primary["spec"]["selector"]["matchLabels"]["app"] = json!("web-primary");
        primary["spec"]["template"]["metadata"]["labels"]["app"] = json!("web-primary");
        self.put(DEPLOYMENT, primary);
        let revision = self.observe().observed.target.expect("a target").revision;
        let revision = revision.as_str().to_owned();
        let this = self.remembering(&json!({
            "phase": "Initialized",
            "lastAppliedSpec": revision, "lastPromotedSpec": revision,
        }));
        for _ in 0..5 {
            for object in ManagedObject::ALL {
                this.put_right(ManagedWrite::Ensure(object));
            }
        }
        this
    }

    /// Carries out the changes of a finding, as an API server would for objects without other managers.
    pub(in crate::canary) fn put_right(&self, write: ManagedWrite) {
        let observation = self.observe();
        let changes = observation.findings.get(&write).map(|it| it.changes.clone());
        for change in changes.unwrap_or_default() {
            match change {
                Change::Apply { body, .. } => {
                    let kind = self.kind_of(&body);
                    let name = body["metadata"]["name"].as_str().unwrap_or_default();
                    let known = self.get(kind, name).map(|it| Value::clone(&it));
                    let mut object = known.unwrap_or_else(|| json!({}));
                    merge(&mut object, &body);
                    self.put(kind, object);
                }
                Change::Merge { kind, name, patch } => {
                    self.edit(kind, &name, |object| merge(object, &patch));
                }
                Change::Delete { kind, name, .. } => self.remove(kind, &name),
            }
        }
    }

    fn kind_of(&self, body: &Value) -> Kind {
        let known = [SERVICE, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, CONFIG_MAP, SECRET];
        let known = known.into_iter().chain(self.cluster.routing_kinds());
        let mut known =
            known.filter(|it| it.api_version() == body["apiVersion"] && body["kind"] == it.kind);
        known.next().unwrap_or_else(|| panic!("unknown kind: {body}"))
    }
}

/// The state of one managed object.
pub(in crate::canary) fn state(observation: &Observation, object: ManagedObject) -> State {
    let objects = &observation.observed.objects;
    match object {
        ManagedObject::CanaryService => objects.canary_service.clone(),
        ManagedObject::PrimaryService => objects.primary_service.clone(),
        ManagedObject::Primary => objects.primary.clone(),
        ManagedObject::PrimaryScaler => objects.primary_scaler.clone(),
        ManagedObject::ApexService => objects.apex_service.clone(),
        ManagedObject::Route => objects.route.clone(),
    }
}

/// The reason that a state is blocked; empty if it is not.
pub(in crate::canary) fn why(state: &State) -> &str {
    match state {
        State::Blocked(obstacle) => &obstacle.0,
        State::InSync | State::OutOfSync => "",
    }
}

pub(in crate::canary) fn clocks() -> Clocks {
    let wall: Timestamp = NOW.parse().unwrap();
    Clocks { wall, steady: Duration::from_secs(1000) }
}

fn canary(provider: &str) -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
        "metadata": {
            "name": "web", "namespace": SHOP, "uid": "canary-web", "generation": 1,
            "creationTimestamp": "2025-12-01T00:00:00Z",
        },
        "spec": {
            "provider": provider,
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "service": { "port": 80, "targetPort": 8080 },
            "analysis": { "interval": "10s", "threshold": 3, "stepWeight": 20, "maxWeight": 60 },
        },
        "status": {},
    })
}

/// A Deployment whose pods are all ready.
pub(in crate::canary) fn deployment(name: &str, image: &str, replicas: i64) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "generation": 1 },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [
                    { "name": "app", "image": image, "ports": [{ "containerPort": 8080 }] }
                ] },
            },
        },
        "status": {
            "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [{ "type": "Available", "status": "True" }],
        },
    })
}

/// An object that the canary controls.
pub(in crate::canary) fn owned(mut object: Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "web",
        "uid": "canary-web", "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

/// A JSON merge patch.
pub(in crate::canary) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}
