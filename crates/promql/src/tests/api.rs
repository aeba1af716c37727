//! Requests and the exact text of their answers.

use http::Method;
use jiff::Timestamp;
use serde_json::Value as Json;

use super::*;
use crate::{Answer, respond};

fn fixture() -> Database {
    load(
        30,
        &[
            ("up{job=\"api\", pod=\"a\"}", "1 0 1 1"),
            ("up{job=\"api\", pod=\"b\"}", "1 1 NaN +Inf"),
            ("latency{job=\"web\"}", "0.25 0.5 1e-9 1e30"),
        ],
    )
}

fn get(path: &str) -> Answer {
    request(&Method::GET, path, "")
}

fn request(method: &Method, path: &str, body: &str) -> Answer {
    let now = Timestamp::from_millisecond(90_000).unwrap();
    respond(&fixture(), now, method, path, body.as_bytes())
}

/// A reason, a path, and the text of the answer.
fn check_json(cases: &[Case<'_>]) {
    for (reason, path, want) in cases {
        let Answer { status, content_type, body } = get(path);
        let got = (status, content_type, body.as_str());
        assert_eq!(got, (200, "application/json", *want), "{reason}");
    }
}

#[test]
fn answers_are_written_as_prometheus_writes_them() {
    let cases = [
        (
            "a vector",
            "/api/v1/query?query=up",
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"api","pod":"a"},"value":[90,"1"]},{"metric":{"__name__":"up","job":"api","pod":"b"},"value":[90,"+Inf"]}]}}"#,
        ),
        (
            "nothing found is no error",
            "/api/v1/query?query=nowhere",
            r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
        ),
        (
            "a time with a fraction, and a number that is none",
            "/api/v1/query?query=up%7Bpod%3D%22b%22%7D&time=60.5",
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"api","pod":"b"},"value":[60.5,"NaN"]}]}}"#,
        ),
        (
            "a time as text, plus as a blank, a small number",
            "/api/v1/query?query=latency+%2B+0&time=1970-01-01T00:01:00Z",
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"job":"web"},"value":[60,"1e-09"]}]}}"#,
        ),
        (
            "a scalar",
            "/api/v1/query?query=1.5&timeout=5s",
            r#"{"status":"success","data":{"resultType":"scalar","result":[90,"1.5"]}}"#,
        ),
        (
            "a large scalar has all its digits",
            "/api/v1/query?query=1e21",
            r#"{"status":"success","data":{"resultType":"scalar","result":[90,"1000000000000000000000"]}}"#,
        ),
        (
            "a text",
            "/api/v1/query?query=%22a%22",
            r#"{"status":"success","data":{"resultType":"string","result":[90,"a"]}}"#,
        ),
        (
            "a window",
            "/api/v1/query?query=latency[1m]",
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"latency","job":"web"},"values":[[60,"1e-09"],[90,"1e+30"]]}]}}"#,
        ),
        (
            "a range",
            "/api/v1/query_range?query=sum(latency)&start=0&end=45&step=15s",
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[0,"0.25"],[15,"0.25"],[30,"0.5"],[45,"0.5"]]}]}}"#,
        ),
    ];
    check_json(&cases);
}

#[test]
fn series_and_labels_are_lists() {
    let cases = [
        (
            "series, each once",
            "/api/v1/series?match[]=up%7Bpod=%22a%22%7D&match[]=%7Bpod=~%22a%22%7D",
            r#"{"status":"success","data":[{"__name__":"up","job":"api","pod":"a"}]}"#,
        ),
        ("labels", "/api/v1/labels", r#"{"status":"success","data":["__name__","job","pod"]}"#),
        (
            "labels of some series",
            "/api/v1/labels?match[]=latency",
            r#"{"status":"success","data":["__name__","job"]}"#,
        ),
        (
            "values of a label",
            "/api/v1/label/job/values",
            r#"{"status":"success","data":["api","web"]}"#,
        ),
        (
            "values at a time when there were none",
            "/api/v1/label/job/values?end=-5",
            r#"{"status":"success","data":[]}"#,
        ),
        (
            "no more than asked for",
            "/api/v1/label/__name__/values?limit=1",
            r#"{"status":"success","data":["latency"],"warnings":["results truncated due to limit"]}"#,
        ),
        (
            "the version",
            "/api/v1/status/buildinfo",
            r#"{"status":"success","data":{"version":"3.10.0","revision":"sandbox","branch":"","buildUser":"","buildDate":"","goVersion":""}}"#,
        ),
    ];
    check_json(&cases);
}

#[test]
fn errors_carry_their_kind_and_status() {
    let cases = [
        ("not a query", "/api/v1/query?query=sum(", 400, "bad_data"),
        ("no query", "/api/v1/query", 400, "bad_data"),
        ("not supported", "/api/v1/query?query=histogram_count(up)", 400, "bad_data"),
        ("not a time", "/api/v1/query?query=1&time=noon", 400, "bad_data"),
        ("no time at all", "/api/v1/query?query=1&time=NaN", 400, "bad_data"),
        ("a time beyond all", "/api/v1/query?query=1&time=1e300", 400, "bad_data"),
        ("not a timeout", "/api/v1/query?query=1&timeout=soon", 400, "bad_data"),
        ("not a limit", "/api/v1/query?query=1&limit=-1", 400, "bad_data"),
        ("cannot be evaluated", "/api/v1/query?query=up+%2B+on(job)+up", 422, "execution"),
        ("no step", "/api/v1/query_range?query=1&start=0&end=1", 400, "bad_data"),
        ("no start", "/api/v1/query_range?query=1&end=1&step=1", 400, "bad_data"),
        ("a step of nothing", "/api/v1/query_range?query=1&start=0&end=1&step=0", 400, "bad_data"),
        ("a step back", "/api/v1/query_range?query=1&start=0&end=1&step=-1", 400, "bad_data"),
        (
            "an end before the start",
            "/api/v1/query_range?query=1&start=2&end=1&step=1",
            400,
            "bad_data",
        ),
        (
            "too many points",
            "/api/v1/query_range?query=1&start=0&end=11001&step=1",
            400,
            "bad_data",
        ),
        (
            "a window at each step",
            "/api/v1/query_range?query=up[1m]&start=0&end=1&step=1",
            400,
            "bad_data",
        ),
        ("series of what?", "/api/v1/series", 400, "bad_data"),
        ("not a selector", "/api/v1/series?match[]=sum(up)", 400, "bad_data"),
        ("a selector of another time", "/api/v1/series?match[]=up%20offset%201m", 400, "bad_data"),
    ];
    for (reason, path, status, kind) in cases {
        let answer = get(path);
        assert_eq!(answer.status, status, "{reason}");
        let body: Json = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            (&body["status"], &body["errorType"]),
            (&"error".into(), &kind.into()),
            "{reason}"
        );
        assert!(body["error"].as_str().is_some_and(|text| !text.is_empty()), "{reason}");
    }
    let body = get("/api/v1/query?query=").body;
    let start =
        r#"{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": "#;
    assert!(body.starts_with(start), "{body}");
}

#[test]
fn a_form_is_as_good_as_a_query_string_and_goes_first() {
    let answer = request(&Method::POST, "/api/v1/query?query=2&time=5", "query=1");
    let want = r#"{"status":"success","data":{"resultType":"scalar","result":[5,"1"]}}"#;
    assert_eq!(answer.body, want);
    let answer = request(&Method::GET, "/api/v1/query?query=2&time=5", "query=1");
    assert_eq!(answer.body, want.replace("\"1\"", "\"2\""));
}

#[test]
fn probes_and_strangers_get_plain_text() {
    let cases = [
        (Method::GET, "/-/ready", 200),
        (Method::HEAD, "/-/healthy", 200),
        (Method::POST, "/-/ready", 405),
        (Method::DELETE, "/api/v1/query", 405),
        (Method::POST, "/api/v1/label/job/values", 405),
        (Method::GET, "/api/v1/nothing", 404),
        (Method::GET, "/", 404),
    ];
    for (method, path, status) in cases {
        let answer = request(&method, path, "");
        let got = (answer.status, answer.content_type);
        assert_eq!(got, (status, "text/plain; charset=utf-8"), "{method} {path}");
    }
}

#[test]
fn an_older_sample_counts_if_told() {
    let path = "/api/v1/query?query=latency&time=600";
    assert!(get(path).body.contains("\"result\":[]"));
    let answer = get(&format!("{path}&lookback_delta=10m"));
    assert!(answer.body.contains("1e+30"), "{}", answer.body);
}
