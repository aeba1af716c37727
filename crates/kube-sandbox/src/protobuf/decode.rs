//! Decodes messages to JSON. The type table gives the meaning of a field number; unknown ones are
//! skipped, as protobuf requires.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    decode_nested, is_body,
    wire::{Payload, Reader},
};
use crate::types::{
    FieldType, Member, TypeDef, TypeId, encode_base64, format_micro_time, format_time,
};

/// Maximum nesting of messages. The deepest built-in kind has about 20; a schema in a custom
/// resource definition takes two per level, and `serde_json` refuses more than 128 levels.
pub(super) const DEPTH_MAX: usize = 100;

pub(super) fn message(
    definition: &'static TypeDef,
    bytes: &[u8],
    depth: usize,
) -> Result<Map<String, Value>, String> {
    let mut object = Map::new();
    message_into(&mut object, definition, bytes, depth)?;
    Ok(object)
}

/// Decodes into `object`: protobuf merges a message that arrives in several pieces.
fn message_into(
    object: &mut Map<String, Value>,
    definition: &'static TypeDef,
    bytes: &[u8],
    depth: usize,
) -> Result<(), String> {
    let depth = depth.checked_sub(1).ok_or("proto: exceeded maximum recursion depth")?;
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        match definition.member(number) {
            Some(Member::Inlined(inner)) => {
                message_into(object, inner, payload.bytes()?, depth)?;
            }
            Some(Member::Field(field)) => {
                let slot = object.entry(field.name).or_insert(Value::Null);
                let within = |why| format!("{why} for field {}", field.name);
                field_into(slot, &field.kind, payload, depth).map_err(within)?;
            }
            None => {}
        }
    }
    Ok(())
}

fn field_into(
    slot: &mut Value,
    kind: &'static FieldType,
    payload: Payload<'_>,
    depth: usize,
) -> Result<(), String> {
    match kind {
        FieldType::Pointer(target) => return field_into(slot, target, payload, depth),
        FieldType::Struct(id) => {
            let object = object_in(slot);
            return message_into(object, id.get(), payload.bytes()?, depth);
        }
        FieldType::List(item) => return item_into(list_in(slot), item, payload, depth),
        FieldType::Map(of) => {
            let (key, value) = map_entry(of, payload.bytes()?, depth)?;
            object_in(slot).insert(key, value);
        }
        FieldType::Wrapped(item) => *slot = wrapped(item, payload.bytes()?, depth)?,
        _ => *slot = scalar(kind, payload, depth)?,
    }
    Ok(())
}

fn object_in(slot: &mut Value) -> &mut Map<String, Value> {
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("it was made an object above")
}

fn list_in(slot: &mut Value) -> &mut Vec<Value> {
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    slot.as_array_mut().expect("it was made a list above")
}

fn item_into(
    items: &mut Vec<Value>,
    kind: &'static FieldType,
    payload: Payload<'_>,
    depth: usize,
) -> Result<(), String> {
    // Numbers may be packed into one field.
    if let (FieldType::Int32 | FieldType::Int64 | FieldType::Bool, Payload::Bytes(packed)) =
        (kind, payload)
    {
        let mut numbers = Reader::new(packed);
        while !numbers.is_empty() {
            items.push(scalar(kind, Payload::Varint(numbers.varint()?), depth)?);
        }
        return Ok(());
    }
    let mut item = Value::Null;
    field_into(&mut item, kind, payload, depth)?;
    items.push(item);
    Ok(())
}

fn map_entry(
    kind: &'static FieldType,
    bytes: &[u8],
    depth: usize,
) -> Result<(String, Value), String> {
    let depth = depth.checked_sub(1).ok_or("proto: exceeded maximum recursion depth")?;
    let (mut key, mut value) = (String::new(), Value::Null);
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => key = payload.text()?,
            2 => field_into(&mut value, kind, payload, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn wrapped(kind: &'static FieldType, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let mut items = Vec::new();
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            item_into(&mut items, kind, payload, depth)?;
        }
    }
    Ok(Value::Array(items))
}

fn scalar(kind: &FieldType, payload: Payload<'_>, depth: usize) -> Result<Value, String> {
    Ok(match kind {
        FieldType::Int32 => json!(low_half(payload.varint()?)),
        FieldType::Int64 => json!(payload.varint()?.cast_signed()),
        FieldType::Bool => json!(payload.varint()? != 0),
        FieldType::Double => json!(f64::from_bits(payload.fixed64()?)),
        FieldType::Bytes => json!(encode_base64(payload.bytes()?)),
        FieldType::Quantity => quantity(payload.bytes()?)?,
        FieldType::IntOrString => int_or_string(payload.bytes()?)?,
        FieldType::Time | FieldType::MicroTime => time(kind, payload.bytes()?)?,
        FieldType::Raw | FieldType::Json | FieldType::FieldsV1 => raw(payload.bytes()?, depth)?,
        FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings => {
            schema_union(kind, payload.bytes()?, depth)?
        }
        _ => json!(payload.text()?),
    })
}

/// Protobuf truncates an `int32` to its low half.
#[expect(clippy::cast_possible_truncation, reason = "the wire format asks for it")]
fn low_half(value: u64) -> i32 {
    value as i32
}

fn quantity(bytes: &[u8]) -> Result<Value, String> {
    let mut fields = Reader::new(bytes);
    let mut text = "0".to_owned();
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            text = payload.text()?;
        }
    }
    crate::quantity::canonical(&text).map(Value::String).map_err(Into::into)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_string, mut number_value, mut text) = (false, 0, String::new());
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => is_string = payload.varint()? == 1,
            2 => number_value = low_half(payload.varint()?),
            3 => text = payload.text()?,
            _ => {}
        }
    }
    Ok(if is_string { json!(text) } else { json!(number_value) })
}

fn time(kind: &FieldType, bytes: &[u8]) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => seconds = payload.varint()?.cast_signed(),
            2 => nanos = low_half(payload.varint()?),
            _ => {}
        }
    }
    let micro = *kind == FieldType::MicroTime;
    let at = Timestamp::new(seconds, if micro { nanos } else { 0 });
    let at = at.map_err(|_| format!("proto: no time at {seconds} seconds"))?;
    Ok(json!(if micro { format_micro_time(at) } else { format_time(at) }))
}

fn raw(bytes: &[u8], depth: usize) -> Result<Value, String> {
    let mut content: &[u8] = &[];
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            content = payload.bytes()?;
        }
    }
    if content.is_empty() {
        return Ok(Value::Null);
    }
    if is_body(content) {
        let depth = depth.checked_sub(1).ok_or("proto: exceeded maximum recursion depth")?;
        return decode_nested(content, depth);
    }
    serde_json::from_slice(content).map_err(|error| format!("embedded JSON: {error}"))
}

fn schema_union(kind: &FieldType, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let schema_type = TypeId::json_schema_props().get();
    let (mut allows, mut schema, mut items) = (false, None, Vec::new());
    let mut fields = Reader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        let is_schema = number == if *kind == FieldType::SchemaOrBool { 2 } else { 1 };
        if is_schema {
            schema = Some(Value::Object(message(schema_type, payload.bytes()?, depth)?));
        } else if *kind == FieldType::SchemaOrBool && number == 1 {
            allows = payload.varint()? != 0;
        } else if *kind == FieldType::SchemaOrArray && number == 2 {
            items.push(Value::Object(message(schema_type, payload.bytes()?, depth)?));
        } else if number == 2 {
            items.push(json!(payload.text()?));
        }
    }
    Ok(match schema {
        _ if !items.is_empty() => Value::Array(items),
        Some(schema) => schema,
        None if *kind == FieldType::SchemaOrBool => json!(allows),
        None => Value::Null,
    })
}
