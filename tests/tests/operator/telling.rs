//! Events, event hooks and chat messages: each fact once, in order, to the right receivers.

use kube_sandbox::cluster::Resource;
use serde_json::{Value, json};
use tidegate_providers::notify::Destination;
use tidegate_tests::{
    network::{Call, Reply},
    rollout::{CANARIES, SECRETS, World},
};

use crate::stage::{
    GATEWAY_API, at_share, break_metrics, by_weight, canary_of, edit_analysis, hooked, initialized,
    measured, reach, reasons, release, told, with_canary,
};

pub(crate) const ALERT_PROVIDERS: Resource =
    Resource { group: "flagger.app", plural: "alertproviders" };

#[expect(clippy::needless_pass_by_value, reason = "always made on the spot")]
pub(crate) fn provider(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
            "metadata": { "name": name }, "spec": spec })
}

#[expect(clippy::needless_pass_by_value, reason = "always made on the spot")]
pub(crate) fn secret(name: &str, data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "stringData": data })
}

/// `web` that reports to Slack, by a Secret, from this severity on.
pub(crate) async fn reporting(severity: &str, analysis: Value) -> World {
    let mut analysis = analysis;
    analysis["alerts"] = json!([
        { "name": "ops", "severity": severity, "providerRef": { "name": "chat" } },
    ]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.network.hook("chat/hook", Reply::Status(200, "ok".to_owned()));
    let data = json!({ "address": "http://chat/hook", "token": "xoxb-1" });
    world.create(SECRETS, secret("chat", data));
    let spec = json!({ "type": "slack", "channel": "releases", "username": "tidegate",
                       "secretRef": { "name": "chat" } });
    world.create(ALERT_PROVIDERS, provider("chat", spec));
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

pub(crate) fn texts(calls: &[Call]) -> Vec<String> {
    let text = |call: &Call| call.body["attachments"][0]["text"].as_str().map(str::to_owned);
    calls.iter().filter_map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn slack_hears_the_whole_story_once() {
    let world = reporting("info", measured(by_weight())).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    world.advance_s(60).await;
    let calls = world.network.calls_to("chat");
    let texts = texts(&calls);
    assert_eq!(texts.len(), 3, "{texts:#?}");
    for (text, words) in texts.iter().zip(["is initialized", "new revision", "Promoted"]) {
        assert!(text.contains(words), "{text}");
    }
    let first = calls.first().expect("there are three");
    assert_eq!(
        first.headers.get("authorization").and_then(|it| it.to_str().ok()),
        Some("Bearer xoxb-1")
    );
    assert_eq!(first.body["channel"], "releases");
    assert_eq!(first.body["username"], "tidegate");
    assert_eq!(first.body["attachments"][0]["author_name"], "web.default");
    assert_eq!(first.body["attachments"][0]["color"], "good");
    let fields = first.body["attachments"][0]["fields"].to_string();
    for words in ["Deployment/web.default", "600s", "Weight step: 20 max: 60"] {
        assert!(fields.contains(words), "{words}: {fields}");
    }
}

#[tokio::test(start_paused = true)]
async fn severities_are_filtered() {
    for (severity, expected) in [("", 3), ("info", 3), ("warn", 1), ("error", 1)] {
        let world = reporting(severity, measured(by_weight())).await;
        release(&world, "web:2.0");
        assert!(world.until(60, |world| crate::stage::canary_share(world) == 20).await);
        break_metrics(&world);
        reach(&world, "Failed").await;
        world.advance_s(60).await;
        let calls = world.network.calls_to("chat");
        assert_eq!(calls.len(), expected, "{severity:?}: {:#?}", texts(&calls));
        let last = calls.last().expect("at least the failure");
        assert_eq!(last.body["attachments"][0]["color"], "danger", "{severity:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_generic_webhook_gets_plain_json() {
    let mut analysis = by_weight();
    analysis["alerts"] = json!([{ "name": "ops", "providerRef": { "name": "pager" } }]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.options.cluster_name = "eu-1".to_owned();
    world.network.hook("pager/alerts", Reply::Status(202, String::new()));
    world.create(SECRETS, secret("pager", json!({ "address": "http://pager/alerts" })));
    let spec = json!({ "type": "webhook", "secretRef": { "name": "pager" } });
    world.create(ALERT_PROVIDERS, provider("pager", spec));
    world.start().await;
    reach(&world, "Initialized").await;
    let calls = world.network.calls_to("pager");
    assert_eq!(calls.len(), 1);
    let body = &calls.first().expect("one").body;
    assert_eq!((&body["severity"], &body["canary"]), (&json!("info"), &json!("web")));
    assert_eq!(body["fields"]["Cluster"], "eu-1", "{body:#}");
}

#[tokio::test(start_paused = true)]
async fn a_broken_provider_does_not_keep_others_from_hearing() {
    let mut analysis = by_weight();
    analysis["alerts"] = json!([
        { "name": "gone", "providerRef": { "name": "gone" } },
        { "name": "no-secret", "providerRef": { "name": "locked" } },
        { "name": "ops", "providerRef": { "name": "chat" } },
    ]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.network.hook("chat/hook", Reply::Status(200, "ok".to_owned()));
    let locked = json!({ "type": "slack", "secretRef": { "name": "missing" } });
    world.create(ALERT_PROVIDERS, provider("locked", locked));
    let spec = json!({ "type": "slack", "channel": "a", "address": "http://chat/hook" });
    world.create(ALERT_PROVIDERS, provider("chat", spec));
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(world.network.calls_to("chat").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_operators_own_notifier_serves_canaries_without_alerts() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    let notifier = Destination::slack("http://chat/global", "general", "flagger", None);
    world.options.notifier = Some((notifier, None));
    world.network.hook("chat/global", Reply::Status(200, "ok".to_owned()));
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(world.network.calls_to("chat/global").len(), 1);
    let own = json!([{ "name": "ops", "providerRef": { "name": "gone" } }]);
    edit_analysis(&world, json!({ "alerts": own }));
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(world.network.calls_to("chat/global").len(), 1, "its own alerts replace it");
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_is_told_once_and_a_muted_one_not_at_all() {
    for kind in ["confirm-rollout", "confirm-traffic-increase", "confirm-promotion"] {
        for muted in [false, true] {
            let world = reporting("warn", hooked(by_weight(), kind)).await;
            let hook = json!({ "name": kind, "type": kind, "url": format!("http://hooks/{kind}"),
                               "muteAlert": muted });
            edit_analysis(&world, json!({ "webhooks": [hook] }));
            world.network.hook(&format!("hooks/{kind}"), Reply::no());
            release(&world, "web:2.0");
            world.advance_s(180).await;
            let asked = world.network.calls_to(&format!("hooks/{kind}")).len();
            assert!(asked > 3, "{kind}: asked {asked} times");
            let alerts = texts(&world.network.calls_to("chat"));
            assert_eq!(alerts.len(), usize::from(!muted), "{kind}, muted {muted}: {alerts:?}");
            let waiting = reasons(&world).into_iter().filter(|it| it.starts_with("WaitingFor"));
            assert_eq!(waiting.count(), 1, "{kind}: {:?}", world.events());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_tell_a_good_rollout_in_order() {
    let mut analysis = measured(json!({ "interval": "10s", "threshold": 3, "stepWeight": 100 }));
    analysis["stepWeightPromotion"] = json!(50);
    for kind in [
        "confirm-rollout",
        "pre-rollout",
        "confirm-traffic-increase",
        "confirm-promotion",
        "post-rollout",
    ] {
        analysis = hooked(analysis, kind);
    }
    let world = initialized(GATEWAY_API, analysis).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    world.advance_s(60).await;
    let mut told = reasons(&world);
    told.retain(|reason| reason != "PrimaryNotReady" && reason != "CanaryNotReady");
    assert_eq!(
        told,
        [
            "MetricsAvailable",
            "Initialized",
            "RolloutApproved",
            "NewRevision",
            "AnalysisStarted",
            "PreRolloutPassed",
            "TrafficIncreaseApproved",
            "WeightAdvanced",
            "TrafficIncreaseApproved",
            "PromotionApproved",
            "PromotionStarted",
            "PrimaryWeightAdvanced",
            "PrimaryWeightAdvanced",
            "PostRolloutPassed",
            "Promoted",
        ]
    );
    let calls = |kind: &str| world.network.calls_to(&format!("hooks/{kind}"));
    let phases = |kind: &str| -> Vec<String> {
        calls(kind).iter().map(|call| crate::stage::text(&call.body["phase"])).collect()
    };
    assert_eq!(phases("confirm-rollout"), ["Initialized"]);
    assert_eq!(phases("pre-rollout"), ["Progressing"]);
    assert_eq!(phases("confirm-traffic-increase"), ["Progressing", "Progressing"]);
    assert_eq!(phases("confirm-promotion"), ["Progressing"]);
    assert_eq!(phases("post-rollout"), ["Succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn events_tell_a_bad_rollout_in_order() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    break_metrics(&world);
    reach(&world, "Failed").await;
    world.advance_s(600).await;
    let all = reasons(&world);
    let from = all.iter().position(|it| it == "WeightAdvanced").unwrap_or_default();
    let tail: Vec<_> = all.iter().skip(from).map(String::as_str).collect();
    assert_eq!(tail, ["WeightAdvanced", "CheckFailed", "ThresholdReached", "Failed"]);
}

#[tokio::test(start_paused = true)]
async fn event_hooks_hear_every_event_in_order() {
    let mut analysis = hooked(measured(by_weight()), "event");
    analysis["webhooks"][0]["metadata"] = json!({ "team": "shop", "eventType": "mine" });
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.options.event_webhook = Some("http://global/events".to_owned());
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let calls = world.network.calls_to("hooks/event");
    let heard: Vec<_> = calls
        .iter()
        .map(|call| crate::stage::text(&call.body["metadata"]["eventMessage"]))
        .collect();
    let told: Vec<_> = world.events().into_iter().map(|(_, message)| message).collect();
    assert_eq!(heard, told);
    for call in &calls {
        let metadata = &call.body["metadata"];
        assert_eq!(metadata["team"], "shop");
        assert_ne!(metadata["eventType"], "mine", "what we say about it is not replaced");
        let time = metadata["timestamp"].as_str().unwrap_or_default();
        assert!(time.parse::<i64>().is_ok_and(|ms| ms >= 1_767_225_600_000), "{time}");
        assert_eq!(
            (&call.body["name"], &call.body["namespace"]),
            (&json!("web"), &json!("default"))
        );
    }
    assert_eq!(world.network.calls_to("global").len(), 0, "its own hook replaces the global one");
}

#[tokio::test(start_paused = true)]
async fn the_global_event_hook_serves_canaries_without_one() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.options.event_webhook = Some("http://global/events".to_owned());
    world.network.hook("global/events", Reply::yes());
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(world.network.calls_to("global/events").len(), world.events().len());
}

#[tokio::test(start_paused = true)]
async fn a_slow_event_hook_does_not_delay_the_rollout() {
    let world = initialized(GATEWAY_API, hooked(by_weight(), "event")).await;
    let (slow, _hold) = Reply::yes().held();
    world.network.hook("hooks/event", slow);
    release(&world, "web:2.0");
    assert!(world.until(120, |world| world.phase("web") == "Succeeded").await);
}

#[tokio::test(start_paused = true)]
async fn that_a_canary_is_gone_is_told_although_nobody_looks_after_it_any_more() {
    let mut canary = canary_of("web", GATEWAY_API, hooked(by_weight(), "event"));
    canary["spec"]["revertOnDeletion"] = json!(true);
    let world = crate::stage::initialized_with(canary).await;
    let (slow, hold) = Reply::yes().held();
    world.network.hook_once("hooks/event", slow);
    release(&world, "web:2.0");
    world.advance_s(5).await;
    world.delete(CANARIES, "web");
    assert!(world.until(120, |world| world.get(CANARIES, "web").is_none()).await);
    world.advance_s(5).await;
    let heard = || {
        let calls = world.network.calls_to("hooks/event");
        calls
            .iter()
            .any(|call| call.body["metadata"]["eventMessage"].to_string().contains("is deleted"))
    };
    assert!(!heard(), "the hook is slow");
    hold.release();
    world.advance_s(5).await;
    assert!(heard(), "{:#?}", world.network.calls_to("hooks/event"));
}

#[tokio::test(start_paused = true)]
async fn events_that_a_hook_is_too_slow_for_are_counted() {
    let world = initialized(GATEWAY_API, hooked(by_weight(), "event")).await;
    let (slow, hold) = Reply::yes().held();
    world.network.hook("hooks/event", slow);
    for number in 2..16 {
        release(&world, &format!("web:{number}.0"));
        reach(&world, "Progressing").await;
        reach(&world, "Succeeded").await;
    }
    let told = world.events().len();
    hold.release();
    world.advance_s(5).await;
    let page = crate::metrics::page(&world);
    let dropped = page.lines().find_map(|line| {
        line.strip_prefix(r#"tidegate_hooks_total{type="event",outcome="full"} "#)?.parse().ok()
    });
    let heard = world.network.calls_to("hooks/event").len();
    assert!(dropped.is_some_and(|dropped: usize| dropped > 0), "{page}");
    assert_eq!(heard + dropped.unwrap_or_default(), told, "each was sent or counted");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_look_at_certificates_is_told_so() {
    let mut analysis = hooked(by_weight(), "rollout");
    analysis["webhooks"][0]["disableTLS"] = json!(true);
    analysis["metrics"] = json!([
        { "name": "own", "templateRef": { "name": "own" }, "thresholdRange": { "min": 99 } },
    ]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.create(
        Resource { group: "flagger.app", plural: "metrictemplates" },
        json!({ "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
                "metadata": { "name": "own" },
                "spec": { "query": "own_query", "provider": {
                    "type": "prometheus", "address": "http://prometheus:9090",
                    "insecureSkipVerify": true,
                } } }),
    );
    world.network.metric("own_query", tidegate_tests::network::Metric::Value(100.0));
    world.start().await;
    reach(&world, "Initialized").await;
    let said = || {
        let events = world.events().into_iter();
        events.filter(|(reason, _)| reason == "CertificateNotVerified").collect::<Vec<_>>()
    };
    let texts = format!("{:?}", said());
    assert!(texts.contains("disableTLS") && texts.contains("insecureSkipVerify"), "{texts}");
    assert_eq!(said().len(), 2, "each once");
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(said().len(), 4, "and once in each rollout: {:?}", said());
}

#[tokio::test(start_paused = true)]
async fn a_rollback_hook_is_heard_at_rest_and_on_the_way() {
    let analysis = hooked(hooked(by_weight(), "rollback"), "confirm-rollout");
    for gate in [Reply::no(), Reply::yes()] {
        let world = initialized(GATEWAY_API, analysis.clone()).await;
        world.network.hook("hooks/confirm-rollout", gate);
        release(&world, "web:2.0");
        world.advance_s(30).await;
        assert!(["Waiting", "Progressing"].contains(&&*world.phase("web")));
        world.network.hook("hooks/rollback", Reply::yes());
        reach(&world, "Failed").await;
        assert_eq!(told(&world, "RolledBackByHook"), 1);
        world.advance_s(120).await;
        assert_eq!(world.phase("web"), "Failed", "and it is not tried again");
    }
}

#[tokio::test(start_paused = true)]
async fn events_belong_to_the_canary() {
    let world = initialized(GATEWAY_API, by_weight()).await;
    let uid = crate::stage::object(&world, CANARIES, "web")["metadata"]["uid"].clone();
    let events = kube_sandbox::cluster::Cluster::list(
        &world.admin,
        kube_sandbox::cluster::EVENTS,
        Some("default"),
    );
    let ours: Vec<_> =
        events.iter().filter(|event| event["source"]["component"] == "tidegate").collect();
    assert!(!ours.is_empty());
    for event in ours {
        assert_eq!(event["involvedObject"]["uid"], uid);
        assert_eq!(event["involvedObject"]["kind"], "Canary");
        assert_ne!(event["reason"], "Synced");
    }
}
