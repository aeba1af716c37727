//! Rules for every version of every object.

use std::collections::{BTreeMap, BTreeSet};

use kube_sandbox::{
    Sandbox,
    store::{Event, EventKind, TableKey},
};
use serde_json::Value;
use tidegate_tests::wire::revision;

use super::{plan::Kind, world::fields_path};

/// Reads all events in order, and keeps the state for the rules.
pub(crate) struct Checker {
    /// The last revision read of each table.
    read_to: BTreeMap<TableKey, u64>,
    uids: BTreeSet<String>,
    /// Clients that wrote to an object, by uid.
    writers: BTreeSet<(String, u8)>,
    /// The fields that each client last applied to an object, by uid.
    applied: BTreeMap<(String, u8), BTreeMap<String, String>>,
    history: Vec<u64>,
}

/// The owner of an entry: manager and operation.
type Owner = (String, String);

// === impl Checker ===

impl Checker {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        let store = &sandbox.server().store;
        let mut checker = Self {
            read_to: BTreeMap::new(),
            uids: BTreeSet::new(),
            writers: BTreeSet::new(),
            applied: BTreeMap::new(),
            history: vec![store.revision()],
        };
        for table in store.tables() {
            let (revision, objects) = store.list(&table, None);
            checker.uids.extend(objects.iter().map(|object| object.uid.to_string()));
            checker.read_to.insert(table, revision);
        }
        for kind in Kind::ALL {
            let (group, plural) = kind.table();
            let at = store.revision();
            checker.read_to.entry(TableKey::new(group, plural)).or_insert(at);
        }
        checker
    }

    /// Revisions at which objects were checked, oldest first.
    pub(crate) fn history(&self) -> &[u64] {
        &self.history
    }

    pub(crate) fn wrote(&mut self, object: &Value, client: u8) {
        self.writers.insert((uid(object), client));
    }

    pub(crate) fn applied(
        &mut self,
        object: &Value,
        client: u8,
        applied: BTreeMap<String, String>,
    ) {
        self.applied.insert((uid(object), client), applied);
    }

    /// Checks the events since the last call.
    pub(crate) fn look(&mut self, sandbox: &Sandbox) {
        let store = &sandbox.server().store;
        self.history.push(store.revision());
        for table in store.tables() {
            self.read_to.entry(table).or_insert(0);
        }
        for (table, read_to) in self.read_to.clone() {
            let (events, seen_to) = store.events_since(&table, read_to, usize::MAX).unwrap();
            let latest = events.iter().map(|event| event.revision).max();
            for event in &events {
                self.check(&table, event, Some(event.revision) == latest);
            }
            self.read_to.insert(table, seen_to);
        }
    }

    fn check(&mut self, table: &TableKey, event: &Event, is_latest: bool) {
        let new = event.object.value();
        assert_eq!(revision(&new), event.revision);
        let old = event.previous.as_ref().map(|stored| stored.value());
        match (&event.kind, &old) {
            (EventKind::Added, None) => {
                assert!(self.uids.insert(uid(&new)), "a uid came twice: {new}");
                assert!(new["metadata"]["deletionTimestamp"].is_null(), "born to die: {new}");
            }
            (EventKind::Modified, Some(old)) => {
                assert!(revision(old) < event.revision);
                for field in ["uid", "creationTimestamp", "name", "namespace"] {
                    assert_eq!(old["metadata"][field], new["metadata"][field], "{field}");
                }
                let (was, is) = (&old["metadata"], &new["metadata"]);
                assert!(
                    was["deletionTimestamp"].is_null() || !is["deletionTimestamp"].is_null(),
                    "nothing comes back: {new}"
                );
                check_generation(table, old, &new);
            }
            (EventKind::Deleted, Some(_)) => {
                // The write that takes the last finalizer off removes the object as it was stored.
                let held = new["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
                let marked = !new["metadata"]["deletionTimestamp"].is_null();
                assert!(!held || marked, "gone in spite of its finalizers: {new}");
            }
            (kind, _) => panic!("{kind:?} of {new} after {old:?}"),
        }
        let kind = Kind::ALL.into_iter().find(|kind| {
            let (group, plural) = kind.table();
            (group, plural) == (&*table.group, &*table.plural)
        });
        if let Some(kind) = kind {
            self.check_ownership(kind, &new, is_latest && event.kind != EventKind::Deleted);
        }
    }

    /// Every entry belongs to a client that wrote to the object; an applier's are as it applied them.
    fn check_ownership(&self, kind: Kind, object: &Value, is_latest: bool) {
        let entries = entries(object, kind);
        let owned = owners(object, kind);
        for name in entries.keys() {
            assert!(owned.contains_key(name), "nobody owns {name} of {object}");
        }
        for (name, owners) in &owned {
            let value = entries.get(name);
            assert!(value.is_some(), "{owners:?} own {name}, which is not there: {object}");
            for (manager, operation) in owners {
                let client = manager.strip_prefix('m').and_then(|text| text.parse::<u8>().ok());
                // The model describes the present: of older versions only the shape is checked.
                let Some(client) = client.filter(|_| is_latest) else { continue };
                assert!(self.writers.contains(&(uid(object), client)), "{manager}: {object}");
                if operation == "Apply" {
                    let applied = self.applied.get(&(uid(object), client));
                    let applied = applied.and_then(|applied| applied.get(name));
                    assert_eq!(applied, value, "{manager} applied {name} of {object}");
                }
            }
        }
    }
}

/// The generation counts changes of the spec and the deletion timestamp, nothing else.
fn check_generation(table: &TableKey, old: &Value, new: &Value) {
    let step = |object: &Value| object["metadata"]["generation"].as_i64();
    let (Some(was), Some(is)) = (step(old), step(new)) else { return };
    let differs = |path: &str| old.pointer(path) != new.pointer(path);
    let asked = match (&*table.group, &*table.plural) {
        // Annotations count when a client changes them; the controller's own, written through the
        // status, do not. From outside the two look alike.
        ("apps", "deployments") if !differs("/spec") && differs("/metadata/annotations") => {
            return assert!(is == was || is == was + 1, "deployments from {old} to {new}");
        }
        ("example.com" | "apps", _) => differs("/spec"),
        _ => return,
    };
    let marked =
        old["metadata"]["deletionTimestamp"].is_null() && differs("/metadata/deletionTimestamp");
    let want = was + i64::from(asked) + i64::from(marked);
    assert_eq!(is, want, "{} from {old} to {new}", table.plural);
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// The entries that clients write.
fn entries(object: &Value, kind: Kind) -> BTreeMap<String, String> {
    let found = object.pointer(fields_path(kind)).and_then(Value::as_object);
    let pairs = found.into_iter().flatten();
    pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// The owners of each entry, from `managedFields`.
fn owners(object: &Value, kind: Kind) -> BTreeMap<String, BTreeSet<Owner>> {
    let path = fields_path(kind).replace('/', "/f:");
    let mut owners: BTreeMap<String, BTreeSet<Owner>> = BTreeMap::new();
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        let fields = entry["fieldsV1"].pointer(&path).and_then(Value::as_object);
        for name in fields.into_iter().flatten().filter_map(|(name, _)| name.strip_prefix("f:")) {
            let owner = (text("manager"), text("operation"));
            owners.entry(name.to_owned()).or_default().insert(owner);
        }
    }
    owners
}

/// Whether applying these entries as `client` would change a field of another owner.
pub(crate) fn contested(
    object: &Value,
    kind: Kind,
    client: u8,
    applied: &BTreeMap<String, String>,
) -> bool {
    let me = (format!("m{client}"), "Apply".to_owned());
    let (entries, owners) = (entries(object, kind), owners(object, kind));
    applied.iter().any(|(name, value)| {
        let differs = entries.get(name).is_some_and(|have| have != value);
        differs && owners.get(name).is_some_and(|owners| owners.iter().any(|owner| *owner != me))
    })
}

/// At rest, every object with owners has one that exists, or waits for a finalizer.
pub(crate) fn nothing_is_left_without_an_owner(sandbox: &Sandbox) {
    let store = &sandbox.server().store;
    for table in store.tables() {
        for object in store.list(&table, None).1 {
            if object.owners.is_empty() {
                continue;
            }
            let has_owner = object.owners.iter().any(|owner| store.by_uid(&owner.uid).is_some());
            let object = object.value();
            let waits = !object["metadata"]["deletionTimestamp"].is_null()
                && object["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
            assert!(has_owner || waits, "left behind: {object}");
        }
    }
}

/// Without finalizers, no object is half deleted.
pub(crate) fn nothing_is_left_half_deleted(sandbox: &Sandbox) {
    let store = &sandbox.server().store;
    for table in store.tables() {
        for object in store.list(&table, None).1 {
            let object = object.value();
            assert!(object["metadata"]["deletionTimestamp"].is_null(), "stuck: {object}");
        }
    }
}
