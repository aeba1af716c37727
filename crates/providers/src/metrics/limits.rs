//! Limits: whether a measurement is within the limits of its metric.
//!
//! A value on a limit passes. Where there is a `thresholdRange` it decides; otherwise the
//! deprecated `threshold` does, 0 if absent, as the least success rate or the largest of anything
//! else.
//!
//! Times are compared as they are measured. Flagger cuts both sides to whole milliseconds first, by
//! which 500.9 ms is within 500 and a limit of 0.5 ms is 0.

use std::fmt;

use tidegate_api::canary::analysis::{AnalysisMetric, ThresholdRange};

use super::{Builtin, Sample, text};
use crate::template::is_interval;

/// The kind of number a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Percent of requests, more is better.
    SuccessRate,
    /// Milliseconds, less is better.
    Duration,
    /// Any number; less is better if only `threshold` is given.
    Custom,
}

/// Accepted values, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Least accepted value.
    pub min: Option<f64>,
    /// Largest accepted value.
    pub max: Option<f64>,
}

/// A value and its judgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Name of the metric.
    pub name: String,
    /// The value, in full.
    pub value: f64,
    /// Least accepted value.
    pub min: Option<f64>,
    /// Largest accepted value.
    pub max: Option<f64>,
    /// The violated limit; nothing if it passed.
    pub breach: Option<Breach>,
}

/// A value out of its limits. Prints as `success rate 98.69% < 99%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The measured quantity, for people: `success rate`, `request duration` or the metric's name.
    pub subject: String,
    /// The value, for people.
    pub value: String,
    /// Which way it is out.
    pub direction: Direction,
    /// The limit, for people; none if the value is infinite and breaks no limit that was given.
    pub limit: Option<String>,
}

/// Which way a value is out of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Less than the least.
    Below,
    /// More than the most.
    Above,
}

/// Warnings about a metric that can be evaluated; for people, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No limit is given, and none is a limit of 0: every success rate passes, nothing else does.
    NoLimit,
    /// A range without bounds: everything passes.
    EmptyRange,
    /// The least is above the largest: nothing passes.
    Crossed,
    /// Both a threshold and a range: the threshold is ignored.
    ThresholdIgnored,
    /// An interval that is no span of time: every check will fail.
    Interval,
    /// A built-in name with a query or template of its own: both are evaluated.
    EvaluatedTwice,
}

/// Compares a value with the limits of its metric.
///
/// An infinite value is out of range even where no limit says so: no author of a metric meant to
/// accept it.
pub fn judge(metric: &AnalysisMetric, measure: Measure, sample: Sample) -> Check {
    let limits = Limits::of(metric, measure);
    let value = sample.get();
    let broken = limits.broken_by(value);
    let breach = broken.map(|broken| measure.breach(metric, value, broken));
    Check { name: metric.name.clone(), value, min: limits.min, max: limits.max, breach }
}

/// Warnings to the author of a metric.
pub fn warnings(metric: &AnalysisMetric) -> Vec<Warning> {
    let mut found = Vec::new();
    match (&metric.threshold_range, metric.threshold) {
        (None, None) => found.push(Warning::NoLimit),
        (None, Some(_)) => {}
        (Some(range), threshold) => {
            if threshold.is_some() {
                found.push(Warning::ThresholdIgnored);
            }
            match (range.min, range.max) {
                (None, None) => found.push(Warning::EmptyRange),
                (Some(min), Some(max)) if min > max => found.push(Warning::Crossed),
                _ => {}
            }
        }
    }
    if !is_interval(metric.interval()) {
        found.push(Warning::Interval);
    }
    let has_query =
        metric.template_ref.is_some() || metric.query.as_deref().is_some_and(|q| !q.is_empty());
    if has_query && Builtin::named(&metric.name).is_some() {
        found.push(Warning::EvaluatedTwice);
    }
    found
}

// === impl Limits ===

impl Limits {
    /// The limits of a metric for this kind of value.
    pub fn of(metric: &AnalysisMetric, measure: Measure) -> Self {
        let threshold = Some(metric.threshold.unwrap_or(0.0));
        match (&metric.threshold_range, measure) {
            (Some(ThresholdRange { min, max }), _) => Self { min: *min, max: *max },
            (None, Measure::SuccessRate) => Self { min: threshold, max: None },
            (None, Measure::Duration | Measure::Custom) => Self { min: None, max: threshold },
        }
    }

    fn broken_by(&self, value: f64) -> Option<(Direction, Option<f64>)> {
        match (self.min, self.max) {
            (Some(min), _) if value < min => Some((Direction::Below, Some(min))),
            (_, Some(max)) if value > max => Some((Direction::Above, Some(max))),
            _ if value == f64::INFINITY => Some((Direction::Above, None)),
            _ if value == f64::NEG_INFINITY => Some((Direction::Below, None)),
            _ => None,
        }
    }
}

// === impl Measure ===

impl Measure {
    fn breach(
        self,
        metric: &AnalysisMetric,
        value: f64,
        (direction, limit): (Direction, Option<f64>),
    ) -> Breach {
        let subject = match self {
            Self::SuccessRate => "success rate",
            Self::Duration => "request duration",
            Self::Custom => metric.name.as_str(),
        };
        let (value, limit) = match (self, limit) {
            (Self::Duration, limit) => durations(value, limit),
            (Self::SuccessRate, limit) => {
                let (value, limit) = numbers(value, limit);
                (format!("{value}%"), limit.map(|limit| format!("{limit}%")))
            }
            (Self::Custom, limit) => numbers(value, limit),
        };
        Breach { subject: subject.to_owned(), value, direction, limit }
    }
}

/// A value and its limit as Flagger rounds them, unless the value would then look as if it were on the limit,
/// as in `99.00% < 99%`. Then the value in full.
fn numbers(value: f64, limit: Option<f64>) -> (String, Option<String>) {
    let rounded = text::two_decimals(value);
    let differs =
        |limit: f64| rounded.parse().is_ok_and(|shown: f64| is_same_side(shown, value, limit));
    let value = if limit.is_none_or(differs) { rounded.clone() } else { text::shortest(value) };
    (value, limit.map(text::shortest))
}

/// The same for milliseconds, which Flagger cuts to whole ones.
fn durations(value: f64, limit: Option<f64>) -> (String, Option<String>) {
    let differs = |limit: f64| is_same_side(value.trunc(), value, limit.trunc());
    let text =
        if limit.is_none_or(differs) { text::whole_milliseconds } else { text::exact_milliseconds };
    (text(value), limit.map(text))
}

/// Whether the rounded value is out of the limit the way the value is.
fn is_same_side(shown: f64, value: f64, limit: f64) -> bool {
    if value > limit { shown > limit } else { shown < limit }
}

// === impl Check ===

impl Check {
    /// Whether the value is within its limits.
    pub const fn passed(&self) -> bool {
        self.breach.is_none()
    }
}

// === impl Breach ===

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, value, direction, limit } = self;
        match limit {
            Some(limit) => write!(f, "{subject} {value} {} {limit}", direction.sign()),
            None => write!(f, "{subject} {value} is not finite"),
        }
    }
}

// === impl Direction ===

impl Direction {
    /// The sign between value and limit.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Below => "<",
            Self::Above => ">",
        }
    }
}

// === impl Warning ===

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLimit => "has no limit, which counts as a threshold of 0",
            Self::EmptyRange => "has a threshold range without bounds, so every value passes",
            Self::Crossed => "has a minimum above its maximum, so no value passes",
            Self::ThresholdIgnored => "has a threshold range, so its threshold is ignored",
            Self::Interval => {
                "has an interval that is no span of time such as 1m, so every check of it fails"
            }
            Self::EvaluatedTwice => "is built in and has a query too, so both are evaluated",
        })
    }
}

#[cfg(test)]
mod tests;
