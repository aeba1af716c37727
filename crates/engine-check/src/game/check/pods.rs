//! Pods: how many may be new, how many may be out of service, and which may be deleted: invariants 28 and 30.

use tidegate_engine::{
    Revision,
    game::{
        Action, Departure, HookKind, HookPhase, Observed, Pod, PodPhase, PodRef, Purpose,
        ReadinessGate, UpdateWay, WorkloadKind,
    },
};

use super::{Verdict, truth::Truth};

pub(super) fn judge(truth: &Truth<'_>, action: &Action) -> Verdict {
    match action {
        Action::Create(new) => {
            judge_create(truth, new.ordinal)?;
            judge_allowance(truth, &new.revision, new.ordinal, None)
        }
        Action::UpdateInPlace(change) | Action::HotPatch(change) => {
            let Some(pod) = find(truth, &change.pod) else { return Ok(()) };
            judge_allowance(truth, &change.revision, pod.ordinal, Some(pod))?;
            if matches!(action, Action::UpdateInPlace(_)) {
                judge_hook(truth, pod, Some(&change.revision))?;
                judge_out_of_service(truth, pod)?;
            }
            Ok(())
        }
        Action::SetGate(pod, false) => {
            let Some(pod) = find(truth, pod) else { return Ok(()) };
            judge_pause(truth, pod)?;
            judge_unavailable(truth, pod)
        }
        Action::Delete(pod, why) => {
            let Some(pod) = find(truth, pod) else { return Ok(()) };
            judge_delete(truth, pod, *why)
        }
        Action::StartHook(start) => judge_start(truth, &start.purpose),
        Action::ForceDelete(_)
        | Action::Mark(_)
        | Action::Unmark(_)
        | Action::SetGate(..)
        | Action::ApplyGrace(_)
        | Action::DropGrace(_)
        | Action::ClearPostHook(_)
        | Action::Identify(_)
        | Action::TerminateHook(_)
        | Action::DeleteHook(_)
        | Action::SetPaused(_)
        | Action::ResumeAndClear(_)
        | Action::ClearCommand
        | Action::RestoreTemplate { .. }
        | Action::ResetRetry(_)
        | Action::PrunePodsToDelete(_)
        | Action::Remember(_)
        | Action::DropRevisions(_)
        | Action::Announce(_) => Ok(()),
    }
}

fn find<'a>(truth: &Truth<'a>, pod: &PodRef) -> Option<&'a Pod> {
    truth.world.pods.iter().find(|found| found.uid == pod.uid)
}

fn is_of(pod: &Pod, revision: &Revision) -> bool {
    pod.revision.as_ref() == Some(revision)
}

/// There is a revision that old pods stay on.
fn differs(truth: &Truth<'_>) -> bool {
    let memory = &truth.world.memory;
    let base = memory.stable.as_ref().or(memory.current.as_ref());
    base.is_some_and(|base| *base != truth.world.update)
}

fn judge_create(truth: &Truth<'_>, ordinal: Option<usize>) -> Verdict {
    if let Some(number) = ordinal {
        if truth.world.pods.iter().any(|pod| pod.ordinal == Some(number)) {
            return Err((28, format!("pod {number} is made twice")));
        }
        return Ok(());
    }
    let count = truth.kept().count();
    let most = truth.world.plan.replicas + truth.on_top();
    if count >= most {
        return Err((28, format!("a pod is made although there are {count} of {most}")));
    }
    Ok(())
}

/// 28: pods on the new revision never exceed what the step allows.
fn judge_allowance(
    truth: &Truth<'_>,
    revision: &Revision,
    ordinal: Option<usize>,
    pod: Option<&Pod>,
) -> Verdict {
    let replicas = truth.world.plan.replicas;
    let is_new = pod.is_none_or(|pod| !is_of(pod, revision));
    if *revision != truth.world.update || !differs(truth) || !is_new {
        return Ok(());
    }
    let partition = truth.partition();
    if let Some(number) = ordinal {
        if number < partition {
            return Err((28, format!("pod {number} is below the partition of {partition}")));
        }
        return Ok(());
    }
    let updated = truth.kept().filter(|pod| is_of(pod, revision)).count() + 1;
    // A pod that stays takes the place of one that was made on top, which is deleted in the end.
    let total = truth.kept().count();
    let extra = if pod.is_some() { total.saturating_sub(replicas) } else { 0 };
    let allowed = replicas - partition + extra;
    if updated > allowed {
        return Err((28, format!("{updated} pods are new, and the step allows {allowed}")));
    }
    Ok(())
}

/// 28: unavailable pods never exceed the limit by our doing.
fn judge_unavailable(truth: &Truth<'_>, pod: &Pod) -> Verdict {
    if !truth.serves(pod) {
        return Ok(());
    }
    let most = truth.may_be_out();
    if let WorkloadKind::StatefulSet(_) = truth.world.plan.kind {
        let out = truth.out_from(truth.partition()) + 1;
        return if out > most {
            Err((28, format!("{out} pods are out of service of {most}")))
        } else {
            Ok(())
        };
    }
    let left = truth.alive().filter(|other| truth.serves(other)).count() - 1;
    let least = truth.world.plan.replicas.saturating_sub(most);
    if left < least {
        return Err((28, format!("only {left} pods are left in service, not {least}")));
    }
    Ok(())
}

fn is_paused(truth: &Truth<'_>) -> bool {
    truth.world.plan.paused.value || !truth.world.memory.pauses.is_empty()
}

/// 29: nothing further is updated in a pause.
fn judge_pause(truth: &Truth<'_>, pod: &Pod) -> Verdict {
    if is_paused(truth) {
        return Err((29, format!("pod {} is updated in a pause", pod.name)));
    }
    Ok(())
}

fn judge_out_of_service(truth: &Truth<'_>, pod: &Pod) -> Verdict {
    judge_pause(truth, pod)?;
    match pod.gate {
        ReadinessGate::Open => Err((28, format!("pod {} is changed while it serves", pod.name))),
        // Nothing took it out of service before: the change does.
        ReadinessGate::Absent => judge_unavailable(truth, pod),
        ReadinessGate::Unset | ReadinessGate::Closed => Ok(()),
    }
}

fn judge_delete(truth: &Truth<'_>, pod: &Pod, why: Departure) -> Verdict {
    if why != Departure::Failed {
        judge_hook(truth, pod, None)?;
    }
    match why {
        Departure::Failed if !matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded) => {
            Err((30, format!("pod {} did not end", pod.name)))
        }
        Departure::Named if !truth.world.plan.pods_to_delete.contains(&pod.name) => {
            Err((30, format!("nobody named pod {}", pod.name)))
        }
        Departure::Surplus => judge_surplus(truth, pod),
        Departure::Replaced => judge_replaced(truth, pod),
        Departure::Failed | Departure::Named => Ok(()),
    }
}

fn judge_surplus(truth: &Truth<'_>, pod: &Pod) -> Verdict {
    let Observed { plan, update, .. } = truth.world;
    if let Some(number) = pod.ordinal {
        return if number < plan.replicas {
            Err((11, format!("pod {} is not too many", pod.name)))
        } else {
            Ok(())
        };
    }
    let total = truth.kept().count();
    if total <= plan.replicas {
        return Err((11, format!("pod {} is not too many", pod.name)));
    }
    // A pause ends a surge, but deletes no serving pod instead of one that does not serve.
    let serving = truth.kept().filter(|other| truth.serves(other)).count();
    let idle = truth.kept().filter(|other| is_of(other, update) && !truth.serves(other)).count();
    let is_missed = truth.serves(pod) && serving <= plan.replicas;
    let more = total - 1 - plan.replicas;
    if is_paused(truth) && is_missed && idle > more {
        return Err((11, format!("pod {} serves, and goes for one that does not", pod.name)));
    }
    // A scale-down must not interrupt more than may be out, where others do not serve anyway. Those that the
    // step keeps are kept, well or not.
    let least = plan.replicas.saturating_sub(truth.may_be_out());
    let old = truth.kept().filter(|other| !is_of(other, update));
    let (well, unwell): (Vec<&Pod>, Vec<&Pod>) = old.partition(|other| truth.serves(other));
    // A template that is new begins with the first step, also before that is written down.
    let is_new = truth.world.memory.update.as_ref() != Some(update);
    let first = if is_new { truth.partition_at(0) } else { 0 };
    let kept = if differs(truth) { truth.partition().max(first) } else { 0 };
    let spare = unwell.len().min((well.len() + unwell.len()).saturating_sub(kept));
    if truth.serves(pod) && serving <= least && idle + spare > more {
        return Err((28, format!("pod {} serves, and too few are left that do", pod.name)));
    }
    Ok(())
}

fn judge_replaced(truth: &Truth<'_>, pod: &Pod) -> Verdict {
    judge_pause(truth, pod)?;
    judge_unavailable(truth, pod)?;
    let Observed { plan, update, .. } = truth.world;
    if is_of(pod, update) {
        return Err((30, format!("pod {} is of the new revision already", pod.name)));
    }
    if plan.way != UpdateWay::InPlace {
        return Ok(());
    }
    if truth.differ_in_images(pod.revision.as_ref()) || !plan.falls_back {
        return Err((30, format!("pod {} is deleted instead of updated in place", pod.name)));
    }
    Ok(())
}

/// 30: the hook before an operation is over.
fn judge_hook(truth: &Truth<'_>, pod: &Pod, target: Option<&Revision>) -> Verdict {
    let hooks = &truth.world.plan.hooks;
    let kind = match target {
        Some(_) if hooks.pre_in_place.call.is_some() => HookKind::PreInPlace,
        Some(_) | None => HookKind::PreDelete,
    };
    if hooks.of(kind).call.is_none() || pod.phase != PodPhase::Running {
        return Ok(());
    }
    let has_passed = truth.world.runs.iter().any(|run| match &run.purpose {
        Purpose::Pod { kind: of, uid, target: to, .. } => {
            *of == kind
                && *uid == pod.uid
                && to.as_ref() == target
                && run.phase == Some(HookPhase::Successful)
                && !run.is_terminated
        }
        Purpose::Step { .. } => false,
    });
    if has_passed {
        return Ok(());
    }
    Err((30, format!("the {} hook of pod {} is not over", kind.prefix(), pod.name)))
}

/// 22: one run for one purpose.
fn judge_start(truth: &Truth<'_>, purpose: &Purpose) -> Verdict {
    let is_same = |run: &&tidegate_engine::game::HookRun| match (&run.purpose, purpose) {
        (
            Purpose::Pod { kind, uid, target, .. },
            Purpose::Pod { kind: of, uid: pod, target: to, .. },
        ) => (kind, uid, target) == (of, pod, to),
        (Purpose::Step { .. }, Purpose::Step { .. }) => {
            run.purpose == *purpose && !run.is_over() && !run.is_terminated
        }
        _ => false,
    };
    match truth.world.runs.iter().find(is_same) {
        Some(run) => Err((22, format!("{} runs for this already", run.name))),
        None => Ok(()),
    }
}
