//! What is known of the cluster: trimmed objects, fed by watches and by our own writes.
//!
//! A read never asks the API server. What we write is put here at once, so that a decision sees what
//! the one before it did; an event that is older than that is ignored. Configuration is kept
//! as fingerprints: their contents are dropped on arrival.
//!
//! Whoever depends on an object says so ([`Cache::follow`]) and is woken when it changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Map, Value, json};
use tidegate_providers::{
    game::{self, CONTROLLER_REVISION, GAME_DEPLOYMENT, GAME_STATEFUL_SET, NODE, POD},
    object::Kind,
    workload::{
        CONFIG_MAP, DAEMON_SET, DEPLOYMENT, SECRET, WorkloadKind,
        config::{ConfigDigest, ConfigKind},
    },
};
use tokio::sync::Notify;

use super::write::FIELD_MANAGER;

/// Kinds of which a workload has a few among many.
const INDEXED: [Kind; 2] = [POD, CONTROLLER_REVISION];

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// Shared knowledge of the cluster.
#[derive(Default)]
pub struct Cache(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    tables: BTreeMap<Kind, Table>,
    followers: BTreeMap<(Kind, Key), BTreeSet<Key>>,
    followed: BTreeMap<Key, BTreeSet<(Kind, Key)>>,
    bells: BTreeMap<Key, Arc<Notify>>,
}

/// All objects of one kind.
#[derive(Default)]
struct Table {
    state: TableState,
    rows: BTreeMap<Key, Row>,
    /// Names of rows by namespace and the identity of their controller, which is empty for those that have
    /// none. Only for kinds that are asked for by it.
    controlled: BTreeMap<(Arc<str>, String), BTreeSet<Key>>,
    /// Rows of a list that is under way.
    incoming: Option<BTreeMap<Key, Row>>,
    /// What we wrote since that list began: it may not have them yet.
    fresh: BTreeSet<Key>,
    /// Identities of objects we deleted, until the watch says so too: what it still says of them is old.
    buried: BTreeMap<Key, String>,
}

/// Whether a table can be trusted to be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TableState {
    /// Not listed yet.
    #[default]
    Pending,
    /// Listed at least once; kept up to date by a watch.
    Synced,
    /// The cluster has no such kind, or has it no longer; and that in a sentence. There are none.
    NotServed(String),
    /// Never listed, because that failed in another way. There may be some.
    Failed(String),
}

#[derive(Clone)]
enum Row {
    Object(Arc<Value>),
    Digest(Arc<ConfigDigest>),
}

// === impl TableState ===

impl TableState {
    /// Why nothing was ever listed, if that was tried.
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

    /// Where a canary of this namespace finds an object of a kind that may have no namespace.
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
        match self.inner().tables.get(&kind)?.rows.get(key)? {
            Row::Object(object) => Some(Arc::clone(object)),
            Row::Digest(_) => None,
        }
    }

    /// The fingerprint of a ConfigMap or Secret.
    pub fn digest(&self, kind: ConfigKind, key: &Key) -> Option<Arc<ConfigDigest>> {
        match self.inner().tables.get(&kind.kind())?.rows.get(key)? {
            Row::Digest(digest) => Some(Arc::clone(digest)),
            Row::Object(_) => None,
        }
    }

    /// All objects of a kind, sorted by namespace and name.
    pub fn list(&self, kind: Kind) -> Vec<Arc<Value>> {
        let inner = self.inner();
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
        let inner = self.inner();
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
        let inner = self.inner();
        let Some(table) = inner.tables.get(&kind) else { return Vec::new() };
        let rows = table.rows.range(Key::new(namespace, "")..);
        let here = rows.take_while(|(key, _)| &*key.namespace == namespace);
        here.filter_map(|(_, row)| of(row)).collect()
    }

    pub fn state(&self, kind: Kind) -> TableState {
        self.inner().tables.get(&kind).map(|table| table.state.clone()).unwrap_or_default()
    }

    /// Says what `follower` depends on; replaces what it said before.
    pub fn follow(&self, follower: &Key, objects: BTreeSet<(Kind, Key)>) {
        let mut inner = self.inner();
        if inner.followed.get(follower) == Some(&objects) {
            return;
        }
        inner.forget_follower(follower);
        for object in &objects {
            inner.followers.entry(object.clone()).or_default().insert(follower.clone());
        }
        inner.followed.insert(follower.clone(), objects);
    }

    /// What `follower` depends on.
    pub fn followed(&self, follower: &Key) -> BTreeSet<(Kind, Key)> {
        self.inner().followed.get(follower).cloned().unwrap_or_default()
    }

    /// The bell that is rung when something `follower` depends on changes.
    pub fn bell(&self, follower: &Key) -> Arc<Notify> {
        Arc::clone(self.inner().bells.entry(follower.clone()).or_default())
    }

    /// Wakes a follower.
    pub fn ring(&self, follower: &Key) {
        if let Some(bell) = self.inner().bells.get(follower) {
            bell.notify_one();
        }
    }

    /// Wakes everybody.
    pub fn ring_all(&self) {
        self.inner().bells.values().for_each(|bell| bell.notify_one());
    }

    /// Forgets a follower altogether.
    pub fn leave(&self, follower: &Key) {
        let mut inner = self.inner();
        inner.forget_follower(follower);
        inner.bells.remove(follower);
    }

    /// An object as the API server answered a write of ours, or a read.
    pub fn learn(&self, kind: Kind, object: Value) {
        let key = Key::of(&object);
        let row = Row::of(kind, object);
        let mut inner = self.inner();
        let table = inner.tables.entry(kind).or_default();
        if !is_older(&row, table.rows.get(&key)) && !table.is_buried(&key, &row) {
            if table.incoming.is_some() {
                table.fresh.insert(key.clone());
            }
            table.put(kind, key, row);
        }
    }

    /// An object of that identity that we deleted: nothing older brings it back.
    pub fn bury(&self, kind: Kind, key: &Key, uid: &str) {
        let mut inner = self.inner();
        let table = inner.tables.entry(kind).or_default();
        if table.remove(key) {
            table.buried.insert(key.clone(), uid.to_owned());
        }
    }

    /// An object that was deleted, or turned out not to exist.
    pub fn unlearn(&self, kind: Kind, key: &Key) {
        self.inner().tables.entry(kind).or_default().remove(key);
    }

    /// An object that a watch reported. True if that was news; a heartbeat of a node is none.
    pub(crate) fn observe(&self, kind: Kind, object: Value) -> bool {
        let key = Key::of(&object);
        let row = Row::of(kind, object);
        let mut inner = self.inner();
        let table = inner.tables.entry(kind).or_default();
        if is_older(&row, table.rows.get(&key)) || table.is_buried(&key, &row) {
            return false;
        }
        let is_news = kind != NODE || table.rows.get(&key).is_none_or(|it| !it.says_the_same(&row));
        table.put(kind, key.clone(), row);
        if is_news {
            inner.wake(kind, &key);
        }
        is_news
    }

    /// An object that a watch reported as deleted.
    pub(crate) fn observe_deleted(&self, kind: Kind, object: &Value) {
        let key = Key::of(object);
        let mut inner = self.inner();
        let table = inner.tables.entry(kind).or_default();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if table.buried.get(&key).is_some_and(|buried| buried == uid) {
            table.buried.remove(&key);
            // Another one may have taken its name.
            if table.rows.get(&key).is_some_and(|row| row.uid() != uid) {
                return;
            }
        }
        table.remove(&key);
        inner.wake(kind, &key);
    }

    pub(crate) fn list_begins(&self, kind: Kind) {
        let mut inner = self.inner();
        let table = inner.tables.entry(kind).or_default();
        table.incoming = Some(BTreeMap::new());
        table.fresh.clear();
    }

    pub(crate) fn list_has(&self, kind: Kind, object: Value) {
        let key = Key::of(&object);
        let row = Row::of(kind, object);
        let mut inner = self.inner();
        let table = inner.tables.entry(kind).or_default();
        table.incoming.get_or_insert_default().insert(key, row);
    }

    /// What the list did not have is gone; what differs is news.
    pub(crate) fn list_ends(&self, kind: Kind) -> Vec<Key> {
        let mut inner = self.inner();
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
        // What the list does not have any more will not be reported as deleted.
        table.buried.retain(|key, _| incoming.contains_key(key));
        for key in &gone {
            table.remove(key);
        }
        let mut changed = gone;
        for (key, row) in incoming {
            let known = table.rows.get(&key);
            if is_older(&row, known) || table.is_buried(&key, &row) {
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
            // Whoever waited for the list follows nothing in it yet.
            inner.bells.values().for_each(|bell| bell.notify_one());
        }
        changed.into_iter().collect()
    }

    /// A list or a watch failed; what was listed before stays what is known. True if nothing was, and this is
    /// the first time, or for another reason than before.
    pub(crate) fn failed(&self, kind: Kind, failure: TableState) -> bool {
        let mut inner = self.inner();
        let table = inner.tables.entry(kind).or_default();
        if table.state == TableState::Synced {
            return false;
        }
        let is_news = mem::discriminant(&table.state) != mem::discriminant(&failure);
        table.state = failure;
        if is_news {
            inner.wake_all(kind);
        }
        is_news
    }

    /// A kind that was listed is served no longer: nothing of it is left. True if that is news.
    pub(crate) fn vanished(&self, kind: Kind, state: TableState) -> bool {
        let mut inner = self.inner();
        let table = inner.tables.entry(kind).or_default();
        if table.state != TableState::Synced {
            return false;
        }
        *table = Table { state, ..Table::default() };
        inner.wake_all(kind);
        true
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    fn wake(&self, kind: Kind, key: &Key) {
        let followers = self.followers.get(&(kind, key.clone()));
        for follower in followers.into_iter().flatten() {
            if let Some(bell) = self.bells.get(follower) {
                bell.notify_one();
            }
        }
    }

    /// Wakes everybody who depends on any object of the kind, there or not.
    fn wake_all(&self, kind: Kind) {
        let of_kind = self.followers.iter().filter(|((followed, _), _)| *followed == kind);
        for follower in of_kind.flat_map(|(_, followers)| followers) {
            if let Some(bell) = self.bells.get(follower) {
                bell.notify_one();
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

// === impl Table ===

impl Table {
    fn put(&mut self, kind: Kind, key: Key, row: Row) {
        self.remove(&key);
        if INDEXED.contains(&kind) {
            let controller = (Arc::clone(&key.namespace), row.controller().to_owned());
            self.controlled.entry(controller).or_default().insert(key.clone());
        }
        self.rows.insert(key, row);
    }

    /// Whether there was one.
    fn remove(&mut self, key: &Key) -> bool {
        let Some(row) = self.rows.remove(key) else { return false };
        let controller = (Arc::clone(&key.namespace), row.controller().to_owned());
        if let Some(keys) = self.controlled.get_mut(&controller) {
            keys.remove(key);
            if keys.is_empty() {
                self.controlled.remove(&controller);
            }
        }
        true
    }

    fn is_buried(&self, key: &Key, row: &Row) -> bool {
        self.buried.get(key).is_some_and(|uid| uid == row.uid())
    }
}

// === impl Row ===

impl Row {
    /// Keeps what somebody reads, drops the rest.
    fn of(kind: Kind, mut object: Value) -> Self {
        if kind == CONFIG_MAP {
            return Self::Digest(Arc::new(ConfigDigest::of(ConfigKind::ConfigMap, &object)));
        }
        if kind == SECRET {
            return Self::Digest(Arc::new(ConfigDigest::of(ConfigKind::Secret, &object)));
        }
        if kind == DEPLOYMENT {
            return Self::Object(Arc::new(WorkloadKind::Deployment.trim(object)));
        }
        if kind == DAEMON_SET {
            return Self::Object(Arc::new(WorkloadKind::DaemonSet.trim(object)));
        }
        if kind == POD {
            return Self::Object(Arc::new(game::pod::trim(object)));
        }
        if kind == NODE {
            return Self::Object(Arc::new(game::pod::trim_node(&object)));
        }
        if kind == GAME_DEPLOYMENT || kind == GAME_STATEFUL_SET {
            let is_ours = game::plan::is_paused_by(FIELD_MANAGER, &object);
            object[game::plan::PAUSED_BY_US] = is_ours.into();
        }
        let ours = applied_keys(&object["metadata"]["managedFields"]);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            metadata.extend(ours.map(|ours| ("managedFields".to_owned(), ours)));
        }
        Self::Object(Arc::new(object))
    }

    /// Which of all objects that ever had its name; nothing where only a fingerprint is kept.
    fn uid(&self) -> &str {
        match self {
            Self::Object(object) => object["metadata"]["uid"].as_str().unwrap_or_default(),
            Self::Digest(_) => "",
        }
    }

    /// The identity of what controls it.
    fn controller(&self) -> &str {
        let Self::Object(object) = self else { return "" };
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let controller = owners.into_iter().find(|owner| owner["controller"] == true);
        controller.and_then(|owner| owner["uid"].as_str()).unwrap_or_default()
    }

    /// Whether it is as the other one in all but its version.
    fn says_the_same(&self, other: &Self) -> bool {
        let (Self::Object(one), Self::Object(other)) = (self, other) else { return false };
        let mut metadata = ["uid", "annotations"].into_iter();
        metadata.all(|field| one["metadata"][field] == other["metadata"][field])
            && one["status"] == other["status"]
    }

    fn version(&self) -> &str {
        match self {
            Self::Object(object) => {
                object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
            }
            Self::Digest(digest) => &digest.resource_version,
        }
    }
}

/// Which labels and annotations we applied, in the same form: the rest of who wrote what is of no use.
fn applied_keys(managers: &Value) -> Option<Value> {
    let managers = managers.as_array()?.iter();
    let mut ours =
        managers.filter(|it| it["manager"] == FIELD_MANAGER && it["operation"] == "Apply");
    let metadata = ours.find_map(|it| it["fieldsV1"]["f:metadata"].as_object())?;
    let keys = ["f:labels", "f:annotations"].into_iter();
    let keys: Map<_, _> =
        keys.filter_map(|key| Some((key.to_owned(), metadata.get(key)?.clone()))).collect();
    if keys.is_empty() {
        return None;
    }
    let fields = json!({ "f:metadata": keys });
    Some(json!([{ "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields }]))
}

/// Whether `row` was made before `known`. Versions are numbers; where they are not, the newcomer wins.
fn is_older(row: &Row, known: Option<&Row>) -> bool {
    let number = |row: &Row| row.version().parse::<u64>().ok();
    match known.map(|known| (number(row), number(known))) {
        Some((Some(new), Some(known))) => new < known,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: u32, controller: Option<&str>) -> Value {
        let owners: Vec<Value> =
            controller.map(|uid| json!({ "uid": uid, "controller": true })).into_iter().collect();
        json!({ "metadata": {
            "namespace": "default", "name": name, "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(), "ownerReferences": owners,
        } })
    }

    fn controlled(cache: &Cache, uid: &str) -> Vec<String> {
        let found = cache.list_controlled(POD, "default", uid);
        let mut names: Vec<String> = found.iter().map(|it| Key::of(it).name.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_controlled_is_found_however_it_came_and_went() {
        let cache = Cache::default();
        cache.list_begins(POD);
        for object in [pod("a", 1, Some("x")), pod("b", 1, Some("y")), pod("c", 1, None)] {
            cache.list_has(POD, object);
        }
        cache.list_ends(POD);
        assert_eq!(controlled(&cache, "x"), ["a", "c"], "its own, and nobody's");
        cache.observe(POD, pod("c", 2, Some("x")));
        assert_eq!(controlled(&cache, "x"), ["a", "c"], "taken in");
        assert_eq!(controlled(&cache, "y"), ["b"]);
        cache.learn(POD, pod("a", 3, Some("y")));
        assert_eq!(controlled(&cache, "y"), ["a", "b"], "handed over");
        cache.bury(POD, &Key::new("default", "a"), "uid-a");
        cache.observe_deleted(POD, &pod("b", 4, Some("y")));
        assert_eq!(controlled(&cache, "y"), Vec::<String>::new());
        cache.list_begins(POD);
        cache.list_ends(POD);
        assert_eq!(controlled(&cache, "x"), Vec::<String>::new(), "what a list does not have");
    }

    #[test]
    fn a_heartbeat_of_a_node_is_no_news_and_what_is_read_of_it_is() {
        let node = |version: u32, beat: &str, address: &str, ready: &str| {
            json!({
                "metadata": { "name": "a", "uid": "a", "resourceVersion": version.to_string() },
                "status": {
                    "addresses": [{ "type": "InternalIP", "address": address }],
                    "conditions": [{ "type": "Ready", "status": ready, "lastHeartbeatTime": beat }],
                },
            })
        };
        let cache = Cache::default();
        assert!(cache.observe(NODE, node(1, "1", "10.0.0.1", "True")));
        assert!(!cache.observe(NODE, node(2, "2", "10.0.0.1", "True")), "a heartbeat");
        let known = cache.get(NODE, &Key::new("", "a")).unwrap();
        assert_eq!(known["metadata"]["resourceVersion"], "2", "it is taken all the same");
        assert!(cache.observe(NODE, node(3, "3", "10.0.0.2", "True")), "another address");
        assert!(cache.observe(NODE, node(4, "4", "10.0.0.2", "False")), "not ready");
    }
}
