//! Selectors out, rows in.

use super::super::{
    Outcome, ProviderError, QueryError,
    testing::{Asked, asked, of_several, value},
};

fn dynatrace() -> Asked {
    asked("dynatrace").at("https://x.live.dynatrace.com").secret(&[("dynatrace_token", "t")])
}

#[test]
fn a_selector_goes_out_with_a_token_and_a_window() {
    let call = dynatrace().query("builtin:service.errors:filter(eq(a,b))\n").interval("90s").call();
    assert_eq!(
        call.request.url,
        "https://x.live.dynatrace.com/api/v2/metrics/query?metricSelector=builtin%3Aservice.errors%3Afilter%28eq%28a%2Cb%29%29&resolution=Inf&from=1772365500000&to=1772366400000"
    );
    assert_eq!(call.request.headers["authorization"], "Api-Token t");
    assert!(call.request.headers["authorization"].is_sensitive());
}

#[test]
fn an_address_and_a_token_are_needed() {
    let nowhere = asked("dynatrace").secret(&[("dynatrace_token", "t")]).refusal();
    assert_eq!(nowhere.to_string(), "dynatrace: the address is empty");
    let missing = ProviderError::MissingKey { provider: "dynatrace", key: "dynatrace_token" };
    assert_eq!(asked("dynatrace").at("https://x").refusal(), missing);
}

#[test]
fn dynatrace_reads_the_last_row() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let rows =
        |rows: &str| format!(r#"{{"totalCount":1,"result":[{{"metricId":"m","data":{rows}}}]}}"#);
    let row = |values: &str| format!(r#"{{"dimensions":[],"timestamps":[1],"values":{values}}}"#);
    let two = rows(&format!("[{},{}]", row("[1]"), row("[2]")));
    let cases = [
        ("one", 200, rows(&format!("[{}]", row("[1.11111]"))), value(1.11111)),
        ("the last of two, and it is told", 200, two, of_several(2.0, 2)),
        ("nothing is not zero", 200, rows(&format!("[{}]", row("[null]"))), Outcome::NoData),
        ("the first that is something", 200, rows(&format!("[{}]", row("[null,4]"))), value(4.0)),
        ("NaN", 200, rows(&format!("[{}]", row(r#"["NaN"]"#))), Outcome::NoData),
        ("no values", 200, rows(&format!("[{}]", row("[]"))), Outcome::NoData),
        ("no rows", 200, rows("[]"), Outcome::NoData),
        ("no result", 200, r#"{"result":[]}"#.to_owned(), Outcome::NoData),
        ("none at all", 200, "{}".to_owned(), Outcome::NoData),
        ("a result without rows", 200, r#"{"result":[{}]}"#.to_owned(), Outcome::NoData),
        ("rows that are none", 200, rows("[{}]"), malformed),
        ("rows that are no list", 200, rows("7"), malformed),
        ("a text", 200, rows(&format!("[{}]", row(r#"["x"]"#))), malformed),
        ("a list", 200, "[]".to_owned(), malformed),
        ("cut", 200, rows("[]")[..20].to_owned(), malformed),
        (
            "not allowed",
            401,
            r#"{"error":{"message":"marker"}}"#.to_owned(),
            Outcome::Failure(QueryError::Refused { status: 401, reason: None }),
        ),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(dynatrace().outcome(status, &body), want, "{reason}");
    }
}

#[test]
fn it_is_online_if_it_lists_metrics() {
    let call = dynatrace().probe_call();
    assert_eq!(call.request.url, "https://x.live.dynatrace.com/api/v2/metrics?pageSize=1");
    assert!(dynatrace().is_online(200, "{}"));
    assert!(!dynatrace().is_online(403, "{}"));
}
