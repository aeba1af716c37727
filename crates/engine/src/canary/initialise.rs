//! The phase `Initializing`: sets up the primary beside a running workload, without a moment in which no pod
//! serves.
//!
//! Services, then the primary; wait until it is ready; its scaler, the apex Service onto it, routes to it;
//! only then the target goes to zero. A primary that does not become ready is retried: the target still
//! serves, and there is nothing to roll back to. After a change of the target, the previous primary serves,
//! and the Service in front of it is moved like the apex.

use crate::{
    Action, Again, Decision, Fact, ManagedObject, Notice, Observed, Obstacle, Phase, Question,
    Readiness, Revision, Severity, Split, State, Step, Target, Traffic,
};

use super::{awaiting_pods, later, obstructed, put};

pub(super) fn decide(seen: &Observed) -> Step {
    let target = match &seen.target {
        Ok(target) => target,
        Err(missing) => return obstructed(seen, &missing.why()).into(),
    };
    if let Some(obstacle) = blocked_service(seen) {
        // Nothing is made for a canary that cannot have its Services.
        return obstructed(seen, &obstacle.0).into();
    }
    let first: &[ManagedObject] = if seen.objects.primary_service_moves {
        &[ManagedObject::CanaryService]
    } else {
        &[ManagedObject::CanaryService, ManagedObject::PrimaryService]
    };
    if let Some(step) = place(seen, first) {
        return step;
    }
    if !seen.plan.skip && seen.interval_state.due && seen.answers.backends.is_none() {
        return Step::Ask(Question::Backends);
    }
    if let Some(step) = place(seen, &[ManagedObject::Primary]) {
        return step;
    }
    match &seen.primary.readiness {
        Readiness::Ready => {}
        Readiness::Waiting(unready) => {
            let why = Fact::PrimaryNotReady(unready.clone());
            return awaiting_pods(seen, why).into();
        }
        // Checks are skipped, but some pods must serve.
        Readiness::Stuck(unready) if seen.plan.skip && unready.serving => {}
        Readiness::Stuck(unready) => {
            let decision = Decision::because(Fact::PrimaryStuck(unready.to_string())).announcing();
            let notice = Notice::PrimaryStuck(unready.to_string());
            return decision.alert(Severity::Error, notice).again(later(seen)).into();
        }
    }
    let last = [
        ManagedObject::PrimaryScaler,
        ManagedObject::PrimaryService,
        ManagedObject::ApexService,
        ManagedObject::Route,
    ];
    if let Some(step) = place(seen, &last) {
        return step;
    }
    match &seen.routes {
        Ok(split) => finish(seen, target, *split),
        Err(obstacle) => obstructed(seen, &obstacle.0).into(),
    }
}

fn blocked_service(seen: &Observed) -> Option<&Obstacle> {
    let services =
        [ManagedObject::CanaryService, ManagedObject::PrimaryService, ManagedObject::ApexService];
    services.into_iter().find_map(|service| match seen.objects.of(service) {
        State::Blocked(obstacle) => Some(obstacle),
        State::InSync | State::OutOfSync => None,
    })
}

/// The first of these objects that is not in place.
fn place(seen: &Observed, pieces: &[ManagedObject]) -> Option<Step> {
    pieces.iter().find_map(|piece| match seen.objects.of(*piece) {
        State::InSync => None,
        State::OutOfSync => Some(put(*piece).into()),
        State::Blocked(obstacle) => Some(obstructed(seen, &obstacle.0).into()),
    })
}

fn finish(seen: &Observed, target: &Target, split: Split) -> Step {
    let mut next = seen.memory.in_phase(Phase::Initialized, seen.now);
    // A primary that was there before and runs something else: its fingerprint is unknown, but the
    // target is not it.
    let revision =
        if target.same_as_primary { target.revision.clone() } else { Revision::new("unknown") };
    next.failed_checks = 0;
    next.applied = Some(revision.clone());
    next.promoted = Some(revision);
    next.configs.clone_from(&target.configs);
    next.prepared = false;
    next.untold = None;
    next.blocked_since = None;
    next.no_data_since = None;
    // Routes that were there before, as when the status was lost in mid-rollout, may have a share for
    // the canary, which is about to have no pods.
    let shifts = seen.plan.traffic == Traffic::Divisible && split != Split::PRIMARY;
    Decision::because(Fact::Initialized)
        .act_if(shifts, Action::Shift(Split::PRIMARY))
        .act_if(seen.plan.scaled, Action::PauseScaler)
        .act_if(target.replicas > 0, Action::Park)
        .alert(Severity::Info, Notice::Initialized)
        .remember(next)
        .announcing()
        .again(Again::Now)
        .into()
}
