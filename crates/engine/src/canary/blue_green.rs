//! The blue/green strategy: no live traffic until all checks passed, then all of it, and promotion.
//!
//! Called by `progress` when an interval is due. With mirroring, copies of requests go to the canary before.

use crate::{
    Action, Decision, Fact, Memory, Observed, Percent, Phase, Split, Step, Strategy, Traffic,
};

use super::{later, progress, promote};

pub(super) fn step(seen: &Observed, split: Split, base: Memory) -> Step {
    let of = seen.plan.iterations;
    let is_waiting = base.phase == Phase::WaitingPromotion;
    if is_switched(seen) {
        // The gate was called before traffic moved; it is not called again.
        return promote::begin(seen, split, &base).into();
    }
    if is_waiting || base.iterations >= of {
        return match promote::approved(seen, &base) {
            Ok(()) => switch(seen, split, base).into(),
            Err(step) => *step,
        };
    }
    iterate(seen, split, base).into()
}

/// Live traffic is on the canary too early: moved just before a crash, or by another writer.
pub(super) fn drifted(seen: &Observed, split: Split) -> Option<Step> {
    let Observed { memory, plan, .. } = seen;
    let is_early = memory.iterations <= plan.iterations && !memory.replaces_broken_primary;
    if plan.traffic == Traffic::Whole || split.canary == Percent::ZERO || !is_early {
        return None;
    }
    // Without a gate nothing could have refused this step; with one it is called again.
    let is_next = memory.phase == Phase::Progressing && memory.iterations == plan.iterations;
    if is_next && split == Split::CANARY && !plan.hooks.confirm_promotion {
        let mut next = memory.clone();
        next.iterations = plan.iterations.saturating_add(1);
        let next = next.stamped(memory, seen.now);
        let why = Fact::RoutedToCanary { was_mirrored: false };
        return Some(
            Decision::because(why).remember(next).starts_interval().again(later(seen)).into(),
        );
    }
    Some(progress::reset_share(seen, split, Percent::ZERO))
}

/// Whether the next step has a gate.
pub(super) fn has_gate(seen: &Observed) -> bool {
    let Observed { plan, memory, .. } = seen;
    let is_goal = memory.iterations == plan.iterations || memory.phase == Phase::WaitingPromotion;
    plan.hooks.confirm_promotion && is_goal && !is_switched(seen)
}

/// Whether live traffic was moved to the canary: the gate before promotion was open then.
pub(super) fn is_switched(seen: &Observed) -> bool {
    seen.plan.strategy == Strategy::BlueGreen && seen.memory.iterations > seen.plan.iterations
}

fn iterate(seen: &Observed, split: Split, mut base: Memory) -> Decision {
    base.iterations += 1;
    let fact = Fact::Iterated { at: base.iterations, of: seen.plan.iterations };
    let base = base.stamped(&seen.memory, seen.now);
    // Copies need live traffic on the primary; while the canary replaces it there is none.
    let mirrors = seen.plan.mirror
        && seen.plan.traffic == Traffic::Divisible
        && !split.mirrored
        && !base.replaces_broken_primary;
    let mirrored = Split { canary: Percent::ZERO, mirrored: true };
    Decision::because(fact)
        .act_if(mirrors, Action::Shift(mirrored))
        .remember(base)
        .announcing()
        .starts_interval()
        .again(later(seen))
}

/// All live traffic to the canary, which passed every check.
fn switch(seen: &Observed, split: Split, mut base: Memory) -> Decision {
    base.iterations = seen.plan.iterations.saturating_add(1);
    let base = base.stamped(&seen.memory, seen.now);
    let was_mirrored = split.mirrored;
    let decision = Decision::because(Fact::RoutedToCanary { was_mirrored });
    let decision = match seen.plan.traffic {
        Traffic::Divisible => {
            decision.act(Action::Shift(Split::CANARY)).remember(base).announcing()
        }
        Traffic::Whole => decision.remember(base),
    };
    decision.starts_interval().again(later(seen))
}
