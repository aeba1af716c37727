//! The plan of a rollout: the parts of a spec that decisions depend on.

use std::time::Duration;

use crate::Percent;

/// The plan of a rollout. Made anew from the object at every observation.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the user's")]
pub struct Plan {
    /// How the new revision meets traffic.
    pub strategy: Strategy,
    /// Whether live traffic can be divided at all.
    pub traffic: Traffic,
    /// The shares of a weighted rollout.
    pub steps: Steps,
    /// The share at which promotion starts.
    pub max: Percent,
    /// The share that returns to the primary per interval while promoting; 0 for all at once.
    pub promotion_step: i64,
    /// Passing checks before promotion, for A/B and blue/green.
    pub iterations: u32,
    /// Copies of requests go to the canary before any live traffic does.
    pub mirror: bool,
    /// Failed checks that roll the rollout back; at least 1.
    pub threshold: u32,
    /// Time between two checks.
    pub interval: Duration,
    /// Longest time without progress.
    pub deadline: Duration,
    /// Promote without checks.
    pub skip: bool,
    /// Do nothing at all.
    pub suspended: bool,
    /// Restore everything when the canary is deleted.
    pub revert: bool,
    /// Where a person wants the rollout to hold.
    pub manual: Option<ManualStep>,
    /// Which gates exist.
    pub hooks: Hooks,
    /// Clients that stay on the side that they saw first.
    pub stickiness: Stickiness,
    /// The workload has a scaler to be copied for the primary.
    pub scaled: bool,
    /// Parts of the plan that cannot be carried out as written, for people.
    pub notes: Vec<Note>,
}

/// How the new revision meets traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// A share of all traffic that grows.
    Weighted,
    /// The traffic of matching requests.
    AbTesting,
    /// None until all checks passed, then all.
    BlueGreen,
}

/// Whether live traffic can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// By a mesh, gateway or ingress, in parts; or by a Service that may be switched, as a whole,
    /// which is all that blue/green asks for.
    Divisible,
    /// Plain Services: clients see the primary only.
    Whole,
}

/// Clients that stay on the side that they saw first, by a cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stickiness {
    /// None.
    #[default]
    None,
    /// Clients of the canary, for as long as it has a share.
    Canary,
    /// Clients of the primary as well, until the next step.
    Both,
}

/// The shares of a weighted rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steps {
    /// The same amount each time.
    By(i64),
    /// These shares, one after the other.
    List(Vec<i64>),
}

/// Where a person wants the rollout to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualStep {
    /// The share to hold at, as written.
    pub weight: i64,
    /// Go on.
    pub resume: bool,
}

/// Which kinds of gate the plan has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one independent yes or no per kind of hook")]
pub struct Hooks {
    /// Called before a rollout starts.
    pub confirm_rollout: bool,
    /// Called before any traffic.
    pub pre_rollout: bool,
    /// Called before each increase.
    pub confirm_traffic_increase: bool,
    /// Called before promotion.
    pub confirm_promotion: bool,
    /// Called after the end.
    pub post_rollout: bool,
    /// Can roll the rollout back.
    pub rollback: bool,
}

/// A part of a plan that cannot be carried out as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Plain Services cannot tell requests apart.
    MatchIgnored,
    /// Plain Services cannot divide traffic: blue/green with this many checks instead.
    WeightsIgnored {
        /// Checks before promotion.
        iterations: u32,
    },
    /// Something else that the provider cannot do, and what it can, in a sentence.
    Ignored(String),
    /// Holding at a weight needs a rollout by weight.
    ManualStepIgnored,
    /// The weight to hold at is beyond where promotion starts.
    ManualStepBeyondMax {
        /// As written.
        weight: i64,
        /// Where it holds instead.
        max: Percent,
    },
    /// A metric that may not measure what its author means, in a sentence.
    Doubtful(String),
    /// A certificate that is not verified because the user says so, in a sentence.
    Unverified(String),
    /// Any other note of a translation, in a sentence.
    Other(String),
}

// === impl Plan ===

impl Plan {
    /// The share after `now`: the next step, but not past where a person wants it held.
    pub fn next_share(&self, now: Percent) -> Percent {
        let step = self.steps.after(now);
        match self.hold_at() {
            Some(hold) if now < hold => step.min(hold),
            _ => step,
        }
    }

    /// The share a person wants to hold at, unless they let it go on.
    pub fn hold_at(&self) -> Option<Percent> {
        let manual = self.manual.filter(|manual| !manual.resume)?;
        Some(manual.hold_at(self.max))
    }
}

// === impl Steps ===

impl Steps {
    /// The share that follows `now`.
    ///
    /// With a list it is the first entry, and then the next greater one, so that a share that is not in
    /// the list (held by hand, or the list was edited) leads on and not to everything. Past the last
    /// entry it is everything, which is at or above the maximum and so means promotion.
    pub fn after(&self, now: Percent) -> Percent {
        match self {
            Self::By(step) => now.plus((*step).max(0)),
            Self::List(list) => {
                let mut greater = list.iter().copied().filter(|share| *share > now.into());
                let next = if now == Percent::ZERO { greater.next() } else { greater.min() };
                next.map_or(Percent::ALL, Percent::clamped)
            }
        }
    }
}

// === impl ManualStep ===

impl ManualStep {
    /// The share to hold at: no more than where promotion starts.
    pub fn hold_at(&self, max: Percent) -> Percent {
        Percent::clamped(self.weight).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_lead_upwards() {
        let walk = |steps: Steps| {
            let mut shares = vec![];
            let mut now = Percent::ZERO;
            while now < Percent::ALL && shares.len() < 20 {
                now = steps.after(now);
                shares.push(now.get());
            }
            shares
        };
        assert_eq!(walk(Steps::By(40)), [40, 80, 100], "the last step stops at everything");
        assert_eq!(walk(Steps::List(vec![1, 2, 10, 200])), [1, 2, 10, 100]);
        assert_eq!(walk(Steps::List(vec![10, 10, 5, 50])), [10, 50, 100], "never stands still");
        assert_eq!(
            walk(Steps::List(vec![50, 20, 10])),
            [50, 100],
            "the first entry is the first step"
        );
        let list = Steps::List(vec![10, 20, 50]);
        assert_eq!(list.after(Percent::clamped(15)).get(), 20, "an unlisted share leads on");
        assert_eq!(list.after(Percent::clamped(50)), Percent::ALL);
    }
}
