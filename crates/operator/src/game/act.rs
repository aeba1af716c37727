//! Carries out decisions about a game workload, one write after the other.
//!
//! Actions that must not follow a failed write are left out, as the engine says; all others go on. A conflict is
//! no failure: the object is read again, and the workload observed again.

mod new_pod;
mod writer;

use std::collections::BTreeSet;

use tidegate_engine::{
    Tone,
    game::{Action, ConditionKind, Decision, Departure, Refusal, Scope},
};
use tracing::debug;

use self::writer::Writer;
use super::{observe::Observation, workload_ref::WorkloadRef};
use crate::{cluster::write::WriteError, once::Once};

/// Everything that acting keeps between decisions. It can be lost without harm.
#[derive(Default)]
pub(super) struct Actor {
    /// Rejected writes that were recorded.
    rejections: Once,
}

/// The outcome of a decision.
#[derive(Default)]
pub(super) struct Acted {
    /// A write met a conflict.
    pub(super) is_stale: bool,
    /// Writes that the API server rejected.
    pub(super) refusals: Vec<Refusal>,
}

/// Actions that must not follow, because one before them failed.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of its own")]
struct LeftOut {
    pods: BTreeSet<String>,
    new_pods: bool,
    hooks: bool,
    release: bool,
    /// An announcement is about the action before it.
    next_announcement: bool,
}

// === impl LeftOut ===

impl LeftOut {
    fn has(&mut self, action: &Action) -> bool {
        if let Action::Announce(_) = action {
            return self.release || std::mem::take(&mut self.next_announcement);
        }
        let is_left_out = self.release
            || match action.scope() {
                Scope::Pod(uid) => self.pods.contains(uid),
                Scope::Pods => self.new_pods,
                Scope::Hooks => self.hooks,
                Scope::Release => false,
            };
        self.next_announcement = is_left_out;
        is_left_out
    }

    fn add(&mut self, action: &Action) {
        self.next_announcement = true;
        match action.scope() {
            Scope::Pod(uid) => drop(self.pods.insert(uid.to_owned())),
            Scope::Pods => self.new_pods = true,
            Scope::Hooks => self.hooks = true,
            Scope::Release => self.release = true,
        }
    }
}

// === impl Actor ===

impl Actor {
    /// Carries out every action that no failure forbids.
    pub(super) async fn act(
        &mut self,
        workload: &WorkloadRef,
        observation: &Observation,
        decision: &Decision,
    ) -> Result<Acted, WriteError> {
        let mut acted = Acted::default();
        let mut left_out = LeftOut::default();
        let mut writer = Writer::new(workload, observation);
        for action in &decision.actions {
            if left_out.has(action) {
                continue;
            }
            let begun = workload.cx.clock.monotonic();
            let outcome = writer.run_action(action).await;
            let took = workload.cx.clock.monotonic().saturating_sub(begun);
            writer.measure(action, outcome.is_ok(), took);
            let Err(error) = outcome else { continue };
            debug!(%error, "An action failed");
            left_out.add(action);
            match error {
                WriteError::Conflict { .. } | WriteError::Missing { .. } => {
                    writer.read_again(action).await?;
                    acted.is_stale = true;
                }
                WriteError::Refused { ref what, ref why } => {
                    let message = format!("{what} was refused: {why}");
                    if self.rejections.first_time(&message, observation.observed.now) {
                        let reason = failed_reason(action);
                        workload.record(&writer.object, reason, Tone::Warning, &message).await;
                    }
                    let kind = refusal_kind(action);
                    if !acted.refusals.iter().any(|known| known.kind == kind) {
                        acted.refusals.push(Refusal { kind, message });
                    }
                }
                WriteError::Unavailable { .. } | WriteError::NotLeading | WriteError::Stopped => {
                    return Err(error);
                }
            }
        }
        Ok(acted)
    }
}

/// The condition that reports a refused write.
fn refusal_kind(action: &Action) -> ConditionKind {
    match action {
        Action::Create(_) | Action::Delete(..) | Action::ForceDelete(_) => {
            ConditionKind::FailedScale
        }
        Action::Mark(_)
        | Action::Unmark(_)
        | Action::SetGate(..)
        | Action::UpdateInPlace(_)
        | Action::ApplyGrace(_)
        | Action::DropGrace(_)
        | Action::HotPatch(_)
        | Action::ClearPostHook(_)
        | Action::Identify(_)
        | Action::StartHook(_)
        | Action::TerminateHook(_)
        | Action::DeleteHook(_)
        | Action::SetPaused(_)
        | Action::ResumeAndClear(_)
        | Action::ClearCommand
        | Action::RestoreTemplate { .. }
        | Action::ResetRetry(_)
        | Action::PrunePodsToDelete(_)
        | Action::Remember(_)
        | Action::DropRevisions(_)
        | Action::Announce(_) => ConditionKind::FailedUpdate,
    }
}

/// The reason of the Event that reports a refused write.
fn failed_reason(action: &Action) -> &'static str {
    match action {
        Action::Create(_) => "FailedCreate",
        Action::Delete(_, Departure::Replaced) => "FailedUpdatePodReCreate",
        Action::Delete(..) | Action::ForceDelete(_) => "FailedDelete",
        Action::UpdateInPlace(_) | Action::ApplyGrace(_) | Action::SetGate(..) => {
            "FailedUpdatePodInPlace"
        }
        Action::HotPatch(_) => "FailedUpdatePodHotPatch",
        Action::Mark(_)
        | Action::Unmark(_)
        | Action::DropGrace(_)
        | Action::ClearPostHook(_)
        | Action::Identify(_)
        | Action::StartHook(_)
        | Action::TerminateHook(_)
        | Action::DeleteHook(_)
        | Action::SetPaused(_)
        | Action::ResumeAndClear(_)
        | Action::ClearCommand
        | Action::RestoreTemplate { .. }
        | Action::ResetRetry(_)
        | Action::PrunePodsToDelete(_)
        | Action::Remember(_)
        | Action::DropRevisions(_)
        | Action::Announce(_) => "FailedUpdate",
    }
}

#[cfg(test)]
mod tests;
