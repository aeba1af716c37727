//! Entry points of the fuzz targets in `fuzz/targets`: code that reads input of strangers, called with
//! plain values, so that the modules behind it stay private.
//!
//! Not part of the API: anything here may change. No function panics on any input.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    failure::Outcome,
    jsonpath::Path,
    managed::{self, FieldSet, ManagedFields, Write},
    patch,
    shape::{Shape, Unknown},
    types::{BuiltinShape, TypeDef, by_api_version, check, normalise},
};

/// `object` with a JSON patch.
pub fn json_patch(object: &Value, patch: &[u8]) -> Outcome<Value> {
    patch::json_patch(object, patch)
}

/// `object` with a JSON merge patch.
pub fn merge_patch(object: &Value, patch: &Value) -> Value {
    patch::merge_patch(object, patch)
}

/// `object` with a strategic merge patch, by the type that it names if `is_typed`.
pub fn strategic_merge(object: &Value, patch: &Value, is_typed: bool) -> Outcome<Value> {
    match definition(object).filter(|_| is_typed) {
        Some(definition) => patch::strategic(object, patch, &BuiltinShape::new(definition)),
        None => patch::strategic(object, patch, &Unknown),
    }
}

/// `object` as the server stores it, if it names a built-in kind and has no field but those of it.
pub fn normalised(object: &Value) -> Option<Value> {
    let definition = definition(object)?;
    check(definition, object).ok().filter(Vec::is_empty)?;
    let mut normalised = object.clone();
    normalise(definition, &mut normalised);
    for name in ["apiVersion", "kind"] {
        normalised[name] = object[name].clone();
    }
    Some(normalised)
}

/// `object` as `manager` created it; `None` if it names no kind or cannot be decoded as one.
pub fn created(object: &Value, manager: &str) -> Option<Value> {
    if text(object, "apiVersion").is_empty() || text(object, "kind").is_empty() {
        return None;
    }
    let mut created = object.clone();
    let reset = FieldSet::default();
    let write = write(object, manager, &reset);
    match definition(object) {
        Some(definition) => {
            check(definition, object).ok()?;
            managed::on_update(None, &mut created, &BuiltinShape::new(definition), &write);
        }
        None => managed::on_update(None, &mut created, &Unknown, &write),
    }
    Some(created)
}

/// `live` after `manager` applied `configuration`; `None` if there is nothing to write.
pub fn apply(
    live: &Value,
    configuration: &Value,
    manager: &str,
    force: bool,
) -> Outcome<Option<Value>> {
    fn by<S: Shape>(
        shape: &S,
        live: &Value,
        configuration: &Value,
        manager: &str,
        force: bool,
    ) -> Outcome<Option<Value>> {
        let reset = FieldSet::default();
        managed::apply(Some(live), configuration, shape, &write(live, manager, &reset), force)
    }
    match definition(live) {
        Some(definition) => by(&BuiltinShape::new(definition), live, configuration, manager, force),
        None => by(&Unknown, live, configuration, manager, force),
    }
}

/// The owners in a `managedFields`, read and written again; an error if it is no list of owners.
pub fn owners(managed_fields: Option<&Value>) -> Result<Option<Value>, String> {
    ManagedFields::decode(managed_fields).map(ManagedFields::encode)
}

/// Every value that a `JSONPath` finds, and the first one.
pub fn json_path<'v>(
    path: &str,
    document: &'v Value,
) -> Result<(Vec<&'v Value>, Option<&'v Value>), String> {
    let path = Path::parse(path)?;
    Ok((path.all(document), path.first(document)))
}

fn definition(object: &Value) -> Option<&'static TypeDef> {
    by_api_version(text(object, "apiVersion"), text(object, "kind"))
}

fn write<'a>(object: &'a Value, manager: &'a str, reset: &'a FieldSet) -> Write<'a> {
    Write {
        manager,
        api_version: text(object, "apiVersion"),
        kind: text(object, "kind"),
        subresource: "",
        now: Timestamp::UNIX_EPOCH,
        reset,
        empty: None,
    }
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}
