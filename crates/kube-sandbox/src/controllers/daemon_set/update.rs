//! Rolling update of a DaemonSet, a few nodes at a time.

use serde_json::Value;

use super::{Look, Placement, Plan, placement};
use crate::{
    controllers::object::{is_deleting, name},
    failure::Outcome,
};

/// The pods of one node that are not being deleted.
struct OnNode<'a> {
    node: &'a str,
    new: Option<&'a Value>,
    old: Option<&'a Value>,
    /// More than one pod of a kind; the next reconcile prunes them first.
    crowded: bool,
}

impl Look<'_> {
    /// One step of a rolling update.
    pub(super) fn roll(&mut self) -> Outcome<()> {
        let wanted = |node: &&Value| placement(self.set, node) == Placement::Run;
        let mut names: Vec<_> =
            self.nodes.iter().filter(wanted).map(|node| name(node).to_owned()).collect();
        let desired = i64::try_from(names.len()).unwrap_or(i64::MAX);
        names.extend(self.daemons.keys().cloned());
        names.sort();
        names.dedup();
        let (surge, unavailable) = self.allowances(desired);
        let nodes: Vec<_> = names.iter().map(|node| self.on_node(node)).collect();
        let plan = if surge == 0 {
            self.replace(&nodes, unavailable)
        } else {
            self.surge(&nodes, surge, desired)
        };
        self.carry_out(plan).map(|_| ())
    }

    fn on_node<'n>(&'n self, node: &'n str) -> OnNode<'n> {
        let daemons = self.daemons.get(node).map_or(&[][..], Vec::as_slice);
        let living = daemons.iter().filter(|pod| !is_deleting(pod));
        let (new, old): (Vec<_>, Vec<_>) = living.partition(|pod| self.is_updated(pod));
        OnNode {
            node,
            crowded: new.len() > 1 || old.len() > 1,
            new: new.first().copied(),
            old: old.first().copied(),
        }
    }

    /// Deletes old pods: unusable ones at once, others within `maxUnavailable`.
    fn replace(&self, nodes: &[OnNode<'_>], max_unavailable: i64) -> Plan {
        let mut plan = Plan::default();
        let (mut unavailable, mut candidates) = (0, Vec::new());
        for on_node in nodes {
            match (on_node.new, on_node.old) {
                _ if on_node.crowded => unavailable += 1,
                (Some(new), None) => unavailable += i64::from(!self.is_available(new)),
                (None, Some(old)) if self.is_available(old) => candidates.push(old),
                (None, Some(old)) => {
                    plan.delete.push(name(old).to_owned());
                    unavailable += 1;
                }
                (None, None) | (Some(_), Some(_)) => unavailable += 1,
            }
        }
        let room = usize::try_from(max_unavailable - unavailable).unwrap_or_default();
        plan.delete.extend(candidates.into_iter().take(room).map(|old| name(old).to_owned()));
        plan
    }

    /// Creates new pods beside old ones, and deletes an old pod when its successor is available.
    fn surge(&self, nodes: &[OnNode<'_>], max_surge: i64, desired: i64) -> Plan {
        let mut plan = Plan::default();
        let (mut surging, mut available) = (0, 0);
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for on_node in nodes {
            if on_node.crowded {
                surging += 1;
                continue;
            }
            let serving = on_node.old.or(on_node.new);
            available += i64::from(serving.is_some_and(|pod| self.is_available(pod)));
            match (on_node.new, on_node.old) {
                (_, None) => {}
                (None, Some(old)) => match (self.runs_on(on_node.node), self.is_available(old)) {
                    (true, true) => candidates.push(on_node.node.to_owned()),
                    (true, false) => plan.create_on.push(on_node.node.to_owned()),
                    (false, true) => misplaced.push(name(old).to_owned()),
                    (false, false) => plan.delete.push(name(old).to_owned()),
                },
                (Some(new), Some(old)) if self.is_available(new) => {
                    plan.delete.push(name(old).to_owned());
                }
                (Some(_), Some(_)) => surging += 1,
            }
        }
        let room = usize::try_from(max_surge - surging).unwrap_or_default();
        plan.create_on.extend(candidates.into_iter().take(room));
        // A pod on a node that is no longer eligible stays until another has taken its place.
        let spare = usize::try_from(available - desired).unwrap_or_default();
        plan.delete.extend(misplaced.into_iter().take(spare));
        plan
    }

    fn runs_on(&self, node: &str) -> bool {
        let node = self.nodes.iter().find(|known| name(known) == node);
        node.is_some_and(|node| placement(self.set, node) == Placement::Run)
    }
}
