//! Canonical quantities: `1000m` is stored as `1`, `0.5` as `500m`, `1024Mi` as `1Gi`.
//!
//! A quantity is a decimal number with a suffix of one of three families; the family is kept, and
//! the exponent becomes as large as possible without a fraction. Like Kubernetes, this keeps the
//! text of quantities that pass for canonical, even if they are not (`1.500`, `+5`).

pub(super) const WRONG_FORMAT: &str = "quantities must match the regular expression \
                                       '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

/// Numbers up to this many digits take Kubernetes' fast path, which may keep their text.
const QUICK_DIGITS_MAX: usize = 18;
/// The finest grain is a billionth.
const SCALE_MIN: i32 = -9;
/// Larger numbers, beyond any count of bytes or cores, are kept as written. Two more digits still
/// fit `i128`, which is the most that the search for a suffix adds.
const MANTISSA_END: i128 = 10_i128.pow(36);

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Binary,
    Exponent,
}

/// `digits` and `fraction` of the text, without sign and leading zeros.
struct Written<'a> {
    negative: bool,
    digits: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// `mantissa * 10^scale`.
#[derive(Debug, Clone, Copy)]
struct Amount {
    mantissa: i128,
    scale: i32,
}

/// The canonical form of a quantity, or the error text.
pub fn canonical(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err(WRONG_FORMAT);
    }
    let written = split(text)?;
    let (family, exponent) = interpret(written.suffix).ok_or(WRONG_SUFFIX)?;
    let digits = format!("{}{}", written.digits, written.fraction);
    let Some(number) = digits.parse().ok().filter(|number| *number < MANTISSA_END) else {
        return Ok(text.to_owned());
    };
    let fraction_digits = i32::try_from(written.fraction.len()).unwrap_or(i32::MAX);
    if keeps_text(family, exponent, &written, &digits, number) {
        return Ok(text.to_owned());
    }
    let scaled = match family {
        Family::Binary => number.checked_mul(1_i128 << exponent),
        Family::Decimal | Family::Exponent => Some(number),
    };
    let Some(mantissa) = scaled.filter(|mantissa| *mantissa < MANTISSA_END) else {
        return Ok(text.to_owned());
    };
    let power = if family == Family::Binary { 0 } else { exponent };
    let mut amount = Amount { mantissa, scale: power - fraction_digits };
    amount.round_to_nano();
    if written.negative {
        amount.mantissa = -amount.mantissa;
    }
    Ok(amount.render(family))
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
        return Err(WRONG_FORMAT);
    }
    // A suffix alone means zero.
    let digits = if digits.is_empty() { "0" } else { digits };
    Ok(Written { negative, digits, fraction, suffix })
}

fn interpret(suffix: &str) -> Option<(Family, i32)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Family::Decimal, *exponent));
    }
    if let Some(step) = BINARY.iter().position(|name| *name == suffix) {
        return Some((Family::Binary, 10 * (i32::try_from(step).ok()? + 1)));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // Larger exponents cannot be written out.
    (-1000..=1000).contains(&exponent).then_some((Family::Exponent, exponent))
}

/// Whether Kubernetes treats the text as canonical and keeps it.
fn keeps_text(
    family: Family,
    exponent: i32,
    written: &Written<'_>,
    digits: &str,
    number: i128,
) -> bool {
    match family {
        Family::Binary => {
            // 2^10 is about 10^3: the digits of number and factor together must stay below 15.
            let room = 15 - exponent * 3 / 10 - 1;
            let quick = written.fraction.is_empty()
                && i32::try_from(written.digits.len()).is_ok_and(|count| count <= room);
            quick && number & 7 != 0
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

// === impl Amount ===

impl Amount {
    /// Rounds away from zero, so that a small request never becomes zero.
    fn round_to_nano(&mut self) {
        while self.scale < SCALE_MIN && self.mantissa != 0 {
            let up = i128::from(self.mantissa % 10 != 0);
            self.mantissa = self.mantissa / 10 + up;
            self.scale += 1;
        }
    }

    fn render(self, family: Family) -> String {
        if self.mantissa == 0 {
            return "0".to_owned();
        }
        match (family, self.whole()) {
            (Family::Binary, Some(whole)) if whole.abs() >= 1024 => binary(whole),
            (Family::Exponent, _) => self.decimal(|exponent| match exponent {
                0 => String::new(),
                other => format!("e{other}"),
            }),
            (Family::Decimal | Family::Binary, _) => self.decimal(|exponent| {
                let known = DECIMAL.iter().find(|(_, power)| *power == exponent);
                known.map_or(String::new(), |(name, _)| (*name).to_owned())
            }),
        }
    }

    /// The value as an integer, if it is one that fits.
    fn whole(self) -> Option<i128> {
        let power = 10_i128.checked_pow(self.scale.unsigned_abs())?;
        if self.scale >= 0 {
            return self.mantissa.checked_mul(power);
        }
        (self.mantissa % power == 0).then(|| self.mantissa / power)
    }

    fn decimal(self, suffix: impl Fn(i32) -> String) -> String {
        let Self { mut mantissa, mut scale } = self;
        while mantissa % 10 == 0 {
            mantissa /= 10;
            scale += 1;
        }
        while scale % 3 != 0 {
            mantissa *= 10;
            scale -= 1;
        }
        format!("{mantissa}{}", suffix(scale))
    }
}

fn binary(whole: i128) -> String {
    // The largest quantity with a binary suffix.
    let max = i128::from(i64::MAX);
    let mut rest = whole.clamp(-max, max);
    let mut steps = 0;
    while rest % 1024 == 0 && steps < BINARY.len() {
        rest /= 1024;
        steps += 1;
    }
    let suffix = steps.checked_sub(1).and_then(|step| BINARY.get(step)).copied().unwrap_or("");
    format!("{rest}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for (wrong, why) in
            [("", WRONG_FORMAT), ("abc", WRONG_FORMAT), ("1x", WRONG_FORMAT), ("1mm", WRONG_SUFFIX)]
        {
            assert_eq!(canonical(wrong), Err(why), "{wrong}");
        }
    }
}
