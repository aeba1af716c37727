//! Google Cloud Monitoring: its own query language, or `PromQL`.
//!
//! The first value of the first point of the first series counts, as in Flagger; whole numbers do
//! too. With `https://monitoring.googleapis.com/v1/projects/.../prometheus` as the address the query
//! is `PromQL`, which Google prefers by now. Any other address is ignored, as in Flagger: a token goes
//! to Google and nowhere else.
//!
//! | key of the Secret | |
//! |---|---|
//! | `project` | needed |
//! | `serviceAccountKey` | the JSON of a key, or of a person's login; without it, the identity of the operator's pod is used |

use http::Method;
use serde_json::{Value, json};

use super::{
    QueryError, Reading,
    cloud_identity::CloudIdentity,
    google::{BadKey, Source},
    prometheus,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};
use crate::request::Request;

pub(super) const NAME: &str = "stackdriver";

const ADDRESS: &str = "https://monitoring.googleapis.com";
const PROMQL_PREFIX: &str = "https://monitoring.googleapis.com/v1/";
const PROJECT: &str = "project";
const KEY: &str = "serviceAccountKey";
/// Its words for errors.
const REASONS: [&str; 7] = [
    "INVALID_ARGUMENT",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "NOT_FOUND",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "INTERNAL",
];

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let identity = identity(question)?;
    if let Some(address) = promql(question) {
        let call = promql_call(question, address, question.query)?;
        let read = Box::new(|status, body: &[u8]| prometheus::parse(status, body));
        return Ok(Plan::named(question, identity, call, read));
    }
    let call = call(question, question.query)?;
    Ok(Plan::named(question, identity, call, Box::new(parse)))
}

/// Whether it accepts our credentials. An error about the empty query is an answer.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let identity = identity(question)?;
    if let Some(address) = promql(question) {
        let call = promql_call(question, address, prometheus::PROBE)?;
        return Ok(Plan::named(question, identity, call, Box::new(prometheus::read_probe)));
    }
    let read = Box::new(|status, body: &[u8]| match parse(status, body) {
        Ok(_) | Err(QueryError::NoValue) => Ok(Reading::ONLINE),
        Err(QueryError::Refused { status: 400, reason: Some("INVALID_ARGUMENT") }) => {
            Ok(Reading::ONLINE)
        }
        Err(error) => Err(error),
    });
    Ok(Plan::named(question, identity, call(question, "")?, read))
}

fn identity(question: &Question<'_>) -> Result<CloudIdentity, ProviderError> {
    let google = &question.environment.google;
    let source = match (support::secret(question, KEY), &google.key) {
        (Some(key), _) => Source::of_key(key, question.now),
        (None, Some(key)) => Source::of_key(key, question.now),
        (None, None) => Source::of_metadata(google.metadata_host.as_deref()),
    };
    source.map(|source| CloudIdentity::Google(Box::new(source))).map_err(|error| match error {
        BadKey::Unreadable => ProviderError::BadKey { provider: NAME, key: KEY },
        BadKey::Type(found) => ProviderError::CredentialType { provider: NAME, found },
    })
}

fn call(question: &Question<'_>, query: &str) -> Result<Call, ProviderError> {
    if question.secret.is_none() {
        return Err(ProviderError::Missing {
            provider: NAME,
            what: "a Secret with the key project",
        });
    }
    let project = support::needed(question, NAME, PROJECT)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:_".contains(&byte);
    if !project.bytes().all(fits) {
        return Err(ProviderError::BadKey { provider: NAME, key: PROJECT });
    }
    let endpoint = question.environment.google.endpoint.as_deref();
    let address = endpoint.unwrap_or(ADDRESS).trim_end_matches('/');
    let body = json!({ "query": query }).to_string().into_bytes();
    let request =
        Request::post_json(&format!("{address}/v3/projects/{project}/timeSeries:query"), body)
            .map_err(|why| ProviderError::Address { provider: NAME, why })?;
    Ok(if endpoint.is_some() { Call::of_environment(request) } else { Call::known(request) })
}

/// The address, if it is that of Google's Prometheus.
fn promql<'a>(question: &Question<'a>) -> Option<&'a str> {
    Some(support::address(question, "")).filter(|address| is_promql(address))
}

/// Whether queries to this address are `PromQL`.
pub(super) fn is_promql(address: &str) -> bool {
    address.trim().starts_with(PROMQL_PREFIX)
}

fn promql_call(question: &Question<'_>, address: &str, query: &str) -> Result<Call, ProviderError> {
    let pairs = [("query", query.trim())];
    let mut request = support::below(question, NAME, address, "/api/v1/query", &[])?;
    request.method = Method::POST;
    request.body = support::form(&pairs).into_bytes();
    support::put_type(&mut request, "application/x-www-form-urlencoded");
    Ok(Call::known(request))
}

fn parse(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    let answer: Option<Value> = serde_json::from_slice(body).ok();
    if status != 200 {
        let word = answer.as_ref().and_then(|answer| answer["error"]["status"].as_str());
        let reason = word.and_then(|word| REASONS.into_iter().find(|reason| *reason == word));
        return Err(QueryError::Refused { status, reason });
    }
    let answer = answer.ok_or(QueryError::Malformed)?;
    if !answer.is_object() {
        return Err(QueryError::Malformed);
    }
    let list = |value: &Value| match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => Ok(list.clone()),
        _ => Err(QueryError::Malformed),
    };
    let series = list(&answer["timeSeriesData"])?;
    let first = series.first().ok_or(QueryError::NoValue)?;
    let points = list(&first["pointData"])?;
    let point = points.first().ok_or(QueryError::NoValue)?;
    let values = list(&point["values"])?;
    let value = values.first().ok_or(QueryError::NoValue)?;
    let sample = match (value.get("doubleValue"), value.get("int64Value")) {
        (Some(number), _) | (None, Some(number)) => support::optional_number(number)?,
        // A truth, a text or a distribution is no number.
        (None, None) => return Err(QueryError::Malformed),
    };
    let sample = sample.ok_or(QueryError::NoValue)?;
    Ok(Reading { sample, series: series.len() })
}

#[cfg(test)]
mod tests;
