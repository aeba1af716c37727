//! Classic histograms: cumulative buckets, one series for each upper bound (`le`).
//!
//! Observations are assumed to be spread evenly within a bucket. The lowest bucket starts at zero
//! unless its bound is not positive; the highest has no upper end.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, btree_map::Entry},
};

use super::{labels::Labels, query::Sample};

/// The bound of a bucket and its cumulative count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    pub(super) upper: f64,
    pub(super) count: f64,
}

/// A function of a whole histogram.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
    Quantile(f64),
    Fraction { lower: f64, upper: f64 },
}

/// Counts whose relative difference is below this are equal but for rounding.
const ROUNDING: f64 = 1e-12;

const BUCKET: &str = "le";

/// Groups buckets into histograms and evaluates each of them.
pub(super) fn ask(samples: Vec<Sample>, question: Question) -> Vec<Sample> {
    let mut places = BTreeMap::new();
    let mut histograms: Vec<(Labels, Vec<Bucket>)> = Vec::new();
    for Sample { labels, value: count } in samples {
        // A series without a bound is no bucket and is skipped, as in Prometheus.
        let Ok(upper) = labels.get(BUCKET).parse() else { continue };
        let labels = labels.with(BUCKET, "");
        let place = match places.entry(labels.clone()) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                histograms.push((labels.unnamed(), Vec::new()));
                *entry.insert(histograms.len() - 1)
            }
        };
        if let Some((_, buckets)) = histograms.get_mut(place) {
            buckets.push(Bucket { upper, count });
        }
    }
    let answered = histograms.into_iter().map(|(labels, buckets)| {
        let value = match question {
            Question::Quantile(quantile) => bucket_quantile(quantile, buckets),
            Question::Fraction { lower, upper } => bucket_fraction(lower, upper, buckets),
        };
        Sample { labels, value }
    });
    answered.collect()
}

/// The value below which the given part of all observations lies.
pub(super) fn bucket_quantile(quantile: f64, buckets: Vec<Bucket>) -> f64 {
    if quantile.is_nan() {
        return f64::NAN;
    }
    if quantile < 0.0 {
        return f64::NEG_INFINITY;
    }
    if quantile > 1.0 {
        return f64::INFINITY;
    }
    let Some(mut buckets) = complete(buckets) else { return f64::NAN };
    never_falling(&mut buckets);
    let [.., second_highest, highest] = buckets.as_slice() else { return f64::NAN };
    if highest.count == 0.0 {
        return f64::NAN;
    }
    let rank = quantile * highest.count;
    let bounded = buckets.get(..buckets.len() - 1).unwrap_or_default();
    let is_below = |bucket: &Bucket| bucket.count.partial_cmp(&rank).is_none_or(Ordering::is_lt);
    let place = bounded.partition_point(is_below);
    let Some(bucket) = bounded.get(place) else { return second_highest.upper };
    let below = place.checked_sub(1).and_then(|below| bounded.get(below));
    if below.is_none() && bucket.upper <= 0.0 {
        return bucket.upper;
    }
    let (start, counted) = below.map_or((0.0, 0.0), |below| (below.upper, below.count));
    start + (bucket.upper - start) * ((rank - counted) / (bucket.count - counted))
}

/// The fraction of observations between two values.
pub(super) fn bucket_fraction(lower: f64, upper: f64, buckets: Vec<Bucket>) -> f64 {
    let Some(buckets) = complete(buckets) else { return f64::NAN };
    let count = buckets.last().map_or(0.0, |highest| highest.count);
    if count == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    (rank_of(upper, &buckets).min(count) - rank_of(lower, &buckets).min(count)) / count
}

/// The number of observations up to `value`.
fn rank_of(value: f64, buckets: &[Bucket]) -> f64 {
    let lowest_is_positive = buckets.first().is_some_and(|lowest| lowest.upper > 0.0);
    let mut start = if lowest_is_positive { 0.0 } else { f64::NEG_INFINITY };
    let mut rank = 0.0;
    for bucket in buckets {
        if start >= value {
            return rank;
        }
        if bucket.upper > value {
            // A bucket without a lower end cannot be interpolated.
            let is_endless = start == f64::NEG_INFINITY;
            let part = (value - start) / (bucket.upper - start);
            return if is_endless { bucket.count } else { rank + (bucket.count - rank) * part };
        }
        rank = bucket.count;
        start = bucket.upper;
    }
    f64::INFINITY
}

/// Sorts buckets by bound and adds up equal ones. `None` unless the highest bound is infinite.
fn complete(mut buckets: Vec<Bucket>) -> Option<Vec<Bucket>> {
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    buckets.last().filter(|highest| highest.upper == f64::INFINITY)?;
    buckets.dedup_by(|next, bucket| {
        let is_same = next.upper.partial_cmp(&bucket.upper) == Some(Ordering::Equal);
        if is_same {
            bucket.count += next.count;
        }
        is_same
    });
    Some(buckets)
}

/// Makes counts monotonic, which rounding or a scrape during an update may break.
fn never_falling(buckets: &mut [Bucket]) {
    let mut reached: Option<f64> = None;
    for bucket in buckets {
        match reached {
            Some(count) if bucket.count < count || is_nearly(bucket.count, count) => {
                bucket.count = count;
            }
            _ => reached = Some(bucket.count),
        }
    }
}

fn is_nearly(a: f64, b: f64) -> bool {
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a.is_nan() && b.is_nan() || difference == 0.0 {
        return true;
    }
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < ROUNDING * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < ROUNDING
}
