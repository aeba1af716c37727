//! Contents of endpoint slices, and how they change.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{
    cluster::DEPLOYMENTS,
    controllers::testing::{Simulation, deployment, service, set_image},
    kubelet::{Behaviour, KubeletSettings},
};

fn slices(simulation: &Simulation) -> Vec<Value> {
    simulation.list(ENDPOINT_SLICES)
}

fn endpoints(simulation: &Simulation) -> Vec<Value> {
    slices(simulation).iter().flat_map(|slice| items(slice, "/endpoints").to_vec()).collect()
}

#[test]
fn a_service_without_pods_has_one_empty_slice_which_is_then_filled() {
    let mut simulation = Simulation::new();
    simulation.create(SERVICES, service("web"));
    simulation.settle();
    let empty = slices(&simulation).remove(0);
    assert_eq!((items(&empty, "/endpoints").len(), items(&empty, "/ports").len()), (0, 0));
    simulation.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
    simulation.settle();
    let slice = slices(&simulation).remove(0);
    assert_eq!(name(&slice), name(&empty), "the same slice is used");
    assert!(name(&slice).starts_with("web-"));
    assert_eq!(label(&slice, SERVICE_NAME), Some("web"));
    assert_eq!(label(&slice, MANAGED_BY), Some(MANAGER));
    assert_eq!(slice["ports"], json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]));
    let ready = json!({ "ready": true, "serving": true, "terminating": false });
    for endpoint in items(&slice, "/endpoints") {
        assert_eq!(endpoint["conditions"], ready);
        let pod = simulation.get(PODS, text(endpoint, "/targetRef/name"));
        assert_eq!(endpoint["addresses"][0], pod["status"]["podIP"]);
        assert_eq!(endpoint["nodeName"], pod["spec"]["nodeName"]);
    }
    simulation.assert_quiet();
}

#[test]
fn a_stopping_pod_is_still_serving_but_not_ready() {
    let kubelet =
        KubeletSettings { stop_delay: Duration::from_secs(5), ..KubeletSettings::instant() };
    let mut simulation = Simulation::with(kubelet, 5);
    simulation.create(SERVICES, service("web"));
    simulation.create(DEPLOYMENTS, deployment("web", 1, "nginx:1"));
    simulation.settle();
    simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 0 } }));
    simulation.settle();
    let stopping = json!({ "ready": false, "serving": true, "terminating": true });
    assert_eq!(endpoints(&simulation)[0]["conditions"], stopping);
    simulation.advance(5);
    assert!(endpoints(&simulation).is_empty());
    assert_eq!(slices(&simulation).len(), 1);
}

#[test]
fn unready_pods_are_listed_as_not_ready() {
    let mut simulation = Simulation::new();
    simulation.behaviours.set("*", Behaviour::NeverReady);
    simulation.create(SERVICES, service("web"));
    simulation.create(DEPLOYMENTS, deployment("web", 1, "nginx:1"));
    simulation.settle();
    assert_eq!(endpoints(&simulation)[0]["conditions"]["ready"], false);
    simulation.patch(SERVICES, "web", &json!({ "spec": { "publishNotReadyAddresses": true } }));
    simulation.settle();
    assert_eq!(endpoints(&simulation)[0]["conditions"]["ready"], true);
    assert_eq!(endpoints(&simulation)[0]["conditions"]["serving"], false);
}

#[test]
fn a_slice_holds_a_hundred_and_shrinks_without_shuffling() {
    let mut simulation = Simulation::new();
    simulation.create(SERVICES, service("web"));
    simulation.create(DEPLOYMENTS, deployment("web", 120, "nginx:1"));
    simulation.settle();
    let sizes = |simulation: &Simulation| {
        let mut sizes: Vec<_> =
            slices(simulation).iter().map(|slice| items(slice, "/endpoints").len()).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&simulation), [20, 100]);
    simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 30 } }));
    simulation.settle();
    assert_eq!(sizes(&simulation).iter().sum::<usize>(), 30);
    simulation.assert_quiet();
}

#[test]
fn pods_with_another_port_go_into_another_slice() {
    let mut simulation = Simulation::new();
    simulation.create(SERVICES, service("web"));
    simulation.create(DEPLOYMENTS, deployment("web", 4, "nginx:1"));
    simulation.settle();
    simulation.behaviours.set("*:2", Behaviour::NeverReady);
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:2");
    let mut containers =
        simulation.get(DEPLOYMENTS, "web")["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["ports"][0]["containerPort"] = 9090.into();
    let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    simulation.patch(DEPLOYMENTS, "web", &patch);
    simulation.settle();
    let mut ports: Vec<_> =
        slices(&simulation).iter().map(|slice| slice["ports"][0]["port"].clone()).collect();
    ports.sort_by_key(Value::as_i64);
    assert_eq!(ports, [json!(8080), json!(9090)]);
}
