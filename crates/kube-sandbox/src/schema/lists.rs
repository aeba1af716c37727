//! Uniqueness of items in lists of type `set` and `map`.
//!
//! Called after OpenAPI validation, as part of the structural checks.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Schema, path::Path, validate};
use crate::{failure::FieldError, shape::ListKind};

pub(super) fn validate(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, &Path::Root, &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !schema.below.keyed_lists {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(property) = schema.properties.get(name) {
                    walk(property, value, &path.field(name), errors);
                } else if let Some(each) = schema.child(name) {
                    walk(each, value, &path.key(name), errors);
                }
            }
        }
        Value::Array(list) => {
            check_list(schema, list, path, errors);
            if let Some(items) = schema.items.as_deref() {
                for (index, item) in list.iter().enumerate() {
                    walk(items, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_list(schema: &Schema, list: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let identities: Vec<Value> = match &schema.list.kind {
        Some(ListKind::Set) => list.to_vec(),
        Some(ListKind::Map(keys)) => {
            let stray = list.iter().position(|item| !item.is_object() && !item.is_null());
            if let Some((index, item)) = stray.and_then(|index| Some((index, list.get(index)?))) {
                let detail = "must be an object for an array of list-type map";
                let mut error = FieldError::invalid(path.index(index).bracketed(), item, detail);
                error.shown = validate::shown(item);
                errors.push(error);
                return;
            }
            list.iter().map(|item| keys_of(item, keys)).collect()
        }
        Some(ListKind::Atomic) | None => return,
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, identity) in identities.iter().enumerate() {
        let times = seen.entry(identity.to_string()).or_default();
        *times += 1;
        // Reported once, at the first repetition.
        if *times == 2 {
            let mut error = FieldError::duplicate(path.index(index).bracketed(), identity);
            error.shown = validate::shown(identity);
            errors.push(error);
        }
    }
}

/// The keys of an item; an absent key is a distinct value.
fn keys_of(item: &Value, keys: &[String]) -> Value {
    let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(present.collect::<Map<_, _>>())
}
