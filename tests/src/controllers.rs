//! A sandbox for tests of controllers: short methods for the writes of users and for the state they read.

#![expect(clippy::panic, reason = "how a rig fails the test that uses it")]

use std::time::Duration;

use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster, Deletion, EVENTS, PODS, REPLICA_SETS, Resource},
    failure::{Failure, Outcome},
    kubelet::KubeletSettings,
    server::{User, local::Local},
    store::{Event, EventKind, TableKey},
};
use serde_json::{Value, json};

pub const CRDS: Resource =
    Resource { group: "apiextensions.k8s.io", plural: "customresourcedefinitions" };
pub const WIDGETS: Resource = Resource { group: "example.com", plural: "widgets" };
pub const GIZMOS: Resource = Resource { group: "example.com", plural: "gizmos" };

/// A cluster under a virtual clock, and its administrator.
pub struct World {
    pub sandbox: Sandbox,
    pub admin: Local,
}

/// One event that a watch of a kind would have received: type, name and object.
pub type Seen = (EventKind, String, Value);

// === impl World ===

impl Default for World {
    fn default() -> Self {
        Self::with(Settings::for_tests())
    }
}

impl World {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with(settings: Settings) -> Self {
        let sandbox = Sandbox::new(settings);
        let admin = sandbox.local(User::admin());
        Self { sandbox, admin }
    }

    /// The same cluster in the usual order and, with a few seeds, in others.
    pub fn orders() -> impl Iterator<Item = (String, Self)> {
        let fair = [("fair".to_owned(), Self::new())];
        let shuffled = (1..=3).map(|seed| {
            let settings = Settings::for_tests().seed(seed).shuffled();
            (format!("shuffled with seed {seed}"), Self::with(settings))
        });
        fair.into_iter().chain(shuffled)
    }

    /// A cluster whose kubelet starts and stops pods with a delay.
    pub fn paced(kubelet: KubeletSettings) -> Self {
        let mut settings = Settings::for_tests();
        settings.controllers.kubelet = kubelet;
        Self::with(settings)
    }

    pub fn settle(&self) {
        self.sandbox.settle();
    }

    pub fn advance(&self, seconds: u64) {
        self.sandbox.advance(Duration::from_secs(seconds));
    }

    /// Creates in the object's namespace, or in `default`.
    pub fn try_create(&self, resource: Resource, object: Value) -> Outcome<Value> {
        let place = object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        let global = matches!(
            resource.plural,
            "namespaces" | "nodes" | "customresourcedefinitions" | "clusterroles" | "gizmos"
        );
        self.admin.create(resource, if global { "" } else { &place }, object)
    }

    pub fn create(&self, resource: Resource, object: Value) -> Value {
        let created = self.try_create(resource, object);
        created.unwrap_or_else(|failure| panic!("creating {resource:?}: {failure:?}"))
    }

    pub fn find(&self, resource: Resource, name: &str) -> Option<Value> {
        self.admin.get(resource, "default", name).or_else(|| self.admin.get(resource, "", name))
    }

    pub fn get(&self, resource: Resource, name: &str) -> Value {
        self.find(resource, name).unwrap_or_else(|| panic!("no {} {name}", resource.plural))
    }

    pub fn list(&self, resource: Resource) -> Vec<Value> {
        self.admin.list(resource, Some("default"))
    }

    pub fn names(&self, resource: Resource) -> Vec<String> {
        self.list(resource).iter().map(|object| text(&object["metadata"]["name"])).collect()
    }

    pub fn patch(&self, resource: Resource, name: &str, patch: &Value) -> Value {
        let place = if self.admin.get(resource, "", name).is_some() { "" } else { "default" };
        let patched = self.admin.patch(resource, place, name, "", patch);
        patched.unwrap_or_else(|failure| panic!("patching {name}: {failure:?}"))
    }

    /// Gives the first container of a workload's template another image.
    pub fn set_image(&self, resource: Resource, name: &str, image: &str) {
        let mut containers =
            self.get(resource, name)["spec"]["template"]["spec"]["containers"].take();
        containers[0]["image"] = image.into();
        let template = json!({ "spec": { "containers": containers } });
        self.patch(resource, name, &json!({ "spec": { "template": template } }));
    }

    /// Gives the first container of a pod another image, in place.
    pub fn set_pod_image(&self, name: &str, image: &str) {
        let mut containers = self.get(PODS, name)["spec"]["containers"].take();
        containers[0]["image"] = image.into();
        self.patch(PODS, name, &json!({ "spec": { "containers": containers } }));
    }

    pub fn scale(&self, resource: Resource, name: &str, replicas: i64) {
        self.patch(resource, name, &json!({ "spec": { "replicas": replicas } }));
    }

    pub fn try_delete(
        &self,
        resource: Resource,
        name: &str,
        propagation: Option<&str>,
    ) -> Result<(), Failure> {
        let place = if self.admin.get(resource, "", name).is_some() { "" } else { "default" };
        let propagation = propagation.map(str::to_owned);
        let deletion = Deletion { propagation, ..Deletion::default() };
        self.admin.delete(resource, place, name, &deletion)
    }

    pub fn delete(&self, resource: Resource, name: &str) {
        self.delete_with(resource, name, None);
    }

    pub fn delete_with(&self, resource: Resource, name: &str, propagation: Option<&str>) {
        let deleted = self.try_delete(resource, name, propagation);
        deleted.unwrap_or_else(|failure| panic!("deleting {name}: {failure:?}"));
    }

    /// The condition of a type, without its times.
    pub fn condition(&self, resource: Resource, name: &str, kind: &str) -> Value {
        let object = self.get(resource, name);
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind);
        without_times(found.unwrap_or_default())
    }

    /// Messages of all events of a reason, in order of their names.
    pub fn events(&self, reason: &str) -> Vec<String> {
        let events = self.list(EVENTS).into_iter().filter(|event| event["reason"] == reason);
        events.map(|event| text(&event["message"])).collect()
    }

    /// Moments in the history of a kind since a revision, oldest first.
    pub fn seen_since(&self, resource: Resource, revision: u64) -> Vec<Seen> {
        let table = TableKey::new(resource.group, resource.plural);
        let store = &self.sandbox.server().store;
        let (events, _) = store.events_since(&table, revision, usize::MAX).expect("not compacted");
        let seen = |event: &std::sync::Arc<Event>| {
            (event.kind, event.object.key.name.to_string(), event.object.value())
        };
        events.iter().map(seen).collect()
    }

    pub fn revision(&self) -> u64 {
        self.sandbox.server().store.revision()
    }

    /// Asserts that an hour goes by without a write.
    pub fn assert_quiet(&self) {
        let log = &self.sandbox.server().log;
        let (mark, revision) = (log.mark(), self.revision());
        self.advance(3600);
        let writes = log.writes_since(mark);
        assert!(writes.is_empty(), "a settled cluster writes nothing: {writes:#?}");
        assert_eq!(self.revision(), revision, "nor does its machinery");
    }

    /// Steps until nothing is due, looking at the cluster after every single step.
    pub fn step_through(&self, mut look: impl FnMut(&Self)) {
        while self.sandbox.runtime().step() {
            look(self);
        }
    }

    /// The pods that are not being deleted, with their phase.
    pub fn active_pods(&self) -> Vec<Value> {
        let mut pods = self.list(PODS);
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// `ReplicaSets` as image and size, by revision.
    pub fn sets(&self) -> Vec<(String, i64)> {
        let mut sets = self.list(REPLICA_SETS);
        sets.sort_by_key(|set| annotation(set, "revision").parse::<i64>().unwrap_or_default());
        let image = |set: &Value| text(&set["spec"]["template"]["spec"]["containers"][0]["image"]);
        sets.iter().map(|set| (image(set), number(&set["spec"]["replicas"]))).collect()
    }
}

/// The annotation `deployment.kubernetes.io/<name>`.
pub fn annotation(object: &Value, name: &str) -> String {
    text(&object["metadata"]["annotations"][format!("deployment.kubernetes.io/{name}")])
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

pub fn uid(object: &Value) -> String {
    text(&object["metadata"]["uid"])
}

pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Takes the times out of an object or of any part of one, so that it can be compared whole.
pub fn without_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.retain(|key, _| !key.ends_with("Time") && !key.ends_with("Timestamp"));
            for member in members.values_mut() {
                *member = without_times(member.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_times(item.take());
            }
        }
        _ => {}
    }
    value
}

// === objects ===

/// `metadata`, selector and template of a workload called `name`.
fn workload(kind: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": template(name, image),
        },
    })
}

pub fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [
            { "name": "app", "image": image, "ports": [{ "name": "http", "containerPort": 8080 }] },
        ] },
    })
}

pub fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    merged(workload("Deployment", name, image), &json!({ "spec": { "replicas": replicas } }))
}

pub fn replica_set(name: &str, replicas: i64, image: &str) -> Value {
    merged(workload("ReplicaSet", name, image), &json!({ "spec": { "replicas": replicas } }))
}

pub fn stateful_set(name: &str, replicas: i64, image: &str) -> Value {
    let more = json!({ "spec": { "replicas": replicas, "serviceName": name } });
    merged(workload("StatefulSet", name, image), &more)
}

pub fn daemon_set(name: &str, image: &str) -> Value {
    workload("DaemonSet", name, image)
}

pub fn pod(name: &str, image: &str) -> Value {
    let mut pod = template(name, image);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod
}

pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": {
            "selector": { "app": name }, "ports": [{ "name": "http", "port": 80, "targetPort": "http" }],
        },
    })
}

pub fn config_map(name: &str, owners: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "ownerReferences": owners },
    })
}

/// An owner reference to `owner` that does not block its deletion.
pub fn owned_by(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

/// An owner reference that blocks a foreground deletion of `owner`.
pub fn blocking(owner: &Value) -> Value {
    merged(owned_by(owner), &json!({ "blockOwnerDeletion": true }))
}

/// A definition of `Widget` (namespaced) or `Gizmo` (cluster-scoped).
pub fn definition(kind: &str, scope: &str) -> Value {
    let singular = kind.to_lowercase();
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{singular}s.example.com") },
        "spec": {
            "group": "example.com", "scope": scope,
            "names": { "kind": kind, "plural": format!("{singular}s"), "singular": singular },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

pub fn custom(kind: &str, name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": kind, "metadata": { "name": name } })
}

/// `object` with the members of `more` put over its own, as a merge patch does.
pub fn merged(mut object: Value, more: &Value) -> Value {
    merge(&mut object, more);
    object
}

fn merge(object: &mut Value, more: &Value) {
    let (Some(members), Some(more)) = (object.as_object_mut(), more.as_object()) else {
        *object = more.clone();
        return;
    };
    for (key, value) in more {
        merge(members.entry(key.clone()).or_insert(Value::Null), value);
    }
}
