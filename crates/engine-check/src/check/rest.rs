//! The end state of a canary: invariants 14 and 17.

use tidegate_engine::{Percent, Phase, Revision, Side, Split, Traffic};

use super::{Checker, Verdict, Violation, Workload};

/// The end state when nothing moves any more, to be compared between runs with and without faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The phase.
    pub phase: Phase,
    /// The share that is written down.
    pub weight: Percent,
    /// How live traffic is divided.
    pub split: Split,
    /// Which pods clients use.
    pub apex: Option<Side>,
    /// The revision that was last started or judged.
    pub applied: Option<Revision>,
    /// The revision of the primary.
    pub primary: Option<Revision>,
    /// Whether the target has pods.
    pub target_runs: bool,
}

impl Checker {
    /// The state as it would be compared.
    pub fn ending(&self) -> Ending {
        Ending {
            phase: self.memory.phase,
            weight: self.memory.weight,
            split: self.split.unwrap_or_default(),
            apex: self.apex,
            applied: self.memory.applied.clone(),
            primary: self.primary.as_ref().map(|template| template.revision.clone()),
            target_runs: self.replicas_of(Workload::Target).is_some_and(|replicas| replicas > 0),
        }
    }

    /// Whether the canary may stay so: no client is left without pods, and nothing is half done.
    pub fn at_rest(&self) -> Option<Violation> {
        let (invariant, text) = self.judge_rest().err()?;
        Some(Violation { invariant, at: self.index, text })
    }

    fn judge_rest(&self) -> Verdict {
        let Ending { phase, weight, split, apex, .. } = self.ending();
        if phase == Phase::Terminated || self.memory.phase == Phase::New {
            return Ok(());
        }
        if phase == Phase::Initializing && self.is_stuck(Workload::Primary) {
            // The target still serves, and nothing better is possible.
            return Ok(());
        }
        if !self.can_serve(Workload::Primary) {
            // No side can take clients: everything stays where it is.
            return Ok(());
        }
        if !phase.is_idle() {
            return Err((14, format!("it rests in phase {phase:?}")));
        }
        let is_divisible = self.plan.traffic == Traffic::Divisible;
        if is_divisible && split.canary != weight {
            let share = split.canary;
            return Err((14, format!("{phase:?} with {share}% on the canary, not {weight}%")));
        }
        if phase != Phase::Failed && split != Split::PRIMARY {
            return Err((14, format!("{phase:?} with {split:?}")));
        }
        let is_left = weight > Percent::ZERO || self.memory.replaces_broken_primary;
        if is_left && self.pods.get(Workload::Primary as usize).is_some_and(|pods| pods.ready) {
            return Err((14, format!("{weight}% stay on the canary, and the primary is ready")));
        }
        let side =
            if !is_divisible && weight > Percent::ZERO { Side::Canary } else { Side::Primary };
        if apex != Some(side) {
            return Err((14, format!("{phase:?} with clients on {apex:?}")));
        }
        let runs = self.primary.as_ref().map(|template| &template.revision);
        let is_ours = self.memory.promoted.as_ref().is_some_and(|it| !it.is_foreign());
        if phase != Phase::Failed && is_ours && self.memory.promoted.as_ref() != runs {
            return Err((14, format!("{phase:?}, and the primary runs {runs:?}")));
        }
        Ok(())
    }
}
