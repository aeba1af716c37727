//! Strict decoding of JSON bodies, as in Kubernetes.
//!
//! A value of the wrong type is an error for the whole body, with the text of Go's decoder. An
//! unknown field is only reported: `fieldValidation` decides whether it is an error, a warning or
//! dropped.

use std::fmt::Write as _;

use serde_json::Value;

use super::{FieldType, TypeDef, TypeId, base64, time};
use crate::quantity;

/// Maximum number of reported fields, as in Kubernetes.
const UNKNOWN_FIELDS_MAX: usize = 100;

/// Checks `value` against its type.
///
/// `Ok` lists the paths of unknown fields (`spec.template.spec.containers[0].imagee`), `Err` is the
/// text of the first type mismatch.
pub(crate) fn check(definition: &'static TypeDef, value: &Value) -> Result<Vec<String>, String> {
    let mut check = Check { unknown: Vec::new(), path: String::new(), fields: Vec::new(), deaf: 0 };
    if !value.is_object() && !value.is_null() {
        let (met, name) = (word_for(value), definition.go_name());
        return Err(format!("json: cannot unmarshal {met} into Go value of type {name}"));
    }
    check.object(definition, value)?;
    Ok(check.unknown)
}

struct Check {
    unknown: Vec<String>,
    /// The current path in strict errors: with map keys and indices.
    path: String,
    /// The current path in Go's type errors: names of struct fields only.
    fields: Vec<&'static str>,
    /// Above zero inside types with their own decoder, where unknown fields are not reported.
    deaf: usize,
}

// === impl Check ===

impl Check {
    fn object(&mut self, definition: &'static TypeDef, value: &Value) -> Result<(), String> {
        let Some(members) = value.as_object() else { return Ok(()) };
        for (name, member) in members {
            let Some(field) = definition.field(name) else {
                self.report_unknown(name);
                continue;
            };
            let before = self.enter_key(name);
            self.fields.push(field.name);
            self.value(definition, &field.kind, member)?;
            self.fields.pop();
            self.path.truncate(before);
        }
        Ok(())
    }

    /// `owner` is the struct named in Go's error: the innermost one around the value.
    fn value(
        &mut self,
        owner: &'static TypeDef,
        kind: &'static FieldType,
        value: &Value,
    ) -> Result<(), String> {
        let fits = match (kind, value) {
            (_, Value::Null)
            | (FieldType::Raw | FieldType::Json | FieldType::FieldsV1, _)
            | (FieldType::String | FieldType::IntOrString, Value::String(_))
            | (FieldType::Bool, Value::Bool(_))
            | (FieldType::Double, Value::Number(_)) => true,
            (FieldType::Pointer(target), _) => return self.value(owner, target, value),
            (FieldType::Struct(id), Value::Object(_)) => return self.object(id.get(), value),
            (FieldType::List(item) | FieldType::Wrapped(item), Value::Array(items)) => {
                return self.items(owner, item, items);
            }
            (FieldType::Map(of), Value::Object(members)) => {
                for (key, member) in members {
                    let before = self.enter_key(key);
                    self.value(owner, of, member)?;
                    self.path.truncate(before);
                }
                true
            }
            (FieldType::Int32 | FieldType::IntOrString, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (FieldType::Int64, Value::Number(number)) => number.is_i64(),
            (FieldType::Bytes, Value::String(text)) => {
                return base64::decode(text)
                    .map(drop)
                    .map_err(|at| format!("illegal base64 data at input byte {at}"));
            }
            (FieldType::Quantity, Value::String(text)) => {
                return quantity::canonical(text).map(drop).map_err(Into::into);
            }
            (FieldType::Quantity, Value::Number(number)) => {
                return quantity::canonical(&number.to_string()).map(drop).map_err(Into::into);
            }
            (FieldType::Quantity, _) => return Err(quantity::NOT_A_QUANTITY.into()),
            (FieldType::Time | FieldType::MicroTime, Value::String(text)) => {
                return time::check(text, *kind == FieldType::MicroTime);
            }
            (
                FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings,
                _,
            ) => return self.schema(owner, kind, value),
            _ => false,
        };
        if fits { Ok(()) } else { Err(self.mismatch(owner, kind, value)) }
    }

    fn items(
        &mut self,
        owner: &'static TypeDef,
        kind: &'static FieldType,
        items: &[Value],
    ) -> Result<(), String> {
        let before = self.path.len();
        for (index, item) in items.iter().enumerate() {
            let _ = write!(self.path, "[{index}]");
            self.value(owner, kind, item)?;
            self.path.truncate(before);
        }
        Ok(())
    }

    fn schema(
        &mut self,
        owner: &'static TypeDef,
        kind: &'static FieldType,
        value: &Value,
    ) -> Result<(), String> {
        let schema = TypeId::json_schema_props().get();
        self.deaf += 1;
        match (kind, value) {
            (_, Value::Object(_)) => self.object(schema, value)?,
            (FieldType::SchemaOrArray, Value::Array(items)) => {
                for item in items {
                    self.object(schema, item)?;
                }
            }
            (FieldType::SchemaOrStrings, Value::Array(items)) => {
                if let Some(item) = items.iter().find(|item| !item.is_string()) {
                    return Err(self.mismatch(owner, &FieldType::String, item));
                }
            }
            (FieldType::SchemaOrBool, Value::Bool(_)) => {}
            (FieldType::SchemaOrBool, _) => return Err("boolean or JSON schema expected".into()),
            _ => {}
        }
        self.deaf -= 1;
        Ok(())
    }

    /// Appends `.key` and returns the previous length, for truncation.
    fn enter_key(&mut self, key: &str) -> usize {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        before
    }

    fn report_unknown(&mut self, name: &str) {
        if self.deaf == 0 && self.unknown.len() < UNKNOWN_FIELDS_MAX {
            let before = self.enter_key(name);
            self.unknown.push(self.path.clone());
            self.path.truncate(before);
        }
    }

    fn mismatch(&self, owner: &TypeDef, kind: &FieldType, value: &Value) -> String {
        let wants_integer =
            matches!(kind, FieldType::Int32 | FieldType::Int64 | FieldType::IntOrString);
        let met = match value {
            Value::Number(number) if wants_integer => format!("number {number}"),
            other => word_for(other).to_owned(),
        };
        let (struct_name, fields) = (owner.short_name(), self.fields.join("."));
        let kind = kind.go_name();
        format!(
            "json: cannot unmarshal {met} into Go struct field {struct_name}.{fields} of type {kind}"
        )
    }
}

fn word_for(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
