//! Warnings of the API server about accepted objects. `kubectl` prints them as `Warning: ...`.
//!
//! Called by the rows of [`super::table`] after validation. A warning never fails a request.

use std::collections::BTreeSet;

use serde_json::Value;

use super::at::At;
use crate::{names, quantity::Quantity};

const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const OLD_NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

pub(super) fn none(_: &Value) -> Vec<String> {
    Vec::new()
}

pub(super) fn pod(pod: &Value) -> Vec<String> {
    let at = At::root(pod);
    let mut warnings = Vec::new();
    let wrong = names::dns1123_label(at.get("metadata.name").text());
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising \
             behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    of_pod_spec(&at, &mut warnings);
    warnings
}

/// Deployments and `ReplicaSets`, whose names become parts of host names.
pub(super) fn named_workload(workload: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let wrong = names::dns1123_label(At::root(workload).get("metadata.name").text());
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in \
             surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    warnings.extend(templated(workload));
    warnings
}

pub(super) fn stateful_set(workload: &Value) -> Vec<String> {
    let mut warnings = templated(workload);
    if At::root(workload).get("spec.revisionHistoryLimit").int_or_zero() < 0 {
        let text = "spec.revisionHistoryLimit: a negative value retains all historical revisions; \
                    a value >= 0 is recommended";
        warnings.push(text.to_owned());
    }
    warnings
}

pub(super) fn templated(workload: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    of_pod_spec(&At::root(workload).get("spec.template"), &mut warnings);
    warnings
}

pub(super) fn service(service: &Value) -> Vec<String> {
    let spec = At::root(service).get("spec");
    let kind = spec.get("type");
    let headless = kind.text() == "ClusterIP" && spec.get("clusterIP").text() == "None";
    let external = kind.text() == "ExternalName";
    let has_ips = !spec.get("externalIPs").is_empty();
    let cases = [
        (headless && has_ips, "spec.externalIPs is ignored for headless services"),
        (
            headless && spec.get("sessionAffinity").text() != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            has_ips && !headless && !external,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (external && has_ips, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (
            !external && !spec.get("externalName").text().is_empty(),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            spec.get("trafficDistribution").text() == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    let applying = cases.into_iter().filter(|(applies, _)| *applies);
    applying.map(|(_, text)| text.to_owned()).collect()
}

/// `at` is a Pod or a template.
fn of_pod_spec(at: &At<'_>, warnings: &mut Vec<String>) {
    let spec = at.get("spec");
    for (label, place) in spec.get("nodeSelector").entries() {
        let known = OLD_NODE_LABELS.into_iter().find(|(old, ..)| *old == label);
        if let Some((_, since, new)) = known {
            let path = place.path();
            warnings.push(format!("{path}: deprecated since {since}; use \"{new}\" instead"));
        }
    }
    of_selectors(&spec, warnings);
    let mut secrets = BTreeSet::new();
    for secret in spec.get("imagePullSecrets").items() {
        let name = secret.get("name");
        if !secrets.insert(name.text().to_owned()) {
            warnings.push(format!("{}: duplicate name {:?}", name.path(), name.text()));
        }
        if name.text().is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", name.path()));
        }
    }
    for (key, place) in at.get("metadata.annotations").entries() {
        let known = DEPRECATED_ANNOTATIONS.into_iter().find(|(old, _)| *old == key);
        warnings.extend(known.map(|(_, text)| format!("{}: {text}", place.path())));
    }
    for list in ["initContainers", "containers"] {
        for container in spec.get(list).items() {
            of_container(&container, warnings);
        }
    }
    let grace = spec.get("terminationGracePeriodSeconds");
    if grace.int_or_zero() < 0 {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
}

/// Warns of missing pod selectors, which select nothing.
fn of_selectors(spec: &At<'_>, warnings: &mut Vec<String>) {
    let mut places: Vec<At<'_>> = spec.get("topologySpreadConstraints").items().collect();
    for kind in ["podAffinity", "podAntiAffinity"] {
        let rules = spec.get("affinity").get(kind);
        places.extend(rules.get("requiredDuringSchedulingIgnoredDuringExecution").items());
        let preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution");
        places.extend(preferred.items().map(|weighted| weighted.get("podAffinityTerm")));
    }
    for selector in places.iter().map(|place| place.get("labelSelector")) {
        if !selector.is_set() {
            let path = selector.path();
            warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
        }
    }
}

fn of_container(container: &At<'_>, warnings: &mut Vec<String>) {
    for list in ["limits", "requests"] {
        for (name, place) in container.get("resources").get(list).entries() {
            let amount = place.value().and_then(Quantity::from_json);
            let fraction = amount.filter(|amount| !amount.is_whole());
            if let Some(amount) = fraction
                && matches!(name, "memory" | "ephemeral-storage")
            {
                warnings.push(format!(
                    "{}: fractional byte value \"{amount}\" is invalid, must be an integer",
                    place.path()
                ));
            }
        }
    }
    let mut seen = BTreeSet::new();
    for variable in container.get("env").items() {
        let name = variable.get("name").text();
        // A value that refers to the earlier variable of the same name is deliberate.
        let refers = variable.get("value").text().contains(&format!("$({name})"));
        if !seen.insert(name) && !refers {
            warnings.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                variable.path()
            ));
        }
    }
    let mut ports: Vec<(i64, String, String)> = Vec::new();
    for port in container.get("ports").items() {
        let number = port.get("containerPort").int_or_zero();
        let protocol = port.get("protocol").text().to_owned();
        let known = ports.iter().find(|(n, p, _)| *n == number && *p == protocol);
        if let Some((_, _, other)) = known {
            warnings.push(format!("{}: duplicate port definition with {other}", port.path()));
        } else {
            ports.push((number, protocol, port.path().to_owned()));
        }
    }
}
