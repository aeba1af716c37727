//! Defaults, updates and validation of Namespaces and Nodes.
//!
//! Called by the rows of [`super::table`].

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    address::check_cidr,
    at::{At, Errors, same},
    container_rules::check_amount,
    edit::{carry, default_to, default_zero, object, object_at, set, text},
};
use crate::names;

/// Label with the namespace's own name, so that every namespace can be selected by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// While this is in `spec.finalizers`, the contents of the namespace are still being deleted.
const FINALIZER: &str = "kubernetes";

pub(super) fn namespace_defaults(namespace: &mut Value) {
    name_label(namespace);
    object(namespace, "spec");
    if let Some(status) = object(namespace, "status") {
        default_zero(status, "phase", "Active");
    }
}

fn name_label(namespace: &mut Value) {
    let Some(meta) = object(namespace, "metadata") else { return };
    let name = text(meta, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = object(meta, "labels")
    {
        set(labels, NAME_LABEL, name);
    }
}

pub(super) fn namespace_create(namespace: &mut Value) {
    name_label(namespace);
    set(namespace, "status", json!({"phase": "Active"}));
    let Some(spec) = object(namespace, "spec") else { return };
    default_to(spec, "finalizers", json!([]));
    if let Some(finalizers) = spec.get_mut("finalizers").and_then(Value::as_array_mut)
        && !finalizers.contains(&json!(FINALIZER))
    {
        finalizers.push(json!(FINALIZER));
    }
}

/// Finalizers are removed through the `finalize` subresource only.
pub(super) fn namespace_update(new: &mut Value, old: &Value) {
    name_label(new);
    if let (Some(spec), Some(old_spec)) = (object(new, "spec"), old.get("spec")) {
        carry(spec, old_spec, "finalizers");
    }
}

pub(super) fn namespace(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let finalizers = At::root(object).get("spec.finalizers");
    for finalizer in finalizers.items() {
        let place = finalizer.called(finalizers.path());
        place.complain(names::qualified_name(place.text()), &mut errors);
        if !place.text().contains('/') && !matches!(place.text(), "kubernetes" | "orphan") {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(place.invalid(text));
        }
    }
    errors
}

pub(super) fn namespace_update_rules(new: &Value, _: &Value) -> Errors {
    namespace(new)
}

pub(super) fn namespace_status(new: &Value, _: &Value) -> Errors {
    let at = At::root(new);
    let phase = at.get("status.phase").called("status.Phase");
    let (wanted, when) = if at.get("metadata.deletionTimestamp").is_set() {
        ("Terminating", "not empty")
    } else {
        ("Active", "empty")
    };
    if phase.text() == wanted {
        return Errors::new();
    }
    vec![phase.invalid(format!("may only be '{wanted}' if `deletionTimestamp` is {when}"))]
}

pub(super) fn node_defaults(node: &mut Value) {
    if let Some(spec) = object(node, "spec") {
        same_cidr(spec);
    }
    let Some(status) = object(node, "status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        default_to(status, "allocatable", capacity);
    }
    if let Some(endpoint) = object_at(status, &["daemonEndpoints", "kubeletEndpoint"]) {
        default_to(endpoint, "Port", 0);
    }
    if let Some(info) = object(status, "nodeInfo") {
        for key in [
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ] {
            default_to(info, key, "");
        }
    }
}

/// Keeps `podCIDR` equal to the first of `podCIDRs`; a writer may know only one of the two.
fn same_cidr(spec: &mut Value) {
    let first = spec.pointer("/podCIDRs/0").and_then(Value::as_str).map(str::to_owned);
    let single = text(spec, "podCIDR").to_owned();
    match first {
        Some(first) => set(spec, "podCIDR", first),
        None if !single.is_empty() => set(spec, "podCIDRs", json!([single])),
        None => {}
    }
}

pub(super) fn node(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = At::root(object);
    // Kubernetes says `metadata.taints`, though taints are in the spec.
    check_taints(&at.get("spec.taints").called("metadata.taints"), &mut errors);
    for list in ["capacity", "allocatable"] {
        for (name, amount) in at.get("status").get(list).entries() {
            let place = amount.called(format!("status.{list}.{name}"));
            check_amount(name, &place, &mut errors);
        }
    }
    for cidr in at.get("spec.podCIDRs").items() {
        check_cidr(&cidr, &mut errors);
    }
    errors
}

fn check_taints(taints: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.get("key"), taint.get("value"), taint.get("effect"));
        key.complain(names::qualified_name(key.text()), errors);
        let wrong = names::label_value(value.text());
        if !wrong.is_empty() {
            errors.push(value.invalid(wrong.join(";")));
        }
        effect.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        if !seen.insert((key.text(), effect.text())) {
            let mut error = taint.duplicate();
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            errors.push(error);
        }
    }
}

pub(super) fn node_update(new: &Value, old: &Value) -> Errors {
    let mut errors = node(new);
    let (spec, was) = (At::root(new).get("spec"), At::root(old).get("spec"));
    let cidrs = was.get("podCIDRs");
    if !cidrs.is_empty() && !same(cidrs.value(), spec.get("podCIDRs").value()) {
        let text = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(spec.get("podCIDRs").forbidden(text));
    }
    let provider = was.get("providerID").text();
    if !provider.is_empty() && provider != spec.get("providerID").text() {
        let text = "node updates may not change providerID except from \"\" to valid";
        errors.push(spec.get("providerID").forbidden(text));
    }
    errors
}
