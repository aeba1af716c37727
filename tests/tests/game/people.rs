//! User actions on a release, and tools that apply manifests in between.

use serde_json::{Value, json};

use crate::rig::{ARENA, Stage, arena, numbered, send_patch};

fn by_annotation() -> Value {
    json!({
        "type": "RollingUpdate", "maxUnavailable": 1,
        "canary": { "resumeBy": "Annotation", "steps": [{ "partition": 2 }, { "pause": {} }] },
    })
}

fn paused_by(stage: &Stage) -> Vec<String> {
    let status = stage.status();
    let pauses = status["pauseConditions"].as_array().cloned().unwrap_or_default();
    pauses.iter().map(|it| it["reason"].as_str().unwrap_or_default().to_owned()).collect()
}

fn is_paused_by_user(stage: &Stage) -> bool {
    stage.get()["spec"]["updateStrategy"]["paused"] == true && paused_by(stage) == ["PausedByUser"]
}

// Mistake 12 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_pause_of_a_person_outlives_a_tool_that_applies_paused_false() {
    let stage = Stage::up(arena(&by_annotation())).await;
    stage.pause(true);
    stage.until(30, "paused", is_paused_by_user).await;
    stage.image("game:2");
    for _ in 0..3 {
        stage.pause(false);
        stage.world.advance_s(30).await;
        assert!(is_paused_by_user(&stage), "{:#}", stage.get());
    }
    assert_eq!(stage.with_image("game:2"), 0);
    assert_eq!(stage.told("ResumeIgnored").len(), 3, "{:?}", stage.told("ResumeIgnored"));
    let message = stage.status()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("tidegate.dev/ask=resume"), "{message}");
    stage.ask("resume");
    stage.until(120, "at its step", |stage| paused_by(stage) == ["PausedByCanaryPauseStep"]).await;
    assert_eq!(stage.with_image("game:2"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_asked_for_and_ended_by_annotation() {
    let stage = Stage::up(arena(&by_annotation())).await;
    stage.ask("pause");
    stage.until(30, "paused", is_paused_by_user).await;
    assert!(stage.get()["metadata"]["annotations"]["tidegate.dev/ask"].is_null());
    assert!(stage.condition("Paused").is_some(), "{:#}", stage.status());
    stage.image("game:2");
    stage.world.advance_s(60).await;
    assert_eq!(stage.with_image("game:2"), 0);
    stage.ask("resume");
    stage.until(120, "at its step", |stage| paused_by(stage) == ["PausedByCanaryPauseStep"]).await;
    stage.ask("resume");
    stage
        .until(120, "updated", |stage| stage.is_settled() && stage.with_image("game:2") == 3)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_a_person_applies_on_top_of_ours_outlives_it() {
    let steps = json!([{ "partition": 2 }, { "pause": { "duration": 60 } }]);
    let strategy =
        json!({ "type": "RollingUpdate", "maxUnavailable": 1, "canary": { "steps": steps } });
    let stage = Stage::up(arena(&strategy)).await;
    stage.image("game:2");
    stage.until(120, "at its step", |stage| paused_by(stage) == ["PausedByCanaryPauseStep"]).await;
    stage.world.advance_s(5).await;
    let applied = json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment",
        "metadata": { "name": ARENA }, "spec": { "updateStrategy": { "paused": true } },
    });
    let place = format!("gamedeployments/{ARENA}?fieldManager=person");
    send_patch(&stage.world, "application/apply-patch+yaml", &place, &applied).await.unwrap();
    let both = ["PausedByCanaryPauseStep", "PausedByUser"];
    stage.until(5, "held by both", |stage| paused_by(stage) == both).await;
    stage.world.advance_s(300).await;
    assert_eq!(
        (paused_by(&stage), stage.with_image("game:2")),
        (both.map(str::to_owned).to_vec(), 1)
    );
    stage.ask("resume");
    stage
        .until(120, "updated", |stage| stage.is_settled() && stage.with_image("game:2") == 3)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_pods_a_person_deletes_is_at_rest_and_says_what_it_waits_for() {
    let stage = Stage::up(numbered("Parallel", &json!({ "type": "OnDelete" }))).await;
    stage.image("game:2");
    stage.world.advance_s(60).await;
    let status = stage.status();
    assert_eq!(status["phase"], "Healthy", "{status:#}");
    assert_eq!(status["message"], "Pods that run an older revision until they are deleted: 3.");
    assert_eq!(stage.condition("Progressing"), None);
    let progressing = status["conditions"].as_array().into_iter().flatten();
    let progressing = progressing.into_iter().find(|it| it["type"] == "Progressing").unwrap();
    assert_eq!(progressing["reason"], "OldPodsKept");
    for pod in ["arena-2", "arena-0", "arena-1"] {
        stage.world.delete(kube_sandbox::cluster::PODS, pod);
        stage.world.advance_s(60).await;
    }
    assert!(stage.is_settled() && stage.with_image("game:2") == 3, "{:#}", stage.status());
    assert_eq!(stage.status()["message"], "All pods are as they should be.");
}
