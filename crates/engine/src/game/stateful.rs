//! Pods of a `GameStatefulSet`, which have numbers: creates, deletes and updates them, the highest number
//! first.

use std::cmp::Reverse;

use crate::Revision;

use super::{
    Action, Budget, Departure, Fact, Management, NewPod, NodeState, Observed, Pod, PodRef,
    UpdateWay,
    derived::Derived,
    in_place,
    pod_actions::{Outcome, PodActions},
    pod_hooks::{self, Wanted},
};

/// Pods made in one look at most; the next look goes on.
const CREATED_MAX: usize = 100;

/// A set in one look.
struct Set<'a, 'v> {
    derived: &'v Derived<'a>,
    management: Management,
    /// Numbers below this have a pod: the replicas, and those on top of them for a while.
    numbers: usize,
    budget: Budget,
}

/// Whether the next number in order may be changed in this look.
enum Turn {
    Next,
    Over,
}

/// The actions on the pods of a set.
pub(super) fn pod_actions(derived: &Derived<'_>, management: Management) -> PodActions {
    let set = Set::of(derived, management);
    let retried = pod_hooks::retry(derived.seen);
    let chosen = set.choose();
    let mut begun = PodActions::new();
    let turn = match set.fill(&mut begun) {
        Turn::Over if begun.is_refused(derived) => Turn::Next,
        Turn::Over => Turn::Over,
        Turn::Next => set.shrink(&mut begun),
    };
    if let Turn::Next = turn {
        set.update(&chosen, &mut begun);
    }
    let mut pod_actions = PodActions::new();
    for pod in derived.pods.iter().filter(|pod| pod.is_active() && !begun.changes(pod)) {
        pod_actions.refresh(derived, pod);
    }
    pod_actions.actions.extend(pod_hooks::clean_up(derived, &set.wanted(&chosen)));
    pod_actions.actions.extend(retried);
    pod_actions.then(begun);
    pod_actions
}

impl<'a, 'v> Set<'a, 'v> {
    fn of(derived: &'v Derived<'a>, management: Management) -> Self {
        let Observed { plan, update, .. } = derived.seen;
        let budget = Budget::of_set(plan.max_unavailable, plan.max_surge, plan.replicas);
        let numbers = derived.partition..plan.replicas;
        let is_old = |pod: &Pod| {
            let is_in = pod.ordinal.is_some_and(|number| numbers.contains(&number));
            is_in && pod.is_active() && !pod.is_of(update)
        };
        // A reverted template has pods to update, although there is no other revision to come from.
        let is_surging = management == Management::Parallel
            && plan.way != UpdateWay::OnDelete
            && (derived.differs() || derived.pods.iter().any(|pod| is_old(pod)));
        let left = plan.replicas.saturating_sub(derived.done).saturating_sub(derived.partition);
        let mut surge = if is_surging { budget.surge.min(left) } else { 0 };
        if derived.is_paused() {
            // No pods on top are made.
            let highest = derived.pods.iter().filter_map(|pod| pod.ordinal).max();
            let there = highest.map_or(0, |number| number.saturating_add(1));
            surge = surge.min(there.saturating_sub(plan.replicas));
        }
        if derived.is_held() {
            // A pod on top is deleted when the pod that it replaced serves again.
            let serving = |number: &usize| {
                let pod = derived.pods.iter().find(|pod| pod.ordinal == Some(*number));
                pod.is_some_and(|pod| derived.is_serving(pod))
            };
            surge = surge.min((0..plan.replicas).filter(|number| !serving(number)).count());
        }
        Self { derived, management, numbers: plan.replicas + surge, budget }
    }

    fn is_ordered(&self) -> bool {
        self.management == Management::OrderedReady
    }

    fn pod(&self, number: usize) -> Option<&'a Pod> {
        self.derived.pods.iter().find(|pod| pod.ordinal == Some(number)).copied()
    }

    fn is_serving(&self, pod: &Pod) -> bool {
        self.derived.is_serving(pod)
    }

    /// Pods with numbers that are not wanted, the highest first.
    fn condemned(&self) -> Vec<&'a Pod> {
        let is_beyond = |pod: &&&Pod| pod.ordinal.is_some_and(|number| number >= self.numbers);
        let mut pods: Vec<&Pod> = self.derived.pods.iter().filter(is_beyond).copied().collect();
        pods.sort_by_key(|pod| Reverse(pod.ordinal));
        pods
    }

    /// Pods that are to be updated, the highest first.
    fn candidates(&self) -> Vec<&'a Pod> {
        let Observed { plan, update, .. } = self.derived.seen;
        if plan.way == UpdateWay::OnDelete {
            return Vec::new();
        }
        let range = self.derived.partition..self.numbers;
        let mut pods: Vec<&Pod> = self
            .derived
            .pods
            .iter()
            .filter(|pod| pod.ordinal.is_some_and(|number| range.contains(&number)))
            .filter(|pod| pod.is_active() && !pod.is_of(update))
            .copied()
            .collect();
        pods.sort_by_key(|pod| Reverse(pod.ordinal));
        pods
    }

    fn wanted(&self, chosen: &[&'a Pod]) -> Wanted<'a> {
        let plan = &self.derived.seen.plan;
        let uids = |pods: &[&'a Pod]| pods.iter().map(|pod| pod.uid.as_str()).collect();
        let updated = self.candidates();
        let mut deleted = self.condemned();
        if plan.way == UpdateWay::Recreate || plan.falls_back {
            deleted.extend(&updated);
        }
        Wanted { deleted: uids(&deleted), updated: uids(&updated), next: uids(chosen) }
    }

    /// Pods and gaps from the partition on that do not serve.
    fn out(&self) -> usize {
        let numbers = self.derived.partition..self.numbers;
        numbers.filter(|number| !self.pod(*number).is_some_and(|pod| self.is_serving(pod))).count()
    }

    /// Those that may be updated now. Pods that do not serve come first and need no budget.
    fn choose(&self) -> Vec<&'a Pod> {
        if self.derived.is_paused() || self.budget.unavailable == 0 {
            return Vec::new();
        }
        let (candidates, stuck): (Vec<&Pod>, Vec<&Pod>) =
            self.candidates().into_iter().partition(|pod| in_place::is_possible(self.derived, pod));
        let (mut serving, mut chosen): (Vec<&Pod>, Vec<&Pod>) =
            candidates.into_iter().partition(|pod| self.is_serving(pod));
        let slots = self.budget.unavailable.saturating_sub(self.out());
        serving.sort_by_key(|pod| (!self.derived.is_asked(pod), !pod.is_marked));
        chosen.extend(serving.into_iter().take(slots));
        let is_single = self.is_ordered() || self.derived.seen.plan.way == UpdateWay::HotPatch;
        if is_single {
            chosen.truncate(1);
        }
        // A pod that cannot be updated takes no place of another; it is only announced.
        chosen.extend(stuck);
        chosen
    }

    /// Every number has its pod, in order if that is asked for.
    fn fill(&self, pod_actions: &mut PodActions) -> Turn {
        let mut created = 0;
        for number in 0..self.numbers {
            let turn = match self.pod(number) {
                None if created >= CREATED_MAX => Turn::Over,
                None => {
                    created += 1;
                    self.create(number, pod_actions);
                    Turn::Over
                }
                Some(pod) => self.keep(pod, pod_actions),
            };
            if let Turn::Over = turn
                && (self.is_ordered() || created >= CREATED_MAX)
            {
                return Turn::Over;
            }
        }
        Turn::Next
    }

    fn create(&self, number: usize, pod_actions: &mut PodActions) {
        pod_actions.because(Fact::Scaling { created: 1, deleted: 0 });
        pod_actions.actions.push(Action::Create(NewPod {
            revision: self.revision(number).clone(),
            ordinal: Some(number),
            index: None,
        }));
    }

    /// The revision of a pod that is made now.
    ///
    /// Below the partition it is the one of old pods. Without one, and in order, it is so too while a
    /// pod of the new revision is not well: a pod lost in the meantime must not make it worse.
    /// Otherwise it is the new revision. By the published rule all numbers below the count of old pods
    /// come back old, whichever of the others are lost; but those that are broken are updated first here,
    /// also with low numbers, and would come back old and broken for ever.
    fn revision(&self, number: usize) -> &Revision {
        let Observed { plan, update, .. } = self.derived.seen;
        let base = &self.derived.base;
        let partition = self.derived.partition_of_new_pods();
        if number < partition && number < plan.replicas {
            return base;
        }
        let is_active = |pod: &&&Pod| pod.is_active();
        let mut pods = self.derived.pods.iter().filter(is_active);
        let is_unwell = pods.any(|pod| pod.is_of(update) && !self.is_serving(pod));
        let follows = partition == 0 && self.is_ordered() && plan.way != UpdateWay::OnDelete;
        let old = self.derived.pods.iter().filter(is_active).filter(|pod| pod.is_of(base)).count();
        if follows && is_unwell && number < old { base } else { update }
    }

    fn keep(&self, pod: &Pod, pod_actions: &mut PodActions) -> Turn {
        let name = || pod.name.clone();
        if pod.is_terminating {
            if pod.node == NodeState::Lost {
                pod_actions.actions.push(Action::ForceDelete(PodRef::of(pod)));
                pod_actions.actions.push(Action::Announce(Fact::PodLost(name())));
            }
            pod_actions.because(Fact::AwaitingDeletion(name()));
            return Turn::Over;
        }
        if pod_actions.replace_ended(pod) {
            return Turn::Over;
        }
        if !pod.is_identified {
            pod_actions.actions.push(Action::Identify(PodRef::of(pod)));
        }
        if self.is_ordered() && pod.is_of(&self.derived.seen.update) && !self.is_serving(pod) {
            pod_actions.because(Fact::AwaitingOrder(name()));
            return Turn::Over;
        }
        Turn::Next
    }

    /// Numbers that are not wanted lose their pods, the highest first. Whether they serve does not
    /// matter: to wait for a broken pod before another is deleted would be to wait for ever.
    fn shrink(&self, pod_actions: &mut PodActions) -> Turn {
        let mut deleted = 0;
        for pod in self.condemned() {
            if pod.is_terminating {
                pod_actions.because(Fact::AwaitingDeletion(pod.name.clone()));
                if self.is_ordered() {
                    return Turn::Over;
                }
                continue;
            }
            let outcome = pod_actions.delete(self.derived, pod, Departure::Surplus);
            deleted += usize::from(matches!(outcome, Outcome::Done));
            pod_actions.because(Fact::Scaling { created: 0, deleted });
            if self.is_ordered() {
                return Turn::Over;
            }
        }
        Turn::Next
    }

    fn update(&self, chosen: &[&Pod], pod_actions: &mut PodActions) {
        let mut updated = 0;
        for pod in chosen {
            updated += usize::from(matches!(pod_actions.update(self.derived, pod), Outcome::Done));
        }
        if updated > 0 {
            pod_actions.because(Fact::Updating(updated));
        } else if chosen.is_empty() && !self.candidates().is_empty() && !self.derived.is_paused() {
            let fact =
                if self.budget.unavailable == 0 { Fact::NoBudget } else { Fact::AwaitingBudget };
            pod_actions.because(fact);
        }
    }
}
