//! The release: when a step is over, what a pause holds, and what becomes stable: invariants 6 and
//! 29.

use std::time::Duration;

use tidegate_engine::game::{
    Action, CanaryStep, Command, HookPhase, Memory, Observed, PauseReason, Pod, Purpose, ResumeBy,
    WorkloadKind,
};

use super::{Verdict, truth::Truth};

pub(super) fn judge(truth: &Truth<'_>, action: &Action) -> Verdict {
    let world = truth.world;
    match action {
        Action::Remember(next) => {
            judge_order(world, next)?;
            judge_pauses(world, next)?;
            judge_stable(truth, next)?;
            judge_step(truth, next)
        }
        Action::SetPaused(false) if is_held_by_user(world) => {
            Err((29, "the pause of a person is taken back".to_owned()))
        }
        Action::Create(_)
        | Action::Delete(..)
        | Action::ForceDelete(_)
        | Action::Mark(_)
        | Action::Unmark(_)
        | Action::SetGate(..)
        | Action::UpdateInPlace(_)
        | Action::ApplyGrace(_)
        | Action::DropGrace(_)
        | Action::HotPatch(_)
        | Action::ClearPostHook(_)
        | Action::Identify(_)
        | Action::StartHook(_)
        | Action::TerminateHook(_)
        | Action::DeleteHook(_)
        | Action::SetPaused(_)
        | Action::ResumeAndClear(_)
        | Action::ClearCommand
        | Action::RestoreTemplate { .. }
        | Action::ResetRetry(_)
        | Action::PrunePodsToDelete(_)
        | Action::DropRevisions(_)
        | Action::Announce(_) => Ok(()),
    }
}

fn is_held_by_user(world: &Observed) -> bool {
    let paused = world.plan.paused;
    let is_set = paused.value && !paused.is_ours;
    is_set || (world.memory.pause(PauseReason::User).is_some() && !is_resumed(world))
}

/// A pause in the status before `paused` in the spec would look like a resume by a person.
fn judge_order(world: &Observed, next: &Memory) -> Verdict {
    if !next.pauses.is_empty() && !world.plan.paused.value {
        return Err((29, "a pause is written down before it is set".to_owned()));
    }
    Ok(())
}

fn is_asked(world: &Observed, verbs: &[Command]) -> bool {
    world.plan.asked.as_ref().is_some_and(|asked| verbs.contains(&asked.command))
}

fn is_same_release(world: &Observed, next: &Memory) -> bool {
    let before = &world.memory;
    before.update == next.update && before.steps_hash == next.steps_hash && before.stable.is_some()
}

/// 29: a pause ends on request or when it is over.
fn judge_pauses(world: &Observed, next: &Memory) -> Verdict {
    for pause in &world.memory.pauses {
        if next.pause(pause.reason).is_some() || !is_same_release(world, next) {
            continue;
        }
        let may_end = match pause.reason {
            PauseReason::Step => is_resumed(world) || is_over(world),
            PauseReason::User | PauseReason::Hook => is_resumed(world),
        };
        if !may_end && !is_asked(world, &[Command::SkipAll, Command::RetryHook]) {
            return Err((29, format!("{} ends by itself", pause.reason.as_str())));
        }
    }
    Ok(())
}

fn is_resumed(world: &Observed) -> bool {
    let by = world.plan.canary.as_ref().map_or(ResumeBy::Field, |canary| canary.resume_by);
    let paused = world.plan.paused;
    !paused.value && (by == ResumeBy::Field || paused.is_ours)
}

/// The time of a timed pause is over. In front of the last write `paused` may be cleared already.
fn is_over(world: &Observed) -> bool {
    let Some(time) = timed(world) else { return false };
    let pause = world.memory.pause(PauseReason::Step);
    pause.is_some_and(|pause| world.now > pause.since.after(time))
}

fn timed(world: &Observed) -> Option<Duration> {
    match world.plan.steps().get(world.memory.step?)? {
        CanaryStep::Pause(time) => *time,
        CanaryStep::Partition(_) | CanaryStep::Hook(_) => None,
    }
}

/// 6: a revision that becomes stable runs everywhere.
fn judge_stable(truth: &Truth<'_>, next: &Memory) -> Verdict {
    let world = truth.world;
    let before = &world.memory.stable;
    let is_new = before.is_some() && next.stable != *before;
    if is_new && truth.done_from(0) < world.plan.replicas {
        return Err((6, "a revision is stable before all pods run it".to_owned()));
    }
    // Numbers beyond the replicas are no replicas; pods without numbers are all alike.
    let is_deployment = world.plan.kind == WorkloadKind::Deployment;
    let is_other = |pod: &Pod| pod.revision.as_ref() != Some(&world.update);
    if is_new && is_deployment && truth.alive().any(is_other) {
        return Err((6, "a revision is stable while a pod runs another".to_owned()));
    }
    Ok(())
}

/// 29: a step ends when its condition holds.
fn judge_step(truth: &Truth<'_>, next: &Memory) -> Verdict {
    let world = truth.world;
    let (Some(before), Some(after)) = (world.memory.step, next.step) else { return Ok(()) };
    if after <= before || !is_same_release(world, next) || is_asked(world, &[Command::SkipAll]) {
        return Ok(());
    }
    if after > before + 1 {
        return Err((29, format!("steps {before} to {after} are taken at once")));
    }
    if is_held_by_user(world) {
        return Err((29, "a step ends while a person holds the release".to_owned()));
    }
    let partition = truth.partition_at(before);
    let is_reached = truth.done_from(partition) >= world.plan.replicas - partition;
    let is_fine = match world.plan.steps().get(before) {
        None => false,
        Some(CanaryStep::Partition(_)) => is_reached,
        Some(CanaryStep::Pause(_)) => {
            let pause = world.memory.pause(PauseReason::Step);
            pause.is_some() && (is_resumed(world) || is_over(world))
        }
        Some(CanaryStep::Hook(_)) => {
            let was_stopped = world.memory.pause(PauseReason::Hook).is_some();
            (was_stopped && is_resumed(world)) || (has_passed(world, before) && is_reached)
        }
    };
    if is_fine { Ok(()) } else { Err((29, format!("step {before} ends before it is over"))) }
}

fn has_passed(world: &Observed, step: usize) -> bool {
    let name = world.memory.hook_run.as_ref();
    world.runs.iter().any(|run| {
        let is_its = matches!(&run.purpose, Purpose::Step { revision, index }
            if *revision == world.update && *index == step);
        is_its
            && Some(&run.name) == name
            && run.phase == Some(HookPhase::Successful)
            && !run.is_terminated
    })
}
