//! Empties what is being deleted as a whole: namespaces, and the objects of a CRD that goes.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use crate::{
    server::{Server, crd_table, options::DeleteOptions},
    store::{Event, EventKind, ObjectKey, Place, TableKey},
};

pub(super) const NAME: &str = "namespace";

/// The finalizer that keeps a CRD until its objects are gone.
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Deletes the content of namespaces and CRDs that wait for it, then lets them go.
pub(super) struct Reaper {
    server: Arc<Server>,
    namespaces: BTreeSet<String>,
    crds: BTreeSet<String>,
    /// Those among them that are already emptied as far as possible and wait for finalizers.
    waiting: BTreeSet<String>,
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

    /// How many namespaces and CRDs wait to be looked at.
    pub(super) fn waiting(&self) -> usize {
        self.namespaces.len() + self.crds.len()
    }

    pub(super) fn observe(&mut self, table: &TableKey, event: &Event) {
        let key = &event.object.key;
        let is_namespace = *table == namespaces();
        let is_crd = *table == crd_table();
        if event.kind == EventKind::Deleted {
            // Whoever waited for this object looks again.
            let table_name = format!("{}.{}", table.plural, table.group);
            if self.waiting.contains(&*key.namespace) {
                self.namespaces.insert(key.namespace.to_string());
            }
            if self.waiting.contains(&table_name) {
                self.crds.insert(table_name);
            }
            return;
        }
        if !is_namespace && !is_crd {
            return;
        }
        if event.object.value()["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let set = if is_crd { &mut self.crds } else { &mut self.namespaces };
        set.insert(key.name.to_string());
    }

    /// Looks at one of them, namespaces before CRDs.
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
        let Some(stored) = self.server.store.get(&place.table, &place.key) else {
            self.waiting.remove(name);
            return;
        };
        if stored.value()["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let mut remaining = 0;
        for table in self.server.store.tables() {
            remaining += self.empty(&table, Some(name));
        }
        if remaining > 0 {
            self.waiting.insert(name.to_owned());
            let message = format!("{remaining} objects of the namespace still exist");
            self.report(&place, &message);
            return;
        }
        self.waiting.remove(name);
        self.server.amend(&place, |object| {
            object["spec"]["finalizers"] = json!([]);
        });
    }

    fn reap_crd(&mut self, name: &str) {
        let place = Place { table: crd_table(), key: ObjectKey::new("", name) };
        let Some(stored) = self.server.store.get(&place.table, &place.key) else {
            self.waiting.remove(name);
            return;
        };
        let crd = stored.value();
        if crd["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let text = |path: &Value| path.as_str().unwrap_or_default().to_owned();
        let table =
            TableKey::new(&text(&crd["spec"]["group"]), &text(&crd["spec"]["names"]["plural"]));
        if self.empty(&table, None) > 0 {
            self.waiting.insert(name.to_owned());
            return;
        }
        self.waiting.remove(name);
        self.server.amend(&place, |object| {
            if let Some(list) = object["metadata"]["finalizers"].as_array_mut() {
                list.retain(|finalizer| finalizer != CRD_CLEANUP);
            }
        });
    }

    /// Deletes every object of a table (in a namespace) and returns how many are still there.
    fn empty(&self, table: &TableKey, namespace: Option<&str>) -> usize {
        let (_, objects) = self.server.store.list(table, namespace);
        for object in &objects {
            let place = Place { table: table.clone(), key: object.key.clone() };
            // What cannot be deleted now is counted below and tried at its next change.
            let _ = self.server.delete_place(&place, &DeleteOptions::default());
        }
        self.server.store.list(table, namespace).1.len()
    }

    fn report(&self, namespace: &Place, message: &str) {
        let now = self.server.now_text();
        self.server.amend(namespace, |object| {
            let same = |c: &Value| c["type"] == "NamespaceContentRemaining" && c["message"] == message;
            let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            if conditions.into_iter().any(same) {
                return;
            }
            object["status"]["conditions"] = json!([{
                "type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain",
                "message": message, "lastTransitionTime": now,
            }]);
        });
    }
}

fn namespaces() -> TableKey {
    TableKey::new("", "namespaces")
}
