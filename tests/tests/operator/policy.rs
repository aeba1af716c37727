//! Policies that run as with Flagger and are probably not meant so, and those that are refused.

use serde_json::{Value, json};
use tidegate_tests::rollout::{CANARIES, World};

use crate::stage::{
    ISTIO, KUBERNETES, by_weight, canary_of, condition, initialized_with, mark, object, reach,
    release, requests_since, with_canary,
};

fn doubts(world: &World) -> Vec<String> {
    let events = world.events().into_iter();
    events.filter(|(reason, _)| reason == "PolicyDoubtful").map(|(_, text)| text).collect()
}

/// By weight, with a hook that may roll back, so that something checks the canary.
fn checked() -> Value {
    let hook = json!({ "name": "back", "type": "rollback", "url": "http://hooks.default/back" });
    with(by_weight(), json!({ "webhooks": [hook] }))
}

fn with(mut analysis: Value, changes: Value) -> Value {
    if let (Some(analysis), Value::Object(changes)) = (analysis.as_object_mut(), changes) {
        analysis.extend(changes);
        analysis.retain(|_, value| !value.is_null());
    }
    analysis
}

#[tokio::test(start_paused = true)]
async fn a_doubtful_policy_runs_and_is_told_once() {
    let analysis = with(checked(), json!({ "maxWeight": 101, "stepWeight": 50 }));
    let world = initialized_with(canary_of("web", ISTIO, analysis)).await;
    world.advance_s(5).await;
    let told = "TG013: spec.analysis.maxWeight: 101 counts as 100";
    let found = |world: &World| condition(world, "web", "PolicySound");
    assert_eq!(found(&world), ("False".to_owned(), "TG013".to_owned(), told.to_owned()));
    assert_eq!(condition(&world, "web", "Ready").0, "True", "it changes nothing else");
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(doubts(&world), [told]);

    let before = mark(&world);
    world.advance_s(300).await;
    assert_eq!(requests_since(&world, before), [""; 0], "an idle canary costs no request");

    world.patch(CANARIES, "web", &json!({ "spec": { "analysis": { "maxWeight": 100 } } }));
    world.advance_s(5).await;
    assert_eq!(found(&world).0, "True");
    assert_eq!(found(&world).1, "NoFindings");
    world.patch(CANARIES, "web", &json!({ "spec": { "analysis": { "maxWeight": -1 } } }));
    world.advance_s(5).await;
    assert_eq!(doubts(&world), [told, "TG013: spec.analysis.maxWeight: -1 counts as 100"]);
}

#[tokio::test(start_paused = true)]
async fn a_sound_policy_has_no_condition_about_it() {
    let world = initialized_with(canary_of("web", ISTIO, checked())).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(doubts(&world), [""; 0]);
    let conditions = object(&world, CANARIES, "web")["status"]["conditions"].to_string();
    assert!(!conditions.contains("PolicySound"), "{conditions}");
}

#[tokio::test(start_paused = true)]
async fn the_first_of_falling_weights_is_the_only_step() {
    let falling = json!({ "stepWeight": null, "maxWeight": null, "stepWeights": [50, 20, 10] });
    let world = initialized_with(canary_of("web", ISTIO, with(checked(), falling))).await;
    release(&world, "web:2.0");
    let weights = |world: &World| world.status("web")["canaryWeight"].as_i64();
    assert!(world.until(120, |world| weights(world) == Some(50)).await, "{}", world.status("web"));
    reach(&world, "Succeeded").await;
    assert!(doubts(&world)[0].contains("the steps are 50, then promotion"), "{:?}", doubts(&world));
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_flagger_cannot_carry_out_is_refused_with_its_field() {
    let hook = |url: &str| json!({ "webhooks": [{ "name": "gate", "type": "confirm-rollout", "url": url }] });
    let rounds = json!({ "stepWeight": null, "maxWeight": null, "iterations": 0 });
    let cases = [
        (ISTIO, rounds, "spec.analysis.iterations: 0 is no rollout"),
        (
            ISTIO,
            json!({ "threshold": 1.5 }),
            "spec.analysis.threshold: invalid type: floating point",
        ),
        (
            ISTIO,
            json!({ "primaryReadyThreshold": 1000 }),
            "spec.analysis.primaryReadyThreshold: 1000",
        ),
        (
            KUBERNETES,
            hook("ftp://files/x"),
            "spec.analysis.webhooks[0].url: it does not begin with http",
        ),
        (
            ISTIO,
            hook("file:///etc/passwd"),
            "spec.analysis.webhooks[0].url: it does not begin with http",
        ),
        (ISTIO, hook("http://gate:99999/"), "spec.analysis.webhooks[0].url: it has no valid host"),
    ];
    for (provider, changes, want) in cases {
        let mut world = with_canary(canary_of("web", provider, with(by_weight(), changes)));
        world.start().await;
        world.advance_s(5).await;
        let (status, reason, said) = condition(&world, "web", "Stalled");
        assert_eq!((&*status, &*reason), ("True", "Refused"), "{want}: {said}");
        assert!(said.contains(want), "{said}");
        assert_eq!(world.phase("web"), "Initializing", "{want}: its column is not empty");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_hook_at_an_odd_address_stops_nothing() {
    let mut analysis = checked();
    let hook = json!({ "name": "log", "type": "event", "url": "ftp://files/x" });
    analysis["webhooks"].as_array_mut().unwrap().push(hook);
    let world = initialized_with(canary_of("web", ISTIO, analysis)).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert!(
        doubts(&world)[0].starts_with("TG021: spec.analysis.webhooks[1].url"),
        "{:?}",
        doubts(&world)
    );
}
