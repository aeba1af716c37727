//! Limits on the rate of scaling: stabilisation windows, scaling policies, minimum and maximum.
//!
//! The autoscaler keeps one [`Pace`] per object and passes every recommendation through
//! [`Pace::limit`]. The history is kept in memory only.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::object::{count, int, items, plus_seconds, text};

/// Default stabilisation window for scaling down.
const DOWN_WINDOW_S: i64 = 300;

/// Without a `behavior`, one step may double the size, or reach this size if that is more.
const UNRULED_STEP: i64 = 4;

/// Recommendations and changes of one autoscaler, kept between reconciles.
#[derive(Debug, Default)]
pub(super) struct Pace {
    recommendations: Vec<(Timestamp, i64)>,
    /// Size changes with their times.
    changes: Vec<(Timestamp, i64)>,
}

/// The range of sizes allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) min: i64,
    pub(super) max: i64,
}

/// The limited size, and the limit that applied.
#[derive(Debug)]
pub(super) struct Paced {
    pub(super) replicas: i64,
    /// Reason and message of `AbleToScale`.
    pub(super) able: (&'static str, &'static str),
    /// Reason and message of `ScalingLimited`.
    pub(super) limit: (&'static str, &'static str),
    pub(super) limited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const UP_HELD: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_HELD: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, \
     applying the highest recent recommendation",
);
const WITHIN: (&str, &str) =
    ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

// === impl Bounds ===

impl Bounds {
    pub(super) fn of(autoscaler: &Value) -> Self {
        Self {
            min: int(autoscaler, "/spec/minReplicas").unwrap_or(1),
            max: count(autoscaler, "/spec/maxReplicas"),
        }
    }
}

// === impl Pace ===

impl Pace {
    /// The allowed size when metrics ask for `wanted`.
    pub(super) fn limit(
        &mut self,
        autoscaler: &Value,
        bounds: Bounds,
        current: i64,
        wanted: i64,
        now: Timestamp,
    ) -> Paced {
        if self.recommendations.is_empty() {
            self.recommendations.push((now, current));
        }
        let held = self.stabilize(autoscaler, current, wanted, now);
        let able = match (held == wanted, wanted >= current) {
            (true, _) => READY,
            (false, true) => UP_HELD,
            (false, false) => DOWN_HELD,
        };
        let (highest, up_reason) = match self.reach(autoscaler, Direction::Up, current, now) {
            reach if reach.max(current) < bounds.max => (reach.max(current), UP_LIMIT),
            _ => (bounds.max, TOO_MANY),
        };
        let (lowest, down_reason) = match self.reach(autoscaler, Direction::Down, current, now) {
            reach if reach.min(current) > bounds.min => (reach.min(current), DOWN_LIMIT),
            _ => (bounds.min, TOO_FEW),
        };
        let (replicas, limit) = if held > highest {
            (highest, up_reason)
        } else if held < lowest {
            (lowest, down_reason)
        } else {
            (held, WITHIN)
        };
        Paced { replicas, able, limit, limited: replicas != held }
    }

    /// Records a change of size.
    pub(super) fn scaled(&mut self, by: i64, now: Timestamp) {
        self.changes.push((now, by));
    }

    /// Bounded above by the lowest recommendation of the up window, and below by the highest of the
    /// down window.
    fn stabilize(&mut self, autoscaler: &Value, current: i64, wanted: i64, now: Timestamp) -> i64 {
        let window = |direction, default| {
            int(rules(autoscaler, direction), "/stabilizationWindowSeconds").unwrap_or(default)
        };
        let (up_s, down_s) = (window(Direction::Up, 0), window(Direction::Down, DOWN_WINDOW_S));
        let oldest = plus_seconds(now, -up_s.max(down_s));
        self.recommendations.retain(|(at, _)| *at >= oldest);
        let since = |seconds: i64| {
            let cutoff = plus_seconds(now, -seconds);
            let recent = self.recommendations.iter().filter(move |(at, _)| *at > cutoff);
            recent.map(|(_, replicas)| *replicas).chain([wanted])
        };
        let up = since(up_s).min().unwrap_or(wanted);
        let down = since(down_s).max().unwrap_or(wanted);
        self.recommendations.push((now, wanted));
        current.max(up).min(down)
    }

    /// The size furthest in one direction that the policies allow.
    fn reach(
        &mut self,
        autoscaler: &Value,
        direction: Direction,
        current: i64,
        now: Timestamp,
    ) -> i64 {
        if autoscaler.pointer("/spec/behavior").is_none_or(Value::is_null) {
            return match direction {
                Direction::Up => (2 * current).max(UNRULED_STEP),
                Direction::Down => 0,
            };
        }
        let rules = rules(autoscaler, direction);
        if text(rules, "/selectPolicy") == "Disabled" {
            return current;
        }
        let defaults = default_policies(direction);
        let policies = items(rules, "/policies");
        let policies = if policies.is_empty() { &defaults } else { policies };
        let proposals = policies.iter().map(|policy| {
            let period_s = count(policy, "/periodSeconds");
            let start = current - self.changed_since(plus_seconds(now, -period_s));
            propose(policy, direction, start)
        });
        let farthest = text(rules, "/selectPolicy") != "Min";
        let proposal = match (direction, farthest) {
            (Direction::Up, true) | (Direction::Down, false) => proposals.max(),
            (Direction::Up, false) | (Direction::Down, true) => proposals.min(),
        };
        let proposal = proposal.unwrap_or(current);
        // The longest period of a policy is half an hour; older changes are dropped.
        self.changes.retain(|(at, _)| *at > plus_seconds(now, -1800));
        proposal
    }

    fn changed_since(&self, cutoff: Timestamp) -> i64 {
        self.changes.iter().filter(|(at, _)| *at > cutoff).map(|(_, by)| by).sum()
    }
}

fn rules(autoscaler: &Value, direction: Direction) -> &Value {
    let key = match direction {
        Direction::Up => "scaleUp",
        Direction::Down => "scaleDown",
    };
    &autoscaler["spec"]["behavior"][key]
}

fn default_policies(direction: Direction) -> Vec<Value> {
    let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    match direction {
        Direction::Up => vec![percent, json!({ "type": "Pods", "value": 4, "periodSeconds": 15 })],
        Direction::Down => vec![percent],
    }
}

/// The size that a policy allows for a workload of size `start` at the beginning of the period.
fn propose(policy: &Value, direction: Direction, start: i64) -> i64 {
    let value = count(policy, "/value");
    match (text(policy, "/type"), direction) {
        ("Pods", Direction::Up) => start + value,
        ("Pods", Direction::Down) => start - value,
        // Rounded up; otherwise a small workload could never grow.
        (_, Direction::Up) => {
            (start * (100 + value)).div_euclid(100) + i64::from((start * value) % 100 != 0)
        }
        (_, Direction::Down) => start * (100 - value) / 100,
    }
}
