//! Numbers as Flagger's events print them.

use tidegate_api::duration::GoDuration;

/// Shortest text that reads back as the same number; with an exponent below 1e-4 and from 1e6 on.
pub(super) fn shortest(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value != 0.0 && !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

/// With two decimals, as events show measured values.
pub(super) fn two_decimals(value: f64) -> String {
    if value.is_infinite() { shortest(value) } else { format!("{value:.2}") }
}

/// Milliseconds as a span of time, cut to whole ones: `1.515s`.
pub(super) fn whole_milliseconds(value: f64) -> String {
    if value.is_infinite() {
        return shortest(value);
    }
    nanoseconds(value.trunc() * 1e6)
}

/// Milliseconds as a span of time, down to the nanosecond: `500.9ms`.
pub(super) fn exact_milliseconds(value: f64) -> String {
    if value.is_infinite() {
        return shortest(value);
    }
    nanoseconds((value * 1e6).round())
}

fn nanoseconds(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a longer time is shown as the longest")]
    let nanoseconds = value as i64;
    GoDuration::from_nanos(nanoseconds).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_in_go() {
        let cases = [
            (99.0, "99"),
            (0.5, "0.5"),
            (0.0, "0"),
            (500_000.0, "500000"),
            (999_999.5, "999999.5"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (1e-5, "1e-05"),
            (-2.5, "-2.5"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ];
        for (value, want) in cases {
            assert_eq!(shortest(value), want);
        }
    }

    #[test]
    fn milliseconds_read_as_spans_of_time() {
        let cases = [
            (0.0, "0s"),
            (0.9, "0s"),
            (3.0, "3ms"),
            (500.9, "500ms"),
            (1515.0, "1.515s"),
            (90_000.0, "1m30s"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, want) in cases {
            assert_eq!(whole_milliseconds(value), want);
        }
        assert_eq!(exact_milliseconds(500.9), "500.9ms");
        assert_eq!(exact_milliseconds(1e300), "2562047h47m16.854775807s");
        assert_eq!(two_decimals(98.694), "98.69");
    }
}
