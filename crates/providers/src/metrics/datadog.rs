//! Datadog: one query over the last ten intervals.
//!
//! Of the points of the first series the oldest one that has a value counts, as in Flagger, since
//! the newest ones may still be filling up. That one may be from before the canary: with the key
//! `point` of the Secret set to `newest` it is the newest point that is complete and within the
//! interval.
//!
//! | key of the Secret | |
//! |---|---|
//! | `datadog_api_key`, `datadog_application_key` | needed |
//! | `point` | `newest` or `oldest` |

use serde_json::Value;

use super::{
    QueryError, Reading, Sample,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};
use crate::request::Request;

pub(super) const NAME: &str = "datadog";

const ADDRESS: &str = "https://api.datadoghq.com";

/// Which point of a series counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Oldest,
    /// The newest that ended by now and did not begin before this, in milliseconds.
    Newest {
        from: i64,
        to: i64,
    },
}

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let (from, to) = support::window_ms(question)?;
    let (from, to) = (from / 1000, to / 1000);
    let pairs = [("query", question.query), ("from", &from.to_string()), ("to", &to.to_string())];
    let request = request(question, "/api/v1/query", &pairs)?;
    let point = match support::secret(question, "point") {
        None | Some("oldest") => Point::Oldest,
        Some("newest") => {
            let to = question.now.as_millisecond();
            Point::Newest { from: to.saturating_sub(support::interval_ms(question)?), to }
        }
        Some(_) => return Err(ProviderError::BadKey { provider: NAME, key: "point" }),
    };
    let read = Box::new(move |status, body: &[u8]| parse(status, body, point));
    Ok(Plan::once(question, Call::of(question, request), read))
}

/// Whether the keys are accepted.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let request = request(question, "/api/v1/validate", &[])?;
    Ok(Plan::greeting(question, Call::of(question, request)))
}

fn request(
    question: &Question<'_>,
    path: &str,
    pairs: &[(&str, &str)],
) -> Result<Request, ProviderError> {
    let address = support::address(question, ADDRESS);
    let mut request = support::below(question, NAME, address, path, pairs)?;
    for (header, key) in
        [("dd-api-key", "datadog_api_key"), ("dd-application-key", "datadog_application_key")]
    {
        let text = support::needed(question, NAME, key)?;
        support::put_secret(&mut request, NAME, (header, key), text)?;
    }
    Ok(request)
}

fn parse(status: u16, body: &[u8], point: Point) -> Result<Reading, QueryError> {
    let answer = support::json(status, body)?;
    // A query it does not understand is answered 200 at times.
    if answer["status"] == "error" {
        return Err(QueryError::Refused { status, reason: None });
    }
    let series = answer["series"].as_array().ok_or(QueryError::Malformed)?;
    let first = series.first().ok_or(QueryError::NoValue)?;
    let points = first["pointlist"].as_array().ok_or(QueryError::Malformed)?;
    let points = points.iter().map(time_and_value).collect::<Result<Vec<_>, _>>()?;
    let mut valued = points.into_iter().flatten();
    let sample = match point {
        Point::Oldest => valued.next(),
        Point::Newest { from, to } => {
            // How much time a point stands for.
            let width = first["interval"].as_i64().ok_or(QueryError::Malformed)?;
            let width = width.saturating_mul(1000);
            let is_complete = |time: i64| time >= from && time.saturating_add(width) <= to;
            valued.rfind(|(time, _)| is_complete(*time))
        }
    };
    let sample = sample.map(|(_, sample)| sample).ok_or(QueryError::NoValue)?;
    Ok(Reading { sample, series: series.len() })
}

/// Nothing if the point has no value.
fn time_and_value(point: &Value) -> Result<Option<(i64, Sample)>, QueryError> {
    match point.as_array().map(Vec::as_slice) {
        Some([]) => Ok(None),
        Some([time, value]) => {
            #[expect(clippy::cast_possible_truncation, reason = "a time beyond any is the last")]
            let time = time.as_f64().ok_or(QueryError::Malformed)? as i64;
            Ok(support::optional_number(value)?.map(|sample| (time, sample)))
        }
        _ => Err(QueryError::Malformed),
    }
}

#[cfg(test)]
mod tests;
