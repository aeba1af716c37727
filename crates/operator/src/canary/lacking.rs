//! Since when a workload has lacked pods, where its own status does not say.
//!
//! A Deployment says since when too few of its replicas are available; a `DaemonSet` and a Service of
//! Knative do not, and the
//! canary's last transition is no stand-in: after a long rest any pod that is missing for a moment
//! would be overdue at once. So what is seen is remembered here, by the steady clock: a wall clock that is
//! set makes nothing overdue. An operator that starts again gives a workload its time again: it is judged
//! later, not otherwise.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidegate_api::canary::CanarySpec;
use tidegate_engine::Form;
use tidegate_providers::workload::WorkloadKind;

/// When each of the two was first seen to lack something, and has been since; by the steady clock.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lacking {
    pub(super) target: Option<Duration>,
    pub(super) primary: Option<Duration>,
}

/// The two clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) wall: Timestamp,
    pub(super) steady: Duration,
}

// === impl Lacking ===

impl Lacking {
    /// Takes note of target and primary as they are now.
    pub(super) fn note(
        &mut self,
        spec: &CanarySpec,
        workload: WorkloadKind,
        [target, primary]: [Option<&Value>; 2],
        now: Duration,
    ) {
        let analysis = &spec.analysis;
        let is_lacking = |object: Option<&Value>, threshold: i64| {
            // One that is parked lacks nothing.
            object.is_some_and(|object| {
                let is_silent =
                    workload.form() == Form::PerNode || workload == WorkloadKind::Knative;
                is_silent
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

// === impl Clocks ===

impl Clocks {
    /// A moment of the steady clock as the wall clock would have it if it had always been right.
    pub(super) fn on_the_wall(self, since: Duration) -> Option<Timestamp> {
        let lasted = SignedDuration::try_from(self.steady.saturating_sub(since)).ok()?;
        self.wall.checked_sub(lasted).ok()
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
        let at = Duration::from_secs;
        let mut parked = set(0, 0);
        parked["spec"]["template"]["spec"]["nodeSelector"] =
            json!({ "flagger.app/scale-to-zero": "true" });
        let mut lacking = Lacking::default();
        let mut look = |target: &Value, second: u64| {
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

    #[test]
    fn a_wall_clock_that_is_set_makes_nothing_overdue() {
        let wall = |second: i64| Timestamp::from_second(second).unwrap();
        let clocks = |second: i64| Clocks { wall: wall(second), steady: Duration::from_secs(100) };
        let since = Duration::from_secs(70);
        let cases = [
            ("nobody touched it", 1_000_000, 999_970),
            ("an hour ahead", 1_003_600, 1_003_570),
            ("an hour back", 996_400, 996_370),
        ];
        for (reason, now, want) in cases {
            assert_eq!(clocks(now).on_the_wall(since), Some(wall(want)), "{reason}");
        }
        let later = Duration::from_secs(101);
        assert_eq!(clocks(5).on_the_wall(later), Some(wall(5)), "not before it was seen");
    }
}
