//! Encodes the v2 document as protobuf, in the messages of gnostic's `openapi.v2` package: the only
//! form in which kubectl requests it.
//!
//! Each known key of a JSON object has a field number and an encoding; extensions (`x-...`) are
//! encoded as YAML text, for which JSON is valid. Keys that the server never writes are missing
//! here.

use serde_json::{Map, Value};

use crate::protobuf::wire::{put_bytes, put_fixed64, put_number};

/// Encoding of an object's member.
#[derive(Clone, Copy)]
enum As {
    Text,
    Flag,
    Integer,
    Float,
    Texts,
    /// Any JSON, as text.
    Any,
    Anys,
    Message(fn(&Value) -> Vec<u8>),
    Messages(fn(&Value) -> Vec<u8>),
}

type Key = (&'static str, u32, As);

const DOCUMENT: [Key; 4] = [
    ("swagger", 1, As::Text),
    ("info", 2, As::Message(info)),
    ("paths", 8, As::Message(paths)),
    ("definitions", 9, As::Message(schemas_by_name)),
];
const INFO: [Key; 2] = [("title", 1, As::Text), ("version", 2, As::Text)];
const PATH: [Key; 6] = [
    ("get", 2, As::Message(operation)),
    ("put", 3, As::Message(operation)),
    ("post", 4, As::Message(operation)),
    ("delete", 5, As::Message(operation)),
    ("patch", 8, As::Message(operation)),
    ("parameters", 9, As::Messages(parameter)),
];
const OPERATION: [Key; 6] = [
    ("tags", 1, As::Texts),
    ("operationId", 5, As::Text),
    ("produces", 6, As::Texts),
    ("consumes", 7, As::Texts),
    ("parameters", 8, As::Messages(parameter)),
    ("responses", 9, As::Message(responses)),
];
const BODY_PARAMETER: [Key; 4] = [
    ("name", 2, As::Text),
    ("in", 3, As::Text),
    ("required", 4, As::Flag),
    ("schema", 5, As::Message(schema)),
];
const QUERY_PARAMETER: [Key; 5] = [
    ("required", 1, As::Flag),
    ("in", 2, As::Text),
    ("name", 4, As::Text),
    ("type", 6, As::Text),
    ("uniqueItems", 20, As::Flag),
];
const PATH_PARAMETER: [Key; 5] = [
    ("required", 1, As::Flag),
    ("in", 2, As::Text),
    ("name", 4, As::Text),
    ("type", 5, As::Text),
    ("uniqueItems", 19, As::Flag),
];
const RESPONSE: [Key; 2] = [("description", 1, As::Text), ("schema", 2, As::Message(schema_item))];
const SCHEMA: [Key; 26] = [
    ("$ref", 1, As::Text),
    ("format", 2, As::Text),
    ("title", 3, As::Text),
    ("description", 4, As::Text),
    ("default", 5, As::Any),
    ("multipleOf", 6, As::Float),
    ("maximum", 7, As::Float),
    ("exclusiveMaximum", 8, As::Flag),
    ("minimum", 9, As::Float),
    ("exclusiveMinimum", 10, As::Flag),
    ("maxLength", 11, As::Integer),
    ("minLength", 12, As::Integer),
    ("pattern", 13, As::Text),
    ("maxItems", 14, As::Integer),
    ("minItems", 15, As::Integer),
    ("uniqueItems", 16, As::Flag),
    ("maxProperties", 17, As::Integer),
    ("minProperties", 18, As::Integer),
    ("required", 19, As::Texts),
    ("enum", 20, As::Anys),
    ("additionalProperties", 21, As::Message(additional_properties)),
    ("type", 22, As::Message(type_item)),
    ("items", 23, As::Message(items)),
    ("allOf", 24, As::Messages(schema)),
    ("properties", 25, As::Message(schemas_by_name)),
    ("example", 30, As::Any),
];

/// The protobuf form of a [`super::swagger`] document.
pub(crate) fn encode(document: &Value) -> Vec<u8> {
    object(document, &DOCUMENT, None)
}

fn info(value: &Value) -> Vec<u8> {
    object(value, &INFO, None)
}

fn paths(value: &Value) -> Vec<u8> {
    named(value, 2, |path| object(path, &PATH, None))
}

fn operation(value: &Value) -> Vec<u8> {
    object(value, &OPERATION, Some(13))
}

/// `ParametersItem { Parameter { BodyParameter | NonBodyParameter { ... } } }`
fn parameter(value: &Value) -> Vec<u8> {
    let parameter = match value["in"].as_str() {
        Some("body") => within(1, &object(value, &BODY_PARAMETER, None)),
        Some("path") => within(2, &within(4, &object(value, &PATH_PARAMETER, None))),
        _ => within(2, &within(3, &object(value, &QUERY_PARAMETER, None))),
    };
    within(1, &parameter)
}

/// `Responses { NamedResponseValue { ResponseValue { Response } } }`
fn responses(value: &Value) -> Vec<u8> {
    named(value, 1, |response| within(1, &object(response, &RESPONSE, None)))
}

fn schema(value: &Value) -> Vec<u8> {
    object(value, &SCHEMA, Some(31))
}

fn schema_item(value: &Value) -> Vec<u8> {
    within(1, &schema(value))
}

fn schemas_by_name(value: &Value) -> Vec<u8> {
    named(value, 1, schema)
}

fn additional_properties(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(allowed) => {
            let mut out = Vec::new();
            put_number(&mut out, 2, u64::from(*allowed));
            out
        }
        schema_of_values => within(1, &schema(schema_of_values)),
    }
}

fn items(value: &Value) -> Vec<u8> {
    within(1, &schema(value))
}

fn type_item(value: &Value) -> Vec<u8> {
    within(1, value.as_str().unwrap_or_default().as_bytes())
}

/// Encodes any value as JSON, which is valid YAML.
fn any(value: &Value) -> Vec<u8> {
    within(2, value.to_string().as_bytes())
}

fn within(number: u32, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 8);
    put_bytes(&mut out, number, message);
    out
}

/// An object with arbitrary keys, as a list of name and value pairs.
fn named(value: &Value, number: u32, write: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, member) in value.as_object().into_iter().flat_map(Map::iter) {
        put_bytes(&mut out, number, &pair(name, &write(member)));
    }
    out
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = within(1, name.as_bytes());
    put_bytes(&mut out, 2, value);
    out
}

fn object(value: &Value, keys: &[Key], extensions: Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, number, way) in keys {
        if let Some(member) = value.get(key) {
            put(&mut out, *number, *way, member);
        }
    }
    let Some(number) = extensions else { return out };
    for (key, member) in value.as_object().into_iter().flat_map(Map::iter) {
        if key.starts_with("x-") {
            put_bytes(&mut out, number, &pair(key, &any(member)));
        }
    }
    out
}

fn put(out: &mut Vec<u8>, number: u32, way: As, value: &Value) {
    let each = || value.as_array().into_iter().flatten();
    match way {
        As::Text => put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        As::Flag => put_number(out, number, u64::from(value.as_bool().unwrap_or_default())),
        As::Integer => put_number(out, number, value.as_i64().unwrap_or_default().cast_unsigned()),
        As::Float => put_fixed64(out, number, value.as_f64().unwrap_or_default().to_bits()),
        As::Texts => each().for_each(|text| put(out, number, As::Text, text)),
        As::Any => put_bytes(out, number, &any(value)),
        As::Anys => each().for_each(|member| put_bytes(out, number, &any(member))),
        As::Message(write) => put_bytes(out, number, &write(value)),
        As::Messages(write) => each().for_each(|member| put_bytes(out, number, &write(member))),
    }
}
