//! The spec of a game workload, with defaults.

use std::time::Duration;

use crate::Revision;

use super::{CostOrder, IntOrPercent, arguments::Argument};

/// The spec of the user. Defaults are filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Of which kind the workload is.
    pub kind: WorkloadKind,
    /// Namespace of the workload.
    pub namespace: String,
    /// Generation of the spec.
    pub generation: i64,
    /// Pods there should be.
    pub replicas: usize,
    /// How a pod is updated.
    pub way: UpdateWay,
    /// A pod that cannot be updated in place is replaced instead.
    pub falls_back: bool,
    /// Pods that stay on old revisions; ignored with steps.
    pub partition: IntOrPercent,
    /// Pods that may be out of service.
    pub max_unavailable: IntOrPercent,
    /// Pods there may be on top.
    pub max_surge: IntOrPercent,
    /// How long a pod must be ready to count as available.
    pub min_ready: Duration,
    /// How long a pod is out of service before its images are changed.
    pub grace: Duration,
    /// Release in steps.
    pub canary: Option<Canary>,
    /// Hooks around operations on single pods.
    pub hooks: PodHooks,
    /// Pods to delete first.
    pub pods_to_delete: Vec<String>,
    /// How costs of deletion are read.
    pub costs: CostOrder,
    /// Each pod gets a number.
    pub indexes: Indexes,
    /// Unused revisions to keep.
    pub history_limit: usize,
    /// The field `paused`.
    pub paused: Paused,
    /// The command of a person, until it is carried out.
    pub asked: Option<Asked>,
    /// An unknown command, cut short.
    pub misspelt: Option<String>,
}

/// Numbers for pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Indexes {
    /// Pods have none.
    #[default]
    Off,
    /// From the first on, before the second.
    Range(i64, i64),
    /// They are asked for with an unreadable range: no pod is made until that is fixed.
    Unreadable(String),
}

/// The kinds of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Pods without identity.
    Deployment,
    /// Numbered pods.
    StatefulSet(Management),
}

/// How numbered pods are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Management {
    /// One after the other, each ready before the next.
    #[default]
    OrderedReady,
    /// All at once.
    Parallel,
}

/// How a pod is updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateWay {
    /// It is deleted and created again.
    #[default]
    Recreate,
    /// Its images are changed while it is out of service.
    InPlace,
    /// Its images are changed while it serves, where the node can do that.
    HotPatch,
    /// Not at all: a pod that a person deletes is replaced by a new one.
    OnDelete,
}

/// A release in steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Canary {
    /// The steps.
    pub steps: Vec<CanaryStep>,
    /// A hash of them.
    pub hash: String,
    /// How a pause ends.
    pub resume_by: ResumeBy,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum CanaryStep {
    /// Keep so many pods on old revisions.
    Partition(IntOrPercent),
    /// Wait for a person, or for so long.
    Pause(Option<Duration>),
    /// Run a hook.
    Hook(StepHook),
}

/// A hook as a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepHook {
    /// The template to run.
    pub call: HookCall,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// A failure restores the template, instead of pausing.
    pub rolls_back: bool,
}

/// A template of a hook with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCall {
    /// Name of the template.
    pub template: String,
    /// Arguments for it.
    pub arguments: Vec<Argument>,
}

/// How a pause ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumeBy {
    /// When `paused` is set to false, by any writer.
    #[default]
    Field,
    /// When a person asks for it by a command: a tool that applies a manifest again does not.
    Annotation,
}

/// The field `paused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paused {
    /// Its value.
    pub value: bool,
    /// We were the last to set it, by its managed fields. After a crash between our writes of spec and status
    /// it is ours, and not that of a person.
    pub is_ours: bool,
}

/// A command of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The command.
    pub command: Command,
    /// Only while this is the revision that is released.
    pub revision: Option<Revision>,
}

/// The commands that people can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Go on after a pause.
    Resume,
    /// Take no more steps.
    SkipAll,
    /// Roll back to the stable revision.
    Abort,
    /// Run the failed hook of this step again, and those of pods.
    RetryHook,
    /// Hold the release until a person resumes it.
    Pause,
}

/// The kinds of hook of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookKind {
    /// Before it is deleted.
    PreDelete,
    /// Before it is updated in place.
    PreInPlace,
    /// After it was updated in place. The update does not wait for it.
    PostInPlace,
}

/// Hooks around operations on single pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodHooks {
    /// Before a pod is deleted.
    pub pre_delete: PodHook,
    /// Before a pod is updated in place.
    pub pre_in_place: PodHook,
    /// After a pod was updated in place.
    pub post_in_place: PodHook,
}

/// A hook around an operation on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodHook {
    /// The template to run, if any.
    pub call: Option<HookCall>,
    /// Failed runs are to be run again.
    pub retry: bool,
}

// === impl HookKind ===

impl HookKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::PreDelete, Self::PreInPlace, Self::PostInPlace];

    /// The prefix of names of runs.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::PreDelete => "predelete",
            Self::PreInPlace => "preinplace",
            Self::PostInPlace => "postinplace",
        }
    }
}

// === impl PodHooks ===

impl PodHooks {
    /// The hook of this kind.
    pub const fn of(&self, kind: HookKind) -> &PodHook {
        match kind {
            HookKind::PreDelete => &self.pre_delete,
            HookKind::PreInPlace => &self.pre_in_place,
            HookKind::PostInPlace => &self.post_in_place,
        }
    }
}

// === impl Plan ===

impl Plan {
    /// The steps, if there are any.
    pub fn steps(&self) -> &[CanaryStep] {
        self.canary.as_ref().map_or(&[], |canary| &canary.steps)
    }

    /// How a pause ends.
    pub fn resume_by(&self) -> ResumeBy {
        self.canary.as_ref().map_or(ResumeBy::Field, |canary| canary.resume_by)
    }

    /// Pods that stay on old revisions while this step is taken.
    ///
    /// Of the steps so far the last partition counts; before the first nothing is updated, after all
    /// of them everything is.
    pub fn partition_at(&self, index: usize) -> usize {
        let steps = self.steps();
        if steps.is_empty() {
            return self.partition.as_partition(self.replicas);
        }
        if index >= steps.len() {
            return 0;
        }
        let so_far = steps.iter().take(index + 1).rev();
        let mut partitions = so_far.filter_map(|step| match step {
            CanaryStep::Partition(share) => Some(*share),
            CanaryStep::Pause(_) | CanaryStep::Hook(_) => None,
        });
        partitions.next().map_or(self.replicas, |share| share.as_partition(self.replicas))
    }
}
