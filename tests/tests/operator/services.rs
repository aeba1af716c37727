//! Services of others: which a canary takes over, which it leaves as they are, and how they are given back.

use kube_sandbox::cluster::{Cluster as _, Deletion};
use serde_json::{Value, json};
use tidegate_tests::rollout::{CANARIES, DEPLOYMENTS, SERVICES, World, deployment};

use crate::stage::{
    GATEWAY_API, ISTIO, KUBERNETES, blue_green, by_weight, canary_of, condition, edit, image,
    initialized_with, object, reach, release, told, with_canary,
};

const HANDED_OVER: &str = "tidegate.dev/canary";
const FINALIZER: &str = "finalizer.flagger.app";

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }] },
    });
    if let (Some(all), Value::Object(more)) = (service["spec"].as_object_mut(), spec) {
        all.extend(more);
    }
    service
}

fn selecting(name: &str, app: &str) -> Value {
    service(name, json!({ "selector": { "app": app } }))
}

fn naming(provider: &str, service: &str) -> Value {
    let analysis = if provider == KUBERNETES { blue_green() } else { by_weight() };
    let mut canary = canary_of("web", provider, analysis);
    canary["spec"]["service"]["name"] = json!(service);
    canary
}

/// The parts of a Service that its owner wrote.
fn written(world: &World, name: &str) -> (Value, Value) {
    let service = object(world, SERVICES, name);
    (service["spec"].clone(), service["metadata"]["annotations"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_service_that_serves_something_else_is_left_as_it_is() {
    let external = json!({ "type": "ExternalName", "externalName": "example.com", "ports": null });
    let cases = [
        ("another workload's", "shop", selecting("shop", "cart"), "selects other pods"),
        ("one without a selector", "shop", service("shop", json!({})), "has no selector"),
        ("an ExternalName", "shop", service("shop", external), "ExternalName"),
        ("the API server's", "kubernetes", service("kubernetes", json!({})), "has no selector"),
        ("under the primary's name", "shop", selecting("shop-primary", "cart"), "other pods"),
        ("under the canary's name", "shop", selecting("shop-canary", "cart"), "other pods"),
    ];
    for provider in [KUBERNETES, GATEWAY_API, ISTIO] {
        for (reason, name, theirs, why) in &cases {
            let mut world = with_canary(naming(provider, name));
            let theirs_is = theirs["metadata"]["name"].as_str().unwrap_or_default();
            if *name != "kubernetes" {
                world.create(SERVICES, theirs.clone());
            }
            let before = written(&world, theirs_is);
            world.start().await;
            world.advance_s(60).await;
            assert_eq!(written(&world, theirs_is), before, "{provider}: {reason}");
            let (_, status, message) = condition(&world, "web", "Stalled");
            assert!(message.contains(why), "{provider}: {reason}: {status} {message}");
            assert_eq!(world.get(DEPLOYMENTS, "web-primary"), None, "{reason}: nothing half-done");
            world.admin.delete(CANARIES, "default", "web", &Deletion::default()).unwrap();
            world.advance_s(60).await;
            assert_eq!(written(&world, theirs_is), before, "{provider}: {reason}: deleted");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_of_the_target_is_taken_over_and_one_that_leads_to_the_primary_already() {
    for app in ["web", "web-primary"] {
        let mut world = with_canary(naming(KUBERNETES, "shop"));
        world.create(SERVICES, selecting("shop", app));
        world.start().await;
        reach(&world, "Initialized").await;
        let (spec, _) = written(&world, "shop");
        assert_eq!(spec["selector"], json!({ "app": "web-primary" }), "{app}");
        assert_eq!(told(&world, "ServiceTakenOver"), usize::from(app == "web"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_was_handed_over_is_taken_and_given_back() {
    let mut world = with_canary(naming(KUBERNETES, "shop"));
    let mut lent = selecting("shop", "cart");
    lent["metadata"]["annotations"] = json!({ HANDED_OVER: "web" });
    world.create(SERVICES, lent);
    let before = written(&world, "shop");
    world.start().await;
    reach(&world, "Initialized").await;
    let (spec, _) = written(&world, "shop");
    assert_eq!(spec["selector"], json!({ "app": "web-primary" }));
    let finalizers = object(&world, CANARIES, "web")["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!([FINALIZER]), "its owner gets it back without revertOnDeletion");
    world.admin.delete(CANARIES, "default", "web", &Deletion::default()).unwrap();
    assert!(world.until(120, |world| world.get(CANARIES, "web").is_none()).await);
    let (spec, annotations) = written(&world, "shop");
    assert_eq!(spec["selector"], before.0["selector"]);
    assert_eq!(annotations, before.1);
}

#[tokio::test(start_paused = true)]
async fn a_service_handed_over_to_another_canary_is_left_as_it_is() {
    let mut world = with_canary(naming(KUBERNETES, "shop"));
    let mut lent = selecting("shop", "cart");
    lent["metadata"]["annotations"] = json!({ HANDED_OVER: "cart" });
    world.create(SERVICES, lent);
    let before = written(&world, "shop");
    world.start().await;
    world.advance_s(60).await;
    assert_eq!(written(&world, "shop"), before);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_was_taken_over_follows_the_canary_to_another_target() {
    let mut world = with_canary(naming(GATEWAY_API, "shop"));
    world.create(SERVICES, selecting("shop", "web"));
    world.create(DEPLOYMENTS, deployment("shop2", "web:1.0", 2));
    world.start().await;
    reach(&world, "Initialized").await;
    edit(&world, json!({ "targetRef": { "name": "shop2" } }));
    let moved = |world: &World| {
        object(world, SERVICES, "shop")["spec"]["selector"]["app"] == "shop2-primary"
    };
    assert!(world.until(120, moved).await, "{:#}", world.status("web"));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_whose_service_name_becomes_another_workloads_goes_back() {
    let mut canary = naming(GATEWAY_API, "web");
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    let world = initialized_with(canary).await;
    world.create(SERVICES, selecting("shop", "cart"));
    let before = written(&world, "shop");
    release(&world, "web:2.0");
    reach(&world, "Progressing").await;
    edit(&world, json!({ "service": { "name": "shop" } }));
    reach(&world, "Failed").await;
    assert_eq!(written(&world, "shop"), before);
    assert_eq!(image(&world, "web-primary"), "web:1.0");
}
