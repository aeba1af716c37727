//! The cache of the cluster: trimmed objects, fed by watches and by our own writes.
//!
//! A read sends no request. Our writes are inserted at once, so that a decision sees the effects of
//! the one before it; an event that is older is ignored. Configuration is kept as fingerprints: contents are
//! dropped on arrival.
//!
//! A reconcile loop declares the objects it depends on ([`Cache::follow`]) and is woken when one changes.

mod row;
mod table;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;
use tidegate_providers::{
    game::NODE,
    object::Kind,
    workload::config::{ConfigDigest, ConfigKind},
};
use tokio::sync::Notify;

use self::{row::Row, table::Table};
use super::rewind::is_older;

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// Shared by all reconcile loops.
#[derive(Default)]
pub struct Cache(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    tables: BTreeMap<Kind, Table>,
    followers: BTreeMap<(Kind, Key), BTreeSet<Key>>,
    followed: BTreeMap<Key, BTreeSet<(Kind, Key)>>,
    wakeups: BTreeMap<Key, Arc<Notify>>,
}

/// Whether a table can be trusted to be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TableState {
    /// Not listed yet.
    #[default]
    Pending,
    /// Listed at least once; kept up to date by a watch.
    Synced,
    /// The kind is not served, or no longer, with a message. There are no objects.
    NotServed(String),
    /// Never listed, because that failed in another way. There may be objects.
    Failed(String),
}

// === impl TableState ===

impl TableState {
    /// Why a list never succeeded, if one was tried.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Pending | Self::Synced => None,
            Self::NotServed(why) | Self::Failed(why) => Some(why),
        }
    }
}

// === impl Key ===

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object for a canary of this namespace; the kind may be cluster-scoped.
    pub fn of_kind(kind: Kind, namespace: &str, name: &str) -> Self {
        Self::new(if kind.is_namespaced() { namespace } else { "" }, name)
    }

    pub fn of(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        Self::new(text("namespace"), text("name"))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Cache ===

impl Cache {
    /// The object as it was last seen or written.
    pub fn get(&self, kind: Kind, key: &Key) -> Option<Arc<Value>> {
        match self.0.lock().tables.get(&kind)?.rows.get(key)? {
            Row::Object(object) => Some(Arc::clone(object)),
            Row::Digest(_) => None,
        }
    }

    /// The fingerprint of a ConfigMap or Secret.
    pub fn digest(&self, kind: ConfigKind, key: &Key) -> Option<Arc<ConfigDigest>> {
        match self.0.lock().tables.get(&kind.kind())?.rows.get(key)? {
            Row::Digest(digest) => Some(Arc::clone(digest)),
            Row::Object(_) => None,
        }
    }

    /// All objects of a kind, sorted by namespace and name.
    pub fn list(&self, kind: Kind) -> Vec<Arc<Value>> {
        let inner = self.0.lock();
        let rows = inner.tables.get(&kind).into_iter().flat_map(|table| table.rows.values());
        rows.filter_map(|row| match row {
            Row::Object(object) => Some(Arc::clone(object)),
            Row::Digest(_) => None,
        })
        .collect()
    }

    /// All objects of a kind in a namespace, sorted by name.
    pub fn list_in(&self, kind: Kind, namespace: &str) -> Vec<Arc<Value>> {
        self.rows_in(kind, namespace, |row| match row {
            Row::Object(object) => Some(Arc::clone(object)),
            Row::Digest(_) => None,
        })
    }

    /// Objects of an indexed kind in a namespace that have this controller, and those that have none.
    pub fn list_controlled(&self, kind: Kind, namespace: &str, uid: &str) -> Vec<Arc<Value>> {
        let inner = self.0.lock();
        let Some(table) = inner.tables.get(&kind) else { return Vec::new() };
        let keys = [uid, ""].map(|uid| (Arc::from(namespace), uid.to_owned()));
        let keys = keys.iter().filter_map(|key| table.controlled.get(key)).flatten();
        keys.filter_map(|key| match table.rows.get(key)? {
            Row::Object(object) => Some(Arc::clone(object)),
            Row::Digest(_) => None,
        })
        .collect()
    }

    /// Fingerprints of all `ConfigMap`s or Secrets in a namespace, sorted by name.
    pub fn digests_in(&self, kind: ConfigKind, namespace: &str) -> Vec<Arc<ConfigDigest>> {
        self.rows_in(kind.kind(), namespace, |row| match row {
            Row::Digest(digest) => Some(Arc::clone(digest)),
            Row::Object(_) => None,
        })
    }

    fn rows_in<T>(&self, kind: Kind, namespace: &str, of: impl Fn(&Row) -> Option<T>) -> Vec<T> {
        let inner = self.0.lock();
        let Some(table) = inner.tables.get(&kind) else { return Vec::new() };
        let rows = table.rows.range(Key::new(namespace, "")..);
        let here = rows.take_while(|(key, _)| &*key.namespace == namespace);
        here.filter_map(|(_, row)| of(row)).collect()
    }

    pub fn state(&self, kind: Kind) -> TableState {
        self.0.lock().tables.get(&kind).map(|table| table.state.clone()).unwrap_or_default()
    }

    /// Sets the objects that `follower` depends on. True if it depends on others than before.
    pub fn follow(&self, follower: &Key, objects: BTreeSet<(Kind, Key)>) -> bool {
        let mut inner = self.0.lock();
        if inner.followed.get(follower) == Some(&objects) {
            return false;
        }
        inner.forget_follower(follower);
        for object in &objects {
            inner.followers.entry(object.clone()).or_default().insert(follower.clone());
        }
        inner.followed.insert(follower.clone(), objects);
        true
    }

    /// The objects that `follower` depends on.
    pub fn followed(&self, follower: &Key) -> BTreeSet<(Kind, Key)> {
        self.0.lock().followed.get(follower).cloned().unwrap_or_default()
    }

    /// Notified when an object that `follower` depends on changes.
    pub fn wakeup(&self, follower: &Key) -> Arc<Notify> {
        Arc::clone(self.0.lock().wakeups.entry(follower.clone()).or_default())
    }

    /// Wakes a follower.
    pub fn notify(&self, follower: &Key) {
        if let Some(wakeup) = self.0.lock().wakeups.get(follower) {
            wakeup.notify_one();
        }
    }

    /// Wakes all followers.
    pub fn notify_all(&self) {
        self.0.lock().wakeups.values().for_each(|wakeup| wakeup.notify_one());
    }

    /// Forgets a follower altogether.
    pub fn leave(&self, follower: &Key) {
        let mut inner = self.0.lock();
        inner.forget_follower(follower);
        inner.wakeups.remove(follower);
    }

    /// Inserts an object from the answer to a write of ours, or to a read.
    pub fn cache_insert(&self, kind: Kind, object: Value) {
        let key = Key::of(&object);
        let row = Row::of(kind, object);
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        if !row.is_older_than(table.rows.get(&key)) && !table.has_tombstone(&key, &row) {
            if table.incoming.is_some() {
                table.fresh.insert(key.clone());
            }
            table.put(kind, key, row);
        }
    }

    /// Removes an object that we deleted. Older events with that UID do not bring it back.
    pub fn tombstone(&self, kind: Kind, key: &Key, uid: &str) {
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        if table.remove(key) {
            table.tombstones.insert(key.clone(), uid.to_owned());
        }
    }

    /// Removes an object that was deleted, or turned out not to exist.
    pub fn cache_remove(&self, kind: Kind, key: &Key) {
        self.0.lock().tables.entry(kind).or_default().remove(key);
    }

    /// Inserts an object that a watch reported. True if it changed; a heartbeat of a node is no change.
    pub(crate) fn insert_watched(&self, kind: Kind, object: Value) -> bool {
        let key = Key::of(&object);
        let row = Row::of(kind, object);
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        if row.is_older_than(table.rows.get(&key)) || table.has_tombstone(&key, &row) {
            return false;
        }
        let is_new = kind != NODE || table.rows.get(&key).is_none_or(|it| !it.is_equivalent(&row));
        table.put(kind, key.clone(), row);
        if is_new {
            inner.wake(kind, &key);
        }
        is_new
    }

    /// An object that a watch reported as deleted.
    pub(crate) fn remove_watched(&self, kind: Kind, object: &Value) {
        let key = Key::of(object);
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if table.tombstones.get(&key).is_some_and(|it| it == uid) {
            table.tombstones.remove(&key);
            // Another object may have its name by now.
            if table.rows.get(&key).is_some_and(|row| row.uid() != uid) {
                return;
            }
        }
        table.remove(&key);
        inner.wake(kind, &key);
    }

    pub(crate) fn list_begins(&self, kind: Kind) {
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        table.incoming = Some(BTreeMap::new());
        table.fresh.clear();
    }

    pub(crate) fn list_has(&self, kind: Kind, object: Value) {
        let key = Key::of(&object);
        let row = Row::of(kind, object);
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        table.incoming.get_or_insert_default().insert(key, row);
    }

    /// The list that is in progress is given up.
    pub(crate) fn list_is_dropped(&self, kind: Kind) {
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        table.incoming = None;
        table.fresh.clear();
    }

    /// Whether the list that is in progress cannot come after what is known: an object of it is older, or has another
    /// UID although a watch that has heard everything up to `heard_to` would have reported that.
    pub(crate) fn list_is_from_the_past(&self, kind: Kind, heard_to: &str) -> bool {
        let inner = self.0.lock();
        let Some(table) = inner.tables.get(&kind) else { return false };
        let incoming = table.incoming.iter().flatten();
        // The list may have been made before a write of ours.
        let mut incoming = incoming.filter(|(key, _)| !table.fresh.contains(*key));
        incoming.any(|(key, row)| {
            let Some(known) = table.rows.get(key) else { return false };
            let is_other = !row.uid().is_empty() && row.uid() != known.uid();
            row.is_older_than(Some(known)) || is_other && is_older(row.version(), heard_to)
        })
    }

    /// Whether the object is cached in this version, or in one that is newer than `heard_to`: our own writing.
    pub(crate) fn knows(&self, kind: Kind, object: Value, heard_to: &str) -> bool {
        let key = Key::of(&object);
        let row = Row::of(kind, object);
        let inner = self.0.lock();
        let known = inner.tables.get(&kind).and_then(|table| table.rows.get(&key));
        known.is_some_and(|known| {
            let is_same = known.version() == row.version() && known.uid() == row.uid();
            is_same || is_older(heard_to, known.version())
        })
    }

    /// The version of an object, whether its content is cached or only its fingerprint.
    pub(crate) fn version(&self, kind: Kind, key: &Key) -> Option<String> {
        let inner = self.0.lock();
        let row = inner.tables.get(&kind)?.rows.get(key)?;
        Some(row.version().to_owned())
    }

    /// Forgets all objects and followers.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Inner::default();
    }

    /// Removes objects that the list did not have. Returns the keys that changed.
    pub(crate) fn list_ends(&self, kind: Kind) -> Vec<Key> {
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        let incoming = table.incoming.take().unwrap_or_default();
        let is_first = mem::replace(&mut table.state, TableState::Synced) != TableState::Synced;
        let fresh = mem::take(&mut table.fresh);
        let gone: BTreeSet<Key> = table
            .rows
            .keys()
            .filter(|key| !incoming.contains_key(*key) && !fresh.contains(*key))
            .cloned()
            .collect();
        // An object that is not in the list will not be reported as deleted.
        table.tombstones.retain(|key, _| incoming.contains_key(key));
        for key in &gone {
            table.remove(key);
        }
        let mut changed = gone;
        for (key, row) in incoming {
            let known = table.rows.get(&key);
            if row.is_older_than(known) || table.has_tombstone(&key, &row) {
                continue;
            }
            if known.map(Row::version) != Some(row.version()) {
                changed.insert(key.clone());
            }
            table.put(kind, key, row);
        }
        if is_first {
            inner.wake_all(kind);
        }
        for key in &changed {
            inner.wake(kind, key);
        }
        if is_first {
            // A follower that waited for the list follows nothing in it yet.
            inner.wakeups.values().for_each(|wakeup| wakeup.notify_one());
        }
        changed.into_iter().collect()
    }

    /// A list or a watch failed; objects that were listed before stay. True if none were, and this is the first
    /// time, or for another reason than before.
    pub(crate) fn failed(&self, kind: Kind, failure: TableState) -> bool {
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        if table.state == TableState::Synced {
            return false;
        }
        let is_new = mem::discriminant(&table.state) != mem::discriminant(&failure);
        table.state = failure;
        if is_new {
            inner.wake_all(kind);
        }
        is_new
    }

    /// Empties the table of a kind that is served no longer. True if it was listed before.
    pub(crate) fn vanished(&self, kind: Kind, state: TableState) -> bool {
        let mut inner = self.0.lock();
        let table = inner.tables.entry(kind).or_default();
        if table.state != TableState::Synced {
            return false;
        }
        *table = Table { state, ..Table::default() };
        inner.wake_all(kind);
        true
    }
}

// === impl Inner ===

impl Inner {
    fn wake(&self, kind: Kind, key: &Key) {
        let followers = self.followers.get(&(kind, key.clone()));
        for follower in followers.into_iter().flatten() {
            if let Some(wakeup) = self.wakeups.get(follower) {
                wakeup.notify_one();
            }
        }
    }

    /// Wakes all that follow any object of the kind, existing or not.
    fn wake_all(&self, kind: Kind) {
        let of_kind = self.followers.iter().filter(|((followed, _), _)| *followed == kind);
        for follower in of_kind.flat_map(|(_, followers)| followers) {
            if let Some(wakeup) = self.wakeups.get(follower) {
                wakeup.notify_one();
            }
        }
    }

    fn forget_follower(&mut self, follower: &Key) {
        for object in self.followed.remove(follower).unwrap_or_default() {
            if let Some(followers) = self.followers.get_mut(&object) {
                followers.remove(follower);
                if followers.is_empty() {
                    self.followers.remove(&object);
                }
            }
        }
    }
}
