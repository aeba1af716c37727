use serde_json::{Value, json};
use tidegate_engine::{Percent, Phase};

use super::*;
use crate::canary::{
    observe::testing::{Bench, SHOP},
    testing::{Called, Kit, Reply, in_analysis},
};

fn provider(name: &str, address: &str) -> Value {
    json!({
        "metadata": { "name": name }, "spec": { "type": "webhook", "address": address },
    })
}

fn spec(alerts: &[(&str, &str)]) -> Value {
    let alerts: Vec<Value> = alerts
        .iter()
        .map(|(severity, name)| {
            json!({ "name": format!("to {name}"), "severity": severity,
                "providerRef": { "name": name } })
        })
        .collect();
    json!({ "analysis": { "alerts": alerts } })
}

/// A canary with these alerts, and the providers `one`, `two` and `same`, of which the last is as the first.
fn kit(alerts: &[(&str, &str)]) -> Kit {
    let kit = Kit::in_analysis(&spec(alerts), &json!({}));
    kit.put(ALERT_PROVIDER, provider("one", "http://one.example/"));
    kit.put(ALERT_PROVIDER, provider("two", "http://two.example/"));
    kit.put(ALERT_PROVIDER, provider("same", "http://one.example/"));
    kit
}

fn outbox(kit: &Kit) -> Outbox {
    Outbox::start(&kit.cx, &Kit::key())
}

async fn alert(kit: &Kit, outbox: &Outbox, severity: Severity, about: Notice) -> Vec<Fact> {
    let observation = kit.observe();
    let memory = observation.observed.memory.clone();
    let alert = Alert { severity, about };
    let (attempts, mut lost) = send(&kit.canary(), &observation, outbox, &alert, &memory).await;
    attempts.wait(&*kit.cx.clock).await;
    lost.extend(outbox.take_lost());
    lost
}

async fn promoted(kit: &Kit, outbox: &Outbox) -> Vec<Fact> {
    alert(kit, outbox, Severity::Info, Notice::Promoted).await
}

fn hold(weight: i64) -> Notice {
    Notice::Held(Percent::clamped(weight))
}

fn text(call: &Called) -> String {
    call.json()["text"].as_str().unwrap_or_default().to_owned()
}

fn lost(facts: &[Fact]) -> Vec<(String, String)> {
    let lost = facts.iter().filter_map(|fact| match fact {
        Fact::AlertLost { to, why } => Some((to.clone(), why.clone())),
        _ => None,
    });
    lost.collect()
}

#[tokio::test(start_paused = true)]
async fn alerts_go_to_each_receiver_once_by_severity() {
    let (info, warn, error) = (Severity::Info, Severity::Warn, Severity::Error);
    let (one, two) = ("http://one.example/", "http://two.example/");
    let both = [("info", "one"), ("error", "two")];
    let cases = [
        ("information", &both[..], info, &[one][..]),
        ("a warning", &both[..], warn, &[one][..]),
        ("an error", &both[..], error, &[one, two][..]),
        ("the same receiver", &[("info", "one"), ("warn", "same")][..], error, &[one][..]),
        ("warnings only", &[("warn", "one")][..], info, &[][..]),
        ("warnings only, and one comes", &[("warn", "one")][..], warn, &[one][..]),
    ];
    for (reason, alerts, severity, want) in cases {
        let kit = kit(alerts);
        let outbox = outbox(&kit);
        assert_eq!(alert(&kit, &outbox, severity, Notice::Promoted).await, [], "{reason}");
        assert_eq!(kit.net.urls(), want, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_names_the_canary_and_shows_the_plan_of_a_new_revision() {
    let kit = kit(&[("info", "one")]);
    let outbox = outbox(&kit);
    alert(&kit, &outbox, Severity::Warn, Notice::NewRevision).await;
    alert(&kit, &outbox, Severity::Error, Notice::Promoted).await;
    alert(&kit, &outbox, Severity::Info, Notice::Initialized).await;
    let calls = kit.net.calls();
    let body = calls[0].json();
    assert_eq!(body["severity"], "warn");
    assert_eq!(body["canary"], "web");
    assert_eq!(body["namespace"], SHOP);
    assert_eq!(body["text"], "A new revision was detected; its rollout begins.");
    assert_eq!(body["fields"]["Target"], "Deployment/web.shop");
    assert_eq!(calls[1].json()["fields"], json!({}), "no plan");
    assert_eq!(calls[1].json()["severity"], "error");
    assert!(calls[2].json()["fields"]["Target"].is_string());
    let keys: Vec<_> = calls.iter().map(|it| it.header("idempotency-key")).collect();
    assert!(keys[0].is_some() && keys[0] != keys[1], "each message has an identity");
    assert_eq!(calls[0].sent.timeout, TIMEOUT);
    assert!(calls.iter().all(|it| !it.sent.trusted && it.sent.proxy.is_none()));
    assert!(kit.has_metric(r#"tidegate_alerts_total{provider="webhook",outcome="success"} 3"#));
}

#[tokio::test(start_paused = true)]
async fn the_notifier_of_the_administrator_is_for_canaries_without_alerts() {
    let proxy = Proxy::parse("http://proxy.example:3128").unwrap();
    let global = (Destination::teams("http://teams.example/"), Some(proxy));
    for (alerts, want) in
        [(&[][..], "http://teams.example/"), (&[("info", "one")][..], "http://one.example/")]
    {
        let mut bench = in_analysis("istio").spec(&spec(alerts));
        bench.options.notifier = Some(global.clone());
        let kit = Kit::of(bench);
        kit.put(ALERT_PROVIDER, provider("one", "http://one.example/"));
        promoted(&kit, &outbox(&kit)).await;
        assert_eq!(kit.net.urls(), [want]);
        let sent = &kit.net.calls()[0].sent;
        assert_eq!(sent.trusted, alerts.is_empty());
        assert_eq!(sent.proxy.is_some(), alerts.is_empty());
        let key = kit.net.calls()[0].header("idempotency-key").is_some();
        assert_eq!(key, !alerts.is_empty(), "only our own webhook knows the header");
    }
}

#[tokio::test(start_paused = true)]
async fn an_alert_without_a_usable_provider_is_lost() {
    let of = |name: &str| Kit::in_analysis(&spec(&[("info", name)]), &json!({}));
    let with = |object: Value| {
        let kit = of("chat");
        kit.put(ALERT_PROVIDER, object);
        kit
    };
    let meta = json!({ "name": "chat" });
    let secret = json!({ "type": "slack", "secretRef": { "name": "token" } });
    let cases = [
        ("missing", of("chat"), "AlertProvider shop/chat does not exist"),
        (
            "unreadable",
            with(json!({ "metadata": meta, "spec": { "type": "pigeon" } })),
            "AlertProvider shop/chat cannot be read",
        ),
        (
            "without its Secret",
            with(json!({ "metadata": meta, "spec": secret })),
            "Secret shop/token does not exist",
        ),
        ("without an address", with(json!({ "metadata": meta, "spec": { "type": "slack" } })), ""),
    ];
    for (reason, kit, want) in cases {
        let facts = promoted(&kit, &outbox(&kit)).await;
        assert_eq!(kit.net.calls().len(), 0, "{reason}");
        let lost = lost(&facts);
        if want.is_empty() {
            assert_eq!(lost, [], "{reason}: no error");
            continue;
        }
        assert_eq!(lost, [("alert to chat".to_owned(), want.to_owned())], "{reason}");
        assert!(kit.has_metric(r#"tidegate_alerts_lost_total{provider="none"} 1"#), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_and_tokens_come_from_the_secret_of_the_providers_namespace() {
    let kit = Kit::in_analysis(&spec(&[("info", "chat")]), &json!({}));
    kit.put(
        ALERT_PROVIDER,
        json!({ "metadata": { "name": "chat" }, "spec": {
            "type": "webhook", "secretRef": { "name": "token" },
        } }),
    );
    let data = json!({ "address": "aHR0cDovL3NlY3JldC5leGFtcGxlLw==", "token": "c2VzYW1l" });
    kit.api.put(
        tidegate_providers::workload::SECRET,
        json!({ "metadata": { "name": "token" }, "data": data }),
    );
    assert_eq!(promoted(&kit, &outbox(&kit)).await, []);
    assert_eq!(kit.net.urls(), ["http://secret.example/"]);
    assert_eq!(kit.net.calls()[0].header("authorization"), Some("Bearer sesame"));

    let elsewhere = json!({ "analysis": { "alerts": [{
        "name": "a", "providerRef": { "name": "one", "namespace": "ops" },
    }] } });
    let kit = Kit::in_analysis(&elsewhere, &json!({}));
    kit.put(ALERT_PROVIDER, provider("one", "http://one.example/"));
    let facts = promoted(&kit, &outbox(&kit)).await;
    assert!(lost(&facts)[0].1.contains("ops/one"), "{facts:?}");
    let own = json!({ "analysis": { "alerts": [{
        "name": "a", "providerRef": { "name": "one", "namespace": "" },
    }] } });
    let kit = Kit::in_analysis(&own, &json!({}));
    kit.put(ALERT_PROVIDER, provider("one", "http://one.example/"));
    assert_eq!(promoted(&kit, &outbox(&kit)).await, [], "empty is the canary's own");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_waits_a_second_at_most_for_the_first_attempt() {
    let kit = kit(&[("info", "one"), ("info", "two")]);
    let outbox = outbox(&kit);
    kit.net.answer("one", &[Reply::After(Duration::from_secs(4))]);
    let start = kit.cx.clock.monotonic();
    assert_eq!(promoted(&kit, &outbox).await, []);
    assert_eq!(kit.cx.clock.monotonic().saturating_sub(start), FIRST_MAX);
    assert_eq!(kit.net.calls().len(), 2, "both at the same time");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(kit.net.calls().len(), 2, "it went on in the background, and was delivered");
    assert_eq!(outbox.take_lost(), []);
    assert!(outbox.0.letters().is_empty());

    let start = kit.cx.clock.monotonic();
    kit.net.answer("one", &[Reply::status(200)]);
    alert(&kit, &outbox, Severity::Info, hold(1)).await;
    assert_eq!(kit.cx.clock.monotonic(), start, "nothing to wait for");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_again_with_longer_waits_and_then_lost() {
    let kit = kit(&[("info", "one")]);
    let outbox = outbox(&kit);
    kit.net.answer("one", &[Reply::status(500)]);
    let wakeup = kit.cx.cluster.cache.wakeup(&Kit::key());
    assert_eq!(promoted(&kit, &outbox).await, [], "not lost yet");
    tokio::time::sleep(Duration::from_mins(10)).await;
    let calls = kit.net.calls();
    let times: Vec<u64> = calls.iter().map(|it| (it.at - calls[0].at).as_secs()).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 61, 91]);
    assert!(calls.iter().all(|it| it.header("idempotency-key").is_some()));
    let keys: Vec<_> = calls.iter().map(|it| it.header("idempotency-key")).collect();
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "receivers can tell a repetition");
    let facts = outbox.take_lost();
    assert_eq!(lost(&facts), [("webhook".to_owned(), "webhook answered 500".to_owned())]);
    assert_eq!(outbox.take_lost(), [], "reported once");
    let woken = tokio::time::timeout(Duration::from_millis(1), wakeup.notified()).await;
    assert!(woken.is_ok(), "the canary is woken to record it");
    assert!(kit.has_metric(r#"tidegate_alerts_lost_total{provider="webhook"} 1"#));
    assert!(kit.has_metric(r#"tidegate_alert_retries_total{provider="webhook"} 7"#));
}

#[tokio::test(start_paused = true)]
async fn only_failures_that_may_pass_are_tried_again() {
    let yes = || Reply::status(200);
    let cases = [
        ("delivered", vec![yes()], 1, ""),
        ("a while later", vec![Reply::status(503), yes()], 2, ""),
        ("no connection", vec![Reply::Unreachable, yes()], 2, ""),
        ("too many requests", vec![Reply::status(429), yes()], 2, ""),
        ("no", vec![Reply::status(404), yes()], 1, "webhook answered 404"),
        ("not trusted", vec![Reply::Untrusted, yes()], 1, "no trusted TLS"),
    ];
    for (reason, replies, calls, why) in cases {
        let kit = kit(&[("info", "one")]);
        let outbox = outbox(&kit);
        kit.net.answer("one", &replies);
        let mut facts = promoted(&kit, &outbox).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        facts.extend(outbox.take_lost());
        assert_eq!(kit.net.calls().len(), calls, "{reason}");
        match lost(&facts).as_slice() {
            [] => assert_eq!(why, "", "{reason}"),
            [(_, said)] => assert!(!why.is_empty() && said.contains(why), "{reason}: {said}"),
            more => panic!("{reason}: {more:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn messages_to_one_receiver_stay_in_order_and_others_are_not_held_up() {
    let kit = kit(&[("info", "one"), ("error", "two")]);
    let outbox = outbox(&kit);
    kit.net.answer("one", &[Reply::status(500), Reply::status(500), Reply::status(200)]);
    promoted(&kit, &outbox).await;
    alert(&kit, &outbox, Severity::Error, hold(1)).await;
    alert(&kit, &outbox, Severity::Info, hold(2)).await;
    let early = kit.net.urls();
    assert_eq!(early, ["http://one.example/", "http://two.example/"], "behind the first");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let calls = kit.net.calls();
    let to_one = calls.iter().filter(|it| it.url.contains("one"));
    let said: Vec<String> = to_one.map(text).collect();
    assert_eq!(said.len(), 5);
    assert!(said[..3].iter().all(|it| it.starts_with("Promoted")), "{said:?}");
    assert!(said[3].starts_with("Held at 1%") && said[4].starts_with("Held at 2%"), "{said:?}");
    let retried = r#"tidegate_alert_retries_total{provider="webhook"} 2"#;
    assert!(kit.has_metric(retried), "a first attempt is no retry");
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_too_many_waiting_messages_is_lost() {
    let kit = kit(&[("info", "one")]);
    let outbox = outbox(&kit);
    kit.net.answer("one", &[Reply::After(Duration::from_secs(50))]);
    for number in 0..=WAITING_MAX {
        let number = i64::try_from(number).unwrap();
        alert(&kit, &outbox, Severity::Info, hold(number)).await;
    }
    let facts = outbox.take_lost();
    let facts = if facts.is_empty() { vec![] } else { facts };
    assert_eq!(outbox.0.letters().len(), WAITING_MAX);
    let first = outbox.0.letters().front().map(|it| it.letter.notice.text.clone()).unwrap();
    assert!(first.starts_with("Held at 1%"), "{first}");
    let _ = facts;
    assert!(kit.has_metric(r#"tidegate_alerts_total{provider="webhook",outcome="full"} 1"#));
}

#[tokio::test(start_paused = true)]
async fn another_leader_sends_what_waits() {
    let kit = kit(&[("info", "one")]);
    let outbox = outbox(&kit);
    kit.net.answer("one", &[Reply::status(500)]);
    promoted(&kit, &outbox).await;
    kit.leads.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(kit.net.calls().len(), 1);
    assert!(outbox.0.letters().is_empty());
    assert_eq!(outbox.take_lost(), [], "not lost: sent by another");
}

#[tokio::test(start_paused = true)]
async fn messages_go_on_when_the_canary_is_gone_and_then_the_sender_ends() {
    let kit = kit(&[("info", "one")]);
    let outbox = outbox(&kit);
    kit.net.answer("one", &[Reply::status(500), Reply::status(200)]);
    promoted(&kit, &outbox).await;
    let waiting = Arc::downgrade(&outbox.0);
    drop(outbox);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(kit.net.calls().len(), 2);
    assert!(waiting.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_identity_follows_the_position_and_the_text() {
    let kit = kit(&[("info", "one")]);
    let observation = kit.observe();
    let canary = kit.canary();
    let memory = observation.observed.memory.clone();
    let notice = |text: &str| notify::Notice {
        severity: notify::Severity::Info,
        canary: "web".to_owned(),
        namespace: SHOP.to_owned(),
        text: text.to_owned(),
        fields: Vec::new(),
    };
    let first = identity(&canary, &notice("a"), &memory, "sum");
    assert_eq!(first, identity(&canary, &notice("a"), &memory, "sum"));
    let others = [
        ("another text", identity(&canary, &notice("b"), &memory, "sum")),
        ("another checksum", identity(&canary, &notice("a"), &memory, "mus")),
        (
            "another weight",
            identity(
                &canary,
                &notice("a"),
                &Memory { weight: Percent::clamped(60), ..memory.clone() },
                "sum",
            ),
        ),
        (
            "another phase",
            identity(&canary, &notice("a"), &Memory { phase: Phase::Failed, ..memory }, "sum"),
        ),
    ];
    for (reason, other) in others {
        assert_ne!(other, first, "{reason}");
    }
}

#[test]
fn each_message_says_what_happened_and_what_a_person_can_do() {
    let bench = Bench::new("istio");
    let observation = bench.observe();
    let canary = &observation.inputs.canary;
    let why = || "quota".to_owned();
    let cases = [
        (Notice::Initialized, "primary of this Deployment is initialized"),
        (Notice::NewRevision, "A new revision was detected; its rollout begins."),
        (Notice::Awaiting(GateKind::ConfirmTrafficIncrease), "More traffic for the canary needs"),
        (Notice::Awaiting(GateKind::ConfirmPromotion), "Promotion needs approval"),
        (Notice::Awaiting(GateKind::ConfirmRollout), "A new revision needs approval"),
        (Notice::Awaiting(GateKind::ConfirmRollout), "every confirm-rollout hook"),
        (Notice::Held(Percent::clamped(7)), "Held at 7% by hand"),
        (Notice::RolledBackByHook, "A rollback hook asked to roll back"),
        (Notice::ThresholdReached(1), "1 check failed"),
        (Notice::ThresholdReached(2), "2 checks failed"),
        (Notice::DeadlineExceeded(why()), "No progress within the deadline"),
        (Notice::DeadlineExceeded(why()), "quota"),
        (Notice::PromotionFailed(why()), "The primary does not become ready with the new"),
        (Notice::Promoted, "Promoted: the primary runs the new revision."),
        (Notice::PromotedUnchecked, "Promoted without analysis"),
        (Notice::PrimaryStuck(why()), "the Deployment serves as before: quota"),
        (Notice::RollbackHeld(why()), "This revision should roll back"),
        (Notice::RevertGivenUp(why()), "check the Deployment and its Service: quota"),
    ];
    for (notice, want) in cases {
        let text = alert_text(&notice, canary);
        assert!(text.contains(want), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_had_nothing_to_do_still_repeats_what_fails() {
    let kit = kit(&[("info", "one")]);
    let outbox = outbox(&kit);
    kit.settle().await;
    kit.net.answer("one", &[Reply::status(500), Reply::status(200)]);
    promoted(&kit, &outbox).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(kit.net.calls().len(), 2);
}
