//! The invariants of a canary, as a function over a trace.
//!
//! A trace is the sequence of events that an observer beside the API server sees: changes by others, and the
//! writes, questions and announcements of the controller. Simulations and tests of the whole operator
//! produce the same [`Entry`]s, so both are judged by the same rules, after every step and not at the end.
//!
//! ```text
//! source                 entries                               judged by
//! users, pods, faults    TargetIs, Pods, RouteEdited, ...      nothing: they are the world
//! the controller         Routed, Scaled, Remembered, ...       traffic, revision, effects
//! a test                 Settled                               effects: no write may follow
//! ```
//!
//! The number in a [`Violation`] is that of the invariant in `docs/invariants.md`.

mod effects;
mod rest;
mod revision;
mod traffic;

#[cfg(test)]
mod tests;

use std::fmt;

pub use self::rest::Ending;

use tidegate_engine::{
    Configs, Fact, GateKind, Memory, Moment, Notice, Percent, Phase, Plan, Revision, Side, Split,
};

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The real time, independent of the clock of the controller.
    pub at: Moment,
    /// The event.
    pub event: TraceEvent,
}

/// Which of the two workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// The user's, which doubles as the canary.
    Target,
    /// The production copy.
    Primary,
}

/// An event of a canary or around it.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    // === The world ===
    /// The user asks for this.
    Planned(Box<Plan>),
    /// The target asks for this revision and configuration.
    TargetIs(Box<Template>),
    /// The primary was there from the beginning, and runs this.
    PrimaryIs(Box<Template>),
    /// The target is gone.
    TargetGone,
    /// The primary was deleted.
    PrimaryGone,
    /// The state of a workload's pods.
    Pods(Workload, Pods),
    /// Another writer, a person or a scaler, asked for so many replicas.
    ScaledByOthers(Workload, i64),
    /// Another writer changed the routing object.
    RouteEdited(Split),
    /// Another writer changed the Service of clients.
    ApexEdited(Side),
    /// The status was lost, as by a restore without it.
    StatusLost,
    /// The canary must not be acted upon, or may be again.
    Refused(bool),
    /// The canary is being deleted.
    Deleted,
    /// A person requested a retry of the gates.
    Retried,
    /// The controller's clock was moved.
    ClockMoved,

    // === The controller ===
    /// The process crashed and another one goes on.
    Restarted,
    /// It may write, or may no longer.
    Leads(bool),
    /// It looked at the cluster.
    Looked,
    /// It called the hooks of this kind, and whether all passed.
    Asked(GateKind, bool),
    /// It ran the checks, and whether all passed.
    Checked(bool),
    /// A write failed, or its answer was lost: the question or check before it may be repeated once.
    WriteFailed,
    /// It is done with this look and waits, for this reason.
    Waits(&'static str),
    /// Its conditions say this, and it has seen everything.
    Says(Claims),

    // === Its writes ===
    /// Weights, as written.
    Routed {
        /// The primary's.
        primary: i64,
        /// The canary's.
        canary: i64,
        /// Whether the canary gets copies.
        mirrored: bool,
    },
    /// So many replicas.
    Scaled(Workload, i64),
    /// The primary's template and configuration, with replicas if they were written too.
    Templated(Box<Template>, Option<i64>),
    /// The status.
    Remembered(Box<Memory>),
    /// The Service of clients.
    ApexSelects(Side),
    /// A workload's scaler may not act.
    ScalerPaused(Workload),
    /// A workload's scaler may act.
    ScalerResumed(Workload),
    /// Any other object around the workloads.
    Placed,
    /// Our finalizer was put on the canary.
    Held,
    /// Our finalizer was taken off the canary.
    Released,
    /// A chat message was sent.
    Alerted(Box<Notice>),
    /// A chat message was sent, known by its words alone, as an alert is seen from outside.
    Messaged(String),
    /// An event was written.
    Announced(Box<Fact>),

    // === The test ===
    /// Nothing changes any more and everything came to rest.
    Settled,
}

/// A template and its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Fingerprint of the template.
    pub revision: Revision,
    /// Fingerprints of the configuration.
    pub configs: Option<Configs>,
}

/// The state of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pods {
    /// At least one can serve.
    pub serving: bool,
    /// Enough can, all of what they should run.
    pub ready: bool,
    /// They do not become ready, and their deadline passed.
    pub stuck: bool,
}

/// What the conditions of a canary promise to those who wait for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// `Ready` is true.
    pub ready: bool,
    /// `Promoted` is true.
    pub promoted: bool,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub invariant: u8,
    /// Which entry broke it, counted from 0.
    pub at: usize,
    /// The sentence that says how.
    pub text: String,
}

/// Judges a trace as it grows.
#[derive(Clone, Debug)]
pub struct Checker {
    index: usize,
    plan: Plan,
    memory: Memory,
    target: Option<Template>,
    primary: Option<Template>,
    pods: [Pods; 2],
    replicas: [Option<i64>; 2],
    split: Option<Split>,
    apex: Option<Side>,
    looked: Look,
    pace: IntervalTimer,
    /// The template that was rolled back last, until the target changes.
    failed: Option<Template>,
    /// The last rollout ended because the target went back to the promoted revision.
    is_reverted: bool,
    effects: effects::Effects,
}

/// The knowledge of the controller when it decided.
#[derive(Clone, Debug, Default)]
struct Look {
    target: Option<Template>,
    pods: [Pods; 2],
    /// The target was at the remembered revision.
    is_current: bool,
    /// No other writer touched the routing object since.
    is_route_ours: bool,
}

/// When the last step was taken, and why it was allowed.
#[derive(Clone, Debug, Default)]
struct IntervalTimer {
    last_step: Option<Moment>,
    /// The next step may come early: a person asked for it, or the clock was moved.
    is_excused: bool,
    /// The last checks since the last step passed.
    has_passed: bool,
}

/// The violation of an entry: the number of the invariant, and a sentence.
type Fault = (u8, String);
type Verdict = Result<(), Fault>;

/// Judges a whole trace.
pub fn check(trace: &[Entry], plan: &Plan) -> Vec<Violation> {
    let mut checker = Checker::new(plan.clone());
    trace.iter().filter_map(|entry| checker.see(entry)).collect()
}

// === impl Checker ===

impl Checker {
    /// Of a canary that was just created, with this plan.
    pub fn new(plan: Plan) -> Self {
        Self {
            index: 0,
            plan,
            memory: Memory::default(),
            target: None,
            primary: None,
            pods: [Pods::default(); 2],
            replicas: [None; 2],
            split: None,
            apex: None,
            looked: Look::default(),
            pace: IntervalTimer::default(),
            failed: None,
            is_reverted: false,
            effects: effects::Effects::default(),
        }
    }

    /// Takes the next entry; returns the invariant that it breaks, if any.
    pub fn see(&mut self, entry: &Entry) -> Option<Violation> {
        let verdict = self.judge(entry);
        self.learn(entry);
        let at = self.index;
        self.index += 1;
        let (invariant, text) = verdict.err()?;
        Some(Violation { invariant, at, text })
    }

    fn judge(&self, entry: &Entry) -> Verdict {
        self.judge_effects(entry)?;
        match &entry.event {
            TraceEvent::Routed { primary, canary, mirrored } => {
                self.judge_route(entry.at, *primary, *canary, *mirrored)
            }
            TraceEvent::Scaled(workload, replicas) => self.judge_scale(*workload, *replicas),
            TraceEvent::ApexSelects(side) => self.judge_apex(*side),
            TraceEvent::Templated(template, replicas) => self.judge_template(template, *replicas),
            TraceEvent::Remembered(next) => self.judge_memory(next),
            TraceEvent::Says(claims) => self.judge_claims(*claims),
            TraceEvent::Planned(_)
            | TraceEvent::TargetIs(_)
            | TraceEvent::PrimaryIs(_)
            | TraceEvent::TargetGone
            | TraceEvent::PrimaryGone
            | TraceEvent::Pods(..)
            | TraceEvent::ScaledByOthers(..)
            | TraceEvent::RouteEdited(_)
            | TraceEvent::ApexEdited(_)
            | TraceEvent::StatusLost
            | TraceEvent::Refused(_)
            | TraceEvent::Deleted
            | TraceEvent::Retried
            | TraceEvent::ClockMoved
            | TraceEvent::Restarted
            | TraceEvent::Leads(_)
            | TraceEvent::Looked
            | TraceEvent::Asked(..)
            | TraceEvent::Checked(_)
            | TraceEvent::WriteFailed
            | TraceEvent::Waits(_)
            | TraceEvent::ScalerPaused(_)
            | TraceEvent::ScalerResumed(_)
            | TraceEvent::Placed
            | TraceEvent::Held
            | TraceEvent::Released
            | TraceEvent::Alerted(_)
            | TraceEvent::Messaged(_)
            | TraceEvent::Announced(_)
            | TraceEvent::Settled => Ok(()),
        }
    }

    fn learn(&mut self, entry: &Entry) {
        self.learn_effects(entry);
        match &entry.event {
            TraceEvent::Routed { primary: _, canary, mirrored } => {
                self.learn_route(entry.at, *canary, *mirrored);
            }
            TraceEvent::Remembered(next) => self.learn_memory(entry.at, next),
            TraceEvent::Checked(passed) => self.pace.has_passed = *passed,
            TraceEvent::Retried | TraceEvent::ClockMoved => self.pace.is_excused = true,
            TraceEvent::Looked => {
                self.looked = Look {
                    target: self.target.clone(),
                    pods: self.pods,
                    is_current: self.target == Template::applied(&self.memory),
                    is_route_ours: true,
                };
            }
            world @ (TraceEvent::Planned(_)
            | TraceEvent::TargetIs(_)
            | TraceEvent::PrimaryIs(_)
            | TraceEvent::TargetGone
            | TraceEvent::PrimaryGone
            | TraceEvent::Pods(..)
            | TraceEvent::ScaledByOthers(..)
            | TraceEvent::RouteEdited(_)
            | TraceEvent::ApexEdited(_)
            | TraceEvent::StatusLost
            | TraceEvent::Refused(_)
            | TraceEvent::Deleted
            | TraceEvent::Restarted
            | TraceEvent::Leads(_)
            | TraceEvent::Asked(..)
            | TraceEvent::WriteFailed
            | TraceEvent::Waits(_)
            | TraceEvent::Says(_)
            | TraceEvent::Scaled(..)
            | TraceEvent::Templated(..)
            | TraceEvent::ApexSelects(_)
            | TraceEvent::ScalerPaused(_)
            | TraceEvent::ScalerResumed(_)
            | TraceEvent::Placed
            | TraceEvent::Held
            | TraceEvent::Released
            | TraceEvent::Alerted(_)
            | TraceEvent::Messaged(_)
            | TraceEvent::Announced(_)
            | TraceEvent::Settled) => self.learn_world(world),
        }
    }

    fn learn_world(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::Planned(plan) => self.plan = (**plan).clone(),
            TraceEvent::TargetIs(template) => {
                self.target = Some((**template).clone());
                self.failed = None;
            }
            TraceEvent::PrimaryIs(template) => self.primary = Some((**template).clone()),
            TraceEvent::TargetGone => {
                self.target = None;
                self.set_replicas(Workload::Target, None);
            }
            TraceEvent::PrimaryGone => self.set_replicas(Workload::Primary, None),
            TraceEvent::Pods(workload, pods) => {
                if let Some(slot) = self.pods.get_mut(*workload as usize) {
                    *slot = *pods;
                }
            }
            TraceEvent::ScaledByOthers(workload, replicas)
            | TraceEvent::Scaled(workload, replicas) => {
                self.set_replicas(*workload, Some(*replicas));
            }
            TraceEvent::RouteEdited(split) => {
                self.split = Some(*split);
                self.looked.is_route_ours = false;
                // An edit that undoes a step that was not written down yet leaves no trace of it.
                self.pace.last_step = None;
            }
            TraceEvent::ApexEdited(side) | TraceEvent::ApexSelects(side) => self.apex = Some(*side),
            TraceEvent::Templated(template, replicas) => {
                self.primary = Some((**template).clone());
                let now = replicas.or(self.replicas_of(Workload::Primary)).or(Some(1));
                self.set_replicas(Workload::Primary, now);
            }
            TraceEvent::StatusLost => {
                self.memory = Memory::default();
                self.failed = None;
                self.is_reverted = false;
            }
            TraceEvent::Refused(_)
            | TraceEvent::Deleted
            | TraceEvent::Retried
            | TraceEvent::ClockMoved
            | TraceEvent::Restarted
            | TraceEvent::Leads(_)
            | TraceEvent::Looked
            | TraceEvent::Asked(..)
            | TraceEvent::Checked(_)
            | TraceEvent::WriteFailed
            | TraceEvent::Waits(_)
            | TraceEvent::Says(_)
            | TraceEvent::Routed { .. }
            | TraceEvent::Remembered(_)
            | TraceEvent::ScalerPaused(_)
            | TraceEvent::ScalerResumed(_)
            | TraceEvent::Placed
            | TraceEvent::Held
            | TraceEvent::Released
            | TraceEvent::Alerted(_)
            | TraceEvent::Messaged(_)
            | TraceEvent::Announced(_)
            | TraceEvent::Settled => {}
        }
    }

    fn set_replicas(&mut self, workload: Workload, replicas: Option<i64>) {
        if let Some(slot) = self.replicas.get_mut(workload as usize) {
            *slot = replicas;
        }
    }

    fn replicas_of(&self, workload: Workload) -> Option<i64> {
        self.replicas.get(workload as usize).copied().flatten()
    }

    /// Whether a pod serves, or did when the controller looked: it cannot know better.
    fn can_serve(&self, workload: Workload) -> bool {
        [&self.pods, &self.looked.pods]
            .into_iter()
            .filter_map(|pods| pods.get(workload as usize))
            .any(|pods| pods.serving)
    }

    fn is_stuck(&self, workload: Workload) -> bool {
        [&self.pods, &self.looked.pods]
            .into_iter()
            .filter_map(|pods| pods.get(workload as usize))
            .any(|pods| pods.stuck)
    }

    fn share(&self) -> Percent {
        self.split.map_or(Percent::ZERO, |split| split.canary)
    }

    /// Whether an analysis is in progress.
    fn is_analysing(&self) -> bool {
        let memory = &self.memory;
        matches!(memory.phase, Phase::Progressing | Phase::WaitingPromotion) || memory.is_paused()
    }
}

// === impl Violation ===

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} at entry {}: {}", self.invariant, self.at, self.text)
    }
}

// === impl Template ===

impl Template {
    /// The template that memory says was started or judged last.
    fn applied(memory: &Memory) -> Option<Self> {
        let revision = memory.applied.clone()?;
        Some(Self { revision, configs: memory.configs.clone() })
    }
}
