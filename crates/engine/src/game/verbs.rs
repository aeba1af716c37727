//! What a person asks for, once.

use crate::{Again, Revision};

use super::{
    Action, Asked, CanaryStep, Decision, Fact, HookRun, Memory, Observed, Pause, PauseReason,
    Purpose, Verb, steps::whole_seconds, view::View,
};

/// What a person asked for, if it can be done now. Each is safe to do twice: it may be, after a crash.
///
/// Going back is not among it, see [`aborts`].
pub(super) fn obey(view: &View<'_>) -> Option<Decision> {
    if aborts(view).is_some() {
        return None;
    }
    if let Some(word) = &view.seen.plan.misspelt {
        return Some(Decision { again: Again::Now, ..void(Fact::UnknownVerb(word.clone())) });
    }
    let Asked { verb, revision } = view.seen.plan.asked.as_ref()?;
    let decision = if revision.as_ref().is_some_and(|revision| *revision != view.seen.update) {
        void(Fact::AskedTooLate(*verb))
    } else {
        match verb {
            Verb::Resume => resume(view.seen),
            Verb::SkipAll => skip_all(view),
            Verb::Abort => void(Fact::NothingTo(Verb::Abort)),
            Verb::Pause => hold(view),
            Verb::RetryHook => retry_hook(view),
        }
    };
    Some(Decision { again: Again::Now, ..decision })
}

fn void(fact: Fact) -> Decision {
    Decision::because(fact.clone()).act(Action::ClearVerb).tell(fact)
}

fn obeyed(verb: Verb) -> Decision {
    Decision::because(Fact::Obeyed(verb))
}

/// One write clears `paused` and the wish; that `paused` was cleared by us is what resumes. If somebody
/// else cleared it just before, ours would change nothing and not count: it is set first.
fn resume(seen: &Observed) -> Decision {
    let paused = seen.plan.paused;
    if seen.memory.pauses.is_empty() && !paused.value {
        return void(Fact::NothingTo(Verb::Resume));
    }
    let mut decision = obeyed(Verb::Resume);
    if !paused.value && !paused.is_ours {
        decision = decision.act(Action::SetPaused(true));
    }
    decision.act(Action::Lift(Verb::Resume)).tell(Fact::Obeyed(Verb::Resume))
}

/// The pause of a person, set and written down for that person.
fn hold(view: &View<'_>) -> Decision {
    let Observed { memory, now, .. } = view.seen;
    if view.is_held_by_user() {
        return void(Fact::NothingTo(Verb::Pause));
    }
    let mut next = memory.clone();
    next.pauses.retain(|pause| pause.reason != PauseReason::User);
    next.pauses.push(Pause { reason: PauseReason::User, since: whole_seconds(*now) });
    remember(obeyed(Verb::Pause), view, next)
        .act(Action::ClearVerb)
        .tell(Fact::Obeyed(Verb::Pause))
        .tell(Fact::Paused(PauseReason::User))
}

/// A person asked for a pause: no further pods are chosen, also in the look that obeys.
pub(super) fn is_pausing(view: &View<'_>) -> bool {
    let asked = view.seen.plan.asked.as_ref();
    asked.is_some_and(|asked| asked.verb == Verb::Pause)
}

fn skip_all(view: &View<'_>) -> Decision {
    let Observed { memory, plan, .. } = view.seen;
    let all = plan.steps().len();
    if view.step >= all {
        return void(Fact::NothingTo(Verb::SkipAll));
    }
    let mut next = Memory { step: Some(all), hook_run: None, ..memory.clone() };
    next.blocked_since = None;
    end_pauses(view, &mut next);
    remember(obeyed(Verb::SkipAll), view, next)
        .act(done(view, Verb::SkipAll))
        .tell(Fact::Obeyed(Verb::SkipAll))
        .tell(Fact::StepSet(all))
}

/// Our own pauses end; that of a person stays as long as the person holds it.
fn end_pauses(view: &View<'_>, next: &mut Memory) {
    let is_held = view.is_held_by_user();
    next.pauses.retain(|pause| pause.reason == PauseReason::User && is_held);
}

/// Written down after `paused` says the same: otherwise it would read as somebody going on.
fn remember(decision: Decision, view: &View<'_>, next: Memory) -> Decision {
    let is_unset = !next.pauses.is_empty() && !view.seen.plan.paused.value;
    let decision = if is_unset { decision.act(Action::SetPaused(true)) } else { decision };
    decision.act(Action::Remember(Box::new(next)))
}

/// The wish is taken away, and with it our own pause, but not that of a person.
fn done(view: &View<'_>, verb: Verb) -> Action {
    if view.is_held_by_user() { Action::ClearVerb } else { Action::Lift(verb) }
}

/// The stable revision that can be gone back to.
pub(super) fn way_back<'a>(view: &View<'a>) -> Option<&'a Revision> {
    let stable = view.seen.memory.stable.as_ref()?;
    (*stable != view.seen.update && view.template(stable).is_some()).then_some(stable)
}

/// The revision to go back to, if a person asked for that.
pub(super) fn aborts<'a>(view: &View<'a>) -> Option<&'a Revision> {
    let Asked { verb, revision } = view.seen.plan.asked.as_ref()?;
    let is_meant = revision.as_ref().is_none_or(|revision| *revision == view.seen.update);
    if *verb == Verb::Abort && is_meant { way_back(view) } else { None }
}

/// Runs go first: without it the pause is only a note, and the hook begins anew when that goes. So
/// do failed runs of pods, as with `retry`, which a tool that applies a manifest would set back.
fn retry_hook(view: &View<'_>) -> Decision {
    let Observed { memory, plan, runs, .. } = view.seen;
    let is_hook = matches!(plan.steps().get(view.step), Some(CanaryStep::Hook(_)));
    let is_stopped = is_hook && memory.pause(PauseReason::Hook).is_some();
    let is_failed = |run: &&HookRun| {
        matches!(run.purpose, Purpose::Pod { .. }) && run.is_over() && !run.has_passed()
    };
    let mut decision = obeyed(Verb::RetryHook);
    for run in runs.iter().filter(is_failed) {
        decision = decision.act(Action::DeleteHook(run.name.clone()));
    }
    match (is_stopped, decision.is_idle()) {
        (true, _) => {}
        (false, true) => return void(Fact::NothingTo(Verb::RetryHook)),
        (false, false) => {
            let verb = Verb::RetryHook;
            return decision.act(Action::ClearVerb).tell(Fact::Obeyed(verb));
        }
    }
    if let Some(run) = runs.iter().find(|run| memory.hook_run.as_ref() == Some(&run.name)) {
        decision = decision.act(Action::DeleteHook(run.name.clone()));
    }
    let mut next = Memory { hook_run: None, blocked_since: None, ..memory.clone() };
    end_pauses(view, &mut next);
    remember(decision, view, next)
        .act(done(view, Verb::RetryHook))
        .tell(Fact::Obeyed(Verb::RetryHook))
}
