//! The weighted strategy: traffic moves to the canary in steps.
//!
//! Called by `progress` when an interval is due. The share only grows, by one step for each check that passed.

use crate::{
    Action, Decision, Fact, GateKind, Memory, Notice, Observed, Pause, Percent, Phase, Plan,
    Question, Severity, Split, Step, Strategy,
};

use super::{later, obstructed, progress, promote};

/// The obstacle of a plan that was edited into one without a next step.
pub(super) const NO_STEP: &str = "no step follows; stepWeight must be greater than 0";

/// Whether there is no step between this share and the goal.
pub(super) fn leads_nowhere(seen: &Observed, split: Split) -> bool {
    let Observed { plan, memory, .. } = seen;
    plan.strategy == Strategy::Weighted
        && !memory.is_paused()
        && split.canary < plan.max
        && plan.next_share(split.canary) <= split.canary
}

/// Whether the next step has a gate.
pub(super) fn has_gate(seen: &Observed, split: Split) -> bool {
    let Observed { plan, memory, .. } = seen;
    let is_goal = split.canary >= plan.max;
    gates_increase(plan, memory.phase, split) || (is_goal && plan.hooks.confirm_promotion)
}

fn gates_increase(plan: &Plan, phase: Phase, split: Split) -> bool {
    plan.hooks.confirm_traffic_increase && phase == Phase::Progressing && !split.mirrored
}

pub(super) fn step(seen: &Observed, split: Split, base: Memory) -> Step {
    let Observed { plan, answers, .. } = seen;
    if gates_increase(plan, base.phase, split) {
        let Some(gate) = &answers.confirm_traffic_increase else {
            return Step::Ask(Question::Gate(GateKind::ConfirmTrafficIncrease));
        };
        if let Some(refusal) = gate.refusal() {
            let why = Fact::AwaitingIncrease(refusal.sentence());
            let mut decision = Decision::because(why).announcing();
            if !refusal.muted {
                let notice = Notice::Awaiting(GateKind::ConfirmTrafficIncrease);
                decision = decision.alert(Severity::Warn, notice);
            }
            return progress::keep(seen, base, decision).into();
        }
    }
    if split.canary >= plan.max {
        return promote::with_approval(seen, split, &base);
    }
    if plan.mirror && split == Split::PRIMARY {
        return mirror(seen, base).into();
    }
    if leads_nowhere(seen, split) {
        // Checks go on, and the deadline runs. A clock that was put back begins anew.
        let since = base.blocked_since.filter(|since| *since <= seen.now);
        let base = Memory { blocked_since: since.or(Some(seen.now)), ..base };
        return progress::keep(seen, base, obstructed(seen, NO_STEP)).into();
    }
    advance(seen, split, base).into()
}

/// One interval of copies before the first share.
///
/// Copies are no step that routes could tell from the one before: the time is written down first, so
/// that a process that finds them does not cut the interval short.
fn mirror(seen: &Observed, mut base: Memory) -> Decision {
    base.since = Some(seen.now);
    Decision::because(Fact::Mirroring)
        .remember(base)
        .act(Action::Shift(Split { canary: Percent::ZERO, mirrored: true }))
        .announcing()
        .starts_interval()
        .again(later(seen))
}

fn advance(seen: &Observed, split: Split, mut base: Memory) -> Decision {
    let weight = seen.plan.next_share(split.canary);
    let is_held = seen.plan.hold_at().is_some_and(|hold| weight >= hold);
    base.phase = if is_held { Phase::Waiting } else { Phase::Progressing };
    base.weight = weight;
    base.pause = is_held.then_some(Pause { weight, since: seen.now });
    let base = base.stamped(&seen.memory, seen.now);
    let why = if is_held { Fact::Held(weight) } else { Fact::Advanced(weight) };
    let mut decision = Decision::because(why).act(Action::Shift(Split::canary(weight)));
    if is_held {
        decision = decision.alert(Severity::Warn, Notice::Held(weight));
    }
    decision = decision.remember(base).announce(Fact::Advanced(weight));
    if is_held {
        decision = decision.announce(Fact::Held(weight));
    }
    decision.starts_interval().again(later(seen))
}
