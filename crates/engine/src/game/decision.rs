//! Decisions about a game workload: actions in order, and the reason.

use std::{collections::BTreeMap, time::Duration};

use crate::{Again, Moment, Revision};

use super::{Command, Fact, HookKind, Memory, Purpose, arguments::Argument};

/// Actions in order, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The reason, for the explanation.
    pub why: Fact,
    /// The effects, in order. Each can be carried out twice. The [`Scope`] of one that fails says which of
    /// the others are left out.
    pub actions: Vec<Action>,
    /// When to look again.
    pub again: Again,
}

/// One effect.
///
/// Order is safety: a hook is begun before its pod is marked, a pod leaves service before its images
/// change, `paused` is set before the pause is written down, and the name of a step's run before the
/// run is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make a pod.
    Create(NewPod),
    /// Delete the pod, if it still is that one.
    Delete(PodRef, Departure),
    /// Delete the pod without waiting for its node.
    ForceDelete(PodRef),
    /// Mark the pod as about to be deleted.
    Mark(PodRef),
    /// Remove that mark.
    Unmark(PodRef),
    /// Set the condition of the pod's readiness gate.
    SetGate(PodRef, bool),
    /// One write to the pod: label, its state before, and the change or that it waits. An older change that
    /// waited until now is forgotten in the same write.
    UpdateInPlace(Box<PodChange>),
    /// Make the change that waited. In the same write it waits no more, and the state before is written
    /// down anew, with the time: events since the change began prove nothing.
    ApplyGrace(Box<PodChange>),
    /// Forget a change that waited for a revision that the pod is no longer to have.
    DropGrace(PodRef),
    /// One write to the pod, which goes on serving. The same write removes the notes of an update in place,
    /// both the state and a change that waits: neither would ever be over.
    HotPatch(Box<PodChange>),
    /// Forget the hook after the update: it is over or no longer needed.
    ClearPostHook(PodRef),
    /// Fix labels and volumes of a numbered pod.
    Identify(PodRef),
    /// Make a run of a hook, unless it exists.
    StartHook(Box<HookStart>),
    /// Ask a run to end.
    TerminateHook(String),
    /// Delete a run.
    DeleteHook(String),
    /// Set `paused`.
    SetPaused(bool),
    /// Set `paused` to false and remove the command of a person, in one write.
    ResumeAndClear(Command),
    /// Remove the command of a person.
    ClearCommand,
    /// Restore the template of this revision, if the other still is the template's, and remove the command of
    /// a person in the same write.
    RestoreTemplate {
        /// The revision to roll back to.
        to: Revision,
        /// The revision to leave.
        from: Revision,
    },
    /// Set `retry` of this hook back to false.
    ResetRetry(HookKind),
    /// Remove the names of pods that are gone from the list of pods to delete.
    PrunePodsToDelete(Vec<String>),
    /// Write the status.
    Remember(Box<Memory>),
    /// Delete revisions that are not needed any more.
    DropRevisions(Vec<Revision>),
    /// Announce: an event about the action before it, with which it is left out. No action depends on an event.
    Announce(Fact),
}

/// The actions that are left out when one fails. The look goes on with the rest, and another follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The rest of the actions on this pod, by uid. One pod that cannot be changed holds no other up.
    Pod(&'a str),
    /// All pods that are still to be made. A creation refused once, as by a quota, is refused again.
    Pods,
    /// The rest of the actions on runs of hooks, but for those that begin.
    Hooks,
    /// All actions after it.
    Release,
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// There are too many.
    Surplus,
    /// A person named it.
    Named,
    /// One of the new revision takes its place.
    Replaced,
    /// It failed, or all its containers ended.
    Failed,
}

/// A pod to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPod {
    /// Of which revision.
    pub revision: Revision,
    /// Its number, in a set.
    pub ordinal: Option<usize>,
    /// Its number in the range of indexes.
    pub index: Option<i64>,
}

/// Which pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Its name.
    pub name: String,
    /// Which of all that ever had this name.
    pub uid: String,
}

/// A change of a pod that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodChange {
    /// Which pod.
    pub pod: PodRef,
    /// The revision it has afterwards.
    pub revision: Revision,
    /// The revision whose template it has so far.
    pub from: Option<Revision>,
    /// Images to set, by container.
    pub images: BTreeMap<String, String>,
    /// Labels to set or to remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set or to remove.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Image ids of those containers so far.
    pub image_ids: BTreeMap<String, String>,
    /// The images those ids are of.
    pub images_before: BTreeMap<String, String>,
    /// How often those containers were restarted so far.
    pub restarts_before: BTreeMap<String, u32>,
    /// When this was decided.
    pub at: Moment,
    /// Images and metadata wait for so long.
    pub grace: Option<Duration>,
    /// A hook is to be run when this is over.
    pub owes_post_hook: bool,
}

/// A run to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookStart {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub purpose: Purpose,
    /// Name of the template whose metrics it copies.
    pub template: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
}

// === impl Action ===

impl Action {
    /// The actions that are left out if this one fails.
    pub fn scope(&self) -> Scope<'_> {
        match self {
            Self::Delete(pod, _)
            | Self::ForceDelete(pod)
            | Self::Mark(pod)
            | Self::Unmark(pod)
            | Self::SetGate(pod, _)
            | Self::DropGrace(pod)
            | Self::ClearPostHook(pod)
            | Self::Identify(pod) => Scope::Pod(&pod.uid),
            Self::UpdateInPlace(change) | Self::ApplyGrace(change) | Self::HotPatch(change) => {
                Scope::Pod(&change.pod.uid)
            }
            Self::StartHook(start) => match &start.purpose {
                Purpose::Pod { uid, .. } => Scope::Pod(uid),
                Purpose::Step { .. } => Scope::Release,
            },
            Self::Create(_) => Scope::Pods,
            Self::TerminateHook(_) | Self::DeleteHook(_) | Self::ResetRetry(_) => Scope::Hooks,
            Self::PrunePodsToDelete(_)
            | Self::SetPaused(_)
            | Self::ResumeAndClear(_)
            | Self::ClearCommand
            | Self::RestoreTemplate { .. }
            | Self::Remember(_)
            | Self::DropRevisions(_)
            | Self::Announce(_) => Scope::Release,
        }
    }
}

// === impl Decision ===

impl Decision {
    pub(super) fn because(why: Fact) -> Self {
        Self { why, actions: Vec::new(), again: Again::OnChange }
    }

    /// Adds an action.
    #[must_use]
    pub(super) fn act(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    #[must_use]
    pub(super) fn announce(self, fact: Fact) -> Self {
        self.act(Action::Announce(fact))
    }

    /// Whether it writes anything to the cluster.
    pub fn is_idle(&self) -> bool {
        self.actions.is_empty()
    }
}
