//! The memory of a game workload between two looks: its status.

use crate::{Moment, Revision};

use super::{HookKind, HookPhase};

/// The status as it was written last.
///
/// A look compares the status that it would write with the one that it read, so every field must come back
/// as it was written; a field that is read as something else is written again in every look. Those marked *
/// are ours, others do not write them. Absent is none, and zero for a count.
///
/// | field | where it is stored |
/// |---|---|
/// | `generation` | `status.observedGeneration` |
/// | `counts.replicas`, `.ready`, `.updated`, `.updated_ready` | `status.replicas`, `.readyReplicas`, `.updatedReplicas`, `.updatedReadyReplicas` |
/// | `counts.available` | `status.availableReplicas`; * of a set |
/// | `counts.current` | `status.currentReplicas` of a set; zero of pods without numbers |
/// | `counts.updated_available`, `.expected_updated` | `status.updatedAvailableReplicas` *, `.expectedUpdatedReplicas` * |
/// | `current` | `status.currentRevision`; * of pods without numbers |
/// | `update`, `collisions` | `status.updateRevision`, `.collisionCount` |
/// | `step`, `steps_hash` | `status.currentStepIndex`, `.currentStepHash` |
/// | `stable`, `hook_run` | `status.canary.revision`, `.canary.currentStepHookRun` |
/// | `blocked_since` | `status.canary.hookBlockedSince` * |
/// | `pauses` | `status.pauseConditions`; `PausedByUser` is ours |
/// | `pod_hooks` | `status.preDeleteHookCondition`, `.preInplaceHookCondition`, `.postInplaceHookCondition`, by kind |
/// | `conditions` | `status.conditions`; `since` is `lastTransitionTime` |
/// | `phase`, `message` | `status.phase` *, `.message` * |
/// | [`Memory::paused_since`] | `status.canary.pauseStartTime`, written only |
///
/// The rest of the memory is stored on the objects that it is about:
///
/// | fact | where it is stored |
/// |---|---|
/// | that a pause is a person's | the manager that set `updateStrategy.paused`; once that was noticed, `PausedByUser` in the status |
/// | the command of a person | an annotation of the workload |
/// | the revision of a pod | its label `controller-revision-hash` |
/// | [`Pod::update`](super::Pod::update) | pod annotation `inplace-update-state`: `revision`, `updateTimestamp`, and of each container in `lastContainerStatuses` its `imageID` and, *, its `image` and `restartCount` |
/// | [`Pod::grace`](super::Pod::grace) | pod annotation `inplace-update-grace`: `revision`, `graceSeconds`, and *, `from`; the images in it are for other readers, `metaDataPatch` counts where `from` is absent |
/// | [`Pod::gate`](super::Pod::gate) | pod condition `InPlaceUpdateReady`, if it is among the readiness gates |
/// | [`Pod::is_marked`](super::Pod::is_marked) | pod annotation `io.tencent.bcs.dev/game-pod-deleting` |
/// | [`Pod::owes_post_hook`](super::Pod::owes_post_hook) | a pod annotation * |
/// | [`Pod::index`](super::Pod::index) | pod annotation `tkex.bkbcs.tencent.com/gamedeployment-index-id` |
/// | the pod and the operation of a run | on the run: labels, and annotations * for the uid of the pod and the revision it is updated to |
///
/// Only the last refusals of the cluster ([`Refusal`](super::Refusal)) are known to a process alone: after
/// a restart the writes are tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The version of the spec when this was written.
    pub generation: i64,
    /// Counts of pods.
    pub counts: Counts,
    /// The revision pods come from.
    pub current: Option<Revision>,
    /// The revision of the template.
    pub update: Option<Revision>,
    /// Collisions of names of revisions.
    pub collisions: u32,
    /// The step being taken; the number of steps when all are done.
    pub step: Option<usize>,
    /// Hash of the steps.
    pub steps_hash: Option<String>,
    /// The last revision that went through all steps.
    pub stable: Option<Revision>,
    /// Name of the run of the current step.
    pub hook_run: Option<String>,
    /// Why the release is paused.
    pub pauses: Vec<Pause>,
    /// Since when the hook of the current step cannot be run.
    pub blocked_since: Option<Moment>,
    /// Hooks of pods that are not over, by pod.
    pub pod_hooks: Vec<PodHookState>,
    /// Conditions for people, one per kind and in their order.
    pub conditions: Vec<Condition>,
    /// The state of the workload in one word.
    pub phase: Option<WorkloadPhase>,
    /// The present action or reason for waiting, in a sentence.
    pub message: String,
}

/// Numbers of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub replicas: usize,
    /// Ready ones.
    pub ready: usize,
    /// Ready for long enough.
    pub available: usize,
    /// On the revision they come from; not counted for pods without numbers.
    pub current: usize,
    /// On the revision of the template.
    pub updated: usize,
    /// Of those, ready with no update in progress.
    pub updated_ready: usize,
    /// Of those, ready for long enough.
    pub updated_available: usize,
    /// That should be on it at this step.
    pub expected_updated: usize,
}

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Why.
    pub reason: PauseReason,
    /// Since when, in whole seconds.
    pub since: Moment,
}

/// Why a release is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseReason {
    /// A step says so.
    Step,
    /// A hook failed.
    Hook,
    /// A person says so.
    User,
}

/// The hook of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodHookState {
    /// Of which kind.
    pub kind: HookKind,
    /// Name of the pod.
    pub pod: String,
    /// Since when.
    pub since: Moment,
    /// Where it stands.
    pub phase: HookPhase,
}

/// A condition, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its kind.
    pub kind: ConditionKind,
    /// Whether it holds.
    pub holds: bool,
    /// The reason, in a word.
    pub reason: String,
    /// The reason, in a sentence.
    pub message: String,
    /// Since when it holds or does not, in whole seconds.
    pub since: Moment,
}

/// The state of the workload in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadPhase {
    /// Pods are changing, or too few are available.
    Progressing,
    /// The release is paused.
    Paused,
    /// Something is wrong that a person has to see to.
    Degraded,
    /// All is as it should be.
    Healthy,
}

/// The kinds of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionKind {
    /// Pods are changing to the template's revision.
    Progressing,
    /// Enough pods are available.
    Available,
    /// The release is paused.
    Paused,
    /// Pods cannot be made or deleted.
    FailedScale,
    /// Pods cannot be updated.
    FailedUpdate,
    /// A hook cannot be run, or holds a pod.
    HookBlocked,
}

// === impl PauseReason ===

impl PauseReason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Step, Self::Hook, Self::User];

    /// The reason of this name, if it is one of ours.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// The word in status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "PausedByCanaryPauseStep",
            Self::Hook => "PausedByStepBasedHook",
            Self::User => "PausedByUser",
        }
    }
}

// === impl ConditionKind ===

impl ConditionKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Progressing,
        Self::Available,
        Self::Paused,
        Self::FailedScale,
        Self::FailedUpdate,
        Self::HookBlocked,
    ];

    /// The kind of this name, if it is one of ours.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// The word in status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Progressing => "Progressing",
            Self::Available => "Available",
            Self::Paused => "Paused",
            Self::FailedScale => "FailedScale",
            Self::FailedUpdate => "FailedUpdate",
            Self::HookBlocked => "HookBlocked",
        }
    }
}

// === impl WorkloadPhase ===

impl WorkloadPhase {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Progressing, Self::Paused, Self::Degraded, Self::Healthy];

    /// The phase of this name, if it is one of ours.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// The word in status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Progressing => "Progressing",
            Self::Paused => "Paused",
            Self::Degraded => "Degraded",
            Self::Healthy => "Healthy",
        }
    }
}

// === impl Memory ===

impl Memory {
    /// The pause with this reason.
    pub fn pause(&self, reason: PauseReason) -> Option<&Pause> {
        self.pauses.iter().find(|pause| pause.reason == reason)
    }

    /// Since when it is paused, for any reason.
    pub fn paused_since(&self) -> Option<Moment> {
        self.pauses.iter().map(|pause| pause.since).min()
    }

    /// A pause of ours is on.
    pub fn is_paused_by_us(&self) -> bool {
        self.pauses.iter().any(|pause| pause.reason != PauseReason::User)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::game::Command;

    #[test]
    fn every_word_that_is_written_is_read_as_the_same() {
        for reason in PauseReason::ALL {
            assert_eq!(PauseReason::parse(reason.as_str()), Some(reason));
        }
        for kind in ConditionKind::ALL {
            assert_eq!(ConditionKind::parse(kind.as_str()), Some(kind));
        }
        for phase in WorkloadPhase::ALL {
            assert_eq!(WorkloadPhase::parse(phase.as_str()), Some(phase));
        }
        for phase in HookPhase::ALL {
            assert_eq!(HookPhase::parse(phase.as_str()), Some(phase));
        }
        for command in Command::ALL {
            assert_eq!(Command::parse(command.as_str()), Some(command));
        }
        assert_eq!(PauseReason::parse("paused"), None);
    }
}
