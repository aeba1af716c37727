//! Pods without identity: how many there are, and which are updated next.

use std::collections::BTreeSet;

use super::{
    Action, Budget, ConditionKind, Departure, Fact, Hold, Indexes, NewPod, Observed, Pod, Scaling,
    Standing, UpdateWay, by_use, in_place,
    pod_hooks::{self, Wanted},
    sort_for_deletion,
    view::View,
    work::{Outcome, Work},
};

/// Pods made in one look at most; the next look goes on.
const CREATED_MAX: usize = 100;

/// What is to be done to the pods.
pub(super) fn work(view: &View<'_>) -> Work {
    let retried = pod_hooks::retry(view.seen);
    let leaving = Leaving::of(view);
    let chosen = choose(view, &leaving);
    let mut begun = Work::new();
    scale(view, &leaving, &mut begun);
    if begun.actions.is_empty() || begun.is_refused(view) {
        update(view, &chosen, &leaving, &mut begun);
    }
    let mut work = Work::new();
    for pod in view.pods.iter().filter(|pod| !begun.changes(pod)) {
        work.refresh(view, pod);
    }
    replace_ended(view, &mut work);
    work.actions.extend(pod_hooks::clean_up(view, &wanted(view, &leaving, &chosen)));
    work.actions.extend(retried);
    work.then(begun);
    work
}

/// Pods that are to be deleted, and how many are to be made.
struct Leaving<'a> {
    /// Asked for by name.
    named: Vec<&'a Pod>,
    /// Too many.
    surplus: Vec<&'a Pod>,
    scaling: Scaling,
}

impl<'a> Leaving<'a> {
    fn of(view: &View<'a>) -> Self {
        let Observed { plan, update, .. } = view.seen;
        let is_named = |pod: &&&Pod| plan.pods_to_delete.contains(&pod.name);
        let named: Vec<&Pod> = view.pods.iter().filter(is_named).copied().collect();
        let rest = view.pods.iter().filter(|pod| !is_named(pod)).copied();
        let (mut updated, mut old): (Vec<&Pod>, Vec<&Pod>) =
            rest.partition(|pod| pod.is_of(update));
        let is_leaving = |pod: &Pod| pod.is_marked || view.is_asked(pod);
        sort_for_deletion(&mut old, plan.costs, is_leaving);
        sort_for_deletion(&mut updated, plan.costs, is_leaving);
        let budget = Budget::of_deployment(plan.max_unavailable, plan.max_surge, plan.replicas);
        let standing = Standing {
            updated: updated.len(),
            idle: updated.iter().filter(|pod| !view.is_serving(pod)).count(),
            old: old.len(),
            idle_old: old.iter().filter(|pod| !view.is_serving(pod)).count(),
            replicas: plan.replicas,
            partition: view.partition_of_new_pods(),
            max_surge: budget.surge,
            differs: view.differs(),
            hold: match (view.is_held(), view.is_halted) {
                (true, _) => Hold::Paused,
                (false, true) => Hold::Halted,
                (false, false) => Hold::Free,
            },
            spares_serving: view.is_held(),
        };
        let serving = updated.iter().chain(&old).filter(|pod| view.is_serving(pod)).count();
        let least = serving.min(plan.replicas.saturating_sub(budget.unavailable));
        let mut leaving = Self { named, surplus: Vec::new(), scaling: standing.scaling() };
        leaving.surplus = take(&old, &updated, leaving.scaling);
        let is_missed = || {
            let going = leaving.surplus.iter().filter(|pod| view.is_serving(pod)).count();
            serving.saturating_sub(going) < least
        };
        if standing.spares_serving || is_missed() {
            // Those that do not serve are the ones that are too many, whoever was told to go before.
            old.sort_by_key(|pod| view.is_serving(pod));
            updated.sort_by_key(|pod| view.is_serving(pod));
            leaving.scaling = Standing { spares_serving: true, ..standing }.scaling();
            leaving.surplus = take(&old, &updated, leaving.scaling);
        }
        leaving
    }

    fn has(&self, pod: &Pod) -> bool {
        self.named.iter().chain(&self.surplus).any(|leaving| leaving.uid == pod.uid)
    }
}

/// The first of both, as many as are too many.
fn take<'a>(old: &[&'a Pod], updated: &[&'a Pod], scaling: Scaling) -> Vec<&'a Pod> {
    let old = old.iter().take(scaling.delete_old);
    old.chain(updated.iter().take(scaling.delete_new)).copied().collect()
}

fn wanted<'a>(view: &View<'a>, leaving: &Leaving<'a>, chosen: &[&'a Pod]) -> Wanted<'a> {
    let uids = |pods: &[&'a Pod]| pods.iter().map(|pod| pod.uid.as_str()).collect();
    let updated = candidates(view, leaving);
    let mut deleted: Vec<&Pod> = leaving.named.iter().chain(&leaving.surplus).copied().collect();
    if replaces(view) {
        deleted.extend(&updated);
    }
    Wanted { deleted: uids(&deleted), updated: uids(&updated), next: uids(chosen) }
}

fn replaces(view: &View<'_>) -> bool {
    view.seen.plan.way == UpdateWay::Recreate || view.seen.plan.falls_back
}

/// Pods that ended are of no use to anybody, and do not count: others are made for them.
fn replace_ended(view: &View<'_>, work: &mut Work) {
    for pod in view.seen.pods.iter().filter(|pod| !pod.is_terminating) {
        work.replace_ended(pod);
    }
}

fn scale(view: &View<'_>, leaving: &Leaving<'_>, work: &mut Work) {
    let mut deleted = 0;
    for pod in &leaving.named {
        let outcome = work.delete(view, pod, Departure::Named);
        deleted += usize::from(matches!(outcome, Outcome::Done));
    }
    if !work.actions.is_empty() {
        work.because(Fact::Scaling { created: 0, deleted });
        return;
    }
    for pod in &leaving.surplus {
        let outcome = work.delete(view, pod, Departure::Surplus);
        deleted += usize::from(matches!(outcome, Outcome::Done));
    }
    let created = create(view, leaving, work);
    if created + deleted > 0 {
        work.because(Fact::Scaling { created, deleted });
    }
}

/// Why no pod can be made at all.
fn cannot_create(view: &View<'_>) -> Option<Fact> {
    let plan = &view.seen.plan;
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

/// Numbers that no pod has, also none that is on its way out: two with one number would be one too many.
fn free_indexes(seen: &Observed) -> impl Iterator<Item = i64> {
    let (start, end) = match seen.plan.indexes {
        Indexes::Range(start, end) => (start, end),
        Indexes::Off | Indexes::Unreadable(_) => (0, 0),
    };
    let used: BTreeSet<i64> = seen.pods.iter().filter_map(|pod| pod.index).collect();
    (start..end).filter(move |index| !used.contains(index))
}

fn create(view: &View<'_>, leaving: &Leaving<'_>, work: &mut Work) -> usize {
    let Observed { plan, update, .. } = view.seen;
    let scaling = leaving.scaling;
    if let Some(fact) = cannot_create(view) {
        let is_wanted = scaling.create_old + scaling.create_new > 0;
        // What nobody can read is told before a pod is missing.
        if is_wanted || matches!(fact, Fact::IndexesUnreadable(_)) {
            work.trouble(ConditionKind::FailedScale, &fact);
        }
        if is_wanted {
            work.because(fact);
        }
        return 0;
    }
    let mut free = free_indexes(view.seen);
    let mut total = view.pods.iter().filter(|pod| !leaving.has(pod)).count();
    let old = std::iter::repeat_n(&view.base, scaling.create_old);
    let new = std::iter::repeat_n(update, scaling.create_new);
    let mut created = 0;
    for revision in old.chain(new).take(CREATED_MAX) {
        let index = free.next();
        total += 1;
        // Only those on top of the replicas do without.
        if index.is_none() && plan.indexes != Indexes::Off && total <= plan.replicas {
            work.because(Fact::AwaitingIndex);
            break;
        }
        work.actions.push(Action::Create(NewPod {
            revision: revision.clone(),
            ordinal: None,
            index,
        }));
        created += 1;
    }
    created
}

/// Pods that are to be updated, the first first: those of an abandoned release, those that were told
/// so already, and then the least useful. The last ones stay, as many as the partition says.
fn candidates<'a>(view: &View<'a>, leaving: &Leaving<'_>) -> Vec<&'a Pod> {
    let Observed { update, .. } = view.seen;
    let working = view.pods.iter().filter(|pod| !leaving.has(pod)).copied();
    let mut waiting: Vec<&Pod> = working.filter(|pod| !pod.is_of(update)).collect();
    waiting.sort_by(|one, other| {
        let rank = |pod: &Pod| (!view.is_abandoned(pod), !view.is_asked(pod), !pod.is_marked);
        rank(one).cmp(&rank(other)).then_with(|| by_use(one, other))
    });
    waiting.truncate(waiting.len().saturating_sub(view.partition));
    waiting
}

/// Those of them that may be out of service now. Who is out of service already always may.
fn choose<'a>(view: &View<'a>, leaving: &Leaving<'_>) -> Vec<&'a Pod> {
    let plan = &view.seen.plan;
    if view.is_paused() || plan.way == UpdateWay::OnDelete {
        return Vec::new();
    }
    // Nothing could take the place of a pod that is deleted for its revision.
    if plan.way == UpdateWay::Recreate && cannot_create(view).is_some() {
        return Vec::new();
    }
    let working: Vec<&&Pod> = view.pods.iter().filter(|pod| !leaving.has(pod)).collect();
    let budget = Budget::of_deployment(plan.max_unavailable, plan.max_surge, plan.replicas);
    let mut out = working.iter().filter(|pod| !view.is_serving(pod)).count();
    let may_be_out = (budget.unavailable + working.len()).saturating_sub(plan.replicas);
    let mut chosen = Vec::new();
    for pod in candidates(view, leaving) {
        // Who cannot be updated takes nobody's place; it is only told.
        if view.is_serving(pod) && in_place::is_possible(view, pod) {
            if out >= may_be_out {
                continue;
            }
            out += 1;
        }
        chosen.push(pod);
    }
    chosen
}

fn update(view: &View<'_>, chosen: &[&Pod], leaving: &Leaving<'_>, work: &mut Work) {
    let mut updated = 0;
    for pod in chosen {
        updated += usize::from(matches!(work.update(view, pod), Outcome::Done));
    }
    if updated > 0 {
        work.because(Fact::Updating(updated));
    } else if chosen.is_empty() && !view.is_paused() && !candidates(view, leaving).is_empty() {
        work.because(Fact::AwaitingBudget);
    }
}
