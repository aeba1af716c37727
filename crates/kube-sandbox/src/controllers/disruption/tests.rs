//! Status of disruption budgets: allowed disruptions, and evictions that did not happen.

use serde_json::json;

use super::*;
use crate::{
    controllers::testing::{Simulation, deployment},
    kubelet::Behaviour,
};

fn guarded(rule: &Value) -> Simulation {
    let mut simulation = Simulation::new();
    let mut spec = json!({ "selector": { "matchLabels": { "app": "web" } } });
    for (key, value) in rule.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": spec,
    });
    simulation.create(DISRUPTION_BUDGETS, budget);
    simulation.create(DEPLOYMENTS, deployment("web", 5, "nginx:1"));
    simulation.settle();
    simulation
}

#[test]
fn a_budget_knows_how_many_pods_may_go() {
    let cases = [
        ("a number that must stay", json!({ "minAvailable": 4 }), (5, 4, 1)),
        ("a share that must stay, rounded up", json!({ "minAvailable": "50%" }), (5, 3, 2)),
        ("a number that may go", json!({ "maxUnavailable": 2 }), (5, 3, 2)),
        ("a share that may go, rounded up", json!({ "maxUnavailable": "30%" }), (5, 3, 2)),
        ("nothing may go", json!({ "maxUnavailable": 0 }), (5, 5, 0)),
    ];
    for (reason, rule, (expected, desired, allowed)) in cases {
        let mut simulation = guarded(&rule);
        let status = simulation.get(DISRUPTION_BUDGETS, "web")["status"].clone();
        assert_eq!(status["expectedPods"], expected, "{reason}");
        assert_eq!(status["currentHealthy"], 5, "{reason}");
        assert_eq!(status["desiredHealthy"], desired, "{reason}");
        assert_eq!(status["disruptionsAllowed"], allowed, "{reason}");
        let condition = simulation.condition(DISRUPTION_BUDGETS, "web", "DisruptionAllowed");
        let want = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
        assert_eq!(condition["reason"], want, "{reason}");
        simulation.assert_quiet();
    }
}

#[test]
fn pods_that_are_not_ready_use_the_budget_up() {
    let mut simulation = guarded(&json!({ "maxUnavailable": 1 }));
    simulation.behaviours.set("*", Behaviour::NeverReady);
    let pod = name(&simulation.list(PODS)[0]).to_owned();
    simulation.delete(PODS, &pod);
    simulation.settle();
    let status = simulation.get(DISRUPTION_BUDGETS, "web")["status"].clone();
    assert_eq!((&status["currentHealthy"], &status["disruptionsAllowed"]), (&json!(4), &json!(0)));
}

#[test]
fn an_eviction_that_did_not_happen_is_forgotten() {
    let mut simulation = guarded(&json!({ "maxUnavailable": 1 }));
    let pod = name(&simulation.list(PODS)[0]).to_owned();
    let at = crate::controllers::object::stamp(simulation.cluster.now());
    let granted = json!({ "status": { "disruptedPods": { pod: at } } });
    simulation.cluster.patch(DISRUPTION_BUDGETS, "default", "web", "status", &granted).unwrap();
    simulation.settle();
    let allowed = |simulation: &Simulation| {
        simulation.get(DISRUPTION_BUDGETS, "web")["status"]["disruptionsAllowed"].clone()
    };
    assert_eq!(allowed(&simulation), 0, "the grant counts as a disruption");
    simulation.advance(125);
    assert_eq!(allowed(&simulation), 1);
}
