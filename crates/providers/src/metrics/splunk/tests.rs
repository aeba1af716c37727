//! Programs out, events in.

use super::super::{
    Outcome, ProviderError, QueryError,
    testing::{Asked, asked, value},
};

fn splunk() -> Asked {
    asked("splunk").at("https://api.us1.signalfx.com").secret(&[("sf_token_key", "t")])
}

#[test]
fn splunk_has_two_hosts_and_either_names_both() {
    let cases = [
        ("https://api.us1.signalfx.com", "stream.us1.signalfx.com", "api.us1.signalfx.com"),
        ("https://stream.us1.signalfx.com/", "stream.us1.signalfx.com", "api.us1.signalfx.com"),
        ("wss://stream.us1.signalfx.com", "stream.us1.signalfx.com", "api.us1.signalfx.com"),
        ("https://rapid.example", "rapid.example", "rapid.example"),
    ];
    for (address, stream, api) in cases {
        let url = splunk().at(address).call().request.url;
        assert_eq!((url.scheme_str(), url.host()), (Some("https"), Some(stream)), "{address}");
        assert_eq!(url.path(), "/v2/signalflow/execute", "{address}");
        let url = splunk().at(address).probe_call().request.url;
        assert_eq!(url.host(), Some(api), "{address}");
        assert_eq!(url.path_and_query().unwrap(), "/v2/metric?limit=1", "{address}");
    }
}

#[test]
fn a_program_goes_out_with_a_token_and_a_window() {
    let call = splunk().query("data('x').mean().publish()").call();
    assert_eq!(
        call.request.url.query(),
        Some("start=1772365800000&stop=1772366400000&maxDelay=0&immediate=true")
    );
    assert_eq!(call.request.body, b"data('x').mean().publish()");
    assert_eq!(call.request.headers["content-type"], "text/plain");
    assert_eq!(call.request.headers["x-sf-token"], "t");
    assert!(call.request.headers["x-sf-token"].is_sensitive());
    let missing = ProviderError::MissingKey { provider: "splunk", key: "sf_token_key" };
    assert_eq!(asked("splunk").at("https://api.us1.signalfx.com").refusal(), missing);
    let nowhere = asked("splunk").secret(&[("sf_token_key", "t")]).refusal();
    assert_eq!(nowhere.to_string(), "splunk: the address is empty");
}

const START: &str =
    "event: control-message\ndata: {\ndata:   \"event\" : \"STREAM_START\"\ndata: }\n\n";
const END: &str = "event: control-message\ndata: {\"event\":\"END_OF_CHANNEL\"}\n\n";

fn data(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<_> =
        pairs.iter().map(|(id, value)| format!(r#"{{"tsId":"{id}","value":{value}}}"#)).collect();
    format!(
        "event: data\ndata: {{\"data\":[{}],\ndata: \"logicalTimestampMs\":1}}\n\n",
        pairs.join(",")
    )
}

fn stream(events: &[String]) -> String {
    format!("{START}{}{END}", events.concat())
}

#[test]
fn splunk_reads_the_last_value_of_one_series() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let refused = |status| Outcome::Failure(QueryError::Refused { status, reason: None });
    let metadata = "event: metadata\ndata: {\"tsId\":\"A\",\"properties\":{}}\n\n".to_owned();
    let message = ": kept alive\n\nevent: message\ndata: {\"message\":{}}\n\n".to_owned();
    let error = "event: error\ndata: {\"error\":400,\"message\":\"marker\"}\n\n".to_owned();
    let abort = "event: control-message\ndata: {\"event\":\"CHANNEL_ABORT\"}\n\n".to_owned();
    let three = data(&[("A", "1"), ("B", "2"), ("C", "3")]);
    let one = data(&[("A", "1")]);
    let cases = [
        ("one", 200, stream(std::slice::from_ref(&one)), value(1.0)),
        (
            "the last",
            200,
            stream(&[metadata, one.clone(), message, data(&[("A", "2.5")])]),
            value(2.5),
        ),
        (
            "lines as Windows ends them",
            200,
            stream(std::slice::from_ref(&one)).replace('\n', "\r\n"),
            value(1.0),
        ),
        ("no data", 200, stream(&[]), Outcome::NoData),
        ("an empty one", 200, stream(&[data(&[])]), Outcome::NoData),
        ("nothing is not zero", 200, stream(&[data(&[("A", "null")])]), Outcome::NoData),
        ("NaN", 200, stream(&[data(&[("A", "\"NaN\"")])]), Outcome::NoData),
        ("three series", 200, stream(&[three]), Outcome::Failure(QueryError::ManyValues)),
        (
            "two, one after the other",
            200,
            stream(&[one.clone(), data(&[("B", "1")])]),
            Outcome::Failure(QueryError::ManyValues),
        ),
        ("an error", 200, stream(&[one.clone(), error]), refused(200)),
        ("given up", 200, stream(&[one.clone(), abort]), refused(200)),
        ("no end", 200, format!("{START}{one}"), malformed),
        ("cut", 200, format!("{START}{one}{}", &END[..END.len() - 1]), malformed),
        ("no JSON", 200, stream(&["event: data\ndata: x\n\n".to_owned()]), malformed),
        (
            "no series",
            200,
            stream(&["event: data\ndata: {\"data\":[{\"value\":1}]}\n\n".to_owned()]),
            malformed,
        ),
        ("nothing", 200, String::new(), malformed),
        ("not allowed", 401, stream(&[one]), refused(401)),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(splunk().outcome(status, &body), want, "{reason}");
    }
}

#[test]
fn it_is_online_if_it_lists_metrics() {
    assert_eq!(splunk().probe_call().request.headers["x-sf-token"], "t");
    assert!(splunk().is_online(200, "{}"));
    assert!(!splunk().is_online(401, "{}"));
}
