//! API errors: [`Failure`] and [`FieldError`].
//!
//! A [`Failure`] becomes a Kubernetes `Status` object: HTTP code, machine-readable reason, message
//! and, for validation, one [`FieldError`] per invalid field. Every layer below HTTP returns it;
//! only the HTTP layer encodes it.

use serde_json::{Value, json};

/// A value, or the failure an HTTP client would have been sent.
pub type Outcome<T> = Result<T, Failure>;

/// A failed request, with everything for a `v1.Status`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The HTTP status code.
    pub code: u16,
    /// The `metav1.StatusReason`: `NotFound`, `Conflict`, `Invalid`, ...
    pub reason: &'static str,
    /// `message`, for people.
    pub message: String,
    /// `details.name`, `details.group`, `details.kind`; empty means absent.
    pub name: String,
    /// `details.group`
    pub group: String,
    /// `details.kind`
    pub kind: String,
    /// `details.causes`, in order.
    pub causes: Vec<Cause>,
    /// `details.retryAfterSeconds`, and the header `Retry-After`.
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
    /// The message, for people.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

/// A validation error of one field, with the text of Kubernetes.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The class of the mistake.
    pub kind: FieldErrorKind,
    /// `spec.template.spec.containers[0].name`
    pub path: String,
    /// The invalid value as it appears in the message; empty if not shown.
    pub shown: String,
    /// The rest of the message.
    pub detail: String,
}

/// The classes of mistakes that field validation knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// Nothing is there.
    Required,
    /// It breaks a rule.
    Invalid,
    /// It is none of the values allowed.
    NotSupported,
    /// Another item has the same value.
    Duplicate,
    /// It may not be set.
    Forbidden,
    /// It has too many bytes.
    TooLong,
    /// It has too many items.
    TooMany,
    /// It refers to nothing.
    NotFound,
    /// It has the wrong type.
    TypeInvalid,
    /// The check itself failed.
    Internal,
}

// === impl Failure ===

impl Failure {
    /// A failure without details.
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

    /// Whether nothing is served at the path.
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

    /// 404: there is no such object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, resource));
        Self::new(404, "NotFound", message).about(group, resource, name)
    }

    /// 409: there is such an object already.
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

    /// 400
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let what = qualified(group, resource);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} {name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    /// 405: the resource has no such verb.
    pub fn method_not_supported(group: &str, resource: &str, action: &str) -> Self {
        let what = qualified(group, resource);
        let message = format!("{action} is not supported on resources of kind {what:?}");
        Self::new(405, "MethodNotAllowed", message).about(group, resource, "")
    }

    /// 410: the version asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 415
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 413
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 406
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// 500
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        let whole = format!("Internal error occurred: {message}");
        let cause = Cause { reason: String::new(), message, field: String::new() };
        Self { causes: vec![cause], ..Self::new(500, "InternalError", whole) }
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// Whether another write came first.
    pub fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason == "Conflict"
    }

    /// Whether the object exists already.
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

    pub(crate) fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, "", detail)
    }

    pub(crate) fn invalid(
        path: impl Into<String>,
        value: &Value,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value.to_string(), detail)
    }

    /// A wrong type: Kubernetes shows the *type* it met (`"string"`) and then says the rest.
    pub(crate) fn type_invalid(
        path: impl Into<String>,
        met: &str,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, format!("{met:?}"), detail)
    }

    pub(crate) fn not_supported(
        path: impl Into<String>,
        value: &Value,
        supported: &[&str],
    ) -> Self {
        let list: Vec<_> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::new(FieldErrorKind::NotSupported, path, value.to_string(), detail)
    }

    pub(crate) fn duplicate(path: impl Into<String>, value: &Value) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, value.to_string(), "")
    }

    pub(crate) fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, "", detail)
    }

    pub(crate) fn too_long(path: impl Into<String>, bytes_max: usize) -> Self {
        let detail = format!("may not be more than {bytes_max} bytes");
        Self::new(FieldErrorKind::TooLong, path, "", detail)
    }

    pub(crate) fn too_many(path: impl Into<String>, actual: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} items");
        Self::new(FieldErrorKind::TooMany, path, actual.to_string(), detail)
    }

    pub(crate) fn not_found(path: impl Into<String>, value: &Value) -> Self {
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
