//! Requests as sent, answers as recorded.

use proptest::prelude::*;

use super::*;

fn asked(address: &str, query: &str) -> Request {
    request(address, query, &BTreeMap::new(), &Credentials::None).unwrap()
}

fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<String>> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect()
}

fn secret(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

#[test]
fn a_query_goes_to_the_api_below_the_address() {
    let cases = [
        ("no path", "http://prometheus:9090", "http://prometheus:9090/api/v1/query?query=up"),
        ("a slash", "http://prometheus:9090/", "http://prometheus:9090/api/v1/query?query=up"),
        ("a prefix", "https://mimir/prometheus/", "https://mimir/prometheus/api/v1/query?query=up"),
        ("a query is dropped", "http://p/?dedup=true", "http://p/api/v1/query?query=up"),
    ];
    for (reason, address, want) in cases {
        assert_eq!(asked(address, "up").url, want, "{reason}");
    }
}

#[test]
fn a_query_is_folded_and_encoded() {
    let request = asked("http://p", "\n  sum(\n    rate(x{a=\"b\"}[1m])\n  ) > 1 + 2 & 3\n");
    assert_eq!(request.method, Method::GET);
    assert_eq!(
        request.url.query().unwrap(),
        "query=sum%28%20rate%28x%7Ba%3D%22b%22%7D%5B1m%5D%29%20%29%20%3E%201%20%2B%202%20%26%203"
    );
    assert!(request.body.is_empty());
}

#[test]
fn a_query_too_long_for_a_url_is_posted() {
    let request = asked("http://p/x", &"a".repeat(60_000));
    assert_eq!(request.method, Method::POST);
    assert_eq!(request.url, "http://p/x/api/v1/query");
    assert_eq!(request.headers[CONTENT_TYPE], "application/x-www-form-urlencoded");
    assert_eq!(request.body.len(), 60_006);
}

#[test]
fn headers_and_credentials_are_sent_along() {
    let basic = Credentials::from_secret(&secret(&[("username", "me"), ("password", "p\n")]));
    let tenant =
        headers(&[("X-Scope-OrgID", "tenant1"), ("Host", "evil"), ("Content-Length", "0")]);
    let request = request("http://p", "up", &tenant, &basic.unwrap()).unwrap();
    assert_eq!(request.headers["x-scope-orgid"], "tenant1");
    assert_eq!(request.headers["authorization"], "Basic bWU6cA==");
    assert!(request.headers.values().all(HeaderValue::is_sensitive));
    assert_eq!(request.headers.len(), 2, "the connection is not for templates to describe");
}

#[test]
fn a_secret_beats_a_header_and_a_header_beats_the_url() {
    let own = headers(&[("Authorization", "Bearer header")]);
    let token = Credentials::from_secret(&secret(&[("token", "t"), ("username", "me")])).unwrap();
    let sent = request("http://a:b@p", "up", &own, &token).unwrap();
    let values: Vec<_> = sent.headers.get_all("authorization").iter().collect();
    assert_eq!(values, ["Bearer t"]);
    let sent = request("http://a:b@p", "up", &own, &Credentials::None).unwrap();
    let values: Vec<_> = sent.headers.get_all("authorization").iter().collect();
    assert_eq!(values, ["Bearer header"]);
    assert_eq!(asked("http://a:b@p", "up").headers["authorization"], "Basic YTpi");
}

#[test]
fn a_query_that_cannot_be_sent_is_refused_without_quoting_it() {
    let missing = |pairs| Credentials::from_secret(&secret(pairs));
    assert_eq!(missing(&[]), Err(RequestError::MissingKey("username")));
    assert_eq!(missing(&[("username", "me")]), Err(RequestError::MissingKey("password")));
    assert_eq!(missing(&[("token", "\n")]), Err(RequestError::MissingKey("username")));

    let none = BTreeMap::new();
    let line = Credentials::Bearer("hidden\r\nX-Evil: 1".into());
    let split = headers(&[("X-A", "hidden\r\nX-Evil: 1")]);
    let cases = [
        ("no address", request("", "up", &none, &Credentials::None)),
        ("a bad address", request("hidden", "up", &none, &Credentials::None)),
        ("a token of two lines", request("http://p", "up", &none, &line)),
        ("a header of two lines", request("http://p", "up", &split, &Credentials::None)),
        ("no name", request("http://p", "up", &headers(&[("", "x")]), &Credentials::None)),
    ];
    for (reason, request) in cases {
        let error = request.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hidden"), "{reason}: {error:?}");
    }
    assert_eq!(format!("{line:?}"), "***");
}

fn vector(result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#)
}

fn one(value: &str) -> String {
    vector(&format!(r#"{{"metric":{{}},"value":[1545905245.458,"{value}"]}}"#))
}

#[test]
fn one_number_is_read_from_an_answer() {
    let two = r#"{"metric":{"a":"1"},"value":[1,"1"]},{"metric":{"a":"2"},"value":[1,"2"]}"#;
    let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"3.5"]}}"#;
    let bare = r#"{"data":{"result":[{"value":[1,"7"]}]}}"#;
    let cases = [
        ("one series", one("100"), 100.0, 1),
        ("a fraction", one("0.0035"), 0.0035, 1),
        ("an exponent", one("1e-7"), 1e-7, 1),
        ("below zero", one("-4"), -4.0, 1),
        ("endless", one("+Inf"), f64::INFINITY, 1),
        ("endless the other way", one("-Inf"), f64::NEG_INFINITY, 1),
        ("of several the last", vector(two), 2.0, 2),
        ("a scalar", scalar.to_owned(), 3.5, 1),
        ("the least a server must say", bare.to_owned(), 7.0, 1),
    ];
    for (reason, body, value, series) in cases {
        let answer = parse(200, body.as_bytes()).unwrap();
        assert_eq!((answer.sample.get(), answer.series), (value, series), "{reason}");
    }
}

#[test]
fn anything_else_is_no_number() {
    use QueryError::{Malformed, ManyValues, NoValue};
    let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"1"],[2,"2"]]}]}}"#;
    let histogram = vector(r#"{"metric":{},"histogram":[1,{"count":"1","sum":"1"}]}"#);
    let text = r#"{"status":"success","data":{"resultType":"string","result":[1,"5"]}}"#;
    let failed = r#"{"status":"error","errorType":"execution","error":"marker"}"#;
    let cases = [
        ("no series", vector(""), NoValue),
        ("not a number", one("NaN"), NoValue),
        ("values over time", matrix.to_owned(), ManyValues),
        ("an empty series", vector("{}"), Malformed),
        ("no value in it", vector(r#"{"metric":{}}"#), Malformed),
        ("an empty value", vector(r#"{"metric":{},"value":[]}"#), Malformed),
        ("half a value", vector(r#"{"metric":{},"value":[1]}"#), Malformed),
        ("too much of a value", vector(r#"{"metric":{},"value":[1,"2","3"]}"#), Malformed),
        ("a number without quotes", vector(r#"{"metric":{},"value":[1,2]}"#), Malformed),
        ("words", one("many"), Malformed),
        ("nothing between quotes", one(""), Malformed),
        ("null", vector("null"), Malformed),
        ("a histogram", histogram, Malformed),
        ("a text", text.to_owned(), Malformed),
        ("a list", "[]".to_owned(), Malformed),
        ("a number", "1".to_owned(), Malformed),
        ("nothing", String::new(), Malformed),
        ("a page", "<html><body>marker</body></html>".to_owned(), Malformed),
        ("the beginning of an answer", one("100").split_off(3), Malformed),
        ("no result", r#"{"status":"success","data":{}}"#.to_owned(), Malformed),
        ("an empty object", "{}".to_owned(), Malformed),
        (
            "an error that looks fine",
            failed.to_owned(),
            QueryError::Refused { status: 200, reason: Some("execution") },
        ),
    ];
    for (reason, body, want) in cases {
        assert_eq!(parse(200, body.as_bytes()), Err(want), "{reason}");
    }
}

#[test]
fn of_a_refusal_only_status_and_known_words_are_told() {
    let bad = r#"{"status":"error","errorType":"bad_data","error":"marker parse error"}"#;
    let odd = r#"{"status":"error","errorType":"marker","error":"marker"}"#;
    let cases = [
        (400, bad, "the server answered 400 (bad_data)"),
        (422, odd, "the server answered 422"),
        (502, "<html>marker</html>", "the server answered 502"),
        (302, "", "the server answered 302"),
        (503, "marker", "the server answered 503"),
        (200, odd, "the server answered 200"),
        (200, "marker", "the server's answer could not be read"),
    ];
    for (status, body, want) in cases {
        assert_eq!(parse(status, body.as_bytes()).unwrap_err().to_string(), want);
    }
}

#[test]
fn a_probe_must_be_answered_with_one() {
    assert!(is_online(&parse(200, one("1").as_bytes())));
    assert!(!is_online(&parse(200, one("2").as_bytes())));
    assert!(!is_online(&parse(502, one("1").as_bytes())));
}

/// Answers with the members of a real one in wrong places.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(NaN|1|\\+Inf|vector|matrix|scalar|error|success|\\PC{0,3})".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let key = "(status|data|result|resultType|value|values|errorType)";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn parsing_never_panics_on_bytes(status: u16, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(status, &body);
    }

    #[test]
    fn parsing_never_panics_on_json(status in 199_u16..=300, body in json()) {
        if let Ok(answer) = parse(status, body.to_string().as_bytes()) {
            prop_assert!(!answer.sample.get().is_nan());
        }
    }

    #[test]
    fn parsing_never_panics_inside_an_answer(result in json()) {
        let body = serde_json::json!({ "status": "success", "data": { "resultType": "vector", "result": [result] } });
        let _ = parse(200, body.to_string().as_bytes());
    }
}
