//! Manual steps: a person holds the rollout at a share, and resumes it.
//!
//! Changes that never raise traffic (resume, removal, lowering) take effect at once; every increase waits
//! for a check that passed.

use crate::{
    Action, Again, Decision, Fact, ManualStep, Memory, Notice, Observed, Pause, Percent, Phase,
    Severity, Split, Step, Strategy, Traffic,
};

use super::{drop_resume, later, primary_takes};

/// The effect of a change of `manualStep` that does not wait for the interval.
pub(super) fn at_once(seen: &Observed, split: Split) -> Option<Step> {
    let Observed { memory, plan, .. } = seen;
    let by_weight = plan.strategy == Strategy::Weighted && plan.traffic == Traffic::Divisible;
    match plan.manual {
        // Together with the next step, if that is due: a resume that cannot be removed must not hold it up.
        Some(manual) if manual.resume && !memory.is_paused() && seen.interval_state.due => None,
        Some(manual) if manual.resume => Some(resume(seen, split)),
        None if memory.is_paused() => Some(resume(seen, split)),
        Some(_) if memory.is_paused() && !by_weight => Some(resume(seen, split)),
        Some(manual) if by_weight => hold(seen, split, manual),
        _ => None,
    }
}

/// Held before any traffic: only the pre-rollout gate was passed.
pub(super) fn before_traffic(seen: &Observed, split: Split, base: &Memory) -> Option<Step> {
    let Observed { plan, .. } = seen;
    let by_weight = plan.strategy == Strategy::Weighted && plan.traffic == Traffic::Divisible;
    let manual = plan.manual.filter(|manual| by_weight && !manual.resume)?;
    let at = manual.hold_at(plan.max);
    if at > Percent::ZERO || split.canary > Percent::ZERO {
        return None;
    }
    Some(paused(seen, at, base.clone(), None))
}

/// A step of a rollout that is not held, and the resume that cancels its hold.
pub(super) fn without_hold(seen: &Observed, split: Split, step: Step) -> Step {
    drop_resume(seen, step, Fact::Resumed(split.canary))
}

fn resume(seen: &Observed, split: Split) -> Step {
    let decision = Decision::because(Fact::Resumed(split.canary));
    if !seen.memory.is_paused() {
        let step: Step = decision.again(Again::At(seen.interval_state.next)).into();
        return without_hold(seen, split, step);
    }
    let mut next = seen.memory.clone();
    next.phase = Phase::Progressing;
    next.pause = None;
    let drops = seen.plan.manual.is_some_and(|manual| manual.resume);
    // The share did not move: the interval goes on from the last step.
    let decision = decision.remember(next).act_if(drops, Action::DropManualStep(None));
    decision.announcing().again(Again::Now).into()
}

fn hold(seen: &Observed, split: Split, manual: ManualStep) -> Option<Step> {
    let Observed { memory, plan, .. } = seen;
    let at = manual.hold_at(plan.max);
    let held = memory.pause.map(|pause| pause.weight).filter(|_| memory.is_paused());
    if split.canary < at {
        let mut next = memory.clone();
        next.phase = Phase::Progressing;
        next.pause = None;
        let decision = Decision::because(Fact::HoldRaised(at)).remember(next).announcing();
        return held.map(|_| decision.again(Again::Now).into());
    }
    if split.canary > at {
        if !primary_takes(seen) {
            return None;
        }
        return Some(paused(seen, at, memory.clone(), Some(Split::canary(at))));
    }
    // At the share. Before any traffic the pre-rollout gate comes first.
    let is_too_early = at == Percent::ZERO && !memory.prepared;
    if held == Some(at) || is_too_early {
        return None;
    }
    // A hold has a share of live traffic and no copies.
    let shift = split.mirrored.then_some(Split::canary(at));
    Some(paused(seen, at, memory.clone(), shift))
}

fn paused(seen: &Observed, at: Percent, base: Memory, shift: Option<Split>) -> Step {
    let since = seen.memory.pause.map_or(seen.now, |pause| pause.since);
    let next = Memory {
        phase: Phase::Waiting,
        weight: at,
        pause: Some(Pause { weight: at, since }),
        ..base
    };
    let next = next.stamped(&seen.memory, seen.now);
    let mut decision = Decision::because(Fact::Held(at));
    if let Some(split) = shift {
        decision = decision.act(Action::Shift(split));
    }
    decision
        .alert(Severity::Warn, Notice::Held(at))
        .remember(next)
        .announcing()
        .starts_interval()
        .again(later(seen))
        .into()
}
