//! Commands of people in the annotation `tidegate.dev/ask`: each is carried out once and then removed.

use crate::{Again, Revision};

use super::{
    Action, Asked, CanaryStep, Command, Decision, Fact, HookRun, Memory, Observed, Pause,
    PauseReason, Purpose, derived::Derived, steps::whole_seconds,
};

/// The decision that carries out a command, if that can be done now. Each is safe to do twice: it may be,
/// after a crash.
///
/// For the rollback see [`aborts`].
pub(super) fn apply(derived: &Derived<'_>) -> Option<Decision> {
    if aborts(derived).is_some() {
        return None;
    }
    if let Some(word) = &derived.seen.plan.misspelt {
        return Some(Decision { again: Again::Now, ..void(Fact::UnknownVerb(word.clone())) });
    }
    let Asked { command, revision } = derived.seen.plan.asked.as_ref()?;
    let decision = if revision.as_ref().is_some_and(|revision| *revision != derived.seen.update) {
        void(Fact::AskedTooLate(*command))
    } else {
        match command {
            Command::Resume => resume(derived.seen),
            Command::SkipAll => skip_all(derived),
            Command::Abort => void(Fact::NothingTo(Command::Abort)),
            Command::Pause => hold(derived),
            Command::RetryHook => retry_hook(derived),
        }
    };
    Some(Decision { again: Again::Now, ..decision })
}

fn void(fact: Fact) -> Decision {
    Decision::because(fact.clone()).act(Action::ClearCommand).announce(fact)
}

fn applied(command: Command) -> Decision {
    Decision::because(Fact::Obeyed(command))
}

/// One write clears `paused` and the command; that `paused` was cleared by us is what resumes. If another
/// writer cleared it just before, ours would change nothing and not count: it is set first.
fn resume(seen: &Observed) -> Decision {
    let paused = seen.plan.paused;
    if seen.memory.pauses.is_empty() && !paused.value {
        return void(Fact::NothingTo(Command::Resume));
    }
    let mut decision = applied(Command::Resume);
    if !paused.value && !paused.is_ours {
        decision = decision.act(Action::SetPaused(true));
    }
    decision.act(Action::ResumeAndClear(Command::Resume)).announce(Fact::Obeyed(Command::Resume))
}

/// Sets a pause on behalf of a person, and writes it down as theirs.
fn hold(derived: &Derived<'_>) -> Decision {
    let Observed { memory, now, .. } = derived.seen;
    if derived.is_held_by_user() {
        return void(Fact::NothingTo(Command::Pause));
    }
    let mut next = memory.clone();
    next.pauses.retain(|pause| pause.reason != PauseReason::User);
    next.pauses.push(Pause { reason: PauseReason::User, since: whole_seconds(*now) });
    remember(applied(Command::Pause), derived, next)
        .act(Action::ClearCommand)
        .announce(Fact::Obeyed(Command::Pause))
        .announce(Fact::Paused(PauseReason::User))
}

/// A person asked for a pause: no further pods are chosen, from this look on.
pub(super) fn is_pausing(derived: &Derived<'_>) -> bool {
    let asked = derived.seen.plan.asked.as_ref();
    asked.is_some_and(|asked| asked.command == Command::Pause)
}

fn skip_all(derived: &Derived<'_>) -> Decision {
    let Observed { memory, plan, .. } = derived.seen;
    let all = plan.steps().len();
    if derived.step >= all {
        return void(Fact::NothingTo(Command::SkipAll));
    }
    let mut next = Memory { step: Some(all), hook_run: None, ..memory.clone() };
    next.blocked_since = None;
    end_pauses(derived, &mut next);
    remember(applied(Command::SkipAll), derived, next)
        .act(done(derived, Command::SkipAll))
        .announce(Fact::Obeyed(Command::SkipAll))
        .announce(Fact::StepSet(all))
}

/// Our own pauses end; that of a person stays as long as the person holds it.
fn end_pauses(derived: &Derived<'_>, next: &mut Memory) {
    let is_held = derived.is_held_by_user();
    next.pauses.retain(|pause| pause.reason == PauseReason::User && is_held);
}

/// Written down after `paused` is: otherwise it would look like a resume by a person.
fn remember(decision: Decision, derived: &Derived<'_>, next: Memory) -> Decision {
    let is_unset = !next.pauses.is_empty() && !derived.seen.plan.paused.value;
    let decision = if is_unset { decision.act(Action::SetPaused(true)) } else { decision };
    decision.act(Action::Remember(Box::new(next)))
}

/// Removes the command, and with it our own pause, but not that of a person.
fn done(derived: &Derived<'_>, command: Command) -> Action {
    if derived.is_held_by_user() { Action::ClearCommand } else { Action::ResumeAndClear(command) }
}

/// The stable revision, if it can be rolled back to.
pub(super) fn rollback_revision<'a>(derived: &Derived<'a>) -> Option<&'a Revision> {
    let stable = derived.seen.memory.stable.as_ref()?;
    (*stable != derived.seen.update && derived.template(stable).is_some()).then_some(stable)
}

/// The revision to roll back to, if a person requested that.
pub(super) fn aborts<'a>(derived: &Derived<'a>) -> Option<&'a Revision> {
    let Asked { command, revision } = derived.seen.plan.asked.as_ref()?;
    let is_meant = revision.as_ref().is_none_or(|revision| *revision == derived.seen.update);
    if *command == Command::Abort && is_meant { rollback_revision(derived) } else { None }
}

/// Runs go first: without it the pause is only a note, and the hook begins anew when that goes. So
/// do failed runs of pods, as with `retry`, which a tool that applies a manifest would set back.
fn retry_hook(derived: &Derived<'_>) -> Decision {
    let Observed { memory, plan, runs, .. } = derived.seen;
    let is_hook = matches!(plan.steps().get(derived.step), Some(CanaryStep::Hook(_)));
    let is_stopped = is_hook && memory.pause(PauseReason::Hook).is_some();
    let is_failed = |run: &&HookRun| {
        matches!(run.purpose, Purpose::Pod { .. }) && run.is_over() && !run.has_passed()
    };
    let mut decision = applied(Command::RetryHook);
    for run in runs.iter().filter(is_failed) {
        decision = decision.act(Action::DeleteHook(run.name.clone()));
    }
    match (is_stopped, decision.is_idle()) {
        (true, _) => {}
        (false, true) => return void(Fact::NothingTo(Command::RetryHook)),
        (false, false) => {
            let command = Command::RetryHook;
            return decision.act(Action::ClearCommand).announce(Fact::Obeyed(command));
        }
    }
    if let Some(run) = runs.iter().find(|run| memory.hook_run.as_ref() == Some(&run.name)) {
        decision = decision.act(Action::DeleteHook(run.name.clone()));
    }
    let mut next = Memory { hook_run: None, blocked_since: None, ..memory.clone() };
    end_pauses(derived, &mut next);
    remember(decision, derived, next)
        .act(done(derived, Command::RetryHook))
        .announce(Fact::Obeyed(Command::RetryHook))
}
