//! The decision about a canary. [`decide`] is called by the operator with every observation, is a pure function
//! of it, and names the next actions in order.
//!
//! ```text
//!            +------------- a change, gates open ---------------+
//!            v                                                  |
//! New -> Initializing -> Initialized          Succeeded      Failed
//!                             |                   ^             ^
//!                             v                   |             |
//!    Waiting (gate) ---> Progressing --> Promoting --> Finalising
//!                        ^        |  \                (stuck primary: Failed, traffic stays)
//!                        |        v   +-> failed checks, deadline, rollback hook: Failed
//!             Waiting (held)   WaitingPromotion
//! ```
//!
//! Checks are in the order of importance: deletion, refusal, suspension, setting up, then for a running
//! rollout: is it still the right revision, can it serve, must it roll back, may it go on? Only the last one
//! waits for the interval; everything before it may happen at any time.

mod ab;
mod blue_green;
mod cookies;
mod finish;
mod idle;
mod initialise;
mod manual;
mod progress;
mod promote;
mod terminate;
mod weighted;

#[cfg(test)]
mod tests;

use crate::{
    Action, Again, Decision, Fact, GateKind, ManagedObject, Memory, Note, Observed, Obstacle,
    Pause, Percent, Phase, Plan, State, Step, Strategy, Target, Traffic,
};

/// Which pods a Service selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The production copy.
    Primary,
    /// The user's workload.
    Canary,
}

/// Decides the next step.
pub fn decide(seen: &Observed) -> Step {
    match choose(seen) {
        Step::Ask(question) => Step::Ask(question),
        Step::Do(decision) => Step::Do(complete(seen, decision)),
    }
}

/// Which pods the Service of clients selects.
///
/// The primary's, always, but for one case: where traffic cannot be divided and a promotion left the
/// primary broken, clients are sent to the canary, which works.
pub fn apex_side(plan: &Plan, memory: &Memory) -> Side {
    let is_left_behind = memory.serves_from_canary()
        || (memory.replaces_broken_primary && memory.weight > Percent::ZERO);
    if plan.traffic == Traffic::Whole && is_left_behind { Side::Canary } else { Side::Primary }
}

/// The initial share of a route that replaces another one: the last approved share, if the canary can serve
/// it and still is the analysed revision.
pub fn inherited_share(plan: &Plan, memory: &Memory, target: Option<&Target>) -> Percent {
    let serves = |target: &Target| {
        target.replicas > 0 && target.readiness.is_serving() && !is_changed(memory, target)
    };
    let is_rejected = memory.failed_checks >= plan.threshold.max(1);
    let may_serve = target.is_some_and(serves) && !is_rejected;
    if plan.traffic == Traffic::Whole || !may_serve {
        return Percent::ZERO;
    }
    if memory.weight > Percent::ZERO {
        return memory.weight;
    }
    // Other phases have no share, or none any more.
    let is_dividing =
        matches!(memory.phase, Phase::Progressing | Phase::WaitingPromotion | Phase::Promoting);
    match plan.strategy {
        // A rollout that counted checks was not weighted until now.
        Strategy::Weighted if memory.phase == Phase::WaitingPromotion && memory.iterations == 0 => {
            plan.max
        }
        Strategy::AbTesting if is_dividing && memory.iterations > 0 => Percent::ALL,
        Strategy::BlueGreen if is_dividing && memory.iterations > plan.iterations => Percent::ALL,
        Strategy::Weighted | Strategy::AbTesting | Strategy::BlueGreen => Percent::ZERO,
    }
}

fn choose(seen: &Observed) -> Step {
    let Observed { plan, memory, lifecycle, now, .. } = seen;
    if lifecycle.deleted_at.is_some() {
        return if lifecycle.has_finalizer { terminate::decide(seen) } else { idle_until_gone() };
    }
    if let Some(why) = refusal(seen) {
        let decision = Decision::because(Fact::Refused(why)).announcing();
        // Without a phase its column in `kubectl get` would be empty.
        let is_new = memory.phase == Phase::New;
        let first = is_new.then(|| memory.in_phase(Phase::Initializing, *now));
        return first.map_or(decision.clone(), |next| decision.remember(next)).into();
    }
    if plan.revert != lifecycle.has_finalizer {
        let action = if plan.revert { Action::AddFinalizer } else { Action::RemoveFinalizer };
        return Decision::because(Fact::Idle).act(action).again(Again::Now).into();
    }
    let unknown = matches!(memory.phase, Phase::New | Phase::Terminating | Phase::Terminated);
    if unknown {
        let mut next = memory.in_phase(Phase::Initializing, *now);
        next.replaces_broken_primary = false;
        return Decision::because(Fact::AwaitingInterval).remember(next).again(Again::Now).into();
    }
    if plan.suspended {
        return Decision::because(Fact::Suspended).announcing().into();
    }
    match memory.phase {
        Phase::Initializing => initialise::decide(seen),
        Phase::Initialized
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Waiting
        | Phase::Progressing
        | Phase::WaitingPromotion
        | Phase::Promoting
        | Phase::Finalising => settled(seen),
        Phase::New | Phase::Terminating | Phase::Terminated => idle_until_gone(),
    }
}

/// Reasons not to act upon the canary.
///
/// An invalid spec begins nothing. Once clients may reach the canary, the invalid spec counts as an obstacle
/// like any other that lasts, and the rollout is rolled back by the known route.
fn refusal(seen: &Observed) -> Option<Vec<String>> {
    let Observed { memory, blockers, objects, .. } = seen;
    let leads_back = memory.phase.is_under_way() || memory.serves_from_canary();
    let spec_error = objects.spec_error.iter().filter(|_| !leads_back || !blockers.is_empty());
    let why: Vec<String> =
        blockers.iter().cloned().chain(spec_error.map(|spec_error| spec_error.0.clone())).collect();
    (!why.is_empty()).then_some(why)
}

fn idle_until_gone() -> Step {
    Decision::because(Fact::Terminating).into()
}

/// Everything after initialisation.
fn settled(seen: &Observed) -> Step {
    if let Some(step) = start_over(seen) {
        return step;
    }
    if let Some(step) = adopt(seen) {
        return step;
    }
    if let Some(step) = retire_previous_route(seen) {
        return step;
    }
    if let Some(step) = restore(seen) {
        return step;
    }
    if let Some(step) = remembered_pause(seen) {
        return step;
    }
    let memory = &seen.memory;
    match memory.phase {
        Phase::Initialized | Phase::Succeeded | Phase::Failed => idle::decide(seen),
        Phase::Waiting if memory.is_gated() => idle::decide(seen),
        Phase::Promoting => promote::promoting(seen),
        Phase::Finalising => promote::finalising(seen),
        Phase::Waiting | Phase::Progressing | Phase::WaitingPromotion => progress::decide(seen),
        Phase::New | Phase::Initializing | Phase::Terminating | Phase::Terminated => {
            idle_until_gone()
        }
    }
}

/// A hold whose field in the status was lost, as when an older definition prunes it.
///
/// `Waiting` with a share for the started revision is always a hold; taken for a gate, the rollout would
/// start again from zero.
fn remembered_pause(seen: &Observed) -> Option<Step> {
    let memory = &seen.memory;
    let target = seen.target.as_ref().ok()?;
    seen.plan.manual?;
    if !memory.serves_from_canary() || !memory.is_gated() || is_changed(memory, target) {
        return None;
    }
    let mut next = memory.clone();
    next.pause = Some(Pause { weight: memory.weight, since: memory.since.unwrap_or(seen.now) });
    Some(Decision::because(Fact::Held(memory.weight)).remember(next).again(Again::Now).into())
}

/// Removes a resume when nothing is held, so that it does not end the next hold.
///
/// It is removed together with the next action. A resume that cannot be removed blocks nothing; the removal
/// is retried with the next look.
fn nothing_to_resume(seen: &Observed, step: Step) -> Step {
    drop_resume(seen, step, Fact::NothingToResume)
}

fn drop_resume(seen: &Observed, step: Step, fact: Fact) -> Step {
    let resumes = seen.plan.manual.is_some_and(|manual| manual.resume);
    match step {
        Step::Do(mut decision) if resumes => {
            decision.actions.insert(0, Action::DropManualStep(Some(fact)));
            if decision.again == Again::OnChange {
                decision.again = later(seen);
            }
            decision.into()
        }
        Step::Ask(_) | Step::Do(_) => step,
    }
}

/// Sets everything up anew for another target, once that exists: the memory is of the previous one.
///
/// Only while nothing is rolled out and no client is routed to the canary; until then the previous target
/// counts.
fn start_over(seen: &Observed) -> Option<Step> {
    let Observed { memory, objects, .. } = seen;
    let former = objects.previous_target.clone()?;
    let is_at_rest = (memory.phase.is_idle() || memory.is_gated()) && !memory.serves_from_canary();
    if !is_at_rest || memory.untold.is_some() || seen.target.is_err() {
        return None;
    }
    let next = Memory { phase: Phase::Initializing, since: Some(seen.now), ..Memory::default() };
    let decision = Decision::because(Fact::TargetChanged { former }).remember(next).announcing();
    Some(decision.again(Again::Now).into())
}

/// Adopts a canary of another controller.
///
/// Its fingerprints cannot be compared with ours. A workload that is unchanged gets our fingerprint and
/// nothing else happens; for one that was edited since, the ordinary rules see a new revision.
fn adopt(seen: &Observed) -> Option<Step> {
    let Observed { memory, .. } = seen;
    let applied = memory.applied.as_ref()?;
    let target = seen.target.as_ref().ok()?;
    if !applied.is_foreign() {
        return None;
    }
    let mut next = memory.clone();
    next.applied = Some(target.revision.clone());
    if matches!(memory.phase, Phase::Initialized | Phase::Succeeded) {
        if !target.same_as_primary {
            return None;
        }
        next.promoted = Some(target.revision.clone());
    } else if target.edited_since {
        return None;
    }
    let decision = Decision::because(Fact::Adopted).remember(next).announcing();
    Some(decision.again(Again::Now).into())
}

/// Removes the canary's share from a previous route: at once, as no other step does.
fn retire_previous_route(seen: &Observed) -> Option<Step> {
    let leaves = seen.objects.previous_route == State::OutOfSync && primary_takes(seen);
    leaves.then(route_left)
}

fn route_left() -> Step {
    let decision =
        Decision::because(Fact::PreviousRouteRetired).act(Action::RetirePreviousRoute).announcing();
    decision.again(Again::Now).into()
}

/// Restores objects that were deleted or edited.
fn restore(seen: &Observed) -> Option<Step> {
    let is_safe = |piece: &ManagedObject| match piece {
        // Never onto pods that cannot serve.
        ManagedObject::ApexService => match apex_side(&seen.plan, &seen.memory) {
            Side::Primary => seen.primary.readiness.is_serving(),
            Side::Canary => seen.target.as_ref().is_ok_and(|it| it.readiness.is_serving()),
        },
        // Its clients stay where they are until the pods of the other workload can serve.
        ManagedObject::PrimaryService => {
            !seen.objects.primary_service_moves || seen.primary.readiness.is_serving()
        }
        // Never to a primary that is gone and whose revision is unknown: the one put in its place might be the
        // canary. Nor beside a route that has a share still, or by an invalid spec.
        ManagedObject::Route => {
            let is_known =
                seen.primary.exists || !matches!(seen.objects.primary, State::Blocked(_));
            is_known
                && seen.objects.previous_route == State::InSync
                && seen.objects.spec_error.is_none()
        }
        ManagedObject::CanaryService | ManagedObject::Primary | ManagedObject::PrimaryScaler => {
            true
        }
    };
    let differs = |piece: &ManagedObject| *seen.objects.of(*piece) == State::OutOfSync;
    let piece = ManagedObject::ALL.into_iter().find(|piece| differs(piece) && is_safe(piece))?;
    let decision = put(piece);
    // No client was routed to the canary meanwhile: its share is watched for a whole interval.
    let begins = piece == ManagedObject::Route && seen.objects.takes_over;
    Some(if begins { decision.starts_interval() } else { decision }.into())
}

fn put(piece: ManagedObject) -> Decision {
    let decision = Decision::because(Fact::Placed(piece)).act(Action::Ensure(piece));
    decision.again(Again::Now)
}

/// The obstacle that keeps the rollout from going on, if any.
fn obstacle(seen: &Observed) -> Option<&Obstacle> {
    let objects = &seen.objects;
    let states = ManagedObject::ALL
        .into_iter()
        .map(|piece| objects.of(piece))
        .chain([&objects.previous_route]);
    let mut blocked = states.filter_map(|state| match state {
        State::Blocked(obstacle) => Some(obstacle),
        State::InSync | State::OutOfSync => None,
    });
    objects.spec_error.as_ref().or_else(|| blocked.next()).or_else(|| seen.routes.as_ref().err())
}

/// Waits, announces the reason, and retries after an interval.
fn obstructed(seen: &Observed, why: &str) -> Decision {
    Decision::because(Fact::Obstructed(why.to_owned())).announcing().again(later(seen))
}

/// Waits for pods, which come up one by one: announced only if it takes an interval.
fn awaiting_pods(seen: &Observed, why: Fact) -> Decision {
    let decision = Decision::because(why).again(later(seen));
    if seen.interval_state.due { decision.announcing() } else { decision }
}

fn later(seen: &Observed) -> Again {
    Again::At(seen.now.after(seen.plan.interval))
}

/// Adds the facts and actions that follow from answers, notes and cookies.
fn complete(seen: &Observed, mut decision: Decision) -> Decision {
    let answered = seen.answers != crate::Answers::default();
    decision.starts_interval |= answered;
    let mut facts = noted(seen, &decision);
    if progress::is_start(seen) && begins_analysis(seen, &decision) {
        facts.push(Fact::AnalysisStarted);
    }
    if answered {
        facts_of_answers(seen, &mut facts);
    }
    if !facts.is_empty() {
        decision.actions.splice(0..0, facts.into_iter().map(Action::Announce));
    }
    cookies::add(seen, &mut decision);
    let may_write = refusal(seen).is_none() && !seen.plan.suspended;
    if seen.interval_state.retry && may_write && (answered || decision.again != Again::Now) {
        // Before the step: one retry must not become two if the step is written and its answer is lost.
        decision.actions.insert(0, Action::ClearRetry);
    }
    decision
}

/// Parts of the plan that cannot be carried out as written, or may not be meant so: announced once a rollout,
/// at its start, or at the start of a hold, which may be requested at any time.
fn noted(seen: &Observed, decision: &Decision) -> Vec<Fact> {
    let starts = matches!(decision.why, Fact::NewRevision | Fact::Restarted);
    let was_paused = seen.memory.is_paused();
    let holds = decision
        .actions
        .iter()
        .any(|action| matches!(action, Action::Remember(next) if next.is_paused() && !was_paused));
    let is_due = |note: &&Note| match note {
        Note::ManualStepBeyondMax { .. } => holds,
        Note::ManualStepIgnored | Note::Other(_) => starts,
        // Worth knowing before the first rollout depends on it.
        Note::MatchIgnored
        | Note::WeightsIgnored { .. }
        | Note::Ignored(_)
        | Note::Doubtful(_)
        | Note::Unverified(_) => starts || decision.why == Fact::Initialized,
    };
    seen.plan.notes.iter().filter(is_due).map(|note| Fact::Noted(note.clone())).collect()
}

/// Whether the gate before any traffic was called, or passed because there is none.
fn begins_analysis(seen: &Observed, decision: &Decision) -> bool {
    let was_prepared = seen.memory.prepared;
    let prepares = |action: &Action| matches!(action, Action::Remember(next) if next.prepared && !was_prepared);
    seen.answers.pre_rollout.is_some() || decision.actions.iter().any(prepares)
}

fn facts_of_answers(seen: &Observed, facts: &mut Vec<Fact>) {
    let answers = &seen.answers;
    match &answers.backends {
        Some(Ok(())) => facts.push(Fact::BackendsAvailable),
        Some(Err(why)) => facts.push(Fact::BackendsUnavailable(why.clone())),
        None => {}
    }
    let checks = answers.checks.iter();
    facts.extend(checks.flat_map(|it| &it.ambiguous).cloned().map(Fact::Ambiguous));
    let gates = [
        (GateKind::ConfirmRollout, &answers.confirm_rollout),
        (GateKind::PreRollout, &answers.pre_rollout),
        (GateKind::ConfirmTrafficIncrease, &answers.confirm_traffic_increase),
        (GateKind::ConfirmPromotion, &answers.confirm_promotion),
        (GateKind::PostRollout, &answers.post_rollout),
    ];
    for (kind, gate) in gates {
        let passed = gate.iter().flat_map(|gate| &gate.passed);
        facts.extend(passed.map(|hook| Fact::GatePassed(kind, hook.clone())));
    }
}

/// Whether the primary can take over traffic.
///
/// For a rollback one pod that serves is enough. A primary that broke in a promotion must be ready: a few
/// remaining pods are not enough.
fn primary_takes(seen: &Observed) -> bool {
    let readiness = &seen.primary.readiness;
    if seen.memory.replaces_broken_primary || seen.memory.serves_from_canary() {
        readiness.is_ready()
    } else {
        readiness.is_serving()
    }
}

/// Whether a rollback moves traffic to the primary. With unknown routes it does.
fn canary_has_share(seen: &Observed) -> bool {
    if seen.objects.previous_route != State::InSync {
        return true;
    }
    match seen.plan.traffic {
        Traffic::Divisible => {
            seen.routes.as_ref().map_or(true, |split| split.canary > Percent::ZERO)
        }
        Traffic::Whole => apex_side(&seen.plan, &seen.memory) == Side::Canary,
    }
}

/// Whether the target holds a revision or configuration that was neither started, judged nor promoted.
///
/// Between rollouts, the primary then does not run the target's revision.
pub fn is_new(memory: &Memory, target: &Target) -> bool {
    if configs_changed(memory, target) || memory.applied.is_none() {
        return true;
    }
    let absorbed =
        matches!(memory.phase, Phase::Initialized | Phase::Succeeded) && target.same_as_primary;
    is_changed(memory, target) && !equals_promoted(memory, target) && !absorbed
}

/// Whether the target equals the revision of the primary.
///
/// Compares fingerprints; if that of the primary is of another controller, or after a failure, when the
/// primary may not run it, compares with the template that the primary runs.
fn equals_promoted(memory: &Memory, target: &Target) -> bool {
    let is_doubtful = memory.replaces_broken_primary
        || memory.serves_from_canary()
        || memory.phase == Phase::Failed;
    match &memory.promoted {
        Some(promoted) if !promoted.is_foreign() && !is_doubtful => *promoted == target.revision,
        _ => target.same_as_primary,
    }
}

/// Whether configuration differs from that in the status.
fn configs_changed(memory: &Memory, target: &Target) -> bool {
    match (&memory.configs, &target.configs) {
        (_, None) => false,
        (None, Some(now)) => !now.is_empty(),
        (Some(before), Some(now)) => before != now,
    }
}

/// Whether the target differs from the revision that was last started or judged.
fn is_changed(memory: &Memory, target: &Target) -> bool {
    memory.applied.as_ref() != Some(&target.revision) || configs_changed(memory, target)
}
