//! A cursor into a JSON object: the value at a path, if any, and the path as Kubernetes prints it.
//!
//! All validation in [`super`] walks an object with [`At`], which also builds the [`FieldError`]
//! for its path. A missing value and an explicit `null` are the same; a value of the wrong type
//! reads as missing, because types were checked before.

use serde_json::Value;

use crate::failure::{FieldError, FieldErrorKind};

pub(crate) type Errors = Vec<FieldError>;

/// Message for a changed value of an immutable field.
pub(crate) const IMMUTABLE: &str = "field is immutable";

#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    value: Option<&'a Value>,
    path: String,
}

// === impl At ===

impl<'a> At<'a> {
    pub(crate) fn root(object: &'a Value) -> Self {
        Self { value: Some(object), path: String::new() }
    }

    pub(crate) fn new(value: Option<&'a Value>, path: impl Into<String>) -> Self {
        Self { value: value.filter(|value| !value.is_null()), path: path.into() }
    }

    /// The member at `dotted` (`spec.template.spec`) below here.
    pub(crate) fn get(&self, dotted: &str) -> Self {
        let found = self
            .value
            .and_then(|value| dotted.split('.').try_fold(value, |value, name| value.get(name)));
        let path = if self.path.is_empty() {
            dotted.to_owned()
        } else {
            format!("{}.{dotted}", self.path)
        };
        Self::new(found, path)
    }

    /// The same value under another path, where Kubernetes prints an inexact one.
    pub(crate) fn called(&self, path: impl Into<String>) -> Self {
        Self { value: self.value, path: path.into() }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let path = self.path.clone();
        let list = self.value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter()
            .enumerate()
            .map(move |(index, value)| At::new(Some(value), format!("{path}[{index}]")))
    }

    /// Members of a map, each at `path[key]`.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let path = self.path.clone();
        let members = self.value.and_then(Value::as_object).into_iter().flatten();
        members
            .map(move |(key, value)| (key.as_str(), At::new(Some(value), format!("{path}[{key}]"))))
    }

    pub(crate) fn value(&self) -> Option<&'a Value> {
        self.value
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Number of items or members; 0 when there is no list or map.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(members)) => members.len(),
            _ => 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn text(&self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn int(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    pub(crate) fn int_or_zero(&self) -> i64 {
        self.int().unwrap_or_default()
    }

    pub(crate) fn flag(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn required(&self, detail: impl Into<String>) -> FieldError {
        FieldError::required(&*self.path, detail)
    }

    pub(crate) fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(&*self.path, detail)
    }

    /// Shows the value; a missing one as the empty string a Go string would be.
    pub(crate) fn invalid(&self, detail: impl Into<String>) -> FieldError {
        self.invalid_as(self.value.unwrap_or(&Value::String(String::new())), detail)
    }

    /// Shows the value; a missing one as the zero a Go integer would be.
    pub(crate) fn invalid_int(&self, detail: impl Into<String>) -> FieldError {
        self.invalid_as(self.value.unwrap_or(&Value::from(0)), detail)
    }

    /// Shows another value than the one found.
    pub(crate) fn invalid_as(&self, shown: &Value, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(&*self.path, shown, detail)
    }

    /// Shows a text that is not JSON: a Go struct, an ordered object.
    pub(crate) fn invalid_shown(&self, shown: String, detail: impl Into<String>) -> FieldError {
        let kind = FieldErrorKind::Invalid;
        FieldError { kind, path: self.path.clone(), shown, detail: detail.into() }
    }

    pub(crate) fn unsupported(&self, supported: &[&str]) -> FieldError {
        let empty = Value::String(String::new());
        FieldError::not_supported(&*self.path, self.value.unwrap_or(&empty), supported)
    }

    pub(crate) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(&*self.path, self.value.unwrap_or(&Value::Null))
    }

    pub(crate) fn not_found(&self) -> FieldError {
        let empty = Value::String(String::new());
        FieldError::not_found(&*self.path, self.value.unwrap_or(&empty))
    }

    /// One error per complaint of [`crate::names`].
    pub(crate) fn complain(&self, complaints: Vec<String>, errors: &mut Errors) {
        errors.extend(complaints.into_iter().map(|complaint| self.invalid(complaint)));
    }

    /// Refuses a negative number; a missing one is fine.
    pub(crate) fn non_negative(&self, errors: &mut Errors) {
        if self.int().is_some_and(|value| value < 0) {
            errors.push(self.invalid("must be greater than or equal to 0"));
        }
    }

    /// Refuses a value that is not one of `supported`; an empty one is missing.
    pub(crate) fn one_of(&self, supported: &[&str], errors: &mut Errors) {
        if self.text().is_empty() {
            errors.push(self.required(""));
        } else if !supported.contains(&self.text()) {
            errors.push(self.unsupported(supported));
        }
    }

    /// Like [`At::one_of`], for an optional field.
    pub(crate) fn one_of_if_set(&self, supported: &[&str], errors: &mut Errors) {
        if self.is_set() && !supported.contains(&self.text()) {
            errors.push(self.unsupported(supported));
        }
    }

    /// Refuses a change since `old`.
    pub(crate) fn unchanged(&self, old: &At<'_>, errors: &mut Errors) {
        if !same(self.value, old.value) {
            errors.push(self.invalid_as(self.value.unwrap_or(&Value::Null), IMMUTABLE));
        }
    }
}

/// Equality as the API server means it: a missing value, `null` and an empty list are equal.
pub(crate) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    fn present(value: Option<&Value>) -> Option<&Value> {
        value.filter(|value| !value.is_null() && value.as_array().is_none_or(|v| !v.is_empty()))
    }
    present(a) == present(b)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_print_the_paths_of_kubernetes() {
        let pod = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "-1"}}}]}});
        let containers = At::root(&pod).get("spec.containers");
        let first = containers.items().next().expect("one container");
        assert_eq!(first.path(), "spec.containers[0]");
        let (_, cpu) = first.get("resources.limits").entries().next().expect("one limit");
        assert_eq!(
            cpu.invalid("no").to_string(),
            "spec.containers[0].resources.limits[cpu]: Invalid value: \"-1\": no"
        );
        let missing = first.get("name");
        assert_eq!(
            missing.invalid("no").to_string(),
            "spec.containers[0].name: Invalid value: \"\": no"
        );
    }

    #[test]
    fn nothing_null_and_an_empty_list_are_the_same() {
        assert!(same(None, Some(&Value::Null)));
        assert!(same(Some(&json!([])), None));
        assert!(!same(Some(&json!({})), None));
        assert!(!same(Some(&json!([1])), Some(&json!([2]))));
    }
}
