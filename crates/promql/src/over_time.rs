//! Functions over the samples of a window: `*_over_time`, and linear regression.

use std::cmp::Ordering;

use super::{
    database::Point,
    numbers::{self, Mean, Sum, float, seconds},
    rate::Window,
};

/// A straight line through samples.
struct Line {
    slope: f64,
    /// The value at the evaluation time.
    intercept: f64,
}

pub(super) fn sum(window: Window<'_>) -> f64 {
    let sum = values(window).fold(Sum::default(), Sum::plus);
    if sum.total.is_infinite() { sum.total } else { sum.value() }
}

pub(super) fn average(window: Window<'_>) -> f64 {
    let mut mean = Mean::default();
    for value in values(window) {
        mean.add(value);
    }
    mean.value()
}

pub(super) fn min(window: Window<'_>) -> Option<f64> {
    values(window)
        .reduce(|least, value| if value < least || least.is_nan() { value } else { least })
}

pub(super) fn max(window: Window<'_>) -> Option<f64> {
    values(window).reduce(|most, value| if value > most || most.is_nan() { value } else { most })
}

pub(super) fn count(window: Window<'_>) -> f64 {
    float(window.points.len())
}

pub(super) fn first(window: Window<'_>) -> Option<f64> {
    window.points.first().map(|point| point.value)
}

pub(super) fn last(window: Window<'_>) -> Option<f64> {
    window.points.last().map(|point| point.value)
}

pub(super) fn deviation(window: Window<'_>) -> f64 {
    variance(window).sqrt()
}

pub(super) fn variance(window: Window<'_>) -> f64 {
    let (mut mean, mut squares) = (Sum::default(), Sum::default());
    let mut count = 0.0;
    for value in values(window) {
        count += 1.0;
        let distance = value - mean.value();
        mean = mean.plus(distance / count);
        squares = squares.plus(distance * (value - mean.value()));
    }
    squares.value() / count
}

pub(super) fn quantile(window: Window<'_>) -> f64 {
    numbers::quantile(window.parameter, values(window).collect())
}

pub(super) fn slope(window: Window<'_>) -> Option<f64> {
    // Relative to the first sample, to keep numbers small.
    let from_ms = window.points.first()?.at_ms;
    line(window.points, from_ms).map(|line| line.slope)
}

pub(super) fn prediction(window: Window<'_>) -> Option<f64> {
    let line = line(window.points, window.now_ms)?;
    Some(line.slope * window.parameter + line.intercept)
}

fn values(window: Window<'_>) -> impl Iterator<Item = f64> {
    window.points.iter().map(|point| point.value)
}

/// Least-squares regression; `None` for a single sample.
fn line(points: &[Point], from_ms: i64) -> Option<Line> {
    let [first, _, ..] = points else { return None };
    let is_level = |point: &Point| point.value.partial_cmp(&first.value) == Some(Ordering::Equal);
    if points.iter().all(is_level) {
        let is_finite = first.value.is_finite();
        let (slope, intercept) = if is_finite { (0.0, first.value) } else { (f64::NAN, f64::NAN) };
        return Some(Line { slope, intercept });
    }
    let count = float(points.len());
    let total = |term: fn(f64, f64) -> f64| {
        let terms = points.iter().map(|point| term(seconds(point.at_ms - from_ms), point.value));
        terms.fold(Sum::default(), Sum::plus).value()
    };
    let (x, y) = (total(|x, _| x), total(|_, y| y));
    let (xy, xx) = (total(|x, y| x * y), total(|x, _| x * x));
    let slope = (xy - x * y / count) / (xx - x * x / count);
    Some(Line { slope, intercept: y / count - slope * x / count })
}
