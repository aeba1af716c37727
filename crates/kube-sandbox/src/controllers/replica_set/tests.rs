//! Replacement, adoption, release and order of deletion of a ReplicaSet's pods.

use serde_json::json;

use super::*;
use crate::{
    controllers::testing::{Simulation, template},
    kubelet::Behaviour,
};

fn replica_set(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
            "template": template("web", "nginx:1"),
        },
    })
}

fn running(replicas: i64) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.create(REPLICA_SETS, replica_set(replicas));
    simulation.settle();
    simulation
}

#[test]
fn a_deleted_pod_is_replaced() {
    let mut simulation = running(3);
    let victim = name(&simulation.list(PODS)[0]).to_owned();
    simulation.delete(PODS, &victim);
    simulation.settle();
    assert_eq!(simulation.active_pods().len(), 3);
    assert!(simulation.find(PODS, &victim).is_none());
    let status = &simulation.get(REPLICA_SETS, "web")["status"];
    assert_eq!(status["replicas"], 3);
    assert_eq!(status["fullyLabeledReplicas"], 3);
    assert_eq!(status["terminatingReplicas"], 0);
    assert_eq!(simulation.events("SuccessfulCreate").len(), 4);
    simulation.assert_quiet();
}

#[test]
fn a_failed_pod_is_replaced() {
    let mut simulation = running(2);
    let failed = name(&simulation.list(PODS)[0]).to_owned();
    simulation.patch(PODS, &failed, &json!({ "status": { "phase": "Failed" } }));
    simulation.settle();
    assert_eq!(simulation.active_pods().len(), 2);
    assert_eq!(simulation.list(PODS).len(), 3, "the failed one is kept for people to look at");
}

#[test]
fn a_pod_that_matches_is_adopted_and_one_that_no_longer_does_is_let_go() {
    let mut simulation = running(2);
    let mut stray = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "stray" } });
    stray["metadata"]["labels"] = json!({ "app": "web" });
    stray["spec"] = template("web", "nginx:1")["spec"].clone();
    simulation.create(PODS, stray);
    simulation.settle();
    assert_eq!(simulation.active_pods().len(), 2, "three were one too many");

    let pod = name(&simulation.active_pods()[0]).to_owned();
    simulation.patch(PODS, &pod, &json!({ "metadata": { "labels": { "app": "debug" } } }));
    simulation.settle();
    assert_eq!(simulation.active_pods().len(), 3, "the one taken out is replaced");
    assert_eq!(controller_of(&simulation.get(PODS, &pod)), None);
    assert_eq!(simulation.get(REPLICA_SETS, "web")["status"]["replicas"], 2);
}

#[test]
fn what_serves_least_is_deleted_first() {
    let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
    let pod = |pod_name: &str, change: &dyn Fn(&mut Value)| {
        let mut pod = json!({
            "metadata": {
                "name": pod_name, "uid": pod_name, "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": { "nodeName": pod_name },
            "status": { "phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ] },
        });
        change(&mut pod);
        pod
    };
    let cost = json!({ "controller.kubernetes.io/pod-deletion-cost": "-1" });
    let pods = [
        pod("a-old", &|_| {}),
        pod("b-restarted", &|pod| {
            pod["status"]["containerStatuses"] = json!([{ "restartCount": 2 }]);
        }),
        pod("c-lately-ready", &|pod| {
            pod["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:59:00Z".into();
        }),
        pod("d-cheap", &|pod| pod["metadata"]["annotations"] = cost.clone()),
        pod("e-unready", &|pod| pod["status"]["conditions"][0]["status"] = "False".into()),
        pod("f-pending", &|pod| pod["status"]["phase"] = "Pending".into()),
        pod("g-unassigned", &|pod| pod["spec"] = json!({})),
    ];
    let want = [
        "g-unassigned",
        "f-pending",
        "e-unready",
        "d-cheap",
        "c-lately-ready",
        "b-restarted",
        "a-old",
    ];
    assert_eq!(deletion_order(&pods, &pods, now), want);
}

#[test]
fn crowded_nodes_are_thinned_out_first() {
    let pod = |pod_name: &str, node: &str| {
        json!({
            "metadata": { "name": pod_name, "uid": pod_name },
            "spec": { "nodeName": node }, "status": { "phase": "Running" },
        })
    };
    let pods = [pod("a", "one"), pod("b", "two"), pod("c", "two")];
    let order = deletion_order(&pods, &pods, Timestamp::UNIX_EPOCH);
    assert_eq!(order, ["b", "c", "a"]);
}

#[test]
fn scaling_down_removes_pods_that_are_not_ready() {
    let mut simulation = Simulation::new();
    simulation.create(REPLICA_SETS, replica_set(2));
    simulation.settle();
    let healthy: Vec<_> = simulation.list(PODS).iter().map(|pod| name(pod).to_owned()).collect();
    simulation.behaviours.set("nginx:1", Behaviour::NeverReady);
    for pod in &healthy {
        let steady = json!({ "metadata": { "annotations": {
            "sandbox.tidegate.dev/behaviour": "normal",
        } } });
        simulation.patch(PODS, pod, &steady);
    }
    simulation.patch(REPLICA_SETS, "web", &json!({ "spec": { "replicas": 4 } }));
    simulation.settle();
    simulation.patch(REPLICA_SETS, "web", &json!({ "spec": { "replicas": 2 } }));
    simulation.settle();
    let left: Vec<_> = simulation.list(PODS).iter().map(|pod| name(pod).to_owned()).collect();
    assert_eq!(left, healthy);
    assert_eq!(simulation.events("SuccessfulDelete").len(), 2);
}
