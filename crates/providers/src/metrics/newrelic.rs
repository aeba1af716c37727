//! New Relic: NRQL, over one interval.
//!
//! With a query key the Insights API is queried, as Flagger does. New Relic is retiring it: with a user key
//! instead, it is `NerdGraph`.
//!
//! | key of the Secret | |
//! |---|---|
//! | `newrelic_account_id` | needed |
//! | `newrelic_query_key` or `newrelic_user_key` | one of them |

use http::Method;
use serde_json::{Value, json};

use super::{
    QueryError, Reading, Sample,
    query_machine::{Call, Plan, ProviderError, Question},
    support,
};
use crate::request::Request;

pub(super) const NAME: &str = "newrelic";

const ADDRESS: &str = "https://insights-api.newrelic.com";
const GRAPH_ADDRESS: &str = "https://api.newrelic.com";
const QUERY_KEY: &str = "newrelic_query_key";
const USER_KEY: &str = "newrelic_user_key";
const ACCOUNT: &str = "newrelic_account_id";
const GRAPH: &str = "query($account: Int!, $nrql: Nrql!) { actor { account(id: $account) { nrql(query: $nrql) { results } } } }";

/// The value of a query.
pub(super) fn ask(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let call = call(question, question.query.trim())?;
    Ok(Plan::once(question, call, Box::new(parse)))
}

/// Whether the key is accepted for the account.
pub(super) fn probe(question: &Question<'_>) -> Result<Plan, ProviderError> {
    let call = call(question, "SELECT * FROM Metric")?;
    let read = Box::new(|status, body: &[u8]| {
        let refused = results(status, body).is_err();
        support::online(!refused, status)
    });
    Ok(Plan::once(question, call, read))
}

fn call(question: &Question<'_>, nrql: &str) -> Result<Call, ProviderError> {
    let account = support::needed(question, NAME, ACCOUNT)?;
    if !account.bytes().all(|byte| byte.is_ascii_digit()) {
        // It becomes part of a path.
        return Err(ProviderError::BadKey { provider: NAME, key: ACCOUNT });
    }
    // A window of zero seconds has no data.
    let seconds = (support::interval_ms(question)? / 1000).max(1);
    let nrql = format!("{nrql} SINCE {seconds} seconds ago");
    let request = match (support::secret(question, QUERY_KEY), support::secret(question, USER_KEY))
    {
        (None, Some(key)) => graph(question, account, &nrql, key)?,
        (key, _) => {
            let key = key.ok_or(ProviderError::MissingKey { provider: NAME, key: QUERY_KEY })?;
            let path = format!("/v1/accounts/{account}/query");
            let address = support::address(question, ADDRESS);
            let mut request = support::below(question, NAME, address, &path, &[("nrql", &nrql)])?;
            support::put_secret(&mut request, NAME, ("x-query-key", QUERY_KEY), key)?;
            request
        }
    };
    Ok(Call::of(question, request))
}

fn graph(
    question: &Question<'_>,
    account: &str,
    nrql: &str,
    key: &str,
) -> Result<Request, ProviderError> {
    let bad = ProviderError::BadKey { provider: NAME, key: ACCOUNT };
    let account: u64 = account.parse().map_err(|_| bad)?;
    let address = support::address(question, GRAPH_ADDRESS);
    let mut request = support::below(question, NAME, address, "/graphql", &[])?;
    request.method = Method::POST;
    let body = json!({ "query": GRAPH, "variables": { "account": account, "nrql": nrql } });
    request.body = body.to_string().into_bytes();
    support::put_type(&mut request, "application/json");
    support::put_secret(&mut request, NAME, ("api-key", USER_KEY), key)?;
    Ok(request)
}

fn parse(status: u16, body: &[u8]) -> Result<Reading, QueryError> {
    let results = results(status, body)?;
    let [result] = results.as_slice() else {
        // None, or one for each facet or span of time.
        return Err(if results.is_empty() { QueryError::NoValue } else { QueryError::ManyValues });
    };
    if let Some(value) = result.get("result") {
        return support::only(support::optional_number(value)?);
    }
    let mut found = Vec::new();
    numbers(result, 2, &mut found);
    match found.as_slice() {
        [] => Err(QueryError::NoValue),
        [sample] => support::only(Some(*sample)),
        _ => Err(QueryError::ManyValues),
    }
}

/// The results in the answer of either API.
fn results(status: u16, body: &[u8]) -> Result<Vec<Value>, QueryError> {
    let mut answer = support::json(status, body)?;
    let has_errors = answer["errors"].as_array().is_some_and(|errors| !errors.is_empty());
    if has_errors || answer["error"].is_string() {
        return Err(QueryError::Refused { status, reason: None });
    }
    let place =
        if answer.get("data").is_some() { "/data/actor/account/nrql/results" } else { "/results" };
    match answer.pointer_mut(place).map(Value::take) {
        Some(Value::Array(results)) => Ok(results),
        _ => Err(QueryError::Malformed),
    }
}

/// The numbers of a result: `average` has one, and so has `percentiles` one level down.
fn numbers(value: &Value, depth: u8, found: &mut Vec<Sample>) {
    match value {
        Value::Number(_) => found.extend(support::number(value)),
        Value::Object(members) if depth > 0 => {
            members.values().for_each(|member| numbers(member, depth - 1, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
