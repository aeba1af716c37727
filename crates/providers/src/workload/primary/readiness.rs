//! Whether a workload's status says that it can take traffic.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidegate_engine::{Readiness, Unready};

use crate::{hook::excerpt, workload::WorkloadKind};

/// How long a workload may have too few pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// In seconds.
    pub seconds: i64,
    /// Counted from here at the earliest: a workload that was broken when it was given another
    /// revision has all the time again.
    pub from: Option<Timestamp>,
    /// Since when it has been seen below its ready threshold, for workloads whose status has no time: see
    /// [`WorkloadKind::unready_reason`].
    pub unready_since: Option<Timestamp>,
    /// The present.
    pub now: Timestamp,
}

impl WorkloadKind {
    /// Judges a workload by its status. A Service has no status to judge by.
    ///
    /// Ready means: its controller has seen the latest spec, every pod is of the current revision,
    /// there is at least one, and `threshold` percent of them are available. A scaler that adds
    /// replicas therefore makes it unready for a while, as in Flagger.
    ///
    /// Waiting ends when a Deployment exceeds its own progress deadline, or when too few pods have
    /// been available for longer than `deadline`.
    ///
    /// A Service of Knative is ready when its latest revision is. Its generation does not count: it changes
    /// with every share of traffic.
    pub fn readiness(self, workload: &Value, threshold: i64, deadline: Deadline) -> Readiness {
        if self == Self::Service {
            return Readiness::Ready;
        }
        let count = |field: &str| workload["status"][field].as_i64().unwrap_or(0);
        let serving = match self {
            // Until the latest can serve, the previous one does.
            Self::Knative => workload["status"]["latestReadyRevisionName"].is_string(),
            Self::Deployment | Self::DaemonSet | Self::Service => count(self.available()) > 0,
        };
        let unready = |why: String| Unready::new(why, serving);

        let generation = workload["metadata"]["generation"].as_i64().unwrap_or(0);
        let observed = count("observedGeneration");
        if observed < generation && self != Self::Knative {
            let seen = "its controller has not seen the latest change".to_owned();
            return Readiness::Waiting(unready(
                self.unready_reason(workload, threshold).unwrap_or(seen),
            ));
        }
        let progressing = condition(workload, "Progressing");
        if progressing.is_some_and(|condition| condition["reason"] == "ProgressDeadlineExceeded") {
            return Readiness::Stuck(unready(own_deadline(workload)));
        }
        let Some(why) = self.unready_reason(workload, threshold) else { return Readiness::Ready };
        let since = match self {
            Self::Deployment => progressing.and_then(|_| unavailable_since(workload)),
            Self::DaemonSet | Self::Knative => deadline.unready_since,
            Self::Service => None,
        };
        if since.is_some_and(|since| deadline.is_past(since)) {
            let seconds = deadline.seconds;
            let why = match self {
                Self::Knative => format!("{why}, and has not been for more than {seconds} s"),
                Self::Deployment | Self::DaemonSet | Self::Service => {
                    format!("{why}; too few have been available for more than {seconds} s")
                }
            };
            return Readiness::Stuck(unready(why));
        }
        Readiness::Waiting(unready(why))
    }

    /// The reason why a workload is not ready, if any.
    pub fn unready_reason(self, workload: &Value, threshold: i64) -> Option<String> {
        let count = |field: &str| workload["status"][field].as_i64().unwrap_or(0);
        let (wanted, updated, pods) = match self {
            Self::Deployment => (self.replicas(workload), count("updatedReplicas"), "replicas"),
            Self::DaemonSet => {
                (count("desiredNumberScheduled"), count("updatedNumberScheduled"), "pods")
            }
            Self::Service => return None,
            Self::Knative => return revision_unready_reason(workload),
        };
        if updated < wanted {
            let mut why = format!("{updated} of {wanted} {pods} are updated");
            let failure = condition(workload, "ReplicaFailure").filter(|it| it["status"] == "True");
            if let Some(message) = failure.and_then(|it| it["message"].as_str()) {
                // Before that stands the name of a pod, another one with each attempt.
                let cause = message.split_once(" is forbidden: ").map_or(message, |(_, why)| why);
                why = format!("{why}: {}", excerpt(cause.as_bytes()));
            }
            return Some(why);
        }
        // Zero pods of zero are not ready: nothing was started, so nothing was tried.
        if updated == 0 {
            return Some(format!("0 {pods} are asked for, at least 1 has to run"));
        }
        let all = count("replicas");
        if self == Self::Deployment && all > updated {
            return Some(format!("{} old replicas are still terminating", all - updated));
        }
        let available = count(self.available());
        let needed = updated.saturating_mul(threshold) / 100;
        if available < needed {
            return Some(format!(
                "{available} of {updated} updated {pods} are available, {needed} have to be \
                 (readyThreshold {threshold}%)"
            ));
        }
        None
    }

    /// The member of its status that counts the pods that can serve.
    const fn available(self) -> &'static str {
        match self {
            Self::Deployment | Self::Service | Self::Knative => "availableReplicas",
            Self::DaemonSet => "numberAvailable",
        }
    }
}

/// Knative's reason why a revision cannot serve yet.
fn revision_unready_reason(service: &Value) -> Option<String> {
    let status = &service["status"];
    let (created, ready) =
        (&status["latestCreatedRevisionName"], &status["latestReadyRevisionName"]);
    let Some(name) = created.as_str() else { return Some("it has no revision".to_owned()) };
    if created == ready {
        return None;
    }
    let said = condition(service, "ConfigurationsReady").and_then(|it| it["message"].as_str());
    let said = said.filter(|said| !said.is_empty()).map(|said| format!(": {said}"));
    Some(format!("revision {name} is not ready{}", said.unwrap_or_default()))
}

fn own_deadline(deployment: &Value) -> String {
    match deployment["spec"]["progressDeadlineSeconds"].as_i64() {
        Some(deadline_s) => format!("it made no progress for its own {deadline_s} s"),
        None => "it made no progress within its own deadline".to_owned(),
    }
}

fn condition<'d>(deployment: &'d Value, kind: &str) -> Option<&'d Value> {
    let conditions = deployment["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Since when too few replicas of a Deployment have been available.
fn unavailable_since(deployment: &Value) -> Option<Timestamp> {
    condition(deployment, "Available")
        .filter(|available| available["status"] == "False")
        .filter(|available| available["reason"] == "MinimumReplicasUnavailable")
        .and_then(|available| available["lastUpdateTime"].as_str()?.parse::<Timestamp>().ok())
}

// === impl Deadline ===

impl Deadline {
    /// Whether it has lasted for too long.
    fn is_past(&self, since: Timestamp) -> bool {
        let since = self.from.map_or(since, |from| from.max(since));
        self.now.duration_since(since) > SignedDuration::from_secs(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn deployment(wanted: i64, updated: i64, all: i64, available: i64) -> Value {
        json!({
            "metadata": { "name": "shop", "generation": 3 },
            "spec": { "replicas": wanted, "progressDeadlineSeconds": 60 },
            "status": {
                "observedGeneration": 3, "updatedReplicas": updated, "replicas": all,
                "availableReplicas": available,
                "conditions": [{ "type": "Progressing", "status": "True", "reason": "x" }],
            },
        })
    }

    fn with(mut deployment: Value, pointer: &str, value: Value) -> Value {
        *deployment.pointer_mut(pointer).unwrap() = value;
        deployment
    }

    /// Unavailable since `since`.
    fn unavailable(deployment: Value, since: &str) -> Value {
        let conditions = json!([
            { "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
              "lastUpdateTime": since },
            { "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated" },
        ]);
        with(deployment, "/status/conditions", conditions)
    }

    fn deadline(from: Option<&str>) -> Deadline {
        let from = from.map(|from| from.parse().unwrap());
        Deadline { seconds: 600, from, unready_since: None, now: NOW.parse().unwrap() }
    }

    /// `Ready`, or how it is not and why.
    fn verdict(deployment: &Value, threshold: i64) -> (&'static str, String) {
        match WorkloadKind::Deployment.readiness(deployment, threshold, deadline(None)) {
            Readiness::Ready => ("ready", String::new()),
            Readiness::Waiting(unready) => ("waiting", unready.why),
            Readiness::Stuck(unready) => ("stuck", unready.why),
        }
    }

    #[test]
    fn a_deployment_is_ready_when_enough_updated_replicas_are_available() {
        let exceeded = json!([{ "type": "Progressing", "reason": "ProgressDeadlineExceeded" }]);
        let cases = [
            ("all there", deployment(3, 3, 3, 3), 100, "ready", ""),
            ("one is enough for half of three", deployment(3, 3, 3, 1), 50, "ready", ""),
            ("none is enough for nothing", deployment(3, 3, 3, 0), 0, "ready", ""),
            (
                "one is missing",
                deployment(3, 3, 3, 2),
                100,
                "waiting",
                "2 of 3 updated replicas are available, 3 have to be (readyThreshold 100%)",
            ),
            ("one is old", deployment(3, 2, 3, 3), 100, "waiting", "2 of 3 replicas are updated"),
            (
                "a quota",
                with(
                    deployment(3, 0, 0, 0),
                    "/status/conditions",
                    json!([{ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                        "message": "pods \"web-5d89-x7z\" is forbidden: exceeded quota: few, \
                                    requested: pods=1, used: pods=2, limited: pods=2" }]),
                ),
                100,
                "waiting",
                "0 of 3 replicas are updated: exceeded quota: few, requested: pods=1, used: pods=2, \
                 limited: pods=2",
            ),
            (
                "old ones linger",
                deployment(3, 3, 5, 3),
                100,
                "waiting",
                "2 old replicas are still terminating",
            ),
            (
                "not seen yet",
                with(deployment(3, 3, 3, 3), "/metadata/generation", json!(4)),
                100,
                "waiting",
                "its controller has not seen the latest change",
            ),
            (
                "its own deadline",
                with(deployment(3, 3, 3, 3), "/status/conditions", exceeded),
                100,
                "stuck",
                "it made no progress for its own 60 s",
            ),
            (
                "no status yet",
                json!({ "metadata": { "generation": 1 }, "spec": { "replicas": 1 } }),
                100,
                "waiting",
                "0 of 1 replicas are updated",
            ),
        ];
        for (reason, deployment, threshold, want, why) in cases {
            assert_eq!(verdict(&deployment, threshold), (want, why.to_owned()), "{reason}");
        }
    }

    #[test]
    fn none_of_none_is_not_ready() {
        let (verdict, why) = verdict(&deployment(0, 0, 0, 0), 100);
        assert_eq!(
            (verdict, why.as_str()),
            ("waiting", "0 replicas are asked for, at least 1 has to run")
        );
    }

    #[test]
    fn a_deadline_that_passes_is_the_end_of_waiting() {
        let stuck = deployment(3, 3, 3, 1);
        let cases = [
            ("past it", "2026-01-01T00:49:59Z", "stuck"),
            ("exactly at it", "2026-01-01T00:50:00Z", "waiting"),
            ("before it", "2026-01-01T00:59:00Z", "waiting"),
            ("a clock that went back", "2026-01-01T02:00:00Z", "waiting"),
            ("no time at all", "yesterday", "waiting"),
        ];
        for (reason, since, want) in cases {
            assert_eq!(verdict(&unavailable(stuck.clone(), since), 100).0, want, "{reason}");
        }
        let late = "2026-01-01T00:00:00Z";
        assert_eq!(verdict(&unavailable(deployment(3, 3, 3, 3), late), 100).0, "ready");
        let mut without_progress = unavailable(stuck, late);
        without_progress["status"]["conditions"].as_array_mut().unwrap().pop();
        assert_eq!(verdict(&without_progress, 100).0, "waiting", "as Flagger: both conditions");
    }

    #[test]
    fn a_deployment_serves_while_one_replica_is_available() {
        assert!(
            WorkloadKind::Deployment
                .readiness(&deployment(3, 1, 3, 1), 100, deadline(None))
                .is_serving()
        );
        assert!(
            !WorkloadKind::Deployment
                .readiness(&deployment(3, 3, 3, 0), 100, deadline(None))
                .is_serving()
        );
    }

    #[test]
    fn a_workload_that_was_broken_before_has_the_whole_deadline_again() {
        let broken = unavailable(deployment(3, 1, 3, 0), "2026-01-01T00:00:00Z");
        let cases = [
            (None, true),
            (Some("2026-01-01T00:49:00Z"), true),
            (Some("2026-01-01T00:55:00Z"), false),
        ];
        for (from, is_stuck) in cases {
            let verdict = WorkloadKind::Deployment.readiness(&broken, 100, deadline(from));
            assert_eq!(matches!(verdict, Readiness::Stuck(_)), is_stuck, "{from:?}: {verdict:?}");
        }
    }

    fn daemon_set(desired: i64, updated: i64, available: i64) -> Value {
        json!({
            "metadata": { "name": "agent", "generation": 3 },
            "status": {
                "observedGeneration": 3, "desiredNumberScheduled": desired,
                "updatedNumberScheduled": updated, "numberAvailable": available,
            },
        })
    }

    #[test]
    fn a_daemon_set_is_ready_when_enough_updated_pods_are_available() {
        let unseen = with(daemon_set(3, 3, 3), "/metadata/generation", json!(4));
        let cases = [
            ("all there", daemon_set(3, 3, 3), 100, None),
            ("one is enough for half of three", daemon_set(3, 3, 1), 50, None),
            ("one is old", daemon_set(3, 2, 3), 100, Some("2 of 3 pods are updated")),
            (
                "one is missing",
                daemon_set(3, 3, 2),
                100,
                Some("2 of 3 updated pods are available, 3 have to be (readyThreshold 100%)"),
            ),
            (
                "none of none: parked, or no node fits",
                daemon_set(0, 0, 0),
                100,
                Some("0 pods are asked for, at least 1 has to run"),
            ),
            ("not seen", unseen, 100, Some("its controller has not seen the latest change")),
        ];
        for (reason, set, threshold, want) in cases {
            let verdict = WorkloadKind::DaemonSet.readiness(&set, threshold, deadline(None));
            assert!(!matches!(verdict, Readiness::Stuck(_)), "{reason}");
            assert_eq!(verdict.unready().map(|it| it.why.as_str()), want, "{reason}");
        }
    }

    #[test]
    fn a_daemon_set_is_stuck_once_it_has_lacked_pods_for_too_long() {
        let (short, long) = ("2026-01-01T00:55:00Z", "2026-01-01T00:49:59Z");
        let unseen = with(daemon_set(3, 3, 1), "/metadata/generation", json!(4));
        let cases = [
            ("unready for too long", daemon_set(3, 3, 1), Some(long), None, true),
            ("not for so long", daemon_set(3, 3, 1), Some(short), None, false),
            ("nobody knows", daemon_set(3, 3, 1), None, Some(long), false),
            ("given another revision since", daemon_set(3, 3, 1), Some(long), Some(short), false),
            // An old transition does not date a pod that went missing just now.
            ("a long rest before it", daemon_set(3, 3, 1), Some(short), Some(long), false),
            ("ready after all", daemon_set(3, 3, 3), Some(long), None, false),
            ("its controller is behind", unseen, Some(long), None, false),
        ];
        for (reason, set, since, from, is_stuck) in cases {
            let since = since.map(|since| since.parse().unwrap());
            let deadline = Deadline { unready_since: since, ..deadline(from) };
            let verdict = WorkloadKind::DaemonSet.readiness(&set, 100, deadline);
            assert_eq!(matches!(verdict, Readiness::Stuck(_)), is_stuck, "{reason}: {verdict:?}");
        }
    }
}
