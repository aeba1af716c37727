//! Whether a Deployment's status says that it can take traffic.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidegate_engine::{Readiness, Unready};

use super::replicas_of;

/// How long a Deployment may have too few replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// So long.
    pub seconds: i64,
    /// Counted from here at the earliest: a workload that was broken when it was given another
    /// revision has all the time again.
    pub from: Option<Timestamp>,
    /// The present.
    pub now: Timestamp,
}

/// Judges a Deployment by its status.
///
/// Ready means: its controller has seen the latest spec, every replica is of the current revision,
/// there is at least one, and `threshold` percent of them are available. A scaler that adds
/// replicas therefore makes it unready for a while, as in Flagger.
///
/// Waiting ends when the Deployment exceeds its own progress deadline, or when too few replicas
/// have been available for longer than `deadline`.
pub fn readiness(deployment: &Value, threshold: i64, deadline: Deadline) -> Readiness {
    let count = |field: &str| deployment["status"][field].as_i64().unwrap_or(0);
    let serving = count("availableReplicas") > 0;
    let unready = |why: String| Unready { why, serving };

    let generation = deployment["metadata"]["generation"].as_i64().unwrap_or(0);
    let observed = count("observedGeneration");
    if observed < generation {
        let seen = "its controller has not seen the latest change".to_owned();
        return Readiness::Waiting(unready(lacking(deployment, threshold).unwrap_or(seen)));
    }
    let progressing = condition(deployment, "Progressing");
    if progressing.is_some_and(|condition| condition["reason"] == "ProgressDeadlineExceeded") {
        return Readiness::Stuck(unready(own_deadline(deployment)));
    }
    let Some(why) = lacking(deployment, threshold) else { return Readiness::Ready };
    if progressing.is_some() && is_unavailable_for_longer(deployment, deadline) {
        let seconds = deadline.seconds;
        let why = format!("{why}; too few have been available for more than {seconds} s");
        return Readiness::Stuck(unready(why));
    }
    Readiness::Waiting(unready(why))
}

/// What a Deployment lacks to be ready, if anything.
fn lacking(deployment: &Value, threshold: i64) -> Option<String> {
    let count = |field: &str| deployment["status"][field].as_i64().unwrap_or(0);
    let (wanted, updated) = (replicas_of(deployment), count("updatedReplicas"));
    let (all, available) = (count("replicas"), count("availableReplicas"));
    if updated < wanted {
        return Some(format!("{updated} of {wanted} replicas are updated"));
    }
    // None of none is not ready: nothing was started, so nothing was tried.
    if updated == 0 {
        return Some("0 replicas are asked for, at least 1 has to run".to_owned());
    }
    if all > updated {
        return Some(format!("{} old replicas are still terminating", all - updated));
    }
    let needed = updated.saturating_mul(threshold) / 100;
    if available < needed {
        return Some(format!(
            "{available} of {updated} updated replicas are available, {needed} have to be \
             (readyThreshold {threshold}%)"
        ));
    }
    None
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

/// Whether too few replicas have been available since before the deadline.
fn is_unavailable_for_longer(deployment: &Value, deadline: Deadline) -> bool {
    let since = condition(deployment, "Available")
        .filter(|available| available["status"] == "False")
        .filter(|available| available["reason"] == "MinimumReplicasUnavailable")
        .and_then(|available| available["lastUpdateTime"].as_str()?.parse::<Timestamp>().ok());
    let since = since.map(|since| deadline.from.map_or(since, |from| from.max(since)));
    let longest = SignedDuration::from_secs(deadline.seconds);
    since.is_some_and(|since| deadline.now.duration_since(since) > longest)
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
        Deadline { seconds: 600, from, now: NOW.parse().unwrap() }
    }

    /// `Ready`, or how it is not and why.
    fn verdict(deployment: &Value, threshold: i64) -> (&'static str, String) {
        match readiness(deployment, threshold, deadline(None)) {
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
        assert!(readiness(&deployment(3, 1, 3, 1), 100, deadline(None)).is_serving());
        assert!(!readiness(&deployment(3, 3, 3, 0), 100, deadline(None)).is_serving());
    }

    #[test]
    fn what_was_broken_before_is_given_all_the_time_again() {
        let broken = unavailable(deployment(3, 1, 3, 0), "2026-01-01T00:00:00Z");
        let cases = [
            (None, true),
            (Some("2026-01-01T00:49:00Z"), true),
            (Some("2026-01-01T00:55:00Z"), false),
        ];
        for (from, is_stuck) in cases {
            let verdict = readiness(&broken, 100, deadline(from));
            assert_eq!(matches!(verdict, Readiness::Stuck(_)), is_stuck, "{from:?}: {verdict:?}");
        }
    }
}
