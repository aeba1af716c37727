//! A spec that names another route in mid-rollout, or an invalid one: the former route keeps no share, the
//! next one takes over, and a rollout without a route ends in time.

use kube_sandbox::{
    cluster::{Cluster as _, Deletion, NODES, Resource},
    faults::{Effect, Matcher, When},
};
use serde_json::{Value, json};
use tidegate_tests::{
    providers::{canary_for, furnish, promoted_image, users_objects},
    rollout::{
        CANARIES, GRPC_ROUTES, HTTP_ROUTES, OPERATOR, SERVICES, VIRTUAL_SERVICES, World, canary,
    },
    trace::live_split,
};

use crate::stage::{
    GATEWAY_API, ISTIO, KUBERNETES, blue_green, by_weight, canary_of, canary_share, condition,
    edit, history, initialized_with, object, reach, release, replicas, revision, share_in, text,
    told, with_canary,
};

const INGRESSES: Resource = Resource { group: "networking.k8s.io", plural: "ingresses" };
const APISIX_ROUTES: Resource = Resource { group: "apisix.apache.org", plural: "apisixroutes" };
const DEFINITIONS: Resource =
    Resource { group: "apiextensions.k8s.io", plural: "customresourcedefinitions" };

/// Providers that divide a route of the user's, or a copy of one, and the kinds of those.
const REFERRING: [(&str, Resource); 4] = [
    (GATEWAY_API, HTTP_ROUTES),
    ("nginx", INGRESSES),
    ("skipper", INGRESSES),
    ("apisix", APISIX_ROUTES),
];

/// A route that the user has before the canary.
fn users_route(provider: &str, name: &str) -> Value {
    let rule = json!({ "backendRefs": [{ "name": "web", "port": 80 }] });
    let mut route = users_objects(provider).pop().unwrap_or_else(|| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {}, "spec": { "parentRefs": [{ "name": "edge" }], "rules": [rule] },
        })
    });
    route["metadata"]["name"] = json!(name);
    route
}

/// The edit that makes the canary refer to another route.
fn referring_to(provider: &str, name: &str) -> Value {
    let field = if ["nginx", "skipper"].contains(&provider) { "ingressRef" } else { "routeRef" };
    json!({ field: { "name": name } })
}

fn with_deadline(mut canary: Value) -> Value {
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    canary
}

/// `web` over `front`, with 2.0 at 40 percent, and `back` beside it.
async fn referring(provider: &str, table: Resource) -> World {
    let mut canary = with_deadline(canary_for(provider, by_weight()));
    let is_own = provider == GATEWAY_API;
    if is_own {
        canary["spec"]["routeRef"] = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front",
        });
    }
    let world = with_canary(canary);
    furnish(&world, provider);
    if is_own {
        world.create(table, users_route(provider, "front"));
    }
    world.create(table, users_route(provider, "back"));
    half_way(world).await
}

/// With 2.0 at 40 percent.
async fn half_way(mut world: World) -> World {
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    let is_there = world.until(100, |it| it.status("web")["canaryWeight"] == 40).await;
    assert!(is_there, "{:#} {:#?}", world.status("web"), world.events());
    world
}

/// Edits the canary while the operator runs, or while it does not.
async fn change(world: &mut World, is_down: bool, spec: Value) {
    if is_down {
        world.kill();
    }
    edit(world, spec);
    if is_down {
        world.start().await;
    }
    world.advance_s(2).await;
}

/// The canary's share by the route of this canary; 0 if that divides nothing.
fn share_by(world: &World, canary: &Value) -> i64 {
    let split = live_split(&world.admin, canary, &world.options.mesh_provider);
    split.map_or(0, |split| split.canary.into())
}

/// The backends of the first rule of a route of the user's.
fn backends(world: &World, name: &str) -> Vec<String> {
    let rule = object(world, HTTP_ROUTES, name)["spec"]["rules"][0].clone();
    let backends = rule["backendRefs"].as_array().cloned().unwrap_or_default();
    backends.iter().map(|backend| text(&backend["name"])).collect()
}

/// The rollout ends, and no traffic goes to deleted pods.
async fn goes_back(world: &World, case: &str) {
    let is_back = world.until(150, |it| it.phase("web") == "Failed").await;
    assert!(is_back, "{case}: {:#} {:#?}", world.status("web"), world.events());
    assert_eq!(replicas(world, "web"), 0, "{case}");
    assert_eq!(world.status("web")["canaryWeight"], 0, "{case}");
    assert_eq!(world.status("web")["rollout"]["route"], Value::Null, "{case}");
    assert_eq!(promoted_image(world), "web:1.0", "{case}: nothing passed");
}

// === Another reference ===

#[tokio::test(start_paused = true)]
async fn a_reference_that_is_renamed_in_mid_run_passes_its_share_on() {
    for (provider, table) in REFERRING {
        for is_down in [false, true] {
            let case = format!("{provider}, nobody looks: {is_down}");
            let mut world = referring(provider, table).await;
            let before = object(&world, CANARIES, "web");
            let known = text(&before["status"]["rollout"]["route"]["name"]);
            assert!(known.starts_with("front"), "{case}: {known}");
            change(&mut world, is_down, referring_to(provider, "back")).await;
            assert_eq!(share_by(&world, &before), 0, "{case}: {:#?}", world.events());
            assert_eq!(share_by(&world, &object(&world, CANARIES, "web")), 40, "{case}");
            let known = text(&world.status("web")["rollout"]["route"]["name"]);
            assert!(known.starts_with("back"), "{case}: {known}");
            assert_eq!(told(&world, "RouteLeft"), 1, "{case}");
            reach(&world, "Succeeded").await;
            world.advance_s(30).await;
            assert_eq!(promoted_image(&world), "web:2.0", "{case}");
            assert_eq!(world.status("web")["rollout"]["route"], Value::Null, "{case}: it is over");
            assert_eq!(share_by(&world, &before), 0, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_users_route_that_is_left_in_mid_run_is_as_it_was() {
    let mut world = referring(GATEWAY_API, HTTP_ROUTES).await;
    change(&mut world, false, referring_to(GATEWAY_API, "back")).await;
    assert_eq!(backends(&world, "front"), ["web"]);
    let calls = json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GRPCRoute",
        "metadata": { "name": "front" }, "spec": {
            "parentRefs": [{ "name": "edge" }],
            "rules": [{ "backendRefs": [{ "name": "web", "port": 80 }] }],
        } });
    world.create(GRPC_ROUTES, calls);
    let reference = json!({ "routeRef": { "kind": "GRPCRoute", "name": "front" } });
    change(&mut world, false, reference).await;
    assert_eq!(share_in(&object(&world, HTTP_ROUTES, "back")), 0, "{:#?}", world.events());
    assert_eq!(share_in(&object(&world, GRPC_ROUTES, "front")), 40, "another kind, another route");
    reach(&world, "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_a_route_that_is_not_there_ends_in_time() {
    for (provider, table) in REFERRING {
        for is_down in [false, true] {
            let case = format!("{provider}, nobody looks: {is_down}");
            let mut world = referring(provider, table).await;
            let before = object(&world, CANARIES, "web");
            change(&mut world, is_down, referring_to(provider, "nowhere")).await;
            assert_eq!(share_by(&world, &before), 0, "{case}: at once");
            assert_eq!(world.phase("web"), "Progressing", "{case}: it may come yet");
            let (_, _, message) = condition(&world, "web", "Stalled");
            assert!(message.contains("default/nowhere does not exist"), "{case}: {message}");
            goes_back(&world, &case).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_that_comes_in_time_takes_over() {
    let mut world = referring(GATEWAY_API, HTTP_ROUTES).await;
    change(&mut world, false, referring_to(GATEWAY_API, "late")).await;
    world.advance_s(20).await;
    world.create(HTTP_ROUTES, users_route(GATEWAY_API, "late"));
    world.settle().await;
    assert_eq!(share_in(&object(&world, HTTP_ROUTES, "late")), 40, "{:#?}", world.events());
    reach(&world, "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn pods_stay_for_as_long_as_a_former_route_cannot_be_led_back() {
    let mut world = referring(GATEWAY_API, HTTP_ROUTES).await;
    let group = "gateway.networking.k8s.io";
    let writes = Matcher::writes().user(OPERATOR).resource(group, "httproutes").name("front");
    let faults = world.sandbox.server().faults.clone();
    let refusal = Effect::FailBefore { code: 403, reason: "Forbidden" };
    let rule = faults.add(writes, When::Always, refusal);
    change(&mut world, false, referring_to(GATEWAY_API, "nowhere")).await;
    world.advance_s(150).await;
    assert_eq!(world.phase("web"), "Progressing", "{:#?}", world.events());
    assert_eq!(replicas(&world, "web"), 2, "users are led there still");
    assert_eq!(share_in(&object(&world, HTTP_ROUTES, "front")), 40);
    faults.remove(rule);
    goes_back(&world, "allowed again").await;
    assert_eq!(share_in(&object(&world, HTTP_ROUTES, "front")), 0);
}

/// As Flagger leaves it, or definitions that do not have the field.
#[tokio::test(start_paused = true)]
async fn pods_stay_where_nobody_remembers_which_route_leads_to_them() {
    let mut world = referring(GATEWAY_API, HTTP_ROUTES).await;
    world.kill();
    let forgotten = json!({ "status": { "rollout": { "route": null } } });
    world.admin.patch(CANARIES, "default", "web", "status", &forgotten).expect("it is taken");
    edit(&world, referring_to(GATEWAY_API, "nowhere"));
    world.start().await;
    world.advance_s(150).await;
    assert_eq!(share_in(&object(&world, HTTP_ROUTES, "front")), 40, "nobody knows of it");
    assert_eq!(replicas(&world, "web"), 2, "users are led there: {:#?}", world.events());
    edit(&world, referring_to(GATEWAY_API, "front"));
    goes_back(&world, "it is found again").await;
    assert_eq!(share_in(&object(&world, HTTP_ROUTES, "front")), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_gives_a_former_route_back_too() {
    let gateways = json!([{ "name": "edge" }]);
    let edits = [
        referring_to(GATEWAY_API, "back"),
        json!({ "routeRef": null, "service": { "gatewayRefs": gateways } }),
    ];
    for spec in edits {
        let mut world = referring(GATEWAY_API, HTTP_ROUTES).await;
        world.kill();
        edit(&world, spec.clone());
        world.delete(CANARIES, "web");
        world.start().await;
        let is_gone = world.until(120, |it| it.get(CANARIES, "web").is_none()).await;
        assert!(is_gone, "{spec}: {:#} {:#?}", world.status("web"), world.events());
        for name in ["front", "back"] {
            assert_eq!(backends(&world, name), ["web"], "{spec}: {name}");
        }
    }
}

// === Another provider, or another kind of it ===

#[tokio::test(start_paused = true)]
async fn a_provider_or_protocol_that_is_changed_in_mid_run_leaves_no_share_behind() {
    let gateways = json!([{ "name": "edge" }]);
    let of = |provider: &str| with_deadline(canary_of("web", provider, by_weight()));
    let mut calls = of(GATEWAY_API);
    calls["spec"]["service"]["appProtocol"] = json!("grpc");
    let cases = [
        (
            of(ISTIO),
            json!({ "provider": GATEWAY_API, "service": { "gatewayRefs": gateways } }),
            [VIRTUAL_SERVICES, HTTP_ROUTES],
        ),
        (
            of(GATEWAY_API),
            json!({ "service": { "appProtocol": "grpc" } }),
            [HTTP_ROUTES, GRPC_ROUTES],
        ),
        (calls, json!({ "provider": "gatewayapi:v1beta1" }), [GRPC_ROUTES, HTTP_ROUTES]),
    ];
    for (canary, spec, [from, to]) in cases {
        for is_down in [false, true] {
            let case = format!("{spec}, nobody looks: {is_down}");
            let mut world = half_way(with_canary(canary.clone())).await;
            let share = |world: &World, table| share_in(&object(world, table, "web"));
            assert_eq!(share(&world, from), 40, "{case}");
            change(&mut world, is_down, spec.clone()).await;
            assert_eq!(share(&world, from), 0, "{case}: {:#?}", world.events());
            assert_eq!(share(&world, to), 40, "{case}: {:#?}", world.events());
            reach(&world, "Succeeded").await;
            world.advance_s(30).await;
            assert_eq!(world.get(from, "web"), None, "{case}");
            assert_eq!(promoted_image(&world), "web:2.0", "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_protocol_that_there_is_no_route_for_ends_in_time() {
    for is_served in [false, true] {
        let case = format!("served: {is_served}");
        let mut canary = with_deadline(canary_of("web", GATEWAY_API, by_weight()));
        // GRPCRoutes have none.
        canary["spec"]["service"]["timeout"] = json!("15s");
        let world = with_canary(canary);
        if !is_served {
            let name = "grpcroutes.gateway.networking.k8s.io";
            let gone = world.admin.delete(DEFINITIONS, "", name, &Deletion::default());
            gone.expect("it was there");
        }
        let mut world = half_way(world).await;
        change(&mut world, false, json!({ "service": { "appProtocol": "grpc" } })).await;
        assert_eq!(canary_share(&world), 0, "{case}: {:#?}", world.events());
        goes_back(&world, &case).await;
        assert!(world.get(HTTP_ROUTES, "web").is_some(), "{case}: clients have no other");
    }
}

// === No service ===

#[tokio::test(start_paused = true)]
async fn a_service_that_is_taken_out_of_the_spec_does_not_freeze_a_share() {
    for provider in [GATEWAY_API, ISTIO, "nginx", "kuma", "appmesh:v1beta2"] {
        for is_down in [false, true] {
            let case = format!("{provider}, nobody looks: {is_down}");
            let world = with_canary(with_deadline(canary_for(provider, by_weight())));
            furnish(&world, provider);
            let mut world = half_way(world).await;
            change(&mut world, is_down, json!({ "service": null })).await;
            let (_, reason, message) = condition(&world, "web", "Stalled");
            assert_eq!(reason, "Obstructed", "{case}");
            assert!(message.contains("spec.service"), "{case}: {message}");
            goes_back(&world, &case).await;
            assert_eq!(share_by(&world, &object(&world, CANARIES, "web")), 0, "{case}");
            world.advance_s(30).await;
            let (_, reason, message) = condition(&world, "web", "Stalled");
            assert_eq!(reason, "Refused", "{case}: the next one is not begun");
            assert!(message.contains("spec.service"), "{case}: {message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_comes_back_in_time_lets_the_rollout_go_on() {
    let mut world =
        half_way(with_canary(with_deadline(canary_of("web", ISTIO, by_weight())))).await;
    let service = object(&world, CANARIES, "web")["spec"]["service"].clone();
    change(&mut world, false, json!({ "service": null })).await;
    world.advance_s(30).await;
    assert_eq!(canary_share(&world), 40, "it stays where it is");
    change(&mut world, false, json!({ "service": service })).await;
    reach(&world, "Succeeded").await;
    assert_eq!(promoted_image(&world), "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn an_apex_that_was_switched_goes_back_when_its_service_leaves_the_spec() {
    for name in [None, Some("shop")] {
        for is_down in [false, true] {
            let case = format!("{name:?}, nobody looks: {is_down}");
            let mut canary = with_deadline(canary("web", KUBERNETES, blue_green()));
            canary["spec"]["service"]["switchApex"] = json!(true);
            canary["spec"]["service"]["name"] = json!(name.unwrap_or("web"));
            let apex = name.unwrap_or("web");
            let selects =
                |world: &World| text(&object(world, SERVICES, apex)["spec"]["selector"]["app"]);
            let mut world = initialized_with(canary).await;
            // The observer of invariants cannot know another name once it is removed from the spec.
            world.collects_violations = name.is_some();
            release(&world, "web:2.0");
            assert!(world.until(200, |it| selects(it) == "web").await, "{case}");
            change(&mut world, is_down, json!({ "service": null })).await;
            assert_eq!(selects(&world), "web-primary", "{case}: {:#?}", world.events());
            goes_back(&world, &case).await;
            assert_eq!(selects(&world), "web-primary", "{case}");
        }
    }
}

/// Where the status says which pods the apex selects, nothing else decides it.
#[tokio::test(start_paused = true)]
async fn a_switch_that_is_taken_out_after_a_failed_promotion_is_handed_back_once() {
    let mut canary = with_deadline(canary("web", KUBERNETES, blue_green()));
    canary["spec"]["service"]["switchApex"] = json!(true);
    let world = initialized_with(canary).await;
    let selects = |world: &World| text(&object(world, SERVICES, "web")["spec"]["selector"]["app"]);
    let cordon = |is_closed: bool| {
        for node in world.admin.list(NODES, None) {
            let closed = json!({ "spec": { "unschedulable": is_closed } });
            let name = text(&node["metadata"]["name"]);
            world.admin.patch(NODES, "", &name, "", &closed).expect("it is taken");
        }
    };
    release(&world, "web:2.0");
    assert!(world.until(200, |it| selects(it) == "web").await, "{:#?}", world.events());
    cordon(true);
    let has_failed = world.until(900, |it| it.phase("web") == "Failed").await;
    assert!(has_failed, "{:#} {:#?}", world.status("web"), world.events());
    assert_eq!(selects(&world), "web", "the primary is not what passed");
    edit(&world, json!({ "service": { "switchApex": false } }));
    world.advance_s(30).await;
    assert_eq!(selects(&world), "web");
    let since = revision(&world);
    cordon(false);
    let is_back = world.until(300, |it| replicas(it, "web") == 0).await;
    assert!(is_back, "{:#} {:#?}", world.status("web"), world.events());
    assert_eq!(selects(&world), "web-primary");
    let versions = history(&world, SERVICES, "web", since);
    assert_eq!(versions.len(), 1, "{versions:#?}");
}
