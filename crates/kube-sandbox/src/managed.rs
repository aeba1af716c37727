//! Field ownership (`metadata.managedFields`) and server-side apply.
//!
//! Every write names a manager. [`on_update`] records the changes of ordinary writes (create,
//! update, patch): the writer becomes the only owner of changed fields. [`apply`] merges a
//! manager's full configuration into the object: a field that the manager no longer applies is
//! removed, unless it has other owners, and a different value for a field with another owner is a
//! conflict, unless forced. The server calls both before it stores an object.
//!
//! ```text
//! element  one step of a path         apply         a configuration into an object
//! fields   sets of paths, fieldsV1    check         valid configurations
//! entries  metadata.managedFields     merge         the merging of values
//! typed    the fields of a value,     conflict      errors for a refused apply
//!          and changes between two    last_applied  migration from kubectl's client-side apply
//! ```
//!
//! Stored objects never cause errors here: fields that are too deep or have no identity are not
//! tracked.

mod apply;
mod check;
mod conflict;
mod element;
mod entries;
mod fields;
mod last_applied;
mod merge;
#[cfg(test)]
mod tests;
mod typed;

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub(crate) use self::{
    apply::apply,
    entries::{Entry, ManagedFields, Operation, Owner},
    fields::FieldSet,
    typed::{Comparison, compare, fields_of},
};
use crate::shape::Shape;

/// Fields without owners: the server sets them, or they identify the object.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});

/// Manager, version and time of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    pub manager: &'a str,
    /// The API version in the request's path, such as `apps/v1`.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub now: Timestamp,
    /// Fields that this write cannot change: `status` for an object with a status subresource, and
    /// everything else for that subresource. Includes everything below them.
    pub reset: &'a FieldSet,
    /// Fields that objects of the kind always have, which get no owner.
    pub empty: Option<&'a Value>,
}

/// Updates `metadata.managedFields` of `new`, which a create, update or patch is about to store.
///
/// `live` is what is stored now, `None` on creation.
pub(crate) fn on_update<S: Shape>(
    live: Option<&Value>,
    new: &mut Value,
    shape: &S,
    write: &Write<'_>,
) {
    let Some(Value::Object(metadata)) = new.get_mut("metadata") else { return };
    let sent = metadata.remove("managedFields");
    let mut managed = known_owners(live, sent.as_ref(), write.subresource);
    let exists = live.is_some_and(|live| live.pointer("/metadata/uid").is_some());
    // An existing object with a cleared list is not tracked until the next apply.
    if exists && managed.is_empty() {
        return;
    }
    // Items without identity cannot have owners, so nothing is tracked.
    if check::has_nameless_item(new, shape) {
        return;
    }
    track(&mut managed, live.or(write.empty), new, shape, write);
    managed.forget_ancient();
    set_managed(new, managed.encode());
}

/// True when `new` says nothing that `live` does not, but for times in `managedFields`: then there
/// is nothing to store.
pub(crate) fn is_same_but_for_times(live: &Value, new: &Value) -> bool {
    let (Some(live_members), Some(new_members)) = (live.as_object(), new.as_object()) else {
        return live == new;
    };
    let (Some(Value::Object(live_meta)), Some(Value::Object(new_meta))) =
        (live_members.get("metadata"), new_members.get("metadata"))
    else {
        return live == new;
    };
    others(live_members, "metadata").eq(others(new_members, "metadata"))
        && others(live_meta, "managedFields").eq(others(new_meta, "managedFields"))
        && without_times(live_meta) == without_times(new_meta)
}

fn others<'a>(
    members: &'a Map<String, Value>,
    but: &'a str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    members.iter().filter(move |(name, _)| *name != but)
}

/// The entries without times, in an order that does not depend on them.
fn without_times(metadata: &Map<String, Value>) -> Option<Vec<Value>> {
    let mut entries = metadata.get("managedFields")?.as_array()?.clone();
    for entry in &mut entries {
        if let Value::Object(entry) = entry {
            entry.remove("time");
        }
    }
    entries.sort_by_cached_key(Value::to_string);
    Some(entries)
}

/// The owners before a write: those that the client sent, if valid, else the stored ones.
fn known_owners(live: Option<&Value>, sent: Option<&Value>, subresource: &str) -> ManagedFields {
    if subresource.is_empty() {
        if sent.is_some_and(is_reset) {
            return ManagedFields::default();
        }
        if let Ok(sent) = ManagedFields::decode(sent)
            && !sent.is_empty()
        {
            return sent;
        }
    }
    let stored = live.and_then(|live| live.pointer("/metadata/managedFields"));
    ManagedFields::decode(stored).unwrap_or_default()
}

/// `[]` and `[{}]` clear all owners.
fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Records the changes from `live` to `new` for the writer, and removes them from other owners.
fn track<S: Shape>(
    managed: &mut ManagedFields,
    live: Option<&Value>,
    new: &Value,
    shape: &S,
    write: &Write<'_>,
) {
    let Comparison { added, modified, removed } = changes(live, new, shape, write);
    let mut changed = added.union(modified);
    managed.disown(&changed);
    managed.disown(&removed);
    changed.subtract(&UNOWNED);
    if changed.is_empty() {
        return;
    }
    let owner = write.owner(Operation::Update);
    let fields = match managed.take(&owner) {
        Some(previous) => changed.union(previous.fields),
        None => changed,
    };
    let api_version = write.api_version.to_owned();
    // A write through a Scale is recorded on the workload without a time.
    let time = (write.subresource != "scale").then_some(write.now);
    managed.put(Entry { owner, api_version, time, fields });
}

fn changes<S: Shape>(
    live: Option<&Value>,
    new: &Value,
    shape: &S,
    write: &Write<'_>,
) -> Comparison {
    let mut changes = compare(live, new, shape);
    for fields in [&mut changes.added, &mut changes.modified, &mut changes.removed] {
        fields.subtract_deep(write.reset);
    }
    changes
}

fn set_managed(object: &mut Value, list: Option<Value>) {
    let Value::Object(members) = object else { return };
    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        match list {
            Some(list) => metadata.insert("managedFields".to_owned(), list),
            None => metadata.remove("managedFields"),
        };
    }
}

// === impl Write ===

impl Write<'_> {
    fn owner(&self, operation: Operation) -> Owner {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        Owner::new(manager, operation, self.api_version, self.subresource)
    }
}
