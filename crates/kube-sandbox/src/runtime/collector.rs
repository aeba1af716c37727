//! Garbage collection: what nobody owns any more goes, and owners wait for what blocks them.
//!
//! An owner reference is good while an object of its kind, name and uid exists where the dependent
//! can see it: in the dependent's namespace, or in none. So an owner that was deleted and made again
//! under the same name does not inherit its predecessor's dependents, and an owner in another
//! namespace owns nothing. A reference to a kind that nobody serves proves nothing either way: its
//! object is left alone until the kind is known.

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

/// Owners remembered as gone, as many as `kube-controller-manager` remembers.
const GONE_MAX: usize = 500;

/// Looks at what may have lost its owner, and at owners that wait for their dependents.
pub(super) struct Collector {
    server: Arc<Server>,
    queue: VecDeque<Place>,
    queued: BTreeSet<Place>,
    /// Owners that wait for their dependents, or to let go of them.
    finalizing: BTreeSet<Arc<str>>,
    /// Owners that had dependents when they went, for when their kind goes too.
    gone: VecDeque<Arc<str>>,
    /// Objects with an owner of a kind that is not served.
    unresolved: BTreeSet<Place>,
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

/// What one owner reference comes to.
enum Owner {
    Solid,
    Waiting,
    Absent,
    /// Nothing can be said about it.
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

    /// How many objects wait to be looked at.
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
        // A dependent that changed may no longer be in its owner's way.
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

    /// Looks at one object, the `nth` of those that wait.
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

    /// Deletes an object that nobody owns any more, or drops references that came to nothing.
    fn judge_dependent(&mut self, place: &Place, stored: &Stored) {
        // What is being deleted goes its way; nothing here would hasten it.
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
            // Two objects that own each other would wait for each other for ever.
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

    /// What the references of `object` come to; `None` when that cannot be known.
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
            // An object of the whole cluster cannot be owned from within a namespace.
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

fn list_mut<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Vec<Value>> {
    object.get_mut("metadata")?.get_mut(key)?.as_array_mut()
}

fn remove_if_empty(object: &mut Value, key: &str) {
    let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if meta.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        meta.remove(key);
    }
}
