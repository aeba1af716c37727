//! Arithmetic like that of Prometheus: compensated sums, quantiles, and numbers as text.
//!
//! Answers are compared with those of Prometheus digit by digit, so sums are compensated in the
//! same places, and minima treat NaN as Go does.

use std::cmp::Ordering;

/// A sum that carries lost low digits (Kahan summation, Neumaier's variant).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) total: f64,
    pub(super) lost: f64,
}

/// A mean that switches to a running mean once its sum overflows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean {
    count: f64,
    sum: Sum,
    is_running: bool,
}

// === impl Sum ===

impl Sum {
    #[must_use]
    pub(super) fn plus(self, value: f64) -> Self {
        let total = self.total + value;
        let lost = if total.is_infinite() {
            0.0
        } else if self.total.abs() >= value.abs() {
            self.lost + ((self.total - total) + value)
        } else {
            self.lost + ((value - total) + self.total)
        };
        Self { total, lost }
    }

    pub(super) fn value(self) -> f64 {
        self.total + self.lost
    }

    fn scaled(self, factor: f64) -> Self {
        Self { total: self.total * factor, lost: self.lost * factor }
    }
}

// === impl Mean ===

impl Mean {
    pub(super) fn add(&mut self, value: f64) {
        let before = self.count;
        self.count += 1.0;
        if before == 0.0 {
            self.sum = Sum { total: value, lost: 0.0 };
            return;
        }
        if !self.is_running {
            let sum = self.sum.plus(value);
            if !sum.total.is_infinite() {
                self.sum = sum;
                return;
            }
            self.is_running = true;
            self.sum = Sum { total: self.sum.total / before, lost: self.sum.lost / before };
        }
        self.sum = self.sum.scaled(before / self.count).plus(value / self.count);
    }

    pub(super) fn value(self) -> f64 {
        if self.is_running {
            self.sum.value()
        } else {
            self.sum.total / self.count + self.sum.lost / self.count
        }
    }
}

/// The quantile of some values, interpolated linearly.
pub(super) fn quantile(quantile: f64, mut values: Vec<f64>) -> f64 {
    if values.is_empty() || quantile.is_nan() {
        return f64::NAN;
    }
    if quantile < 0.0 {
        return f64::NEG_INFINITY;
    }
    if quantile > 1.0 {
        return f64::INFINITY;
    }
    values.sort_by(|a, b| nan_first(*a, *b));
    let last = values.len() - 1;
    let rank = quantile * float(last);
    let weight = rank - rank.floor();
    let lower = whole(rank.floor()).min(last);
    let upper = (lower + 1).min(last);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    at(lower) * (1.0 - weight) + at(upper) * weight
}

/// Ascending, with NaN first.
pub(super) fn nan_first(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

/// Ascending, with NaN last.
pub(super) fn nan_last(a: f64, b: f64) -> Ordering {
    nan_first(-b, -a)
}

/// The smaller of two, or NaN if one is NaN (but negative infinity wins).
pub(super) fn lesser(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY || b == f64::NEG_INFINITY {
        f64::NEG_INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.min(b)
    }
}

/// The larger of two, or NaN if one is NaN (but infinity wins).
pub(super) fn greater(a: f64, b: f64) -> f64 {
    -lesser(-a, -b)
}

/// A number in the format of Prometheus answers.
pub(super) fn as_sample(value: f64) -> String {
    let size = value.abs();
    // Exponents like those of JSON encoders, instead of hundreds of zeros.
    if !value.is_finite() || size == 0.0 || (1e-6..1e21).contains(&size) {
        return as_digits(value);
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

/// A number without an exponent, in the shortest unambiguous form.
pub(super) fn as_digits(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-Inf".to_owned()
    } else {
        value.to_string()
    }
}

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "counts of samples are far below 2^53")]
pub(super) fn float(count: usize) -> f64 {
    count as f64
}

/// A time or a duration in seconds.
#[expect(clippy::cast_precision_loss, reason = "times are bounded well below 2^53 ms")]
pub(super) fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

/// A whole, non-negative number as an index.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and the caller bounds the index"
)]
pub(super) fn whole(value: f64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let cases = [
            ("a whole number has no point", 1.0, "1"),
            ("a fraction is as short as it can be", 0.1, "0.1"),
            ("negative zero shows", -0.0, "-0"),
            ("not a number", f64::NAN, "NaN"),
            ("infinity carries its sign", f64::INFINITY, "+Inf"),
            ("negative infinity", f64::NEG_INFINITY, "-Inf"),
            ("the smallest without an exponent", 1e-6, "0.000001"),
            ("smaller ones have one of two digits", 9.5e-7, "9.5e-07"),
            (
                "the largest without an exponent",
                123_456_789_012_345_680_000.0,
                "123456789012345680000",
            ),
            ("larger ones have a plus", 1e21, "1e+21"),
            ("three digits of exponent", f64::MAX, "1.7976931348623157e+308"),
        ];
        for (reason, value, want) in cases {
            assert_eq!(as_sample(value), want, "{reason}");
        }
        assert_eq!(as_digits(1e21), "1000000000000000000000");
    }

    #[test]
    fn a_sum_keeps_what_a_plain_one_loses() {
        let sum = [1.0, 1e100, 1.0, -1e100].into_iter().fold(Sum::default(), Sum::plus);
        assert!((sum.value() - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_mean_does_not_overflow() {
        let mut mean = Mean::default();
        for _ in 0..3 {
            mean.add(f64::MAX);
        }
        assert!((mean.value() / f64::MAX - 1.0).abs() < 1e-15, "{}", mean.value());
    }

    #[test]
    fn a_quantile_lies_between_two_values() {
        let cases = [
            ("the median of an odd count", 0.5, vec![3.0, 1.0, 2.0], 2.0),
            ("the median of an even count", 0.5, vec![1.0, 2.0], 1.5),
            ("in proportion", 0.9, vec![0.0, 10.0], 9.0),
            ("the least", 0.0, vec![4.0, 3.0], 3.0),
            ("the greatest", 1.0, vec![4.0, 3.0], 4.0),
            ("below the range", -0.1, vec![1.0], f64::NEG_INFINITY),
            ("above the range", 1.1, vec![1.0], f64::INFINITY),
        ];
        for (reason, q, values, want) in cases {
            assert_eq!(as_digits(quantile(q, values)), as_digits(want), "{reason}");
        }
        assert!(quantile(0.5, vec![]).is_nan());
        assert!(quantile(f64::NAN, vec![1.0]).is_nan());
        assert!(quantile(0.0, vec![1.0, f64::NAN]).is_nan(), "NaN is the least of all");
    }

    #[test]
    fn the_lesser_of_a_number_and_nan_is_nan() {
        assert!(lesser(1.0, f64::NAN).is_nan());
        assert!(greater(f64::NAN, 1.0).is_nan());
        assert_eq!(as_digits(greater(f64::NAN, f64::INFINITY)), "+Inf");
        assert_eq!(as_digits(lesser(f64::NEG_INFINITY, f64::NAN)), "-Inf");
    }
}
