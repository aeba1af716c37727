//! Knative.

use super::{fixtures::users_knative_service, *};

const PRIMARY: &str = "flagger.app/primary-revision";

fn world() -> World {
    let mut world = World::plain(Mesh::Knative);
    world.reconcile();
    world
}

fn annotation(world: &World) -> Value {
    world.route()["metadata"]["annotations"][PRIMARY].clone()
}

fn traffic(latest: u8, revision: &str, percent: u8) -> Value {
    json!([
        { "latestRevision": true, "percent": latest },
        { "latestRevision": false, "revisionName": revision, "percent": percent },
    ])
}

/// A new revision, as a user makes one; and which one is the primary from now on.
fn roll(world: &mut World, latest: &str, primary: &str) {
    world.edit_route(|route| {
        route["status"]["latestCreatedRevisionName"] = json!(latest);
        route["status"]["latestReadyRevisionName"] = json!(latest);
        route["metadata"]["annotations"][PRIMARY] = json!(primary);
    });
}

#[test]
fn the_revision_that_serves_is_the_primary_and_the_latest_is_the_canary() {
    let mut world = world();
    assert_eq!(annotation(&world), "shop-00001");
    assert_eq!(world.route()["spec"]["traffic"], traffic(0, "shop-00001", 100));
    assert_eq!(world.read(), Ok(Split::PRIMARY));
    roll(&mut world, "shop-00002", "shop-00001");
    world.write(split(50));
    assert_eq!(world.route()["spec"]["traffic"], traffic(50, "shop-00001", 50));
    assert_eq!(world.read(), Ok(split(50)));
    assert_eq!(world.drift(), Ok(vec![]));
    assert!(world.route()["spec"]["template"].is_object());
}

#[test]
fn a_stepped_promotion_does_not_take_the_primary_for_the_canary() {
    let mut world = world();
    roll(&mut world, "shop-00002", "shop-00001");
    world.write(split(100));
    // Promoted: the annotation names the latest revision, and so do both entries in effect.
    let changes = Mesh::Knative.promote(&world.cx(), &world.live).unwrap();
    world.carry_out(changes);
    assert_eq!(annotation(&world), "shop-00002");
    assert_eq!(world.read(), Ok(Split::CANARY), "a promotion shifts nothing");
    for percent in [80, 50, 20, 0] {
        world.write(split(percent));
        assert_eq!(world.read(), Ok(split(percent)));
        let (primary, canary) = fixtures::weights(&world);
        assert_eq!(primary + canary, 100, "or Knative refuses it");
    }
    assert_eq!(world.route()["spec"]["traffic"], traffic(0, "shop-00002", 100));
}

#[test]
fn a_revision_that_is_not_ready_is_not_promoted() {
    let mut world = world();
    roll(&mut world, "shop-00002", "shop-00001");
    world.write(split(50));
    world.edit_route(|route| {
        route["status"]["latestCreatedRevisionName"] = json!("shop-00003");
    });
    let error = Mesh::Knative.promote(&world.cx(), &world.live).unwrap_err();
    assert!(error.is_waiting(), "{error}");
    assert_eq!(Mesh::Istio.promote(&world.cx(), &world.live), Ok(vec![]));
}

#[test]
fn without_the_annotation_nothing_is_shifted_and_a_reconcile_brings_it_back() {
    let mut world = World::plain(Mesh::Knative);
    assert_eq!(world.read().unwrap_err().label(), "malformed");
    assert!(world.planned(split(10)).unwrap_err().to_string().contains(PRIMARY));
    world.reconcile();
    roll(&mut world, "shop-00002", "shop-00001");
    world.write(split(30));
    world.edit_route(|route| {
        route["metadata"]["annotations"].as_object_mut().unwrap().remove(PRIMARY);
    });
    assert_eq!(world.read().unwrap_err().label(), "malformed");
    world.reconcile();
    assert_eq!(annotation(&world), "shop-00001", "the revision that traffic is pinned to");
    assert_eq!(world.read(), Ok(split(30)));
}

#[test]
fn with_annotation_and_pin_gone_the_primary_is_the_one_that_is_remembered() {
    let mut world = world();
    roll(&mut world, "shop-00002", "shop-00001");
    world.write(split(30));
    world.edit_route(|route| {
        route["metadata"]["annotations"].as_object_mut().unwrap().remove(PRIMARY);
        route["spec"]["traffic"] = json!([{ "latestRevision": true, "percent": 100 }]);
    });
    world.primary = Some("shop-00001");
    world.reconcile();
    assert_eq!(annotation(&world), "shop-00001");
    assert_eq!(world.route()["spec"]["traffic"], traffic(0, "shop-00001", 100), "not the canary");
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn a_split_that_is_not_in_effect_is_waited_for() {
    let mut world = world();
    roll(&mut world, "shop-00002", "shop-00001");
    world.write(split(20));
    let mut stale = world.route().clone();
    stale["status"]["traffic"][0]["percent"] = json!(0);
    stale["status"]["traffic"][1]["percent"] = json!(100);
    world.live.insert(KNATIVE_SERVICE, stale);
    let error = world.read().unwrap_err();
    assert!(error.is_waiting(), "{error}");
    let cx = world.cx();
    let asked_for = Mesh::Knative.read(&cx, &world.live.without_status());
    assert_eq!(asked_for, Ok(split(20)), "asked for, if not in effect");
}

#[test]
fn traffic_is_not_pinned_to_a_revision_that_is_not_ready() {
    for status in [json!({}), json!({ "latestCreatedRevisionName": "shop-00001" })] {
        let mut world = World::plain(Mesh::Knative);
        let mut service = users_knative_service();
        service["status"] = status;
        world.put(KNATIVE_SERVICE, service);
        assert!(world.drift().unwrap_err().is_waiting());
    }
}

#[test]
fn missing_percents_and_flags_are_errors_and_not_crashes() {
    let mut world = world();
    let cases = [
        json!([{ "latestRevision": true }, { "revisionName": "shop-00001", "percent": 100 }]),
        json!([{ "percent": 0 }, { "revisionName": "shop-00001", "percent": 100 }]),
        json!([{ "latestRevision": true, "percent": 100 }]),
        json!([]),
        json!(7),
    ];
    for odd in cases {
        world.edit_route(|route| route["spec"]["traffic"] = odd.clone());
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{odd}");
    }
    world.reconcile();
    assert_eq!(world.read(), Ok(Split::PRIMARY));
}

#[test]
fn previews_of_the_users_stay_and_their_traffic_does_not() {
    let mut world = world();
    world.edit_route(|route| {
        let entries = route["spec"]["traffic"].as_array_mut().unwrap();
        entries[0]["tag"] = json!("next");
        entries.push(json!({ "revisionName": "shop-00000", "tag": "old" }));
    });
    assert_eq!(world.drift(), Ok(vec![]));
    world.edit_route(|route| {
        let entries = route["spec"]["traffic"].as_array_mut().unwrap();
        entries[2]["percent"] = json!(25);
        entries.push(json!({ "revisionName": "shop-00001", "percent": 25 }));
    });
    world.write(split(10));
    let entries = world.route()["spec"]["traffic"].as_array().unwrap().clone();
    assert_eq!(entries[0]["tag"], "next");
    assert_eq!(entries[2], json!({ "revisionName": "shop-00000", "tag": "old", "percent": 0 }));
    assert_eq!(entries.len(), 3, "what has no tag is nobody's preview");
    assert_eq!(fixtures::weights(&world), (90, 10));
    assert_eq!(world.read(), Ok(split(10)));
}

#[test]
fn a_deleted_canary_does_not_leave_new_revisions_without_traffic() {
    let mut world = world();
    // The latest revision may be one that failed: users who want it served say `revertOnDeletion`.
    assert!(!Mesh::Knative.outlives(&world.spec));
    world.write(split(10));
    assert_eq!(world.finalize(), Ok(1));
    assert_eq!(annotation(&world), Value::Null);
    let latest = json!([{ "latestRevision": true, "percent": 100 }]);
    assert_eq!(world.route()["spec"]["traffic"], latest);
    assert_eq!(world.finalize(), Ok(0));
    world.live.remove(KNATIVE_SERVICE, "shop");
    assert_eq!(world.finalize(), Ok(0), "what is gone needs nothing");
}

#[test]
fn another_target_is_refused() {
    let mut world = World::plain(Mesh::Knative);
    world.edit_spec(json!({ "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment" } }));
    let error = world.check().unwrap_err();
    assert!(error.to_string().contains("spec.targetRef"), "{error}");
}
