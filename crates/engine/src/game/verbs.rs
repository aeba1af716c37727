//! What a person asks for, once.

use crate::{Again, Revision};

use super::{
    Action, Asked, CanaryStep, Decision, Fact, HookRun, Memory, Observed, PauseReason, Purpose,
    Verb, view::View,
};

/// What a person asked for, if it can be done now. Each is safe to do twice: it may be, after a crash.
///
/// Going back is not among it, see [`aborts`].
pub(super) fn obey(view: &View<'_>) -> Option<Decision> {
    if aborts(view).is_some() {
        return None;
    }
    let Asked { verb, revision } = view.seen.plan.asked.as_ref()?;
    let decision = if revision.as_ref().is_some_and(|revision| *revision != view.seen.update) {
        void(Fact::AskedTooLate(*verb), *verb)
    } else {
        match verb {
            Verb::Resume => resume(view.seen),
            Verb::SkipAll => skip_all(view),
            Verb::Abort => void(Fact::NothingTo(Verb::Abort), Verb::Abort),
            Verb::RetryHook => retry_hook(view),
        }
    };
    Some(Decision { again: Again::Now, ..decision })
}

fn void(fact: Fact, verb: Verb) -> Decision {
    Decision::because(fact.clone()).act(Action::ClearVerb(verb)).tell(fact)
}

fn obeyed(verb: Verb) -> Decision {
    Decision::because(Fact::Obeyed(verb))
}

/// One write clears `paused` and the wish; that `paused` was cleared by us is what resumes.
fn resume(seen: &Observed) -> Decision {
    if seen.memory.pauses.is_empty() && !seen.plan.paused.value {
        return void(Fact::NothingTo(Verb::Resume), Verb::Resume);
    }
    obeyed(Verb::Resume).act(Action::Lift(Verb::Resume)).tell(Fact::Obeyed(Verb::Resume))
}

fn skip_all(view: &View<'_>) -> Decision {
    let Observed { memory, plan, .. } = view.seen;
    let all = plan.steps().len();
    if view.step >= all {
        return void(Fact::NothingTo(Verb::SkipAll), Verb::SkipAll);
    }
    let mut next = Memory { step: Some(all), hook_run: None, ..memory.clone() };
    next.blocked_since = None;
    end_pauses(view, &mut next);
    obeyed(Verb::SkipAll)
        .act(Action::Remember(Box::new(next)))
        .act(done(view, Verb::SkipAll))
        .tell(Fact::Obeyed(Verb::SkipAll))
        .tell(Fact::StepSet(all))
}

/// Our own pauses end; that of a person stays as long as the person holds it.
fn end_pauses(view: &View<'_>, next: &mut Memory) {
    let is_held = view.is_held_by_user();
    next.pauses.retain(|pause| pause.reason == PauseReason::User && is_held);
}

/// The wish is taken away, and with it our own pause, but not that of a person.
fn done(view: &View<'_>, verb: Verb) -> Action {
    if view.is_held_by_user() { Action::ClearVerb(verb) } else { Action::Lift(verb) }
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
        (false, true) => return void(Fact::NothingTo(Verb::RetryHook), Verb::RetryHook),
        (false, false) => {
            let verb = Verb::RetryHook;
            return decision.act(Action::ClearVerb(verb)).tell(Fact::Obeyed(verb));
        }
    }
    if let Some(run) = runs.iter().find(|run| memory.hook_run.as_ref() == Some(&run.name)) {
        decision = decision.act(Action::DeleteHook(run.name.clone()));
    }
    let mut next = Memory { hook_run: None, blocked_since: None, ..memory.clone() };
    end_pauses(view, &mut next);
    decision
        .act(Action::Remember(Box::new(next)))
        .act(done(view, Verb::RetryHook))
        .tell(Fact::Obeyed(Verb::RetryHook))
}
