//! Validation of Events, and conversion between their two API groups.
//!
//! The store holds the core form; [`event_to_core`] and [`event_from_core`] convert `events.k8s.io`
//! to it and back.

use serde_json::{Map, Value};

use super::{
    at::{At, Errors},
    edit::{default_to, object},
};
use crate::names;

const SHORT_TEXT_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// Fields of `events.k8s.io` and their names in core.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

pub(crate) fn event_to_core(event: &Value) -> Value {
    rename(event, "v1", |name| {
        NAMES.into_iter().find(|(new, _)| *new == name).map(|(_, core)| core)
    })
}

pub(crate) fn event_from_core(event: &Value) -> Value {
    rename(event, "events.k8s.io/v1", |name| {
        NAMES.into_iter().find(|(_, core)| *core == name).map(|(new, _)| new)
    })
}

fn rename(event: &Value, version: &str, other: impl Fn(&str) -> Option<&'static str>) -> Value {
    let members = event.as_object().into_iter().flatten();
    let mut renamed: Map<String, Value> =
        members.map(|(key, value)| (other(key).unwrap_or(key).to_owned(), value.clone())).collect();
    renamed.insert("apiVersion".to_owned(), version.into());
    Value::Object(renamed)
}

/// Fields that are written even when empty.
pub(super) fn core_defaults(event: &mut Value) {
    object(event, "involvedObject");
    object(event, "source");
    for time in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        default_to(event, time, Value::Null);
    }
    default_to(event, "reportingComponent", "");
    default_to(event, "reportingInstance", "");
}

pub(super) fn new_defaults(event: &mut Value) {
    object(event, "regarding");
    object(event, "deprecatedSource");
    for time in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
        default_to(event, time, Value::Null);
    }
}

pub(super) fn core(event: &Value) -> Errors {
    let mut errors = Errors::new();
    check(event, "reportingComponent", &mut errors);
    errors
}

pub(super) fn core_update(new: &Value, _: &Value) -> Errors {
    core(new)
}

/// Events written through the newer group have stricter rules.
pub(super) fn new(event: &Value) -> Errors {
    let mut errors = Errors::new();
    let core = event_to_core(event);
    check(&core, "reportingController", &mut errors);
    let at = At::root(&core);
    let series = at.get("series");
    if series.is_set() {
        if series.get("count").int_or_zero() < 2 {
            errors.push(series.get("count").invalid_as(&Value::from(""), "should be at least 2"));
        }
        if !series.get("lastObservedTime").is_set() {
            errors.push(series.get("lastObservedTime").required(""));
        }
    }
    if !at.get("eventTime").is_set() {
        errors.push(at.get("eventTime").required(""));
    }
    let kind = at.get("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        let text = format!("has invalid value: {}", kind.text());
        errors.push(kind.invalid_as(&Value::from(""), text));
    }
    for key in ["firstTimestamp", "lastTimestamp", "count"] {
        if at.get(key).is_set() {
            errors.push(at.get(key).invalid_as(&Value::from(""), "needs to be unset"));
        }
    }
    let source = at.get("source");
    if ["component", "host"].into_iter().any(|key| !source.get(key).text().is_empty()) {
        errors.push(source.invalid_as(&Value::from(""), "needs to be unset"));
    }
    errors
}

pub(super) fn new_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (core, old) = (event_to_core(new), event_to_core(old));
    check(&core, "reportingController", &mut errors);
    let (at, was) = (At::root(&core), At::root(&old));
    let fixed = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
    ];
    for key in fixed {
        at.get(key).unchanged(&was.get(key), &mut errors);
    }
    errors
}

/// Checks every event in its core form. `reporter` is the caller's name for that field.
fn check(event: &Value, reporter: &str, errors: &mut Errors) {
    let at = At::root(event);
    let (namespace, about) = (at.get("metadata.namespace"), at.get("involvedObject.namespace"));
    let timed = at.get("eventTime").is_set();
    let agrees = match (timed, about.text()) {
        (false, "") => matches!(namespace.text(), "" | "default"),
        (false, about) => namespace.text() == about,
        (true, "") => matches!(namespace.text(), "default" | "kube-system"),
        (true, _) => true,
    };
    if !agrees {
        errors.push(about.invalid("does not match event.namespace"));
    }
    if timed {
        check_timed(&at, reporter, errors);
    }
    let place = namespace.called("namespace");
    place.complain(names::dns1123_subdomain(namespace.text()), errors);
}

/// An event with an `eventTime` needs a reporter and a reason.
fn check_timed(at: &At<'_>, reporter: &str, errors: &mut Errors) {
    let component = at.get("reportingComponent").called(reporter);
    if component.text().is_empty() {
        errors.push(component.required(""));
    }
    component.complain(names::qualified_name(component.text()), errors);
    for (key, needed, max) in [
        ("reportingInstance", true, SHORT_TEXT_MAX),
        ("action", true, SHORT_TEXT_MAX),
        ("reason", true, SHORT_TEXT_MAX),
        ("message", false, NOTE_MAX),
    ] {
        let place = at.get(key);
        if needed && place.text().is_empty() {
            errors.push(place.required(""));
        }
        if place.text().len() > max {
            let text = format!("can have at most {max} characters");
            errors.push(place.invalid_as(&Value::from(""), text));
        }
    }
}
