//! Acting: the actions of a decision, in order, until one fails.
//!
//! Each action can be carried out twice. A write names the version it is based on; if the object has changed
//! since, nothing is written and the canary is observed again. A permit is held for writes. It is released while
//! Secrets of alerts are read, and before the status is written, while alerts are delivered.

mod primary;

use std::{sync::Arc, time::Duration};

use tidegate_api::canary::status::RouteMemory;
use tidegate_engine::{
    Action, Alert, Checks, Cookie, CookieChange, Decision, Fact, ManagedObject, Memory, Split,
    State,
};
use tidegate_providers::traffic::Cookies;

use super::{
    alerts::{self, Attempts, Outbox},
    canary_ref::{CanaryRef, rejected},
    cookies,
    env::ManagedWrite,
    events::Recorder,
    inputs::Scalers,
    observation::Observation,
    series,
    status::{self, StatusWriter},
    unready_since::UnreadySince,
};
use crate::{
    cluster::{
        cache::{Key, TableState},
        write::WriteError,
    },
    context::Context,
    reconcile::{BACKOFF_MAX, Pass},
    rejected_writes::RejectedWrites,
};

/// Everything that acting keeps between decisions. All of it can be lost without harm.
pub(super) struct Actor {
    pub(super) recorder: Recorder,
    pub(super) outbox: Outbox,
    pub(super) status: StatusWriter,
    pub(super) rejected: RejectedWrites<ManagedWrite>,
    /// Results of the last checks, until they are written down.
    pub(super) checks: Option<Checks>,
    /// Alerts that are being delivered, also of a decision that failed after it had sent them.
    attempts: Attempts,
}

/// The state of a decision while its actions run.
struct Progress<'a> {
    observation: &'a Observation,
    decision: &'a Decision,
    unready_since: &'a UnreadySince,
    memory: Memory,
    cookies: Cookies,
    /// The route that the status remembers.
    route: Option<RouteMemory>,
    is_written: bool,
}

/// An action that failed.
pub(super) struct Failure {
    pub(super) error: WriteError,
    /// The API server rejected it, and the engine can decide upon that.
    pub(super) is_rejection: bool,
}

// === impl Actor ===

impl Actor {
    pub(super) fn new(cx: &Arc<Context>, key: &Key) -> Self {
        Self {
            recorder: Recorder::new(cx, key),
            outbox: Outbox::start(cx, key),
            status: StatusWriter::default(),
            rejected: RejectedWrites::default(),
            checks: None,
            attempts: Attempts::default(),
        }
    }

    /// Carries out a decision. Returns what is remembered after it.
    pub(super) async fn act(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
        decision: &Decision,
        unready_since: &UnreadySince,
        pass: &mut Pass<'_>,
    ) -> Result<Memory, Failure> {
        let observed = &observation.observed;
        self.status.begin(observation);
        let mut progress = Progress::of(observation, decision, unready_since);
        series::set_phase(&canary.cx.telemetry, observation, observed.memory.phase);
        if let Ok(split) = &observed.routes {
            series::set_weight(&canary.cx.telemetry, observation, *split);
        }
        for action in &decision.actions {
            let outcome = self.run_action(canary, action, &mut progress, pass).await;
            let is_rejection = self.note_outcome(canary, observation, action, &outcome);
            outcome.map_err(|error| Failure { error, is_rejection })?;
        }
        // The status shows to the end what the canary waits for, unless its finalizer is gone.
        let is_finalizer_removed = observed.lifecycle.deleted_at.is_some()
            && (!observed.lifecycle.has_finalizer
                || decision.actions.contains(&Action::RemoveFinalizer));
        if !progress.is_written && !is_finalizer_removed {
            let memory = progress.memory.clone();
            let written = self.remember(canary, &memory, &mut progress, pass).await;
            written.map_err(|error| Failure { error, is_rejection: false })?;
        }
        Ok(progress.memory)
    }

    /// Remembers a rejection until the write succeeds. True if the engine can decide upon it.
    fn note_outcome(
        &mut self,
        canary: &CanaryRef,
        observation: &Observation,
        action: &Action,
        outcome: &Result<(), WriteError>,
    ) -> bool {
        let Some(write) = ManagedWrite::of(action) else { return false };
        match outcome {
            Ok(()) => self.rejected.remove(&write),
            Err(error @ WriteError::Refused { .. }) => {
                let rest = retry_delay(write, observation.observed.plan.interval);
                let until = canary.cx.clock.monotonic() + rest;
                self.rejected.add(write, error.to_string(), until, observation.generation());
                return true;
            }
            Err(
                WriteError::Conflict { .. }
                | WriteError::NotLeading
                | WriteError::Stopped
                | WriteError::Missing { .. }
                | WriteError::Unavailable { .. },
            ) => {}
        }
        false
    }

    async fn run_action(
        &mut self,
        canary: &CanaryRef,
        action: &Action,
        progress: &mut Progress<'_>,
        pass: &mut Pass<'_>,
    ) -> Result<(), WriteError> {
        let observation = progress.observation;
        match action {
            Action::Ensure(ManagedObject::Primary) => {
                primary::create(&mut self.recorder, canary, observation, &progress.memory).await
            }
            Action::Ensure(object) => {
                if *object == ManagedObject::Route {
                    self.note_route(canary, progress).await?;
                }
                self.write_finding(canary, ManagedWrite::Ensure(*object), progress).await
            }
            Action::RetirePreviousRoute => {
                self.write_finding(canary, ManagedWrite::RetirePreviousRoute, progress).await?;
                if observation.routes.previous.is_some() {
                    series::set_weight(&canary.cx.telemetry, observation, Split::PRIMARY);
                }
                Ok(())
            }
            Action::RestoreApex => {
                self.write_finding(canary, ManagedWrite::RestoreApex, progress).await
            }
            Action::RestoreRoute => {
                self.write_finding(canary, ManagedWrite::RestoreRoute, progress).await
            }
            Action::Prune => self.write_finding(canary, ManagedWrite::Prune, progress).await,
            Action::Cookies(change) => self.change_cookies(canary, *change, progress).await,
            Action::Shift(split) => self.shift(canary, *split, progress).await,
            Action::ScaleTarget(replicas) => scale(canary, observation, *replicas).await,
            Action::Park => scale(canary, observation, 0).await,
            Action::ResumeScaler => pause_scaler(canary, observation, false).await,
            Action::PauseScaler => pause_scaler(canary, observation, true).await,
            Action::RefreshPrimaryScaler => refresh_scaler(canary, observation).await,
            Action::Promote(revision) => {
                primary::promote(
                    &mut self.recorder,
                    canary,
                    observation,
                    revision,
                    &progress.memory,
                )
                .await
            }
            Action::Remember(memory) => self.remember(canary, memory, progress, pass).await,
            Action::Announce(fact) => {
                self.recorder.announce(canary, observation, fact, &progress.memory).await;
                Ok(())
            }
            // On the heap: the future of an idle loop stays small.
            Action::Alert(alert) => Box::pin(self.alert(canary, alert, progress, pass)).await,
            Action::DropManualStep(fact) => {
                self.drop_manual_step(canary, fact.as_ref(), progress).await;
                Ok(())
            }
            Action::ResetResume => {
                let step = &observation.raw()["spec"]["manualStep"];
                self.status.reset_resume(canary, step).await
            }
            Action::ClearRetry => self.status.clear_retry(canary, observation).await,
            Action::Count(outcome) => {
                series::count_rollout(&canary.cx.telemetry, observation, *outcome);
                Ok(())
            }
            Action::AddFinalizer => self.status.set_finalizer(canary, observation, true).await,
            Action::RemoveFinalizer => self.status.set_finalizer(canary, observation, false).await,
        }
    }

    /// Starts to send a chat message. The status is written after it, or after a second.
    async fn alert(
        &mut self,
        canary: &CanaryRef,
        alert: &Alert,
        progress: &Progress<'_>,
        pass: &mut Pass<'_>,
    ) -> Result<(), WriteError> {
        let (observation, memory) = (progress.observation, &progress.memory);
        if !self.recorder.dedup.first_alert(memory, &alert.about) {
            return Ok(());
        }
        let send = alerts::send(canary, observation, &self.outbox, alert, memory);
        let (attempts, lost) = if observation.inputs.canary.spec.analysis.alerts.is_empty() {
            send.await
        } else {
            // The Secrets of its receivers are read from the API server.
            pass.without_permit(send).await?
        };
        self.attempts.extend(attempts);
        for fact in lost {
            self.recorder.announce(canary, observation, &fact, memory).await;
        }
        Ok(())
    }

    /// Writes the changes of a finding, then records its note.
    async fn write_finding(
        &mut self,
        canary: &CanaryRef,
        write: ManagedWrite,
        progress: &Progress<'_>,
    ) -> Result<(), WriteError> {
        let observation = progress.observation;
        let Some(finding) = observation.findings.get(&write) else { return Ok(()) };
        canary.write(&finding.changes).await?;
        if let Some(note) = &finding.note {
            self.recorder.announce(canary, observation, note, &progress.memory).await;
        }
        Ok(())
    }

    /// Fresh cookies are written down before a route has them; retired ones are written with the memory.
    async fn change_cookies(
        &mut self,
        canary: &CanaryRef,
        change: CookieChange,
        progress: &mut Progress<'_>,
    ) -> Result<(), WriteError> {
        let observation = progress.observation;
        progress.cookies =
            cookies::after(&observation.inputs, &canary.uid, change, &progress.cookies);
        if change.canary == Cookie::Fresh || change.primary == Cookie::Fresh {
            let fields = cookies::fields(&progress.cookies);
            self.status.patch(canary, observation, fields).await?;
        }
        Ok(())
    }

    async fn shift(
        &mut self,
        canary: &CanaryRef,
        split: Split,
        progress: &mut Progress<'_>,
    ) -> Result<(), WriteError> {
        self.note_route(canary, progress).await?;
        let observation = progress.observation;
        let (inputs, routes) = (&observation.inputs, &observation.routes);
        let cx = inputs.route_cx_with(routes.inherited, &progress.cookies);
        // Without a remembered route, assume that another route may still hold canary weight.
        let is_known = inputs.remembered.route().is_some();
        let changes = match &routes.unlisted {
            // A kind that is not served has no route to reset.
            Some(TableState::NotServed(_)) if split == Split::PRIMARY && is_known => Ok(Vec::new()),
            _ if is_known => inputs.mesh.write(&cx, &inputs.live, split),
            _ => inputs.mesh.divide(&cx, &inputs.live, split),
        };
        if let (Some(TableState::Failed(why)), Ok([])) = (&routes.unlisted, changes.as_deref()) {
            // Routes that cannot be listed may still hold canary weight.
            return Err(WriteError::Refused { what: "the route".to_owned(), why: why.clone() });
        }
        canary.write_route(changes).await?;
        series::set_weight(&canary.cx.telemetry, observation, split);
        Ok(())
    }

    /// Writes `status.rollout.route` after the previous route has no canary weight and before the present one gets it.
    async fn note_route(
        &mut self,
        canary: &CanaryRef,
        progress: &mut Progress<'_>,
    ) -> Result<(), WriteError> {
        let observation = progress.observation;
        let is_retired = observation.observed.objects.previous_route == State::InSync;
        let present = observation.inputs.present_route();
        if observation.routes.previous.is_none() || !is_retired || progress.route == present {
            return Ok(());
        }
        self.status.write_route(canary, observation, present.as_ref()).await?;
        progress.route = present;
        Ok(())
    }

    async fn remember(
        &mut self,
        canary: &CanaryRef,
        memory: &Memory,
        progress: &mut Progress<'_>,
        pass: &mut Pass<'_>,
    ) -> Result<(), WriteError> {
        let attempts = std::mem::take(&mut self.attempts);
        if !attempts.is_empty() {
            // A chat service must not keep others from writing.
            pass.without_permit(attempts.wait(&*canary.cx.clock)).await?;
            for fact in self.outbox.take_lost() {
                let (observation, memory) = (progress.observation, &progress.memory);
                self.recorder.announce(canary, observation, &fact, memory).await;
            }
        }
        // Taken even if the write fails: a later decision did not measure this.
        let checks = self.checks.take();
        let next = status::StatusParts {
            memory,
            cookies: &progress.cookies,
            route: progress.route.as_ref(),
            checks: checks.as_ref(),
        };
        let Progress { observation, decision, unready_since, .. } = *progress;
        self.status.write(canary, observation, decision, &next, unready_since).await?;
        progress.is_written = true;
        progress.memory = memory.clone();
        series::set_phase(&canary.cx.telemetry, observation, memory.phase);
        Ok(())
    }

    /// A step that cannot be removed blocks nothing: the next decision retries the removal.
    async fn drop_manual_step(
        &mut self,
        canary: &CanaryRef,
        fact: Option<&Fact>,
        progress: &Progress<'_>,
    ) {
        let observation = progress.observation;
        let step = &observation.raw()["spec"]["manualStep"];
        if step.is_null() {
            return;
        }
        let fact = match self.status.drop_manual_step(canary, step).await {
            Ok(()) => fact.cloned(),
            Err(error) => Some(Fact::ResumeStays(error.to_string())),
        };
        if let Some(fact) = fact {
            self.recorder.announce(canary, observation, &fact, &progress.memory).await;
        }
    }
}

// === impl Progress ===

impl<'a> Progress<'a> {
    fn of(
        observation: &'a Observation,
        decision: &'a Decision,
        unready_since: &'a UnreadySince,
    ) -> Self {
        let inputs = &observation.inputs;
        let route = match &observation.routes.previous {
            Some(previous) => Some(previous.route.clone()),
            // A route that was never seen may not be the one that divides traffic.
            None if observation.observed.routes.is_ok() => inputs.present_route(),
            None => inputs.remembered.route().cloned(),
        };
        Self {
            observation,
            decision,
            unready_since,
            memory: observation.observed.memory.clone(),
            cookies: inputs.remembered.cookies.clone(),
            route,
            is_written: false,
        }
    }
}

/// How long a rejected write is not tried again.
fn retry_delay(write: ManagedWrite, interval: Duration) -> Duration {
    match write {
        // Only a deletion uses these. Longer than any backoff: the next pass must still see the rejection.
        ManagedWrite::RestoreApex | ManagedWrite::RestoreRoute => interval.max(BACKOFF_MAX * 2),
        ManagedWrite::Ensure(_)
        | ManagedWrite::Shift
        | ManagedWrite::RetirePreviousRoute
        | ManagedWrite::Prune => interval,
    }
}

async fn scale(
    canary: &CanaryRef,
    observation: &Observation,
    replicas: i64,
) -> Result<(), WriteError> {
    let Some(target) = &observation.inputs.target else { return Ok(()) };
    let change = observation.inputs.workload.scale(target, replicas);
    canary.write(change.as_slice()).await
}

async fn pause_scaler(
    canary: &CanaryRef,
    observation: &Observation,
    is_paused: bool,
) -> Result<(), WriteError> {
    let change = observation.inputs.pause_scaler(&scalers(canary, observation), is_paused);
    canary.write(change.as_slice()).await
}

async fn refresh_scaler(canary: &CanaryRef, observation: &Observation) -> Result<(), WriteError> {
    let changes = observation.inputs.refreshed_scaler(&scalers(canary, observation));
    canary.write(&changes.map_err(rejected)?).await
}

fn scalers(canary: &CanaryRef, observation: &Observation) -> Scalers {
    let spec = &observation.inputs.canary.spec;
    Scalers::find(spec, &canary.cx.cluster.cache, &canary.key.namespace)
}

#[cfg(test)]
mod tests;
