//! A slow or broken object delays no other.

use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{canary, deployment},
};

use crate::rig::{ARENA, GAME_DEPLOYMENTS, HOOK_RUNS, Stage, arena, run, web};
use kube_sandbox::cluster::{DEPLOYMENTS, Resource};

const CANARIES: Resource = Resource { group: "flagger.app", plural: "canaries" };

fn rolling() -> Value {
    json!({ "type": "RollingUpdate", "maxUnavailable": 1 })
}

fn answer() -> Reply {
    Reply::Status(200, json!({ "age": 20 }).to_string())
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_deleted_while_it_is_measured_holds_up_nobody() {
    let stage = Stage::up(arena(&rolling())).await;
    let (reply, hold) = answer().held();
    stage.world.network.hook("1.1.1.1/", reply);
    stage.world.create(HOOK_RUNS, run("slow", web("asInt(result) < 30"), &[]));
    stage.world.settle().await;
    assert_eq!(stage.asked(), 1, "it is under measurement");
    stage.world.delete(HOOK_RUNS, "slow");
    stage.world.settle().await;
    stage.scale(5);
    stage.until(60, "five", |stage| stage.pods().len() == 5).await;
    stage.world.create(HOOK_RUNS, run("slow", web("asInt(result) < 30"), &[]));
    stage.world.settle().await;
    assert_eq!(stage.asked(), 2, "another of its name is not held up either");
    hold.release();
    let is_over = |stage: &Stage| stage.run("slow")["status"]["phase"] == "Successful";
    stage.until(60, "over", is_over).await;
}

#[tokio::test(start_paused = true)]
async fn runs_that_wait_for_a_server_hold_up_neither_workloads_nor_canaries() {
    let stage = Stage::up(arena(&rolling())).await;
    let (reply, hold) = answer().held();
    stage.world.network.hook("1.1.1.1/", reply);
    let permits = stage.world.options.permits;
    for index in 0..permits * 2 {
        let name = format!("slow-{index}");
        stage.world.create(HOOK_RUNS, run(&name, web("asInt(result) < 30"), &[]));
    }
    stage.world.settle().await;
    assert_eq!(stage.asked(), permits * 2, "all of them are under measurement");
    stage.scale(5);
    stage.until(60, "five", |stage| stage.pods().len() == 5).await;
    stage.world.create(DEPLOYMENTS, deployment("web", "web:1", 1));
    let analysis = json!({ "interval": "10s", "threshold": 2, "iterations": 2 });
    stage.world.create(CANARIES, canary("web", "kubernetes", analysis));
    let is_up = |stage: &Stage| stage.world.phase("web") == "Initialized";
    stage.until(120, "a canary", is_up).await;
    hold.release();
    let is_over =
        |stage: &Stage| stage.runs().iter().all(|run| run["status"]["phase"] == "Successful");
    stage.until(60, "over", is_over).await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_whose_rival_goes_takes_over_by_itself() {
    let stage = Stage::up(arena(&rolling())).await;
    stage.world.advance_s(5).await;
    let mut second = arena(&rolling());
    second["metadata"]["name"] = json!("arena-two");
    stage.world.create(GAME_DEPLOYMENTS, second);
    stage.world.advance_s(30).await;
    let two = || stage.world.get(GAME_DEPLOYMENTS, "arena-two").unwrap_or_default();
    let condition = |kind: &str| {
        let status = two()["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|it| it["type"] == kind && it["status"] == "True")
    };
    let refused = condition("FailedUpdate").expect("a condition says why");
    assert_eq!(refused["reason"], "Refused");
    let why = "GameDeployment arena is older and selects the same pods";
    assert_eq!((&refused["message"], &two()["status"]["message"]), (&json!(why), &json!(why)));
    assert_eq!(stage.pods().len(), 3);
    stage.world.delete(GAME_DEPLOYMENTS, ARENA);
    stage.until(120, "taken over", |_| two()["status"]["phase"] == "Healthy").await;
    assert_eq!(two()["status"]["updatedReadyReplicas"], 3);
    assert!(condition("FailedUpdate").is_none(), "it goes with its cause: {:#}", two());
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_is_misspelt_is_told_and_taken_away_and_holds_up_nothing() {
    let stage = Stage::up(arena(&rolling())).await;
    stage.ask("reusme");
    stage.scale(5);
    stage.until(60, "five", |stage| stage.pods().len() == 5).await;
    let annotations = stage.get()["metadata"]["annotations"].clone();
    assert!(annotations["tidegate.dev/ask"].is_null(), "{annotations}");
    let told = stage.told("UnknownVerb");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("reusme") && told[0].contains("retry-hook"), "{told:?}");
}
