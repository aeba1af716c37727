//! Secrets stay secret: a marker in every place that may hold one, and a search in everything that leaves
//! the operator, with its log at the highest level.

use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, Once, PoisonError},
    time::Duration,
};

use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, EVENTS, Resource},
    server::User,
};
use serde_json::{Value, json};
use tidegate_operator::telemetry::Format;
use tidegate_providers::notify::Destination;
use tidegate_tests::{
    network::{Call, Reply},
    rollout::{CANARIES, DEPLOYMENTS, SECRETS, SERVICES, World, deployment},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tracing_subscriber::{filter::dynamic_filter_fn, prelude::*};

use crate::{
    signing::SecretFile,
    signing_http::operator,
    stage::{GATEWAY_API, KUBERNETES, by_weight, canary_of, hooked, reach, release, with_canary},
    telling::ALERT_PROVIDERS,
};

const MARKER: &str = "s3cr3t-m4rk3r";
const METRIC_TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };

/// Everything that is logged on this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

/// Ends the capture of the log.
pub(crate) struct Listening;

/// Writes to the log of its thread.
struct Heard;

thread_local! {
    static HEARD: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl Log {
    /// One subscriber for all threads: with one for each, the interest of a callsite would be cached for
    /// all of them as it was for the first thread.
    pub(crate) fn listen() -> (Self, Listening) {
        static FOR_ALL: Once = Once::new();
        FOR_ALL.call_once(|| {
            let told = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Heard);
            let told =
                told.with_filter(dynamic_filter_fn(|_, _| HEARD.with_borrow(Option::is_some)));
            tracing_subscriber::registry().with(told).init();
        });
        let log = Self::default();
        HEARD.set(Some(log.clone()));
        (log, Listening)
    }

    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        HEARD.set(None);
    }
}

impl io::Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        HEARD.with_borrow(|heard| {
            if let Some(log) = heard {
                log.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A metric provider with the marker in every field that may be secret.
struct Provider {
    kind: &'static str,
    spec: Value,
    secret: Value,
    query: &'static str,
    /// An answer that is a number, with the marker beside it.
    good: String,
}

/// An answer of 100 that contains the marker.
fn vector() -> String {
    let series = json!([{ "metric": { "pod": MARKER }, "value": [0, "100"] }]);
    json!({ "status": "success", "data": { "resultType": "vector", "result": series } }).to_string()
}

fn at(host: &str) -> Value {
    json!({ "address": format!("https://user:{MARKER}@{host}/{MARKER}") })
}

/// All eleven except Keptn, which has no secret and no address.
fn providers() -> Vec<Provider> {
    of_clouds().into_iter().chain(of_servers()).collect()
}

fn row(
    kind: &'static str,
    spec: Value,
    secret: Value,
    query: &'static str,
    good: String,
) -> Provider {
    Provider { kind, spec, secret, query, good }
}

fn of_clouds() -> Vec<Provider> {
    let account =
        include_str!("../../../crates/providers/src/metrics/google/testdata/account.json");
    let mut account: Value = serde_json::from_str(account).expect("a key of Google's");
    account["private_key_id"] = json!(MARKER);
    account["client_email"] = json!(format!("{MARKER}@example.com"));
    let points = json!([{ "values": [{ "doubleValue": 100 }] }]);
    let google = json!({
        "access_token": MARKER, "expires_in": 3600,
        "timeSeriesData": [{ "labelValues": [MARKER], "pointData": points }],
    });
    let keys = json!({ "aws_access_key_id": MARKER, "aws_secret_access_key": MARKER,
                       "aws_session_token": MARKER });
    let amazon = json!({ "MetricDataResults": [{ "Label": MARKER, "Values": [100] }] });
    let region = json!({ "region": "eu-west-1" });
    let project = json!({ "project": "shop", "serviceAccountKey": account.to_string() });
    vec![
        row("stackdriver", json!({}), project, "own_query", google.to_string()),
        row("cloudwatch", region, keys, r#"[{"Id":"own_query"}]"#, amazon.to_string()),
    ]
}

fn of_servers() -> Vec<Provider> {
    let csv = format!(
        "#datatype,string,long,double,string\r\n#group,false,false,false,true\r\n#default,_result,,,\r\n,result,table,_value,host\r\n,,0,100,{MARKER}\r\n"
    );
    let data = json!({ "data": [{ "tsId": MARKER, "value": 100 }] });
    let stream = format!(
        "event: data\ndata: {data}\n\nevent: control-message\ndata: {{\"event\":\"END_OF_CHANNEL\"}}\n\n"
    );
    let mut prometheus = at("prom.test");
    prometheus["headers"] = json!({ "x-api-key": [MARKER] });
    let token = || json!({ "token": MARKER });
    let in_influx = json!({ "token": MARKER, "org": MARKER });
    let of_datadog = json!({ "datadog_api_key": MARKER, "datadog_application_key": MARKER });
    let datadog = json!({ "series": [{ "scope": MARKER, "pointlist": [[1, 100]] }] }).to_string();
    let external = json!({ "items": [{ "metricName": MARKER, "value": "100" }] }).to_string();
    let of_relic = json!({ "newrelic_account_id": "1", "newrelic_query_key": MARKER });
    let relic = json!({ "results": [{ "result": 100 }], "metadata": MARKER }).to_string();
    let login = json!({ "username": "me", "password": MARKER });
    let graphite = json!([{ "target": MARKER, "datapoints": [[100, 1]] }]).to_string();
    let trace = json!({ "result": [{ "metricId": MARKER, "data": [{ "values": [100] }] }] });
    let of_trace = json!({ "dynatrace_token": MARKER });
    let of_splunk = json!({ "sf_token_key": MARKER });
    vec![
        row("prometheus", prometheus, token(), "own_query", vector()),
        row("influxdb", at("influx.test"), in_influx, "own_query", csv),
        row("datadog", at("datadog.test"), of_datadog, "own_query", datadog),
        row("externalmetrics", at("external.test"), token(), "default/own_query", external),
        row("newrelic", at("newrelic.test"), of_relic, "own_query", relic),
        row("graphite", at("graphite.test"), login, "target=own_query", graphite),
        row("dynatrace", at("dynatrace.test"), of_trace, "own_query", trace.to_string()),
        row("splunk", at("api.splunk.test"), of_splunk, "own_query", stream),
    ]
}

const CHATS: [&str; 6] = ["slack", "msteams", "discord", "rocket", "gchat", "webhook"];

fn secret(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "stringData": data })
}

/// `web`, with the marker in every Secret, header, password, answer and body it has, measured by this
/// provider and reporting to all chats.
fn marked(provider: &Provider, file: &SecretFile) -> World {
    let mut analysis = by_weight();
    for kind in ["rollout", "pre-rollout", "post-rollout", "event"] {
        analysis = hooked(analysis, kind);
    }
    for hook in analysis["webhooks"].as_array_mut().expect("it has four") {
        let kind = hook["type"].as_str().unwrap_or_default().to_owned();
        hook["url"] = json!(format!("http://user:{MARKER}@hooks/{kind}?token={MARKER}"));
        hook["metadata"] = json!({ "password": MARKER });
    }
    analysis["metrics"] = json!([
        { "name": "own", "templateRef": { "name": "own" }, "thresholdRange": { "min": 99 } },
    ]);
    let alerts = CHATS.map(|chat| json!({ "name": chat, "providerRef": { "name": chat } }));
    analysis["alerts"] = json!(alerts);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.options.hook_secret_file = Some(file.0.clone());
    // The observer of these tests knows only the metrics of Prometheus.
    world.collects_violations = true;
    for chat in CHATS {
        let address = format!("http://user:{MARKER}@chat.{chat}/{MARKER}");
        world.create(SECRETS, secret(chat, &json!({ "address": address, "token": MARKER })));
        world.create(
            ALERT_PROVIDERS,
            json!({
                "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
                "metadata": { "name": chat },
                "spec": { "type": chat, "channel": "ops", "username": "web",
                          "secretRef": { "name": chat } },
            }),
        );
    }
    world.create(SECRETS, secret("metrics", &provider.secret));
    world.create(SECRETS, secret("settings", &json!({ "password": MARKER })));
    let mut spec = provider.spec.clone();
    spec["type"] = json!(provider.kind);
    spec["secretRef"] = json!({ "name": "metrics" });
    world.create(
        METRIC_TEMPLATES,
        json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
            "metadata": { "name": "own" },
            "spec": { "query": provider.query, "provider": spec },
        }),
    );
    let volumes = json!([{ "name": "settings", "secret": { "secretName": "settings" } }]);
    let template = json!({ "spec": { "volumes": volumes } });
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "template": template } }));
    world.network.otherwise(Reply::Status(200, provider.good.clone()));
    world
}

/// Everything that leaves the operator, except for requests to the owner of the secret.
fn outputs(world: &World, log: &Log) -> Vec<(&'static str, String)> {
    let events = world.admin.list(EVENTS, Some("default"));
    // The address of a message is secret, its text is not.
    let messages: Vec<_> = world
        .network
        .calls_to("chat.")
        .iter()
        .map(|call| String::from_utf8_lossy(&call.sent).into_owned())
        .collect();
    let mut told = world.network.calls_to("hooks/event");
    told.extend(world.network.calls_to("global"));
    let told: Vec<_> =
        told.iter().map(|call| call.body["metadata"]["eventMessage"].to_string()).collect();
    let telemetry = world.telemetry.borrow();
    let metrics = telemetry.as_ref().map(|it| it.render(Format::Prometheus)).unwrap_or_default();
    vec![
        ("log", log.text()),
        ("events", Value::from(events).to_string()),
        ("status", world.status("web").to_string()),
        ("chat", messages.join("\n")),
        ("event hooks", told.join("\n")),
        ("metrics", metrics),
    ]
}

fn assert_silent(world: &World, log: &Log, when: &str) {
    for (place, text) in outputs(world, log) {
        assert!(text.len() > 20, "{when}: nothing in the {place}, so nothing is shown: {text}");
        let shown = text.find(MARKER).map(|at| {
            let from = text[..at].char_indices().rev().nth(300).map_or(0, |(at, _)| at);
            &text[from..at + MARKER.len()]
        });
        assert_eq!(shown, None, "{when}: the {place} tell it");
    }
}

#[tokio::test(start_paused = true)]
async fn no_secret_leaves_the_operator() {
    for provider in providers() {
        let kind = provider.kind;
        let (log, _guard) = Log::listen();
        let file = SecretFile::new(&format!("marked-{kind}"), MARKER);
        let mut world = marked(&provider, &file);
        world.start().await;
        reach(&world, "Initialized").await;
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        let hooks = world.network.calls_to("hooks/rollout");
        let signed = |call: &Call| call.headers.contains_key("x-tidegate-signature");
        assert!(!hooks.is_empty() && hooks.iter().all(signed), "{kind}: hooks were asked");
        for chat in CHATS {
            let told = world.network.calls_to(&format!("chat.{chat}/{MARKER}"));
            assert!(!told.is_empty(), "{kind}: {chat} was told");
        }
        assert!(log.text().contains("own_query"), "{kind}: the log tells most");
        let events = world.events().into_iter();
        let warnings = events.filter(|(reason, _)| reason == "SecretNotLabelled");
        let warnings: Vec<_> = warnings.map(|(_, text)| text).collect();
        let [warning] = warnings.as_slice() else { panic!("{kind}: {warnings:?}") };
        assert!(warning.starts_with("Secret default/metrics is sent to "), "{warning}");
        assert!(warning.contains(&format!(" ({kind}) without the label")), "{warning}");
        assert_silent(&world, &log, &format!("{kind}: a good release"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_without_its_owners_consent_goes_to_no_metric_server() {
    for provider in providers() {
        let kind = provider.kind;
        let file = SecretFile::new(&format!("unlabelled-{kind}"), MARKER);
        let mut world = marked(&provider, &file);
        world.options.require_metric_secret_label = true;
        world.start().await;
        reach(&world, "Initialized").await;
        release(&world, "web:2.0");
        reach(&world, "Failed").await;
        let is_metric =
            |call: &Call| !call.to.starts_with("hooks/") && !call.to.starts_with("chat.");
        let asked: Vec<_> = world.network.calls().into_iter().filter(is_metric).collect();
        assert!(
            asked.is_empty(),
            "{kind}: {:?}",
            asked.iter().map(|it| &it.to).collect::<Vec<_>>()
        );
        let events = format!("{:?}", world.events());
        let command =
            "kubectl label secret metrics --namespace default tidegate.dev/for-metrics=true";
        assert!(events.contains(command), "{kind}: {events}");
        let label = json!({ "metadata": { "labels": { "tidegate.dev/for-metrics": "true" } } });
        world.patch(SECRETS, "metrics", &label);
        release(&world, "web:3.0");
        reach(&world, "Succeeded").await;
        assert!(world.network.calls().iter().any(is_metric), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_secret_leaves_the_operator_when_everything_fails() {
    // Every way in which an answer can be missing or invalid.
    let garbage = json!({ "error": MARKER, "message": MARKER, "status": MARKER, "ok": false });
    let failures = [
        Reply::Refuse,
        Reply::Hang,
        Reply::Status(500, MARKER.to_owned()),
        Reply::Status(403, garbage.to_string()),
        Reply::Status(200, garbage.to_string()),
    ];
    // One provider with all of them, and each with one that answers: the parsing differs by provider.
    let all = failures.iter().map(|failure| (0, failure));
    let others = (1..providers().len()).map(|place| (place, &failures[2 + place % 3]));
    for (place, failure) in all.chain(others) {
        let provider = &providers()[place];
        let when = format!("{}: {failure:?}", provider.kind);
        let (log, _guard) = Log::listen();
        let file = SecretFile::new(&format!("failing-{}", provider.kind), MARKER);
        let mut world = marked(provider, &file);
        world.start().await;
        reach(&world, "Initialized").await;
        release(&world, "web:2.0");
        assert!(world.until(60, |world| crate::stage::canary_share(world) == 20).await, "{when}");
        world.network.otherwise(failure.clone());
        // The text of a hook is published; its author has to keep secrets out of it.
        let of_hooks = match failure {
            Reply::Status(status, _) => Reply::Status(*status, "no".to_owned()),
            other => other.clone(),
        };
        for place in ["hooks/event", "hooks/post-rollout"] {
            world.network.hook(place, of_hooks.clone());
        }
        reach(&world, "Failed").await;
        world.advance_s(30).await;
        assert_silent(&world, &log, &when);
        world.delete(CANARIES, "web");
        world.advance_s(30).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_flags_say_of_chats_and_hooks_stays_with_the_operator() {
    let address = format!("http://user:{MARKER}@chat.global/{MARKER}");
    for failure in [None, Some(Reply::Status(500, MARKER.to_owned())), Some(Reply::Refuse)] {
        let (log, _guard) = Log::listen();
        let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
        world.network.otherwise(failure.clone().unwrap_or(Reply::Status(200, MARKER.to_owned())));
        world.network.hook(&format!("global/{MARKER}"), Reply::no());
        let slack = Destination::slack(&address, "ops", "tidegate", Some(MARKER));
        let proxy = format!("http://user:{MARKER}@proxy:3128").parse().expect("a proxy");
        world.options.notifier = Some((slack, Some(proxy)));
        world.options.event_webhook = Some(format!("http://user:{MARKER}@global/{MARKER}"));
        world.start().await;
        reach(&world, "Initialized").await;
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        world.advance_s(300).await;
        assert!(!world.network.calls_to("chat.global").is_empty(), "it was told");
        assert_silent(&world, &log, &format!("{failure:?}"));
    }
}

/// Answers every request with `answer`, and the marker in a header.
async fn loopback(answer: fn(&str) -> String) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
                    let body = answer(&head);
                    let text = format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Echo: {MARKER}\r\n\r\n{body}",
                        body.len()
                    );
                    if stream.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// `web`, with the marker in everything that is sent to this server.
fn traced(server: SocketAddr) -> Vec<(Resource, Value)> {
    let at = |path: &str| format!("http://user:{MARKER}@{server}/{path}/{MARKER}?token={MARKER}");
    let mut analysis = json!({ "interval": "1s", "threshold": 3, "iterations": 1 });
    analysis["webhooks"] = json!([
        { "name": "load", "type": "rollout", "url": at("load"), "metadata": { "a": MARKER } },
        { "name": "event", "type": "event", "url": at("event") },
    ]);
    analysis["metrics"] = json!([
        { "name": "own", "templateRef": { "name": "own" }, "thresholdRange": { "min": 1 } },
    ]);
    analysis["alerts"] = json!([{ "name": "ops", "providerRef": { "name": "chat" } }]);
    let chat = json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
        "metadata": { "name": "chat" },
        "spec": { "type": "webhook", "secretRef": { "name": "chat" } },
    });
    let template = json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
        "metadata": { "name": "own" },
        "spec": { "query": "own_query", "provider": {
            "type": "prometheus", "address": format!("http://user:{MARKER}@{server}"),
            "headers": { "x-api-key": [MARKER] }, "secretRef": { "name": "metrics" },
        } },
    });
    vec![
        (SECRETS, secret("chat", &json!({ "address": at("chat"), "token": MARKER }))),
        (SECRETS, secret("metrics", &json!({ "token": MARKER }))),
        (ALERT_PROVIDERS, chat),
        (METRIC_TEMPLATES, template),
        (DEPLOYMENTS, deployment("web", "web:1.0", 1)),
        (CANARIES, canary_of("web", KUBERNETES, analysis)),
    ]
}

/// The real client and the libraries below it, with all their traces.
#[tokio::test]
async fn no_secret_is_in_what_the_real_client_traces() {
    let (log, _guard) = Log::listen();
    let file = SecretFile::new("traced", MARKER);
    let server = loopback(|head| {
        if head.contains("/api/v1/query") {
            vector().replace("100", "1")
        } else {
            MARKER.to_owned()
        }
    })
    .await;
    let sandbox = Sandbox::new(Settings::default().nodes(1));
    sandbox.load(tidegate_api::crds()).expect("our definitions");
    sandbox.run();
    let admin = sandbox.local(User::admin());
    for (resource, object) in traced(server) {
        admin.create(resource, "default", object).expect("it is accepted");
    }
    let operator = operator(&sandbox, Some(&file));
    let reached = async |phase: &str| {
        let is_there = async {
            let status = || admin.get(CANARIES, "default", "web").unwrap_or_default();
            while status()["status"]["phase"] != phase {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_mins(1), is_there).await;
        assert!(reached.is_ok(), "never {phase}: {:#?}", admin.get(CANARIES, "default", "web"));
    };
    reached("Initialized").await;
    let template = deployment("web", "web:2.0", 1)["spec"]["template"].clone();
    let patch = json!({ "spec": { "template": template } });
    admin.patch(DEPLOYMENTS, "default", "web", "", &patch).expect("a new image");
    reached("Succeeded").await;
    operator.abort();
    let text = log.text();
    assert!(text.contains("own_query"), "it was measured, and the log tells most");
    assert!(text.contains("hyper"), "and what the libraries below say is heard");
    let shown = text.lines().find(|line| line.contains(MARKER));
    assert_eq!(shown, None);
}

#[tokio::test(start_paused = true)]
async fn an_idle_canary_is_woken_without_computing_anything_again() {
    let (log, _guard) = Log::listen();
    let world = crate::stage::initialized(GATEWAY_API, by_weight()).await;
    let count = |words: &str| log.text().matches(words).count();
    let counts = || (count("Fingerprinting the target"), count("Deriving the primary's template"));
    let (looks, before) = (count("Decided"), counts());
    for number in 0..20 {
        // Every watched object triggers a reconcile: here pods that come and go, there a label of another
        // client.
        let label = json!({ "metadata": { "labels": { "note": number.to_string() } } });
        world.patch(SERVICES, "web", &label);
        crate::stage::kill_pods(&world, "web-primary");
        world.settle().await;
    }
    assert!(count("Decided") >= looks + 20, "it was woken");
    assert_eq!(counts(), before, "and nothing was made anew");
    release(&world, "web:2.0");
    world.settle().await;
    assert!(counts().0 > before.0 && counts().1 > before.1, "until the target changed");
}

#[tokio::test(start_paused = true)]
async fn queries_and_values_are_in_the_log_in_full() {
    let (log, _listening) = Log::listen();
    let world = crate::stage::at_share(GATEWAY_API, crate::stage::measured(by_weight()), 20).await;
    world.network.metric("", tidegate_tests::network::Metric::Value(99.123_456_789));
    world.advance_s(12).await;
    let text = log.text();
    let line = |words: &str| text.lines().any(|it| it.contains("DEBUG") && it.contains(words));
    assert!(line("value=99.123456789"), "{text}");
    assert!(line("query=\"") || line("query="), "{text}");
}
