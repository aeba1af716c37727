//! Selects the nodes for a DaemonSet, and builds the pod for a node.

use serde_json::{Value, json};

use super::{DAEMON_SET, GENERATION_LABEL, HASH_LABEL};
use crate::controllers::{
    node_fit::{Effects, matches_labels, untolerated},
    object::{flag, items, name, set_at, text},
    pods,
};

/// Eligibility of a node for a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// A daemon should run here.
    Run,
    /// No daemon is started here, but an existing one may stay.
    Stay,
    /// A daemon should not be here.
    Leave,
}

/// Taints that every daemon tolerates, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// A cordon does not keep daemons away and is ignored.
pub(super) fn placement(set: &Value, node: &Value) -> Placement {
    let mut spec = set.pointer("/spec/template/spec").cloned().unwrap_or_default();
    tolerate(&mut spec);
    let wanted = text(&spec, "/nodeName");
    let elsewhere = !wanted.is_empty() && wanted != name(node);
    if elsewhere || !matches_labels(&spec, node) {
        return Placement::Leave;
    }
    if untolerated(&spec, node, Effects::Scheduling).is_none() {
        return Placement::Run;
    }
    match untolerated(&spec, node, Effects::Execution) {
        Some(_) => Placement::Leave,
        None => Placement::Stay,
    }
}

/// The pod for one node, made from the current template.
pub(super) fn pod_for(set: &Value, hash: &str, generation: i64, node: &str) -> Value {
    let template = set.pointer("/spec/template").cloned().unwrap_or_default();
    let mut pod = pods::from_template(&template, set, DAEMON_SET);
    set_at(&mut pod, &["metadata", "labels", HASH_LABEL], hash);
    set_at(&mut pod, &["metadata", "labels", GENERATION_LABEL], generation.to_string());
    if let Some(spec) = pod.get_mut("spec") {
        tolerate(spec);
        pin(spec, node);
    }
    pod
}

/// The node that a daemon runs on, or is meant for while unscheduled.
pub(super) fn node_of(pod: &Value) -> Option<&str> {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return Some(bound);
    }
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                 /nodeSelectorTerms";
    let fields = items(pod, terms).iter().flat_map(|term| items(term, "/matchFields"));
    let mut names = fields.filter(|field| text(field, "/key") == "metadata.name");
    names.next().and_then(|field| items(field, "/values").first()?.as_str())
}

/// Requires the node by its name. This replaces the template's own node affinity, which was checked
/// when the node was chosen.
fn pin(spec: &mut Value, node: &str) {
    let term = json!({ "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": [node] },
    ] });
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let path = ["affinity", "nodeAffinity", required, "nodeSelectorTerms"];
    set_at(spec, &path, json!([term]));
}

fn tolerate(spec: &mut Value) {
    let mut tolerations = items(spec, "/tolerations").to_vec();
    let network = ("node.kubernetes.io/network-unavailable", "NoSchedule");
    let network = flag(spec, "/hostNetwork").then_some(network);
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    set_at(spec, &["tolerations"], tolerations);
}
