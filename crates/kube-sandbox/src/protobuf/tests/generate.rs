//! Generates objects of any built-in type from the type table.

use serde_json::{Map, Value, json};

use crate::types::{Field, FieldType, Member, TypeDef, encode_base64};

/// A small generator (xorshift) with a seed.
pub(super) struct Random(pub(super) u64);

// === impl Random ===

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// An object with some of its type's fields, fewer with depth. Lists and maps are never empty:
    /// protobuf cannot distinguish empty from absent.
    pub(super) fn object(&mut self, definition: &'static TypeDef, depth: u64) -> Value {
        let mut object = Map::new();
        for field in definition.all_fields() {
            let wanted = self.below(4 + 2 * depth) < 2;
            if wanted && depth < 12 && travels(definition, field) {
                object.insert(field.name.to_owned(), self.value(&field.kind, depth));
            }
        }
        Value::Object(object)
    }

    fn value(&mut self, kind: &'static FieldType, depth: u64) -> Value {
        match kind {
            FieldType::String => json!(self.word()),
            FieldType::Int32 => json!(self.below(1 << 32).cast_signed() - (1 << 31)),
            FieldType::Int64 => json!(self.below(u64::MAX).cast_signed()),
            FieldType::Bool => json!(self.below(2) == 1),
            FieldType::Double => json!(f64::from(u32::try_from(self.below(4000)).unwrap()) / 8.0),
            FieldType::Bytes => json!(encode_base64(self.word().as_bytes())),
            FieldType::Quantity => {
                let suffix =
                    ["", "m", "Mi", "Gi", "k", "e3"][usize::try_from(self.below(6)).unwrap()];
                json!(format!("{}{suffix}", self.below(5000)))
            }
            FieldType::IntOrString if self.below(2) == 0 => json!(format!("{}%", self.below(100))),
            FieldType::IntOrString => json!(self.below(70_000)),
            FieldType::Time => json!(format!("20{:02}-05-01T12:00:00Z", self.below(100))),
            FieldType::MicroTime => {
                json!(format!("2024-05-01T12:00:00.{:06}Z", self.below(1_000_000)))
            }
            FieldType::Raw | FieldType::Json | FieldType::FieldsV1 => {
                json!({ "f:any": { "x": [self.below(9), "y", null] } })
            }
            FieldType::SchemaOrArray => json!([{ "type": self.word() }, { "minimum": 1 }]),
            FieldType::SchemaOrBool if self.below(2) == 0 => json!(self.below(2) == 1),
            FieldType::SchemaOrBool => json!({ "type": self.word() }),
            FieldType::SchemaOrStrings => json!([self.word()]),
            FieldType::Struct(id) => self.object(id.get(), depth + 1),
            FieldType::Pointer(target) => self.value(target, depth),
            FieldType::List(item) | FieldType::Wrapped(item) => {
                (0..=self.below(2)).map(|_| self.value(item, depth + 1)).collect()
            }
            FieldType::Map(of) => {
                (0..=self.below(2)).map(|_| (self.word(), self.value(of, depth + 1))).collect()
            }
        }
    }

    fn word(&mut self) -> String {
        let words = ["", "web", "ä", "a/b.c", "0", "a longer one, with \"quotes\" and\nlines"];
        words[usize::try_from(self.below(6)).unwrap()].to_owned()
    }
}

/// Whether a field of a type, or of one of those inlined in it, has a place in its message.
fn travels(definition: &'static TypeDef, field: &'static Field) -> bool {
    definition.members().any(|(_, member)| match member {
        Member::Field(known) => std::ptr::eq(known, field),
        Member::Inlined(inner) => travels(inner, field),
    })
}
