//! Numbers that may be percentages: `maxSurge: 25%`, `minAvailable: 1`.

use serde_json::Value;

/// Rounding direction of a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// The number that `value` means out of `total`; `None` if it is neither number nor percentage.
pub(crate) fn scaled(value: &Value, total: i64, rounding: Rounding) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredths = percent.checked_mul(total)?;
    Some(match rounding {
        Rounding::Up => hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) > 0),
        Rounding::Down => hundredths.div_euclid(100),
    })
}

/// Like [`scaled`], with `default` for a missing or invalid value.
pub(crate) fn scaled_or(
    value: Option<&Value>,
    total: i64,
    rounding: Rounding,
    default: i64,
) -> i64 {
    value.and_then(|value| scaled(value, total, rounding)).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_round_the_way_they_are_told() {
        let cases = [
            ("a number is itself", json!(3), 10, Rounding::Up, Some(3)),
            ("a quarter of ten, up", json!("25%"), 10, Rounding::Up, Some(3)),
            ("a quarter of ten, down", json!("25%"), 10, Rounding::Down, Some(2)),
            ("exact, up", json!("50%"), 10, Rounding::Up, Some(5)),
            ("one per cent of one, down", json!("1%"), 1, Rounding::Down, Some(0)),
            ("no number", json!("many"), 10, Rounding::Up, None),
        ];
        for (reason, value, total, rounding, want) in cases {
            assert_eq!(scaled(&value, total, rounding), want, "{reason}");
        }
    }
}
