//! Records every state of the objects in all namespaces of the run, from one watch for each kind.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use futures::StreamExt as _;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt as _, watcher, watcher::Event},
};
use serde_json::Value;
use tidegate_providers::{object::Kind, traffic::Mesh};
use tokio::task::JoinHandle;

use crate::eventually;

/// Recorded kinds besides those of routers.
const KINDS: [(&str, &str, &str, &str); 10] = [
    ("flagger.app", "v1beta1", "Canary", "canaries"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("", "v1", "Service", "services"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Secret", "secrets"),
    ("networking.k8s.io", "v1", "Ingress", "ingresses"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
    ("serving.knative.dev", "v1", "Service", "services"),
];

/// The control plane puts it into every namespace.
const FURNITURE: &str = "kube-root-ca.crt";
const PATIENCE: Duration = Duration::from_mins(2);

/// Follows a cluster. Dropping it ends that.
pub(super) struct Witness {
    notes: Arc<Mutex<Notes>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Notes {
    /// Kinds whose objects were listed: from then on no state is missed.
    listed: usize,
    by_namespace: BTreeMap<String, Vec<Seen>>,
}

/// An object at one version.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) version: u64,
    pub(super) kind: String,
    pub(super) name: String,
    /// `Null` is an object that is gone.
    pub(super) object: Value,
}

// === impl Witness ===

impl Witness {
    /// Follows all kinds, and returns when each was listed.
    pub(super) async fn start(client: &Client) -> Result<Self> {
        let notes = Arc::<Mutex<Notes>>::default();
        let mut tasks = Vec::new();
        for resource in resources() {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let notes = Arc::clone(&notes);
            let kind = format!("{}{}", prefix(&resource), resource.kind);
            tasks.push(tokio::spawn(async move {
                let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
                while let Some(event) = events.next().await {
                    if let Ok(event) = event {
                        lock(&notes).take(&kind, event);
                    }
                }
            }));
        }
        let witness = Self { notes, tasks };
        let wanted = witness.tasks.len();
        eventually("all kinds are watched", PATIENCE, async || {
            Ok((lock(&witness.notes).listed >= wanted).then_some(()))
        })
        .await?;
        Ok(witness)
    }

    /// All states in a namespace, in their order.
    pub(super) fn seen(&self, namespace: &str) -> Vec<Seen> {
        let mut seen = lock(&self.notes).by_namespace.get(namespace).cloned().unwrap_or_default();
        seen.sort_by_key(|seen| seen.version);
        seen
    }

    /// The first state of an object, from this version on, that is as wanted; its version.
    pub(super) fn find(
        &self,
        namespace: &str,
        (kind, name): (&str, &str),
        from: u64,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Option<u64> {
        let notes = lock(&self.notes);
        let seen = notes.by_namespace.get(namespace)?.iter();
        let states = seen.filter(|it| it.kind == kind && it.name == name && it.version >= from);
        states.filter(|it| is_wanted(&it.object)).map(|it| it.version).min()
    }

    /// The last known state of an object.
    pub(super) fn last(&self, namespace: &str, kind: &str, name: &str) -> Value {
        let is_it = |it: &Seen| it.kind == kind && it.name == name;
        let last = self.seen(namespace).into_iter().rev().find(is_it);
        last.map(|it| it.object).unwrap_or_default()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

// === impl Notes ===

impl Notes {
    fn take(&mut self, kind: &str, event: Event<DynamicObject>) {
        let (object, is_gone) = match event {
            Event::Apply(object) | Event::InitApply(object) => (object, false),
            Event::Delete(object) => (object, true),
            Event::InitDone => {
                self.listed += 1;
                return;
            }
            Event::Init => return,
        };
        let object = serde_json::to_value(object).unwrap_or_default();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name, version) = (text("namespace"), text("name"), version_of(&object));
        if name == FURNITURE {
            return;
        }
        let object = if is_gone { Value::Null } else { object };
        let seen = Seen { version, kind: kind.to_owned(), name, object };
        self.by_namespace.entry(namespace).or_default().push(seen);
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    version.parse().unwrap_or_default()
}

/// Kinds of one name in two groups are told apart.
fn prefix(resource: &ApiResource) -> &'static str {
    match &*resource.group {
        "serving.knative.dev" => "Knative ",
        _ => "",
    }
}

/// All recorded kinds, in one version each.
fn resources() -> Vec<ApiResource> {
    let of_routers = Mesh::ALL.iter().flat_map(|mesh| mesh.kinds().iter().copied());
    let fixed = KINDS.map(|(group, version, kind, plural)| Kind { group, version, kind, plural });
    let mut resources: Vec<ApiResource> = Vec::new();
    for kind in fixed.into_iter().chain(of_routers).filter(Kind::is_namespaced) {
        let is_known = |it: &ApiResource| it.group == kind.group && it.plural == kind.plural;
        if !resources.iter().any(is_known) {
            resources.push(ApiResource {
                group: kind.group.to_owned(),
                version: kind.version.to_owned(),
                api_version: kind.api_version(),
                kind: kind.kind.to_owned(),
                plural: kind.plural.to_owned(),
            });
        }
    }
    resources
}
