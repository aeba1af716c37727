//! Objects that outlive a canary when its target does not: routes and Services do not lead to deleted pods,
//! whichever is deleted first, and nothing blocks the deletion for ever.

use kube_sandbox::{
    cluster::{Cluster as _, Deletion, EVENTS, Resource},
    faults::{Effect, Matcher, When},
    kubelet::Behaviour,
};
use serde_json::{Value, json};
use tidegate_tests::{
    providers::{canary_for, furnish},
    rollout::{
        CANARIES, DEPLOYMENTS, HTTP_ROUTES, OPERATOR, SERVICES, VIRTUAL_SERVICES, World, canary,
    },
};

use crate::stage::{
    GATEWAY_API, ISTIO, KUBERNETES, blue_green, by_weight, canary_of, initialized,
    initialized_with, kill_pods, object, reach, release, share_in, told, with_canary,
};

const TRAFFIC_ROUTES: Resource = Resource { group: "kuma.io", plural: "trafficroutes" };
const DEFINITIONS: Resource =
    Resource { group: "apiextensions.k8s.io", plural: "customresourcedefinitions" };

/// A canary that divides a route of the user's.
fn referring() -> Value {
    let mut canary = canary("web", GATEWAY_API, by_weight());
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    canary["spec"]["routeRef"] = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front",
    });
    canary
}

fn front() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "front" },
        "spec": {
            "parentRefs": [{ "name": "edge" }],
            "rules": [{ "backendRefs": [{ "name": "web", "port": 80 }] }],
        },
    })
}

/// `web` of Kuma, initialised.
async fn with_kuma() -> World {
    let mut world = with_canary(canary_for("kuma", by_weight()));
    furnish(&world, "kuma");
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(world.admin.list(TRAFFIC_ROUTES, None).len(), 1, "it has its route");
    world
}

fn is_gone(world: &World) -> bool {
    world.get(CANARIES, "web").is_none()
}

/// Deletes the target, then the canary, as `kubectl delete -f` of a folder may.
async fn delete_target_first(world: &World) {
    world.delete(DEPLOYMENTS, "web");
    world.advance_s(5).await;
    world.delete(CANARIES, "web");
    assert!(world.until(30, is_gone).await, "{:#} {:#?}", world.status("web"), world.events());
    world.advance_s(5).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_deleted_first_leaves_no_route_of_kuma_behind() {
    let world = with_kuma().await;
    delete_target_first(&world).await;
    assert_eq!(world.admin.list(TRAFFIC_ROUTES, None), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_deleted_first_leaves_no_users_route_divided() {
    for half_way in [false, true] {
        let mut world = with_canary(referring());
        let before = world.create(HTTP_ROUTES, front());
        world.start().await;
        reach(&world, "Initialized").await;
        if half_way {
            release(&world, "web:2.0");
            let share = |world: &World| share_in(&object(world, HTTP_ROUTES, "front"));
            assert!(world.until(60, |world| share(world) == 40).await);
        }
        delete_target_first(&world).await;
        let after = object(&world, HTTP_ROUTES, "front");
        assert_eq!(after["spec"], before["spec"], "half-way: {half_way}");
        assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_deleted_first_leaves_nothing_that_was_taken_over_as_it_was_made() {
    let mut canary = canary_of("web", ISTIO, by_weight());
    canary["spec"]["revertOnDeletion"] = json!(true);
    let mut world = with_canary(canary);
    let route = json!([{ "route": [{ "destination": { "host": "web" } }] }]);
    let before = world.create(
        VIRTUAL_SERVICES,
        json!({
            "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
            "metadata": { "name": "web" }, "spec": { "hosts": ["web"], "http": route },
        }),
    );
    let service = world.create(
        SERVICES,
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
            "spec": { "selector": { "app": "web" }, "ports": [
                { "name": "http", "port": 80, "targetPort": 8080 },
            ] },
        }),
    );
    world.start().await;
    reach(&world, "Initialized").await;
    assert_ne!(object(&world, VIRTUAL_SERVICES, "web")["spec"], before["spec"]);
    assert_ne!(object(&world, SERVICES, "web")["spec"]["selector"], service["spec"]["selector"]);
    delete_target_first(&world).await;
    assert_eq!(object(&world, VIRTUAL_SERVICES, "web")["spec"], before["spec"]);
    let after = object(&world, SERVICES, "web");
    assert_eq!(after["spec"], service["spec"]);
    assert_eq!(after["metadata"]["annotations"], service["metadata"]["annotations"]);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_never_comes_back_leaves_no_users_route_divided() {
    let mut world = with_canary(referring());
    let before = world.create(HTTP_ROUTES, front());
    world.start().await;
    reach(&world, "Initialized").await;
    world.sandbox.controllers().kubelet.behaviours.set("web:1.0", Behaviour::NeverReady);
    world.delete(CANARIES, "web");
    world.advance_s(120).await;
    assert_eq!(world.phase("web"), "Terminating", "it is given time");
    assert_ne!(object(&world, HTTP_ROUTES, "front")["spec"], before["spec"], "the primary serves");
    assert!(world.until(300, is_gone).await, "{:#}", world.status("web"));
    assert_eq!(object(&world, HTTP_ROUTES, "front")["spec"], before["spec"]);
    assert_eq!(told(&world, "RevertGivenUp"), 1, "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn a_route_that_cannot_be_given_back_keeps_no_canary_for_ever() {
    let mut canary = referring();
    canary["spec"]["analysis"]["interval"] = json!("1s");
    for target_goes in [true, false] {
        let mut world = with_canary(canary.clone());
        world.create(HTTP_ROUTES, front());
        world.start().await;
        reach(&world, "Initialized").await;
        let writes = Matcher::writes().user(OPERATOR);
        let writes = writes.resource(HTTP_ROUTES.group, HTTP_ROUTES.plural);
        let refusal = Effect::FailBefore { code: 403, reason: "Forbidden" };
        world.sandbox.server().faults.add(writes, When::Always, refusal);
        if target_goes {
            world.delete(DEPLOYMENTS, "web");
        }
        world.delete(CANARIES, "web");
        world.advance_s(100).await;
        assert!(!is_gone(&world), "it is tried for a while; the target goes: {target_goes}");
        assert!(world.until(300, is_gone).await, "{target_goes}: {:#}", world.status("web"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_gone_holds_no_canary_up() {
    let mut world = with_kuma().await;
    world.kill();
    for kind in ["trafficroutes.kuma.io", "meshhttproutes.kuma.io"] {
        world.admin.delete(DEFINITIONS, "", kind, &Deletion::default()).unwrap();
    }
    world.delete(CANARIES, "web");
    world.start().await;
    assert!(world.until(60, is_gone).await, "{:#}", world.status("web"));
}

#[tokio::test(start_paused = true)]
async fn a_service_of_the_canarys_own_is_not_touched_when_the_target_goes_first() {
    let mut canary = canary_of("web", KUBERNETES, blue_green());
    canary["spec"]["revertOnDeletion"] = json!(true);
    let mut world = with_canary(canary);
    world.start().await;
    reach(&world, "Initialized").await;
    kill_pods(&world, "web");
    delete_target_first(&world).await;
    assert_eq!(world.get(SERVICES, "web"), None, "it goes with the canary");
}

fn left_at_zero(world: &World) -> Vec<String> {
    let told = world.events().into_iter().filter(|(reason, _)| reason == "TargetLeftAtZero");
    told.map(|(_, message)| message).collect()
}

async fn delete_canary(world: &World, name: &str) {
    world.delete(CANARIES, name);
    assert!(world.until(60, |world| world.get(CANARIES, name).is_none()).await);
    world.advance_s(5).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_leaves_no_pods_is_told_with_the_command_that_brings_them_back() {
    let world = initialized(KUBERNETES, blue_green()).await;
    delete_canary(&world, "web").await;
    assert_eq!(object(&world, DEPLOYMENTS, "web")["spec"]["replicas"], 0, "as with Flagger");
    let want = "Canary web.default was deleted, and its target runs no pods; start them: kubectl \
                scale deployment web -n default --replicas=2";
    assert_eq!(left_at_zero(&world), [want]);
    let event =
        world.admin.list(EVENTS, None).into_iter().find(|it| it["reason"] == "TargetLeftAtZero");
    let event = event.unwrap_or_default();
    assert_eq!(event["involvedObject"]["kind"], "Deployment", "which is still there");
    assert_eq!(event["type"], "Warning");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_leaves_pods_or_another_canary_gets_no_event() {
    let mut reverting = canary_of("web", KUBERNETES, blue_green());
    reverting["spec"]["revertOnDeletion"] = json!(true);
    let world = initialized_with(reverting).await;
    delete_canary(&world, "web").await;
    assert_eq!(object(&world, DEPLOYMENTS, "web")["spec"]["replicas"], 2);
    assert_eq!(left_at_zero(&world), [""; 0], "it runs again");

    let world = initialized(KUBERNETES, blue_green()).await;
    world.advance_s(1).await;
    let mut rival = canary_of("rival", KUBERNETES, blue_green());
    rival["spec"]["targetRef"]["name"] = json!("web");
    world.create(CANARIES, rival);
    world.advance_s(5).await;
    delete_canary(&world, "rival").await;
    assert_eq!(left_at_zero(&world), [""; 0], "the older canary has it");

    let mut matching = blue_green();
    matching["match"] = json!([{ "headers": { "x-canary": { "exact": "yes" } } }]);
    let mut world = with_canary(canary_of("web", "linkerd", matching));
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 0 } }));
    world.start().await;
    world.advance_s(5).await;
    delete_canary(&world, "web").await;
    assert_eq!(left_at_zero(&world), [""; 0], "a refused canary scaled nothing");

    let mut world = initialized(KUBERNETES, blue_green()).await;
    world.kill();
    world.delete(CANARIES, "web");
    world.start().await;
    world.advance_s(5).await;
    assert_eq!(left_at_zero(&world), [""; 0], "it never saw the canary");
}
