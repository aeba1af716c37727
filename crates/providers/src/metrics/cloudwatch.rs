//! Amazon `CloudWatch`: a list of metric queries, as JSON, over the last ten intervals.
//!
//! The first value of the first result counts, as in Flagger; it is the newest one.
//!
//! | key of the Secret | |
//! |---|---|
//! | `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token` | the keys to use; without them, the identity of the operator's pod |
//!
//! The address of a template is ignored, as in Flagger: a signature of the operator's goes to Amazon
//! and nowhere else.

use http::{HeaderValue, Method};
use serde_json::{Map, Value, json};

use super::{
    QueryError, Reading, aws,
    cloud_identity::CloudIdentity,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};
use crate::request::Request;

pub(super) const NAME: &str = "cloudwatch";

/// Most values of all results together. More than one of each is never looked at.
const POINTS_MAX: u32 = 20;
/// Most queries in one list; Amazon takes 500.
const QUERIES_MAX: usize = 500;
/// Its words for errors, as far as they say more than the status.
const REASONS: [&str; 12] = [
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InternalServiceFault",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "ThrottlingException",
    "UnrecognizedClientException",
    "ValidationError",
];
/// Errors about our credentials: in JSON they come with status 400, like a query that is wrong.
const REFUSALS: [&str; 9] = [
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// The type of a member of a query.
enum Shape {
    Plain,
    Object(&'static [(&'static str, Shape)]),
    List(&'static [(&'static str, Shape)]),
}

const QUERY: &[(&str, Shape)] = &[
    ("Id", Shape::Plain),
    ("Expression", Shape::Plain),
    ("Label", Shape::Plain),
    ("MetricStat", Shape::Object(STATISTIC)),
    ("Period", Shape::Plain),
    ("ReturnData", Shape::Plain),
    ("AccountId", Shape::Plain),
];
const STATISTIC: &[(&str, Shape)] = &[
    ("Metric", Shape::Object(METRIC)),
    ("Period", Shape::Plain),
    ("Stat", Shape::Plain),
    ("Unit", Shape::Plain),
];
const METRIC: &[(&str, Shape)] = &[
    ("Namespace", Shape::Plain),
    ("MetricName", Shape::Plain),
    ("Dimensions", Shape::List(DIMENSION)),
];
const DIMENSION: &[(&str, Shape)] = &[("Name", Shape::Plain), ("Value", Shape::Plain)];

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let region = region(question)?;
    let queries = queries(question.query)?;
    let (from, to) = support::window_ms(question)?;
    let body = json!({
        "StartTime": from / 1000,
        "EndTime": to / 1000,
        "MaxDatapoints": POINTS_MAX,
        "MetricDataQueries": queries,
    });
    let call = call(question, region, &body)?;
    Ok(Plan::named(question, identity(question, region), call, Box::new(parse)))
}

/// Whether it accepts us. An error about the query is an answer.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let region = region(question)?;
    let body = json!({ "StartTime": 0, "EndTime": 0, "MetricDataQueries": [] });
    let call = call(question, region, &body)?;
    let read = Box::new(|status, body: &[u8]| {
        let is_known = reason(body).is_none_or(|word| !REFUSALS.contains(&word));
        support::online(status == 200 || status == 400 && is_known, status)
    });
    Ok(Plan::named(question, identity(question, region), call, read))
}

fn region<'a>(question: &Question<'a>) -> Result<&'a str, ProviderError> {
    let region = question.provider.region.as_deref().map(str::trim).unwrap_or_default();
    if region.is_empty() {
        return Err(ProviderError::Missing {
            provider: NAME,
            what: "a region: region not specified",
        });
    }
    if aws::is_region(region) {
        Ok(region)
    } else {
        Err(ProviderError::Missing { provider: NAME, what: "a region such as eu-west-1" })
    }
}

/// Keys of the Secret, or else the operator's own.
pub(super) fn source(question: &Question<'_>) -> aws::Source {
    let text = |key| support::secret(question, key).map(str::to_owned);
    match (text("aws_access_key_id"), text("aws_secret_access_key")) {
        (Some(id), Some(secret)) => {
            aws::Source::Keys(aws::Keys { id, secret, session: text("aws_session_token") })
        }
        _ => question.environment.aws.clone(),
    }
}

fn identity(question: &Question<'_>, region: &str) -> CloudIdentity {
    CloudIdentity::Aws {
        source: source(question),
        region: region.to_owned(),
        service: "monitoring",
        sts: question.environment.aws_sts_endpoint.clone(),
    }
}

fn call(question: &Question<'_>, region: &str, body: &Value) -> Result<Call, ProviderError> {
    let endpoint = question.environment.aws_endpoint.as_deref();
    let address = endpoint.map_or_else(|| aws::endpoint("monitoring", region), str::to_owned);
    let wrong = |why| ProviderError::Address { provider: NAME, why };
    let mut request = Request::get(&address).map_err(wrong)?;
    request.method = Method::POST;
    request.body = body.to_string().into_bytes();
    support::put_type(&mut request, "application/x-amz-json-1.0");
    let target = HeaderValue::from_static("GraniteServiceVersion20100801.GetMetricData");
    request.headers.insert("x-amz-target", target);
    Ok(if endpoint.is_some() { Call::of_environment(request) } else { Call::known(request) })
}

/// The list in a query, with the members Amazon knows, spelled as Amazon does.
fn queries(text: &str) -> Result<Vec<Value>, ProviderError> {
    let wrong = |why| ProviderError::Query { provider: NAME, why };
    let list: Value = serde_json::from_str(text).map_err(|_| wrong("it is not JSON"))?;
    let list = list.as_array().ok_or_else(|| wrong("it is not a list"))?;
    if list.is_empty() || list.len() > QUERIES_MAX {
        return Err(wrong("it has no queries, or more than 500"));
    }
    let queries = list.iter().map(|query| spelled(query, QUERY)).collect::<Option<Vec<_>>>();
    queries.ok_or_else(|| wrong("a query is not an object"))
}

/// An object with known members only, in any case of letters, as in Flagger.
fn spelled(object: &Value, members: &[(&str, Shape)]) -> Option<Value> {
    let mut known = Map::new();
    for (name, value) in object.as_object()? {
        let Some((name, shape)) = members.iter().find(|(it, _)| it.eq_ignore_ascii_case(name))
        else {
            continue;
        };
        let value = match shape {
            _ if value.is_null() => continue,
            Shape::Plain => value.clone(),
            Shape::Object(members) => spelled(value, members)?,
            Shape::List(members) => {
                let list = value.as_array()?.iter().map(|one| spelled(one, members));
                Value::Array(list.collect::<Option<_>>()?)
            }
        };
        known.insert((*name).to_owned(), value);
    }
    Some(Value::Object(known))
}

fn parse(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    if status != 200 {
        return Err(QueryError::Refused { status, reason: reason(body) });
    }
    let answer = support::json(status, body)?;
    let results = answer["MetricDataResults"].as_array().ok_or(QueryError::Malformed)?;
    let first = results.first().ok_or(QueryError::NoValue)?;
    if matches!(first["StatusCode"].as_str(), Some("InternalError" | "Forbidden")) {
        return Err(QueryError::Refused { status, reason: None });
    }
    let values = first["Values"].as_array().ok_or(QueryError::Malformed)?;
    let value = values.first().ok_or(QueryError::NoValue)?;
    let sample = support::optional_number(value)?.ok_or(QueryError::NoValue)?;
    Ok(Reading { sample, series: results.len() })
}

/// Whether a retry of the same request may help.
pub(super) fn is_passing(status: u16, body: &[u8]) -> bool {
    status == 429 || status >= 500 || reason(body) == Some("ThrottlingException")
}

/// The kind of error, behind the name of its family: `com.amazon.coral#AccessDeniedException`.
fn reason(body: &[u8]) -> Option<&'static str> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let word = answer["__type"].as_str().or_else(|| answer["code"].as_str())?;
    let word = word.rsplit_once('#').map_or(word, |(_, word)| word);
    REASONS.into_iter().find(|reason| *reason == word)
}

#[cfg(test)]
mod tests;
