//! The observation of a canary: everything a decision may look at. Made by the operator at every look.

use crate::{Configs, Memory, Moment, Plan, Readiness, Revision, Split};

/// One look at the cluster, and what was answered so far in this tick.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The time of this look.
    pub now: Moment,
    /// The plan of the user.
    pub plan: Plan,
    /// The status as it was written last.
    pub memory: Memory,
    /// Why this canary must not be acted upon at all; empty if it may.
    pub blockers: Vec<String>,
    /// The user's workload, or why it cannot be used.
    pub target: Result<Target, Missing>,
    /// The workload that serves production.
    pub primary: Primary,
    /// The objects around the workloads.
    pub objects: Objects,
    /// How live traffic is divided, or why that is unknown. Where it cannot be divided at all, it is
    /// [`Split::PRIMARY`].
    pub routes: Result<Split, Obstacle>,
    /// Which cookies clients are given.
    pub cookies: Cookies,
    /// Whether it is time for the next step.
    pub interval_state: IntervalState,
    /// The finalizer and deletion of the canary itself.
    pub lifecycle: Lifecycle,
    /// The answers of hooks and checks in this tick.
    pub answers: Answers,
}

/// The user's workload, which doubles as the canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Fingerprint of its template.
    pub revision: Revision,
    /// Fingerprints of its configuration; `None` where that is not tracked.
    pub configs: Option<Configs>,
    /// Replicas in the spec. Of what is not counted, 1 while it runs and 0 while it is parked.
    pub replicas: i64,
    /// How its pods are counted.
    pub form: Form,
    /// Its scaler is set to keep it at zero, and will.
    pub scaler_paused: bool,
    /// Whether its pods can serve.
    pub readiness: Readiness,
    /// The primary already runs the target's template.
    pub same_as_primary: bool,
    /// Another writer changed the template after the last transition; looked at when a canary of another
    /// controller is taken over.
    pub edited_since: bool,
    /// Replicas to start a rollout with.
    pub replicas_to_run: i64,
}

/// How the pods of a workload are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// There are as many as are asked for.
    Replicas,
    /// There is one on each node, or they are kept from all nodes.
    PerNode,
    /// They belong to another owner: the workload only leads to them.
    Elsewhere,
}

/// Why there is no workload to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// This one does not exist: kind and name.
    Gone(String),
    /// It exists and cannot be used, for this reason.
    Unusable(String),
}

/// The production copy of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// It exists.
    pub exists: bool,
    /// Whether its pods can serve.
    pub readiness: Readiness,
    /// It was given the revision in `memory.applied`.
    pub is_updated: bool,
    /// Replicas it has or had, to restore the target with on deletion.
    pub replicas: i64,
}

/// The objects around the workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// The Service in front of the canary.
    pub canary_service: State,
    /// The Service in front of the primary.
    pub primary_service: State,
    /// That Service is there and selects the pods of another workload: to write it moves its clients.
    pub primary_service_moves: bool,
    /// The workload that the primary was made for, if the spec names another one since.
    pub previous_target: Option<String>,
    /// The primary workload itself: in sync if it exists.
    pub primary: State,
    /// The primary's scaler: in sync if it exists, or if there is nothing to copy.
    pub primary_scaler: State,
    /// The Service clients use, on the side of [`crate::apex_side`].
    pub apex_service: State,
    /// The routing objects, apart from their weights. Blocked also while a split of ours is refused.
    pub route: State,
    /// The route that had the canary's share before the spec named another one. In sync if there is none, or
    /// if it leads no client to the canary any more.
    pub previous_route: State,
    /// The next route that is put in place replaces that one.
    pub takes_over: bool,
    /// The error of the spec. Nothing is begun with it; a rollout in progress takes no step forward, and can
    /// be rolled back.
    pub spec_error: Option<Obstacle>,
    /// Why the last attempt to divide traffic was refused, if none succeeded since: a retry is allowed, but
    /// the obstacle may still be there.
    pub shift_refused: Option<Obstacle>,
    /// There are orphans: copies of configuration that no pod reads, Services and routes of a former name.
    /// Looked at while nothing is rolled out.
    pub orphans: bool,
    /// Whether the apex Service is restored, looked at on deletion.
    pub apex_restored: State,
    /// Whether the routing objects are restored, looked at on deletion.
    pub route_restored: State,
}

/// How an object compares with what it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    #[default]
    InSync,
    /// Missing or different; it can be written.
    OutOfSync,
    /// It cannot be as it should: something is missing, it has another owner, or the last attempt to write it
    /// was refused. An object that is merely `OutOfSync` is written before anything else happens, so an attempt
    /// that fails again and again must not stay so.
    Blocked(Obstacle),
}

/// An obstacle, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle(pub String);

/// The parts of [`Objects`], in the order they are put in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManagedObject {
    /// The Service in front of the canary.
    CanaryService,
    /// The Service in front of the primary.
    PrimaryService,
    /// The production copy of the workload and of its configuration.
    Primary,
    /// The production copy of the scaler.
    PrimaryScaler,
    /// The Service clients use.
    ApexService,
    /// The routing objects.
    Route,
}

/// Which cookies clients are given, to stay where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cookies {
    /// Those who see the canary.
    pub canary: bool,
    /// Those who do not.
    pub primary: bool,
}

/// Whether the next step is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalState {
    /// One interval passed since the last step, check or question.
    pub due: bool,
    /// When that is.
    pub next: Moment,
    /// A person requested a retry of the gates at once.
    pub retry: bool,
}

/// The canary object itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// It carries our finalizer.
    pub has_finalizer: bool,
    /// It is being deleted, since then.
    pub deleted_at: Option<Moment>,
}

/// The answers of hooks and checks in this tick. `None` where they were not called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// Whether metric backends answer at all; the error says which one does not.
    pub backends: Option<Result<(), String>>,
    /// The gate before a rollout.
    pub confirm_rollout: Option<Gate>,
    /// The gate before any traffic.
    pub pre_rollout: Option<Gate>,
    /// The gate before an increase.
    pub confirm_traffic_increase: Option<Gate>,
    /// The gate before promotion.
    pub confirm_promotion: Option<Gate>,
    /// Whether a hook rolls the rollout back, and its name.
    pub rollback: Option<Option<String>>,
    /// The answer of post-rollout hooks; it decides nothing.
    pub post_rollout: Option<Gate>,
    /// The analysis.
    pub checks: Option<Checks>,
}

/// The outcome of all hooks of one kind, called in order until one failed; after the end all are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Names of hooks that passed.
    pub passed: Vec<String>,
    /// Hooks that failed.
    pub refused: Vec<Refusal>,
}

/// A hook that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Name of the hook.
    pub hook: String,
    /// The answer of the hook, cut and cleaned.
    pub why: String,
    /// The user wants no chat message for this one.
    pub muted: bool,
}

/// The outcome of an analysis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    /// Measurements, in the order of the plan.
    pub measured: Vec<Measurement>,
    /// The verdict on all of them.
    pub verdict: Verdict,
    /// Metrics whose query has several results, of which one was taken.
    pub ambiguous: Vec<String>,
}

/// The verdict of an analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was measured, and is within its limits.
    #[default]
    Passed,
    /// A value is out of its limits, or a hook or a query failed.
    Failed(String),
    /// Nothing is wrong with what was measured, but not everything could be: there was nothing to
    /// measure. Counts as failed.
    NoData(String),
    /// The same, where the user would rather wait.
    Held(String),
}

/// One value against its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Name of the metric.
    pub name: String,
    /// The measured value.
    pub value: f64,
    /// Least accepted value.
    pub min: Option<f64>,
    /// Largest accepted value.
    pub max: Option<f64>,
    /// Whether it was accepted.
    pub passed: bool,
}

// === impl Missing ===

impl Missing {
    /// The reason, for people.
    pub fn why(&self) -> String {
        match self {
            Self::Gone(workload) => format!("the {workload} that targetRef names does not exist"),
            Self::Unusable(why) => why.clone(),
        }
    }
}

// === impl Target ===

impl Target {
    /// It has no pods, or will soon have none.
    pub(crate) fn is_parked(&self) -> bool {
        self.replicas < 1 || self.scaler_paused
    }
}

// === impl Objects ===

impl Objects {
    pub(crate) fn of(&self, piece: ManagedObject) -> &State {
        match piece {
            ManagedObject::CanaryService => &self.canary_service,
            ManagedObject::PrimaryService => &self.primary_service,
            ManagedObject::Primary => &self.primary,
            ManagedObject::PrimaryScaler => &self.primary_scaler,
            ManagedObject::ApexService => &self.apex_service,
            ManagedObject::Route => &self.route,
        }
    }
}

// === impl ManagedObject ===

impl ManagedObject {
    /// All, in the order they are put in place.
    pub const ALL: [Self; 6] = [
        Self::CanaryService,
        Self::PrimaryService,
        Self::Primary,
        Self::PrimaryScaler,
        Self::ApexService,
        Self::Route,
    ];
}

// === impl Gate ===

impl Gate {
    /// All hooks passed.
    pub fn is_open(&self) -> bool {
        self.refused.is_empty()
    }

    /// The first that did not.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refused.first()
    }
}

// === impl Refusal ===

impl Refusal {
    /// The refusal in a sentence: a closed gate, one that fails and one that is not there are all waited for,
    /// but not by the same person.
    pub fn sentence(&self) -> String {
        format!("{} has not passed ({})", self.hook, self.why)
    }
}
