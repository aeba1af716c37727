//! Encodes JSON as messages, byte for byte like Kubernetes' generated marshallers: fields by rising
//! number, maps by key, zero values written unless the Go field is a pointer, list or map.

use jiff::Timestamp;
use serde_json::Value;

use super::wire::{put_bytes, put_fixed64, put_number};
use crate::types::{FieldType, Member, TypeDef, TypeId, decode_base64, parse_time};

/// Encodes an object. A member of the wrong type is written as zero; stored objects have none.
pub(super) fn message(definition: &'static TypeDef, object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, member) in definition.members() {
        match member {
            Member::Inlined(inner) => put_bytes(&mut out, number, &message(inner, object)),
            Member::Field(field) => {
                let value = object.get(field.name).filter(|value| !value.is_null());
                put_field(&mut out, number, &field.kind, value);
            }
        }
    }
    out
}

fn put_field(out: &mut Vec<u8>, number: u32, kind: &'static FieldType, value: Option<&Value>) {
    match kind {
        FieldType::Pointer(target) => {
            if value.is_some() {
                put_field(out, number, target, value);
            }
        }
        FieldType::List(item) => {
            for each in value.and_then(Value::as_array).into_iter().flatten() {
                put_single(out, number, item, Some(each));
            }
        }
        FieldType::Map(of) => {
            for (key, each) in value.and_then(Value::as_object).into_iter().flatten() {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                put_single(&mut entry, 2, of, Some(each));
                put_bytes(out, number, &entry);
            }
        }
        FieldType::Bytes | FieldType::Wrapped(_) => {
            if value.is_some() {
                put_single(out, number, kind, value);
            }
        }
        _ => put_single(out, number, kind, value),
    }
}

/// Writes a value that is never omitted, as zero if it is missing.
fn put_single(out: &mut Vec<u8>, number: u32, kind: &'static FieldType, value: Option<&Value>) {
    let value = value.unwrap_or(&Value::Null);
    match kind {
        FieldType::Int32 | FieldType::Int64 => {
            put_number(out, number, value.as_i64().unwrap_or(0).cast_unsigned());
        }
        FieldType::Bool => put_number(out, number, u64::from(value.as_bool().unwrap_or(false))),
        FieldType::Double => {
            put_fixed64(out, number, value.as_f64().unwrap_or(0.0).to_bits());
        }
        FieldType::String => put_bytes(out, number, value.as_str().unwrap_or("").as_bytes()),
        FieldType::Bytes => {
            let bytes = value.as_str().and_then(|text| decode_base64(text).ok());
            put_bytes(out, number, &bytes.unwrap_or_default());
        }
        FieldType::Pointer(target) => put_single(out, number, target, Some(value)),
        _ => put_bytes(out, number, &nested(kind, value)),
    }
}

/// The nested message of a value that is not a protobuf scalar.
fn nested(kind: &'static FieldType, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match kind {
        FieldType::Struct(id) => return message(id.get(), value),
        FieldType::Wrapped(item) | FieldType::List(item) => {
            for each in value.as_array().into_iter().flatten() {
                put_single(&mut out, 1, item, Some(each));
            }
        }
        FieldType::Quantity => put_bytes(&mut out, 1, value.as_str().unwrap_or("0").as_bytes()),
        FieldType::IntOrString => {
            put_number(&mut out, 1, u64::from(value.is_string()));
            put_number(&mut out, 2, value.as_i64().unwrap_or(0).cast_unsigned());
            put_bytes(&mut out, 3, value.as_str().unwrap_or("").as_bytes());
        }
        FieldType::Time | FieldType::MicroTime => {
            if let Some(at) = value.as_str().and_then(parse_time) {
                put_time(&mut out, at, *kind == FieldType::MicroTime);
            }
        }
        FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings => {
            put_schema_union(&mut out, kind, value);
        }
        _ if value.is_null() => {}
        _ => put_bytes(&mut out, 1, value.to_string().as_bytes()),
    }
    out
}

fn put_time(out: &mut Vec<u8>, at: Timestamp, micro: bool) {
    // In Go seconds round down and nanoseconds are positive; in jiff both have the sign of the
    // time.
    let (mut seconds, mut nanos) = (at.as_second(), at.subsec_nanosecond());
    if nanos < 0 {
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    let nanos = if micro { nanos - nanos % 1000 } else { 0 };
    put_number(out, 1, seconds.cast_unsigned());
    put_number(out, 2, i64::from(nanos).cast_unsigned());
}

fn put_schema_union(out: &mut Vec<u8>, kind: &FieldType, value: &Value) {
    let schema = TypeId::json_schema_props().get();
    match (kind, value) {
        (FieldType::SchemaOrBool, Value::Object(_)) => {
            put_number(out, 1, 1);
            put_bytes(out, 2, &message(schema, value));
        }
        (FieldType::SchemaOrBool, _) => {
            put_number(out, 1, u64::from(value.as_bool().unwrap_or(false)));
        }
        (_, Value::Object(_)) => put_bytes(out, 1, &message(schema, value)),
        (FieldType::SchemaOrArray, Value::Array(items)) => {
            for each in items {
                put_bytes(out, 2, &message(schema, each));
            }
        }
        (_, Value::Array(items)) => {
            for each in items {
                put_bytes(out, 2, each.as_str().unwrap_or("").as_bytes());
            }
        }
        _ => {}
    }
}
