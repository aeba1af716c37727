//! How fast a counter grows within a window: `rate`, `increase`, `delta` and their instant kin.
//!
//! A window rarely begins and ends on a sample. Where the samples come close to its ends (within
//! 1.1 times their average distance) the slope is continued up to the end, elsewhere by half that
//! distance; and never to where the counter would have been below zero.

use std::cmp::Ordering;

use super::{
    database::Point,
    numbers::{float, seconds},
};

/// The samples of one series in a window, and what a function over them may ask.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'w> {
    /// In the order of time, none stale, at least one.
    pub(super) points: &'w [Point],
    /// The window is open here, and closed at its end.
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    /// The time of the evaluation: `end_ms` unless there is an offset.
    pub(super) now_ms: i64,
    /// The one number some functions take besides.
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

/// How much a counter grew over its samples, and how much more the window holds.
fn growth(window: Window<'_>) -> Option<(f64, f64)> {
    let [first, .., last] = window.points else { return None };
    // A counter that fell began anew: what it had reached is not lost.
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

/// How much more the window holds than its samples span.
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
