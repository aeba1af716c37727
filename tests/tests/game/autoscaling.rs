//! Autoscalers, which see only the scale of a workload.

use serde_json::{Value, json};
use tidegate_tests::rollout::AUTOSCALERS;

use crate::rig::{ARENA, Stage, arena, numbered};

fn autoscaler(kind: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": ARENA },
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "tkex.tencent.com/v1alpha1", "kind": kind, "name": ARENA,
            },
            "minReplicas": 2, "maxReplicas": 6,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 },
            } }],
        },
    })
}

/// Pods use this percentage of their requests from now on.
fn load(stage: &Stage, percent: &str) {
    let annotations = json!({ "sandbox.tidegate.dev/cpu-utilization": percent });
    stage.world.patch(AUTOSCALERS, ARENA, &json!({ "metadata": { "annotations": annotations } }));
}

/// Three pods under twice their load: there are six of them soon.
async fn grown(object: Value) -> Stage {
    let kind = object["kind"].clone();
    let stage = Stage::up(object).await;
    stage.world.create(AUTOSCALERS, autoscaler(&kind));
    load(&stage, "100");
    stage.until(60, "six", |stage| stage.pods().len() == 6 && stage.is_settled()).await;
    let status = stage.world.get(AUTOSCALERS, ARENA).unwrap_or_default()["status"].clone();
    assert_eq!(status["desiredReplicas"], 6, "{status:#}");
    load(&stage, "50");
    stage.world.advance_s(60).await;
    stage
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_scales_a_game_deployment() {
    let steps = json!([{ "partition": "50%" }, { "pause": {} }]);
    let strategy =
        json!({ "type": "RollingUpdate", "maxUnavailable": 1, "canary": { "steps": steps } });
    let stage = grown(arena(&strategy)).await;
    stage.image("game:2");
    let is_paused = |stage: &Stage| {
        stage.status()["pauseConditions"][0]["reason"] == "PausedByCanaryPauseStep"
            && stage.get()["spec"]["updateStrategy"]["paused"] == true
    };
    stage.until(120, "paused", is_paused).await;
    assert_eq!((stage.with_image("game:1"), stage.with_image("game:2")), (3, 3));
    // In the middle of a release both revisions keep their share.
    load(&stage, "10");
    stage
        .until(600, "two", |stage| {
            let status = stage.status();
            stage.pods().len() == 2 && status["replicas"] == 2 && status["readyReplicas"] == 2
        })
        .await;
    stage.world.advance_s(60).await;
    assert_eq!((stage.with_image("game:1"), stage.with_image("game:2")), (1, 1));
    assert!(is_paused(&stage), "{:#}", stage.get());
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_scales_a_game_stateful_set() {
    let stage = grown(numbered("Parallel", &json!({ "type": "RollingUpdate" }))).await;
    load(&stage, "10");
    stage.until(600, "two", |stage| stage.pods().len() == 2 && stage.is_settled()).await;
}
