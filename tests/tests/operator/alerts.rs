//! Chat messages that do not arrive at once, or at all: retried up to a limit, and then reported.

use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{CANARIES, SECRETS, World},
};

use crate::{
    metrics::value,
    stage::{
        GATEWAY_API, by_weight, canary_of, edit_analysis, initialized, measured, reach, reasons,
        release, told, with_canary,
    },
    telling::{ALERT_PROVIDERS, provider, reporting, secret, texts},
};

const SLACK: &str = "provider=\"slack\"";

fn delivered(world: &World, outcome: &str) -> Option<f64> {
    value(world, "tidegate_alerts_total", &[SLACK, &format!("outcome=\"{outcome}\"")])
}

fn ok() -> Reply {
    Reply::Status(200, "ok".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_service_that_comes_back_misses_nothing() {
    let lapses = [
        Reply::Status(503, String::new()),
        Reply::Refuse,
        Reply::Hang,
        Reply::Later(429, 7),
        Reply::Status(200, r#"{"ok": false, "error": "ratelimited"}"#.to_owned()),
    ];
    for lapse in lapses {
        let world = reporting("info", measured(by_weight())).await;
        for _ in 0..3 {
            world.network.hook_once("chat/hook", lapse.clone());
        }
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        world.advance_s(60).await;
        let calls = world.network.calls_to("chat");
        assert_eq!(calls.len(), 3 + 3, "{lapse:?}: {:#?}", texts(&calls));
        let mut heard = texts(&calls);
        heard.dedup();
        assert_eq!(heard.len(), 3, "{lapse:?}: in order, and no more: {heard:#?}");
        assert!(heard[1].contains("new revision") && heard[2].contains("Promoted"), "{heard:?}");
        assert_eq!(delivered(&world, "success"), Some(3.0), "{lapse:?}");
        assert_eq!(value(&world, "tidegate_alert_retries_total", &[SLACK]), Some(3.0));
        assert_eq!(told(&world, "AlertNotDelivered"), 0, "{:?}", world.events());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_never_delivered_is_given_up_and_told() {
    let world = reporting("info", measured(by_weight())).await;
    world.network.hook("chat/hook", Reply::Status(500, "<html>".to_owned()));
    world.network.forget_calls();
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    world.advance_s(600).await;
    let calls = world.network.calls_to("chat");
    assert_eq!(calls.len(), 8 * 2, "eight attempts for each of two messages: {:#?}", texts(&calls));
    assert_eq!(delivered(&world, "refused"), Some(2.0));
    let events = world.events();
    let lost: Vec<_> = events.iter().filter(|(it, _)| it == "AlertNotDelivered").collect();
    assert!(!lost.is_empty(), "{events:#?}");
    assert!(lost.iter().all(|(_, text)| text.contains("slack answered 500")), "{lost:?}");
    world.advance_s(3_600).await;
    assert_eq!(world.network.calls_to("chat").len(), 16, "and nothing afterwards");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_delivered_is_not_tried_again() {
    for (reply, words) in [
        (Reply::Status(404, String::new()), "slack answered 404"),
        (
            Reply::Status(200, r#"{"ok": false, "error": "channel_not_found"}"#.to_owned()),
            "channel_not_found",
        ),
    ] {
        let world = reporting("info", measured(by_weight())).await;
        world.network.forget_calls();
        world.network.hook("chat/hook", reply);
        release(&world, "web:2.0");
        world.advance_s(20).await;
        assert_eq!(texts(&world.network.calls_to("chat")).len(), 1, "{words}");
        let events = world.events();
        let lost = events.iter().find(|(reason, _)| reason == "AlertNotDelivered");
        assert!(lost.is_some_and(|(_, text)| text.contains(words)), "{words}: {events:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_away_delays_neither_the_rollout_nor_others() {
    let mut analysis = measured(by_weight());
    analysis["alerts"] = json!([
        { "name": "away", "providerRef": { "name": "away" } },
        { "name": "pager", "providerRef": { "name": "pager" } },
    ]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    for name in ["away", "pager"] {
        let spec = json!({ "type": "webhook", "address": format!("http://{name}/alerts") });
        world.create(ALERT_PROVIDERS, provider(name, spec));
    }
    world.network.hook("pager/alerts", ok());
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    assert!(world.until(90, |world| world.phase("web") == "Succeeded").await);
    assert_eq!(world.network.calls_to("pager").len(), 3);
    let away = world.network.calls_to("away");
    let key = |call: &tidegate_tests::network::Call| call.headers["idempotency-key"].clone();
    let first = key(away.first().expect("it was tried"));
    assert!(away.iter().skip(1).any(|call| key(call) == first), "a repetition can be told");
    let mut keys: Vec<_> = world.network.calls_to("pager").iter().map(key).collect();
    keys.dedup();
    assert_eq!(keys.len(), 3, "and each message has its own");
}

#[tokio::test(start_paused = true)]
async fn alerts_that_lead_to_one_place_are_one_message() {
    let mut analysis = measured(by_weight());
    analysis["alerts"] = json!([
        { "name": "all", "severity": "info", "providerRef": { "name": "chat" } },
        { "name": "bad", "severity": "error", "providerRef": { "name": "same" } },
    ]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    for name in ["chat", "same"] {
        let spec = json!({ "type": "slack", "channel": "a", "address": "http://chat/hook" });
        world.create(ALERT_PROVIDERS, provider(name, spec));
    }
    world.network.hook("chat/hook", ok());
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    world.advance_s(15).await;
    crate::stage::break_metrics(&world);
    reach(&world, "Failed").await;
    let texts = texts(&world.network.calls_to("chat"));
    assert_eq!(texts.len(), 3, "{texts:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_alert_without_a_provider_is_told() {
    let mut analysis = by_weight();
    analysis["alerts"] = json!([
        { "name": "ops", "providerRef": { "name": "gone" } },
        { "name": "locked", "providerRef": { "name": "locked" } },
    ]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    let locked = json!({ "type": "slack", "secretRef": { "name": "missing" } });
    world.create(ALERT_PROVIDERS, provider("locked", locked));
    world.start().await;
    reach(&world, "Initialized").await;
    let events = world.events();
    let lost: Vec<_> = events.iter().filter(|(it, _)| it == "AlertNotDelivered").collect();
    assert_eq!(lost.len(), 2, "{events:#?}");
    assert!(lost[0].1.contains("alert ops: AlertProvider default/gone does not exist"), "{lost:?}");
    assert!(lost[1].1.contains("Secret default/missing does not exist"), "{lost:?}");
    let labels = ["provider=\"none\"", "outcome=\"not_configured\""];
    assert_eq!(value(&world, "tidegate_alerts_total", &labels), Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn a_message_about_a_canary_outlives_it() {
    let world = reporting("info", by_weight()).await;
    world.network.forget_calls();
    world.network.hook("chat/hook", Reply::Refuse);
    release(&world, "web:2.0");
    world.advance_s(5).await;
    world.delete(CANARIES, "web");
    world.advance_s(5).await;
    assert!(world.get(CANARIES, "web").is_none());
    world.network.hook("chat/hook", ok());
    world.advance_s(60).await;
    let calls = world.network.calls_to("chat");
    assert!(matches!(calls.last().expect("tried").reply, Reply::Status(200, _)), "{calls:#?}");
}

#[tokio::test(start_paused = true)]
async fn no_address_or_token_gets_into_what_is_told() {
    let mut analysis = by_weight();
    analysis["alerts"] = json!([{ "name": "ops", "providerRef": { "name": "chat" } }]);
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    let data = json!({ "address": "http://chat/T0/B0/hush", "token": "xoxb-hush" });
    world.create(SECRETS, secret("chat", data));
    let spec = json!({ "type": "slack", "channel": "a", "secretRef": { "name": "chat" } });
    world.create(ALERT_PROVIDERS, provider("chat", spec));
    world.network.hook("chat/T0/B0/hush", Reply::Status(400, "hush".to_owned()));
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(told(&world, "AlertNotDelivered"), 1);
    let all = format!("{:?}{}", world.events(), world.status("web"));
    assert!(!all.contains("hush"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn doubtful_metrics_are_told_once_a_rollout() {
    let mut analysis = by_weight();
    analysis["metrics"] = json!([
        { "name": "request-success-rate", "thresholdRange": { "min": 99 } },
        { "name": "request-duration", "query": "mine", "thresholdRange": { "min": 9, "max": 1 } },
        { "name": "errors", "query": "errors" },
    ]);
    let world = initialized(GATEWAY_API, analysis).await;
    let doubts = |world: &World| -> Vec<String> {
        let doubts = world.events().into_iter().filter(|(reason, _)| reason == "MetricDoubtful");
        doubts.map(|(_, text)| text).collect()
    };
    let expected = [
        "Metric request-duration has a minimum above its maximum, so no value passes.",
        "Metric request-duration is built in and has a query too, so both are evaluated.",
        "Metric errors has no limit, which counts as a threshold of 0.",
    ];
    assert_eq!(doubts(&world), expected);
    release(&world, "web:2.0");
    world.advance_s(60).await;
    assert_eq!(doubts(&world).len(), 6, "{:?}", reasons(&world));
    let none: Value = json!({ "metrics": null });
    edit_analysis(&world, none);
    release(&world, "web:3.0");
    world.advance_s(60).await;
    assert_eq!(doubts(&world).len(), 6, "nothing left to doubt");
}

#[tokio::test(start_paused = true)]
async fn who_lost_the_lead_says_nothing_more() {
    let world = reporting("info", by_weight()).await;
    world.network.hook("chat/hook", Reply::Refuse);
    release(&world, "web:2.0");
    world.advance_s(3).await;
    let before = world.network.calls_to("chat").len();
    assert!(before > 1, "it was tried");
    world.leads.store(false, std::sync::atomic::Ordering::Relaxed);
    world.advance_s(120).await;
    assert_eq!(world.network.calls_to("chat").len(), before);
}

#[tokio::test(start_paused = true)]
async fn services_that_hang_hold_a_rollout_for_a_second() {
    let mut analysis = by_weight();
    let names = ["a", "b", "c", "d"];
    let alert = |name: &&str| json!({ "name": name, "providerRef": { "name": name } });
    analysis["alerts"] = names.iter().map(alert).collect();
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    for name in names {
        let spec = json!({ "type": "webhook", "address": format!("http://{name}/alerts") });
        world.create(ALERT_PROVIDERS, provider(name, spec));
        world.network.hook(&format!("{name}/alerts"), Reply::Hang);
    }
    world.start().await;
    assert!(world.until(3, |world| world.phase("web") == "Initialized").await);
}
