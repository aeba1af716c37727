//! The supervisor's rules for canaries.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tidegate_api::canary::CanaryPhase;
use tidegate_providers::{game::NODE, object::Kind};
use tracing::info;

use super::reconcile::CanaryReconciler;
use crate::{
    cluster::{CANARY, Cluster, cache::Key, nodes::NodeListener, watch::Silent},
    context::Context,
    reconcile,
    supervisor::{Controller, Id, LoopStart, Watches},
    telemetry::Target,
};

/// Canaries: their watches, and the metrics that end with them.
pub(crate) struct Canaries {
    cx: Arc<Context>,
    /// The target of each canary that has a loop.
    targets: BTreeMap<Key, Target>,
    /// Changes the order of first passes with each start.
    seed: u64,
}

// === impl Canaries ===

impl Canaries {
    pub(crate) fn new(cx: Arc<Context>) -> Self {
        let seed = cx.clock.now().as_microsecond().unsigned_abs();
        Self { cx, targets: BTreeMap::new(), seed }
    }

    /// Sets the gauge of canaries in each namespace.
    fn count(&self) {
        let mut totals = BTreeMap::new();
        for key in self.targets.keys() {
            *totals.entry(key.namespace.to_string()).or_insert(0_usize) += 1;
        }
        self.cx.telemetry.set_totals(&totals);
    }

    /// A canary gets a loop.
    fn adopt(&mut self, key: &Key, canary: &Value) {
        let target = target_of(key, canary);
        self.wake_rivals(key, &target);
        self.targets.insert(key.clone(), target);
        self.count();
    }

    /// Metrics of a target end with its last canary.
    fn forget(&self, target: &Target) {
        if !self.targets.values().any(|other| other == target) {
            self.cx.telemetry.forget(target);
        }
    }

    /// Wakes canaries of the same target: all but the oldest are rejected.
    fn wake_rivals(&self, key: &Key, target: &Target) {
        for (other, _) in self.targets.iter().filter(|(other, it)| *other != key && *it == target) {
            self.cx.cluster.cache.notify(other);
        }
    }
}

impl Controller for Canaries {
    fn kinds(&self) -> &'static [Kind] {
        &[CANARY]
    }

    fn prepare(&self, watches: &mut Watches) -> BoxFuture<'static, ()> {
        for kind in self.cx.cluster.watched() {
            if kind == CANARY {
                watches.supervised(kind);
            } else {
                watches.add(kind, Silent);
            }
        }
        watches.add(NODE, NodeListener(self.cx.cluster.clone()));
        let cluster = self.cx.cluster.clone();
        Box::pin(async move { cluster.wait_until(Cluster::is_synced).await })
    }

    fn begin(&mut self, _: &mut Watches) {
        info!(canaries = self.cx.cluster.cache.list(CANARY).len(), "Caches are filled");
    }

    fn wake_fields(&self, canary: &Value) -> Value {
        let metadata = &canary["metadata"];
        json!([
            metadata["generation"],
            metadata["deletionTimestamp"],
            metadata["finalizers"],
            metadata["annotations"],
        ])
    }

    fn follower(&self, (_, key): &Id) -> Key {
        key.clone()
    }

    fn delay(&self, canary: &Value, is_initial: bool) -> Duration {
        let uid = canary["metadata"]["uid"].as_str().unwrap_or_default();
        let is_spread = is_initial && !is_urgent(canary);
        let spread = if is_spread { self.cx.options.spread } else { Duration::ZERO };
        jitter(uid, self.seed, spread)
    }

    fn start(
        &mut self,
        (_, key): &Id,
        canary: &Value,
        LoopStart { delay, stop }: LoopStart,
        _: &mut Watches,
    ) -> BoxFuture<'static, ()> {
        let uid = canary["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let reconciler = CanaryReconciler::new(Arc::clone(&self.cx), key.clone(), uid);
        self.adopt(key, canary);
        Box::pin(reconcile::run(Arc::clone(&self.cx), key.clone(), reconciler, delay, stop))
    }

    fn changed(&mut self, (_, key): &Id, canary: &Value) {
        let target = target_of(key, canary);
        let previous = self.targets.insert(key.clone(), target.clone());
        let previous = previous.filter(|previous| *previous != target);
        if let Some(previous) = previous {
            self.forget(&previous);
            self.wake_rivals(key, &previous);
            self.wake_rivals(key, &target);
        }
    }

    fn ended(&mut self, (_, key): &Id) {
        if let Some(target) = self.targets.remove(key) {
            self.forget(&target);
        }
        self.count();
        // A canary that was refused as the younger of two may be the only one now.
        for other in self.targets.keys().filter(|other| other.namespace == key.namespace) {
            self.cx.cluster.cache.notify(other);
        }
    }
}

/// The labels of a canary's metrics.
fn target_of(key: &Key, canary: &Value) -> Target {
    let name = canary["spec"]["targetRef"]["name"].as_str().unwrap_or_default();
    Target::new(key.namespace.to_string(), name)
}

/// Whether a rollout or a deletion is in progress, which the start of the operator must not hold up.
fn is_urgent(canary: &Value) -> bool {
    let phase = CanaryPhase::deserialize(&canary["status"]["phase"]).unwrap_or_default();
    phase.is_under_way() || canary["metadata"]["deletionTimestamp"].is_string()
}

/// A delay within `span`. Another one with every seed: an operator that is killed before the span is over
/// must not reach the same canaries each time.
fn jitter(uid: &str, seed: u64, span: Duration) -> Duration {
    let bytes = seed.to_le_bytes().into_iter().chain(uid.bytes());
    let mixed =
        bytes.fold(0_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis((mixed >> 16) % span)
}

#[cfg(test)]
mod tests;
