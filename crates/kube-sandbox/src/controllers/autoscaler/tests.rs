//! Autoscaling in virtual time: targets, tolerance, windows, policies, and metrics without a value.

use serde_json::json;

use super::*;
use crate::controllers::testing::{Simulation, deployment};

fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 10,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 },
            } }],
        },
    })
}

fn scaled(replicas: i64, object: Value) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.create(DEPLOYMENTS, deployment("web", replicas, "nginx:1"));
    simulation.settle();
    simulation.create(AUTOSCALERS, object);
    simulation.settle();
    simulation
}

fn replicas(simulation: &Simulation) -> i64 {
    count(&simulation.get(DEPLOYMENTS, "web"), "/spec/replicas")
}

fn reason(simulation: &Simulation, kind: &str) -> (String, String) {
    let condition = simulation.condition(AUTOSCALERS, "web", kind);
    (text(&condition, "/status").to_owned(), text(&condition, "/reason").to_owned())
}

fn say(simulation: &Simulation, cpu: &str) {
    let patch = json!({ "metadata": { "annotations": {
        "sandbox.tidegate.dev/cpu-utilization": cpu,
    } } });
    simulation.patch(AUTOSCALERS, "web", &patch);
}

#[test]
fn load_above_the_target_scales_up_at_the_next_look() {
    let mut simulation = scaled(3, autoscaler());
    simulation.metrics.set("default", "web", "cpu", 100.0);
    simulation.advance(15);
    assert_eq!(replicas(&simulation), 6, "twice the load, twice the pods");
    simulation.metrics.set("default", "web", "cpu", 52.0);
    simulation.advance(60);
    assert_eq!(replicas(&simulation), 6, "within ten per cent nothing changes");
    let status = simulation.get(AUTOSCALERS, "web")["status"].clone();
    assert_eq!(status["currentReplicas"], 6);
    assert_eq!(status["desiredReplicas"], 6);
    assert_eq!(status["currentMetrics"][0]["resource"]["current"]["averageUtilization"], 52);
    assert!(status["lastScaleTime"].is_string());
    assert_eq!(reason(&simulation, "ScalingActive"), ("True".into(), "ValidMetricFound".into()));
    assert_eq!(reason(&simulation, "AbleToScale").1, "ReadyForNewScale");
    assert_eq!(
        reason(&simulation, "ScalingLimited"),
        ("False".into(), "DesiredWithinRange".into())
    );
    let want = "New size: 6; reason: cpu resource utilization (percentage of request) above target";
    assert_eq!(simulation.events("SuccessfulRescale"), [want]);
}

#[test]
fn scaling_down_waits_until_the_load_has_been_low_for_five_minutes() {
    let mut simulation = scaled(6, autoscaler());
    say(&simulation, "50");
    simulation.advance(30);
    say(&simulation, "10");
    simulation.advance(240);
    assert_eq!(replicas(&simulation), 6);
    assert_eq!(reason(&simulation, "AbleToScale").1, "ScaleDownStabilized");
    simulation.advance(90);
    assert_eq!(replicas(&simulation), 2, "the minimum");
    assert_eq!(
        simulation.events("SuccessfulRescale"),
        ["New size: 2; reason: All metrics below target"]
    );
}

#[test]
fn the_maximum_limits_and_says_so() {
    let mut simulation = scaled(6, autoscaler());
    say(&simulation, "200");
    simulation.settle();
    assert_eq!(replicas(&simulation), 10);
    simulation.advance(15);
    assert_eq!(reason(&simulation, "ScalingLimited"), ("True".into(), "TooManyReplicas".into()));
}

#[test]
fn behaviour_sets_the_pace() {
    let mut object = autoscaler();
    object["spec"]["behavior"] = json!({
        "scaleUp": { "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }] },
        "scaleDown": { "stabilizationWindowSeconds": 0,
            "policies": [{ "type": "Percent", "value": 50, "periodSeconds": 15 }] },
    });
    let mut simulation = scaled(4, object);
    say(&simulation, "200");
    simulation.advance(30);
    assert_eq!(replicas(&simulation), 5, "one a minute");
    assert_eq!(reason(&simulation, "ScalingLimited").1, "ScaleUpLimit");
    simulation.advance(60);
    assert_eq!(replicas(&simulation), 6);
    say(&simulation, "1");
    simulation.settle();
    assert_eq!(replicas(&simulation), 3, "half at a time, without waiting");
}

#[test]
fn without_a_metric_nothing_is_scaled_and_the_reason_is_given() {
    let mut simulation = scaled(3, autoscaler());
    assert_eq!(
        reason(&simulation, "ScalingActive"),
        ("False".into(), "FailedGetResourceMetric".into())
    );
    // The message of the real controller, apart from the API's part.
    let want = "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: \
                failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from \
                resource metrics API";
    assert_eq!(simulation.events("FailedComputeMetricsReplicas"), [want]);
    let before = simulation.cluster.writes();
    simulation.advance(300);
    assert_eq!(replicas(&simulation), 3);
    assert_eq!(simulation.cluster.writes(), before, "nothing new is nothing written");
}

#[test]
fn a_metric_that_cannot_be_read_matters_only_to_who_would_scale_down() {
    let mut object = autoscaler();
    let queue = json!({ "type": "External", "external": {
        "metric": { "name": "queue" }, "target": { "type": "Value", "value": "30" },
    } });
    object["spec"]["metrics"].as_array_mut().unwrap().push(queue);
    let cases = [
        ("100", 6, "ValidMetricFound", "more is wanted"),
        ("50", 3, "ValidMetricFound", "as many are wanted"),
        ("10", 3, "FailedGetExternalMetric", "fewer on half the picture would be rash"),
    ];
    for (cpu, size, why, case) in cases {
        let mut simulation = scaled(3, object.clone());
        say(&simulation, cpu);
        simulation.settle();
        assert_eq!(
            (replicas(&simulation), reason(&simulation, "ScalingActive").1),
            (size, why.to_owned()),
            "{case}"
        );
    }
}

#[test]
fn a_target_scaled_to_zero_is_left_there() {
    let mut simulation = scaled(0, autoscaler());
    say(&simulation, "500");
    simulation.advance(60);
    assert_eq!(replicas(&simulation), 0);
    assert_eq!(reason(&simulation, "ScalingActive").1, "ScalingDisabled");
}

#[test]
fn a_target_that_is_not_there_or_cannot_be_scaled_is_reported() {
    let mut object = autoscaler();
    object["spec"]["scaleTargetRef"]["kind"] = "Canary".into();
    let mut simulation = scaled(3, object);
    simulation.settle();
    assert_eq!(reason(&simulation, "AbleToScale"), ("False".into(), "FailedGetScale".into()));
}

#[test]
fn any_kind_that_has_a_scale_is_scaled_by_the_pods_its_selector_names() {
    const GAMES: Resource = Resource { group: "example.com", plural: "games" };
    let mut object = autoscaler();
    object["spec"]["scaleTargetRef"] =
        json!({ "apiVersion": "example.com/v1", "kind": "Game", "name": "web" });
    // The pods are those of a Deployment of that name.
    let mut simulation = scaled(3, object);
    assert_eq!(reason(&simulation, "AbleToScale"), ("False".into(), "FailedGetScale".into()));
    simulation.create(
        DEFINITIONS,
        json!({
            "metadata": { "name": "games.example.com" },
            "spec": {
                "group": "example.com", "names": { "kind": "Game", "plural": "games" },
                "versions": [{ "name": "v1", "subresources": { "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                } } }],
            },
        }),
    );
    simulation.create(GAMES, json!({ "metadata": { "name": "web" }, "spec": { "replicas": 3 } }));
    say(&simulation, "100");
    simulation.settle();
    assert_eq!(reason(&simulation, "ScalingActive").1, "InvalidSelector", "nobody wrote it down");
    simulation.patch(GAMES, "web", &json!({ "status": { "selector": "app=web" } }));
    simulation.advance(15);
    assert_eq!(count(&simulation.get(GAMES, "web"), "/spec/replicas"), 6);
    assert_eq!(replicas(&simulation), 3, "and nobody else is");
}

#[test]
fn the_most_demanding_metric_decides() {
    let mut object = autoscaler();
    object["spec"]["metrics"].as_array_mut().unwrap().push(json!({
        "type": "External", "external": {
            "metric": { "name": "queue" }, "target": { "type": "AverageValue", "averageValue": "10" },
        },
    }));
    let mut simulation = scaled(3, object);
    simulation.metrics.set("default", "web", "cpu", 50.0);
    simulation.metrics.set("default", "web", "queue", 75.0);
    simulation.advance(15);
    assert_eq!(replicas(&simulation), 6, "a surge is limited to twice the size");
    simulation.advance(15);
    assert_eq!(replicas(&simulation), 8, "75 in a queue, ten for each");
}
