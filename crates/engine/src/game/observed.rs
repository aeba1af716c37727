//! The observation of a game workload: everything a decision may look at.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Moment, Revision};

use super::{ConditionKind, HookKind, HookPhase, Json, Memory, Plan, Pod, arguments::Declared};

/// One look at the cluster.
///
/// Pods and runs must be as new as the last write of this controller, or a pod may be made twice: a
/// cache that lags behind is to be waited for.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The time of this look.
    pub now: Moment,
    /// The spec of the user.
    pub plan: Plan,
    /// The status as it was written last.
    pub memory: Memory,
    /// Why this workload must not be acted upon; empty if it may.
    pub problems: Vec<String>,
    /// Writes to pods that the cluster refused when they were last tried, one per kind; empty once
    /// they were not. They are known to the process alone: after a restart they are tried again.
    pub refusals: Vec<Refusal>,
    /// It is being deleted.
    pub is_deleted: bool,
    /// The revision of the template.
    pub update: Revision,
    /// Times its name was taken.
    pub collisions: u32,
    /// All revisions there are, that of the template among them.
    pub revisions: Vec<KnownRevision>,
    /// All pods of the workload, also those that failed or are being deleted.
    pub pods: Vec<Pod>,
    /// All runs of hooks of the workload.
    pub runs: Vec<HookRun>,
    /// Names that runs of others have.
    pub taken: BTreeSet<String>,
    /// The hook templates, by name.
    pub templates: BTreeMap<String, KnownTemplate>,
}

/// A hook template, as far as it matters before it is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTemplate {
    /// The arguments that it declares.
    pub declared: Vec<Declared>,
    /// Problems that it has with any arguments; empty if it has none.
    pub problems: Vec<String>,
}

/// A write to pods that the cluster refused: a quota, an admission rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// [`ConditionKind::FailedScale`] for pods that are made or deleted,
    /// [`ConditionKind::FailedUpdate`] for those that are changed.
    pub kind: ConditionKind,
    /// The write and why it failed, in a sentence without times or counts.
    pub message: String,
}

/// A revision and its template.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownRevision {
    /// Its name.
    pub name: Revision,
    /// Newer ones have larger numbers.
    pub number: i64,
    /// The pod template.
    pub template: Json,
}

/// A run of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRun {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub purpose: Purpose,
    /// Where it stands.
    pub phase: Option<HookPhase>,
    /// Termination was requested.
    pub is_terminated: bool,
    /// When it was made.
    pub created: Moment,
}

/// The purpose of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A step of a release.
    Step {
        /// The revision that was released.
        revision: Revision,
        /// Which step.
        index: usize,
    },
    /// An operation on a pod.
    Pod {
        /// Which hook.
        kind: HookKind,
        /// Which pod, by name.
        pod: String,
        /// Which pod.
        uid: String,
        /// The revision it is updated to in place; nothing if it is to be deleted.
        target: Option<Revision>,
    },
}

// === impl Observed ===

impl Observed {
    /// Whether no other run can have this name.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.taken.contains(name) || self.runs.iter().any(|run| run.name == name)
    }
}

// === impl HookRun ===

impl HookRun {
    /// It ended.
    pub fn is_over(&self) -> bool {
        self.phase.is_some_and(HookPhase::is_final)
    }

    /// It passed. A run that was ended from outside did not, whichever phase it has.
    pub fn has_passed(&self) -> bool {
        self.phase == Some(HookPhase::Successful) && !self.is_terminated
    }
}
