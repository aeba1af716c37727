//! The rules of a kind for writes, both for built-in kinds and for CRDs.
//!
//! This is the only place where the two differ; the rest of the server calls these functions.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::write::Ownership;
use crate::{
    builtin::{self, Strategy},
    crd::{self, CrdVersion},
    failure::{Failure, FieldError, Outcome},
    managed::FieldSet,
    names::NameRule,
    registry::{Backing, ResourceDef, version_priority},
    schema::SchemaShape,
    shape::{ListKind, Shape, Unknown},
    types::{self, BuiltinShape, TypeDef},
};

/// The part of an object that a write targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteTo {
    Object,
    Status,
    Scale,
    /// A pod's node.
    Binding,
    /// A namespace's own finalizers.
    Finalize,
}

/// The shape of any kind, for merging and field ownership.
#[derive(Clone)]
pub(super) enum AnyShape<'a> {
    Builtin(BuiltinShape),
    Custom(SchemaShape<'a>),
    Unknown(Unknown),
}

static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&["status"]));
static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&["spec"]));
static SPEC_AND_LABELS: LazyLock<FieldSet> =
    LazyLock::new(|| FieldSet::of_fields(&["spec", "metadata.labels"]));
static ALL_BUT_STATUS: LazyLock<FieldSet> = LazyLock::new(|| {
    let labels = ["metadata.labels", "metadata.annotations", "metadata.finalizers"];
    let rest = ["metadata.ownerReferences", "spec", "data"];
    FieldSet::of_fields(&[labels.as_slice(), &rest].concat())
});

// === impl WriteTo ===

impl WriteTo {
    pub(super) fn of(subresource: &str) -> Self {
        match subresource {
            "status" => Self::Status,
            "scale" => Self::Scale,
            "binding" => Self::Binding,
            "finalize" => Self::Finalize,
            _ => Self::Object,
        }
    }

    /// The name in `managedFields`.
    pub(super) fn subresource(self) -> &'static str {
        match self {
            Self::Object => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Finalize => "finalize",
        }
    }
}

/// Source of a resource's rules.
enum Source<'a> {
    Builtin(&'static Strategy),
    Custom(&'a CrdVersion),
    /// The CRD kind itself has rules of its own.
    Crd,
    None,
}

fn source(def: &ResourceDef) -> Source<'_> {
    match &def.backing {
        Backing::Custom(version) => Source::Custom(version),
        Backing::Review => Source::None,
        Backing::Builtin if def.kind == "CustomResourceDefinition" => Source::Crd,
        Backing::Builtin => {
            builtin::strategy(&def.group, &def.kind).map_or(Source::None, Source::Builtin)
        }
    }
}

pub(super) fn shape(def: &ResourceDef) -> AnyShape<'_> {
    match &def.backing {
        Backing::Custom(version) => AnyShape::Custom(SchemaShape::new(&version.schema)),
        Backing::Builtin | Backing::Review => {
            match BuiltinShape::of_kind(&def.group, &def.version, &def.kind) {
                Some(shape) => AnyShape::Builtin(shape),
                None => AnyShape::Unknown(Unknown),
            }
        }
    }
}

/// Fields that objects of a built-in kind always have, which get no owner.
pub(super) fn skeleton(def: &ResourceDef) -> Option<Value> {
    let known = match &def.backing {
        Backing::Builtin => types::kind(&def.group, &def.version, &def.kind)?,
        Backing::Custom(_) | Backing::Review => return None,
    };
    let mut empty = Value::Object(Map::new());
    types::normalise(known, &mut empty);
    Some(empty)
}

/// An empty object of a kind, for bookmarks.
pub(crate) fn empty_object(def: &ResourceDef) -> Value {
    let mut empty = skeleton(def).unwrap_or_else(|| Value::Object(Map::new()));
    empty["kind"] = def.kind.as_str().into();
    empty["apiVersion"] = def.api_version().into();
    metadata(&mut empty);
    empty
}

/// `metadata`, created if missing. `object` must be an object.
pub(super) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    let meta = &mut object["metadata"];
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    meta.as_object_mut().expect("metadata was just made an object")
}

/// Removes unknown fields and returns their names; refuses values of the wrong type.
pub(super) fn unknown_fields(def: &ResourceDef, object: &mut Value) -> Outcome<Vec<String>> {
    let Backing::Custom(version) = &def.backing else {
        return match types::kind(&def.group, &def.version, &def.kind) {
            Some(known) => builtin_unknown_fields(known, object),
            None => Ok(Vec::new()),
        };
    };
    let mut unknown = Vec::new();
    let meta_type = types::by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    if let (Some(meta_type), Some(meta)) = (meta_type, object.get_mut("metadata")) {
        let found =
            types::check(meta_type, meta).map_err(|why| mismatch(&def.version, &def.kind, &why))?;
        unknown.extend(found.iter().map(|path| format!("unknown field \"metadata.{path}\"")));
        types::normalise(meta_type, meta);
    }
    let pruned = version.schema.prune(object);
    unknown.extend(pruned.iter().map(|path| format!("unknown field {path:?}")));
    Ok(unknown)
}

/// Brings a merged object into the form in which its kind is stored.
pub(super) fn normalise(def: &ResourceDef, object: &mut Value) {
    if let Backing::Custom(_) = &def.backing {
        return;
    }
    if let Some(known) = types::kind(&def.group, &def.version, &def.kind) {
        types::normalise(known, object);
    }
}

pub(super) fn builtin_unknown_fields(
    known: &'static TypeDef,
    object: &mut Value,
) -> Outcome<Vec<String>> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let unknown = types::check(known, object)
        .map_err(|why| mismatch(text("apiVersion"), text("kind"), &why))?;
    types::normalise(known, object);
    Ok(unknown.iter().map(|path| format!("unknown field {path:?}")).collect())
}

fn mismatch(api_version: &str, kind: &str, why: &str) -> Failure {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}");
    Failure::bad_request(message)
}

/// Fills in defaults. Nulls of an applied object are kept.
pub(super) fn default(def: &ResourceDef, object: &mut Value, ownership: Ownership) {
    match source(def) {
        Source::Builtin(strategy) => strategy.defaults(object),
        Source::Custom(version) if ownership == Ownership::Settled => version.schema.fill(object),
        Source::Custom(version) => version.schema.default(object),
        Source::Crd => crd::defaults(object),
        Source::None => {}
    }
}

pub(super) fn prepare_create(def: &ResourceDef, object: &mut Value) {
    match source(def) {
        Source::Builtin(strategy) => strategy.prepare_create(object),
        Source::Custom(version) => {
            if version.status_subresource {
                remove(object, "status");
            }
            metadata(object).insert("generation".into(), 1.into());
        }
        Source::Crd => {
            crd::reset_status(object, None);
            let meta = metadata(object);
            meta.insert("generation".into(), 1.into());
            // Its custom resources are deleted before it is.
            let finalizers = meta.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
            if let Some(list) = finalizers.as_array_mut()
                && !list.iter().any(|name| name == crd::CLEANUP_FINALIZER)
            {
                list.push(crd::CLEANUP_FINALIZER.into());
            }
        }
        Source::None => {}
    }
}

/// Restores fields that a write to this part cannot change.
pub(super) fn prepare_update(def: &ResourceDef, to: WriteTo, new: &mut Value, old: &Value) {
    match (source(def), to) {
        (Source::Builtin(strategy), WriteTo::Status) => strategy.prepare_status_update(new, old),
        (Source::Builtin(_), WriteTo::Finalize) => put(new, "status", old.get("status").cloned()),
        (Source::Builtin(_), WriteTo::Binding) | (Source::None, _) => {}
        (Source::Builtin(strategy), _) => strategy.prepare_update(new, old),
        (Source::Custom(_) | Source::Crd, WriteTo::Status) => {
            let status = new.get("status").cloned();
            let managed = new["metadata"].get("managedFields").cloned();
            *new = old.clone();
            put(new, "status", status);
            put(&mut new["metadata"], "managedFields", managed);
        }
        (Source::Crd, _) => crd::reset_status(new, Some(old)),
        (Source::Custom(version), _) => {
            if version.status_subresource {
                put(new, "status", old.get("status").cloned());
            }
        }
    }
}

/// Increments the generation if the spec changed.
pub(super) fn bump_generation(def: &ResourceDef, to: WriteTo, new: &mut Value, old: &Value) {
    if matches!(to, WriteTo::Status | WriteTo::Binding | WriteTo::Finalize) {
        return;
    }
    let ignores_status = match source(def) {
        Source::Custom(version) => version.status_subresource,
        Source::Crd => true,
        Source::Builtin(strategy) => return strategy.bump_generation(new, old),
        Source::None => return,
    };
    let asks = |object: &Value| {
        let mut rest = object.clone();
        remove(&mut rest, "metadata");
        if ignores_status {
            remove(&mut rest, "status");
        }
        rest
    };
    if asks(new) != asks(old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        metadata(new).insert("generation".into(), (generation + 1).into());
    }
}

pub(super) fn validate(def: &ResourceDef, object: &Value) -> Vec<FieldError> {
    match source(def) {
        Source::Builtin(strategy) => strategy.validate(object),
        Source::Custom(version) => {
            let mut errors = custom_metadata(def, object);
            errors.extend(bad_spec_replicas(version, object));
            version.schema.validate_after(errors, object, None)
        }
        Source::Crd => {
            let mut errors = custom_metadata(def, object);
            errors.extend(crd::validate(object, None));
            errors
        }
        Source::None => Vec::new(),
    }
}

const REPLICAS_MAX: i64 = i32::MAX as i64;

/// Replica counts of a scalable kind must be non-negative integers, regardless of its schema.
fn bad_replicas(path: &str, object: &Value) -> Option<FieldError> {
    let mut place = object;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let Some(members) = place.as_object() else { break };
        place = members.get(name)?;
    }
    let why = match place.as_i64() {
        Some(0..=REPLICAS_MAX) => return None,
        Some(replicas) if replicas > REPLICAS_MAX => {
            format!("should be less than or equal to {REPLICAS_MAX}")
        }
        _ => "should be a non-negative integer".to_owned(),
    };
    Some(FieldError::invalid(path, place, why))
}

fn bad_spec_replicas(version: &CrdVersion, object: &Value) -> Option<FieldError> {
    bad_replicas(&version.scale.as_ref()?.spec_replicas, object)
}

fn bad_status_replicas(version: &CrdVersion, object: &Value) -> Option<FieldError> {
    bad_replicas(&version.scale.as_ref()?.status_replicas, object)
}

fn custom_metadata(def: &ResourceDef, object: &Value) -> Vec<FieldError> {
    let rule = NameRule::Subdomain;
    builtin::validate_metadata(&object["metadata"], def.namespaced, rule, "metadata")
}

pub(super) fn validate_update(
    def: &ResourceDef,
    to: WriteTo,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let metadata =
        || builtin::validate_metadata_update(&new["metadata"], &old["metadata"], "metadata");
    match (source(def), to) {
        (Source::Builtin(_), WriteTo::Binding | WriteTo::Finalize)
        | (Source::Crd, WriteTo::Status)
        | (Source::None, _) => Vec::new(),
        (Source::Builtin(strategy), WriteTo::Status) => strategy.validate_status_update(new, old),
        (Source::Builtin(strategy), _) => strategy.validate_update(new, old),
        (Source::Custom(version), WriteTo::Status) => {
            let errors = bad_status_replicas(version, new).into_iter().collect();
            version.schema.validate_status_after(errors, new, Some(old))
        }
        (Source::Custom(version), _) => {
            let mut errors = metadata();
            errors.extend(bad_spec_replicas(version, new));
            version.schema.validate_after(errors, new, Some(old))
        }
        (Source::Crd, _) => {
            let mut errors = metadata();
            errors.extend(crd::validate(new, Some(old)));
            errors
        }
    }
}

/// Warnings about accepted objects. `old` is the object before an update.
pub(super) fn warnings(def: &ResourceDef, old: Option<&Value>, object: &Value) -> Vec<String> {
    match source(def) {
        Source::Builtin(strategy) => strategy.warnings(object),
        Source::Custom(_) => builtin::finalizer_warnings(&object["metadata"]),
        Source::Crd => {
            let known = old.map(crd::unknown_formats).unwrap_or_default();
            let mut formats = crd::unknown_formats(object);
            formats.retain(|format| !known.contains(format));
            formats.iter().map(|format| format!("unrecognized format {format:?}")).collect()
        }
        Source::None => Vec::new(),
    }
}

/// The warning about a deprecated version, for every request that uses it.
pub(crate) fn deprecation(def: &ResourceDef) -> Option<String> {
    if (def.group.as_str(), def.kind.as_str()) == ("", "Endpoints") {
        let text = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
        return Some(text.to_owned());
    }
    let (crd, version) = def.custom().filter(|(_, version)| version.deprecated)?;
    if let Some(text) = &version.deprecation_warning {
        return Some(text.clone());
    }
    let mut text = format!("{} {} is deprecated", def.api_version(), def.kind);
    let rank = version_priority(&version.name);
    let better = crd.versions.iter().filter(|other| other.served && !other.deprecated);
    let better = better.filter(|other| version_priority(&other.name) > rank);
    if let Some(best) = better.max_by_key(|other| version_priority(&other.name)) {
        let use_that = format!("; use {}/{} {}", def.group, best.name, def.kind);
        text.push_str(&use_that);
    }
    Some(text)
}

/// Fields of which a write to this part does not become an owner.
pub(super) fn reset_fields(def: &ResourceDef, to: WriteTo) -> &'static FieldSet {
    let has_status = def.has("status");
    match to {
        WriteTo::Status if def.is_custom() => &ALL_BUT_STATUS,
        // For built-in kinds a status writer may change some metadata, and then owns it.
        WriteTo::Status if def.kind == "Deployment" => &SPEC_AND_LABELS,
        WriteTo::Status => &SPEC,
        WriteTo::Object if has_status => &STATUS,
        WriteTo::Finalize => &STATUS,
        WriteTo::Object | WriteTo::Scale | WriteTo::Binding => &NOTHING,
    }
}

pub(super) fn creates_on_update(def: &ResourceDef) -> bool {
    matches!(source(def), Source::Builtin(strategy) if strategy.allow_create_on_update)
}

pub(super) fn allows_unconditional_update(def: &ResourceDef) -> bool {
    match source(def) {
        Source::Builtin(strategy) => strategy.allow_unconditional_update,
        Source::Custom(_) | Source::Crd => false,
        Source::None => true,
    }
}

/// Whether the answer to a delete is the object instead of a `Status`.
pub(super) fn returns_deleted(def: &ResourceDef) -> bool {
    def.group.is_empty()
        && matches!(
            def.plural.as_str(),
            "namespaces" | "persistentvolumeclaims" | "pods" | "serviceaccounts" | "services"
        )
}

/// Whether a delete may specify propagation. Events have no dependents, and namespaces end by their
/// own finalizer.
pub(super) fn is_collected(def: &ResourceDef) -> bool {
    !matches!(def.table.plural.as_ref(), "events" | "namespaces")
}

pub(super) fn is_graceful(def: &ResourceDef) -> bool {
    matches!(source(def), Source::Builtin(strategy) if strategy.graceful_delete)
}

/// True if an object in deletion has no finalizer and no grace period left.
pub(super) fn is_done_deleting(object: &Value) -> bool {
    let meta = &object["metadata"];
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let is_namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    !meta["deletionTimestamp"].is_null()
        && is_empty(&meta["finalizers"])
        && (!is_namespace || is_empty(&object["spec"]["finalizers"]))
        && meta["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
}

fn remove(object: &mut Value, key: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(key);
    }
}

fn put(object: &mut Value, key: &str, value: Option<Value>) {
    match value {
        Some(value) => object[key] = value,
        None => remove(object, key),
    }
}

// === impl AnyShape ===

impl Shape for AnyShape<'_> {
    fn field(&self, name: &str) -> Self {
        match self {
            Self::Builtin(shape) => Self::Builtin(shape.field(name)),
            Self::Custom(shape) => Self::Custom(shape.field(name)),
            Self::Unknown(shape) => Self::Unknown(shape.field(name)),
        }
    }

    fn items(&self) -> Self {
        match self {
            Self::Builtin(shape) => Self::Builtin(shape.items()),
            Self::Custom(shape) => Self::Custom(shape.items()),
            Self::Unknown(shape) => Self::Unknown(shape.items()),
        }
    }

    fn list(&self) -> ListKind {
        match self {
            Self::Builtin(shape) => shape.list(),
            Self::Custom(shape) => shape.list(),
            Self::Unknown(shape) => shape.list(),
        }
    }

    fn is_atomic_object(&self) -> bool {
        match self {
            Self::Builtin(shape) => shape.is_atomic_object(),
            Self::Custom(shape) => shape.is_atomic_object(),
            Self::Unknown(shape) => shape.is_atomic_object(),
        }
    }

    fn key_default(&self, key: &str) -> Option<Value> {
        match self {
            Self::Builtin(shape) => shape.key_default(key),
            Self::Custom(shape) => shape.key_default(key),
            Self::Unknown(shape) => shape.key_default(key),
        }
    }

    fn declares(&self, name: &str) -> bool {
        match self {
            Self::Builtin(shape) => shape.declares(name),
            Self::Custom(shape) => shape.declares(name),
            Self::Unknown(shape) => shape.declares(name),
        }
    }

    fn drops_nulls(&self) -> bool {
        match self {
            Self::Builtin(shape) => shape.drops_nulls(),
            Self::Custom(shape) => shape.drops_nulls(),
            Self::Unknown(shape) => shape.drops_nulls(),
        }
    }

    fn patch_merge(&self) -> Option<Option<String>> {
        match self {
            Self::Builtin(shape) => shape.patch_merge(),
            Self::Custom(shape) => shape.patch_merge(),
            Self::Unknown(shape) => shape.patch_merge(),
        }
    }
}
