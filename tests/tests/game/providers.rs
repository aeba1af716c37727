//! Requests and timeouts of hook runs.

use kube_sandbox::cluster::SECRETS;
use serde_json::{Value, json};
use tidegate_tests::network::{Metric, PROMETHEUS, Reply};

use crate::rig::{HOOK_RUNS, Stage, arena, measured, run};

async fn up() -> Stage {
    Stage::up(arena(&json!({ "type": "RollingUpdate", "maxUnavailable": 1 }))).await
}

fn secret(name: &str, labels: &Value, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "labels": labels }, "stringData": data,
    })
}

#[tokio::test(start_paused = true)]
async fn a_web_hook_sends_its_body_its_headers_and_what_its_secret_holds() {
    let stage = up().await;
    let for_hooks = json!({ "tidegate.dev/for-hooks": "true" });
    stage.world.create(SECRETS, secret("stats", &for_hooks, &json!({ "token": "t0p" })));
    let metric = |secret: &str| {
        json!({
            "successCondition": "asInt(result) < 30", "consecutiveErrorLimit": 0,
            "provider": { "web": {
                "url": "http://1.1.1.1:9091", "jsonPath": "{$.age}", "method": "POST",
                "body": "{\"room\":\"{{ args.room }}\"}", "secretRef": { "name": secret },
                "headers": [{ "key": "X-Room", "value": "{{ args.room }}" }],
            } },
        })
    };
    let status = measured(&stage, metric("stats"), &[("room", "lobby")]).await;
    assert_eq!(status["phase"], "Successful", "{status:#}");
    let calls = stage.world.network.calls_to("1.1.1.1/");
    let call = calls.last().expect("it was asked");
    assert_eq!(call.body, json!({ "room": "lobby" }));
    assert_eq!(call.headers["x-room"], "lobby");
    assert_eq!(call.headers["authorization"], "Bearer t0p");
    assert_eq!(call.headers["content-type"], "application/json");
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_not_meant_for_hooks_is_not_sent_anywhere() {
    let stage = up().await;
    let metric = |secret: &str| {
        json!({
            "consecutiveErrorLimit": 0,
            "provider": { "web": {
                "url": "http://1.1.1.1:9091", "jsonPath": "{$.age}",
                "secretRef": { "name": secret },
            } },
        })
    };
    stage.world.create(SECRETS, secret("private", &json!({}), &json!({ "token": "t0p" })));
    let for_hooks = json!({ "tidegate.dev/for-hooks": "true" });
    stage.world.create(SECRETS, secret("empty", &for_hooks, &json!({ "other": "x" })));
    let rows =
        [("private", "is not for hooks"), ("nobody", "does not exist"), ("empty", "neither token")];
    for (name, says) in rows {
        let status = measured(&stage, metric(name), &[]).await;
        assert_eq!(status["phase"], "Error", "{status:#}");
        let measurement = &status["metricResults"][0]["measurements"][0];
        let message = measurement["message"].as_str().unwrap_or_default();
        assert!(message.contains(says) && !message.contains("t0p"), "{name}: {message}");
    }
    assert_eq!(stage.asked(), 0, "nothing was sent");
}

// Mistake 35 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_prometheus_is_asked_with_a_token_with_headers_and_for_so_long() {
    let stage = up().await;
    stage.world.network.metric("players", Metric::Value(3.0));
    stage.world.network.metric("slow", Metric::Reply(Reply::Hang));
    let for_hooks = json!({ "tidegate.dev/for-hooks": "true" });
    let login = json!({ "username": "me", "password": "pass" });
    stage.world.create(SECRETS, secret("login", &for_hooks, &login));
    let metric = |query: &str| {
        json!({
            "successCondition": "result[0] < 5", "consecutiveErrorLimit": 0,
            "provider": { "prometheus": {
                "address": format!("http://{PROMETHEUS}:9090"), "query": query,
                "timeoutSeconds": 7, "secretRef": { "name": "login" },
                "headers": [{ "key": "X-Scope-OrgID", "value": "arena" }],
            } },
        })
    };
    let status = measured(&stage, metric("players"), &[]).await;
    assert_eq!(status["phase"], "Successful", "{status:#}");
    let calls = stage.world.network.calls_to(PROMETHEUS);
    let call = calls.iter().find(|call| call.query == "players").expect("it was asked");
    assert_eq!(call.headers["authorization"], "Basic bWU6cGFzcw==");
    assert_eq!(call.headers["x-scope-orgid"], "arena");
    let status = measured(&stage, metric("slow"), &[]).await;
    let measurement = &status["metricResults"][0]["measurements"][0];
    let message = measurement["message"].as_str().unwrap_or_default();
    assert!(message.contains("7 s") || message.contains("7s"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_longer_than_its_deadline_ends_in_an_error() {
    let stage = up().await;
    let metric = json!({
        "interval": "10s",
        "provider": { "web": { "url": "http://1.1.1.1:9091", "jsonPath": "{$.age}" } },
    });
    let mut endless = run("endless", metric, &[]);
    endless["spec"]["deadlineSeconds"] = json!(45);
    stage.world.create(HOOK_RUNS, endless);
    stage.world.advance_s(40).await;
    assert_eq!(stage.run("endless")["status"]["phase"], "Running");
    stage.world.advance_s(20).await;
    let status = stage.run("endless")["status"].clone();
    assert_eq!(status["phase"], "Error", "{status:#}");
    assert_eq!(status["message"], "the run exceeded its deadline");
    let asked = stage.asked();
    assert!((4..=6).contains(&asked), "{asked}");
    stage.world.advance_s(60).await;
    assert_eq!(stage.asked(), asked, "and it is over");
}
