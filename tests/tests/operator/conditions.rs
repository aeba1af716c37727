//! The status as users read it: conditions in every phase, the last decision, and all of it also with
//! Flagger's own definitions.

use kube_sandbox::cluster::{Cluster as _, Resource};
use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{CANARIES, World},
};

use crate::stage::{
    GATEWAY_API, ab_test, at_share, blue_green, break_metrics, by_weight, canary_of, canary_share,
    condition, edit, hooked, image, initialized, mark, measured, object, reach, release,
    requests_since, told, with_canary,
};

const CRDS: Resource =
    Resource { group: "apiextensions.k8s.io", plural: "customresourcedefinitions" };

/// `Promoted`, then the one of the other three that is true, and that one's message.
#[track_caller]
fn assert_says(world: &World, promoted: &str, holds: &str, words: &str) {
    let phase = world.phase("web");
    let (status, reason, _) = condition(world, "web", "Promoted");
    assert_eq!((&*status, &reason), (promoted, &phase));
    let (mut held, mut said) = (Vec::new(), String::new());
    for kind in ["Ready", "Reconciling", "Stalled"] {
        let (status, reason, message) = condition(world, "web", kind);
        if status == "True" {
            held.push(kind);
            said = message;
        } else {
            assert_eq!(
                (&*status, &*reason),
                ("False", holds),
                "{phase}: it names the one that holds"
            );
            assert!(!message.is_empty() && !message.contains("web"), "{phase}, {kind}: {message}");
        }
    }
    assert_eq!(held, [holds], "{phase}: exactly one of the three; {said}");
    assert!(said.contains(words), "{phase}: {said}");
    let canary = object(world, CANARIES, "web");
    let generation = &canary["metadata"]["generation"];
    assert_eq!(canary["status"]["observedGeneration"], *generation, "{phase}");
}

#[tokio::test(start_paused = true)]
async fn every_phase_says_what_it_waits_for() {
    let analysis = hooked(hooked(by_weight(), "confirm-rollout"), "confirm-promotion");
    let mut analysis = measured(analysis);
    analysis["stepWeightPromotion"] = json!(30);
    let world = initialized(GATEWAY_API, analysis).await;
    for gate in ["confirm-rollout", "confirm-promotion"] {
        world.network.hook(&format!("hooks/{gate}"), Reply::no());
    }
    assert_says(&world, "True", "Ready", "is initialized");
    release(&world, "web:2.0");
    reach(&world, "Waiting").await;
    assert_says(&world, "Unknown", "Reconciling", "confirm-rollout has not passed");
    world.network.hook("hooks/confirm-rollout", Reply::yes());
    reach(&world, "Progressing").await;
    assert_says(&world, "Unknown", "Reconciling", "new revision");
    assert!(world.until(60, |world| canary_share(world) == 20).await);
    world.settle().await;
    assert_says(&world, "Unknown", "Reconciling", "20% of the traffic");
    edit(&world, json!({ "manualStep": { "weight": 20 } }));
    world.settle().await;
    assert_says(&world, "Unknown", "Reconciling", "held at 20%");
    let (_, _, promoted) = condition(&world, "web", "Promoted");
    assert!(promoted.contains("until manualStep is resumed"), "{promoted}");
    edit(&world, json!({ "manualStep": null }));
    reach(&world, "WaitingPromotion").await;
    assert_says(&world, "Unknown", "Reconciling", "confirm-promotion has not passed");
    world.network.hook("hooks/confirm-promotion", Reply::yes());
    reach(&world, "Promoting").await;
    assert_says(&world, "Unknown", "Reconciling", "web-primary.default");
    reach(&world, "Finalising").await;
    assert_says(&world, "Unknown", "Reconciling", "100% of the traffic");
    reach(&world, "Succeeded").await;
    assert_says(&world, "True", "Ready", "");
}

#[tokio::test(start_paused = true)]
async fn a_failed_canary_says_why_it_failed() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    break_metrics(&world);
    reach(&world, "Failed").await;
    world.settle().await;
    assert_says(&world, "False", "Stalled", "3 checks failed");
    let told: Vec<_> = world.events().into_iter().map(|(_, message)| message).collect();
    assert!(told.iter().any(|it| it.contains("50.00% < 99%")), "{told:?}");
    world.advance_s(600).await;
    assert_says(&world, "False", "Stalled", "3 checks failed");
    assert_eq!(world.status("web")["lastDecision"]["reason"], "ThresholdReached");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_was_called_off_is_not_promoted_until_the_next_one() {
    let analysis = measured(hooked(by_weight(), "confirm-rollout"));
    let world = initialized(GATEWAY_API, analysis).await;
    let says = |reason: &str| {
        let (status, said, _) = condition(&world, "web", "Promoted");
        assert_eq!((&*status, &*said), ("False", reason));
        assert_eq!(condition(&world, "web", "Ready").0, "True", "the primary runs the target");
        let last = &object(&world, CANARIES, "web")["status"]["lastDecision"];
        assert_eq!(last["reason"], reason);
    };
    release(&world, "web:2.0");
    reach(&world, "Progressing").await;
    release(&world, "web:1.0");
    reach(&world, "Succeeded").await;
    says("RevisionReverted");
    world.settle().await;
    edit(&world, json!({ "analysis": { "threshold": 3 } }));
    world.settle().await;
    says("RevisionReverted");

    world.network.hook("hooks/confirm-rollout", Reply::no());
    release(&world, "web:2.0");
    reach(&world, "Waiting").await;
    assert_eq!(condition(&world, "web", "Promoted").0, "Unknown");
    release(&world, "web:1.0");
    reach(&world, "Succeeded").await;
    says("RevisionReverted");

    world.network.hook("hooks/confirm-rollout", Reply::yes());
    release(&world, "web:3.0");
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    assert_says(&world, "True", "Ready", "");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_canary_says_so() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    edit(&world, json!({ "suspend": true }));
    world.settle().await;
    assert_says(&world, "Unknown", "Reconciling", "suspended");
    edit(&world, json!({ "suspend": false }));
    reach(&world, "Succeeded").await;
    assert_says(&world, "True", "Ready", "");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_still_holds_keeps_its_times() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let times = |world: &World, kind: &str| {
        let status = world.status("web");
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|it| it["type"] == kind).unwrap_or_default();
        (found["lastTransitionTime"].clone(), found["lastUpdateTime"].clone())
    };
    let promoted = times(&world, "Promoted");
    let reconciling = times(&world, "Reconciling");
    world.advance_s(10).await;
    assert_eq!(canary_share(&world), 40);
    assert_eq!(times(&world, "Promoted"), promoted, "nothing new to say");
    let after = times(&world, "Reconciling");
    assert_eq!(after.0, reconciling.0, "still on its way");
    assert_ne!(after.1, reconciling.1, "with something new to say");
}

#[tokio::test(start_paused = true)]
async fn the_last_decision_shows_what_was_measured() {
    let mut analysis = measured(by_weight());
    let duration = json!({ "name": "request-duration", "thresholdRange": { "max": 500 } });
    analysis["metrics"].as_array_mut().expect("it has one").push(duration);
    let world = at_share(GATEWAY_API, analysis, 40).await;
    let decision = world.status("web")["lastDecision"].clone();
    assert_eq!(decision["reason"], "WeightAdvanced", "{decision:#}");
    let checks = decision["checks"].as_array().cloned().unwrap_or_default();
    let check = |name: &str| checks.iter().find(|it| it["name"] == name).cloned();
    let rate = check("request-success-rate").unwrap_or_default();
    assert_eq!(rate, json!({ "name": rate["name"], "value": "100", "min": "99", "passed": true }));
    let duration = check("request-duration").unwrap_or_default();
    assert_eq!((&duration["value"], &duration["max"]), (&json!("0.05"), &json!("500")));
    assert!(decision["next"].is_string(), "when it goes on: {decision:#}");
    break_metrics(&world);
    world.advance_s(10).await;
    let decision = world.status("web")["lastDecision"].clone();
    assert_eq!(decision["reason"], "CheckFailed");
    assert_eq!(decision["checks"][0]["passed"], false, "{decision:#}");
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_changes_at_rest_is_seen() {
    let world = initialized(GATEWAY_API, by_weight()).await;
    edit(&world, json!({ "progressDeadlineSeconds": 300 }));
    world.settle().await;
    assert_says(&world, "True", "Ready", "");
}

/// The definition of canaries as Flagger 1.44 installs it: our additional fields are dropped on arrival.
fn flaggers_definitions(world: &World) {
    let name = "canaries.flagger.app";
    let mut crd = world.admin.get(CRDS, "", name).expect("it was loaded");
    let schema = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties");
    let schema = schema.expect("it has a schema");
    for (parent, field) in [
        ("spec", "manualStep"),
        ("status", "manualPause"),
        ("status", "observedGeneration"),
        ("status", "lastDecision"),
        ("status", "rollout"),
    ] {
        let properties = schema[parent]["properties"].as_object_mut().expect("an object");
        assert!(properties.remove(field).is_some(), "{field} is one of ours");
    }
    let updated = world.admin.update(CRDS, "", crd);
    assert!(updated.is_ok(), "{updated:?}");
}

#[tokio::test(start_paused = true)]
async fn flaggers_own_definitions_are_enough() {
    for analysis in [by_weight(), blue_green(), ab_test()] {
        let analysis = hooked(hooked(measured(analysis), "pre-rollout"), "post-rollout");
        let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
        flaggers_definitions(&world);
        world.start().await;
        reach(&world, "Initialized").await;
        assert_eq!(world.status("web")["observedGeneration"], Value::Null, "it was dropped");
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        assert_eq!(image(&world, "web-primary"), "web:2.0");
        for hook in ["hooks/pre-rollout", "hooks/post-rollout"] {
            assert_eq!(world.network.calls_to(hook).len(), 1, "{hook}");
        }
        assert_eq!(told(&world, "Promoted"), 1, "{:?}", world.events());
        let before = mark(&world);
        world.advance_s(3600).await;
        assert_eq!(requests_since(&world, before), Vec::<String>::new(), "idle at rest");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_under_flaggers_definitions_finds_rest() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, measured(by_weight())));
    flaggers_definitions(&world);
    world.start().await;
    reach(&world, "Initialized").await;
    break_metrics(&world);
    release(&world, "web:2.0");
    reach(&world, "Failed").await;
    let events = world.events().len();
    world.start().await;
    world.advance_s(60).await;
    let before = mark(&world);
    world.advance_s(3600).await;
    assert_eq!(requests_since(&world, before), Vec::<String>::new());
    assert_eq!(world.events().len(), events, "nothing new to tell: {:?}", world.events());
}

/// The definition of canaries of a later version: it stores fields that this one does not know.
fn later_definitions(world: &World) {
    let mut crd = world.admin.get(CRDS, "", "canaries.flagger.app").expect("it was loaded");
    let schema = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties");
    let schema = schema.expect("it has a schema");
    for part in ["spec", "status"] {
        schema[part]["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    let updated = world.admin.update(CRDS, "", crd);
    assert!(updated.is_ok(), "{updated:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_later_version_stores_in_a_canary_survives() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, measured(by_weight())));
    later_definitions(&world);
    let later = json!({ "field": [1, 2] });
    edit(
        &world,
        json!({ "later": later, "manualStep": { "weight": 20 }, "revertOnDeletion": true }),
    );
    world.start().await;
    reach(&world, "Initialized").await;
    let status = json!({ "status": { "later": later } });
    let patched = world.admin.patch(CANARIES, "default", "web", "status", &status);
    patched.expect("the status is accepted");
    release(&world, "web:2.0");
    reach(&world, "Waiting").await;
    edit(&world, json!({ "manualStep": { "resume": true } }));
    reach(&world, "Succeeded").await;
    let canary = object(&world, CANARIES, "web");
    assert_eq!(canary["spec"]["manualStep"], Value::Null, "the operator wrote the spec");
    assert_eq!(canary["metadata"]["finalizers"][0], "finalizer.flagger.app", "and the metadata");
    assert_eq!((&canary["spec"]["later"], &canary["status"]["later"]), (&later, &later));
}
