//! Fills in defaults, and drops nulls that prevent them.

use serde_json::Value;

use super::{Additional, Schema, prune, validate};
use crate::failure::FieldError;

/// Removes nulls from objects where the schema neither allows null nor has a default.
pub(super) fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, value| match schema.child(name) {
            Some(child) if value.is_null() => child.nullable || child.default.is_some(),
            Some(child) => {
                drop_nulls(child, value);
                true
            }
            None => true,
        }),
        Value::Array(list) => {
            let Some(items) = schema.items.as_deref() else { return };
            for item in list {
                drop_nulls(items, item);
            }
        }
        _ => {}
    }
}

/// Sets absent fields, and nulls that are not allowed, to their defaults; outer ones first, so that
/// a default object is completed by the defaults inside it.
pub(super) fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                match map.get_mut(name) {
                    None => {
                        map.insert(name.clone(), default.clone());
                    }
                    Some(present) => replace_null(property, present),
                }
            }
            for (name, value) in map {
                if let Some(property) = schema.properties.get(name) {
                    fill(property, value);
                } else if let Additional::Each(each) = &schema.additional {
                    replace_null(each, value);
                    fill(each, value);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = schema.items.as_deref() else { return };
            for item in list {
                replace_null(items, item);
                fill(items, item);
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

impl Schema {
    /// Defaults must be valid themselves and have no unknown fields.
    pub(super) fn check_defaults(&self, path: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_defaults(self, path, &mut errors);
        errors
    }
}

fn check_defaults(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let path = format!("{path}.default");
        let mut pruned = default.clone();
        if !prune::prune_value(schema, &mut pruned).is_empty() {
            errors.push(FieldError::invalid(&path, default, "must not have unknown fields"));
        }
        let found = validate::validate(schema, default, None, &path);
        if found.is_empty() && schema.below.rules {
            errors.extend(super::rules::evaluate_at(schema, default, &path));
        }
        errors.extend(found);
    }
    if let Some(items) = &schema.items {
        check_defaults(items, &format!("{path}.items"), errors);
    }
    for (name, property) in &schema.properties {
        check_defaults(property, &format!("{path}.properties[{name}]"), errors);
    }
}
