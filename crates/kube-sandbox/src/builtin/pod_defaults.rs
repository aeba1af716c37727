//! Defaults of pods and pod templates.
//!
//! [`pod_spec`] applies to every pod spec; [`pod`] adds defaults that only a Pod gets, so that
//! templates stay as they were written.

use serde_json::{Map, Value, json};

use super::edit::{
    canonical_quantities, canonical_quantity, default_to, default_zero, each, object, object_at,
    remove, set, text, within,
};
use crate::quantity::Quantity;

/// `0644`, the permission of files projected into a volume.
const FILE_MODE: i64 = 0o644;
const TOKEN_EXPIRATION_S: i64 = 3600;

/// Defaults of a Pod object.
pub(crate) fn pod(pod: &mut Value) {
    let Some(spec) = object(pod, "spec") else { return };
    pod_spec(spec);
    // For pods only, not templates: a pod has at least one second to terminate.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|s| s < 0) {
        set(spec, "terminationGracePeriodSeconds", 1);
    }
    each(spec, "containers", requests_from_limits);
    each(spec, "initContainers", requests_from_limits);
    pod_requests(spec);
    default_to(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        each(spec, "containers", host_ports);
        each(spec, "initContainers", host_ports);
    }
}

/// Defaults of the pod template of a workload.
pub(crate) fn pod_template(parent: &mut Value) {
    let Some(template) = object(parent, "template") else { return };
    object(template, "metadata");
    if let Some(spec) = object(template, "spec") {
        pod_spec(spec);
    }
}

/// Defaults of any pod spec.
pub(crate) fn pod_spec(spec: &mut Value) {
    default_zero(spec, "dnsPolicy", "ClusterFirst");
    default_zero(spec, "restartPolicy", "Always");
    default_zero(spec, "schedulerName", "default-scheduler");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    object(spec, "securityContext");
    same_service_account(spec);
    each(spec, "volumes", volume);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, container);
    }
    canonical_quantities(spec, "overhead");
    within(spec, "resources", |resources| {
        canonical_quantities(resources, "limits");
        canonical_quantities(resources, "requests");
    });
}

/// Defaults of the spec of a volume claim.
pub(crate) fn claim_spec(spec: &mut Value) {
    default_to(spec, "volumeMode", "Filesystem");
    if let Some(resources) = object(spec, "resources") {
        canonical_quantities(resources, "limits");
        canonical_quantities(resources, "requests");
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are written with the same value.
pub(crate) fn same_service_account(spec: &mut Value) {
    let (new, old) = (text(spec, "serviceAccountName"), text(spec, "serviceAccount"));
    let name = if new.is_empty() { old } else { new }.to_owned();
    if !name.is_empty() {
        set(spec, "serviceAccountName", name.clone());
        set(spec, "serviceAccount", name);
    }
}

fn container(container: &mut Value) {
    let pull = pull_policy(text(container, "image"));
    default_zero(container, "imagePullPolicy", pull);
    default_zero(container, "terminationMessagePath", "/dev/termination-log");
    default_zero(container, "terminationMessagePolicy", "File");
    if let Some(resources) = object(container, "resources") {
        canonical_quantities(resources, "limits");
        canonical_quantities(resources, "requests");
    }
    each(container, "ports", |port| default_zero(port, "protocol", "TCP"));
    each(container, "env", env_var);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, name, probe);
    }
    within(container, "lifecycle", |lifecycle| {
        for name in ["postStart", "preStop"] {
            within(lifecycle, name, |handler| within(handler, "httpGet", http_get));
        }
    });
}

/// Maximum length of an image name.
const IMAGE_NAME_BYTES_MAX: usize = 255;

/// `Always` for the tag `latest`, explicit or implied; `IfNotPresent` otherwise.
fn pull_policy(image: &str) -> &'static str {
    if image_tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image reference; `latest` when there is neither tag nor digest.
fn image_tag(image: &str) -> Option<&str> {
    let (reference, digest) = match image.split_once('@') {
        Some((reference, digest)) => (reference, Some(digest)),
        None => (image, None),
    };
    let last = reference.rsplit('/').next().unwrap_or(reference);
    let (name, tag) = match last.split_once(':') {
        Some((name, tag)) => (name, Some(tag)),
        None => (last, None),
    };
    // A malformed reference has no tag.
    if reference.len() > IMAGE_NAME_BYTES_MAX
        || name.is_empty()
        || name.contains(|c: char| c.is_ascii_uppercase() || c.is_whitespace())
    {
        return None;
    }
    match (tag, digest) {
        (None, None) => Some("latest"),
        (tag, _) => tag,
    }
}

fn env_var(variable: &mut Value) {
    if text(variable, "value").is_empty() {
        remove(variable, "value");
    }
    within(variable, "valueFrom", |source| {
        within(source, "fieldRef", field_ref);
        within(source, "resourceFieldRef", resource_ref);
        within(source, "fileKeyRef", |file| default_to(file, "optional", false));
    });
}

fn field_ref(reference: &mut Value) {
    default_zero(reference, "apiVersion", "v1");
}

fn resource_ref(reference: &mut Value) {
    default_to(reference, "divisor", "0");
    canonical_quantity(reference, "divisor");
}

fn probe(probe: &mut Value) {
    default_zero(probe, "timeoutSeconds", 1);
    default_zero(probe, "periodSeconds", 10);
    default_zero(probe, "successThreshold", 1);
    default_zero(probe, "failureThreshold", 3);
    within(probe, "httpGet", http_get);
    within(probe, "grpc", |grpc| default_to(grpc, "service", ""));
}

fn http_get(action: &mut Value) {
    default_zero(action, "path", "/");
    default_zero(action, "scheme", "HTTP");
}

fn volume(volume: &mut Value) {
    let named_only = volume.as_object().is_some_and(|members| members.keys().all(|k| k == "name"));
    if named_only {
        set(volume, "emptyDir", Map::new());
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        within(volume, source, |source| default_to(source, "defaultMode", FILE_MODE));
    }
    within(volume, "emptyDir", |source| canonical_quantity(source, "sizeLimit"));
    within(volume, "hostPath", |source| default_to(source, "type", ""));
    within(volume, "downwardAPI", downward_items);
    within(volume, "projected", |projected| {
        each(projected, "sources", |source| {
            within(source, "downwardAPI", downward_items);
            within(source, "serviceAccountToken", |token| {
                default_to(token, "expirationSeconds", TOKEN_EXPIRATION_S);
            });
        });
    });
    within(volume, "ephemeral", |source| {
        if let Some(spec) = object_at(source, &["volumeClaimTemplate", "spec"]) {
            claim_spec(spec);
        }
    });
    within(volume, "image", |image| {
        let policy = pull_policy(text(image, "reference"));
        default_zero(image, "pullPolicy", policy);
    });
}

fn downward_items(source: &mut Value) {
    each(source, "items", |item| {
        within(item, "fieldRef", field_ref);
        within(item, "resourceFieldRef", resource_ref);
    });
}

fn requests_from_limits(container: &mut Value) {
    within(container, "resources", |resources| {
        let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else {
            return;
        };
        let Some(requests) = object(resources, "requests") else { return };
        for (name, limit) in limits {
            default_to(requests, &name, limit);
        }
    });
}

/// Pod-level requests: the sum over the containers, or else the pod-level limit.
fn pod_requests(spec: &mut Value) {
    let limits = spec.pointer("/resources/limits").and_then(Value::as_object).cloned();
    let Some(limits) = limits.filter(|limits| !limits.is_empty()) else { return };
    let asked = |name: &str| {
        let containers = spec.get("containers").and_then(Value::as_array).into_iter().flatten();
        containers
            .filter_map(|c| c.pointer(&format!("/resources/requests/{name}")))
            .filter_map(Quantity::from_json)
            .reduce(Quantity::plus)
    };
    let defaults: Vec<_> = limits
        .into_iter()
        .map(|(name, limit)| {
            let amount = asked(&name).map_or(limit, |sum| json!(sum.to_string()));
            (name, amount)
        })
        .collect();
    let Some(requests) = object_at(spec, &["resources", "requests"]) else { return };
    for (name, amount) in defaults {
        default_to(requests, &name, amount);
    }
}

fn host_ports(container: &mut Value) {
    each(container, "ports", |port| {
        if let Some(number) = port.get("containerPort").cloned() {
            default_zero(port, "hostPort", number);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_pulled_always_only_when_it_is_the_latest() {
        let cases = [
            ("no tag means latest", "nginx", "Always"),
            ("the tag says so", "nginx:latest", "Always"),
            ("a port is no tag", "registry.example:5000/nginx", "Always"),
            ("another tag", "registry.example:5000/nginx:1.27", "IfNotPresent"),
            ("a digest", "nginx@sha256:00", "IfNotPresent"),
            ("a tag beside a digest counts", "nginx:latest@sha256:00", "Always"),
            ("no reference at all", "Nginx", "IfNotPresent"),
            ("nothing", "", "IfNotPresent"),
        ];
        for (reason, image, want) in cases {
            assert_eq!(pull_policy(image), want, "{reason}");
        }
    }

    #[test]
    fn sources_of_volumes_and_variables_get_their_defaults() {
        let mut spec = json!({
            "volumes": [
                {"name": "a"}, {"name": "b", "configMap": {"name": "c"}},
                {"name": "d", "hostPath": {"path": "/x"}},
                {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                {"name": "f", "emptyDir": {"sizeLimit": "1024Mi"}},
            ],
            "containers": [{"name": "a", "image": "x:1", "env": [
                {"name": "A", "value": ""},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ]}],
        });
        pod_spec(&mut spec);
        assert_eq!(
            spec["volumes"],
            json!([
                {"name": "a", "emptyDir": {}},
                {"name": "b", "configMap": {"name": "c", "defaultMode": 420}},
                {"name": "d", "hostPath": {"path": "/x", "type": ""}},
                {"name": "e", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
                {"name": "f", "emptyDir": {"sizeLimit": "1Gi"}},
            ])
        );
        assert_eq!(
            spec["containers"][0]["env"],
            json!([
                {"name": "A"},
                {"name": "B", "valueFrom": {"fieldRef": {
                    "apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {
                    "resource": "limits.cpu", "divisor": "0"}}},
            ])
        );
    }

    #[test]
    fn only_a_pod_asks_for_what_it_is_limited_to() {
        let limited = json!({"spec": {"containers": [
            {"name": "a", "image": "x:1", "resources": {"limits": {"cpu": "0.5", "memory": "1Gi"},
             "requests": {"cpu": 0.1}}}]}});
        let mut object = limited.clone();
        pod(&mut object);
        assert_eq!(
            object["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "500m", "memory": "1Gi"},
                   "requests": {"cpu": "100m", "memory": "1Gi"}})
        );
        let mut parent = json!({"template": limited});
        pod_template(&mut parent);
        let resources = &parent["template"]["spec"]["containers"][0]["resources"];
        assert_eq!(resources["requests"], json!({"cpu": "100m"}));
    }
}
