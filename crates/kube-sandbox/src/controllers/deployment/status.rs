//! Status of a Deployment: counters, availability, and progress of the rollout.
//!
//! Also writes the `Progressing` condition, from whose update time the progress deadline counts.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Rollout, UNLIMITED};
use crate::{
    cluster::DEPLOYMENTS,
    controllers::{
        Next,
        object::{
            condition, count, int, items, name, plus_seconds, set_at, set_count, stamp, text, time,
            unset, until, write_status,
        },
    },
    failure::Outcome,
};

const PROGRESSING: &str = "Progressing";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// Content of the `Progressing` condition.
pub(super) struct Progress {
    status: &'static str,
    reason: &'static str,
    message: String,
}

pub(super) fn has_deadline(deployment: &Value) -> bool {
    int(deployment, "/spec/progressDeadlineSeconds").is_some_and(|deadline| deadline != UNLIMITED)
}

// === impl Progress ===

impl Progress {
    pub(super) fn new(status: &'static str, reason: &'static str, message: String) -> Self {
        Self { status, reason, message }
    }
}

// === impl Rollout ===

impl Rollout<'_> {
    /// Writes the `Progressing` condition at once, ahead of the counters.
    pub(super) fn note_progress(&mut self, progress: &Progress) -> Outcome<()> {
        let now = self.cluster.now();
        let mut status = self.deployment.get("status").cloned().unwrap_or_else(|| json!({}));
        put_condition(&mut status, PROGRESSING, progress, now);
        self.deployment = write_status(self.cluster, DEPLOYMENTS, &self.deployment, status)?;
        Ok(())
    }

    /// Stops the progress deadline while paused, and restarts it on resuming.
    pub(super) fn note_pause(&mut self) -> Outcome<()> {
        let reason = condition(&self.deployment, PROGRESSING).map(|c| text(c, "/reason"));
        if !has_deadline(&self.deployment) || reason == Some(TIMED_OUT) {
            return Ok(());
        }
        let noted = reason == Some("DeploymentPaused");
        let progress = match (self.is_paused(), noted) {
            (true, false) => ("DeploymentPaused", "Deployment is paused"),
            (false, true) => ("DeploymentResumed", "Deployment is resumed"),
            _ => return Ok(()),
        };
        self.note_progress(&Progress::new("Unknown", progress.0, progress.1.to_owned()))
    }

    /// True if all requested pods are new and available and no old ones are left, as last reported.
    pub(super) fn is_complete(&self) -> bool {
        is_complete(&self.deployment, &self.deployment["status"])
    }

    /// Reports counters and availability, without progress.
    pub(super) fn report_counts(&mut self) -> Outcome<Next> {
        let status = self.counted();
        write_status(self.cluster, DEPLOYMENTS, &self.deployment, status)?;
        Ok(Next::Idle)
    }

    /// Reports counters and whether the rollout is complete, progressing or stuck.
    pub(super) fn report_progress(&mut self) -> Outcome<Next> {
        let now = self.cluster.now();
        let mut status = self.counted();
        if has_deadline(&self.deployment) {
            self.judge(&mut status, now);
        } else {
            drop_condition(&mut status, PROGRESSING);
        }
        self.pass_on_failures(&mut status);
        let stored = write_status(self.cluster, DEPLOYMENTS, &self.deployment, status)?;
        Ok(deadline_check(&stored, now))
    }

    fn counted(&self) -> Value {
        let now = self.cluster.now();
        let available = self.total("/status/availableReplicas");
        let unavailable = (self.total("/spec/replicas") - available).max(0);
        let mut status = self.deployment.get("status").cloned().unwrap_or_else(|| json!({}));
        let generation = count(&self.deployment, "/metadata/generation");
        set_at(&mut status, &["observedGeneration"], generation);
        let counters = [
            ("replicas", self.total("/status/replicas")),
            ("updatedReplicas", self.new_count("/status/replicas")),
            ("readyReplicas", self.total("/status/readyReplicas")),
            ("availableReplicas", available),
            ("unavailableReplicas", unavailable),
        ];
        for (key, value) in counters {
            set_count(&mut status, key, value);
        }
        let terminating = self.total("/status/terminatingReplicas");
        set_at(&mut status, &["terminatingReplicas"], terminating);
        let availability = if available >= self.replicas() - self.max_unavailable() {
            let message = "Deployment has minimum availability.";
            Progress::new("True", "MinimumReplicasAvailable", message.to_owned())
        } else {
            let message = "Deployment does not have minimum availability.";
            Progress::new("False", "MinimumReplicasUnavailable", message.to_owned())
        };
        put_condition(&mut status, "Available", &availability, now);
        status
    }

    fn judge(&self, status: &mut Value, now: Timestamp) {
        let deployment = &self.deployment;
        let current = condition(deployment, PROGRESSING).cloned();
        let reason = current.as_ref().map(|c| text(c, "/reason").to_owned()).unwrap_or_default();
        let all_new = count(status, "/replicas") == count(status, "/updatedReplicas");
        if all_new && reason == "NewReplicaSetAvailable" {
            return;
        }
        let who = self.new.as_ref().map_or_else(
            || format!("Deployment {:?}", name(deployment)),
            |set| format!("ReplicaSet {:?}", name(set)),
        );
        if is_complete(deployment, status) {
            let message = format!("{who} has successfully progressed.");
            let progress = Progress::new("True", "NewReplicaSetAvailable", message);
            put_condition(status, PROGRESSING, &progress, now);
        } else if is_progressing(&deployment["status"], status) {
            let message = format!("{who} is progressing.");
            let progress = Progress::new("True", "ReplicaSetUpdated", message);
            // Progress with the same reason still updates `lastUpdateTime`, from which the deadline
            // counts.
            drop_condition(status, PROGRESSING);
            put_condition(status, PROGRESSING, &progress, now);
            let since = current.filter(|c| text(c, "/status") == "True");
            if let (Some(since), Some(list)) = (since, status["conditions"].as_array_mut())
                && let Some(fresh) = list.last_mut()
            {
                set_at(fresh, &["lastTransitionTime"], since["lastTransitionTime"].clone());
            }
        } else if self.is_overdue(status, now) {
            let message = format!("{who} has timed out progressing.");
            put_condition(status, PROGRESSING, &Progress::new("False", TIMED_OUT, message), now);
        }
    }

    fn is_overdue(&self, status: &Value, now: Timestamp) -> bool {
        let conditions = items(status, "/conditions");
        let Some(progressing) = conditions.iter().find(|c| text(c, "/type") == PROGRESSING) else {
            return false;
        };
        match text(progressing, "/reason") {
            "NewReplicaSetAvailable" => false,
            TIMED_OUT => true,
            _ => due(&self.deployment, progressing).is_some_and(|due| due < now),
        }
    }

    /// A ReplicaSet's failure to create pods is the Deployment's failure; the new set's comes
    /// first.
    fn pass_on_failures(&self, status: &mut Value) {
        let mut sets = self.new.iter().chain(&self.old);
        let failure = sets.find_map(|set| condition(set, "ReplicaFailure"));
        let Some(failure) = failure else {
            drop_condition(status, "ReplicaFailure");
            return;
        };
        let mut conditions = items(status, "/conditions").to_vec();
        let said = conditions.iter().any(|c| {
            text(c, "/type") == "ReplicaFailure" && text(c, "/reason") == text(failure, "/reason")
        });
        if said {
            return;
        }
        let mut passed_on = failure.clone();
        set_at(&mut passed_on, &["lastUpdateTime"], failure["lastTransitionTime"].clone());
        conditions.retain(|c| text(c, "/type") != "ReplicaFailure");
        conditions.push(passed_on);
        set_at(status, &["conditions"], conditions);
    }
}

fn is_complete(deployment: &Value, status: &Value) -> bool {
    let replicas = int(deployment, "/spec/replicas").unwrap_or(1);
    ["/updatedReplicas", "/replicas", "/availableReplicas"]
        .iter()
        .all(|counter| count(status, counter) == replicas)
        && count(status, "/observedGeneration") >= count(deployment, "/metadata/generation")
}

/// True if more pods are new, ready or available than before, or fewer are old.
fn is_progressing(before: &Value, after: &Value) -> bool {
    let old = |status: &Value| count(status, "/replicas") - count(status, "/updatedReplicas");
    let more = |counter: &str| count(after, counter) > count(before, counter);
    more("/updatedReplicas")
        || more("/readyReplicas")
        || more("/availableReplicas")
        || old(after) < old(before)
}

/// When the progress deadline ends, counted from the last update of `progressing`.
fn due(deployment: &Value, progressing: &Value) -> Option<Timestamp> {
    let deadline = int(deployment, "/spec/progressDeadlineSeconds")?;
    Some(plus_seconds(time(progressing, "/lastUpdateTime")?, deadline))
}

/// Reconciles again after the deadline, if the rollout is neither complete nor failed.
fn deadline_check(deployment: &Value, now: Timestamp) -> Next {
    let Some(progressing) = condition(deployment, PROGRESSING) else { return Next::Idle };
    // A completed rollout is not timed again when a pod fails later.
    let settled = matches!(text(progressing, "/reason"), TIMED_OUT | "NewReplicaSetAvailable")
        || is_complete(deployment, &deployment["status"]);
    match due(deployment, progressing) {
        // One second later, because times are stored without fractions.
        Some(due) if has_deadline(deployment) && !settled => {
            Next::After(until(now, plus_seconds(due, 1)))
        }
        _ => Next::Idle,
    }
}

fn drop_condition(status: &mut Value, kind: &str) {
    let mut conditions = items(status, "/conditions").to_vec();
    conditions.retain(|condition| text(condition, "/type") != kind);
    if conditions.is_empty() {
        unset(status, "", "conditions");
    } else {
        set_at(status, &["conditions"], conditions);
    }
}

/// Sets a condition unless its status and reason are unchanged.
fn put_condition(status: &mut Value, kind: &str, progress: &Progress, now: Timestamp) {
    let mut conditions = items(status, "/conditions").to_vec();
    let old = conditions.iter().find(|c| text(c, "/type") == kind).cloned();
    let same_status = old.as_ref().is_some_and(|old| text(old, "/status") == progress.status);
    if same_status && old.as_ref().is_some_and(|old| text(old, "/reason") == progress.reason) {
        return;
    }
    let mut fresh = json!({
        "type": kind, "status": progress.status, "reason": progress.reason,
        "message": progress.message, "lastUpdateTime": stamp(now), "lastTransitionTime": stamp(now),
    });
    if let Some(old) = old.filter(|_| same_status) {
        set_at(&mut fresh, &["lastTransitionTime"], old["lastTransitionTime"].clone());
    }
    conditions.retain(|c| text(c, "/type") != kind);
    conditions.push(fresh);
    set_at(status, &["conditions"], conditions);
}
