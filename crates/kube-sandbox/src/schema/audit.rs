//! Validation of a schema beyond being structural, with the errors of Kubernetes.
//!
//! Finds unsupported keywords, contradictory list and map types, misplaced defaults and malformed
//! validation rules. The rules are compiled later, on the compiled tree.

use serde_json::Value;

use super::{Kind, field_path::FieldPath, raw};
use crate::failure::{FieldError, FieldErrorKind};

const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Maximum length of a rule: 1.36 documents no limit, but its cost estimate refuses longer ones.
/// The longest in the Gateway API has some 600 characters.
const MAX_EXPRESSION_BYTES: usize = 16 << 10;

/// Context of a node in its schema.
#[derive(Debug, Clone, Copy, Default)]
struct Place<'a> {
    is_root: bool,
    in_metadata: bool,
    /// The reason why defaults are forbidden here, if they are.
    no_defaults: Option<&'a str>,
}

pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if raw::flag(schema, "nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    check_node(schema, Place { is_root: true, ..Place::default() }, path, &mut errors);
    errors
}

fn check_node(schema: &Value, place: Place<'_>, path: &str, errors: &mut Vec<FieldError>) {
    check_keywords(schema, place, path, errors);
    let inner = Place { is_root: false, ..place };
    if let Some(additional) = raw::set(schema, "additionalProperties") {
        let path = format!("{path}.additionalProperties");
        if !raw::map(schema, "properties").is_empty() && additional != &Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&path, detail));
        }
        let no_defaults = place
            .in_metadata
            .then_some("inside additionalProperties applying to object metadata")
            .or(place.no_defaults);
        if additional.is_object() {
            check_node(additional, Place { no_defaults, ..inner }, &path, errors);
        }
    }
    let is_resource = place.is_root || raw::flag(schema, "x-kubernetes-embedded-resource");
    for (name, property) in raw::map(schema, "properties") {
        let is_meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        let top_level = format!("in top-level {name}");
        let mut below = inner;
        if is_resource && is_meta {
            below.in_metadata = true;
            if place.is_root {
                below.no_defaults = Some(&top_level);
            }
        }
        check_node(property, below, &format!("{path}.properties[{name}]"), errors);
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        for (index, nested) in raw::list(schema, junctor).iter().enumerate() {
            check_node(nested, inner, &format!("{path}.{junctor}[{index}]"), errors);
        }
    }
    for name in ["not", "items"] {
        if let Some(nested) = raw::child(schema, name) {
            check_node(nested, inner, &format!("{path}.{name}"), errors);
        }
    }
    check_map_type(schema, path, errors);
    check_list_type(schema, path, errors);
    check_list_keys(schema, path, errors);
    for (index, rule) in raw::list(schema, "x-kubernetes-validations").iter().enumerate() {
        check_rule(schema, rule, &format!("{path}.x-kubernetes-validations[{index}]"), errors);
    }
}

fn check_keywords(schema: &Value, place: Place<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let kind = raw::text(schema, "type");
    let type_path = format!("{path}.type");
    if !kind.is_empty() && Kind::parse(kind).is_none() {
        let names = ["array", "boolean", "integer", "number", "object", "string"];
        errors.push(FieldError::not_supported(&type_path, &kind.into(), &names));
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(type_path, detail));
    }
    if let (Some(why), Some(_)) = (place.no_defaults, raw::set(schema, "default")) {
        let detail = format!("must not be set {why}");
        errors.push(FieldError::forbidden(format!("{path}.default"), detail));
    }
    for keyword in UNSUPPORTED {
        if raw::set(schema, keyword).is_some() {
            let detail = format!("{keyword} is not supported");
            errors.push(FieldError::forbidden(format!("{path}.{keyword}"), detail));
        }
    }
    if !raw::list(schema, "items").is_empty() {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(format!("{path}.items"), detail));
    }
    if raw::flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes \
                      quadratic";
        errors.push(FieldError::forbidden(format!("{path}.uniqueItems"), detail));
    }
    if place.in_metadata && raw::flag(schema, "x-kubernetes-embedded-resource") {
        let path = format!("{path}.x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(path, "must not be used inside of resource meta"));
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.get(preserve) == Some(&Value::Bool(false)) {
        let path = format!("{path}.{preserve}");
        errors.push(FieldError::invalid(path, &false.into(), "must be true or undefined"));
    }
}

/// The error for a `type` that an extension does not allow.
fn wrong_type(schema: &Value, path: &str, detail: &str) -> FieldError {
    let path = format!("{path}.type");
    match raw::text(schema, "type") {
        "" => FieldError::required(path, detail),
        kind => FieldError::invalid(path, &kind.into(), detail),
    }
}

fn check_map_type(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(map_type) = raw::set(schema, "x-kubernetes-map-type") else { return };
    if raw::text(schema, "type") != "object" {
        let detail = "must be object if x-kubernetes-map-type is specified";
        errors.push(wrong_type(schema, path, detail));
    }
    if map_type != "atomic" && map_type != "granular" {
        let path = format!("{path}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(path, map_type, &["atomic", "granular"]));
    }
}

fn check_list_type(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let type_path = format!("{path}.x-kubernetes-list-type");
    let keys = raw::list(schema, "x-kubernetes-list-map-keys");
    let list_type = raw::set(schema, "x-kubernetes-list-type");
    let needs_map = "must be map if x-kubernetes-list-map-keys is non-empty";
    let Some(list_type) = list_type else {
        if !keys.is_empty() {
            errors.push(FieldError::required(type_path, needs_map));
        }
        return;
    };
    if raw::text(schema, "type") != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(wrong_type(schema, path, detail));
    } else if list_type == "set" {
        check_set_items(schema, path, errors);
    }
    let supported = ["atomic", "set", "map"];
    if !supported.iter().any(|name| list_type == name) {
        errors.push(FieldError::not_supported(&type_path, list_type, &supported));
    }
    if !keys.is_empty() && list_type != "map" {
        errors.push(FieldError::invalid(&type_path, list_type, needs_map));
    }
    if list_type == "map" {
        check_map_list(schema, path, errors);
    }
}

fn check_set_items(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(items) = raw::child(schema, "items") else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (extension, wrong) = match raw::text(items, "type") {
        "array" => {
            let kind = raw::set(items, "x-kubernetes-list-type");
            ("x-kubernetes-list-type", kind.is_some_and(|kind| kind != "atomic"))
        }
        "object" => {
            let kind = raw::set(items, "x-kubernetes-map-type");
            ("x-kubernetes-map-type", kind.is_none_or(|kind| kind != "atomic"))
        }
        _ => return,
    };
    if wrong {
        let shown = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(format!("{path}.items.{extension}"), shown, detail));
    }
}

fn check_map_list(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let keys_path = format!("{path}.x-kubernetes-list-map-keys");
    let keys = raw::texts(schema, "x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_path, detail));
    }
    let Some(items) = raw::child(schema, "items") else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{path}.items"), detail));
        return;
    };
    let kind = raw::text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), &kind.into(), detail));
        return;
    }
    let shown = Value::from(keys.clone());
    for (index, key) in keys.iter().enumerate() {
        match raw::map(items, "properties").get(key) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, &shown, detail));
            }
            Some(property) if matches!(raw::text(property, "type"), "array" | "object") => {
                let path = format!("{path}.items.properties[{key}].type");
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(path, &kind.into(), detail));
            }
            Some(_) => {}
        }
        if keys.iter().take(index).any(|earlier| earlier == key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&keys_path, &shown, detail));
        }
    }
}

/// Items of sets and maps are never null; the keys of maps are always present.
fn check_list_keys(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let list_type = raw::text(schema, "x-kubernetes-list-type");
    let Some(items) = raw::child(schema, "items") else { return };
    if list_type != "set" && list_type != "map" {
        return;
    }
    if raw::flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let required = raw::texts(items, "required");
    for key in raw::texts(schema, "x-kubernetes-list-map-keys") {
        let Some(property) = raw::map(items, "properties").get(&key) else { continue };
        let path = format!("{path}.items.properties[{key}]");
        if !required.contains(&key) && raw::set(property, "default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a \
                          default or be a required property";
            errors.push(FieldError::required(format!("{path}.default"), detail));
        }
        if raw::flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
        }
    }
}

fn check_rule(schema: &Value, rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let text = |name: &str| raw::text(rule, name);
    let lines = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text("rule").trim(), text("message").trim());
    let invalid = |name: &str, detail: &str| {
        FieldError::invalid(format!("{path}.{name}"), &text(name).into(), detail)
    };
    if expression.is_empty() {
        errors.push(FieldError::required(format!("{path}.rule"), "rule is not specified"));
    } else if !text("message").is_empty() && message.is_empty() {
        errors.push(invalid("message", "must be non-empty if specified"));
    } else if lines(message) {
        errors.push(invalid("message", "must not contain line breaks"));
    } else if lines(expression) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(format!("{path}.message"), detail));
    }
    if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(format!("{path}.messageExpression"), detail));
    }
    if let Some(reason) = raw::set(rule, "reason")
        && !REASONS.iter().any(|known| reason == known)
    {
        errors.push(FieldError::not_supported(format!("{path}.reason"), reason, &REASONS));
    }
    let field_path = text("fieldPath");
    if !field_path.is_empty() && field_path.trim().is_empty() {
        errors.push(invalid("fieldPath", "must be non-empty if specified"));
    }
    if lines(field_path) {
        errors.push(invalid("fieldPath", "must not contain line breaks"));
    }
    if !field_path.is_empty()
        && !FieldPath::parse(field_path).is_ok_and(|path| path.exists_in(schema))
    {
        errors.push(invalid("fieldPath", "must be a valid path"));
    }
    for name in ["rule", "messageExpression"] {
        if text(name).len() > MAX_EXPRESSION_BYTES {
            errors.push(FieldError {
                kind: FieldErrorKind::TooLong,
                path: format!("{path}.{name}"),
                shown: String::new(),
                detail: format!("may not be more than {MAX_EXPRESSION_BYTES} bytes"),
            });
        }
    }
}
