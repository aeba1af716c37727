//! Validation of pod specs, in Pods and in templates.
//!
//! Called for Pods, for the templates of workloads, and for those of jobs.

use serde_json::Value;

use super::{
    address::check_ip,
    at::{At, Errors},
    container_rules::{self, Scope},
    metadata::{check_annotations, check_labels, check_selector},
    volume_rules::check_volumes,
};
use crate::{failure::FieldError, names};

/// The owner of the pod spec under validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Pod,
    Template,
}

/// Checks the template of a workload: labels, annotations and spec.
pub(crate) fn check_template(template: &At<'_>, errors: &mut Errors) {
    let (meta, place) = (template.get("metadata"), template.path());
    // Kubernetes leaves `metadata` out of these two paths.
    check_labels(&meta.get("labels").called(format!("{place}.labels")), errors);
    let annotations = meta.get("annotations").called(format!("{place}.annotations"));
    check_annotations(&annotations, errors);
    check_pod_annotations(&annotations, errors);
    let spec = template.get("spec");
    check_pod_spec(&spec, Of::Template, errors);
    let ephemeral = spec.get("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// Annotations that a controller reads from pods.
pub(crate) fn check_pod_annotations(annotations: &At<'_>, errors: &mut Errors) {
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    let Some((_, value)) = annotations.entries().find(|(key, _)| *key == cost) else { return };
    // Go parses `+1` and `01` as numbers, but Kubernetes accepts the canonical spelling only.
    let canonical = value.text().parse::<i32>().is_ok_and(|n| n.to_string() == value.text());
    if !canonical {
        errors.push(value.invalid("must be a 32bit integer"));
    }
}

pub(crate) fn check_pod_spec(spec: &At<'_>, of: Of, errors: &mut Errors) {
    let grace = spec.get("terminationGracePeriodSeconds");
    if !grace.is_set() {
        errors.push(grace.required(""));
    }
    let volumes = check_volumes(&spec.get("volumes"), errors);
    let scope = Scope { volumes: &volumes, grace_s: grace.int() };
    container_rules::check_containers(&spec.get("containers"), &scope, errors);
    container_rules::check_init_containers(spec, &scope, errors);
    check_host_network(spec, of, errors);
    let restart = spec.get("restartPolicy");
    restart.one_of(&["Always", "OnFailure", "Never"], errors);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    spec.get("dnsPolicy").one_of(&dns, errors);
    check_labels(&spec.get("nodeSelector"), errors);
    check_security_context(&spec.get("securityContext"), errors);
    check_affinity(&spec.get("affinity"), errors);
    check_dns_config(spec, errors);
    for gate in spec.get("readinessGates").items() {
        let kind = gate.get("conditionType");
        kind.complain(names::qualified_name(kind.text()), errors);
    }
    check_scheduling_gates(&spec.get("schedulingGates"), errors);
    check_spread(&spec.get("topologySpreadConstraints"), errors);
    check_names(spec, errors);
    let deadline = spec.get("activeDeadlineSeconds");
    if let Some(seconds) = deadline.int() {
        deadline.complain(names::in_range(seconds, 1, i64::from(i32::MAX)), errors);
    }
    check_tolerations(&spec.get("tolerations"), errors);
    for alias in spec.get("hostAliases").items() {
        check_ip(&alias.get("ip"), errors);
        for name in alias.get("hostnames").items() {
            name.complain(names::dns1123_subdomain(name.text()), errors);
        }
    }
    let preemption = spec.get("preemptionPolicy");
    preemption.one_of_if_set(&["PreemptLowerPriority", "Never"], errors);
}

/// Checks the fields of a pod spec that are names of objects.
fn check_names(spec: &At<'_>, errors: &mut Errors) {
    type Rule = fn(&str) -> Vec<String>;
    let rules: [(&str, Rule); 6] = [
        ("serviceAccountName", names::dns1123_subdomain),
        ("nodeName", names::dns1123_subdomain),
        ("hostname", names::dns1123_label),
        ("subdomain", names::dns1123_label),
        ("priorityClassName", names::dns1123_subdomain),
        ("runtimeClassName", names::dns1123_subdomain),
    ];
    for (key, rule) in rules {
        let place = spec.get(key);
        if !place.text().is_empty() {
            place.complain(rule(place.text()), errors);
        }
    }
}

/// With `hostNetwork`, a container's port is the host's port. A template may leave `hostPort` out.
fn check_host_network(spec: &At<'_>, of: Of, errors: &mut Errors) {
    if !spec.get("hostNetwork").flag() {
        return;
    }
    for container in spec.get("containers").items() {
        for port in container.get("ports").items() {
            let host = port.get("hostPort");
            let unset_is_fine = of == Of::Template && host.int_or_zero() == 0;
            if !unset_is_fine && host.int_or_zero() != port.get("containerPort").int_or_zero() {
                let text = "must match `containerPort` when `hostNetwork` is true";
                errors.push(host.invalid_int(text));
            }
        }
    }
}

fn check_security_context(context: &At<'_>, errors: &mut Errors) {
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        let id = context.get(key);
        if let Some(value) = id.int() {
            id.complain(names::in_range(value, 0, i64::from(i32::MAX)), errors);
        }
    }
    for id in context.get("supplementalGroups").items() {
        id.complain(names::in_range(id.int_or_zero(), 0, i64::from(i32::MAX)), errors);
    }
    let change = context.get("fsGroupChangePolicy");
    change.one_of_if_set(&["Always", "OnRootMismatch"], errors);
}

fn check_dns_config(spec: &At<'_>, errors: &mut Errors) {
    let config = spec.get("dnsConfig");
    let servers = config.get("nameservers");
    if spec.get("dnsPolicy").text() == "None" && servers.is_empty() {
        let place = if config.is_set() { servers } else { config };
        let text = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(place.required(text));
        return;
    }
    if servers.len() > 3 {
        errors.push(servers.invalid("must not have more than 3 nameservers"));
    }
    for server in servers.items() {
        check_ip(&server, errors);
    }
}

fn check_scheduling_gates(gates: &At<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for gate in gates.items() {
        let name = gate.get("name").called(gate.path());
        name.complain(names::qualified_name(name.text()), errors);
        if seen.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        seen.push(name.text());
    }
}

fn check_spread(constraints: &At<'_>, errors: &mut Errors) {
    let pair = |constraint: &At<'_>| {
        let text = |key: &str| constraint.get(key).text().to_owned();
        (text("topologyKey"), text("whenUnsatisfiable"))
    };
    for (index, constraint) in constraints.items().enumerate() {
        let place = constraint.get("{topologyKey, whenUnsatisfiable}");
        let (key, action) = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"));
        // Of two duplicates the error names the first.
        let own = pair(&constraint);
        if constraints.items().skip(index + 1).any(|later| pair(&later) == own) {
            errors.push(FieldError::duplicate(
                place.path(),
                &format!("{{{}, {}}}", key.text(), action.text()).into(),
            ));
        }
        let skew = constraint.get("maxSkew");
        if skew.int_or_zero() <= 0 {
            errors.push(skew.invalid_int("must be greater than zero"));
        }
        let key = constraint.get("topologyKey");
        if key.text().is_empty() {
            errors.push(key.required("can not be empty"));
        }
        let action = constraint.get("whenUnsatisfiable");
        let supported = ["DoNotSchedule", "ScheduleAnyway"];
        if !supported.contains(&action.text()) {
            errors.push(action.unsupported(&supported));
        }
        check_selector(&constraint.get("labelSelector"), errors);
    }
}

fn check_affinity(affinity: &At<'_>, errors: &mut Errors) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let rules = affinity.get(kind);
        let required = rules.get("requiredDuringSchedulingIgnoredDuringExecution");
        for term in required.items() {
            check_affinity_term(&term, errors);
        }
        let preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution");
        for weighted in preferred.items() {
            check_weight(&weighted.get("weight"), errors);
            check_affinity_term(&weighted.get("podAffinityTerm"), errors);
        }
    }
    let node = affinity.get("nodeAffinity");
    let required = node.get("requiredDuringSchedulingIgnoredDuringExecution");
    let terms = required.get("nodeSelectorTerms");
    if required.is_set() && terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    let preferred = node.get("preferredDuringSchedulingIgnoredDuringExecution");
    let expressions = terms.items().chain(preferred.items().map(|term| {
        check_weight(&term.get("weight"), errors);
        term.get("preference")
    }));
    let expressions: Vec<_> = expressions.collect();
    for term in expressions {
        for requirement in term.get("matchExpressions").items() {
            check_node_requirement(&requirement, errors);
        }
    }
}

fn check_weight(weight: &At<'_>, errors: &mut Errors) {
    if !(1..=100).contains(&weight.int_or_zero()) {
        errors.push(weight.invalid_int("must be in the range 1-100"));
    }
}

fn check_affinity_term(term: &At<'_>, errors: &mut Errors) {
    check_selector(&term.get("labelSelector"), errors);
    let key = term.get("topologyKey");
    if key.text().is_empty() {
        errors.push(key.required("can not be empty"));
    }
    key.complain(names::qualified_name(key.text()), errors);
}

fn check_node_requirement(requirement: &At<'_>, errors: &mut Errors) {
    let (operator, values) = (requirement.get("operator"), requirement.get("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(values.forbidden(text));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let text = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(values.required(text));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(operator.invalid("not a valid selector operator")),
    }
    let key = requirement.get("key");
    key.complain(names::qualified_name(key.text()), errors);
}

pub(crate) fn check_tolerations(tolerations: &At<'_>, errors: &mut Errors) {
    for toleration in tolerations.items() {
        let (key, value) = (toleration.get("key"), toleration.get("value"));
        let (operator, effect) = (toleration.get("operator"), toleration.get("effect"));
        if !key.text().is_empty() {
            key.complain(names::qualified_name(key.text()), errors);
        } else if operator.text() != "Exists" {
            errors.push(operator.invalid(
                "operator must be Exists when `key` is empty, which means \"match all values and \
                 all keys\"",
            ));
        }
        if toleration.get("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let text = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(effect.invalid(text));
        }
        match operator.text() {
            "Equal" | "" => {
                let wrong = names::label_value(value.text());
                if !wrong.is_empty() {
                    let shown = Value::from(value.text());
                    errors.push(operator.invalid_as(&shown, wrong.join(";")));
                }
            }
            "Exists" if !value.text().is_empty() => {
                let shown = Value::from(value.text());
                let text = "value must be empty when `operator` is 'Exists'";
                errors.push(operator.invalid_as(&shown, text));
            }
            "Exists" => {}
            _ => errors.push(operator.unsupported(&["Equal", "Exists"])),
        }
        if !effect.text().is_empty() {
            effect.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
    }
}
