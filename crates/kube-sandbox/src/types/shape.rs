//! Implements [`Shape`] for built-in types.

use serde_json::{Value, json};

use super::{Field, FieldType, ListFacts, Omit, TypeDef};
use crate::shape::{ListKind, Shape};

/// A position in a built-in type. Outside of it (free JSON, unknown fields) objects merge by key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltinShape {
    place: Place,
    /// The field with this value, which has the merge rules of lists and maps.
    field: Option<&'static Field>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Struct(&'static TypeDef),
    Typed(&'static FieldType),
    Unknown,
}

// === impl BuiltinShape ===

impl BuiltinShape {
    pub(crate) fn new(definition: &'static TypeDef) -> Self {
        Self { place: Place::Struct(definition), field: None }
    }

    /// The shape of a kind's objects, if it is built in.
    pub(crate) fn of_kind(group: &str, version: &str, kind: &str) -> Option<Self> {
        super::kind(group, version, kind).map(Self::new)
    }

    fn typed(kind: &'static FieldType, field: Option<&'static Field>) -> Self {
        let place = match kind.pointee() {
            FieldType::Struct(id) => Place::Struct(id.get()),
            other => Place::Typed(other),
        };
        Self { place, field }
    }

    fn unknown() -> Self {
        Self { place: Place::Unknown, field: None }
    }
}

impl Shape for BuiltinShape {
    fn field(&self, name: &str) -> Self {
        match self.place {
            Place::Struct(definition) => definition
                .field(name)
                .map_or_else(Self::unknown, |field| Self::typed(&field.kind, Some(field))),
            Place::Typed(FieldType::Map(value)) => Self::typed(value, None),
            Place::Typed(_) | Place::Unknown => Self::unknown(),
        }
    }

    fn items(&self) -> Self {
        match self.place {
            Place::Typed(FieldType::List(item) | FieldType::Wrapped(item)) => {
                Self::typed(item, None)
            }
            Place::Struct(_) | Place::Typed(_) | Place::Unknown => Self::unknown(),
        }
    }

    fn list(&self) -> ListKind {
        let Some(field) = self.field else { return ListKind::Atomic };
        let of_key = |key: &str| ListKind::Map(vec![key.to_owned()]);
        match (&field.list, field.patch) {
            (Some(ListFacts::Set), _) => ListKind::Set,
            (Some(ListFacts::Map(keys)), _) => {
                ListKind::Map(keys.iter().map(|key| (*key).to_owned()).collect())
            }
            // Without a list type, server-side apply uses the rules of strategic merge.
            (None, Some(patch)) if patch.merge => patch.key.map_or(ListKind::Set, of_key),
            (Some(ListFacts::Atomic) | None, _) => ListKind::Atomic,
        }
    }

    fn is_atomic_object(&self) -> bool {
        let by_field = self.field.is_some_and(|field| field.atomic_map);
        by_field
            || match self.place {
                Place::Struct(definition) => definition.atomic,
                Place::Typed(kind) => *kind == FieldType::Raw,
                Place::Unknown => false,
            }
    }

    fn key_default(&self, key: &str) -> Option<Value> {
        let Place::Struct(item) = self.items().place else { return None };
        let field = item.field(key)?;
        field.default.clone().or_else(|| {
            // A field that is always written has its zero value as default.
            (field.omit == Omit::Never).then(|| match field.kind {
                FieldType::String => Some(json!("")),
                FieldType::Int32 | FieldType::Int64 => Some(json!(0)),
                FieldType::Bool => Some(json!(false)),
                _ => None,
            })?
        })
    }

    fn declares(&self, name: &str) -> bool {
        matches!(self.place, Place::Struct(definition) if definition.field(name).is_some())
    }

    fn patch_merge(&self) -> Option<Option<String>> {
        let patch = self.field?.patch.filter(|patch| patch.merge)?;
        Some(patch.key.map(ToOwned::to_owned))
    }
}
