//! Lines that may differ, each with the reason.

use std::collections::BTreeSet;

/// A check's name, or `*` for all; and what a line of it contains, `""` being all of them.
const ACCEPTED: &[(&str, &str)] = &[
    // The sandbox comes with kinds of routes.
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
    // Who built it, when, of what; and what it consists of.
    ("get --raw", ""),
    ("proxy of a raw path", ""),
    // Built-in schemas in the sandbox do not list the values a field may have.
    ("explain --recursive", "enum: Recreate, RollingUpdate"),
    // Folders that kubectl makes.
    ("diff shows a difference", "/tmp/LIVE-"),
    ("diff shows a difference", "/tmp/MERGED-"),
    // Both refuse it for the same field; the sentence is another one.
    ("apply with a bad type", "spec:map[replicas:many]"),
    // How many pods are replaced at a time depends on how fast they start, so what is said of it does too;
    // and the real recorder puts what is said too often together.
    ("*", "ScalingReplicaSet"),
    // Tokens are not mounted into pods of the sandbox, where nobody could use them.
    ("describe pod", "kube-api-access-"),
    ("describe pod", "kube-root-ca.crt"),
    ("describe pod", "DownwardAPI: true"),
    ("describe pod", "Mounts:"),
    ("describe pod", "Volumes:"),
    ("describe pod", "Optional: false"),
    ("describe pod", "TokenExpirationSeconds:"),
    ("describe pod", "Type: Projected"),
    ("describe pod", "Container ID:"),
    // Whichever pod comes first, and the node it happens to be on.
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

/// The same for lines that come and go with how fast the checks are: in a lucky run nothing needs these rows.
const DEPENDING_ON_TIME: &[(&str, &str)] = &[
    ("*", "(combined from similar events)"),
    // There is no metrics API on the real one here; on the sandbox there is one without numbers. It is asked every
    // quarter of a minute.
    ("*", "FailedGetResourceMetric"),
    ("*", "FailedComputeMetricsReplicas"),
    // The real server repairs the address of a Service that it has not yet seen written down, and says so.
    ("*", "ClusterIPNotAllocated"),
    ("describe service", "Events:"),
    ("describe service", "Type Reason Age From Message"),
    ("describe service", "---- ------ ---- ---- -------"),
    // How late the kubelet looks decides which states on the way there are.
    ("get -w shows new pods run", "MODIFIED web-<hash>-<drawn> 0/1 "),
    ("get -w shows changes", "MODIFIED web-<hash>-<drawn> 0/1 "),
];

/// Checks in which the sandbox may print less, and nothing that the real cluster does not: it serves fewer kinds of
/// Kubernetes' own.
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

/// The row because of which a line of a check is not compared.
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
