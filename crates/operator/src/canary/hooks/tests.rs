use serde_json::{Value, json};

use super::*;
use crate::canary::{
    observe::testing::merge,
    testing::{Kit, Reply, in_analysis},
};

/// A hook of this type at `http://<name>.example/`.
fn hook(name: &str, kind: &str, more: &Value) -> Value {
    let mut hook =
        json!({ "name": name, "type": kind, "url": format!("http://{name}.example/hook") });
    merge(&mut hook, more);
    hook
}

fn kit(hooks: &[Value]) -> Kit {
    Kit::in_analysis(&json!({ "analysis": { "webhooks": hooks } }), &json!({}))
}

async fn ask_gate(kit: &Kit, kind: GateKind) -> Gate {
    gate(&kit.canary(), &kit.observe(), kind).await
}

fn hosts(kit: &Kit) -> Vec<String> {
    let host = |url: String| {
        url.trim_start_matches("http://").split('.').next().unwrap_or_default().to_owned()
    };
    kit.net.urls().into_iter().map(host).collect()
}

#[tokio::test(start_paused = true)]
async fn hooks_of_a_kind_are_called_in_order_until_one_says_no() {
    let cases = [
        (GateKind::ConfirmRollout, "confirm-rollout", "Progressing"),
        (GateKind::PreRollout, "pre-rollout", "Progressing"),
        (GateKind::ConfirmTrafficIncrease, "confirm-traffic-increase", "Progressing"),
        (GateKind::ConfirmPromotion, "confirm-promotion", "Progressing"),
    ];
    for (kind, name, phase) in cases {
        let kit = kit(&[
            hook("other", "event", &json!({})),
            hook("one", name, &json!({ "metadata": { "a": "b" } })),
            hook("two", name, &json!({ "muteAlert": true })),
            hook("three", name, &json!({})),
        ]);
        kit.net.answer("two", &[Reply::Status(403, "not on a Friday".to_owned())]);
        let gate = ask_gate(&kit, kind).await;
        assert_eq!(hosts(&kit), ["one", "two"], "{name}");
        assert_eq!(gate.passed, ["one"], "{name}");
        let refusal = Refusal {
            hook: "two".to_owned(),
            why: "answered 403: not on a Friday".to_owned(),
            muted: true,
        };
        assert_eq!(gate.refused, [refusal], "{name}");
        let body = kit.net.calls()[0].json();
        assert_eq!(body["phase"], phase, "{name}");
        assert_eq!(body["metadata"], json!({ "a": "b" }), "{name}");
        assert_eq!(body["name"], "web", "{name}");
        let metric = format!(r#"tidegate_hooks_total{{type="{name}",outcome="success"}} 1"#);
        assert!(kit.has_metric(&metric), "{name}");
        assert!(kit.net.calls().iter().all(|it| !it.has_permit), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_rollout_all_hooks_are_called() {
    let name = "post-rollout";
    let kit = kit(&[hook("one", name, &json!({})), hook("two", name, &json!({}))]);
    kit.net.answer("one", &[Reply::status(500)]);
    let gate = ask_gate(&kit, GateKind::PostRollout).await;
    assert_eq!(hosts(&kit), ["one", "two"]);
    assert_eq!(gate.passed, ["two"]);
    assert!(!gate.refused[0].muted);
    assert_eq!(gate.refused[0].why, "answered 500");
}

#[tokio::test(start_paused = true)]
async fn the_first_rollback_hook_that_says_yes_rolls_back() {
    let three = ["one", "two", "three"].map(|name| hook(name, "rollback", &json!({})));
    let kit = kit(&three);
    kit.net.answer("one", &[Reply::status(404)]);
    let answer = rollback(&kit.canary(), &kit.observe()).await;
    assert_eq!(answer.as_deref(), Some("two"));
    assert_eq!(hosts(&kit), ["one", "two"]);
    kit.net.answer("example", &[Reply::status(404)]);
    assert_eq!(rollback(&kit.canary(), &kit.observe()).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_first_rollout_hook_that_fails_is_named() {
    let three = ["one", "two", "three"].map(|name| hook(name, "rollout", &json!({})));
    let kit = kit(&three);
    assert_eq!(rollout(&kit.canary(), &kit.observe()).await, Ok(()));
    assert_eq!(hosts(&kit), ["one", "two", "three"]);
    kit.net.answer("two", &[Reply::Untrusted]);
    let failed = rollout(&kit.canary(), &kit.observe()).await.unwrap_err();
    assert!(failed.starts_with("external check two failed, no trusted TLS"), "{failed}");
    assert_eq!(kit.net.calls().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_repeated_only_where_that_may_help() {
    let busy = || Reply::status(503);
    let yes = || Reply::status(200);
    let cases = [
        ("no retries asked for", 0, vec![busy(), yes()], 1, false),
        ("the second goes well", 2, vec![busy(), yes()], 2, true),
        ("the third goes well", 2, vec![busy(), Reply::Unreachable, yes()], 3, true),
        ("one too many", 2, vec![busy(), busy(), busy(), yes()], 3, false),
        ("a no", 5, vec![Reply::status(403), yes()], 1, false),
        ("hopeless", 5, vec![Reply::Untrusted, yes()], 1, false),
        ("any 2xx is a yes", 5, vec![Reply::status(299)], 1, true),
        ("a redirect is none", 0, vec![Reply::status(302)], 1, false),
        ("fewer than none", -3, vec![busy(), yes()], 1, false),
        ("ten at most", 99, vec![Reply::Busy("0")], 11, false),
    ];
    for (reason, retries, replies, calls, is_yes) in cases {
        let kit = kit(&[hook("one", "rollout", &json!({ "retries": retries, "timeout": "5m" }))]);
        kit.net.answer("one", &replies);
        let answer = rollout(&kit.canary(), &kit.observe()).await;
        assert_eq!(answer.is_ok(), is_yes, "{reason}: {answer:?}");
        assert_eq!(kit.net.calls().len(), calls, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_wait_longer_each_time_and_not_beyond_the_interval() {
    let seconds = |kit: &Kit| {
        let calls = kit.net.calls();
        let first = calls[0].at;
        calls.iter().map(|it| (it.at - first).as_secs()).collect::<Vec<_>>()
    };
    let more = |timeout: &str| json!({ "retries": 10, "timeout": timeout });
    let cases = [
        ("an interval of ten seconds", "2s", vec![Reply::Unreachable], vec![0, 1, 3, 7]),
        ("a timeout beyond it", "20s", vec![Reply::Unreachable], vec![0, 1, 3, 7, 15]),
        ("as the server asks", "2s", vec![Reply::Busy("4")], vec![0, 4, 8]),
        ("it asks for too much", "2s", vec![Reply::Busy("600")], vec![0]),
        ("to the end exactly", "2s", vec![Reply::Busy("10")], vec![0]),
    ];
    for (reason, timeout, replies, want) in cases {
        let kit = kit(&[hook("one", "rollout", &more(timeout))]);
        kit.net.answer("one", &replies);
        assert!(rollout(&kit.canary(), &kit.observe()).await.is_err(), "{reason}");
        assert_eq!(seconds(&kit), want, "{reason}");
        let patience: Vec<u64> =
            kit.net.calls().iter().map(|it| it.sent.patience.unwrap().as_secs()).collect();
        assert!(patience.is_sorted_by(|a, b| a > b), "{reason}: {patience:?}");
    }
    let kit = kit(&[hook("one", "rollout", &more("20s")), hook("two", "rollout", &more("7s"))]);
    kit.net.answer("one", &[Reply::Unreachable, Reply::status(200)]);
    rollout(&kit.canary(), &kit.observe()).await.unwrap();
    let calls = kit.net.calls();
    assert_eq!(calls[0].sent.patience, Some(Duration::from_secs(27)), "all timeouts together");
    assert_eq!(calls[2].sent.patience, Some(Duration::from_secs(26)));
    assert_eq!(calls[2].sent.timeout, Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_permit_counts_against_no_hook_of_the_kind() {
    let seconds = Duration::from_secs;
    let timeout = json!({ "timeout": "4s" });
    let kit = kit(&[hook("one", "rollout", &timeout), hook("two", "rollout", &timeout)]);
    kit.net.answer("one", &[Reply::Late(seconds(3), 200)]);
    kit.net.delay_permits(&[seconds(25), seconds(60)]);
    rollout(&kit.canary(), &kit.observe()).await.unwrap();
    let patience: Vec<_> = kit.net.calls().iter().map(|it| it.sent.patience).collect();
    assert_eq!(patience, [Some(seconds(10)), Some(seconds(7))], "an interval in all");
}

#[tokio::test(start_paused = true)]
async fn the_identity_is_that_of_the_call_and_not_of_the_attempt() {
    let two = [
        hook("one", "rollout", &json!({ "retries": 2, "timeout": "5m" })),
        hook("two", "rollout", &json!({})),
    ];
    let at = |weight: u64| {
        let spec = json!({ "analysis": { "webhooks": two } });
        Kit::in_analysis(&spec, &json!({ "canaryWeight": weight }))
    };
    let keys = |kit: &Kit| -> Vec<String> {
        let calls = kit.net.calls();
        calls.iter().map(|it| it.header("idempotency-key").unwrap().to_owned()).collect()
    };
    let kit = at(20);
    kit.net.answer("one", &[Reply::Unreachable, Reply::status(200)]);
    rollout(&kit.canary(), &kit.observe()).await.unwrap();
    let first = keys(&kit);
    assert_eq!(first[0], first[1], "an attempt and its repetition");
    assert_ne!(first[1], first[2], "another hook");
    let kit = at(40);
    rollout(&kit.canary(), &kit.observe()).await.unwrap();
    assert_ne!(keys(&kit)[0], first[0], "another step");
    let kit = at(20);
    rollout(&kit.canary(), &kit.observe()).await.unwrap();
    assert_eq!(keys(&kit)[0], first[0], "the same call of another process");
}

#[tokio::test(start_paused = true)]
async fn calls_are_signed_with_the_secret_of_a_file() {
    let file = std::env::temp_dir().join(format!("tidegate-hook-secret-{}", std::process::id()));
    std::fs::write(&file, "sesame\n").unwrap();
    for (secret, is_signed) in [(Some(file.clone()), true), (None, false)] {
        let hooks = json!({ "analysis": { "webhooks": [hook("one", "rollout", &json!({}))] } });
        let mut bench = in_analysis("istio").spec(&hooks);
        bench.options.hook_secret_file = secret;
        let kit = Kit::of(bench);
        rollout(&kit.canary(), &kit.observe()).await.unwrap();
        let calls = kit.net.calls();
        assert_eq!(calls[0].header("x-tidegate-signature").is_some(), is_signed);
        assert_eq!(calls[0].header("x-tidegate-timestamp").is_some(), is_signed);
    }
    std::fs::remove_file(file).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_is_made_as_the_hook_says() {
    let kit = kit(&[
        hook("plain", "rollout", &json!({})),
        hook("lax", "rollout", &json!({ "disableTLS": true, "timeout": "3s" })),
    ]);
    rollout(&kit.canary(), &kit.observe()).await.unwrap();
    let calls = kit.net.calls();
    assert_eq!(calls[0].url, "http://plain.example/hook");
    assert_eq!(calls[0].sent.timeout, Duration::from_secs(10), "as Flagger");
    assert_eq!(calls[1].sent.timeout, Duration::from_secs(3));
    assert_eq!([calls[0].sent.verify_tls, calls[1].sent.verify_tls], [true, false]);
    assert!(calls.iter().all(|it| !it.sent.trusted && it.sent.namespace == "shop"));
    assert_eq!(calls[0].sent.method, http::Method::POST);
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_counted_once_with_its_reason() {
    let cases = [
        (Reply::status(500), "refused"),
        (Reply::Unreachable, "connect"),
        (Reply::Untrusted, "tls"),
    ];
    for (reply, outcome) in cases {
        let kit = kit(&[hook("one", "rollout", &json!({ "retries": 2 }))]);
        kit.net.answer("one", &[reply]);
        rollout(&kit.canary(), &kit.observe()).await.unwrap_err();
        let line = format!(r#"tidegate_hooks_total{{type="rollout",outcome="{outcome}"}} 1"#);
        assert!(kit.has_metric(&line), "{outcome}");
    }
}

#[test]
fn each_gate_is_a_type_of_hook() {
    let cases = [
        (GateKind::ConfirmRollout, WebhookType::ConfirmRollout),
        (GateKind::PreRollout, WebhookType::PreRollout),
        (GateKind::ConfirmTrafficIncrease, WebhookType::ConfirmTrafficIncrease),
        (GateKind::ConfirmPromotion, WebhookType::ConfirmPromotion),
        (GateKind::PostRollout, WebhookType::PostRollout),
        (GateKind::Rollback, WebhookType::Rollback),
    ];
    for (kind, want) in cases {
        assert_eq!(webhook_type(kind), want);
    }
}
