//! Resource quantities: `500m`, `1Gi`, `1.5e3`.
//!
//! A quantity is stored as a whole number of billionths, the finest grain Kubernetes keeps, with
//! the family of suffixes it was written in. The `Display` form is the canonical form that the
//! API server stores: no fraction, the largest suffix that leaves a whole number.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde_json::Value;

const NANO: i128 = 1_000_000_000;
const MILLI_IN_NANO: i128 = 1_000_000;
/// `10^27` billionths is `10^18`, the `E` suffix; one more step keeps products within `i128`.
const NANO_MAX: i128 = 10_i128.pow(36);

/// Supported powers of ten; larger ones have no use.
const EXPONENTS: std::ops::RangeInclusive<i32> = -99..=99;

/// Error text of the API server for a malformed quantity.
pub const NOT_A_QUANTITY: &str = "quantities must match the regular expression \
                                  '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    family: Family,
}

/// The suffixes a quantity was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Decimal,
    Binary,
    Exponent,
}

// === impl Quantity ===

impl Quantity {
    pub const ZERO: Self = Self { nano: 0, family: Family::Decimal };

    /// A JSON quantity is a string or, in a hand-written manifest, a number.
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        }
    }

    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    pub fn is_positive(self) -> bool {
        self.nano > 0
    }

    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// Thousandths, rounded up.
    pub fn milli(self) -> i128 {
        up(self.nano, MILLI_IN_NANO)
    }

    #[expect(clippy::cast_precision_loss, reason = "the name says approximate")]
    pub fn approximate(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// Whole units, rounded up.
    pub fn units(self) -> i128 {
        up(self.nano, NANO)
    }

    /// Rounds to thousandths, the finest grain the API server keeps for resources.
    #[must_use]
    pub fn rounded_to_milli(self) -> Self {
        Self { nano: self.milli() * MILLI_IN_NANO, family: self.family }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let family = if self.nano == 0 { other.family } else { self.family };
        Self { nano: self.nano.saturating_add(other.nano), family }
    }

    fn canonical_decimal(self) -> (i128, i32) {
        let (mut digits, mut exponent) = (self.nano, -9);
        while digits % 1000 == 0 && exponent < 18 {
            digits /= 1000;
            exponent += 3;
        }
        (digits, exponent)
    }
}

fn up(value: i128, unit: i128) -> i128 {
    value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0)
}

impl FromStr for Quantity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end =
            unsigned.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(NOT_A_QUANTITY);
        }
        let (family, exponent) = read_suffix(suffix).ok_or(NOT_A_QUANTITY)?;
        if !EXPONENTS.contains(&exponent) {
            return Err(NOT_A_QUANTITY);
        }
        let base = if family == Family::Binary { 2 } else { 10 };
        let magnitude = scale(whole, fraction, base, exponent);
        Ok(Self { nano: if negative { -magnitude } else { magnitude }, family })
    }
}

/// Family of a suffix, and its exponent of two (if binary) or ten.
pub(crate) fn read_suffix(suffix: &str) -> Option<(Family, i32)> {
    let decimal = |exponent| Some((Family::Decimal, exponent));
    let binary = |exponent| Some((Family::Binary, exponent));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            Some((Family::Exponent, exponent))
        }
    }
}

/// `whole.fraction * base^exponent` in billionths, rounded up, capped at [`NANO_MAX`].
fn scale(whole: &str, fraction: &str, base: i128, exponent: i32) -> i128 {
    // Further fraction digits are below a billionth for every suffix but the largest.
    let fraction = fraction.get(..fraction.len().min(18)).unwrap_or_default();
    let digits = format!("{whole}{fraction}");
    let Ok(digits) = digits
        .trim_start_matches('0')
        .parse::<i128>()
        .or_else(|error| if digits.bytes().all(|b| b == b'0') { Ok(0) } else { Err(error) })
    else {
        return NANO_MAX;
    };
    let fraction_len = i32::try_from(fraction.len()).unwrap_or(18);
    let (mut value, mut ten) = (digits, 9 - fraction_len);
    if base == 2 {
        value = value.saturating_mul(1 << exponent.clamp(0, 60));
    } else {
        ten += exponent;
    }
    let power = 10_i128.checked_pow(ten.unsigned_abs());
    let scaled = match (power, ten >= 0) {
        (Some(power), true) => value.saturating_mul(power),
        (None, true) if value != 0 => NANO_MAX,
        (Some(power), false) => up(value, power),
        (None, _) => 0,
    };
    scaled.min(NANO_MAX)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let units = self.nano / NANO;
        if self.family == Family::Binary && self.is_whole() && units.abs() >= 1024 {
            let (mut number, mut step) = (units, 0_usize);
            while number % 1024 == 0 && step < 6 {
                number /= 1024;
                step += 1;
            }
            let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            return write!(f, "{number}{}", suffixes.get(step).copied().unwrap_or_default());
        }
        let (digits, exponent) = self.canonical_decimal();
        if self.family == Family::Exponent {
            return match exponent {
                0 => write!(f, "{digits}"),
                _ => write!(f, "{digits}e{exponent}"),
            };
        }
        let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let suffix = usize::try_from((exponent + 9) / 3).ok().and_then(|at| suffixes.get(at));
        write!(f, "{digits}{}", suffix.copied().unwrap_or_default())
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_stored_in_their_canonical_form() {
        let cases = [
            ("a fraction becomes milli", "0.5", "500m"),
            ("a thousand milli are one", "1000m", "1"),
            ("milli that are no whole stay", "1500m", "1500m"),
            ("binary suffixes grow", "1024Mi", "1Gi"),
            ("binary that does not divide stays", "1536Mi", "1536Mi"),
            ("a binary fraction is whole bytes", "1.5Gi", "1536Mi"),
            ("less than a Ki is plain", "1000Ki", "1000Ki"),
            ("a small binary is decimal", "0.5Ki", "512"),
            ("plain thousands become k", "1000", "1k"),
            ("digits are not rounded", "128974848", "128974848"),
            ("an exponent stays one", "129e6", "129e6"),
            ("a plus sign is dropped", "+7", "7"),
            ("negative is possible", "-1500m", "-1500m"),
            ("zero has no suffix", "0Mi", "0"),
            ("finer than a billionth rounds up", "0.0000000001", "1n"),
            ("a leading dot is allowed", ".5", "500m"),
        ];
        for (reason, text, want) in cases {
            let quantity: Quantity = text.parse().expect(reason);
            assert_eq!(quantity.to_string(), want, "{reason}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "-", "1.2.3", "5Kb", "abc", "1 Gi", "0x10", "1ee3", "10mi"] {
            assert_eq!(text.parse::<Quantity>(), Err(NOT_A_QUANTITY), "{text:?}");
        }
    }

    #[test]
    fn quantities_compare_by_value_not_by_spelling() {
        let of = |text: &str| text.parse::<Quantity>().expect("a quantity");
        assert_eq!(of("1Gi"), of("1073741824"));
        assert!(of("1G") < of("1Gi"));
        assert_eq!(of("1m").plus(of("1")).to_string(), "1001m");
        assert_eq!(of("100u").rounded_to_milli().to_string(), "1m");
        assert_eq!(of("1500m").units(), 2);
    }
}
