use serde_json::json;
use tidegate_engine::Percent;
use tidegate_providers::{
    traffic::{DESTINATION_RULE, VIRTUAL_SERVICE},
    workload::SERVICE,
};

use super::*;
use crate::canary::observe::testing::{Bench, state, why};

fn percent(percent: i64) -> Split {
    Split::canary(Percent::clamped(percent))
}

/// Divides the traffic of a `VirtualService`.
fn divide(bench: &Bench, canary: i64) {
    bench.edit(VIRTUAL_SERVICE, "web", |route| {
        for destination in route["spec"]["http"][0]["route"].as_array_mut().unwrap() {
            let is_canary = destination["destination"]["host"] == "web-canary";
            destination["weight"] = json!(if is_canary { canary } else { 100 - canary });
        }
    });
}

#[test]
fn the_split_is_that_of_the_live_route() {
    let bench = Bench::new("istio").set_up();
    assert_eq!(bench.observe().observed.routes, Ok(Split::PRIMARY));
    divide(&bench, 30);
    let observation = bench.observe();
    assert_eq!(observation.observed.routes, Ok(percent(30)));
    assert_eq!(state(&observation, ManagedObject::Route), State::InSync, "weights are no edit");
    let plain = Bench::new("kubernetes").set_up();
    assert_eq!(plain.observe().observed.routes, Ok(Split::PRIMARY));
}

#[test]
fn a_missing_route_is_unknown_traffic_and_out_of_sync() {
    let bench = Bench::new("istio").set_up();
    bench.remove(VIRTUAL_SERVICE, "web");
    let observation = bench.observe();
    assert!(observation.observed.routes.is_err());
    assert_eq!(state(&observation, ManagedObject::Route), State::OutOfSync);
}

#[test]
fn kinds_that_were_never_listed_block_the_route() {
    let served_not = TableState::NotServed("no such kind".to_owned());
    let failed = TableState::Failed("forbidden".to_owned());
    let cases = [("not served", served_not, ""), ("forbidden", failed, "forbidden")];
    for (reason, table, restored) in cases {
        let mut bench = Bench::new("istio").set_up().deleted();
        let text = table.failure().unwrap().to_owned();
        bench.fail(VIRTUAL_SERVICE, table.clone());
        let observation = bench.observe();
        assert_eq!(observation.observed.routes, Err(Obstacle(text.clone())), "{reason}");
        assert_eq!(why(&state(&observation, ManagedObject::Route)), text, "{reason}");
        assert_eq!(why(&observation.observed.objects.route_restored), restored, "{reason}");
        assert_eq!(observation.routes.unlisted, Some(table), "{reason}");
    }
    assert_eq!(Bench::new("istio").observe().routes.unlisted, None);
}

#[test]
fn the_route_is_restored_on_deletion_alone() {
    let bench = Bench::new("istio").set_up();
    assert_eq!(bench.observe().observed.objects.route_restored, State::InSync);
    divide(&bench, 30);
    let observation = bench.deleted().observe();
    let restored = &observation.findings[&ManagedWrite::RestoreRoute];
    assert_eq!(observation.observed.objects.route_restored, restored.state);
}

#[test]
fn a_step_needs_the_one_before_it_to_be_in_effect() {
    let cases = [
        ("a rollout whose interval is over", "Progressing", 0, true),
        ("at rest", "Succeeded", 0, false),
        ("waiting for approval to begin", "Waiting", 0, false),
        ("held with a share", "Waiting", 20, true),
    ];
    for (reason, phase, weight, needs) in cases {
        let bench = Bench::new("istio")
            .spec(&json!({ "manualStep": { "weight": 20 } }))
            .remembering(&json!({ "phase": phase, "canaryWeight": weight }));
        let mut observation = bench.observe();
        observation.inputs.interval_state.due = true;
        assert_eq!(needs_effect(&observation.inputs), needs, "{reason}");
        observation.inputs.interval_state.due = false;
        assert!(!needs_effect(&observation.inputs), "{reason}: not before its time");
        observation.inputs.interval_state.retry = true;
        assert_eq!(needs_effect(&observation.inputs), needs, "{reason}: a person asks");
    }
}

/// A rollout at 20 % that was begun with a `VirtualService` of another name.
fn rerouted() -> Bench {
    let bench = Bench::new("istio").set_up();
    divide(&bench, 20);
    bench
        .remembering(&json!({
            "phase": "Progressing", "canaryWeight": 20,
            "rollout": { "provider": "istio", "route": {
                "provider": "istio", "kind": "VirtualService", "name": "web", "service": "web",
            } },
        }))
        .spec(&json!({ "service": { "name": "shop" } }))
}

#[test]
fn the_previous_route_gives_its_share_back_before_the_new_one_is_given_any() {
    let bench = rerouted();
    let observation = bench.observe();
    let objects = &observation.observed.objects;
    assert!(objects.takes_over);
    assert_eq!(objects.previous_route, State::OutOfSync, "it has a share");
    assert_eq!(objects.route, State::OutOfSync, "the new one is not there");
    assert!(!observation.is_previous_route_retired());
    assert_eq!(observation.routes.inherited, percent(20), "the share that was approved last");
    let previous = observation.routes.previous.as_ref().unwrap();
    assert_eq!(previous.route.name, "web");
    assert!(previous.place.as_ref().is_some_and(|(kind, _)| *kind == VIRTUAL_SERVICE));

    bench.put_right(ManagedWrite::RetirePreviousRoute);
    let observation = bench.observe();
    assert_eq!(observation.observed.objects.previous_route, State::InSync);
    assert!(observation.is_previous_route_retired());
    let weights = bench.get(VIRTUAL_SERVICE, "web").unwrap();
    assert!(weights.to_string().contains("\"weight\":100"), "{weights}");
}

#[test]
fn a_previous_route_that_is_gone_or_unknown_has_no_share() {
    let bench = rerouted();
    bench.remove(VIRTUAL_SERVICE, "web");
    assert_eq!(bench.observe().observed.objects.previous_route, State::InSync);
    let unknown = rerouted().remembering(&json!({ "rollout": { "route": {
        "provider": "istio", "kind": "Unknown", "name": "web", "service": "web",
    } } }));
    let observation = unknown.observe();
    assert_eq!(observation.observed.objects.previous_route, State::InSync);
    assert!(observation.routes.previous.is_some_and(|previous| previous.place.is_none()));
    let same = Bench::new("istio").set_up().remembering(&json!({ "rollout": { "route": {
        "provider": "istio", "kind": "VirtualService", "name": "web", "service": "web",
    } } }));
    let observation = same.observe();
    assert!(observation.routes.previous.is_none() && !observation.observed.objects.takes_over);
    assert_eq!(observation.routes.inherited, Split::PRIMARY);
}

#[test]
fn a_rejected_retirement_blocks_the_previous_route() {
    let mut bench = rerouted();
    let until = std::time::Duration::from_secs(2000);
    bench.rejected.add(ManagedWrite::RetirePreviousRoute, "a policy".to_owned(), until, 1);
    let observation = bench.observe();
    assert_eq!(why(&observation.observed.objects.previous_route), "a policy");
    assert!(!observation.is_previous_route_retired());
}

#[test]
fn a_foreign_previous_route_with_a_share_makes_deletion_give_everything_back() {
    let finalizer = json!({ "finalizers": ["finalizer.flagger.app"] });
    let foreign = |bench: Bench| {
        bench.edit(VIRTUAL_SERVICE, "web", |route| {
            route["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        });
        bench
    };
    let cases = [
        ("ours", rerouted().metadata(&finalizer), false),
        ("foreign", foreign(rerouted().metadata(&finalizer)), true),
        ("foreign, without the finalizer", foreign(rerouted()), false),
    ];
    for (reason, bench, reverts) in cases {
        assert_eq!(bench.observe().observed.plan.revert, reverts, "{reason}");
    }
}

#[test]
fn on_deletion_both_routes_are_given_back() {
    let observation = rerouted().deleted().observe();
    let restored = &observation.findings[&ManagedWrite::RestoreRoute];
    assert_eq!(restored.state, State::OutOfSync);
    assert!(!restored.changes.is_empty(), "the previous route has a share");
    let mut bench = rerouted();
    bench.fail(DESTINATION_RULE, TableState::Failed("forbidden".to_owned()));
    let observation = bench.deleted().observe();
    assert_eq!(why(&observation.observed.objects.route_restored), "forbidden");
}

#[test]
fn nothing_is_known_of_a_previous_route_whose_kind_cannot_be_listed() {
    let mut bench = Bench::new("kubernetes").set_up().remembering(&json!({
        "phase": "Progressing", "canaryWeight": 20,
        "rollout": { "provider": "istio", "route": {
            "provider": "istio", "kind": "VirtualService", "name": "web", "service": "web",
        } },
    }));
    assert_eq!(bench.observe().observed.objects.previous_route, State::InSync, "it is gone");
    bench.fail(VIRTUAL_SERVICE, TableState::Failed("forbidden".to_owned()));
    assert_eq!(why(&bench.observe().observed.objects.previous_route), "forbidden");
    bench.fail(VIRTUAL_SERVICE, TableState::NotServed("no such kind".to_owned()));
    assert_eq!(bench.observe().observed.objects.previous_route, State::InSync);
}

#[test]
fn another_kind_of_the_provider_says_nothing_about_a_previous_route() {
    let mut bench = rerouted();
    bench.fail(DESTINATION_RULE, TableState::Failed("forbidden".to_owned()));
    assert_eq!(bench.observe().observed.objects.previous_route, State::OutOfSync);
}

#[test]
fn a_switched_apex_that_is_a_route_no_more_goes_back_unless_clients_are_to_stay() {
    let bench = |status: &serde_json::Value| {
        let spec = json!({ "service": { "switchApex": true }, "analysis": { "iterations": 2 } });
        let bench = Bench::new("kubernetes").spec(&spec).set_up();
        let canary = bench.get(SERVICE, "web-canary").unwrap()["spec"]["selector"].clone();
        bench.edit(SERVICE, "web", |web| web["spec"]["selector"] = canary);
        let route = json!({
            "provider": "kubernetes", "kind": "Service", "name": "web", "service": "web",
        });
        bench
            .remembering(&json!({ "rollout": { "provider": "kubernetes", "route": route } }))
            .remembering(status)
            .spec(&json!({ "provider": "istio" }))
    };
    let under_way = json!({ "phase": "Progressing" });
    let previous = |bench: Bench| bench.observe().observed.objects.previous_route;
    assert_eq!(previous(bench(&under_way)), State::OutOfSync);
    assert_eq!(previous(bench(&under_way).deleted()), State::InSync, "clients stay with it");
    let renamed = json!({ "service": { "name": "shop" } });
    assert_eq!(previous(bench(&under_way).spec(&renamed)), State::OutOfSync, "not the apex");
}
