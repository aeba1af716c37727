//! `InfluxDB` 2 and later: Flux in, annotated CSV out ([`csv`]).
//!
//! The value of the first row counts, as in Flagger; it may be a whole number. No row is no value,
//! and a row that holds an error is one.
//!
//! | key of the Secret | |
//! |---|---|
//! | `token`, `org` | needed, if there is a Secret |

mod csv;

use http::Method;
use serde_json::{Value, json};

use super::{
    QueryError, Reading,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};
use crate::request::sensitive;

pub(super) const NAME: &str = "influxdb";

/// A query every server understands, whether or not it has the bucket.
const PROBE: &str = r#"from(bucket: "default") |> range(start: -2h)"#;

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let call = call(question, question.query)?;
    Ok(Plan::once(question, call, Box::new(parse)))
}

/// Whether it takes queries.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let read = Box::new(|status, _: &[u8]| support::online((200..300).contains(&status), status));
    Ok(Plan::once(question, call(question, PROBE)?, read))
}

fn call(question: &Question<'_>, flux: &str) -> Result<Call, ProviderError> {
    let credentials = match question.provider.secret_ref {
        Some(_) => {
            let token = support::needed(question, NAME, "token")?;
            Some((token, support::needed(question, NAME, "org")?))
        }
        None => None,
    };
    let org = credentials.map_or("", |(_, org)| org);
    let address = support::address(question, "");
    let mut request = support::below(question, NAME, address, "/api/v2/query", &[("org", org)])?;
    request.method = Method::POST;
    let body = json!({
        "query": flux,
        "type": "flux",
        "dialect": {
            "annotations": ["datatype", "group", "default"],
            "delimiter": ",",
            "header": true,
        },
    });
    request.body = body.to_string().into_bytes();
    support::put_type(&mut request, "application/json");
    if let Some((token, _)) = credentials {
        let bad = ProviderError::BadKey { provider: NAME, key: "token" };
        let value = sensitive(&format!("Token {token}")).ok_or(bad)?;
        request.headers.insert(http::header::AUTHORIZATION, value);
    }
    Ok(Call::of(question, request))
}

fn parse(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    if !(200..300).contains(&status) {
        let code = serde_json::from_slice::<Value>(body).ok();
        let reason = code.as_ref().and_then(|answer| known(answer["code"].as_str()?));
        return Err(QueryError::Refused { status, reason });
    }
    csv::first_value(body, status)
}

/// Its words for errors.
fn known(code: &str) -> Option<&'static str> {
    let words =
        ["invalid", "unauthorized", "forbidden", "not found", "unavailable", "too many requests"];
    words.into_iter().find(|word| *word == code)
}

#[cfg(test)]
mod tests;
