//! Keeps the number of pods that a ReplicaSet asks for.
//!
//! Failed and finished pods do not count and are replaced. Surplus pods are deleted in
//! [`deletion_order`].

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, PODS, REPLICA_SETS},
    controllers::{
        Change, Controller, Key, Next,
        claim::Claims,
        events::Recorder,
        object::{
            Kind, annotation, controller_of, count, int, is_deleting, items, name, namespace,
            set_at, set_count, settle, stamp, text, time, uid, unset, write_status,
        },
        pods,
    },
    failure::{Failure, Outcome},
    selector::LabelSelector,
};

pub(crate) const REPLICA_SET: Kind = Kind { api_version: "apps/v1", kind: "ReplicaSet" };

/// Maximum number of pods created or deleted in one reconcile, as in `kube-controller-manager`.
const BURST: usize = 500;

#[derive(Debug)]
pub(crate) struct ReplicaSetController {
    claims: Claims,
    recorder: Recorder,
}

/// Criteria for the order of deletion.
struct Candidate<'a> {
    pod: &'a Value,
    /// Active pods of the same workload on the same node.
    neighbours: usize,
}

// === impl ReplicaSetController ===

impl Default for ReplicaSetController {
    fn default() -> Self {
        Self {
            claims: Claims::new(REPLICA_SET, REPLICA_SETS, PODS),
            recorder: Recorder::new("replicaset-controller"),
        }
    }
}

impl Controller for ReplicaSetController {
    fn name(&self) -> &'static str {
        "replicaset"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("apps", "replicasets"), ("", "pods")]
    }

    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        if change.plural == "pods" {
            return self.claims.owners(cluster, change);
        }
        vec![Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() }]
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(set) = cluster.get(REPLICA_SETS, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        settle(self.sync(cluster, &set))
    }
}

impl ReplicaSetController {
    fn sync(&mut self, cluster: &dyn Cluster, set: &Value) -> Outcome<Next> {
        let members = self.claims.members(cluster, set)?;
        let (mut active, others): (Vec<_>, Vec<_>) = members.into_iter().partition(pods::is_active);
        let terminating = others.iter().filter(|pod| pods::is_terminating(pod)).count();
        let managed =
            if is_deleting(set) { Ok(()) } else { self.manage(cluster, set, &mut active) };
        let now = cluster.now();
        let status = status(set, &active, terminating, managed.as_ref().err(), now);
        write_status(cluster, REPLICA_SETS, set, status)?;
        managed?;
        Ok(pods::next_available(&active, count(set, "/spec/minReadySeconds"), now))
    }

    /// Creates missing pods or deletes surplus ones, and updates `active`.
    fn manage(
        &mut self,
        cluster: &dyn Cluster,
        set: &Value,
        active: &mut Vec<Value>,
    ) -> Outcome<()> {
        let wanted = wanted(set);
        let template = set.pointer("/spec/template").cloned().unwrap_or_default();
        for _ in 0..wanted.saturating_sub(active.len()).min(BURST) {
            let pod = pods::from_template(&template, set, REPLICA_SET);
            active.push(pods::create(cluster, &mut self.recorder, REPLICA_SET, set, pod)?);
        }
        let surplus = active.len().saturating_sub(wanted).min(BURST);
        if surplus == 0 {
            return Ok(());
        }
        let related = related_pods(cluster, set, active);
        let order = deletion_order(active, &related, cluster.now());
        for pod in order.into_iter().take(surplus) {
            pods::delete(cluster, &mut self.recorder, REPLICA_SET, set, &pod)?;
            active.retain(|kept| name(kept) != pod);
        }
        Ok(())
    }
}

fn wanted(set: &Value) -> usize {
    usize::try_from(int(set, "/spec/replicas").unwrap_or(1)).unwrap_or_default()
}

fn status(
    set: &Value,
    active: &[Value],
    terminating: usize,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Value {
    let min_ready_s = count(set, "/spec/minReadySeconds");
    let fully_labelled = LabelSelector::from_map(set.pointer("/spec/template/metadata/labels"));
    let tally = |test: &dyn Fn(&Value) -> bool| {
        i64::try_from(active.iter().filter(|pod| test(pod)).count()).unwrap_or(i64::MAX)
    };
    let mut status = set.get("status").cloned().unwrap_or_else(|| json!({}));
    set_at(&mut status, &["replicas"], tally(&|_| true));
    set_count(&mut status, "fullyLabeledReplicas", tally(&|pod| fully_labelled.selects(pod)));
    set_count(&mut status, "readyReplicas", tally(&pods::is_ready));
    let available = tally(&|pod| pods::is_available(pod, min_ready_s, now));
    set_count(&mut status, "availableReplicas", available);
    set_at(&mut status, &["terminatingReplicas"], i64::try_from(terminating).unwrap_or(i64::MAX));
    set_at(&mut status, &["observedGeneration"], count(set, "/metadata/generation"));
    let mut conditions = items(&status, "/conditions").to_vec();
    set_failure(&mut conditions, set, active, failure, now);
    if conditions.is_empty() {
        unset(&mut status, "", "conditions");
    } else {
        set_at(&mut status, &["conditions"], conditions);
    }
    status
}

/// Reports that pods could not be created or deleted; a failure already reported keeps its message.
fn set_failure(
    conditions: &mut Vec<Value>,
    set: &Value,
    active: &[Value],
    failure: Option<&Failure>,
    now: Timestamp,
) {
    let is_failure = |condition: &Value| text(condition, "/type") == "ReplicaFailure";
    let Some(failure) = failure else {
        conditions.retain(|condition| !is_failure(condition));
        return;
    };
    if conditions.iter().any(is_failure) {
        return;
    }
    let reason = if active.len() < wanted(set) { "FailedCreate" } else { "FailedDelete" };
    conditions.push(json!({
        "type": "ReplicaFailure", "status": "True", "reason": reason,
        "message": failure.to_string(),
        "lastTransitionTime": stamp(now),
    }));
}

/// All pods of the `ReplicaSets` that share this set's owner, or its own pods if it has none.
fn related_pods(cluster: &dyn Cluster, set: &Value, active: &[Value]) -> Vec<Value> {
    let Some(owner) = controller_of(set) else { return active.to_vec() };
    let siblings = cluster.owned(REPLICA_SETS, namespace(set), owner.uid);
    let pods = siblings.iter().map(|sibling| cluster.owned(PODS, namespace(set), uid(sibling)));
    pods.flatten().filter(pods::is_active).collect()
}

/// The names of `pods`, the first to delete in front.
///
/// Unscheduled before scheduled, pending before running, unready before ready, low before high cost
/// (`controller.kubernetes.io/pod-deletion-cost`), many before few neighbours on the node, ready
/// for a short before a long time, many before few restarts, young before old.
fn deletion_order(pods: &[Value], related: &[Value], now: Timestamp) -> Vec<String> {
    let node = |pod: &Value| text(pod, "/spec/nodeName").to_owned();
    let mut candidates: Vec<_> = pods
        .iter()
        .map(|pod| Candidate {
            pod,
            neighbours: related.iter().filter(|other| node(other) == node(pod)).count(),
        })
        .collect();
    candidates.sort_by(|one, other| one.before(other, now));
    candidates.into_iter().map(|candidate| name(candidate.pod).to_owned()).collect()
}

// === impl Candidate ===

impl Candidate<'_> {
    fn before(&self, other: &Self, now: Timestamp) -> Ordering {
        let (one, two) = (self.pod, other.pod);
        let assigned = |pod: &Value| !text(pod, "/spec/nodeName").is_empty();
        let rank = |pod: &Value| match pods::phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let created = |pod: &Value| time(pod, "/metadata/creationTimestamp");
        assigned(one)
            .cmp(&assigned(two))
            .then_with(|| rank(one).cmp(&rank(two)))
            .then_with(|| pods::is_ready(one).cmp(&pods::is_ready(two)))
            .then_with(|| deletion_cost(one).cmp(&deletion_cost(two)))
            .then_with(|| other.neighbours.cmp(&self.neighbours))
            .then_with(|| by_age(self, other, pods::ready_since, now))
            .then_with(|| restarts(two).cmp(&restarts(one)))
            .then_with(|| by_age(self, other, created, now))
            .then_with(|| uid(one).cmp(uid(two)))
    }
}

/// Younger first, but only by orders of magnitude: ages within a power of two are equal.
fn by_age(
    one: &Candidate<'_>,
    other: &Candidate<'_>,
    since: impl Fn(&Value) -> Option<Timestamp>,
    now: Timestamp,
) -> Ordering {
    let (Some(first), Some(second)) = (since(one.pod), since(other.pod)) else {
        return Ordering::Equal;
    };
    if first == second {
        return Ordering::Equal;
    }
    let magnitude = |at: Timestamp| {
        let age = now.duration_since(at).as_nanos();
        u128::try_from(age).ok().and_then(u128::checked_ilog2)
    };
    magnitude(first).cmp(&magnitude(second)).then_with(|| uid(one.pod).cmp(uid(other.pod)))
}

fn deletion_cost(pod: &Value) -> i32 {
    let cost = annotation(pod, "controller.kubernetes.io/pod-deletion-cost");
    cost.and_then(|cost| cost.parse().ok()).unwrap_or_default()
}

fn restarts(pod: &Value) -> i64 {
    let statuses = items(pod, "/status/containerStatuses").iter();
    statuses.map(|status| count(status, "/restartCount")).max().unwrap_or_default()
}

#[cfg(test)]
mod tests;
