//! Defaults and validation of `PodDisruptionBudgets`, RBAC objects and Leases.
//!
//! Called by the rows of [`super::table`].

use serde_json::Value;

use super::{
    at::{At, Errors, same},
    edit::{default_to, default_zero, each, object, text},
    metadata::{check_selector, show_selector},
    workload_rules::{check_at_most_all, check_int_or_percent},
};
use crate::names;

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn budget_defaults(budget: &mut Value) {
    object(budget, "spec");
    if let Some(status) = object(budget, "status") {
        for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            default_to(status, count, 0);
        }
    }
}

pub(super) fn budget(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    let (available, unavailable) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if available.is_set() && unavailable.is_set() {
        let text = "minAvailable and maxUnavailable cannot be both set";
        errors.push(spec.invalid_shown(show_budget(&spec), text));
    }
    for amount in [&available, &unavailable] {
        if amount.is_set() {
            check_int_or_percent(amount, &mut errors);
            check_at_most_all(amount, &mut errors);
        }
    }
    check_selector(&spec.get("selector"), &mut errors);
    let eviction = spec.get("unhealthyPodEvictionPolicy");
    eviction.one_of_if_set(&["AlwaysAllow", "IfHealthyBudget"], &mut errors);
    errors
}

/// The spec as the API server prints it: as its internal type, whose fields have other names.
fn show_budget(spec: &At<'_>) -> String {
    let json = |key: &str| spec.get(key).value().unwrap_or(&Value::Null).to_string();
    format!(
        "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\
         \"UnhealthyPodEvictionPolicy\":{}}}",
        json("minAvailable"),
        show_selector(spec.get("selector").value()),
        json("maxUnavailable"),
        json("unhealthyPodEvictionPolicy")
    )
}

pub(super) fn budget_update(new: &Value, _: &Value) -> Errors {
    budget(new)
}

pub(super) fn budget_status(new: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let status = At::root(new).get("status");
    for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.get(count).non_negative(&mut errors);
    }
    errors
}

pub(super) fn role_defaults(role: &mut Value) {
    default_to(role, "rules", Value::Null);
}

pub(super) fn binding_defaults(binding: &mut Value) {
    if let Some(role) = object(binding, "roleRef") {
        default_zero(role, "apiGroup", RBAC);
    }
    each(binding, "subjects", |subject| {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default_zero(subject, "apiGroup", RBAC);
        }
    });
}

pub(super) fn role(object: &Value) -> Errors {
    check_rules(object, true)
}

pub(super) fn role_update(new: &Value, _: &Value) -> Errors {
    role(new)
}

pub(super) fn cluster_role(object: &Value) -> Errors {
    let mut errors = check_rules(object, false);
    let aggregation = At::root(object).get("aggregationRule");
    let selectors = aggregation.get("clusterRoleSelectors");
    if aggregation.is_set() && selectors.is_empty() {
        errors.push(
            selectors.required(
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ),
        );
    }
    for selector in selectors.items() {
        check_selector(&selector, &mut errors);
    }
    errors
}

pub(super) fn cluster_role_update(new: &Value, _: &Value) -> Errors {
    cluster_role(new)
}

fn check_rules(object: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    for rule in At::root(object).get("rules").items() {
        let verbs = rule.get("verbs");
        if verbs.is_empty() {
            errors.push(verbs.required("verbs must contain at least one value"));
        }
        let (groups, resources) = (rule.get("apiGroups"), rule.get("resources"));
        let urls = rule.get("nonResourceURLs");
        if !urls.is_empty() {
            if namespaced {
                let text = "namespaced rules cannot apply to non-resource URLs";
                errors.push(urls.invalid(text));
            }
            let named = [&groups, &resources, &rule.get("resourceNames")];
            if named.into_iter().any(|list| !list.is_empty()) {
                let text = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(urls.invalid(text));
            }
            continue;
        }
        if groups.is_empty() {
            errors.push(groups.required("resource rules must supply at least one api group"));
        }
        if resources.is_empty() {
            errors.push(resources.required("resource rules must supply at least one resource"));
        }
    }
    errors
}

pub(super) fn role_binding(object: &Value) -> Errors {
    check_binding(object, &["Role", "ClusterRole"], true)
}

pub(super) fn cluster_role_binding(object: &Value) -> Errors {
    check_binding(object, &["ClusterRole"], false)
}

pub(super) fn role_binding_update(new: &Value, old: &Value) -> Errors {
    let mut errors = role_binding(new);
    check_role_kept(new, old, &mut errors);
    errors
}

pub(super) fn cluster_role_binding_update(new: &Value, old: &Value) -> Errors {
    let mut errors = cluster_role_binding(new);
    check_role_kept(new, old, &mut errors);
    errors
}

fn check_role_kept(new: &Value, old: &Value, errors: &mut Errors) {
    let role = At::root(new).get("roleRef");
    if !same(role.value(), At::root(old).get("roleRef").value()) {
        let json = |key: &str| Value::from(role.get(key).text());
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            json("apiGroup"),
            json("kind"),
            json("name")
        );
        errors.push(role.invalid_shown(shown, "cannot change roleRef"));
    }
}

fn check_binding(object: &Value, kinds: &[&str], namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    let at = At::root(object);
    let group = at.get("roleRef.apiGroup");
    if group.text() != RBAC {
        errors.push(group.unsupported(&[RBAC]));
    }
    let kind = at.get("roleRef.kind");
    if !kinds.contains(&kind.text()) {
        errors.push(kind.unsupported(kinds));
    }
    let name = at.get("roleRef.name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        name.complain(names::path_segment_name(name.text()), &mut errors);
    }
    for subject in at.get("subjects").items() {
        check_subject(&subject, namespaced, &mut errors);
    }
    errors
}

fn check_subject(subject: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let (name, group) = (subject.get("name"), subject.get("apiGroup"));
    if name.text().is_empty() {
        errors.push(name.required(""));
    }
    let kind = subject.get("kind");
    match kind.text() {
        "ServiceAccount" => {
            if !name.text().is_empty() {
                name.complain(names::dns1123_subdomain(name.text()), errors);
            }
            if !group.text().is_empty() {
                errors.push(group.unsupported(&[""]));
            }
            let namespace = subject.get("namespace");
            if !namespaced && namespace.text().is_empty() {
                errors.push(namespace.required(""));
            }
        }
        "User" | "Group" => {
            if group.text() != RBAC {
                errors.push(group.unsupported(&[RBAC]));
            }
        }
        _ => errors.push(kind.unsupported(&["ServiceAccount", "User", "Group"])),
    }
}

pub(super) fn lease_defaults(lease: &mut Value) {
    object(lease, "spec");
}

pub(super) fn lease(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = At::root(object).get("spec");
    let duration = spec.get("leaseDurationSeconds");
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        errors.push(duration.invalid("must be greater than 0"));
    }
    spec.get("leaseTransitions").non_negative(&mut errors);
    errors
}

pub(super) fn lease_update(new: &Value, _: &Value) -> Errors {
    lease(new)
}
