//! The phase `Terminating`: restores target, Services and routes before the canary is gone.
//!
//! The target becomes ready first, then Services and routes return to it, then the finalizer is removed. A
//! missing target needs no restoration; the wait for one that does not become ready is bounded. In either
//! case Services and routes that outlive the canary are restored: otherwise they would lead to pods that are
//! deleted with it. One that cannot be restored blocks nothing for ever.

use crate::{
    Action, Again, Decision, Fact, Memory, Missing, Notice, Observed, Phase, Readiness, Severity,
    State, Step, Target,
};

use super::{later, obstructed};

/// The bound of the restoration, in progress deadlines.
const DEADLINES: u32 = 3;

pub(super) fn decide(seen: &Observed) -> Step {
    let Observed { memory, plan, .. } = seen;
    if !plan.revert {
        return Decision::because(Fact::Terminated).act(Action::RemoveFinalizer).into();
    }
    match memory.phase {
        // Written down and not released yet: changes in between still count.
        Phase::Terminating | Phase::Terminated => {}
        Phase::New
        | Phase::Initializing
        | Phase::Initialized
        | Phase::Waiting
        | Phase::Progressing
        | Phase::WaitingPromotion
        | Phase::Promoting
        | Phase::Finalising
        | Phase::Succeeded
        | Phase::Failed => {
            let next = memory.in_phase(Phase::Terminating, seen.now);
            let decision = Decision::because(Fact::Terminating).remember(next).announcing();
            return decision.again(Again::Now).into();
        }
    }
    match &seen.target {
        Ok(target) => {
            if let Some(step) = restore_target(seen, target) {
                return step;
            }
        }
        Err(Missing::Gone(_)) => {}
        Err(Missing::Unusable(why)) => return wait_or_give_up(seen, why),
    }
    for (state, action) in restorations(seen) {
        match state {
            State::InSync => {}
            State::OutOfSync => {
                let decision = Decision::because(Fact::Terminating).act(action);
                return decision.again(Again::Now).into();
            }
            State::Blocked(obstacle) => return wait_or_give_up(seen, &obstacle.0),
        }
    }
    released(seen)
}

/// Objects that outlive the canary, in the order in which they are restored.
fn restorations(seen: &Observed) -> [(&State, Action); 2] {
    [
        (&seen.objects.apex_restored, Action::RestoreApex),
        (&seen.objects.route_restored, Action::RestoreRoute),
    ]
}

/// Restores the target, or says what is still missing.
fn restore_target(seen: &Observed, target: &Target) -> Option<Step> {
    if target.is_parked() {
        let replicas = match target.replicas {
            ..1 if seen.primary.exists => seen.primary.replicas,
            ..1 => target.replicas_to_run,
            running => running,
        };
        let decision = Decision::because(Fact::AwaitingTarget("scaling up".to_owned()))
            .act_if(seen.plan.scaled, Action::ResumeScaler)
            .act(Action::ScaleTarget(replicas.max(1)));
        return Some(decision.again(later(seen)).into());
    }
    match &target.readiness {
        Readiness::Ready => None,
        Readiness::Waiting(unready) | Readiness::Stuck(unready) => {
            Some(wait_or_give_up(seen, &unready.to_string()))
        }
    }
}

fn wait_or_give_up(seen: &Observed, why: &str) -> Step {
    // Counted from the start of the restoration: a deletion that was observed late gets the whole time.
    let since = seen.memory.since.max(seen.lifecycle.deleted_at).unwrap_or(seen.now);
    if since > seen.now {
        // The clock was put back.
        let next = Memory { since: Some(seen.now), ..seen.memory.clone() };
        return Decision::because(Fact::AwaitingTarget(why.to_owned()))
            .act_if(seen.memory.since != next.since, Action::Remember(Box::new(next)))
            .again(later(seen))
            .into();
    }
    if seen.now.since(since) >= seen.plan.deadline * DEADLINES {
        return given_up(seen, why);
    }
    if seen.target.is_ok() {
        let decision = Decision::because(Fact::AwaitingTarget(why.to_owned()));
        return decision.again(later(seen)).into();
    }
    obstructed(seen, why).into()
}

/// Leaves the target unchanged, and restores everything else that can be restored. Refused writes are blocked
/// by the next look, so that this ends.
fn given_up(seen: &Observed, why: &str) -> Step {
    let mut decision = Decision::because(Fact::RevertGivenUp(why.to_owned()))
        .announcing()
        .alert(Severity::Error, Notice::RevertGivenUp(why.to_owned()));
    for (state, action) in restorations(seen) {
        decision = decision.act_if(*state == State::OutOfSync, action);
    }
    let next = seen.memory.in_phase(Phase::Terminated, seen.now);
    decision.remember(next).act(Action::RemoveFinalizer).into()
}

fn released(seen: &Observed) -> Step {
    if seen.memory.phase == Phase::Terminated {
        return Decision::because(Fact::Terminated).act(Action::RemoveFinalizer).into();
    }
    let next = seen.memory.in_phase(Phase::Terminated, seen.now);
    // The target may run with its scaler still paused: a crash in between, or scaling by another writer.
    let resumes = seen.plan.scaled && seen.target.is_ok();
    Decision::because(Fact::Terminated)
        .act_if(resumes, Action::ResumeScaler)
        .remember(next)
        .announcing()
        .act(Action::RemoveFinalizer)
        .into()
}
