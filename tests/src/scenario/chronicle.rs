//! The outcome of a command: every write to the cluster and every call of the operator, in order.
//!
//! Writes are read from the store's log, so that a phase that lasted no time is seen as well. The script's
//! own writes are left out. Pods change in many small writes; only their sum at the end of each moment is
//! recorded.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube_sandbox::{
    cluster::{Cluster as _, PODS},
    store::{EventKind, TableKey},
};
use serde_json::Value;

use super::lines::{self, Revisions};
use crate::{
    network::{Call, PROBE, PROMETHEUS},
    rollout::World,
};

/// Records the history of a world.
pub(super) struct Chronicle {
    start: Timestamp,
    /// The last recorded revision.
    revision: u64,
    calls: usize,
    pods: BTreeMap<String, String>,
    revisions: Revisions,
    lines: Vec<String>,
}

/// One line, with its place among others.
struct Entry {
    /// Calls come after writes they have seen.
    order: (u64, u8),
    text: String,
}

/// The recorded tables, by group and plural.
const TABLES: [(&str, &str); 11] = [
    ("flagger.app", "canaries"),
    ("apps", "deployments"),
    ("apps", "daemonsets"),
    ("", "services"),
    ("gateway.networking.k8s.io", "httproutes"),
    ("networking.istio.io", "virtualservices"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("keda.sh", "scaledobjects"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "events"),
];
/// More writes in a moment than any scenario makes.
const WRITES_MAX: usize = 100_000;

// === impl Chronicle ===

impl Chronicle {
    pub(super) fn new(world: &World) -> Self {
        let server = world.sandbox.server().clone();
        let start = server.clock.now();
        let revision = server.store.revision();
        let (calls, pods) = (0, BTreeMap::new());
        Self { start, revision, calls, pods, revisions: Revisions::default(), lines: Vec::new() }
    }

    /// Leaves out the writes until now, which are the script's own.
    pub(super) fn skip(&mut self, world: &World) {
        self.revision = world.sandbox.server().store.revision();
    }

    /// Records the changes of this moment.
    pub(super) fn note(&mut self, world: &World) {
        let mut entries = self.writes(world);
        entries.extend(self.calls(world));
        entries.sort_by_key(|entry| entry.order);
        let mut texts: Vec<String> = entries.into_iter().map(|entry| entry.text).collect();
        texts.extend(self.pods(world));
        let passed = world.sandbox.server().clock.now().duration_since(self.start).as_secs();
        let mut time = format!("{}:{:02}", passed / 60, passed % 60);
        for text in texts {
            self.lines.push(format!("{time:>5}  {text}"));
            time.clear();
        }
    }

    /// All lines since the last call.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    fn writes(&mut self, world: &World) -> Vec<Entry> {
        let store = &world.sandbox.server().store;
        let mut entries = Vec::new();
        for (group, plural) in TABLES {
            let table = TableKey::new(group, plural);
            let Ok((events, _)) = store.events_since(&table, self.revision, WRITES_MAX) else {
                continue;
            };
            for event in events.iter().filter(|event| &*event.object.key.namespace == "default") {
                let new = event.object.value();
                let new = if event.kind == EventKind::Deleted { Value::Null } else { new };
                let old = event.previous.as_ref().map(|old| old.value()).unwrap_or_default();
                let text = lines::write(plural, &old, &new, &mut self.revisions);
                let order = (event.revision, 0);
                entries.extend(text.into_iter().map(|text| Entry { order, text }));
            }
        }
        self.revision = store.revision();
        entries
    }

    fn calls(&mut self, world: &World) -> Vec<Entry> {
        let calls = world.network.calls();
        let new = calls.get(self.calls..).unwrap_or_default();
        let mut entries: Vec<Entry> = Vec::new();
        let is_query = |call: &&Call| call.to.starts_with(PROMETHEUS);
        let is_told = |call: &&Call| call.query != PROBE;
        let mut queries = new.iter().filter(is_query).filter(is_told).count();
        for call in new.iter().filter(is_told) {
            let text = match (is_query(&call), queries) {
                (false, _) => lines::call(call),
                (true, 0) => continue,
                (true, 1) => "checks 1 metric".to_owned(),
                (true, count) => format!("checks {count} metrics"),
            };
            if is_query(&call) {
                // All of them are counted at the first.
                queries = 0;
            }
            entries.push(Entry { order: (call.stamp, 1), text });
        }
        self.calls = calls.len();
        entries
    }

    /// Workloads whose pods changed.
    fn pods(&mut self, world: &World) -> Vec<String> {
        let now = lines::pods(&world.admin.list(PODS, Some("default")));
        let mut lines = Vec::new();
        for app in now.keys().chain(self.pods.keys().filter(|app| !now.contains_key(*app))) {
            if now.get(app) != self.pods.get(app) {
                let pods = now.get(app).map_or("none", String::as_str);
                lines.push(format!("pods of {app}: {pods}"));
            }
        }
        self.pods = now;
        lines
    }
}
