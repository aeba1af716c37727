//! Requests as sent, answers as Datadog gives them.

use super::super::{
    Outcome, ProviderError, QueryError,
    testing::{Asked, asked, of_several, value},
};

fn datadog() -> Asked {
    asked("datadog").secret(&[("datadog_api_key", "k1\n"), ("datadog_application_key", "k2")])
}

fn points(list: &str) -> String {
    format!(r#"{{"status":"ok","series":[{{"metric":"m","interval":20,"pointlist":{list}}}]}}"#)
}

#[test]
fn a_query_goes_out_with_both_keys_and_a_window() {
    let call = datadog().query("avg:errors{app:web} by {x}").call();
    assert_eq!(
        call.request.url,
        "https://api.datadoghq.com/api/v1/query?query=avg%3Aerrors%7Bapp%3Aweb%7D%20by%20%7Bx%7D&from=1772365800&to=1772366400"
    );
    assert_eq!(call.request.headers["dd-api-key"], "k1");
    assert_eq!(call.request.headers["dd-application-key"], "k2");
    assert!(call.request.headers.values().all(http::HeaderValue::is_sensitive));
    assert!(call.verify_tls && !call.trusted);

    let mut europe = datadog().at("https://api.datadoghq.eu/").header("X-Team", "web");
    europe.provider.insecure_skip_verify = Some(true);
    let call = europe.call();
    assert_eq!(call.request.url.host(), Some("api.datadoghq.eu"));
    assert_eq!(call.request.url.path(), "/api/v1/query");
    assert_eq!(call.request.headers["x-team"], "web");
    assert!(!call.verify_tls, "as the template says");
}

#[test]
fn datadog_looks_back_over_ten_intervals() {
    let call = datadog().interval("100s").call();
    let query = call.request.url.query().unwrap();
    assert!(query.ends_with("&from=1772365400&to=1772366400"), "{query}");
}

#[test]
fn both_keys_are_needed() {
    let missing = |key| ProviderError::MissingKey { provider: "datadog", key };
    assert_eq!(asked("datadog").refusal(), missing("datadog_api_key"));
    let one = asked("datadog").secret(&[("datadog_api_key", "k1")]);
    assert_eq!(one.refusal(), missing("datadog_application_key"));
    assert_eq!(
        one.refusal().to_string(),
        "datadog credentials do not contain datadog_application_key"
    );
    let lines = asked("datadog")
        .secret(&[("datadog_api_key", "hidden\r\nX: y"), ("datadog_application_key", "k")]);
    assert!(!format!("{:?}", lines.refusal()).contains("hidden"));
    let odd = datadog().secret(&[
        ("datadog_api_key", "k1"),
        ("datadog_application_key", "k2"),
        ("point", "median"),
    ]);
    assert_eq!(odd.refusal(), ProviderError::BadKey { provider: "datadog", key: "point" });
}

#[test]
fn datadog_reads_the_oldest_point() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let refused = |status| Outcome::Failure(QueryError::Refused { status, reason: None });
    let three = points("[[1577232000000,1.11111],[1577318400000,56294.4],[1577404800000,29325.1]]");
    let two = r#"{"series":[{"pointlist":[[1,7]]},{"pointlist":[[1,9]]}]}"#;
    let cases = [
        ("several points", 200, three.as_str(), value(1.11111)),
        ("the first of two series, and it is told", 200, two, of_several(7.0, 2)),
        ("no points", 200, &points("[]"), Outcome::NoData),
        ("no series", 200, r#"{"series":[]}"#, Outcome::NoData),
        ("an empty pair", 200, &points("[[]]"), Outcome::NoData),
        ("nothing is not zero", 200, &points("[[1,null],[2,null]]"), Outcome::NoData),
        ("the first that is something", 200, &points("[[1,null],[2,3]]"), value(3.0)),
        ("half a point", 200, &points("[[1]]"), malformed),
        ("three thirds of one", 200, &points("[[1,2,3]]"), malformed),
        ("a text", 200, &points(r#"[[1,"much"]]"#), malformed),
        ("NaN in a text", 200, &points(r#"[[1,"NaN"]]"#), Outcome::NoData),
        ("no list", 200, r#"{"series":[{}]}"#, malformed),
        ("no series at all", 200, "{}", malformed),
        ("more than a number holds", 200, &points("[[1,1e999]]"), malformed),
        ("cut", 200, &three[..40], malformed),
        ("a page", 200, "<html>marker</html>", malformed),
        ("nothing", 200, "", malformed),
        ("an error that looks fine", 200, r#"{"status":"error","error":"marker"}"#, refused(200)),
        ("not allowed", 403, r#"{"errors":["marker"]}"#, refused(403)),
        ("too fast", 429, "", refused(429)),
        ("even with a value in it", 500, three.as_str(), refused(500)),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(datadog().outcome(status, body), want, "{reason}");
    }
}

#[test]
fn datadog_can_be_told_to_read_the_newest_complete_point() {
    let newest = datadog().secret(&[
        ("datadog_api_key", "k1"),
        ("datadog_application_key", "k2"),
        ("point", "newest"),
    ]);
    // Twenty seconds each; now is 1772366400000 and the interval a minute.
    let cases = [
        (
            "the last one is still filling up",
            "[[1772366340000,1],[1772366380000,2],[1772366400000,3]]",
            value(2.0),
        ),
        ("nothing that is new enough", "[[1772365800000,1],[1772366320000,2]]", Outcome::NoData),
        ("nothing that is complete", "[[1772366390000,1]]", Outcome::NoData),
        ("one without a value", "[[1772366360000,4],[1772366380000,null]]", value(4.0)),
    ];
    for (reason, list, want) in cases {
        assert_eq!(newest.outcome(200, &points(list)), want, "{reason}");
    }
    let unsaid = r#"{"series":[{"pointlist":[[1772366340000,1]]}]}"#;
    assert_eq!(newest.outcome(200, unsaid), Outcome::Failure(QueryError::Malformed));
}

#[test]
fn datadog_is_offline_without_good_keys() {
    let call = datadog().probe_call();
    assert_eq!(call.request.url, "https://api.datadoghq.com/api/v1/validate");
    assert_eq!(call.request.headers["dd-api-key"], "k1");
    assert!(datadog().is_online(200, r#"{"valid":true}"#));
    assert!(!datadog().is_online(401, ""));
}
