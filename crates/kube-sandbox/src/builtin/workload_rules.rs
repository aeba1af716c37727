//! Validation of workloads and of changes to them.
//!
//! Called by the rows of [`super::table`], before an object is stored. Values were defaulted and
//! have the right types.

use serde_json::Value;

use super::{
    at::{At, Errors, IMMUTABLE, same},
    metadata::{check_selector, selects, show_selector},
    pod_rules::check_template,
};
use crate::{failure::FieldError, names, selector::LabelSelector};

const MISMATCH: &str = "`selector` does not match template `labels`";

pub(super) fn deployment(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    spec.get("replicas").non_negative(&mut errors);
    check_selected_template(&spec, "deployment", "ReplicaSet", &mut errors);
    check_deployment_strategy(&spec.get("strategy"), &mut errors);
    spec.get("minReadySeconds").non_negative(&mut errors);
    spec.get("revisionHistoryLimit").non_negative(&mut errors);
    let deadline = spec.get("progressDeadlineSeconds");
    if let Some(seconds) = deadline.int() {
        deadline.non_negative(&mut errors);
        if seconds <= spec.get("minReadySeconds").int_or_zero() {
            errors.push(deadline.invalid("must be greater than minReadySeconds"));
        }
    }
    errors
}

pub(super) fn replica_set(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    spec.get("replicas").non_negative(&mut errors);
    spec.get("minReadySeconds").non_negative(&mut errors);
    check_selected_template(&spec, "deployment", "ReplicaSet", &mut errors);
    errors
}

pub(super) fn deployment_update(new: &Value, old: &Value) -> Errors {
    let mut errors = deployment(new);
    check_selector_kept(new, old, &mut errors);
    errors
}

pub(super) fn replica_set_update(new: &Value, old: &Value) -> Errors {
    let mut errors = replica_set(new);
    check_selector_kept(new, old, &mut errors);
    errors
}

pub(super) fn daemon_set(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    check_selector(&selector, &mut errors);
    let readable = LabelSelector::from_json(selector.value()).is_ok();
    if readable && !selects(&selector, &template.get("metadata")) {
        errors.push(mismatch(&template));
    }
    if selector.is_set() && is_empty_selector(&selector) {
        errors.push(empty_selector(&selector, "daemonset"));
    }
    check_template(&template, &mut errors);
    check_always_running(&template, "DaemonSet", &mut errors);
    spec.get("minReadySeconds").non_negative(&mut errors);
    check_daemon_set_strategy(&spec.get("updateStrategy"), &mut errors);
    spec.get("revisionHistoryLimit").non_negative(&mut errors);
    errors
}

pub(super) fn daemon_set_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    check_selector_kept(new, old, &mut errors);
    errors.extend(daemon_set(new));
    errors
}

pub(super) fn stateful_set(object: &Value) -> Errors {
    let mut errors = stateful_set_spec(object);
    let name = At::root(object).get("spec.serviceName");
    if !name.text().is_empty() {
        name.complain(names::dns1123_label(name.text()), &mut errors);
    }
    errors
}

pub(super) fn stateful_set_update(new: &Value, old: &Value) -> Errors {
    let mut errors = stateful_set_spec(new);
    let updatable = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(members) = spec.as_object_mut() {
            members.retain(|key, _| !updatable.contains(&key.as_str()));
        }
        spec
    };
    if fixed(new) != fixed(old) {
        errors.push(FieldError::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        ));
    }
    errors
}

fn stateful_set_spec(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    let policy = spec.get("podManagementPolicy");
    match policy.text() {
        "OrderedReady" | "Parallel" => {}
        "" => errors.push(policy.required("")),
        _ => errors.push(policy.invalid("must be 'OrderedReady' or 'Parallel'")),
    }
    check_stateful_set_strategy(&spec.get("updateStrategy"), &mut errors);
    for when in ["whenDeleted", "whenScaled"] {
        let policy = spec.get("persistentVolumeClaimRetentionPolicy").get(when);
        policy.one_of_if_set(&["Retain", "Delete"], &mut errors);
    }
    spec.get("replicas").non_negative(&mut errors);
    spec.get("minReadySeconds").non_negative(&mut errors);
    spec.get("ordinals.start").non_negative(&mut errors);
    // Pods of a StatefulSet also get volumes from the claim templates.
    let with_claims = with_claim_volumes(object);
    let spec = At::root(&with_claims).get("spec");
    check_selected_template(&spec, "statefulset", "StatefulSet", &mut errors);
    errors
}

fn with_claim_volumes(object: &Value) -> Value {
    let mut object = object.clone();
    let claims = At::root(&object).get("spec.volumeClaimTemplates");
    let named: Vec<String> =
        claims.items().map(|claim| claim.get("metadata.name").text().to_owned()).collect();
    let Some(spec) = object.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut)
    else {
        return object;
    };
    // The controller overwrites both in every pod.
    spec.remove("subdomain");
    spec.remove("hostname");
    if !named.is_empty() {
        let mut volumes = match spec.remove("volumes") {
            Some(Value::Array(volumes)) => volumes,
            _ => Vec::new(),
        };
        volumes.retain(|volume| {
            let name = volume.get("name").and_then(Value::as_str).unwrap_or_default();
            !named.iter().any(|claim| claim == name)
        });
        volumes.extend(named.into_iter().map(
            |name| serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}}),
        ));
        spec.insert("volumes".to_owned(), volumes.into());
    }
    object
}

/// Checks selector and template, and that the selector matches the template's labels.
fn check_selected_template(spec: &At<'_>, said: &str, kind: &str, errors: &mut Errors) {
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    if selector.is_set() {
        check_selector(&selector, errors);
        if is_empty_selector(&selector) {
            errors.push(empty_selector(&selector, said));
        }
    } else {
        errors.push(selector.required(""));
    }
    match LabelSelector::from_json(selector.value()) {
        Err(_) => {
            let shown = show_selector(selector.value());
            errors.push(selector.invalid_shown(shown, "invalid label selector"));
            return;
        }
        Ok(found) => {
            let labels = template.get("metadata.labels");
            if !found.is_everything() && !found.matches_json(labels.value()) {
                errors.push(mismatch(&template));
            }
        }
    }
    check_template(&template, errors);
    check_always_running(&template, kind, errors);
}

fn mismatch(template: &At<'_>) -> FieldError {
    let labels = template.get("metadata.labels");
    labels.invalid_as(labels.value().unwrap_or(&Value::Null), MISMATCH)
}

fn is_empty_selector(selector: &At<'_>) -> bool {
    selector.get("matchLabels").is_empty() && selector.get("matchExpressions").is_empty()
}

fn empty_selector(selector: &At<'_>, said: &str) -> FieldError {
    selector.invalid_shown("{}".to_owned(), format!("empty selector is invalid for {said}"))
}

fn check_always_running(template: &At<'_>, kind: &str, errors: &mut Errors) {
    let restart = template.get("spec.restartPolicy");
    if restart.text() != "Always" {
        errors.push(restart.unsupported(&["Always"]));
    }
    let deadline = template.get("spec.activeDeadlineSeconds");
    if deadline.is_set() {
        let text = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(deadline.forbidden(text));
    }
}

fn check_selector_kept(new: &Value, old: &Value, errors: &mut Errors) {
    let selector = At::root(new).get("spec.selector");
    if !same(selector.value(), At::root(old).get("spec.selector").value()) {
        let shown = show_selector(selector.value());
        errors.push(selector.invalid_shown(shown, IMMUTABLE));
    }
}

fn check_deployment_strategy(strategy: &At<'_>, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "Recreate" if rolling.is_set() => {
            let text = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(rolling.forbidden(text));
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            errors.push(rolling.required("this should be defaulted and never be nil"));
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            check_int_or_percent(&unavailable, errors);
            check_int_or_percent(&surge, errors);
            if amount(&unavailable) == 0 && amount(&surge) == 0 {
                errors.push(unavailable.invalid_int("may not be 0 when `maxSurge` is 0"));
            }
            check_at_most_all(&unavailable, errors);
        }
        other => errors.push(unknown_strategy(strategy, other, &["Recreate", "RollingUpdate"])),
    }
}

fn check_daemon_set_strategy(strategy: &At<'_>, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errors.push(rolling.required("")),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            for place in [&unavailable, &surge] {
                check_int_or_percent(place, errors);
            }
            for place in [&unavailable, &surge] {
                check_at_most_all(place, errors);
            }
            match (amount(&unavailable) != 0, amount(&surge) != 0) {
                (true, true) => {
                    errors
                        .push(surge.invalid_int("may not be set when maxUnavailable is non-zero"));
                }
                (false, false) => {
                    errors.push(unavailable.required("cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        other => errors.push(unknown_strategy(strategy, other, &["RollingUpdate", "OnDelete"])),
    }
}

fn check_stateful_set_strategy(strategy: &At<'_>, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "" => errors.push(strategy.required("")),
        "OnDelete" if rolling.is_set() => {
            errors.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.get("partition").non_negative(errors);
            let unavailable = rolling.get("maxUnavailable");
            if unavailable.is_set() {
                check_int_or_percent(&unavailable, errors);
                if amount(&unavailable) == 0 {
                    errors.push(unavailable.invalid("cannot be 0"));
                }
                check_at_most_all(&unavailable, errors);
            }
        }
        other => {
            let shown = show_strategy(other);
            errors.push(strategy.invalid_shown(shown, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

/// A strategy as the API server prints it: as its internal type, whose fields have other names.
fn show_strategy(kind: &str) -> String {
    format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(kind))
}

fn unknown_strategy(strategy: &At<'_>, kind: &str, supported: &[&str]) -> FieldError {
    let mut error = strategy.unsupported(supported);
    error.shown = show_strategy(kind);
    error
}

/// A count that is not negative, or a percentage.
pub(crate) fn check_int_or_percent(place: &At<'_>, errors: &mut Errors) {
    match place.value() {
        Some(Value::String(text)) => place.complain(names::percent(text), errors),
        _ => place.non_negative(errors),
    }
}

pub(crate) fn check_at_most_all(place: &At<'_>, errors: &mut Errors) {
    let percent = place.text().strip_suffix('%').and_then(|digits| digits.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.push(place.invalid("must not be greater than 100%"));
    }
}

/// The number before the percent sign, or the number.
fn amount(place: &At<'_>) -> i64 {
    match place.value() {
        Some(Value::String(text)) => text.trim_end_matches('%').parse().unwrap_or_default(),
        _ => place.int_or_zero(),
    }
}

pub(super) fn deployment_status(new: &Value, old: &Value) -> Errors {
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    let bounded = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    let mut errors = check_counts(new, &counts, &bounded, "readyReplicas");
    check_collisions(new, old, &mut errors);
    errors
}

pub(super) fn replica_set_status(new: &Value, _: &Value) -> Errors {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    let bounded = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    check_counts(new, &counts, &bounded, "readyReplicas")
}

pub(super) fn stateful_set_status(new: &Value, old: &Value) -> Errors {
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    let bounded = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    let mut errors = check_counts(new, &counts, &bounded, "status.readyReplicas");
    check_collisions(new, old, &mut errors);
    errors
}

pub(super) fn daemon_set_status(new: &Value, old: &Value) -> Errors {
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    let mut errors = Errors::new();
    for count in counts {
        At::root(new).get("status").get(count).non_negative(&mut errors);
    }
    check_collisions(new, old, &mut errors);
    errors
}

/// Counts are not negative, `bounded` ones not above `replicas`, available ones not above ready.
fn check_counts(object: &Value, counts: &[&str], bounded: &[&str], ready: &str) -> Errors {
    let mut errors = Errors::new();
    let status = At::root(object).get("status");
    for count in counts {
        status.get(count).non_negative(&mut errors);
    }
    let replicas = status.get("replicas").int_or_zero();
    for count in bounded {
        let place = status.get(count);
        if place.int_or_zero() > replicas {
            errors.push(place.invalid("cannot be greater than status.replicas"));
        }
    }
    let available = status.get("availableReplicas");
    if available.int_or_zero() > status.get("readyReplicas").int_or_zero() {
        errors.push(available.invalid(format!("cannot be greater than {ready}")));
    }
    errors
}

fn check_collisions(new: &Value, old: &Value, errors: &mut Errors) {
    let count = |object| At::root(object).get("status.collisionCount");
    if count(new).int_or_zero() < count(old).int_or_zero() {
        errors.push(count(new).invalid_int("cannot be decremented"));
    }
}

pub(super) fn controller_revision(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = At::root(object);
    at.get("revision").non_negative(&mut errors);
    let data = at.get("data");
    match data.value() {
        None => errors.push(data.required("data is mandatory")),
        Some(Value::Object(_)) => {}
        Some(_) => errors.push(data.required("data must be a valid JSON object")),
    }
    errors
}

pub(super) fn controller_revision_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (at, was) = (At::root(new), At::root(old));
    at.get("revision").non_negative(&mut errors);
    at.get("data").unchanged(&was.get("data"), &mut errors);
    errors
}
