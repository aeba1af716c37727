//! Growth of a counter within a window: `rate`, `increase`, `delta` and their instant variants.
//!
//! Samples rarely lie on the ends of a window. If they come close to an end (within 1.1 times their
//! average distance) the slope is extrapolated to the end, otherwise by half that distance; and
//! never to a time when the counter would have been negative.

use std::cmp::Ordering;

use super::{
    database::Point,
    numbers::{float, seconds},
};

/// The samples of one series in a window, and further inputs of a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'w> {
    /// Sorted by time, none stale, at least one.
    pub(super) points: &'w [Point],
    /// The start is excluded, the end included.
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    /// The time of the evaluation: `end_ms` unless there is an offset.
    pub(super) now_ms: i64,
    /// The parameter of functions that have one.
    pub(super) parameter: f64,
}

pub(super) fn rate(window: Window<'_>) -> Option<f64> {
    let (grown, factor) = growth(window)?;
    Some(grown * (factor / seconds(window.end_ms - window.start_ms)))
}

pub(super) fn increase(window: Window<'_>) -> Option<f64> {
    let (grown, factor) = growth(window)?;
    Some(grown * factor)
}

pub(super) fn delta(window: Window<'_>) -> Option<f64> {
    let [first, .., last] = window.points else { return None };
    Some((last.value - first.value) * continuation(window, f64::INFINITY)?)
}

pub(super) fn irate(window: Window<'_>) -> Option<f64> {
    let [.., before, last] = window.points else { return None };
    let elapsed_ms = last.at_ms - before.at_ms;
    let is_reset = last.value < before.value;
    let grown = if is_reset { last.value } else { last.value - before.value };
    (elapsed_ms != 0).then(|| grown / seconds(elapsed_ms))
}

pub(super) fn idelta(window: Window<'_>) -> Option<f64> {
    let [.., before, last] = window.points else { return None };
    (last.at_ms != before.at_ms).then_some(last.value - before.value)
}

pub(super) fn resets(window: Window<'_>) -> f64 {
    let pairs = window.points.windows(2);
    float(pairs.filter(|pair| matches!(pair, [a, b] if b.value < a.value)).count())
}

pub(super) fn changes(window: Window<'_>) -> f64 {
    let is_same =
        |a: f64, b: f64| a.is_nan() && b.is_nan() || a.partial_cmp(&b) == Some(Ordering::Equal);
    let pairs = window.points.windows(2);
    float(pairs.filter(|pair| matches!(pair, [a, b] if !is_same(a.value, b.value))).count())
}

/// Growth of a counter over its samples, and the factor of extrapolation.
fn growth(window: Window<'_>) -> Option<(f64, f64)> {
    let [first, .., last] = window.points else { return None };
    // A counter that fell was reset: its previous value is added.
    let pairs = window.points.windows(2);
    let grown = pairs.fold(last.value - first.value, |grown, pair| match pair {
        [before, after] if after.value < before.value => grown + before.value,
        _ => grown,
    });
    let to_zero = if grown > 0.0 && first.value >= 0.0 {
        seconds(last.at_ms - first.at_ms) * (first.value / grown)
    } else {
        f64::INFINITY
    };
    Some((grown, continuation(window, to_zero)?))
}

/// The extrapolated time range in proportion to the sampled one.
fn continuation(window: Window<'_>, to_zero: f64) -> Option<f64> {
    let [first, .., last] = window.points else { return None };
    let sampled = seconds(last.at_ms - first.at_ms);
    let between_samples = sampled / float(window.points.len() - 1);
    let reach = |distance: f64| {
        let is_near = distance < between_samples * 1.1;
        if is_near { distance } else { between_samples / 2.0 }
    };
    let to_start = reach(seconds(first.at_ms - window.start_ms)).min(to_zero);
    let to_end = reach(seconds(window.end_ms - last.at_ms));
    Some((sampled + to_start + to_end) / sampled)
}
