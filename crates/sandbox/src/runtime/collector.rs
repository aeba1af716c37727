//! Garbage collection: what nobody owns any more goes, and owners wait for what blocks them.
//!
//! Owners are known by uid alone, so an owner that was deleted and made again under the same name
//! does not inherit its predecessor's dependents.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    server::{
        Server,
        delete::{FOREGROUND, ORPHAN},
        options::{DeleteOptions, Propagation},
    },
    store::{Event, EventKind, Place, TableKey},
};

pub(super) const NAME: &str = "garbage-collector";

/// Looks at what may have lost its owner, and at owners that wait for their dependents.
pub(super) struct Collector {
    server: Arc<Server>,
    queue: VecDeque<Place>,
    queued: BTreeSet<Place>,
}

/// What an object's owner references come to.
#[derive(Default)]
struct Owners {
    /// Exist and stay.
    solid: usize,
    /// Exist, but are being deleted and wait for their dependents.
    waiting: Vec<String>,
    /// Do not exist.
    absent: Vec<String>,
}

// === impl Collector ===

impl Collector {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server, queue: VecDeque::new(), queued: BTreeSet::new() }
    }

    /// How many objects wait to be looked at.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn observe(&mut self, table: &TableKey, event: &Event) {
        let object = &event.object;
        if event.kind == EventKind::Deleted {
            for place in self.server.store.dependents(&object.uid) {
                self.push(place);
            }
            // An owner may have waited for this one.
            for owner in &object.owners {
                if let Some(place) = self.server.store.by_uid(&owner.uid) {
                    self.push(place);
                }
            }
            return;
        }
        let needs_look = !object.owners.is_empty() || is_being_finalized(&object.value());
        if needs_look {
            self.push(Place { table: table.clone(), key: object.key.clone() });
        }
    }

    fn push(&mut self, place: Place) {
        if self.queued.insert(place.clone()) {
            self.queue.push_back(place);
        }
    }

    /// Looks at one object, the `nth` of those that wait.
    pub(super) fn step(&mut self, nth: usize) {
        let Some(place) = self.queue.remove(nth) else { return };
        self.queued.remove(&place);
        let Some(stored) = self.server.store.get(&place.table, &place.key) else { return };
        let object = stored.value();
        if is_being_finalized(&object) {
            self.finish_owner(&place, &object);
        } else if !stored.owners.is_empty() {
            self.judge_dependent(&place, &object);
        }
    }

    fn judge_dependent(&self, place: &Place, object: &Value) {
        let owners = self.owners(object);
        let gone = [owners.absent.as_slice(), owners.waiting.as_slice()].concat();
        if gone.is_empty() {
            return;
        }
        if owners.solid > 0 {
            self.drop_owners(place, &gone);
            return;
        }
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let propagation = if owners.waiting.is_empty() {
            Propagation::Background
        } else {
            Propagation::Foreground
        };
        self.delete(place, object, propagation);
    }

    fn owners(&self, object: &Value) -> Owners {
        let mut owners = Owners::default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        for reference in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            let uid = reference["uid"].as_str().unwrap_or_default();
            let found = self.server.store.by_uid(uid).filter(|place| {
                // A namespaced owner owns only what is in its own namespace.
                place.key.namespace.is_empty() || &*place.key.namespace == namespace
            });
            let owner = found.and_then(|place| self.server.store.get(&place.table, &place.key));
            match owner {
                None => owners.absent.push(uid.to_owned()),
                Some(owner) if has_finalizer(&owner.value(), FOREGROUND) => {
                    owners.waiting.push(uid.to_owned());
                }
                Some(_) => owners.solid += 1,
            }
        }
        owners
    }

    /// Foreground: dependents first. Orphan: dependents are let go first.
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
        let blocking = dependents.iter().any(|dependent| self.blocks(dependent, uid));
        if blocking {
            for dependent in dependents {
                if let Some(stored) = self.server.store.get(&dependent.table, &dependent.key) {
                    self.judge_dependent(&dependent, &stored.value());
                }
            }
        } else {
            self.drop_finalizer(place, FOREGROUND);
        }
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
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                let is_kept =
                    |uid: &Value| uid.as_str().is_none_or(|uid| !uids.iter().any(|u| u == uid));
                owners.retain(|owner| is_kept(&owner["uid"]));
            }
            remove_if_empty(object, "ownerReferences");
        });
    }

    fn drop_finalizer(&self, place: &Place, finalizer: &str) {
        self.server.amend(place, |object| {
            if let Some(list) = object["metadata"]["finalizers"].as_array_mut() {
                list.retain(|name| name != finalizer);
            }
            remove_if_empty(object, "finalizers");
        });
    }

    fn delete(&self, place: &Place, object: &Value, propagation: Propagation) {
        let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        let options =
            DeleteOptions { propagation: Some(propagation), uid, ..DeleteOptions::default() };
        // A refusal means that it changed or went meanwhile: its own event brings it back here.
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

fn remove_if_empty(object: &mut Value, key: &str) {
    let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if meta.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        meta.remove(key);
    }
}
