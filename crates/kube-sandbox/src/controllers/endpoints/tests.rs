//! Contents of Endpoints objects, and Services without published endpoints.

use serde_json::json;

use super::*;
use crate::{
    cluster::DEPLOYMENTS,
    controllers::testing::{Simulation, deployment, service},
    kubelet::Behaviour,
};

fn served(replicas: i64, service: Value) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.create(SERVICES, service);
    simulation.create(DEPLOYMENTS, deployment("web", replicas, "nginx:1"));
    simulation.settle();
    simulation
}

#[test]
fn ready_pods_are_published_with_the_port_their_container_names() {
    let mut simulation = served(2, service("web"));
    let endpoints = simulation.get(ENDPOINTS, "web");
    let subset = &endpoints["subsets"][0];
    assert_eq!(subset["ports"], json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]));
    let addresses = items(subset, "/addresses");
    assert_eq!(addresses.len(), 2);
    let pod = simulation.get(PODS, text(&addresses[0], "/targetRef/name"));
    assert_eq!(addresses[0]["ip"], pod["status"]["podIP"]);
    assert_eq!(addresses[0]["nodeName"], pod["spec"]["nodeName"]);
    assert_eq!(endpoints["metadata"]["labels"]["of"], "web");
    assert_eq!(endpoints["metadata"]["labels"][MANAGED_BY], "endpoint-controller");
    simulation.assert_quiet();
}

#[test]
fn unready_pods_are_published_as_such_unless_the_service_wants_them_all() {
    let mut simulation = served(1, service("web"));
    simulation.behaviours.set("*", Behaviour::NeverReady);
    simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 2 } }));
    simulation.settle();
    let subset = simulation.get(ENDPOINTS, "web")["subsets"][0].clone();
    let counts = |subset: &Value| {
        (items(subset, "/addresses").len(), items(subset, "/notReadyAddresses").len())
    };
    assert_eq!(counts(&subset), (1, 1));
    simulation.patch(SERVICES, "web", &json!({ "spec": { "publishNotReadyAddresses": true } }));
    simulation.settle();
    assert_eq!(counts(&simulation.get(ENDPOINTS, "web")["subsets"][0]), (2, 0));
}

#[test]
fn services_that_others_publish_for_are_left_alone() {
    let mut simulation = Simulation::new();
    let mut manual = service("manual");
    manual["spec"]["selector"] = Value::Null;
    let mut external = service("external");
    external["spec"]["type"] = "ExternalName".into();
    simulation.create(SERVICES, manual);
    simulation.create(SERVICES, external);
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "manual" },
        "subsets": [{ "addresses": [{ "ip": "192.0.2.1" }] }],
    });
    simulation.create(ENDPOINTS, endpoints);
    simulation.settle();
    assert!(simulation.find(ENDPOINTS, "external").is_none());
    assert_eq!(
        simulation.get(ENDPOINTS, "manual")["subsets"][0]["addresses"][0]["ip"],
        "192.0.2.1"
    );
    simulation.delete(SERVICES, "manual");
    simulation.settle();
    assert!(simulation.find(ENDPOINTS, "manual").is_some());
}

#[test]
fn endpoints_go_with_their_service_and_come_back_when_deleted_alone() {
    let mut simulation = served(1, service("web"));
    simulation.delete(ENDPOINTS, "web");
    simulation.settle();
    assert_eq!(items(&simulation.get(ENDPOINTS, "web"), "/subsets").len(), 1);
    simulation.delete(SERVICES, "web");
    simulation.settle();
    assert!(simulation.find(ENDPOINTS, "web").is_none());
}

#[test]
fn a_headless_service_needs_no_ports() {
    let mut headless = service("web");
    headless["spec"]["clusterIP"] = "None".into();
    headless["spec"]["ports"] = json!([]);
    let simulation = served(2, headless);
    let endpoints = simulation.get(ENDPOINTS, "web");
    assert_eq!(items(&endpoints, "/subsets/0/addresses").len(), 2);
    assert_eq!(endpoints["metadata"]["labels"][HEADLESS], "");
}
