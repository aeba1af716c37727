//! Services of Knative as targets: the differences from workloads that are copied.

use kube_sandbox::{cluster::Cluster as _, controllers::KNATIVE_SERVICES};
use serde_json::{Value, json};
use tidegate_tests::{
    providers::{KNATIVE, canary_for, furnish, promoted_image},
    rollout::{CANARIES, DEPLOYMENTS, SERVICES, World},
};

use crate::stage::{
    blue_green, break_metrics, by_weight, condition, edit, history, measured, mend_metrics, object,
    reach, release, revision, with_canary,
};

const PRIMARY: &str = "flagger.app/primary-revision";

async fn set_up(analysis: Value) -> World {
    let mut world = with_canary(canary_for(KNATIVE, measured(analysis)));
    furnish(&world, KNATIVE);
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

fn service(world: &World) -> Value {
    object(world, KNATIVE_SERVICES, "web")
}

/// Percent of the latest revision, and the revision and percent beside it.
fn divided(service: &Value) -> (Option<i64>, Option<&str>, Option<i64>) {
    let entry = |at: usize| &service["spec"]["traffic"][at];
    (entry(0)["percent"].as_i64(), entry(1)["revisionName"].as_str(), entry(1)["percent"].as_i64())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_and_traffic_is_pinned_to_what_serves() {
    let world = set_up(by_weight()).await;
    let service = service(&world);
    assert_eq!(service["metadata"]["annotations"][PRIMARY], "web-00001");
    assert_eq!(divided(&service), (Some(0), Some("web-00001"), Some(100)));
    assert_eq!(service["metadata"]["ownerReferences"], Value::Null, "it stays the user's");
    for (table, name) in
        [(DEPLOYMENTS, "web-primary"), (SERVICES, "web-primary"), (SERVICES, "web")]
    {
        assert_eq!(world.get(table, name), None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_promotion_names_the_new_revision_and_the_one_after_is_divided_from_it() {
    let world = set_up(by_weight()).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    world.settle().await;
    assert_eq!(divided(&service(&world)), (Some(0), Some("web-00002"), Some(100)));
    release(&world, "web:3.0");
    let is_there = world.until(100, |world| divided(&service(world)).0 == Some(40)).await;
    assert!(is_there, "{:#}", world.status("web"));
    assert_eq!(divided(&service(&world)), (Some(40), Some("web-00002"), Some(60)));
}

#[tokio::test(start_paused = true)]
async fn a_stepped_promotion_takes_one_revision_for_two_sides_and_always_divides_all() {
    let mut analysis = by_weight();
    analysis["stepWeightPromotion"] = json!(20);
    let world = set_up(analysis).await;
    let since = revision(&world);
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let mut shares = Vec::new();
    for version in history(&world, KNATIVE_SERVICES, "web", since) {
        let (latest, _, named) = divided(&version);
        assert_eq!(latest.zip(named).map(|(latest, named)| latest + named), Some(100));
        shares.extend(latest);
    }
    shares.dedup();
    assert_eq!(shares, [0, 20, 40, 60, 40, 20, 0]);
    assert_eq!(promoted_image(&world), "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_never_ready_gets_nothing_and_is_taken_back_in_time() {
    let world = set_up(by_weight()).await;
    edit(&world, json!({ "progressDeadlineSeconds": 60 }));
    let since = revision(&world);
    release(&world, "web:2.0-never-ready");
    reach(&world, "Failed").await;
    let versions = history(&world, KNATIVE_SERVICES, "web", since);
    assert!(versions.iter().all(|version| divided(version).0 == Some(0)), "not a request");
    assert_eq!(promoted_image(&world), "web:1.0");
    release(&world, "web:3.0");
    reach(&world, "Succeeded").await;
    assert_eq!(promoted_image(&world), "web:3.0");
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_starts_again_does_not_give_a_revision_its_deadline_again() {
    let mut world = set_up(by_weight()).await;
    edit(&world, json!({ "progressDeadlineSeconds": 60 }));
    release(&world, "web:2.0-never-ready");
    world.advance_s(40).await;
    assert_eq!(world.phase("web"), "Progressing", "{:#}", world.status("web"));
    world.kill();
    world.start().await;
    let is_back = world.until(35, |world| world.phase("web") == "Failed").await;
    assert!(is_back, "{:#}", world.status("web"));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_failed_is_not_tried_again() {
    let world = set_up(by_weight()).await;
    break_metrics(&world);
    release(&world, "web:2.0");
    reach(&world, "Failed").await;
    mend_metrics(&world);
    world.advance_s(600).await;
    assert_eq!(world.phase("web"), "Failed");
    assert_eq!(divided(&service(&world)), (Some(0), Some("web-00001"), Some(100)));
}

#[tokio::test(start_paused = true)]
async fn a_lost_annotation_is_found_again_by_the_traffic_that_is_pinned() {
    let world = set_up(by_weight()).await;
    release(&world, "web:2.0");
    assert!(world.until(100, |world| divided(&service(world)).0 == Some(40)).await);
    let gone = json!({ "metadata": { "annotations": { PRIMARY: null } } });
    world.patch(KNATIVE_SERVICES, "web", &gone);
    world.settle().await;
    assert_eq!(service(&world)["metadata"]["annotations"][PRIMARY], "web-00001");
    reach(&world, "Succeeded").await;
    assert_eq!(promoted_image(&world), "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn a_preview_of_the_users_stays_and_gets_nothing_of_what_is_divided() {
    let world = set_up(blue_green()).await;
    let mut entries = service(&world)["spec"]["traffic"].clone();
    entries.as_array_mut().unwrap().push(
        json!({ "revisionName": "web-00001", "latestRevision": false, "tag": "old", "percent": 0 }),
    );
    world.patch(KNATIVE_SERVICES, "web", &json!({ "spec": { "traffic": entries } }));
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let service = service(&world);
    let previews = service["spec"]["traffic"].as_array().unwrap().iter();
    let mut previews = previews.filter(|entry| entry["tag"] == "old");
    assert_eq!(previews.next().map(|entry| entry["percent"].clone()), Some(json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_not_there_is_said_to_be_missing_and_no_other_is_touched() {
    let mut canary = canary_for(KNATIVE, by_weight());
    canary["spec"]["targetRef"]["name"] = json!("nobody");
    let mut world = with_canary(canary);
    furnish(&world, KNATIVE);
    world.start().await;
    world.advance_s(30).await;
    let (_, _, message) = condition(&world, "web", "Stalled");
    assert!(message.contains("does not exist"), "{message}");
    assert_eq!(service(&world)["metadata"]["annotations"][PRIMARY], Value::Null);
}

/// The object as a tool applies it: no annotation, and traffic as before there was a canary; with and
/// without a preview of the user's.
fn manifests() -> [Value; 2] {
    let latest = json!({ "latestRevision": true, "percent": 100 });
    let preview = json!({ "revisionName": "web-00001", "tag": "old", "percent": 0 });
    [json!([latest]), json!([latest, preview])].map(|traffic| {
        json!({ "metadata": { "annotations": { PRIMARY: null } }, "spec": { "traffic": traffic } })
    })
}

/// 2.0 on its way, with 40 % of all traffic. A user's edit of the traffic is not the operator's fault.
async fn half_way() -> World {
    let mut world = set_up(by_weight()).await;
    world.collects_violations = true;
    release(&world, "web:2.0");
    assert!(world.until(100, |world| divided(&service(world)).0 == Some(40)).await);
    world.settle().await;
    world
}

// Mistake 32 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn with_annotation_and_pin_gone_the_status_knows_the_primary() {
    for manifest in manifests() {
        let mut world = half_way().await;
        assert_eq!(world.status("web")["rollout"]["primaryRevision"], "web-00001");
        world.kill();
        world.patch(KNATIVE_SERVICES, "web", &manifest);
        world.start().await;
        let found = service(&world);
        assert_eq!(found["metadata"]["annotations"][PRIMARY], "web-00001");
        assert_eq!(divided(&found).1, Some("web-00001"));
        assert!(divided(&found).0 <= Some(40), "2.0 was not analysed in full: {found:#}");
        assert_ne!(condition(&world, "web", "Stalled").0, "True", "nobody is waited for");
        reach(&world, "Succeeded").await;
        assert_eq!(promoted_image(&world), "web:2.0");
        world.advance_s(5).await;
        assert_eq!(world.status("web")["rollout"]["primaryRevision"], "web-00002");
    }
}

// Mistake 32 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn where_nothing_knows_the_primary_no_revision_is_taken_for_it() {
    for manifest in manifests() {
        let mut world = half_way().await;
        world.kill();
        let unknown = json!({ "status": { "rollout": { "primaryRevision": null } } });
        let status = world.admin.patch(CANARIES, "default", "web", "status", &unknown);
        status.expect("the status is written");
        world.patch(KNATIVE_SERVICES, "web", &manifest);
        world.start().await;
        world.advance_s(5).await;
        let service = service(&world);
        let chosen = &service["metadata"]["annotations"][PRIMARY];
        assert_eq!(*chosen, Value::Null, "2.0 was not analysed");
        let (_, _, message) = condition(&world, "web", "Stalled");
        assert!(message.contains(PRIMARY), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_are_asked_of_the_revision_that_was_created_last() {
    let mut analysis = measured(by_weight());
    analysis["metrics"].as_array_mut().unwrap().extend([
        json!({ "name": "request-duration", "thresholdRange": { "max": 500 } }),
        json!({ "name": "own", "query": "errors{revision=\"{{ route }}\"}",
                "thresholdRange": { "max": 500 } }),
    ]);
    let mut world = with_canary(canary_for(KNATIVE, analysis));
    furnish(&world, KNATIVE);
    mend_metrics(&world);
    world.start().await;
    reach(&world, "Initialized").await;
    for (image, revision) in [("web:2.0", "web-00002"), ("web:3.0", "web-00003")] {
        world.network.forget_calls();
        release(&world, image);
        reach(&world, "Succeeded").await;
        let asked = world.network.calls_to("prometheus");
        let asked: Vec<_> = asked.iter().map(|call| call.query.as_str()).collect();
        let is_about = |query: &&str| query.contains("envoy_") || query.contains("errors{");
        let queries: Vec<_> = asked.iter().copied().filter(is_about).collect();
        assert!(queries.len() >= 3, "{asked:#?}");
        for query in queries {
            let of_envoy = format!("envoy_cluster_name=~\"default/{revision}\"");
            let of_user = format!("errors{{revision=\"{revision}\"}}");
            assert!(query.contains(&of_envoy) || query == of_user, "{image}: {query}");
        }
    }
}
