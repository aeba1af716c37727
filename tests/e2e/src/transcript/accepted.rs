//! Lines that may differ, each with the reason.

use std::collections::BTreeSet;

/// A check's name, or `*` for all; and a part of its line, `""` being all of them.
const ACCEPTED: &[(&str, &str)] = &[
    // The sandbox has definitions of routes.
    ("get crd", ".networking."),
    ("api-resources lists built-ins", "gateway.networking.k8s.io/"),
    ("api-resources lists built-ins", "networking.istio.io/"),
    ("api-resources lists ours", "gateway.networking.k8s.io/"),
    ("api-resources lists ours", "networking.istio.io/"),
    ("api-resources lists short names", "gateway.networking.k8s.io/"),
    ("api-resources lists short names", "networking.istio.io/"),
    ("api-versions", "gateway.networking.k8s.io/"),
    ("api-versions", "networking.istio.io/"),
    ("describe namespace", "No LimitRange resource."),
    ("describe namespace", "No resource quota."),
    // The sandbox's tokens are its own, and no JSON Web Tokens.
    ("create token", ""),
    // The build, its time and platform, and the list of components.
    ("get --raw", ""),
    ("proxy of a raw path", ""),
    // Built-in schemas in the sandbox do not list the values of enums.
    ("explain --recursive", "enum: Recreate, RollingUpdate"),
    // Temporary folders of kubectl.
    ("diff shows a difference", "/tmp/LIVE-"),
    ("diff shows a difference", "/tmp/MERGED-"),
    // Both refuse it for the same field; the message differs.
    ("apply with a bad type", "spec:map[replicas:many]"),
    // The number of pods replaced at a time depends on how fast they start, and so do the events about it;
    // and the real recorder merges frequent events.
    ("*", "ScalingReplicaSet"),
    // Tokens are not mounted into pods of the sandbox, where they would be useless.
    ("describe pod", "kube-api-access-"),
    ("describe pod", "kube-root-ca.crt"),
    ("describe pod", "DownwardAPI: true"),
    ("describe pod", "Mounts:"),
    ("describe pod", "Volumes:"),
    ("describe pod", "Optional: false"),
    ("describe pod", "TokenExpirationSeconds:"),
    ("describe pod", "Type: Projected"),
    ("describe pod", "Container ID:"),
    // The first pod, and its node.
    ("describe pod", "Node: node-"),
    ("describe pod", "Successfully assigned"),
    ("describe node", "Boot ID:"),
    ("describe node", "Machine ID:"),
    ("describe node", "System UUID:"),
    ("describe node", "Non-terminated Pods:"),
    ("describe node", "cpu "),
    ("describe node", "memory "),
    ("describe node", "0 (0%) 0 (0%) 0 (0%) 0 (0%)"),
    ("drain", "evicting pod"),
    ("drain", "evicted"),
    // The administrator has another name; without permissions the sandbox lists none.
    ("auth whoami", "admin"),
    ("auth can-i --list", "[get]"),
    ("auth can-i --list", "[create]"),
];

/// The same for lines that depend on the speed of the checks: in a fast run these rows are not needed.
const DEPENDING_ON_TIME: &[(&str, &str)] = &[
    ("*", "(combined from similar events)"),
    // The real cluster has no metrics API here; the sandbox has one without numbers. It is queried every
    // quarter of a minute.
    ("*", "FailedGetResourceMetric"),
    ("*", "FailedComputeMetricsReplicas"),
    // The real server repairs the address of a Service that is not yet stored, and reports it.
    ("*", "ClusterIPNotAllocated"),
    ("describe service", "Events:"),
    ("describe service", "Type Reason Age From Message"),
    ("describe service", "---- ------ ---- ---- -------"),
    // The states on the way depend on the kubelet's delay.
    ("get -w shows new pods run", "MODIFIED web-<hash>-<drawn> 0/1 "),
    ("get -w shows changes", "MODIFIED web-<hash>-<drawn> 0/1 "),
];

/// Checks in which the sandbox may print less, and nothing that the real cluster does not: it serves fewer
/// kinds of Kubernetes' own.
const FEWER: &[&str] = &[
    "api-resources lists built-ins",
    "api-resources lists ours",
    "api-resources lists short names",
    "api-versions",
];

/// Whether the sandbox may print less there.
pub(super) fn may_be_fewer(check: &str) -> bool {
    FEWER.contains(&check)
}

/// The row that exempts a line of a check from the comparison.
pub(super) fn covering(check: &str, line: &str) -> Option<usize> {
    let covers =
        |(name, part): &(&str, &str)| (*name == "*" || *name == check) && line.contains(part);
    ACCEPTED.iter().chain(DEPENDING_ON_TIME).position(covers)
}

/// The rows that are not among these.
pub(super) fn others(covering: &BTreeSet<usize>) -> Vec<String> {
    let rows = ACCEPTED.iter().enumerate().filter(|(row, _)| !covering.contains(row));
    rows.map(|(_, (check, part))| format!("{check}: {part}")).collect()
}
