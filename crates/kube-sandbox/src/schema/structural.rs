//! Checks whether a schema is structural.
//!
//! A structural schema has the type of every field outside of `allOf`, `anyOf`, `oneOf` and `not`,
//! and uses those only to restrict values. Pruning, defaulting and server-side apply rely on it.

use serde_json::Value;

use super::raw;
use crate::failure::FieldError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Keywords that add structure, which are forbidden under a junctor, with their error texts.
const FORBIDDEN_IN_JUNCTORS: [(&str, &str); 11] = [
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// All violations, sorted by text as in Kubernetes.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_node(schema, Level::Root, path, &mut errors);
    check_complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn check_node(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = raw::text(schema, "type");
    match raw::child(schema, "items") {
        Some(items) => check_node(items, Level::Item, &format!("{path}.items"), errors),
        None if kind == "array" => {
            errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
        }
        None => {}
    }
    for (name, property) in raw::map(schema, "properties") {
        check_node(property, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    let additional_path = format!("{path}.additionalProperties");
    if let Some(additional) = raw::set(schema, "additionalProperties") {
        if level == Level::Root {
            errors.push(FieldError::forbidden(&additional_path, "must not be used at the root"));
        }
        if additional.is_object() {
            check_node(additional, Level::Field, &additional_path, errors);
        }
        if raw::flag(schema, "x-kubernetes-embedded-resource") {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(FieldError::forbidden(&additional_path, detail));
        }
    }
    check_extensions(schema, path, errors);
    let skip_any_of = is_int_or_string(schema);
    let skip_first = raw::list(schema, "allOf").first().is_some_and(is_int_or_string);
    check_junctors(schema, skip_any_of, skip_first, path, errors);
    check_type(schema, level, path, errors);
    check_metadata(schema, level, path, errors);
}

fn check_extensions(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !raw::flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if raw::flag(schema, name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.{name}"), &true.into(), detail));
        }
    }
}

fn check_type(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = raw::text(schema, "type");
    let type_path = format!("{path}.type");
    let embedded = raw::flag(schema, "x-kubernetes-embedded-resource");
    let preserves = raw::flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(&type_path, detail)
        } else {
            FieldError::invalid(&type_path, &kind.into(), detail)
        });
    } else if kind.is_empty()
        && !preserves
        && !raw::flag(schema, "x-kubernetes-int-or-string")
        && raw::set(schema, "$ref").is_none()
    {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_path, detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(&type_path, &kind.into(), "must be object at the root"));
    }
    if embedded && !preserves && raw::map(schema, "properties").is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

/// `apiVersion`, `kind` and `metadata` are predefined: a schema may restrict only the names.
fn check_metadata(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let properties = raw::map(schema, "properties");
    let is_resource = level == Level::Root || raw::flag(schema, "x-kubernetes-embedded-resource");
    for (name, want) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = properties.get(name).filter(|_| is_resource) else { continue };
        let kind = raw::text(property, "type");
        if kind != want {
            let path = format!("{path}.properties[{name}].type");
            errors.push(FieldError::invalid(path, &kind.into(), format!("must be {want}")));
        }
    }
    let Some(metadata) = properties.get("metadata").and_then(Value::as_object) else { return };
    let restricts_only_names = metadata.iter().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "properties" => value
            .as_object()
            .is_none_or(|names| names.keys().all(|name| name == "name" || name == "generateName")),
        _ => is_zero(value),
    });
    if level == Level::Root && !restricts_only_names {
        let detail = "must not specify anything other than name and generateName, but metadata is \
                      implicitly specified";
        errors.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
    }
}

fn check_junctors(
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for junctor in ["anyOf", "allOf", "oneOf"] {
        if junctor == "anyOf" && skip_any_of {
            continue;
        }
        for (index, nested) in raw::list(schema, junctor).iter().enumerate() {
            let skip = junctor == "allOf" && skip_first_all_of && index == 0;
            check_nested(nested, skip, &format!("{path}.{junctor}[{index}]"), errors);
        }
    }
    if let Some(not) = raw::child(schema, "not") {
        check_nested(not, false, &format!("{path}.not"), errors);
    }
    let pattern = raw::text(schema, "pattern");
    if let Err(why) = super::pattern::Pattern::compile(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(format!("{path}.pattern"), &pattern.into(), detail));
    }
}

fn check_nested(schema: &Value, skip_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    check_junctors(schema, skip_any_of, false, path, errors);
    if let Some(items) = raw::child(schema, "items") {
        check_nested(items, false, &format!("{path}.items"), errors);
    }
    for (name, property) in raw::map(schema, "properties") {
        let path = format!("{path}.properties[{name}]");
        check_nested(property, false, &path, errors);
        // Validations of metadata could break the server itself.
        if name == "metadata" {
            let detail = "must not be specified in a nested context";
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    if !raw::text(schema, "type").is_empty() {
        let detail = "must be empty to be structural";
        errors.push(FieldError::forbidden(format!("{path}.type"), detail));
    }
    if raw::set(schema, "additionalProperties").is_some() {
        let detail = "must be undefined to be structural";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    for (name, detail) in FORBIDDEN_IN_JUNCTORS {
        if schema.get(name).is_some_and(|value| !is_zero(value)) {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
        }
    }
}

/// Every validation under a junctor must have a structural counterpart at the same path.
fn check_complete(
    validation: &Value,
    structure: Option<&Value>,
    structure_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        for (index, nested) in raw::list(validation, junctor).iter().enumerate() {
            let path = format!("{path}.{junctor}[{index}]");
            check_nested_complete(nested, structure, structure_path, &path, errors);
        }
    }
    if let Some(not) = raw::child(validation, "not") {
        check_nested_complete(not, structure, structure_path, &format!("{path}.not"), errors);
    }
}

fn check_nested_complete(
    validation: &Value,
    structure: Option<&Value>,
    structure_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(structure) = structure else {
        let detail = format!("because it is defined in {path}");
        errors.push(FieldError::required(structure_path, detail));
        return;
    };
    check_complete(validation, Some(structure), structure_path, path, errors);
    if let Some(items) = raw::child(validation, "items") {
        let inner = raw::child(structure, "items");
        let structure_path = format!("{structure_path}.items");
        check_nested_complete(items, inner, &structure_path, &format!("{path}.items"), errors);
    }
    for (name, property) in raw::map(validation, "properties") {
        let inner = raw::map(structure, "properties").get(name);
        let structure_path = format!("{structure_path}.properties[{name}]");
        let path = format!("{path}.properties[{name}]");
        check_nested_complete(property, inner, &structure_path, &path, errors);
    }
}

/// Exactly `anyOf: [{type: integer}, {type: string}]`, without other keywords in the branches.
fn is_int_or_string(schema: &Value) -> bool {
    let branches = raw::list(schema, "anyOf");
    branches.len() == 2
        && branches.iter().zip(["integer", "string"]).all(|(branch, kind)| {
            branch.as_object().is_some_and(|branch| {
                branch.iter().all(|(key, value)| (key == "type" && value == kind) || is_zero(value))
                    && branch.contains_key("type")
            })
        })
}

/// Go's zero value of a field.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}
