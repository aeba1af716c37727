//! Decisions: the next step, its actions in order, and the reason.

use std::mem;

use crate::{Fact, GateKind, ManagedObject, Memory, Moment, Revision, Split};

/// The outcome of one look: a question, or a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Something must be known first: ask, put the answer into the observation, decide again.
    Ask(Question),
    /// Carry this out.
    Do(Decision),
}

/// A question that only hooks and metric servers can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Do the metric backends answer?
    Backends,
    /// The answer of all hooks of this kind.
    Gate(GateKind),
    /// The answer of rollout hooks and metrics.
    Checks,
}

/// Actions in order, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The reason, for the condition and the explanation.
    pub why: Fact,
    /// The effects, in order. Each can be carried out twice. If one fails, those after it are not
    /// carried out, and the cluster is observed again.
    pub actions: Vec<Action>,
    /// When to look again.
    pub again: Again,
    /// This was a step, a check or a question: the next one is an interval away.
    pub starts_interval: bool,
}

/// When to look again. A change of anything that was looked at always wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// At once: this was one of several effects.
    Now,
    /// At that time at the latest.
    At(Moment),
    /// When something changes.
    OnChange,
}

/// One effect.
///
/// Order is safety: capacity before traffic, traffic before removing capacity, intent before what
/// cannot be undone, the result after.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write the object as it should be.
    Ensure(ManagedObject),
    /// Divide live traffic in these parts.
    Shift(Split),
    /// Route all clients to the primary in the route that had the canary's share before.
    RetirePreviousRoute,
    /// Give clients other cookies. Fresh ones are written down before anything else is done: a cookie
    /// that only a route has is lost with it. Retired ones are written down with the memory.
    Cookies(CookieChange),
    /// Ask for so many replicas of the target.
    ScaleTarget(i64),
    /// Scale the target to 0.
    Park,
    /// Let the target's scaler act again.
    ResumeScaler,
    /// Keep the target's scaler from acting.
    PauseScaler,
    /// Give the primary the target's template and configuration, if that still is this revision.
    Promote(Revision),
    /// Bring the primary's scaler to the target's current settings.
    RefreshPrimaryScaler,
    /// Write the status.
    Remember(Box<Memory>),
    /// Announce: event, log, event hooks.
    Announce(Fact),
    /// Send a chat message.
    Alert(Alert),
    /// Remove `spec.manualStep` if it is unchanged. Announce this once that is done.
    DropManualStep(Option<Fact>),
    /// Set `spec.manualStep.resume` back to false.
    ResetResume,
    /// Remove the annotation that requests a retry of the gates.
    ClearRetry,
    /// Count a finished rollout.
    Count(Outcome),
    /// Put our finalizer on the canary.
    AddFinalizer,
    /// Take our finalizer off the canary.
    RemoveFinalizer,
    /// Restore the apex Service: it selects the target again.
    RestoreApex,
    /// Restore the routing objects.
    RestoreRoute,
    /// Delete unused objects that were made for the canary.
    Prune,
}

/// The change of the cookies that keep clients on their side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CookieChange {
    /// The cookie of clients of the canary.
    pub canary: Cookie,
    /// The cookie of all others.
    pub primary: Cookie,
}

/// The change of one cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookie {
    /// Unchanged, or absent.
    #[default]
    Keep,
    /// A new one takes its place.
    Fresh,
    /// Removed; browsers that have it drop it.
    Retire,
}

/// A chat message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its severity.
    pub severity: Severity,
    /// The subject, from which the sentence is made.
    pub about: Notice,
}

/// The subject of a chat message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Set up for the first time.
    Initialized,
    /// A rollout starts.
    NewRevision,
    /// A gate is closed.
    Awaiting(GateKind),
    /// Held by hand.
    Held(crate::Percent),
    /// A hook rolled the rollout back.
    RolledBackByHook,
    /// Too many checks failed.
    ThresholdReached(u32),
    /// Not ready in time.
    DeadlineExceeded(String),
    /// The primary cannot run the new revision.
    PromotionFailed(String),
    /// Done.
    Promoted,
    /// Done unchecked.
    PromotedUnchecked,
    /// The primary cannot be set up.
    PrimaryStuck(String),
    /// Traffic cannot return to the primary.
    RollbackHeld(String),
    /// Not everything could be restored.
    RevertGivenUp(String),
}

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Info,
    /// A person may want to act.
    Warn,
    /// Something failed.
    Error,
}

/// How a rollout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Promoted after analysis.
    Completed,
    /// Promoted without analysis.
    Skipped,
    /// Rolled back.
    Failed,
}

// === impl Notice ===

impl Notice {
    /// Whether both are the same message: of one kind and about one gate. Numbers and texts do not count.
    pub fn repeats(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Awaiting(gate), Self::Awaiting(other)) => gate == other,
            _ => mem::discriminant(self) == mem::discriminant(other),
        }
    }
}

// === impl Decision ===

impl Decision {
    pub(crate) fn because(why: Fact) -> Self {
        Self { why, actions: Vec::new(), again: Again::OnChange, starts_interval: false }
    }

    /// Adds an action.
    #[must_use]
    pub(crate) fn act(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    #[must_use]
    pub(crate) fn act_if(self, wanted: bool, action: Action) -> Self {
        if wanted { self.act(action) } else { self }
    }

    #[must_use]
    pub(crate) fn remember(self, memory: Memory) -> Self {
        self.act(Action::Remember(Box::new(memory)))
    }

    #[must_use]
    pub(crate) fn announce(self, fact: Fact) -> Self {
        self.act(Action::Announce(fact))
    }

    /// Whether it announces this fact.
    pub fn announces(&self, fact: &Fact) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Announce(told) if told == fact))
    }

    /// Announces the reason of the decision.
    #[must_use]
    pub(crate) fn announcing(self) -> Self {
        let why = self.why.clone();
        self.announce(why)
    }

    #[must_use]
    pub(crate) fn alert(self, severity: Severity, about: Notice) -> Self {
        self.act(Action::Alert(Alert { severity, about }))
    }

    #[must_use]
    pub(crate) fn again(mut self, again: Again) -> Self {
        self.again = again;
        self
    }

    #[must_use]
    pub(crate) fn starts_interval(mut self) -> Self {
        self.starts_interval = true;
        self
    }
}

impl From<Decision> for Step {
    fn from(decision: Decision) -> Self {
        Self::Do(decision)
    }
}
