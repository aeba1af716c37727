//! Deletes the contents of namespaces and the custom resources of CRDs that are being deleted.
//!
//! [`super::Runtime`] passes it every change and calls it while items are queued. A namespace or
//! CRD is removed only when it is empty.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    controllers::object::{Condition, items},
    crd::CLEANUP_FINALIZER,
    server::{Server, crd_table, options::DeleteOptions},
    store::{Event, EventKind, ObjectKey, Place, Stored, TableKey},
};

pub(super) const NAME: &str = "namespace";

/// Deletes the content of namespaces and CRDs that wait for it, then lets them go.
pub(super) struct Reaper {
    server: Arc<Server>,
    namespaces: BTreeSet<String>,
    crds: BTreeSet<String>,
    /// Namespaces and CRDs already emptied as far as possible, which wait for finalizers.
    waiting: BTreeSet<String>,
}

/// Remaining contents of a namespace: objects per kind, and their finalizers.
#[derive(Default)]
struct Remaining {
    objects: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

// === impl Reaper ===

impl Reaper {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            namespaces: BTreeSet::new(),
            crds: BTreeSet::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// Number of queued namespaces and CRDs.
    pub(super) fn waiting(&self) -> usize {
        self.namespaces.len() + self.crds.len()
    }

    pub(super) fn observe(&mut self, table: &TableKey, event: &Event) {
        let key = &event.object.key;
        let is_namespace = *table == namespaces();
        let is_crd = *table == crd_table();
        // The namespace of a changed object is checked again.
        if self.waiting.contains(&*key.namespace) {
            self.namespaces.insert(key.namespace.to_string());
        }
        if event.kind == EventKind::Deleted {
            let table_name = format!("{}.{}", table.plural, table.group);
            if self.waiting.contains(&table_name) {
                self.crds.insert(table_name);
            }
            return;
        }
        if !is_namespace && !is_crd {
            return;
        }
        if !event.object.deleting {
            return;
        }
        let set = if is_crd { &mut self.crds } else { &mut self.namespaces };
        set.insert(key.name.to_string());
    }

    /// Processes queued item number `nth`, namespaces before CRDs.
    pub(super) fn step(&mut self, nth: usize) {
        if let Some(name) = self.namespaces.iter().nth(nth).cloned() {
            self.namespaces.remove(&name);
            self.reap_namespace(&name);
        } else if let Some(name) = self.crds.iter().nth(nth - self.namespaces.len()).cloned() {
            self.crds.remove(&name);
            self.reap_crd(&name);
        }
    }

    fn reap_namespace(&mut self, name: &str) {
        let place = Place { table: namespaces(), key: ObjectKey::new("", name) };
        let stored = self.server.store.get(&place.table, &place.key);
        if !stored.is_some_and(|stored| stored.deleting) {
            self.waiting.remove(name);
            return;
        }
        let pods = TableKey::new("", "pods");
        let mut remaining = Remaining::default();
        // Pods are deleted first, so that they can shut down with everything they need. Until they
        // are gone the remaining contents are not reported.
        if self.empty(&pods, Some(name)).is_empty() {
            for table in self.server.store.tables() {
                remaining.add(&table, &self.empty(&table, Some(name)));
            }
            self.report(&place, &remaining);
            if remaining.is_empty() {
                self.waiting.remove(name);
                self.server.amend(&place, |object| {
                    object["spec"]["finalizers"] = json!([]);
                });
                return;
            }
        } else {
            self.report(&place, &remaining);
        }
        self.waiting.insert(name.to_owned());
    }

    fn reap_crd(&mut self, name: &str) {
        let place = Place { table: crd_table(), key: ObjectKey::new("", name) };
        let stored = self.server.store.get(&place.table, &place.key);
        let Some(stored) = stored.filter(|stored| stored.deleting) else {
            self.waiting.remove(name);
            return;
        };
        let crd = stored.value();
        let text = |path: &Value| path.as_str().unwrap_or_default().to_owned();
        let table =
            TableKey::new(&text(&crd["spec"]["group"]), &text(&crd["spec"]["names"]["plural"]));
        let now = self.server.clock.now();
        self.server.amend(&place, |object| {
            let message = "CustomResource deletion is in progress";
            set_terminating(object, "True", "InstanceDeletionInProgress", message, now);
        });
        if !self.empty(&table, None).is_empty() {
            self.waiting.insert(name.to_owned());
            return;
        }
        self.waiting.remove(name);
        self.server.amend(&place, |object| {
            let message = "removed all instances";
            set_terminating(object, "False", "InstanceDeletionCompleted", message, now);
            let list = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut);
            if let Some(list) = list {
                list.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
            }
        });
    }

    /// Deletes every object of a table (in a namespace) and returns those that remain.
    fn empty(&self, table: &TableKey, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let (_, objects) = self.server.store.list(table, namespace);
        for object in objects.iter().filter(|object| !object.deleting) {
            let place = Place { table: table.clone(), key: object.key.clone() };
            // Objects that cannot be deleted now are counted and tried again later.
            let _ = self.server.delete_place(&place, &DeleteOptions::default());
        }
        self.server.store.list(table, namespace).1
    }

    fn report(&self, namespace: &Place, remaining: &Remaining) {
        let now = self.server.clock.now();
        self.server.amend(namespace, |object| {
            let mut conditions = items(object, "/status/conditions").to_vec();
            for condition in remaining.conditions() {
                let [kind, status, reason, message] = condition.each_ref().map(String::as_str);
                Condition { kind, status, reason, message }.put(&mut conditions, now);
            }
            object["status"]["conditions"] = conditions.into();
        });
    }
}

// === impl Remaining ===

impl Remaining {
    fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn add(&mut self, table: &TableKey, objects: &[Arc<Stored>]) {
        if objects.is_empty() {
            return;
        }
        self.objects.insert(format!("{}.{}", table.plural, table.group), objects.len());
        for object in objects {
            let object = object.value();
            let finalizers = items(&object, "/metadata/finalizers").iter();
            for finalizer in finalizers.filter_map(Value::as_str) {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }

    /// Type, status, reason and message of a terminating namespace's conditions.
    fn conditions(&self) -> [[String; 4]; 5] {
        let counts = |counts: &BTreeMap<String, usize>, verb: &str| {
            let each =
                counts.iter().map(|(what, n)| format!("{what} {verb} {n} resource instances"));
            each.collect::<Vec<_>>().join(", ")
        };
        let content = counts(&self.objects, "has");
        let finalizers = counts(&self.finalizers, "in");
        let quiet = |kind: &str, reason: &str, message: &str| {
            [kind, "False", reason, message].map(str::to_owned)
        };
        let loud = |kind: &str, reason: &str, message: String| {
            [kind.to_owned(), "True".to_owned(), reason.to_owned(), message]
        };
        [
            quiet(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            quiet(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            quiet(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            if content.is_empty() {
                let message = "All content successfully removed";
                quiet("NamespaceContentRemaining", "ContentRemoved", message)
            } else {
                let message = format!("Some resources are remaining: {content}");
                loud("NamespaceContentRemaining", "SomeResourcesRemain", message)
            },
            if finalizers.is_empty() {
                let message = "All content-preserving finalizers finished";
                quiet("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", message)
            } else {
                let message =
                    format!("Some content in the namespace has finalizers remaining: {finalizers}");
                loud("NamespaceFinalizersRemaining", "SomeFinalizersRemain", message)
            },
        ]
    }
}

fn set_terminating(crd: &mut Value, status: &str, reason: &str, message: &str, now: Timestamp) {
    let mut conditions = items(crd, "/status/conditions").to_vec();
    Condition { kind: "Terminating", status, reason, message }.put(&mut conditions, now);
    crd["status"]["conditions"] = conditions.into();
}

fn namespaces() -> TableKey {
    TableKey::new("", "namespaces")
}
