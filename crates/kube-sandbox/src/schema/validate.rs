//! OpenAPI validation, with the results and error texts of Kubernetes' validator.
//!
//! The order of checks, the match count that selects the best branch of an `anyOf`, and some
//! visible oddities are those of Kubernetes; they are marked.

use serde_json::{Map, Value};

use super::{Additional, Kind, Kinds, Schema, path::Path, ratchet::Correlated};
use crate::failure::{FieldError, FieldErrorKind};

mod numbers;

use numbers::Number;

/// Validates a value; `base` is the path of the value in its object, `""` for the object itself.
pub(super) fn validate(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    base: &str,
) -> Vec<FieldError> {
    let mut found = Found { base, ..Found::default() };
    let correlated = old.map(|old| Correlated { schema, old });
    check_ratcheted(schema, new, &Path::Root, correlated, &mut found);
    found.errors
}

/// A value as printed in Go's field errors.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => Number::from(number).shown(),
        other => other.to_string(),
    }
}

/// Errors after which rules are not run, because rules rely on types.
pub(super) fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        FieldErrorKind::NotSupported
            | FieldErrorKind::Required
            | FieldErrorKind::TooLong
            | FieldErrorKind::TooMany
            | FieldErrorKind::TypeInvalid
    )
}

pub(super) fn rules_not_checked() -> FieldError {
    let detail = "some validation rules were not checked because the object was invalid; correct \
                  the existing errors to complete validation";
    FieldError::invalid("<nil>", &Value::Null, detail)
}

/// Errors so far, and the match count by which the best branch is selected.
#[derive(Default)]
struct Found<'a> {
    base: &'a str,
    errors: Vec<FieldError>,
    matches: usize,
}

impl Found<'_> {
    fn branch(&self) -> Self {
        Self { base: self.base, errors: Vec::new(), matches: 0 }
    }

    fn push(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        for error in other.errors {
            self.push(error);
        }
    }

    fn path(&self, path: &Path<'_>) -> String {
        match (self.base, path.dotted()) {
            ("", name) if name.is_empty() => "<nil>".to_owned(),
            ("", name) => name,
            (base, name) if name.is_empty() => base.to_owned(),
            (base, name) => format!("{base}.{name}"),
        }
    }

    /// An error whose detail reads `spec.x in body ...`.
    fn add(&mut self, kind: FieldErrorKind, path: &Path<'_>, shown: String, words: &str) {
        let detail = format!("{} in body {words}", path.dotted());
        self.push(FieldError { kind, path: self.path(path), shown, detail });
    }

    fn invalid(&mut self, path: &Path<'_>, shown: String, words: &str) {
        self.add(FieldErrorKind::Invalid, path, shown, words);
    }

    fn type_invalid(&mut self, path: &Path<'_>, want: &str, met: &str) {
        let words = format!("must be of type {want}: {met:?}");
        self.add(FieldErrorKind::TypeInvalid, path, format!("{met:?}"), &words);
    }

    /// As in Kubernetes: errors of junctors have the path in the text only.
    fn unplaced(&mut self, detail: String) {
        let path = if self.base.is_empty() { "<nil>" } else { self.base };
        self.push(FieldError {
            kind: FieldErrorKind::Invalid,
            path: path.to_owned(),
            shown: "\"\"".to_owned(),
            detail,
        });
    }

    fn too_many(&mut self, path: &Path<'_>, actual: usize, max: u64) {
        let items = if max == 1 { "item" } else { "items" };
        self.push(FieldError {
            kind: FieldErrorKind::TooMany,
            path: self.path(path),
            shown: actual.to_string(),
            detail: format!("must have at most {max} {items}"),
        });
    }
}

/// Checks a value and drops its errors if the value is unchanged.
fn check_ratcheted(
    schema: &Schema,
    value: &Value,
    path: &Path<'_>,
    old: Option<Correlated<'_>>,
    found: &mut Found<'_>,
) {
    let mark = found.errors.len();
    check(schema, value, path, old, found);
    if found.errors.len() > mark && old.is_some_and(|old| old.is_unchanged(value)) {
        found.errors.truncate(mark);
    }
}

fn check(
    schema: &Schema,
    value: &Value,
    path: &Path<'_>,
    old: Option<Correlated<'_>>,
    found: &mut Found<'_>,
) {
    if value.is_null() {
        if schema.kinds == Kinds::Any || schema.nullable {
            found.matches += 1;
        } else {
            found.type_invalid(path, schema.kinds.text(), "null");
        }
        check_options(schema, value, path, found);
        return;
    }
    if schema.kinds != Kinds::Any || schema.limits.format.is_some() {
        check_type(schema, value, path, found);
        found.matches += 1;
    }
    check_junctors(schema, value, path, found);
    match value {
        Value::String(text) => check_string(schema, text, path, found),
        Value::Number(number) => numbers::check(schema, &Number::from(number), path, found),
        Value::Array(list) => check_items(schema, list, path, old, found),
        _ => {}
    }
    check_options(schema, value, path, found);
    if let Value::Object(map) = value {
        check_object(schema, map, path, old, found);
    }
    // One for the enum check, which always applies, and one for the node itself.
    found.matches += 2;
}

/// The OpenAPI type of a value, and Go's format for it.
fn type_of(value: &Value) -> (Kind, &'static str) {
    match value {
        Value::Object(_) => (Kind::Object, ""),
        Value::Array(_) => (Kind::Array, ""),
        Value::Bool(_) => (Kind::Boolean, ""),
        Value::Number(number) => match Number::from(number) {
            Number::Whole(_) => (Kind::Integer, "int64"),
            Number::Fraction(_) => (Kind::Number, "float64"),
        },
        Value::String(_) | Value::Null => (Kind::String, ""),
    }
}

fn check_type(schema: &Schema, value: &Value, path: &Path<'_>, found: &mut Found<'_>) {
    let kinds = schema.kinds;
    let (kind, native) = type_of(value);
    let is_text_like = matches!(value, Value::String(_) | Value::Array(_));
    let whole_float = || value.as_f64().is_some_and(numbers::is_whole);
    let fits = kinds.contains(kind)
        || (kind == Kind::Number && kinds.contains(Kind::Integer) && whole_float())
        || (kind == Kind::Integer && kinds.contains(Kind::Number));
    if let Some(format) = &schema.limits.format {
        if !is_text_like && !fits && format.name != native {
            found.type_invalid(path, &format.name, native);
            return;
        }
        // As in Kubernetes: with a string format, an array passes as a string.
        let is_numeric = kinds.contains(Kind::Number) || kinds.contains(Kind::Integer);
        if !is_numeric && is_text_like {
            found.matches += 1;
            return;
        }
    }
    if fits {
        found.matches += 1;
    } else {
        found.type_invalid(path, kinds.text(), kind.name());
    }
}

fn check_junctors(schema: &Schema, value: &Value, path: &Path<'_>, found: &mut Found<'_>) {
    found.matches += 2;
    // As in Kubernetes: inside a branch unchanged values are not tolerated.
    let judge = |branch: &Schema, found: &Found<'_>| -> (usize, Vec<FieldError>) {
        let mut verdict = found.branch();
        check(branch, value, path, None, &mut verdict);
        (verdict.matches, verdict.errors)
    };
    if !schema.any_of.is_empty() {
        let name = path.dotted();
        any_of(schema, &name, found, judge);
    }
    if !schema.one_of.is_empty() {
        let name = path.dotted();
        one_of(schema, &name, found, judge);
    }
    if !schema.all_of.is_empty() {
        let mut valid = 0;
        for branch in &schema.all_of {
            let (matches, errors) = judge(branch, found);
            valid += usize::from(errors.is_empty());
            let merged = Found { errors, matches, ..found.branch() };
            found.merge(merged);
        }
        if valid != schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let name = path.dotted();
            found.unplaced(format!("{name:?} must validate all the schemas (allOf){none}"));
        }
    }
    if let Some(not) = &schema.not
        && judge(not, found).1.is_empty()
    {
        found.unplaced(format!("{:?} must not validate the schema (not)", path.dotted()));
    }
}

fn any_of(
    schema: &Schema,
    name: &str,
    found: &mut Found<'_>,
    judge: impl Fn(&Schema, &Found<'_>) -> (usize, Vec<FieldError>),
) {
    let mut best: Option<(usize, Vec<FieldError>)> = None;
    for branch in &schema.any_of {
        let verdict = judge(branch, found);
        if verdict.1.is_empty() {
            found.matches += verdict.0;
            return;
        }
        if best.as_ref().is_none_or(|best| verdict.0 > best.0) {
            best = Some(verdict);
        }
    }
    found.unplaced(format!("{name:?} must validate at least one schema (anyOf)"));
    if let Some((matches, errors)) = best {
        let merged = Found { errors, matches, ..found.branch() };
        found.merge(merged);
    }
}

fn one_of(
    schema: &Schema,
    name: &str,
    found: &mut Found<'_>,
    judge: impl Fn(&Schema, &Found<'_>) -> (usize, Vec<FieldError>),
) {
    let mut best: Option<(usize, Vec<FieldError>)> = None;
    let mut first_matches = 0;
    let mut valid = 0_usize;
    for branch in &schema.one_of {
        let verdict = judge(branch, found);
        if verdict.1.is_empty() {
            valid += 1;
            best = None;
            if valid == 1 {
                first_matches = verdict.0;
            }
        } else if valid == 0 && best.as_ref().is_none_or(|best| verdict.0 > best.0) {
            best = Some(verdict);
        }
    }
    if valid == 1 {
        found.matches += first_matches;
        return;
    }
    let how = match valid {
        0 => "Found none valid".to_owned(),
        count => format!("Found {count} valid alternatives"),
    };
    found.unplaced(format!("{name:?} must validate one and only one schema (oneOf). {how}"));
    if let Some((matches, errors)) = best {
        let merged = Found { errors, matches, ..found.branch() };
        found.merge(merged);
    }
}

fn check_string(schema: &Schema, text: &str, path: &Path<'_>, found: &mut Found<'_>) {
    found.matches += 1;
    let limits = &schema.limits;
    let length = || u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let quoted = || Value::from(text).to_string();
    // Only the first exceeded limit is reported.
    if let Some(max) = limits.max_length.filter(|max| length() > *max) {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        found.push(FieldError {
            kind: FieldErrorKind::TooLong,
            path: found.path(path),
            shown: String::new(),
            detail: format!("may not be more than {max} {bytes}"),
        });
    } else if let Some(min) = limits.min_length.filter(|min| length() < *min) {
        found.invalid(path, quoted(), &format!("should be at least {min} chars long"));
    } else if let Some(pattern) = limits.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
        found.invalid(path, quoted(), &format!("should match '{}'", pattern.source));
    }
    if let Some(format) = &limits.format
        && let Some(is_valid) = format.check
    {
        found.matches += 1;
        if !is_valid(text) {
            found.type_invalid(path, &format.name, text);
        }
    }
}

fn check_items(
    schema: &Schema,
    list: &[Value],
    path: &Path<'_>,
    old: Option<Correlated<'_>>,
    found: &mut Found<'_>,
) {
    found.matches += 2;
    if let Some(items) = schema.items.as_deref() {
        for (index, item) in list.iter().enumerate() {
            let old = old.and_then(|old| old.item(item));
            check_ratcheted(items, item, &path.index(index), old, found);
        }
    }
    let size = u64::try_from(list.len()).unwrap_or(u64::MAX);
    if let Some(min) = schema.limits.min_items.filter(|min| size < *min) {
        found.invalid(path, size.to_string(), &format!("should have at least {min} items"));
    }
    if let Some(max) = schema.limits.max_items.filter(|max| size > *max) {
        found.too_many(path, list.len(), max);
    }
}

fn check_options(schema: &Schema, value: &Value, path: &Path<'_>, found: &mut Found<'_>) {
    let options = &schema.limits.options;
    // As in Kubernetes: null never matches an option, even a listed one.
    let same = |option: &Value| match (option, value) {
        (Value::Null, _) => false,
        (Value::Number(option), Value::Number(value)) => option.as_f64() == value.as_f64(),
        (option, value) => option == value,
    };
    if options.is_empty() || options.iter().any(same) {
        return;
    }
    let texts: Vec<String> = options
        .iter()
        .map(|option| option.as_str().map_or_else(|| option.to_string(), ToOwned::to_owned))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut error = FieldError::not_supported(found.path(path), value, &texts);
    error.shown = shown(value);
    found.push(error);
}

fn check_object(
    schema: &Schema,
    map: &Map<String, Value>,
    path: &Path<'_>,
    old: Option<Correlated<'_>>,
    found: &mut Found<'_>,
) {
    found.matches += 1;
    let limits = &schema.limits;
    let size = u64::try_from(map.len()).unwrap_or(u64::MAX);
    if let Some(min) = limits.min_properties.filter(|min| size < *min) {
        found.invalid(path, size.to_string(), &format!("should have at least {min} properties"));
    }
    if let Some(max) = limits.max_properties.filter(|max| size > *max) {
        found.too_many(path, map.len(), max);
    }
    for (name, value) in map {
        if schema.properties.contains_key(name) {
            continue;
        }
        match &schema.additional {
            Additional::Each(each) => {
                let old = old.and_then(|old| old.field(name));
                check_ratcheted(each, value, &path.key(name), old, found);
            }
            Additional::Allowed(false) => {
                let detail = format!("{}.{name} in body is a forbidden property", path.dotted());
                let at = found.path(path);
                found.push(FieldError::invalid(at, &name.as_str().into(), detail));
            }
            Additional::Allowed(true) | Additional::Unset => {}
        }
    }
    let is_root = matches!(path, Path::Root) && found.base.is_empty();
    for (name, property) in &schema.properties {
        let Some(value) = map.get(name) else { continue };
        // Changes of these two are not visible here, so errors in them are not tolerated.
        let is_type_meta = is_root && matches!(name.as_str(), "kind" | "apiVersion");
        let old = old.filter(|_| !is_type_meta).and_then(|old| old.field(name));
        check_ratcheted(property, value, &path.field(name), old, found);
    }
    for name in &limits.required {
        if !map.contains_key(name) {
            found.push(FieldError::required(found.path(&path.field(name)), ""));
        }
    }
}
