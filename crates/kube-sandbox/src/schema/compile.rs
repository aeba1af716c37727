//! Compiles an `openAPIV3Schema`, already checked to be structural, into a [`Schema`].

use serde_json::Value;

use super::{Additional, Below, Kind, Kinds, Limits, List, Schema, formats, pattern::Pattern, raw};
use crate::{failure::FieldError, shape::ListKind};

pub(super) fn compile(raw: &Value, path: &str) -> Result<Schema, Vec<FieldError>> {
    let mut errors = Vec::new();
    let schema = node(raw, path, &mut errors);
    if errors.is_empty() { Ok(schema) } else { Err(errors) }
}

fn node(raw: &Value, path: &str, errors: &mut Vec<FieldError>) -> Schema {
    let int_or_string = raw::flag(raw, "x-kubernetes-int-or-string");
    let kinds = if int_or_string {
        Kinds::IntegerOrString
    } else {
        Kind::parse(raw::text(raw, "type")).map_or(Kinds::Any, Kinds::One)
    };
    let mut nested = |name: &str| -> Vec<Schema> {
        let each = raw::list(raw, name).iter().enumerate();
        each.map(|(index, raw)| node(raw, &format!("{path}.{name}[{index}]"), errors)).collect()
    };
    let (all_of, any_of, one_of) = (nested("allOf"), nested("anyOf"), nested("oneOf"));
    let mut child = |name: &str| {
        let raw = raw::child(raw, name)?;
        Some(Box::new(node(raw, &format!("{path}.{name}"), errors)))
    };
    let (not, items) = (child("not"), child("items"));
    let additional = match child("additionalProperties") {
        Some(each) => Additional::Each(each),
        None => match raw.get("additionalProperties") {
            Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
            _ => Additional::Unset,
        },
    };
    let properties = raw::map(raw, "properties")
        .iter()
        .map(|(name, raw)| (name.clone(), node(raw, &format!("{path}.properties[{name}]"), errors)))
        .collect();
    let mut schema = Schema {
        kinds,
        nullable: raw::flag(raw, "nullable"),
        default: raw::set(raw, "default").cloned(),
        properties,
        additional,
        items,
        limits: limits(raw, kinds, path, errors),
        all_of,
        any_of,
        one_of,
        not,
        preserves_unknown: raw::flag(raw, "x-kubernetes-preserve-unknown-fields"),
        embedded: raw::flag(raw, "x-kubernetes-embedded-resource"),

        list: list(raw),
        atomic_object: raw::text(raw, "x-kubernetes-map-type") == "atomic",
        rules: Vec::new(),
        below: Below::default(),
    };
    schema.below = below(&schema, raw);
    schema
}

fn below(schema: &Schema, raw: &Value) -> Below {
    let own = Below {
        rules: !raw::list(raw, "x-kubernetes-validations").is_empty(),
        rule_depth: 0,
        keyed_lists: matches!(schema.list.kind, Some(ListKind::Set | ListKind::Map(_))),
        embedded: schema.embedded,
    };
    schema.children().fold(own, |all, child| Below {
        rules: all.rules || child.below.rules,
        rule_depth: 0,
        keyed_lists: all.keyed_lists || child.below.keyed_lists,
        embedded: all.embedded || child.below.embedded,
    })
}

fn list(raw: &Value) -> List {
    let kind = match raw::text(raw, "x-kubernetes-list-type") {
        "atomic" => Some(ListKind::Atomic),
        "set" => Some(ListKind::Set),
        "map" => Some(ListKind::Map(raw::texts(raw, "x-kubernetes-list-map-keys"))),
        _ => None,
    };
    List { kind }
}

fn limits(raw: &Value, kinds: Kinds, path: &str, errors: &mut Vec<FieldError>) -> Limits {
    check_shapes(raw, path, errors);
    let pattern = raw::text(raw, "pattern");
    Limits {
        format: formats::Format::find(raw::text(raw, "format"), kinds),
        maximum: raw::number(raw, "maximum"),
        exclusive_maximum: raw::flag(raw, "exclusiveMaximum"),
        minimum: raw::number(raw, "minimum"),
        exclusive_minimum: raw::flag(raw, "exclusiveMinimum"),
        multiple_of: raw::number(raw, "multipleOf"),
        max_length: raw::count(raw, "maxLength"),
        min_length: raw::count(raw, "minLength"),
        // The structural check has compiled it successfully.
        pattern: Some(pattern)
            .filter(|pattern| !pattern.is_empty())
            .and_then(|pattern| Pattern::compile(pattern).ok()),
        max_items: raw::count(raw, "maxItems"),
        min_items: raw::count(raw, "minItems"),
        max_properties: raw::count(raw, "maxProperties"),
        min_properties: raw::count(raw, "minProperties"),
        required: raw::texts(raw, "required"),
        options: raw::list(raw, "enum").to_vec(),
    }
}

/// Keywords with the wrong JSON type fail to decode in Kubernetes; here they are field errors.
fn check_shapes(raw: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut expect = |names: &[&str], what: &str, fits: fn(&Value) -> bool| {
        for name in names {
            if let Some(value) = raw::set(raw, name)
                && !fits(value)
            {
                let path = format!("{path}.{name}");
                errors.push(FieldError::invalid(path, value, format!("must be {what}")));
            }
        }
    };
    let counts =
        ["maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"];
    expect(&counts, "an integer", Value::is_i64);
    expect(&["maximum", "minimum", "multipleOf"], "a number", Value::is_number);
    expect(&["type", "format", "pattern", "description"], "a string", Value::is_string);
    let lists = ["required", "enum", "allOf", "anyOf", "oneOf", "x-kubernetes-validations"];
    expect(&lists, "an array", Value::is_array);
    expect(&["properties", "not"], "an object", Value::is_object);
    let flags = ["nullable", "exclusiveMaximum", "exclusiveMinimum", "x-kubernetes-int-or-string"];
    expect(&flags, "a boolean", Value::is_boolean);
}
