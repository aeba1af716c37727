//! Ways to lose production that other controllers have: each test is named after the outage that must not
//! happen.

use std::time::Duration;

use kube_sandbox::{cluster::Cluster as _, kubelet::Behaviour};
use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{
        AUTOSCALERS, CANARIES, CONFIG_MAPS, DEPLOYMENTS, HTTP_ROUTES, OPERATOR, SERVICES, World,
    },
};

use crate::stage::{
    GATEWAY_API, ISTIO, KUBERNETES, at_share, blue_green, break_metrics, by_weight, canary_of,
    canary_share, condition, edit, edit_analysis, generation, history, hooked, image, initialized,
    initialized_with, kill_pods, measured, mend_metrics, object, reach, release, replicas,
    revision, share_in, shares_since, told, with_canary,
};

/// New pods of this image are never ready; running ones are left alone.
fn spoil(world: &World, image: &str) {
    world.sandbox.controllers().kubelet.behaviours.set(image, Behaviour::NeverReady);
}

fn repair(world: &World, image: &str) {
    world.sandbox.controllers().kubelet.behaviours.clear(image);
}

/// A canary that moves all traffic at once, over a workload without a rolling update: a primary that breaks
/// has no pods at all.
fn all_at_once(provider: &str) -> Value {
    let analysis = if provider == KUBERNETES {
        json!({ "interval": "10s", "threshold": 3, "iterations": 1 })
    } else {
        json!({ "interval": "10s", "threshold": 3, "stepWeight": 100 })
    };
    let mut canary = canary_of("web", provider, analysis);
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    canary
}

/// 2.0 was promoted onto a primary that cannot run it.
async fn failed_promotion(provider: &str) -> World {
    let mut world = with_canary(all_at_once(provider));
    let recreate = json!({ "spec": {
        "strategy": { "type": "Recreate", "rollingUpdate": null }, "progressDeadlineSeconds": 60,
    } });
    world.patch(DEPLOYMENTS, "web", &recreate);
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    let ready = |world: &World| {
        object(world, DEPLOYMENTS, "web")["status"]["readyReplicas"] == 2
            && world.phase("web") == "Progressing"
    };
    assert!(world.until(30, ready).await);
    spoil(&world, "web:2.0");
    reach(&world, "Failed").await;
    world
}

#[tokio::test(start_paused = true)]
async fn initialisation_that_fails_does_not_stop_the_live_workload() {
    for provider in [KUBERNETES, GATEWAY_API] {
        let analysis = if provider == KUBERNETES { blue_green() } else { by_weight() };
        let mut canary = canary_of("web", provider, analysis);
        canary["spec"]["progressDeadlineSeconds"] = json!(60);
        let mut world = with_canary(canary);
        world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "progressDeadlineSeconds": 60 } }));
        world.settle().await;
        spoil(&world, "web:1.0");
        world.start().await;
        world.advance_s(600).await;
        assert_eq!(world.phase("web"), "Initializing", "{provider}");
        assert_eq!(replicas(&world, "web"), 2, "{provider}: the only copy that runs");
        assert!(world.get(SERVICES, "web").is_none(), "{provider}: nothing leads to the primary");
        assert_eq!(condition(&world, "web", "Stalled").0, "True", "{provider}");
        assert_eq!(told(&world, "PrimaryStuck"), 1, "{provider}: {:?}", world.events());
        repair(&world, "web:1.0");
        kill_pods(&world, "web-primary");
        reach(&world, "Initialized").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fix_after_a_failed_promotion_is_not_taken_back_to_the_broken_primary() {
    for provider in [GATEWAY_API, ISTIO] {
        let world = failed_promotion(provider).await;
        assert_eq!(canary_share(&world), 100, "{provider}: whoever works keeps the traffic");
        assert_eq!(world.status("web")["canaryWeight"], 100, "{provider}");
        assert_eq!(replicas(&world, "web"), 2, "{provider}");
        let since = revision(&world);
        release(&world, "web:3.0");
        reach(&world, "Progressing").await;
        reach(&world, "Succeeded").await;
        assert_eq!(shares_since(&world, since), [0], "{provider}: only when the primary is ready");
        assert_eq!(image(&world, "web-primary"), "web:3.0", "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn reverting_after_a_failed_promotion_does_not_leave_the_primary_broken() {
    let world = failed_promotion(GATEWAY_API).await;
    assert_eq!(image(&world, "web-primary"), "web:2.0", "what it was given and cannot run");
    release(&world, "web:1.0");
    let is_repaired = world.until(300, |world| image(world, "web-primary") == "web:1.0").await;
    assert!(is_repaired, "{:#} {:#?}", world.status("web"), world.events());
    reach(&world, "Succeeded").await;
    assert_eq!(canary_share(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_promotion_without_a_mesh_does_not_leave_clients_on_the_broken_primary() {
    let world = failed_promotion(KUBERNETES).await;
    let selector = |world: &World| object(world, SERVICES, "web")["spec"]["selector"].clone();
    assert_eq!(selector(&world), json!({ "app": "web" }), "clients go where pods are");
    release(&world, "web:3.0");
    reach(&world, "Succeeded").await;
    assert_eq!(selector(&world), json!({ "app": "web-primary" }));
    assert_eq!(image(&world, "web-primary"), "web:3.0");
}

#[tokio::test(start_paused = true)]
async fn a_target_at_zero_does_not_take_the_primary_to_zero() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["skipAnalysis"] = json!(true);
    for canary in [canary, canary_of("web", GATEWAY_API, by_weight())] {
        let world = initialized_with(canary).await;
        let since = revision(&world);
        release(&world, "web:2.0");
        for _ in 0..6 {
            world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 0 } }));
            world.advance_s(10).await;
        }
        reach(&world, "Succeeded").await;
        for primary in history(&world, DEPLOYMENTS, "web-primary", since) {
            assert_eq!(primary["spec"]["replicas"], 2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_canary_without_pods_does_not_pass() {
    let world = initialized(KUBERNETES, blue_green()).await;
    release(&world, "web:2.0");
    assert!(world.until(60, |world| world.status("web")["iterations"] == 1).await);
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 0 } }));
    world.settle().await;
    assert_eq!(replicas(&world, "web"), 2, "its pods come back");
    assert_eq!(world.status("web")["iterations"], 1);
    assert_eq!(told(&world, "CanaryScaledUp"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_primary_is_not_rebuilt_from_a_failed_revision() {
    // The first release fails, and a later one.
    for promoted in [None, Some("web:2.0")] {
        let world = initialized(GATEWAY_API, measured(by_weight())).await;
        if let Some(image) = promoted {
            release(&world, image);
            reach(&world, "Succeeded").await;
        }
        break_metrics(&world);
        release(&world, "web:3.0");
        reach(&world, "Failed").await;
        world.delete(DEPLOYMENTS, "web-primary");
        world.advance_s(30).await;
        let promoted = promoted.unwrap_or("web:1.0");
        assert_eq!(image(&world, "web-primary"), promoted, "{:#?}", world.events());
        assert_eq!(replicas(&world, "web-primary"), 2, "{promoted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_pushed_during_a_slow_hook_is_not_promoted_unanalysed() {
    let world = at_share(GATEWAY_API, hooked(by_weight(), "rollout"), 60).await;
    let (slow, hold) = Reply::yes().held();
    world.network.hook_once("hooks/rollout", slow);
    world.advance_s(10).await;
    release(&world, "web:3.0");
    world.advance_s(5).await;
    let since = revision(&world);
    hold.release();
    world.settle().await;
    assert_eq!(canary_share(&world), 0, "a run of its own");
    assert_eq!(world.phase("web"), "Progressing");
    let images = history(&world, DEPLOYMENTS, "web-primary", since);
    assert_eq!(images.len(), 0, "the primary was not touched");
    assert_eq!(told(&world, "AnalysisRestarted"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_yes_to_one_revision_is_none_to_the_one_pushed_meanwhile() {
    let hook = "hooks/confirm-rollout";
    let world = initialized(GATEWAY_API, hooked(by_weight(), "confirm-rollout")).await;
    let (slow, hold) = Reply::yes().held();
    world.network.hook_once(hook, slow);
    world.network.hook(hook, Reply::no());
    world.network.forget_calls();
    release(&world, "web:2.0");
    assert!(world.until(30, |world| !world.network.calls_to(hook).is_empty()).await);
    release(&world, "web:3.0");
    world.advance_s(1).await;
    hold.release();
    world.advance_s(5).await;
    let calls = world.network.calls_to(hook);
    let said = |field: &str| -> Vec<_> { calls.iter().map(|it| it.body[field].clone()).collect() };
    let checksums = said("checksum");
    assert_eq!(checksums.len(), 2, "the other one is asked about too: {calls:?}");
    assert_ne!(checksums[0], checksums[1]);
    let key = |call: usize| calls[call].headers.get("idempotency-key").cloned();
    assert_ne!(key(0), key(1), "which is no repetition");
    assert_eq!((world.phase("web").as_str(), canary_share(&world)), ("Waiting", 0));
    assert_eq!(told(&world, "NewRevision"), 0, "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn a_revision_pushed_in_mid_rollout_gets_no_share_before_its_analysis() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 40).await;
    release(&world, "web:3.0");
    world.settle().await;
    assert_eq!(canary_share(&world), 0, "without waiting for the interval");
}

#[tokio::test(start_paused = true)]
async fn a_revision_pushed_while_promoting_gets_no_share() {
    let mut analysis = measured(by_weight());
    analysis["stepWeightPromotion"] = json!(20);
    let world = initialized(GATEWAY_API, analysis).await;
    release(&world, "web:2.0");
    reach(&world, "Promoting").await;
    assert_eq!(canary_share(&world), 60);
    let since = revision(&world);
    release(&world, "web:3.0");
    world.settle().await;
    assert_eq!(canary_share(&world), 0, "its pods were not analysed");
    reach(&world, "Progressing").await;
    let images = history(&world, DEPLOYMENTS, "web-primary", since);
    let image = |it: &Value| it["spec"]["template"]["spec"]["containers"][0]["image"] == "web:3.0";
    assert!(!images.iter().any(image), "3.0 comes after its own analysis");
    assert_eq!(told(&world, "Promoted"), 1, "2.0 was promoted first: {:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn a_revision_pushed_while_the_primary_is_unready_is_not_swallowed() {
    let world = initialized(GATEWAY_API, measured(by_weight())).await;
    break_metrics(&world);
    release(&world, "web:2.0");
    reach(&world, "Failed").await;
    mend_metrics(&world);
    spoil(&world, "web:1.0");
    kill_pods(&world, "web-primary");
    world.settle().await;
    release(&world, "web:3.0");
    world.advance_s(60).await;
    assert_eq!(world.phase("web"), "Failed", "held, not judged");
    repair(&world, "web:1.0");
    kill_pods(&world, "web-primary");
    reach(&world, "Succeeded").await;
    assert_eq!(image(&world, "web-primary"), "web:3.0");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_lands_during_a_rollback_is_not_judged_with_it() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let (slow, hold) = Reply::yes().held();
    world.network.hook("chat/hook", slow);
    let provider = json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
        "metadata": { "name": "chat" },
        "spec": { "type": "slack", "channel": "ops", "username": "web", "address": "http://chat/hook" },
    });
    world.create(crate::telling::ALERT_PROVIDERS, provider);
    edit_analysis(
        &world,
        json!({ "threshold": 1, "alerts": [
            { "name": "ops", "severity": "error", "providerRef": { "name": "chat" } },
        ] }),
    );
    break_metrics(&world);
    let called = world.until(30, |world| !world.network.calls_to("chat").is_empty()).await;
    assert!(called, "the alert goes out before the rollback is written down");
    release(&world, "web:3.0");
    mend_metrics(&world);
    world.advance_s(1).await;
    hold.release();
    reach(&world, "Succeeded").await;
    assert_eq!(image(&world, "web-primary"), "web:3.0", "{:#?}", world.events());
    assert_eq!(told(&world, "Failed"), 1, "2.0 alone");
}

#[tokio::test(start_paused = true)]
async fn going_back_in_mid_rollout_is_not_a_promotion_of_what_was_abandoned() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 40).await;
    let since = revision(&world);
    release(&world, "web:1.0");
    reach(&world, "Succeeded").await;
    let status = world.status("web");
    assert_eq!(status["lastAppliedSpec"], status["lastPromotedSpec"]);
    assert_eq!((canary_share(&world), replicas(&world, "web")), (0, 0));
    assert_eq!(history(&world, DEPLOYMENTS, "web-primary", since), Vec::<Value>::new());
    release(&world, "web:2.0");
    reach(&world, "Progressing").await;
}

#[tokio::test(start_paused = true)]
async fn a_share_outside_the_list_of_steps_does_not_jump_to_all() {
    let mut analysis = json!({ "interval": "10s", "threshold": 3, "stepWeights": [10, 20, 50] });
    analysis = measured(analysis);
    let world = at_share(GATEWAY_API, analysis, 10).await;
    let since = revision(&world);
    edit_analysis(&world, json!({ "stepWeights": [15, 15, 30, 25, 60] }));
    reach(&world, "Succeeded").await;
    assert_eq!(shares_since(&world, since), [15, 25, 30, 60, 0], "the next greater, each time");
}

#[tokio::test(start_paused = true)]
async fn an_edited_service_does_not_reset_the_share() {
    for provider in [GATEWAY_API, ISTIO] {
        let world = at_share(provider, hooked(measured(by_weight()), "pre-rollout"), 20).await;
        let since = revision(&world);
        edit(&world, json!({ "service": { "timeout": "7s" } }));
        world.settle().await;
        assert_eq!(shares_since(&world, since), [20], "{provider}: written with its share");
        reach(&world, "Succeeded").await;
        assert_eq!(world.network.calls_to("hooks/pre-rollout").len(), 1, "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edited_route_does_not_keep_a_share_nobody_approved() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let mut rules = object(&world, HTTP_ROUTES, "web")["spec"]["rules"].clone();
    rules[0]["backendRefs"][0]["weight"] = json!(10);
    rules[0]["backendRefs"][1]["weight"] = json!(90);
    world.patch(HTTP_ROUTES, "web", &json!({ "spec": { "rules": rules } }));
    world.settle().await;
    assert_eq!(canary_share(&world), 20);
    assert_eq!(told(&world, "RouteCorrected"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_promotion_whose_share_is_back_already_does_not_hang() {
    let mut analysis = by_weight();
    analysis["stepWeightPromotion"] = json!(20);
    let world = initialized(GATEWAY_API, analysis).await;
    release(&world, "web:2.0");
    reach(&world, "Promoting").await;
    let mut rules = object(&world, HTTP_ROUTES, "web")["spec"]["rules"].clone();
    rules[0]["backendRefs"][0]["weight"] = json!(100);
    rules[0]["backendRefs"][1]["weight"] = json!(0);
    world.patch(HTTP_ROUTES, "web", &json!({ "spec": { "rules": rules } }));
    assert!(world.until(60, |world| world.phase("web") == "Succeeded").await);
}

#[tokio::test(start_paused = true)]
async fn a_canary_lost_while_promoting_does_not_fail_the_promotion() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    canary["spec"]["analysis"]["stepWeightPromotion"] = json!(10);
    let world = initialized_with(canary).await;
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "progressDeadlineSeconds": 60 } }));
    release(&world, "web:2.0");
    reach(&world, "Promoting").await;
    // The primary is ready by now; it is the canary that cannot come back.
    spoil(&world, "web:2.0");
    kill_pods(&world, "web");
    world.settle().await;
    assert_eq!(canary_share(&world), 0, "nobody is sent to pods that are not there");
    reach(&world, "Succeeded").await;
    assert_eq!(told(&world, "Failed"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_the_copy_does_not_restart_the_primary_twice() {
    let mut world = initialized(GATEWAY_API, by_weight()).await;
    let before = generation(&world, "web-primary");
    release(&world, "web:2.0");
    let copied = |world: &World| image(world, "web-primary") == "web:2.0";
    assert!(world.until(200, copied).await);
    world.kill();
    world.advance_s(60).await;
    world.start().await;
    reach(&world, "Succeeded").await;
    assert_eq!(generation(&world, "web-primary"), before + 1, "one change, one rolling restart");
}

#[tokio::test(start_paused = true)]
async fn a_crash_does_not_lose_the_last_hooks() {
    for (ends, outcome) in [("Succeeded", 100.0), ("Failed", 0.0)] {
        let mut world =
            initialized(GATEWAY_API, hooked(measured(by_weight()), "post-rollout")).await;
        world.network.metric("", tidegate_tests::network::Metric::Value(outcome));
        let (slow, _hold) = Reply::yes().held();
        world.network.hook_once("hooks/post-rollout", slow);
        release(&world, "web:2.0");
        reach(&world, ends).await;
        world.kill();
        world.start().await;
        world.advance_s(30).await;
        let calls = world.network.calls_to("hooks/post-rollout");
        assert_eq!(calls.len(), 2, "{ends}: the one that was cut off, and one that was heard");
        assert!(calls.iter().all(|call| call.body["phase"] == ends), "{ends}: {calls:?}");
        let keys: Vec<_> = calls.iter().map(|call| call.headers.get("idempotency-key")).collect();
        assert_eq!(keys.first(), keys.last(), "{ends}: known as the same call");
    }
}

#[tokio::test(start_paused = true)]
async fn fewer_iterations_than_were_counted_do_not_hang() {
    for analysis in [crate::stage::ab_test(), blue_green()] {
        let mut analysis = analysis;
        analysis["iterations"] = json!(10);
        let world = initialized(ISTIO, analysis).await;
        release(&world, "web:2.0");
        assert!(world.until(200, |world| world.status("web")["iterations"] == 5).await);
        edit_analysis(&world, json!({ "iterations": 2 }));
        assert!(world.until(90, |world| world.phase("web") == "Succeeded").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_nothing_is_refused_and_does_not_wait_for_ever() {
    let analysis = json!({ "interval": "10s", "threshold": 3, "stepWeight": 0 });
    let mut world = with_canary(canary_of("web", GATEWAY_API, analysis));
    world.start().await;
    world.advance_s(60).await;
    let (status, reason, message) = condition(&world, "web", "Stalled");
    assert_eq!((&*status, &*reason), ("True", "Refused"), "{message}");
    assert!(message.contains("stepWeight"), "{message}");
    assert_eq!(told(&world, "Refused"), 1);
    assert_eq!(replicas(&world, "web"), 2, "nothing was touched");
}

#[tokio::test(start_paused = true)]
async fn a_step_of_nothing_in_mid_rollout_does_not_keep_its_share_for_ever() {
    let world = at_share(GATEWAY_API, by_weight(), 40).await;
    edit(&world, json!({ "progressDeadlineSeconds": 60 }));
    edit_analysis(&world, json!({ "stepWeight": 0 }));
    world.advance_s(30).await;
    assert_eq!(canary_share(&world), 40, "there is time to mend it");
    let (_, _, message) = condition(&world, "web", "Stalled");
    assert!(message.contains("stepWeight"), "{message}");
    assert!(world.until(90, |world| world.phase("web") == "Failed").await);
    assert_eq!(canary_share(&world), 0);
    assert_eq!(image(&world, "web-primary"), "web:1.0", "nothing passed");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_lost_its_pods_does_not_keep_its_share_until_the_deadline() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 40).await;
    spoil(&world, "web:2.0");
    kill_pods(&world, "web");
    let gone = world.until(45, |world| canary_share(world) == 0).await;
    assert!(gone, "three failed checks, not ten minutes: {:#}", world.status("web"));
    reach(&world, "Failed").await;
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_scales_does_not_stop_the_checks() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let slow = Behaviour::SlowStart { delay: Duration::from_mins(5) };
    world.sandbox.controllers().kubelet.behaviours.set("web:1.0", slow);
    world.patch(DEPLOYMENTS, "web-primary", &json!({ "spec": { "replicas": 6 } }));
    world.advance_s(20).await;
    assert_eq!(canary_share(&world), 20, "no increase while the primary is on its way");
    break_metrics(&world);
    let gone = world.until(45, |world| world.phase("web") == "Failed").await;
    assert!(gone, "checks go on: {:#}", world.status("web"));
}

#[tokio::test(start_paused = true)]
async fn a_lasting_obstacle_does_not_freeze_a_rollout_for_ever() {
    let mut canary = canary_of("web", GATEWAY_API, measured(by_weight()));
    canary["spec"]["progressDeadlineSeconds"] = json!(120);
    canary["spec"]["autoscalerRef"] = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web",
    });
    let mut world = with_canary(canary);
    world.create(AUTOSCALERS, autoscaler());
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    assert!(world.until(60, |world| canary_share(world) == 20).await);
    world.delete(AUTOSCALERS, "web");
    world.delete(AUTOSCALERS, "web-primary");
    world.advance_s(60).await;
    assert_eq!((world.phase("web").as_str(), canary_share(&world)), ("Progressing", 20));
    let ended = world.until(120, |world| world.phase("web") == "Failed").await;
    assert!(ended, "{:#}", world.status("web"));
    assert_eq!(canary_share(&world), 0);
}

fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 4,
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_lost_status_does_not_declare_the_target_promoted() {
    let mut world = initialized(GATEWAY_API, measured(by_weight())).await;
    break_metrics(&world);
    release(&world, "web:2.0");
    reach(&world, "Failed").await;
    world.kill();
    let lost = world.admin.patch(CANARIES, "default", "web", "status", &json!({ "status": null }));
    assert!(lost.is_ok(), "{lost:?}");
    mend_metrics(&world);
    world.start().await;
    assert_eq!(image(&world, "web-primary"), "web:1.0");
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    assert_eq!(image(&world, "web-primary"), "web:2.0", "after an analysis of its own");
}

#[tokio::test(start_paused = true)]
async fn a_status_lost_in_mid_rollout_does_not_leave_a_share_behind() {
    let mut world = at_share(GATEWAY_API, measured(by_weight()), 40).await;
    world.kill();
    let lost = world.admin.patch(CANARIES, "default", "web", "status", &json!({ "status": null }));
    assert!(lost.is_ok(), "{lost:?}");
    world.start().await;
    reach(&world, "Succeeded").await;
    assert_eq!((canary_share(&world), image(&world, "web-primary").as_str()), (0, "web:2.0"));
}

#[tokio::test(start_paused = true)]
async fn a_users_object_of_the_same_name_is_not_taken() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    let theirs = tidegate_tests::rollout::deployment("web-primary", "theirs:1.0", 1);
    world.create(DEPLOYMENTS, theirs);
    world.start().await;
    world.advance_s(60).await;
    let theirs = object(&world, DEPLOYMENTS, "web-primary");
    assert_eq!(image(&world, "web-primary"), "theirs:1.0");
    assert_eq!(theirs["metadata"]["ownerReferences"], Value::Null, "it would be deleted with us");
    assert_eq!(condition(&world, "web", "Stalled").0, "True");
    assert_eq!(replicas(&world, "web"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_users_configuration_of_the_same_name_is_not_overwritten() {
    let config = |name: &str, color: &str| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
                "data": { "color": color } })
    };
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.create(CONFIG_MAPS, config("settings", "blue"));
    world.create(CONFIG_MAPS, config("settings-primary", "mine"));
    let from = json!([{ "name": "app", "image": "web:1.0",
                        "envFrom": [{ "configMapRef": { "name": "settings" } }] }]);
    let template = json!({ "spec": { "containers": from } });
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "template": template } }));
    world.start().await;
    world.advance_s(60).await;
    let theirs = object(&world, CONFIG_MAPS, "settings-primary");
    assert_eq!(theirs["data"]["color"], "mine");
    assert_eq!(theirs["metadata"]["ownerReferences"], Value::Null);
    let (status, _, message) = condition(&world, "web", "Stalled");
    assert_eq!(status, "True", "{message}");
    assert!(message.contains("settings-primary"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn two_ticks_do_not_overlap_when_the_interval_changes() {
    let world = at_share(GATEWAY_API, hooked(by_weight(), "rollout"), 20).await;
    world.network.forget_calls();
    let (slow, hold) = Reply::yes().held();
    world.network.hook("hooks/rollout", slow);
    world.advance_s(10).await;
    edit_analysis(&world, json!({ "interval": "15s" }));
    world.advance_s(120).await;
    assert_eq!(world.network.calls_to("hooks/rollout").len(), 1, "one at a time");
    hold.release();
    world.settle().await;
    assert_eq!(canary_share(&world), 40, "and one step for it");
    world.advance_s(14).await;
    assert_eq!(canary_share(&world), 40);
    world.advance_s(1).await;
    assert_eq!(canary_share(&world), 60);
}

#[tokio::test(start_paused = true)]
async fn a_cookie_is_not_in_a_route_before_it_is_remembered() {
    let mut analysis = by_weight();
    analysis["sessionAffinity"] = json!({ "cookieName": "shop" });
    let world = initialized(ISTIO, analysis).await;
    let since = revision(&world);
    release(&world, "web:2.0");
    let there = world.until(60, |world| canary_share_of_any(world) == 20).await;
    assert!(there, "{:#}", object(&world, tidegate_tests::rollout::VIRTUAL_SERVICES, "web"));
    let cookie = crate::stage::text(&world.status("web")["sessionAffinityCookie"]);
    assert!(cookie.starts_with("shop="), "{cookie}");
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse::<u64>().ok()
    };
    let remembered = history(&world, CANARIES, "web", since).into_iter().find_map(|canary| {
        let holds = canary["status"]["sessionAffinityCookie"] == cookie.as_str();
        version(&canary).filter(|_| holds)
    });
    let routes = history(&world, tidegate_tests::rollout::VIRTUAL_SERVICES, "web", since);
    let in_route =
        routes.iter().find(|route| route.to_string().contains(&cookie)).and_then(version);
    assert!(remembered.is_some() && remembered < in_route, "{remembered:?} {in_route:?}");
    world.advance_s(10).await;
    let after = crate::stage::text(&world.status("web")["sessionAffinityCookie"]);
    assert_eq!(after, cookie, "users stay where they are");
}

/// With sticky sessions the weighted rule is not the first one.
fn canary_share_of_any(world: &World) -> i64 {
    let route = object(world, tidegate_tests::rollout::VIRTUAL_SERVICES, "web");
    let rules = route["spec"]["http"].as_array().cloned().unwrap_or_default();
    let one = |rule: &Value| share_in(&json!({ "spec": { "http": [rule] } }));
    rules.iter().map(one).filter(|share| *share < 100).max().unwrap_or(-1)
}

#[tokio::test(start_paused = true)]
async fn rolled_back_pods_are_not_taken_while_clients_use_them() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 40).await;
    let since = revision(&world);
    break_metrics(&world);
    reach(&world, "Failed").await;
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse::<u64>().ok()
    };
    let routes = history(&world, HTTP_ROUTES, "web", since);
    let away = routes.iter().find(|route| share_in(route) == 0).and_then(version);
    let targets = history(&world, DEPLOYMENTS, "web", since);
    let parked = targets.iter().find(|it| it["spec"]["replicas"] == 0).and_then(version);
    assert!(away.is_some() && away < parked, "{OPERATOR}: {away:?} {parked:?}");
}
