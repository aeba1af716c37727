//! Decodes a request's body into an object: media types, field validation, and the expected kind.
//!
//! Used for the bodies of all writes. JSON, YAML and protobuf give the same object; unknown and
//! duplicate fields become warnings or errors by `fieldValidation`.

use bytes::Bytes;
use serde_json::Value;

use super::{
    Body, Call, Request, convert,
    options::{FieldValidation, WriteOptions},
    rules,
};
use crate::{
    failure::{Failure, FieldError, Outcome},
    protobuf,
    registry::ResourceDef,
    types,
};

/// Number of bytes of an unrecognized body in the error.
const SUMMARY_BYTES: usize = 30;

/// A decoded body, and the problems found in it.
pub(super) struct Decoded {
    pub object: Value,
    /// `duplicate field "x"`, before unknown fields.
    pub problems: Vec<String>,
}

// === impl Call ===

impl Call<'_> {
    /// The object in a call's body, in the form in which it is processed, and warnings about it.
    pub(super) fn body_object(&self) -> Outcome<(Value, Vec<String>)> {
        let Request { query, agent, .. } = self.request;
        let options = WriteOptions::parse(query, "CreateOptions", agent)?;
        self.body_object_with(&options)
    }

    pub(super) fn body_object_with(&self, options: &WriteOptions) -> Outcome<(Value, Vec<String>)> {
        let subresource = self.request.info.subresource.as_str();
        let (group, version, kind) = self.def.subresource_kind(subresource);
        let is_custom = self.def.is_custom() && kind == self.def.kind;
        let expected = Expected { group, version, kind, is_custom };
        let Decoded { mut object, mut problems } = decode(&self.request.body, &expected)?;
        expected.check(&mut object, &self.request.body)?;
        if kind == self.def.kind {
            problems.extend(rules::unknown_fields(&self.def, &mut object)?);
        } else if let Some(def) = types::kind(group, version, kind) {
            problems.extend(rules::builtin_unknown_fields(def, &mut object)?);
        }
        let warnings = judge(problems, options.field_validation, &expected)?;
        Ok((convert::from_version(&self.def, object), warnings))
    }
}

/// The kind that a path accepts.
pub(super) struct Expected<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    is_custom: bool,
}

impl Expected<'_> {
    /// Fills in a missing `apiVersion` and `kind`; refuses any but the expected ones.
    fn check(&self, object: &mut Value, body: &Body) -> Outcome<()> {
        let want = crate::registry::group_version(self.group, self.version);
        // For a built-in kind, an empty body is an empty object.
        if object.is_null() && !self.is_custom {
            *object = Value::Object(serde_json::Map::new());
        }
        let Some(fields) = object.as_object_mut() else {
            let why = "couldn't get version/kind; json parse error: the body is not an object";
            return Err(self.unrecognised(why, body));
        };
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        // Objects from within the process may omit both.
        let says_nothing = api_version.is_empty() && kind.is_empty();
        if !(says_nothing && matches!(body, Body::Object(_))) {
            if self.is_custom {
                self.check_custom(&api_version, &kind, &want, object, body)?;
            } else {
                self.check_builtin(&api_version, &kind, &want)?;
            }
        }
        object["apiVersion"] = want.into();
        object["kind"] = self.kind.into();
        Ok(())
    }

    /// Custom resources must have both.
    fn check_custom(
        &self,
        api_version: &str,
        kind: &str,
        want: &str,
        object: &Value,
        body: &Body,
    ) -> Outcome<()> {
        if kind.is_empty() {
            let text = match body {
                Body::Raw { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
                Body::Object(_) | Body::Empty => object.to_string(),
            };
            return Err(self.unrecognised(&format!("Object 'Kind' is missing in '{text}'"), body));
        }
        if api_version != want {
            return Err(other_version(api_version, want));
        }
        if kind != self.kind {
            let why = format!("must be {}", self.kind);
            let error = FieldError::invalid("kind", &kind.into(), why);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Failure::invalid(self.group, kind, name, &[error]));
        }
        Ok(())
    }

    /// Missing values are taken from the path. Another kind cannot be converted; another version of
    /// the kind could be, but is not accepted at this path.
    fn check_builtin(&self, api_version: &str, kind: &str, want: &str) -> Outcome<()> {
        let (given, given_kind) = (
            if api_version.is_empty() { want } else { api_version },
            if kind.is_empty() { self.kind } else { kind },
        );
        if (given, given_kind) == (want, self.kind) {
            return Ok(());
        }
        let (group, version) = given.split_once('/').unwrap_or(("", given));
        let handled = |why: String| {
            Err(Failure::bad_request(format!(
                "{given_kind} in version {version:?} cannot be handled as a {}: {why}",
                self.kind
            )))
        };
        if types::kind(group, version, given_kind).is_none() {
            return handled(format!(
                "no kind {given_kind:?} is registered for version {given:?} in scheme \
                 \"pkg/api/legacyscheme/scheme.go:30\""
            ));
        }
        if given_kind == self.kind {
            return Err(other_version(given, want));
        }
        let package = match self.group {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        handled(format!(
            "converting ({version}.{given_kind}) to ({package}.{}): unknown conversion",
            self.kind
        ))
    }

    /// The error for a body without a kind.
    fn unrecognised(&self, why: &str, body: &Body) -> Failure {
        let bytes: &[u8] = match body {
            Body::Raw { bytes, .. } => bytes,
            Body::Object(_) | Body::Empty => b"",
        };
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            self.kind,
            summary(bytes)
        ))
    }
}

fn other_version(given: &str, want: &str) -> Failure {
    Failure::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({want})"
    ))
}

/// The beginning of a body, as text if it looks like JSON.
fn summary(bytes: &[u8]) -> String {
    let shown = bytes.get(..SUMMARY_BYTES).unwrap_or(bytes);
    let more = if bytes.len() > SUMMARY_BYTES { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digits = shown.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            let hex: String =
                digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
            format!("{hex}{more}")
        }
    }
}

/// Strict turns problems into an error, Warn into warnings, Ignore drops them.
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

/// Decodes a body by its media type.
fn decode(body: &Body, expected: &Expected<'_>) -> Outcome<Decoded> {
    let (content_type, bytes) = match body {
        Body::Object(object) => {
            return Ok(Decoded { object: object.clone(), problems: Vec::new() });
        }
        Body::Empty => ("", &Bytes::new()),
        Body::Raw { content_type, bytes } => (content_type.as_str(), bytes),
    };
    let unparsed = |why: String| {
        let why = format!("couldn't get version/kind; json parse error: {why}");
        expected.unrecognised(&why, body)
    };
    match Media::parse(content_type)? {
        Media::Json if bytes.is_empty() => Err(unparsed("unexpected end of JSON input".into())),
        Media::Json => json(bytes).map_err(unparsed),
        Media::Yaml => yaml(bytes).map_err(unparsed),
        Media::Protobuf => Ok(Decoded { object: protobuf::decode(bytes)?, problems: Vec::new() }),
    }
}

enum Media {
    Json,
    Yaml,
    Protobuf,
}

impl Media {
    /// An empty content type means JSON.
    fn parse(content_type: &str) -> Outcome<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json" | "" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(Failure::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }
}

fn json(bytes: &[u8]) -> Result<Decoded, String> {
    let object = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    Ok(Decoded { object, problems: duplicates(bytes) })
}

/// `duplicate field "spec.replicas"` for each.
pub(super) fn duplicates(bytes: &[u8]) -> Vec<String> {
    let twice = types::duplicate_fields(bytes);
    twice.iter().map(|path| format!("duplicate field {path:?}")).collect()
}

/// YAML is a superset of JSON; the server accepts both under this media type. Of duplicate keys the
/// last one wins.
pub(super) fn yaml(bytes: &[u8]) -> Result<Decoded, String> {
    if let Ok(decoded) = json(bytes) {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let error = match serde_saphyr::from_str(text) {
        Ok(object) => return Ok(Decoded { object, problems: Vec::new() }),
        Err(error) => error,
    };
    let serde_saphyr::Error::DuplicateMappingKey { key, location } = error.without_snippet() else {
        return Err(error.to_string());
    };
    let key = key.as_deref().unwrap_or_default();
    let problem = format!("line {}: key {key:?} already set in map", location.line());
    let lenient = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
    };
    let object = serde_saphyr::from_str_with_options(text, lenient).map_err(|e| e.to_string())?;
    Ok(Decoded { object, problems: vec![problem] })
}

/// Delete options may come in any media type, or be missing.
pub(super) fn optional(body: &Body) -> Outcome<Value> {
    let expected = Expected { group: "", version: "v1", kind: "DeleteOptions", is_custom: false };
    match body {
        Body::Empty => Ok(Value::Null),
        Body::Raw { bytes, .. } if bytes.is_empty() => Ok(Value::Null),
        other => {
            let options = decode(other, &expected)?.object;
            check_delete_options(&options)?;
            Ok(options)
        }
    }
}

/// Delete options must have the right kind, if any, and only valid fields.
fn check_delete_options(options: &Value) -> Outcome<()> {
    let kind = options.get("kind").and_then(Value::as_str).unwrap_or("DeleteOptions");
    if kind != "DeleteOptions" {
        let why = format!("the body of a delete holds options, not a {kind}");
        return Err(Failure::bad_request(why));
    }
    let known = types::by_name("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    let checked = known.map_or(Ok(Vec::new()), |known| types::check(known, options));
    checked.map(|_| ()).map_err(Failure::bad_request)
}

/// A 422 error about an object of `def`.
pub(super) fn invalid(
    def: &ResourceDef,
    name: &str,
    errors: &[crate::failure::FieldError],
) -> Failure {
    Failure::invalid(&def.group, &def.kind, name, errors)
}
