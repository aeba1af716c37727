//! Parameters of a request, from its query string and form, and their validation.

use std::time::Duration;

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use promql_parser::{
    parser::{Expr, VectorSelector},
    util::parse_duration,
};

use super::{
    parse::parse,
    query::{QueryError, TIME_MS_MAX},
};

/// Names and values, those of the form first: the first of several values counts.
#[derive(Debug)]
pub(super) struct Parameters(Vec<(String, String)>);

// === impl Parameters ===

impl Parameters {
    pub(super) fn parse(query: &str, form: &[u8]) -> Self {
        let form = String::from_utf8_lossy(form);
        let pairs = form.split('&').chain(query.split('&')).filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// The value of a parameter; empty if it is missing.
    pub(super) fn get(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// A time: seconds since 1970 or RFC 3339.
    pub(super) fn time_ms(&self, name: &str) -> Result<Option<i64>, QueryError> {
        self.optional(name, |text| match text.parse::<f64>() {
            Ok(seconds) => ms_of(seconds).filter(|ms| (-TIME_MS_MAX..=TIME_MS_MAX).contains(ms)),
            Err(_) => text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond),
        })
    }

    /// A duration: seconds or `1m30s`.
    pub(super) fn duration_ms(&self, name: &str) -> Result<Option<i64>, QueryError> {
        self.optional(name, |text| match text.parse::<f64>() {
            Ok(seconds) => ms_of(seconds),
            Err(_) => parse_duration(text).ok().and_then(in_ms),
        })
    }

    /// The maximum number of results; all without a limit, or with zero.
    pub(super) fn limit(&self) -> Result<usize, QueryError> {
        let limit = self.optional("limit", |text| text.parse::<usize>().ok())?;
        Ok(limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX))
    }

    /// The selectors given as `match[]`.
    pub(super) fn selectors(&self) -> Result<Vec<VectorSelector>, QueryError> {
        let selectors = self.all("match[]").map(|text| match parse(text)? {
            Expr::VectorSelector(selector)
                if selector.at.is_none() && selector.offset.is_none() =>
            {
                Ok(selector)
            }
            _ => Err(QueryError::bad_data(format!("`{text}` is no series selector"))),
        });
        selectors.collect::<Result<_, _>>().map_err(|problem| invalid("match[]", &problem))
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, QueryError> {
        match self.get(name) {
            "" => Ok(None),
            text => match read(text) {
                Some(value) => Ok(Some(value)),
                None => Err(invalid(name, &format!("cannot make sense of \"{text}\""))),
            },
        }
    }
}

/// An error that names the parameter at fault.
pub(super) fn invalid(name: &str, problem: &impl std::fmt::Display) -> QueryError {
    QueryError::bad_data(format!("invalid parameter \"{name}\": {problem}"))
}

/// Decodes text of a URL or form.
pub(super) fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

fn in_ms(duration: Duration) -> Option<i64> {
    i64::try_from(duration.as_millis()).ok()
}

/// Seconds as whole milliseconds, if they fit.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn ms_of(seconds: f64) -> Option<i64> {
    let ms = (seconds * 1_000.0).round();
    // 2^63 is the first that does not fit.
    (-9.2e18..9.2e18).contains(&ms).then_some(ms as i64)
}
