//! Records all events in a namespace, from watches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use futures::StreamExt as _;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams},
};
use serde_json::Value;
use tidegate_tests::scenario::{Revisions, tell_write};
use tokio::task::JoinHandle;

use super::Theatre;

/// The recorded kinds: group, version, kind, plural.
pub(super) const KINDS: [(&str, &str, &str, &str); 10] = [
    ("flagger.app", "v1beta1", "Canary", "canaries"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("", "v1", "Service", "services"),
    ("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"),
    ("networking.istio.io", "v1", "VirtualService", "virtualservices"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "Event", "events"),
];

/// The wait before a refused watch is tried again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Objects that clusters put into every namespace; scripts do not contain them.
const FURNITURE: [&str; 3] = ["kube-root-ca.crt", "istio-ca-root-cert", "openshift-service-ca.crt"];

/// Follows a namespace. Dropping it ends that.
pub(super) struct Clerk {
    notes: Arc<Mutex<Notes>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Notes {
    seen: Vec<Seen>,
    /// Versions that the script itself wrote.
    own: BTreeSet<u64>,
    /// Objects that the script itself removed, by plural and name.
    removed: BTreeSet<(&'static str, String)>,
    /// Events up to this version are dropped.
    forgotten: u64,
}

struct Seen {
    version: u64,
    plural: &'static str,
    /// `Null` is an object that is gone.
    object: Value,
    name: String,
}

// === impl Clerk ===

impl Clerk {
    pub(super) async fn start(theatre: &Theatre, namespace: &str) -> Result<Self> {
        let notes = Arc::<Mutex<Notes>>::default();
        let mut tasks = Vec::new();
        let known = KINDS.into_iter().filter(|(group, version, ..)| theatre.knows(group, version));
        for (group, version, kind, plural) in known {
            let api: Api<DynamicObject> = Api::namespaced_with(
                theatre.client.clone(),
                namespace,
                &resource(group, version, kind, plural),
            );
            // From the namespace's beginning: its existing objects count as created.
            let mut since = "0".to_owned();
            let mut first = api.watch(&WatchParams::default(), &since).await?.boxed();
            let notes = Arc::clone(&notes);
            tasks.push(tokio::spawn(async move {
                loop {
                    let mut is_behind = false;
                    while let Some(Ok(event)) = first.next().await {
                        is_behind |= matches!(event, WatchEvent::Error(_));
                        if let Some(version) = lock(&notes).take(plural, event) {
                            since = version;
                        }
                    }
                    // A kind without writes for some minutes is behind the server's history.
                    if is_behind && let Ok(list) = api.list(&ListParams::default()).await {
                        since = list.metadata.resource_version.unwrap_or_default();
                        lock(&notes).catch_up(plural, list.items);
                    }
                    match api.watch(&WatchParams::default(), &since).await {
                        Ok(stream) => first = stream.boxed(),
                        Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
                    }
                }
            }));
        }
        Ok(Self { notes, tasks })
    }

    /// The script wrote this version itself.
    pub(super) fn is_own(&self, object: &Value) {
        lock(&self.notes).own.insert(version_of(object));
    }

    /// The script removed this object itself.
    pub(super) fn is_removed(&self, plural: &'static str, name: &str) {
        lock(&self.notes).removed.insert((plural, name.to_owned()));
    }

    pub(super) fn forget(&self) {
        let mut notes = lock(&self.notes);
        notes.forgotten = notes.seen.iter().map(|seen| seen.version).max().unwrap_or(0);
    }

    /// The number of recorded events.
    pub(super) fn seen(&self) -> usize {
        lock(&self.notes).seen.len()
    }

    /// All recorded events that were not dropped, in order.
    pub(super) fn tell(&self) -> Vec<String> {
        let mut notes = lock(&self.notes);
        notes.seen.sort_by_key(|seen| seen.version);
        let mut revisions = Revisions::default();
        let mut known: BTreeMap<(&str, String), Value> = BTreeMap::new();
        let mut lines = Vec::new();
        for seen in &notes.seen {
            let key = (seen.plural, seen.name.clone());
            let old = known.insert(key.clone(), seen.object.clone()).unwrap_or_default();
            if old.is_null() && seen.object.is_null() {
                continue;
            }
            let line = tell_write(seen.plural, &old, &seen.object, &mut revisions);
            let is_own = notes.own.contains(&seen.version)
                || seen.object.is_null() && notes.removed.contains(&key);
            if !is_own && seen.version > notes.forgotten {
                lines.extend(line);
            }
        }
        lines
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

// === impl Notes ===

impl Notes {
    /// Records objects as they are, where a watch missed changes. Those that were deleted meanwhile are not
    /// recorded, and missing at the end.
    fn catch_up(&mut self, plural: &'static str, objects: Vec<DynamicObject>) {
        for object in objects {
            let version = object.metadata.resource_version.as_deref().unwrap_or_default();
            let version: u64 = version.parse().unwrap_or_default();
            if !self.seen.iter().any(|seen| seen.plural == plural && seen.version == version) {
                self.take(plural, WatchEvent::Modified(object));
            }
        }
    }

    /// Records an event; the version up to which the history is complete.
    fn take(&mut self, plural: &'static str, event: WatchEvent<DynamicObject>) -> Option<String> {
        let (object, is_gone) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(bookmark) => return Some(bookmark.metadata.resource_version),
            WatchEvent::Error(_) => return None,
        };
        let value = serde_json::to_value(object).unwrap_or_default();
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_known = !FURNITURE.contains(&&*name);
        let version = version_of(&value);
        let object = if is_gone { Value::Null } else { value };
        if is_known {
            self.seen.push(Seen { version, plural, object, name });
        }
        Some(version.to_string())
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    version.parse().unwrap_or_default()
}

pub(super) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}
