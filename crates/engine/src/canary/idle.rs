//! The idle phases (`Initialized`, `Succeeded`, `Failed`, `Waiting`): starts rollouts.
//!
//! Called by `decide` after initialisation. Starts a rollout for a new revision or configuration once gates
//! are open and the primary is ready, and resets routes that other writers changed.

use crate::{
    Action, Again, Decision, Fact, Form, GateKind, Memory, Notice, Observed, Percent, Phase,
    Question, Readiness, Severity, Split, State, Step, Target, Traffic,
};

use super::{
    awaiting_pods, configs_changed, equals_promoted, finish, is_new, later, nothing_to_resume,
    obstacle, obstructed, primary_takes, route_left,
};

pub(super) fn decide(seen: &Observed) -> Step {
    if let Some(end) = seen.memory.untold {
        return announce_end(seen, Some(end));
    }
    nothing_to_resume(seen, choose(seen))
}

fn choose(seen: &Observed) -> Step {
    let Observed { memory, plan, interval_state, .. } = seen;
    let is_over = matches!(memory.phase, Phase::Succeeded | Phase::Failed);
    if interval_state.retry && is_over && plan.hooks.post_rollout {
        return announce_end(seen, None);
    }
    let repair =
        leave_unready_canary(seen).or_else(|| drifted(seen)).or_else(|| return_to_primary(seen));
    if let Some(step) = repair {
        return step;
    }
    let target = match &seen.target {
        Ok(target) => target,
        Err(missing) => return obstructed(seen, &missing.why()).into(),
    };
    let is_back = equals_promoted(memory, target) && !configs_changed(memory, target);
    if memory.is_gated() && is_back && !memory.serves_from_canary() {
        let mut next = memory.in_phase(Phase::Succeeded, seen.now);
        next.applied = Some(target.revision.clone());
        next.replaces_broken_primary = false;
        let decision =
            Decision::because(Fact::Reverted(Phase::Waiting)).remember(next).announcing();
        return decision.again(Again::Now).into();
    }
    if !is_new(memory, target) && memory.phase.is_idle() {
        return rest(seen, target);
    }
    if let Some(obstacle) = obstacle(seen) {
        return obstructed(seen, &obstacle.0).into();
    }
    may_start(seen, target)
}

/// Live traffic was left on the canary, which cannot serve it any more: it moves to the primary, if that can
/// serve it.
fn leave_unready_canary(seen: &Observed) -> Option<Step> {
    let serves = seen.target.as_ref().is_ok_and(|target| target.readiness.is_serving());
    if !seen.memory.serves_from_canary() || serves || !seen.primary.readiness.is_serving() {
        return None;
    }
    match seen.objects.previous_route {
        State::InSync => {}
        State::OutOfSync => return Some(route_left()),
        State::Blocked(_) => return None,
    }
    let mut next = seen.memory.clone();
    next.weight = Percent::ZERO;
    let next = next.stamped(&seen.memory, seen.now);
    let shifts = seen.plan.traffic == Traffic::Divisible;
    let decision = Decision::because(Fact::RoutedToPrimary)
        .act_if(shifts, Action::Shift(Split::PRIMARY))
        .remember(next)
        .announcing();
    Some(decision.again(Again::Now).into())
}

/// Another writer gave the canary a share, or copies, although nothing is rolled out: the route is reset. The
/// share that a failed promotion leaves there is for users to decide.
fn drifted(seen: &Observed) -> Option<Step> {
    let Observed { memory, plan, .. } = seen;
    if seen.objects.previous_route != State::InSync {
        // The previous route may have the share, whichever share the new one has.
        return None;
    }
    let split = *seen.routes.as_ref().ok().filter(|_| plan.traffic == Traffic::Divisible)?;
    let right = Split::canary(memory.weight);
    if split == right {
        return None;
    }
    if memory.serves_from_canary() {
        let next = Memory { weight: split.canary, ..memory.clone() }.stamped(memory, seen.now);
        return Some(Decision::because(Fact::Idle).remember(next).again(Again::Now).into());
    }
    if split.canary > Percent::ZERO && !primary_takes(seen) {
        return None;
    }
    let fact = Fact::Drifted { seen: split.canary, now: memory.weight };
    let decision = Decision::because(fact).act(Action::Shift(right)).announcing();
    Some(decision.again(Again::Now).into())
}

/// The primary is ready again after a failed promotion: live traffic returns to it, then the canary is scaled
/// down. In between, the memory says that the canary still has pods to lose.
fn return_to_primary(seen: &Observed) -> Option<Step> {
    let Observed { memory, plan, .. } = seen;
    if !seen.primary.readiness.is_ready() || obstacle(seen).is_some() {
        return None;
    }
    if memory.serves_from_canary() {
        let next =
            Memory { weight: Percent::ZERO, replaces_broken_primary: true, ..memory.clone() };
        let shifts = plan.traffic == Traffic::Divisible;
        let decision = Decision::because(Fact::RoutedToPrimary)
            .act_if(shifts, Action::Shift(Split::PRIMARY))
            .remember(next.stamped(memory, seen.now))
            .announcing();
        return Some(decision.again(Again::Now).into());
    }
    if !memory.replaces_broken_primary || seen.objects.apex_service != State::InSync {
        return None;
    }
    let runs = seen.target.as_ref().is_ok_and(|target| target.replicas > 0);
    let decision = Decision::because(Fact::Idle)
        .act_if(plan.scaled, Action::PauseScaler)
        .act_if(runs, Action::Park)
        .remember(Memory { replaces_broken_primary: false, ..memory.clone() });
    Some(decision.again(Again::Now).into())
}

/// Nothing to start. New knowledge about fingerprints is written down.
fn rest(seen: &Observed, target: &Target) -> Step {
    let memory = &seen.memory;
    if memory.applied.as_ref() != Some(&target.revision) {
        let mut next = memory.clone();
        next.applied = Some(target.revision.clone());
        if memory.phase != Phase::Failed {
            next.promoted = Some(target.revision.clone());
        }
        return Decision::because(Fact::Idle).remember(next).again(Again::Now).into();
    }
    if let Some(obstacle) = obstacle(seen) {
        return obstructed(seen, &obstacle.0).into();
    }
    if seen.objects.orphans && !memory.serves_from_canary() && seen.primary.readiness.is_ready() {
        // A primary that is ready has no pod of an earlier revision that could still read them.
        return Decision::because(Fact::Idle).act(Action::Prune).again(Again::Now).into();
    }
    let runs = target.replicas > 0 && target.form != Form::Elsewhere;
    if runs && !memory.serves_from_canary() {
        let replicas = (target.form == Form::Replicas).then_some(target.replicas);
        return Decision::because(Fact::IdleTargetRuns(replicas)).announcing().into();
    }
    Decision::because(Fact::Idle).into()
}

fn may_start(seen: &Observed, target: &Target) -> Step {
    let Observed { memory, plan, interval_state, answers, .. } = seen;
    if !plan.skip
        && !rescues(seen)
        && let Some(unready) = seen.primary.readiness.unready()
    {
        // Nothing about the new revision is written down: it starts once the primary is ready.
        return awaiting_pods(seen, Fact::PrimaryNotReady(unready.clone())).into();
    }
    if !plan.hooks.confirm_rollout {
        return start(seen, target).into();
    }
    // A new revision is asked about at once, and again each interval.
    if memory.is_gated() && !interval_state.due && !interval_state.retry {
        return Decision::because(Fact::AwaitingInterval)
            .again(Again::At(interval_state.next))
            .into();
    }
    if memory.is_gated() && plan.hooks.rollback {
        match &answers.rollback {
            None => return Step::Ask(Question::Gate(GateKind::Rollback)),
            Some(Some(hook)) => return finish::called_back(seen, Some(target), hook),
            Some(None) => {}
        }
    }
    let Some(gate) = &answers.confirm_rollout else {
        return Step::Ask(Question::Gate(GateKind::ConfirmRollout));
    };
    let Some(refusal) = gate.refusal() else {
        return start(seen, target).into();
    };
    let decision = Decision::because(Fact::AwaitingApproval(refusal.sentence()));
    if memory.phase == Phase::Waiting {
        return decision.again(later(seen)).into();
    }
    let mut next = memory.in_phase(Phase::Waiting, seen.now);
    next.replaces_broken_primary = rescues(seen);
    let notice = Notice::Awaiting(GateKind::ConfirmRollout);
    let decision = if refusal.muted { decision } else { decision.alert(Severity::Warn, notice) };
    decision.remember(next).announcing().again(later(seen)).into()
}

/// Whether the rollout repairs the primary, and so does not wait for it.
///
/// Live traffic may be on the canary, since a promotion failed; or it is on the remaining pods of a
/// primary that does not recover by waiting, while another revision may repair it.
fn rescues(seen: &Observed) -> bool {
    let is_broken = matches!(seen.primary.readiness, Readiness::Stuck(_));
    seen.memory.serves_from_canary() || seen.memory.replaces_broken_primary || is_broken
}

/// Scales the target up first, then writes down that the rollout started.
fn start(seen: &Observed, target: &Target) -> Decision {
    let mut next = seen.memory.started(&target.revision, target.configs.as_ref(), seen.now);
    if rescues(seen) {
        // Live traffic stays where it is until the primary can take it.
        next.replaces_broken_primary = true;
        next.weight = seen.memory.weight;
    }
    Decision::because(Fact::NewRevision)
        .announcing()
        .alert(Severity::Info, Notice::NewRevision)
        .act_if(seen.plan.scaled, Action::ResumeScaler)
        .act_if(target.replicas < 1, Action::ScaleTarget(target.replicas_to_run.max(1)))
        .remember(next)
        .starts_interval()
        .again(later(seen))
}

/// Calls the post-rollout hooks, and notes that it was done.
///
/// A failure was announced when it happened, and its announcement still holds; a success is announced after
/// its hooks were called.
fn announce_end(seen: &Observed, end: Option<Phase>) -> Step {
    let good = if seen.plan.skip { Fact::PromotedUnchecked } else { Fact::Promoted };
    let news = end.filter(|end| *end != Phase::Failed).map(|_| good);
    let mut decision = Decision::because(news.clone().unwrap_or(Fact::Idle));
    if seen.plan.hooks.post_rollout {
        let Some(gate) = &seen.answers.post_rollout else {
            return Step::Ask(Question::Gate(GateKind::PostRollout));
        };
        for refusal in &gate.refused {
            let (hook, why) = (refusal.hook.clone(), refusal.why.clone());
            decision = decision.announce(Fact::PostRolloutFailed { hook, why });
        }
    }
    if end.is_some() {
        let mut next = seen.memory.clone();
        next.untold = None;
        decision = decision.remember(next);
    }
    if let Some(fact) = news {
        decision = decision.announce(fact);
    }
    decision.again(Again::Now).into()
}
