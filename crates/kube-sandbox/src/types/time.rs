//! `metav1.Time` and `metav1.MicroTime`: parses RFC 3339, and formats in one canonical form in UTC.

use jiff::Timestamp;

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
/// Length of a time up to its seconds.
const SECONDS_WRITTEN: usize = "2006-01-02T15:04:05".len();

pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    // jiff reads more than RFC 3339: a space for the T, dates alone, zone names.
    let strict = text.as_bytes().get(10) == Some(&b'T') && !text.ends_with(']');
    strict.then(|| text.parse().ok())?
}

/// `2024-05-01T12:00:00Z`
pub(crate) fn format_seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2024-05-01T12:00:00.123456Z`
pub(crate) fn format_micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Checks a time; errors have the text of Go. A `MicroTime` has exactly six decimals.
pub(super) fn check(text: &str, micro: bool) -> Result<(), String> {
    let layout = if micro { MICRO_LAYOUT } else { SECONDS_LAYOUT };
    let refuse = |rest: &str, wanted: &str| {
        Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {wanted:?}"))
    };
    if parse(text).is_none() {
        return refuse(text, "2006");
    }
    let zone = if micro { text.get(SECONDS_WRITTEN..) } else { None };
    let Some(rest) = zone else { return Ok(()) };
    let decimals = rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
    match rest.as_bytes().first() {
        Some(b'.') if decimals == 6 => Ok(()),
        Some(b'.') if decimals > 6 => refuse(rest.get(7..).unwrap_or_default(), "Z07:00"),
        _ => refuse(rest, ".000000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_refused_as_go_refuses_them() {
        let cases = [
            ("2024-05-01T12:00:00Z", false, None),
            ("2024-05-01T12:00:00.25+02:00", false, None),
            ("2024-05-01T12:00:00.123456Z", true, None),
            ("2024-05-01T12:00:00Z", true, Some("cannot parse \"Z\" as \".000000\"")),
            ("2024-05-01T12:00:00.123456789Z", true, Some("cannot parse \"789Z\" as \"Z07:00\"")),
            ("yesterday", false, Some("cannot parse \"yesterday\" as \"2006\"")),
            ("2024-05-01", false, Some("cannot parse \"2024-05-01\" as \"2006\"")),
            ("2024-05-01 12:00:00Z", false, Some("as \"2006\"")),
        ];
        for (text, micro, want) in cases {
            let met = check(text, micro);
            let fits = match want {
                None => met.is_ok(),
                Some(end) => met.as_ref().is_err_and(|why| why.ends_with(end)),
            };
            assert!(fits, "{text}: {met:?}");
        }
    }
}
