//! Rolls a Deployment's template out over `ReplicaSets`, one per template.
//!
//! ```text
//! Deployment ── owns ──> ReplicaSet <name>-<hash>   (one new, any number of old)
//!                            └── owns ──> Pod, labelled pod-template-hash=<hash>
//! ```
//!
//! Each reconcile takes one step: it scales the new set up, or old ones down, or only reports. The
//! next step follows when the `ReplicaSets` report back, so missing and surplus pods are counted by
//! reported availability, never by requested sizes.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    cluster::{Cluster, DEPLOYMENTS, Deletion, PODS, REPLICA_SETS},
    controllers::{
        Change, Controller, Key, Next,
        claim::Claims,
        events::{Recorder, normal, warning},
        intstr::{Rounding, scaled_or},
        object::{
            Kind, controller_of, count, flag, int, is_deleting, key, name, namespace, settle, text,
            time, uid,
        },
        pods,
    },
    failure::Outcome,
    selector::LabelSelector,
};

mod history;
mod rolling;
mod scaling;
mod status;

pub(crate) const DEPLOYMENT: Kind = Kind { api_version: "apps/v1", kind: "Deployment" };
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";

const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// The value for "no limit" in limits and deadlines.
const UNLIMITED: i64 = i32::MAX as i64;

#[derive(Debug)]
pub(crate) struct DeploymentController {
    claims: Claims,
    recorder: Recorder,
}

/// State of one reconcile of one Deployment: its spec and its current `ReplicaSets`.
struct Rollout<'a> {
    cluster: &'a dyn Cluster,
    recorder: &'a mut Recorder,
    deployment: Value,
    /// The set of the current template, if it exists.
    new: Option<Value>,
    /// All others, oldest first.
    old: Vec<Value>,
}

// === impl DeploymentController ===

impl Default for DeploymentController {
    fn default() -> Self {
        Self {
            claims: Claims::new(DEPLOYMENT, DEPLOYMENTS, REPLICA_SETS),
            recorder: Recorder::new("deployment-controller"),
        }
    }
}

impl Controller for DeploymentController {
    fn name(&self) -> &'static str {
        "deployment"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("apps", "deployments"), ("apps", "replicasets"), ("", "pods")]
    }

    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        match change.plural {
            "replicasets" => self.claims.owners(cluster, change),
            "pods" => last_pod_gone(cluster, change).into_iter().collect(),
            _ => vec![Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() }],
        }
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(deployment) = cluster.get(DEPLOYMENTS, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        settle(self.sync(cluster, deployment))
    }
}

impl DeploymentController {
    fn sync(&mut self, cluster: &dyn Cluster, deployment: Value) -> Outcome<Next> {
        let selector = LabelSelector::from_json(deployment.pointer("/spec/selector"));
        if selector.is_ok_and(|selector| selector.requirements().is_empty()) {
            let message =
                "This deployment is selecting all pods. A non-empty selector is required.";
            let what = warning("SelectingAll", message);
            self.recorder.record(cluster, DEPLOYMENT, &deployment, what);
            return Ok(Next::Idle);
        }
        let sets = self.claims.members(cluster, &deployment)?;
        let mut rollout = Rollout::new(cluster, &mut self.recorder, deployment, sets);
        if is_deleting(&rollout.deployment) {
            return rollout.report_counts();
        }
        rollout.note_pause()?;
        if rollout.is_paused() || rollout.was_scaled() {
            rollout.find_new()?;
            rollout.scale()?;
            if rollout.is_paused() {
                rollout.clean_up()?;
            }
            return rollout.report_counts();
        }
        if text(&rollout.deployment, "/spec/strategy/type") == "Recreate" {
            rollout.recreate()
        } else {
            rollout.roll()
        }
    }
}

/// A Deployment with strategy Recreate waits for its last old pod to end.
fn last_pod_gone(cluster: &dyn Cluster, change: &Change<'_>) -> Option<Key> {
    if change.new.is_some_and(|pod| !pods::is_terminal(pod)) {
        return None;
    }
    let pod = change.old.or(change.new)?;
    let set = controller_of(pod).filter(|o| o.kind == "ReplicaSet")?;
    let set = cluster.get(REPLICA_SETS, change.namespace, set.name)?;
    let owner = controller_of(&set)?;
    let deployment = cluster.get(DEPLOYMENTS, change.namespace, owner.name)?;
    (text(&deployment, "/spec/strategy/type") == "Recreate").then(|| key(&deployment))
}

// === impl Rollout ===

impl<'a> Rollout<'a> {
    fn new(
        cluster: &'a dyn Cluster,
        recorder: &'a mut Recorder,
        deployment: Value,
        mut sets: Vec<Value>,
    ) -> Self {
        sets.sort_by_key(created);
        let template = deployment.pointer("/spec/template").cloned().unwrap_or_default();
        let new = sets.iter().position(|set| {
            let own = set.pointer("/spec/template").cloned().unwrap_or_default();
            history::same_template(&own, &template)
        });
        let new = new.map(|index| sets.remove(index));
        Self { cluster, recorder, deployment, new, old: sets }
    }

    fn is_paused(&self) -> bool {
        flag(&self.deployment, "/spec/paused")
    }

    fn replicas(&self) -> i64 {
        int(&self.deployment, "/spec/replicas").unwrap_or(1)
    }

    fn is_rolling(&self) -> bool {
        text(&self.deployment, "/spec/strategy/type") != "Recreate"
    }

    /// `maxSurge` and `maxUnavailable` as numbers.
    fn allowances(&self) -> (i64, i64) {
        if !self.is_rolling() {
            return (0, 0);
        }
        let at =
            |key: &str| self.deployment.pointer(&format!("/spec/strategy/rollingUpdate/{key}"));
        let replicas = self.replicas();
        let surge = scaled_or(at("maxSurge"), replicas, Rounding::Up, 0);
        let unavailable = scaled_or(at("maxUnavailable"), replicas, Rounding::Down, 0);
        // With both at zero no step would be allowed.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        (surge, unavailable.min(replicas))
    }

    fn max_surge(&self) -> i64 {
        self.allowances().0
    }

    fn max_unavailable(&self) -> i64 {
        self.allowances().1
    }

    fn sets(&self) -> impl Iterator<Item = &Value> {
        self.old.iter().chain(&self.new)
    }

    /// Sum of a number over all sets.
    fn total(&self, pointer: &str) -> i64 {
        self.sets().map(|set| count(set, pointer)).sum()
    }

    fn new_count(&self, pointer: &str) -> i64 {
        self.new.as_ref().map_or(0, |set| count(set, pointer))
    }

    fn record(&mut self, reason: &str, message: &str) {
        let what = normal(reason, message);
        self.recorder.record(self.cluster, DEPLOYMENT, &self.deployment, what);
    }

    /// Replaces all pods at once: old ones are deleted before new ones are created.
    fn recreate(&mut self) -> Outcome<Next> {
        self.find_new()?;
        let mut scaled_down = false;
        for index in 0..self.old.len() {
            scaled_down |= self.scale_old(index, 0)?;
        }
        if scaled_down || self.old_pods_remain() {
            return self.report_progress();
        }
        self.ensure_new()?;
        self.scale_new(self.replicas())?;
        if self.is_complete() {
            self.clean_up()?;
        }
        self.report_progress()
    }

    fn old_pods_remain(&self) -> bool {
        self.old.iter().any(|set| {
            let pods = self.cluster.owned(PODS, namespace(set), uid(set));
            count(set, "/status/replicas") > 0 || pods.iter().any(|pod| !pods::is_terminal(pod))
        })
    }

    /// Deletes the oldest unused sets beyond `revisionHistoryLimit`.
    fn clean_up(&mut self) -> Outcome<()> {
        let limit = int(&self.deployment, "/spec/revisionHistoryLimit").unwrap_or(UNLIMITED);
        if limit == UNLIMITED {
            return Ok(());
        }
        let mut sets: Vec<_> = self.old.iter().filter(|set| !is_deleting(set)).collect();
        sets.sort_by_key(|set| (history::revision(set), created(set)));
        let surplus = sets.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        for set in sets.into_iter().take(surplus) {
            let unseen =
                count(set, "/metadata/generation") > count(set, "/status/observedGeneration");
            let in_use = count(set, "/status/replicas") != 0 || count(set, "/spec/replicas") != 0;
            if in_use || unseen {
                continue;
            }
            let deletion = Deletion { uid: Some(uid(set).to_owned()), ..Deletion::default() };
            match self.cluster.delete(REPLICA_SETS, namespace(set), name(set), &deletion) {
                Err(failure) if !failure.is_not_found() => return Err(failure),
                _ => {}
            }
        }
        Ok(())
    }
}

fn created(set: &Value) -> (Option<Timestamp>, String) {
    let at = time(set, "/metadata/creationTimestamp");
    (at, name(set).to_owned())
}

#[cfg(test)]
mod tests;
