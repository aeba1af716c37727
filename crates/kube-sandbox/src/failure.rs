//! API errors: [`Failure`] and [`FieldError`].
//!
//! A [`Failure`] becomes a Kubernetes `Status` object: HTTP code, machine-readable reason, message
//! and, for validation, one [`FieldError`] per invalid field. Every layer below HTTP returns it;
//! only the HTTP layer encodes it.

use serde_json::{Value, json};

pub type Outcome<T> = Result<T, Failure>;

/// A failed request, with everything for a `v1.Status`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub code: u16,
    /// The `metav1.StatusReason`: `NotFound`, `Conflict`, `Invalid`, ...
    pub reason: &'static str,
    pub message: String,
    /// `details.name`, `details.group`, `details.kind`; empty means absent.
    pub name: String,
    pub group: String,
    pub kind: String,
    pub causes: Vec<Cause>,
    pub retry_after_s: Option<u32>,
    /// Token to continue an expired list, with inconsistent results.
    pub continue_token: String,
    /// Kubernetes shows empty `details` in errors of its router.
    pub(crate) shows_empty_details: bool,
    /// Warnings collected before the request failed.
    pub(crate) warnings: Vec<String>,
}

/// One entry of `status.details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldManagerConflict`, ...
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// A validation error of one field, with the text of Kubernetes.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    /// `spec.template.spec.containers[0].name`
    pub path: String,
    /// The invalid value as it appears in the message; empty if not shown.
    pub shown: String,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
    TypeInvalid,
    Internal,
}

// === impl Failure ===

impl Failure {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            causes: Vec::new(),
            retry_after_s: None,
            continue_token: String::new(),
            shows_empty_details: false,
            warnings: Vec::new(),
        }
    }

    /// Marks an error of the router, which has empty `details`.
    #[must_use]
    pub(crate) fn without_details(mut self) -> Self {
        self.shows_empty_details = true;
        self
    }

    /// The error, with warnings collected before it.
    #[must_use]
    pub(crate) fn warning_of(mut self, warnings: &[String]) -> Self {
        self.warnings.splice(0..0, warnings.iter().cloned());
        self
    }

    /// An error of the router, which knows no kinds.
    fn routing(code: u16, reason: &'static str, message: &str) -> Self {
        Self { shows_empty_details: true, ..Self::new(code, reason, message) }
    }

    /// 404: no resource is served at this path.
    pub fn no_such_path() -> Self {
        Self::routing(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn is_no_such_path(&self) -> bool {
        self.code == 404 && self.shows_empty_details && self.reason == "NotFound"
    }

    /// 405: the path exists, for other methods.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::routing(405, "MethodNotAllowed", message)
    }

    /// An error from below the API machinery, without a reason.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Sets `details`; `kind` is the plural resource for lookups, the kind for validation.
    #[must_use]
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        group.clone_into(&mut self.group);
        kind.clone_into(&mut self.kind);
        name.clone_into(&mut self.name);
        self
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, resource));
        Self::new(404, "NotFound", message).about(group, resource, name)
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(group, resource));
        Self::new(409, "AlreadyExists", message).about(group, resource, name)
    }

    /// A failed precondition; `why` is the difference.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let what = qualified(group, resource);
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(group, resource, name)
    }

    /// The usual conflict of a stale `resourceVersion`.
    pub fn stale(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(group, resource, name, why)
    }

    /// 422 with one cause per field. `errors` must not be empty.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let listed = match errors {
            [only] => only.to_string(),
            many => {
                let texts: Vec<_> = many.iter().map(ToString::to_string).collect();
                format!("[{}]", texts.join(", "))
            }
        };
        let message = format!("{} {name:?} is invalid: {listed}", qualified(group, kind));
        let mut failure = Self::new(422, "Invalid", message).about(group, kind, name);
        failure.causes = errors.iter().map(FieldError::cause).collect();
        failure
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let what = qualified(group, resource);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} {name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    pub fn method_not_supported(group: &str, resource: &str, action: &str) -> Self {
        let what = qualified(group, resource);
        let message = format!("{action} is not supported on resources of kind {what:?}");
        Self::new(405, "MethodNotAllowed", message).about(group, resource, "")
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        let whole = format!("Internal error occurred: {message}");
        let cause = Cause { reason: String::new(), message, field: String::new() };
        Self { causes: vec![cause], ..Self::new(500, "InternalError", whole) }
    }

    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    pub fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason == "Conflict"
    }

    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// The `v1.Status` object for the client.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.continue_token.is_empty() {
            status["metadata"]["continue"] = self.continue_token.as_str().into();
        }
        let mut details = serde_json::Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind)] {
            if !text.is_empty() {
                details.insert(key.into(), text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            details.insert("causes".into(), self.causes.iter().map(Cause::to_json).collect());
        }
        if let Some(seconds) = self.retry_after_s {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        if !details.is_empty() || self.shows_empty_details {
            status["details"] = details.into();
        }
        status
    }
}

/// `deployments.apps`, or `pods` for the core group.
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

// === impl Cause ===

impl Cause {
    fn to_json(&self) -> Value {
        let parts = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)];
        let given = parts.into_iter().filter(|(_, text)| !text.is_empty());
        given.map(|(key, text)| (key.to_owned(), Value::from(text.as_str()))).collect()
    }
}

// === impl FieldError ===

impl FieldError {
    fn new(
        kind: FieldErrorKind,
        path: impl Into<String>,
        shown: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, path: path.into(), shown: shown.into(), detail: detail.into() }
    }

    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, "", detail)
    }

    pub fn invalid(path: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value.to_string(), detail)
    }

    /// A wrong type: the error shows the *type* of the value (`"string"`), then the detail.
    pub fn type_invalid(path: impl Into<String>, met: &str, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, format!("{met:?}"), detail)
    }

    pub fn not_supported(path: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<_> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::new(FieldErrorKind::NotSupported, path, value.to_string(), detail)
    }

    pub fn duplicate(path: impl Into<String>, value: &Value) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, value.to_string(), "")
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, "", detail)
    }

    pub fn too_long(path: impl Into<String>, bytes_max: usize) -> Self {
        let detail = format!("may not be more than {bytes_max} bytes");
        Self::new(FieldErrorKind::TooLong, path, "", detail)
    }

    pub fn too_many(path: impl Into<String>, actual: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} items");
        Self::new(FieldErrorKind::TooMany, path, actual.to_string(), detail)
    }

    pub fn not_found(path: impl Into<String>, value: &Value) -> Self {
        Self::new(FieldErrorKind::NotFound, path, value.to_string(), "")
    }

    fn words(&self) -> (&'static str, &'static str) {
        match self.kind {
            FieldErrorKind::Required => ("Required value", "FieldValueRequired"),
            FieldErrorKind::Invalid => ("Invalid value", "FieldValueInvalid"),
            FieldErrorKind::NotSupported => ("Unsupported value", "FieldValueNotSupported"),
            FieldErrorKind::Duplicate => ("Duplicate value", "FieldValueDuplicate"),
            FieldErrorKind::Forbidden => ("Forbidden", "FieldValueForbidden"),
            FieldErrorKind::TooLong => ("Too long", "FieldValueTooLong"),
            FieldErrorKind::TooMany => ("Too many", "FieldValueTooMany"),
            FieldErrorKind::NotFound => ("Not found", "FieldValueNotFound"),
            FieldErrorKind::TypeInvalid => ("Invalid value", "FieldValueTypeInvalid"),
            FieldErrorKind::Internal => ("Internal error", "InternalError"),
        }
    }

    /// The message without the path, as in a cause.
    fn body(&self) -> String {
        let mut body = self.words().0.to_owned();
        for part in [&self.shown, &self.detail] {
            if !part.is_empty() {
                body.push_str(": ");
                body.push_str(part);
            }
        }
        body
    }

    fn cause(&self) -> Cause {
        Cause { reason: self.words().1.to_owned(), message: self.body(), field: self.path.clone() }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_kubernetes_writes_them() {
        let one = [FieldError::invalid("spec.replicas", &json!(-1), "must be non-negative")];
        let failure = Failure::invalid("apps", "Deployment", "web", &one);
        let want = "Deployment.apps \"web\" is invalid: \
                    spec.replicas: Invalid value: -1: must be non-negative";
        assert_eq!(failure.message, want);
        assert_eq!(failure.causes.first().map(|c| c.field.as_str()), Some("spec.replicas"));

        let gone = Failure::not_found("apps", "deployments", "web").to_status();
        assert_eq!(gone["message"], "deployments.apps \"web\" not found");
        assert_eq!(gone["details"], json!({"name": "web", "group": "apps", "kind": "deployments"}));
    }
}
