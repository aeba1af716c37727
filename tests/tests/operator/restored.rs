//! The API server goes back to an earlier state: etcd is restored from a backup, or another cluster answers at
//! the same address. The operator runs on and is not told.

use kube_sandbox::{
    Settings,
    faults::{Effect, Interruption, Matcher, WatchFault, When},
    request::Verb,
};
use serde_json::json;
use tidegate_operator::telemetry::Format;
use tidegate_tests::rollout::{CANARIES, CONFIG_MAPS, DEPLOYMENTS, OPERATOR, World, deployment};

use crate::stage::{
    GATEWAY_API, ISTIO, at_share, by_weight, canary_of, canary_share, image, initialized, mark,
    measured, object, reach, release, replicas, requests_since, revision, shares_since, told,
    with_canary, writes_since,
};

/// A series of the operator, by the beginning of its line.
fn series(world: &World, name: &str) -> Option<String> {
    let telemetry = world.telemetry.borrow();
    let page = telemetry.as_ref().expect("the operator runs").render(Format::Prometheus);
    let line = page.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned())
}

fn rewinds(world: &World) -> String {
    series(world, "tidegate_watch_rewinds_total").unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_release_after_a_restore_is_rolled_out() {
    for provider in [GATEWAY_API, ISTIO] {
        let world = initialized(provider, measured(by_weight())).await;
        let backup = world.snapshot();
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        world.advance_s(300).await;
        assert_eq!(rewinds(&world), "0");
        world.restore(&backup);
        world.advance_s(30).await;
        assert_eq!(rewinds(&world), "1", "{provider}: noticed without any other change");
        assert_eq!((image(&world, "web"), replicas(&world, "web")), ("web:1.0".to_owned(), 0));
        release(&world, "web:3.0");
        reach(&world, "Progressing").await;
        let since = revision(&world);
        reach(&world, "Succeeded").await;
        assert_eq!(shares_since(&world, since), [20, 40, 60, 0], "{provider}");
        assert_eq!(image(&world, "web-primary"), "web:3.0");
        assert_eq!(rewinds(&world), "1", "{provider}: begun anew once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_goes_on_from_where_the_restored_cluster_has_it() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let backup = world.snapshot();
    for later in ["Progressing", "Promoting", "Succeeded"] {
        let is_there = |world: &World| {
            world.phase("web") == later && (later != "Progressing" || canary_share(world) == 60)
        };
        assert!(world.until(200, is_there).await, "{later}: {:#}", world.status("web"));
        world.restore(&backup);
        assert_eq!(canary_share(&world), 20, "{later}");
        let since = revision(&world);
        reach(&world, "Succeeded").await;
        assert_eq!(
            shares_since(&world, since),
            [40, 60, 0],
            "{later}: no step twice, none left out"
        );
        assert_eq!(image(&world, "web-primary"), "web:2.0", "{later}");
        assert_eq!(replicas(&world, "web"), 0, "{later}");
        world.restore(&backup);
        world.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_set_up_of_a_canary_is_done_again_where_it_is_undone() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.settle().await;
    let backup = world.snapshot();
    world.start().await;
    reach(&world, "Initialized").await;
    world.advance_s(100).await;
    world.restore(&backup);
    assert!(world.get(DEPLOYMENTS, "web-primary").is_none());
    reach(&world, "Initialized").await;
    assert_eq!(replicas(&world, "web-primary"), 2);
    assert_eq!(rewinds(&world), "1");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_the_restored_cluster_does_not_have_is_let_go() {
    let world = initialized(GATEWAY_API, measured(by_weight())).await;
    let backup = world.snapshot();
    world.create(DEPLOYMENTS, deployment("other", "web:1.0", 1));
    world.create(CANARIES, canary_of("other", GATEWAY_API, by_weight()));
    assert!(world.until(300, |world| world.phase("other") == "Initialized").await);
    let count = "flagger_canary_total{namespace=\"default\"}";
    assert_eq!(series(&world, count).as_deref(), Some("2"));
    world.restore(&backup);
    let before = mark(&world);
    world.advance_s(60).await;
    assert_eq!(series(&world, count).as_deref(), Some("1"));
    let phase = "flagger_canary_status{name=\"other\"";
    assert_eq!(series(&world, phase), None, "its series are gone");
    assert_eq!(writes_since(&world, before), Vec::<String>::new());
}

/// Another cluster, with `web` set up in it, so many revisions on.
async fn other_cluster(revisions: u64) -> World {
    let mut other = World::with(Settings::for_tests().seed(99));
    other.create(DEPLOYMENTS, deployment("web", "web:7.0", 3));
    other.create(CANARIES, canary_of("web", GATEWAY_API, measured(by_weight())));
    other.start().await;
    reach(&other, "Initialized").await;
    for round in 0..revisions {
        let map = json!({ "metadata": { "name": format!("filler-{round}") } });
        other.create(CONFIG_MAPS, map);
    }
    other.kill();
    other.settle().await;
    other
}

#[tokio::test(start_paused = true)]
async fn another_cluster_behind_the_same_address_is_taken_as_it_is() {
    for (revisions, reason) in [(0, "behind ours"), (3_000, "ahead of ours")] {
        let world = initialized(GATEWAY_API, measured(by_weight())).await;
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        for round in 0..400 {
            let map = json!({ "metadata": { "name": format!("filler-{round}") } });
            world.create(CONFIG_MAPS, map);
        }
        world.advance_s(120).await;
        let other = other_cluster(revisions).await;
        let is_ahead = revision(&other) > revision(&world);
        assert_eq!(is_ahead, revisions > 0, "{reason}");
        let uid = |world: &World| object(world, CANARIES, "web")["metadata"]["uid"].clone();
        assert_ne!(uid(&other), uid(&world));
        world.restore(&other.snapshot());
        let before = mark(&world);
        world.advance_s(60).await;
        assert_eq!(writes_since(&world, before), Vec::<String>::new(), "{reason}: it is at rest");
        release(&world, "web:8.0");
        reach(&world, "Progressing").await;
        reach(&world, "Succeeded").await;
        assert_eq!(image(&world, "web-primary"), "web:8.0", "{reason}");
    }
}

/// Another leader undoes a write: the answer to the next one is the first sign.
#[tokio::test(start_paused = true)]
async fn an_answer_from_the_past_is_noticed_while_watches_hang() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let backup = world.snapshot();
    let there = world.until(100, |world| canary_share(world) == 60).await;
    assert!(there);
    let watches = Matcher::any().user(OPERATOR).verbs([Verb::Watch]);
    let silence = Effect::Watch(WatchFault::SilenceAfter { events: 0, lasting: None });
    let lists = Matcher::any().user(OPERATOR).verbs([Verb::List]);
    let faults = &world.sandbox.server().faults;
    faults.add(watches, When::Always, silence);
    faults.add(lists, When::First(200), Effect::TooManyRequests { retry_after_s: None });
    world.restore(&backup);
    let noticed = world.until(30, |world| rewinds(world) == "1").await;
    assert!(noticed, "by a write of the rollout");
    faults.clear();
    reach(&world, "Succeeded").await;
    assert_eq!(image(&world, "web-primary"), "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_in_good_order_costs_no_list() {
    let world = initialized(GATEWAY_API, measured(by_weight())).await;
    let before = mark(&world);
    world.advance_s(3_600).await;
    assert_eq!(requests_since(&world, before), Vec::<String>::new());
    let everything = Matcher::any().user(OPERATOR).resource("", "services");
    world.sandbox.server().faults.interrupt_watches(everything, Interruption::Close);
    world.settle().await;
    assert_eq!(requests_since(&world, before), ["list services"], "one page");
    assert_eq!(told(&world, "NewRevision"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_is_reported_and_its_kind_listed() {
    let world = initialized(GATEWAY_API, measured(by_weight())).await;
    let services = Matcher::any().user(OPERATOR).resource("", "services");
    let silence = Effect::Watch(WatchFault::SilenceAfter { events: 0, lasting: None });
    let faults = &world.sandbox.server().faults;
    world.advance_s(90).await;
    faults.add(services.clone().verbs([Verb::Watch]), When::Always, silence);
    faults.interrupt_watches(services.clone(), Interruption::Close);
    let silent = "tidegate_watch_silent{group=\"\",kind=\"Service\"}";
    world.advance_s(290).await;
    assert_ne!(series(&world, silent).as_deref(), Some("1"), "not yet five minutes");
    let before = mark(&world);
    world.advance_s(30).await;
    assert_eq!(series(&world, silent).as_deref(), Some("1"));
    assert_eq!(requests_since(&world, before), ["list services"]);
    faults.clear();
    faults.interrupt_watches(services, Interruption::Close);
    world.advance_s(90).await;
    assert_eq!(series(&world, silent).as_deref(), Some("0"), "a bookmark came");
    assert_eq!(rewinds(&world), "0");
}
