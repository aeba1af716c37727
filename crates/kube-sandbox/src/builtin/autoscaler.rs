//! Defaults and validation of `HorizontalPodAutoscalers` in version 2. Version 1 is a view:
//! [`super::autoscaler_v1`].

use serde_json::{Value, json};

use super::{
    at::{At, Errors},
    container_rules::check_resource_name,
    edit::{canonical_quantity, default_to, each, object, within},
};
use crate::{names, quantity::Quantity};

const WINDOW_S_MAX: i64 = 3600;
const PERIOD_S_MAX: i64 = 1800;

const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The member with the details of each metric source, in the order in which the API server looks.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

pub(super) fn defaults(autoscaler: &mut Value) {
    if let Some(spec) = object(autoscaler, "spec") {
        default_to(spec, "minReplicas", 1);
        default_to(spec, "metrics", json!([cpu_utilization(80)]));
        each(spec, "metrics", |metric| {
            for (_, source) in SOURCES {
                within(metric, source, |source| {
                    within(source, "target", |target| {
                        canonical_quantity(target, "value");
                        canonical_quantity(target, "averageValue");
                    });
                });
            }
        });
        within(spec, "behavior", behavior_defaults);
    }
    // Both are written even when empty.
    if let Some(status) = object(autoscaler, "status") {
        default_to(status, "desiredReplicas", 0);
        default_to(status, "currentMetrics", Value::Null);
    }
}

pub(super) fn cpu_utilization(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent},
        },
    })
}

/// Completes the rules of a scaling direction that has any.
fn behavior_defaults(behavior: &mut Value) {
    let up = json!([
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]);
    if let Some(rules) = object(behavior, "scaleUp") {
        default_to(rules, "stabilizationWindowSeconds", 0);
        default_to(rules, "selectPolicy", "Max");
        default_to(rules, "policies", up);
        canonical_quantity(rules, "tolerance");
    }
    // The controller chooses the window for scaling down.
    if let Some(rules) = object(behavior, "scaleDown") {
        default_to(rules, "selectPolicy", "Max");
        let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
        default_to(rules, "policies", down);
        canonical_quantity(rules, "tolerance");
    }
}

const NO_GROUP: &str = "must name an API group";

pub(super) fn validate(autoscaler: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(autoscaler).get("spec");
    let (low, high) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    if low.int().is_some_and(|replicas| replicas < 1) {
        errors.push(low.invalid("must be greater than or equal to 1"));
    }
    let wakes = |metric: At<'_>| matches!(metric.get("type").text(), "Object" | "External");
    if low.int() == Some(0) && !spec.get("metrics").items().any(wakes) {
        let text = "nothing but an Object or External metric tells when to leave zero";
        errors.push(spec.get("metrics").forbidden(text));
    }
    match high.int_or_zero() {
        0 => errors.push(high.required("must be set and greater than 0")),
        replicas if replicas < 0 => {
            errors.push(high.invalid("must be greater than or equal to 1"));
        }
        _ => {}
    }
    if low.int().is_some_and(|replicas| high.int_or_zero() < replicas) {
        errors.push(high.invalid_int("must be greater than or equal to `minReplicas`"));
    }
    check_reference(&spec.get("scaleTargetRef"), &mut errors);
    check_group(&spec.get("scaleTargetRef.apiVersion"), &mut errors);
    for metric in spec.get("metrics").items() {
        check_metric(&metric, &mut errors);
    }
    for direction in ["behavior.scaleUp", "behavior.scaleDown"] {
        let rules = spec.get(direction);
        if rules.is_set() {
            check_rules(&rules, &mut errors);
        }
    }
    errors
}

/// A target stored without a group may stay so.
pub(super) fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = validate(new);
    let mut known = Errors::new();
    let version = At::root(old).get("spec.scaleTargetRef.apiVersion");
    check_group(&version, &mut known);
    if !known.is_empty() {
        errors.retain(|error| error.path != version.path() || error.detail != NO_GROUP);
    }
    errors
}

/// A scale target needs an API group: the core group has no scalable kind.
fn check_group(version: &At<'_>, errors: &mut Errors) {
    if !version.text().contains('/') {
        errors.push(version.invalid_as(&version.text().into(), NO_GROUP));
    }
}

pub(super) fn validate_status(new: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let status = At::root(new).get("status");
    status.get("currentReplicas").non_negative(&mut errors);
    status.get("desiredReplicas").non_negative(&mut errors);
    errors
}

fn check_reference(reference: &At<'_>, errors: &mut Errors) {
    for key in ["kind", "name"] {
        let place = reference.get(key);
        if place.text().is_empty() {
            errors.push(place.required(""));
        } else {
            place.complain(names::path_segment_name(place.text()), errors);
        }
    }
    let version = reference.get("apiVersion");
    if version.text().matches('/').count() > 1 {
        let text = format!("unexpected GroupVersion string: {}", version.text());
        errors.push(version.invalid(text));
    }
}

fn check_rules(rules: &At<'_>, errors: &mut Errors) {
    let window = rules.get("stabilizationWindowSeconds");
    if window.int_or_zero() < 0 {
        errors.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.int_or_zero() > WINDOW_S_MAX {
        errors.push(window.invalid(format!("must be less than or equal to {WINDOW_S_MAX}")));
    }
    rules.get("selectPolicy").one_of_if_set(&["Disabled", "Max", "Min"], errors);
    let policies = rules.get("policies");
    if policies.is_empty() {
        errors.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        let kind = policy.get("type");
        if !matches!(kind.text(), "Pods" | "Percent") {
            errors.push(kind.unsupported(&["Percent", "Pods"]));
        }
        let (value, period) = (policy.get("value"), policy.get("periodSeconds"));
        for place in [&value, &period] {
            if place.int_or_zero() <= 0 {
                errors.push(place.invalid_int("must be greater than zero"));
            }
        }
        if period.int_or_zero() > PERIOD_S_MAX {
            errors.push(period.invalid(format!("must be less than or equal to {PERIOD_S_MAX}")));
        }
    }
    let tolerance = rules.get("tolerance");
    if tolerance.value().and_then(Quantity::from_json).is_some_and(Quantity::is_negative) {
        errors.push(tolerance.invalid("must be greater than or equal to 0"));
    }
}

fn check_metric(metric: &At<'_>, errors: &mut Errors) {
    let kind = metric.get("type");
    if kind.text().is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    }
    if !METRIC_TYPES.contains(&kind.text()) {
        errors.push(kind.unsupported(&METRIC_TYPES));
    }
    let present: Vec<_> =
        SOURCES.into_iter().filter(|(_, source)| metric.get(source).is_set()).collect();
    if let Some((first, source)) = present.first() {
        check_source(&metric.get(source), first, errors);
    }
    match SOURCES.into_iter().find(|(known, _)| *known == kind.text()) {
        Some((_, source)) if !metric.get(source).is_set() => {
            let text = "must populate information for the given metric source";
            errors.push(metric.get(source).required(text));
        }
        Some(_) => {}
        None => errors.push(kind.unsupported(&METRIC_TYPES)),
    }
    if present.len() > 1 {
        for (_, source) in present.into_iter().filter(|(known, _)| *known != kind.text()) {
            let text = "must populate the given metric source only";
            errors.push(metric.get(source).forbidden(text));
        }
    }
}

fn check_source(source: &At<'_>, kind: &str, errors: &mut Errors) {
    let target = source.get("target");
    let is_set = |key: &str| target.get(key).is_set();
    let name = source.get("name");
    match kind {
        "Resource" | "ContainerResource" => {
            if name.text().is_empty() {
                errors.push(name.required("must specify a resource name"));
            } else if kind == "ContainerResource" {
                check_resource_name(name.text(), &name, errors);
            }
            let container = source.get("container");
            if kind == "ContainerResource" && container.text().is_empty() {
                errors.push(container.required("must specify a container"));
            } else if kind == "ContainerResource" {
                container.complain(names::dns1123_label(container.text()), errors);
            }
        }
        _ => {
            if kind == "Object" {
                check_reference(&source.get("describedObject"), errors);
            }
            check_metric_name(&source.get("metric.name"), errors);
        }
    }
    check_target(&target, errors);
    match kind {
        "Resource" | "ContainerResource" => {
            match (is_set("averageUtilization"), is_set("averageValue")) {
                (false, false) => errors.push(
                    target
                        .get("averageUtilization")
                        .required("must set either a target raw value or a target utilization"),
                ),
                (true, true) => errors.push(
                    target
                        .get("averageValue")
                        .forbidden("may not set both a target raw value and a target utilization"),
                ),
                _ => {}
            }
        }
        "Pods" if !is_set("averageValue") => {
            let text = "must specify a positive target averageValue";
            errors.push(target.get("averageValue").required(text));
        }
        "Object" | "External" if !is_set("value") && !is_set("averageValue") => {
            let text = if kind == "Object" {
                "must set either a target value or averageValue"
            } else {
                "must set either a target value for metric or a per-pod target"
            };
            errors.push(target.get("averageValue").required(text));
        }
        "External" if is_set("value") && is_set("averageValue") => {
            let text = "may not set both a target value for metric and a per-pod target";
            errors.push(target.get("value").forbidden(text));
        }
        _ => {}
    }
}

fn check_metric_name(name: &At<'_>, errors: &mut Errors) {
    if name.text().is_empty() {
        errors.push(name.required("must specify a metric name"));
    } else {
        name.complain(names::path_segment_name(name.text()), errors);
    }
}

fn check_target(target: &At<'_>, errors: &mut Errors) {
    let kind = target.get("type");
    if kind.text().is_empty() {
        errors.push(kind.required("must specify a metric target type"));
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        errors.push(kind.invalid("must be either Utilization, Value, or AverageValue"));
    }
    for key in ["value", "averageValue"] {
        let place = target.get(key);
        let amount = place.value().and_then(Quantity::from_json);
        if place.is_set() && !amount.is_some_and(Quantity::is_positive) {
            errors.push(place.invalid("must be positive"));
        }
    }
    let utilization = target.get("averageUtilization");
    if utilization.int().is_some_and(|percent| percent < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}
