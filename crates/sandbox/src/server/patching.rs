//! Patch: JSON, merge, strategic merge, and server-side apply.

use serde_json::Value;

use super::{
    Answer, Body, Call, Server, convert,
    decode::{self, invalid, strict_error},
    options::{FieldValidation, WriteOptions},
    rules::{self, WriteTo},
    write::{Ownership, Write, finish},
};
use crate::{
    failure::{Failure, FieldError, Outcome},
    managed, patch,
    registry::ResourceDef,
    store::ObjectKey,
};

/// How a patch changes what it is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

// === impl PatchType ===

impl PatchType {
    /// From the media type. Custom resources have no strategic merge.
    pub(super) fn parse(content_type: &str, def: &ResourceDef) -> Outcome<Self> {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match media {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !def.is_custom() => Ok(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => Ok(Self::Apply),
            _ => {
                let strategic = "application/strategic-merge-patch+json, ";
                let strategic = if def.is_custom() { "" } else { strategic };
                Err(Failure::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types \
                     include: application/json-patch+json, application/merge-patch+json, \
                     {strategic}application/apply-patch+yaml"
                )))
            }
        }
    }

    /// Applies any patch but [`PatchType::Apply`] to `doc`.
    pub(super) fn apply_to(self, doc: &Value, body: &[u8], def: &ResourceDef) -> Outcome<Value> {
        let parse = || -> Outcome<Value> {
            let value: Value = serde_json::from_slice(body).map_err(|error| {
                Failure::bad_request(format!("the patch is not valid JSON: {error}"))
            })?;
            if value.is_object() {
                return Ok(value);
            }
            Err(Failure::bad_request("the patch must be a JSON object"))
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
        if options.force {
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
        let (patched, warnings) = check_patched(call, &options, &before, patched, &bytes)?;
        let patched = convert::from_version(&call.def, patched);
        let to = WriteTo::of(&request.info.subresource);
        let write = Write { def: &def, options: &options, to, ownership: Ownership::Track };
        let (updated, more) = self.update_object(&tx, &write, &old, patched)?;
        Ok(finish(call, 200, updated, warnings, more))
    }

    fn apply(&self, call: &Call<'_>, options: &WriteOptions, bytes: &[u8]) -> Outcome<Answer> {
        let info = &call.request.info;
        if !call.request.query.has("fieldManager") {
            let why = "is required for apply patch";
            let error = FieldError::required("fieldManager", why);
            return Err(Failure::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        let decode::Decoded { object: mut config, mut problems } = decode::yaml(bytes)?;
        check_applied(call, &mut config)?;
        problems.extend(rules::unknown_applied_fields(&call.def, &mut config)?);
        let warnings = judge_patch(call, options, problems, bytes)?;
        let config = convert::from_version(&call.def, config);
        let def = convert::working_def(&call.registry, &call.def);
        let to = WriteTo::of(&info.subresource);
        let write = Write { def: &def, options, to, ownership: Ownership::Settled };
        let tx = self.store.begin();
        let key = ObjectKey::new(call.namespace(), &info.name);
        let old = tx.get(&def.table, &key);
        let live = old.as_ref().map(|old| convert::to_version(&def, old.value()));
        if live.is_none() && to != WriteTo::Object {
            return Err(call.not_found());
        }
        let change = managed::Write {
            manager: &options.field_manager,
            api_version: &def.api_version(),
            kind: &def.kind,
            subresource: to.subresource(),
            now: self.clock.now(),
            reset: rules::reset_fields(&def, to),
        };
        let shape = rules::shape(&def);
        let merged = managed::apply(live.as_ref(), &config, &shape, &change, options.force);
        let merged =
            merged.map_err(|failure| failure.about(&def.group, &def.plural, &info.name))?;
        let (object, code, more) = if let (Some(old), Some(live)) = (old, live) {
            let mut new = merged.unwrap_or(live);
            rules::normalise(&def, &mut new);
            let (updated, more) = self.update_object(&tx, &write, &old, new)?;
            (updated, 200, more)
        } else {
            let mut new = merged.unwrap_or(config);
            rules::normalise(&def, &mut new);
            let (created, more) = self.create_object(&tx, &write, new)?;
            (created, 201, more)
        };
        Ok(finish(call, code, object, warnings, more))
    }
}

/// The media type and bytes of a patch; one from within the process is a merge patch.
pub(super) fn patch_body(body: &Body) -> Outcome<(String, Vec<u8>)> {
    match body {
        Body::Raw { content_type, bytes } if !bytes.is_empty() => {
            Ok((content_type.clone(), bytes.to_vec()))
        }
        Body::Object(patch) => {
            Ok(("application/merge-patch+json".into(), patch.to_string().into()))
        }
        Body::Raw { .. } | Body::Empty => Err(Failure::bad_request("the patch is empty")),
    }
}

/// The patched object must still be the same object, and one of its kind.
fn check_patched(
    call: &Call<'_>,
    options: &WriteOptions,
    before: &Value,
    mut patched: Value,
    bytes: &[u8],
) -> Outcome<(Value, Vec<String>)> {
    let name = &call.request.info.name;
    for key in ["apiVersion", "kind"] {
        if patched[key] != before[key] {
            let why = format!("{key} cannot be changed by a patch");
            return Err(Failure::bad_request(why));
        }
    }
    for key in ["name", "namespace"] {
        if patched["metadata"][key] != before["metadata"][key] {
            let path = format!("metadata.{key}");
            let why = "field is immutable";
            let error = FieldError::invalid(path, &patched["metadata"][key], why);
            return Err(invalid(&call.def, name, &[error]));
        }
    }
    let problems = rules::unknown_fields(&call.def, &mut patched).map_err(|failure| {
        let error = FieldError::invalid("patch", &shown(bytes), failure.message);
        invalid(&call.def, name, &[error])
    })?;
    let warnings = judge_patch(call, options, problems, bytes)?;
    Ok((patched, warnings))
}

fn judge_patch(
    call: &Call<'_>,
    options: &WriteOptions,
    problems: Vec<String>,
    bytes: &[u8],
) -> Outcome<Vec<String>> {
    match options.field_validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !problems.is_empty() => {
            let error = FieldError::invalid("patch", &shown(bytes), strict_error(&problems));
            Err(invalid(&call.def, &call.request.info.name, &[error]))
        }
        FieldValidation::Warn | FieldValidation::Strict => Ok(problems),
    }
}

/// A patch as it is quoted in a failure, cut to a size a person reads.
fn shown(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    Value::String(text.chars().take(1_000).collect())
}

/// An applied configuration names its kind, and no other object than the path does.
fn check_applied(call: &Call<'_>, config: &mut Value) -> Outcome<()> {
    let want = call.def.api_version();
    if !config.is_object() {
        return Err(Failure::bad_request("the applied configuration must be an object"));
    }
    if config["apiVersion"].as_str() != Some(&want) {
        return Err(Failure::bad_request(format!(
            "incorrect version specified in apply patch. Specified patch version: {}, expected: \
             {want}",
            config["apiVersion"].as_str().unwrap_or_default()
        )));
    }
    if config["kind"].as_str() != Some(&call.def.kind) {
        return Err(Failure::bad_request(format!(
            "incorrect kind specified in apply patch. Specified: {}, expected: {}",
            config["kind"].as_str().unwrap_or_default(),
            call.def.kind
        )));
    }
    let info = &call.request.info;
    let namespace = call.namespace().to_owned();
    let meta = rules::metadata(config);
    let wanted = [("name", info.name.clone()), ("namespace", namespace)];
    for (key, want) in wanted {
        let given = meta.get(key).and_then(Value::as_str).unwrap_or_default();
        if !given.is_empty() && given != want {
            return Err(Failure::bad_request(format!(
                "the {key} of the object ({given}) does not match the {key} on the URL ({want})"
            )));
        }
        if !want.is_empty() {
            meta.insert(key.into(), want.into());
        }
    }
    Ok(())
}
