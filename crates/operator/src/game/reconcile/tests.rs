use std::sync::Arc;

use serde_json::json;
use tidegate_providers::game::{
    CONTROLLER_REVISION, GAME_STATEFUL_SET, HOOK_TEMPLATE, POD, VOLUME_CLAIM,
};

use super::*;
use crate::game::testing::{
    Kit, LISTED, NAME, NAMESPACE, UID, deployment, hook_template, key, kind_of, own_pod, owned,
    pod, revision_name, revision_of, set, with,
};

fn reconciler(kit: &Kit, workload: &Value) -> WorkloadReconciler {
    WorkloadReconciler::new(Arc::clone(&kit.cx), kind_of(workload), key(), UID.to_owned())
}

/// A kit with the workload and nothing of it yet.
fn fresh(workload: &Value) -> Kit {
    let kit = Kit::new();
    kit.has(kind_of(workload), workload.clone());
    kit.listed(&LISTED);
    kit
}

/// A kit with the workload, its revision and both its pods.
fn up(workload: &Value) -> Kit {
    let kit = Kit::of(workload);
    for name in ["arena-0", "arena-1"] {
        kit.has(POD, own_pod(workload, name));
    }
    kit
}

fn writes(kit: &Kit) -> Vec<String> {
    kit.api.lines().into_iter().filter(|line| !line.starts_with("GET")).collect()
}

fn status(kit: &Kit, workload: &Value) -> Value {
    kit.api.get(kind_of(workload), NAME)["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_is_gone_ends_its_loop() {
    let kit = Kit::new();
    kit.listed(&LISTED);
    let outcome = kit.pass(&mut reconciler(&kit, &deployment())).await;
    assert_eq!(outcome.next.unwrap(), Next::Gone);
}

#[tokio::test(start_paused = true)]
async fn lists_that_are_not_complete_are_waited_for_a_second() {
    let kit = Kit::new();
    kit.has(GAME_DEPLOYMENT, deployment());
    let outcome = kit.pass(&mut reconciler(&kit, &deployment())).await;
    assert_eq!(outcome.next.unwrap(), Next::At(Duration::from_secs(1)));
    assert!(kit.api.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_workload_gets_a_revision_pods_and_a_status_in_one_pass() {
    for workload in [deployment(), with(set(), "/spec/podManagementPolicy", json!("Parallel"))] {
        let kit = fresh(&workload);
        let outcome = kit.pass(&mut reconciler(&kit, &workload)).await;
        assert_eq!(outcome.next.unwrap(), Next::OnChange);
        let lines = writes(&kit);
        assert_eq!(lines[0], "POST controllerrevisions");
        assert_eq!(lines.iter().filter(|line| *line == "POST pods").count(), 2, "{lines:?}");
        assert_eq!(status(&kit, &workload)["replicas"], 2);
        assert_eq!(kit.api.count_events("SuccessfulCreate"), 2);
        let revision = (CONTROLLER_REVISION, Key::new(NAMESPACE, &revision_name(&workload)));
        assert!(outcome.followed.contains(&revision), "{:?}", outcome.followed);
        assert_eq!(outcome.followed.len(), 3, "two pods beside it");
        assert!(kit.api.list(VOLUME_CLAIM).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_workload_at_rest_is_not_written() {
    let kit = up(&deployment());
    let mut reconciler = reconciler(&kit, &deployment());
    assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange);
    assert_eq!(status(&kit, &deployment())["readyReplicas"], 2);
    kit.api.forget_calls();
    assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange);
    assert!(kit.api.calls().is_empty());
    let decisions = kit.metrics("tidegate_decisions");
    assert!(decisions.iter().any(|line| line.contains("AtRest")), "{decisions:?}");
}

#[tokio::test(start_paused = true)]
async fn replicas_are_counted_for_metrics() {
    let kit = up(&deployment());
    kit.pass(&mut reconciler(&kit, &deployment())).await.next.unwrap();
    let gauges = kit.metrics("bkbcs_gamedeployment_");
    let gauges: Vec<&String> = gauges.iter().filter(|it| it.contains("replicas")).collect();
    assert_eq!(gauges.len(), 5, "{gauges:?}");
    assert!(gauges.iter().all(|line| line.ends_with(" 2")), "{gauges:?}");
    let looks = kit.metrics("bkbcs_gamedeployment_reconcile_duration_seconds_count");
    assert!(looks[0].contains("status=\"success\""), "{looks:?}");
}

#[tokio::test(start_paused = true)]
async fn the_counts_that_are_about_to_be_written_are_told_and_else_those_that_were() {
    use tidegate_engine::game::{Counts, Fact, Memory};
    let counts = |replicas: usize| Counts {
        replicas,
        ready: 2,
        available: 3,
        current: 4,
        updated: 5,
        updated_ready: 6,
        ..Counts::default()
    };
    for (workload, available_or_current) in [(deployment(), 3), (set(), 4)] {
        let kit = up(&workload);
        let kind = kind_of(&workload);
        let key = key();
        let (cluster, now) = (kit.cluster(), kit.now());
        let env = Env { kind, key: &key, uid: UID, cluster, now, refusals: &[], collisions: 0 };
        let Ok(mut observation) = observe(&env) else { panic!("everything is there") };
        observation.observed.memory.counts = counts(1);
        let remember = |replicas: usize| {
            let memory = Memory { counts: counts(replicas), ..Memory::default() };
            Action::Remember(Box::new(memory))
        };
        for (actions, all) in
            [(vec![], 1), (vec![Action::SetPaused(true), remember(7), remember(8)], 7)]
        {
            let decision = Decision { why: Fact::AtRest, actions, again: Again::OnChange };
            let told = replicas(kind, &observation, &decision);
            let Replicas { all: told_all, ready, updated, updated_ready, .. } = told;
            assert_eq!([told_all, ready, updated, updated_ready], [all, 2, 5, 6]);
            assert_eq!(told.available_or_current, available_or_current);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_adopted_and_a_pod_without_labels_released() {
    let kit = up(&deployment());
    kit.has(POD, with(own_pod(&deployment(), "arena-2"), "/metadata/labels", json!({})));
    kit.api.remove(POD, "arena-1");
    kit.cluster().cache.cache_remove(POD, &Key::new(NAMESPACE, "arena-1"));
    let revision = json!(revision_name(&deployment()));
    kit.has(POD, with(pod("orphan"), "/metadata/labels/controller-revision-hash", revision));
    let outcome = kit.pass(&mut reconciler(&kit, &deployment())).await;
    assert_eq!(outcome.next.unwrap(), Next::OnChange);
    let lines = writes(&kit);
    assert!(lines.contains(&"PATCH pods/orphan".to_owned()), "{lines:?}");
    assert!(lines.contains(&"PATCH pods/arena-2".to_owned()), "{lines:?}");
    assert_eq!(kit.api.get(POD, "orphan")["metadata"]["ownerReferences"][0]["uid"], UID);
    assert_eq!(kit.api.get(POD, "arena-2")["metadata"]["ownerReferences"], json!([]));
    assert!(!lines.contains(&"POST pods".to_owned()), "there are two again: {lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_cannot_be_read_is_complained_about_once() {
    let unreadable = with(deployment(), "/spec/replicas", json!("two"));
    let kit = fresh(&unreadable);
    let mut reconciler = reconciler(&kit, &unreadable);
    for _ in 0..2 {
        assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange);
    }
    assert_eq!(writes(&kit), ["PATCH gamedeployments/arena/status"], "in the status, once");
    assert_eq!(kit.api.count_events("Refused"), 1, "and by an Event, once");
    let status = status(&kit, &unreadable);
    assert!(status["message"].as_str().unwrap().starts_with("the spec cannot be read"), "{status}");
    assert_eq!(status["phase"], "Degraded");
    // Once the spec was readable, the same complaint is recorded again.
    let live = kit.api.get(GAME_DEPLOYMENT, NAME);
    let fixed = with(live.clone(), "/spec/replicas", json!(2));
    kit.has(GAME_DEPLOYMENT, with(fixed, "/metadata/resourceVersion", json!("5001")));
    kit.pass(&mut reconciler).await.next.unwrap();
    kit.has(GAME_DEPLOYMENT, with(live, "/metadata/resourceVersion", json!("6001")));
    kit.pass(&mut reconciler).await.next.unwrap();
    assert_eq!(kit.api.count_events("Refused"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_adoption_or_revision_is_complained_about_and_tried_again_later() {
    let workload = deployment();
    let kit = fresh(&workload);
    kit.api.fail("POST", "/controllerrevisions", 403);
    let outcome = kit.pass(&mut reconciler(&kit, &workload)).await;
    assert_eq!(outcome.next.unwrap(), Next::Backoff);
    assert_eq!(kit.api.count_events("Refused"), 1);
    assert!(status(&kit, &workload)["message"].as_str().unwrap().contains("was refused"));
    let kit = up(&workload);
    kit.has(POD, pod("orphan"));
    kit.api.fail("PATCH", "/pods/orphan", 403);
    let outcome = kit.pass(&mut reconciler(&kit, &workload)).await;
    assert_eq!(outcome.next.unwrap(), Next::Backoff);
    assert_eq!(kit.api.count_events("Refused"), 1);
}

#[tokio::test(start_paused = true)]
async fn pods_that_a_quota_refuses_are_in_the_status_and_tried_again_later() {
    let workload = deployment();
    let kit = fresh(&workload);
    kit.api.fail("POST", "/pods", 403);
    let mut reconciler = reconciler(&kit, &workload);
    assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::Backoff);
    let status_now = status(&kit, &workload);
    let conditions = status_now["conditions"].as_array().unwrap();
    let failed = conditions.iter().find(|it| it["type"] == "FailedScale").unwrap();
    assert_eq!(failed["status"], "True");
    assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::Backoff);
    assert_eq!(kit.api.count_events("FailedCreate"), 1);
    kit.api.repair();
    assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange);
    assert_eq!(kit.api.list(POD).len(), 2);
    assert!(reconciler.refusals.is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_a_write_without_an_answer_everything_is_read_first() {
    for part in ["/pods", "/controllerrevisions"] {
        let workload = deployment();
        let kit = fresh(&workload);
        kit.api.fail("POST", part, 503);
        let mut reconciler = reconciler(&kit, &workload);
        let outcome = kit.pass(&mut reconciler).await;
        assert!(matches!(outcome.next, Err(WriteError::Unavailable { .. })), "{part}");
        assert!(reconciler.cache_may_lag, "{part}");
        // The write had happened.
        kit.api.repair();
        kit.api.put(CONTROLLER_REVISION, revision_of(&workload));
        for name in ["arena-0", "arena-1"] {
            kit.api.put(POD, own_pod(&workload, name));
        }
        kit.api.forget_calls();
        assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange, "{part}");
        let lines = kit.api.lines();
        let reads = ["GET gamedeployments/arena", "GET pods", "GET controllerrevisions"];
        assert_eq!(lines[..3], reads, "{part}");
        assert!(lines.iter().all(|line| !line.starts_with("POST")), "{part}: {lines:?}");
        assert!(!reconciler.cache_may_lag, "{part}");
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_looked_at_again_but_not_for_ever() {
    let workload = deployment();
    let kit = up(&workload);
    kit.api.fail("PATCH", "/status", 409);
    let outcome = kit.pass(&mut reconciler(&kit, &workload)).await;
    assert_eq!(outcome.next.unwrap(), Next::Backoff);
    assert_eq!(writes(&kit).len(), 9, "eight conflicts are allowed");
    let kit = up(&workload);
    kit.has(POD, pod("orphan"));
    kit.api.fail("PATCH", "/pods/orphan", 409);
    let outcome = kit.pass(&mut reconciler(&kit, &workload)).await;
    assert_eq!(outcome.next.unwrap(), Next::Backoff);
    assert_eq!(writes(&kit).len(), 9, "before a decision as well");
    assert!(kit.api.lines().contains(&"GET controllerrevisions".to_owned()), "it reads again");
}

#[tokio::test(start_paused = true)]
async fn a_stale_status_is_read_and_written_in_the_same_pass() {
    let kit = up(&deployment());
    let newer = with(deployment(), "/metadata/resourceVersion", json!("900"));
    kit.api.put(GAME_DEPLOYMENT, newer);
    let outcome = kit.pass(&mut reconciler(&kit, &deployment())).await;
    assert_eq!(outcome.next.unwrap(), Next::OnChange);
    assert_eq!(status(&kit, &deployment())["readyReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_revision_whose_name_is_taken_gets_another_one() {
    let workload = deployment();
    let kit = fresh(&workload);
    let taken = owned(revision_of(&workload), GAME_DEPLOYMENT, "lobby", "lobby-uid");
    kit.api.put(CONTROLLER_REVISION, taken);
    let outcome = kit.pass(&mut reconciler(&kit, &workload)).await;
    assert_eq!(outcome.next.unwrap(), Next::OnChange);
    assert_eq!(kit.api.list(CONTROLLER_REVISION).len(), 2);
    assert_eq!(status(&kit, &workload)["collisionCount"], 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_or_after_a_stop_nothing_is_looked_at() {
    let kit = fresh(&deployment());
    kit.lose_lease();
    let outcome = kit.pass(&mut reconciler(&kit, &deployment())).await;
    assert_eq!(outcome.next.unwrap(), Next::OnChange);
    assert!(outcome.followed.is_empty());
    assert!(kit.api.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_time_that_must_pass_is_waited_for() {
    let workload = with(deployment(), "/spec/minReadySeconds", json!(30));
    let kit = up(&workload);
    let outcome = kit.pass(&mut reconciler(&kit, &workload)).await;
    assert_eq!(outcome.next.unwrap(), Next::At(Duration::from_secs(30)));
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_named_is_followed() {
    let steps = json!({ "steps": [{ "hook": { "templateName": "check" } }] });
    let workload = with(deployment(), "/spec/updateStrategy/canary", steps);
    let kit = up(&workload);
    kit.has(HOOK_TEMPLATE, hook_template("check"));
    let outcome = kit.pass(&mut reconciler(&kit, &workload)).await;
    assert!(outcome.followed.contains(&(HOOK_TEMPLATE, Key::new(NAMESPACE, "check"))));
}

#[test]
fn refusals_are_the_same_if_their_conditions_are() {
    let refusal =
        |kind: ConditionKind, message: &str| Refusal { kind, message: message.to_owned() };
    let (scale, update) = (ConditionKind::FailedScale, ConditionKind::FailedUpdate);
    let cases = [
        (vec![], vec![], true),
        (vec![refusal(scale, "3 of 4")], vec![refusal(scale, "4 of 4")], true),
        (vec![refusal(scale, "")], vec![refusal(update, "")], false),
        (vec![refusal(scale, "")], vec![], false),
        (vec![], vec![refusal(scale, "")], false),
        (
            vec![refusal(scale, ""), refusal(update, "")],
            vec![refusal(update, ""), refusal(scale, "")],
            true,
        ),
    ];
    for (before, now, want) in cases {
        assert_eq!(is_same(&before, &now), want, "{before:?} {now:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn series_of_sets_are_their_own() {
    let workload = with(set(), "/spec/podManagementPolicy", json!("Parallel"));
    let kit = up(&workload);
    kit.pass(&mut reconciler(&kit, &workload)).await.next.unwrap();
    assert_eq!(kind_of(&workload), GAME_STATEFUL_SET);
    assert!(!kit.metrics("bkbcs_gamestatefulset_reconcile_duration_seconds_count").is_empty());
    assert!(kit.metrics("bkbcs_gamedeployment_reconcile_duration_seconds_count").is_empty());
}
