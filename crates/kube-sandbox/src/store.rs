//! Versioned storage: objects by kind, one revision per write, and a log of recent writes per kind.
//!
//! Objects are stored as compact JSON, with the few fields that lookups need beside it, so that ten
//! thousand of them cost little more than their text. Writes go through a [`Transaction`], of which
//! there is one at a time, so its reads stay valid until it commits. Watches, continued lists and
//! reads of old revisions are answered from the log of the kind. `server` writes and reads;
//! `runtime` takes the changes for the control loops.
//!
//! ```text
//! Transaction::put ──► objects (BTreeMap) ──► list, get
//!        │
//!        └───────────► log (ring of events) ──► watch from a revision, list at a revision
//! ```

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde_json::Value;
use tokio::sync::watch;

pub use self::{
    log::{Compacted, Event, EventKind},
    stored::{ObjectKey, Owner, Stored},
};

mod log;
mod stored;

/// The kind of object in a table, independent of API versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The plural of the resource.
    pub plural: Arc<str>,
}

/// Location of an object: its table and its key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The table.
    pub table: TableKey,
    /// Namespace and name.
    pub key: ObjectKey,
}

/// All objects of one cluster.
pub struct Store {
    /// Held by the one open transaction.
    writer: Mutex<()>,
    state: RwLock<State>,
    /// Holds the revision of the last write of any kind.
    activity: watch::Sender<u64>,
    history_max: usize,
}

#[derive(Default)]
struct State {
    revision: u64,
    tables: BTreeMap<TableKey, Table>,
    by_uid: HashMap<Arc<str>, Place>,
    dependents: HashMap<Arc<str>, BTreeSet<Place>>,
    /// Changes not yet taken by the control loops; `None` unless tracked.
    unseen: Option<VecDeque<(TableKey, Arc<Event>)>>,
}

struct Table {
    objects: BTreeMap<ObjectKey, Arc<Stored>>,
    log: log::Log,
    /// Holds the revision of the table's last write.
    changed: watch::Sender<u64>,
}

/// Exclusive right to write. Reads through it are reads of the state it will change.
pub(crate) struct Transaction<'s> {
    store: &'s Store,
    _writer: MutexGuard<'s, ()>,
}

// === impl TableKey ===

impl TableKey {
    /// The table of a resource.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

// === impl Store ===

impl Store {
    /// Keeps `history_max` events per kind; a watch that lags further must list again.
    pub fn new(history_max: usize) -> Self {
        Self {
            writer: Mutex::new(()),
            state: RwLock::new(State { revision: 1, ..State::default() }),
            activity: watch::Sender::new(1),
            history_max: history_max.max(1),
        }
    }

    /// An independent copy of this store with its own history limit. Objects and history are
    /// shared.
    #[must_use]
    pub fn fork(&self, history_max: usize) -> Self {
        let history_max = history_max.max(1);
        let forked = self.copy(history_max);
        Self {
            writer: Mutex::new(()),
            activity: watch::Sender::new(forked.revision),
            state: RwLock::new(forked),
            history_max,
        }
    }

    fn copy(&self, history_max: usize) -> State {
        let state = self.read();
        let copy = |table: &Table| Table {
            objects: table.objects.clone(),
            log: table.log.clone().with_max(history_max),
            changed: watch::Sender::new(*table.changed.borrow()),
        };
        let tables = state.tables.iter().map(|(key, table)| (key.clone(), copy(table)));
        State {
            revision: state.revision,
            tables: tables.collect(),
            by_uid: state.by_uid.clone(),
            dependents: state.dependents.clone(),
            unseen: None,
        }
    }

    /// Goes back to the state of `earlier`, a [`Store::fork`], under its revision, which may be a lower one.
    ///
    /// As after the start of an API server, whose watch cache begins with what it finds: events up to that
    /// revision are not remembered. Changes are tracked again by [`Store::track_unseen`].
    pub(crate) fn restore(&self, earlier: &Self) {
        let _writer = self.writer.lock();
        let mut restored = earlier.copy(self.history_max);
        let revision = restored.revision;
        let mut state = self.write();
        for (key, known) in &state.tables {
            restored.table(key, self.history_max).changed = known.changed.clone();
        }
        for table in restored.tables.values_mut() {
            table.log.compact(revision);
            table.changed.send_replace(revision);
        }
        *state = restored;
        drop(state);
        self.activity.send_replace(revision);
    }

    /// Signals each write of any kind.
    pub fn activity(&self) -> watch::Receiver<u64> {
        self.activity.subscribe()
    }

    pub(crate) fn begin(&self) -> Transaction<'_> {
        let writer = self.writer.lock();
        Transaction { store: self, _writer: writer }
    }

    /// The revision of the latest write of any kind.
    pub fn revision(&self) -> u64 {
        self.read().revision
    }

    /// One object, as it is now.
    pub fn get(&self, table: &TableKey, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.read().tables.get(table)?.objects.get(key).cloned()
    }

    /// Where the object with a uid is.
    pub fn by_uid(&self, uid: &str) -> Option<Place> {
        self.read().by_uid.get(uid).cloned()
    }

    /// Places of all objects with an owner reference to `uid`.
    pub fn dependents(&self, uid: &str) -> Vec<Place> {
        self.read().dependents.get(uid).map(|set| set.iter().cloned().collect()).unwrap_or_default()
    }

    /// Current objects in order of namespace and name, with the current revision.
    pub fn list(&self, table: &TableKey, namespace: Option<&str>) -> (u64, Vec<Arc<Stored>>) {
        let state = self.read();
        let objects = match state.tables.get(table) {
            Some(found) => select(&found.objects, namespace),
            None => Vec::new(),
        };
        (state.revision, objects)
    }

    /// The objects as they were at `revision`, restored from the log.
    pub fn list_at(
        &self,
        table: &TableKey,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<Arc<Stored>>, Compacted> {
        let state = self.read();
        let Some(found) = state.tables.get(table) else { return Ok(Vec::new()) };
        if found.log.last_revision() <= revision {
            return Ok(select(&found.objects, namespace));
        }
        found.log.check_remembered(revision)?;
        let mut objects = found.objects.clone();
        for event in found.log.since(revision)?.iter().rev() {
            match &event.previous {
                Some(before) => objects.insert(event.object.key.clone(), Arc::clone(before)),
                None => objects.remove(&event.object.key),
            };
        }
        Ok(select(&objects, namespace))
    }

    /// Up to `max` events after `revision`, and the revision up to which they are complete.
    pub fn events_since(
        &self,
        table: &TableKey,
        revision: u64,
        max: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Compacted> {
        let state = self.read();
        let Some(found) = state.tables.get(table) else { return Ok((Vec::new(), state.revision)) };
        let mut events = found.log.since(revision)?;
        let seen_to = match events.get(max) {
            Some(next) => next.revision - 1,
            None => state.revision,
        };
        events.truncate(max);
        Ok((events, seen_to))
    }

    /// Whether a reader may start at `revision`. A reader that started earlier may continue for
    /// longer: until events that it has not read are dropped.
    pub fn check_remembered(&self, table: &TableKey, revision: u64) -> Result<(), Compacted> {
        match self.read().tables.get(table) {
            Some(found) => found.log.check_remembered(revision),
            None => Ok(()),
        }
    }

    /// Signals each write to the table.
    pub fn subscribe(&self, table: &TableKey) -> watch::Receiver<u64> {
        if let Some(found) = self.read().tables.get(table) {
            return found.changed.subscribe();
        }
        let mut state = self.write();
        let history_max = self.history_max;
        state.table(table, history_max).changed.subscribe()
    }

    /// Drops all history up to now: watches from older revisions get 410 Gone.
    pub fn compact(&self) {
        let mut state = self.write();
        let revision = state.revision;
        for table in state.tables.values_mut() {
            table.log.compact(revision);
        }
    }

    /// From now on, changes queue up for [`Store::take_unseen`]. Existing objects count as changes.
    pub fn track_unseen(&self) {
        let mut state = self.write();
        if state.unseen.is_some() {
            return;
        }
        let mut unseen = VecDeque::new();
        for (key, table) in &state.tables {
            for object in table.objects.values() {
                let event = Event::added(Arc::clone(object));
                unseen.push_back((key.clone(), Arc::new(event)));
            }
        }
        state.unseen = Some(unseen);
    }

    /// Takes the changes since the last call, oldest first.
    pub fn take_unseen(&self) -> Vec<(TableKey, Arc<Event>)> {
        if self.read().unseen.as_ref().is_none_or(VecDeque::is_empty) {
            return Vec::new();
        }
        self.write().unseen.as_mut().map(|queue| queue.drain(..).collect()).unwrap_or_default()
    }

    /// Number of objects, of all kinds.
    pub fn len(&self) -> usize {
        self.read().tables.values().map(|table| table.objects.len()).sum()
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tables that hold at least one object.
    pub fn tables(&self) -> Vec<TableKey> {
        let state = self.read();
        let used = state.tables.iter().filter(|(_, table)| !table.objects.is_empty());
        used.map(|(key, _)| key.clone()).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }
}

// === impl Transaction ===

impl Transaction<'_> {
    pub(crate) fn get(&self, table: &TableKey, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.store.get(table, key)
    }

    pub(crate) fn list(&self, table: &TableKey, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        self.store.list(table, namespace).1
    }

    /// Writes `object` under the next revision and returns it as stored.
    pub(crate) fn put(&self, table: &TableKey, mut object: Value) -> Arc<Stored> {
        let revision = self.store.revision() + 1;
        stamp(&mut object, revision);
        let stored = Arc::new(Stored::new(&object, revision));
        self.commit(table, &stored, false);
        stored
    }

    /// As [`Transaction::put`], unless the object takes more than `bytes_max`. `object` is as stored
    /// afterwards, so that nobody has to read it back.
    pub(crate) fn put_within(
        &self,
        table: &TableKey,
        object: &mut Value,
        bytes_max: usize,
    ) -> Option<Arc<Stored>> {
        let revision = self.store.revision() + 1;
        stamp(object, revision);
        let stored = Arc::new(Stored::new(object, revision));
        if stored.json.len() > bytes_max {
            return None;
        }
        self.commit(table, &stored, false);
        Some(stored)
    }

    /// Removes the object of `last` and returns its final state under the revision of its removal.
    pub(crate) fn remove(&self, table: &TableKey, mut last: Value) -> Arc<Stored> {
        let revision = self.store.revision() + 1;
        stamp(&mut last, revision);
        let stored = Arc::new(Stored::new(&last, revision));
        self.commit(table, &stored, true);
        stored
    }

    fn commit(&self, table: &TableKey, stored: &Arc<Stored>, removed: bool) {
        let mut state = self.store.write();
        state.revision = stored.revision;
        let place = Place { table: table.clone(), key: stored.key.clone() };
        let found = state.table(table, self.store.history_max);
        let previous = if removed {
            found.objects.remove(&stored.key)
        } else {
            found.objects.insert(stored.key.clone(), Arc::clone(stored))
        };
        let kind = match (removed, &previous) {
            (true, _) => EventKind::Deleted,
            (false, Some(_)) => EventKind::Modified,
            (false, None) => EventKind::Added,
        };
        let event = Event {
            revision: stored.revision,
            kind,
            object: Arc::clone(stored),
            previous: previous.clone(),
        };
        let event = Arc::new(event);
        found.log.push(Arc::clone(&event));
        found.changed.send_replace(stored.revision);
        state.reindex(&place, previous.as_deref(), (!removed).then_some(&**stored));
        if let Some(unseen) = &mut state.unseen {
            unseen.push_back((table.clone(), event));
        }
        drop(state);
        self.store.activity.send_replace(stored.revision);
    }
}

// === impl State ===

impl State {
    fn table(&mut self, key: &TableKey, history_max: usize) -> &mut Table {
        let revision = self.revision;
        self.tables.entry(key.clone()).or_insert_with(|| Table {
            objects: BTreeMap::new(),
            log: log::Log::new(history_max),
            changed: watch::Sender::new(revision),
        })
    }

    fn reindex(&mut self, place: &Place, before: Option<&Stored>, after: Option<&Stored>) {
        if let Some(before) = before {
            if after.is_none_or(|after| after.uid != before.uid) {
                self.by_uid.remove(&before.uid);
            }
            for owner in &before.owners {
                if let Some(set) = self.dependents.get_mut(&owner.uid) {
                    set.remove(place);
                    if set.is_empty() {
                        self.dependents.remove(&owner.uid);
                    }
                }
            }
        }
        if let Some(after) = after {
            if !self.by_uid.contains_key(&after.uid) {
                self.by_uid.insert(Arc::clone(&after.uid), place.clone());
            }
            for owner in &after.owners {
                let set = self.dependents.entry(Arc::clone(&owner.uid)).or_default();
                set.insert(place.clone());
            }
        }
    }
}

fn select(objects: &BTreeMap<ObjectKey, Arc<Stored>>, namespace: Option<&str>) -> Vec<Arc<Stored>> {
    let Some(namespace) = namespace else { return objects.values().cloned().collect() };
    let first = ObjectKey::new(namespace, "");
    let range = objects.range((Bound::Included(first), Bound::Unbounded));
    let inside = range.take_while(|(key, _)| &*key.namespace == namespace);
    inside.map(|(_, object)| Arc::clone(object)).collect()
}

fn stamp(object: &mut Value, revision: u64) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("resourceVersion".into(), revision.to_string().into());
    }
}

/// The compact JSON of a value. Serialising a `Value` cannot fail: its keys are strings.
pub(crate) fn to_bytes(value: &Value) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> TableKey {
        TableKey::new("", "pods")
    }

    fn object(name: &str, uid: &str, note: u64) -> Value {
        json!({"metadata": {"name": name, "namespace": "a", "uid": uid}, "note": note})
    }

    fn notes(objects: &[Arc<Stored>]) -> Vec<u64> {
        objects.iter().map(|o| o.value()["note"].as_u64().unwrap()).collect()
    }

    #[test]
    fn the_past_can_be_listed_until_it_is_compacted() {
        let store = Store::new(100);
        let tx = store.begin();
        let first = tx.put(&pods(), object("x", "1", 1)).revision;
        tx.put(&pods(), object("x", "1", 2));
        tx.put(&pods(), object("y", "2", 3));
        let removed = tx.remove(&pods(), object("x", "1", 2)).revision;
        drop(tx);
        assert_eq!(notes(&store.list_at(&pods(), Some("a"), first).unwrap()), [1]);
        assert_eq!(notes(&store.list_at(&pods(), None, first + 1).unwrap()), [2]);
        assert_eq!(notes(&store.list_at(&pods(), None, first + 2).unwrap()), [2, 3]);
        assert_eq!(notes(&store.list_at(&pods(), None, removed).unwrap()), [3]);
        store.compact();
        assert!(store.list_at(&pods(), None, first).is_err());
        assert_eq!(notes(&store.list_at(&pods(), None, removed).unwrap()), [3]);
    }

    #[test]
    fn a_reader_that_falls_behind_the_history_is_told_so() {
        let store = Store::new(3);
        let start = store.revision();
        for note in 0..5 {
            store.begin().put(&pods(), object("x", "1", note));
        }
        assert!(store.events_since(&pods(), start, 10).is_err());
        let (events, seen_to) = store.events_since(&pods(), start + 2, 2).unwrap();
        assert_eq!(events.iter().map(|e| e.revision).collect::<Vec<_>>(), [start + 3, start + 4]);
        assert_eq!(seen_to, start + 4);
        let (events, seen_to) = store.events_since(&pods(), start + 4, 2).unwrap();
        assert_eq!((events.len(), seen_to), (1, start + 5));
    }

    #[test]
    fn owners_and_uids_follow_every_write() {
        let store = Store::new(10);
        let owned = json!({"metadata": {"name": "d", "namespace": "a", "uid": "2",
            "ownerReferences": [{"uid": "1", "controller": true}]}});
        store.begin().put(&pods(), object("o", "1", 0));
        store.begin().put(&pods(), owned.clone());
        assert_eq!(store.dependents("1").len(), 1);
        assert_eq!(store.by_uid("1").map(|place| place.key.name.to_string()), Some("o".into()));
        let free = json!({"metadata": {"name": "d", "namespace": "a", "uid": "2"}});
        store.begin().put(&pods(), free);
        assert!(store.dependents("1").is_empty());
        store.begin().remove(&pods(), object("o", "1", 0));
        assert!(store.by_uid("1").is_none());
    }
}
