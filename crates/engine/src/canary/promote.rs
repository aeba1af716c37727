//! The phase `Promoting`: the primary is given the analysed template, and traffic returns to it.
//!
//! The phase is written before the template is: any process that finds the phase finishes the copy, which is
//! the same copy every time. The copied template is compared with the analysed one at that moment.

use crate::{
    Action, Again, Decision, Fact, GateKind, Memory, Missing, Notice, Observed, Percent, Phase,
    Question, Readiness, Severity, Split, Step, Strategy, Target, Traffic, Unready,
};

use super::{
    awaiting_pods, canary_has_share, finish, is_changed, later, nothing_to_resume, obstacle,
    obstructed, progress,
};

/// Calls the gate before promotion, then begins.
pub(super) fn with_approval(seen: &Observed, split: Split, base: &Memory) -> Step {
    match approved(seen, base) {
        Ok(()) => begin(seen, split, base).into(),
        Err(step) => *step,
    }
}

/// Whether the gate before promotion is open, and the next step if it is not.
pub(super) fn approved(seen: &Observed, base: &Memory) -> Result<(), Box<Step>> {
    if !seen.plan.hooks.confirm_promotion {
        return Ok(());
    }
    let Some(gate) = &seen.answers.confirm_promotion else {
        return Err(Box::new(Step::Ask(Question::Gate(GateKind::ConfirmPromotion))));
    };
    let Some(refusal) = gate.refusal() else {
        return Ok(());
    };
    let decision = Decision::because(Fact::AwaitingPromotion(refusal.sentence()));
    if base.phase == Phase::WaitingPromotion {
        return Err(Box::new(decision.starts_interval().again(later(seen)).into()));
    }
    let mut next = base.in_phase(Phase::WaitingPromotion, seen.now);
    if seen.plan.strategy != Strategy::Weighted {
        next.iterations = seen.plan.iterations.saturating_sub(1);
    }
    let notice = Notice::Awaiting(GateKind::ConfirmPromotion);
    let decision = if refusal.muted { decision } else { decision.alert(Severity::Warn, notice) };
    Err(Box::new(decision.remember(next).announcing().starts_interval().again(later(seen)).into()))
}

/// Writes the phase first, then the copy.
pub(super) fn begin(seen: &Observed, split: Split, base: &Memory) -> Decision {
    let mut next = base.in_phase(Phase::Promoting, seen.now);
    if counts_shares(seen) {
        next.weight = split.canary;
    }
    let next = next.stamped(&seen.memory, seen.now);
    let decision = Decision::because(Fact::Copying).remember(next).announcing();
    copy(seen, decision).starts_interval().again(later(seen))
}

/// Whether the share is written down while promoting: it was by weight, or returns by steps.
fn counts_shares(seen: &Observed) -> bool {
    let plan = &seen.plan;
    plan.traffic == Traffic::Divisible
        && (plan.strategy == Strategy::Weighted || plan.promotion_step > 0)
}

fn copy(seen: &Observed, decision: Decision) -> Decision {
    match &seen.memory.applied {
        Some(applied) => decision.act(Action::Promote(applied.clone())),
        None => decision,
    }
}

pub(super) fn promoting(seen: &Observed) -> Step {
    nothing_to_resume(seen, give_or_wait(seen))
}

pub(super) fn finalising(seen: &Observed) -> Step {
    nothing_to_resume(seen, finish_or_wait(seen))
}

fn give_or_wait(seen: &Observed) -> Step {
    let target = match &seen.target {
        Ok(target) => Some(target),
        Err(Missing::Gone(_)) => None,
        Err(Missing::Unusable(why)) => return obstructed(seen, why).into(),
    };
    if !seen.primary.is_updated {
        return update(seen, target);
    }
    if let Some(step) = progress::trouble_over(seen) {
        return step;
    }
    if let Some(step) = protect(seen, target) {
        return step;
    }
    let unchecked = seen.plan.skip && !seen.memory.replaces_broken_primary;
    match &seen.primary.readiness {
        Readiness::Stuck(unready) => {
            return finish::promotion_failed(seen, target, &unready.to_string());
        }
        Readiness::Waiting(unready) if !unchecked => return primary_waits(seen, unready),
        Readiness::Ready | Readiness::Waiting(_) => {}
    }
    let Ok(split) = seen.routes else {
        return finish::no_routes(seen);
    };
    if unchecked {
        return finish::unchecked(seen, target, split);
    }
    if counts_shares(seen) && split.canary != seen.memory.weight {
        // A crash after a step, or a step by another writer: it counts, and the next is an interval away.
        let next = Memory { weight: split.canary, ..seen.memory.clone() };
        let next = next.stamped(&seen.memory, seen.now);
        let why = Fact::PrimaryAdvanced(split.canary.rest());
        return Decision::because(why).remember(next).starts_interval().again(later(seen)).into();
    }
    if !seen.interval_state.due {
        return Decision::because(Fact::AwaitingInterval)
            .again(Again::At(seen.interval_state.next))
            .into();
    }
    shift_to_primary(seen, split).into()
}

/// The primary does not have the revision yet.
fn update(seen: &Observed, target: Option<&Target>) -> Step {
    let target = match (target, &seen.target) {
        (Some(target), _) | (None, Ok(target)) => target,
        (None, Err(missing)) => return obstructed(seen, &missing.why()).into(),
    };
    if is_changed(&seen.memory, target) {
        // Another revision came before the copy was made: that one was not analysed.
        return progress::changed(seen, target);
    }
    if let Some(obstacle) = obstacle(seen) {
        return progress::counts_against_deadline(seen, &obstacle.0, Some(target));
    }
    copy(seen, Decision::because(Fact::Copying)).announcing().again(later(seen)).into()
}

/// Keeps live traffic off pods that were not analysed, or are not there.
fn protect(seen: &Observed, target: Option<&Target>) -> Option<Step> {
    let split = seen.routes.as_ref().ok()?;
    if split.canary == Percent::ZERO || seen.plan.traffic == Traffic::Whole {
        return None;
    }
    let is_right = |target: &Target| {
        !is_changed(&seen.memory, target) && target.replicas > 0 && target.readiness.is_serving()
    };
    let is_wrong = !target.is_some_and(is_right);
    if is_wrong && seen.primary.readiness.is_serving() {
        let mut next = seen.memory.clone();
        next.weight = Percent::ZERO;
        let next = next.stamped(&seen.memory, seen.now);
        let decision = Decision::because(Fact::RoutedToPrimary)
            .act(Action::Shift(Split::PRIMARY))
            .remember(next)
            .announcing();
        return Some(decision.again(Again::Now).into());
    }
    let target = target.filter(|target| target.is_parked())?;
    let decision = Decision::because(Fact::ScaledUpAgain)
        .act_if(seen.plan.scaled, Action::ResumeScaler)
        .act(Action::ScaleTarget(target.replicas_to_run.max(1)))
        .announcing();
    Some(decision.again(later(seen)).into())
}

fn primary_waits(seen: &Observed, unready: &Unready) -> Step {
    awaiting_pods(seen, Fact::PrimaryNotReady(unready.clone())).into()
}

/// The primary is ready: traffic returns to it, at once or step by step.
fn shift_to_primary(seen: &Observed, split: Split) -> Decision {
    let Observed { memory, plan, now, .. } = seen;
    let canary = if plan.promotion_step > 0 {
        split.canary.minus(plan.promotion_step)
    } else {
        Percent::ZERO
    };
    let is_last = plan.traffic == Traffic::Whole || canary == Percent::ZERO;
    let next = if is_last {
        memory.in_phase(Phase::Finalising, *now)
    } else {
        let mut next = memory.clone();
        next.weight = canary;
        next.stamped(memory, *now)
    };
    let why = match plan.promotion_step {
        step if step > 0 && plan.traffic == Traffic::Divisible => {
            Fact::PrimaryAdvanced(canary.rest())
        }
        _ => Fact::RoutedToPrimary,
    };
    let shifts = plan.traffic == Traffic::Divisible && split != Split::canary(canary);
    // Where traffic cannot be divided, the Service follows the status: at once, so that the status is not
    // wrong for an interval.
    let follows = plan.traffic == Traffic::Whole && canary_has_share(seen);
    let decision = Decision::because(why.clone())
        .act_if(plan.scaled, Action::RefreshPrimaryScaler)
        .act_if(shifts, Action::Shift(Split::canary(canary)))
        .remember(next);
    let decision = if shifts || follows { decision.announce(why) } else { decision };
    decision.starts_interval().again(if follows { Again::Now } else { later(seen) })
}

fn finish_or_wait(seen: &Observed) -> Step {
    let target = match &seen.target {
        Ok(target) => Some(target),
        Err(Missing::Gone(_)) => None,
        Err(Missing::Unusable(why)) => return obstructed(seen, why).into(),
    };
    match &seen.primary.readiness {
        Readiness::Ready => {}
        Readiness::Stuck(unready) => {
            return finish::promotion_failed(seen, target, &unready.to_string());
        }
        Readiness::Waiting(unready) => return primary_waits(seen, unready),
    }
    if !seen.interval_state.due {
        return Decision::because(Fact::AwaitingInterval)
            .again(Again::At(seen.interval_state.next))
            .into();
    }
    finish::finalise(seen, target)
}
