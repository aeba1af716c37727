//! Runs of hooks: which metric is measured when, and the verdict on all of them.
//!
//! ```text
//! Run::next(now) -> Measure(metrics) --> the operator measures, MetricResult::record
//!                -> Wait(until)
//! Run::assess(now) -> Assessment: phases, messages, ended metrics
//! ```
//!
//! There are two kinds of metric. One that checks fails with the first bad measurement. One that waits, which
//! has a limit of successes, takes bad measurements until that limit is met. Errors are never counted as
//! measurements: a query that failed has no value.

mod due;
mod verdict;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::Moment;

pub use self::{
    due::{Next, Task},
    verdict::{Assessment, MetricEnd},
};

/// Where a run, a metric or a measurement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPhase {
    /// Not begun.
    Pending,
    /// In progress.
    Running,
    /// Good.
    Successful,
    /// Bad.
    Failed,
    /// Could not be measured.
    Error,
    /// Neither good nor bad.
    Inconclusive,
}

/// In which order metrics are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// All at the same time.
    #[default]
    Parallel,
    /// One after the other.
    Ordered,
}

/// One thing to measure. Numbers are as the user wrote them, see [`Run::validate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Time between two measurements. Less than a second counts as one.
    pub interval: Option<Duration>,
    /// Time before the first.
    pub initial_delay: Option<Duration>,
    /// Measurements to take; 0 is one without an interval, and no limit with one.
    pub count: i64,
    /// Bad measurements that are tolerated.
    pub failure_limit: Option<i64>,
    /// Good measurements that end the metric; 0 is off.
    pub successful_limit: i64,
    /// Measurements neither good nor bad that are tolerated.
    pub inconclusive_limit: i64,
    /// Errors in a row that are tolerated.
    pub consecutive_error_limit: Option<i64>,
    /// Good measurements in a row that end the metric.
    pub consecutive_successful_limit: Option<i64>,
    /// Sources it names; there must be exactly one.
    pub providers: usize,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The phase of this measurement.
    pub phase: HookPhase,
    /// Why, if that needs words.
    pub message: Option<String>,
    /// When it began.
    pub started: Moment,
    /// When it ended.
    pub finished: Option<Moment>,
    /// When to look at it again.
    pub resume: Option<Moment>,
    /// The measured value, as a text.
    pub value: String,
}

/// The results of a metric so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricResult {
    /// Name of the metric.
    pub name: String,
    /// Where it stands.
    pub phase: Option<HookPhase>,
    /// Why.
    pub message: Option<String>,
    /// The newest measurements, oldest first.
    pub measurements: Vec<Measurement>,
    /// Measurements taken, errors not counted.
    pub count: i64,
    /// Good ones.
    pub successful: i64,
    /// Bad ones.
    pub failed: i64,
    /// Neither.
    pub inconclusive: i64,
    /// Errors.
    pub error: i64,
    /// Errors in a row.
    pub consecutive_error: i64,
    /// Good ones in a row.
    pub consecutive_successful: i64,
}

/// A run as it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its phase; `None` before the first look.
    pub phase: Option<HookPhase>,
    /// When it was first looked at.
    pub started: Option<Moment>,
    /// Termination was requested.
    pub terminate: bool,
    /// Order of the metrics.
    pub policy: Policy,
    /// How long it may take, if there is a limit.
    pub deadline: Option<Duration>,
    /// Metrics to measure.
    pub metrics: Vec<Metric>,
    /// The results so far.
    pub results: Vec<MetricResult>,
}

/// Why a run cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It measures nothing.
    #[error("no metrics are given")]
    Empty,
    /// Two metrics have one name.
    #[error("two metrics are called {0}")]
    Twice(String),
    /// A limit could never be reached.
    #[error("{limit} of metric {metric} is greater than count")]
    BeyondCount {
        /// Name of the metric.
        metric: String,
        /// Name of the limit.
        limit: &'static str,
    },
    /// Several measurements, and no time between them.
    #[error("metric {0} has a count greater than 1 and no interval")]
    NoInterval(String),
    /// A limit is too small.
    #[error("{limit} of metric {metric} must be at least {least}")]
    TooSmall {
        /// Name of the metric.
        metric: String,
        /// Name of the limit.
        limit: &'static str,
        /// Smallest value.
        least: i64,
    },
    /// None or several sources.
    #[error("metric {0} must have exactly one provider")]
    Providers(String),
}

/// Measurements of a metric that are kept.
const MEASUREMENTS_KEPT: usize = 10;
/// Errors in a row that a metric which checks tolerates.
const ERRORS_TOLERATED: i64 = 4;
/// Time between two attempts of a metric without an interval, whose first was an error.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// Least time between two measurements: one without end must not fill the network, nor the status
/// with what is written after each.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

// === impl HookPhase ===

impl HookPhase {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Successful,
        Self::Failed,
        Self::Error,
        Self::Inconclusive,
    ];

    /// The phase of this name, if it is one of ours.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// Nothing will change any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Successful | Self::Failed | Self::Error | Self::Inconclusive => true,
        }
    }

    /// The word in status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Successful => "Successful",
            Self::Failed => "Failed",
            Self::Error => "Error",
            Self::Inconclusive => "Inconclusive",
        }
    }

    /// The larger the worse.
    const fn badness(self) -> u8 {
        match self {
            Self::Successful => 0,
            Self::Running => 1,
            Self::Pending => 2,
            Self::Inconclusive => 3,
            Self::Error => 4,
            Self::Failed => 5,
        }
    }

    fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Error | Self::Inconclusive)
    }
}

// === impl Metric ===

impl Metric {
    /// It takes bad measurements until it has enough good ones.
    pub fn waits(&self) -> bool {
        self.successful_limit > 0 || self.consecutive_successful_limit.is_some()
    }

    /// Measurements to take, if there is a limit.
    pub fn effective_count(&self) -> Option<i64> {
        match (self.count, self.interval) {
            (count, _) if count > 0 => Some(count),
            (_, None) => Some(1),
            (_, Some(_)) => None,
        }
    }

    /// Time from the end of a measurement to the next.
    fn gap(&self) -> Duration {
        self.interval.map_or(RETRY_AFTER, |interval| interval.max(INTERVAL_MIN))
    }

    fn failure_limit(&self) -> Option<i64> {
        self.failure_limit.or_else(|| (!self.waits()).then_some(0))
    }

    fn error_limit(&self) -> Option<i64> {
        self.consecutive_error_limit.or_else(|| (!self.waits()).then_some(ERRORS_TOLERATED))
    }

    fn validate(&self) -> Result<(), Invalid> {
        let metric = || self.name.clone();
        if self.count > 1 && self.interval.is_none() {
            return Err(Invalid::NoInterval(metric()));
        }
        let failures = self.failure_limit.unwrap_or_default();
        let limits = [
            ("failureLimit", failures, 0, true),
            ("successfulLimit", self.successful_limit, 0, true),
            ("inconclusiveLimit", self.inconclusive_limit, 0, true),
            ("consecutiveErrorLimit", self.consecutive_error_limit.unwrap_or_default(), 0, false),
            (
                "consecutiveSuccessfulLimit",
                self.consecutive_successful_limit.unwrap_or(1),
                1,
                false,
            ),
        ];
        for (limit, value, least, is_counted) in limits {
            if value < least {
                return Err(Invalid::TooSmall { metric: metric(), limit, least });
            }
            if is_counted && self.count > 0 && value > self.count {
                return Err(Invalid::BeyondCount { metric: metric(), limit });
            }
        }
        if self.providers == 1 { Ok(()) } else { Err(Invalid::Providers(metric())) }
    }
}

// === impl MetricResult ===

impl MetricResult {
    /// Of a metric that was not measured yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Adds a measurement, or the rest of the one that was in progress.
    pub fn record(&mut self, measurement: Measurement) {
        let is_finished = measurement.finished.is_some();
        let phase = measurement.phase;
        if self.measurements.last().is_some_and(|last| last.finished.is_none()) {
            self.measurements.pop();
        }
        self.measurements.push(measurement);
        let surplus = self.measurements.len().saturating_sub(MEASUREMENTS_KEPT);
        self.measurements.drain(..surplus);
        if is_finished {
            self.count(phase);
        }
    }

    fn count(&mut self, phase: HookPhase) {
        let counter = match phase {
            HookPhase::Successful => &mut self.successful,
            HookPhase::Failed => &mut self.failed,
            HookPhase::Inconclusive => &mut self.inconclusive,
            HookPhase::Error | HookPhase::Pending | HookPhase::Running => &mut self.error,
        };
        *counter = counter.saturating_add(1);
        if matches!(phase, HookPhase::Error | HookPhase::Pending | HookPhase::Running) {
            self.consecutive_error = self.consecutive_error.saturating_add(1);
        } else {
            self.count = self.count.saturating_add(1);
            self.consecutive_error = 0;
        }
        let in_a_row = self.consecutive_successful.saturating_add(1);
        self.consecutive_successful = if phase == HookPhase::Successful { in_a_row } else { 0 };
    }

    fn is_final(&self) -> bool {
        self.phase.is_some_and(HookPhase::is_final)
    }
}

// === impl Run ===

impl Run {
    /// Metrics that go on until they fail or are ended from outside: they have an interval, and no count that
    /// is enough.
    pub fn endless(&self) -> impl Iterator<Item = &str> {
        let is_endless = |metric: &&Metric| {
            metric.interval.is_some()
                && metric.count == 0
                && metric.successful_limit == 0
                && metric.consecutive_successful_limit.is_none()
        };
        self.metrics.iter().filter(is_endless).map(|metric| metric.name.as_str())
    }

    /// Whether it can be made at all.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.metrics.is_empty() {
            return Err(Invalid::Empty);
        }
        for (index, metric) in self.metrics.iter().enumerate() {
            if self.metrics.iter().take(index).any(|other| other.name == metric.name) {
                return Err(Invalid::Twice(metric.name.clone()));
            }
            metric.validate()?;
        }
        Ok(())
    }

    fn result(&self, metric: &Metric) -> Option<&MetricResult> {
        self.results.iter().find(|result| result.name == metric.name)
    }

    /// It took longer than it may.
    fn is_overdue(&self, now: Moment) -> bool {
        self.deadline
            .is_some_and(|limit| self.started.is_some_and(|started| now.since(started) > limit))
    }

    /// It is to end: on request, or because something failed.
    fn is_terminating(&self) -> bool {
        let has_failed = |result: &MetricResult| result.phase.is_some_and(HookPhase::is_bad);
        self.terminate || self.results.iter().any(has_failed)
    }
}
