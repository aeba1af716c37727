//! Leaks, stuck cleanup, noise: defects that show after months.

use std::time::Duration;

use kube_sandbox::{
    faults::{Effect, Interruption, Matcher, WatchFault, When},
    request::Verb,
};
use serde_json::{Value, json};
use tidegate_tests::{
    network::{Metric, Reply},
    rollout::{CANARIES, CONFIG_MAPS, DEPLOYMENTS, OPERATOR, SECRETS, SERVICES, World},
};

use crate::stage::{
    GATEWAY_API, KUBERNETES, at_share, blue_green, break_metrics, by_weight, canary_of,
    canary_share, condition, edit, edit_analysis, history, hooked, image, initialized,
    initialized_with, mark, measured, object, reach, release, replicas, requests_since, revision,
    shares_since, told, with_canary, writes_since,
};

fn reverting(provider: &str) -> Value {
    let analysis = if provider == KUBERNETES { blue_green() } else { by_weight() };
    let mut canary = canary_of("web", provider, analysis);
    canary["spec"]["revertOnDeletion"] = json!(true);
    canary
}

#[tokio::test(start_paused = true)]
async fn deletion_does_not_hang_when_the_target_is_gone() {
    let world = initialized_with(reverting(GATEWAY_API)).await;
    world.delete(DEPLOYMENTS, "web");
    world.settle().await;
    world.delete(CANARIES, "web");
    world.advance_s(30).await;
    assert!(world.get(CANARIES, "web").is_none(), "{:#}", world.status("web"));
}

// Mistake 21 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn deletion_does_not_hang_in_a_namespace_that_is_going() {
    let world = initialized_with(reverting(GATEWAY_API)).await;
    // Nothing can be created in such a namespace, not even an event.
    let creations = Matcher::any().user(OPERATOR).verbs([Verb::Create]);
    let no = Effect::FailBefore { code: 403, reason: "Forbidden" };
    world.sandbox.server().faults.add(creations, When::Always, no);
    world.delete(DEPLOYMENTS, "web");
    world.settle().await;
    world.delete(CANARIES, "web");
    world.advance_s(30).await;
    assert!(world.get(CANARIES, "web").is_none(), "{:#}", world.status("web"));
}

// Mistake 20 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_canary_deleted_while_a_hook_is_asked_takes_no_step() {
    let world = at_share(GATEWAY_API, hooked(by_weight(), "rollout"), 20).await;
    edit(&world, json!({ "revertOnDeletion": true }));
    world.settle().await;
    let (slow, hold) = Reply::yes().held();
    world.network.hook("hooks/rollout", slow);
    world.advance_s(10).await;
    let since = revision(&world);
    world.delete(CANARIES, "web");
    hold.release();
    assert!(world.until(60, |world| world.get(CANARIES, "web").is_none()).await);
    let shares = shares_since(&world, since);
    assert!(!shares.contains(&40), "the yes came too late: {shares:?}");
    assert_eq!(replicas(&world, "web"), 2, "it serves by itself");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_ends_does_not_take_clients_to_pods_that_go() {
    let mut world = with_canary(reverting(KUBERNETES));
    let port = json!({ "port": 80, "targetPort": 8080 });
    world.create(
        SERVICES,
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
                "spec": { "selector": { "app": "web" }, "ports": [port] } }),
    );
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(object(&world, SERVICES, "web")["spec"]["selector"]["app"], "web-primary");
    let since = revision(&world);
    world.delete(CANARIES, "web");
    assert!(world.until(60, |world| world.get(CANARIES, "web").is_none()).await);
    assert_eq!(replicas(&world, "web"), 2, "as it was");
    assert_eq!(object(&world, SERVICES, "web")["spec"]["selector"]["app"], "web");
    let back = |it: &Value| it["spec"]["selector"]["app"] == "web";
    let switched = history(&world, SERVICES, "web", since).iter().find(|it| back(it)).map(version);
    let ready = |it: &Value| it["status"]["readyReplicas"] == 2;
    let targets = history(&world, DEPLOYMENTS, "web", since);
    let served = targets.iter().find(|it| ready(it)).map(version);
    assert!(served.is_some() && served < switched, "{served:?} {switched:?}");
}

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_does_not_outlive_its_reason() {
    let mut world = initialized_with(reverting(GATEWAY_API)).await;
    world.kill();
    edit(&world, json!({ "revertOnDeletion": false }));
    world.delete(CANARIES, "web");
    world.settle().await;
    assert!(world.get(CANARIES, "web").is_some(), "held by the finalizer");
    world.start().await;
    world.advance_s(10).await;
    assert!(world.get(CANARIES, "web").is_none(), "switched off while nobody looked");
}

#[tokio::test(start_paused = true)]
async fn a_canary_deleted_while_the_watch_was_down_does_not_live_on() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let watches = || Matcher::any().verbs([Verb::Watch]).resource("flagger.app", "canaries");
    let faults = &world.sandbox.server().faults;
    // The watch breaks; by the time it is back the deletion is compacted away.
    let gone = faults.add(watches(), When::First(1), Effect::Watch(WatchFault::GoneAtStart));
    faults.interrupt_watches(watches(), Interruption::Close);
    world.delete(CANARIES, "web");
    world.advance_s(120).await;
    faults.remove(gone);
    let before = mark(&world);
    world.network.forget_calls();
    world.advance_s(600).await;
    assert_eq!(writes_since(&world, before), Vec::<String>::new());
    assert_eq!(world.network.calls().len(), 0, "nobody measures what is gone");
}

#[tokio::test(start_paused = true)]
async fn a_canary_made_again_under_its_name_is_not_taken_for_the_old_one() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 40).await;
    world.delete(CANARIES, "web");
    world.create(CANARIES, canary_of("web", GATEWAY_API, measured(by_weight())));
    reach(&world, "Initialized").await;
    assert_eq!(canary_share(&world), 0);
    assert_eq!(image(&world, "web-primary"), "web:2.0", "made from what runs now");
}

/// A workload that mounts a ConfigMap and a Secret.
fn configured() -> World {
    let world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.create(
        CONFIG_MAPS,
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" },
                "data": { "color": "blue" }, "binaryData": { "logo": "AQID" } }),
    );
    world.create(
        SECRETS,
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token" },
                "type": "Opaque", "data": { "token": "czNjcjN0" } }),
    );
    let containers = json!([{ "name": "app", "image": "web:1.0", "envFrom": [
        { "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "token" } },
    ] }]);
    let template = json!({ "spec": { "containers": containers } });
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "template": template } }));
    world
}

#[tokio::test(start_paused = true)]
async fn changed_bytes_of_a_config_map_are_not_overlooked_or_lost() {
    let mut world = configured();
    world.start().await;
    reach(&world, "Initialized").await;
    let copy = |world: &World| object(world, CONFIG_MAPS, "settings-primary")["binaryData"].clone();
    assert_eq!(copy(&world), json!({ "logo": "AQID" }));
    world.patch(CONFIG_MAPS, "settings", &json!({ "binaryData": { "logo": "BAUG" } }));
    reach(&world, "Progressing").await;
    assert_eq!(copy(&world), json!({ "logo": "AQID" }), "the primary keeps its own");
    reach(&world, "Succeeded").await;
    assert_eq!(copy(&world), json!({ "logo": "BAUG" }));
}

// Mistake 8 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn configuration_that_changed_unheard_is_not_promoted() {
    let mut world = configured();
    world.start().await;
    reach(&world, "Initialized").await;
    world.patch(CONFIG_MAPS, "settings", &json!({ "data": { "color": "green" } }));
    assert!(world.until(90, |world| canary_share(world) == 60).await);
    // The watch hangs: the operator's cache still has green.
    let watches = Matcher::any().user(OPERATOR).resource("", "configmaps").verbs([Verb::Watch]);
    let silence = WatchFault::SilenceAfter { events: 0, lasting: Some(Duration::from_mins(10)) };
    let faults = &world.sandbox.server().faults;
    faults.add(watches.clone(), When::Always, Effect::Watch(silence));
    faults.interrupt_watches(watches, Interruption::Close);
    world.settle().await;
    world.patch(CONFIG_MAPS, "settings", &json!({ "data": { "color": "red" } }));
    let since = revision(&world);
    world.advance_s(15).await;
    let copies = history(&world, CONFIG_MAPS, "settings-primary", since);
    assert_eq!(copies, Vec::<Value>::new(), "red was not analysed");
    assert_eq!((world.phase("web").as_str(), canary_share(&world)), ("Progressing", 0));
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_another_type_does_not_block_promotions() {
    let mut world = configured();
    world.start().await;
    reach(&world, "Initialized").await;
    world.delete(SECRETS, "token");
    world.create(
        SECRETS,
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token" },
                "type": "kubernetes.io/basic-auth",
                "data": { "username": "dQ==", "password": "cA==" } }),
    );
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    let copy = object(&world, SECRETS, "token-primary");
    assert_eq!(copy["type"], "kubernetes.io/basic-auth");
    assert_eq!(copy["data"]["password"], "cA==");
}

#[tokio::test(start_paused = true)]
async fn configuration_that_is_gone_is_not_a_reason_to_stop_production() {
    let mut world = configured();
    world.start().await;
    reach(&world, "Initialized").await;
    world.delete(CONFIG_MAPS, "settings");
    world.advance_s(60).await;
    assert_eq!(world.phase("web"), "Initialized");
    assert_eq!(replicas(&world, "web-primary"), 2);
    let (status, _, message) = condition(&world, "web", "Stalled");
    assert_eq!(status, "True", "{message}");
    assert!(message.contains("settings"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_says_yes_without_a_word_is_not_a_no() {
    let world = initialized(GATEWAY_API, hooked(by_weight(), "rollout")).await;
    world.network.hook("hooks/rollout", Reply::Status(204, String::new()));
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn counting_does_not_move_the_time_of_the_last_transition() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let before = world.status("web")["lastTransitionTime"].clone();
    break_metrics(&world);
    world.advance_s(20).await;
    assert_eq!(world.status("web")["failedChecks"], 2);
    assert_eq!(world.status("web")["lastTransitionTime"], before);
}

#[tokio::test(start_paused = true)]
async fn a_failed_canary_does_not_write_its_status_again_and_again() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    break_metrics(&world);
    reach(&world, "Failed").await;
    world.settle().await;
    let (before, status) = (mark(&world), world.status("web"));
    // Pods of the primary come and go; that triggers a reconcile and changes nothing.
    crate::stage::kill_pods(&world, "web-primary");
    world.advance_s(60).await;
    assert_eq!(requests_since(&world, before), Vec::<String>::new());
    assert_eq!(world.status("web"), status);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_opened_is_not_asked_again() {
    let analysis = hooked(hooked(blue_green(), "confirm-promotion"), "pre-rollout");
    for iterations in [1, 3] {
        let mut analysis = analysis.clone();
        analysis["iterations"] = json!(iterations);
        let world = initialized(GATEWAY_API, analysis).await;
        world.network.hook("hooks/confirm-promotion", Reply::no());
        let since = revision(&world);
        release(&world, "web:2.0");
        reach(&world, "WaitingPromotion").await;
        world.advance_s(60).await;
        assert_eq!(canary_share(&world), 0, "no live traffic before the yes");
        world.network.hook("hooks/confirm-promotion", Reply::yes());
        world.network.forget_calls();
        reach(&world, "Succeeded").await;
        assert_eq!(world.network.calls_to("hooks/confirm-promotion").len(), 1, "{iterations}");
        assert_eq!(
            world.network.calls_to("hooks/pre-rollout").len(),
            0,
            "{iterations}: once a run"
        );
        for canary in history(&world, CANARIES, "web", since) {
            let counted = canary["status"]["iterations"].as_i64();
            assert!(counted.is_none_or(|counted| counted >= 0), "{counted:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_promotion_does_not_stop_the_checks() {
    let world = initialized(GATEWAY_API, hooked(measured(by_weight()), "confirm-promotion")).await;
    world.network.hook("hooks/confirm-promotion", Reply::no());
    release(&world, "web:2.0");
    reach(&world, "WaitingPromotion").await;
    assert_eq!(canary_share(&world), 60, "traffic stays as reached");
    break_metrics(&world);
    let failed = world.until(45, |world| world.phase("web") == "Failed").await;
    assert!(failed, "{:#}", world.status("web"));
    assert_eq!(canary_share(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn a_gate_left_behind_by_a_reverted_target_does_not_wait_for_ever() {
    let world = initialized(GATEWAY_API, hooked(by_weight(), "confirm-rollout")).await;
    world.network.hook("hooks/confirm-rollout", Reply::no());
    release(&world, "web:2.0");
    reach(&world, "Waiting").await;
    release(&world, "web:1.0");
    reach(&world, "Succeeded").await;
    assert_eq!(replicas(&world, "web"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_runs_at_rest_is_not_fought_over() {
    let world = initialized(GATEWAY_API, by_weight()).await;
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 2 } }));
    world.advance_s(300).await;
    assert_eq!(replicas(&world, "web"), 2, "somebody wants it so");
    assert_eq!(told(&world, "IdleTargetRuns"), 1, "said once");
    let (ready, _, message) = condition(&world, "web", "Ready");
    assert_eq!(ready, "True");
    assert!(message.contains("2 replicas"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn validation_is_not_bypassed_by_a_later_edit() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, measured(by_weight())));
    world.options.cross_namespace = tidegate_api::canary::CrossNamespace::Forbidden;
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    assert!(world.until(60, |world| canary_share(world) == 20).await);
    let metric = json!({ "name": "theirs", "templateRef": { "name": "x", "namespace": "other" } });
    edit_analysis(&world, json!({ "metrics": [metric] }));
    world.network.forget_calls();
    world.advance_s(60).await;
    assert_eq!(world.network.calls().len(), 0, "another tenant's template is not used");
    let (stalled, reason, message) = condition(&world, "web", "Stalled");
    assert_eq!((&*stalled, &*reason), ("True", "Obstructed"), "{message}");
    assert!(message.contains("metrics[0].templateRef.namespace: other/x"), "{message}");
    edit_analysis(&world, measured(json!({})));
    reach(&world, "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_is_never_ready_is_rolled_back_with_a_word() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    let world = initialized_with(canary).await;
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "progressDeadlineSeconds": 60 } }));
    release(&world, "web:2.0-never-ready");
    reach(&world, "Failed").await;
    assert_eq!(told(&world, "ProgressDeadlineExceeded"), 1, "{:?}", world.events());
    assert_eq!((canary_share(&world), replicas(&world, "web")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn no_data_is_not_a_pass() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    world.network.metric("", Metric::Nothing);
    reach(&world, "Failed").await;
    let writes = world.sandbox.server().log.writes();
    assert!(writes.iter().any(|entry| &*entry.user == OPERATOR));
    assert_eq!(image(&world, "web-primary"), "web:1.0");
}
