//! Evaluates a plan at a time.
//!
//! A range query is a sequence of instant ones. Work counts against a budget, because a query of a
//! few bytes (`x[1y:1ms]`) could otherwise run for a day.

use std::{borrow::Cow, cell::Cell, sync::Arc};

use super::{
    aggregate, binary,
    database::Point,
    functions::unique,
    labels::Labels,
    numbers::seconds,
    plan::{Aggregate, Binary, Plan, Samples, Selection, WindowSource},
    query::{Collected, QueryError, Sample, Series, Steps, Value},
    rate::Window,
    tables::OverWindow,
};

/// Evaluates plans within a budget.
#[derive(Debug)]
pub(super) struct Evaluator {
    lookback_ms: i64,
    work_max: u64,
    work_left: Cell<u64>,
}

/// The samples of a series in a window.
pub(super) type Found<'p> = (Labels, Cow<'p, [Point]>);

/// Cost of evaluating a node, in samples.
const NODE_WORK: usize = 50;

/// Cost of a point kept for the answer: 5 million of them at most, 80 MB.
const KEPT_WORK: usize = 10;

// === impl Evaluator ===

impl Evaluator {
    pub(super) fn new(lookback_ms: i64, work_max: u64) -> Self {
        Self { lookback_ms, work_max, work_left: Cell::new(work_max) }
    }

    pub(super) fn value(&self, plan: &Plan, now_ms: i64) -> Result<Value, QueryError> {
        self.work(NODE_WORK)?;
        match plan {
            Plan::Number(number) => Ok(Value::Scalar(*number)),
            Plan::Text(text) => Ok(Value::Text(text.clone())),
            Plan::Select(selection) => self.select(selection, now_ms).map(Value::Vector),
            Plan::Window(source) => {
                let windows = self.windows(source, now_ms)?.into_iter();
                let series =
                    windows.map(|(labels, points)| Series { labels, points: points.into_owned() });
                Ok(Value::Matrix(series.collect()))
            }
            Plan::Negate(inner) => match self.value(inner, now_ms)? {
                Value::Scalar(value) => Ok(Value::Scalar(-value)),
                Value::Vector(samples) => {
                    let negated = samples.into_iter().map(|Sample { labels, value }| Sample {
                        labels: labels.unnamed(),
                        value: -value,
                    });
                    unique(negated.collect()).map(Value::Vector)
                }
                Value::Text(_) | Value::Matrix(_) => Err(mistyped()),
            },
            Plan::Binary(binary) => self.binary(binary, now_ms),
            Plan::Aggregate(aggregate) => self.aggregate(aggregate, now_ms).map(Value::Vector),
            Plan::Call(call) => call.value(self, now_ms),
        }
    }

    /// Evaluates a vector or scalar at each step, as series.
    pub(super) fn series(&self, plan: &Plan, steps: Steps) -> Result<Vec<Series>, QueryError> {
        let mut collected = Collected::default();
        for now_ms in steps.times() {
            let samples = match self.value(plan, now_ms)? {
                Value::Scalar(value) => vec![Sample { labels: Labels::default(), value }],
                Value::Vector(samples) => samples,
                Value::Text(_) | Value::Matrix(_) => return Err(mistyped()),
            };
            self.work(samples.len() * KEPT_WORK)?;
            collected.add(now_ms, samples);
        }
        Ok(collected.into_series())
    }

    pub(super) fn scalar(&self, plan: &Plan, now_ms: i64) -> Result<f64, QueryError> {
        match self.value(plan, now_ms)? {
            Value::Scalar(value) => Ok(value),
            Value::Text(_) | Value::Vector(_) | Value::Matrix(_) => Err(mistyped()),
        }
    }

    pub(super) fn vector(&self, plan: &Plan, now_ms: i64) -> Result<Vec<Sample>, QueryError> {
        match self.value(plan, now_ms)? {
            Value::Vector(samples) => Ok(samples),
            Value::Text(_) | Value::Scalar(_) | Value::Matrix(_) => Err(mistyped()),
        }
    }

    /// The samples of each series in a window; series without samples are left out.
    pub(super) fn windows<'p>(
        &self,
        source: &'p WindowSource,
        now_ms: i64,
    ) -> Result<Vec<Found<'p>>, QueryError> {
        let end_ms = source.reference.at_ms(now_ms);
        let start_ms = end_ms - source.range_ms;
        let windows: Vec<_> = match &source.samples {
            Samples::Stored(series) => {
                let inside = series.iter().map(|(labels, points)| {
                    (labels.clone(), without_stale(between(points, start_ms, end_ms)))
                });
                inside.filter(|(_, points)| !points.is_empty()).collect()
            }
            Samples::Computed { plan, step_ms } => {
                let start_ms = first_step(start_ms, *step_ms);
                let series = self.series(plan, Steps { start_ms, end_ms, step_ms: *step_ms })?;
                series.into_iter().map(|found| (found.labels, Cow::Owned(found.points))).collect()
            }
        };
        self.work(windows.iter().map(|(_, points)| points.len() + 1).sum())?;
        Ok(windows)
    }

    /// Applies a function to each series' samples in a window.
    pub(super) fn over_window(
        &self,
        function: OverWindow,
        source: &WindowSource,
        parameter: f64,
        now_ms: i64,
        keeps_name: bool,
    ) -> Result<Vec<Sample>, QueryError> {
        let end_ms = source.reference.at_ms(now_ms);
        let start_ms = end_ms - source.range_ms;
        let windows = self.windows(source, now_ms)?.into_iter();
        let samples = windows.filter_map(|(labels, points)| {
            let points = points.as_ref();
            let value = function(Window { points, start_ms, end_ms, now_ms, parameter })?;
            Some(Sample { labels: if keeps_name { labels } else { labels.unnamed() }, value })
        });
        Ok(samples.collect())
    }

    /// The timestamps of the samples that a selector finds.
    pub(super) fn sample_times(
        &self,
        selection: &Selection,
        now_ms: i64,
    ) -> Result<Vec<Sample>, QueryError> {
        let newest = self.newest(selection, now_ms)?.into_iter();
        let times = newest.map(|(labels, point)| Sample {
            labels: labels.clone().unnamed(),
            value: seconds(point.at_ms),
        });
        Ok(times.collect())
    }

    fn select(&self, selection: &Selection, now_ms: i64) -> Result<Vec<Sample>, QueryError> {
        let newest = self.newest(selection, now_ms)?.into_iter();
        let samples =
            newest.map(|(labels, point)| Sample { labels: labels.clone(), value: point.value });
        Ok(samples.collect())
    }

    /// The newest sample of each series, unless it is too old or the series has ended.
    fn newest<'p>(
        &self,
        selection: &'p Selection,
        now_ms: i64,
    ) -> Result<Vec<(&'p Labels, Point)>, QueryError> {
        self.work(selection.series.len())?;
        let end_ms = selection.reference.at_ms(now_ms);
        let newest = selection.series.iter().filter_map(|(labels, points)| {
            let point = between(points, end_ms - self.lookback_ms, end_ms).last()?;
            (!point.is_stale()).then_some((labels, *point))
        });
        Ok(newest.collect())
    }

    fn binary(&self, plan: &Binary, now_ms: i64) -> Result<Value, QueryError> {
        let Binary { operator, returns_bool, matching, left, right } = plan;
        let operands = (self.value(left, now_ms)?, self.value(right, now_ms)?);
        let samples = match operands {
            (Value::Scalar(left), Value::Scalar(right)) => {
                return Ok(Value::Scalar(operator.scalar(left, right)));
            }
            (Value::Vector(left), Value::Scalar(right)) => {
                let side = binary::Side::Right(right);
                binary::with_scalar(*operator, left, side, *returns_bool)
            }
            (Value::Scalar(left), Value::Vector(right)) => {
                let side = binary::Side::Left(left);
                binary::with_scalar(*operator, right, side, *returns_bool)
            }
            (Value::Vector(left), Value::Vector(right)) => {
                self.work(left.len() + right.len())?;
                matching.combine(*operator, left, right, *returns_bool)?
            }
            _ => return Err(mistyped()),
        };
        unique(samples).map(Value::Vector)
    }

    fn aggregate(&self, plan: &Aggregate, now_ms: i64) -> Result<Vec<Sample>, QueryError> {
        let Aggregate { operator, parameter, grouping, vector } = plan;
        let parameter = parameter.as_ref().map(|parameter| self.value(parameter, now_ms));
        let samples = self.vector(vector, now_ms)?;
        self.work(samples.len())?;
        match parameter.transpose()? {
            None => Ok(aggregate::reduce(*operator, samples, grouping, f64::NAN)),
            Some(Value::Scalar(number)) => {
                aggregate::parametric(*operator, samples, grouping, number)
            }
            Some(Value::Text(label)) => aggregate::count_values(samples, grouping, &label),
            Some(Value::Vector(_) | Value::Matrix(_)) => Err(mistyped()),
        }
    }

    /// Charges work to the budget.
    fn work(&self, amount: usize) -> Result<(), QueryError> {
        let amount = u64::try_from(amount).unwrap_or(u64::MAX);
        let left = self.work_left.get().checked_sub(amount).ok_or_else(|| {
            let message = format!("the query needs to look at more than {} samples", self.work_max);
            QueryError::execution(message)
        })?;
        self.work_left.set(left);
        Ok(())
    }
}

/// The points of a series after `start_ms`, up to and including `end_ms`.
fn between(points: &Arc<Vec<Point>>, start_ms: i64, end_ms: i64) -> &[Point] {
    let from = points.partition_point(|point| point.at_ms <= start_ms);
    let to = points.partition_point(|point| point.at_ms <= end_ms);
    points.get(from..to).unwrap_or_default()
}

/// The points of a window without end-of-series markers.
fn without_stale(points: &[Point]) -> Cow<'_, [Point]> {
    if points.iter().any(Point::is_stale) {
        points.iter().filter(|point| !point.is_stale()).copied().collect()
    } else {
        Cow::Borrowed(points)
    }
}

/// Steps are multiples of their length, so that a subquery's steps do not move with time.
fn first_step(after_ms: i64, step_ms: i64) -> i64 {
    let aligned = after_ms / step_ms * step_ms;
    if aligned <= after_ms { aligned + step_ms } else { aligned }
}

/// Unreachable: the parser checks types and the plan checks arguments.
fn mistyped() -> QueryError {
    QueryError::execution("an operand has the wrong type")
}
