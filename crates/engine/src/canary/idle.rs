//! Nothing is being rolled out: is there something to start, and may it start?

use crate::{
    Action, Again, Decision, Fact, GateKind, Missing, Notice, Observed, Percent, Phase, Question,
    Readiness, Severity, Step, Target,
};

use super::{
    configs_changed, equals_promoted, finish, is_changed, is_stranded, later, obstacle, obstructed,
};

pub(super) fn decide(seen: &Observed) -> Step {
    let Observed { memory, plan, tempo, .. } = seen;
    if let Some(end) = memory.untold {
        return tell_the_end(seen, Some(end));
    }
    let is_over = matches!(memory.phase, Phase::Succeeded | Phase::Failed);
    if tempo.retry && is_over && plan.hooks.post_rollout {
        return tell_the_end(seen, None);
    }
    if plan.manual.is_some_and(|manual| manual.resume) {
        let decision = Decision::because(Fact::NothingToResume).act(Action::DropManualStep);
        return decision.telling().again(Again::Now).into();
    }
    let target = match &seen.target {
        Ok(target) => target,
        Err(Missing::Gone) => return obstructed(seen, "the target does not exist").into(),
        Err(Missing::Unusable(why)) => return obstructed(seen, why).into(),
    };
    let is_back = equals_promoted(seen, target) && !configs_changed(memory, target);
    if memory.is_gated() && is_back && !is_stranded(memory) {
        let mut next = memory.in_phase(Phase::Succeeded, seen.now);
        next.applied = Some(target.revision.clone());
        let decision = Decision::because(Fact::WentBack(Phase::Waiting)).remember(next).telling();
        return decision.again(Again::Now).into();
    }
    if !is_new(seen, target) && memory.phase.is_idle() {
        return rest(seen, target);
    }
    if let Some(obstacle) = obstacle(seen) {
        return obstructed(seen, &obstacle.0).into();
    }
    may_start(seen, target)
}

/// A revision is new if it was neither started, judged nor promoted. So is changed configuration.
fn is_new(seen: &Observed, target: &Target) -> bool {
    let memory = &seen.memory;
    if configs_changed(memory, target) || memory.applied.is_none() {
        return true;
    }
    let absorbed =
        matches!(memory.phase, Phase::Initialized | Phase::Succeeded) && target.same_as_primary;
    is_changed(memory, target) && !equals_promoted(seen, target) && !absorbed
}

/// Nothing to start. What was learnt about fingerprints is written down.
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
    if target.replicas > 0 && !is_stranded(memory) {
        return Decision::because(Fact::IdleTargetRuns(target.replicas)).telling().into();
    }
    Decision::because(Fact::Idle).into()
}

fn may_start(seen: &Observed, target: &Target) -> Step {
    let Observed { memory, plan, tempo, answers, .. } = seen;
    if !plan.skip
        && !is_stranded(memory)
        && let Readiness::Waiting(unready) | Readiness::Stuck(unready) = &seen.primary.readiness
    {
        // Not a word about the new revision is written down: it starts once the primary is well.
        let why = Fact::PrimaryNotReady(unready.why.clone());
        return Decision::because(why).telling().again(later(seen)).into();
    }
    if !plan.hooks.confirm_rollout {
        return start(seen, target).into();
    }
    if !tempo.due && !tempo.retry {
        return Decision::because(Fact::AwaitingInterval).again(Again::At(tempo.next)).into();
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
    let Some(refusal) = &gate.refused else {
        return start(seen, target).into();
    };
    let decision = Decision::because(Fact::AwaitingApproval(refusal.hook.clone()));
    if memory.phase == Phase::Waiting {
        return decision.again(later(seen)).into();
    }
    let next = memory.in_phase(Phase::Waiting, seen.now);
    let notice = Notice::Awaiting(GateKind::ConfirmRollout);
    let decision = if refusal.muted { decision } else { decision.alert(Severity::Warn, notice) };
    decision.remember(next).telling().again(later(seen)).into()
}

/// Capacity first, then the memory that it was started.
fn start(seen: &Observed, target: &Target) -> Decision {
    let mut next = seen.memory.started(&target.revision, target.configs.as_ref(), seen.now);
    if is_stranded(&seen.memory) {
        // Live traffic stays on the canary until the primary can take it.
        next.rescue = true;
        next.weight = Percent::ALL;
    }
    Decision::because(Fact::NewRevision)
        .telling()
        .alert(Severity::Info, Notice::NewRevision)
        .act_if(seen.plan.scaled, Action::ResumeScaler)
        .act_if(target.replicas < 1, Action::ScaleTarget(target.replicas_to_run.max(1)))
        .remember(next)
        .beat()
        .again(later(seen))
}

/// Calls the post-rollout hooks, and notes that it was done.
fn tell_the_end(seen: &Observed, end: Option<Phase>) -> Step {
    let why = if end.unwrap_or(seen.memory.phase) == Phase::Failed {
        Fact::Failed
    } else {
        Fact::Promoted
    };
    let mut decision = Decision::because(why.clone());
    if seen.plan.hooks.post_rollout {
        let Some(gate) = &seen.answers.post_rollout else {
            return Step::Ask(Question::Gate(GateKind::PostRollout));
        };
        if let Some(refusal) = &gate.refused {
            let (hook, why) = (refusal.hook.clone(), refusal.why.clone());
            decision = decision.tell(Fact::PostRolloutFailed { hook, why });
        }
    }
    if end.is_some() {
        let mut next = seen.memory.clone();
        next.untold = None;
        decision = decision.remember(next);
    }
    if why == Fact::Promoted && end.is_some() {
        decision = decision.tell(why);
    }
    // The interval belongs to gates of the next rollout.
    decision.again(if end.is_some() { Again::Now } else { Again::OnChange }).into()
}
