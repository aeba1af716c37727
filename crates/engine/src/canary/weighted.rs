//! A share that grows.

use crate::{
    Action, Decision, Fact, GateKind, Memory, Notice, Observed, Pause, Percent, Phase, Plan,
    Question, Severity, Split, Step,
};

use super::{later, progress, promote};

/// The share after `now`: the next step, but not past where a person wants it held.
pub(super) fn next(plan: &Plan, now: Percent) -> Percent {
    let step = plan.steps.after(now);
    match plan.manual {
        Some(manual) if !manual.resume && now < manual.hold_at(plan.max) => {
            step.min(manual.hold_at(plan.max))
        }
        _ => step,
    }
}

pub(super) fn step(seen: &Observed, split: Split, base: Memory) -> Step {
    let Observed { plan, answers, .. } = seen;
    let is_gated =
        plan.hooks.confirm_traffic_increase && base.phase == Phase::Progressing && !split.mirrored;
    if is_gated {
        let Some(gate) = &answers.confirm_traffic_increase else {
            return Step::Ask(Question::Gate(GateKind::ConfirmTrafficIncrease));
        };
        if let Some(refusal) = &gate.refused {
            let why = Fact::AwaitingIncrease(refusal.hook.clone());
            let mut decision = Decision::because(why).telling();
            if !refusal.muted {
                let notice = Notice::Awaiting(GateKind::ConfirmTrafficIncrease);
                decision = decision.alert(Severity::Warn, notice);
            }
            return progress::keep(seen, base, decision).into();
        }
    } else if !seen.tempo.due {
        // Another try was asked for, and there is no gate to try.
        return progress::keep(seen, base, Decision::because(Fact::AwaitingInterval)).into();
    }
    if split.canary >= plan.max {
        return promote::with_approval(seen, split, &base);
    }
    if plan.mirror && split == Split::PRIMARY {
        return mirror(seen, base).into();
    }
    advance(seen, split, base).into()
}

/// One interval of copies before the first share.
fn mirror(seen: &Observed, mut base: Memory) -> Decision {
    base.since = Some(seen.now);
    Decision::because(Fact::Mirroring)
        .act(Action::Shift(Split { canary: Percent::ZERO, mirrored: true }))
        .remember(base)
        .telling()
        .beat()
        .again(later(seen))
}

fn advance(seen: &Observed, split: Split, mut base: Memory) -> Decision {
    let weight = next(&seen.plan, split.canary);
    let hold = seen.plan.manual.filter(|manual| !manual.resume);
    let is_held = hold.is_some_and(|manual| weight >= manual.hold_at(seen.plan.max));
    base.phase = if is_held { Phase::Waiting } else { Phase::Progressing };
    base.weight = weight;
    base.pause = is_held.then_some(Pause { weight, since: seen.now });
    let base = base.stamped(&seen.memory, seen.now);
    let why = if is_held { Fact::Held(weight) } else { Fact::Advanced(weight) };
    let mut decision = Decision::because(why).act(Action::Shift(Split::canary(weight)));
    if is_held {
        decision = decision.alert(Severity::Warn, Notice::Held(weight));
    }
    decision = decision.remember(base).tell(Fact::Advanced(weight));
    if is_held {
        decision = decision.tell(Fact::Held(weight));
    }
    decision.beat().again(later(seen))
}
