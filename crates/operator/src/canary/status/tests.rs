use serde_json::json;
use tidegate_engine::{Action, Cookie, CookieChange, Percent};

use super::*;
use crate::canary::testing::Kit;

const STATUS: &str = "PATCH canaries/web/status";

fn kit(metadata: &Value, spec: &Value, status: &Value) -> Kit {
    let bench = crate::canary::testing::in_analysis("istio");
    Kit::of(bench.metadata(metadata).spec(spec).remembering(status))
}

fn plain() -> Kit {
    kit(&json!({}), &json!({}), &json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_write_names_the_version_of_our_own_last_write() {
    let affinity = json!({ "analysis": { "sessionAffinity": { "cookieName": "side" } } });
    let kit = kit(&json!({ "annotations": { RETRY: "now" } }), &affinity, &json!({}));
    let fresh = CookieChange { canary: Cookie::Fresh, primary: Cookie::Keep };
    let actions = vec![
        Action::Cookies(fresh),
        Action::ClearRetry,
        Action::RemoveFinalizer,
        Action::AddFinalizer,
    ];
    let acted = kit.act(actions).await;
    assert_eq!(acted.error, "", "each write is based on the one before");
    let version = |body: &Value| body["metadata"]["resourceVersion"].clone();
    let bodies = kit.api.bodies(STATUS);
    assert_eq!(bodies.len(), 2, "the cookie, then the rest");
    assert_eq!(version(&bodies[0]), "10", "that of the observation");
    let finalizers = kit.api.bodies("PATCH canaries/web");
    let removed = finalizers.iter().find(|it| it["metadata"]["finalizers"] == json!([]));
    assert!(removed.is_some_and(|it| version(it).is_string()), "with a precondition");
    assert!(kit.live()["metadata"]["annotations"][RETRY].is_null());
    assert_eq!(kit.live()["metadata"]["finalizers"], json!([FINALIZER]));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_only_the_cache_knows_makes_the_write_fail() {
    let kit = plain();
    let observation = kit.observe();
    kit.edit_live(|canary| canary["metadata"]["labels"] = json!({ "a": "b" }));
    kit.catch_up();
    let acted = kit.act_by(&mut kit.actor(), &observation, vec![]).await;
    assert!(acted.error.contains("changed"), "{acted:?}");
    assert_eq!(kit.act(vec![]).await.error, "", "the next look has the new version");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_nothing_changed() {
    let kit = plain();
    kit.act(vec![]).await;
    assert_eq!(kit.api.writes(), [STATUS]);
    kit.catch_up();
    kit.api.clear();
    kit.act(vec![]).await;
    assert_eq!(kit.api.writes(), Vec::<String>::new());
    // The same version in the hands of one actor.
    let (mut actor, observation) = (kit.actor(), kit.observe());
    let memory = Memory { weight: Percent::clamped(40), ..observation.observed.memory.clone() };
    let remember = || Action::Remember(Box::new(memory.clone()));
    kit.act_by(&mut actor, &observation, vec![remember(), remember()]).await;
    assert_eq!(kit.api.writes(), [STATUS], "compared with our own last write");
}

#[tokio::test(start_paused = true)]
async fn a_zero_is_written_once() {
    let kit = plain();
    kit.act(vec![]).await;
    let first = &kit.api.bodies(STATUS)[0]["status"];
    for name in ["failedChecks", "iterations"] {
        assert_eq!(first[name], 0, "{name}: tools show it in a column");
    }
    kit.catch_up();
    kit.api.clear();
    let memory = Memory { weight: Percent::clamped(40), ..kit.observe().observed.memory };
    kit.act(vec![Action::Remember(Box::new(memory))]).await;
    let second = &kit.api.bodies(STATUS)[0]["status"];
    assert_eq!(second["canaryWeight"], 40);
    assert!(second["failedChecks"].is_null() && second["iterations"].is_null(), "{second}");
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_definition_drops_are_kept_in_memory() {
    let kit = plain();
    kit.api.is_pruning.store(true, std::sync::atomic::Ordering::SeqCst);
    let (mut actor, observation) = (kit.actor(), kit.observe());
    kit.act_by(&mut actor, &observation, vec![]).await;
    let kept = actor.status.unpruned_status.clone().expect("the status as it was meant");
    assert_eq!(kept.observed_generation, Some(1));
    assert_eq!(kept.canary_weight, 20, "and all that was known before");
    assert!(kit.live()["status"]["observedGeneration"].is_null(), "it was dropped");

    kit.api.is_pruning.store(false, std::sync::atomic::Ordering::SeqCst);
    kit.catch_up();
    let observation = kit.observe();
    kit.act_by(&mut actor, &observation, vec![]).await;
    assert_eq!(actor.status.unpruned_status, None, "nothing is dropped any more");
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_spec_tests_what_was_observed() {
    let spec = json!({ "manualStep": { "resume": true, "weight": 20 } });
    let annotations = json!({ "annotations": { RETRY: "now", "other": "stays" } });
    let cases = [
        (Action::ResetResume, json!({ "resume": false, "weight": 20 }), true),
        (Action::ClearRetry, spec["manualStep"].clone(), false),
    ];
    for (action, step, keeps_retry) in cases {
        let kit = kit(&annotations, &spec, &json!({}));
        assert_eq!(kit.act(vec![action.clone()]).await.error, "", "{action:?}");
        let live = kit.live();
        assert_eq!(live["spec"]["manualStep"], step, "{action:?}");
        let annotations = &live["metadata"]["annotations"];
        assert_eq!(annotations["other"], "stays", "{action:?}");
        assert_eq!(!annotations[RETRY].is_null(), keeps_retry, "{action:?}");
    }
    for action in [Action::ResetResume, Action::ClearRetry] {
        let kit = kit(&annotations, &spec, &json!({}));
        kit.edit_live(|canary| {
            canary["spec"]["manualStep"]["weight"] = json!(50);
            canary["metadata"]["annotations"][RETRY] = json!("later");
        });
        let acted = kit.act(vec![action.clone()]).await;
        assert_ne!(acted.error, "", "{action:?}: somebody changed it");
        assert_eq!(kit.live()["spec"]["manualStep"]["weight"], 50, "{action:?}");
        assert_eq!(kit.live()["metadata"]["annotations"][RETRY], "later", "{action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_stay() {
    let others = json!({ "finalizers": ["a.example", FINALIZER, "b.example"] });
    let kit = kit(&others, &json!({}), &json!({}));
    kit.act(vec![Action::RemoveFinalizer]).await;
    assert_eq!(kit.live()["metadata"]["finalizers"], json!(["a.example", "b.example"]));
    kit.catch_up();
    kit.act(vec![Action::AddFinalizer]).await;
    let finalizers = json!(["a.example", "b.example", FINALIZER]);
    assert_eq!(kit.live()["metadata"]["finalizers"], finalizers);
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_is_gone_has_no_finalizer_as_was_wanted() {
    let kit = Kit::of(crate::canary::testing::in_analysis("istio").deleted());
    kit.api.fail("PATCH canaries/web", 404, 1);
    assert_eq!(kit.act(vec![Action::RemoveFinalizer]).await.error, "");
    kit.api.fail("PATCH canaries/web", 409, 1);
    assert_ne!(kit.act(vec![Action::RemoveFinalizer]).await.error, "", "another failure");
    let kit = Kit::at_rest(&json!({}), &json!({}));
    kit.api.fail("PATCH canaries/web", 404, 1);
    assert_ne!(kit.act(vec![Action::AddFinalizer]).await.error, "", "it was wanted");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_gets_one_condition_and_one_event() {
    let kit = plain();
    let canary = kit.canary();
    let why = "x".repeat(2000);
    write_unreadable(&canary, &kit.live(), &why).await.unwrap();
    let condition = kit.live()["status"]["conditions"][0].clone();
    assert_eq!(condition["type"], "Stalled");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "Refused");
    let message = condition["message"].as_str().unwrap();
    assert_eq!(message.len(), 1024);
    assert!(message.starts_with("This object cannot be read as a canary: xxx"));
    assert_eq!(condition["lastTransitionTime"], "2026-01-01T00:01:00Z");
    assert_eq!(kit.event_reasons(), ["Refused"]);

    write_unreadable(&canary, &kit.live(), &why).await.unwrap();
    assert_eq!(kit.api.writes(), [STATUS], "it says so already");
    assert_eq!(kit.event_reasons().len(), 1);
    write_unreadable(&canary, &kit.live(), "another reason").await.unwrap();
    assert_eq!(kit.event_reasons().len(), 2);
    kit.edit_live(|live| live["status"]["conditions"][0]["type"] = json!("Ready"));
    write_unreadable(&canary, &kit.live(), "another reason").await.unwrap();
    assert_eq!(kit.event_reasons().len(), 3, "a condition of another type says something else");
    let stale = kit.bench.canary.clone();
    assert!(write_unreadable(&canary, &stale, "z").await.is_ok(), "no version, no precondition");
}

#[test]
fn members_that_are_removed_are_left_out_of_what_was_meant() {
    let value = json!({ "a": null, "b": { "c": null, "d": 1 }, "e": [null] });
    assert_eq!(without_nulls(&value), json!({ "b": { "d": 1 }, "e": [null] }));
}

#[tokio::test(start_paused = true)]
async fn each_decision_begins_with_the_version_that_was_observed() {
    let kit = plain();
    let mut actor = kit.actor();
    assert_eq!(kit.act_by(&mut actor, &kit.observe(), vec![]).await.error, "");
    kit.edit_live(|canary| canary["metadata"]["labels"] = json!({ "a": "b" }));
    kit.catch_up();
    let observation = kit.observe();
    let memory = Memory { iterations: 3, ..observation.observed.memory.clone() };
    let remember = vec![Action::Remember(Box::new(memory))];
    assert_eq!(kit.act_by(&mut actor, &observation, remember).await.error, "");
}
