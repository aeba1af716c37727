//! A cluster at rest writes nothing, and a large one comes to rest soon.

use std::time::{Duration, Instant};

use kube_sandbox::{
    Settings,
    cluster::{
        AUTOSCALERS, DAEMON_SETS, DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, SERVICES, STATEFUL_SETS,
    },
};
use serde_json::json;
use tidegate_tests::controllers::{World, daemon_set, deployment, number, service, stateful_set};

#[test]
fn an_empty_cluster_writes_nothing() {
    for (_, world) in World::orders() {
        world.settle();
        world.assert_quiet();
    }
}

#[test]
fn a_settled_cluster_of_every_kind_writes_nothing() {
    for (order, world) in World::orders() {
        world.create(DEPLOYMENTS, deployment("web", 3, "nginx:1"));
        world.create(SERVICES, service("web"));
        world.create(STATEFUL_SETS, stateful_set("db", 2, "pg:1"));
        world.create(DAEMON_SETS, daemon_set("agent", "agent:1"));
        world.create(
            DISRUPTION_BUDGETS,
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": { "name": "web" },
                "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } },
            }),
        );
        world.sandbox.controllers().metrics.set("default", "web", "cpu", 80.0);
        world.create(
            AUTOSCALERS,
            json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": { "name": "web" },
                "spec": {
                    "scaleTargetRef":
                        { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                    "minReplicas": 1, "maxReplicas": 5,
                },
            }),
        );
        world.advance(900);
        assert_eq!(world.get(DEPLOYMENTS, "web")["status"]["availableReplicas"], 3, "{order}");
        world.assert_quiet();
    }
}

#[test]
fn a_settled_sandbox_has_nothing_due() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", 3, "nginx:1"));
    world.create(SERVICES, service("web"));
    world.advance(3600);
    assert_eq!(world.sandbox.runtime().next_due(), None);
}

#[test]
fn five_hundred_pods_settle_soon() {
    let world = World::with(Settings::for_tests().nodes(5));
    let began = Instant::now();
    for index in 0..50 {
        let name = format!("web-{index}");
        world.create(DEPLOYMENTS, deployment(&name, 10, "nginx:1"));
        world.create(SERVICES, service(&name));
    }
    world.settle();
    let took = began.elapsed();
    println!("500 pods behind 50 services settled in {took:?}");
    assert_eq!(world.list(PODS).len(), 500);
    for deployment in world.list(DEPLOYMENTS) {
        assert_eq!(number(&deployment["status"]["availableReplicas"]), 10);
    }
    // Generous: a busy machine without optimisation. It guards against work that grows with the
    // square of the cluster.
    assert!(took < Duration::from_secs(30), "{took:?}");
}
