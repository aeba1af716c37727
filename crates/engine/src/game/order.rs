//! The order in which pods are deleted and updated.

use std::cmp::{Ordering, Reverse};

use super::pod::{Pod, Ready};

/// In which direction the cost of a pod's deletion is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CostOrder {
    /// The cheapest goes first.
    #[default]
    Ascend,
    /// The dearest goes first.
    Descend,
}

/// The least useful first: those without a node, not started, not ready, ready for the shortest
/// time, restarted most often, youngest. Ties are in the order of names, so that every look sees the
/// same.
pub fn by_use(one: &Pod, other: &Pod) -> Ordering {
    (one.is_assigned, one.phase, one.is_ready())
        .cmp(&(other.is_assigned, other.phase, other.is_ready()))
        .then_with(|| ready_since(one).cmp(&ready_since(other)))
        .then_with(|| other.restarts.cmp(&one.restarts))
        .then_with(|| newest_first(one).cmp(&newest_first(other)))
        .then_with(|| one.name.cmp(&other.name))
}

/// Sorts those to be deleted to the front: first those that are leaving already, then by cost, then by use.
///
/// A pod without a cost costs nothing, as everywhere in Kubernetes; a node without one is dearer
/// than any that has one.
pub fn sort_for_deletion(pods: &mut [&Pod], costs: CostOrder, is_leaving: impl Fn(&Pod) -> bool) {
    pods.sort_by(|one, other| {
        is_leaving(other)
            .cmp(&is_leaving(one))
            .then_with(|| node_cost(one).total_cmp(&node_cost(other)))
            .then_with(|| match costs {
                CostOrder::Ascend => cost(one).total_cmp(&cost(other)),
                CostOrder::Descend => cost(other).total_cmp(&cost(one)),
            })
            .then_with(|| by_use(one, other))
    });
}

/// The shorter it is ready the smaller; unknown is smallest.
fn ready_since(pod: &Pod) -> Option<Reverse<i64>> {
    match pod.ready {
        Ready::Since(Some(since)) => Some(Reverse(since.0)),
        Ready::Since(None) | Ready::No => None,
    }
}

fn newest_first(pod: &Pod) -> Option<Reverse<i64>> {
    pod.created.map(|created| Reverse(created.0))
}

fn cost(pod: &Pod) -> f64 {
    // Zero has two signs, and they are told apart when compared.
    pod.cost.filter(|cost| !cost.is_nan()).unwrap_or_default() + 0.0
}

fn node_cost(pod: &Pod) -> f64 {
    pod.node_cost.filter(|cost| !cost.is_nan()).unwrap_or(f64::INFINITY) + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Moment,
        game::pod::{PodPhase, tests::pod},
    };

    fn with(name: &str, change: impl FnOnce(&mut Pod)) -> Pod {
        let mut pod = pod(name, "r1");
        change(&mut pod);
        pod
    }

    fn sorted(pods: &[Pod], costs: CostOrder) -> Vec<String> {
        let mut list: Vec<&Pod> = pods.iter().collect();
        sort_for_deletion(&mut list, costs, |pod| pod.is_marked);
        list.iter().map(|pod| pod.name.clone()).collect()
    }

    #[test]
    fn the_least_useful_pod_comes_first() {
        let ready = |at| Ready::Since(Some(Moment(at)));
        let in_order = [
            with("no-node", |pod| pod.is_assigned = false),
            with("pending", |pod| pod.phase = PodPhase::Pending),
            with("unknown", |pod| pod.phase = PodPhase::Unknown),
            with("not-ready", |pod| pod.ready = Ready::No),
            with("ready-unknown", |pod| pod.ready = Ready::Since(None)),
            with("ready-lately", |pod| pod.ready = ready(900)),
            with("restarted", |pod| pod.restarts = 3),
            with("unborn", |pod| pod.created = None),
            with("young", |pod| pod.created = Some(Moment(800))),
            with("old-a", |_| {}),
            with("old-b", |_| {}),
        ];
        for pair in in_order.windows(2) {
            assert_eq!(by_use(&pair[0], &pair[1]), Ordering::Less, "{}", pair[0].name);
            assert_eq!(by_use(&pair[1], &pair[0]), Ordering::Greater, "{}", pair[1].name);
        }
    }

    // Game workloads, mistake 25: docs/mistakes.md.
    #[test]
    fn the_cheapest_is_deleted_first_and_no_cost_is_nothing() {
        let pods = [
            with("dear", |pod| pod.cost = Some(5.0)),
            with("plain", |_| {}),
            with("cheap", |pod| pod.cost = Some(-1.0)),
        ];
        assert_eq!(sorted(&pods, CostOrder::Ascend), ["cheap", "plain", "dear"]);
        assert_eq!(sorted(&pods, CostOrder::Descend), ["dear", "plain", "cheap"]);
    }

    #[test]
    fn the_node_counts_before_the_pod() {
        let pods = [
            with("cheap", |pod| pod.cost = Some(-9.0)),
            with("node", |pod| pod.node_cost = Some(100.0)),
        ];
        assert_eq!(sorted(&pods, CostOrder::Ascend), ["node", "cheap"]);
    }

    #[test]
    fn a_pod_that_was_told_to_go_stays_the_one_to_go() {
        let pods = [
            with("cheap", |pod| pod.cost = Some(-9.0)),
            with("leaving", |pod| pod.is_marked = true),
        ];
        assert_eq!(sorted(&pods, CostOrder::Ascend), ["leaving", "cheap"]);
    }

    #[test]
    fn a_cost_that_is_no_number_is_none() {
        let pods = [
            with("cheap", |pod| pod.cost = Some(-1.0)),
            with("nan", |pod| pod.cost = Some(f64::NAN)),
            with("plain", |pod| pod.cost = Some(-0.0)),
        ];
        assert_eq!(sorted(&pods, CostOrder::Ascend), ["cheap", "nan", "plain"]);
    }
}
