//! Endpoints and `EndpointSlices` follow pods.

use std::collections::BTreeSet;

use kube_sandbox::cluster::{DEPLOYMENTS, ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES};
use serde_json::{Value, json};
use tidegate_tests::controllers::{World, deployment, merged, service, text};

fn addresses(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().map(|address| text(&address["ip"])).collect()
}

fn pod_addresses(world: &World) -> BTreeSet<String> {
    world.active_pods().iter().map(|pod| text(&pod["status"]["podIP"])).collect()
}

fn slice(world: &World, of: &str) -> Value {
    let slices = world.list(ENDPOINT_SLICES).into_iter();
    let ours =
        slices.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == of);
    let ours: Vec<_> = ours.collect();
    assert_eq!(ours.len(), 1, "{of} has one slice");
    ours.into_iter().next().expect("counted above")
}

fn ready_in_slice(world: &World, of: &str) -> BTreeSet<String> {
    let slice = slice(world, of);
    let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    let ready = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true);
    ready.map(|endpoint| text(&endpoint["addresses"][0])).collect()
}

#[test]
fn endpoints_follow_pods_through_scaling_and_readiness() {
    for (order, world) in World::orders() {
        world.create(SERVICES, service("web"));
        world.settle();
        assert_eq!(world.get(ENDPOINTS, "web").get("subsets"), None, "{order}: nobody there yet");
        assert_eq!(ready_in_slice(&world, "web"), BTreeSet::new(), "{order}");
        world.create(DEPLOYMENTS, deployment("web", 3, "nginx:1"));
        world.settle();
        let subsets = world.get(ENDPOINTS, "web")["subsets"].clone();
        let want = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
        assert_eq!(subsets[0]["ports"], want, "{order}");
        assert_eq!(addresses(&subsets[0]["addresses"]), pod_addresses(&world), "{order}");
        assert_eq!(ready_in_slice(&world, "web"), pod_addresses(&world), "{order}");
        let sick = world.names(PODS).remove(0);
        let behaviour = json!({ "sandbox.tidegate.dev/behaviour": "never-ready" });
        world.patch(PODS, &sick, &json!({ "metadata": { "annotations": behaviour } }));
        world.settle();
        let subsets = world.get(ENDPOINTS, "web")["subsets"].clone();
        let unready = text(&world.get(PODS, &sick)["status"]["podIP"]);
        assert_eq!(addresses(&subsets[0]["notReadyAddresses"]), BTreeSet::from([unready.clone()]));
        assert!(!ready_in_slice(&world, "web").contains(&unready), "{order}");
        world.scale(DEPLOYMENTS, "web", 1);
        world.settle();
        assert_eq!(ready_in_slice(&world, "web").len(), 1, "{order}");
        world.delete(SERVICES, "web");
        world.settle();
        assert!(world.find(ENDPOINTS, "web").is_none(), "{order}");
        let left = world.list(ENDPOINT_SLICES).len();
        assert_eq!(left, usize::from(world.find(SERVICES, "kubernetes").is_some() && left > 0));
        world.assert_quiet();
    }
}

#[test]
fn a_service_whose_selector_moves_takes_other_pods() {
    let world = World::new();
    world.create(SERVICES, service("web"));
    world.create(DEPLOYMENTS, deployment("web", 1, "nginx:1"));
    world.create(DEPLOYMENTS, deployment("other", 2, "nginx:1"));
    world.settle();
    assert_eq!(ready_in_slice(&world, "web").len(), 1);
    world.patch(SERVICES, "web", &json!({ "spec": { "selector": { "app": "other" } } }));
    world.settle();
    assert_eq!(ready_in_slice(&world, "web").len(), 2);
    assert_eq!(world.get(ENDPOINTS, "web")["subsets"][0]["addresses"].as_array().unwrap().len(), 2);
}

#[test]
fn a_service_without_a_selector_is_left_to_its_owner() {
    let world = World::new();
    let mut manual = service("manual");
    manual["spec"]["selector"] = Value::Null;
    world.create(SERVICES, manual);
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "manual" },
        "subsets": [{ "addresses": [{ "ip": "192.0.2.1" }], "ports": [{ "port": 80 }] }],
    });
    let written = world.create(ENDPOINTS, endpoints);
    world.settle();
    assert_eq!(world.get(ENDPOINTS, "manual"), written);
    let external = json!({ "spec": { "type": "ExternalName", "externalName": "example.com" } });
    world.create(SERVICES, merged(service("outside"), &external));
    world.settle();
    assert!(world.find(ENDPOINTS, "outside").is_none());
}

#[test]
fn a_pod_that_stops_leaves_the_ready_addresses_at_once() {
    use std::time::Duration;

    use kube_sandbox::kubelet::KubeletSettings;

    let slow =
        KubeletSettings { stop_delay: Duration::from_secs(20), ..KubeletSettings::instant() };
    let world = World::paced(slow);
    world.create(SERVICES, service("web"));
    world.create(DEPLOYMENTS, deployment("web", 1, "nginx:1"));
    world.settle();
    let name = world.names(PODS).remove(0);
    let address = text(&world.get(PODS, &name)["status"]["podIP"]);
    world.delete(PODS, &name);
    world.settle();
    assert!(!ready_in_slice(&world, "web").contains(&address));
    let slice = slice(&world, "web");
    let stopping = slice["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .find(|endpoint| endpoint["addresses"][0] == address.as_str());
    let want = json!({ "ready": false, "serving": true, "terminating": true });
    assert_eq!(stopping.unwrap()["conditions"], want, "it still serves what it has");
    world.advance(21);
    assert!(world.find(PODS, &name).is_none());
    assert_eq!(ready_in_slice(&world, "web"), pod_addresses(&world));
}
