//! OpenAPI schemas of the types in the type table.
//!
//! [`Schemas`] returns references and records their targets; [`Schemas::finish`] writes a schema
//! for each target, and for the targets of those.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Dialect, describe, group_version_kind};
use crate::types::{self, Field, FieldType, ListFacts, Omit, TypeDef};

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CRD: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

pub(super) struct Schemas {
    pub(super) dialect: Dialect,
    group: String,
    version: String,
    /// Referenced, but not written yet.
    wanted: Vec<String>,
    written: BTreeMap<String, Value>,
}

// === impl Schemas ===

impl Schemas {
    pub(super) fn new(dialect: Dialect, group: &str, version: &str) -> Self {
        let (group, version) = (group.to_owned(), version.to_owned());
        Self { dialect, group, version, wanted: Vec::new(), written: BTreeMap::new() }
    }

    /// A reference to a type of the table or one of the special types.
    pub(super) fn reference(&mut self, name: &str) -> Value {
        self.wanted.push(name.to_owned());
        self.dialect.reference(name)
    }

    /// Adds a finished schema and returns a reference to it.
    pub(super) fn insert(&mut self, name: &str, schema: Value) -> Value {
        self.written.insert(name.to_owned(), schema);
        self.dialect.reference(name)
    }

    pub(super) fn finish(mut self) -> Map<String, Value> {
        while let Some(name) = self.wanted.pop() {
            if !self.written.contains_key(&name) {
                let schema = match types::by_name(&name) {
                    Some(definition) => self.of_struct(definition),
                    None => self.of_word(&name),
                };
                self.written.insert(name, schema);
            }
        }
        self.written.into_iter().collect()
    }

    fn of_struct(&mut self, definition: &'static TypeDef) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for field in definition.all_fields() {
            let described = describe::of_field(definition.name, field.name);
            properties.insert(field.name.to_owned(), self.of_field(field, described));
            if field.required {
                required.push(field.name);
            }
        }
        required.sort_unstable();
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        if let Some(description) = describe::of_type(definition.name) {
            schema.insert("description".into(), description.clone());
        } else if let Some(item) = definition.short_name().strip_suffix("List") {
            schema.insert("description".into(), format!("A list of {item} objects.").into());
        }
        if !properties.is_empty() {
            schema.insert("properties".into(), properties.into());
        }
        if !required.is_empty() {
            schema.insert("required".into(), required.into());
        }
        if definition.atomic {
            schema.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        if !definition.kinds.is_empty() {
            schema.insert("x-kubernetes-group-version-kind".into(), self.kinds_of(definition));
        }
        schema.into()
    }

    fn kinds_of(&self, definition: &TypeDef) -> Value {
        let mut kinds = Vec::new();
        for (api_version, kind) in &definition.kinds {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            if version == "*" {
                kinds.push(group_version_kind("", "v1", kind));
                if !self.group.is_empty() {
                    kinds.push(group_version_kind(&self.group, &self.version, kind));
                }
            } else {
                kinds.push(group_version_kind(group, version, kind));
            }
        }
        kinds.into()
    }

    fn of_field(&mut self, field: &'static Field, description: Option<&Value>) -> Value {
        let mut facts = Map::new();
        if let Some(description) = description {
            facts.insert("description".into(), description.clone());
        }
        if self.dialect == Dialect::V3 {
            let implied = || zero_of(&field.kind, field.omit == Omit::Never);
            if let Some(default) = field.default.clone().or_else(implied) {
                facts.insert("default".into(), default);
            }
        }
        match &field.list {
            Some(ListFacts::Atomic) => drop(facts.insert(LIST_TYPE.into(), "atomic".into())),
            Some(ListFacts::Set) => drop(facts.insert(LIST_TYPE.into(), "set".into())),
            Some(ListFacts::Map(keys)) => {
                facts.insert(LIST_TYPE.into(), "map".into());
                facts.insert("x-kubernetes-list-map-keys".into(), json!(keys));
            }
            None => {}
        }
        if field.atomic_map {
            facts.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        if let Some(patch) = field.patch {
            let strategy = match (patch.merge, patch.retain_keys) {
                (true, true) => "merge,retainKeys",
                (true, false) => "merge",
                (false, _) => "retainKeys",
            };
            facts.insert("x-kubernetes-patch-strategy".into(), strategy.into());
            if let Some(key) = patch.key {
                facts.insert("x-kubernetes-patch-merge-key".into(), key.into());
            }
        }
        let schema = self.of_type(&field.kind);
        self.with_facts(schema, facts)
    }

    /// In v3 a reference allows no siblings, so it is wrapped into an `allOf`.
    fn with_facts(&self, mut schema: Value, mut facts: Map<String, Value>) -> Value {
        if facts.is_empty() {
            return schema;
        }
        if self.dialect == Dialect::V3 && schema.get("$ref").is_some() {
            facts.insert("allOf".into(), json!([schema]));
            return facts.into();
        }
        if let Some(members) = schema.as_object_mut() {
            members.append(&mut facts);
        }
        schema
    }

    fn of_type(&mut self, kind: &'static FieldType) -> Value {
        match kind {
            FieldType::String => json!({ "type": "string" }),
            FieldType::Int32 => json!({ "type": "integer", "format": "int32" }),
            FieldType::Int64 => json!({ "type": "integer", "format": "int64" }),
            FieldType::Bool => json!({ "type": "boolean" }),
            FieldType::Double => json!({ "type": "number", "format": "double" }),
            FieldType::Bytes => json!({ "type": "string", "format": "byte" }),
            FieldType::Quantity => self.reference(QUANTITY),
            FieldType::IntOrString => self.reference(INT_OR_STRING),
            FieldType::Time => self.reference(&format!("{META}.Time")),
            FieldType::MicroTime => self.reference(&format!("{META}.MicroTime")),
            FieldType::FieldsV1 => self.reference(&format!("{META}.FieldsV1")),
            FieldType::Raw => self.reference(RAW_EXTENSION),
            FieldType::Json => self.reference(&format!("{CRD}.JSON")),
            FieldType::SchemaOrArray => self.reference(&format!("{CRD}.JSONSchemaPropsOrArray")),
            FieldType::SchemaOrBool => self.reference(&format!("{CRD}.JSONSchemaPropsOrBool")),
            FieldType::SchemaOrStrings => {
                self.reference(&format!("{CRD}.JSONSchemaPropsOrStringArray"))
            }
            FieldType::Struct(id) => self.reference(id.get().name),
            FieldType::Pointer(target) => self.of_type(target),
            FieldType::List(item) | FieldType::Wrapped(item) => {
                json!({ "type": "array", "items": self.of_element(item) })
            }
            FieldType::Map(of) => {
                json!({ "type": "object", "additionalProperties": self.of_element(of) })
            }
        }
    }

    /// An item of a list or a value of a map; in v3 it gets the default of its type.
    fn of_element(&mut self, kind: &'static FieldType) -> Value {
        let schema = self.of_type(kind);
        let default = zero_of(kind, true).filter(|_| self.dialect == Dialect::V3);
        let facts = default.map(|default| ("default".to_owned(), default));
        self.with_facts(schema, facts.into_iter().collect())
    }

    fn of_word(&self, name: &str) -> Value {
        let v3 = self.dialect == Dialect::V3;
        let mut schema = match name.rsplit('.').next().unwrap_or(name) {
            "Quantity" if v3 => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
            "Quantity" => json!({ "type": "string" }),
            "IntOrString" if v3 => json!({
                "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }],
            }),
            "IntOrString" => json!({ "type": "string", "format": "int-or-string" }),
            "Time" | "MicroTime" => json!({ "type": "string", "format": "date-time" }),
            "RawExtension" | "FieldsV1" | "Patch" => json!({ "type": "object" }),
            _ => json!({}),
        };
        if let Some(description) = describe::of_type(name) {
            schema["description"] = description.clone();
        }
        schema
    }
}

const LIST_TYPE: &str = "x-kubernetes-list-type";

/// The default in OpenAPI v3 for a value that is always written. A struct always is.
fn zero_of(kind: &FieldType, always_written: bool) -> Option<Value> {
    match kind {
        FieldType::Struct(_) => Some(json!({})),
        FieldType::String if always_written => Some(json!("")),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double if always_written => Some(json!(0)),
        FieldType::Bool if always_written => Some(json!(false)),
        _ => None,
    }
}
