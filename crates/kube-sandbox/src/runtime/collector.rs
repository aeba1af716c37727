//! Garbage collection by owner references, including foreground deletion and orphaning.
//!
//! An owner reference is valid while an object with its kind, name and UID exists in the
//! dependent's namespace or is cluster-scoped. So a new owner with the same name does not inherit
//! its predecessor's dependents, and an owner in another namespace owns nothing. A dependent of an
//! unknown kind is left alone until the kind is served.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    server::{
        Server, crd_table,
        delete::{FOREGROUND, ORPHAN},
        options::{DeleteOptions, Propagation},
    },
    store::{Event, EventKind, Place, Stored, TableKey},
};

pub(super) const NAME: &str = "garbage-collector";

/// Number of deleted owners remembered, as in `kube-controller-manager`.
const GONE_MAX: usize = 500;

/// Queue of dependents that may have lost their owner, and of owners that wait for dependents.
pub(super) struct Collector {
    server: Arc<Server>,
    queue: VecDeque<Place>,
    queued: BTreeSet<Place>,
    /// Owners in foreground deletion or orphaning.
    finalizing: BTreeSet<Arc<str>>,
    /// Owners that had dependents when they were deleted, in case their kind is removed too.
    gone: VecDeque<Arc<str>>,
    /// Dependents of kinds that are not served.
    unresolved: BTreeSet<Place>,
}

/// Owner references of an object by state.
#[derive(Default)]
struct Owners {
    /// Number of owners that exist and are not waiting.
    solid: usize,
    /// Owners in foreground deletion.
    waiting: Vec<String>,
    /// Owners that do not exist.
    absent: Vec<String>,
}

/// State of one owner reference.
enum Owner {
    Solid,
    Waiting,
    Absent,
    /// The state cannot be determined.
    Unknown,
}

// === impl Collector ===

impl Collector {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            finalizing: BTreeSet::new(),
            gone: VecDeque::new(),
            unresolved: BTreeSet::new(),
        }
    }

    /// Number of queued objects.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn observe(&mut self, table: &TableKey, event: &Event) {
        let object = &event.object;
        let place = Place { table: table.clone(), key: object.key.clone() };
        if event.kind == EventKind::Deleted {
            self.observe_removal(&place, object);
            return;
        }
        if *table == crd_table() {
            for place in std::mem::take(&mut self.unresolved) {
                self.push(place);
            }
        }
        let previous = event.previous.as_deref();
        // A changed dependent may no longer block its owner's deletion.
        let owners = object.owners.iter().chain(previous.map(|p| &p.owners).into_iter().flatten());
        for owner in owners {
            if self.finalizing.contains(&owner.uid) {
                self.push_uid(&owner.uid);
            }
        }
        if object.deleting && is_being_finalized(&object.value()) {
            self.finalizing.insert(Arc::clone(&object.uid));
            self.push(place);
        } else if !object.owners.is_empty() && previous.is_none_or(|p| p.owners != object.owners) {
            self.push(place);
        }
    }

    fn observe_removal(&mut self, place: &Place, object: &Stored) {
        self.finalizing.remove(&object.uid);
        self.unresolved.remove(place);
        let dependents = self.server.store.dependents(&object.uid);
        if !dependents.is_empty() {
            self.gone.push_back(Arc::clone(&object.uid));
            if self.gone.len() > GONE_MAX {
                self.gone.pop_front();
            }
        }
        for dependent in dependents {
            self.push(dependent);
        }
        // An owner may have waited for this one.
        for owner in &object.owners {
            self.push_uid(&owner.uid);
        }
    }

    fn push_uid(&mut self, uid: &str) {
        if let Some(place) = self.server.store.by_uid(uid) {
            self.push(place);
        }
    }

    fn push(&mut self, place: Place) {
        if self.queued.insert(place.clone()) {
            self.queue.push_back(place);
        }
    }

    /// Processes queued object number `nth`.
    pub(super) fn step(&mut self, nth: usize) {
        let Some(place) = self.queue.remove(nth) else { return };
        self.queued.remove(&place);
        let Some(stored) = self.server.store.get(&place.table, &place.key) else { return };
        if stored.deleting {
            let object = stored.value();
            if is_being_finalized(&object) {
                self.finish_owner(&place, &object);
            }
        } else if !stored.owners.is_empty() {
            self.judge_dependent(&place, &stored);
        }
    }

    /// Deletes an object without valid owners, or removes its invalid references.
    fn judge_dependent(&mut self, place: &Place, stored: &Stored) {
        // An object that is being deleted needs no action.
        if stored.deleting {
            return;
        }
        let object = stored.value();
        let Some(owners) = self.owners(&object) else {
            self.unresolved.insert(place.clone());
            return;
        };
        let lost = [owners.absent.as_slice(), owners.waiting.as_slice()].concat();
        if lost.is_empty() {
            return;
        }
        if owners.solid > 0 {
            self.drop_owners(place, &lost);
            return;
        }
        let dependents = self.server.store.dependents(&stored.uid);
        let propagation = if !owners.waiting.is_empty() && !dependents.is_empty() {
            // Two objects that own each other would wait for each other forever.
            if dependents.iter().any(|dependent| self.waits_for_dependents(dependent)) {
                self.unblock_owners(place);
            }
            Propagation::Foreground
        } else if has_finalizer(&object, ORPHAN) {
            Propagation::Orphan
        } else if has_finalizer(&object, FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        self.delete(place, stored, propagation);
    }

    /// The owner references of `object` by state; `None` if one cannot be determined.
    fn owners(&self, object: &Value) -> Option<Owners> {
        let mut owners = Owners::default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        for reference in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            let uid = || reference["uid"].as_str().unwrap_or_default().to_owned();
            match self.owner(reference, namespace) {
                Owner::Solid => owners.solid += 1,
                Owner::Waiting => owners.waiting.push(uid()),
                Owner::Absent => owners.absent.push(uid()),
                Owner::Unknown => return None,
            }
        }
        Some(owners)
    }

    fn owner(&self, reference: &Value, namespace: &str) -> Owner {
        let text = |key: &str| reference[key].as_str().unwrap_or_default();
        if self.gone.iter().any(|uid| **uid == *text("uid")) {
            return Owner::Absent;
        }
        let Some(def) = self.server.registry().find_kind(text("apiVersion"), text("kind")) else {
            return Owner::Unknown;
        };
        if def.namespaced && namespace.is_empty() {
            // A cluster-scoped object cannot have a namespaced owner.
            return Owner::Unknown;
        }
        let found = self.server.store.by_uid(text("uid")).filter(|place| {
            let home = if def.namespaced { namespace } else { "" };
            place.table == def.table
                && &*place.key.namespace == home
                && &*place.key.name == text("name")
        });
        match found {
            None => Owner::Absent,
            Some(place) if self.waits_for_dependents(&place) => Owner::Waiting,
            Some(_) => Owner::Solid,
        }
    }

    /// Foreground: deletes dependents first. Orphan: removes their references first.
    fn finish_owner(&mut self, place: &Place, object: &Value) {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let dependents = self.server.store.dependents(uid);
        if has_finalizer(object, ORPHAN) {
            for dependent in dependents {
                self.drop_owners(&dependent, &[uid.to_owned()]);
            }
            self.drop_finalizer(place, ORPHAN);
            return;
        }
        if !dependents.iter().any(|dependent| self.blocks(dependent, uid)) {
            self.drop_finalizer(place, FOREGROUND);
            return;
        }
        for dependent in dependents {
            if let Some(stored) = self.server.store.get(&dependent.table, &dependent.key) {
                self.judge_dependent(&dependent, &stored);
            }
        }
    }

    fn waits_for_dependents(&self, place: &Place) -> bool {
        let stored = self.server.store.get(&place.table, &place.key);
        stored.is_some_and(|stored| stored.deleting && has_finalizer(&stored.value(), FOREGROUND))
    }

    fn blocks(&self, dependent: &Place, owner_uid: &str) -> bool {
        let Some(stored) = self.server.store.get(&dependent.table, &dependent.key) else {
            return false;
        };
        let object = stored.value();
        let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        references
            .filter(|reference| reference["uid"] == owner_uid)
            .any(|reference| reference["blockOwnerDeletion"].as_bool().unwrap_or_default())
    }

    fn drop_owners(&self, place: &Place, uids: &[String]) {
        self.server.amend(place, |object| {
            if let Some(owners) = list_mut(object, "ownerReferences") {
                let is_kept =
                    |uid: &Value| uid.as_str().is_none_or(|uid| !uids.iter().any(|u| u == uid));
                owners.retain(|owner| is_kept(&owner["uid"]));
            }
            remove_if_empty(object, "ownerReferences");
        });
    }

    fn unblock_owners(&self, place: &Place) {
        self.server.amend(place, |object| {
            for owner in list_mut(object, "ownerReferences").into_iter().flatten() {
                if owner["blockOwnerDeletion"] == true {
                    owner["blockOwnerDeletion"] = false.into();
                }
            }
        });
    }

    fn drop_finalizer(&self, place: &Place, finalizer: &str) {
        self.server.amend(place, |object| {
            if let Some(list) = list_mut(object, "finalizers") {
                list.retain(|name| name != finalizer);
            }
            remove_if_empty(object, "finalizers");
        });
    }

    fn delete(&self, place: &Place, stored: &Stored, propagation: Propagation) {
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(stored.uid.to_string()),
            ..DeleteOptions::default()
        };
        // On a failure the object has changed or is gone: its event queues it again.
        let _ = self.server.delete_place(place, &options);
    }
}

fn is_being_finalized(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
        && (has_finalizer(object, FOREGROUND) || has_finalizer(object, ORPHAN))
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    list.into_iter().any(|name| name == finalizer)
}

fn list_mut<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Vec<Value>> {
    object.get_mut("metadata")?.get_mut(key)?.as_array_mut()
}

fn remove_if_empty(object: &mut Value, key: &str) {
    let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if meta.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        meta.remove(key);
    }
}
