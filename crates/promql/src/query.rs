//! Instant and range queries in `PromQL` over a [`Database`].
//!
//! Semantics are those of Prometheus 3: windows and the lookback are open at their start. A query
//! that needs more work than [`WORK_MAX`] is refused, as are overly long texts and deep trees.

use std::collections::BTreeMap;

use super::{
    database::{Database, Point},
    evaluate::Evaluator,
    labels::Labels,
    parse::parse,
    plan::{Plan, Planner},
};

/// An element of an instant vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The labels of the series, or what the query left of them.
    pub labels: Labels,
    /// The value at that time.
    pub value: f64,
}

/// A series over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The labels of the series, or what the query left of them.
    pub labels: Labels,
    /// In the order of time.
    pub points: Vec<Point>,
}

/// Result of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number without labels.
    Scalar(f64),
    /// The text of a string literal.
    Text(String),
    /// One value for each of several series.
    Vector(Vec<Sample>),
    /// Several values for each of several series.
    Matrix(Vec<Series>),
}

/// Why a query failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query is invalid or unsupported.
    #[error("{0}")]
    BadData(String),
    /// The query is valid, but fails on these series.
    #[error("{0}")]
    Execution(String),
}

/// A `PromQL` query.
#[derive(Debug, Clone, Copy)]
pub struct Query<'t> {
    text: &'t str,
    lookback_ms: i64,
    work_max: u64,
}

/// The evaluation times of a range query: from `start_ms` to `end_ms`, both included.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// The first time, in milliseconds since 1970.
    pub start_ms: i64,
    /// No time is later than this one.
    pub end_ms: i64,
    /// From one time to the next; at least 1.
    pub step_ms: i64,
}

/// Collects samples of many steps into series.
#[derive(Default)]
pub(super) struct Collected(BTreeMap<Labels, Vec<Point>>);

/// Maximum age of the newest sample of a series: five minutes.
pub const LOOKBACK_MS: i64 = 300_000;

/// Maximum number of points per series, as in Prometheus.
pub const POINTS_MAX: i64 = 11_000;

/// Maximum number of samples that a query may read, with fifty for each node: about a second.
pub const WORK_MAX: u64 = 50_000_000;

/// Times beyond 290,000 years are refused, so that no sum of a time and durations overflows.
pub(super) const TIME_MS_MAX: i64 = 9_223_372_036_854_000;

// === impl Query ===

impl<'t> Query<'t> {
    /// A query with the usual look back and bound on work. Errors in the text show when it is asked.
    pub fn new(text: &'t str) -> Self {
        Self { text, lookback_ms: LOOKBACK_MS, work_max: WORK_MAX }
    }

    /// Sets another maximum age of samples.
    #[must_use]
    pub fn lookback_ms(self, lookback_ms: i64) -> Self {
        Self { lookback_ms, ..self }
    }

    /// Sets another work limit; see [`WORK_MAX`].
    #[must_use]
    pub fn work_max(self, work_max: u64) -> Self {
        Self { work_max, ..self }
    }

    /// Evaluates at one time.
    pub fn instant(self, database: &Database, at_ms: i64) -> Result<Value, QueryError> {
        let steps = Steps { start_ms: at_ms, end_ms: at_ms, step_ms: 1 };
        let plan = self.plan(database, steps)?;
        self.evaluator().value(&plan, at_ms)
    }

    /// Evaluates at each step; series are sorted by labels.
    pub fn range(self, database: &Database, steps: Steps) -> Result<Vec<Series>, QueryError> {
        let plan = self.plan(database, steps)?;
        if matches!(plan, Plan::Text(_) | Plan::Window(_)) {
            let message = "a range query needs a scalar or an instant vector at each step";
            return Err(QueryError::bad_data(message));
        }
        self.evaluator().series(&plan, steps)
    }

    fn plan(self, database: &Database, steps: Steps) -> Result<Plan, QueryError> {
        steps.check()?;
        let tree = parse(self.text)?;
        Planner { database, start_ms: steps.start_ms, end_ms: steps.end_ms }.plan(&tree)
    }

    fn evaluator(self) -> Evaluator {
        Evaluator::new(self.lookback_ms, self.work_max)
    }
}

// === impl Steps ===

impl Steps {
    fn check(self) -> Result<(), QueryError> {
        let Self { start_ms, end_ms, step_ms } = self;
        let is_time = |at_ms: i64| (-TIME_MS_MAX..=TIME_MS_MAX).contains(&at_ms);
        if !is_time(start_ms) || !is_time(end_ms) || step_ms < 1 {
            return Err(QueryError::bad_data("the time of the query is out of range"));
        }
        if end_ms.saturating_sub(start_ms) / step_ms > POINTS_MAX {
            let message = "more than 11,000 points for each series: ask for a wider step";
            return Err(QueryError::bad_data(message));
        }
        Ok(())
    }

    pub(super) fn times(self) -> impl Iterator<Item = i64> {
        let Self { start_ms, end_ms, step_ms } = self;
        std::iter::successors(Some(start_ms), move |at_ms| at_ms.checked_add(step_ms))
            .take_while(move |at_ms| *at_ms <= end_ms)
    }
}

// === impl QueryError ===

impl QueryError {
    pub(super) fn bad_data(message: impl Into<String>) -> Self {
        Self::BadData(message.into())
    }

    pub(super) fn execution(message: impl Into<String>) -> Self {
        Self::Execution(message.into())
    }

    /// The error type in an answer.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::BadData(_) => "bad_data",
            Self::Execution(_) => "execution",
        }
    }

    /// The HTTP status of an answer with this error.
    pub fn status(&self) -> u16 {
        match self {
            Self::BadData(_) => 400,
            Self::Execution(_) => 422,
        }
    }
}

// === impl Collected ===

impl Collected {
    pub(super) fn add(&mut self, at_ms: i64, samples: Vec<Sample>) {
        for Sample { labels, value } in samples {
            self.0.entry(labels).or_default().push(Point { at_ms, value });
        }
    }

    pub(super) fn into_series(self) -> Vec<Series> {
        self.0.into_iter().map(|(labels, points)| Series { labels, points }).collect()
    }
}
