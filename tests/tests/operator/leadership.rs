//! Only the leader writes. Two operators that both believe they lead do no harm.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{CANARIES, DEPLOYMENTS, HTTP_ROUTES, World},
};

use crate::stage::{
    GATEWAY_API, ISTIO, at_share, by_weight, canary_of, canary_share, generation, history, hooked,
    image, initialized, initialized_with, mark, measured, reach, release, revision, share_in,
    shares_since, with_canary, writes_since,
};

#[tokio::test(start_paused = true)]
async fn who_lost_the_lead_writes_nothing_more() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    world.leads.store(false, Ordering::Relaxed);
    let before = mark(&world);
    release(&world, "web:3.0");
    world.advance_s(600).await;
    assert_eq!(writes_since(&world, before), Vec::<String>::new());
    assert_eq!(canary_share(&world), 20);
}

#[tokio::test(start_paused = true)]
async fn the_lead_lost_during_a_hook_stops_the_step_it_was_for() {
    let world = at_share(GATEWAY_API, hooked(by_weight(), "rollout"), 20).await;
    let (slow, hold) = Reply::yes().held();
    world.network.hook("hooks/rollout", slow);
    world.advance_s(10).await;
    world.leads.store(false, Ordering::Relaxed);
    let before = mark(&world);
    hold.release();
    world.advance_s(60).await;
    assert_eq!(writes_since(&world, before), Vec::<String>::new());
}

// Mistake 21 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn who_does_not_lead_lets_no_deleted_canary_go() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["revertOnDeletion"] = json!(true);
    let world = initialized_with(canary).await;
    world.leads.store(false, Ordering::Relaxed);
    let before = mark(&world);
    world.delete(CANARIES, "web");
    world.advance_s(600).await;
    assert!(world.get(CANARIES, "web").is_some(), "its target is still at zero");
    assert_eq!(writes_since(&world, before), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_follower_takes_over_where_the_leader_stopped() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    world.leads.store(false, Ordering::Relaxed);
    let since = revision(&world);
    let (other, _) = world.spawn(Arc::new(AtomicBool::new(true)));
    reach(&world, "Succeeded").await;
    assert_eq!(shares_since(&world, since), [40, 60, 0], "no step twice, none left out");
    other.abort();
}

/// Invariants of every version of every object, whoever wrote it.
fn assert_invariants(world: &World, since: u64, what: &str) {
    let shares = shares_since(world, since);
    let mut steps = shares.clone();
    steps.dedup();
    assert_eq!(steps, [20, 40, 60, 0], "{what}: up by steps, then back");
    for primary in history(world, DEPLOYMENTS, "web-primary", since) {
        assert_eq!(primary["spec"]["replicas"], 2, "{what}");
    }
    let phases: Vec<Value> = {
        let versions = history(world, CANARIES, "web", since);
        let mut phases: Vec<_> = versions.iter().map(|it| it["status"]["phase"].clone()).collect();
        phases.dedup();
        phases
    };
    let order = ["Initialized", "Progressing", "Promoting", "Finalising", "Succeeded"];
    let places: Vec<_> =
        phases.iter().map(|phase| order.iter().position(|it| phase == it)).collect();
    assert!(places.is_sorted(), "{what}: {phases:?}");
}

#[tokio::test(start_paused = true)]
async fn two_operators_that_both_believe_they_lead_do_no_harm() {
    for provider in [GATEWAY_API, ISTIO] {
        let world = initialized(provider, measured(by_weight())).await;
        let (other, _) = world.spawn(Arc::new(AtomicBool::new(true)));
        world.settle().await;
        let (since, before) = (revision(&world), generation(&world, "web-primary"));
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        world.advance_s(60).await;
        assert_invariants(&world, since, provider);
        assert_eq!(generation(&world, "web-primary"), before + 1, "{provider}: promoted once");
        assert_eq!(image(&world, "web-primary"), "web:2.0");
        other.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn two_operators_set_a_canary_up_together() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    let (other, _) = world.spawn(Arc::new(AtomicBool::new(true)));
    world.start().await;
    reach(&world, "Initialized").await;
    world.advance_s(60).await;
    let primary = history(&world, DEPLOYMENTS, "web-primary", 0);
    let made: std::collections::BTreeSet<_> =
        primary.iter().map(|it| it["metadata"]["uid"].to_string()).collect();
    assert_eq!(made.len(), 1, "one primary");
    let routes = history(&world, HTTP_ROUTES, "web", 0);
    assert!(routes.iter().all(|route| share_in(route) == 0));
    other.abort();
}
