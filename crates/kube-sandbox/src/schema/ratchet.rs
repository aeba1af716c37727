//! Correlates the values of two versions of an object, and compares them.
//!
//! Errors are tolerated in parts that an update leaves unchanged, and transition rules compare a
//! value with its predecessor. The predecessor is found by name in objects and maps, by key in
//! lists of type `map`, and not at all in other lists.

use serde_json::Value;

use super::Schema;
use crate::shape::ListKind;

/// A value's predecessor, with the structural schema of both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Correlated<'a> {
    pub(super) schema: &'a Schema,
    pub(super) old: &'a Value,
}

impl Correlated<'_> {
    pub(super) fn field(self, name: &str) -> Option<Self> {
        Some(Self { schema: self.schema.child(name)?, old: self.old.get(name)? })
    }

    /// The predecessor of a list item: the old item with the same keys.
    pub(super) fn item(self, item: &Value) -> Option<Self> {
        let old = old_item(self.schema, self.old, item)?;
        Some(Self { schema: self.schema.items.as_deref()?, old })
    }

    pub(super) fn is_unchanged(self, new: &Value) -> bool {
        unchanged(self, new)
    }
}

/// The old item with the keys of `item`; only lists of type `map` have one.
pub(super) fn old_item<'a>(schema: &Schema, old: &'a Value, item: &Value) -> Option<&'a Value> {
    let Some(ListKind::Map(keys)) = &schema.list.kind else { return None };
    let is_scalar = |value: &Value| !value.is_null() && !value.is_object() && !value.is_array();
    // An item that lacks a key has no predecessor.
    if !keys.iter().all(|key| item.get(key).is_some_and(is_scalar)) {
        return None;
    }
    let same = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
    old.as_array()?.iter().find(same)
}

/// Equality for ratcheting: lists of type `map` may be reordered, and an object with a field
/// outside the schema never counts as unchanged.
fn unchanged(correlated: Correlated<'_>, new: &Value) -> bool {
    match (new, correlated.old) {
        (Value::Array(new_items), Value::Array(old_items)) => {
            if !matches!(correlated.schema.list.kind, Some(ListKind::Map(_))) {
                return new_items == old_items;
            }
            new_items.len() == old_items.len()
                && new_items.iter().all(|item| {
                    correlated.item(item).is_some_and(|correlated| unchanged(correlated, item))
                })
        }
        (Value::Object(new_map), Value::Object(old_map)) => {
            new_map.len() == old_map.len()
                && new_map.iter().all(|(name, value)| {
                    correlated.field(name).is_some_and(|correlated| unchanged(correlated, value))
                })
        }
        (new, old) => new == old,
    }
}
