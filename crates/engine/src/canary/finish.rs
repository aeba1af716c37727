//! The ends of a rollout. Traffic first, then capacity, then the memory of it.

use crate::{
    Action, Again, Decision, Fact, Memory, Notice, Observed, Outcome, Percent, Phase, Severity,
    Split, Step, Target, Traffic,
};

use super::{later, obstructed, progress::needs_shift};

pub(super) fn threshold_reached(seen: &Observed, target: &Target) -> Step {
    let count = seen.memory.failed_checks;
    let alert = (Severity::Error, Notice::ThresholdReached(count));
    roll_back(seen, Some(target), Fact::ThresholdReached(count), alert)
}

pub(super) fn overdue(seen: &Observed, target: Option<&Target>, why: &str) -> Step {
    let alert = (Severity::Error, Notice::DeadlineExceeded(why.to_owned()));
    roll_back(seen, target, Fact::DeadlineExceeded(why.to_owned()), alert)
}

pub(super) fn primary_stuck(seen: &Observed, target: &Target, why: &str) -> Step {
    let alert = (Severity::Error, Notice::DeadlineExceeded(why.to_owned()));
    roll_back(seen, Some(target), Fact::PrimaryNotReady(why.to_owned()), alert)
}

pub(super) fn called_back(seen: &Observed, target: Option<&Target>, hook: &str) -> Step {
    let alert = (Severity::Warn, Notice::RolledBackByHook);
    let step = roll_back(seen, target, Fact::RolledBackByHook, alert);
    let Step::Do(mut decision) = step else { return step };
    decision.actions.insert(0, Action::Announce(Fact::RollbackAsked(hook.to_owned())));
    decision.into()
}

fn roll_back(
    seen: &Observed,
    target: Option<&Target>,
    why: Fact,
    (severity, notice): (Severity, Notice),
) -> Step {
    let Observed { memory, plan, .. } = seen;
    let shifts = plan.traffic == Traffic::Divisible && needs_shift(seen);
    let primary_serves = seen.primary.readiness.is_serving();
    let mut next = ended(seen, Phase::Failed);
    next.failed_checks = 0;
    if memory.is_gated()
        && let Some(target) = target
    {
        // What was never started is judged all the same: it must not be tried again.
        next.applied = Some(target.revision.clone());
        next.configs.clone_from(&target.configs);
    }
    if memory.rescue && !primary_serves {
        next.weight = Percent::ALL;
        return Decision::because(why)
            .telling()
            .alert(severity, notice)
            .remember(next)
            .tell(Fact::RollbackHeld("the primary never became ready".to_owned()))
            .act(Action::Count(Outcome::Failed))
            .again(Again::Now)
            .into();
    }
    if shifts && !primary_serves {
        let cause = seen.primary.readiness.why().unwrap_or("no pod is available").to_owned();
        return held(seen, &cause);
    }
    Decision::because(why)
        .telling()
        .alert(severity, notice)
        .act_if(shifts, Action::Shift(Split::PRIMARY))
        .tell(Fact::Failed)
        .act_if(plan.scaled, Action::PauseScaler)
        .act_if(target.is_some_and(|target| target.replicas > 0), Action::Park)
        .remember(next)
        .act(Action::Count(Outcome::Failed))
        .again(Again::Now)
        .into()
}

/// Traffic should go to the primary, which cannot take it.
pub(super) fn held(seen: &Observed, why: &str) -> Step {
    Decision::because(Fact::RollbackHeld(why.to_owned()))
        .telling()
        .alert(Severity::Error, Notice::RollbackHeld(why.to_owned()))
        .again(later(seen))
        .into()
}

pub(super) fn no_routes(seen: &Observed) -> Step {
    let why = seen.routes.as_ref().err().map_or("routes cannot be read", |obstacle| &obstacle.0);
    obstructed(seen, why).into()
}

/// The new primary does not become ready: whoever works keeps the traffic.
pub(super) fn promotion_failed(seen: &Observed, target: Option<&Target>, why: &str) -> Step {
    let Observed { plan, .. } = seen;
    let canary_serves =
        target.is_some_and(|target| target.readiness.is_serving() && target.replicas > 0);
    let is_divisible = plan.traffic == Traffic::Divisible;
    let shifts = is_divisible && canary_serves && seen.routes != Ok(Split::CANARY);
    let share = match &seen.routes {
        _ if canary_serves => Percent::ALL,
        Ok(split) if is_divisible => split.canary,
        _ => Percent::ZERO,
    };
    let mut next = ended(seen, Phase::Failed);
    next.failed_checks = 0;
    next.weight = share;
    let next = next.stamped(&seen.memory, seen.now);
    Decision::because(Fact::PromotionFailed(why.to_owned()))
        .telling()
        .alert(Severity::Error, Notice::PromotionFailed(why.to_owned()))
        .act_if(shifts, Action::Shift(Split::CANARY))
        .remember(next)
        .act(Action::Count(Outcome::Failed))
        .again(Again::Now)
        .into()
}

/// The target went back to what the primary runs: there is nothing to roll out.
pub(super) fn went_back(seen: &Observed, target: &Target) -> Step {
    let Observed { memory, plan, .. } = seen;
    let shifts = plan.traffic == Traffic::Divisible && needs_shift(seen);
    if shifts && !seen.primary.readiness.is_serving() {
        return held(seen, seen.primary.readiness.why().unwrap_or("no pod is available"));
    }
    let mut next = memory.in_phase(Phase::Succeeded, seen.now);
    next.applied = Some(target.revision.clone());
    next.promoted = Some(target.revision.clone());
    next.configs.clone_from(&target.configs);
    next.failed_checks = 0;
    next.trouble_since = None;
    Decision::because(Fact::WentBack(memory.phase))
        .act_if(shifts, Action::Shift(Split::PRIMARY))
        .act_if(plan.scaled, Action::PauseScaler)
        .act_if(target.replicas > 0, Action::Park)
        .remember(next)
        .telling()
        .again(Again::Now)
        .into()
}

/// Everything is on the new primary: the canary is parked.
pub(super) fn finalise(seen: &Observed, target: Option<&Target>) -> Step {
    let split = match &seen.routes {
        Ok(split) => *split,
        Err(_) => return no_routes(seen),
    };
    let shifts = seen.plan.traffic == Traffic::Divisible && split != Split::PRIMARY;
    let decision = Decision::because(Fact::Promoted).act_if(shifts, Action::Shift(Split::PRIMARY));
    park(seen, target, decision, Notice::Promoted, Outcome::Completed).into()
}

/// Promotes without looking.
///
/// Done twice it copies the same: the copy carries the fingerprint of what it was made from. Traffic is
/// taken to the primary first; where that cannot serve, it stays.
pub(super) fn skip(seen: &Observed, target: &Target) -> Step {
    let Observed { memory, plan, .. } = seen;
    if plan.traffic == Traffic::Divisible && seen.routes.is_err() {
        return no_routes(seen);
    }
    let shifts = plan.traffic == Traffic::Divisible && needs_shift(seen);
    if shifts && !seen.primary.readiness.is_serving() {
        return held(seen, seen.primary.readiness.why().unwrap_or("no pod is available"));
    }
    let mut decision =
        Decision::because(Fact::PromotedUnchecked).act_if(shifts, Action::Shift(Split::PRIMARY));
    if !seen.primary.is_updated
        && let Some(applied) = &memory.applied
    {
        decision = decision.tell(Fact::Copying).act(Action::Promote(applied.clone()));
    }
    decision = decision.act_if(plan.scaled, Action::RefreshPrimaryScaler);
    park(seen, Some(target), decision, Notice::PromotedUnchecked, Outcome::Skipped).into()
}

fn park(
    seen: &Observed,
    target: Option<&Target>,
    decision: Decision,
    notice: Notice,
    outcome: Outcome,
) -> Decision {
    let mut next = ended(seen, Phase::Succeeded);
    next.promoted.clone_from(&seen.memory.applied);
    let is_untold = next.untold.is_some();
    let decision = decision
        .act_if(seen.plan.scaled, Action::PauseScaler)
        .act_if(target.is_some_and(|target| target.replicas > 0), Action::Park)
        .alert(Severity::Info, notice)
        .remember(next)
        .act(Action::Count(outcome));
    let decision = if is_untold { decision } else { decision.telling() };
    decision.again(Again::Now)
}

/// The memory of a rollout that is over, with its hooks still to be told.
fn ended(seen: &Observed, phase: Phase) -> Memory {
    let mut next = seen.memory.in_phase(phase, seen.now);
    next.rescue = false;
    next.prepared = false;
    next.trouble_since = None;
    next.untold = seen.plan.hooks.post_rollout.then_some(phase);
    next
}
