//! The memory of a canary between two observations: its status.

use std::fmt;

use crate::{Configs, Moment, Percent, Revision};

/// The status as the controller wrote it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The phase of the rollout.
    pub phase: Phase,
    /// Failed checks of this rollout.
    pub failed_checks: u32,
    /// The canary's share as last written. The routing object is the truth.
    pub weight: Percent,
    /// Passed checks of this rollout, for A/B and blue/green.
    pub iterations: u32,
    /// The revision that was last started or judged.
    pub applied: Option<Revision>,
    /// The revision the primary was last given.
    pub promoted: Option<Revision>,
    /// Configuration as of `applied`.
    pub configs: Option<Configs>,
    /// Held by hand.
    pub pause: Option<Pause>,
    /// When phase, weight or iterations last changed.
    pub since: Option<Moment>,
    /// The pre-rollout gate of this rollout was passed.
    pub prepared: bool,
    /// This rollout replaces a primary that never became ready: traffic stays on the canary.
    pub replaces_broken_primary: bool,
    /// The end of the rollout that post-rollout hooks were not called for yet.
    pub untold: Option<Phase>,
    /// Since when an obstacle keeps the rollout from going on.
    pub blocked_since: Option<Moment>,
    /// Since when checks that wait for data have had none.
    pub no_data_since: Option<Moment>,
}

/// A hold requested by a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The share that is held.
    pub weight: Percent,
    /// When it began.
    pub since: Moment,
}

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Nothing was done yet.
    #[default]
    New,
    /// The primary is being set up.
    Initializing,
    /// The primary runs; nothing was rolled out yet.
    Initialized,
    /// Waiting for approval to start, or held by hand.
    Waiting,
    /// A revision is being analysed.
    Progressing,
    /// Waiting for approval to promote.
    WaitingPromotion,
    /// The primary is being updated.
    Promoting,
    /// Traffic is back on the primary; the canary is about to be scaled down.
    Finalising,
    /// The last rollout was promoted.
    Succeeded,
    /// The last rollout was rolled back.
    Failed,
    /// Everything is being restored.
    Terminating,
    /// Everything was restored.
    Terminated,
}

// === impl Phase ===

impl Phase {
    /// The word, as in status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "",
            Self::Initializing => "Initializing",
            Self::Initialized => "Initialized",
            Self::Waiting => "Waiting",
            Self::Progressing => "Progressing",
            Self::WaitingPromotion => "WaitingPromotion",
            Self::Promoting => "Promoting",
            Self::Finalising => "Finalising",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::Terminated => "Terminated",
        }
    }

    /// Nothing is being rolled out.
    pub const fn is_idle(self) -> bool {
        matches!(self, Self::Initialized | Self::Succeeded | Self::Failed)
    }

    /// A rollout was requested and is not over yet.
    pub const fn is_under_way(self) -> bool {
        match self {
            Self::Waiting
            | Self::Progressing
            | Self::WaitingPromotion
            | Self::Promoting
            | Self::Finalising => true,
            Self::New
            | Self::Initializing
            | Self::Initialized
            | Self::Succeeded
            | Self::Failed
            | Self::Terminating
            | Self::Terminated => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Memory ===

impl Memory {
    /// The memory in another phase, keeping the counters that phase keeps.
    ///
    /// Weight and iterations live on only where the rollout goes on from them.
    #[must_use]
    pub(crate) fn in_phase(&self, phase: Phase, now: Moment) -> Self {
        let mut next = self.clone();
        let keeps = matches!(phase, Phase::Progressing | Phase::Waiting | Phase::Promoting);
        if !keeps && phase != Phase::WaitingPromotion {
            next.weight = Percent::ZERO;
        }
        if !keeps {
            next.iterations = 0;
        }
        if phase != Phase::Waiting {
            next.pause = None;
        }
        next.phase = phase;
        next.stamped(self, now)
    }

    /// A fresh rollout of `revision`.
    #[must_use]
    pub(crate) fn started(
        &self,
        revision: &Revision,
        configs: Option<&Configs>,
        now: Moment,
    ) -> Self {
        let mut next = self.clone();
        next.phase = Phase::Progressing;
        next.failed_checks = 0;
        next.weight = Percent::ZERO;
        next.iterations = 0;
        next.applied = Some(revision.clone());
        next.configs = configs.cloned();
        next.pause = None;
        next.prepared = false;
        next.untold = None;
        next.blocked_since = None;
        next.no_data_since = None;
        next.since = Some(now);
        next
    }

    /// With the time of the last change set, if phase, weight or iterations changed.
    #[must_use]
    pub(crate) fn stamped(mut self, before: &Self, now: Moment) -> Self {
        let place = |memory: &Self| (memory.phase, memory.weight, memory.iterations);
        if place(&self) != place(before) {
            self.since = Some(now);
        }
        self
    }

    /// Held by a person, as opposed to waiting for a gate.
    pub fn is_paused(&self) -> bool {
        self.phase == Phase::Waiting && self.pause.is_some()
    }

    /// Waiting for the gate before a rollout.
    pub fn is_gated(&self) -> bool {
        self.phase == Phase::Waiting && self.pause.is_none()
    }

    /// The last rollout is over and live traffic is on the canary, because the primary could not
    /// take it: a promotion failed.
    pub fn serves_from_canary(&self) -> bool {
        self.weight > Percent::ZERO && (self.phase == Phase::Failed || self.is_gated())
    }
}
