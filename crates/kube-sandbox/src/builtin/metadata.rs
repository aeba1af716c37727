//! Validation of `metadata` on create and update, for every kind.
//!
//! Called by every [`super::Strategy`], and by the server for custom resources.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    at::{At, Errors},
    edit::{self, carry, default_to},
};
use crate::{
    failure::FieldError,
    names::{self, ANNOTATIONS_BYTES_MAX, NameRule},
    selector,
};

/// Errors in the metadata of an object about to be created. Its name was generated before.
pub(crate) fn validate_metadata(
    meta: &Value,
    namespaced: bool,
    name_rule: NameRule,
    path: &str,
) -> Vec<FieldError> {
    let at = At::new(Some(meta), path);
    let mut errors = Errors::new();
    let prefix = at.get("generateName");
    if !prefix.text().is_empty() {
        prefix.complain(name_rule.check_prefix(prefix.text()), &mut errors);
    }
    let name = at.get("name");
    if name.text().is_empty() {
        errors.push(name.required("name or generateName is required"));
    } else {
        name.complain(name_rule.check(name.text()), &mut errors);
    }
    let namespace = at.get("namespace");
    match (namespaced, namespace.text()) {
        (true, "") => errors.push(namespace.required("")),
        (true, text) => namespace.complain(names::dns1123_label(text), &mut errors),
        (false, "") => {}
        (false, _) => errors.push(namespace.forbidden("not allowed on this type")),
    }
    at.get("generation").non_negative(&mut errors);
    check_labels(&at.get("labels"), &mut errors);
    check_annotations(&at.get("annotations"), &mut errors);
    check_owners(&at.get("ownerReferences"), &mut errors);
    check_finalizers(&at.get("finalizers"), &mut errors);
    errors
}

/// Errors in a change of metadata. `new` went through [`keep_system_metadata`] before.
pub(crate) fn validate_metadata_update(new: &Value, old: &Value, path: &str) -> Vec<FieldError> {
    let (at, was) = (At::new(Some(new), path), At::new(Some(old), path));
    let mut errors = Errors::new();
    if was.get("deletionTimestamp").is_set() {
        check_no_new_finalizers(&at.get("finalizers"), &was.get("finalizers"), &mut errors);
    }
    let generation = at.get("generation");
    if generation.int_or_zero() < was.get("generation").int_or_zero() {
        errors.push(generation.invalid_int("must not be decremented"));
    }
    for text in ["name", "namespace", "uid"] {
        let place = at.get(text);
        if place.text() != was.get(text).text() {
            errors.push(place.invalid(super::at::IMMUTABLE));
        }
    }
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        at.get(key).unchanged(&was.get(key), &mut errors);
    }
    check_labels(&at.get("labels"), &mut errors);
    check_annotations(&at.get("annotations"), &mut errors);
    check_owners(&at.get("ownerReferences"), &mut errors);
    errors
}

/// Undoes what a client cannot change: generation, creation and deletion times. A client may leave
/// out the UID and the resource version it does not know.
pub(crate) fn keep_system_metadata(new: &mut Value, old: &Value) {
    let (Some(new), Some(old)) = (edit::object(new, "metadata"), old.get("metadata")) else {
        return;
    };
    carry(new, old, "generation");
    carry(new, old, "creationTimestamp");
    if old.get("deletionTimestamp").is_some_and(|at| !at.is_null()) {
        carry(new, old, "deletionTimestamp");
    }
    for key in ["uid", "deletionGracePeriodSeconds"] {
        if let Some(value) = old.get(key) {
            default_to(new, key, value.clone());
        }
    }
}

pub(crate) fn check_labels(labels: &At<'_>, errors: &mut Errors) {
    for (key, value) in labels.entries() {
        let complaints = names::qualified_name(key);
        errors.extend(complaints.into_iter().map(|text| labels.invalid_as(&key.into(), text)));
        let complaints = names::label_value(value.text());
        let shown = value.text().into();
        errors.extend(complaints.into_iter().map(|text| labels.invalid_as(&shown, text)));
    }
}

pub(crate) fn check_annotations(annotations: &At<'_>, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        let complaints = names::qualified_name(&key.to_ascii_lowercase());
        errors.extend(complaints.into_iter().map(|text| annotations.invalid_as(&key.into(), text)));
        bytes += key.len() + value.text().len();
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(annotations.path(), ANNOTATIONS_BYTES_MAX));
    }
}

/// Validates a `LabelSelector` object of any kind.
pub(crate) fn check_selector(selector: &At<'_>, errors: &mut Errors) {
    check_labels(&selector.get("matchLabels"), errors);
    for requirement in selector.get("matchExpressions").items() {
        let values = requirement.get("values");
        let operator = requirement.get("operator");
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                errors
                    .push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(values.forbidden(
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(operator.invalid("not a valid selector operator")),
        }
        let key = requirement.get("key");
        key.complain(names::qualified_name(key.text()), errors);
        for value in values.items() {
            value.complain(names::label_value(value.text()), errors);
        }
    }
}

/// A selector as the API server shows it: its fields in the order of the Go type.
pub(crate) fn show_selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
        return "null".to_owned();
    };
    let parts: Vec<_> = ["matchLabels", "matchExpressions"]
        .into_iter()
        .filter_map(|key| Some(format!("\"{key}\":{}", selector.get(key)?)))
        .collect();
    format!("{{{}}}", parts.join(","))
}

/// Whether a selector object matches the labels of `meta`; a missing one matches nothing.
pub(crate) fn selects(selector: &At<'_>, meta: &At<'_>) -> bool {
    let labels = meta.get("labels");
    selector::LabelSelector::from_json(selector.value())
        .is_ok_and(|selector| selector.matches_json(labels.value()))
}

fn check_owners(owners: &At<'_>, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for owner in owners.items() {
        check_owner(owners, &owner, errors);
        if !owner.get("controller").flag() {
            continue;
        }
        let this = format!("{}/{}", owner.get("kind").text(), owner.get("name").text());
        match &controller {
            None => controller = Some(this),
            Some(first) => errors.push(owners.invalid(format!(
                "Only one reference can have Controller set to true. Found \"true\" in references \
                 for {first} and {this}"
            ))),
        }
    }
}

fn check_owner(owners: &At<'_>, owner: &At<'_>, errors: &mut Errors) {
    // Kubernetes leaves the index out of the path.
    let place = |key: &str| owner.get(key).called(format!("{}.{key}", owners.path()));
    let api_version = place("apiVersion");
    if api_version.text().rsplit('/').next().is_none_or(str::is_empty) {
        errors.push(api_version.invalid("version must not be empty"));
    }
    for key in ["kind", "name", "uid"] {
        let text = place(key);
        if text.text().is_empty() {
            errors.push(text.invalid("must not be empty"));
        }
    }
    if api_version.text() == "v1" && owner.get("kind").text() == "Event" {
        let place = owner.called(owners.path());
        errors.push(place.invalid("/v1, Kind=Event is disallowed from being an owner"));
    }
}

fn check_finalizers(finalizers: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for finalizer in finalizers.items() {
        let place = finalizer.called(finalizers.path());
        place.complain(names::qualified_name(finalizer.text()), errors);
        seen.insert(finalizer.text());
    }
    if seen.contains("orphan") && seen.contains("foregroundDeletion") {
        let text = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(finalizers.invalid(text));
    }
}

/// Finalizers of built-in kinds are those of Kubernetes or have a domain prefix.
pub(super) fn bare_finalizers(meta: &Value) -> Errors {
    let mut errors = Errors::new();
    for finalizer in At::new(Some(meta), "metadata").get("finalizers").items() {
        let text = finalizer.text();
        if !text.contains('/') && !matches!(text, "kubernetes" | "orphan" | "foregroundDeletion") {
            errors.push(finalizer.invalid("neither a standard finalizer nor one with a domain"));
        }
    }
    errors
}

/// The warning about finalizers without a domain.
pub(crate) fn finalizer_warnings(meta: &Value) -> Vec<String> {
    let bare = bare_finalizers(meta);
    let mut warnings: Vec<String> = Vec::new();
    for error in bare {
        warnings.push(format!(
            "metadata.finalizers: {}: prefer a domain-qualified finalizer name including a path \
             (/) to avoid accidental conflicts with other finalizer writers",
            error.shown
        ));
    }
    warnings
}

fn check_no_new_finalizers(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let known: BTreeSet<_> = old.items().map(|finalizer| finalizer.text()).collect();
    let added: BTreeSet<_> = new
        .items()
        .map(|finalizer| finalizer.text())
        .filter(|text| !known.contains(text))
        .collect();
    if !added.is_empty() {
        let list: Vec<_> = added.iter().map(|text| format!("{text:?}")).collect();
        errors.push(new.forbidden(format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            list.join(", ")
        )));
    }
}
