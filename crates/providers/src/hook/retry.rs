//! Retries of hook calls: which answers are retried, and the backoff.
//!
//! Waits double from one second up to thirty. A server's `Retry-After` is obeyed, up to the same thirty
//! seconds: the rollout waits meanwhile, and so does a rollback.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// There was an answer, and it failed the hook.
    Answered {
        /// Its status.
        status: u16,
        /// Its `Retry-After` header, if it had one.
        retry_after: Option<&'a str>,
    },
    /// No connection, or it broke, or it took too long.
    Unreachable,
    /// Something that another attempt will not change: a certificate that is not trusted, an
    /// address that is not allowed, too many redirects.
    Hopeless,
}

/// No wait is longer. Flagger obeys any `Retry-After`; a hook could hold a rollout for years.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long to wait before the next attempt; `None` if there should be none.
///
/// `attempt` counts the failed ones before this: 0 after the first.
pub fn wait(attempt: u32, failure: Failure<'_>, now: Timestamp) -> Option<Duration> {
    let doubled = 1_u64.checked_shl(attempt).filter(|seconds| *seconds > 0);
    let backoff = doubled.map_or(WAIT_MAX, Duration::from_secs).min(WAIT_MAX);
    match failure {
        Failure::Answered { status: 429 | 503, retry_after } => {
            let asked = retry_after.and_then(|text| parse_retry_after(text, now));
            Some(asked.map_or(backoff, |asked| asked.min(WAIT_MAX)))
        }
        // 501 means that the server cannot do this: a retry does not help.
        Failure::Answered { status, .. } if status < 500 || status == 501 => None,
        Failure::Answered { .. } | Failure::Unreachable => Some(backoff),
        Failure::Hopeless => None,
    }
}

/// Seconds, or a date; a date that has passed is no wait. `None` if it is neither.
fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds are a wait beyond any cap.
        return Some(text.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn answered(status: u16, retry_after: Option<&str>) -> Failure<'_> {
        Failure::Answered { status, retry_after }
    }

    #[test]
    fn only_transient_failures_are_tried_again() {
        let cases = [
            ("an error of the server", answered(500, None), true),
            ("a gateway without a backend", answered(502, None), true),
            ("overload", answered(429, None), true),
            ("not built, and will not be", answered(501, None), false),
            ("a closed gate", answered(403, None), false),
            ("no such path", answered(404, None), false),
            ("a redirect nobody followed", answered(302, None), false),
            ("no connection", Failure::Unreachable, true),
            ("a certificate nobody trusts", Failure::Hopeless, false),
        ];
        for (reason, failure, want) in cases {
            assert_eq!(wait(0, failure, now()).is_some(), want, "{reason}");
        }
    }

    #[test]
    fn waits_double_up_to_thirty_seconds() {
        let waits: Vec<_> = [0, 1, 2, 3, 4, 5, 63, 64, u32::MAX]
            .map(|attempt| wait(attempt, Failure::Unreachable, now()).unwrap().as_secs())
            .into();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[test]
    fn a_server_is_believed_when_it_says_when_to_come_back() {
        let cases = [
            ("seconds", 429, "7", 7),
            ("at once", 503, "0", 0),
            ("for ever", 503, "86400", 30),
            ("more than a number holds", 503, "99999999999999999999", 30),
            ("a date", 429, "Sun, 01 Mar 2026 12:00:05 GMT", 5),
            ("a date far away", 429, "Mon, 01 Mar 2027 12:00:00 GMT", 30),
            ("a date gone by", 429, "Sun, 01 Mar 2026 11:00:00 GMT", 0),
            ("nonsense", 429, "soon", 1),
            ("nothing", 429, "", 1),
            ("a fraction", 429, "1.5", 1),
            ("less than nothing", 429, "-5", 1),
            ("a status that does not say", 500, "7", 1),
        ];
        for (reason, status, text, want) in cases {
            let waited = wait(0, answered(status, Some(text)), now());
            assert_eq!(waited, Some(Duration::from_secs(want)), "{reason}");
        }
    }
}
