//! Rollouts of workloads over time.

use std::time::{Duration, Instant};

use kube_sandbox::Sandbox;
use serde_json::{Value, json};
use tidegate_tests::wire::{Wire, deployment};

use super::{DEPLOYMENTS, WEB, condition, sandbox};

fn second() -> Duration {
    Duration::from_secs(1)
}

fn count(object: &Value, field: &str) -> i64 {
    object["status"][field].as_i64().unwrap_or_default()
}

fn is_rolled_out(web: &Value, replicas: i64) -> bool {
    web["status"]["observedGeneration"] == web["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"]
            .iter()
            .all(|field| count(web, field) == replicas)
}

/// Seconds until the Deployment is rolled out; checks `always` every second on the way.
fn seconds_to_roll_out(
    sandbox: &Sandbox,
    wire: &Wire,
    replicas: i64,
    mut always: impl FnMut(&Value),
) -> u32 {
    for passed in 0..600 {
        sandbox.settle();
        let web = wire.get(WEB).ok();
        always(&web);
        if is_rolled_out(&web, replicas) {
            return passed;
        }
        sandbox.advance(second());
    }
    panic!("not rolled out after ten minutes: {}", wire.get(WEB).ok()["status"]);
}

#[test]
fn a_rollout_of_slow_pods_takes_as_long_as_its_pods_one_after_another() {
    let (sandbox, wire) = sandbox();
    wire.post(DEPLOYMENTS, &deployment("web", 3, "app:1-slow-start-30s")).ok();
    let first = seconds_to_roll_out(&sandbox, &wire, 3, |_| {});
    assert_eq!(first, 30, "all three start together");
    let template = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image",
        "value": "app:2-slow-start-30s" }]);
    wire.json_patch(WEB, &template).ok();
    // A quarter of three is one more pod and none less, so they come one by one.
    let second = seconds_to_roll_out(&sandbox, &wire, 3, |web| {
        assert!(count(web, "availableReplicas") >= 3, "{}", web["status"]);
        assert!(count(web, "replicas") <= 4, "{}", web["status"]);
    });
    assert_eq!(second, 90);
    let progress = condition(&wire.get(WEB).ok(), "Progressing");
    assert_eq!(progress, ("True".to_owned(), "NewReplicaSetAvailable".to_owned()));
}

#[test]
fn a_rollout_without_progress_fails_when_its_deadline_has_passed_and_not_before() {
    let (sandbox, wire) = sandbox();
    wire.post(DEPLOYMENTS, &deployment("web", 2, "app:1-never-ready")).ok();
    sandbox.advance(Duration::from_mins(10));
    let progress = || condition(&wire.get(WEB).ok(), "Progressing");
    assert_eq!(progress().0, "True", "600 seconds are not more than 600 seconds");
    sandbox.advance(second());
    assert_eq!(progress(), ("False".to_owned(), "ProgressDeadlineExceeded".to_owned()));
}

#[test]
fn min_ready_seconds_hold_availability_back() {
    let (sandbox, wire) = sandbox();
    let mut web = deployment("web", 1, "app:1");
    web["spec"]["minReadySeconds"] = json!(45);
    wire.post(DEPLOYMENTS, &web).ok();
    sandbox.advance(Duration::from_secs(44));
    let web = wire.get(WEB).ok();
    assert_eq!((count(&web, "readyReplicas"), count(&web, "availableReplicas")), (1, 0));
    sandbox.advance(second());
    assert_eq!(count(&wire.get(WEB).ok(), "availableReplicas"), 1);
}

#[test]
fn a_day_passes_in_a_moment() {
    let (sandbox, wire) = sandbox();
    wire.post(DEPLOYMENTS, &deployment("web", 3, "app:1")).ok();
    sandbox.settle();
    let start = Instant::now();
    sandbox.advance(Duration::from_hours(24));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(count(&wire.get(WEB).ok(), "availableReplicas"), 3);
}

#[test]
fn a_container_that_keeps_crashing_is_restarted_ever_more_seldom() {
    let (sandbox, wire) = sandbox();
    wire.post(DEPLOYMENTS, &deployment("web", 1, "app:1-crash-loop")).ok();
    let restarts = || {
        let pods = wire.get("/api/v1/namespaces/default/pods").ok();
        pods["items"][0]["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap()
    };
    // It lives a second each time. The first restart comes at once, the next after 10 seconds, and
    // so on twice as long up to five minutes.
    let mut want = Vec::new();
    let mut at = 0;
    for wait in [0, 10, 20, 40, 80, 160, 300, 300] {
        at += 1 + wait;
        want.push(at);
    }
    let mut met = Vec::new();
    for second in 1..=at {
        sandbox.advance(Duration::from_secs(1));
        if restarts() > met.len() as u64 {
            met.push(second);
        }
    }
    assert_eq!(met, want);
}

const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

#[test]
fn an_autoscaler_grows_at_once_and_shrinks_when_five_minutes_agree() {
    let (sandbox, wire) = sandbox();
    let mut web = deployment("web", 2, "app:1");
    web["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": "100m" } });
    wire.post(DEPLOYMENTS, &web).ok();
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 10,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } }],
        },
    });
    let knob = &sandbox.controllers().metrics;
    knob.set("default", "web", "cpu", 100.0);
    wire.post(AUTOSCALERS, &autoscaler).ok();
    let replicas = || wire.get(WEB).ok()["spec"]["replicas"].as_i64().unwrap();
    sandbox.advance(Duration::from_secs(15));
    assert_eq!(replicas(), 4, "twice the load, twice the pods");
    knob.set("default", "web", "cpu", 50.0);
    sandbox.advance(Duration::from_mins(10));
    assert_eq!(replicas(), 4);
    knob.set("default", "web", "cpu", 25.0);
    sandbox.advance(Duration::from_secs(290));
    assert_eq!(replicas(), 4, "the window still remembers the need for four");
    sandbox.advance(Duration::from_secs(30));
    assert_eq!(replicas(), 2);
}
