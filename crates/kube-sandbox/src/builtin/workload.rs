//! Deployments, `ReplicaSets`, `StatefulSets` and `DaemonSets`: defaults and updates.
//!
//! A DaemonSet still counts the versions of its template in an annotation: old clients read it, and
//! `kubectl` shows it.

use serde_json::{Value, json};

use super::{
    at::same,
    edit::{carry, default_to, default_zero, drop_zeroes, each, object, remove, set, text, within},
    pod_defaults::{claim_spec, pod_template},
};

pub(super) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const REVISIONS_KEPT: i64 = 10;
const PROGRESS_DEADLINE_S: i64 = 600;

pub(super) fn deployment_defaults(deployment: &mut Value) {
    let Some(spec) = object(deployment, "spec") else { return };
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", REVISIONS_KEPT);
    default_to(spec, "progressDeadlineSeconds", PROGRESS_DEADLINE_S);
    if let Some(strategy) = object(spec, "strategy") {
        default_zero(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = object(strategy, "rollingUpdate")
        {
            default_to(rolling, "maxUnavailable", "25%");
            default_to(rolling, "maxSurge", "25%");
        }
    }
    pod_template(spec);
    object(deployment, "status");
}

pub(super) fn replica_set_defaults(replica_set: &mut Value) {
    let Some(spec) = object(replica_set, "spec") else { return };
    default_to(spec, "replicas", 1);
    pod_template(spec);
    if let Some(status) = object(replica_set, "status") {
        default_to(status, "replicas", 0);
    }
}

pub(super) fn daemon_set_defaults(daemon_set: &mut Value) {
    daemon_set_counted(daemon_set);
    let Some(spec) = object(daemon_set, "spec") else { return };
    default_to(spec, "revisionHistoryLimit", REVISIONS_KEPT);
    if let Some(strategy) = object(spec, "updateStrategy") {
        default_zero(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = object(strategy, "rollingUpdate")
        {
            default_to(rolling, "maxUnavailable", 1);
            default_to(rolling, "maxSurge", 0);
        }
    }
    pod_template(spec);
    if let Some(status) = object(daemon_set, "status") {
        let counts = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
        ];
        for count in counts {
            default_to(status, count, 0);
        }
    }
}

pub(super) fn stateful_set_defaults(stateful_set: &mut Value) {
    let Some(spec) = object(stateful_set, "spec") else { return };
    default_zero(spec, "podManagementPolicy", "OrderedReady");
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", REVISIONS_KEPT);
    default_to(spec, "serviceName", "");
    if let Some(strategy) = object(spec, "updateStrategy") {
        if text(strategy, "type").is_empty() {
            set(strategy, "type", "RollingUpdate");
            object(strategy, "rollingUpdate");
        }
        // A type without details stays without details.
        if text(strategy, "type") == "RollingUpdate" {
            within(strategy, "rollingUpdate", |rolling| default_to(rolling, "partition", 0));
        }
    }
    if let Some(retention) = object(spec, "persistentVolumeClaimRetentionPolicy") {
        default_zero(retention, "whenDeleted", "Retain");
        default_zero(retention, "whenScaled", "Retain");
    }
    each(spec, "volumeClaimTemplates", claim_template);
    pod_template(spec);
    if let Some(status) = object(stateful_set, "status") {
        default_to(status, "replicas", 0);
        default_to(status, "availableReplicas", 0);
    }
}

fn claim_template(claim: &mut Value) {
    set(claim, "apiVersion", "v1");
    set(claim, "kind", "PersistentVolumeClaim");
    object(claim, "metadata");
    if let Some(spec) = object(claim, "spec") {
        claim_spec(spec);
    }
    if let Some(status) = object(claim, "status") {
        default_zero(status, "phase", "Pending");
    }
}

/// The feature behind `maxUnavailable` is off by default, so the field is dropped.
pub(super) fn stateful_set_create(stateful_set: &mut Value) {
    if let Some(rolling) = stateful_set.pointer_mut("/spec/updateStrategy/rollingUpdate") {
        remove(rolling, "maxUnavailable");
    }
}

pub(super) fn stateful_set_update(new: &mut Value, old: &Value) {
    let in_use = old.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable").is_some();
    if !in_use {
        stateful_set_create(new);
    }
}

/// Part of the defaults, so that every writer of a DaemonSet owns the annotation.
pub(super) fn daemon_set_counted(daemon_set: &mut Value) {
    let generation = template_generation(daemon_set);
    set_template_generation(daemon_set, generation);
}

pub(super) fn daemon_set_create(daemon_set: &mut Value) {
    let generation = template_generation(daemon_set).max(1);
    set_template_generation(daemon_set, generation);
}

pub(super) fn daemon_set_update(new: &mut Value, old: &Value) {
    let template = "/spec/template";
    let changed = !same(new.pointer(template), old.pointer(template));
    set_template_generation(new, template_generation(old) + i64::from(changed));
}

/// The template generation belongs to the spec, which a status write cannot change.
pub(super) fn daemon_set_status_update(new: &mut Value, old: &Value) {
    carry(new, old, "spec");
    set_template_generation(new, template_generation(old));
}

fn template_generation(daemon_set: &Value) -> i64 {
    let annotations = daemon_set.pointer("/metadata/annotations");
    let count = annotations.map(|annotations| text(annotations, TEMPLATE_GENERATION));
    count.and_then(|count| count.parse().ok()).unwrap_or_default()
}

fn set_template_generation(daemon_set: &mut Value, generation: i64) {
    let annotations = object(daemon_set, "metadata").and_then(|meta| object(meta, "annotations"));
    if let Some(annotations) = annotations {
        set(annotations, TEMPLATE_GENERATION, generation.to_string());
    }
}

/// A Deployment's annotations are copied to its `ReplicaSets`, so they count as a change of spec.
pub(super) fn deployment_changed(new: &Value, old: &Value) -> bool {
    ["/spec", "/metadata/annotations"]
        .into_iter()
        .any(|pointer| !same(new.pointer(pointer), old.pointer(pointer)))
}

/// Labels of a Deployment do not change through its status.
pub(super) fn deployment_status_update(new: &mut Value, old: &Value) {
    carry(new, old, "spec");
    if let (Some(meta), Some(old_meta)) = (object(new, "metadata"), old.get("metadata")) {
        carry(meta, old_meta, "labels");
    }
    if let Some(status) = object(new, "status") {
        let counts = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ];
        drop_zeroes(status, &counts);
    }
}

/// Drops zero counts from the status of a ReplicaSet or StatefulSet.
pub(super) fn scaled_status_update(new: &mut Value, old: &Value) {
    carry(new, old, "spec");
    if let Some(status) = object(new, "status") {
        let counts = [
            "observedGeneration",
            "fullyLabeledReplicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
        ];
        drop_zeroes(status, &counts);
    }
}

/// Revisions are written whole and never change.
pub(super) fn controller_revision_defaults(revision: &mut Value) {
    default_to(revision, "revision", json!(0));
}
