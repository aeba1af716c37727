//! The supervisor's rules for game workloads and hook runs.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tidegate_providers::{
    game::{
        CONTROLLER_REVISION, GAME_DEPLOYMENT, GAME_STATEFUL_SET, HOOK_RUN, HOOK_TEMPLATE, POD,
        is_selected, plan::PAUSED_BY_US,
    },
    object::{Kind, controller_of},
};
use tracing::info;

use super::{
    hook_run::HookRunReconciler,
    reconcile::WorkloadReconciler,
    workload_ref::{follower, labels_of},
};
use crate::{
    cluster::{
        Cluster,
        cache::Key,
        watch::{Listener, Silent},
    },
    context::Context,
    reconcile,
    supervisor::{Controller, Id, LoopStart, Watches},
};

/// Kinds that have loops.
const KINDS: [Kind; 3] = [GAME_DEPLOYMENT, GAME_STATEFUL_SET, HOOK_RUN];
/// Kinds that are watched once there is a workload. Nodes are watched for canaries already.
const PARTS: [Kind; 2] = [POD, CONTROLLER_REVISION];
/// Between two checks whether the cluster serves the kinds of game workloads.
const DISCOVERY_INTERVAL: Duration = Duration::from_mins(1);

/// Game workloads and hook runs.
pub(crate) struct GameWorkloads {
    cx: Arc<Context>,
    watches_parts: bool,
}

/// Wakes the workload that an object belongs to, or may be adopted by.
struct Owners(Kind, Cluster);

impl Listener for Owners {
    fn changed(&mut self, key: &Key) {
        let Self(kind, cluster) = self;
        let Some(object) = cluster.cache.get(*kind, key) else { return };
        let wake = |kind: Kind, name: &str| {
            let owner = Key::new(&key.namespace, name);
            cluster.cache.notify(&follower(kind, &owner));
        };
        match controller_of(&object) {
            Some((owner, name)) if owner == GAME_DEPLOYMENT.kind => wake(GAME_DEPLOYMENT, name),
            Some((owner, name)) if owner == GAME_STATEFUL_SET.kind => wake(GAME_STATEFUL_SET, name),
            Some(_) => {}
            // An orphan: any workload that selects it may adopt it.
            None => {
                for kind in [GAME_DEPLOYMENT, GAME_STATEFUL_SET] {
                    for workload in cluster.cache.list_in(kind, &key.namespace) {
                        let labels = &object["metadata"]["labels"];
                        if is_selected(&workload["spec"]["selector"], labels) {
                            wake(kind, workload["metadata"]["name"].as_str().unwrap_or_default());
                        }
                    }
                }
            }
        }
    }
}

// === impl GameWorkloads ===

impl GameWorkloads {
    pub(crate) fn new(cx: Arc<Context>) -> Self {
        Self { cx, watches_parts: false }
    }

    fn watch_parts(&mut self, watches: &mut Watches) {
        if std::mem::replace(&mut self.watches_parts, true) {
            return;
        }
        for kind in PARTS {
            watches.add(kind, Owners(kind, self.cx.cluster.clone()));
        }
    }
}

impl Controller for GameWorkloads {
    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    /// The definitions may be installed later, or never. No hook is called before the addresses of nodes,
    /// which are closed to hooks, are known.
    fn prepare(&self, _: &mut Watches) -> BoxFuture<'static, ()> {
        let cx = Arc::clone(&self.cx);
        Box::pin(async move {
            let group = GAME_DEPLOYMENT.api_version();
            while cx.cluster.client.list_api_group_resources(&group).await.is_err() {
                cx.clock.sleep(DISCOVERY_INTERVAL).await;
            }
            info!(group, "Game workloads are known here");
            cx.cluster.wait_until(|cluster| cluster.nodes.is_settled()).await;
        })
    }

    fn begin(&mut self, watches: &mut Watches) {
        for kind in KINDS {
            watches.supervised(kind);
        }
        watches.add(HOOK_TEMPLATE, Silent);
    }

    /// With the mark of our own pause, which may change alone.
    fn wake_fields(&self, object: &Value) -> Value {
        let metadata = &object["metadata"];
        json!([
            metadata["generation"],
            metadata["deletionTimestamp"],
            metadata["annotations"],
            object[PAUSED_BY_US],
        ])
    }

    fn follower(&self, (kind, key): &Id) -> Key {
        follower(*kind, key)
    }

    fn delay(&self, _: &Value, _: bool) -> Duration {
        Duration::ZERO
    }

    fn start(
        &mut self,
        (kind, key): &Id,
        object: &Value,
        LoopStart { delay, stop }: LoopStart,
        watches: &mut Watches,
    ) -> BoxFuture<'static, ()> {
        let (cx, name) = (Arc::clone(&self.cx), follower(*kind, key));
        if *kind == HOOK_RUN {
            let run = HookRunReconciler::new(Arc::clone(&cx), key.clone(), object);
            return Box::pin(reconcile::run(cx, name, run, delay, stop));
        }
        self.watch_parts(watches);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let workload = WorkloadReconciler::new(Arc::clone(&cx), *kind, key.clone(), uid);
        Box::pin(reconcile::run(cx, name, workload, delay, stop))
    }

    fn changed(&mut self, _: &Id, _: &Value) {}

    fn ended(&mut self, (kind, Key { namespace, name }): &Id) {
        let series = &self.cx.telemetry.game;
        if *kind == HOOK_RUN {
            series.forget_run(namespace, name);
        } else {
            series.forget(labels_of(*kind, namespace, name));
        }
    }
}

#[cfg(test)]
mod tests;
