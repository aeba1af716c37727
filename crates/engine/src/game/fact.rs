//! Facts about a game workload: the one vocabulary of events, conditions and explanations.

use crate::{Moment, Revision, Tone};

use super::{Command, HookKind, HookPhase, PauseReason, Refusal, ResumeBy, UpdateWay};

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Nothing to do.
    AtRest,
    /// The workload is being deleted: its pods go with it.
    BeingDeleted,
    /// It must not be acted upon.
    Refused(Vec<String>),
    /// The template changed: a release begins.
    NewRevision(Revision),
    /// The template went back to the stable revision.
    Reverted(Revision),
    /// The steps changed: they are taken from the first.
    StepsChanged,
    /// A step may not be meant as it is written.
    StepDoubtful(String),
    /// Something beside the steps may not be meant as it is written.
    SpecDoubtful(String),
    /// This step is taken now.
    StepSet(usize),
    /// A pause begins.
    Paused(PauseReason),
    /// A pause holds.
    AwaitingPerson(PauseReason, ResumeBy),
    /// A timed pause holds.
    AwaitingTime(Moment),
    /// `paused` was cleared, which does not resume this release.
    ResumeIgnored,
    /// The hook of the step runs.
    AwaitingHook(String),
    /// The hook of the step did not pass.
    HookFailed {
        /// Name of the run.
        run: String,
        /// How it ended; nothing if it took too long.
        phase: Option<HookPhase>,
        /// It was ended from outside.
        is_terminated: bool,
    },
    /// The hook of the step cannot be run.
    HookBlocked(String),
    /// Arguments were given that the template does not declare.
    ArgumentsDropped(Vec<String>),
    /// Not enough pods of the new revision are available.
    AwaitingPods {
        /// Available.
        available: usize,
        /// Needed.
        wanted: usize,
    },
    /// Pods are made or deleted.
    Scaling {
        /// Made.
        created: usize,
        /// Deleted.
        deleted: usize,
    },
    /// No number is left for another pod.
    NoIndex {
        /// Pods there should be.
        replicas: usize,
        /// Numbers there are.
        indexes: i64,
    },
    /// The range of numbers is unreadable.
    IndexesUnreadable(String),
    /// All numbers are taken until pods that are on their way out are gone.
    AwaitingIndex,
    /// Pods run an older revision until a person deletes them.
    OldPodsKept(usize),
    /// Pods are updated.
    Updating(usize),
    /// Something about updated pods is finished.
    Refreshing(usize),
    /// The node of a pod has not taken notice of the last change yet.
    AwaitingNode(String),
    /// As many pods are unavailable as maxUnavailable allows.
    AwaitingBudget,
    /// No pod may ever be out of service.
    NoBudget,
    /// A pod cannot be updated in place.
    NotInPlace {
        /// Name of the pod.
        pod: String,
        /// How it was to be updated.
        way: UpdateWay,
        /// The path that differs.
        path: String,
    },
    /// A pod waits for its hook.
    AwaitingPodHook {
        /// Name of the pod.
        pod: String,
        /// Which hook.
        kind: HookKind,
    },
    /// The hook of a pod failed: the pod stays as it is.
    PodHookFailed {
        /// Name of the pod.
        pod: String,
        /// Which hook.
        kind: HookKind,
        /// How it ended.
        phase: HookPhase,
    },
    /// The hook of a pod cannot be run.
    PodHookBlocked {
        /// Name of the pod.
        pod: String,
        /// Why.
        why: String,
    },
    /// Failed hooks of pods are run again.
    HooksRetried(HookKind),
    /// A pod failed and is replaced.
    PodFailed(String),
    /// All containers of a pod ended, and it is replaced.
    PodEnded(String),
    /// A pod is taken from a node that is lost.
    PodLost(String),
    /// A pod must be ready before the next.
    AwaitingOrder(String),
    /// A pod is on its way out.
    AwaitingDeletion(String),
    /// All pods run the revision: it is the stable one now.
    Promoted(Revision),
    /// A person asked for this, and it is done.
    Obeyed(Command),
    /// A person asked for this, and there is nothing to do it to.
    NothingTo(Command),
    /// A person asked for this while another revision was released.
    AskedTooLate(Command),
    /// A person asked for an unknown command.
    UnknownVerb(String),
    /// The template is put back to the stable revision because a hook failed.
    RollsBack(Revision),
    /// The cluster refused a write.
    WriteRefused(Refusal),
}

// === impl Fact ===

impl Fact {
    /// The word for machines: stable, one per kind of fact.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::AtRest => "AtRest",
            Self::BeingDeleted => "BeingDeleted",
            Self::Refused(_) => "Refused",
            Self::NewRevision(_) => "NewRevision",
            Self::Reverted(_) => "RevisionReverted",
            Self::StepsChanged => "StepsChanged",
            Self::StepDoubtful(_) => "StepDoubtful",
            Self::SpecDoubtful(_) => "SpecDoubtful",
            Self::StepSet(_) => "SetStepIndex",
            Self::Paused(_) => "Paused",
            Self::AwaitingPerson(..) => "WaitingForResume",
            Self::AwaitingTime(_) => "WaitingForTime",
            Self::ResumeIgnored => "ResumeIgnored",
            Self::AwaitingHook(_) => "WaitingForHook",
            Self::HookFailed { .. } => "HookFailed",
            Self::HookBlocked(_) => "HookBlocked",
            Self::ArgumentsDropped(_) => "ArgumentsDropped",
            Self::AwaitingPods { .. } => "WaitingForPods",
            Self::Scaling { .. } => "Scaling",
            Self::NoIndex { .. } | Self::IndexesUnreadable(_) => "FailedScale",
            Self::AwaitingIndex => "WaitingForIndex",
            Self::OldPodsKept(_) => "OldPodsKept",
            Self::Updating(_) => "Updating",
            Self::Refreshing(_) => "FinishingUpdates",
            Self::AwaitingNode(_) => "WaitingForNode",
            Self::AwaitingBudget => "WaitingForBudget",
            Self::NoBudget => "NoBudget",
            Self::NotInPlace { way: UpdateWay::HotPatch, .. } => "FailedUpdatePodHotPatch",
            Self::NotInPlace { .. } => "FailedUpdatePodInPlace",
            Self::AwaitingPodHook { .. } => "WaitingForPodHook",
            Self::PodHookFailed { .. } => "PodHookFailed",
            Self::PodHookBlocked { .. } => "PodHookBlocked",
            Self::HooksRetried(_) => "HooksRetried",
            Self::PodFailed(_) => "RecreatingFailedPod",
            Self::PodEnded(_) => "RecreatingEndedPod",
            Self::PodLost(_) => "PodLost",
            Self::AwaitingOrder(_) => "WaitingForOrder",
            Self::AwaitingDeletion(_) => "WaitingForDeletion",
            Self::Promoted(_) => "Promoted",
            Self::Obeyed(_) => "Obeyed",
            Self::NothingTo(_) => "NothingToDo",
            Self::AskedTooLate(_) => "AskedTooLate",
            Self::UnknownVerb(_) => "UnknownVerb",
            Self::RollsBack(_) => "RollingBack",
            Self::WriteRefused(refusal) => refusal.kind.as_str(),
        }
    }

    /// Is something wrong?
    pub const fn tone(&self) -> Tone {
        match self {
            Self::Refused(_)
            | Self::StepDoubtful(_)
            | Self::SpecDoubtful(_)
            | Self::ResumeIgnored
            | Self::HookFailed { .. }
            | Self::HookBlocked(_)
            | Self::ArgumentsDropped(_)
            | Self::NoIndex { .. }
            | Self::IndexesUnreadable(_)
            | Self::UnknownVerb(_)
            | Self::NoBudget
            | Self::NotInPlace { .. }
            | Self::PodHookFailed { .. }
            | Self::PodHookBlocked { .. }
            | Self::PodFailed(_)
            | Self::PodEnded(_)
            | Self::PodLost(_)
            | Self::NothingTo(_)
            | Self::AskedTooLate(_)
            | Self::RollsBack(_)
            | Self::WriteRefused(_) => Tone::Warning,
            Self::AtRest
            | Self::BeingDeleted
            | Self::NewRevision(_)
            | Self::Reverted(_)
            | Self::StepsChanged
            | Self::StepSet(_)
            | Self::Paused(_)
            | Self::AwaitingPerson(..)
            | Self::AwaitingTime(_)
            | Self::AwaitingHook(_)
            | Self::AwaitingPods { .. }
            | Self::Scaling { .. }
            | Self::Updating(_)
            | Self::Refreshing(_)
            | Self::AwaitingNode(_)
            | Self::AwaitingBudget
            | Self::AwaitingIndex
            | Self::OldPodsKept(_)
            | Self::AwaitingPodHook { .. }
            | Self::HooksRetried(_)
            | Self::AwaitingOrder(_)
            | Self::AwaitingDeletion(_)
            | Self::Promoted(_)
            | Self::Obeyed(_) => Tone::Normal,
        }
    }

    /// The sentence for people. It does not change while the same is waited for.
    #[expect(
        clippy::too_many_lines,
        reason = "a table: a fact without a sentence does not compile"
    )]
    pub fn text(&self) -> String {
        match self {
            Self::AtRest => "All pods are as they should be.".to_owned(),
            Self::BeingDeleted => "The workload is being deleted.".to_owned(),
            Self::Refused(problems) => problems.join("; "),
            Self::NewRevision(revision) => format!("Revision {revision} is released."),
            Self::Reverted(revision) => {
                format!("The template was reverted to {revision}, and all pods follow at once.")
            }
            Self::StepsChanged => {
                "The steps changed; the release starts again with them.".to_owned()
            }
            Self::StepSet(index) => format!("Set Step Index to {index}"),
            Self::Paused(reason) => match reason {
                PauseReason::Step => "The release is paused, as this step asks.".to_owned(),
                PauseReason::Hook => "The release is paused, as its hook did not pass.".to_owned(),
                PauseReason::User => "The release is paused by hand.".to_owned(),
            },
            Self::AwaitingPerson(reason, ResumeBy::Field) => {
                format!("{}: set updateStrategy.paused to false to continue.", reason.as_str())
            }
            Self::AwaitingPerson(reason, ResumeBy::Annotation) => {
                format!(
                    "{}: annotate it with tidegate.dev/ask=resume to continue.",
                    reason.as_str()
                )
            }
            Self::AwaitingTime(_) => "The pause of this step is not over yet.".to_owned(),
            Self::ResumeIgnored => {
                "updateStrategy.paused was cleared, but this release resumes by annotation only."
                    .to_owned()
            }
            Self::StepDoubtful(why) | Self::SpecDoubtful(why) => why.clone(),
            Self::AwaitingHook(run) => format!("Hook run {run} is under way."),
            Self::HookFailed { run, phase: None, .. } => {
                format!("Hook run {run} exceeded its deadline.")
            }
            Self::HookFailed { run, is_terminated: true, .. } => {
                format!("Hook run {run} was terminated before it could pass.")
            }
            Self::HookFailed { run, phase: Some(phase), .. } => {
                format!("Hook run {run} ended {}.", phase.as_str())
            }
            Self::HookBlocked(why) => format!("The hook of this step cannot be run: {why}"),
            Self::ArgumentsDropped(names) => {
                format!("The hook template does not declare {}.", names.join(", "))
            }
            Self::Promoted(revision) => format!("All pods run {revision}."),
            Self::Obeyed(command) => format!("Done as asked: {}.", command.as_str()),
            Self::NothingTo(command) => format!("There is nothing to {}.", command.as_str()),
            Self::AskedTooLate(command) => {
                format!(
                    "tidegate.dev/ask={} names another revision and is ignored.",
                    command.as_str()
                )
            }
            Self::UnknownVerb(word) => format!(
                "tidegate.dev/ask must be one of {}, with @<revision> for that release only, not {word:?}.",
                Command::ALL.map(Command::as_str).join(", ")
            ),
            Self::RollsBack(revision) => {
                format!("The release rolls back to {revision}, as its hook did not pass.")
            }
            Self::WriteRefused(refusal) => refusal.message.clone(),
            Self::AwaitingPods { available, wanted } => {
                format!("{available} of {wanted} pods of the new revision are available.")
            }
            Self::Scaling { created, deleted } => {
                format!("Pods created: {created}, pods deleted: {deleted}.")
            }
            Self::NoIndex { replicas, indexes } => {
                format!("{replicas} pods do not fit {indexes} indexes.")
            }
            Self::IndexesUnreadable(why) => format!("No pod can be created: {why}"),
            Self::AwaitingIndex => {
                "All indexes of the range belong to pods that are terminating.".to_owned()
            }
            Self::OldPodsKept(count) => {
                format!("Pods that run an older revision until they are deleted: {count}.")
            }
            Self::Updating(count) => format!("Pods being updated: {count}."),
            Self::Refreshing(count) => format!("Pods whose update is finished: {count}."),
            Self::AwaitingNode(pod) => {
                format!("Pod {pod} does not run the last change of its images yet.")
            }
            Self::AwaitingBudget => {
                "As many pods are unavailable as maxUnavailable allows.".to_owned()
            }
            Self::NoBudget => "maxUnavailable is 0: no pod can be updated.".to_owned(),
            Self::NotInPlace { pod, path, way: _ } => format!(
                "Pod {pod} cannot be updated in place: {path} differs. Change \
                 updateStrategy.type to RollingUpdate for this."
            ),
            Self::AwaitingPodHook { pod, kind } => {
                format!("Pod {pod} waits for its {} hook.", kind.prefix())
            }
            // It says that it passed, and was ended from outside.
            Self::PodHookFailed { pod, kind, phase: HookPhase::Successful } => format!(
                "Pod {pod} stays, as its {} hook was terminated before it could pass: set retry to run it \
                 again.",
                kind.prefix()
            ),
            Self::PodHookFailed { pod, kind, phase } => format!(
                "Pod {pod} stays, as its {} hook ended {}: set retry to run it again.",
                kind.prefix(),
                phase.as_str()
            ),
            Self::PodHookBlocked { pod, why } => {
                format!("The hook of pod {pod} cannot be run: {why}")
            }
            Self::HooksRetried(kind) => format!("Failed {} hooks are run again.", kind.prefix()),
            Self::PodFailed(pod) => format!("Pod {pod} failed and is replaced."),
            Self::PodEnded(pod) => format!("Pod {pod} ended and is replaced."),
            Self::PodLost(pod) => format!("Pod {pod} is force-deleted, as its node is lost."),
            Self::AwaitingOrder(pod) => format!("Pod {pod} must be ready before the next."),
            Self::AwaitingDeletion(pod) => format!("Pod {pod} is terminating."),
        }
    }
}

// === impl Command ===

impl Command {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Resume, Self::Pause, Self::SkipAll, Self::Abort, Self::RetryHook];

    /// The command of this name, if it is one of ours.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// The word for people and annotations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::SkipAll => "skip-all",
            Self::Abort => "abort",
            Self::RetryHook => "retry-hook",
            Self::Pause => "pause",
        }
    }
}
