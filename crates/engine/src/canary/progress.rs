//! The phases of analysis (`Progressing`, `WaitingPromotion`): one step an interval.
//!
//! Called by `decide`. In this order: is the revision still the same, can the canary serve, must it roll
//! back, may it go on? Only the last question waits for the interval and queries metrics.

use crate::{
    Action, Again, Decision, Fact, GateKind, Memory, Missing, Observed, Percent, Phase, Question,
    Readiness, Split, Step, Strategy, Target, Traffic, Verdict,
};

use super::{
    ab, awaiting_pods, blue_green, canary_has_share, equals_promoted, finish, is_changed, later,
    manual, obstacle, obstructed, primary_takes, weighted,
};

pub(super) fn decide(seen: &Observed) -> Step {
    let target = match &seen.target {
        Ok(target) => target,
        Err(missing) => return without_target(seen, missing),
    };
    if is_changed(&seen.memory, target) {
        return changed(seen, target);
    }
    if let Some(step) = rollback_reason(seen, target) {
        return step;
    }
    // An invalid spec promotes nothing, also where the analysis is skipped.
    if seen.plan.skip && seen.objects.spec_error.is_none() {
        return skip(seen, target);
    }
    let Ok(split) = seen.routes else {
        return blocked(seen, target);
    };
    if obstacle(seen).is_some() {
        return blocked(seen, target);
    }
    if let Some(obstacle) = &seen.objects.shift_refused
        && is_overdue(seen)
    {
        return finish::overdue(seen, Some(target), &obstacle.0);
    }
    let leads_nowhere = weighted::leads_nowhere(seen, split);
    if leads_nowhere && is_overdue(seen) {
        return finish::overdue(seen, Some(target), weighted::NO_STEP);
    }
    if !leads_nowhere && let Some(step) = trouble_over(seen) {
        return step;
    }
    if let Some(step) = drifted(seen, split) {
        return step;
    }
    if let Some(step) = manual::at_once(seen, split) {
        return step;
    }
    if !seen.interval_state.due && !seen.interval_state.retry {
        return Decision::because(Fact::AwaitingInterval)
            .again(Again::At(seen.interval_state.next))
            .into();
    }
    manual::without_hold(seen, split, check(seen, target, split))
}

/// Whether this is where the analysis begins: nothing was shifted, counted or prepared yet.
pub(super) fn is_start(seen: &Observed) -> bool {
    let memory = &seen.memory;
    let Ok(split) = seen.routes else { return false };
    memory.phase == Phase::Progressing
        && !memory.prepared
        && memory.iterations == 0
        && split == Split::PRIMARY
        && seen.target.as_ref().is_ok_and(|target| target.readiness.is_ready())
        && !seen.plan.skip
}

/// The target has another revision than the analysed one.
///
/// While the canary replaces a broken primary, traffic stays where it is until the primary can take it.
pub(super) fn changed(seen: &Observed, target: &Target) -> Step {
    let Observed { memory, plan, now, .. } = seen;
    let stays = memory.replaces_broken_primary && !primary_takes(seen);
    if equals_promoted(memory, target) && !super::configs_changed(memory, target) && !stays {
        return finish::target_reverted(seen, target);
    }
    let mut next = memory.started(&target.revision, target.configs.as_ref(), *now);
    next.replaces_broken_primary = stays;
    if stays {
        next.weight = seen.routes.as_ref().map_or(memory.weight, |split| match plan.traffic {
            Traffic::Divisible => split.canary,
            Traffic::Whole => memory.weight,
        });
    }
    let shifts = plan.traffic == Traffic::Divisible && !stays && needs_shift(seen);
    if shifts && canary_has_share(seen) && !primary_takes(seen) {
        return held(seen);
    }
    let resumed = plan.manual.is_some_and(|manual| manual.resume) && memory.is_paused();
    let mut decision = Decision::because(Fact::Restarted).announcing();
    decision = decision.act_if(shifts, Action::Shift(Split::PRIMARY));
    if resumed {
        // The approval was for the previous revision.
        decision = decision.act(Action::ResetResume).announce(Fact::ResumeVoid);
    }
    decision.remember(next).starts_interval().again(later(seen)).into()
}

/// Whether routes send anything to the canary. Unknown routes do.
pub(super) fn needs_shift(seen: &Observed) -> bool {
    seen.routes.as_ref().map_or(true, |split| *split != Split::PRIMARY)
}

fn held(seen: &Observed) -> Step {
    finish::held(seen, &finish::no_pod(seen))
}

/// Reasons to end the rollout that need no interval.
fn rollback_reason(seen: &Observed, target: &Target) -> Option<Step> {
    let Observed { memory, plan, .. } = seen;
    if !plan.skip
        && !memory.replaces_broken_primary
        && let Readiness::Stuck(unready) = &seen.primary.readiness
    {
        return Some(finish::primary_stuck(seen, target, &unready.to_string()));
    }
    if !plan.skip && memory.failed_checks >= plan.threshold {
        return Some(finish::threshold_reached(seen, target));
    }
    if target.replicas < 1 {
        return Some(scaled_away(seen, target).into());
    }
    if let Readiness::Stuck(unready) = &target.readiness {
        return Some(finish::overdue(seen, Some(target), &unready.to_string()));
    }
    // Only after that: its scaler is also paused when a rollback of a stuck canary was cut short.
    if target.is_parked() {
        return Some(scaled_away(seen, target).into());
    }
    let is_time = seen.interval_state.due || seen.interval_state.retry;
    let asks = is_time && (target.readiness.is_ready() || canary_has_share(seen));
    if plan.hooks.rollback && !plan.skip && asks {
        match &seen.answers.rollback {
            None => return Some(Step::Ask(Question::Gate(GateKind::Rollback))),
            Some(Some(hook)) => return Some(finish::called_back(seen, Some(target), hook)),
            Some(None) => {}
        }
    }
    None
}

/// The canary's pods were scaled away by another writer: scales up. Meanwhile no pod serves its share.
fn scaled_away(seen: &Observed, target: &Target) -> Decision {
    let decision = Decision::because(Fact::ScaledUpAgain)
        .act_if(seen.plan.scaled, Action::ResumeScaler)
        .act(Action::ScaleTarget(target.replicas_to_run.max(1)))
        .announcing()
        .again(later(seen));
    let has_share = seen.plan.traffic == Traffic::Divisible
        && seen.routes.as_ref().is_ok_and(|split| split.canary > Percent::ZERO);
    if !has_share || !seen.interval_state.due || seen.plan.skip {
        return decision;
    }
    let mut next = seen.memory.clone();
    next.failed_checks = next.failed_checks.saturating_add(1);
    decision.remember(next).starts_interval()
}

fn skip(seen: &Observed, target: &Target) -> Step {
    if let Readiness::Waiting(unready) = &target.readiness {
        return awaiting_pods(seen, Fact::CanaryNotReady(unready.clone())).into();
    }
    finish::skip(seen)
}

/// The target is gone in mid-flight: its share is removed at once, the rest waits for the target.
fn without_target(seen: &Observed, missing: &Missing) -> Step {
    let shared = seen.routes.as_ref().is_ok_and(|split| *split != Split::PRIMARY);
    let is_gone = matches!(missing, Missing::Gone(_));
    if is_gone && shared && seen.primary.readiness.is_serving() {
        let mut next = seen.memory.clone();
        next.weight = Percent::ZERO;
        next.pause = None;
        next.phase = Phase::Progressing;
        let next = next.stamped(&seen.memory, seen.now);
        return Decision::because(Fact::RoutedToPrimary)
            .act(Action::Shift(Split::PRIMARY))
            .remember(next)
            .announcing()
            .again(Again::Now)
            .into();
    }
    counts_against_deadline(seen, &missing.why(), None)
}

fn blocked(seen: &Observed, target: &Target) -> Step {
    let why = obstacle(seen).map_or("routes cannot be read", |obstacle| &obstacle.0);
    counts_against_deadline(seen, why, Some(target))
}

/// An obstacle that lasts: it counts against the deadline.
pub(super) fn counts_against_deadline(seen: &Observed, why: &str, target: Option<&Target>) -> Step {
    // A clock that was put back must not make it wait for ever: a moment in the future counts as now.
    if seen.memory.blocked_since.is_none_or(|since| since > seen.now) {
        let next = Memory { blocked_since: Some(seen.now), ..seen.memory.clone() };
        return obstructed(seen, why).remember(next).into();
    }
    if is_overdue(seen) {
        return finish::overdue(seen, target, why);
    }
    obstructed(seen, why).into()
}

/// Whether an obstacle has lasted longer than the deadline allows.
fn is_overdue(seen: &Observed) -> bool {
    let since = seen.memory.blocked_since.filter(|since| *since <= seen.now);
    since.is_some_and(|since| seen.now.since(since) >= seen.plan.deadline)
}

/// The obstacle is gone: the next one has the whole deadline. A split that was refused must have been
/// written before it counts as gone.
pub(super) fn trouble_over(seen: &Observed) -> Option<Step> {
    seen.memory.blocked_since.filter(|_| seen.objects.shift_refused.is_none())?;
    let next = Memory { blocked_since: None, ..seen.memory.clone() };
    Some(Decision::because(Fact::AwaitingInterval).remember(next).again(Again::Now).into())
}

/// The routing object and the memory disagree: a crash between the two writes, or an edit by another writer.
///
/// A share that is the very next step is our own; one that is lower is safe to go on from; any other is reset
/// to the last approved share, unless a broken primary would have to take it.
fn drifted(seen: &Observed, split: Split) -> Option<Step> {
    let Observed { memory, plan, .. } = seen;
    if plan.strategy == Strategy::BlueGreen {
        return blue_green::drifted(seen, split);
    }
    let applies = plan.strategy == Strategy::Weighted
        && plan.traffic == Traffic::Divisible
        && (memory.phase == Phase::Progressing || memory.is_paused());
    if !applies || split.canary == memory.weight {
        return None;
    }
    let next_step = plan.next_share(memory.weight);
    let is_ours = split.canary == next_step
        || split.canary < memory.weight
        || (memory.replaces_broken_primary && !primary_takes(seen));
    if is_ours {
        let mut next = memory.clone();
        next.weight = split.canary;
        let next = next.stamped(memory, seen.now);
        let fact = Fact::Advanced(split.canary);
        return Some(
            Decision::because(fact).remember(next).starts_interval().again(later(seen)).into(),
        );
    }
    Some(reset_share(seen, split, memory.weight))
}

/// Resets a share that was not approved.
pub(super) fn reset_share(seen: &Observed, split: Split, to: Percent) -> Step {
    if !primary_takes(seen) {
        return held(seen);
    }
    let fact = Fact::Drifted { seen: split.canary, now: to };
    let back = Action::Shift(Split::canary(to));
    let next = Memory { weight: to, ..seen.memory.clone() };
    let decision = Decision::because(fact).act(back).announcing();
    let decision = if next == seen.memory { decision } else { decision.remember(next) };
    decision.starts_interval().again(later(seen)).into()
}

/// Runs the checks, and goes on if they pass.
fn check(seen: &Observed, target: &Target, split: Split) -> Step {
    let Observed { memory, plan, interval_state, answers, .. } = seen;
    if !interval_state.due && !has_gate(seen, split) {
        // A retry was requested, and there is no gate to retry.
        return Decision::because(Fact::AwaitingInterval)
            .again(Again::At(interval_state.next))
            .into();
    }
    let has_share = split.canary > Percent::ZERO;
    if let Readiness::Waiting(unready) = &target.readiness {
        if has_share && !unready.serving && interval_state.due {
            return failed(seen, Fact::CanaryDown(unready.to_string()));
        }
        if !has_share || !interval_state.due {
            return awaiting_pods(seen, Fact::CanaryNotReady(unready.clone())).into();
        }
    }
    let mut base = memory.clone();
    if is_start(seen) {
        if plan.hooks.pre_rollout {
            let Some(gate) = &answers.pre_rollout else {
                return Step::Ask(Question::Gate(GateKind::PreRollout));
            };
            if let Some(refusal) = gate.refusal() {
                let (hook, why) = (refusal.hook.clone(), refusal.why.clone());
                return failed(seen, Fact::PreRolloutFailed { hook, why });
            }
        }
        base.prepared = true;
    } else if is_measurable(memory, split) {
        let Some(checks) = &answers.checks else {
            return Step::Ask(Question::Checks);
        };
        match &checks.verdict {
            Verdict::Passed => base.no_data_since = None,
            Verdict::Failed(why) => return failed(seen, Fact::CheckFailed(why.clone())),
            Verdict::NoData(why) => return failed(seen, Fact::NoData(why.clone())),
            Verdict::Held(why) => return without_data(seen, why),
        }
    }
    go_on(seen, target, split, base)
}

/// Waits for data, but no longer than the deadline: then a check without data counts like any other. The
/// deadline does not run while a person is waited for.
fn without_data(seen: &Observed, why: &str) -> Step {
    let Observed { memory, plan, now, .. } = seen;
    let is_unapproved = memory.phase == Phase::WaitingPromotion && !blue_green::is_switched(seen);
    let is_up_to_people = memory.is_paused() || is_unapproved;
    // A clock that was put back begins anew, as with other obstacles.
    let since = memory.no_data_since.filter(|since| since <= now && !is_up_to_people);
    if since.is_some_and(|since| now.since(since) >= plan.deadline) {
        return failed(seen, Fact::NoData(why.to_owned()));
    }
    let no_data_since = if is_up_to_people { None } else { since.or(Some(*now)) };
    let next = Memory { no_data_since, ..memory.clone() };
    keep(seen, next, Decision::because(Fact::AwaitingData(why.to_owned())).announcing())
        .starts_interval()
        .into()
}

/// Whether a gate stands before the next step.
fn has_gate(seen: &Observed, split: Split) -> bool {
    if seen.memory.is_paused() {
        return false;
    }
    let is_first = is_start(seen) && seen.plan.hooks.pre_rollout;
    is_first
        || match seen.plan.strategy {
            Strategy::Weighted => weighted::has_gate(seen, split),
            Strategy::AbTesting => ab::has_gate(seen),
            Strategy::BlueGreen => blue_green::has_gate(seen),
        }
}

/// Whether there is anything to measure: a share, copies, or a test that needs neither.
fn is_measurable(memory: &Memory, split: Split) -> bool {
    if memory.is_paused() {
        return split.canary > Percent::ZERO;
    }
    split != Split::PRIMARY || memory.iterations > 0 || memory.phase == Phase::WaitingPromotion
}

/// Checks passed: the next step, if both sides are ready for it.
fn go_on(seen: &Observed, target: &Target, split: Split, base: Memory) -> Step {
    let Observed { memory, plan, .. } = seen;
    let unready = match (&target.readiness, &seen.primary.readiness) {
        (Readiness::Ready, Readiness::Ready) => None,
        (Readiness::Ready, primary) if !memory.replaces_broken_primary => {
            primary.unready().cloned().map(Fact::PrimaryNotReady)
        }
        (Readiness::Ready, _) => None,
        (canary, _) => canary.unready().cloned().map(Fact::CanaryNotReady),
    };
    if let Some(why) = unready {
        return keep(seen, base, awaiting_pods(seen, why)).starts_interval().into();
    }
    if memory.is_paused() {
        let held = Decision::because(Fact::Held(split.canary));
        return keep(seen, base, held).starts_interval().into();
    }
    if let Some(step) = manual::before_traffic(seen, split, &base) {
        return step;
    }
    match plan.strategy {
        Strategy::Weighted => weighted::step(seen, split, base),
        Strategy::AbTesting => ab::step(seen, split, base),
        Strategy::BlueGreen => blue_green::step(seen, split, base),
    }
}

/// Stays at this share, and writes the new counters down.
pub(super) fn keep(seen: &Observed, base: Memory, decision: Decision) -> Decision {
    let decision = if base == seen.memory { decision } else { decision.remember(base) };
    decision.again(later(seen))
}

/// Counts one more failed check. A retry requested by hand does not count.
fn failed(seen: &Observed, fact: Fact) -> Step {
    let decision = Decision::because(fact).announcing().starts_interval();
    if !seen.interval_state.due {
        return decision.again(later(seen)).into();
    }
    let mut next = seen.memory.clone();
    if matches!(decision.why, Fact::CheckFailed(_)) {
        // There was data to judge by.
        next.no_data_since = None;
    }
    next.failed_checks = next.failed_checks.saturating_add(1);
    let is_last = next.failed_checks >= seen.plan.threshold;
    let again = if is_last { Again::Now } else { later(seen) };
    decision.remember(next).again(again).into()
}
