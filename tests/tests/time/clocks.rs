//! Clocks that are put back, controllers that are paused.

use std::time::Duration;

use kube_sandbox::{Sandbox, Settings};
use serde_json::json;
use tidegate_tests::wire::{brief, config_map, deployment};

use super::{DEPLOYMENTS, MAPS, WEB, sandbox};

fn put_back(sandbox: &Sandbox, by: Duration) {
    let clock = &sandbox.server().clock;
    clock.jump_to(clock.now().checked_sub(by).unwrap());
}

#[test]
fn a_clock_put_back_in_the_middle_of_a_rollout_stops_nothing() {
    let (sandbox, wire) = sandbox();
    wire.post(DEPLOYMENTS, &deployment("web", 2, "app:1-slow-start-30s")).ok();
    sandbox.advance(Duration::from_secs(10));
    put_back(&sandbox, Duration::from_secs(20));
    let available = || wire.get(WEB).ok()["status"]["availableReplicas"].clone();
    // A container whose start lies in the future is ready 30 s after that moment.
    sandbox.advance(Duration::from_secs(39));
    assert_eq!(available(), json!(null));
    sandbox.advance(Duration::from_secs(1));
    assert_eq!(available(), 2);
    put_back(&sandbox, Duration::from_hours(5));
    wire.merge(WEB, &json!({ "spec": { "replicas": 4 } })).ok();
    sandbox.advance(Duration::from_secs(29));
    assert_eq!(available(), 2, "what starts now goes by the time it is now");
    sandbox.advance(Duration::from_secs(1));
    assert_eq!(available(), 4);
}

#[test]
fn a_clock_put_back_breaks_neither_versions_nor_watches() {
    let (sandbox, wire) = sandbox();
    let path = format!("{MAPS}?watch=true&resourceVersion=1&timeoutSeconds=120");
    let mut watch = wire.watch(&path).ok().unwrap();
    let before = wire.post(MAPS, &config_map("a", "1")).ok();
    watch.drain();
    sandbox.advance(Duration::from_mins(1));
    put_back(&sandbox, Duration::from_hours(24));
    let after = wire.merge(&format!("{MAPS}/a"), &json!({ "data": { "value": "2" } })).ok();
    let version = |object: &serde_json::Value| tidegate_tests::wire::revision(object);
    assert!(version(&after) > version(&before));
    let made = &before["metadata"]["creationTimestamp"];
    assert_eq!(&after["metadata"]["creationTimestamp"], made);
    assert_eq!(brief(&watch.drain()), ["MODIFIED a"]);
    sandbox.advance(Duration::from_secs(59));
    assert!(watch.drain().is_empty() && !watch.is_over);
    sandbox.advance(Duration::from_secs(1));
    assert!(watch.drain().is_empty() && watch.is_over, "its time passed as it should");
    let newer = wire.post(MAPS, &config_map("b", "1")).ok();
    let (old, new) = (made.as_str(), newer["metadata"]["creationTimestamp"].as_str());
    assert!(new < old, "{new:?} is what the clock shows now");
}

#[test]
fn a_cluster_survives_a_clock_that_wanders() {
    let sandbox = Sandbox::new(Settings::for_tests().shuffled());
    let wire = tidegate_tests::wire::Wire::new(&sandbox);
    wire.post(DEPLOYMENTS, &deployment("web", 3, "app:1-slow-start-5s")).ok();
    let clock = &sandbox.server().clock;
    for round in 0..20_u32 {
        let image = format!("app:{round}-slow-start-5s");
        let patch = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image",
            "value": image }]);
        wire.json_patch(WEB, &patch).ok();
        let far = Duration::from_secs(u64::from(round % 7) * 1_111);
        let now = clock.now();
        let to = if round % 2 == 0 { now.checked_sub(far) } else { now.checked_add(far) };
        clock.jump_to(to.unwrap());
        sandbox.advance(Duration::from_secs(3));
    }
    sandbox.advance(Duration::from_mins(5));
    let status = &wire.get(WEB).ok()["status"];
    assert_eq!(status["updatedReplicas"], 3, "{status}");
    assert_eq!(status["availableReplicas"], 3, "{status}");
    assert_eq!(status["replicas"], 3, "{status}");
}

#[test]
fn time_passes_while_a_loop_is_paused_with_work_to_do() {
    let (sandbox, wire) = sandbox();
    let owner = wire.post(MAPS, &config_map("owner", "1")).ok();
    let mut child = config_map("child", "1");
    child["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    wire.post(MAPS, &child).ok();
    wire.post("/api/v1/namespaces", &json!({ "metadata": { "name": "going" } })).ok();
    sandbox.settle();
    for name in ["garbage-collector", "namespace"] {
        sandbox.runtime().pause(name);
    }
    wire.delete(&format!("{MAPS}/owner"), &json!({})).ok();
    wire.delete("/api/v1/namespaces/going", &json!({})).ok();
    sandbox.advance(Duration::from_hours(1));
    assert_eq!(wire.get(&format!("{MAPS}/child")).code, 200);
    assert_eq!(wire.get("/api/v1/namespaces/going").code, 200);
    for name in ["garbage-collector", "namespace"] {
        sandbox.runtime().resume(name);
    }
    sandbox.advance(Duration::from_secs(1));
    assert_eq!(wire.get(&format!("{MAPS}/child")).code, 404);
    assert_eq!(wire.get("/api/v1/namespaces/going").code, 404);
}

#[test]
fn waiting_in_vain_lets_the_whole_time_pass() {
    let (sandbox, _) = sandbox();
    let start = sandbox.server().clock.now();
    assert!(!sandbox.advance_until(Duration::from_mins(7), |_| false));
    let passed = sandbox.server().clock.now().duration_since(start);
    assert_eq!(passed.as_secs(), 7 * 60);
}
