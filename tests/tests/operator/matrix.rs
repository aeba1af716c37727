//! Every cell of the table of providers, as a rollout.
//!
//! The capabilities in [`Support`] are run: set up, promoted, rolled back, deleted half-way. The others
//! must be refused, or with plain Services reported. The rows come from the code that writes the table in
//! the documentation: a new provider has its scenarios, and fails here until they pass.

use std::collections::BTreeMap;

use kube_sandbox::{
    cluster::{Cluster as _, Resource},
    controllers::KNATIVE_SERVICES,
};
use serde_json::{Value, json};
use tidegate_engine::Split;
use tidegate_providers::traffic::{Affinity, Support};
use tidegate_tests::{
    providers::{ISTIO_TCP, KNATIVE, all, canary_for, furnish, promoted_image, target_table},
    rollout::{AUTOSCALERS, CANARIES, DEPLOYMENTS, SERVICES, World},
    trace::{live_split, routing_tables},
};

use crate::stage::{
    ab_test, blue_green, break_metrics, by_weight, condition, edit_analysis, history, measured,
    object, reach, release, replicas, revision, with_canary,
};

/// One row: the provider, as a scenario calls it, and its capabilities.
type Row = (&'static str, Support);

fn rows() -> impl Iterator<Item = Row> {
    all().into_iter()
}

/// A strategy that a row may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ByWeight,
    Ab,
    BlueGreen,
}

impl Way {
    const ALL: [Self; 3] = [Self::ByWeight, Self::Ab, Self::BlueGreen];

    fn is_in(self, support: &Support) -> bool {
        match self {
            Self::ByWeight => support.weighted,
            Self::Ab => support.ab.is_some(),
            Self::BlueGreen => support.switched,
        }
    }

    fn analysis(self, provider: &str) -> Value {
        let analysis = match self {
            Self::ByWeight => by_weight(),
            Self::Ab => ab_test(),
            Self::BlueGreen => blue_green(),
        };
        measured_by(provider, analysis)
    }

    /// The shares of the canary in a rollout that goes well.
    fn shares(self) -> &'static [i64] {
        match self {
            Self::ByWeight => &[0, 20, 40, 60, 0],
            // All matching requests from the first check on; or all requests, once all checks are passed.
            Self::Ab | Self::BlueGreen => &[0, 100, 0],
        }
    }

    /// The share of the canary where it is under way: no check passes after that.
    fn share_half_way(self) -> i64 {
        match self {
            Self::ByWeight => 40,
            Self::Ab => 100,
            Self::BlueGreen => 0,
        }
    }

    /// Whether it is under way, with checks to come.
    fn is_half_way(self, world: &World) -> bool {
        let status = world.status("web");
        match self {
            Self::ByWeight => status["canaryWeight"] == 40,
            Self::Ab | Self::BlueGreen => status["iterations"] == 1,
        }
    }
}

/// All providers with this strategy, in all their rows.
fn cells() -> Vec<(&'static str, Way)> {
    let cells = rows().flat_map(|(provider, support)| {
        let ways = Way::ALL.into_iter().filter(move |way| way.is_in(&support));
        ways.map(move |way| (provider, way))
    });
    cells.collect()
}

/// The rows that can be scaled meanwhile: all whose pods the operator scales.
fn scaled() -> impl Iterator<Item = (&'static str, Way)> {
    cells().into_iter().filter(|(provider, _)| *provider != KNATIVE)
}

/// With a metric that exists: over plain TCP no requests are counted, and the query is the user's own.
fn measured_by(provider: &str, analysis: Value) -> Value {
    let mut analysis = measured(analysis);
    if provider == ISTIO_TCP {
        let query = "sum(rate(bytes{app=\"web\"}[1m]))";
        analysis["metrics"] =
            json!([{ "name": "bytes", "query": query, "thresholdRange": { "min": 99 } }]);
    }
    analysis
}

/// A cluster of this provider with a canary in it, before the operator starts.
fn stage(provider: &str, analysis: Value) -> World {
    stage_with(provider, canary_for(provider, analysis))
}

fn stage_with(provider: &str, mut canary: Value) -> World {
    canary["spec"]["revertOnDeletion"] = json!(true);
    let world = with_canary(canary);
    furnish(&world, provider);
    world
}

async fn set_up(provider: &str, analysis: Value) -> World {
    initialized(stage(provider, analysis)).await
}

async fn initialized(mut world: World) -> World {
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

/// With an autoscaler that never has fewer than two pods.
fn stage_scaled(provider: &str, way: Way) -> World {
    let mut canary = canary_for(provider, way.analysis(provider));
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    canary["spec"]["autoscalerRef"] = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web",
    });
    let world = stage_with(provider, canary);
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web" },
        "spec": { "scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4 },
    });
    world.create(AUTOSCALERS, autoscaler);
    world
}

/// The target of the primary's autoscaler, and its minimum.
fn scales(world: &World) -> (Value, Value) {
    let spec = object(world, AUTOSCALERS, "web-primary")["spec"].clone();
    (spec["scaleTargetRef"]["name"].clone(), spec["minReplicas"].clone())
}

fn split(world: &World) -> Option<Split> {
    let canary = world.get(CANARIES, "web")?;
    live_split(&world.admin, &canary, &world.options.mesh_provider)
}

/// The splits of traffic until this phase, without repetition.
async fn follow(world: &World, phase: &str) -> Vec<Split> {
    let mut seen = Vec::new();
    let is_there = world.until_seen(900, |world| {
        seen.extend(split(world));
        world.phase("web") == phase
    });
    assert!(is_there.await, "never {phase}: {:#} {:#?}", world.status("web"), world.events());
    world.advance_s(5).await;
    seen.extend(split(world));
    seen.dedup();
    seen
}

fn shares(splits: &[Split]) -> Vec<i64> {
    splits.iter().map(|split| i64::from(split.canary)).collect()
}

/// Every routing object, with its owner's part of it.
fn routes(world: &World) -> BTreeMap<(Resource, String), [Value; 2]> {
    let found = routing_tables().into_iter().flat_map(|table| {
        let objects = world.admin.list(table, None).into_iter();
        objects.map(move |object| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let annotations = object["metadata"]["annotations"].clone();
            // A route that is the target too has a template, which does not belong to the route.
            let is_target = table == KNATIVE_SERVICES;
            let spec = if is_target { &object["spec"]["traffic"] } else { &object["spec"] };
            ((table, name), [spec.clone(), annotations])
        })
    });
    found.collect()
}

/// The image of the primary, and the replicas of the target; for Knative there are none.
fn runs(world: &World) -> (String, Option<i64>) {
    let is_ours = target_table(world) == DEPLOYMENTS;
    (promoted_image(world), is_ours.then(|| replicas(world, "web")))
}

/// The same, as expected.
fn expected(world: &World, image: &str, replicas: i64) -> (String, Option<i64>) {
    (image.to_owned(), (target_table(world) == DEPLOYMENTS).then_some(replicas))
}

/// Messages of events about settings without effect.
fn told(world: &World) -> Vec<String> {
    let events = world.events().into_iter();
    events.filter(|(reason, _)| reason == "NotSupported").map(|(_, message)| message).collect()
}

// === Supported ===

#[tokio::test(start_paused = true)]
async fn what_a_provider_can_do_promotes_a_good_version() {
    for (provider, way) in cells() {
        let world = set_up(provider, way.analysis(provider)).await;
        assert_eq!(split(&world), Some(Split::PRIMARY), "{provider}, {way:?}");
        release(&world, "web:2.0");
        let seen = follow(&world, "Succeeded").await;
        assert_eq!(shares(&seen), way.shares(), "{provider}, {way:?}");
        assert_eq!(runs(&world), expected(&world, "web:2.0", 0), "{provider}, {way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_can_do_takes_a_bad_version_back() {
    for (provider, way) in cells() {
        let world = set_up(provider, way.analysis(provider)).await;
        release(&world, "web:2.0");
        let is_there = world.until(200, |world| way.is_half_way(world)).await;
        assert!(is_there, "{provider}, {way:?}: {:#}", world.status("web"));
        break_metrics(&world);
        let seen = follow(&world, "Failed").await;
        assert_eq!(seen.last(), Some(&Split::PRIMARY), "{provider}, {way:?}");
        assert_eq!(
            shares(&seen).into_iter().max(),
            Some(way.share_half_way()),
            "{provider}, {way:?}"
        );
        assert_eq!(runs(&world), expected(&world, "web:1.0", 0), "{provider}, {way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_an_autoscaler_every_provider_promotes_a_good_version() {
    for (provider, way) in scaled() {
        let world = initialized(stage_scaled(provider, way)).await;
        release(&world, "web:2.0");
        let seen = follow(&world, "Succeeded").await;
        assert_eq!(shares(&seen), way.shares(), "{provider}, {way:?}");
        assert_eq!(runs(&world), expected(&world, "web:2.0", 0), "{provider}, {way:?}");
        assert_eq!(scales(&world), (json!("web-primary"), json!(2)), "{provider}, {way:?}");
        assert_eq!(replicas(&world, "web-primary"), 2, "{provider}, {way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_an_autoscaler_every_provider_takes_a_bad_version_back() {
    for (provider, way) in scaled() {
        let world = initialized(stage_scaled(provider, way)).await;
        release(&world, "web:2.0");
        let is_there = world.until(200, |world| way.is_half_way(world)).await;
        assert!(is_there, "{provider}, {way:?}: {:#}", world.status("web"));
        break_metrics(&world);
        let seen = follow(&world, "Failed").await;
        assert_eq!(seen.last(), Some(&Split::PRIMARY), "{provider}, {way:?}");
        assert_eq!(runs(&world), expected(&world, "web:1.0", 0), "{provider}, {way:?}");
        assert_eq!(scales(&world), (json!("web-primary"), json!(2)), "{provider}, {way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_an_autoscaler_every_provider_leaves_nothing_behind_when_it_is_deleted_half_way() {
    for (provider, way) in scaled() {
        let mut world = stage_scaled(provider, way);
        let (before, users) = (routes(&world), object(&world, AUTOSCALERS, "web"));
        world.start().await;
        reach(&world, "Initialized").await;
        release(&world, "web:2.0");
        let is_there = world.until(200, |world| way.is_half_way(world)).await;
        assert!(is_there, "{provider}, {way:?}: {:#}", world.status("web"));
        world.delete(CANARIES, "web");
        let is_gone = world.until(300, |world| world.get(CANARIES, "web").is_none()).await;
        assert!(is_gone, "{provider}, {way:?}: {:#}", world.status("web"));
        assert_eq!(replicas(&world, "web"), 2, "{provider}, {way:?}: the target serves again");
        world.advance_s(5).await;
        assert_eq!(routes(&world), before, "{provider}, {way:?}");
        assert_eq!(world.get(AUTOSCALERS, "web-primary"), None, "{provider}, {way:?}");
        let after = object(&world, AUTOSCALERS, "web");
        assert_eq!(after["spec"], users["spec"], "{provider}, {way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_can_do_leaves_nothing_behind_when_it_is_deleted_half_way() {
    for (provider, way) in cells() {
        let mut world = stage(provider, way.analysis(provider));
        let before = routes(&world);
        world.start().await;
        reach(&world, "Initialized").await;
        assert_ne!(routes(&world), before, "{provider}, {way:?}: something was made");
        release(&world, "web:2.0");
        let is_there = world.until(200, |world| way.is_half_way(world)).await;
        assert!(is_there, "{provider}, {way:?}: {:#}", world.status("web"));
        world.delete(CANARIES, "web");
        let is_gone = world.until(300, |world| world.get(CANARIES, "web").is_none()).await;
        assert!(is_gone, "{provider}, {way:?}: {:#}", world.status("web"));
        let serves = expected(&world, "", 2).1;
        assert_eq!(runs(&world).1, serves, "{provider}, {way:?}: the target serves again");
        world.advance_s(5).await;
        assert_eq!(routes(&world), before, "{provider}, {way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_can_mirror_copies_requests_before_the_first_step() {
    for (provider, _) in rows().filter(|(_, support)| support.mirror) {
        let mut analysis = measured(by_weight());
        analysis["mirror"] = json!(true);
        let world = set_up(provider, analysis).await;
        release(&world, "web:2.0");
        let seen = follow(&world, "Succeeded").await;
        let mirrored: Vec<_> = seen.iter().filter(|split| split.mirrored).collect();
        assert_eq!(mirrored, [&Split { mirrored: true, ..Split::PRIMARY }], "{provider}");
        assert_eq!(told(&world), Vec::<String>::new(), "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_can_mirror_copies_requests_to_a_version_that_is_checked_beside_users() {
    for (provider, _) in rows().filter(|(_, support)| support.mirror && support.switched) {
        let mut analysis = measured(blue_green());
        analysis["mirror"] = json!(true);
        let world = set_up(provider, analysis).await;
        release(&world, "web:2.0");
        let seen = follow(&world, "Succeeded").await;
        let mirrored: Vec<_> = seen.iter().filter(|split| split.mirrored).collect();
        assert_eq!(mirrored, [&Split { mirrored: true, ..Split::PRIMARY }], "{provider}: {seen:?}");
        assert_eq!(seen.last(), Some(&Split::PRIMARY), "{provider}");
        assert_eq!(told(&world), Vec::<String>::new(), "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_can_keep_users_has_a_cookie_for_them_while_both_versions_serve() {
    for (provider, support) in rows().filter(|(_, it)| it.affinity != Affinity::None) {
        let mut analysis = measured(by_weight());
        analysis["sessionAffinity"] = json!({ "cookieName": "canary-side" });
        if support.affinity == Affinity::Both {
            analysis["sessionAffinity"]["primaryCookieName"] = json!("primary-side");
        }
        let world = set_up(provider, analysis).await;
        release(&world, "web:2.0");
        let is_there = world.until(60, |world| world.status("web")["canaryWeight"] == 20).await;
        assert!(is_there, "{provider}: {:#}", world.status("web"));
        let written = format!("{:?}", routes(&world));
        let has = |cookie: &str| written.contains(cookie);
        let expected = (true, support.affinity == Affinity::Both);
        assert_eq!((has("canary-side="), has("primary-side=")), expected, "{provider}");
        follow(&world, "Succeeded").await;
        assert_eq!(told(&world), Vec::<String>::new(), "{provider}");
    }
}

// === Unsupported ===

/// Starts a canary with an unsupported setting: its message names the error and the alternatives, and
/// nothing is created.
async fn is_refused(row: Row, analysis: Value, field: &str) {
    let (provider, support) = row;
    let mut world = stage(provider, measured(analysis));
    let before = routes(&world);
    world.start().await;
    world.advance_s(60).await;
    let (status, reason, message) = condition(&world, "web", "Stalled");
    assert_eq!((&*status, &*reason), ("True", "Refused"), "{provider}, {field}");
    assert!(message.contains(&format!("spec.analysis.{field}")), "{provider}: {message}");
    let can = "it supports rollouts by weight";
    assert!(message.contains(can), "{provider}, {field}: and what can be done: {message}");
    assert_eq!(message.contains("mirroring"), support.mirror, "{provider}: {message}");
    assert_eq!(world.get(DEPLOYMENTS, "web-primary"), None, "{provider}, {field}");
    for name in ["web", "web-primary", "web-canary"] {
        assert_eq!(world.get(SERVICES, name), None, "{provider}, {field}");
    }
    assert_eq!(routes(&world), before, "{provider}, {field}");
}

/// Rows that move traffic; with plain Services a version is tested beside users, for any setting.
fn moving() -> impl Iterator<Item = Row> {
    rows().filter(|(_, support)| support.switched)
}

#[tokio::test(start_paused = true)]
async fn who_cannot_tell_requests_apart_refuses_a_test_before_anything_is_made() {
    for row in moving().filter(|(_, it)| it.ab.is_none()) {
        is_refused(row, ab_test(), "match").await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_copy_requests_refuses_a_mirror_before_anything_is_made() {
    for row in moving().filter(|(_, it)| !it.mirror) {
        for mut analysis in [by_weight(), blue_green()] {
            analysis["mirror"] = json!(true);
            is_refused(row, analysis, "mirror").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_keep_users_refuses_affinity_before_anything_is_made() {
    for row in moving().filter(|(_, it)| it.affinity == Affinity::None) {
        let mut analysis = by_weight();
        analysis["sessionAffinity"] = json!({ "cookieName": "side" });
        is_refused(row, analysis, "sessionAffinity").await;
    }
}

/// Rows where no traffic moves, with and without an autoscaler.
fn still() -> Vec<(&'static str, bool, World)> {
    let still = rows().filter(|(_, support)| !support.switched);
    let stages = still.flat_map(|(provider, _)| {
        let plain = stage(provider, Way::BlueGreen.analysis(provider));
        [(provider, false, plain), (provider, true, stage_scaled(provider, Way::BlueGreen))]
    });
    stages.collect()
}

#[tokio::test(start_paused = true)]
async fn where_no_traffic_moves_a_bad_version_meets_nobody_and_is_taken_back() {
    for (provider, is_scaled, world) in still() {
        let case = format!("{provider}, scaled: {is_scaled}");
        let world = initialized(world).await;
        let since = revision(&world);
        release(&world, "web:2.0");
        let is_there = world.until(200, |world| Way::BlueGreen.is_half_way(world)).await;
        assert!(is_there, "{case}: {:#}", world.status("web"));
        break_metrics(&world);
        reach(&world, "Failed").await;
        world.advance_s(5).await;
        assert_eq!(history(&world, SERVICES, "web", since), Vec::<Value>::new(), "{case}");
        assert_eq!(runs(&world), expected(&world, "web:1.0", 0), "{case}");
        if is_scaled {
            assert_eq!(scales(&world), (json!("web-primary"), json!(2)), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_no_traffic_moves_a_deletion_half_way_leaves_nothing_behind() {
    for (provider, is_scaled, world) in still() {
        let case = format!("{provider}, scaled: {is_scaled}");
        let world = initialized(world).await;
        release(&world, "web:2.0");
        let is_there = world.until(200, |world| Way::BlueGreen.is_half_way(world)).await;
        assert!(is_there, "{case}: {:#}", world.status("web"));
        world.delete(CANARIES, "web");
        let is_gone = world.until(300, |world| world.get(CANARIES, "web").is_none()).await;
        assert!(is_gone, "{case}: {:#}", world.status("web"));
        assert_eq!(replicas(&world, "web"), 2, "{case}: the target serves again");
        world.advance_s(5).await;
        assert_eq!(world.get(DEPLOYMENTS, "web-primary"), None, "{case}");
        assert_eq!(world.get(AUTOSCALERS, "web-primary"), None, "{case}");
        for name in ["web", "web-primary", "web-canary"] {
            assert_eq!(world.get(SERVICES, name), None, "{case}: {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_no_traffic_moves_a_version_is_checked_beside_it_and_that_is_told() {
    let still = rows().filter(|(_, it)| !it.switched);
    for (provider, analysis) in still.flat_map(|(provider, support)| {
        assert!(!support.weighted && support.ab.is_none(), "{provider}");
        [(provider, by_weight()), (provider, ab_test()), (provider, blue_green())]
    }) {
        let is_plain = analysis == blue_green();
        let world = set_up(provider, measured(analysis)).await;
        let since = revision(&world);
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        assert_eq!(history(&world, SERVICES, "web", since), Vec::<Value>::new(), "{provider}");
        assert_eq!(told(&world).is_empty(), is_plain, "{provider}: {:?}", told(&world));
        assert_eq!(promoted_image(&world), "web:2.0", "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_no_traffic_moves_what_cannot_be_done_is_told_with_what_can_and_from_the_start() {
    for (provider, support) in rows().filter(|(_, it)| !it.switched) {
        assert!(!support.mirror && support.affinity == Affinity::None, "{provider}");
        let mut analysis = ab_test();
        analysis["mirror"] = json!(true);
        analysis["sessionAffinity"] = json!({ "cookieName": "side" });
        let says = |told: &[String]| {
            for field in ["match", "mirror", "sessionAffinity"] {
                let it = told.iter().find(|it| it.contains(field));
                let can = it.is_some_and(|it| it.contains("support") && it.contains("blue/green"));
                assert!(can, "{provider}, {field}: {told:?}");
            }
        };
        let world = set_up(provider, measured(analysis)).await;
        let at_first = told(&world);
        says(&at_first);
        release(&world, "web:2.0");
        let seen = follow(&world, "Succeeded").await;
        assert!(!seen.iter().any(|split| split.mirrored), "{provider}: {seen:?}");
        says(&told(&world)[at_first.len()..]);
        assert_eq!(promoted_image(&world), "web:2.0", "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_counts_requests_a_built_in_metric_is_told_of_from_the_start() {
    for (provider, support) in rows() {
        let says = |world: &World| told(world).iter().any(|it| it.contains("analysis.metrics"));
        let world = set_up(provider, measured(by_weight())).await;
        assert_eq!(says(&world), support.metrics.is_none(), "{provider}: {:?}", told(&world));
        let world = set_up(provider, measured_by(provider, by_weight())).await;
        assert!(!says(&world), "{provider}: {:?}", told(&world));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_under_way_is_not_stopped_by_a_wish_that_its_provider_cannot_meet() {
    for (provider, support) in moving().filter(|(_, it)| !it.mirror) {
        let world = set_up(provider, measured_by(provider, by_weight())).await;
        release(&world, "web:2.0");
        assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 20).await, "{provider}");
        assert_eq!(support.affinity, Affinity::None, "{provider}");
        let wishes = json!({ "mirror": true, "sessionAffinity": { "cookieName": "side" } });
        edit_analysis(&world, wishes);
        let seen = follow(&world, "Succeeded").await;
        assert_eq!(shares(&seen), [20, 40, 60, 0], "{provider}");
        let (_, reason, _) = condition(&world, "web", "Stalled");
        assert_eq!(reason, "Refused", "{provider}: the next one is not begun");
        release(&world, "web:3.0");
        world.advance_s(60).await;
        assert_eq!(promoted_image(&world), "web:2.0", "{provider}");
    }
}
