//! The type table of built-in kinds: fields, protobuf numbers, merge rules.
//!
//! The table is one generated text (written by `tools/builtin-types`), parsed once. Its users are
//! strict decoding ([`check`]), the round trip through Go structs ([`normalise`]), merging
//! ([`BuiltinShape`]), protobuf and OpenAPI.
//!
//! ```text
//! kind("apps", "v1", "Deployment") -> TypeDef --field "spec"--> FieldType::Struct(id) -> ...
//! ```

pub(crate) mod base64;
mod check;
mod duplicates;
mod normalise;
mod parse;
mod shape;
#[cfg(test)]
mod tests;
mod time;

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

pub(crate) use self::{
    base64::{decode as decode_base64, encode as encode_base64},
    check::check,
    duplicates::duplicate_fields,
    normalise::normalise,
    shape::BuiltinShape,
    time::{format_micro as format_micro_time, format_seconds as format_time, parse as parse_time},
};

/// `apiextensions.k8s.io/v1`'s schema type, which the unions of schemas refer to by themselves.
pub(crate) const JSON_SCHEMA_PROPS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

static TABLE: LazyLock<TypeTable> =
    LazyLock::new(|| parse::table(include_str!("../data/builtin-types.txt")));

/// All types, by name and by kind.
pub(crate) struct TypeTable {
    types: Vec<TypeDef>,
    by_name: HashMap<&'static str, TypeId>,
    /// By `apiVersion` and kind; an `apiVersion` of `*` matches any.
    by_kind: HashMap<(&'static str, &'static str), TypeId>,
    json_schema_props: TypeId,
}

/// The index of a type in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypeId(usize);

/// One struct.
#[derive(Debug)]
pub(crate) struct TypeDef {
    /// `io.k8s.api.apps.v1.DeploymentSpec`
    pub name: &'static str,
    /// Server-side apply replaces it as a whole.
    pub atomic: bool,
    /// `apiVersion` and kind of each object with this type.
    pub kinds: Vec<(&'static str, &'static str)>,
    /// Sorted by JSON name, without those of inlined structs.
    pub fields: Vec<Field>,
    pub inlined: Vec<Inlined>,
    /// Sorted by protobuf number.
    wire: Vec<(u32, WireMember)>,
}

/// A struct whose fields are inlined in JSON, but have a message of their own in protobuf.
#[derive(Debug)]
pub(crate) struct Inlined {
    pub target: TypeId,
}

#[derive(Debug, Clone, Copy)]
enum WireMember {
    Field(usize),
    Inlined(usize),
}

/// The member with a protobuf number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Member {
    Field(&'static Field),
    Inlined(&'static TypeDef),
}

#[derive(Debug)]
pub(crate) struct Field {
    /// The JSON name.
    pub name: &'static str,
    pub kind: FieldType,
    pub required: bool,
    pub omit: Omit,
    pub default: Option<Value>,
    pub list: Option<ListFacts>,
    /// Server-side apply replaces this map or struct as a whole.
    pub atomic_map: bool,
    pub patch: Option<PatchFacts>,
}

/// When the JSON encoder leaves a field out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Omit {
    Never,
    /// `omitempty`, which has no effect on a struct.
    Empty,
    /// `omitzero`
    Zero,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListFacts {
    Atomic,
    Set,
    Map(Vec<&'static str>),
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PatchFacts {
    pub merge: bool,
    pub retain_keys: bool,
    pub key: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldType {
    String,
    Int32,
    Int64,
    Bool,
    Double,
    /// Base64 in JSON.
    Bytes,
    Quantity,
    IntOrString,
    /// With whole seconds.
    Time,
    MicroTime,
    /// `runtime.RawExtension`: any JSON, atomic in server-side apply.
    Raw,
    /// Any JSON.
    Json,
    FieldsV1,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    Struct(TypeId),
    Pointer(Box<FieldType>),
    List(Box<FieldType>),
    /// A list that protobuf wraps in a message.
    Wrapped(Box<FieldType>),
    Map(Box<FieldType>),
}

#[cfg(test)]
pub(crate) fn table() -> &'static TypeTable {
    &TABLE
}

/// The type of a built-in kind's objects, or of its lists if `kind` ends in `List`.
pub(crate) fn kind(group: &str, version: &str, kind: &str) -> Option<&'static TypeDef> {
    if group.is_empty() {
        by_api_version(version, kind)
    } else {
        by_api_version(&format!("{group}/{version}"), kind)
    }
}

/// As [`kind()`], with group and version as an object spells them.
pub(crate) fn by_api_version(api_version: &str, kind: &str) -> Option<&'static TypeDef> {
    let known = TABLE.by_kind.get(&(api_version, kind)).or_else(|| TABLE.by_kind.get(&("*", kind)));
    known.map(|id| id.get())
}

/// The type with this OpenAPI name.
pub(crate) fn by_name(name: &str) -> Option<&'static TypeDef> {
    TABLE.by_name.get(name).map(|id| id.get())
}

// === impl TypeTable ===

#[cfg(test)]
impl TypeTable {
    pub(crate) fn types(&self) -> &[TypeDef] {
        &self.types
    }
}

// === impl TypeId ===

impl TypeId {
    pub(crate) fn get(self) -> &'static TypeDef {
        TABLE.types.get(self.0).expect("ids are only made for types of the one table")
    }

    pub(crate) fn json_schema_props() -> Self {
        TABLE.json_schema_props
    }
}

// === impl TypeDef ===

impl TypeDef {
    /// The field of this JSON name, its own or an inlined one.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        match self.fields.binary_search_by(|field| field.name.cmp(name)) {
            Ok(found) => self.fields.get(found),
            Err(_) => self.inlined.iter().find_map(|inlined| inlined.target.get().field(name)),
        }
    }

    /// Every field JSON can have, inlined ones after the struct's own.
    pub(crate) fn all_fields(&self) -> Vec<&Field> {
        let mut all: Vec<_> = self.fields.iter().collect();
        for inlined in &self.inlined {
            all.extend(inlined.target.get().all_fields());
        }
        all
    }

    /// The parts of the protobuf message in order of their numbers.
    pub(crate) fn members(&'static self) -> impl Iterator<Item = (u32, Member)> {
        self.wire.iter().filter_map(|(number, member)| Some((*number, self.resolve(*member)?)))
    }

    pub(crate) fn member(&'static self, number: u32) -> Option<Member> {
        let found = self.wire.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.resolve(self.wire.get(found)?.1)
    }

    fn resolve(&'static self, member: WireMember) -> Option<Member> {
        match member {
            WireMember::Field(index) => self.fields.get(index).map(Member::Field),
            WireMember::Inlined(index) => {
                self.inlined.get(index).map(|inlined| Member::Inlined(inlined.target.get()))
            }
        }
    }

    /// `DeploymentSpec`
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// As Go prints the type: `v1.DeploymentSpec`.
    pub(crate) fn go_name(&self) -> &'static str {
        let start = self.name.rmatch_indices('.').nth(1).map_or(0, |(dot, _)| dot + 1);
        self.name.get(start..).unwrap_or(self.name)
    }
}

// === impl FieldType ===

impl FieldType {
    /// The type behind a pointer, or the type itself.
    pub(crate) fn pointee(&self) -> &FieldType {
        match self {
            Self::Pointer(target) => target.pointee(),
            other => other,
        }
    }

    /// As Go prints the type in a decode error.
    fn go_name(&self) -> String {
        match self {
            Self::String | Self::Time | Self::MicroTime => "string".into(),
            Self::Int32 | Self::IntOrString => "int32".into(),
            Self::Int64 => "int64".into(),
            Self::Bool => "bool".into(),
            Self::Double => "float64".into(),
            Self::Bytes => "[]uint8".into(),
            Self::Quantity => "resource.Quantity".into(),
            Self::Raw => "runtime.RawExtension".into(),
            Self::Json | Self::SchemaOrArray | Self::SchemaOrBool | Self::SchemaOrStrings => {
                "v1.JSON".into()
            }
            Self::FieldsV1 => "v1.FieldsV1".into(),
            Self::Struct(target) => target.get().go_name().into(),
            Self::Pointer(target) => target.go_name(),
            Self::List(item) | Self::Wrapped(item) => format!("[]{}", item.go_name()),
            Self::Map(value) => format!("map[string]{}", value.go_name()),
        }
    }
}
