//! Validation of containers: name, image, ports, environment, mounts, resources, probes.
//!
//! Called for every container by the pod spec rules. Checks only; values were defaulted and have
//! the right types. Error paths and texts are those of Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::at::{At, Errors};
use crate::{
    failure::FieldError,
    names,
    quantity::{NOT_A_QUANTITY, Quantity},
};

pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Pod-level facts that container validation needs.
pub(crate) struct Scope<'s> {
    /// Names of the pod's volumes.
    pub(crate) volumes: &'s BTreeSet<String>,
    pub(crate) grace_s: Option<i64>,
}

const DOWNWARD_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Pod fields that exist, but that an environment variable cannot refer to.
const OTHER_POD_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];

const DOWNWARD_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(crate) fn check_containers(containers: &At<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if containers.is_empty() {
        errors.push(containers.required(""));
        return;
    }
    let mut seen = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for container in containers.items() {
        check_common(&container, scope, errors);
        let name = container.get("name");
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        check_running(&container, scope, errors);
    }
    for container in containers.items() {
        check_host_ports(&container, &mut host_ports, errors);
    }
}

pub(crate) fn check_init_containers(spec: &At<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let regular = spec.get("containers");
    let mut seen: BTreeSet<_> = regular.items().map(|c| c.get("name").text()).collect();
    for container in spec.get("initContainers").items() {
        check_common(&container, scope, errors);
        let policy = container.get("restartPolicy");
        policy.one_of_if_set(&["Always", "Never", "OnFailure"], errors);
        let name = container.get("name");
        if !name.text().is_empty() && !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        check_host_ports(&container, &mut BTreeSet::new(), errors);
        if policy.text() == "Always" {
            check_running(&container, scope, errors);
            continue;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let place = container.get(key);
            if place.is_set() {
                let text = "may not be set for init containers without restartPolicy=Always";
                errors.push(place.forbidden(text));
            }
        }
    }
}

/// Checks that apply to every kind of container.
fn check_common(container: &At<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let name = container.get("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        name.complain(names::dns1123_label(name.text()), errors);
    }
    let image = container.get("image");
    if image.text().is_empty() {
        errors.push(image.required(""));
    }
    let message = container.get("terminationMessagePolicy");
    message.one_of(&["File", "FallbackToLogsOnError"], errors);
    check_ports(&container.get("ports"), errors);
    check_env(&container.get("env"), errors);
    check_env_from(&container.get("envFrom"), errors);
    check_mounts(container, scope, errors);
    let pull = container.get("imagePullPolicy");
    pull.one_of(&["Always", "IfNotPresent", "Never"], errors);
    check_resources(&container.get("resources"), errors);
}

/// Checks that apply to long-running containers.
fn check_running(container: &At<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    for hook in ["lifecycle.postStart", "lifecycle.preStop"] {
        let handler = container.get(hook);
        if handler.is_set() {
            check_handler(&handler, scope.grace_s, errors);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(name);
        if !probe.is_set() {
            continue;
        }
        check_probe(&probe, scope.grace_s, errors);
        let success = probe.get("successThreshold");
        let grace = probe.get("terminationGracePeriodSeconds");
        if name == "readinessProbe" {
            if grace.is_set() {
                errors.push(grace.invalid("must not be set for readinessProbes"));
            }
        } else if success.int_or_zero() != 1 {
            errors.push(success.invalid_int("must be 1"));
        }
    }
}

fn check_ports(ports: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.text().is_empty() {
            let wrong = names::port_name(name.text());
            if wrong.is_empty() && !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
            name.complain(wrong, errors);
        }
        let number = port.get("containerPort");
        match number.int_or_zero() {
            0 => errors.push(number.required("")),
            value => number.complain(names::port_number(value), errors),
        }
        let host = port.get("hostPort");
        if host.int_or_zero() != 0 {
            host.complain(names::port_number(host.int_or_zero()), errors);
        }
        port.get("protocol").one_of(&PROTOCOLS, errors);
    }
}

fn check_host_ports(container: &At<'_>, seen: &mut BTreeSet<String>, errors: &mut Errors) {
    for port in container.get("ports").items() {
        let host = port.get("hostPort");
        if host.int_or_zero() == 0 {
            continue;
        }
        let (protocol, address) = (port.get("protocol"), port.get("hostIP"));
        let slot = format!("{}/{}/{}", protocol.text(), address.text(), host.int_or_zero());
        if !seen.insert(slot.clone()) {
            errors.push(FieldError::duplicate(host.path(), &Value::from(slot)));
        }
    }
}

fn check_env(variables: &At<'_>, errors: &mut Errors) {
    for variable in variables.items() {
        let name = variable.get("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else {
            name.complain(names::env_var_name(name.text()), errors);
        }
        let source = variable.get("valueFrom");
        if source.is_set() {
            check_env_source(&source, !variable.get("value").text().is_empty(), errors);
        }
    }
}

fn check_env_source(source: &At<'_>, has_value: bool, errors: &mut Errors) {
    let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let set = kinds.into_iter().filter(|kind| source.get(kind).is_set()).count();
    let field = source.get("fieldRef");
    if field.is_set() {
        check_field_ref(&field, errors);
    }
    let resource = source.get("resourceFieldRef.resource");
    if source.get("resourceFieldRef").is_set() {
        let text = resource.text();
        let huge = ["requests.hugepages-", "limits.hugepages-"];
        if text.is_empty() {
            errors.push(resource.required(""));
        } else if !DOWNWARD_RESOURCES.contains(&text) && !huge.iter().any(|h| text.starts_with(h)) {
            errors.push(resource.unsupported(&DOWNWARD_RESOURCES));
        }
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.get(kind);
        if reference.is_set() {
            check_key_ref(&reference, errors);
        }
    }
    let empty = Value::from("");
    match set {
        0 => errors.push(source.invalid_as(
            &empty,
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`",
        )),
        _ if has_value => {
            let text = "may not be specified when `value` is not empty";
            errors.push(source.invalid_as(&empty, text));
        }
        1 => {}
        _ => {
            let text = "may not have more than one field specified at a time";
            errors.push(source.invalid_as(&empty, text));
        }
    }
}

fn check_field_ref(reference: &At<'_>, errors: &mut Errors) {
    let field = reference.get("fieldPath");
    let path = field.text();
    if path.is_empty() {
        errors.push(field.required(""));
    } else if let Some((map, key)) = path.strip_suffix("']").and_then(|p| p.split_once("['")) {
        let wrong = match map {
            "metadata.annotations" => names::qualified_name(&key.to_ascii_lowercase()),
            "metadata.labels" => names::qualified_name(key),
            _ => vec!["does not support subscript".to_owned()],
        };
        let shown = if map.starts_with("metadata.") { key } else { map };
        let shown = Value::from(shown);
        errors.extend(wrong.into_iter().map(|text| reference.invalid_as(&shown, text)));
    } else if !DOWNWARD_FIELDS.contains(&path) {
        let is_known = OTHER_POD_FIELDS.contains(&path);
        errors.push(if is_known {
            field.unsupported(&DOWNWARD_FIELDS)
        } else {
            field.invalid(format!("error converting fieldPath: field label not supported: {path}"))
        });
    }
}

fn check_key_ref(reference: &At<'_>, errors: &mut Errors) {
    let (name, key) = (reference.get("name"), reference.get("key"));
    name.complain(names::dns1123_subdomain(name.text()), errors);
    if key.text().is_empty() {
        errors.push(key.required(""));
    } else {
        key.complain(names::config_key(key.text()), errors);
    }
}

fn check_env_from(sources: &At<'_>, errors: &mut Errors) {
    for source in sources.items() {
        let prefix = source.get("prefix");
        if !prefix.text().is_empty() {
            prefix.complain(names::env_var_name(prefix.text()), errors);
        }
        let set: Vec<_> = ["configMapRef", "secretRef"]
            .into_iter()
            .map(|kind| source.get(kind))
            .filter(At::is_set)
            .collect();
        for reference in &set {
            let name = reference.get("name");
            if name.text().is_empty() {
                errors.push(name.required(""));
            } else {
                name.complain(names::dns1123_subdomain(name.text()), errors);
            }
        }
        let empty = Value::from("");
        match set.len() {
            0 => errors.push(
                sources.invalid_as(&empty, "must specify one of: `configMapRef` or `secretRef`"),
            ),
            1 => {}
            _ => errors.push(
                sources.invalid_as(&empty, "may not have more than one field specified at a time"),
            ),
        }
    }
}

fn check_mounts(container: &At<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let mounts = container.get("volumeMounts");
    let mut paths = BTreeSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        if name.text().is_empty() {
            errors.push(name.required(""));
        }
        if !scope.volumes.contains(name.text()) {
            errors.push(name.not_found());
        }
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        if !paths.insert(path.text()) {
            errors.push(path.invalid("must be unique"));
        }
        for key in ["subPath", "subPathExpr"] {
            // Kubernetes leaves the index out of this path.
            let sub = mount.get(key).called(format!("{}.{key}", mounts.path()));
            check_descending(&sub, errors);
        }
        let both = mount.get("subPathExpr");
        if !both.text().is_empty() && !mount.get("subPath").text().is_empty() {
            errors.push(both.invalid("subPathExpr and subPath are mutually exclusive"));
        }
    }
    for device in container.get("volumeDevices").items() {
        let name = device.get("name");
        if !scope.volumes.contains(name.text()) {
            errors.push(name.not_found());
        }
    }
}

/// Refuses paths that leave their base directory.
pub(crate) fn check_descending(path: &At<'_>, errors: &mut Errors) {
    if path.text().starts_with('/') {
        errors.push(path.invalid("must be a relative path"));
    }
    if path.text().split('/').any(|part| part == "..") {
        errors.push(path.invalid("must not contain '..'"));
    }
}

/// Limits and requests of a container or a pod.
pub(crate) fn check_resources(resources: &At<'_>, errors: &mut Errors) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    for (name, amount) in limits.entries().chain(requests.entries()) {
        check_resource_name(name, &amount, errors);
        check_amount(name, &amount, errors);
    }
    for (name, amount) in requests.entries() {
        let Some(wanted) = amount.value().and_then(Quantity::from_json) else { continue };
        let limit =
            limits.value().and_then(|limits| limits.get(name)).and_then(Quantity::from_json);
        let shown = Value::from(wanted.to_string());
        match limit {
            Some(limit) if wanted != limit && !is_overcommittable(name) => {
                let text = format!("must be equal to {name} limit of {limit}");
                errors.push(requests.invalid_as(&shown, text));
            }
            Some(limit) if wanted > limit => {
                let text = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(requests.invalid_as(&shown, text));
            }
            None if !is_overcommittable(name) => {
                errors.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
    }
}

pub(crate) fn check_amount(name: &str, amount: &At<'_>, errors: &mut Errors) {
    match amount.value().and_then(Quantity::from_json) {
        None => errors.push(amount.invalid(NOT_A_QUANTITY)),
        Some(value) if value.is_negative() => {
            let shown = Value::from(value.to_string());
            errors.push(amount.invalid_as(&shown, "must be greater than or equal to 0"));
        }
        Some(value) if !value.is_whole() && (name == "pods" || !is_native(name)) => {
            let shown = Value::from(value.to_string());
            errors.push(amount.invalid_as(&shown, "must be an integer"));
        }
        Some(_) => {}
    }
}

pub(super) fn check_resource_name(name: &str, amount: &At<'_>, errors: &mut Errors) {
    let shown = Value::from(name);
    let wrong = names::qualified_name(name);
    if !wrong.is_empty() {
        errors.extend(wrong.into_iter().map(|text| amount.invalid_as(&shown, text)));
        return;
    }
    let standard = ["cpu", "memory", "ephemeral-storage"];
    if !name.contains('/') {
        if !standard.contains(&name) && !name.starts_with("hugepages-") {
            let text = "must be a standard resource type or fully qualified";
            errors.push(amount.invalid_as(&shown, text));
            errors.push(amount.invalid_as(&shown, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && name.starts_with("requests.") {
        errors.push(amount.invalid_as(&shown, "doesn't follow extended resource name standard"));
    }
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

fn check_probe(probe: &At<'_>, grace_s: Option<i64>, errors: &mut Errors) {
    check_handler(probe, grace_s, errors);
    for key in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        probe.get(key).non_negative(errors);
    }
    let grace = probe.get("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|seconds| seconds <= 0) {
        errors.push(grace.invalid("must be greater than 0"));
    }
}

fn check_handler(handler: &At<'_>, grace_s: Option<i64>, errors: &mut Errors) {
    let mut handlers = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.get(kind);
        if !action.is_set() {
            continue;
        }
        handlers += 1;
        if handlers > 1 {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        match kind {
            "exec" if action.get("command").is_empty() => {
                errors.push(action.get("command").required(""));
            }
            "httpGet" => check_http_get(&action, errors),
            "tcpSocket" | "grpc" => check_port(&action.get("port"), errors),
            "sleep" => check_sleep(&action, grace_s, errors),
            _ => {}
        }
    }
    if handlers == 0 {
        errors.push(handler.required("must specify a handler type"));
    }
}

fn check_http_get(action: &At<'_>, errors: &mut Errors) {
    let path = action.get("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
    }
    check_port(&action.get("port"), errors);
    let scheme = action.get("scheme");
    if !matches!(scheme.text(), "HTTP" | "HTTPS") {
        errors.push(scheme.unsupported(&["HTTP", "HTTPS"]));
    }
    let headers = action.get("httpHeaders");
    for header in headers.items() {
        let name = header.get("name").called(headers.path());
        name.complain(names::http_header_name(name.text()), errors);
    }
}

fn check_sleep(action: &At<'_>, grace_s: Option<i64>, errors: &mut Errors) {
    let seconds = action.get("seconds").called(action.path());
    let Some(grace_s) = grace_s else { return };
    if !(0..=grace_s).contains(&seconds.int_or_zero()) {
        errors.push(seconds.invalid_int(format!(
            "must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        )));
    }
}

/// A port by number or by name.
pub(crate) fn check_port(port: &At<'_>, errors: &mut Errors) {
    if let Some(Value::String(name)) = port.value() {
        port.complain(names::port_name(name), errors);
    } else {
        let wrong = names::port_number(port.int_or_zero());
        errors.extend(wrong.into_iter().map(|text| port.invalid_int(text)));
    }
}
