//! Keeps the status of `PodDisruptionBudgets`: how many pods may be evicted now.
//!
//! Evictions read the status that it writes, and record granted evictions there. While a budget
//! cannot be computed it allows none.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    cluster::{
        Cluster, DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, REPLICA_SETS, Resource, STATEFUL_SETS,
    },
    controllers::{
        Change, Controller, Key, Next,
        events::{Recorder, normal, warning},
        intstr::{Rounding, scaled},
        object::{
            Condition, Kind, controller_of, count, int, is_deleting, items, key, name, namespace,
            plus_seconds, set_at, settle, uid, unset, until, write_status,
        },
        pods,
    },
    failure::Outcome,
    selector::LabelSelector,
};

const BUDGET: Kind = Kind { api_version: "policy/v1", kind: "PodDisruptionBudget" };

/// A granted eviction that is not carried out expires after this long.
const DELETION_TIMEOUT_S: i64 = 120;

#[derive(Debug)]
pub(crate) struct DisruptionController {
    recorder: Recorder,
}

/// Requirements of a budget, in pods.
struct Demand {
    expected: i64,
    healthy: i64,
}

// === impl DisruptionController ===

impl Default for DisruptionController {
    fn default() -> Self {
        Self { recorder: Recorder::new("controllermanager") }
    }
}

impl Controller for DisruptionController {
    fn name(&self) -> &'static str {
        "disruption"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("policy", "poddisruptionbudgets"),
            ("", "pods"),
            ("apps", "deployments"),
            ("apps", "replicasets"),
            ("apps", "statefulsets"),
        ]
    }

    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        if change.plural == "poddisruptionbudgets" {
            let (namespace, name) = (change.namespace.to_owned(), change.name.to_owned());
            return vec![Key { namespace, name }];
        }
        let budgets = cluster.list(DISRUPTION_BUDGETS, Some(change.namespace));
        let concerned = budgets.iter().filter(|budget| {
            if change.plural == "pods" {
                let selector = covered(budget);
                let pods = [change.old, change.new].into_iter().flatten();
                pods.into_iter().any(|pod| selector.selects(pod))
            } else {
                // Of a workload only its size matters.
                let size = |object: Option<&Value>| object.map(|o| count(o, "/spec/replicas"));
                size(change.old) != size(change.new)
            }
        });
        concerned.map(key).collect()
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(budget) = cluster.get(DISRUPTION_BUDGETS, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        settle(self.sync(cluster, &budget))
    }
}

impl DisruptionController {
    fn sync(&mut self, cluster: &dyn Cluster, budget: &Value) -> Outcome<Next> {
        let now = cluster.now();
        let pods = cluster.select(PODS, namespace(budget), &covered(budget));
        let disrupted = disrupted(budget, &pods, now);
        let demand = match demand(cluster, budget, &pods) {
            Ok(demand) => demand,
            Err(problem) => return self.fail_safe(cluster, budget, &problem),
        };
        if pods.is_empty() && count(budget, "/status/observedGeneration") == 0 {
            let what = normal("NoPods", "No matching pods found");
            self.recorder.record(cluster, BUDGET, budget, what);
        }
        let healthy = pods.iter().filter(|pod| {
            !is_deleting(pod) && !disrupted.contains_key(name(pod)) && pods::is_ready(pod)
        });
        let healthy = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
        let allowed = if demand.expected > 0 { (healthy - demand.healthy).max(0) } else { 0 };
        let mut status = budget.get("status").cloned().unwrap_or_else(|| json!({}));
        let numbers = [
            ("currentHealthy", healthy),
            ("desiredHealthy", demand.healthy),
            ("expectedPods", demand.expected),
            ("disruptionsAllowed", allowed),
            ("observedGeneration", count(budget, "/metadata/generation")),
        ];
        for (key, value) in numbers {
            set_at(&mut status, &[key], value);
        }
        let next = disrupted.values().map(|at| plus_seconds(*at, DELETION_TIMEOUT_S)).min();
        write_disrupted(&mut status, budget, &disrupted);
        let (state, reason) =
            if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        put_condition(&mut status, budget, state, reason, "", now);
        write_status(cluster, DISRUPTION_BUDGETS, budget, status)?;
        // One second later, when the grant has certainly expired.
        let wait = next.map(|at| until(now, at) + Duration::from_secs(1));
        Ok(wait.map_or(Next::Idle, Next::After))
    }

    /// Allows no eviction while the budget cannot be computed.
    fn fail_safe(&mut self, cluster: &dyn Cluster, budget: &Value, problem: &str) -> Outcome<Next> {
        let message = format!("Failed to calculate the number of expected pods: {problem}");
        let what = warning("CalculateExpectedPodCountFailed", &message);
        let mut status = budget.get("status").cloned().unwrap_or_else(|| json!({}));
        set_at(&mut status, &["disruptionsAllowed"], 0);
        set_at(&mut status, &["observedGeneration"], count(budget, "/metadata/generation"));
        put_condition(&mut status, budget, "False", "SyncFailed", problem, cluster.now());
        if budget.get("status") != Some(&status) {
            self.recorder.record(cluster, BUDGET, budget, what);
        }
        write_status(cluster, DISRUPTION_BUDGETS, budget, status)?;
        Ok(Next::Idle)
    }
}

/// An empty selector selects every pod of the namespace; a missing one selects none.
fn covered(budget: &Value) -> LabelSelector {
    let selector = LabelSelector::from_json(budget.pointer("/spec/selector"));
    selector.unwrap_or_else(|_| LabelSelector::nothing())
}

/// Evictions granted to pods that still exist, without expired ones.
fn disrupted(budget: &Value, pods: &[Value], now: Timestamp) -> BTreeMap<String, Timestamp> {
    let granted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    let granted = granted.into_iter().flatten().filter_map(|(pod, at)| {
        let at: Timestamp = at.as_str()?.parse().ok()?;
        let there = pods.iter().any(|other| name(other) == pod && !is_deleting(other));
        (there && plus_seconds(at, DELETION_TIMEOUT_S) >= now).then(|| (pod.clone(), at))
    });
    granted.collect()
}

fn put_condition(
    status: &mut Value,
    budget: &Value,
    state: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let mut conditions = items(status, "/conditions").to_vec();
    let condition = Condition { kind: "DisruptionAllowed", status: state, reason, message };
    condition.put(&mut conditions, now);
    let generation = count(budget, "/metadata/generation");
    for condition in &mut conditions {
        set_at(condition, &["observedGeneration"], generation);
    }
    set_at(status, &["conditions"], conditions);
}

/// Times are written back unchanged, so that an unchanged status causes no write.
fn write_disrupted(status: &mut Value, budget: &Value, disrupted: &BTreeMap<String, Timestamp>) {
    let written = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    let kept: Map<String, Value> = written
        .into_iter()
        .flatten()
        .filter(|(pod, _)| disrupted.contains_key(*pod))
        .map(|(pod, at)| (pod.clone(), at.clone()))
        .collect();
    if kept.is_empty() {
        unset(status, "", "disruptedPods");
    } else {
        set_at(status, &["disruptedPods"], kept);
    }
}

fn demand(cluster: &dyn Cluster, budget: &Value, pods: &[Value]) -> Result<Demand, String> {
    let at = |key: &str| budget.pointer(key).filter(|value| !value.is_null());
    if let Some(max_unavailable) = at("/spec/maxUnavailable") {
        let expected = expected_scale(cluster, pods)?;
        let unavailable = scaled(max_unavailable, expected, Rounding::Up);
        let unavailable = unavailable.ok_or("invalid value for maxUnavailable")?;
        return Ok(Demand { expected, healthy: (expected - unavailable).max(0) });
    }
    let Some(min_available) = at("/spec/minAvailable") else {
        return Ok(Demand { expected: 0, healthy: 0 });
    };
    if let Some(healthy) = min_available.as_i64() {
        return Ok(Demand { expected: i64::try_from(pods.len()).unwrap_or(i64::MAX), healthy });
    }
    let expected = expected_scale(cluster, pods)?;
    let healthy = scaled(min_available, expected, Rounding::Up);
    Ok(Demand { expected, healthy: healthy.ok_or("invalid value for minAvailable")? })
}

/// The total size of the workloads that own `pods`. Pods without an owner do not count.
fn expected_scale(cluster: &dyn Cluster, pods: &[Value]) -> Result<i64, String> {
    let mut sizes: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(pod) else { continue };
        if sizes.contains_key(owner.uid) {
            continue;
        }
        let size = owner_scale(cluster, namespace(pod), owner.kind, owner.name);
        let (uid, size) =
            size.ok_or_else(|| format!("found no controllers for pod {:?}", name(pod)))?;
        sizes.insert(uid, size);
        sizes.entry(owner.uid.to_owned()).or_insert(0);
    }
    Ok(sizes.values().sum())
}

/// The owning workload (for a ReplicaSet, its Deployment) and its size.
fn owner_scale(
    cluster: &dyn Cluster,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Option<(String, i64)> {
    let size = |resource: Resource, name: &str| {
        let owner = cluster.get(resource, namespace, name)?;
        let uid = uid(&owner).to_owned();
        Some((uid, int(&owner, "/spec/replicas").unwrap_or(1)))
    };
    match kind {
        "StatefulSet" => size(STATEFUL_SETS, name),
        "ReplicaSet" => {
            let set = cluster.get(REPLICA_SETS, namespace, name)?;
            match controller_of(&set).filter(|owner| owner.kind == "Deployment") {
                Some(deployment) => size(DEPLOYMENTS, deployment.name),
                None => size(REPLICA_SETS, name),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
