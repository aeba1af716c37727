//! The simulated kubelet, a controller that runs the pods of every node.
//!
//! It pulls nothing and starts nothing; it moves each pod bound to a node through the states that a
//! real kubelet reports, with the delays of [`KubeletSettings`] and the faults of [`Behaviour`]:
//!
//! ```text
//! Pending ──pull, start──> Running, not ready ──ready──> Ready ──deleted──> stopping ──> gone
//! ```
//!
//! The state of a pod is kept in memory with nanoseconds, because times in objects have whole
//! seconds; a restarted kubelet recovers it from the pods' status.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    clock::later,
    cluster::{Cluster, Deletion, NODES, PODS},
    controllers::{
        Change, Controller, Key, Next,
        events::{Happening, Recorder},
        object::{count, flag, is_deleting, key, name, settle, text, uid, until, write_status},
        pods::{self, POD},
    },
    failure::Outcome,
};

mod behaviour;
mod container;
mod image;
mod logs;
mod node;
mod run;
mod scheduler;
mod settings;
mod status;

pub use behaviour::{Behaviour, Behaviours};
pub use logs::{log_entries, log_lines};
pub use node::node_object;
pub use scheduler::Scheduler;
pub use settings::KubeletSettings;

use run::{PodRun, Scene};

/// The control loop that runs pods, or pretends to.
#[derive(Debug)]
pub struct Kubelet {
    settings: KubeletSettings,
    recorder: Recorder,
    pods: BTreeMap<Key, PodRun>,
    /// The pod of each address in use; read from the pods when first needed.
    addresses: Option<BTreeMap<String, String>>,
    /// The host number of the address allocated last, by node.
    last_host: BTreeMap<String, u32>,
    /// Images that were pulled, by node.
    images: BTreeSet<(String, String)>,
    /// Pods bound to nodes that do not exist.
    stranded: RefCell<BTreeSet<Key>>,
}

/// An event to be written about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Notice {
    severity: &'static str,
    reason: &'static str,
    message: String,
    /// `spec.containers{web}`
    field: String,
}

// === impl Kubelet ===

impl Controller for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "pods"), ("", "nodes")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        if change.plural == "nodes" {
            let appeared = change.old.is_none();
            return if appeared { self.stranded.take().into_iter().collect() } else { Vec::new() };
        }
        let pod = change.new.or(change.old);
        let bound = pod.filter(|pod| !text(pod, "/spec/nodeName").is_empty());
        let place = || Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() };
        bound.map(|_| place()).into_iter().collect()
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let pod = cluster.get(PODS, &key.namespace, &key.name);
        let pod = pod.filter(|pod| !text(pod, "/spec/nodeName").is_empty());
        let known = self.pods.get(key).map(|run| run.uid.clone());
        if known.is_some() && known.as_deref() != pod.as_ref().map(uid) {
            self.forget(key);
        }
        let Some(pod) = pod else { return Next::Idle };
        let Some(node) = cluster.get(NODES, "", text(&pod, "/spec/nodeName")) else {
            return settle(self.strand(cluster, &pod));
        };
        settle(self.sync(cluster, &pod, &node))
    }
}

impl Kubelet {
    /// A kubelet for all nodes.
    pub fn new(settings: KubeletSettings) -> Self {
        Self {
            settings,
            recorder: Recorder::new("kubelet"),
            pods: BTreeMap::new(),
            addresses: None,
            last_host: BTreeMap::new(),
            images: BTreeSet::new(),
            stranded: RefCell::default(),
        }
    }

    fn forget(&mut self, key: &Key) {
        let run = self.pods.remove(key);
        if let (Some(run), Some(addresses)) = (run, &mut self.addresses) {
            addresses.retain(|_, holder| *holder != run.uid);
        }
    }

    /// Handles a pod on a node that does not exist: it never runs and can only be deleted.
    fn strand(&mut self, cluster: &dyn Cluster, pod: &Value) -> Outcome<Next> {
        if is_deleting(pod) {
            return remove(cluster, pod);
        }
        self.stranded.borrow_mut().insert(key(pod));
        Ok(Next::Idle)
    }

    fn sync(&mut self, cluster: &dyn Cluster, pod: &Value, node: &Value) -> Outcome<Next> {
        let now = cluster.now();
        let place = key(pod);
        if !self.pods.contains_key(&place) {
            let mut run = PodRun::new(pod, now);
            if run.address.is_empty() {
                run.address = self.address(cluster, pod, node);
            }
            self.pods.insert(place.clone(), run);
        }
        if is_deleting(pod) {
            return self.stop(cluster, pod, node, &place, now);
        }
        let Self { settings, pods, images, recorder, .. } = self;
        let Some(run) = pods.get_mut(&place) else { return Ok(Next::Idle) };
        let scene = Scene { settings, pod, node: name(node), now };
        let (notices, next) = run.advance(&scene, images);
        tell(recorder, cluster, pod, node, &notices);
        let status = status::render(&scene, run, node);
        write_status(cluster, PODS, pod, status)?;
        Ok(next.map_or(Next::Idle, |at| Next::After(until(now, at))))
    }

    /// Stops a pod within its grace period, then removes it.
    fn stop(
        &mut self,
        cluster: &dyn Cluster,
        pod: &Value,
        node: &Value,
        place: &Key,
        now: Timestamp,
    ) -> Outcome<Next> {
        let Self { settings, pods, recorder, .. } = self;
        let Some(run) = pods.get_mut(place) else { return Ok(Next::Idle) };
        if run.removed {
            // A finalizer holds it; no container is left to run or to stop.
            return Ok(Next::Idle);
        }
        let notices = run.begin_to_stop(now);
        tell(recorder, cluster, pod, node, &notices);
        let grace = count(pod, "/metadata/deletionGracePeriodSeconds");
        let grace = std::time::Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        let stopped_at = later(run.stopping.unwrap_or(now), grace.min(settings.stop_delay));
        if now < stopped_at && !pods::is_terminal(pod) {
            return Ok(Next::After(until(now, stopped_at)));
        }
        run.end(stopped_at);
        let scene = Scene { settings, pod, node: name(node), now };
        let status = status::render(&scene, run, node);
        match write_status(cluster, PODS, pod, status) {
            Err(failure) if !failure.is_not_found() => return Err(failure),
            _ => {}
        }
        run.removed = true;
        remove(cluster, pod)
    }

    /// An address for a pod: the node's own, or the next free one of the node's range.
    fn address(&mut self, cluster: &dyn Cluster, pod: &Value, node: &Value) -> String {
        if flag(pod, "/spec/hostNetwork") {
            return node::internal_address(node).to_owned();
        }
        let taken = self.addresses.get_or_insert_with(|| {
            let pods = cluster.list(PODS, None);
            let live = pods.iter().filter(|pod| !pods::is_terminal(pod));
            live.map(|pod| (text(pod, "/status/podIP").to_owned(), uid(pod).to_owned())).collect()
        });
        let last = self.last_host.entry(name(node).to_owned()).or_insert(1);
        let mut address = String::new();
        for _ in 0..node::HOSTS {
            *last = node::next_host(*last);
            address = node::pod_address(node, *last);
            if !taken.contains_key(&address) {
                break;
            }
        }
        taken.insert(address.clone(), uid(pod).to_owned());
        address
    }
}

fn tell(
    recorder: &mut Recorder,
    cluster: &dyn Cluster,
    pod: &Value,
    node: &Value,
    notices: &[Notice],
) {
    for Notice { severity, reason, message, field } in notices {
        let what = Happening { severity, reason, message, field };
        recorder.on_host(name(node)).record(cluster, POD, pod, what);
    }
}

fn remove(cluster: &dyn Cluster, pod: &Value) -> Outcome<Next> {
    let deletion =
        Deletion { grace_period_s: Some(0), uid: Some(uid(pod).to_owned()), ..Deletion::default() };
    match cluster.delete(PODS, text(pod, "/metadata/namespace"), name(pod), &deletion) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(Next::Idle),
    }
}

#[cfg(test)]
mod tests;
