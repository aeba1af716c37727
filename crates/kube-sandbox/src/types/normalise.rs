//! Applies the effect of a round trip through Go structs to an object.
//!
//! Unknown fields and nulls are removed, as are empty values with `omitempty`; fields that are
//! always written are added (`status: {}`, `lastTransitionTime: null`); quantities and times get
//! their canonical form. The value must have passed [`super::check`]; a value of the wrong type is
//! left unchanged.

use serde_json::{Map, Value, json};

use super::{Field, FieldType, Omit, TypeDef, TypeId, base64, time};
use crate::quantity;

/// Brings `value`, an object of this type, into the form the server stores and shows.
pub(crate) fn normalise(definition: &'static TypeDef, value: &mut Value) {
    if value.is_null() {
        *value = json!({});
    }
    if let Value::Object(members) = value {
        let mut given = std::mem::take(members);
        collect(definition, &mut given, members);
    }
}

/// Moves the members known to the type from `given` to `kept`.
fn collect(
    definition: &'static TypeDef,
    given: &mut Map<String, Value>,
    kept: &mut Map<String, Value>,
) {
    for field in &definition.fields {
        let (name, mut value) =
            given.remove_entry(field.name).unwrap_or_else(|| (field.name.to_owned(), Value::Null));
        settle(&field.kind, &mut value);
        if !is_omitted(field, &value) {
            kept.insert(name, value);
        }
    }
    for inlined in &definition.inlined {
        collect(inlined.target.get(), given, kept);
    }
}

/// The value of a Go variable of this type after decoding `value` into it.
fn settle(kind: &'static FieldType, value: &mut Value) {
    match kind {
        FieldType::Pointer(target) => {
            if !value.is_null() {
                settle(target, value);
            }
        }
        FieldType::Struct(id) => normalise(id.get(), value),
        FieldType::List(item) | FieldType::Wrapped(item) => {
            value.as_array_mut().into_iter().flatten().for_each(|each| settle(item, each));
        }
        FieldType::Map(of) => {
            let members = value.as_object_mut().into_iter().flat_map(Map::values_mut);
            members.for_each(|each| settle(of, each));
        }
        FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings => {
            let schema = TypeId::json_schema_props().get();
            match value {
                Value::Array(items) if *kind == FieldType::SchemaOrArray => {
                    for each in items {
                        normalise(schema, each);
                    }
                }
                Value::Object(_) => normalise(schema, value),
                _ => {}
            }
        }
        FieldType::Raw | FieldType::Json | FieldType::FieldsV1 => {}
        _ => settle_scalar(kind, value),
    }
}

fn settle_scalar(kind: &FieldType, value: &mut Value) {
    let settled = match (kind, &*value) {
        (FieldType::String | FieldType::Bytes, Value::Null) => Some(json!("")),
        (FieldType::Int32 | FieldType::Int64 | FieldType::IntOrString, Value::Null) => {
            Some(json!(0))
        }
        (FieldType::Double, Value::Null) => Some(json!(0)),
        (FieldType::Bool, Value::Null) => Some(json!(false)),
        (FieldType::Quantity, Value::Null) => Some(json!("0")),
        (FieldType::Quantity, Value::String(text)) => {
            quantity::canonical(text).ok().map(Value::String)
        }
        (FieldType::Quantity, Value::Number(number)) => {
            quantity::canonical(&number.to_string()).ok().map(Value::String)
        }
        (FieldType::Time, Value::String(text)) => {
            time::parse(text).map(|at| Value::String(time::format_seconds(at)))
        }
        (FieldType::MicroTime, Value::String(text)) => {
            time::parse(text).map(|at| Value::String(time::format_micro(at)))
        }
        (FieldType::Bytes, Value::String(text)) => {
            base64::decode(text).ok().map(|bytes| Value::String(base64::encode(&bytes)))
        }
        (FieldType::Double, Value::Number(number)) => number.as_f64().and_then(whole),
        _ => None,
    };
    if let Some(settled) = settled {
        *value = settled;
    }
}

/// Go writes a float without a fraction as an integer.
fn whole(number: f64) -> Option<Value> {
    // Up to 2^53 every integer has exactly one float, so nothing is lost.
    let exact = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
    exact.then(|| format!("{number:.0}").parse::<i64>().ok().map(Value::from))?
}

/// Whether the encoder omits the field.
fn is_omitted(field: &Field, value: &Value) -> bool {
    match field.omit {
        Omit::Never => false,
        // The only such field is a time, whose zero is null.
        Omit::Zero => value.is_null(),
        Omit::Empty => match &field.kind {
            FieldType::Pointer(_) => value.is_null(),
            FieldType::String | FieldType::Bytes => {
                value.is_null() || value.as_str().is_some_and(str::is_empty)
            }
            FieldType::Int32 | FieldType::Int64 | FieldType::Double => value.as_f64() == Some(0.0),
            FieldType::Bool => *value == Value::Bool(false),
            FieldType::List(_) | FieldType::Wrapped(_) => {
                value.is_null() || value.as_array().is_some_and(Vec::is_empty)
            }
            FieldType::Map(_) => value.is_null() || value.as_object().is_some_and(Map::is_empty),
            _ => false,
        },
    }
}
