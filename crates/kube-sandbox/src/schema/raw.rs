//! Accessors for `JSONSchemaProps` in JSON, where every field may be absent.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// Maximum depth of a schema, so that recursion cannot exhaust a 2 MiB stack even in a debug build.
/// The API server's JSON decoder stops at 128 levels.
pub(super) const MAX_DEPTH: usize = 200;

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

pub(super) fn deeper_than(value: &Value, limit: usize) -> bool {
    let Some(rest) = limit.checked_sub(1) else { return true };
    match value {
        Value::Object(map) => map.values().any(|value| deeper_than(value, rest)),
        Value::Array(list) => list.iter().any(|value| deeper_than(value, rest)),
        _ => false,
    }
}

pub(super) fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or_default()
}

pub(super) fn number(schema: &Value, name: &str) -> Option<f64> {
    schema.get(name).and_then(Value::as_f64)
}

/// A count; a negative one counts as zero.
pub(super) fn count(schema: &Value, name: &str) -> Option<u64> {
    let value = schema.get(name)?;
    value.as_u64().or_else(|| value.as_i64().map(|_| 0))
}

/// The named subschemas under `properties` and the like.
pub(super) fn map<'a>(schema: &'a Value, name: &str) -> &'a Map<String, Value> {
    schema.get(name).and_then(Value::as_object).unwrap_or_else(|| &EMPTY)
}

pub(super) fn list<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn texts(schema: &Value, name: &str) -> Vec<String> {
    list(schema, name).iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

/// A subschema, if present.
pub(super) fn child<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name).filter(|value| value.is_object())
}

/// A value that is set: null counts as absent.
pub(super) fn set<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name).filter(|value| !value.is_null())
}
