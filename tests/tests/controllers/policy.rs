//! Autoscaling, disruption budgets, scheduling.

use kube_sandbox::{
    Settings,
    cluster::{AUTOSCALERS, Cluster, DEPLOYMENTS, DISRUPTION_BUDGETS, NODES, PODS},
    failure::Failure,
    request::{RequestInfo, Verb},
    server::{Body, Request, User, options::Query},
};
use serde_json::{Value, json};
use tidegate_tests::controllers::{World, deployment, merged, number, pod, text, without_times};

fn autoscaler(min: i64, max: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": min, "maxReplicas": max,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 },
            } }],
        },
    })
}

fn replicas(world: &World) -> i64 {
    number(&world.get(DEPLOYMENTS, "web")["spec"]["replicas"])
}

#[test]
fn an_autoscaler_follows_the_metrics_knob() {
    for (order, world) in World::orders() {
        world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
        let metrics = &world.sandbox.controllers().metrics;
        metrics.set("default", "web", "cpu", 100.0);
        world.create(AUTOSCALERS, autoscaler(1, 5));
        world.advance(16);
        assert_eq!(replicas(&world), 4, "{order}: twice the load, twice the pods");
        world.advance(60);
        assert_eq!(replicas(&world), 5, "{order}: not past the maximum");
        let limited = world.condition(AUTOSCALERS, "web", "ScalingLimited");
        assert_eq!(
            (&limited["status"], &limited["reason"]),
            (&json!("True"), &json!("TooManyReplicas"))
        );
        let status = world.get(AUTOSCALERS, "web")["status"].clone();
        assert_eq!(
            (number(&status["currentReplicas"]), number(&status["desiredReplicas"])),
            (5, 5)
        );
        metrics.set("default", "web", "cpu", 10.0);
        world.advance(120);
        assert_eq!(replicas(&world), 5, "{order}: five minutes of calm come first");
        world.advance(240);
        assert_eq!(replicas(&world), 1, "{order}");
        world.advance(60);
        world.assert_quiet();
    }
}

#[test]
fn an_autoscaler_reads_its_own_annotation_first() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
    world.sandbox.controllers().metrics.set("default", "web", "cpu", 50.0);
    let note =
        json!({ "metadata": { "annotations": { "sandbox.tidegate.dev/cpu-utilization": "75" } } });
    world.create(AUTOSCALERS, merged(autoscaler(1, 10), &note));
    world.advance(16);
    assert_eq!(replicas(&world), 3);
}

#[test]
fn an_autoscaler_without_metrics_says_so_and_touches_nothing() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
    world.create(AUTOSCALERS, autoscaler(1, 10));
    world.advance(60);
    assert_eq!(replicas(&world), 2);
    let active = world.condition(AUTOSCALERS, "web", "ScalingActive");
    assert_eq!(
        (&active["status"], &active["reason"]),
        (&json!("False"), &json!("FailedGetResourceMetric"))
    );
    world.scale(DEPLOYMENTS, "web", 0);
    world.advance(60);
    assert_eq!(replicas(&world), 0, "zero replicas switch an autoscaler off");
    let active = world.condition(AUTOSCALERS, "web", "ScalingActive");
    assert_eq!(active["reason"], "ScalingDisabled");
}

fn budget(spec: &Value) -> Value {
    let selector = json!({ "spec": { "selector": { "matchLabels": { "app": "web" } } } });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web" }, "spec": spec,
    });
    merged(budget, &selector)
}

fn evict(world: &World, name: &str) -> Result<(), Failure> {
    let user = User::admin();
    let info = RequestInfo {
        verb: Verb::Create,
        version: "v1".into(),
        resource: "pods".into(),
        subresource: "eviction".into(),
        namespace: "default".into(),
        name: name.into(),
        user: user.name,
        groups: user.groups,
        ..RequestInfo::default()
    };
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name },
    });
    let body = Body::Object(eviction);
    let request =
        Request { info, query: Query::default(), body, agent: String::new(), stale_at: None };
    world.sandbox.server().execute(&request).map(|_| ())
}

#[test]
fn evictions_stop_where_the_budget_ends() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", 3, "nginx:1"));
    world.create(DISRUPTION_BUDGETS, budget(&json!({ "minAvailable": 2 })));
    let early = evict(&world, "nobody").unwrap_err();
    assert_eq!(early.code, 404);
    world.settle();
    let status = without_times(world.get(DISRUPTION_BUDGETS, "web")["status"].clone());
    let want = json!({
        "observedGeneration": 1, "expectedPods": 3, "currentHealthy": 3, "desiredHealthy": 2,
        "disruptionsAllowed": 1,
        "conditions": [{
            "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
            "message": "", "observedGeneration": 1,
        }],
    });
    assert_eq!(status, want);
    let pods = world.names(PODS);
    evict(&world, &pods[0]).unwrap();
    // The second comes before any controller has seen the first.
    let refused = evict(&world, &pods[1]).unwrap_err();
    assert_eq!((refused.code, refused.reason), (429, "TooManyRequests"));
    let why = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert_eq!(refused.message, why);
    assert_eq!(refused.causes[0].reason, "DisruptionBudget");
    world.settle();
    assert_eq!(world.active_pods().len(), 3, "the evicted pod was replaced");
    evict(&world, &pods[1]).unwrap();
    world.settle();
    world.advance(200);
    let status = world.get(DISRUPTION_BUDGETS, "web")["status"].clone();
    assert_eq!(number(&status["disruptionsAllowed"]), 1);
    assert_eq!(status.get("disruptedPods"), None);
    world.assert_quiet();
}

#[test]
fn a_budget_refuses_in_its_own_words() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
    world.settle();
    world.create(DISRUPTION_BUDGETS, budget(&json!({ "maxUnavailable": 0 })));
    let name = world.names(PODS).remove(0);
    let unseen = evict(&world, &name).unwrap_err();
    let why = "The disruption budget web is still being processed by the server.";
    assert_eq!((unseen.causes[0].message.as_str(), unseen.retry_after_s), (why, Some(10)));
    world.settle();
    let refused = evict(&world, &name).unwrap_err();
    let why = "The disruption budget web needs 2 healthy pods and has 2 currently";
    assert_eq!(refused.causes[0].message, why);
}

#[test]
fn a_pod_that_serves_nobody_may_always_be_evicted() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1-image-pull-error"));
    world.create(DISRUPTION_BUDGETS, budget(&json!({ "minAvailable": 2 })));
    world.settle();
    let name = world.names(PODS).remove(0);
    evict(&world, &name).unwrap();
    world.settle();
    assert!(world.find(PODS, &name).is_none(), "pending pods are in no budget's way");
}

#[test]
fn a_running_but_sick_pod_is_guarded_unless_the_budget_says_otherwise() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1-never-ready"));
    world.create(DISRUPTION_BUDGETS, budget(&json!({ "minAvailable": 1 })));
    world.settle();
    let name = world.names(PODS).remove(0);
    assert_eq!(evict(&world, &name).unwrap_err().code, 429);
    let always = json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } });
    world.patch(DISRUPTION_BUDGETS, "web", &always);
    world.settle();
    evict(&world, &name).unwrap();
    world.settle();
    assert!(world.find(PODS, &name).is_none());
}

#[test]
fn pods_wait_for_a_node_that_takes_them() {
    let taint = |effect: &str| json!({ "spec": { "taints": [{ "key": "k", "effect": effect }] } });
    let cases = [
        ("cordoned", json!({ "spec": { "unschedulable": true } }), "1 node(s) were unschedulable"),
        ("tainted", taint("NoSchedule"), "1 node(s) had untolerated taint(s)"),
        (
            "unlabelled",
            json!({ "metadata": { "labels": { "disk": null } } }),
            "1 node(s) didn't match Pod's node affinity/selector",
        ),
    ];
    for (reason, change, message) in cases {
        let world = World::new();
        world.patch(NODES, "sandbox-0", &change);
        let mut wanted = pod("web", "nginx:1");
        if reason == "unlabelled" {
            wanted["spec"]["nodeSelector"] = json!({ "disk": "fast" });
        }
        world.create(PODS, wanted);
        world.settle();
        let waiting = world.get(PODS, "web");
        assert_eq!(waiting["status"]["phase"], "Pending", "{reason}");
        let said = world.condition(PODS, "web", "PodScheduled");
        assert_eq!((&said["status"], &said["reason"]), (&json!("False"), &json!("Unschedulable")));
        let said = text(&said["message"]);
        assert!(said.starts_with(&format!("0/1 nodes are available: {message}")), "{said}");
        world.assert_quiet();
        let mended = json!({
            "metadata": { "labels": { "disk": "fast" } },
            "spec": { "unschedulable": null, "taints": null },
        });
        world.patch(NODES, "sandbox-0", &mended);
        world.settle();
        assert_eq!(world.get(PODS, "web")["status"]["phase"], "Running", "{reason}");
    }
}

#[test]
fn pods_are_spread_over_nodes_and_tolerations_open_tainted_ones() {
    let world = World::with(Settings::for_tests().nodes(3));
    let taints = json!([{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }]);
    world.patch(NODES, "sandbox-2", &json!({ "spec": { "taints": taints } }));
    world.create(DEPLOYMENTS, deployment("web", 4, "nginx:1"));
    world.settle();
    let on =
        |node: &str| world.list(PODS).iter().filter(|pod| pod["spec"]["nodeName"] == node).count();
    assert_eq!(["sandbox-0", "sandbox-1", "sandbox-2"].map(on), [2, 2, 0]);
    let mut brave = pod("brave", "nginx:1");
    brave["spec"]["tolerations"] = json!([{ "key": "gpu", "operator": "Exists" }]);
    world.create(PODS, brave);
    world.settle();
    assert_eq!(world.get(PODS, "brave")["spec"]["nodeName"], "sandbox-2");
}

#[test]
fn a_full_node_takes_a_pod_when_another_leaves() {
    let world = World::new();
    let room = json!({ "status": { "allocatable": { "pods": "2" } } });
    world.admin.patch(NODES, "", "sandbox-0", "status", &room).unwrap();
    for name in ["a", "b", "c"] {
        world.create(PODS, pod(name, "nginx:1"));
    }
    world.settle();
    let phases = ["a", "b", "c"].map(|name| text(&world.get(PODS, name)["status"]["phase"]));
    assert_eq!(phases.iter().filter(|phase| *phase == "Running").count(), 2);
    let said = text(&world.condition(PODS, "c", "PodScheduled")["message"]);
    assert!(said.starts_with("0/1 nodes are available: 1 Too many pods."), "{said}");
    world.delete(PODS, "a");
    world.settle();
    assert_eq!(world.get(PODS, "c")["status"]["phase"], "Running");
}
