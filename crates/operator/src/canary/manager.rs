//! Starts a task for every canary, and stops it when the canary is gone.
//!
//! Tasks are keyed by identity: a canary that was deleted and made again under its name is another
//! one, and the old task ends before the new one starts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Deserialize as _;
use serde_json::Value;
use tidegate_api::canary::CanaryPhase;
use tidegate_providers::{game::NODE, object::Kind};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
};
use tracing::{info, warn};

use super::{
    Context,
    task::{Task, jitter},
};
use crate::{
    cluster::{
        CANARY, Cluster, WATCHED,
        cache::Key,
        nodes::NodeListener,
        watch::{Listener, Silent, feed},
    },
    telemetry::Target,
};

/// Keeps the tasks. Dropping it stops everything at once; [`Manager::drain`] does so in order.
pub struct Manager {
    cx: Arc<Context>,
    tasks: BTreeMap<Key, Running>,
    watches: JoinSet<()>,
    changes: mpsc::UnboundedReceiver<Key>,
    stop: watch::Sender<bool>,
    started: bool,
    /// Of the order in which canaries are looked at first.
    seed: u64,
}

struct Running {
    uid: String,
    /// What a change must touch to wake the task.
    mark: Value,
    target: Target,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Hands names of changed canaries on.
struct Forward(mpsc::UnboundedSender<Key>);

impl Listener for Forward {
    fn changed(&mut self, key: &Key) {
        // Nobody listens any more when the operator stops.
        let _ = self.0.send(key.clone());
    }
}

// === impl Manager ===

impl Manager {
    /// Begins to watch. Tasks start once everything was listed.
    pub fn start(cx: Arc<Context>) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        for kind in WATCHED {
            let (cluster, clock) = (cx.cluster.clone(), Arc::clone(&cx.clock));
            if kind == CANARY {
                watches.spawn(feed(cluster, clock, kind, Forward(sender.clone())));
            } else {
                watches.spawn(feed(cluster, clock, kind, Silent));
            }
        }
        let nodes = NodeListener(cx.cluster.clone());
        watches.spawn(feed(cx.cluster.clone(), Arc::clone(&cx.clock), NODE, nodes));
        let (stop, _) = watch::channel(false);
        let seed = cx.clock.now().as_microsecond().unsigned_abs();
        Self { cx, seed, tasks: BTreeMap::new(), watches, changes, stop, started: false }
    }

    /// Starts and stops tasks as canaries come and go. Ends only if the watch of canaries does.
    pub async fn run(&mut self) {
        self.cx.cluster.wait_until(Cluster::is_synced).await;
        let all = self.cx.cluster.cache.list(CANARY);
        info!(canaries = all.len(), "Caches are filled");
        for canary in all {
            self.look_at(&Key::of(&canary)).await;
        }
        self.started = true;
        while let Some(key) = self.changes.recv().await {
            self.look_at(&key).await;
        }
    }

    /// Lets every task finish the effect it is at, at most for `patience`.
    pub async fn drain(&mut self, patience: Duration) {
        let _ = self.stop.send(true);
        let deadline = self.cx.clock.sleep(patience);
        let tasks: Vec<_> = std::mem::take(&mut self.tasks).into_values().collect();
        for running in &tasks {
            let _ = running.stop.send(true);
        }
        let all = async {
            for running in tasks {
                let _ = running.task.await;
            }
            self.cx.tidied().await;
        };
        tokio::select! {
            biased;
            () = all => {}
            () = deadline => warn!("Some canaries did not come to rest in time"),
        }
    }

    /// Every canary that has a task, for gauges.
    fn count(&self) {
        let mut totals = BTreeMap::new();
        for key in self.tasks.keys() {
            *totals.entry(key.namespace.to_string()).or_insert(0_usize) += 1;
        }
        self.cx.telemetry.set_totals(&totals);
    }

    async fn look_at(&mut self, key: &Key) {
        let Some(canary) = self.cx.cluster.cache.get(CANARY, key) else {
            self.end(key).await;
            self.count();
            return;
        };
        let uid = canary["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        if self.tasks.get(key).is_some_and(|running| running.uid != uid) {
            self.end(key).await;
        }
        let mark = mark(&canary);
        if let Some(running) = self.tasks.get_mut(key) {
            if running.mark != mark {
                running.mark = mark;
                let former = std::mem::replace(&mut running.target, target(key, &canary));
                self.cx.cluster.cache.notify(key);
                self.forget(&former);
            }
            return;
        }
        self.begin(key, uid, &canary);
        self.count();
        self.wake_rivals(key, &canary);
    }

    fn begin(&mut self, key: &Key, uid: String, canary: &Value) {
        let (stop, stopped) = watch::channel(false);
        let is_first = !self.started && !is_waited_for(canary);
        let spread = if is_first { self.cx.options.spread } else { Duration::ZERO };
        let delay = jitter(&uid, self.seed, spread);
        let task = Task::new(Arc::clone(&self.cx), key.clone(), uid.clone());
        let task = tokio::spawn(task.run(delay, stopped));
        let (mark, target) = (mark(canary), target(key, canary));
        self.tasks.insert(key.clone(), Running { uid, mark, target, stop, task });
    }

    async fn end(&mut self, key: &Key) {
        let Some(running) = self.tasks.remove(key) else { return };
        let _ = running.stop.send(true);
        // The old one must be over before anything else acts under this name.
        let _ = running.task.await;
        self.forget(&running.target);
        self.wake_all(&key.namespace);
    }

    /// Series go with the last canary of their target.
    fn forget(&self, target: &Target) {
        if !self.tasks.values().any(|running| running.target == *target) {
            self.cx.telemetry.forget(target);
        }
    }

    /// Canaries of the same target look again: one of them must stand back.
    fn wake_rivals(&self, key: &Key, canary: &Value) {
        let target = canary["spec"]["targetRef"]["name"].as_str().unwrap_or_default();
        for (other, running) in &self.tasks {
            if other != key && other.namespace == key.namespace && running.target.name == target {
                self.cx.cluster.cache.notify(other);
            }
        }
    }

    fn wake_all(&self, namespace: &str) {
        for key in self.tasks.keys().filter(|key| &*key.namespace == namespace) {
            self.cx.cluster.cache.notify(key);
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        for running in self.tasks.values() {
            running.task.abort();
        }
        self.watches.abort_all();
        self.cx.end_beside();
    }
}

/// Whose series a canary has.
fn target(key: &Key, canary: &Value) -> Target {
    let name = canary["spec"]["targetRef"]["name"].as_str().unwrap_or_default();
    Target::new(key.namespace.to_string(), name)
}

/// Whether somebody waits for the next step of it: it is not held up at the start.
fn is_waited_for(canary: &Value) -> bool {
    let phase = CanaryPhase::deserialize(&canary["status"]["phase"]).unwrap_or_default();
    phase.is_under_way() || canary["metadata"]["deletionTimestamp"].is_string()
}

/// What of a canary wakes its task: not its status, which is our own writing.
fn mark(canary: &Value) -> Value {
    let metadata = &canary["metadata"];
    serde_json::json!([
        metadata["generation"],
        metadata["deletionTimestamp"],
        metadata["finalizers"],
        metadata["annotations"],
    ])
}

/// Watches a kind from now on, if it is not watched already.
pub(super) fn watch_too(cx: &Arc<Context>, kind: Kind) {
    if cx.cluster.claim(kind) {
        cx.spawn_beside(cx.cluster.clone().load_schema(kind));
        cx.spawn_beside(feed(cx.cluster.clone(), Arc::clone(&cx.clock), kind, Silent));
    }
}
