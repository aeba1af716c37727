//! Hooks of every type, and alerts.

use serde_json::{Value, json};
use tidegate_tests::network::Reply;

use super::{Scenario, builtin_metrics, by_weight_with, hook};

fn with_hooks(kinds: &[&str]) -> Value {
    let hooks: Vec<Value> = kinds.iter().map(|kind| hook(kind)).collect();
    by_weight_with(json!({ "webhooks": hooks }))
}

/// A gate that is closed at first, and opened once the canary waits.
fn gate(name: &'static str, kind: &'static str, provider: &str, phase: &'static str) -> Scenario {
    let analysis = match provider {
        "kubernetes" => json!({ "iterations": 1, "webhooks": [hook(kind)] }),
        _ => with_hooks(&[kind]),
    };
    Scenario::new(name, provider, analysis)
        .answers(kind, Reply::no())
        .phase("Initialized")
        .release("web:2.0")
        .phase(phase)
        .rest(12)
        .answer(kind, Reply::yes())
        .phase("Succeeded")
}

pub(super) fn all() -> Vec<Scenario> {
    let mut all = vec![
        gate("gate: confirm-rollout", "confirm-rollout", "istio", "Waiting"),
        gate("gate: confirm-promotion", "confirm-promotion", "istio", "WaitingPromotion"),
        gate("gate: blue/green", "confirm-promotion", "kubernetes", "WaitingPromotion"),
        gate("gate: confirm-traffic-increase", "confirm-traffic-increase", "istio", "Progressing"),
        Scenario::new(
            "hooks: all that pass",
            "gatewayapi:v1",
            with_hooks(&[
                "confirm-rollout",
                "pre-rollout",
                "rollout",
                "confirm-traffic-increase",
                "confirm-promotion",
                "post-rollout",
            ]),
        )
        .released(),
        Scenario::new(
            "hooks: metadata",
            "istio",
            by_weight_with(json!({ "webhooks": [{
                "name": "load", "url": "http://hooks/load?x=1", "timeout": "5s", "retries": 1,
                "metadata": { "type": "cmd", "cmd": "hey http://web-canary.NAMESPACE/", "n": "1" },
            }] })),
        )
        .released(),
        Scenario::new("hooks: pre-rollout fails", "istio", with_hooks(&["pre-rollout"]))
            .answers("pre-rollout", Reply::no())
            .phase("Initialized")
            .release("web:2.0")
            .phase("Failed"),
        Scenario::new("hooks: pre-rollout passes later", "istio", with_hooks(&["pre-rollout"]))
            .answers("pre-rollout", Reply::no())
            .phase("Initialized")
            .release("web:2.0")
            .failed_checks(1)
            .answer("pre-rollout", Reply::yes())
            .phase("Succeeded"),
        Scenario::new("hooks: rollout fails", "istio", with_hooks(&["rollout", "post-rollout"]))
            .answers("rollout", Reply::Status(500, "too slow".to_owned()))
            .phase("Initialized")
            .release("web:2.0")
            .phase("Failed"),
        Scenario::new("hooks: rollback", "istio", with_hooks(&["rollback"]))
            .answers("rollback", Reply::no())
            .phase("Initialized")
            .release("web:2.0")
            .weight(50)
            .answer("rollback", Reply::yes())
            .phase("Failed"),
        Scenario::new(
            "hooks: rollback at a gate",
            "istio",
            with_hooks(&["rollback", "confirm-promotion"]),
        )
        .answers("rollback", Reply::no())
        .answers("confirm-promotion", Reply::no())
        .phase("Initialized")
        .release("web:2.0")
        .phase("WaitingPromotion")
        .answer("rollback", Reply::yes())
        .phase("Failed"),
        Scenario::new("hooks: events", "istio", with_hooks(&["event"])).released(),
    ];
    all.extend(alerts());
    all
}

fn alerts() -> Vec<Scenario> {
    let provider = |kind: &str| {
        json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
            "metadata": { "name": "on-call" },
            "spec": { "type": kind, "channel": "ops", "username": "bot", "address": format!("http://chat/{kind}") },
        })
    };
    let alerts = |severity: &str| json!([{ "name": "to on-call", "severity": severity, "providerRef": { "name": "on-call" } }]);
    let analysis = |severity: &str| {
        by_weight_with(json!({ "alerts": alerts(severity), "metrics": builtin_metrics() }))
    };
    vec![
        Scenario::new("alerts: slack, success", "istio", analysis("info"))
            .with(provider("slack"))
            .released(),
        Scenario::new("alerts: slack, failure", "istio", analysis("error"))
            .with(provider("slack"))
            .phase("Initialized")
            .measure("", tidegate_tests::network::Metric::Value(1.0))
            .release("web:2.0")
            .phase("Failed"),
        Scenario::new("alerts: discord", "istio", analysis("info"))
            .with(provider("discord"))
            .released(),
        Scenario::new("alerts: rocket", "istio", analysis("warn"))
            .with(provider("rocket"))
            .released(),
    ]
}
