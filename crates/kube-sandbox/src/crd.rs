//! `CustomResourceDefinition`s: defaults, validation, status and the compiled form of a definition.
//!
//! Pure functions over the definition's JSON, which the server calls in the order of a write:
//!
//! ```text
//! defaults ──► reset_status ──► validate ──► (stored) ──► conflicts, accepted_status ──► parse
//! ```
//!
//! [`parse`] returns what the server needs to serve the kind, with compiled schemas.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    failure::{Failure, FieldError, Outcome},
    schema::{self, Schema},
    table::PrinterColumn,
};

mod compiled;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod version;

pub(crate) use status::{accepted_status, conflicts};
pub(crate) use validate::validate;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const KIND: &str = "CustomResourceDefinition";

/// The finalizer that keeps a CRD until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A parsed definition, ready to be served.
#[derive(Debug, Clone)]
pub struct Crd {
    pub group: String,
    pub names: Names,
    pub scope: Scope,
    /// In the order of the definition.
    pub versions: Vec<CrdVersion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_field_names, reason = "a definition calls them so")]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the definition has them one by one")]
pub struct CrdVersion {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    /// The warning text of the definition, if it has one of its own.
    pub deprecation_warning: Option<String>,
    pub schema: Arc<Schema>,
    /// The schema as written, for the OpenAPI documents.
    pub raw_schema: Value,
    pub status_subresource: bool,
    pub scale: Option<ScalePaths>,
    pub printer_columns: Vec<PrinterColumn>,
    /// JSON paths that field selectors may use.
    pub selectable_fields: Vec<String>,
}

/// JSON paths of the scale subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// Fills in what a definition may leave out.
pub(crate) fn defaults(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else { return };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut fill = |name: &str, default: String| {
        if names.get(name).and_then(Value::as_str).is_none_or(str::is_empty) && !kind.is_empty() {
            names.insert(name.to_owned(), default.into());
        }
    };
    fill("singular", kind.to_lowercase());
    fill("listKind", format!("{kind}List"));
}

/// Formats in the schemas of a definition that no value is checked against.
pub(crate) fn unknown_formats(crd: &Value) -> Vec<String> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let schemas = versions.into_iter().flatten();
    let schemas = schemas.filter_map(|version| version.pointer("/schema/openAPIV3Schema"));
    schemas.flat_map(schema::unknown_formats).collect()
}

/// Users do not write the status: a new definition starts with an empty one, a changed one keeps
/// its own. Either way the storage version is among the stored ones.
pub(crate) fn reset_status(crd: &mut Value, old: Option<&Value>) {
    let kept = old.and_then(|old| old.get("status")).and_then(Value::as_object).cloned();
    let mut status = kept.unwrap_or_else(|| {
        let mut status = Map::new();
        status.insert("conditions".to_owned(), json!([]));
        status.insert("acceptedNames".to_owned(), json!({"plural": "", "kind": ""}));
        status
    });
    let storage = raw_versions(crd).iter().find(|version| flag(version, "storage"));
    let storage = storage.map(|version| text(version, "name").to_owned());
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let (Some(storage), Some(stored)) = (storage, stored.as_array_mut())
        && !stored.iter().any(|version| version == &storage)
    {
        stored.push(storage.into());
    }
    if let Some(crd) = crd.as_object_mut() {
        crd.insert("status".to_owned(), status.into());
    }
}

/// The definition as a server needs it. Fails for one that would not validate.
pub(crate) fn parse(crd: &Value) -> Outcome<Crd> {
    let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let refused = |errors: &[FieldError]| Failure::invalid(GROUP, KIND, name, errors);
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let scope = match text(spec, "scope") {
        "Namespaced" => Scope::Namespaced,
        "Cluster" => Scope::Cluster,
        other => {
            let supported = ["Cluster", "Namespaced"];
            return Err(refused(&[FieldError::not_supported(
                "spec.scope",
                &other.into(),
                &supported,
            )]));
        }
    };
    let mut versions = Vec::new();
    for (index, version) in raw_versions(crd).iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        let Some(raw_schema) = version.pointer("/schema/openAPIV3Schema") else {
            return Err(refused(&[FieldError::required(path, "")]));
        };
        let schema = compiled::compile(raw_schema, &path).map_err(|errors| refused(&errors))?;
        versions.push(CrdVersion::read(version, raw_schema, schema));
    }
    let names = Names::read(spec.get("names").unwrap_or(&Value::Null));
    Ok(Crd { group: text(spec, "group").to_owned(), names, scope, versions })
}

// === impl Crd ===

impl Crd {
    pub fn version(&self, name: &str) -> Option<&CrdVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub fn storage_version(&self) -> Option<&CrdVersion> {
        self.versions.iter().find(|version| version.storage)
    }

    /// The served versions, most preferred first: `v2`, `v1`, `v1beta1`, then other names.
    pub fn served_versions(&self) -> Vec<&CrdVersion> {
        let mut served: Vec<_> = self.versions.iter().filter(|version| version.served).collect();
        served.sort_by(|left, right| version::compare(&right.name, &left.name));
        served
    }

    pub const fn is_namespaced(&self) -> bool {
        matches!(self.scope, Scope::Namespaced)
    }
}

// === impl Names ===

impl Names {
    fn read(names: &Value) -> Self {
        Self {
            plural: text(names, "plural").to_owned(),
            singular: text(names, "singular").to_owned(),
            kind: text(names, "kind").to_owned(),
            list_kind: text(names, "listKind").to_owned(),
            short_names: texts(names, "shortNames"),
            categories: texts(names, "categories"),
        }
    }
}

// === impl CrdVersion ===

impl CrdVersion {
    fn read(version: &Value, raw_schema: &Value, schema: Arc<Schema>) -> Self {
        let path = |scale: &Value, name: &str| text(scale, name).to_owned();
        let scale = version.pointer("/subresources/scale").filter(|scale| scale.is_object());
        Self {
            name: text(version, "name").to_owned(),
            served: flag(version, "served"),
            storage: flag(version, "storage"),
            deprecated: flag(version, "deprecated"),
            deprecation_warning: version
                .get("deprecationWarning")
                .and_then(Value::as_str)
                .map(ToOwned::to_owned),
            schema,
            raw_schema: raw_schema.clone(),
            status_subresource: version
                .pointer("/subresources/status")
                .is_some_and(Value::is_object),
            scale: scale.map(|scale| ScalePaths {
                spec_replicas: path(scale, "specReplicasPath"),
                status_replicas: path(scale, "statusReplicasPath"),
                label_selector: Some(path(scale, "labelSelectorPath"))
                    .filter(|path| !path.is_empty()),
            }),
            printer_columns: list(version, "additionalPrinterColumns")
                .iter()
                .map(PrinterColumn::from_json)
                .collect(),
            selectable_fields: list(version, "selectableFields")
                .iter()
                .map(|field| text(field, "jsonPath").to_owned())
                .collect(),
        }
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    list(value, name).iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

fn raw_versions(crd: &Value) -> &[Value] {
    crd.get("spec").map_or(&[], |spec| list(spec, "versions"))
}
