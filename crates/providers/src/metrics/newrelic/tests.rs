//! NRQL out, results in.

use serde_json::{Value, json};

use super::super::{
    Outcome, ProviderError, QueryError,
    testing::{Asked, asked, value},
};

fn newrelic() -> Asked {
    asked("newrelic").secret(&[("newrelic_account_id", "51312"), ("newrelic_query_key", "q")])
}

#[test]
fn newrelic_is_asked_over_the_interval() {
    let call = newrelic().query("SELECT a / b FROM x\n").call();
    assert_eq!(
        call.request.url,
        "https://insights-api.newrelic.com/v1/accounts/51312/query?nrql=SELECT%20a%20%2F%20b%20FROM%20x%20SINCE%2060%20seconds%20ago"
    );
    let short = newrelic().query("SELECT 1").interval("250ms").call();
    assert!(short.request.url.query().unwrap().ends_with("SINCE%201%20seconds%20ago"));
    assert_eq!(call.request.headers["x-query-key"], "q");
    assert!(call.request.headers["x-query-key"].is_sensitive());
}

#[test]
fn newrelic_is_asked_by_graph_with_a_user_key() {
    let graph =
        asked("newrelic").secret(&[("newrelic_account_id", "51312"), ("newrelic_user_key", "u")]);
    let call = graph.query("SELECT 1").call();
    assert_eq!(call.request.url, "https://api.newrelic.com/graphql");
    assert_eq!(call.request.headers["api-key"], "u");
    let body: Value = serde_json::from_slice(&call.request.body).unwrap();
    let want = json!({ "account": 51312, "nrql": "SELECT 1 SINCE 60 seconds ago" });
    assert_eq!(body["variables"], want);
    assert!(body["query"].as_str().unwrap().contains("nrql(query: $nrql)"));

    let both = newrelic().secret(&[
        ("newrelic_account_id", "1"),
        ("newrelic_query_key", "q"),
        ("newrelic_user_key", "u"),
    ]);
    assert_eq!(both.call().request.url.path(), "/v1/accounts/1/query", "as Flagger");
}

#[test]
fn an_account_and_a_key_are_needed() {
    let missing = |key| ProviderError::MissingKey { provider: "newrelic", key };
    assert_eq!(asked("newrelic").refusal(), missing("newrelic_account_id"));
    let one = asked("newrelic").secret(&[("newrelic_account_id", "1")]);
    assert_eq!(one.refusal(), missing("newrelic_query_key"));
    let path =
        asked("newrelic").secret(&[("newrelic_account_id", "1/../2"), ("newrelic_query_key", "q")]);
    let bad = ProviderError::BadKey { provider: "newrelic", key: "newrelic_account_id" };
    assert_eq!(path.refusal(), bad);
}

#[test]
fn newrelic_reads_the_one_result() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let many = Outcome::Failure(QueryError::ManyValues);
    let refused = |status| Outcome::Failure(QueryError::Refused { status, reason: None });
    let graph =
        r#"{"data":{"actor":{"account":{"nrql":{"results":[{"average.duration":0.25}]}}}}}"#;
    let cases = [
        ("a quotient", 200, r#"{"results":[{"result":1.11111}]}"#, value(1.11111)),
        ("any one number", 200, r#"{"results":[{"average":3}]}"#, value(3.0)),
        ("one level down", 200, r#"{"results":[{"percentiles":{"95":0.5}}]}"#, value(0.5)),
        ("by the graph", 200, graph, value(0.25)),
        ("none", 200, r#"{"results":[]}"#, Outcome::NoData),
        ("no number", 200, r#"{"results":[{"average":null}]}"#, Outcome::NoData),
        ("nothing is not zero", 200, r#"{"results":[{"result":null}]}"#, Outcome::NoData),
        ("NaN", 200, r#"{"results":[{"result":"NaN"}]}"#, Outcome::NoData),
        ("endless", 200, r#"{"results":[{"result":"Infinity"}]}"#, value(f64::INFINITY)),
        ("two results", 200, r#"{"results":[{"result":1},{"result":2}]}"#, many),
        ("two numbers", 200, r#"{"results":[{"min":1,"max":2}]}"#, many),
        ("a truth", 200, r#"{"results":[{"result":true}]}"#, malformed),
        (
            "an error that looks fine",
            200,
            r#"{"data":{"actor":null},"errors":[{"message":"marker"}]}"#,
            refused(200),
        ),
        ("no such account", 200, r#"{"data":{"actor":{"account":null}}}"#, malformed),
        ("cut", 200, r#"{"results":[{"resu"#, malformed),
        ("a list", 200, "[]", malformed),
        ("not allowed", 403, r#"{"error":"marker"}"#, refused(403)),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(newrelic().outcome(status, body), want, "{reason}");
    }
}

#[test]
fn it_is_online_if_it_takes_a_query() {
    let query = newrelic().probe_call().request.url.query().unwrap().to_owned();
    assert_eq!(query, "nrql=SELECT%20%2A%20FROM%20Metric%20SINCE%2060%20seconds%20ago");
    assert!(newrelic().is_online(200, r#"{"results":[{"events":[]}]}"#));
    assert!(!newrelic().is_online(401, r#"{"error":"marker"}"#));
    assert!(!newrelic().is_online(200, r#"{"errors":[{}]}"#));
}
