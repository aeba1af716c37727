//! Actions on pods in one look, collected as they are found.

use crate::Again;

use super::{
    Action, ConditionKind, Departure, Fact, HookKind, Pod, PodPhase, PodRef, UpdateWay,
    derived::{Derived, sooner},
    in_place,
    pod_hooks::{self, Operation, Passage},
};

/// Actions on pods, with the conditions and the reason that go with them.
pub(super) struct PodActions {
    pub(super) actions: Vec<Action>,
    pub(super) why: Option<Fact>,
    pub(super) again: Again,
    /// Conditions for people.
    pub(super) conditions_found: Vec<(ConditionKind, Fact)>,
}

/// The outcome of an attempt with a pod.
pub(super) enum Outcome {
    /// It is done.
    Done,
    /// It waits for its hook.
    Waits,
    /// It cannot be done.
    Refused,
}

impl PodActions {
    pub(super) fn new() -> Self {
        Self {
            actions: Vec::new(),
            why: None,
            again: Again::OnChange,
            conditions_found: Vec::new(),
        }
    }

    /// The first reason counts.
    pub(super) fn because(&mut self, fact: Fact) {
        self.why.get_or_insert(fact);
    }

    /// The first condition of a kind counts.
    pub(super) fn add_condition(&mut self, kind: ConditionKind, fact: &Fact) {
        if !self.conditions_found.iter().any(|(known, _)| *known == kind) {
            self.conditions_found.push((kind, fact.clone()));
        }
    }

    /// Adds what was begun after what was finished: the first reason and the first condition of a kind stay.
    pub(super) fn then(&mut self, other: Self) {
        let Self { actions, why, again, conditions_found } = other;
        self.actions.extend(actions);
        if let Some(why) = why {
            self.because(why);
        }
        self.wake(again);
        for (kind, fact) in conditions_found {
            self.add_condition(kind, &fact);
        }
    }

    fn wake(&mut self, again: Again) {
        match again {
            Again::Now => self.again = Again::Now,
            Again::At(at) => self.again = sooner(self.again, at),
            Again::OnChange => {}
        }
    }

    /// Only creations are left, and the cluster refuses them. They are retried, but existing pods must not
    /// wait for that: their template may be the one that needs the fix.
    pub(super) fn is_refused(&self, derived: &Derived<'_>) -> bool {
        let mut refusals = derived.seen.refusals.iter();
        refusals.any(|refusal| refusal.kind == ConditionKind::FailedScale)
            && !self.actions.is_empty()
            && self.actions.iter().all(|action| matches!(action, Action::Create(_)))
    }

    /// The pod is changed in this look. Only then its gate is left alone: one that was closed for a change
    /// that did not come is opened again.
    pub(super) fn changes(&self, pod: &Pod) -> bool {
        self.actions.iter().any(|action| match action {
            Action::UpdateInPlace(change) | Action::HotPatch(change) => change.pod.uid == pod.uid,
            Action::Create(_)
            | Action::Delete(..)
            | Action::ForceDelete(_)
            | Action::Mark(_)
            | Action::Unmark(_)
            | Action::SetGate(..)
            | Action::ApplyGrace(_)
            | Action::DropGrace(_)
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
            | Action::Remember(_)
            | Action::DropRevisions(_)
            | Action::Announce(_) => false,
        })
    }

    /// Finishes what was begun with this pod.
    pub(super) fn refresh(&mut self, derived: &Derived<'_>, pod: &Pod) {
        let (actions, again) = in_place::refresh(derived, pod);
        if !actions.is_empty() {
            self.because(Fact::Refreshing(1));
        }
        self.actions.extend(actions);
        self.wake(again);
        match pod_hooks::follow_up(derived, pod) {
            Ok(actions) => self.actions.extend(actions),
            Err(why) => self.blocked(pod, why),
        }
    }

    fn blocked(&mut self, pod: &Pod, why: String) {
        let fact = Fact::PodHookBlocked { pod: pod.name.clone(), why };
        self.add_condition(ConditionKind::HookBlocked, &fact);
        self.because(fact);
    }

    /// Whether the hook before the operation lets it pass.
    fn passes(&mut self, derived: &Derived<'_>, pod: &Pod, operation: Operation<'_>) -> Outcome {
        let name = || pod.name.clone();
        let kind: HookKind = pod_hooks::kind_of(derived.seen, operation);
        match pod_hooks::ask(derived, pod, operation) {
            Passage::Open => return Outcome::Done,
            Passage::Begins(actions) | Passage::Waits(actions) => {
                self.actions.extend(actions);
                self.because(Fact::AwaitingPodHook { pod: name(), kind });
            }
            Passage::Stuck(phase) => {
                let fact = Fact::PodHookFailed { pod: name(), kind, phase };
                self.add_condition(ConditionKind::HookBlocked, &fact);
                self.because(fact);
            }
            Passage::Blocked(why) => {
                self.blocked(pod, why);
                return Outcome::Refused;
            }
        }
        Outcome::Waits
    }

    /// Deletes a pod once its hook passed.
    pub(super) fn delete(&mut self, derived: &Derived<'_>, pod: &Pod, why: Departure) -> Outcome {
        let outcome = self.passes(derived, pod, Operation::Delete);
        if matches!(outcome, Outcome::Done) {
            self.actions.push(Action::Delete(PodRef::of(pod), why));
        }
        outcome
    }

    /// Deletes a pod that ended; true if it did. Its hook is not called: it has no players any more.
    pub(super) fn replace_ended(&mut self, pod: &Pod) -> bool {
        let fact = match pod.phase {
            PodPhase::Failed => Fact::PodFailed(pod.name.clone()),
            PodPhase::Succeeded => Fact::PodEnded(pod.name.clone()),
            PodPhase::Pending | PodPhase::Unknown | PodPhase::Running => return false,
        };
        self.actions.push(Action::Delete(PodRef::of(pod), Departure::Failed));
        self.actions.push(Action::Announce(fact.clone()));
        self.because(fact);
        true
    }

    /// Brings a pod to the new revision, once its hook passed.
    pub(super) fn update(&mut self, derived: &Derived<'_>, pod: &Pod) -> Outcome {
        let way = match derived.seen.plan.way {
            way @ (UpdateWay::InPlace | UpdateWay::HotPatch) => way,
            UpdateWay::Recreate => return self.delete(derived, pod, Departure::Replaced),
            UpdateWay::OnDelete => return Outcome::Refused,
        };
        let to = &derived.seen.update;
        let change = match in_place::change(derived, pod, to) {
            Ok(change) => change,
            Err(_) if derived.seen.plan.falls_back => {
                return self.delete(derived, pod, Departure::Replaced);
            }
            Err(path) => {
                let fact = Fact::NotInPlace { pod: pod.name.clone(), way, path };
                self.add_condition(ConditionKind::FailedUpdate, &fact);
                self.because(fact);
                return Outcome::Refused;
            }
        };
        if let Some(until) = in_place::held_until(derived, pod) {
            self.again = sooner(self.again, until);
            self.because(Fact::AwaitingNode(pod.name.clone()));
            return Outcome::Waits;
        }
        if way == UpdateWay::HotPatch {
            self.actions.push(in_place::hot_patch(change));
            return Outcome::Done;
        }
        let outcome = self.passes(derived, pod, Operation::InPlace(to));
        if matches!(outcome, Outcome::Done) {
            self.actions.extend(in_place::begin(pod, change));
        }
        outcome
    }
}
