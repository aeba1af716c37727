//! The steps of a release: the current step, its end, and its pauses.
//!
//! ```text
//! template or steps changed ──> step 0, or past the last if the template is the stable one
//! partition   ends when as many pods as it lets are updated and available
//! pause       begins when they are; ends with its time, or when a person resumes it
//! hook        begins when they are; ends when it passes, or when a person goes on after a pause
//! past the last step all pods are updated; when they are, the revision is the stable one
//! ```
//!
//! One step a look. The pause in the status is the truth about a pause; `paused` in the spec is how
//! people see it and end it.

use std::{cmp::Reverse, time::Duration};

use crate::{Again, Moment};

use super::{
    Action, CanaryStep, Fact, HookRun, HookStart, Memory, Observed, Pause, PauseReason, Purpose,
    ResumeBy, StepHook,
    arguments::{self, Merged},
    commands,
    derived::{Derived, sooner},
    run_names, spec_warnings,
};

/// How long a hook that cannot be run is waited for.
const BLOCKED_MAX: Duration = Duration::from_mins(10);

/// Runs of earlier steps that are kept, of those that passed and of those that did not.
const RUNS_KEPT: usize = 5;

/// The state of the hook of the current step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StepGate {
    /// The step is no hook, or is held.
    None,
    /// Not enough pods for it yet.
    NotYet,
    /// The run begins.
    Begins(Box<HookStart>, Vec<String>),
    /// The run is in progress, until then at the latest.
    Runs(String, Option<Moment>),
    /// It passed.
    Passed,
    /// It did not pass; a run that took too long is to end.
    Failed { why: Fact, run: String, is_overdue: bool, rolls_back: bool },
    /// It cannot be run, since then.
    Blocked(String, Moment),
}

/// The state of the release after this look.
pub(super) struct Progress {
    pub(super) memory: Memory,
    pub(super) why: Option<Fact>,
    pub(super) facts: Vec<Fact>,
    pub(super) again: Again,
    /// The template is to be restored.
    pub(super) rolls_back: bool,
    /// Why the hook of the step cannot be run.
    pub(super) blocked: Option<String>,
}

/// Times in the status have whole seconds.
pub(super) fn whole_seconds(now: Moment) -> Moment {
    Moment(now.0.div_euclid(1_000).saturating_mul(1_000))
}

/// The state of the hook of the current step.
pub(super) fn gate(derived: &Derived<'_>) -> StepGate {
    let Observed { plan, memory, .. } = derived.seen;
    let Some(CanaryStep::Hook(hook)) = plan.steps().get(derived.step) else {
        return StepGate::None;
    };
    let is_held = memory.is_paused_by_us() || derived.is_held_by_user();
    if memory.stable.is_none() || is_held || is_reset(derived.seen) {
        return StepGate::None;
    }
    let Some(name) = &memory.hook_run else {
        if !derived.is_target_reached() {
            return StepGate::NotYet;
        }
        return begin(derived, hook, None);
    };
    let Some(run) = derived.seen.runs.iter().find(|run| run.name == *name) else {
        // Another writer may have come first.
        let is_free = !derived.seen.taken.contains(name);
        return begin(derived, hook, Some(name).filter(|_| is_free));
    };
    let rolls_back = hook.rolls_back;
    let failed = |phase, is_overdue| StepGate::Failed {
        why: Fact::HookFailed { run: name.clone(), phase, is_terminated: run.is_terminated },
        run: name.clone(),
        is_overdue,
        rolls_back,
    };
    let deadline = hook.timeout.map(|timeout| run.created.after(timeout));
    match run.phase {
        Some(_) if run.has_passed() => StepGate::Passed,
        Some(phase) if phase.is_final() => failed(Some(phase), false),
        // A run that a person ended failed, whichever phase it had.
        Some(_) | None if run.is_terminated => failed(run.phase, false),
        Some(_) | None if deadline.is_some_and(|at| derived.seen.now >= at) => failed(None, true),
        Some(_) | None => StepGate::Runs(name.clone(), deadline),
    }
}

/// The name is written down before the run is made: a run that is found is always our own.
fn begin(derived: &Derived<'_>, hook: &StepHook, name: Option<&String>) -> StepGate {
    let seen = derived.seen;
    let template = &hook.call.template;
    let merged = match seen.templates.get(template) {
        None => Err(format!("there is no hook template {template}")),
        Some(known) => arguments::merge(&known.declared, &hook.call.arguments)
            .map_err(|error| error.to_string()),
    };
    match merged {
        Err(why) => {
            let since = seen.memory.blocked_since.unwrap_or(whole_seconds(seen.now));
            StepGate::Blocked(why, since)
        }
        Ok(Merged { arguments, dropped }) => {
            let free = || {
                run_names::of_step(&seen.update, derived.step, template, |name| seen.is_taken(name))
            };
            let start = HookStart {
                name: name.cloned().unwrap_or_else(free),
                purpose: Purpose::Step { revision: seen.update.clone(), index: derived.step },
                template: template.clone(),
                arguments,
            };
            StepGate::Begins(Box::new(start), dropped)
        }
    }
}

/// Runs of steps that are not the current one: they end. Those of other revisions go, and of this one
/// the newest few stay, for people who want to know what happened.
pub(super) fn clean_up(derived: &Derived<'_>) -> Vec<Action> {
    let Observed { memory, update, runs, .. } = derived.seen;
    let mut actions = Vec::new();
    let mut over: Vec<&HookRun> = Vec::new();
    for run in runs {
        let Purpose::Step { revision, .. } = &run.purpose else { continue };
        let is_current = memory.hook_run.as_ref() == Some(&run.name) && revision == update;
        // A run that took too long is over for the release, in any phase it reached since.
        if is_current && memory.pause(PauseReason::Hook).is_none() {
            continue;
        }
        if !run.is_over() && !run.is_terminated {
            actions.push(Action::TerminateHook(run.name.clone()));
        }
        if revision != update {
            actions.push(Action::DeleteHook(run.name.clone()));
        } else if run.is_over() && !is_current {
            over.push(run);
        }
    }
    over.sort_by_key(|run| Reverse(run.created));
    let (passed, failed): (Vec<&HookRun>, Vec<&HookRun>) =
        over.into_iter().partition(|run| run.has_passed());
    let surplus = passed.iter().skip(RUNS_KEPT).chain(failed.iter().skip(RUNS_KEPT));
    actions.extend(surplus.map(|run| Action::DeleteHook(run.name.clone())));
    actions
}

/// The state of the release after this look.
pub(super) fn advance(derived: &Derived<'_>, gate: &StepGate) -> Progress {
    let mut progress = Progress {
        memory: carried(derived),
        why: None,
        facts: Vec::new(),
        again: Again::OnChange,
        rolls_back: false,
        blocked: None,
    };
    note_user(derived, &mut progress);
    note_blocked(derived, &mut progress);
    if is_reset(derived.seen) {
        reset(derived, &mut progress);
    } else if derived.seen.memory.stable.is_none() {
        first_seen(derived, &mut progress);
    } else if derived.step >= derived.seen.plan.steps().len() {
        past_the_last(derived, &mut progress);
    } else if !derived.is_held_by_user() {
        take(derived, gate, &mut progress);
    }
    progress
}

/// The memory as it stays unless a rule says otherwise.
fn carried(derived: &Derived<'_>) -> Memory {
    let Observed { plan, memory, update, collisions, .. } = derived.seen;
    Memory {
        generation: plan.generation,
        counts: derived.counts,
        current: Some(derived.base.clone()),
        update: Some(update.clone()),
        collisions: *collisions,
        step: (!plan.steps().is_empty()).then_some(derived.step),
        steps_hash: plan.canary.as_ref().map(|canary| canary.hash.clone()),
        blocked_since: None,
        ..memory.clone()
    }
}

/// A pause of a person stays until that person ends it.
fn note_user(derived: &Derived<'_>, progress: &mut Progress) {
    let plan = &derived.seen.plan;
    let pauses = &mut progress.memory.pauses;
    let was_held = pauses.iter().any(|pause| pause.reason == PauseReason::User);
    match (derived.is_held_by_user(), was_held) {
        (true, false) => {
            let since = whole_seconds(derived.seen.now);
            pauses.push(Pause { reason: PauseReason::User, since });
            progress.facts.push(Fact::Paused(PauseReason::User));
        }
        (false, true) => pauses.retain(|pause| pause.reason != PauseReason::User),
        (true, true) if !plan.paused.value => progress.facts.push(Fact::ResumeIgnored),
        (true, true) | (false, false) => {}
    }
    if derived.is_held_by_user() {
        progress.why = Some(Fact::AwaitingPerson(PauseReason::User, plan.resume_by()));
    }
}

/// Keeps the reason of a blocked hook in the status during a pause.
fn note_blocked(derived: &Derived<'_>, progress: &mut Progress) {
    let Observed { plan, memory, .. } = derived.seen;
    let Some(CanaryStep::Hook(hook)) = plan.steps().get(derived.step) else { return };
    let is_held = memory.is_paused_by_us() || derived.is_held_by_user();
    if let Some(since) = memory.blocked_since
        && is_held
        && !is_reset(derived.seen)
        && let StepGate::Blocked(why, _) = begin(derived, hook, None)
    {
        progress.memory.blocked_since = Some(since);
        progress.blocked = Some(why);
    }
}

/// Ends our own pauses, and with them the run they were about.
fn lift(memory: &mut Memory) {
    memory.pauses.retain(|pause| pause.reason == PauseReason::User);
    memory.hook_run = None;
    memory.blocked_since = None;
}

/// The template or the steps changed since this release began.
pub(super) fn is_reset(seen: &Observed) -> bool {
    let Observed { plan, memory, update, .. } = seen;
    let hash = plan.canary.as_ref().map(|canary| &canary.hash);
    let is_changed = memory.update.as_ref().is_some_and(|before| before != update);
    let has_other_steps = memory.steps_hash.as_ref() != hash && memory.stable.is_some();
    is_changed || has_other_steps
}

/// Steps were added to a release that began without: the first of them is yet to be written down.
pub(super) fn begins_in_mid_release(derived: &Derived<'_>) -> bool {
    let Observed { plan, memory, .. } = derived.seen;
    plan.canary.is_some() && memory.stable.is_none() && derived.differs()
}

fn reset(derived: &Derived<'_>, progress: &mut Progress) {
    let Observed { plan, memory, update, .. } = derived.seen;
    let is_changed = memory.update.as_ref().is_some_and(|before| before != update);
    let next = &mut progress.memory;
    if next.stable.is_none() && plan.canary.is_some() {
        // Steps that come with a new template apply to it: the previous revision is the stable one.
        next.stable.clone_from(&memory.update);
    }
    let all = plan.steps().len();
    let is_back = next.stable.as_ref() == Some(update);
    let step = if is_back { all } else { 0 };
    next.step = (all > 0).then_some(step);
    lift(next);
    let fact = match (is_changed, is_back) {
        (true, true) => Fact::Reverted(update.clone()),
        (true, false) => Fact::NewRevision(update.clone()),
        (false, _) => Fact::StepsChanged,
    };
    progress.why = Some(fact.clone());
    progress.facts.push(fact);
    if !is_back {
        progress.facts.extend(spec_warnings::of(derived.seen));
    }
    if !is_changed && memory.step.is_some() && all == 0 && derived.differs() {
        progress.facts.push(Fact::SpecDoubtful(spec_warnings::STEPS_REMOVED.to_owned()));
    }
    if all > 0 && (is_back || next.step != memory.step) {
        progress.facts.push(Fact::StepSet(step));
    }
    progress.again = Again::Now;
}

/// The first look at a release.
fn first_seen(derived: &Derived<'_>, progress: &mut Progress) {
    let Observed { plan, memory, update, .. } = derived.seen;
    let next = &mut progress.memory;
    lift(next);
    if plan.canary.is_none() {
        // Nothing is stable without steps, so every look comes here; the first one announces.
        if memory.update.is_none() {
            progress.facts.extend(spec_warnings::of(derived.seen));
        }
        return;
    }
    let all = plan.steps().len();
    // Pods of another revision are there: this is a release, and the steps apply to it.
    let is_release = derived.differs();
    next.stable = Some(if is_release { derived.base.clone() } else { update.clone() });
    let step = if is_release { 0 } else { all };
    next.step = (all > 0).then_some(step);
    progress.facts.extend(spec_warnings::of(derived.seen));
    if all > 0 {
        progress.facts.push(Fact::StepSet(step));
    }
    progress.again = Again::Now;
}

/// All steps are done, or there are none.
fn past_the_last(derived: &Derived<'_>, progress: &mut Progress) {
    let Observed { update, memory, .. } = derived.seen;
    lift(&mut progress.memory);
    if derived.is_complete_release() && memory.stable.as_ref() != Some(update) {
        progress.memory.stable = Some(update.clone());
        progress.facts.push(Fact::Promoted(update.clone()));
    }
}

fn take(derived: &Derived<'_>, gate: &StepGate, progress: &mut Progress) {
    let steps = derived.seen.plan.steps();
    let Some(step) = steps.get(derived.step) else { return };
    if is_complete(derived, step, gate) {
        let next = &mut progress.memory;
        lift(next);
        progress.blocked = None;
        next.step = Some(derived.step + 1);
        progress.facts.push(Fact::StepSet(derived.step + 1));
        progress.why = Some(Fact::StepSet(derived.step + 1));
        progress.again = Again::Now;
        return;
    }
    if derived.seen.memory.is_paused_by_us() {
        hold(derived, step, progress);
        return;
    }
    match (step, gate) {
        (CanaryStep::Hook(_), gate) => take_hook(derived, gate, progress),
        (CanaryStep::Pause(_), _) if derived.is_target_reached() => {
            pause(derived, PauseReason::Step, progress);
            if let CanaryStep::Pause(Some(time)) = step {
                let end = end_of(whole_seconds(derived.seen.now), *time);
                progress.again = sooner(progress.again, end);
            }
        }
        (CanaryStep::Pause(_) | CanaryStep::Partition(_), _) => {
            progress.why = Some(awaiting_pods(derived));
        }
    }
}

/// A person resumed it. With [`ResumeBy::Annotation`] only we clear `paused`, when asked to.
fn is_resumed(seen: &Observed) -> bool {
    let paused = seen.plan.paused;
    let resume_by = seen.plan.resume_by();
    seen.memory.is_paused_by_us()
        && !paused.value
        && (resume_by == ResumeBy::Field || paused.is_ours)
}

fn is_complete(derived: &Derived<'_>, step: &CanaryStep, gate: &StepGate) -> bool {
    let Observed { memory, now, .. } = derived.seen;
    let is_resumed = is_resumed(derived.seen);
    match step {
        CanaryStep::Partition(_) => derived.is_target_reached(),
        CanaryStep::Pause(time) => {
            let Some(pause) = memory.pause(PauseReason::Step) else { return false };
            let is_over = time.is_some_and(|time| *now >= end_of(pause.since, time));
            is_over || is_resumed
        }
        CanaryStep::Hook(_) => {
            let was_stopped = memory.pause(PauseReason::Hook).is_some();
            let has_passed = *gate == StepGate::Passed && derived.is_target_reached();
            has_passed || (was_stopped && is_resumed)
        }
    }
}

/// The first moment that is strictly later.
fn end_of(since: Moment, time: Duration) -> Moment {
    Moment(since.after(time).0.saturating_add(1))
}

/// A pause of ours is still on.
fn hold(derived: &Derived<'_>, step: &CanaryStep, progress: &mut Progress) {
    let Observed { memory, plan, .. } = derived.seen;
    if !plan.paused.value {
        progress.facts.push(Fact::ResumeIgnored);
    }
    let Some(pause) = memory.pauses.iter().find(|pause| pause.reason != PauseReason::User) else {
        return;
    };
    progress.why = Some(match step {
        CanaryStep::Pause(Some(time)) => {
            let end = end_of(pause.since, *time);
            progress.again = sooner(progress.again, end);
            Fact::AwaitingTime(end)
        }
        CanaryStep::Pause(None) | CanaryStep::Partition(_) | CanaryStep::Hook(_) => {
            Fact::AwaitingPerson(pause.reason, plan.resume_by())
        }
    });
}

fn pause(derived: &Derived<'_>, reason: PauseReason, progress: &mut Progress) {
    if derived.seen.memory.pause(PauseReason::User).is_some() && !derived.is_held_by_user() {
        // A person's resume is written down first: once `paused` is set again it would be lost.
        progress.again = Again::Now;
        return;
    }
    let since = whole_seconds(derived.seen.now);
    progress.memory.pauses.push(Pause { reason, since });
    progress.memory.pauses.sort_by_key(|pause| pause.reason);
    progress.facts.push(Fact::Paused(reason));
    progress.why = Some(Fact::Paused(reason));
}

fn awaiting_pods(derived: &Derived<'_>) -> Fact {
    let kept = derived.kept_by_hand();
    if kept > 0 {
        return Fact::OldPodsKept(kept);
    }
    Fact::AwaitingPods { available: derived.in_step, wanted: derived.counts.expected_updated }
}

fn take_hook(derived: &Derived<'_>, gate: &StepGate, progress: &mut Progress) {
    match gate {
        StepGate::None => {}
        // It passed with pods that are out of service again: they are waited for.
        StepGate::NotYet | StepGate::Passed => progress.why = Some(awaiting_pods(derived)),
        StepGate::Begins(start, dropped) => {
            progress.memory.hook_run = Some(start.name.clone());
            progress.why = Some(Fact::AwaitingHook(start.name.clone()));
            if !dropped.is_empty() {
                progress.facts.push(Fact::ArgumentsDropped(dropped.clone()));
            }
        }
        StepGate::Runs(name, deadline) => {
            progress.why = Some(Fact::AwaitingHook(name.clone()));
            if let Some(deadline) = deadline {
                progress.again = sooner(progress.again, *deadline);
            }
        }
        StepGate::Failed { why, rolls_back, .. } => {
            progress.facts.push(why.clone());
            // Without a revision to restore the release stops here.
            if *rolls_back && commands::rollback_revision(derived).is_some() {
                progress.rolls_back = true;
            } else {
                pause(derived, PauseReason::Hook, progress);
            }
            progress.why = Some(why.clone());
        }
        StepGate::Blocked(why, since) => {
            progress.memory.blocked_since = Some(*since);
            progress.blocked = Some(why.clone());
            let end = since.after(BLOCKED_MAX);
            progress.why = Some(Fact::HookBlocked(why.clone()));
            if derived.seen.now >= end {
                pause(derived, PauseReason::Hook, progress);
                progress.why = Some(Fact::HookBlocked(why.clone()));
            } else {
                progress.again = sooner(progress.again, end);
            }
            if derived.seen.memory.blocked_since.is_none() {
                progress.facts.push(Fact::HookBlocked(why.clone()));
            }
        }
    }
}
