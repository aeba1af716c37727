//! Lists of queries out, results in.

use serde_json::{Value, json};

use super::super::{
    Outcome, ProviderError, QueryError,
    testing::{Asked, answered, asked, of_several, value},
};

fn cloudwatch() -> Asked {
    asked("cloudwatch")
        .region("us-east-1")
        .secret(&[("aws_access_key_id", "AKID"), ("aws_secret_access_key", "s")])
        .query(r#"[{"Id":"e1","Expression":"m1 / m2"}]"#)
}

#[test]
fn a_list_of_queries_goes_out_signed() {
    let query = r#"[
        {"id": "e1", "expression": "m1", "label": "rate", "returnData": true, "unknown": 1},
        {"Id": "m1", "metricstat": {"metric": {"namespace": "AWS/ELB", "METRICNAME": "5xx",
            "dimensions": [{"name": "lb", "value": "a", "x": 1}]}, "period": 60, "stat": "Sum", "unit": "Count"},
         "ReturnData": false, "AccountId": null}
    ]"#;
    let call = cloudwatch().query(query).interval("2m").call();
    assert_eq!(call.request.method, http::Method::POST);
    assert_eq!(call.request.url, "https://monitoring.us-east-1.amazonaws.com/");
    let headers = &call.request.headers;
    assert_eq!(headers["x-amz-target"], "GraniteServiceVersion20100801.GetMetricData");
    assert_eq!(headers["content-type"], "application/x-amz-json-1.0");
    let signing = call.signing.as_ref().unwrap();
    assert_eq!(signing.keys.id, "AKID");
    assert_eq!((signing.region.as_str(), signing.service), ("us-east-1", "monitoring"));
    let body: Value = serde_json::from_slice(&call.request.body).unwrap();
    let want = json!({
        "StartTime": 1_772_365_200,
        "EndTime": 1_772_366_400,
        "MaxDatapoints": 20,
        "MetricDataQueries": [
            { "Id": "e1", "Expression": "m1", "Label": "rate", "ReturnData": true },
            {
                "Id": "m1",
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/ELB",
                        "MetricName": "5xx",
                        "Dimensions": [{ "Name": "lb", "Value": "a" }],
                    },
                    "Period": 60,
                    "Stat": "Sum",
                    "Unit": "Count",
                },
                "ReturnData": false,
            },
        ],
    });
    assert_eq!(body, want);
}

#[test]
fn a_signature_goes_to_amazon_and_nowhere_else() {
    let evil = cloudwatch().at("https://evil.example").header("X-A", "b").call();
    assert_eq!(evil.request.url, "https://monitoring.us-east-1.amazonaws.com/");
    assert!(!evil.request.headers.contains_key("x-a"));
    let china = cloudwatch().region("cn-north-1").call();
    assert_eq!(china.request.url, "https://monitoring.cn-north-1.amazonaws.com.cn/");
    let mut local = cloudwatch();
    local.environment.aws_endpoint = Some("http://localhost:4566".into());
    let call = local.call();
    assert_eq!(call.request.url, "http://localhost:4566/");
    assert!(call.trusted, "the administrator's own");
}

#[test]
fn cloudwatch_needs_a_region() {
    let none = asked("cloudwatch").query("[{}]").refusal();
    assert!(none.to_string().contains("region not specified"), "{none}");
    for region in ["evil.example/", "EU", "a b"] {
        assert!(cloudwatch().region(region).machine().is_err(), "{region}");
    }
}

#[test]
fn a_query_is_a_list_of_objects() {
    for query in [
        "",
        "{}",
        "[]",
        "[1]",
        "[",
        r#"[{"MetricStat":1}]"#,
        r#"[{"MetricStat":{"Metric":{"Dimensions":{}}}}]"#,
    ] {
        let refusal = cloudwatch().query(query).refusal();
        assert!(matches!(refusal, ProviderError::Query { .. }), "{query}: {refusal}");
    }
}

fn results(list: &str) -> String {
    format!(r#"{{"MetricDataResults":[{list}],"Messages":[]}}"#)
}

#[test]
fn cloudwatch_reads_the_first_value_of_the_first_result() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let refused = |status, reason| Outcome::Failure(QueryError::Refused { status, reason });
    let throttled =
        r#"{"__type":"com.amazonaws.cloudwatch#ThrottlingException","message":"marker"}"#;
    let two = r#"{"Id":"a","Values":[1,2]},{"Id":"b","Values":[3]}"#;
    let cases = [
        ("one", 200, results(r#"{"Id":"a","StatusCode":"Complete","Values":[100]}"#), value(100.0)),
        ("of two the first, and it is told", 200, results(two), of_several(1.0, 2)),
        ("no values", 200, results(r#"{"Id":"a","Values":[]}"#), Outcome::NoData),
        ("no results", 200, results(""), Outcome::NoData),
        ("NaN", 200, results(r#"{"Values":["NaN"]}"#), Outcome::NoData),
        ("endless", 200, results(r#"{"Values":["Infinity"]}"#), value(f64::INFINITY)),
        (
            "ill inside",
            200,
            results(r#"{"StatusCode":"InternalError","Values":[1]}"#),
            refused(200, None),
        ),
        ("no list", 200, results("{}"), malformed),
        ("no number", 200, results(r#"{"Values":[{}]}"#), malformed),
        ("an empty object", 200, "{}".to_owned(), malformed),
        ("cut", 200, results("")[..15].to_owned(), malformed),
        ("too fast", 400, throttled.to_owned(), refused(400, Some("ThrottlingException"))),
        ("for reasons of its own", 400, r#"{"__type":"marker"}"#.to_owned(), refused(400, None)),
        ("ill", 500, "marker".to_owned(), refused(500, None)),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(cloudwatch().outcome(status, &body), want, "{reason}");
    }
}

#[test]
fn cloudwatch_is_asked_three_times_more_while_it_is_busy() {
    let machine = cloudwatch().machine().unwrap();
    let throttled = r#"{"__type":"com.amazonaws.cloudwatch#ThrottlingException"}"#;
    for (status, body, want) in [
        (400, throttled, true),
        (429, "", true),
        (503, "", true),
        (200, "", false),
        (400, r#"{"__type":"ValidationError"}"#, false),
        (403, "", false),
    ] {
        let reply = answered(status, body);
        assert_eq!(machine.again(&reply, 0).is_some(), want, "{status} {body}");
        assert_eq!(machine.again(&reply, 3), None, "{status} {body}: that is enough");
    }
    let waits: Vec<_> =
        (0..3).filter_map(|tries| machine.again(&answered(503, ""), tries)).collect();
    assert_eq!(
        waits.iter().map(std::time::Duration::as_millis).collect::<Vec<_>>(),
        [200, 400, 800]
    );
    let other = asked("graphite").at("http://graphite").query("target=errors").machine().unwrap();
    assert_eq!(other.again(&answered(503, ""), 0), None, "nobody else is");
}

#[test]
fn cloudwatch_is_online_if_it_finds_fault_with_the_query_only() {
    let body: Value = serde_json::from_slice(&cloudwatch().probe_call().request.body).unwrap();
    assert_eq!(body, json!({ "StartTime": 0, "EndTime": 0, "MetricDataQueries": [] }));
    let denied = r#"{"__type":"AccessDeniedException"}"#;
    let cases = [
        (200, "{}", true),
        (400, "", true),
        (400, r#"{"__type":"com.amazon#ValidationError"}"#, true),
        (400, denied, false),
        (403, "", false),
        (500, "", false),
    ];
    for (status, body, want) in cases {
        assert_eq!(cloudwatch().is_online(status, body), want, "{status} {body}");
    }
}
