use serde_json::json;
use tidegate_engine::Phase;
use tidegate_providers::workload::{DEPLOYMENT, SERVICE};

use super::*;
use crate::canary::observe::testing::{Bench, state, why};

const ALL: [ManagedObject; 3] =
    [ManagedObject::CanaryService, ManagedObject::PrimaryService, ManagedObject::ApexService];

/// An apex Service that was there before the canary.
fn taken_over() -> Bench {
    let bench = Bench::new("istio");
    bench.put(
        SERVICE,
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
            "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
        }),
    );
    bench
}

fn name_of(object: ManagedObject) -> &'static str {
    match object {
        ManagedObject::CanaryService => "web-canary",
        ManagedObject::PrimaryService => "web-primary",
        ManagedObject::ApexService => "web",
        ManagedObject::Primary | ManagedObject::PrimaryScaler | ManagedObject::Route => "",
    }
}

#[test]
fn a_service_that_is_deleted_or_edited_is_out_of_sync_and_put_right_again() {
    for object in ALL {
        let bench = Bench::new("istio").set_up();
        bench.remove(SERVICE, name_of(object));
        let edited = Bench::new("istio").set_up();
        edited.edit(SERVICE, name_of(object), |service| {
            service["spec"]["selector"] = json!({ "app": "elsewhere" });
        });
        for (reason, bench) in [("deleted", bench), ("edited", edited)] {
            let observation = bench.observe();
            for other in ALL {
                let want = if other == object { State::OutOfSync } else { State::InSync };
                assert_eq!(state(&observation, other), want, "{object:?} {reason}: {other:?}");
            }
            bench.put_right(ManagedWrite::Ensure(object));
            assert_eq!(state(&bench.observe(), object), State::InSync, "{object:?} {reason}");
        }
    }
}

#[test]
fn services_lead_to_their_side() {
    let bench = Bench::new("istio").set_up();
    let selector = |name: &str| bench.get(SERVICE, name).unwrap()["spec"]["selector"].clone();
    assert_eq!(selector("web-canary"), json!({ "app": "web" }));
    assert_eq!(selector("web-primary"), json!({ "app": "web-primary" }));
    assert_eq!(selector("web"), json!({ "app": "web-primary" }));
}

#[test]
fn an_apex_that_was_there_is_taken_over_and_that_is_noted() {
    let observation = taken_over().observe();
    let finding = &observation.findings[&ManagedWrite::Ensure(ManagedObject::ApexService)];
    assert_eq!(finding.note, Some(Fact::ServiceTakenOver("web".to_owned())));
    assert_eq!(finding.state, State::OutOfSync);
}

#[test]
fn a_primary_service_that_selects_other_pods_moves_its_clients() {
    let bench = Bench::new("istio").set_up();
    assert!(!bench.observe().observed.objects.primary_service_moves);
    bench.edit(SERVICE, "web-primary", |service| {
        service["spec"]["selector"] = json!({ "app": "other-primary" });
    });
    assert!(bench.observe().observed.objects.primary_service_moves);
}

#[test]
fn a_target_whose_pods_cannot_be_selected_blocks_the_first_service() {
    let bench = Bench::new("istio").set_up();
    bench.edit(DEPLOYMENT, "web", |web| {
        web["spec"]["selector"]["matchLabels"] = json!({ "unknown": "web" });
    });
    let observation = bench.observe();
    assert!(why(&state(&observation, ManagedObject::CanaryService)).contains("selector"));
    assert_eq!(state(&observation, ManagedObject::ApexService), State::InSync, "left as it is");
}

#[test]
fn without_a_service_in_the_spec_there_is_none_to_manage() {
    let bench = Bench::new("istio").set_up().spec(&json!({ "service": null }));
    bench.remove(SERVICE, "web-canary");
    // It is blocked for another reason: the workload cannot be reached.
    let observation = bench.observe();
    for object in ALL {
        assert_eq!(state(&observation, object), State::InSync, "{object:?}");
    }
}

#[test]
fn an_apex_that_was_taken_over_is_restored_on_deletion_alone() {
    let bench = taken_over().set_up();
    assert_eq!(bench.observe().observed.objects.apex_restored, State::InSync);
    let bench = bench.deleted();
    let observation = bench.observe();
    assert_eq!(observation.observed.objects.apex_restored, State::OutOfSync);
    bench.put_right(ManagedWrite::RestoreApex);
    assert_eq!(bench.observe().observed.objects.apex_restored, State::InSync);
    let apex = bench.get(SERVICE, "web").unwrap();
    assert_eq!(apex["spec"]["selector"], json!({ "app": "web" }), "it leads to the target");
}

#[test]
fn a_plain_apex_follows_the_side_that_the_memory_says() {
    let bench = Bench::new("kubernetes").spec(&json!({ "analysis": { "iterations": 2 } })).set_up();
    // A failed promotion left clients on the canary.
    let bench = bench.remembering(&json!({ "phase": "Failed", "canaryWeight": 100 }));
    let observation = bench.observe();
    assert_eq!(observation.observed.memory.phase, Phase::Failed);
    assert!(observation.observed.memory.serves_from_canary());
    let is_whole = observation.observed.plan.traffic == tidegate_engine::Traffic::Whole;
    let want = if is_whole { State::OutOfSync } else { State::InSync };
    assert_eq!(state(&observation, ManagedObject::ApexService), want);
}

#[test]
fn a_switched_apex_is_left_where_it_is() {
    let bench = Bench::new("kubernetes").spec(&json!({ "analysis": { "iterations": 2 } })).set_up();
    bench.edit(SERVICE, "web", |service| {
        service["spec"]["selector"] = json!({ "app": "web" });
    });
    let observation = bench.observe();
    let can_switch = observation.inputs.mesh.capabilities(&observation.inputs.canary.spec).switched;
    let want = if can_switch { State::InSync } else { State::OutOfSync };
    assert_eq!(state(&observation, ManagedObject::ApexService), want);
    // Of other providers it is restored.
    let bench = Bench::new("istio").set_up();
    bench.edit(SERVICE, "web", |service| {
        service["spec"]["selector"] = json!({ "app": "web" });
    });
    assert_eq!(state(&bench.observe(), ManagedObject::ApexService), State::OutOfSync);
}

fn of_service() -> Bench {
    let bench = Bench::new("istio").spec(&json!({
        "targetRef": { "apiVersion": "v1", "kind": "Service", "name": "web" },
    }));
    bench.put(
        SERVICE,
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
            "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
        }),
    );
    bench
}

#[test]
fn a_service_as_target_has_copies_and_is_itself_the_apex() {
    let observation = of_service().observe();
    assert_eq!(state(&observation, ManagedObject::CanaryService), State::OutOfSync);
    assert_eq!(state(&observation, ManagedObject::ApexService), State::InSync, "never written");
    assert_eq!(state(&observation, ManagedObject::PrimaryScaler), State::InSync);
}

#[test]
fn deleting_a_canary_whose_target_is_gone_gives_back_a_service_that_was_taken_over() {
    let bench = taken_over().set_up();
    bench.remove(DEPLOYMENT, "web");
    assert_eq!(bench.observe().observed.objects.apex_restored, State::InSync, "not yet");
    let restored = bench.deleted().observe().observed.objects.apex_restored;
    assert_ne!(restored, State::InSync);
}

#[test]
fn objects_that_pods_need_beside_their_service_are_prepared_once_all_is_known() {
    let prepared = |bench: &Bench| {
        bench.with_env(|env| {
            let mut memo = crate::canary::memo::Memo::default();
            let answers = tidegate_engine::Answers::default();
            let inputs = crate::canary::observe::observe(env, &mut memo, &answers).unwrap().inputs;
            super::prepared(env, &inputs)
        })
    };
    let pods = || {
        let bench = Bench::new("appmesh:v1beta2");
        bench.put_right(ManagedWrite::Ensure(ManagedObject::PrimaryService));
        bench.put_right(ManagedWrite::Ensure(ManagedObject::CanaryService));
        bench
    };
    assert_eq!(prepared(&pods()).state, State::OutOfSync);
    let kind = tidegate_providers::traffic::Mesh::ALL
        .into_iter()
        .find(|mesh| mesh.as_str() == "appmesh:v1beta2")
        .and_then(|mesh| mesh.kinds().first().copied())
        .unwrap();
    let mut unlisted = pods();
    unlisted.fail(kind, crate::cluster::cache::TableState::Failed("forbidden".to_owned()));
    assert_eq!(prepared(&unlisted).state, State::InSync, "not before all is listed");
}

#[test]
fn an_apex_that_was_switched_stays_where_it_is_where_it_may_be_switched() {
    let of = |spec: &serde_json::Value, phase: &str| {
        let bench = Bench::new("kubernetes").spec(spec).set_up();
        let canary = bench.get(SERVICE, "web-canary").unwrap()["spec"]["selector"].clone();
        bench.edit(SERVICE, "web", |web| web["spec"]["selector"] = canary);
        let bench = bench.remembering(&json!({ "phase": phase }));
        bench.with_env(|env| {
            let mut memo = crate::canary::memo::Memo::default();
            let answers = tidegate_engine::Answers::default();
            let inputs = crate::canary::observe::observe(env, &mut memo, &answers).unwrap().inputs;
            apex_is_switched(env, &inputs)
        })
    };
    let blue_green = json!({
        "service": { "switchApex": true }, "analysis": { "iterations": 2 },
    });
    assert!(of(&blue_green, "Progressing"));
    assert!(!of(&blue_green, "Initializing"), "before it is set up that does not count");
    let settled = Bench::new("kubernetes").spec(&blue_green).set_up();
    let is_switched = settled.with_env(|env| {
        let mut memo = crate::canary::memo::Memo::default();
        let answers = tidegate_engine::Answers::default();
        let inputs = crate::canary::observe::observe(env, &mut memo, &answers).unwrap().inputs;
        apex_is_switched(env, &inputs)
    });
    assert!(!is_switched, "it selects the primary's pods");
    let unasked = json!({ "analysis": { "iterations": 2 } });
    assert!(!of(&unasked, "Progressing"), "it may not be switched");
}
