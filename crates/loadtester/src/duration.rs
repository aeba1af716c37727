//! Durations as Go writes them: `90s`, `1m30s`, `1.5h`.
//!
//! Only what a load tester needs: none is negative. It has its own copy of this so that a program
//! that runs commands for others is not built from Kubernetes' types.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration like 90s or 1m30s")]
pub struct DurationError(String);

const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    // Both the micro sign and the Greek letter are in use.
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// A year is more than anybody waits for, and far from where clocks overflow.
const SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0;

/// Reads a sequence of numbers with units; a lone `0` needs none.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        seconds += number * scale;
        rest = after;
    }
    if text.is_empty() || seconds > SECONDS_MAX {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// As Go prints it: `1h0m0s`, `1m30s`, `1.5s`, `250ms`, `0s`.
pub fn show(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    for (unit, scale) in [("ns", 1_u128), ("\u{b5}s", 1_000), ("ms", 1_000_000)] {
        if nanos < scale * 1_000 {
            return format!("{}{unit}", decimal(nanos, scale));
        }
    }
    let second = 1_000_000_000;
    let (hours, minutes) = (nanos / (3_600 * second), nanos / (60 * second) % 60);
    let seconds = decimal(nanos % (60 * second), second);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// `value / scale`, where `scale` is a power of ten, without zeros at the end.
fn decimal(value: u128, scale: u128) -> String {
    let places = scale.ilog10() as usize;
    if places == 0 || value.is_multiple_of(scale) {
        return (value / scale).to_string();
    }
    let text = format!("{}.{:0places$}", value / scale, value % scale);
    text.trim_end_matches('0').to_owned()
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
