//! Defaults and validation of Jobs and `CronJobs`, enough to create and run them.
//!
//! Called by the rows of [`super::table`].

use serde_json::{Value, json};

use super::{
    at::{At, Errors, IMMUTABLE, same},
    edit::{default_to, default_zero, object, object_at, set},
    metadata::{check_selector, selects, show_selector},
    pod_defaults::pod_template,
    pod_rules::check_template,
};
use crate::failure::FieldError;

const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

/// A `CronJob`'s name leaves room for the eleven characters that each job adds.
const CRON_NAME_LEN_MAX: usize = 63 - 11;

pub(super) fn defaults(job: &mut Value) {
    if let Some(spec) = object(job, "spec") {
        spec_defaults(spec);
        let labels = spec.pointer("/template/metadata/labels").cloned();
        let meta = object(job, "metadata");
        if let (Some(labels), Some(meta)) = (labels, meta)
            && At::root(meta).get("labels").is_empty()
        {
            set(meta, "labels", labels);
        }
    }
    object(job, "status");
}

fn spec_defaults(spec: &mut Value) {
    let unset = |spec: &Value, key: &str| spec.get(key).is_none_or(Value::is_null);
    if unset(spec, "parallelism") && unset(spec, "completions") {
        default_to(spec, "completions", 1);
    }
    default_to(spec, "parallelism", 1);
    let per_index = !unset(spec, "backoffLimitPerIndex");
    default_to(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    let replacement =
        if unset(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    default_to(spec, "podReplacementPolicy", replacement);
    default_to(spec, "manualSelector", false);
    pod_template(spec);
}

pub(super) fn cron_defaults(cron: &mut Value) {
    let Some(spec) = object(cron, "spec") else { return };
    default_zero(spec, "concurrencyPolicy", "Allow");
    default_to(spec, "suspend", false);
    default_to(spec, "successfulJobsHistoryLimit", 3);
    default_to(spec, "failedJobsHistoryLimit", 1);
    object_at(spec, &["jobTemplate", "metadata"]);
    if let Some(job) = object_at(spec, &["jobTemplate", "spec"]) {
        pod_template(job);
    }
    object(cron, "status");
}

/// Labels the job's pods with its name and UID, and selects by the UID.
pub(super) fn prepare_create(job: &mut Value) {
    if At::root(job).get("spec.manualSelector").flag() {
        return;
    }
    let meta = At::root(job).get("metadata");
    let (name, uid) = (meta.get("name").text().to_owned(), meta.get("uid").text().to_owned());
    if let Some(labels) = object_at(job, &["spec", "template", "metadata", "labels"]) {
        for label in NAME_LABELS {
            default_to(labels, label, name.clone());
        }
        for label in UID_LABELS {
            default_to(labels, label, uid.clone());
        }
    }
    if let Some(selected) = object_at(job, &["spec", "selector", "matchLabels"]) {
        default_to(selected, "batch.kubernetes.io/controller-uid", uid);
    }
}

pub(super) fn validate(job: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(job).get("spec");
    check_spec(&spec, &mut errors);
    let selector = spec.get("selector");
    if selector.is_set() {
        check_selector(&selector, &mut errors);
    } else {
        errors.push(selector.required(""));
    }
    let labels = spec.get("template.metadata.labels");
    if !selects(&selector, &spec.get("template.metadata")) {
        let text = "`selector` does not match template `labels`";
        errors.push(labels.invalid_as(labels.value().unwrap_or(&Value::Null), text));
    }
    errors
}

fn check_spec(spec: &At<'_>, errors: &mut Errors) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.get(key).non_negative(errors);
    }
    let mode = spec.get("completionMode");
    mode.one_of_if_set(&["NonIndexed", "Indexed"], errors);
    if mode.text() == "Indexed" && !spec.get("completions").is_set() {
        errors.push(spec.get("completions").required("when completion mode is Indexed"));
    }
    let template = spec.get("template");
    check_template(&template, errors);
    let restart = template.get("spec.restartPolicy");
    match restart.text() {
        "OnFailure" | "Never" => {}
        "" | "Always" => {
            errors.push(restart.required("valid values: \"OnFailure\", \"Never\""));
        }
        _ => errors.push(restart.unsupported(&["OnFailure", "Never"])),
    }
}

pub(super) fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = validate(new);
    let (spec, was) = (At::root(new).get("spec"), At::root(old).get("spec"));
    for key in ["selector", "template", "completionMode", "podFailurePolicy", "managedBy"] {
        let (now, before) = (spec.get(key), was.get(key));
        if same(now.value(), before.value()) {
            continue;
        }
        // A suspended job that never ran may still change how its pods are scheduled.
        if key == "template" && was.get("suspend").flag() {
            continue;
        }
        errors.push(if key == "selector" {
            now.invalid_shown(show_selector(now.value()), IMMUTABLE)
        } else {
            now.invalid_as(now.value().unwrap_or(&json!(null)), IMMUTABLE)
        });
    }
    errors
}

pub(super) fn cron(object: &Value) -> Errors {
    let mut errors = cron_spec(object);
    let name = At::root(object).get("metadata.name");
    if name.text().len() > CRON_NAME_LEN_MAX {
        errors.push(name.invalid("must be no more than 52 characters"));
    }
    errors
}

pub(super) fn cron_update(new: &Value, _: &Value) -> Errors {
    cron_spec(new)
}

fn cron_spec(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    check_schedule(&spec.get("schedule"), &mut errors);
    spec.get("startingDeadlineSeconds").non_negative(&mut errors);
    spec.get("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"], &mut errors);
    check_spec(&spec.get("jobTemplate.spec"), &mut errors);
    spec.get("successfulJobsHistoryLimit").non_negative(&mut errors);
    spec.get("failedJobsHistoryLimit").non_negative(&mut errors);
    errors
}

/// Five fields, or a name such as `@daily`; the fields themselves are not read.
fn check_schedule(schedule: &At<'_>, errors: &mut Errors) {
    let fields = schedule.text().split_whitespace().count();
    let named = schedule.text().starts_with('@');
    if schedule.text().is_empty() {
        errors.push(FieldError::required(schedule.path(), ""));
    } else if !named && fields != 5 {
        errors.push(
            schedule.invalid(format!(
                "expected exactly 5 fields, found {fields}: [{}]",
                schedule.text()
            )),
        );
    }
}
