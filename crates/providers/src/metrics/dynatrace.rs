//! Dynatrace: a metric selector over the last ten intervals, taken together.
//!
//! Of several rows the last one that has a value counts, as in Flagger.
//!
//! | key of the Secret | |
//! |---|---|
//! | `dynatrace_token` | needed |

use serde_json::Value;

use super::{
    QueryError, Reading,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};
use crate::request::{Request, sensitive};

pub(super) const NAME: &str = "dynatrace";

const TOKEN: &str = "dynatrace_token";

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let (from, to) = support::window_ms(question)?;
    let pairs = [
        ("metricSelector", question.query.trim()),
        ("resolution", "Inf"),
        ("from", &from.to_string()),
        ("to", &to.to_string()),
    ];
    let request = request(question, "/api/v2/metrics/query", &pairs)?;
    Ok(Plan::once(question, Call::of(question, request), Box::new(parse)))
}

/// Whether the token may read metrics.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let request = request(question, "/api/v2/metrics", &[("pageSize", "1")])?;
    Ok(Plan::greeting(question, Call::of(question, request)))
}

fn request(
    question: &Question<'_>,
    path: &str,
    pairs: &[(&str, &str)],
) -> Result<Request, ProviderError> {
    let address = support::address(question, "");
    let mut request = support::below(question, NAME, address, path, pairs)?;
    let token = support::needed(question, NAME, TOKEN)?;
    let bad = ProviderError::BadKey { provider: NAME, key: TOKEN };
    let value = sensitive(&format!("Api-Token {token}")).ok_or(bad)?;
    request.headers.insert(http::header::AUTHORIZATION, value);
    Ok(request)
}

fn parse(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    let answer = support::json(status, body)?;
    let answer = answer.as_object().ok_or(QueryError::Malformed)?;
    let Some(result) = answer.get("result") else { return Err(QueryError::NoValue) };
    let result = result.as_array().ok_or(QueryError::Malformed)?;
    let Some(first) = result.first() else { return Err(QueryError::NoValue) };
    let rows = match &first["data"] {
        Value::Null => return Err(QueryError::NoValue),
        rows => rows.as_array().ok_or(QueryError::Malformed)?,
    };
    let mut last = None;
    for row in rows {
        let values = row["values"].as_array().ok_or(QueryError::Malformed)?;
        let mut first = None;
        for value in values {
            first = first.or(support::optional_number(value)?);
        }
        last = first.or(last);
    }
    let sample = last.ok_or(QueryError::NoValue)?;
    Ok(Reading { sample, series: rows.len() })
}

#[cfg(test)]
mod tests;
