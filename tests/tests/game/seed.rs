//! The published example, row by row: in-place updates in five steps, the last of them a hook.

use serde_json::{Value, json};
use tidegate_tests::rollout::World;

use crate::rig::{
    GAME_DEPLOYMENTS, HOOK_RUNS, HOOK_TEMPLATES, NAME, Rig, game_deployment, hook_template,
};

const FIRST: &str = "test-gamedeployment-67864c6f65";
const SECOND: &str = "test-gamedeployment-9d78dd5db";
const RUN: &str = "test-gamedeployment-9d78dd5db-4-test";

/// One row of the trace: paused, step, why it is paused, stable revision, updated/updated ready/ready.
fn row(rig: &Rig) -> (bool, i64, Vec<String>, String, [i64; 3]) {
    let object = rig.get();
    let status = &object["status"];
    let reasons = status["pauseConditions"].as_array().into_iter().flatten();
    let reasons = reasons.filter_map(|it| it["reason"].as_str().map(str::to_owned)).collect();
    let [_, updated, updated_ready, ready, _] = rig.columns();
    (
        object["spec"]["updateStrategy"]["paused"] == true,
        status["currentStepIndex"].as_i64().unwrap_or(-1),
        reasons,
        status["canary"]["revision"].as_str().unwrap_or_default().to_owned(),
        [updated, updated_ready, ready],
    )
}

fn want(
    paused: bool,
    step: i64,
    reason: Option<&str>,
    counts: [i64; 3],
) -> (bool, i64, Vec<String>, String, [i64; 3]) {
    (paused, step, reason.map(str::to_owned).into_iter().collect(), FIRST.to_owned(), counts)
}

async fn until(rig: &Rig, seconds: u64, what: &str, is_so: impl FnMut(&World) -> bool) {
    let reached = rig.world.until_seen(seconds, is_so).await;
    assert!(reached, "never {what}: {:#}", rig.get());
}

/// Rows 0 to 14: up to the hook that fails.
async fn to_the_failed_hook(condition: &str) -> Rig {
    let rig = Rig::new().await;
    rig.age(45);
    rig.world.create(HOOK_TEMPLATES, hook_template(condition));
    rig.world.create(GAME_DEPLOYMENTS, game_deployment());
    until(&rig, 60, "four pods", |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    rig.world.advance_s(5).await;
    assert_eq!(row(&rig), want(false, 5, None, [4, 4, 4]), "row 0");
    assert_eq!(rig.get()["metadata"]["generation"], 1);
    assert_eq!(rig.get()["status"]["updateRevision"], FIRST);

    rig.image("python:3.5");
    rig.world.settle().await;
    assert_eq!(rig.get()["status"]["updateRevision"], SECOND);
    assert_eq!(row(&rig), want(false, 0, None, [1, 0, 3]), "row 2: one pod is out of service");
    rig.world.advance_s(29).await;
    let images = |rig: &Rig| -> Vec<String> {
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().map(str::to_owned);
        rig.pods().iter().filter_map(image).collect()
    };
    assert_eq!(images(&rig).iter().filter(|it| *it == "python:3.5").count(), 0, "grace");
    until(&rig, 60, "paused at step 1", |_| row(&rig).0).await;
    let paused = Some("PausedByCanaryPauseStep");
    assert_eq!(row(&rig), want(true, 1, paused, [1, 1, 4]), "row 5");
    assert_eq!(rig.columns(), [4, 1, 1, 4, 4]);
    rig.world.advance_s(120).await;
    assert_eq!(row(&rig), want(true, 1, paused, [1, 1, 4]), "it stays so");
    let object = rig.get();
    assert_eq!(object["metadata"]["generation"], 3);
    assert_eq!(object["status"]["observedGeneration"], 3);
    assert_eq!(object["status"]["collisionCount"], 0);
    assert_eq!(object["status"]["labelSelector"], "app=test-gamedeployment");
    let strategy = &object["spec"]["updateStrategy"];
    assert_eq!(strategy["canary"]["steps"][1], json!({ "pause": {} }));
    assert_eq!(
        strategy.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>()).unwrap_or_default(),
        ["canary", "inPlaceUpdateStrategy", "maxUnavailable", "paused", "type"]
    );
    assert!(object["status"]["canary"]["currentStepHookRun"].is_null());

    rig.pause(false);
    rig.world.settle().await;
    assert_eq!(row(&rig), want(false, 2, None, [2, 1, 3]), "rows 7 and 8");
    until(&rig, 90, "paused at step 3", |_| row(&rig).0).await;
    assert_eq!(row(&rig), want(true, 3, paused, [2, 2, 4]), "row 10");

    rig.world.advance_s(58).await;
    assert_eq!(row(&rig).1, 3, "not before 60 s");
    rig
}

#[tokio::test(start_paused = true)]
async fn the_published_example_pauses_at_its_failed_hook_and_goes_on_when_told() {
    let rig = to_the_failed_hook("asInt(result) < 30").await;
    until(&rig, 10, "paused by the hook", |_| row(&rig).1 == 4 && row(&rig).0).await;
    assert_eq!(row(&rig), want(true, 4, Some("PausedByStepBasedHook"), [2, 2, 4]), "row 14");
    assert_eq!(rig.get()["status"]["canary"]["currentStepHookRun"], RUN);
    let run = rig.world.get(HOOK_RUNS, RUN).unwrap();
    assert_eq!(
        run["spec"],
        json!({ "metrics": [{
            "count": 2, "interval": "60s", "name": "webtest",
            "provider": { "web": { "jsonPath": "{$.age}", "url": "http://1.1.1.1:9091" } },
            "successCondition": "asInt(result) < 30",
        }] })
    );
    let status = &run["status"];
    assert_eq!(status["phase"], "Failed");
    let result = &status["metricResults"][0];
    assert_eq!((&result["count"], &result["failed"]), (&json!(1), &json!(1)));
    assert_eq!(result["measurements"].as_array().map(Vec::len), Some(1));
    assert_eq!(result["measurements"][0]["value"], "45");

    rig.pause(false);
    rig.world.settle().await;
    assert_eq!(rig.columns(), [4, 4, 2, 2, 4], "row 16a");
    until(&rig, 90, "all updated", |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    rig.world.advance_s(5).await;
    let object = rig.get();
    assert_eq!(object["status"]["currentStepIndex"], 5);
    assert_eq!(object["status"]["canary"]["revision"], SECOND);
    assert_eq!(object["spec"]["updateStrategy"]["paused"], false);
}

#[tokio::test(start_paused = true)]
async fn the_published_example_goes_back_when_its_template_does() {
    let rig = to_the_failed_hook("asInt(result) < 30").await;
    until(&rig, 10, "paused by the hook", |_| row(&rig).1 == 4 && row(&rig).0).await;
    rig.image("python:latest");
    rig.world.settle().await;
    assert_eq!(row(&rig), want(false, 5, None, [4, 2, 2]), "rows 15b and 16b");
    until(&rig, 90, "all back", |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    rig.world.advance_s(5).await;
    assert!(rig.world.get(HOOK_RUNS, RUN).is_none(), "runs of the other revision are gone");
    assert_eq!(rig.get()["status"]["updateRevision"], FIRST);
}

#[tokio::test(start_paused = true)]
async fn the_published_example_does_not_pause_at_a_hook_that_passes() {
    let rig = to_the_failed_hook("asInt(result) > 30").await;
    until(&rig, 200, "all updated", |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    let object = rig.get();
    assert_eq!(object["metadata"]["generation"], 6, "paused twice, and no more");
    assert_eq!(NAME, object["metadata"]["name"]);
}
