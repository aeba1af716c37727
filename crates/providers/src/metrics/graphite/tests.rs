//! Forms out, series in.

use super::super::{
    Outcome, ProviderError, QueryError,
    testing::{Asked, asked, of_several, value},
};

fn graphite() -> Asked {
    asked("graphite").at("http://graphite:8080/g").query("target=test")
}

#[test]
fn a_query_is_taken_apart_as_a_form_and_put_together_in_order() {
    let cases = [
        (
            "plain",
            "target=sumSeries(a.*)&from=-2min",
            "format=json&from=-2min&target=sumSeries%28a.%2A%29",
        ),
        ("another format", "target=a&format=csv", "format=json&target=a"),
        (
            "lines",
            "target=sum(\n  a,\n  b\n)\n&from=-1min\n",
            "format=json&from=-1min&target=sum%28%20a%2C%20b%20%29",
        ),
        ("encoded already", "target=a%2Bb+c", "format=json&target=a%2Bb%20c"),
        ("two targets", "target=b&target=a", "format=json&target=b&target=a"),
        ("what a form cannot hold", "target=a&x;y=1&z=%zz&w=1#until=2", "format=json&target=a&w=1"),
    ];
    for (reason, query, want) in cases {
        let call = graphite().query(query).call();
        assert_eq!(call.request.url.path(), "/g/render", "{reason}");
        assert_eq!(call.request.url.query(), Some(want), "{reason}");
    }
    let none = graphite().query("from=-2min").refusal();
    assert_eq!(none, ProviderError::Query { provider: "graphite", why: "it has no target" });
}

#[test]
fn with_a_secret_both_name_and_password_are_needed() {
    let call = graphite().secret(&[("username", "me"), ("password", "p")]).call();
    assert_eq!(call.request.headers["authorization"], "Basic bWU6cA==");
    let missing = |key| ProviderError::MissingKey { provider: "graphite", key };
    assert_eq!(graphite().secret(&[]).refusal(), missing("username"));
    assert_eq!(graphite().secret(&[("username", "me")]).refusal(), missing("password"));
    assert!(graphite().call().request.headers.is_empty());
}

#[test]
fn graphite_needs_an_address_that_is_one() {
    let error = asked("graphite").at(":::").query("target=a").refusal();
    assert_eq!(error.to_string(), "graphite: the address is not a valid URL");
    let error = asked("graphite").query("target=a").refusal();
    assert_eq!(error.to_string(), "graphite: the address is empty");
}

fn series(points: &str) -> String {
    format!(r#"[{{"target":"a","datapoints":{points}}}]"#)
}

#[test]
fn graphite_reads_the_last_point() {
    let malformed = Outcome::Failure(QueryError::Malformed);
    let refused = |status| Outcome::Failure(QueryError::Refused { status, reason: None });
    let four = series("[[10,1],[75,2],[25,3],[100,4]]");
    let two = r#"[{"target":"a","datapoints":[[1,1]]},{"target":"b","datapoints":[[2,1]]}]"#;
    let empty_last =
        r#"[{"target":"a","datapoints":[[1,1]]},{"target":"b","datapoints":[[null,1]]}]"#;
    let cases = [
        ("four", 200, four.as_str(), value(100.0)),
        ("none at the end", 200, &series("[[10,1],[null,2]]"), value(10.0)),
        ("nothing is not zero", 200, &series("[[null,1]]"), Outcome::NoData),
        ("NaN", 200, &series(r#"[["NaN",1]]"#), Outcome::NoData),
        ("endless", 200, &series(r#"[["+Inf","1"]]"#), value(f64::INFINITY)),
        ("texts", 200, &series(r#"[["1.5","1"]]"#), value(1.5)),
        ("the last of two series, and it is told", 200, two, of_several(2.0, 2)),
        ("the last that has one", 200, empty_last, of_several(1.0, 2)),
        ("no series", 200, "[]", Outcome::NoData),
        ("no points", 200, &series("[]"), Outcome::NoData),
        ("half a point", 200, &series("[[1]]"), malformed),
        ("no number", 200, &series(r#"[["x",1]]"#), malformed),
        ("no time", 200, &series(r#"[[1,"noon"]]"#), malformed),
        ("no points at all", 200, r#"[{"target":"a"}]"#, malformed),
        ("an object", 200, "{}", malformed),
        ("cut", 200, "[", malformed),
        ("not understood", 400, "marker", refused(400)),
        ("ill", 500, four.as_str(), refused(500)),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(graphite().outcome(status, body), want, "{reason}");
    }
}

#[test]
fn graphite_is_online_if_it_renders() {
    let graphite = asked("graphite").at("http://graphite:8080");
    let call = graphite.probe_call();
    assert_eq!(call.request.url, "http://graphite:8080/render?format=json&target=test");
    for (status, body, want) in
        [(200, "[]", true), (200, "[", false), (400, "", false), (500, "", false)]
    {
        assert_eq!(graphite.is_online(status, body), want, "{status} {body}");
    }
}
