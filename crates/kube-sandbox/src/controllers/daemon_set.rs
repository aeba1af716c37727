//! Keeps one pod of a DaemonSet on every node it fits.
//!
//! A daemon is created with an affinity to its node and bound by the scheduler like any pod. An
//! update replaces old pods a few at a time, deleting first (`maxUnavailable`) or creating first
//! (`maxSurge`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, DAEMON_SETS, NODES, PODS},
    controllers::{
        Change, Controller, Key, Next,
        claim::Claims,
        events::{Recorder, normal, warning},
        intstr::{Rounding, scaled_or},
        object::{
            Kind, count, is_deleting, key, label, name, namespace, set_at, set_count, settle,
            sooner, text, time, write_status,
        },
        pods,
        revisions::{self, Style},
    },
    failure::Outcome,
};

mod placement;
mod update;

use placement::{Placement, placement};

pub(crate) const DAEMON_SET: Kind = Kind { api_version: "apps/v1", kind: "DaemonSet" };
const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";

const STYLE: Style = Style { owner: DAEMON_SET, resource: DAEMON_SETS, hash_label: HASH_LABEL };

#[derive(Debug)]
pub(crate) struct DaemonSetController {
    claims: Claims,
    recorder: Recorder,
}

/// State of one reconcile of one DaemonSet.
struct Look<'a> {
    cluster: &'a dyn Cluster,
    recorder: &'a mut Recorder,
    set: &'a Value,
    now: Timestamp,
    /// The hash label of pods made from the current template.
    hash: String,
    /// The generation of the current template, for the older label with the same purpose.
    generation: i64,
    nodes: Vec<Value>,
    /// Pods by the node that they run on or are meant for.
    daemons: BTreeMap<String, Vec<Value>>,
}

/// Pods to create and delete.
#[derive(Debug, Default)]
struct Plan {
    create_on: Vec<String>,
    delete: Vec<String>,
}

// === impl DaemonSetController ===

impl Default for DaemonSetController {
    fn default() -> Self {
        Self {
            claims: Claims::new(DAEMON_SET, DAEMON_SETS, PODS),
            recorder: Recorder::new("daemonset-controller"),
        }
    }
}

impl Controller for DaemonSetController {
    fn name(&self) -> &'static str {
        "daemonset"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("apps", "daemonsets"), ("", "pods"), ("", "nodes")]
    }

    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        match change.plural {
            "pods" => self.claims.owners(cluster, change),
            "nodes" if !changes_placement(change) => Vec::new(),
            "nodes" => cluster.list(DAEMON_SETS, None).iter().map(key).collect(),
            _ => vec![Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() }],
        }
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(set) = cluster.get(DAEMON_SETS, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        if is_deleting(&set) {
            return Next::Idle;
        }
        settle(self.sync(cluster, &set))
    }
}

impl DaemonSetController {
    fn sync(&mut self, cluster: &dyn Cluster, set: &Value) -> Outcome<Next> {
        let history = revisions::history(cluster, STYLE, set)?;
        let hash = revisions::hash(&history.current, STYLE).to_owned();
        let mut look = Look {
            cluster,
            recorder: &mut self.recorder,
            set,
            now: cluster.now(),
            hash: hash.clone(),
            generation: revisions::template_generation(set)
                .unwrap_or_else(|| revisions::number(&history.current)),
            nodes: cluster.list(NODES, None),
            daemons: by_node(self.claims.members(cluster, set)?),
        };
        let managed = look.manage();
        look.daemons = by_node(self.claims.members(cluster, set)?);
        let rolled = match &managed {
            Ok(true) => Ok(()),
            _ if text(set, "/spec/updateStrategy/type") == "OnDelete" => Ok(()),
            _ => look.roll(),
        };
        look.daemons = by_node(self.claims.members(cluster, set)?);
        let next = look.report()?;
        managed?;
        rolled?;
        let daemons = look.daemons.values().flatten();
        let live: Vec<_> = daemons.filter_map(|pod| label(pod, HASH_LABEL)).collect();
        revisions::truncate(cluster, set, &history.all, |revision| {
            let own = revisions::hash(revision, STYLE);
            own == hash || live.contains(&own)
        })?;
        Ok(next)
    }
}

/// Labels, taints and cordon of a node affect placement; its heartbeat does not.
fn changes_placement(change: &Change<'_>) -> bool {
    let part = |node: &Value| {
        let labels = node.pointer("/metadata/labels").cloned();
        (labels, node.pointer("/spec").cloned())
    };
    change.old.map(part) != change.new.map(part)
}

/// The pods of a set by node, without terminal pods that are being deleted.
fn by_node(members: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    let mut daemons: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pod in members {
        let ended = pods::is_terminal(&pod) && is_deleting(&pod);
        if let Some(node) = placement::node_of(&pod).filter(|_| !ended) {
            daemons.entry(node.to_owned()).or_default().push(pod);
        }
    }
    for pods in daemons.values_mut() {
        pods.sort_by_key(|pod| (time(pod, "/metadata/creationTimestamp"), name(pod).to_owned()));
    }
    daemons
}

// === impl Look ===

impl Look<'_> {
    fn is_updated(&self, pod: &Value) -> bool {
        let generation = revisions::template_generation(self.set).map(|g| g.to_string());
        let same_generation =
            generation.is_some() && generation.as_deref() == label(pod, GENERATION_LABEL);
        same_generation || label(pod, HASH_LABEL) == Some(self.hash.as_str())
    }

    fn is_available(&self, pod: &Value) -> bool {
        pods::is_available(pod, count(self.set, "/spec/minReadySeconds"), self.now)
    }

    /// `maxSurge` and `maxUnavailable` as numbers, out of `desired` daemons.
    fn allowances(&self, desired: i64) -> (i64, i64) {
        if text(self.set, "/spec/updateStrategy/type") == "OnDelete" {
            return (0, 0);
        }
        let at = |key: &str| self.set.pointer(&format!("/spec/updateStrategy/rollingUpdate/{key}"));
        let surge = scaled_or(at("maxSurge"), desired, Rounding::Up, 0);
        let unavailable = scaled_or(at("maxUnavailable"), desired, Rounding::Up, 0);
        let neither = desired > 0 && surge == 0 && unavailable == 0;
        (surge, if neither { 1 } else { unavailable })
    }

    /// Ensures one pod on each eligible node and none elsewhere. True if it changed anything.
    fn manage(&mut self) -> Outcome<bool> {
        let mut plan = Plan::default();
        for node in self.nodes.clone() {
            self.plan_node(&node, &mut plan);
        }
        let orphaned = self
            .daemons
            .iter()
            .filter(|(node, _)| self.nodes.iter().all(|known| name(known) != node.as_str()));
        let unscheduled = orphaned.flat_map(|(_, pods)| pods);
        let unscheduled = unscheduled.filter(|pod| text(pod, "/spec/nodeName").is_empty());
        let unscheduled: Vec<_> = unscheduled.map(|pod| name(pod).to_owned()).collect();
        plan.delete.extend(unscheduled);
        self.carry_out(plan)
    }

    fn plan_node(&mut self, node: &Value, plan: &mut Plan) {
        let daemons = self.daemons.get(name(node)).cloned().unwrap_or_default();
        let living = daemons.iter().filter(|pod| !is_deleting(pod));
        match placement(self.set, node) {
            Placement::Run if daemons.is_empty() => plan.create_on.push(name(node).to_owned()),
            Placement::Leave => plan.delete.extend(living.map(|pod| name(pod).to_owned())),
            place => {
                let (ended, running): (Vec<_>, Vec<_>) = living.partition(|p| pods::is_terminal(p));
                for pod in ended {
                    self.record_end(node, pod);
                    plan.delete.push(name(pod).to_owned());
                }
                self.plan_running(node, place, &running, plan);
            }
        }
    }

    fn plan_running(&self, node: &Value, place: Placement, running: &[&Value], plan: &mut Plan) {
        let surging = self.allowances(1).0 > 0;
        if !surging {
            plan.delete.extend(running.iter().skip(1).map(|pod| name(pod).to_owned()));
            return;
        }
        if running.is_empty() && place == Placement::Run {
            plan.create_on.push(name(node).to_owned());
            return;
        }
        // During a surge a node may have one old and one new pod, until one of them is unusable.
        let (new, old): (Vec<&Value>, Vec<&Value>) =
            running.iter().partition(|pod| label(pod, HASH_LABEL) == Some(self.hash.as_str()));
        let surplus = new.iter().skip(1).chain(old.iter().skip(1));
        plan.delete.extend(surplus.map(|pod| name(pod).to_owned()));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!pods::is_ready(old) || self.is_available(new))
        {
            plan.delete.push(name(old).to_owned());
        }
    }

    fn record_end(&mut self, node: &Value, pod: &Value) {
        let (place, pod_name) = (namespace(pod), name(pod));
        let node = name(node);
        let (set, cluster) = (self.set, self.cluster);
        if pods::phase(pod) == "Failed" {
            let message = format!(
                "Found failed daemon pod {place}/{pod_name} on node {node}, will try to kill it"
            );
            self.recorder.record(cluster, DAEMON_SET, set, warning("FailedDaemonPod", &message));
        } else {
            let message = format!(
                "Found succeeded daemon pod {place}/{pod_name} on node {node}, will try to delete it"
            );
            self.recorder.record(cluster, DAEMON_SET, set, normal("SucceededDaemonPod", &message));
        }
    }

    fn carry_out(&mut self, plan: Plan) -> Outcome<bool> {
        let busy = !plan.create_on.is_empty() || !plan.delete.is_empty();
        for node in plan.create_on {
            let pod = placement::pod_for(self.set, &self.hash, self.generation, &node);
            pods::create(self.cluster, self.recorder, DAEMON_SET, self.set, pod)?;
        }
        for pod in plan.delete {
            pods::delete(self.cluster, self.recorder, DAEMON_SET, self.set, &pod)?;
        }
        Ok(busy)
    }

    fn report(&self) -> Outcome<Next> {
        let (mut desired, mut current, mut misscheduled) = (0, 0, 0);
        let (mut ready, mut available, mut updated) = (0, 0, 0);
        let mut wait = Next::Idle;
        let min_ready_s = count(self.set, "/spec/minReadySeconds");
        for node in &self.nodes {
            let daemon = self.daemons.get(name(node)).and_then(|daemons| daemons.first());
            if placement(self.set, node) != Placement::Run {
                misscheduled += i64::from(daemon.is_some());
                continue;
            }
            desired += 1;
            let Some(pod) = daemon else { continue };
            current += 1;
            ready += i64::from(pods::is_ready(pod));
            available += i64::from(self.is_available(pod));
            updated += i64::from(self.is_updated(pod));
            wait = sooner(wait, pods::next_available([pod], min_ready_s, self.now));
        }
        let mut status = self.set.get("status").cloned().unwrap_or_else(|| json!({}));
        let always = [
            ("observedGeneration", count(self.set, "/metadata/generation")),
            ("desiredNumberScheduled", desired),
            ("currentNumberScheduled", current),
            ("numberMisscheduled", misscheduled),
            ("numberReady", ready),
        ];
        for (key, value) in always {
            set_at(&mut status, &[key], value);
        }
        set_count(&mut status, "updatedNumberScheduled", updated);
        set_count(&mut status, "numberAvailable", available);
        set_count(&mut status, "numberUnavailable", desired - available);
        write_status(self.cluster, DAEMON_SETS, self.set, status)?;
        Ok(wait)
    }
}

#[cfg(test)]
mod tests;
