//! Routes: conditions on requests, retries, and the two nodes with their weights.

use serde_json::{Value, json};
use tidegate_api::{canary::service::Retries, duration::GoDuration};
use tidegate_engine::Percent;

use super::Version;
use crate::traffic::{
    RouteCase,
    headers::Header,
    non_empty,
    weighted_backends::{Found, fields, over},
};

const OWN_RULE: &[&str] = &["name", "priority", "http", "grpc", "httpRoute", "grpcRoute"];
const OWN_ROUTE: &[&str] = &["match", "action", "retryPolicy", "timeout"];
const OWN_MEMBER: &[&str] = &["virtualNodeName", "virtualNodeRef", "weight"];
/// Longest time of one attempt where the spec has none that can be read; as Flagger.
const TRY_MS: u64 = 250;
/// Failures that are retried where the spec names none; as Flagger.
const RETRIED: &str = "gateway-error";

/// The name of a route, and its priority among the others.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) priority: Option<usize>,
}

/// A route.
pub(super) fn render(
    version: Version,
    case: &RouteCase<'_>,
    named: &Named,
    headers: &[Header<'_>],
    canary: Percent,
    found: Option<Found<'_>>,
) -> Value {
    let is_grpc = super::is_grpc(case);
    let key = match (version, is_grpc) {
        (Version::V1Beta1, false) => "http",
        (Version::V1Beta1, true) => "grpc",
        (Version::V1Beta2, false) => "httpRoute",
        (Version::V1Beta2, true) => "grpcRoute",
    };
    let timeout = non_empty(case.service.timeout.as_ref()).and_then(milliseconds);
    let timeout = timeout.filter(|_| version == Version::V1Beta2);
    let inner = fields([
        ("match", Some(condition(case, headers))),
        ("timeout", timeout.map(|timeout| json!({ "perRequest": in_ms(timeout) }))),
        ("retryPolicy", case.service.retries.as_ref().map(|it| retries(version, it))),
        ("action", Some(json!({ "weightedTargets": targets(version, case, canary, found) }))),
    ]);
    let inner = over(found.map(|found| &found.rule[key]), OWN_ROUTE, Value::Object(inner));
    let wanted = fields([
        ("name", Some(json!(named.name))),
        ("priority", named.priority.map(|priority| json!(priority))),
        (key, Some(inner)),
    ]);
    over(found.map(|found| found.rule), OWN_RULE, Value::Object(wanted))
}

/// Calls have no path; a header of a request is metadata of a call.
fn condition(case: &RouteCase<'_>, headers: &[Header<'_>]) -> Value {
    let compared = |header: &Header<'_>| json!({ "name": header.name, "match": { header.how.as_str(): header.value } });
    let headers: Vec<_> = headers.iter().map(compared).collect();
    let headers = Some(json!(headers)).filter(|_| !headers.is_empty());
    Value::Object(if super::is_grpc(case) {
        fields([("metadata", headers)])
    } else {
        fields([("prefix", Some(json!(case.path_prefix()))), ("headers", headers)])
    })
}

fn targets(
    version: Version,
    case: &RouteCase<'_>,
    canary: Percent,
    found: Option<Found<'_>>,
) -> Vec<Value> {
    let target = |name: &str, percent: Percent, live: Option<&Value>| {
        let wanted = match version {
            Version::V1Beta1 => json!({ "virtualNodeName": name, "weight": percent.get() }),
            Version::V1Beta2 => {
                json!({ "virtualNodeRef": { "name": name }, "weight": percent.get() })
            }
        };
        over(live, OWN_MEMBER, wanted)
    };
    let names = &case.names;
    vec![
        target(&names.canary, canary, found.and_then(|found| found.canary)),
        target(&names.primary, canary.rest(), found.and_then(|found| found.primary)),
    ]
}

fn retries(version: Version, retries: &Retries) -> Value {
    let attempts = retries.attempts.filter(|attempts| *attempts > 0).unwrap_or(1);
    let timeout =
        non_empty(retries.per_try_timeout.as_ref()).and_then(milliseconds).unwrap_or(TRY_MS);
    let kinds = non_empty(retries.retry_on.as_ref()).unwrap_or(RETRIED).split(',').map(str::trim);
    let kinds: Vec<_> = kinds.filter(|kind| !kind.is_empty()).collect();
    let mut policy = json!({ "maxRetries": attempts, "httpRetryEvents": kinds });
    match version {
        Version::V1Beta1 => policy["perRetryTimeoutMillis"] = json!(timeout),
        Version::V1Beta2 => policy["perRetryTimeout"] = in_ms(timeout),
    }
    policy
}

/// A duration in the words of `v1beta2`.
pub(super) fn in_ms(milliseconds: u64) -> Value {
    json!({ "unit": "ms", "value": milliseconds })
}

/// As Flagger: a text that is no duration counts for nothing.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let duration = text.parse::<GoDuration>().ok()?.to_std()?;
    u64::try_from(duration.as_millis()).ok()
}
