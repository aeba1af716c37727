//! Durations as Go writes them, within the bounds of a load tester: none is negative, none over a year.

use std::time::Duration;

use tidegate_api::duration::GoDuration;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration like 90s or 1m30s")]
pub struct DurationError(String);

/// Longer than any wait, and far from where clocks overflow.
const MAX: Duration = Duration::from_hours(366 * 24);

/// Reads a sequence of numbers with units; a lone `0` needs none.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let duration = text.parse().ok().and_then(GoDuration::to_std);
    duration.filter(|it| *it <= MAX).ok_or_else(|| DurationError(text.to_owned()))
}

/// As Go prints it: `1h0m0s`, `1m30s`, `1.5s`, `250ms`, `0s`.
pub fn show(duration: Duration) -> String {
    let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    GoDuration::from_nanos(nanos).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read() {
        let cases = [("90s", 90_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("250ms", 250)];
        for (text, want) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(want)), "{text}");
        }
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        for text in ["", "5", "s", "1d", "-1s", "1.2.3s", "1e3s", "999999h", "inf", "1ms2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_printed_as_go_does() {
        let cases = ["0s", "1h0m0s", "1m30s", "1.5s", "250ms", "1.25ms", "5\u{b5}s", "7ns"];
        for text in cases {
            assert_eq!(show(parse(text).unwrap_or_default()), text);
        }
    }
}
