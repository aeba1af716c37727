//! Who owns which field, and server-side apply.
//!
//! Every write names a manager. [`on_update`] follows what ordinary writes (create, update, patch)
//! change: the writer owns it from then on, and nobody else does. [`apply`] merges a manager's whole
//! opinion into the object: what it stops mentioning goes, unless others own it too, and what others
//! own and it wants otherwise is a conflict, unless forced.
//!
//! ```text
//! element  one step of a path         apply     a configuration into an object
//! fields   sets of paths, fieldsV1    check     what a configuration must be
//! entries  metadata.managedFields     merge     the merging of values
//! typed    which fields a value has,  conflict  what a refused applier is told
//!          and what changed           last_applied  kubectl's way from client-side apply
//! ```
//!
//! Nothing here fails on what is stored: fields too deep or without identity are not tracked.

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

/// Fields the server sets, or that identify the object: nobody owns them.
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

/// A write: by whom, as what, when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    pub manager: &'a str,
    /// `apps/v1`, as the request's path has it.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub now: Timestamp,
    /// Fields this write cannot change, whatever it says: `status` for an object that has it as a
    /// subresource, and for that subresource everything else. Everything below of them included.
    pub reset: &'a FieldSet,
    /// What objects of the kind have even when nothing is in them: nobody owns that.
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
    // Whoever cleared the list did not want one; it comes back with the first apply.
    if exists && managed.is_empty() {
        return;
    }
    // Where items cannot be told apart nothing can be said about owners, and nothing is.
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

/// The entries in an order that does not depend on their times, which are left out.
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

/// The owners before a write: as the client sent them, if that is a list of owners, else as stored.
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

/// `[]` and `[{}]` ask to forget all owners.
fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Gives what changed from `live` to `new` to the writer, and takes it from all others.
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
    // What is written through a Scale is noted on the workload without a time.
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
