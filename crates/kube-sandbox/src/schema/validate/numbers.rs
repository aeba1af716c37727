//! Bounds and formats of numbers, and numbers in Go's formatting.

use super::{FieldErrorKind, Found, Path};
use crate::{
    failure::FieldError,
    schema::{Kind, Kinds, Schema},
};

/// A number as Kubernetes decodes it: an integer if it fits in 64 bits and has no fraction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(i64),
    Fraction(f64),
}

impl From<&serde_json::Number> for Number {
    fn from(number: &serde_json::Number) -> Self {
        match number.as_i64() {
            Some(whole) => Self::Whole(whole),
            None => Self::Fraction(number.as_f64().unwrap_or(f64::INFINITY)),
        }
    }
}

impl Number {
    pub(super) fn shown(self) -> String {
        match self {
            Self::Whole(whole) => whole.to_string(),
            Self::Fraction(float) => go_float(float),
        }
    }
}

pub(super) fn check(schema: &Schema, number: &Number, path: &Path<'_>, found: &mut Found<'_>) {
    found.matches += 2;
    check_range(schema, *number, path, found);
    let limits = &schema.limits;
    if let Some(factor) = limits.multiple_of {
        check_multiple(*number, factor, path, found);
    }
    let bounds = [
        (limits.minimum, limits.exclusive_minimum, false),
        (limits.maximum, limits.exclusive_maximum, true),
    ];
    for (bound, exclusive, is_maximum) in bounds {
        let Some(bound) = bound else { continue };
        let (below, at, above, bound_text) = compare(*number, bound);
        let outside = if is_maximum { above } else { below };
        let is_broken = outside || (exclusive && at);
        if !is_broken {
            continue;
        }
        let words = match (is_maximum, exclusive) {
            (true, false) => "should be less than or equal to",
            (true, true) => "should be less than",
            (false, false) => "should be greater than or equal to",
            (false, true) => "should be greater than",
        };
        found.invalid(path, number.shown(), &format!("{words} {bound_text}"));
    }
}

/// As in Kubernetes: a whole number is compared with the bound's whole part.
#[expect(clippy::cast_possible_truncation, reason = "saturates, which is what is wanted")]
fn compare(number: Number, bound: f64) -> (bool, bool, bool, String) {
    match number {
        Number::Whole(whole) => {
            let bound = bound as i64;
            (whole < bound, whole == bound, whole > bound, bound.to_string())
        }
        Number::Fraction(float) => {
            let at = float.total_cmp(&bound).is_eq();
            (float < bound, at, float > bound, go_float(bound))
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, which is what is wanted")]
fn check_multiple(number: Number, factor: f64, path: &Path<'_>, found: &mut Found<'_>) {
    let (is_positive, is_multiple, factor_text) = match number {
        Number::Whole(whole) => {
            let factor = factor as i64;
            let rest = whole.checked_rem(factor).unwrap_or_default();
            (factor > 0, rest == 0, factor.to_string())
        }
        Number::Fraction(float) => {
            let times = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
            (factor > 0.0, is_whole(times), go_float(factor))
        }
    };
    if !is_positive {
        let name = path.dotted();
        let at = found.path(path);
        found.push(FieldError {
            kind: FieldErrorKind::Invalid,
            path: at,
            shown: factor_text.clone(),
            detail: format!(
                "factor MultipleOf declared for {name} must be positive: {factor_text}"
            ),
        });
    } else if !is_multiple {
        found.invalid(path, number.shown(), &format!("should be a multiple of {factor_text}"));
    }
}

/// Whether the number fits its type and format.
fn check_range(schema: &Schema, number: Number, path: &Path<'_>, found: &mut Found<'_>) {
    let format = schema.limits.format.as_ref().map_or("", |format| format.name.as_str());
    let (kind, fits) = match (schema.kinds, number) {
        (Kinds::One(Kind::Integer), Number::Whole(whole)) => {
            ("integer", format != "int32" || i32::try_from(whole).is_ok())
        }
        (Kinds::One(Kind::Integer), Number::Fraction(float)) => {
            let limit = if format == "int32" { 2_147_483_648.0 } else { 9.223_372_036_854_776e18 };
            ("integer", float.fract() == 0.0 && (-limit..limit).contains(&float))
        }
        (Kinds::One(Kind::Number), Number::Fraction(float)) => {
            ("number", format != "float" || float.abs() <= f64::from(f32::MAX))
        }
        _ => return,
    };
    if fits {
        return;
    }
    let name = path.dotted();
    found.unplaced(if format.is_empty() {
        format!("Checked value must be of type {kind} (default format) in {name}")
    } else {
        format!("Checked value must be of type {kind} with format {format} in {name}")
    });
}

/// Whether a float is a whole number that JSON represents without loss, apart from rounding.
pub(super) fn is_whole(float: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    let difference = (float - float.trunc()).abs();
    float.abs() <= MOST && (difference == 0.0 || difference / (2.0 * float.abs()) < 1e-9)
}

/// A float in Go's `%v` format: shortest digits, an exponent from 1e+06 on and below 1e-04.
fn go_float(float: f64) -> String {
    if !float.is_finite() {
        return match float {
            _ if float.is_nan() => "NaN".to_owned(),
            _ if float > 0.0 => "+Inf".to_owned(),
            _ => "-Inf".to_owned(),
        };
    }
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if float == 0.0 || (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
