//! The A/B strategy: matching requests go to the canary for a number of checks, then it is promoted.
//!
//! Called by `progress` when an interval is due. Only requests that match ever reach the canary.

use crate::{Action, Decision, Fact, Memory, Observed, Phase, Split, Step};

use super::{later, promote};

/// Whether the next step has a gate.
pub(super) fn has_gate(seen: &Observed) -> bool {
    let Observed { plan, memory, .. } = seen;
    let is_goal = memory.phase != Phase::Progressing || memory.iterations >= plan.iterations;
    plan.hooks.confirm_promotion && is_goal
}

pub(super) fn step(seen: &Observed, split: Split, mut base: Memory) -> Step {
    let of = seen.plan.iterations;
    if base.phase != Phase::Progressing || base.iterations >= of {
        return promote::with_approval(seen, split, &base);
    }
    base.iterations += 1;
    let at = base.iterations;
    let base = base.stamped(&seen.memory, seen.now);
    Decision::because(Fact::Iterated { at, of })
        .act_if(split != Split::CANARY, Action::Shift(Split::CANARY))
        .remember(base)
        .announcing()
        .starts_interval()
        .again(later(seen))
        .into()
}
