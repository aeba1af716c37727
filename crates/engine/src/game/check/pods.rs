//! Pods: how many may be new, how many may be out of service, and who may be deleted: invariants 28
//! and 30.

use crate::{
    Revision,
    game::{
        Action, Budget, Departure, HookKind, Observed, Pod, PodPhase, PodRef, Purpose,
        ReadinessGate, UpdateWay, WorkloadKind, qualify,
    },
};

use super::Verdict;

pub(super) fn judge(world: &Observed, action: &Action) -> Verdict {
    match action {
        Action::Create(new) => {
            judge_create(world, new.ordinal)?;
            judge_allowance(world, &new.revision, new.ordinal, None)
        }
        Action::UpdateInPlace(change) | Action::HotPatch(change) => {
            let Some(pod) = find(world, &change.pod) else { return Ok(()) };
            judge_allowance(world, &change.revision, pod.ordinal, Some(pod))?;
            if matches!(action, Action::UpdateInPlace(_)) {
                judge_hook(world, pod, Some(&change.revision))?;
                judge_out_of_service(world, pod)?;
            }
            Ok(())
        }
        Action::SetGate(pod, false) => {
            let Some(pod) = find(world, pod) else { return Ok(()) };
            judge_pause(world, pod)?;
            judge_unavailable(world, pod)
        }
        Action::Delete(pod, why) => {
            let Some(pod) = find(world, pod) else { return Ok(()) };
            judge_delete(world, pod, *why)
        }
        Action::StartHook(start) => judge_start(world, &start.purpose),
        _ => Ok(()),
    }
}

fn find<'a>(world: &'a Observed, pod: &PodRef) -> Option<&'a Pod> {
    world.pods.iter().find(|found| found.uid == pod.uid)
}

fn partition(world: &Observed) -> usize {
    let step = world.memory.step.unwrap_or(usize::MAX);
    world.plan.partition_at(step)
}

fn active(world: &Observed) -> impl Iterator<Item = &Pod> {
    world.pods.iter().filter(|pod| pod.is_active())
}

fn serves(world: &Observed, pod: &Pod) -> bool {
    pod.is_update_ready(world.now, world.plan.min_ready)
}

/// There is a revision that old pods stay on.
fn differs(world: &Observed) -> bool {
    let base = world.memory.stable.as_ref().or(world.memory.current.as_ref());
    base.is_some_and(|base| *base != world.update)
}

fn judge_create(world: &Observed, ordinal: Option<usize>) -> Verdict {
    if let Some(number) = ordinal {
        if world.pods.iter().any(|pod| pod.ordinal == Some(number)) {
            return Err((28, format!("pod {number} is made twice")));
        }
        return Ok(());
    }
    let named = |pod: &&Pod| world.plan.pods_to_delete.contains(&pod.name);
    let count = active(world).filter(|pod| !named(pod)).count();
    let most = world.plan.replicas + world.plan.max_surge.rounded_up(world.plan.replicas);
    if count >= most {
        return Err((28, format!("a pod is made although there are {count} of {most}")));
    }
    Ok(())
}

/// 28: pods on the new revision never exceed what the step allows.
fn judge_allowance(
    world: &Observed,
    revision: &Revision,
    ordinal: Option<usize>,
    pod: Option<&Pod>,
) -> Verdict {
    if *revision != world.update || !differs(world) || pod.is_some_and(|pod| pod.is_of(revision)) {
        return Ok(());
    }
    let partition = partition(world);
    if let Some(number) = ordinal {
        if number < partition {
            return Err((28, format!("pod {number} is below the partition of {partition}")));
        }
        return Ok(());
    }
    let named = |pod: &&Pod| world.plan.pods_to_delete.contains(&pod.name);
    let updated = active(world).filter(|pod| pod.is_of(revision) && !named(pod)).count() + 1;
    // A pod that stays takes the place of one that was made on top, which goes in the end.
    let total = active(world).filter(|pod| !named(pod)).count();
    let extra = if pod.is_some() { total.saturating_sub(world.plan.replicas) } else { 0 };
    let allowed = world.plan.replicas - partition.min(world.plan.replicas) + extra;
    if updated > allowed {
        return Err((28, format!("{updated} pods are new, and the step allows {allowed}")));
    }
    Ok(())
}

/// 28: unavailable pods never exceed the limit by our doing.
fn judge_unavailable(world: &Observed, pod: &Pod) -> Verdict {
    if !serves(world, pod) {
        return Ok(());
    }
    let plan = &world.plan;
    if let WorkloadKind::StatefulSet(_) = plan.kind {
        let budget = Budget::of_set(plan.max_unavailable, plan.max_surge, plan.replicas);
        let numbers = partition(world)..plan.replicas;
        let is_out = |number: &usize| {
            let found = world.pods.iter().find(|pod| pod.ordinal == Some(*number));
            !found.is_some_and(|pod| serves(world, pod))
        };
        let out = numbers.filter(is_out).count() + 1;
        return if out > budget.unavailable {
            Err((28, format!("{out} pods are out of service of {}", budget.unavailable)))
        } else {
            Ok(())
        };
    }
    let budget = Budget::of_deployment(plan.max_unavailable, plan.max_surge, plan.replicas);
    let left = active(world).filter(|other| serves(world, other)).count() - 1;
    let least = plan.replicas.saturating_sub(budget.unavailable);
    if left < least {
        return Err((28, format!("only {left} pods are left in service, not {least}")));
    }
    Ok(())
}

/// 29: nothing further is updated in a pause.
fn judge_pause(world: &Observed, pod: &Pod) -> Verdict {
    if world.plan.paused.value || !world.memory.pauses.is_empty() {
        return Err((29, format!("pod {} is updated in a pause", pod.name)));
    }
    Ok(())
}

fn judge_out_of_service(world: &Observed, pod: &Pod) -> Verdict {
    judge_pause(world, pod)?;
    if pod.gate == ReadinessGate::Open {
        return Err((28, format!("pod {} is changed while it serves", pod.name)));
    }
    Ok(())
}

fn judge_delete(world: &Observed, pod: &Pod, why: Departure) -> Verdict {
    if why != Departure::Failed {
        judge_hook(world, pod, None)?;
    }
    match why {
        Departure::Failed if pod.phase != PodPhase::Failed => {
            Err((30, format!("pod {} did not fail", pod.name)))
        }
        Departure::Named if !world.plan.pods_to_delete.contains(&pod.name) => {
            Err((30, format!("nobody named pod {}", pod.name)))
        }
        Departure::Surplus => judge_surplus(world, pod),
        Departure::Replaced => judge_replaced(world, pod),
        Departure::Failed | Departure::Named => Ok(()),
    }
}

fn judge_surplus(world: &Observed, pod: &Pod) -> Verdict {
    let replicas = world.plan.replicas;
    let is_needed = if let Some(number) = pod.ordinal {
        number < replicas
    } else {
        let named = |pod: &&Pod| world.plan.pods_to_delete.contains(&pod.name);
        active(world).filter(|pod| !named(pod)).count() <= replicas
    };
    if is_needed { Err((11, format!("pod {} is not too many", pod.name))) } else { Ok(()) }
}

fn judge_replaced(world: &Observed, pod: &Pod) -> Verdict {
    judge_pause(world, pod)?;
    judge_unavailable(world, pod)?;
    if pod.is_of(&world.update) {
        return Err((30, format!("pod {} is of the new revision already", pod.name)));
    }
    if world.plan.way != UpdateWay::InPlace {
        return Ok(());
    }
    let template = |name: Option<&Revision>| {
        let known = world.revisions.iter().find(|known| Some(&known.name) == name)?;
        Some(&known.template)
    };
    let could = template(pod.revision.as_ref())
        .zip(template(Some(&world.update)))
        .is_some_and(|(old, new)| qualify(old, new).is_ok());
    if could || !world.plan.falls_back {
        return Err((30, format!("pod {} is deleted instead of updated in place", pod.name)));
    }
    Ok(())
}

/// 30: the hook before an operation is over.
fn judge_hook(world: &Observed, pod: &Pod, target: Option<&Revision>) -> Verdict {
    let hooks = &world.plan.hooks;
    let kind = match target {
        Some(_) if hooks.pre_in_place.call.is_some() => HookKind::PreInPlace,
        Some(_) | None => HookKind::PreDelete,
    };
    if hooks.of(kind).call.is_none() || pod.phase != PodPhase::Running {
        return Ok(());
    }
    let has_passed = world.runs.iter().any(|run| match &run.purpose {
        Purpose::Pod { kind: of, uid, target: to, .. } => {
            *of == kind && *uid == pod.uid && to.as_ref() == target && run.has_passed()
        }
        Purpose::Step { .. } => false,
    });
    if has_passed {
        return Ok(());
    }
    Err((30, format!("the {} hook of pod {} is not over", kind.prefix(), pod.name)))
}

/// 22: one run for one purpose.
fn judge_start(world: &Observed, purpose: &Purpose) -> Verdict {
    let is_same = |run: &&crate::game::HookRun| match (&run.purpose, purpose) {
        (
            Purpose::Pod { kind, uid, target, .. },
            Purpose::Pod { kind: of, uid: pod, target: to, .. },
        ) => (kind, uid, target) == (of, pod, to),
        (Purpose::Step { .. }, Purpose::Step { .. }) => {
            run.purpose == *purpose && !run.is_over() && !run.is_terminated
        }
        _ => false,
    };
    match world.runs.iter().find(is_same) {
        Some(run) => Err((22, format!("{} runs for this already", run.name))),
        None => Ok(()),
    }
}
