//! Resource quantities in rules: `100m`, `1.5Gi`, `2e3`.

use crate::builtin::quantity::{Family, read_suffix};

/// A quantity in billionths, the finest grain of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity {
    nanos: i128,
}

const NANOS: i128 = 1_000_000_000;

impl Quantity {
    /// Parses; digits below a billionth are rounded away from zero.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let scale = Scale::parse(suffix)?;
        let exponent = scale.tens + 9 - i32::try_from(fraction.len()).ok()?;
        let scaled = digits.checked_mul(scale.factor)?;
        let power = 10_i128.checked_pow(exponent.unsigned_abs());
        let nanos = if exponent >= 0 {
            scaled.checked_mul(power?)?
        } else {
            power.map_or_else(
                || i128::from(scaled != 0),
                |power| scaled / power + i128::from(scaled % power != 0),
            )
        };
        Some(Self { nanos: sign * nanos })
    }

    pub(super) fn from_whole(whole: i64) -> Self {
        Self { nanos: i128::from(whole) * NANOS }
    }

    /// The value as an integer, if it is one.
    pub(super) fn whole(self) -> Option<i64> {
        (self.nanos % NANOS == 0).then(|| i64::try_from(self.nanos / NANOS).ok()).flatten()
    }

    #[expect(clippy::cast_precision_loss, reason = "the name says approximate")]
    pub(super) fn approximate(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    pub(super) fn sign(self) -> i64 {
        i64::try_from(self.nanos.signum()).unwrap_or_default()
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }
}

/// The factor of a suffix, with a power of ten.
struct Scale {
    tens: i32,
    factor: i128,
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        let (family, exponent) = read_suffix(suffix)?;
        Some(match family {
            Family::Binary => Self { tens: 0, factor: 1 << exponent },
            Family::Decimal | Family::Exponent => Self { tens: exponent.clamp(-40, 40), factor: 1 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_by_value() {
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
            assert_eq!(Quantity::parse(left), Quantity::parse(right), "{left} is {right}");
            assert!(Quantity::parse(left).is_some(), "{left} parses");
        }
        for text in ["", "x", "1x", "1.2.3", "1 Gi", "--1", "e3", "1e", ".", "9e99"] {
            assert_eq!(Quantity::parse(text), None, "{text:?} is no quantity");
        }
        assert!(Quantity::parse("1M") < Quantity::parse("1Mi"));
    }
}
