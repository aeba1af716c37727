//! Reconciles one canary: observe, decide, ask or act, until there is nothing to do.
//!
//! ```text
//! pass ─► observe ─► engine::decide ─┬─► question: hooks, analysis ─► answers ─┐
//!           ▲                        └─► decision: act                         │
//!           └──────────── conflict, one of several actions ◄───────────────────┘
//! ```
//!
//! Questions are asked without a permit, and given up when the canary is deleted meanwhile.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tidegate_engine::{
    Action, Again, Answers, Checks, Decision, Fact, Gate, GateKind, Phase, Question, Step, decide,
};
use tracing::{Span, debug, info_span, warn};

use super::{
    act::{Actor, Failure},
    analysis::{Analysis, Warned},
    canary_ref::CanaryRef,
    env::{Env, NotYet},
    hooks, left_behind,
    memo::Memo,
    observation::Observation,
    observe::observe,
    series,
    status::write_unreadable,
    unready_since::Clocks,
};
use crate::{
    cluster::{
        CANARY,
        cache::Key,
        write::{Place, WriteError},
    },
    context::Context,
    reconcile::{BACKOFF_MIN, Next, Pass, Reconciler, Waited},
    telemetry,
};

/// Observations of one pass. Setting up a canary takes about ten; this many are an endless loop.
const OBSERVATIONS_MAX: usize = 40;
/// Conflicts of one pass.
const CONFLICTS_MAX: u32 = 5;

/// The state of one canary between passes. All of it can be lost without harm.
pub(super) struct CanaryReconciler {
    canary: CanaryRef,
    memo: Memo,
    actor: Actor,
    /// Secrets without a label of consent.
    warned: Warned,
    /// A write was not answered, so the cache may lag behind our own writes.
    cache_may_lag: bool,
    /// The metrics labels of the pass, if it has made a check or a step.
    timed: Option<telemetry::Target>,
}

/// An answer to a question of the engine.
enum Answer {
    Gate(GateKind, Gate),
    /// The rollback hook that passed.
    Rollback(Option<String>),
    Checks(Checks),
    /// Whether the metrics servers answer.
    Backends(Result<(), String>),
}

/// The state of one pass.
#[derive(Default)]
struct PassState {
    answers: Answers,
    /// The revision for which hooks and metrics were asked: after a change the answers are dropped.
    answers_revision: Option<String>,
    conflicts: u32,
    rejections: u32,
}

// === impl CanaryReconciler ===

impl CanaryReconciler {
    pub(super) fn new(cx: Arc<Context>, key: Key, uid: String) -> Self {
        let actor = Actor::new(&cx, &key);
        let canary = CanaryRef { cx, key, uid };
        Self {
            canary,
            memo: Memo::default(),
            actor,
            warned: Warned::default(),
            cache_may_lag: false,
            timed: None,
        }
    }

    /// True if pods of a workload that is not ready name another cause than before.
    async fn ask_unready_pods(&mut self, observation: &Observation) -> bool {
        let (kind, unready) = (observation.inputs.workload, observation.unready_workloads());
        self.memo.unready_pods.update(&self.canary, kind, unready).await
    }

    /// The canary as the cache has it; `None` if it is gone, or another one has its name.
    fn raw(&self) -> Option<Arc<Value>> {
        let CanaryRef { cx, key, uid } = &self.canary;
        let raw = cx.cluster.cache.get(CANARY, key)?;
        (raw["metadata"]["uid"] == uid.as_str()).then_some(raw)
    }

    fn observe(&mut self, raw: &Arc<Value>, answers: &Answers) -> Result<Observation, NotYet> {
        let CanaryRef { cx, key, uid } = &self.canary;
        let env = Env {
            raw,
            key,
            uid,
            cluster: &cx.cluster,
            options: &cx.options,
            clocks: Clocks::now(&*cx.clock),
            rejected: &self.actor.rejected,
            unpruned_status: self.actor.status.unpruned_status.as_ref(),
            watch: &|kind| cx.watch(kind),
        };
        let observation = observe(&env, &mut self.memo, answers)?;
        if !cx.cluster.cache.follow(key, observation.dependencies()) {
            return Ok(observation);
        }
        // A new dependency may have changed after it was read and before it was followed.
        let observation = observe(&env, &mut self.memo, answers)?;
        cx.cluster.cache.follow(key, observation.dependencies());
        Ok(observation)
    }

    /// Waits for the answer to a question. `None` if the pass is to end.
    async fn ask(
        &mut self,
        observation: &Observation,
        question: Question,
        state: &mut PassState,
        pass: &mut Pass<'_>,
    ) -> Option<()> {
        state.answers_revision = Some(observation.checksum());
        let is_deleted = || {
            let raw = self.raw();
            raw.is_none_or(|raw| raw["metadata"]["deletionTimestamp"].is_string())
        };
        let was_deleted = observation.observed.lifecycle.deleted_at.is_some();
        let answer = answer(&self.canary, observation, &self.warned, question);
        let waited = pass.wait_for(answer, || !was_deleted && is_deleted()).await;
        match waited {
            Waited::Stopped => return None,
            // The next observation finds the deletion.
            Waited::Interrupted => *state = PassState::default(),
            Waited::Done(Answer::Checks(checks)) => {
                series::count_check(&self.canary.cx.telemetry, observation, &checks);
                self.actor.checks = Some(checks.clone());
                state.answers.checks = Some(checks);
            }
            Waited::Done(Answer::Rollback(hook)) => state.answers.rollback = Some(hook),
            Waited::Done(Answer::Backends(outcome)) => state.answers.backends = Some(outcome),
            Waited::Done(Answer::Gate(kind, gate)) => put_gate(&mut state.answers, kind, gate),
        }
        Some(())
    }

    /// After a write that failed: the state is read again after a conflict, and before the next pass if the write
    /// may have been done.
    async fn recover(
        &mut self,
        error: WriteError,
        state: &mut PassState,
        pass: &mut Pass<'_>,
    ) -> Result<Option<Next>, WriteError> {
        if error.is_stale() {
            debug!(%error, "Observing again");
            self.refresh().await?;
            state.conflicts += 1;
            return Ok((state.conflicts > CONFLICTS_MAX).then_some(Next::Backoff));
        }
        self.cache_may_lag = matches!(error, WriteError::Unavailable { .. });
        self.report_rejection(&error, pass).await;
        Err(error)
    }

    /// Carries a decision out. `None` if the canary is to be observed again at once.
    async fn run_decision(
        &mut self,
        observation: &Observation,
        decision: &Decision,
        state: &mut PassState,
        pass: &mut Pass<'_>,
    ) -> Result<Option<Next>, WriteError> {
        debug!(reason = decision.why.reason(), actions = decision.actions.len(), "Decided");
        let cx = Arc::clone(&self.canary.cx);
        cx.telemetry.count_decision(decision.why.reason());
        if decision.starts_interval {
            let phase = observation.observed.memory.phase;
            let is_analysis = matches!(phase, Phase::Progressing | Phase::WaitingPromotion);
            self.timed = is_analysis.then(|| observation.labels.clone());
        }
        if matches!(decision.why, Fact::NewRevision | Fact::Restarted) {
            // Definitions of routes may have changed since the last rollout.
            for kind in observation.inputs.mesh.kinds_for(&observation.inputs.canary.spec) {
                cx.spawn_background(cx.cluster.clone().check_schema(kind));
            }
        }
        let unready_since = &self.memo.unready_since;
        let acted = self.actor.act(&self.canary, observation, decision, unready_since, pass).await;
        match acted {
            // Only now: an action that did not happen in full does not start an interval.
            Ok(memory) => {
                let steady = self.canary.steady();
                self.memo.timer.done(decision.starts_interval, &memory, steady);
            }
            Err(Failure { error, is_rejection: true }) if state.rejections == 0 => {
                debug!(%error, "A write was rejected; deciding again");
                state.rejections += 1;
                return Ok(None);
            }
            Err(Failure { error, .. }) => return self.recover(error, state, pass).await,
        }
        Ok(match decision.again {
            Again::Now => None,
            Again::OnChange => Some(Next::OnChange),
            Again::At(at) => Some(Next::at(&*cx.clock, at)),
        })
    }

    /// Reports a rejected write that the engine cannot decide upon, by an Event and by the conditions.
    async fn report_rejection(&mut self, error: &WriteError, pass: &mut Pass<'_>) {
        if !matches!(error, WriteError::Refused { .. }) {
            return;
        }
        // Earlier actions of the decision may have written the status.
        let Some(raw) = self.raw() else { return };
        let Ok(observation) = self.observe(&raw, &Answers::default()) else { return };
        let why = Fact::Obstructed(error.to_string());
        let actions = vec![Action::Announce(why.clone())];
        let decision = Decision { why, actions, again: Again::OnChange, starts_interval: false };
        let unready_since = &self.memo.unready_since;
        let acted =
            self.actor.act(&self.canary, &observation, &decision, unready_since, pass).await;
        if let Err(Failure { error, .. }) = acted {
            debug!(%error, "The rejection could not be reported");
        }
    }

    /// Reads the canary and the cached objects that it depends on from the API server: after a conflict, or a write
    /// without an answer, the cache may be stale. Of `ConfigMaps` and Secrets the cache has a hash only.
    async fn refresh(&mut self) -> Result<(), WriteError> {
        let CanaryRef { cx, key, .. } = &self.canary;
        let Key { namespace, name } = key;
        cx.cluster.refresh(Place { kind: CANARY, namespace, name, subresource: "" }).await?;
        for (kind, key) in cx.cluster.cache.followed(key) {
            if cx.cluster.cache.get(kind, &key).is_some() {
                let Key { namespace, name } = &key;
                cx.cluster.refresh(Place { kind, namespace, name, subresource: "" }).await?;
            }
        }
        Ok(())
    }

    /// Writes and records doubtful parts of the policy, once for each of its generations at most.
    async fn report_policy(&mut self, observation: &Observation) -> Result<bool, WriteError> {
        let written = self.actor.status.write_policy(&self.canary, observation).await;
        let Some(message) = written? else { return Ok(false) };
        let (fact, memory) = (Fact::PolicyDoubtful(message), &observation.observed.memory);
        self.actor.recorder.announce(&self.canary, observation, &fact, memory).await;
        Ok(true)
    }

    /// Records alerts that were given up since the last pass.
    async fn record_lost_alerts(&mut self, observation: &Observation) {
        for fact in self.actor.outbox.take_lost() {
            let memory = &observation.observed.memory;
            self.actor.recorder.announce(&self.canary, observation, &fact, memory).await;
        }
    }
}

impl Reconciler for CanaryReconciler {
    async fn reconcile(&mut self, pass: &mut Pass<'_>) -> Result<Next, WriteError> {
        let mut state = PassState::default();
        for _ in 0..OBSERVATIONS_MAX {
            if pass.is_stopped() || !self.canary.cx.cluster.leads() {
                return Ok(Next::OnChange);
            }
            pass.take_permit().await?;
            if self.cache_may_lag {
                // Acting upon the state before our last write would undo it.
                self.refresh().await?;
                self.cache_may_lag = false;
            }
            let Some(raw) = self.raw() else { return Ok(Next::Gone) };
            let observation = match self.observe(&raw, &state.answers) {
                Ok(observation) => observation,
                // A first list that is complete wakes the loop; other reasons are checked each second.
                Err(NotYet::Listing) => {
                    return Ok(Next::At(self.canary.cx.clock.monotonic() + BACKOFF_MIN));
                }
                Err(NotYet::Unreadable(why)) => {
                    write_unreadable(&self.canary, &raw, &why).await?;
                    return Ok(Next::OnChange);
                }
            };
            if state.answers_revision.as_ref().is_some_and(|about| *about != observation.checksum())
            {
                // Answers about one revision do not count for the next one.
                (state.answers, state.answers_revision) = (Answers::default(), None);
                continue;
            }
            if self.ask_unready_pods(&observation).await {
                continue;
            }
            self.record_lost_alerts(&observation).await;
            match self.report_policy(&observation).await {
                Ok(false) => {}
                Ok(true) => continue,
                Err(error) => match self.recover(error, &mut state, pass).await? {
                    Some(next) => return Ok(next),
                    None => continue,
                },
            }
            match decide(&observation.observed) {
                Step::Ask(question) => {
                    let told = self.actor.status.write_new_revision(&self.canary, &observation);
                    if let Err(error) = told.await {
                        // The next write of the status says it.
                        debug!(%error, "The new revision is not in the conditions yet");
                    }
                    if self.ask(&observation, question, &mut state, pass).await.is_none() {
                        return Ok(Next::OnChange);
                    }
                }
                Step::Do(decision) => {
                    let next = self.run_decision(&observation, &decision, &mut state, pass).await?;
                    if let Some(next) = next {
                        return Ok(next);
                    }
                    (state.answers, state.answers_revision) = (Answers::default(), None);
                }
            }
        }
        warn!("Endless loop: too many observations in one pass; backing off");
        Ok(Next::Backoff)
    }

    fn span(&self) -> Span {
        info_span!("reconcile", canary = %self.canary.key)
    }

    fn observe_pass(&mut self, _: bool, took: Duration) {
        if let Some(labels) = self.timed.take() {
            self.canary.cx.telemetry.observe_duration(&labels, took);
        }
    }

    async fn end(&mut self) {
        left_behind::warn(&self.canary, &self.memo).await;
    }
}

async fn answer(
    canary: &CanaryRef,
    observation: &Observation,
    warned: &Warned,
    question: Question,
) -> Answer {
    let analysis = || Analysis::new(canary, observation, warned);
    match question {
        Question::Backends => Answer::Backends(analysis().backends().await),
        Question::Checks => Answer::Checks(analysis().check().await),
        Question::Gate(GateKind::Rollback) => {
            Answer::Rollback(hooks::rollback(canary, observation).await)
        }
        Question::Gate(kind) => Answer::Gate(kind, hooks::gate(canary, observation, kind).await),
    }
}

fn put_gate(answers: &mut Answers, kind: GateKind, gate: Gate) {
    let place = match kind {
        GateKind::ConfirmRollout => &mut answers.confirm_rollout,
        GateKind::PreRollout => &mut answers.pre_rollout,
        GateKind::ConfirmTrafficIncrease => &mut answers.confirm_traffic_increase,
        GateKind::ConfirmPromotion => &mut answers.confirm_promotion,
        // Rollback hooks have `Answer::Rollback`.
        GateKind::PostRollout | GateKind::Rollback => &mut answers.post_rollout,
    };
    *place = Some(gate);
}

#[cfg(test)]
mod tests;
