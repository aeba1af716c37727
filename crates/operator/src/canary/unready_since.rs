//! Tracks how long a workload has been below its ready threshold, for kinds whose status has no timestamp.
//!
//! A Deployment has the time in its status; a `DaemonSet` and a Service of Knative do not, and the canary's
//! last transition is no substitute: after a long rest a missing pod would be overdue at once. The time runs
//! by the steady clock, so a wall clock that is set makes nothing overdue. During a rollout the canary's
//! status keeps it by the wall clock: an image that never starts must not get its whole deadline again with
//! each restart of the operator.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidegate_api::canary::{CanarySpec, status::RolloutMemory};
use tidegate_engine::Form;
use tidegate_providers::workload::WorkloadKind;

use crate::clock::Clock;

/// Since when target and primary have been below their ready threshold, without a break.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnreadySince {
    pub(super) target: Option<Since>,
    pub(super) primary: Option<Since>,
    /// The remembered time counts for the first look only: later ones use this process' own.
    has_looked: bool,
}

/// The start of a period below the ready threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    /// First seen by this process, by its steady clock.
    seen: Duration,
    /// How long it had lasted by then.
    before: Duration,
}

/// The two clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) wall: Timestamp,
    pub(super) steady: Duration,
}

// === impl UnreadySince ===

impl UnreadySince {
    /// Updates both with target and primary as they are now.
    pub(super) fn update(
        &mut self,
        spec: &CanarySpec,
        workload: WorkloadKind,
        [target, primary]: [Option<&Value>; 2],
        remembered: Option<&RolloutMemory>,
        clocks: Clocks,
    ) {
        let analysis = &spec.analysis;
        let is_unready = |object: Option<&Value>, threshold: i64| {
            // A parked workload counts as ready.
            object.is_some_and(|object| {
                let is_silent =
                    workload.form() == Form::PerNode || workload == WorkloadKind::Knative;
                is_silent
                    && workload.replicas(object) > 0
                    && workload.unready_reason(object, threshold).is_some()
            })
        };
        let remembered = remembered.filter(|_| !self.has_looked);
        self.has_looked = true;
        let of_target = remembered.and_then(|it| it.canary_lacking_since.as_ref());
        let of_primary = remembered.and_then(|it| it.primary_lacking_since.as_ref());
        let sides = [
            (&mut self.target, of_target, is_unready(target, analysis.canary_ready_threshold())),
            (
                &mut self.primary,
                of_primary,
                is_unready(primary, analysis.primary_ready_threshold()),
            ),
        ];
        for (since, remembered, is_unready) in sides {
            let begun = || clocks.since(remembered.map(|time| time.0));
            *since = is_unready.then(|| since.unwrap_or_else(begun));
        }
    }

    /// Both times for the status. A time that is there already stays, unless it is in the future.
    pub(super) fn to_remember(
        &self,
        remembered: Option<&RolloutMemory>,
        clocks: Clocks,
    ) -> [Option<Timestamp>; 2] {
        let of_target = remembered.and_then(|it| it.canary_lacking_since.as_ref());
        let of_primary = remembered.and_then(|it| it.primary_lacking_since.as_ref());
        [(self.target, of_target), (self.primary, of_primary)].map(|(since, remembered)| {
            let kept = remembered.map(|time| time.0).filter(|it| *it <= clocks.wall);
            kept.filter(|_| since.is_some()).or_else(|| clocks.on_the_wall(since?))
        })
    }
}

// === impl Clocks ===

impl Clocks {
    /// The present.
    pub(super) fn now(clock: &dyn Clock) -> Self {
        Self { wall: clock.now(), steady: clock.monotonic() }
    }

    /// The beginning: now, or the remembered moment. A moment in the future, after a clock was put back, is now.
    fn since(self, remembered: Option<Timestamp>) -> Since {
        let lasted = remembered.map(|since| self.wall.duration_since(since));
        let before = lasted.and_then(|lasted| Duration::try_from(lasted).ok());
        Since { seen: self.steady, before: before.unwrap_or_default() }
    }

    /// The start as a timestamp: the present minus the measured time.
    pub(super) fn on_the_wall(self, since: Since) -> Option<Timestamp> {
        let lasted = self.steady.saturating_sub(since.seen).saturating_add(since.before);
        self.wall.checked_sub(SignedDuration::try_from(lasted).ok()?).ok()
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

    fn spec() -> CanarySpec {
        serde_json::from_value(json!({
            "targetRef": { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web" },
            "analysis": { "interval": "1m", "threshold": 1, "stepWeight": 10 },
        }))
        .unwrap()
    }

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn unready_since(second: i64) -> RolloutMemory {
        serde_json::from_value(json!({ "canaryLackingSince": wall(second).to_string() })).unwrap()
    }

    fn clocks(second: i64, steady: u64) -> Clocks {
        Clocks { wall: wall(second), steady: Duration::from_secs(steady) }
    }

    #[test]
    fn the_time_runs_from_the_first_look_that_finds_something_missing() {
        let spec = spec();
        let at = |second: u64| Since { seen: Duration::from_secs(second), before: Duration::ZERO };
        let mut parked = set(0, 0);
        parked["spec"]["template"]["spec"]["nodeSelector"] =
            json!({ "flagger.app/scale-to-zero": "true" });
        let mut unready = UnreadySince::default();
        let mut look = |target: &Value, second: u64| {
            let both = [Some(target), None];
            unready.update(&spec, WorkloadKind::DaemonSet, both, None, clocks(1_000_000, second));
            assert_eq!(unready.primary, None, "there is none");
            unready.target
        };
        assert_eq!(look(&set(3, 3), 1), None, "nothing is missing");
        assert_eq!(look(&set(3, 2), 2), Some(at(2)));
        assert_eq!(look(&set(3, 1), 3), Some(at(2)), "since the first");
        assert_eq!(look(&set(3, 3), 4), None, "it is well again");
        assert_eq!(look(&set(3, 0), 5), Some(at(5)), "and the time begins again");
        assert_eq!(look(&parked, 6), None, "what is parked lacks nothing");
        let none = [None, None];
        unready.update(&spec, WorkloadKind::DaemonSet, none, None, clocks(1_000_000, 7));
        assert_eq!(unready, UnreadySince { has_looked: true, ..UnreadySince::default() });
    }

    #[test]
    fn what_is_remembered_counts_for_the_first_look_alone() {
        let remembered = unready_since(999_970);
        let look = |unready: &mut UnreadySince, target: &Value, now: Clocks| {
            let both = [Some(target), None];
            unready.update(&spec(), WorkloadKind::DaemonSet, both, Some(&remembered), now);
            unready.target.and_then(|since| now.on_the_wall(since))
        };
        let begun = |target: &Value, now: Clocks| look(&mut UnreadySince::default(), target, now);
        let now = clocks(1_000_000, 2);
        assert_eq!(begun(&set(3, 0), now), Some(wall(999_970)), "longer ago than the process");
        assert_eq!(begun(&set(3, 3), now), None, "it is well");
        let back = clocks(999_000, 2);
        assert_eq!(begun(&set(3, 0), back), Some(wall(999_000)), "the clock was put back");

        let mut unready = UnreadySince::default();
        look(&mut unready, &set(3, 3), now);
        let later = clocks(1_000_010, 12);
        assert_eq!(look(&mut unready, &set(3, 0), later), Some(wall(1_000_010)), "it began anew");
    }

    #[test]
    fn a_deployment_has_the_time_in_its_own_status() {
        let object = json!({
            "metadata": { "generation": 1 }, "spec": { "replicas": 3 },
            "status": { "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3 },
        });
        let mut unready = UnreadySince::default();
        let both = [Some(&object), Some(&object)];
        unready.update(&spec(), WorkloadKind::Deployment, both, None, clocks(1_000_000, 1));
        assert_eq!((unready.target, unready.primary), (None, None));
    }

    #[test]
    fn the_status_keeps_what_it_says() {
        let now = clocks(1_000_000, 100);
        let since = Since { seen: Duration::from_secs(70), before: Duration::ZERO };
        let unready = UnreadySince { target: Some(since), ..UnreadySince::default() };
        let said = |unready: &UnreadySince, remembered: Option<i64>| {
            let remembered = remembered.map(unready_since);
            let [target, primary] = unready.to_remember(remembered.as_ref(), now);
            assert_eq!(primary, None);
            target.map(Timestamp::as_second)
        };
        assert_eq!(said(&unready, None), Some(999_970));
        assert_eq!(said(&unready, Some(999_969)), Some(999_969), "no other word for the same");
        assert_eq!(said(&unready, Some(1_000_900)), Some(999_970), "the clock was put back");
        assert_eq!(said(&UnreadySince::default(), Some(999_969)), None, "it is well");
    }

    #[test]
    fn a_wall_clock_that_is_set_makes_nothing_overdue() {
        let since = Since { seen: Duration::from_secs(70), before: Duration::ZERO };
        let cases = [
            ("nobody touched it", 1_000_000, 999_970),
            ("an hour ahead", 1_003_600, 1_003_570),
            ("an hour back", 996_400, 996_370),
        ];
        for (reason, now, want) in cases {
            assert_eq!(clocks(now, 100).on_the_wall(since), Some(wall(want)), "{reason}");
        }
        let later = Since { seen: Duration::from_secs(101), before: Duration::ZERO };
        assert_eq!(clocks(5, 100).on_the_wall(later), Some(wall(5)), "not before it was seen");
    }
}
