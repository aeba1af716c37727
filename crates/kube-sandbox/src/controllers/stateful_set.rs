//! Keeps the numbered pods of a StatefulSet: `web-0`, `web-1`, ...
//!
//! With `OrderedReady` pods start in order and stop in reverse order, each waiting for the one
//! before; `Parallel` does not wait. A rolling update replaces pods from the highest number down to
//! the partition, never more than one (or `maxUnavailable`) at a time.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Deletion, PODS, STATEFUL_SETS},
    controllers::{
        Change, Controller, Key, Next,
        claim::Claims,
        events::{Happening, Recorder, normal, warning},
        intstr::{Rounding, scaled_or},
        object::{
            Kind, count, int, is_deleting, label, name, namespace, set_at, set_count, settle, text,
            write_status,
        },
        pods,
        revisions::{self, History, Style},
    },
    failure::Outcome,
};

mod pod;

pub(crate) const STATEFUL_SET: Kind = Kind { api_version: "apps/v1", kind: "StatefulSet" };
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";

const STYLE: Style = Style {
    owner: STATEFUL_SET,
    resource: STATEFUL_SETS,
    hash_label: "controller.kubernetes.io/hash",
};

#[derive(Debug)]
pub(crate) struct StatefulSetController {
    claims: Claims,
    recorder: Recorder,
}

/// State of one reconcile of one StatefulSet.
struct Look<'a> {
    cluster: &'a dyn Cluster,
    recorder: &'a mut Recorder,
    set: &'a Value,
    now: Timestamp,
    /// The revision of pods below the partition.
    current: Value,
    /// The revision of the current template.
    update: Value,
    /// The pod of each requested number, in order; `None` where it does not exist.
    replicas: Vec<Option<Value>>,
    /// Pods with other numbers, highest first.
    condemned: Vec<Value>,
}

/// Whether this reconcile continues with the next pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    GoOn,
    Wait,
}

// === impl StatefulSetController ===

impl Default for StatefulSetController {
    fn default() -> Self {
        Self {
            claims: Claims::new(STATEFUL_SET, STATEFUL_SETS, PODS),
            recorder: Recorder::new("statefulset-controller"),
        }
    }
}

impl Controller for StatefulSetController {
    fn name(&self) -> &'static str {
        "statefulset"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("apps", "statefulsets"), ("", "pods")]
    }

    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        if change.plural == "pods" {
            return self.claims.owners(cluster, change);
        }
        vec![Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() }]
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(set) = cluster.get(STATEFUL_SETS, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        settle(self.sync(cluster, &set))
    }
}

impl StatefulSetController {
    fn sync(&mut self, cluster: &dyn Cluster, set: &Value) -> Outcome<Next> {
        let members = self.claims.members(cluster, set)?;
        let History { current: update, all } = revisions::history(cluster, STYLE, set)?;
        let current = all.iter().find(|one| name(one) == text(set, "/status/currentRevision"));
        let current = current.unwrap_or(&update).clone();
        let live: Vec<String> = members.iter().map(|pod| revision(pod).to_owned()).collect();
        let mut look = Look {
            cluster,
            recorder: &mut self.recorder,
            set,
            now: cluster.now(),
            current: current.clone(),
            update: update.clone(),
            replicas: Vec::new(),
            condemned: Vec::new(),
        };
        look.sort_out(members);
        let acted = if is_deleting(set) { Ok(()) } else { look.act() };
        let next = look.report()?;
        acted?;
        let in_use = [name(&current).to_owned(), name(&update).to_owned()];
        revisions::truncate(cluster, set, &all, |revision| {
            in_use.iter().chain(&live).any(|live| live == name(revision))
        })?;
        Ok(next)
    }
}

/// The revision label of a pod.
fn revision(pod: &Value) -> &str {
    label(pod, REVISION_LABEL).unwrap_or_default()
}

fn is_running_and_ready(pod: &Value) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}

// === impl Look ===

impl Look<'_> {
    fn start(&self) -> i64 {
        count(self.set, "/spec/ordinals/start")
    }

    fn wanted(&self) -> i64 {
        int(self.set, "/spec/replicas").unwrap_or(1).max(0)
    }

    fn is_ordered(&self) -> bool {
        text(self.set, "/spec/podManagementPolicy") != "Parallel"
    }

    fn min_ready_s(&self) -> i64 {
        count(self.set, "/spec/minReadySeconds")
    }

    fn is_unavailable(&self, pod: &Value) -> bool {
        is_deleting(pod) || !pods::is_available(pod, self.min_ready_s(), self.now)
    }

    fn sort_out(&mut self, members: Vec<Value>) {
        let wanted = usize::try_from(self.wanted()).unwrap_or_default();
        self.replicas = vec![None; wanted];
        for pod in members {
            let Some(ordinal) = pod::ordinal(self.set, &pod) else { continue };
            let place = usize::try_from(ordinal - self.start()).ok();
            match place.and_then(|place| self.replicas.get_mut(place)) {
                Some(place) => *place = Some(pod),
                None => self.condemned.push(pod),
            }
        }
        self.condemned.sort_by_key(|pod| std::cmp::Reverse(pod::ordinal(self.set, pod)));
    }

    fn act(&mut self) -> Outcome<()> {
        for place in 0..self.replicas.len() {
            if self.tend(place)? == Step::Wait {
                return Ok(());
            }
        }
        if self.shrink()? == Step::Wait {
            return Ok(());
        }
        if text(self.set, "/spec/updateStrategy/type") == "OnDelete" {
            return Ok(());
        }
        self.roll()
    }

    /// Creates or replaces the pod at `place`, or waits for it.
    fn tend(&mut self, place: usize) -> Outcome<Step> {
        let waiting = if self.is_ordered() { Step::Wait } else { Step::GoOn };
        let Some(pod) = self.replicas.get(place).cloned().flatten() else {
            let ordinal = self.start() + i64::try_from(place).unwrap_or(i64::MAX);
            let created = self.create(ordinal)?;
            if let Some(slot) = self.replicas.get_mut(place) {
                *slot = Some(created);
            }
            return Ok(waiting);
        };
        if pods::is_terminal(&pod) {
            if !is_deleting(&pod) {
                self.delete(&pod)?;
            }
            return Ok(waiting);
        }
        if self.is_unavailable(&pod) || !is_running_and_ready(&pod) {
            return Ok(waiting);
        }
        Ok(Step::GoOn)
    }

    /// Removes pods beyond the replica count, highest first.
    fn shrink(&mut self) -> Outcome<Step> {
        let first_unhealthy = self.condemned.iter().rev().find(|pod| self.is_unavailable(pod));
        let first_unhealthy = first_unhealthy.map(|pod| name(pod).to_owned());
        for pod in self.condemned.clone() {
            if is_deleting(&pod) {
                if self.is_ordered() {
                    return Ok(Step::Wait);
                }
                continue;
            }
            let blocked =
                self.is_unavailable(&pod) && first_unhealthy.as_deref() != Some(name(&pod));
            if self.is_ordered() && blocked {
                return Ok(Step::Wait);
            }
            self.delete(&pod)?;
            if self.is_ordered() {
                return Ok(Step::Wait);
            }
        }
        Ok(Step::GoOn)
    }

    /// Deletes outdated pods, highest first, within `maxUnavailable`.
    fn roll(&mut self) -> Outcome<()> {
        let strategy =
            |key: &str| self.set.pointer(&format!("/spec/updateStrategy/rollingUpdate/{key}"));
        let partition = strategy("partition").and_then(Value::as_i64).unwrap_or_default();
        let partition = usize::try_from(partition).unwrap_or_default();
        let budget = scaled_or(strategy("maxUnavailable"), self.wanted(), Rounding::Down, 1).max(1);
        let mut budget = usize::try_from(budget).unwrap_or(1);
        for place in (0..self.replicas.len()).rev() {
            let Some(pod) = self.replicas.get(place).cloned().flatten() else { continue };
            if budget == 0 || place < partition {
                return Ok(());
            }
            if revision(&pod) != name(&self.update) && !is_deleting(&pod) {
                self.delete(&pod)?;
                budget -= 1;
                if let Some(slot) = self.replicas.get_mut(place) {
                    // Deleted or terminating: it no longer counts as a pod of the current revision.
                    *slot = self.cluster.get(PODS, namespace(&pod), name(&pod));
                }
            } else if self.is_unavailable(&pod) {
                budget -= 1;
            }
        }
        Ok(())
    }

    fn create(&mut self, ordinal: i64) -> Outcome<Value> {
        let revision = if self.is_below_partition(ordinal) { &self.current } else { &self.update };
        pod::create_claims(self.cluster, self.set, ordinal)?;
        let pod = pod::build(self.set, revision, ordinal);
        let pod_name = name(&pod).to_owned();
        let act = format!("create Pod {pod_name} in StatefulSet {}", name(self.set));
        match self.cluster.create(PODS, namespace(self.set), pod) {
            Ok(created) => {
                let message = format!("{act} successful");
                self.record(normal("SuccessfulCreate", &message));
                Ok(created)
            }
            Err(failure) => {
                let message = format!("{act} failed error: {failure}");
                self.record(warning("FailedCreate", &message));
                Err(failure)
            }
        }
    }

    /// A pod below the partition has the current revision; one above it, the update revision.
    fn is_below_partition(&self, ordinal: i64) -> bool {
        if text(self.set, "/spec/updateStrategy/type") == "OnDelete" {
            return false;
        }
        let partition = int(self.set, "/spec/updateStrategy/rollingUpdate/partition");
        let old = partition.unwrap_or_else(|| count(self.set, "/status/currentReplicas"));
        ordinal < self.start() + old
    }

    fn delete(&mut self, pod: &Value) -> Outcome<()> {
        let act = format!("delete Pod {} in StatefulSet {}", name(pod), name(self.set));
        let deletion = Deletion::default();
        match self.cluster.delete(PODS, namespace(pod), name(pod), &deletion) {
            Err(failure) if !failure.is_not_found() => {
                let message = format!("{act} failed error: {failure}");
                self.record(warning("FailedDelete", &message));
                Err(failure)
            }
            _ => {
                let message = format!("{act} successful");
                self.record(normal("SuccessfulDelete", &message));
                Ok(())
            }
        }
    }

    fn record(&mut self, what: Happening<'_>) {
        self.recorder.record(self.cluster, STATEFUL_SET, self.set, what);
    }

    fn report(&self) -> Outcome<Next> {
        let pods: Vec<_> = self.replicas.iter().flatten().chain(&self.condemned).collect();
        let tally = |test: &dyn Fn(&Value) -> bool| {
            i64::try_from(pods.iter().filter(|pod| test(pod)).count()).unwrap_or(i64::MAX)
        };
        let at = |wanted: &Value, pod: &Value| !is_deleting(pod) && revision(pod) == name(wanted);
        let replicas = tally(&|_| true);
        let ready = tally(&is_running_and_ready);
        let updated = tally(&|pod| at(&self.update, pod));
        let mut current = tally(&|pod| at(&self.current, pod));
        let mut current_revision = name(&self.current);
        let rolling = text(self.set, "/spec/updateStrategy/type") != "OnDelete";
        if rolling && [updated, ready, replicas].iter().all(|count| *count == self.wanted()) {
            // The update is complete: the update revision becomes the current one.
            current = updated;
            current_revision = name(&self.update);
        }
        let min_ready_s = self.min_ready_s();
        let available = tally(&|pod| pods::is_available(pod, min_ready_s, self.now));
        let mut status = self.set.get("status").cloned().unwrap_or_else(|| json!({}));
        let generation = count(self.set, "/metadata/generation");
        set_at(&mut status, &["observedGeneration"], generation);
        set_at(&mut status, &["replicas"], replicas);
        set_count(&mut status, "readyReplicas", ready);
        set_count(&mut status, "currentReplicas", current);
        set_count(&mut status, "updatedReplicas", updated);
        set_at(&mut status, &["availableReplicas"], available);
        set_at(&mut status, &["currentRevision"], current_revision);
        set_at(&mut status, &["updateRevision"], name(&self.update));
        let collisions = count(self.set, "/status/collisionCount");
        set_at(&mut status, &["collisionCount"], collisions);
        write_status(self.cluster, STATEFUL_SETS, self.set, status)?;
        Ok(pods::next_available(pods.iter().copied(), min_ready_s, self.now))
    }
}

#[cfg(test)]
mod tests;
