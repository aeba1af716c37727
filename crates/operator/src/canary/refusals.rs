//! Writes that were refused for good, as obstacles to decide upon.
//!
//! A write that the server says no to is tried again an interval later, or as soon as the canary's spec
//! changes. Until then the engine is told that it is blocked, so that a rollout under way is judged by
//! its deadline instead of hanging in an attempt that fails again and again.

use std::{collections::BTreeMap, time::Duration};

use tidegate_engine::{Action, ManagedObject, Obstacle};

/// What was refused, and has not succeeded since.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<Attempt, Refusal>);

/// What was attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Attempt {
    /// To put a piece in place, or to give it another content.
    Place(ManagedObject),
    /// To divide traffic.
    Divide,
    /// To take the canary's share out of a former route.
    RetirePreviousRoute,
    RestoreApex,
    RestoreRoute,
}

struct Refusal {
    why: String,
    /// By the steady clock.
    until: Duration,
    /// Of the canary's spec.
    generation: i64,
}

// === impl Refusals ===

impl Refusals {
    pub(super) fn note(&mut self, attempt: Attempt, why: String, until: Duration, generation: i64) {
        self.0.insert(attempt, Refusal { why, until, generation });
    }

    /// It was done after all.
    pub(super) fn mend(&mut self, attempt: Attempt) {
        self.0.remove(&attempt);
    }

    /// What keeps this from being attempted now.
    pub(super) fn obstacle(
        &self,
        attempt: Attempt,
        now: Duration,
        generation: i64,
    ) -> Option<Obstacle> {
        let refusal = self.0.get(&attempt)?;
        let is_fresh = now < refusal.until && generation == refusal.generation;
        is_fresh.then(|| Obstacle(refusal.why.clone()))
    }

    /// Why the last attempt failed, however long ago.
    pub(super) fn last(&self, attempt: Attempt) -> Option<Obstacle> {
        self.0.get(&attempt).map(|refusal| Obstacle(refusal.why.clone()))
    }
}

// === impl Attempt ===

impl Attempt {
    /// What an action attempts, where that can be told to the engine.
    pub(super) fn of(action: &Action) -> Option<Self> {
        match action {
            Action::Ensure(piece) => Some(Self::Place(*piece)),
            Action::Promote(_) => Some(Self::Place(ManagedObject::Primary)),
            Action::Shift(_) => Some(Self::Divide),
            Action::RetirePreviousRoute => Some(Self::RetirePreviousRoute),
            Action::RestoreApex => Some(Self::RestoreApex),
            Action::RestoreRoute => Some(Self::RestoreRoute),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_stands_for_an_interval_or_until_the_spec_changes() {
        let mut refusals = Refusals::default();
        let attempt = Attempt::Place(ManagedObject::Route);
        refusals.note(attempt, "forbidden".to_owned(), Duration::from_secs(10), 1);
        let cases = [
            ("within the interval", attempt, 9, 1, true),
            ("after it", attempt, 10, 1, false),
            ("with another spec", attempt, 9, 2, false),
            ("something else", Attempt::Divide, 9, 1, false),
        ];
        for (reason, attempt, now, generation, stands) in cases {
            let now = Duration::from_secs(now);
            let obstacle = refusals.obstacle(attempt, now, generation);
            assert_eq!(obstacle.is_some(), stands, "{reason}");
        }
        assert!(refusals.last(attempt).is_some(), "it was refused, whenever that was");
        refusals.mend(attempt);
        assert_eq!(refusals.last(attempt), None);
    }
}
