//! Structural schemas of custom resources: pruning, defaulting and validation.
//!
//! [`Schema::compile`] compiles the `openAPIV3Schema` of a `CustomResourceDefinition`, with its
//! patterns and CEL rules, or returns the errors of Kubernetes. The server applies the compiled
//! tree to plain JSON, in the order of an API server:
//!
//! ```text
//! prune ──► default ──► validate (OpenAPI, list keys, CEL)      all three: admit
//! ```
//!
//! This module is independent of HTTP, storage and versions. Error texts are those of Kubernetes
//! 1.36.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{failure::FieldError, shape::ListKind};

mod audit;
mod compile;
mod defaults;
mod embedded;
mod field_path;
mod formats;
mod lists;
mod path;
mod pattern;
mod prune;
mod ratchet;
mod raw;
mod rules;
mod structural;
mod validate;
mod view;

#[cfg(test)]
mod tests;

pub use view::SchemaShape;

pub(crate) use field_path::FieldPath;
pub(crate) use formats::unknown_formats;

/// Path of a schema shared by all versions of a definition, in errors of Kubernetes.
const DEFAULT_ROOT: &str = "spec.validation.openAPIV3Schema";

/// One node of a compiled schema, with everything below it.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of its own")]
pub struct Schema {
    kinds: Kinds,
    nullable: bool,
    default: Option<Value>,
    properties: BTreeMap<String, Schema>,
    additional: Additional,
    items: Option<Box<Schema>>,
    limits: Limits,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    preserves_unknown: bool,
    embedded: bool,
    list: List,
    atomic_object: bool,
    rules: Vec<rules::Rule>,
    below: Below,
}

/// A JSON type by its OpenAPI name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// The types a node accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kinds {
    #[default]
    Any,
    One(Kind),
    IntegerOrString,
}

/// `additionalProperties`.
#[derive(Debug, Default)]
enum Additional {
    #[default]
    Unset,
    Allowed(bool),
    Each(Box<Schema>),
}

/// `x-kubernetes-list-type`; unset means atomic, but Kubernetes distinguishes the two in places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct List {
    kind: Option<ListKind>,
}

/// Validations of one node that depend on its value alone.
#[derive(Debug, Default)]
struct Limits {
    format: Option<formats::Format>,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    minimum: Option<f64>,
    exclusive_minimum: bool,
    multiple_of: Option<f64>,
    max_length: Option<u64>,
    min_length: Option<u64>,
    pattern: Option<pattern::Pattern>,
    max_items: Option<u64>,
    min_items: Option<u64>,
    max_properties: Option<u64>,
    min_properties: Option<u64>,
    required: Vec<String>,
    options: Vec<Value>,
}

/// Features of a node and everything below it, so that walks can skip whole subtrees.
#[derive(Debug, Clone, Copy, Default)]
struct Below {
    rules: bool,
    /// Nesting depth of the deepest rule.
    rule_depth: usize,
    keyed_lists: bool,
    embedded: bool,
}

/// Prunes, defaults and validates one object. `old` is the stored object on update.
///
/// Returns the paths of the dropped fields, for strict field validation.
pub fn admit(
    schema: &Schema,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Vec<String>, Vec<FieldError>> {
    let unknown = schema.prune(object);
    schema.default(object);
    let errors = schema.validate(object, old);
    if errors.is_empty() { Ok(unknown) } else { Err(errors) }
}

// === impl Schema ===

impl Schema {
    /// Compiles a schema; the errors' paths start at `spec.validation.openAPIV3Schema`.
    pub fn compile(schema: &Value) -> Result<Self, Vec<FieldError>> {
        Self::compile_at(schema, DEFAULT_ROOT)
    }

    /// Compiles a schema at `path` in its definition.
    pub fn compile_at(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        if raw::deeper_than(schema, raw::MAX_DEPTH) {
            let detail = format!("must not be nested deeper than {} levels", raw::MAX_DEPTH);
            return Err(vec![FieldError::forbidden(path, detail)]);
        }
        let mut errors = structural::check(schema, path);
        errors.extend(audit::check(schema, path));
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut compiled = compile::compile(schema, path)?;
        let errors = rules::compile(&mut compiled, schema, path);
        if !errors.is_empty() {
            return Err(errors);
        }
        let errors = compiled.check_defaults(path);
        if errors.is_empty() { Ok(compiled) } else { Err(errors) }
    }

    /// Removes undeclared fields and returns their paths, sorted.
    ///
    /// `apiVersion`, `kind` and `metadata` of the root and of embedded resources are kept.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune_root(self, object)
    }

    /// Drops nulls that are neither allowed nor defaulted, then fills in defaults.
    pub fn default(&self, object: &mut Value) {
        defaults::drop_nulls(self, object);
        defaults::fill(self, object);
    }

    /// Fills in defaults, without dropping nulls.
    pub fn fill(&self, object: &mut Value) {
        defaults::fill(self, object);
    }

    /// All errors of `new`. On update, errors in unchanged parts are tolerated.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_after(Vec::new(), new, old)
    }

    /// Like [`Schema::validate`], after other checks found `errors`: some of those prevent the
    /// evaluation of rules.
    pub(crate) fn validate_after(
        &self,
        mut errors: Vec<FieldError>,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        errors.extend(validate::validate(self, new, old, ""));
        self.validate_structure(new, old, &mut errors);
        errors
    }

    /// Validation of a write to the `status` subresource: OpenAPI for the status alone, and the
    /// rules of the whole object.
    pub fn validate_status(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_status_after(Vec::new(), new, old)
    }

    /// Like [`Schema::validate_status`], after other checks found `errors`.
    pub(crate) fn validate_status_after(
        &self,
        mut errors: Vec<FieldError>,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        if let (Some(schema), Some(status)) = (self.properties.get("status"), new.get("status")) {
            let old_status = old.and_then(|old| old.get("status"));
            errors.extend(validate::validate(schema, status, old_status, "status"));
        }
        self.validate_structure(new, old, &mut errors);
        errors
    }

    /// The checks after OpenAPI: embedded resources, list keys, CEL rules.
    fn validate_structure(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        errors.extend(embedded::validate(self, new));
        // As in Kubernetes: a list with duplicate keys may keep them.
        if old.is_none_or(|old| lists::validate(self, old).is_empty()) {
            errors.extend(lists::validate(self, new));
        }
        if self.below.rules {
            if errors.iter().any(validate::blocks_rules) {
                errors.push(validate::rules_not_checked());
            } else {
                errors.extend(rules::evaluate(self, new, old));
            }
        }
    }

    /// The declared type of the field at `path`, if the path exists and has a single type.
    pub(crate) fn scalar_type_at(&self, path: &FieldPath) -> Option<&'static str> {
        match path.resolve(self)?.kinds {
            Kinds::One(kind) => Some(kind.name()),
            Kinds::Any | Kinds::IntegerOrString => None,
        }
    }

    /// Whether the path names a field of the schema.
    pub(crate) fn declares(&self, path: &FieldPath) -> bool {
        path.resolve(self).is_some()
    }

    fn child(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Each(schema) => Some(schema),
            Additional::Unset | Additional::Allowed(_) => None,
        })
    }

    /// The schemas directly below this one that describe parts of the value.
    fn children(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Additional::Each(schema) => Some(schema.as_ref()),
            Additional::Unset | Additional::Allowed(_) => None,
        };
        self.properties.values().chain(additional).chain(self.items.as_deref())
    }
}

// === impl Kind ===

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all =
            [Self::Object, Self::Array, Self::String, Self::Integer, Self::Number, Self::Boolean];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

// === impl Kinds ===

impl Kinds {
    fn contains(self, kind: Kind) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == kind,
            Self::IntegerOrString => matches!(kind, Kind::Integer | Kind::String),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::One(kind) => kind.name(),
            Self::IntegerOrString => "integer,string",
        }
    }
}
