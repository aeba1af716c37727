//! The scheduler: binds pods to nodes.
//!
//! A pod goes to the node with the fewest pods among those it fits; ties are resolved by name, so
//! scheduling is reproducible. A pod that fits nowhere gets an event and is tried again when a node
//! changes or a pod ends.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, NODES, PODS},
    controllers::{
        Change, Controller, Key, Next,
        events::{Recorder, normal, warning},
        node_fit::misfit,
        object::{
            Condition, is_deleting, items, key, name, namespace, set_at, settle, text, uid,
            write_status,
        },
        pods::{self, POD},
    },
    failure::Outcome,
};

/// Default capacity of a node without a pod limit.
const PODS_PER_NODE: usize = 110;

/// The control loop that gives pods their nodes.
#[derive(Debug)]
pub struct Scheduler {
    recorder: Recorder,
    /// The pods on each node, by UID.
    loads: RefCell<BTreeMap<String, BTreeSet<String>>>,
    /// Pods that fit on no node when last tried.
    waiting: RefCell<BTreeSet<Key>>,
}

// === impl Scheduler ===

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            recorder: Recorder::new("default-scheduler"),
            loads: RefCell::default(),
            waiting: RefCell::default(),
        }
    }
}

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "pods"), ("", "nodes")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        if change.plural == "nodes" {
            return self.waiting.borrow().iter().cloned().collect();
        }
        let freed = self.count(change);
        let mut keys = BTreeSet::new();
        if change.new.is_some_and(|pod| text(pod, "/spec/nodeName").is_empty()) {
            let (namespace, name) = (change.namespace.to_owned(), change.name.to_owned());
            keys.insert(Key { namespace, name });
        }
        if freed {
            keys.extend(self.waiting.borrow().iter().cloned());
        }
        keys.into_iter().collect()
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let pod = cluster.get(PODS, &key.namespace, &key.name);
        let Some(pod) = pod.filter(is_schedulable) else {
            self.waiting.borrow_mut().remove(key);
            return Next::Idle;
        };
        settle(self.schedule(cluster, &pod))
    }
}

impl Scheduler {
    /// Updates the count of pods per node; true if a pod left a node.
    fn count(&self, change: &Change<'_>) -> bool {
        let mut loads = self.loads.borrow_mut();
        let mut freed = false;
        if let Some(pod) = change.new.or(change.old) {
            let node = text(pod, "/spec/nodeName");
            let occupies = change.new.is_some() && !pods::is_terminal(pod) && !node.is_empty();
            if occupies {
                loads.entry(node.to_owned()).or_default().insert(uid(pod).to_owned());
            } else if let Some(load) = loads.get_mut(node) {
                freed = load.remove(uid(pod));
            }
        }
        freed
    }

    fn schedule(&mut self, cluster: &dyn Cluster, pod: &Value) -> Outcome<Next> {
        let gates = items(pod, "/spec/schedulingGates");
        if !gates.is_empty() {
            let message = "Scheduling is blocked due to non-empty scheduling gates";
            return self.refuse(cluster, pod, "SchedulingGated", message);
        }
        let nodes = cluster.list(NODES, None);
        if nodes.is_empty() {
            let message = "no nodes available to schedule pods";
            return self.refuse(cluster, pod, "Unschedulable", message);
        }
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut fitting = Vec::new();
        for node in &nodes {
            match self.obstacle(pod, node) {
                Some(reason) => *reasons.entry(reason).or_default() += 1,
                None => fitting.push((self.load(name(node)), name(node))),
            }
        }
        if let Some((_, node)) = fitting.into_iter().min() {
            return self.bind(cluster, pod, node);
        }
        let total = nodes.len();
        let reasons = reasons.iter().map(|(reason, count)| format!("{count} {reason}"));
        let reasons: Vec<_> = reasons.collect();
        let message = format!(
            "0/{total} nodes are available: {}. preemption: 0/{total} nodes are available: \
             {total} Preemption is not helpful for scheduling.",
            reasons.join(", ")
        );
        self.refuse(cluster, pod, "Unschedulable", &message)
    }

    fn obstacle(&self, pod: &Value, node: &Value) -> Option<String> {
        let misfit = misfit(&pod["spec"], node).map(|misfit| misfit.to_string());
        misfit.or_else(|| {
            let room = text(node, "/status/allocatable/pods").parse().unwrap_or(PODS_PER_NODE);
            (self.load(name(node)) >= room).then(|| "Too many pods".to_owned())
        })
    }

    fn load(&self, node: &str) -> usize {
        self.loads.borrow().get(node).map_or(0, BTreeSet::len)
    }

    fn bind(&mut self, cluster: &dyn Cluster, pod: &Value, node: &str) -> Outcome<Next> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": name(pod), "namespace": namespace(pod), "uid": uid(pod) },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        cluster.update(PODS, "binding", binding)?;
        self.waiting.borrow_mut().remove(&key(pod));
        self.loads.borrow_mut().entry(node.to_owned()).or_default().insert(uid(pod).to_owned());
        let message = format!("Successfully assigned {}/{} to {node}", namespace(pod), name(pod));
        self.recorder.record(cluster, POD, pod, normal("Scheduled", &message));
        Ok(Next::Idle)
    }

    /// Reports that a pod fits on no node.
    fn refuse(
        &mut self,
        cluster: &dyn Cluster,
        pod: &Value,
        reason: &str,
        message: &str,
    ) -> Outcome<Next> {
        self.waiting.borrow_mut().insert(key(pod));
        let mut conditions = items(pod, "/status/conditions").to_vec();
        let condition = Condition { kind: "PodScheduled", status: "False", reason, message };
        condition.put(&mut conditions, cluster.now());
        let mut status = pod.get("status").cloned().unwrap_or_else(|| json!({}));
        set_at(&mut status, &["conditions"], conditions);
        if pod.get("status") == Some(&status) {
            return Ok(Next::Idle);
        }
        if text(&status, "/phase").is_empty() {
            set_at(&mut status, &["phase"], "Pending");
        }
        write_status(cluster, PODS, pod, status)?;
        if reason == "Unschedulable" {
            self.recorder.record(cluster, POD, pod, warning("FailedScheduling", message));
        }
        Ok(Next::Idle)
    }
}

/// True for an unbound pod that is assigned to this scheduler.
fn is_schedulable(pod: &Value) -> bool {
    let ours = matches!(text(pod, "/spec/schedulerName"), "" | "default-scheduler");
    ours && text(pod, "/spec/nodeName").is_empty() && !is_deleting(pod) && !pods::is_terminal(pod)
}
