//! A token first, then the query.

use serde_json::{Value, json};

use super::super::{
    Outcome, ProviderError, QueryError, Reply,
    testing::{Asked, answered, asked, done, of_several, sent, value},
};

const TOKEN: &str = r#"{"access_token":"t"}"#;

fn stackdriver() -> Asked {
    asked("stackdriver").secret(&[("project", "my-project")]).query("fetch k8s_container")
}

fn outcome(asked: &Asked, status: u16, body: &str) -> Outcome {
    done(&asked.machine().unwrap(), &[answered(200, TOKEN), answered(status, body)])
}

#[test]
fn a_token_is_had_and_then_the_query_goes_out() {
    let machine = stackdriver().machine().unwrap();
    assert_eq!(sent(&machine, &[]).request.url.host(), Some("metadata.google.internal"));
    let call = sent(&machine, &[answered(200, TOKEN)]);
    assert_eq!(
        call.request.url,
        "https://monitoring.googleapis.com/v3/projects/my-project/timeSeries:query"
    );
    assert_eq!(call.request.headers["authorization"], "Bearer t");
    assert!(call.request.headers["authorization"].is_sensitive());
    let body: Value = serde_json::from_slice(&call.request.body).unwrap();
    assert_eq!(body, json!({ "query": "fetch k8s_container" }));
    assert!(!call.trusted);

    let key = include_str!("../google/testdata/account.json");
    let keyed = stackdriver().secret(&[("project", "p"), ("serviceAccountKey", key)]);
    assert_eq!(keyed.call().request.url, "https://oauth2.googleapis.com/token");
}

#[test]
fn a_project_and_a_key_that_is_one_are_needed() {
    let missing = ProviderError::MissingKey { provider: "stackdriver", key: "project" };
    assert_eq!(stackdriver().secret(&[]).refusal(), missing);
    assert!(matches!(asked("stackdriver").refusal(), ProviderError::Missing { .. }));
    let bad = |key| ProviderError::BadKey { provider: "stackdriver", key };
    assert_eq!(stackdriver().secret(&[("project", "a/b")]).refusal(), bad("project"));
    let keyed = stackdriver().secret(&[("project", "p"), ("serviceAccountKey", "hidden")]);
    assert_eq!(keyed.refusal(), bad("serviceAccountKey"));
}

#[test]
fn an_address_of_googles_prometheus_makes_it_promql() {
    let address = "https://monitoring.googleapis.com/v1/projects/p/location/global/prometheus";
    let promql = asked("stackdriver").at(address).query("sum(up)\n");
    let machine = promql.machine().unwrap();
    let call = sent(&machine, &[answered(200, TOKEN)]);
    assert_eq!(call.request.url.to_string(), format!("{address}/api/v1/query"));
    assert_eq!(call.request.body, b"query=sum%28up%29");
    assert_eq!(call.request.headers["authorization"], "Bearer t");
    let body =
        r#"{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"3"]}]}}"#;
    assert_eq!(outcome(&promql, 200, body), value(3.0));
    let probe = promql.probe().unwrap();
    assert_eq!(sent(&probe, &[answered(200, TOKEN)]).request.body, b"query=vector%281%29");

    let evil = stackdriver().at("https://monitoring.googleapis.com.evil.example/v1/x");
    let call = sent(&evil.machine().unwrap(), &[answered(200, TOKEN)]);
    assert_eq!(call.request.url.host(), Some("monitoring.googleapis.com"));
}

fn series(values: &str) -> String {
    format!(r#"{{"timeSeriesData":[{{"pointData":[{{"values":{values}}}]}}]}}"#)
}

#[test]
fn stackdriver_reads_the_first_value() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let refused = |status, reason| Outcome::Failure(QueryError::Refused { status, reason });
    let two =
        r#"{"timeSeriesData":[{"pointData":[{"values":[{"doubleValue":1}]}]},{"pointData":[]}]}"#;
    let denied = r#"{"error":{"code":403,"message":"marker","status":"PERMISSION_DENIED"}}"#;
    let cases = [
        ("a fraction", 200, series(r#"[{"doubleValue":100}]"#), value(100.0)),
        ("a whole number", 200, series(r#"[{"int64Value":"42"}]"#), value(42.0)),
        ("zero is one too", 200, series(r#"[{"int64Value":"0"}]"#), value(0.0)),
        ("NaN", 200, series(r#"[{"doubleValue":"NaN"}]"#), Outcome::NoData),
        ("endless", 200, series(r#"[{"doubleValue":"Infinity"}]"#), value(f64::INFINITY)),
        ("of two series the first, and it is told", 200, two.to_owned(), of_several(1.0, 2)),
        ("no series", 200, "{}".to_owned(), Outcome::NoData),
        ("no points", 200, r#"{"timeSeriesData":[{}]}"#.to_owned(), Outcome::NoData),
        ("no values", 200, series("[]"), Outcome::NoData),
        ("a text", 200, series(r#"[{"stringValue":"1"}]"#), malformed),
        ("a distribution", 200, series(r#"[{"distributionValue":{}}]"#), malformed),
        ("no lists", 200, r#"{"timeSeriesData":{}}"#.to_owned(), malformed),
        ("a list", 200, "[]".to_owned(), malformed),
        ("cut", 200, series("[]")[..20].to_owned(), malformed),
        ("not allowed", 403, denied.to_owned(), refused(403, Some("PERMISSION_DENIED"))),
        ("ill", 500, "marker".to_owned(), refused(500, None)),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(outcome(&stackdriver(), status, &body), want, "{reason}");
    }
    let machine = stackdriver().machine().unwrap();
    let no_token = done(&machine, &[answered(403, "")]);
    assert_eq!(no_token, Outcome::Failure(QueryError::Identity));
    assert_eq!(done(&machine, &[Reply::Lost]), Outcome::Failure(QueryError::Unreachable));
}

#[test]
fn stackdriver_is_online_if_it_finds_fault_with_the_query_only() {
    let probe = stackdriver().probe().unwrap();
    let body: Value =
        serde_json::from_slice(&sent(&probe, &[answered(200, TOKEN)]).request.body).unwrap();
    assert_eq!(body, json!({ "query": "" }));
    let is_online = |status, word: &str| {
        let body = format!(r#"{{"error":{{"status":"{word}"}}}}"#);
        let outcome = done(&probe, &[answered(200, TOKEN), answered(status, &body)]);
        matches!(outcome, Outcome::Value(_))
    };
    assert!(is_online(400, "INVALID_ARGUMENT"));
    assert!(is_online(200, ""));
    assert!(!is_online(403, "PERMISSION_DENIED"));
    assert!(!is_online(400, "FAILED_PRECONDITION"));
}
