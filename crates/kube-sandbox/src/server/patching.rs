//! PATCH requests: JSON, merge and strategic merge patch, and server-side apply.
//!
//! The patched object goes through [`super::write`], like an update. An apply creates a missing
//! object; any other patch of one fails with 404.

use serde_json::Value;

use super::{
    Answer, Body, Call, Server, convert,
    decode::{self, strict_error},
    options::{FieldValidation, WriteOptions},
    rules::{self, WriteTo},
    write::{Ownership, Write, check_name, finish, place_in_namespace},
};
use crate::{
    failure::{Failure, FieldError, Outcome},
    managed,
    patch::{self, wording::go_text},
    registry::ResourceDef,
    store::ObjectKey,
};

/// Type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

// === impl PatchType ===

impl PatchType {
    /// Parses the media type. Custom resources have no strategic merge.
    pub(super) fn parse(content_type: &str, def: &ResourceDef) -> Outcome<Self> {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match media {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !def.is_custom() => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => {
                let strategic = "application/strategic-merge-patch+json, ";
                let strategic = if def.is_custom() { "" } else { strategic };
                let failure = Failure::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types \
                     include: application/json-patch+json, application/merge-patch+json, \
                     {strategic}application/apply-patch+yaml"
                ));
                // For built-in kinds the router refuses it.
                Err(if def.is_custom() { failure } else { failure.without_details() })
            }
        }
    }

    /// Applies any patch but [`PatchType::Apply`] to `doc`.
    pub(super) fn apply_to(self, doc: &Value, body: &[u8], def: &ResourceDef) -> Outcome<Value> {
        let parse = || -> Outcome<Value> {
            let value: Value = serde_json::from_slice(body)
                .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
            if value.is_object() {
                return Ok(value);
            }
            Err(Failure::bad_request("error decoding patch: the patch is not an object"))
        };
        match self {
            Self::Json => patch::json_patch(doc, body),
            Self::Merge => Ok(patch::merge_patch(doc, &parse()?)),
            Self::Strategic => patch::strategic(doc, &parse()?, &rules::shape(def)),
            Self::Apply => Err(Failure::internal("an apply is no patch of a document")),
        }
    }
}

// === impl Server ===

impl Server {
    pub(super) fn patch(&self, call: &Call<'_>) -> Outcome<Answer> {
        let request = call.request;
        let options = WriteOptions::parse(&request.query, "PatchOptions", &request.agent)?;
        let (content_type, bytes) = patch_body(&request.body)?;
        let patch_type = PatchType::parse(&content_type, &call.def)?;
        if patch_type == PatchType::Apply {
            return self.apply(call, &options, &bytes);
        }
        if options.force.is_some() {
            let why = "may not be specified for non-apply patch";
            let error = FieldError::forbidden("force", why);
            return Err(Failure::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        let def = convert::working_def(&call.registry, &call.def);
        let tx = self.store.begin();
        let key = ObjectKey::new(call.namespace(), &request.info.name);
        let old = tx.get(&def.table, &key).ok_or_else(|| call.not_found())?;
        let before = convert::to_version(&call.def, old.value());
        let patched = patch_type.apply_to(&before, &bytes, &call.def)?;
        let sent = Sent { kind: patch_type, bytes: &bytes, options: &options };
        let (patched, warnings) = check_patched(call, &sent, &before, patched)?;
        let patched = convert::from_version(&call.def, patched);
        let to = WriteTo::of(&request.info.subresource);
        let write = Write { def: &def, options: &options, to, ownership: Ownership::Track };
        let updated = self.update_object(&tx, &write, &old, patched);
        let (updated, more) = updated.map_err(|failure| failure.warning_of(&warnings))?;
        Ok(finish(call, 200, updated, warnings, more))
    }

    fn apply(&self, call: &Call<'_>, options: &WriteOptions, bytes: &[u8]) -> Outcome<Answer> {
        let info = &call.request.info;
        if call.request.query.get("fieldManager").is_empty() {
            let why = "is required for apply patch";
            let error = FieldError::required("fieldManager", why);
            return Err(Failure::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        let decode::Decoded { object: config, problems } = decode::yaml(bytes)
            .map_err(|why| Failure::bad_request(format!("error decoding YAML: {why}")))?;
        check_applied(call, &config)?;
        let warnings = match options.field_validation {
            FieldValidation::Strict if !problems.is_empty() => {
                let why = format!("error strict decoding YAML: {}", problems.join(", "));
                return Err(Failure::bad_request(why));
            }
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Strict | FieldValidation::Warn => problems,
        };
        let config = convert::from_version(&call.def, config);
        let def = convert::working_def(&call.registry, &call.def);
        let to = WriteTo::of(&info.subresource);
        let write = Write { def: &def, options, to, ownership: Ownership::Settled };
        let tx = self.store.begin();
        let key = ObjectKey::new(call.namespace(), &info.name);
        let old = tx.get(&def.table, &key);
        let live = old.as_ref().map(|old| convert::to_version(&def, old.value()));
        if live.is_none() {
            check_absent(call, to, &config)?;
        }
        let empty = rules::skeleton(&def);
        let change = managed::Write {
            manager: &options.field_manager,
            api_version: &def.api_version(),
            kind: &def.kind,
            subresource: to.subresource(),
            now: self.clock.now(),
            reset: rules::reset_fields(&def, to),
            empty: empty.as_ref(),
        };
        let shape = rules::shape(&def);
        let merged =
            managed::apply(live.as_ref(), &config, &shape, &change, options.force == Some(true));
        let merged = merged?;
        let (object, code, more) = if let (Some(old), Some(live)) = (old, live) {
            let mut new = merged.unwrap_or(live);
            rules::normalise(&def, &mut new);
            let (updated, more) = self.update_object(&tx, &write, &old, new)?;
            (updated, 200, more)
        } else {
            let mut new = merged.unwrap_or(config);
            place_in_namespace(call, &mut new)?;
            rules::normalise(&def, &mut new);
            let (created, more) = self.create_absent(&tx, call, &write, new)?;
            (created, 201, more)
        };
        Ok(finish(call, code, object, warnings, more))
    }
}

/// A patch as received.
struct Sent<'a> {
    kind: PatchType,
    bytes: &'a [u8],
    options: &'a WriteOptions,
}

// === impl Sent ===

impl Sent<'_> {
    /// The value in an error about a patch: the result, or for a strategic patch the patch itself.
    fn shown(&self, patched: &Value) -> Value {
        if self.kind != PatchType::Strategic {
            return patched.to_string().into();
        }
        let patch = serde_json::from_slice(self.bytes).unwrap_or(Value::Null);
        go_text(&patch).into()
    }

    fn judge(&self, patched: &Value, problems: Vec<String>) -> Outcome<Vec<String>> {
        match self.options.field_validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Strict if !problems.is_empty() => {
                Err(self.refusal(patched, strict_error(&problems)))
            }
            FieldValidation::Warn | FieldValidation::Strict => Ok(problems),
        }
    }

    /// Without kind and name, which the API machinery does not have at this point.
    fn refusal(&self, patched: &Value, why: impl Into<String>) -> Failure {
        let error = FieldError::invalid("patch", &self.shown(patched), why);
        Failure::invalid("", "", "", &[error])
    }
}

/// Media type and bytes of a patch; one from within the process is a merge patch.
pub(super) fn patch_body(body: &Body) -> Outcome<(String, Vec<u8>)> {
    match body {
        Body::Raw { content_type, bytes } => Ok((content_type.clone(), bytes.to_vec())),
        Body::Object(patch) => {
            Ok(("application/merge-patch+json".into(), patch.to_string().into()))
        }
        Body::Empty => {
            Err(Failure::bad_request("error decoding patch: unexpected end of JSON input"))
        }
    }
}

/// The patched object must keep its identity and be valid for its kind.
fn check_patched(
    call: &Call<'_>,
    sent: &Sent<'_>,
    before: &Value,
    mut patched: Value,
) -> Outcome<(Value, Vec<String>)> {
    check_kind(call, sent, before, &mut patched)?;
    let mut problems = match (sent.kind, sent.options.field_validation) {
        (PatchType::Json, _) | (_, FieldValidation::Ignore) => Vec::new(),
        _ => decode::duplicates(sent.bytes),
    };
    let whole = patched.clone();
    let unknown = rules::unknown_fields(&call.def, &mut patched);
    problems.extend(unknown.map_err(|failure| sent.refusal(&whole, failure.message))?);
    let warnings = sent.judge(&whole, problems)?;
    place_in_namespace(call, &mut patched)
        .and_then(|()| check_name(&call.request.info.name, &patched))
        .map_err(|failure| failure.warning_of(&warnings))?;
    Ok((patched, warnings))
}

/// A patch cannot change the kind of an object.
fn check_kind(
    call: &Call<'_>,
    sent: &Sent<'_>,
    before: &Value,
    patched: &mut Value,
) -> Outcome<()> {
    let is_custom = call.def.is_custom();
    for key in ["kind", "apiVersion"] {
        let given = patched.get(key).filter(|given| !given.is_null());
        if given == before.get(key) {
            continue;
        }
        // Strategic patches are merged into a typed object, whose kind they cannot change; and the
        // kind of a built-in resource is known from the path.
        let is_known = !is_custom && key == "kind" && given.is_none();
        if sent.kind == PatchType::Strategic || is_known {
            patched[key] = before[key].clone();
        } else if !is_custom && given.is_none() {
            let name = &call.request.info.name;
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) cannot be read from an object without a version"
            )));
        } else if patched.get(key).is_none() && key == "apiVersion" {
            return Err(Failure::internal("the patched object has no apiVersion"));
        } else if let Some(given) = given.filter(|_| is_custom) {
            let want = before[key].as_str().unwrap_or_default();
            let error = FieldError::invalid(key, given, format!("must be {want}"));
            let kind = patched["kind"].as_str().unwrap_or_default();
            let group = if key == "kind" { call.def.group.as_str() } else { "" };
            return Err(Failure::invalid(group, kind, &call.request.info.name, &[error]));
        } else {
            return Err(sent.refusal(patched, format!("a patch cannot change {key}")));
        }
    }
    Ok(())
}

/// An applied configuration must have the kind, and the name if any, of the path.
fn check_applied(call: &Call<'_>, config: &Value) -> Outcome<()> {
    let def = &call.def;
    let want = def.api_version();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if !config.is_object() {
        let why = "error decoding YAML: the applied configuration is not an object";
        return Err(Failure::bad_request(why));
    }
    let (version, kind) = (text(&config["apiVersion"]), text(&config["kind"]));
    if version != want {
        return Err(Failure::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, \
             expected: {want}"
        )));
    }
    if kind != def.kind {
        return Err(Failure::bad_request(format!(
            "incorrect kind specified in apply patch. Specified: {kind}, expected: {}",
            def.kind
        )));
    }
    if config["metadata"].get("managedFields").is_some_and(|list| !list.is_null()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    // The configuration is recorded as sent, with or without its namespace.
    place_in_namespace(call, &mut config.clone())?;
    let name = call.request.info.name.as_str();
    if !config["metadata"]["name"].is_null() {
        check_name(name, config)?;
    }
    // Validated on a copy: an omission has a meaning in a configuration, so nothing is filled in.
    let slash = if want.contains('/') { "" } else { "/" };
    let namespace = call.namespace();
    let untyped = |why: &str| {
        Failure::unclassified(format!(
            "failed to create typed patch object ({namespace}/{name}; {slash}{want}, \
             Kind={kind}): {why}"
        ))
    };
    let unknown = rules::unknown_fields(def, &mut config.clone());
    let unknown = unknown.map_err(|failure| untyped(&failure.message))?;
    let Some(listed) = undeclared(&unknown) else { return Ok(()) };
    Err(untyped(&listed))
}

/// The error for undeclared fields in a configuration: apply has no lenient mode.
fn undeclared(unknown: &[String]) -> Option<String> {
    let path = |problem: &String| problem.split('"').nth(1).unwrap_or_default().to_owned();
    let each: Vec<String> = unknown
        .iter()
        .map(|problem| format!(".{}: field not declared in schema", path(problem)))
        .collect();
    match each.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        many => Some(format!("errors:\n  {}", many.join("\n  "))),
    }
}

/// An apply can create a missing object, but not through a subresource, and not with a UID.
fn check_absent(call: &Call<'_>, to: WriteTo, config: &Value) -> Outcome<()> {
    if to != WriteTo::Object {
        return Err(call.not_found());
    }
    check_name(&call.request.info.name, config)?;
    let Some(uid) = config["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) else {
        return Ok(());
    };
    let info = &call.request.info;
    let why = format!(
        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    );
    Err(Failure::conflict(&info.group, &info.resource, &info.name, &why))
}
