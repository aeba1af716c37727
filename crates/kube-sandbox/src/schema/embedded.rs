//! Validation of embedded resources: they need an `apiVersion` and a `kind`.

use serde_json::Value;

use super::{Schema, path::Path};
use crate::failure::FieldError;

pub(super) fn validate(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, &Path::Root, true, &mut errors);
    errors
}

fn walk(
    schema: &Schema,
    value: &Value,
    path: &Path<'_>,
    is_root: bool,
    errors: &mut Vec<FieldError>,
) {
    if !schema.below.embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            // The server checks the root's own against the request.
            if schema.embedded && !is_root {
                for name in ["apiVersion", "kind"] {
                    if map.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                        let path = path.field(name).bracketed();
                        errors.push(FieldError::required(path, "must not be empty"));
                    }
                }
            }
            for (name, value) in map {
                if let Some(property) = schema.properties.get(name) {
                    walk(property, value, &path.field(name), false, errors);
                } else if let Some(each) = schema.child(name) {
                    walk(each, value, &path.key(name), false, errors);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = schema.items.as_deref() else { return };
            for (index, item) in list.iter().enumerate() {
                walk(items, item, &path.index(index), false, errors);
            }
        }
        _ => {}
    }
}
