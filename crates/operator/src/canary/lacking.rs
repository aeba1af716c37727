//! Since when a workload has lacked pods, where its own status does not say.
//!
//! A Deployment says since when too few of its replicas are available; a `DaemonSet` does not, and the
//! canary's last transition is no stand-in: after a long rest any pod that is missing for a moment
//! would be overdue at once. So what is seen is remembered here. An operator that starts again gives a
//! workload its time again: it is judged later, not otherwise.

use jiff::Timestamp;
use serde_json::Value;
use tidegate_api::canary::CanarySpec;
use tidegate_engine::Form;
use tidegate_providers::workload::WorkloadKind;

/// When each of the two was first seen to lack something, and has been since.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lacking {
    pub(super) target: Option<Timestamp>,
    pub(super) primary: Option<Timestamp>,
}

// === impl Lacking ===

impl Lacking {
    /// Takes note of target and primary as they are now.
    pub(super) fn note(
        &mut self,
        spec: &CanarySpec,
        workload: WorkloadKind,
        [target, primary]: [Option<&Value>; 2],
        now: Timestamp,
    ) {
        let analysis = &spec.analysis;
        let is_lacking = |object: Option<&Value>, threshold: i64| {
            // One that is parked lacks nothing.
            object.is_some_and(|object| {
                workload.form() == Form::PerNode
                    && workload.replicas(object) > 0
                    && workload.lacking(object, threshold).is_some()
            })
        };
        let sides = [
            (&mut self.target, is_lacking(target, analysis.canary_ready_threshold())),
            (&mut self.primary, is_lacking(primary, analysis.primary_ready_threshold())),
        ];
        for (since, is_lacking) in sides {
            *since = is_lacking.then(|| since.unwrap_or(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(desired: i64, available: i64) -> Value {
        json!({ "status": {
            "desiredNumberScheduled": desired, "updatedNumberScheduled": desired,
            "numberAvailable": available,
        } })
    }

    #[test]
    fn the_time_runs_from_the_first_look_that_finds_something_missing() {
        let spec: CanarySpec = serde_json::from_value(json!({
            "targetRef": { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web" },
            "analysis": { "interval": "1m", "threshold": 1, "stepWeight": 10 },
        }))
        .unwrap();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut parked = set(0, 0);
        parked["spec"]["template"]["spec"]["nodeSelector"] =
            json!({ "flagger.app/scale-to-zero": "true" });
        let mut lacking = Lacking::default();
        let mut look = |target: &Value, second: i64| {
            let both = [Some(target), None];
            lacking.note(&spec, WorkloadKind::DaemonSet, both, at(second));
            assert_eq!(lacking.primary, None, "there is none");
            lacking.target
        };
        assert_eq!(look(&set(3, 3), 1), None, "nothing is missing");
        assert_eq!(look(&set(3, 2), 2), Some(at(2)));
        assert_eq!(look(&set(3, 1), 3), Some(at(2)), "since the first");
        assert_eq!(look(&set(3, 3), 4), None, "it is well again");
        assert_eq!(look(&set(3, 0), 5), Some(at(5)), "and the time begins again");
        assert_eq!(look(&parked, 6), None, "what is parked lacks nothing");
        let none = [None, None];
        lacking.note(&spec, WorkloadKind::DaemonSet, none, at(7));
        assert_eq!(lacking, Lacking::default());
    }
}
