//! Starts a task for every game workload and every run of a hook, and stops it when that is gone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate_providers::{
    game::{
        CONTROLLER_REVISION, GAME_DEPLOYMENT, GAME_STATEFUL_SET, HOOK_RUN, HOOK_TEMPLATE, NODE,
        POD, is_selected, plan::PAUSED_BY_US,
    },
    object::{Kind, controller_of},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tracing::info;

use super::{
    life::{follower, live},
    run::Run,
    workload::{Workload, in_telemetry},
};
use crate::{
    canary::Context,
    cluster::{
        Cluster,
        cache::{Key, TableState},
        watch::{Listener, Silent, feed},
    },
};

/// Kinds that have tasks.
const TASKS: [Kind; 3] = [GAME_DEPLOYMENT, GAME_STATEFUL_SET, HOOK_RUN];
/// Kinds that are watched once there is a workload. Nodes are watched for canaries already.
const PARTS: [Kind; 2] = [POD, CONTROLLER_REVISION];
/// Between two looks whether the cluster knows these kinds at all.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Keeps the tasks. Dropping it stops them.
pub struct Manager {
    cx: Arc<Context>,
    tasks: BTreeMap<(Kind, Key), Running>,
    changes: mpsc::UnboundedReceiver<(Kind, Key)>,
    sender: mpsc::UnboundedSender<(Kind, Key)>,
    watches: tokio::task::JoinSet<()>,
    has_parts: bool,
}

struct Running {
    uid: String,
    /// What a change must touch to wake the task.
    mark: Value,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Hands names of changed objects on.
struct Forward(Kind, mpsc::UnboundedSender<(Kind, Key)>);

impl Listener for Forward {
    fn changed(&mut self, key: &Key) {
        // Nobody listens any more when the operator stops.
        let _ = self.1.send((self.0, key.clone()));
    }
}

/// Rings for the owner of an object that changed. Who saw it before follows it anyway.
struct Owners(Kind, Cluster);

impl Listener for Owners {
    fn changed(&mut self, key: &Key) {
        let Self(kind, cluster) = self;
        let Some(object) = cluster.cache.get(*kind, key) else { return };
        let ring = |kind: Kind, name: &str| {
            let owner = Key::new(&key.namespace, name);
            cluster.cache.notify(&follower(kind.plural, &owner));
        };
        match controller_of(&object) {
            Some((owner, name)) if owner == GAME_DEPLOYMENT.kind => ring(GAME_DEPLOYMENT, name),
            Some((owner, name)) if owner == GAME_STATEFUL_SET.kind => ring(GAME_STATEFUL_SET, name),
            Some(_) => {}
            // Whoever it matches may take it in.
            None => {
                for kind in [GAME_DEPLOYMENT, GAME_STATEFUL_SET] {
                    for workload in cluster.cache.list_in(kind, &key.namespace) {
                        let labels = &object["metadata"]["labels"];
                        if is_selected(&workload["spec"]["selector"], labels) {
                            ring(kind, workload["metadata"]["name"].as_str().unwrap_or_default());
                        }
                    }
                }
            }
        }
    }
}

// === impl Manager ===

impl Manager {
    pub fn new(cx: Arc<Context>) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        let watches = tokio::task::JoinSet::new();
        Self { cx, tasks: BTreeMap::new(), changes, sender, watches, has_parts: false }
    }

    /// Starts and stops tasks as objects come and go; never ends. Counts on the watch of nodes that the manager of
    /// canaries has.
    pub async fn run(&mut self) {
        self.wait_for_kinds().await;
        // No hook is asked before it is known where it may not lead.
        self.cx.cluster.wait_until(|cluster| cluster.nodes.is_settled()).await;
        for kind in TASKS {
            let forward = Forward(kind, self.sender.clone());
            self.watch(kind, forward);
        }
        self.watch(HOOK_TEMPLATE, Silent);
        while let Some((kind, key)) = self.changes.recv().await {
            self.look_at(kind, &key).await;
        }
    }

    /// Lets every task finish what it is at, at most for `patience`.
    pub async fn drain(&mut self, patience: Duration) {
        let deadline = self.cx.clock.sleep(patience);
        let tasks: Vec<_> = std::mem::take(&mut self.tasks).into_values().collect();
        for running in &tasks {
            let _ = running.stop.send(true);
        }
        let all = async {
            for running in tasks {
                let _ = running.task.await;
            }
        };
        tokio::select! {
            biased;
            () = all => {}
            () = deadline => {}
        }
    }

    /// The definitions may come later, or never.
    async fn wait_for_kinds(&self) {
        let group = GAME_DEPLOYMENT.api_version();
        while self.cx.cluster.client.list_api_group_resources(&group).await.is_err() {
            self.cx.clock.sleep(LOOK_AGAIN).await;
        }
        info!(group, "Game workloads are known here");
    }

    async fn look_at(&mut self, kind: Kind, key: &Key) {
        let cache = Arc::clone(&self.cx.cluster.cache);
        let id = (kind, key.clone());
        let Some(object) = cache.get(kind, key) else {
            self.end(&id).await;
            return;
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        if self.tasks.get(&id).is_some_and(|running| running.uid != uid) {
            self.end(&id).await;
        }
        let mark = mark(&object);
        if let Some(running) = self.tasks.get_mut(&id) {
            if running.mark != mark {
                running.mark = mark;
                cache.notify(&follower(kind.plural, key));
            }
            return;
        }
        if kind != HOOK_RUN {
            self.watch_parts();
        }
        let (stop, stopped) = watch::channel(false);
        let cx = Arc::clone(&self.cx);
        let who = follower(kind.plural, key);
        let task = if kind == HOOK_RUN {
            let run = Run::new(Arc::clone(&cx), key.clone(), &object);
            tokio::spawn(live(cx, who, run, Duration::ZERO, stopped))
        } else {
            let workload = Workload::new(Arc::clone(&cx), kind, key.clone(), uid.clone());
            tokio::spawn(live(cx, who, workload, Duration::ZERO, stopped))
        };
        self.tasks.insert(id, Running { uid, mark, stop, task });
    }

    fn watch_parts(&mut self) {
        if std::mem::replace(&mut self.has_parts, true) {
            return;
        }
        for kind in PARTS {
            self.watch(kind, Owners(kind, self.cx.cluster.clone()));
        }
    }

    fn watch(&mut self, kind: Kind, listener: impl Listener + 'static) {
        let (cluster, clock) = (self.cx.cluster.clone(), Arc::clone(&self.cx.clock));
        self.watches.spawn(feed(cluster, clock, kind, listener));
    }

    async fn end(&mut self, id: &(Kind, Key)) {
        let Some(running) = self.tasks.remove(id) else { return };
        let _ = running.stop.send(true);
        // The old one must be over before anything else acts under this name.
        let _ = running.task.await;
        let (kind, Key { namespace, name }) = id;
        let series = &self.cx.telemetry.game;
        match *kind {
            HOOK_RUN => series.forget_run(namespace, name),
            kind => series.forget(in_telemetry(kind, namespace, name)),
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        for running in self.tasks.values() {
            running.task.abort();
        }
        self.watches.abort_all();
    }
}

/// Whether everything that decides about a workload was listed.
pub(super) fn is_listed(cluster: &Cluster) -> bool {
    let needed = [POD, NODE, CONTROLLER_REVISION, HOOK_RUN, HOOK_TEMPLATE];
    needed.iter().all(|kind| cluster.cache.state(*kind) == TableState::Synced)
}

/// What of an object wakes its task: not its status, which is our own writing. Whose pause it is may
/// change with nothing else.
fn mark(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([
        metadata["generation"],
        metadata["deletionTimestamp"],
        metadata["annotations"],
        object[PAUSED_BY_US],
    ])
}
