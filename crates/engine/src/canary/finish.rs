//! The ends of a rollout: rollback, failed promotion, return to the old revision, promotion without analysis.
//!
//! Called from every phase. Traffic moves first, then capacity goes, then the status is written.

use crate::{
    Action, Again, Decision, Fact, Memory, Missing, Notice, Observed, Outcome, Percent, Phase,
    Severity, Split, State, Step, Target, Traffic,
};

use super::{
    canary_has_share, is_changed, later, obstructed, primary_takes, progress::needs_shift, promote,
    route_left,
};

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
    // Not the fact that the primary is not ready: that was announced when it began, and is announced once.
    overdue(seen, Some(target), &format!("the primary is not ready: {why}"))
}

pub(super) fn called_back(seen: &Observed, target: Option<&Target>, hook: &str) -> Step {
    let alert = (Severity::Warn, Notice::RolledBackByHook);
    let step = roll_back(seen, target, Fact::RolledBackByHook, alert);
    let Step::Do(mut decision) = step else { return step };
    decision.actions.insert(0, Action::Announce(Fact::RollbackRequested(hook.to_owned())));
    decision.into()
}

fn roll_back(
    seen: &Observed,
    target: Option<&Target>,
    why: Fact,
    (severity, notice): (Severity, Notice),
) -> Step {
    let Observed { memory, plan, .. } = seen;
    let mut next = ended(seen, Phase::Failed);
    next.failed_checks = 0;
    if memory.is_gated()
        && let Some(target) = target
    {
        // A revision that was never started is judged all the same: it must not be tried again.
        next.applied = Some(target.revision.clone());
        next.configs.clone_from(&target.configs);
    }
    let is_rescue = memory.replaces_broken_primary || memory.serves_from_canary();
    if is_rescue && seen.routes.is_err() && !primary_takes(seen) {
        return no_routes(seen);
    }
    if let Some(share) = share_left(seen, target) {
        next.weight = share;
        return Decision::because(why)
            .announcing()
            .alert(severity, notice)
            .remember(next.stamped(memory, seen.now))
            .announce(Fact::RollbackHeld("the primary never became ready".to_owned()))
            .act(Action::Count(Outcome::Failed))
            .again(Again::Now)
            .into();
    }
    if let Some(step) = hand_over(seen) {
        return step;
    }
    let shifts = plan.traffic == Traffic::Divisible && needs_shift(seen);
    Decision::because(why)
        .announcing()
        .alert(severity, notice)
        .act_if(shifts, Action::Shift(Split::PRIMARY))
        .announce(Fact::Failed)
        .act_if(plan.scaled, Action::PauseScaler)
        .act_if(may_run(seen), Action::Park)
        .remember(next)
        .act(Action::Count(Outcome::Failed))
        .again(Again::Now)
        .into()
}

/// Whether the target may have pods. An unusable one, as without its configuration, does.
fn may_run(seen: &Observed) -> bool {
    match &seen.target {
        Ok(target) => target.replicas > 0,
        Err(Missing::Unusable(_)) => true,
        Err(Missing::Gone(_)) => false,
    }
}

/// The share that stays on a canary that serves, because the primary that it replaces is not ready.
fn share_left(seen: &Observed, target: Option<&Target>) -> Option<Percent> {
    let Observed { memory, plan, .. } = seen;
    let serves = target.is_some_and(|target| target.readiness.is_serving() && target.replicas > 0);
    if !(memory.replaces_broken_primary || memory.serves_from_canary())
        || !serves
        || primary_takes(seen)
        || !canary_has_share(seen)
    {
        return None;
    }
    match (&seen.routes, plan.traffic) {
        (Ok(split), Traffic::Divisible) if seen.objects.previous_route == State::InSync => {
            Some(split.canary)
        }
        (Ok(_) | Err(_), Traffic::Divisible | Traffic::Whole) => Some(memory.weight),
    }
}

/// The step before the canary can lose its pods; none if its clients can go at once.
///
/// Where traffic is divided, one write takes them all. Where it is not, the status says which pods
/// clients use, and the Service follows it before the target is scaled down.
fn hand_over(seen: &Observed) -> Option<Step> {
    let Observed { memory, plan, objects, .. } = seen;
    let primary_serves = seen.primary.readiness.is_serving();
    if let State::Blocked(obstacle) = &objects.previous_route {
        // It may have a share, which no pod would serve.
        return Some(obstructed(seen, &obstacle.0).into());
    }
    if canary_has_share(seen) && !primary_serves {
        return Some(held(seen, &no_pod(seen)));
    }
    if objects.previous_route == State::OutOfSync {
        return Some(route_left());
    }
    if plan.traffic == Traffic::Whole && canary_has_share(seen) {
        if let State::Blocked(obstacle) = &objects.apex_service {
            return Some(obstructed(seen, &obstacle.0).into());
        }
        let mut next = memory.clone();
        next.replaces_broken_primary = false;
        next.weight = Percent::ZERO;
        let next = next.stamped(memory, seen.now);
        let decision = Decision::because(Fact::RoutedToPrimary).remember(next).announcing();
        return Some(decision.again(Again::Now).into());
    }
    // Clients were routed elsewhere by another writer. The Service would have been restored by now if the
    // primary served.
    (objects.apex_service == State::OutOfSync).then(|| held(seen, &no_pod(seen)))
}

/// The reason why the primary cannot serve.
pub(super) fn no_pod(seen: &Observed) -> String {
    let unready = seen.primary.readiness.unready();
    unready.map_or_else(|| "no pod is available".to_owned(), ToString::to_string)
}

/// Traffic should go to the primary, which cannot serve it.
pub(super) fn held(seen: &Observed, why: &str) -> Step {
    Decision::because(Fact::RollbackHeld(why.to_owned()))
        .announcing()
        .alert(Severity::Error, Notice::RollbackHeld(why.to_owned()))
        .again(later(seen))
        .into()
}

pub(super) fn no_routes(seen: &Observed) -> Step {
    let why = seen.routes.as_ref().err().map_or("routes cannot be read", |obstacle| &obstacle.0);
    obstructed(seen, why).into()
}

/// The new primary does not become ready: the side that works keeps the traffic.
///
/// Pods of a revision that came later were not analysed: they get traffic only if no other pods serve.
pub(super) fn promotion_failed(seen: &Observed, target: Option<&Target>, why: &str) -> Step {
    let Observed { plan, memory, .. } = seen;
    let is_divisible = plan.traffic == Traffic::Divisible;
    let canary_takes = target.is_some_and(|target| {
        let was_analysed = !is_changed(memory, target) || !seen.primary.readiness.is_serving();
        target.readiness.is_serving() && target.replicas > 0 && was_analysed
    });
    if is_divisible && !canary_takes && seen.routes.is_err() {
        // Traffic can only be left where it is if that is known.
        return no_routes(seen);
    }
    let shifts = is_divisible && canary_takes && seen.routes != Ok(Split::CANARY);
    let share = match &seen.routes {
        _ if canary_takes => Percent::ALL,
        Ok(split) if is_divisible => split.canary,
        _ => Percent::ZERO,
    };
    let mut next = ended(seen, Phase::Failed);
    next.failed_checks = 0;
    next.weight = share;
    // It was promoted, broken or not: a comparison must not take the previous revision for the running one.
    next.promoted.clone_from(&memory.applied);
    let next = next.stamped(memory, seen.now);
    Decision::because(Fact::PromotionFailed(why.to_owned()))
        .announcing()
        .alert(Severity::Error, Notice::PromotionFailed(why.to_owned()))
        .act_if(shifts, Action::Shift(Split::CANARY))
        .remember(next)
        .act(Action::Count(Outcome::Failed))
        .again(Again::Now)
        .into()
}

/// The target was reverted to the revision of the primary: there is nothing to roll out.
pub(super) fn target_reverted(seen: &Observed, target: &Target) -> Step {
    let Observed { memory, plan, .. } = seen;
    if let Some(step) = hand_over(seen) {
        return step;
    }
    let mut next = ended(seen, Phase::Succeeded);
    next.applied = Some(target.revision.clone());
    next.promoted = Some(target.revision.clone());
    next.configs.clone_from(&target.configs);
    next.failed_checks = 0;
    next.untold = None;
    let shifts = plan.traffic == Traffic::Divisible && needs_shift(seen);
    Decision::because(Fact::Reverted(memory.phase))
        .act_if(shifts, Action::Shift(Split::PRIMARY))
        .act_if(plan.scaled, Action::PauseScaler)
        .act_if(target.replicas > 0, Action::Park)
        .remember(next)
        .announcing()
        .again(Again::Now)
        .into()
}

/// All traffic is on the new primary: the canary is scaled down.
pub(super) fn finalise(seen: &Observed, target: Option<&Target>) -> Step {
    let split = match &seen.routes {
        Ok(split) => *split,
        Err(_) => return no_routes(seen),
    };
    if let Some(step) = hand_over(seen) {
        return step;
    }
    let shifts = seen.plan.traffic == Traffic::Divisible && split != Split::PRIMARY;
    let decision = Decision::because(Fact::Promoted).act_if(shifts, Action::Shift(Split::PRIMARY));
    park(seen, target, decision, Notice::Promoted, Outcome::Completed).into()
}

/// Promotes without analysis: traffic off the canary, the phase, the copy.
///
/// Where the primary cannot take the traffic that is on the canary, it stays there until the primary
/// is ready, as in any promotion.
pub(super) fn skip(seen: &Observed) -> Step {
    let Observed { memory, plan, .. } = seen;
    let is_divisible = plan.traffic == Traffic::Divisible;
    let Ok(split) = seen.routes else {
        return no_routes(seen);
    };
    let shifts = is_divisible && split != Split::PRIMARY;
    let stays = shifts && canary_has_share(seen) && !primary_takes(seen);
    if memory.replaces_broken_primary || stays {
        let base = Memory { replaces_broken_primary: true, ..memory.clone() };
        return promote::begin(seen, split, &base).again(Again::Now).into();
    }
    let mut decision = promote::begin(seen, Split::PRIMARY, memory).again(Again::Now);
    if shifts {
        decision.actions.insert(0, Action::Shift(Split::PRIMARY));
    }
    decision.into()
}

/// The copy was made, and no analysis follows.
pub(super) fn unchecked(seen: &Observed, target: Option<&Target>, split: Split) -> Step {
    if let Some(step) = hand_over(seen) {
        return step;
    }
    let Observed { plan, .. } = seen;
    let shifts = plan.traffic == Traffic::Divisible && split != Split::PRIMARY;
    let decision = Decision::because(Fact::PromotedUnchecked)
        .act_if(shifts, Action::Shift(Split::PRIMARY))
        .act_if(plan.scaled, Action::RefreshPrimaryScaler);
    park(seen, target, decision, Notice::PromotedUnchecked, Outcome::Skipped).into()
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
    let decision = if is_untold { decision } else { decision.announcing() };
    decision.again(Again::Now)
}

/// The memory of a rollout that is over, with its post-rollout hooks still to be called.
fn ended(seen: &Observed, phase: Phase) -> Memory {
    let mut next = seen.memory.in_phase(phase, seen.now);
    next.replaces_broken_primary = false;
    next.prepared = false;
    next.blocked_since = None;
    next.no_data_since = None;
    next.untold = seen.plan.hooks.post_rollout.then_some(phase);
    next
}
