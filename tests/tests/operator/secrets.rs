//! What is secret stays so: a marker in every place that may hold one, and a look at everything that
//! leaves the operator, with its log at the level that tells most.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};
use tidegate_operator::telemetry::Format;
use tidegate_sandbox::cluster::{Cluster as _, EVENTS, Resource};
use tidegate_tests::{
    network::{Metric, Reply},
    rollout::{CANARIES, DEPLOYMENTS, SECRETS, SERVICES, World},
};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    stage::{GATEWAY_API, by_weight, canary_of, hooked, reach, release, with_canary},
    telling::ALERT_PROVIDERS,
};

const MARKER: &str = "s3cr3t-m4rk3r";
const METRIC_TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };

/// Everything that is logged on this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// `web`, with the marker in every Secret, header, password and body it has.
fn marked() -> World {
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
    analysis["alerts"] = json!([{ "name": "ops", "providerRef": { "name": "chat" } }]);
    let world = with_canary(canary_of("web", GATEWAY_API, analysis));
    let secret = |name: &str, data: Value| {
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
                "stringData": data })
    };
    let address = format!("http://user:{MARKER}@chat/{MARKER}");
    world.create(SECRETS, secret("chat", json!({ "address": address, "token": MARKER })));
    world.create(SECRETS, secret("metrics", json!({ "username": "me", "password": MARKER })));
    world.create(SECRETS, secret("settings", json!({ "password": MARKER })));
    world.create(
        ALERT_PROVIDERS,
        json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
            "metadata": { "name": "chat" },
            "spec": { "type": "slack", "channel": "ops", "username": "web",
                      "secretRef": { "name": "chat" } },
        }),
    );
    world.create(
        METRIC_TEMPLATES,
        json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
            "metadata": { "name": "own" },
            "spec": { "query": "own_query", "provider": {
                "type": "prometheus",
                "address": format!("http://user:{MARKER}@prometheus:9090"),
                "headers": { "x-api-key": [MARKER] },
                "secretRef": { "name": "metrics" },
            } },
        }),
    );
    let volumes = json!([{ "name": "settings", "secret": { "secretName": "settings" } }]);
    let template = json!({ "spec": { "volumes": volumes } });
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "template": template } }));
    world.network.metric("own_query", Metric::Value(100.0));
    world.network.hook(&format!("chat/{MARKER}"), Reply::Status(200, "ok".to_owned()));
    world
}

/// Everything that leaves the operator, but for what was sent to whom the secret is for.
fn outputs(world: &World, log: &Log) -> Vec<(&'static str, String)> {
    let events = world.admin.list(EVENTS, Some("default"));
    let messages: Vec<_> =
        world.network.calls().iter().map(|call| call.body["attachments"].to_string()).collect();
    let told: Vec<_> = world
        .network
        .calls_to("hooks/event")
        .iter()
        .map(|call| call.body["metadata"]["eventMessage"].to_string())
        .collect();
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
    let (log, _guard) = Log::listen();
    let mut world = marked();
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert!(!world.network.calls_to("hooks/rollout").is_empty(), "hooks were asked");
    assert!(!world.network.calls_to(&format!("chat/{MARKER}")).is_empty(), "alerts were sent");
    let query = world.network.calls_to("prometheus").into_iter().find(|it| it.query == "own_query");
    let headers = format!("{:?}", query.expect("it was measured").headers);
    assert!(headers.contains("x-api-key"), "{headers}");
    assert!(log.text().contains("own_query"), "the log tells most");
    assert_silent(&world, &log, "a good release");
}

#[tokio::test(start_paused = true)]
async fn no_secret_leaves_the_operator_when_everything_fails() {
    // In every way an answer can be missing.
    for failure in [Reply::Refuse, Reply::Hang, Reply::Status(500, "no".to_owned())] {
        let (log, _guard) = Log::listen();
        let mut world = marked();
        world.start().await;
        reach(&world, "Initialized").await;
        release(&world, "web:2.0");
        assert!(world.until(60, |world| crate::stage::canary_share(world) == 20).await);
        world.network.metric("own_query", Metric::Reply(failure.clone()));
        for place in ["hooks/event", "hooks/post-rollout"] {
            world.network.hook(place, failure.clone());
        }
        world.network.hook(&format!("chat/{MARKER}"), failure.clone());
        reach(&world, "Failed").await;
        world.advance_s(30).await;
        assert_silent(&world, &log, &format!("{failure:?}"));
        world.delete(CANARIES, "web");
        world.advance_s(30).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_canary_is_woken_without_computing_anything_again() {
    let (log, _guard) = Log::listen();
    let world = crate::stage::initialized(GATEWAY_API, by_weight()).await;
    let count = |words: &str| log.text().matches(words).count();
    let counts = || (count("Fingerprinting the target"), count("Deriving the primary's template"));
    let (looks, before) = (count("Decided"), counts());
    for number in 0..20 {
        // Anything that is looked at wakes: here pods that go and come, there somebody's label.
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
