//! Asks pods for the cause of which their workload is not ready.
//!
//! Pods are not watched: one short list is read for a workload that has been unready for ten seconds, and again
//! with later looks. An idle canary has no such workload, and a rollout whose pods start in time reads none. Best
//! effort: without the permission, or an answer, only the counts of the workload's own status are known.

use std::time::Duration;

use serde_json::Value;
use tidegate_engine::Side;
use tidegate_providers::{
    game::{POD, selector_text},
    workload::WorkloadKind,
};
use tracing::debug;

use super::canary_ref::CanaryRef;

/// The time that pods may take before they are asked, and the time between two lists.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pods that are read: those of one template have the same cause.
const PODS_MAX: u32 = 50;

/// The causes that are known.
#[derive(Default)]
pub(super) struct UnreadyPods {
    target: Option<Box<Known>>,
    primary: Option<Box<Known>>,
}

/// A workload with pods that are not ready, to be asked about.
#[derive(Clone, Copy)]
pub(super) struct UnreadyWorkload<'a> {
    pub(super) object: &'a Value,
    /// Its deadline has passed: the next decision ends the rollout.
    pub(super) is_stuck: bool,
}

/// The state of one workload that is not ready. Times are of the steady clock.
struct Known {
    /// First seen unready, or last asked.
    since: Duration,
    cause: Option<String>,
}

// === impl UnreadyPods ===

impl UnreadyPods {
    /// The cause that was found last.
    pub(super) fn cause(&self, side: Side) -> Option<String> {
        let known = match side {
            Side::Canary => &self.target,
            Side::Primary => &self.primary,
        };
        known.as_ref()?.cause.clone()
    }

    /// Asks the pods of the workloads that are not ready (target, primary), when it is time. True if a cause
    /// changed.
    pub(super) async fn update(
        &mut self,
        canary: &CanaryRef,
        kind: WorkloadKind,
        unready: [Option<UnreadyWorkload<'_>>; 2],
    ) -> bool {
        let mut is_changed = false;
        for (slot, workload) in [&mut self.target, &mut self.primary].into_iter().zip(unready) {
            let Some(UnreadyWorkload { object, is_stuck }) = workload else {
                *slot = None;
                continue;
            };
            let now = canary.cx.clock.monotonic();
            let known = slot.get_or_insert_with(|| Box::new(Known { since: now, cause: None }));
            // A rollback names the cause, also when the process has just started.
            let is_last_chance = is_stuck && known.cause.is_none();
            if is_last_chance || now.saturating_sub(known.since) >= PATIENCE {
                known.since = now;
                let cause = ask(canary, kind, object).await;
                is_changed |= cause != known.cause;
                known.cause = cause;
            }
        }
        is_changed
    }
}

async fn ask(canary: &CanaryRef, kind: WorkloadKind, workload: &Value) -> Option<String> {
    let selector = selector_text(&workload["spec"]["selector"]);
    if selector.is_empty() {
        return None;
    }
    let (cluster, namespace) = (&canary.cx.cluster, &canary.key.namespace);
    match cluster.read_first(POD, namespace, &selector, PODS_MAX).await {
        Ok(pods) => kind.cause(workload, &pods),
        Err(error) => {
            debug!(%error, "Pods could not be asked why they are not ready");
            None
        }
    }
}
