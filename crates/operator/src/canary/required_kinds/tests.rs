use serde_json::{Value, json};
use tidegate_api::canary::Canary;
use tidegate_providers::{
    traffic::VIRTUAL_SERVICE,
    workload::{DAEMON_SET, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT},
};

use super::*;
use crate::canary::{observe::testing::Bench, testing::Kit};

fn kinds(bench: &Bench, provider: &str) -> Vec<&'static str> {
    let mesh = traffic::select(provider).unwrap();
    bench.with_env(|env| {
        let canary: Canary = serde_json::from_value(bench.canary.clone()).unwrap();
        let status = canary.status.clone().unwrap_or_default();
        let remembered = Remembered::of(status, false);
        let kinds = required_kinds(env, mesh, &canary.spec, &remembered);
        kinds.into_iter().map(|kind| kind.kind).collect()
    })
}

fn remembers(provider: &str) -> Value {
    json!({ "phase": "Succeeded", "rollout": { "provider": provider } })
}

#[test]
fn a_canary_needs_its_target_its_scaler_and_its_routes() {
    let plain = kinds(&Bench::new("istio"), "istio");
    assert!(plain.contains(&DEPLOYMENT.kind) && plain.contains(&VIRTUAL_SERVICE.kind), "{plain:?}");
    assert!(!plain.contains(&HORIZONTAL_POD_AUTOSCALER.kind), "{plain:?}");
    let scaled = Bench::new("kubernetes").spec(&json!({
        "targetRef": { "kind": "DaemonSet" },
        "autoscalerRef": { "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web" },
    }));
    let scaled = kinds(&scaled, "kubernetes");
    assert!(
        scaled.contains(&DAEMON_SET.kind) && scaled.contains(&SCALED_OBJECT.kind),
        "{scaled:?}"
    );
    assert!(!scaled.contains(&VIRTUAL_SERVICE.kind), "{scaled:?}");
}

#[test]
fn kinds_of_the_previous_provider_and_route_are_needed_too() {
    let moved = Bench::new("kubernetes").remembering(&remembers("istio"));
    assert!(kinds(&moved, "kubernetes").contains(&VIRTUAL_SERVICE.kind));
    let same = Bench::new("istio").remembering(&remembers("istio"));
    let both = kinds(&same, "istio");
    let routes = both.iter().filter(|kind| **kind == VIRTUAL_SERVICE.kind).count();
    assert_eq!(routes, 1, "once: {both:?}");
    let unknown = Bench::new("kubernetes").remembering(&remembers("parchment"));
    assert!(!kinds(&unknown, "kubernetes").contains(&VIRTUAL_SERVICE.kind));
    let route = json!({ "rollout": { "route": {
        "provider": "istio", "kind": "VirtualService", "name": "web", "service": "web",
    } } });
    let rerouted = Bench::new("kubernetes").remembering(&route);
    assert!(kinds(&rerouted, "kubernetes").contains(&VIRTUAL_SERVICE.kind));
}

#[test]
fn kinds_that_are_used_are_no_previous_ones() {
    let mesh = traffic::select("istio").unwrap();
    let bench = Bench::new("istio").remembering(&remembers("kubernetes"));
    bench.with_env(|env| {
        let canary: Canary = serde_json::from_value(bench.canary.clone()).unwrap();
        let remembered = Remembered::of(canary.status.unwrap_or_default(), false);
        let previous = previous_provider_kinds(env, mesh, &remembered);
        assert!(previous.iter().all(|kind| !mesh.kinds().contains(kind)), "{previous:?}");
    });
}

#[test]
fn further_kinds_are_those_that_are_served() {
    let bench = Bench::new("istio");
    let canary: Canary = serde_json::from_value(bench.canary.clone()).unwrap();
    let plain = traffic::select("kubernetes").unwrap();
    let optional = |mesh| optional_kinds(&bench.cluster, mesh, &canary.spec);
    assert_eq!(optional(plain), [], "a provider without routes");
    let gateway = traffic::select("gatewayapi:v1").unwrap();
    assert_eq!(optional(gateway), [], "nothing is known to be served");
}

#[tokio::test(start_paused = true)]
async fn further_kinds_of_the_gateway_api_are_those_in_its_document() {
    let kit = Kit::at_rest(&json!({}), &json!({}));
    let canary: Canary = serde_json::from_value(kit.live()).unwrap();
    let mesh = traffic::select("gatewayapi:v1").unwrap();
    let group = "gateway.networking.k8s.io";
    let schema = |kind: &str| {
        json!({ "x-kubernetes-group-version-kind":
            [{ "group": group, "version": "v1", "kind": kind }] })
    };
    let schemas = json!({ "a": schema("HTTPRoute"), "b": schema("GRPCRoute") });
    kit.api.put_at("/v1", json!({ "components": { "schemas": schemas } }));
    let path = format!("apis/{group}/v1");
    kit.api.put_at("/openapi/v3", json!({ "paths": { path: { "serverRelativeURL": "/v1" } } }));
    let required = mesh.kinds_for(&canary.spec);
    assert_eq!(required.len(), 1);
    kit.cx.cluster.clone().load_schema(required[0]).await;
    let optional = optional_kinds(&kit.cx.cluster, mesh, &canary.spec);
    assert_eq!(optional.iter().map(|it| it.kind).collect::<Vec<_>>(), ["GRPCRoute"]);
}
