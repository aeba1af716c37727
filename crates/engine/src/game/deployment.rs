//! Pods of a `GameDeployment`, which have no identity: creates, deletes and updates them.

use std::collections::BTreeSet;

use super::{
    Action, Budget, ConditionKind, Departure, Fact, Hold, Indexes, NewPod, Observed, Pod, Scaling,
    Standing, UpdateWay, by_use,
    derived::Derived,
    in_place,
    pod_actions::{Outcome, PodActions},
    pod_hooks::{self, Wanted},
    sort_for_deletion,
};

/// Pods made in one look at most; the next look goes on.
const CREATED_MAX: usize = 100;

/// The actions on the pods of a deployment.
pub(super) fn pod_actions(derived: &Derived<'_>) -> PodActions {
    let retried = pod_hooks::retry(derived.seen);
    let leaving = Leaving::of(derived);
    let chosen = choose(derived, &leaving);
    let mut begun = PodActions::new();
    scale(derived, &leaving, &mut begun);
    if begun.actions.is_empty() || begun.is_refused(derived) {
        update(derived, &chosen, &leaving, &mut begun);
    }
    let mut pod_actions = PodActions::new();
    for pod in derived.pods.iter().filter(|pod| !begun.changes(pod)) {
        pod_actions.refresh(derived, pod);
    }
    replace_ended(derived, &mut pod_actions);
    pod_actions.actions.extend(pod_hooks::clean_up(derived, &wanted(derived, &leaving, &chosen)));
    pod_actions.actions.extend(retried);
    pod_actions.then(begun);
    pod_actions
}

/// Pods to delete, and the number of pods to make.
struct Leaving<'a> {
    /// Pods that were named for deletion.
    named: Vec<&'a Pod>,
    /// Surplus pods.
    surplus: Vec<&'a Pod>,
    scaling: Scaling,
}

impl<'a> Leaving<'a> {
    fn of(derived: &Derived<'a>) -> Self {
        let Observed { plan, update, .. } = derived.seen;
        let is_named = |pod: &&&Pod| plan.pods_to_delete.contains(&pod.name);
        let named: Vec<&Pod> = derived.pods.iter().filter(is_named).copied().collect();
        let rest = derived.pods.iter().filter(|pod| !is_named(pod)).copied();
        let (mut updated, mut old): (Vec<&Pod>, Vec<&Pod>) =
            rest.partition(|pod| pod.is_of(update));
        let is_leaving = |pod: &Pod| pod.is_marked || derived.is_asked(pod);
        sort_for_deletion(&mut old, plan.costs, is_leaving);
        sort_for_deletion(&mut updated, plan.costs, is_leaving);
        let budget = Budget::of_deployment(plan.max_unavailable, plan.max_surge, plan.replicas);
        let standing = Standing {
            updated: updated.len(),
            idle: updated.iter().filter(|pod| !derived.is_serving(pod)).count(),
            old: old.len(),
            idle_old: old.iter().filter(|pod| !derived.is_serving(pod)).count(),
            replicas: plan.replicas,
            partition: derived.partition_of_new_pods(),
            max_surge: budget.surge,
            differs: derived.differs(),
            hold: match (derived.is_held(), derived.is_halted) {
                (true, _) => Hold::Paused,
                (false, true) => Hold::Halted,
                (false, false) => Hold::Free,
            },
            spares_serving: derived.is_held(),
        };
        let serving = updated.iter().chain(&old).filter(|pod| derived.is_serving(pod)).count();
        let least = serving.min(plan.replicas.saturating_sub(budget.unavailable));
        let mut leaving = Self { named, surplus: Vec::new(), scaling: standing.scaling() };
        leaving.surplus = take(&old, &updated, leaving.scaling);
        let is_missed = || {
            let going = leaving.surplus.iter().filter(|pod| derived.is_serving(pod)).count();
            serving.saturating_sub(going) < least
        };
        if standing.spares_serving || is_missed() {
            // Pods that do not serve are the surplus, even if others were chosen before.
            old.sort_by_key(|pod| derived.is_serving(pod));
            updated.sort_by_key(|pod| derived.is_serving(pod));
            leaving.scaling = Standing { spares_serving: true, ..standing }.scaling();
            leaving.surplus = take(&old, &updated, leaving.scaling);
        }
        leaving
    }

    fn has(&self, pod: &Pod) -> bool {
        self.named.iter().chain(&self.surplus).any(|leaving| leaving.uid == pod.uid)
    }
}

/// The first of both lists, as many as are surplus.
fn take<'a>(old: &[&'a Pod], updated: &[&'a Pod], scaling: Scaling) -> Vec<&'a Pod> {
    let old = old.iter().take(scaling.delete_old);
    old.chain(updated.iter().take(scaling.delete_new)).copied().collect()
}

fn wanted<'a>(derived: &Derived<'a>, leaving: &Leaving<'a>, chosen: &[&'a Pod]) -> Wanted<'a> {
    let uids = |pods: &[&'a Pod]| pods.iter().map(|pod| pod.uid.as_str()).collect();
    let updated = candidates(derived, leaving);
    let mut deleted: Vec<&Pod> = leaving.named.iter().chain(&leaving.surplus).copied().collect();
    if replaces(derived) {
        deleted.extend(&updated);
    }
    Wanted { deleted: uids(&deleted), updated: uids(&updated), next: uids(chosen) }
}

fn replaces(derived: &Derived<'_>) -> bool {
    derived.seen.plan.way == UpdateWay::Recreate || derived.seen.plan.falls_back
}

/// Pods that ended do not count, and are replaced.
fn replace_ended(derived: &Derived<'_>, pod_actions: &mut PodActions) {
    for pod in derived.seen.pods.iter().filter(|pod| !pod.is_terminating) {
        pod_actions.replace_ended(pod);
    }
}

fn scale(derived: &Derived<'_>, leaving: &Leaving<'_>, pod_actions: &mut PodActions) {
    let mut deleted = 0;
    for pod in &leaving.named {
        let outcome = pod_actions.delete(derived, pod, Departure::Named);
        deleted += usize::from(matches!(outcome, Outcome::Done));
    }
    if !pod_actions.actions.is_empty() {
        pod_actions.because(Fact::Scaling { created: 0, deleted });
        return;
    }
    for pod in &leaving.surplus {
        let outcome = pod_actions.delete(derived, pod, Departure::Surplus);
        deleted += usize::from(matches!(outcome, Outcome::Done));
    }
    let created = create(derived, leaving, pod_actions);
    if created + deleted > 0 {
        pod_actions.because(Fact::Scaling { created, deleted });
    }
}

/// Why no pod can be made at all.
fn cannot_create(derived: &Derived<'_>) -> Option<Fact> {
    let plan = &derived.seen.plan;
    match &plan.indexes {
        Indexes::Off => None,
        Indexes::Unreadable(why) => Some(Fact::IndexesUnreadable(why.clone())),
        Indexes::Range(start, end) => {
            let indexes = end.saturating_sub(*start).max(0);
            let is_short = i64::try_from(plan.replicas).unwrap_or(i64::MAX) > indexes;
            is_short.then_some(Fact::NoIndex { replicas: plan.replicas, indexes })
        }
    }
}

/// Numbers that no pod has, not even one that is being deleted: no two pods may have the same.
fn free_indexes(seen: &Observed) -> impl Iterator<Item = i64> {
    let (start, end) = match seen.plan.indexes {
        Indexes::Range(start, end) => (start, end),
        Indexes::Off | Indexes::Unreadable(_) => (0, 0),
    };
    let used: BTreeSet<i64> = seen.pods.iter().filter_map(|pod| pod.index).collect();
    (start..end).filter(move |index| !used.contains(index))
}

fn create(derived: &Derived<'_>, leaving: &Leaving<'_>, pod_actions: &mut PodActions) -> usize {
    let Observed { plan, update, .. } = derived.seen;
    let scaling = leaving.scaling;
    if let Some(fact) = cannot_create(derived) {
        let is_wanted = scaling.create_old + scaling.create_new > 0;
        // An unreadable range is announced before a pod is missing.
        if is_wanted || matches!(fact, Fact::IndexesUnreadable(_)) {
            pod_actions.add_condition(ConditionKind::FailedScale, &fact);
        }
        if is_wanted {
            pod_actions.because(fact);
        }
        return 0;
    }
    let mut free = free_indexes(derived.seen);
    let mut total = derived.pods.iter().filter(|pod| !leaving.has(pod)).count();
    let old = std::iter::repeat_n(&derived.base, scaling.create_old);
    let new = std::iter::repeat_n(update, scaling.create_new);
    let mut created = 0;
    for revision in old.chain(new).take(CREATED_MAX) {
        let index = free.next();
        total += 1;
        // Only pods on top of the replicas do without a number.
        if index.is_none() && plan.indexes != Indexes::Off && total <= plan.replicas {
            pod_actions.because(Fact::AwaitingIndex);
            break;
        }
        pod_actions.actions.push(Action::Create(NewPod {
            revision: revision.clone(),
            ordinal: None,
            index,
        }));
        created += 1;
    }
    created
}

/// Pods to update, in order: those of an abandoned release, those with a hook begun or a mark, and then the
/// least useful. The partition says how many of the last ones stay.
fn candidates<'a>(derived: &Derived<'a>, leaving: &Leaving<'_>) -> Vec<&'a Pod> {
    let Observed { update, .. } = derived.seen;
    let working = derived.pods.iter().filter(|pod| !leaving.has(pod)).copied();
    let mut waiting: Vec<&Pod> = working.filter(|pod| !pod.is_of(update)).collect();
    waiting.sort_by(|one, other| {
        let rank = |pod: &Pod| (!derived.is_abandoned(pod), !derived.is_asked(pod), !pod.is_marked);
        rank(one).cmp(&rank(other)).then_with(|| by_use(one, other))
    });
    waiting.truncate(waiting.len().saturating_sub(derived.partition));
    waiting
}

/// Those of them that may be out of service now. Pods that are out of service already always may.
fn choose<'a>(derived: &Derived<'a>, leaving: &Leaving<'_>) -> Vec<&'a Pod> {
    let plan = &derived.seen.plan;
    if derived.is_paused() || plan.way == UpdateWay::OnDelete {
        return Vec::new();
    }
    // No pod could take the place of one that is deleted for its revision.
    if plan.way == UpdateWay::Recreate && cannot_create(derived).is_some() {
        return Vec::new();
    }
    let working: Vec<&&Pod> = derived.pods.iter().filter(|pod| !leaving.has(pod)).collect();
    let budget = Budget::of_deployment(plan.max_unavailable, plan.max_surge, plan.replicas);
    let mut out = working.iter().filter(|pod| !derived.is_serving(pod)).count();
    let may_be_out = (budget.unavailable + working.len()).saturating_sub(plan.replicas);
    let mut chosen = Vec::new();
    for pod in candidates(derived, leaving) {
        // A pod that cannot be updated takes no place of another; it is only announced.
        if derived.is_serving(pod) && in_place::is_possible(derived, pod) {
            if out >= may_be_out {
                continue;
            }
            out += 1;
        }
        chosen.push(pod);
    }
    chosen
}

fn update(
    derived: &Derived<'_>,
    chosen: &[&Pod],
    leaving: &Leaving<'_>,
    pod_actions: &mut PodActions,
) {
    let mut updated = 0;
    for pod in chosen {
        updated += usize::from(matches!(pod_actions.update(derived, pod), Outcome::Done));
    }
    if updated > 0 {
        pod_actions.because(Fact::Updating(updated));
    } else if chosen.is_empty() && !derived.is_paused() && !candidates(derived, leaving).is_empty()
    {
        pod_actions.because(Fact::AwaitingBudget);
    }
}
