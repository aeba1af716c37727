//! Test harness: an in-memory cluster of maps, with all controllers running in virtual time.
//!
//! [`Simulation`] steps controllers one key at a time in an order drawn from a seed, checks a
//! test's invariants after every step, and moves the clock only when no work is left.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock::later,
    cluster::{Cluster, Deletion, NAMESPACES, NODES, PODS, Resource},
    control_plane::{self, ControllerSettings},
    controllers::{
        Change, Controller, Key, MetricsKnob, Next,
        object::{items, name, text},
        pods,
    },
    kubelet::{Behaviours, KubeletSettings, node_object},
};

mod fake;
mod fixtures;

pub(crate) use fake::FakeCluster;
pub(crate) use fixtures::{daemon_set, deployment, service, set_image, stateful_set, template};

/// More steps than any test needs; past this a loop does not settle.
const STEPS_MAX: usize = 50_000;

type Check = Box<dyn Fn(&FakeCluster)>;

pub(crate) struct Simulation {
    pub(crate) cluster: FakeCluster,
    pub(crate) behaviours: Behaviours,
    pub(crate) metrics: MetricsKnob,
    controllers: Vec<Box<dyn Controller>>,
    queue: BTreeSet<(usize, Key)>,
    timers: BTreeMap<(usize, Key), Timestamp>,
    check: Option<Check>,
}

// === impl Simulation ===

impl Simulation {
    pub(crate) fn new() -> Self {
        Self::with(KubeletSettings::instant(), 1)
    }

    pub(crate) fn with(kubelet: KubeletSettings, seed: u64) -> Self {
        let behaviours = kubelet.behaviours.clone();
        let metrics = MetricsKnob::default();
        let root_certificate = "test certificate".to_owned();
        let settings = ControllerSettings { kubelet, metrics: metrics.clone(), root_certificate };
        let simulation = Self {
            cluster: FakeCluster::new(seed),
            behaviours,
            metrics,
            controllers: control_plane::all(settings),
            queue: BTreeSet::new(),
            timers: BTreeMap::new(),
            check: None,
        };
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "default" },
        });
        simulation.cluster.create(NAMESPACES, "", namespace).unwrap();
        for index in 0..3 {
            let node = node_object(&format!("node-{index}"), index, simulation.cluster.now());
            simulation.cluster.create(NODES, "", node).unwrap();
        }
        simulation
    }

    /// Runs `check` after every step; it panics on a violation.
    pub(crate) fn always(&mut self, check: impl Fn(&FakeCluster) + 'static) {
        self.check = Some(Box::new(check));
    }

    pub(crate) fn create(&self, resource: Resource, object: Value) -> Value {
        self.cluster.create(resource, "default", object).unwrap()
    }

    pub(crate) fn find(&self, resource: Resource, name: &str) -> Option<Value> {
        self.cluster.get(resource, "default", name)
    }

    pub(crate) fn get(&self, resource: Resource, name: &str) -> Value {
        self.find(resource, name).unwrap_or_else(|| panic!("no {} {name}", resource.plural))
    }

    pub(crate) fn list(&self, resource: Resource) -> Vec<Value> {
        self.cluster.list(resource, Some("default"))
    }

    pub(crate) fn patch(&self, resource: Resource, name: &str, patch: &Value) -> Value {
        self.cluster.patch(resource, "default", name, "", patch).unwrap()
    }

    pub(crate) fn delete(&self, resource: Resource, name: &str) {
        self.cluster.delete(resource, "default", name, &Deletion::default()).unwrap();
    }

    /// Pods that are not being deleted.
    pub(crate) fn active_pods(&self) -> Vec<Value> {
        self.list(PODS).into_iter().filter(pods::is_active).collect()
    }

    pub(crate) fn images(&self) -> BTreeSet<String> {
        let pods = self.active_pods();
        let images = pods.iter().map(|pod| text(pod, "/spec/containers/0/image").to_owned());
        images.collect()
    }

    /// Messages of all events with `reason`, in order of first occurrence.
    pub(crate) fn events(&self, reason: &str) -> Vec<String> {
        self.cluster.events(reason)
    }

    pub(crate) fn condition(&self, resource: Resource, name: &str, kind: &str) -> Value {
        let object = self.get(resource, name);
        let conditions = items(&object, "/status/conditions");
        conditions.iter().find(|c| text(c, "/type") == kind).cloned().unwrap_or_default()
    }

    /// Runs all due work until none is left.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            self.hand_out();
            let Some(entry) = self.pick() else { return };
            self.step(entry);
        }
        panic!("the cluster does not settle: {:?}", self.queue);
    }

    /// Advances the clock, stopping wherever work is due.
    pub(crate) fn advance(&mut self, seconds: u64) {
        self.advance_by(std::time::Duration::from_secs(seconds));
    }

    pub(crate) fn advance_by(&mut self, by: std::time::Duration) {
        let end = later(self.cluster.now(), by);
        loop {
            self.settle();
            let due = self.timers.values().min().copied().filter(|due| *due <= end);
            let Some(due) = due else { break };
            self.cluster.set_now(due.max(self.cluster.now()));
            let ready: Vec<_> =
                self.timers.iter().filter(|(_, at)| **at <= due).map(|(e, _)| e.clone()).collect();
            for entry in ready {
                self.timers.remove(&entry);
                self.queue.insert(entry);
            }
        }
        self.cluster.set_now(end);
        self.settle();
    }

    /// Asserts that a settled cluster does not change.
    pub(crate) fn assert_quiet(&mut self) {
        self.settle();
        let before = self.cluster.writes();
        for controller in 0..self.controllers.len() {
            for (group, plural) in self.controllers[controller].watches() {
                for object in self.cluster.list(Resource { group, plural }, None) {
                    let change = Change {
                        group,
                        plural,
                        namespace: text(&object, "/metadata/namespace"),
                        name: name(&object),
                        old: None,
                        new: Some(&object),
                    };
                    let keys = self.controllers[controller].keys(&self.cluster, &change);
                    self.queue.extend(keys.into_iter().map(|key| (controller, key)));
                }
            }
        }
        self.settle();
        assert_eq!(self.cluster.writes(), before, "a look at a converged cluster wrote something");
    }

    fn hand_out(&mut self) {
        for changed in self.cluster.take_changes() {
            let change = changed.as_change();
            for (index, controller) in self.controllers.iter().enumerate() {
                if controller.watches().contains(&(change.group, change.plural)) {
                    let keys = controller.keys(&self.cluster, &change);
                    self.queue.extend(keys.into_iter().map(|key| (index, key)));
                }
            }
        }
    }

    fn pick(&mut self) -> Option<(usize, Key)> {
        let count = self.queue.len();
        if count == 0 {
            return None;
        }
        let index = usize::try_from(self.cluster.random() % count as u64).unwrap();
        let entry = self.queue.iter().nth(index).cloned();
        entry.inspect(|entry| {
            self.queue.remove(entry);
        })
    }

    fn step(&mut self, entry: (usize, Key)) {
        let next = self.controllers[entry.0].reconcile(&self.cluster, &entry.1);
        match next {
            Next::Idle => {
                self.timers.remove(&entry);
            }
            Next::After(wait) => {
                self.timers.insert(entry, later(self.cluster.now(), wait));
            }
            Next::Retry => {
                let wait = std::time::Duration::from_millis(10);
                self.timers.insert(entry, later(self.cluster.now(), wait));
            }
        }
        if let Some(check) = &self.check {
            check(&self.cluster);
        }
    }
}
