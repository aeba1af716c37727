//! Reconciles one game workload: observe, decide, act, until there is nothing to do.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tidegate_engine::{
    Again, Tone,
    game::{Action, ConditionKind, Decision, Refusal, decide, refused},
};
use tidegate_providers::{
    game::{GAME_DEPLOYMENT, memory},
    object::Kind,
};
use tracing::{Span, debug, info_span, warn};

use super::{
    act::{Acted, Actor},
    observe::{Env, NotYet, Observation, observe},
    prepare,
    workload_ref::{WorkloadRef, follower},
};
use crate::{
    cluster::{cache::Key, write::WriteError},
    context::Context,
    once::Once,
    reconcile::{BACKOFF_MIN, Next, Pass, Reconciler},
    telemetry::Replicas,
};

/// Decisions of one pass. A step of a release takes about three; this many are an endless loop.
const DECISIONS_MAX: usize = 60;
/// Conflicts of one pass.
const CONFLICTS_MAX: u32 = 8;

/// The state of one workload between passes. All of it can be lost without harm.
pub(super) struct WorkloadReconciler {
    workload: WorkloadRef,
    actor: Actor,
    /// Writes that the API server rejected when they were last tried.
    refusals: Vec<Refusal>,
    /// Name collisions of `ControllerRevisions`, as `status.collisionCount`.
    collisions: u32,
    /// A write was not answered, so the cache may lag behind our own writes.
    cache_may_lag: bool,
    /// Reasons why the workload cannot be reconciled: each is one Event.
    reported: Once,
}

/// The outcome of one observation and its decision.
enum After {
    /// Something was written: observe again.
    Again,
    /// A conflict: observe again, a few times.
    Conflict,
    Rest(Next),
}

// === impl WorkloadReconciler ===

impl WorkloadReconciler {
    pub(super) fn new(cx: Arc<Context>, kind: Kind, key: Key, uid: String) -> Self {
        Self {
            workload: WorkloadRef { cx, kind, key, uid },
            actor: Actor::default(),
            refusals: Vec::new(),
            collisions: 0,
            cache_may_lag: false,
            reported: Once::default(),
        }
    }

    /// One observation, one decision.
    async fn observe_and_act(&mut self) -> Result<After, WriteError> {
        let WorkloadRef { cx, kind, key, uid } = &self.workload;
        let env = Env {
            kind: *kind,
            key,
            uid,
            cluster: &cx.cluster,
            now: self.workload.now(),
            refusals: &self.refusals,
            collisions: self.collisions,
        };
        match observe(&env) {
            Ok(observation) => {
                let dependencies = observation.dependencies.clone();
                if cx.cluster.cache.follow(&follower(*kind, key), dependencies) {
                    // A new dependency may have changed after it was read and before it was followed.
                    return Ok(After::Again);
                }
                self.decide_upon(&observation).await
            }
            Err(not_yet) => self.prepare(not_yet).await,
        }
    }

    async fn prepare(&mut self, not_yet: NotYet) -> Result<After, WriteError> {
        let outcome = match not_yet {
            NotYet::Gone => return Ok(After::Rest(Next::Gone)),
            // A list that is complete wakes the loop.
            NotYet::Listing => {
                let now = self.workload.cx.clock.monotonic();
                return Ok(After::Rest(Next::At(now + BACKOFF_MIN)));
            }
            NotYet::Unreadable(object, why) => {
                self.report_refusal(&object, &why).await?;
                return Ok(After::Rest(Next::OnChange));
            }
            NotYet::Adopt(kind, object) => prepare::adopt(&self.workload, kind, &object).await,
            NotYet::Release(pod) => prepare::release(&self.workload, &pod).await,
            NotYet::Revise(revise) => {
                prepare::revise(&self.workload, &revise).await.map(|collisions| {
                    self.collisions = collisions.unwrap_or(self.collisions);
                })
            }
        };
        let Err(error @ WriteError::Refused { .. }) = outcome else {
            return outcome.map(|()| After::Again);
        };
        let WorkloadRef { cx, kind, key, .. } = &self.workload;
        if let Some(object) = cx.cluster.cache.get(*kind, key) {
            self.report_refusal(&object, &error.to_string()).await?;
        }
        Ok(After::Rest(Next::Backoff))
    }

    /// Records that the workload cannot be acted upon, in its status and by an Event.
    async fn report_refusal(&mut self, object: &Value, why: &str) -> Result<(), WriteError> {
        let WorkloadRef { cx, kind, .. } = &self.workload;
        let known = memory::read(*kind, object);
        let now = self.workload.now();
        let next = refused(&known, why, now);
        if next != known {
            let patch = memory::patch(*kind, object, &next);
            cx.cluster.merge(self.workload.own_place("status"), &patch).await?;
        }
        if self.reported.first_time(why, now) {
            self.workload.record(object, "Refused", Tone::Warning, why).await;
        }
        Ok(())
    }

    async fn decide_upon(&mut self, observation: &Observation) -> Result<After, WriteError> {
        self.reported.clear();
        let decision = decide(&observation.observed);
        debug!(reason = decision.why.reason(), actions = decision.actions.len(), "Decided");
        let telemetry = &self.workload.cx.telemetry;
        telemetry.count_decision(decision.why.reason());
        let replicas = replicas(self.workload.kind, observation, &decision);
        telemetry.game.set_replicas(self.workload.labels(), replicas);
        let acted = self.actor.act(&self.workload, observation, &decision).await?;
        let Acted { is_stale, refusals } = acted;
        if is_stale {
            return Ok(After::Conflict);
        }
        // A new refusal is decided upon at once, and then tried again later. The same refusal in other words
        // is not new: a count or an address in it may differ each time.
        let is_new = !is_same(&self.refusals, &refusals);
        self.refusals = refusals;
        if is_new {
            return Ok(After::Again);
        }
        if !self.refusals.is_empty() {
            return Ok(After::Rest(Next::Backoff));
        }
        if !decision.actions.is_empty() {
            // Every write of ours may have made something due.
            return Ok(After::Again);
        }
        Ok(match decision.again {
            Again::Now => After::Again,
            Again::OnChange => After::Rest(Next::OnChange),
            Again::At(at) => After::Rest(Next::at(&*self.workload.cx.clock, at)),
        })
    }
}

impl Reconciler for WorkloadReconciler {
    async fn reconcile(&mut self, pass: &mut Pass<'_>) -> Result<Next, WriteError> {
        let mut conflicts = 0_u32;
        for _ in 0..DECISIONS_MAX {
            if pass.is_stopped() || !self.workload.cx.cluster.leads() {
                return Ok(Next::OnChange);
            }
            if self.cache_may_lag {
                prepare::refresh(&self.workload).await?;
                self.cache_may_lag = false;
            }
            match self.observe_and_act().await {
                Ok(After::Again) => {}
                Ok(After::Rest(next)) => return Ok(next),
                Ok(After::Conflict) => conflicts += 1,
                Err(error) if error.is_stale() => {
                    debug!(%error, "Observing again");
                    prepare::refresh(&self.workload).await?;
                    conflicts += 1;
                }
                Err(error) => {
                    // Nothing more is done on top of a write that may or may not have happened.
                    self.cache_may_lag |= matches!(error, WriteError::Unavailable { .. });
                    return Err(error);
                }
            }
            if conflicts > CONFLICTS_MAX {
                return Ok(Next::Backoff);
            }
        }
        warn!("Too many decisions in one pass; backing off");
        Ok(Next::Backoff)
    }

    fn span(&self) -> Span {
        let follower = follower(self.workload.kind, &self.workload.key);
        info_span!("reconcile", workload = %follower)
    }

    fn observe_pass(&mut self, is_ok: bool, took: Duration) {
        self.workload.cx.telemetry.game.observe_look(self.workload.labels(), is_ok, took);
    }
}

/// Whether the same conditions are refused.
fn is_same(before: &[Refusal], now: &[Refusal]) -> bool {
    let kinds = |refusals: &[Refusal]| {
        refusals
            .iter()
            .map(|refusal| refusal.kind)
            .collect::<std::collections::BTreeSet<ConditionKind>>()
    };
    kinds(before) == kinds(now)
}

/// Replicas as the status has them, or is about to.
fn replicas(kind: Kind, observation: &Observation, decision: &Decision) -> Replicas {
    let mut counts = observation.observed.memory.counts;
    for action in &decision.actions {
        if let Action::Remember(next) = action {
            counts = next.counts;
            break;
        }
    }
    let is_deployment = kind == GAME_DEPLOYMENT;
    Replicas {
        all: counts.replicas,
        ready: counts.ready,
        available_or_current: if is_deployment { counts.available } else { counts.current },
        updated: counts.updated,
        updated_ready: counts.updated_ready,
    }
}

#[cfg(test)]
mod tests;
