//! Objects read, and objects made and removed.

use serde_json::{Value, json};

use super::{
    super::testing::{Asked, answered, asked, done, to_cluster, value},
    *,
};
use crate::metrics::{Outcome, query_machine::STEPS_MAX};

fn keptn(query: &str) -> Asked {
    asked("keptn").query(query)
}

#[test]
fn keptn_reads_a_metric_that_is_there() {
    let machine = keptn("KeptnMetric/default/my-metric\n").machine().unwrap();
    let call = to_cluster(&machine, &[]);
    assert_eq!(call.method, Method::GET);
    assert_eq!(
        call.path,
        "/apis/metrics.keptn.sh/v1beta1/namespaces/default/keptnmetrics/my-metric"
    );
    assert_eq!(call.authorization, None);
    let malformed = Outcome::Failure(QueryError::Malformed);
    let cases = [
        ("a number", 200, r#"{"status":{"value":"3.0"}}"#, value(3.0)),
        ("NaN", 200, r#"{"status":{"value":"NaN"}}"#, Outcome::NoData),
        ("endless", 200, r#"{"status":{"value":"+Inf"}}"#, value(f64::INFINITY)),
        ("no number", 200, r#"{"status":{"value":"invalid"}}"#, malformed),
        ("not yet", 200, r#"{"status":{"value":""}}"#, malformed),
        ("no status", 200, "{}", malformed),
        ("not a text", 200, r#"{"status":{"value":3}}"#, malformed),
        (
            "not there",
            404,
            r#"{"kind":"Status"}"#,
            Outcome::Failure(QueryError::Refused { status: 404, reason: None }),
        ),
    ];
    for (reason, status, body, want) in cases {
        assert_eq!(done(&machine, &[answered(status, body)]), want, "{reason}");
    }
}

#[test]
fn keptn_refuses_texts_that_are_no_query() {
    let queries = [
        "invalid/default",
        "invalid/default/x",
        "keptnmetric/default",
        "",
        "keptnmetric//x",
        "analysis/default/../secrets",
        "keptnmetric/a%2fb/x",
        "keptnmetric/default/x?y",
    ];
    for query in queries {
        let refusal = keptn(query).refusal();
        assert!(matches!(refusal, ProviderError::Query { .. }), "{query}: {refusal}");
    }
}

#[test]
fn keptn_looks_into_its_own_namespace_where_it_is_confined() {
    let mut other = keptn("analysis/other/a");
    other.confined_to = Some("test".into());
    let want = ProviderError::Confined { provider: "keptn", namespace: "other".into() };
    assert_eq!(other.refusal(), want);
    let mut own = keptn("analysis/test/a");
    own.confined_to = Some("test".into());
    assert!(own.machine().is_ok());
}

fn made(call: &ClusterCall) -> (String, Value) {
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    (body["metadata"]["name"].as_str().unwrap().to_owned(), body)
}

#[test]
fn keptn_makes_an_analysis_watches_and_removes_it() {
    let machine = keptn("Analysis/default/a/5m/foo=bar;Env=Prod;odd;x=y=z").machine().unwrap();
    let create = to_cluster(&machine, &[]);
    assert_eq!(create.method, Method::POST);
    assert_eq!(create.path, "/apis/metrics.keptn.sh/v1beta1/namespaces/default/analyses");
    let (name, body) = made(&create);
    let (definition, suffix) = name.split_once('-').unwrap();
    assert_eq!(definition, "a");
    assert!(suffix.len() == 6 && suffix.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(body["spec"]["analysisDefinition"]["name"], "a");
    assert_eq!(body["spec"]["timeframe"]["recent"], "5m");
    assert_eq!(body["spec"]["args"], json!({ "foo": "bar", "Env": "Prod" }));

    let mut replies = vec![answered(201, "{}")];
    assert_eq!(machine.next(&replies), Step::Wait(LOOK_AFTER));
    replies.push(Reply::Waited);
    let look = to_cluster(&machine, &replies);
    assert_eq!(
        (look.method, look.path.as_str()),
        (Method::GET, &*format!("{}/{name}", create.path))
    );
    replies.push(answered(200, r#"{"status":{"state":"Progressing"}}"#));
    assert_eq!(machine.next(&replies), Step::Wait(LOOK_AFTER));
    replies.push(Reply::Waited);
    replies.push(answered(200, r#"{"status":{"state":"Completed","pass":true}}"#));
    let removal = to_cluster(&machine, &replies);
    assert_eq!((removal.method, removal.path), (Method::DELETE, look.path));
    replies.push(answered(500, ""));
    assert_eq!(done(&machine, &replies), value(1.0), "whether or not it could be removed");
}

/// Answers every step in turn; requests after the last answer are lost.
fn driven(query: &str, looks: impl Fn(usize) -> Reply) -> (Outcome, usize, bool) {
    let machine = keptn(query).machine().unwrap();
    let (mut replies, mut looked, mut removed) = (Vec::new(), 0, false);
    for step in 0..STEPS_MAX {
        let reply = match machine.next(&replies) {
            Step::Done(outcome) => return (outcome, step, removed),
            Step::Wait(_) => Reply::Waited,
            Step::Cluster(call) if call.method == Method::POST => answered(201, "{}"),
            Step::Cluster(call) if call.method == Method::DELETE => {
                removed = true;
                answered(200, "{}")
            }
            Step::Cluster(_) => {
                looked += 1;
                looks(looked)
            }
            Step::Send(_) => panic!("nothing goes to the outside"),
        };
        replies.push(reply);
    }
    panic!("there is no end to it");
}

#[test]
fn keptn_gives_up_after_ten_seconds_and_tidies_up() {
    let failed = answered(200, r#"{"status":{"state":"Completed","pass":false}}"#);
    let running = answered(200, r#"{"status":{"state":"Pending"}}"#);
    let unsaid = answered(200, r#"{"status":{"state":"Completed"}}"#);
    let failure = Outcome::Failure;
    let cases: [(_, &dyn Fn(usize) -> Reply, _); 6] = [
        ("it does not pass", &|_| failed.clone(), value(0.0)),
        (
            "in the last second",
            &|n| if n == 10 { failed.clone() } else { running.clone() },
            value(0.0),
        ),
        ("never", &|_| running.clone(), failure(QueryError::NotInTime)),
        ("it does not say", &|_| unsaid.clone(), failure(QueryError::Malformed)),
        ("nobody answers", &|_| Reply::Lost, failure(QueryError::Unreachable)),
        (
            "it is gone",
            &|_| answered(404, ""),
            failure(QueryError::Refused { status: 404, reason: None }),
        ),
    ];
    for (reason, looks, want) in cases {
        let (outcome, _, removed) = driven("analysis/default/a", looks);
        assert_eq!(outcome, want, "{reason}");
        assert!(removed, "{reason}");
    }
    let machine = keptn("analysis/default/a").machine().unwrap();
    let (_, body) = made(&to_cluster(&machine, &[]));
    assert_eq!(body["spec"]["timeframe"]["recent"], "1m");
    assert_eq!(body["spec"]["args"], json!({}));
}

#[test]
fn an_analysis_that_may_have_been_made_is_removed() {
    let machine = keptn("analysis/default/a").machine().unwrap();
    for maybe in [Reply::Lost, answered(504, "")] {
        assert_eq!(to_cluster(&machine, &[maybe]).method, Method::DELETE);
    }
    let refused = |status| Outcome::Failure(QueryError::Refused { status, reason: None });
    assert_eq!(done(&machine, &[answered(409, "")]), refused(409), "that one is another's");
    assert_eq!(done(&machine, &[answered(403, "")]), refused(403));
    let out_of_time = [answered(201, ""), Reply::Lost];
    assert_eq!(to_cluster(&machine, &out_of_time).method, Method::DELETE);
    let mut all = out_of_time.to_vec();
    all.push(Reply::Lost);
    assert_eq!(done(&machine, &all), Outcome::Failure(QueryError::Unreachable));
}

#[test]
fn two_that_ask_alike_make_two_objects() {
    let now: Timestamp = super::super::testing::NOW.parse().unwrap();
    let one = suffix("test/a/m", "q", now);
    assert_eq!(one, suffix("test/a/m", "q", now));
    assert_ne!(one, suffix("test/b/m", "q", now));
    assert_ne!(one, suffix("test/a/m", "q2", now));
    assert_ne!(one, suffix("test/a/m", "q", now + std::time::Duration::from_secs(1)));
}

#[test]
fn it_is_always_online() {
    assert!(matches!(done(&keptn("").probe().unwrap(), &[]), Outcome::Value(_)));
}
