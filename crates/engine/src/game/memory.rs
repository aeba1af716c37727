//! What is remembered of a game workload: its status.

use crate::{Moment, Revision};

use super::{HookKind, HookPhase};

/// What was written down last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the user asked for when this was written, by version.
    pub generation: i64,
    /// Pods by what can be said of them.
    pub counts: Counts,
    /// The revision pods come from.
    pub current: Option<Revision>,
    /// The revision of the template.
    pub update: Option<Revision>,
    /// Times two templates had one name.
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
    /// What people should know, one per kind and in their order.
    pub conditions: Vec<Condition>,
    /// All of it in one word.
    pub phase: Option<WorkloadPhase>,
    /// What is done or waited for, in a sentence.
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
    /// On the revision they come from.
    pub current: usize,
    /// On the revision of the template.
    pub updated: usize,
    /// Of those, ready with nothing of an update under way.
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

/// Something people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is about.
    pub kind: ConditionKind,
    /// Whether it is so.
    pub holds: bool,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// Since when it is so or is not, in whole seconds.
    pub since: Moment,
}

/// All of it in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadPhase {
    /// Pods are on their way, or too few are available.
    Progressing,
    /// The release is paused.
    Paused,
    /// Something is wrong that a person has to see to.
    Degraded,
    /// All is as it should be.
    Healthy,
}

/// What conditions are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionKind {
    /// Pods are on their way to the template's revision.
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

    /// Since when it is paused, for whatever reason.
    pub fn paused_since(&self) -> Option<Moment> {
        self.pauses.iter().map(|pause| pause.since).min()
    }

    /// A pause of ours is on.
    pub fn is_paused_by_us(&self) -> bool {
        self.pauses.iter().any(|pause| pause.reason != PauseReason::User)
    }
}
