use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_api::metric_template::MetricProvider;
use tidegate_providers::metrics::Question;

use super::*;
use crate::canary::testing::{Kit, Reply as Answer};

fn kit() -> Kit {
    Kit::in_analysis(&json!({}), &json!({}))
}

/// A query of a provider with this Secret.
fn machine(kit: &Kit, provider: &Value, secret: &[(&str, &str)], query: &str) -> QueryMachine {
    let provider: MetricProvider = serde_json::from_value(provider.clone()).unwrap();
    let secret: BTreeMap<String, Vec<u8>> =
        secret.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    let environment = CloudEnvironment::from_environment(|_| None, |_| None);
    QueryMachine::of(&Question {
        provider: &provider,
        secret: (!secret.is_empty()).then_some(&secret),
        query,
        interval: "1m",
        now: kit.cx.clock.now(),
        asker: "shop/web/metric",
        confined_to: None,
        environment: &environment,
    })
    .unwrap()
}

fn prometheus(kit: &Kit) -> QueryMachine {
    let provider = json!({ "type": "prometheus", "address": "http://metrics.example" });
    machine(kit, &provider, &[], "up")
}

fn analysis(kit: &Kit) -> QueryMachine {
    machine(kit, &json!({ "type": "keptn" }), &[], "analysis/shop/slo")
}

fn cloudwatch(kit: &Kit) -> QueryMachine {
    let provider = json!({ "type": "cloudwatch", "region": "us-east-1" });
    let keys = [("aws_access_key_id", "AKID"), ("aws_secret_access_key", "s")];
    machine(kit, &provider, &keys, r#"[{"Id":"e1","Expression":"m1 / m2"}]"#)
}

const USER: &str =
    r#"{"type":"authorized_user","client_id":"i","client_secret":"s","refresh_token":"r"}"#;

fn google(kit: &Kit) -> QueryMachine {
    let secret = [("project", "p"), ("serviceAccountKey", USER)];
    machine(kit, &json!({ "type": "stackdriver" }), &secret, "fetch k8s_container")
}

fn value(outcome: &Result<Reading, QueryFailure>) -> Result<f64, String> {
    match outcome {
        Ok(reading) => Ok(reading.sample.get()),
        Err(failure) => Err(failure.text()),
    }
}

const ANALYSES: &str = "/apis/metrics.keptn.sh/v1beta1/namespaces/shop/analyses";

/// The lines of requests for analyses, without names.
fn analyses(kit: &Kit) -> Vec<String> {
    let requests = kit.api.requests();
    let ours = requests.iter().filter(|it| it.path.starts_with(ANALYSES));
    ours.map(|it| it.method.to_string()).collect()
}

/// Every analysis is looked up under this name.
fn analysis_name(kit: &Kit) -> String {
    let body = kit.api.bodies("POST analyses").pop().expect("it was made");
    body["metadata"]["name"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_instant_query_has_a_number_or_a_reason() {
    let cases = [
        ("a number", Answer::value("2.5"), Ok(2.5), "success"),
        ("no series", Answer::series(&[]), Err("no value"), ""),
        ("cut off", Answer::Cut(String::new()), Err(""), ""),
        ("not JSON", Answer::Status(200, "<html>".to_owned()), Err(""), ""),
        ("unreachable", Answer::Unreachable, Err("cannot connect"), "connect"),
        ("an error", Answer::status(503), Err("503"), ""),
    ];
    for (reason, reply, want, outcome) in cases {
        let kit = kit();
        kit.net.answer("query", &[reply]);
        let server = Server { address: "http://metrics.example".to_owned(), trusted: false };
        let found = value(&query(&kit.canary(), &server, "up").await);
        match (&found, want) {
            (Ok(found), Ok(want)) => assert!((found - want).abs() < f64::EPSILON, "{reason}"),
            (Err(_), Err(_)) => {}
            other => panic!("{reason}: {other:?}"),
        }
        if !outcome.is_empty() {
            let line = format!(
                r#"tidegate_metric_queries_total{{provider="prometheus",outcome="{outcome}"}} 1"#
            );
            assert!(kit.has_metric(&line), "{reason}");
        }
        let sent = &kit.net.calls()[0].sent;
        assert_eq!(sent.max_bytes, 1024 * 1024, "{reason}");
        assert_eq!(sent.timeout, kit.cx.options.query_timeout, "{reason}");
    }
    let kit = kit();
    let server = Server { address: "ftp://metrics".to_owned(), trusted: false };
    let refused = query(&kit.canary(), &server, "up").await;
    assert!(matches!(refused, Err(QueryFailure::Request(_))));
    assert_eq!(kit.net.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_permit_counts_against_no_query() {
    let kit = kit();
    kit.net.answer("query", &[Answer::value("2.5")]);
    kit.net.delay_permits(&[Duration::from_secs(90)]);
    let found = run(&kit.canary(), &prometheus(&kit)).await;
    assert_eq!(value(&found), Ok(2.5));
    assert_eq!(kit.net.calls()[0].sent.patience, Some(kit.cx.options.query_timeout));
    let none = "tidegate_metric_query_duration_seconds_sum{provider=\"prometheus\"} 0";
    assert!(kit.has_metric(none), "{}", "the series shows how long the server takes");
}

#[tokio::test(start_paused = true)]
async fn a_cut_answer_is_no_number_however_it_begins() {
    let kit = kit();
    let Answer::Status(_, body) = Answer::value("1") else { panic!("a body") };
    kit.net.answer("query", &[Answer::Cut(body)]);
    let server = Server { address: "http://metrics.example".to_owned(), trusted: false };
    let found = query(&kit.canary(), &server, "up").await;
    assert!(matches!(found, Err(QueryFailure::Answer(QueryError::Malformed))));
}

#[tokio::test(start_paused = true)]
async fn the_prometheus_of_a_flag_is_probed() {
    let timeout = Duration::from_secs(3);
    let cases = [
        ("it works", Answer::value("1"), Ok(())),
        ("another number", Answer::value("2"), Err("it gives an answer that cannot be read")),
        ("no answer", Answer::Unreachable, Err("cannot connect to `host`")),
        ("nothing", Answer::series(&[]), Err("")),
    ];
    for (reason, reply, want) in cases {
        let kit = kit();
        kit.net.answer("query", &[reply]);
        let found = probe_server(&*kit.cx.http, "http://metrics.example", timeout).await;
        match (&found, want) {
            (Ok(()), Ok(())) => {}
            (Err(why), Err(text)) => assert!(why.contains(text), "{reason}: {why}"),
            other => panic!("{reason}: {other:?}"),
        }
        let sent = &kit.net.calls()[0].sent;
        assert!(sent.trusted && sent.timeout == timeout && sent.max_bytes == 1024 * 1024);
    }
    let kit = kit();
    assert!(probe_server(&*kit.cx.http, "nowhere", timeout).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_once_and_all_get_the_answer() {
    let shared = Shared::default();
    let asked = std::sync::atomic::AtomicU32::new(0);
    let ask = || async {
        asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(1)).await;
        Err(QueryFailure::NoData)
    };
    let one = shared.once("a".to_owned(), ask());
    let two = shared.once("a".to_owned(), ask());
    let other = shared.once("b".to_owned(), ask());
    let (one, two, other) = tokio::join!(one, two, other);
    assert_eq!(asked.into_inner(), 2);
    for answer in [one, two, other] {
        assert!(matches!(answer, Err(QueryFailure::NoData)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_template_is_bounded_and_counted() {
    let kit = kit();
    kit.net.answer("query", &[Answer::value("4")]);
    let found = run(&kit.canary(), &prometheus(&kit)).await;
    assert_eq!(value(&found), Ok(4.0));
    let sent = &kit.net.calls()[0].sent;
    assert_eq!(sent.timeout, Duration::from_secs(10));
    assert_eq!(sent.patience, Some(Duration::from_secs(10)));
    assert_eq!(sent.max_bytes, BODY_BYTES_MAX);
    assert!(sent.verify_tls && !sent.trusted && !sent.direct);
    let queries = "tidegate_metric_queries_total";
    assert!(kit.has_metric(&format!(r#"{queries}{{provider="prometheus",outcome="success"}} 1"#)));

    kit.net.answer("query", &[Answer::Untrusted]);
    let found = run(&kit.canary(), &prometheus(&kit)).await;
    assert!(matches!(found, Err(QueryFailure::Unreachable(HttpError::Tls { .. }))));
    kit.net.answer("query", &[Answer::status(403)]);
    let found = run(&kit.canary(), &prometheus(&kit)).await;
    assert!(matches!(found, Err(QueryFailure::Answer(QueryError::Refused { status: 403, .. }))));
    kit.net.answer("query", &[Answer::series(&[])]);
    let found = run(&kit.canary(), &prometheus(&kit)).await;
    assert!(matches!(found, Err(QueryFailure::NoData | QueryFailure::Answer(QueryError::NoValue))));
    assert!(!kit.has_metric(&format!(r#"{queries}{{provider="prometheus",outcome="success"}} 2"#)));
}

#[tokio::test(start_paused = true)]
async fn a_busy_provider_is_asked_again_while_there_is_time() {
    let good =
        json!({ "MetricDataResults": [{ "Id": "e1", "Values": [3.5], "StatusCode": "Complete" }] });
    let good = || Answer::Status(200, good.to_string());
    let busy = || Answer::status(500);
    let cases = [
        ("at once", vec![good()], 1, true),
        ("the third time", vec![busy(), busy(), good()], 3, true),
        ("four times at most", vec![busy()], 4, false),
        ("refused", vec![Answer::status(403), good()], 1, false),
    ];
    for (reason, replies, calls, is_value) in cases {
        let kit = kit();
        kit.net.answer("amazonaws", &replies);
        let found = value(&run(&kit.canary(), &cloudwatch(&kit)).await);
        assert_eq!(found.is_ok(), is_value, "{reason}: {found:?}");
        let made = kit.net.calls();
        assert_eq!(made.len(), calls, "{reason}");
        assert!(made[0].header("authorization").is_some(), "{reason}: signed");
        if reason == "the third time" {
            let waits = [made[1].at - made[0].at, made[2].at - made[1].at];
            assert_eq!(waits, [200, 400].map(Duration::from_millis));
            assert!(made[2].sent.timeout < made[0].sent.timeout, "what is left");
        }
    }
    let mut bench = crate::canary::testing::in_analysis("istio");
    bench.options.query_timeout = Duration::from_millis(500);
    let kit = Kit::of(bench);
    kit.net.answer("amazonaws", &[busy()]);
    assert!(run(&kit.canary(), &cloudwatch(&kit)).await.is_err());
    assert_eq!(kit.net.calls().len(), 2, "the next wait is too long");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_kept_for_the_next_query_and_forgotten_once_refused() {
    let token = Answer::Status(200, r#"{"access_token":"t","expires_in":3600}"#.to_owned());
    let kit = kit();
    kit.net.answer("monitoring", &[Answer::status(500)]);
    kit.net.answer("oauth2", &[token]);
    let tokens = |kit: &Kit| kit.net.urls().iter().filter(|it| it.contains("oauth2")).count();
    let ask = async |kit: &Kit| run(&kit.canary(), &google(kit)).await.is_ok();
    assert!(!ask(&kit).await);
    assert_eq!(tokens(&kit), 1);
    ask(&kit).await;
    assert_eq!(tokens(&kit), 1, "it is kept, an error of the server says nothing about it");
    for status in [400, 401, 403] {
        let before = tokens(&kit);
        kit.net.answer("monitoring", &[Answer::status(status)]);
        ask(&kit).await;
        assert_eq!(tokens(&kit), before, "{status}: the kept one was used");
        kit.net.answer("monitoring", &[Answer::status(500)]);
        ask(&kit).await;
        assert_eq!(tokens(&kit), before + 1, "{status}: and forgotten");
    }
    tokio::time::sleep(Duration::from_secs(3_541)).await;
    let before = tokens(&kit);
    ask(&kit).await;
    assert_eq!(tokens(&kit), before + 1, "a minute before its end it is not used any more");
}

#[tokio::test(start_paused = true)]
async fn an_analysis_is_made_watched_and_deleted() {
    let kit = kit();
    let canary = kit.canary();
    let machine = analysis(&kit);
    let watching = run(&canary, &machine);
    let completes = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let path = format!("{ANALYSES}/{}", analysis_name(&kit));
        kit.api.put_at(&path, json!({ "status": { "state": "Completed", "pass": true } }));
    };
    kit.api.put_at(
        &format!("{ANALYSES}/{}", machine.leftover().unwrap().path.rsplit('/').next().unwrap()),
        json!({ "status": { "state": "Progressing" } }),
    );
    let (found, ()) = tokio::join!(watching, completes);
    assert_eq!(value(&found), Ok(1.0));
    assert_eq!(analyses(&kit), ["POST", "GET", "GET", "GET", "DELETE"]);
    assert!(kit.api.requests().iter().all(|it| it.authorization.is_none()));
    kit.cx.cleaned_up().await;
    assert_eq!(analyses(&kit).len(), 5, "deleted once");
}

#[tokio::test(start_paused = true)]
async fn an_analysis_that_never_ends_is_given_up_and_deleted() {
    let kit = kit();
    let machine = analysis(&kit);
    let name = machine.leftover().unwrap().path.rsplit('/').next().unwrap().to_owned();
    let running = json!({ "status": { "state": "Progressing" } });
    kit.api.put_at(&format!("{ANALYSES}/{name}"), running);
    let start = kit.cx.clock.monotonic();
    let found = run(&kit.canary(), &machine).await;
    assert!(matches!(found, Err(QueryFailure::Answer(QueryError::NotInTime))));
    assert_eq!(kit.cx.clock.monotonic().saturating_sub(start), Duration::from_secs(10));
    assert_eq!(analyses(&kit).last().map(String::as_str), Some("DELETE"));
}

#[tokio::test(start_paused = true)]
async fn an_analysis_of_a_check_that_is_given_up_is_deleted_in_the_background() {
    let kit = kit();
    let machine = analysis(&kit);
    let name = machine.leftover().unwrap().path.rsplit('/').next().unwrap().to_owned();
    let running = json!({ "status": { "state": "Progressing" } });
    kit.api.put_at(&format!("{ANALYSES}/{name}"), running);
    let canary = kit.canary();
    let given_up = tokio::time::timeout(Duration::from_millis(1500), run(&canary, &machine)).await;
    assert!(given_up.is_err());
    kit.cx.cleaned_up().await;
    assert_eq!(analyses(&kit), ["POST", "GET", "DELETE"]);
}

#[tokio::test(start_paused = true)]
async fn cluster_calls_with_a_login_go_without_our_own() {
    let secret = [("token", "theirs")];
    let kit = kit();
    let machine = machine(&kit, &json!({ "type": "externalmetrics" }), &secret, "shop/lag");
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/lag";
    kit.api.put_at(path, json!({ "items": [{ "value": "1500m" }] }));
    let found = run(&kit.canary(), &machine).await;
    assert_eq!(value(&found), Ok(1.5));
    let request = kit.api.requests().pop().unwrap();
    assert_eq!(request.authorization.as_deref(), Some("Bearer theirs"));
    assert_eq!(request.media, "application/json");

    let mut cluster = kit.cx.cluster.clone();
    cluster.anonymous = None;
    let cx = Context::new(
        cluster,
        crate::context::Options::default(),
        Arc::clone(&kit.cx.clock),
        Arc::clone(&kit.cx.http),
        Arc::clone(&kit.cx.telemetry),
    );
    let canary = CanaryRef { cx, ..kit.canary() };
    assert!(run(&canary, &machine).await.is_err(), "there is no client for it");
}
