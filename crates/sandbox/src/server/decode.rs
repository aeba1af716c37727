//! From a request's body to an object: media types, strictness, and whether it is the right kind.

use serde_json::Value;

use super::{
    Body, Call, Request, convert,
    options::{FieldValidation, WriteOptions},
    rules,
};
use crate::{
    failure::{Failure, Outcome},
    protobuf,
    registry::ResourceDef,
    types,
};

/// A body that was understood, and the fields in it that were not.
pub(super) struct Decoded {
    pub object: Value,
    /// `duplicate field "x"`, before any unknown ones.
    pub problems: Vec<String>,
}

// === impl Call ===

impl Call<'_> {
    /// The object in a call's body, in the form it will be worked on, and warnings about it.
    pub(super) fn body_object(&self) -> Outcome<(Value, Vec<String>)> {
        let Request { query, agent, .. } = self.request;
        let options = WriteOptions::parse(query, "CreateOptions", agent)?;
        self.body_object_with(&options)
    }

    pub(super) fn body_object_with(&self, options: &WriteOptions) -> Outcome<(Value, Vec<String>)> {
        let subresource = self.request.info.subresource.as_str();
        let (group, version, kind) = self.def.subresource_kind(subresource);
        let expected = Expected { group, version, kind };
        let Decoded { mut object, mut problems } = decode(&self.request.body)?;
        expected.check(&mut object)?;
        if kind == self.def.kind {
            problems.extend(rules::unknown_fields(&self.def, &mut object)?);
        } else if let Some(def) = types::kind(group, version, kind) {
            problems.extend(rules::builtin_unknown_fields(def, &mut object)?);
        }
        let warnings = judge(problems, options.field_validation, &expected)?;
        Ok((convert::from_version(&self.def, object), warnings))
    }
}

/// The kind a path takes.
struct Expected<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl Expected<'_> {
    /// Fills in a missing `apiVersion` and `kind`; refuses others than those expected.
    fn check(&self, object: &mut Value) -> Outcome<()> {
        let want = crate::registry::group_version(self.group, self.version);
        let Some(fields) = object.as_object_mut() else {
            let why = "the body must be a JSON object";
            return Err(Failure::bad_request(why));
        };
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        if !api_version.is_empty() && api_version != want {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API \
                 version ({want})"
            )));
        }
        if !kind.is_empty() && kind != self.kind {
            return Err(Failure::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {}: the kinds differ",
                self.version, self.kind
            )));
        }
        fields.insert("apiVersion".into(), want.into());
        fields.insert("kind".into(), self.kind.into());
        Ok(())
    }
}

/// Strict makes problems an error, Warn makes them warnings, Ignore forgets them.
fn judge(
    problems: Vec<String>,
    validation: FieldValidation,
    expected: &Expected<'_>,
) -> Outcome<Vec<String>> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(problems),
        FieldValidation::Strict if problems.is_empty() => Ok(problems),
        FieldValidation::Strict => {
            let (kind, version) = (expected.kind, expected.version);
            Err(Failure::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {}",
                strict_error(&problems)
            )))
        }
    }
}

pub(super) fn strict_error(problems: &[String]) -> String {
    format!("strict decoding error: {}", problems.join(", "))
}

/// Reads a body by its media type.
pub(super) fn decode(body: &Body) -> Outcome<Decoded> {
    let (content_type, bytes) = match body {
        Body::Object(object) => {
            return Ok(Decoded { object: object.clone(), problems: Vec::new() });
        }
        Body::Empty => return Err(Failure::bad_request("the request has no body")),
        Body::Raw { content_type, bytes } => (content_type, bytes),
    };
    if bytes.is_empty() {
        return Err(Failure::bad_request("the request has no body"));
    }
    let media = content_type.split(';').next().unwrap_or_default().trim();
    match media {
        "application/json" | "" | "*/*" => json(bytes),
        "application/yaml" | "application/x-yaml" | "text/yaml" => yaml(bytes),
        "application/vnd.kubernetes.protobuf" => {
            Ok(Decoded { object: protobuf::decode(bytes)?, problems: Vec::new() })
        }
        _ => Err(Failure::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

fn json(bytes: &[u8]) -> Outcome<Decoded> {
    let object = serde_json::from_slice(bytes).map_err(|error| {
        Failure::bad_request(format!("the body of the request is not JSON: {error}"))
    })?;
    let twice = types::duplicate_fields(bytes);
    let problems = twice.iter().map(|path| format!("duplicate field {path:?}")).collect();
    Ok(Decoded { object, problems })
}

/// YAML is a superset of JSON; the server takes both under this media type.
pub(super) fn yaml(bytes: &[u8]) -> Outcome<Decoded> {
    if let Ok(decoded) = json(bytes) {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Failure::bad_request(format!("the body is not UTF-8: {error}")))?;
    let object = serde_saphyr::from_str(text)
        .map_err(|error| Failure::bad_request(format!("error converting YAML to JSON: {error}")))?;
    Ok(Decoded { object, problems: Vec::new() })
}

/// Delete options may come in any of the media types, or not at all.
pub(super) fn optional(body: &Body) -> Outcome<Value> {
    match body {
        Body::Empty => Ok(Value::Null),
        Body::Raw { bytes, .. } if bytes.is_empty() => Ok(Value::Null),
        other => Ok(decode(other)?.object),
    }
}

/// The kind named in a failure about objects of `def`.
pub(super) fn invalid(
    def: &ResourceDef,
    name: &str,
    errors: &[crate::failure::FieldError],
) -> Failure {
    Failure::invalid(&def.group, &def.kind, name, errors)
}
