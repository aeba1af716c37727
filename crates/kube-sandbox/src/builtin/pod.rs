//! Pods: defaults on creation, allowed updates, and status writes.
//!
//! Creation also does the work of built-in admission plugins (service account name, priority,
//! default tolerations), except for the projected token volume, which nothing in a sandbox reads.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    at::{At, Errors, same},
    edit::{carry, default_to, default_zero, object, remove, set, text},
    pod_defaults, pod_rules,
};
use crate::{names, quantity::Quantity};

const UPDATABLE: &str = "pod updates may not change fields other than \
                         `spec.containers[*].image`,`spec.initContainers[*].image`,\
                         `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                         existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
                         set to 1 if it was previously negative)";

const DEADLINE_S_MAX: i64 = i32::MAX as i64;

pub(super) fn defaults(pod: &mut Value) {
    pod_defaults::pod(pod);
    object(pod, "status");
}

pub(super) fn prepare_create(pod: &mut Value) {
    admit(pod);
    let qos = qos_class(pod);
    let gated = pod.pointer("/spec/schedulingGates").is_some_and(|gates| gates != &json!([]));
    let mut status = json!({"phase": "Pending", "qosClass": qos});
    if gated {
        set(
            &mut status,
            "conditions",
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates"}]),
        );
    }
    set(pod, "status", status);
}

/// Sets the fields that the API server, not the user, decides on creation.
fn admit(pod: &mut Value) {
    let Some(spec) = object(pod, "spec") else { return };
    default_zero(spec, "serviceAccountName", "default");
    pod_defaults::same_service_account(spec);
    admit_again(spec);
}

/// Sets the fields that are decided again on every update.
fn admit_again(spec: &mut Value) {
    let priority = priority(text(spec, "priorityClassName"));
    default_to(spec, "priority", priority);
    default_to(spec, "preemptionPolicy", "PreemptLowerPriority");
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        tolerate(spec, key);
    }
}

/// A client that writes a pod back may leave out the fields filled in on creation.
pub(super) fn prepare_update(new: &mut Value, _: &Value) {
    if let Some(spec) = object(new, "spec") {
        admit_again(spec);
    }
}

/// The priority of a class: the two that every cluster has, and none.
pub(crate) fn priority(class: &str) -> i64 {
    match class {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => 0,
    }
}

/// Adds a toleration of 300 s for `key`, unless one of the pod's own covers it.
fn tolerate(spec: &mut Value, key: &str) {
    let covered = At::root(spec).get("tolerations").items().any(|toleration| {
        let (own_key, effect) = (toleration.get("key"), toleration.get("effect"));
        (own_key.text() == key || own_key.text().is_empty())
            && matches!(effect.text(), "NoExecute" | "")
    });
    if covered {
        return;
    }
    default_to(spec, "tolerations", json!([]));
    if let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
        tolerations.push(json!({
            "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
        }));
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`, from what the containers ask for.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let spec = At::root(pod).get("spec");
    let pod_level = spec.get("resources");
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut guaranteed = true;
    let parts: Vec<_> = if pod_level.is_set() {
        vec![pod_level]
    } else {
        let containers = spec.get("containers").items().chain(spec.get("initContainers").items());
        containers.map(|container| container.get("resources")).collect()
    };
    for resources in parts {
        add_compute(&resources.get("requests"), &mut requests);
        guaranteed &= add_compute(&resources.get("limits"), &mut limits) == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds the CPU and memory of `amounts` to `sums`; returns how many of the two there were.
fn add_compute(amounts: &At<'_>, sums: &mut BTreeMap<&'static str, Quantity>) -> usize {
    let mut found = 0;
    for name in ["cpu", "memory"] {
        let amount = amounts.get(name).value().and_then(Quantity::from_json);
        if let Some(amount) = amount.filter(|amount| amount.is_positive()) {
            let sum = sums.entry(name).or_insert(Quantity::ZERO);
            *sum = sum.plus(amount);
            found += 1;
        }
    }
    found
}

/// Status belongs to the kubelet: spec, owners and deletion are not changed through it.
pub(super) fn prepare_status_update(pod: &mut Value, old: &Value) {
    carry(pod, old, "spec");
    if let (Some(meta), Some(old_meta)) = (object(pod, "metadata"), old.get("metadata")) {
        carry(meta, old_meta, "ownerReferences");
        carry(meta, old_meta, "deletionTimestamp");
    }
    let Some(status) = object(pod, "status") else { return };
    if let Some(old_status) = old.get("status") {
        if text(status, "qosClass").is_empty() {
            carry(status, old_status, "qosClass");
        }
        if status.get("observedGeneration").is_none_or(Value::is_null) {
            carry(status, old_status, "observedGeneration");
        }
    }
    same_pod_ip(status);
}

/// Keeps `podIP` equal to the first of `podIPs`; a writer may know only one of the two.
fn same_pod_ip(status: &mut Value) {
    let first = status.pointer("/podIPs/0/ip").and_then(Value::as_str).map(str::to_owned);
    let single = text(status, "podIP").to_owned();
    match first {
        Some(first) => set(status, "podIP", first),
        None if !single.is_empty() => set(status, "podIPs", json!([{"ip": single}])),
        None => {}
    }
}

pub(super) fn validate(pod: &Value) -> Errors {
    let at = At::root(pod);
    let mut errors = check_spec(&at);
    let spec = at.get("spec");
    let ephemeral = spec.get("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.push(ephemeral.forbidden("cannot be set on create"));
    }
    if !spec.get("schedulingGates").is_empty() && !spec.get("nodeName").text().is_empty() {
        let text = "cannot be set until all schedulingGates have been cleared";
        errors.push(spec.get("nodeName").forbidden(text));
    }
    errors
}

fn check_spec(at: &At<'_>) -> Errors {
    let mut errors = Errors::new();
    let spec = at.get("spec");
    pod_rules::check_pod_spec(&spec, pod_rules::Of::Pod, &mut errors);
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).items() {
            check_image_blanks(&container.get("image"), &mut errors);
        }
    }
    errors
}

fn check_image_blanks(image: &At<'_>, errors: &mut Errors) {
    if image.text().trim().len() != image.text().len() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

pub(super) fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check_spec(&At::root(new));
    let (spec, was) = (At::root(new).get("spec"), At::root(old).get("spec"));
    for list in ["containers", "initContainers"] {
        let containers = spec.get(list);
        if containers.len() != was.get(list).len() {
            errors.push(containers.forbidden("pod updates may not add or remove containers"));
            return errors;
        }
    }
    if !check_deadline(&spec.get("activeDeadlineSeconds"), &was, &mut errors) {
        return errors;
    }
    check_tolerations_added(&spec.get("tolerations"), &was.get("tolerations"), &mut errors);
    check_gates_removed(&spec.get("schedulingGates"), &was.get("schedulingGates"), &mut errors);
    let masked = spec.value().zip(was.value()).map(|(spec, was)| mask_updatable(spec, was));
    if let Some(masked) = masked
        && !same(Some(&masked), was.value())
    {
        let changed = differences(&masked, was.value().unwrap_or(&Value::Null));
        errors.push(spec.forbidden(format!("{UPDATABLE}\n{changed}")));
    }
    errors
}

/// The deadline may be set once and then only lowered. Returns false when further checks are
/// pointless.
fn check_deadline(deadline: &At<'_>, was: &At<'_>, errors: &mut Errors) -> bool {
    let old = was.get("activeDeadlineSeconds").int();
    match (deadline.int(), old) {
        (Some(seconds), _) if !(0..=DEADLINE_S_MAX).contains(&seconds) => {
            deadline.complain(names::in_range(seconds, 0, DEADLINE_S_MAX), errors);
            false
        }
        (Some(seconds), Some(old)) if old < seconds => {
            errors.push(deadline.invalid("must be less than or equal to previous value"));
            false
        }
        (None, Some(_)) => {
            let text = "must not update from a positive integer to nil value";
            errors.push(deadline.invalid_as(&Value::Null, text));
            true
        }
        _ => true,
    }
}

fn check_tolerations_added(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let timeless = |toleration: &At<'_>| {
        let mut toleration = toleration.value().cloned().unwrap_or_default();
        remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let kept: Vec<_> = new.items().map(|toleration| timeless(&toleration)).collect();
    if old.items().any(|toleration| !kept.contains(&timeless(&toleration))) {
        let text = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(new.forbidden(text));
    }
}

fn check_gates_removed(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let known: Vec<_> = old.items().map(|gate| gate.get("name").text()).collect();
    for gate in new.items() {
        let name = gate.get("name");
        if !known.contains(&name.text()) {
            errors.push(name.forbidden(format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            )));
        }
    }
}

/// `spec` with the mutable fields set back to their old values.
fn mask_updatable(spec: &Value, was: &Value) -> Value {
    let mut masked = spec.clone();
    for list in ["containers", "initContainers"] {
        let old = was.get(list).and_then(Value::as_array).into_iter().flatten();
        let new = masked.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in new.zip(old) {
            carry(container, old, "image");
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        carry(&mut masked, was, key);
    }
    let grace = |spec: &Value| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace(was).is_some_and(|seconds| seconds < 0) && grace(&masked) == Some(1) {
        carry(&mut masked, was, "terminationGracePeriodSeconds");
    }
    masked
}

/// A line-by-line diff of the members that differ.
fn differences(new: &Value, old: &Value) -> String {
    let members = [new, old].into_iter().filter_map(Value::as_object).flatten();
    let keys: BTreeSet<_> = members.map(|(key, _)| key).collect();
    let mut lines = Vec::new();
    for key in keys {
        let (now, was) = (new.get(key), old.get(key));
        if same(now, was) {
            continue;
        }
        lines.extend(was.map(|was| format!("- \t{key}: {was},")));
        lines.extend(now.map(|now| format!("+ \t{key}: {now},")));
    }
    lines.join("\n")
}

pub(super) fn validate_status(new: &Value, old: &Value) -> Errors {
    let (at, was) = (At::root(new).get("status"), At::root(old).get("status"));
    let mut errors = Errors::new();
    for condition in at.get("conditions").items() {
        let kind = condition.get("type");
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            let place = kind.called(format!("{}.Type", condition.path()));
            place.complain(names::qualified_name(kind.text()), &mut errors);
        }
    }
    at.get("qosClass").unchanged(&was.get("qosClass"), &mut errors);
    for address in at.get("podIPs").items() {
        super::address::check_ip(&address.get("ip"), &mut errors);
    }
    errors
}
