//! Removes fields that a schema does not declare.
//!
//! Called on every write of a custom resource and on its defaults, before validation. Returns the
//! removed paths, for strict field validation.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Additional, Schema};

/// Prunes a whole object, in which `apiVersion`, `kind` and `metadata` are always known.
pub(super) fn prune_root(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut walk = Walk::default();
    walk.prune(Some(schema), object, true);
    walk.unknown.sort();
    walk.unknown
}

/// Prunes a value inside an object.
pub(super) fn prune_value(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut walk = Walk::default();
    walk.prune(Some(schema), value, false);
    walk.unknown
}

#[derive(Default)]
struct Walk {
    /// The path of the current value; extended and truncated instead of copied.
    path: String,
    unknown: Vec<String>,
}

fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

impl Walk {
    fn prune(&mut self, schema: Option<&Schema>, value: &mut Value, is_root: bool) {
        match value {
            Value::Object(map) => map.retain(|name, value| {
                let mark = self.push_key(name);
                let keep = self.prune_member(schema, name, value, is_root);
                self.path.truncate(mark);
                keep
            }),
            Value::Array(list) => {
                let preserves = schema.is_some_and(|schema| schema.preserves_unknown);
                let items = schema.and_then(|schema| schema.items.as_deref());
                // A list inside a preserved value is preserved unless a schema describes its items.
                if preserves && items.is_none() {
                    return;
                }
                for (index, item) in list.iter_mut().enumerate() {
                    let mark = self.path.len();
                    let _ = write!(self.path, "[{index}]");
                    if preserves {
                        self.prune_preserved(items, item);
                    } else {
                        self.prune(items, item, false);
                    }
                    self.path.truncate(mark);
                }
            }
            _ => {}
        }
    }

    /// Whether to keep the member; prunes a kept one.
    fn prune_member(
        &mut self,
        schema: Option<&Schema>,
        name: &str,
        value: &mut Value,
        is_root: bool,
    ) -> bool {
        let Some(schema) = schema else {
            self.unknown.push(self.path.clone());
            return false;
        };
        if (is_root || schema.embedded) && is_meta_field(name) {
            return true;
        }
        match (schema.properties.get(name), &schema.additional) {
            (Some(property), _) => self.prune(Some(property), value, false),
            (None, Additional::Each(each)) => self.prune(Some(each), value, false),
            (None, Additional::Unset) if schema.preserves_unknown => {}
            // As in Kubernetes: `additionalProperties: true` keeps members, but not their contents.
            (None, Additional::Allowed(_)) => self.prune(None, value, false),
            (None, Additional::Unset) => {
                self.unknown.push(self.path.clone());
                return false;
            }
        }
        true
    }

    /// Prunes declared members of a preserved item, and keeps the others.
    fn prune_preserved(&mut self, schema: Option<&Schema>, value: &mut Value) {
        let Some(schema) = schema else { return };
        match value {
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    if schema.embedded && is_meta_field(name) {
                        continue;
                    }
                    let Some(child) = schema.child(name) else { continue };
                    let mark = self.push_key(name);
                    self.prune(Some(child), value, false);
                    self.path.truncate(mark);
                }
            }
            Value::Array(list) => {
                for (index, item) in list.iter_mut().enumerate() {
                    let mark = self.path.len();
                    let _ = write!(self.path, "[{index}]");
                    self.prune_preserved(schema.items.as_deref(), item);
                    self.path.truncate(mark);
                }
            }
            _ => {}
        }
    }

    fn push_key(&mut self, name: &str) -> usize {
        let mark = self.path.len();
        if mark > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        mark
    }
}
