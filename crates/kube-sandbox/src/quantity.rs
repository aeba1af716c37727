//! Resource quantities: `500m`, `1Gi`, `1.5e3`.
//!
//! A quantity is kept as a whole number of billionths, the finest grain Kubernetes keeps, together
//! with the family of suffixes it was written in. [`Quantity::to_string`] is the canonical form the
//! API server stores: no fraction, the largest suffix that leaves a whole number. [`canonical`] is the
//! way from text to text.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde_json::Value;

const NANO: i128 = 1_000_000_000;
const MILLI_IN_NANO: i128 = 1_000_000;
/// `10^27` billionths is `10^18`, the `E` suffix; one more step keeps products within `i128`.
const NANO_MAX: i128 = 10_i128.pow(36);
/// Numbers of up to this many digits take Kubernetes' quick path, which may keep their text.
const QUICK_DIGITS_MAX: usize = 18;
/// Nothing finer than a billionth is kept.
const SCALE_MIN: i32 = -9;

/// Powers of ten that anything could be counted in.
const EXPONENTS: std::ops::RangeInclusive<i32> = -99..=99;

/// The message of the API server for a text that is no quantity.
pub(crate) const NOT_A_QUANTITY: &str = "quantities must match the regular expression \
                                  '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    nano: i128,
    family: Family,
}

/// The suffixes a quantity was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Binary,
    Exponent,
}

/// `digits` and `fraction` as written, without sign and leading zeros.
struct Written<'a> {
    negative: bool,
    digits: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

// === impl Quantity ===

impl Quantity {
    pub(crate) const ZERO: Self = Self { nano: 0, family: Family::Decimal };

    /// A JSON quantity is a string or, in a hand-written manifest, a number.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        }
    }

    /// The quantity of a text; `None` if it is none, or too large to be counted.
    pub(crate) fn exact(text: &str) -> Option<Self> {
        let (family, _, nano) = read(text)?;
        Some(Self { nano: nano?, family })
    }

    pub(crate) fn from_whole(whole: i64) -> Self {
        Self { nano: i128::from(whole) * NANO, family: Family::Decimal }
    }

    /// The value as a whole number, if it is one.
    pub(crate) fn whole(self) -> Option<i64> {
        self.is_whole().then(|| i64::try_from(self.nano / NANO).ok()).flatten()
    }

    pub(crate) fn sign(self) -> i64 {
        i64::try_from(self.nano.signum()).unwrap_or_default()
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nano < 0
    }

    pub(crate) fn is_positive(self) -> bool {
        self.nano > 0
    }

    pub(crate) fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// Thousandths, rounded up.
    pub(crate) fn milli(self) -> i128 {
        up(self.nano, MILLI_IN_NANO)
    }

    #[expect(clippy::cast_precision_loss, reason = "the name says approximate")]
    pub(crate) fn approximate(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// The API server keeps no more than thousandths of resources.
    #[must_use]
    pub(crate) fn rounded_to_milli(self) -> Self {
        Self { nano: self.milli() * MILLI_IN_NANO, family: self.family }
    }

    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        let family = if self.nano == 0 { other.family } else { self.family };
        Self { nano: self.nano.saturating_add(other.nano), family }
    }

    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        self.plus(Self { nano: other.nano.saturating_neg(), family: other.family })
    }

    /// Digits and exponent, as large as it can be without a fraction and as it has a suffix.
    fn canonical_decimal(self) -> (i128, i32) {
        let (mut digits, mut exponent) = (self.nano, -9);
        let largest = if self.family == Family::Exponent { i32::MAX } else { 18 };
        while digits % 1000 == 0 && exponent < largest {
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
        let (family, exponent, nano) = read(text).ok_or(NOT_A_QUANTITY)?;
        if !EXPONENTS.contains(&exponent) {
            return Err(NOT_A_QUANTITY);
        }
        let held = |nano: i128| nano.clamp(-NANO_MAX, NANO_MAX);
        let limit = if text.starts_with('-') { -NANO_MAX } else { NANO_MAX };
        Ok(Self { nano: nano.map_or(limit, held), family })
    }
}

/// Family, exponent and billionths of a text; no billionths if they do not fit.
fn read(text: &str) -> Option<(Family, i32, Option<i128>)> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (family, exponent) = read_suffix(suffix)?;
    let magnitude = billionths(whole, fraction, family, exponent);
    Some((family, exponent, magnitude.map(|nano| if negative { -nano } else { nano })))
}

/// Family of a suffix, and the power of two (if it is binary) or ten it stands for.
fn read_suffix(suffix: &str) -> Option<(Family, i32)> {
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

/// `whole.fraction` and a suffix in billionths, rounded up; `None` if they do not fit.
fn billionths(whole: &str, fraction: &str, family: Family, exponent: i32) -> Option<i128> {
    // More fraction digits than these are below a billionth in every suffix but the largest.
    let (fraction, beyond) = fraction.split_at(fraction.len().min(18));
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let digits = digits.checked_add(beyond.bytes().any(|digit| digit != b'0').into())?;
    let (factor, tens) = match family {
        Family::Binary => (1_i128.checked_shl(exponent.unsigned_abs())?, 0),
        Family::Decimal | Family::Exponent => (1, exponent),
    };
    let value = digits.checked_mul(factor)?;
    if value == 0 {
        return Some(0);
    }
    let tens = tens.saturating_add(9).saturating_sub(i32::try_from(fraction.len()).ok()?);
    let power = 10_i128.checked_pow(tens.unsigned_abs());
    if tens >= 0 {
        value.checked_mul(power?)
    } else {
        Some(power.map_or(1, |power| up(value, power)))
    }
}

/// The text that the API server stores for a quantity, or what is wrong with it.
///
/// Kubernetes keeps the text of what it takes for canonical already, even if it is not quite
/// (`1.500`, `+5`); so do we. A number too large to be counted is kept as it was written.
pub(crate) fn canonical(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err(NOT_A_QUANTITY);
    }
    let written = split(text)?;
    // Beyond this no number of ours can be written out.
    let is_known = |&(_, exponent): &(Family, i32)| (-1000..=1000).contains(&exponent);
    let (family, exponent) = read_suffix(written.suffix).filter(is_known).ok_or(WRONG_SUFFIX)?;
    if keeps_text(family, exponent, &written) {
        return Ok(text.to_owned());
    }
    let Some(nano) = billionths(written.digits, written.fraction, family, exponent) else {
        return Ok(text.to_owned());
    };
    let nano = if written.negative { -nano } else { nano };
    Ok(Quantity { nano, family }.to_string())
}

fn split(text: &str) -> Result<Written<'_>, &'static str> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let end_of = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = unsigned.split_at(end_of(unsigned));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(after) => after.split_at(end_of(after)),
        None => ("", rest),
    };
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NOT_A_QUANTITY);
    }
    // A suffix alone counts as zero of it.
    let digits = if digits.is_empty() { "0" } else { digits };
    Ok(Written { negative, digits, fraction, suffix })
}

/// Whether Kubernetes takes the text for canonical and keeps it.
fn keeps_text(family: Family, exponent: i32, written: &Written<'_>) -> bool {
    let digits = format!("{}{}", written.digits, written.fraction);
    match family {
        Family::Binary => {
            // 2^10 is about 10^3: the digits of number and factor together must stay below 15.
            let room = 15 - exponent * 3 / 10 - 1;
            let quick = written.fraction.is_empty()
                && i32::try_from(written.digits.len()).is_ok_and(|count| count <= room);
            quick && digits.parse::<u64>().is_ok_and(|number| number & 7 != 0)
        }
        Family::Decimal | Family::Exponent => {
            let fraction_digits = i32::try_from(written.fraction.len()).unwrap_or(i32::MAX);
            let scale = exponent.saturating_sub(fraction_digits);
            digits.len() <= QUICK_DIGITS_MAX
                && scale >= SCALE_MIN
                && scale % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let units = self.nano / NANO;
        if self.family == Family::Binary && self.is_whole() && units.abs() >= 1024 {
            // The largest quantity with a binary suffix.
            let max = i128::from(i64::MAX);
            let (mut number, mut step) = (units.clamp(-max, max), 0_usize);
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
    }

    #[test]
    fn quantities_take_the_form_kubernetes_stores() {
        let cases = [
            ("1", "1"),
            ("0", "0"),
            ("0m", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("0.500", "500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("2.", "2."),
            (".", "0"),
            ("m", "0"),
            ("0.0", "0"),
            ("+5", "+5"),
            ("100m", "100m"),
            ("0.1m", "100u"),
            ("0.1n", "1n"),
            ("2000", "2k"),
            ("1024Mi", "1Gi"),
            ("128Mi", "128Mi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1Ki", "1Ki"),
            ("8Gi", "8Gi"),
            ("1.0001Ki", "1024102400u"),
            ("1500Ki", "1500Ki"),
            ("2048Ki", "2Mi"),
            ("0.25Gi", "256Mi"),
            ("100Ei", "9223372036854775807"),
            ("1024", "1024"),
            ("3e-20", "1e-9"),
            ("9999999999999999999999", "9999999999999999999999"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("12E", "12E"),
            ("-1000m", "-1"),
            ("-5", "-5"),
            (" 5 ", "5"),
        ];
        for (given, want) in cases {
            assert_eq!(canonical(given).as_deref(), Ok(want), "{given}");
        }
        for (wrong, why) in [
            ("", NOT_A_QUANTITY),
            ("abc", NOT_A_QUANTITY),
            ("1x", NOT_A_QUANTITY),
            ("1mm", WRONG_SUFFIX),
        ] {
            assert_eq!(canonical(wrong), Err(why), "{wrong}");
        }
    }

    #[test]
    fn exact_quantities_compare_by_value() {
        for (left, right) in [
            ("1", "1000m"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("2e3", "2k"),
            ("-0.5", "-500m"),
            ("0.0000000001", "1n"),
            (".5", "500m"),
            ("5.", "5"),
        ] {
            assert_eq!(Quantity::exact(left), Quantity::exact(right), "{left} is {right}");
            assert!(Quantity::exact(left).is_some(), "{left} parses");
        }
        for text in ["", "x", "1x", "1.2.3", "1 Gi", "--1", "e3", "1e", ".", "9e99"] {
            assert_eq!(Quantity::exact(text), None, "{text:?} is no quantity");
        }
        assert!(Quantity::exact("1M") < Quantity::exact("1Mi"));
    }
}
