//! Durations as Go writes them: `90s`, `1h30m`, `1.5m`, `-250ms`.
//!
//! Flagger and the hook operator read their time fields with Go's parser, so the same texts must be
//! accepted, refused and rounded here. A duration is a signed count of nanoseconds in 64 bits: a
//! text beyond that (about 292 years) is refused, fractions finer than a nanosecond are cut.

use std::{fmt, str::FromStr, time::Duration};

/// A span of time with nanosecond resolution. May be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form number and unit, or too large for 64 bits.
    #[error("invalid duration {0:?}")]
    Invalid(String),
    /// A number with nothing behind it.
    #[error("missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A number with something behind it that is no unit of time.
    #[error("unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The text in the place of a unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    // Both the micro sign and the Greek letter are in use.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The size of the smallest 64-bit number, which has no positive counterpart.
const MAGNITUDE_MAX: u64 = 1 << 63;

// === impl GoDuration ===

impl GoDuration {
    /// A duration of this many nanoseconds.
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// The whole duration in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The duration as std has it; `None` when it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if unsigned == "0" {
            return Ok(Self(0));
        }
        if unsigned.is_empty() {
            return Err(invalid());
        }
        let mut rest = unsigned;
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let group = Group::split(rest).ok_or_else(invalid)?;
            let scale = group.scale(text)?;
            let value = group.value(scale).ok_or_else(invalid)?;
            total = total.checked_add(value).filter(|t| *t <= MAGNITUDE_MAX).ok_or_else(invalid)?;
            rest = group.rest;
        }
        let signed =
            if negative { 0_i64.checked_sub_unsigned(total) } else { total.try_into().ok() };
        signed.map(Self).ok_or_else(invalid)
    }
}

impl fmt::Display for GoDuration {
    /// Hours, minutes and seconds, with the zero parts Go prints too: `1h0m0s`, `1m30s`, `10s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        for (unit, scale) in [("ns", 1), ("\u{b5}s", 1_000), ("ms", 1_000_000)] {
            if nanos < scale * 1_000 {
                return write!(
                    f,
                    "{sign}{}{unit}",
                    Decimal { whole: nanos / scale, part: nanos % scale, scale }
                );
            }
        }
        let second = 1_000_000_000;
        let (hours, minutes) = (nanos / (3_600 * second), nanos / (60 * second) % 60);
        let seconds = Decimal { whole: nanos / second % 60, part: nanos % second, scale: second };
        match (hours, minutes) {
            (0, 0) => write!(f, "{sign}{seconds}s"),
            (0, _) => write!(f, "{sign}{minutes}m{seconds}s"),
            _ => write!(f, "{sign}{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// One number with its unit, and the rest of the text.
struct Group<'a> {
    whole: &'a str,
    fraction: &'a str,
    unit: &'a str,
    rest: &'a str,
}

impl<'a> Group<'a> {
    /// `None` when there is no number at the front.
    fn split(text: &'a str) -> Option<Self> {
        let digits = |t: &str| t.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = text.split_at(digits(text));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(point) => point.split_at(digits(point)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, rest) = after.split_at(end);
        Some(Self { whole, fraction, unit, rest })
    }

    fn scale(&self, text: &str) -> Result<u64, DurationError> {
        if self.unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let known = UNITS.iter().find(|(name, _)| *name == self.unit);
        known.map(|(_, scale)| *scale).ok_or_else(|| DurationError::UnknownUnit {
            unit: self.unit.to_owned(),
            text: text.to_owned(),
        })
    }

    /// The group in nanoseconds; `None` when it does not fit.
    fn value(&self, scale: u64) -> Option<u64> {
        let whole: u64 = if self.whole.is_empty() { 0 } else { self.whole.parse().ok()? };
        let whole = whole.checked_mul(scale)?;
        // Digits past the eighteenth are far below a nanosecond of any unit.
        let digits = self.fraction.get(..18).unwrap_or(self.fraction);
        let fraction: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let places = 10_u128.pow(u32::try_from(digits.len()).ok()?);
        let fraction = u64::try_from(fraction * u128::from(scale) / places).ok()?;
        whole.checked_add(fraction)
    }
}

/// A number with a fraction, printed without trailing zeros.
struct Decimal {
    whole: u64,
    part: u64,
    scale: u64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.part == 0 {
            return write!(f, "{}", self.whole);
        }
        let width = self.scale.ilog10() as usize;
        let digits = format!("{:0width$}", self.part);
        write!(f, "{}.{}", self.whole, digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("the usual", "1m", 60_000_000_000),
            ("several groups add up", "1h30m10s", 5_410_000_000_000),
            ("a fraction of a unit", "1.5m", 90_000_000_000),
            ("nothing before the point", ".5s", 500_000_000),
            ("nothing after the point", "2.s", 2_000_000_000),
            ("a sign", "-250ms", -250_000_000),
            ("the other sign", "+3us", 3_000),
            ("the micro sign", "3\u{b5}s", 3_000),
            ("the Greek letter", "3\u{3bc}s", 3_000),
            ("zero needs no unit", "0", 0),
            ("nor with a sign", "-0", 0),
            ("finer than a nanosecond is cut", "1.9ns", 1),
            ("groups in any order", "1s1h", 3_601_000_000_000),
            ("the smallest number there is", "-9223372036854775808ns", i64::MIN),
        ];
        for (reason, text, want) in cases {
            assert_eq!(text.parse(), Ok(GoDuration::from_nanos(want)), "{reason}");
        }
    }

    #[test]
    fn durations_that_go_refuses_are_refused() {
        let invalid = |t: &str| DurationError::Invalid(t.to_owned());
        let cases = [
            ("nothing", "", invalid("")),
            ("only a sign", "-", invalid("-")),
            ("only a unit", "m", invalid("m")),
            ("only a point", ".s", invalid(".s")),
            (
                "a blank",
                "1 m",
                DurationError::UnknownUnit { unit: " m".into(), text: "1 m".into() },
            ),
            ("no unit", "60", DurationError::MissingUnit("60".into())),
            (
                "days are no unit",
                "1d",
                DurationError::UnknownUnit { unit: "d".into(), text: "1d".into() },
            ),
            ("a tail", "5mx", DurationError::UnknownUnit { unit: "mx".into(), text: "5mx".into() }),
            ("too long", "9223372036854775808ns", invalid("9223372036854775808ns")),
            ("far too long", "99999999999999999999h", invalid("99999999999999999999h")),
            (
                "a sign inside",
                "1m-2s",
                DurationError::UnknownUnit { unit: "m-".into(), text: "1m-2s".into() },
            ),
        ];
        for (reason, text, want) in cases {
            assert_eq!(text.parse::<GoDuration>(), Err(want), "{reason}");
        }
    }

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        let cases = [
            ("0", "0s"),
            ("10s", "10s"),
            ("60s", "1m0s"),
            ("90m", "1h30m0s"),
            ("1500ms", "1.5s"),
            ("1500us", "1.5ms"),
            ("7ns", "7ns"),
            ("-1m1.25s", "-1m1.25s"),
        ];
        for (text, want) in cases {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), want);
        }
    }

    #[test]
    fn a_negative_duration_is_none_in_std() {
        assert_eq!(GoDuration::from_nanos(-1).to_std(), None);
        assert_eq!(GoDuration::from_nanos(5).to_std(), Some(Duration::from_nanos(5)));
    }
}
