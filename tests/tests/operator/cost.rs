//! The operator's requests to the API server: none at rest, as few as possible in a rollout.

use std::time::Duration;

use serde_json::json;
use tidegate_tests::{
    network::Reply,
    rollout::{CANARIES, DEPLOYMENTS, World, canary, deployment},
};

use crate::stage::{
    GATEWAY_API, ISTIO, KUBERNETES, at_share, blue_green, break_metrics, by_weight, canary_of,
    canary_share, edit, hooked, initialized, mark, measured, reach, release, requests_since, told,
};

const HOUR_S: u64 = 3600;

/// An hour without changes costs no request other than watches.
async fn assert_idle(world: &World, what: &str) {
    world.settle().await;
    let before = mark(world);
    world.advance_s(HOUR_S).await;
    assert_eq!(requests_since(world, before), Vec::<String>::new(), "{what}");
}

#[tokio::test(start_paused = true)]
async fn an_initialized_canary_costs_nothing() {
    for provider in [KUBERNETES, GATEWAY_API, ISTIO] {
        let analysis = if provider == KUBERNETES { blue_green() } else { by_weight() };
        let world = initialized(provider, analysis).await;
        assert_idle(&world, provider).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_promoted_canary_costs_nothing() {
    let world = initialized(GATEWAY_API, hooked(measured(by_weight()), "post-rollout")).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_idle(&world, "after a promotion").await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_canary_costs_nothing() {
    let world = initialized(ISTIO, measured(by_weight())).await;
    break_metrics(&world);
    release(&world, "web:2.0");
    reach(&world, "Failed").await;
    assert_idle(&world, "after a failure").await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_costs_its_calls_and_nothing_else() {
    let mut analysis = hooked(by_weight(), "confirm-rollout");
    analysis["interval"] = json!("10m");
    let world = initialized(GATEWAY_API, analysis).await;
    world.network.hook("hooks/confirm-rollout", Reply::no());
    release(&world, "web:2.0");
    reach(&world, "Waiting").await;
    world.network.forget_calls();
    assert_idle(&world, "waiting for approval").await;
    assert_eq!(world.network.calls_to("hooks").len(), 6, "asked once an interval");
}

#[tokio::test(start_paused = true)]
async fn a_held_rollout_costs_its_checks_and_nothing_else() {
    let world = initialized(GATEWAY_API, measured(by_weight())).await;
    edit(&world, json!({ "manualStep": { "weight": 20 } }));
    release(&world, "web:2.0");
    reach(&world, "Waiting").await;
    // One interval, after which the values of the first check at this share are in the status.
    world.advance_s(10).await;
    world.network.forget_calls();
    assert_idle(&world, "held by hand").await;
    assert!(world.network.calls_to("prometheus").len() >= 359, "checked every interval");
    assert_eq!(canary_share(&world), 20);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_canary_costs_nothing() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    edit(&world, json!({ "suspend": true }));
    assert_idle(&world, "suspended in mid-rollout").await;
    assert_eq!(canary_share(&world), 20, "frozen, not taken back");
    assert_eq!(told(&world, "Suspended"), 1);
}

#[tokio::test(start_paused = true)]
async fn fifty_idle_canaries_cost_nothing() {
    let mut world = World::new();
    for index in 0..50 {
        let name = format!("app-{index}");
        world.create(DEPLOYMENTS, deployment(&name, "app:1.0", 1));
        world.create(CANARIES, canary(&name, KUBERNETES, blue_green()));
    }
    world.start().await;
    let are_ready =
        |world: &World| (0..50).all(|index| world.phase(&format!("app-{index}")) == "Initialized");
    assert!(world.until(120, are_ready).await);
    assert_idle(&world, "fifty canaries").await;
}

#[tokio::test(start_paused = true)]
async fn a_step_costs_one_write_of_the_route_and_one_of_the_status() {
    for (provider, route) in [
        (GATEWAY_API, "patch httproutes.gateway.networking.k8s.io"),
        (ISTIO, "patch virtualservices.networking.istio.io"),
    ] {
        let world = at_share(provider, measured(by_weight()), 20).await;
        let before = mark(&world);
        world.advance_s(10).await;
        assert_eq!(canary_share(&world), 40, "{provider}");
        let requests = requests_since(&world, before);
        let status = "patch canaries.flagger.app/status";
        assert_eq!(requests, [route, status, "create events"], "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_costs_one_write_of_the_status() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    break_metrics(&world);
    let before = mark(&world);
    world.advance_s(10).await;
    assert_eq!(world.status("web")["failedChecks"], 1);
    let requests = requests_since(&world, before);
    assert_eq!(requests, ["create events", "patch canaries.flagger.app/status"]);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_finds_nothing_to_do() {
    let mut world = initialized(GATEWAY_API, measured(by_weight())).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let before = mark(&world);
    world.start().await;
    world.advance_s(60).await;
    let requests = requests_since(&world, before);
    let others: Vec<_> = requests.iter().filter(|it| !it.starts_with("list ")).collect();
    let schemas = ["get /openapi/v3", "get /openapi/v3/apis/gateway.networking.k8s.io/v1"];
    assert_eq!(others, schemas, "it lists once, reads what routes may have, and that is all");
}

fn twenty_spread_over_ten_seconds() -> World {
    let mut world = World::new();
    world.options.spread = Duration::from_secs(10);
    for index in 0..20 {
        let name = format!("app-{index}");
        world.create(DEPLOYMENTS, deployment(&name, "app:1.0", 1));
        world.create(CANARIES, canary_of(&name, GATEWAY_API, by_weight()));
    }
    world
}

// Mistake 34 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn canaries_found_at_the_start_are_not_looked_at_all_at_once() {
    let mut world = twenty_spread_over_ten_seconds();
    world.start().await;
    let begun = |world: &World| {
        (0..20).filter(|index| !world.phase(&format!("app-{index}")).is_empty()).count()
    };
    assert!(begun(&world) < 5, "{} at once", begun(&world));
    world.advance_s(5).await;
    assert!((2..19).contains(&begun(&world)), "{} after half the time", begun(&world));
    world.advance_s(6).await;
    assert_eq!(begun(&world), 20);
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_dies_every_few_seconds_comes_to_every_canary_all_the_same() {
    let mut world = twenty_spread_over_ten_seconds();
    let is_new = |world: &World, index: u32| world.phase(&format!("app-{index}")).is_empty();
    for _ in 0..40 {
        world.start().await;
        world.advance_s(2).await;
    }
    let left: Vec<_> = (0..20).filter(|index| is_new(&world, *index)).collect();
    assert_eq!(left, Vec::<u32>::new(), "nobody ever looked at them");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_under_way_is_gone_on_with_at_once_after_a_restart() {
    let mut world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    world.options.spread = Duration::from_hours(1);
    world.start().await;
    reach(&world, "Succeeded").await;
}
