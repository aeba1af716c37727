//! A canary whose spec names another target: the objects of the former one serve until the new one can.

use kube_sandbox::cluster::SERVICES;
use serde_json::{Value, json};
use tidegate_tests::rollout::{CANARIES, DEPLOYMENTS, World, deployment};

use crate::stage::{
    GATEWAY_API, KUBERNETES, blue_green, by_weight, canary_of, condition, edit, image,
    initialized_with, object, reach, release_of, told,
};

/// A canary of `web` whose Services have another name, or the target's.
fn canary(provider: &str, service: Option<&str>) -> Value {
    let analysis = if provider == KUBERNETES { blue_green() } else { by_weight() };
    let mut canary = canary_of("web", provider, analysis);
    if let Some(service) = service {
        canary["spec"]["service"]["name"] = json!(service);
    }
    canary
}

/// The pods that a Service selects.
fn selects(world: &World, service: &str) -> String {
    object(world, SERVICES, service)["spec"]["selector"]["app"].as_str().unwrap_or("").to_owned()
}

fn available(world: &World, name: &str) -> i64 {
    let found = world.get(DEPLOYMENTS, name).unwrap_or_default();
    found["status"]["availableReplicas"].as_i64().unwrap_or(0)
}

/// Names `shop` as the target, which takes some time to have pods.
fn retarget(world: &World) {
    world.create(DEPLOYMENTS, deployment("shop", "shop:1.0-slow-start-15s", 2));
    edit(world, json!({ "targetRef": { "name": "shop" } }));
}

#[tokio::test(start_paused = true)]
async fn another_target_is_set_up_while_the_primary_of_the_one_before_serves() {
    for (provider, is_down) in
        [(GATEWAY_API, false), (GATEWAY_API, true), (KUBERNETES, false), (KUBERNETES, true)]
    {
        let case = format!("{provider}, nobody looks: {is_down}");
        let mut world = initialized_with(canary(provider, Some("front"))).await;
        if is_down {
            world.kill();
        }
        retarget(&world);
        if is_down {
            world.start().await;
        }
        for second in 0..120 {
            for service in ["front", "front-primary"] {
                let selected = selects(&world, service);
                assert!(available(&world, &selected) > 0, "{case}: {service} at {second} s");
            }
            world.advance_s(1).await;
        }
        assert_eq!(world.phase("web"), "Initialized", "{case}: {:#}", world.status("web"));
        assert_eq!(selects(&world, "front-primary"), "shop-primary", "{case}");
        assert_eq!(told(&world, "TargetChanged"), 1, "{case}");
        assert_eq!(object(&world, DEPLOYMENTS, "shop")["spec"]["replicas"], 0, "{case}: parked");
        let before = object(&world, DEPLOYMENTS, "web-primary");
        assert_eq!(before["spec"]["replicas"], 2, "{case}: it is the user's to delete");

        release_of(&world, "shop", "shop:2.0");
        reach(&world, "Succeeded").await;
        assert_eq!(image(&world, "shop-primary"), "shop:2.0", "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn services_and_routes_of_the_name_before_stay_until_the_new_ones_serve() {
    let world = initialized_with(canary(GATEWAY_API, None)).await;
    retarget(&world);
    let mut is_moved = false;
    for second in 0..120 {
        let serves = |service: &str| {
            let found = world.get(SERVICES, service).unwrap_or_default();
            let selected = found["spec"]["selector"]["app"].as_str().unwrap_or("").to_owned();
            available(&world, &selected) > 0
        };
        let (old, new) = (serves("web-primary"), serves("shop-primary"));
        assert!(old || new, "nobody serves after {second} s");
        is_moved |= new && !old;
        world.advance_s(1).await;
    }
    assert!(is_moved, "Services of a former name go once it rests: {:#}", world.status("web"));
    assert_eq!(world.phase("web"), "Initialized");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_not_there_changes_nothing() {
    let world = initialized_with(canary(GATEWAY_API, Some("front"))).await;
    edit(&world, json!({ "targetRef": { "name": "shpo" } }));
    world.advance_s(60).await;
    let (stalled, reason, message) = condition(&world, "web", "Stalled");
    assert_eq!((&*stalled, &*reason), ("True", "Obstructed"), "{message}");
    assert_eq!(selects(&world, "front-primary"), "web-primary");
    assert_eq!(world.phase("web"), "Initialized");
    edit(&world, json!({ "targetRef": { "name": "web" } }));
    world.advance_s(60).await;
    assert_eq!(condition(&world, "web", "Ready").0, "True", "{:#}", world.status("web"));
    assert_eq!((told(&world, "TargetChanged"), told(&world, "NewRevision")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_is_deleted_gives_back_the_target_it_had() {
    let mut canary = canary(GATEWAY_API, Some("front"));
    canary["spec"]["revertOnDeletion"] = json!(true);
    let mut world = initialized_with(canary).await;
    world.kill();
    retarget(&world);
    world.delete(CANARIES, "web");
    world.start().await;
    let is_gone = world.until(120, |world| world.get(CANARIES, "web").is_none()).await;
    assert!(is_gone, "{:#}", world.status("web"));
    assert_eq!(object(&world, DEPLOYMENTS, "web")["spec"]["replicas"], 2);
    assert_eq!(object(&world, DEPLOYMENTS, "shop")["spec"]["replicas"], 2, "it was never its");
}
