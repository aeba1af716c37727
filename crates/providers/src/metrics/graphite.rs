//! Graphite: the query is that of a URL, `target=...&from=-2min`.
//!
//! The last value of the last series that has one counts, as in Flagger.
//!
//! | key of the Secret | |
//! |---|---|
//! | `username`, `password` | needed, if there is a Secret |

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{
    QueryError, Reading, Sample,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};

pub(super) const NAME: &str = "graphite";

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    Ok(Plan::once(question, call(question, question.query)?, Box::new(parse)))
}

/// Whether it answers. An error about an unknown target is an answer.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let read = Box::new(|status, body: &[u8]| match parse(status, body) {
        Ok(_) | Err(QueryError::NoValue) => Ok(Reading::ONLINE),
        Err(error) => Err(error),
    });
    Ok(Plan::once(question, call(question, "target=test")?, read))
}

fn call(question: &Question<'_>, query: &str) -> Result<Call, ProviderError> {
    let pairs = pairs(query);
    if !pairs.iter().any(|(name, _)| name == "target") {
        return Err(ProviderError::Query { provider: NAME, why: "it has no target" });
    }
    let pairs: Vec<_> = pairs.iter().map(|(n, value)| (n.as_str(), value.as_str())).collect();
    let address = support::address(question, "");
    let mut request = support::below(question, NAME, address, "/render", &pairs)?;
    if question.provider.secret_ref.is_some() {
        let username = support::needed(question, NAME, "username")?;
        let password = support::needed(question, NAME, "password")?;
        if !request.authorize_basic(username, password) {
            return Err(ProviderError::BadKey { provider: NAME, key: "password" });
        }
    }
    Ok(Call::of(question, request))
}

/// The query taken apart as a form is, in the order of its names, with the format we can read.
///
/// Parts that a form cannot hold are left out, as in Flagger: a parameter with a semicolon or a
/// wrong escape, and everything behind a number sign.
fn pairs(query: &str) -> Vec<(String, String)> {
    let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
    let query = query.split('#').next().unwrap_or_default();
    let mut pairs: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        })
        .filter(|(name, _)| name != "format")
        .collect();
    pairs.push(("format".to_owned(), "json".to_owned()));
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    pairs
}

fn decoded(text: &str) -> Option<String> {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let blanks = text.replace('+', " ");
    percent_decode_str(&blanks).decode_utf8().ok().map(|text| text.trim().to_owned())
}

fn parse(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    let answer = support::json(status, body)?;
    let series = answer.as_array().ok_or(QueryError::Malformed)?;
    let mut last = None;
    for one in series {
        last = last_value(one)?.or(last);
    }
    let sample = last.ok_or(QueryError::NoValue)?;
    Ok(Reading { sample, series: series.len() })
}

fn last_value(series: &Value) -> Result<Option<Sample>, QueryError> {
    let points = series["datapoints"].as_array().ok_or(QueryError::Malformed)?;
    let mut last = None;
    for point in points {
        let Some([value, time]) = point.as_array().map(Vec::as_slice) else {
            return Err(QueryError::Malformed);
        };
        support::optional_number(time)?;
        last = support::optional_number(value)?.or(last);
    }
    Ok(last)
}

#[cfg(test)]
mod tests;
