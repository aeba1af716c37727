//! The decision about a game workload: one observation in, one decision out.

use std::collections::BTreeSet;

use crate::{Again, Moment, Revision};

use super::{
    Action, Command, Condition, ConditionKind, Decision, Fact, Memory, Observed, WorkloadKind,
    WorkloadPhase, commands, deployment,
    derived::Derived,
    pod_actions::PodActions,
    pod_hooks, stateful,
    steps::{self, Progress, StepGate},
};

/// Decides the next step. The caller carries the actions out in order and looks again.
///
/// Pods are changed by the step that is written down, and only then is the next step written: a crash in
/// between repeats actions that change nothing.
pub fn decide(seen: &Observed) -> Decision {
    if seen.is_deleted {
        return Decision::because(Fact::BeingDeleted);
    }
    if !seen.problems.is_empty() {
        return refuse(seen);
    }
    let mut derived = Derived::of(seen);
    let is_reset = steps::is_reset(seen);
    let gate = steps::gate(&derived);
    let aborts = commands::aborts(&derived).filter(|_| !is_reset);
    // The position of the release is written down before another pod is chosen. That write may be refused:
    // updates in progress are finished all the same, and lost pods are created again.
    let has_failed = matches!(gate, StepGate::Failed { .. });
    let is_begun = steps::begins_in_mid_release(&derived);
    derived.is_halted =
        is_reset || is_begun || has_failed || aborts.is_some() || commands::is_pausing(&derived);
    let mut pod_actions = match seen.plan.kind {
        WorkloadKind::Deployment => deployment::pod_actions(&derived),
        WorkloadKind::StatefulSet(management) => stateful::pod_actions(&derived, management),
    };
    for refusal in &seen.refusals {
        pod_actions.add_condition(refusal.kind, &Fact::WriteRefused(refusal.clone()));
    }
    pod_actions.actions.extend(steps::clean_up(&derived));
    // A command that cannot be carried out must not stop the care of pods.
    if !is_reset && let Some(mut decision) = commands::apply(&derived) {
        pod_actions.actions.append(&mut decision.actions);
        decision.actions = pod_actions.actions;
        return decision;
    }
    derived.leave(&pod_actions.actions);
    let progress = steps::advance(&derived, &gate);
    conclude(&derived, &gate, aborts, progress, pod_actions)
}

/// The memory of a workload that must not be acted upon, for any reason. The condition goes with the first
/// look that finds nothing wrong.
pub fn refused(memory: &Memory, why: &str, now: Moment) -> Memory {
    let kind = ConditionKind::FailedUpdate;
    let same = memory.conditions.iter().find(|known| known.kind == kind && known.holds);
    let told = Condition {
        kind,
        holds: true,
        reason: Fact::Refused(Vec::new()).reason().to_owned(),
        message: why.to_owned(),
        since: same.map_or(steps::whole_seconds(now), |same| same.since),
    };
    let mut conditions = memory.conditions.clone();
    conditions.retain(|known| known.kind != kind);
    conditions.push(told);
    conditions.sort_by_key(|condition| condition.kind);
    Memory {
        conditions,
        phase: Some(WorkloadPhase::Degraded),
        message: why.to_owned(),
        ..memory.clone()
    }
}

/// The decision that does nothing but give a reason.
fn refuse(seen: &Observed) -> Decision {
    let fact = Fact::Refused(seen.problems.clone());
    let decision = Decision::because(fact.clone());
    let next = Memory {
        generation: seen.plan.generation,
        ..refused(&seen.memory, &fact.text(), seen.now)
    };
    if next == seen.memory {
        return decision;
    }
    let is_new = next.message != seen.memory.message;
    let decision = decision.act(Action::Remember(Box::new(next)));
    if is_new { decision.announce(fact) } else { decision }
}

/// Puts together the actions on pods, on the spec and on the status, in this order.
///
/// The template is restored after all of that: the write may be refused, and nothing must wait for it.
fn conclude(
    derived: &Derived<'_>,
    gate: &StepGate,
    aborts: Option<&Revision>,
    progress: Progress,
    pod_actions: PodActions,
) -> Decision {
    let seen = derived.seen;
    let is_working = !pod_actions.actions.is_empty();
    let states = pod_hooks::states(seen, &pod_actions.actions);
    let why = reason(derived, progress.why.clone(), pod_actions.why.clone());
    let mut decision = Decision { why, actions: pod_actions.actions, again: Again::OnChange };
    let mut next = progress.memory;
    next.pod_hooks = states;
    let mut conditions_found = pod_actions.conditions_found;
    if let Some(why) = progress.blocked {
        // One is shown of each kind: the others would be new in every look.
        conditions_found.retain(|(kind, _)| *kind != ConditionKind::HookBlocked);
        conditions_found.insert(0, (ConditionKind::HookBlocked, Fact::HookBlocked(why)));
    }
    next.message = decision.why.text();
    next.conditions = conditions(derived, &next, &conditions_found);
    next.phase = Some(phase(&next.conditions));
    let wants_pause = !next.pauses.is_empty();
    if seen.plan.paused.value != wants_pause {
        decision = decision.act(Action::SetPaused(wants_pause));
    }
    if next != seen.memory {
        decision = decision.act(Action::Remember(Box::new(next)));
    }
    match gate {
        StepGate::Begins(start, _) => decision = decision.act(Action::StartHook(start.clone())),
        StepGate::Failed { run, is_overdue: true, .. } => {
            decision = decision.act(Action::TerminateHook(run.clone()));
        }
        StepGate::None
        | StepGate::NotYet
        | StepGate::Runs(..)
        | StepGate::Passed
        | StepGate::Failed { .. }
        | StepGate::Blocked(..) => {}
    }
    let failed = commands::rollback_revision(derived).filter(|_| progress.rolls_back);
    if let Some(stable) = aborts.or(failed) {
        let (to, from) = (stable.clone(), seen.update.clone());
        decision = decision.act(Action::RestoreTemplate { to: to.clone(), from });
        decision = decision.announce(match aborts {
            Some(_) => Fact::Obeyed(Command::Abort),
            None => Fact::RollsBack(to),
        });
    }
    let is_new =
        |fact: &Fact| !seen.memory.conditions.iter().any(|known| known.message == fact.text());
    // A hook that cannot be run is announced when that begins, and a refused write when it is tried, by the
    // part that found it.
    let is_told = |fact: &Fact| matches!(fact, Fact::HookBlocked(_) | Fact::WriteRefused(_));
    let conditions_found = conditions_found.into_iter().map(|(_, fact)| fact);
    let conditions_found = conditions_found.filter(|fact| !is_told(fact) && is_new(fact));
    for fact in progress.facts.into_iter().chain(conditions_found) {
        decision = decision.announce(fact);
    }
    let gone = gone(seen);
    if !gone.is_empty() {
        decision = decision.act(Action::PrunePodsToDelete(gone));
    }
    if !is_working && !steps::is_reset(seen) {
        let unused = unused(derived);
        if !unused.is_empty() {
            decision = decision.act(Action::DropRevisions(unused));
        }
    }
    decision.again = first(progress.again, pod_actions.again);
    decision
}

fn first(one: Again, other: Again) -> Again {
    match (one, other) {
        (Again::Now, _) | (_, Again::Now) => Again::Now,
        (Again::At(one), Again::At(other)) => Again::At(Moment(one.0.min(other.0))),
        (Again::At(at), Again::OnChange) | (Again::OnChange, Again::At(at)) => Again::At(at),
        (Again::OnChange, Again::OnChange) => Again::OnChange,
    }
}

/// The reason of the decision: why the release stands where it does, or which pods are changed so that it
/// goes on.
fn reason(derived: &Derived<'_>, release: Option<Fact>, pods: Option<Fact>) -> Fact {
    match (release, pods) {
        (Some(Fact::AwaitingPods { .. }) | None, Some(pods)) => pods,
        (Some(release), _) => release,
        (None, None) => idle(derived),
    }
}

/// The reason for waiting if nothing is to be done.
fn idle(derived: &Derived<'_>) -> Fact {
    let wanted = derived.counts.expected_updated;
    let available = derived.in_step;
    let kept = derived.kept_by_hand();
    if kept > 0 {
        return Fact::OldPodsKept(kept);
    }
    if available < wanted {
        return Fact::AwaitingPods { available, wanted };
    }
    Fact::AtRest
}

fn conditions(
    derived: &Derived<'_>,
    next: &Memory,
    conditions_found: &[(ConditionKind, Fact)],
) -> Vec<Condition> {
    let Observed { plan, memory, now, .. } = derived.seen;
    let about = |kind: ConditionKind, holds: bool, reason: &str, message: &str| {
        let same = memory.conditions.iter().find(|old| old.kind == kind && old.holds == holds);
        Condition {
            kind,
            holds,
            reason: reason.to_owned(),
            message: message.to_owned(),
            since: same.map_or(steps::whole_seconds(*now), |same| same.since),
        }
    };
    let kept = derived.kept_by_hand();
    let is_progressing =
        !derived.is_complete_release() && derived.partition < plan.replicas && kept == 0;
    let (reason, message) = match (is_progressing, derived.is_target_reached()) {
        (false, _) if kept > 0 => {
            ("OldPodsKept", "Pods run an older revision until they are deleted.")
        }
        (false, _) => ("Complete", "All pods that the steps release run the template."),
        // The reason for waiting: a pod, a hook, a person.
        (true, true) => ("StepReached", next.message.as_str()),
        (true, false) => ("Updating", next.message.as_str()),
    };
    let progress = about(ConditionKind::Progressing, is_progressing, reason, message);
    let enough = derived.counts.available >= plan.replicas;
    let (reason, message) = if enough {
        ("EnoughPods", "All pods are available.")
    } else {
        ("TooFewPods", "Fewer pods are available than spec.replicas asks for.")
    };
    let mut all = vec![progress, about(ConditionKind::Available, enough, reason, message)];
    let paused = match next.pauses.first() {
        Some(pause) => {
            let fact = Fact::Paused(pause.reason);
            about(ConditionKind::Paused, true, pause.reason.as_str(), &fact.text())
        }
        None => about(ConditionKind::Paused, false, "NotPaused", ""),
    };
    all.push(paused);
    for (kind, fact) in conditions_found {
        if !all.iter().any(|known| known.kind == *kind) {
            all.push(about(*kind, true, fact.reason(), &fact.text()));
        }
    }
    all.sort_by_key(|condition| condition.kind);
    all
}

/// The state of the workload in one word: failures count most, then pauses.
fn phase(conditions: &[Condition]) -> WorkloadPhase {
    let holds = |kind| conditions.iter().any(|known| known.kind == kind && known.holds);
    let is_wrong =
        [ConditionKind::FailedScale, ConditionKind::FailedUpdate, ConditionKind::HookBlocked];
    if is_wrong.into_iter().any(holds) {
        WorkloadPhase::Degraded
    } else if holds(ConditionKind::Paused) {
        WorkloadPhase::Paused
    } else if holds(ConditionKind::Progressing) || !holds(ConditionKind::Available) {
        WorkloadPhase::Progressing
    } else {
        WorkloadPhase::Healthy
    }
}

/// Names of pods to delete that no pod has any more.
fn gone(seen: &Observed) -> Vec<String> {
    let is_gone = |name: &&String| !seen.pods.iter().any(|pod| pod.name == **name);
    seen.plan.pods_to_delete.iter().filter(is_gone).cloned().collect()
}

/// Revisions that no pod carries and no release rolls back to, beyond those that are kept.
fn unused(derived: &Derived<'_>) -> Vec<Revision> {
    let Observed { revisions, memory, update, pods, plan, .. } = derived.seen;
    let mut live: BTreeSet<&Revision> = BTreeSet::from([update, &derived.base]);
    live.extend(&memory.stable);
    live.extend(pods.iter().filter_map(|pod| pod.revision.as_ref()));
    live.extend(pods.iter().filter_map(|pod| pod.grace.as_ref()?.from.as_ref()));
    let mut spare: Vec<_> = revisions.iter().filter(|known| !live.contains(&known.name)).collect();
    spare.sort_by_key(|known| known.number);
    let surplus = spare.len().saturating_sub(plan.history_limit);
    spare.iter().take(surplus).map(|known| known.name.clone()).collect()
}
