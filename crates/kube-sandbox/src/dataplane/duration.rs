//! Durations in routing objects and image tags: `800ms`, `1.5s`, `1h30m`.

use std::time::Duration;

/// Maximum duration: more than any timeout or latency, and safe in arithmetic.
const MAX: Duration = Duration::from_hours(24 * 365);

/// Sums the parts, each a number and a unit. `None` for anything else, and for more than a year.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(letters)?;
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()?;
        sum = sum.checked_add(part).filter(|sum| *sum <= MAX)?;
        rest = after;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let cases = [
            ("800ms", Some(Duration::from_millis(800))),
            ("1.5s", Some(Duration::from_millis(1500))),
            ("1h30m", Some(Duration::from_mins(90))),
            ("2m10s500ms", Some(Duration::from_millis(130_500))),
            ("0s", Some(Duration::ZERO)),
            ("10", None),
            ("s", None),
            ("", None),
            ("1d", None),
            ("-1s", None),
            ("1s2", None),
            ("99999999999h", None),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text), want, "{text:?}");
        }
    }
}
