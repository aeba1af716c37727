//! Metrics of a game workload, as dashboards read them.

use tidegate_operator::telemetry::Format;

use crate::rig::{GAME_DEPLOYMENTS, HOOK_TEMPLATES, NAME, Rig, game_deployment, hook_template};

fn lines(rig: &Rig) -> Vec<String> {
    let telemetry = rig.world.telemetry.borrow();
    let page = telemetry.as_ref().map(|it| it.render(Format::Prometheus)).unwrap_or_default();
    page.lines().filter(|line| line.starts_with("bkbcs_")).map(str::to_owned).collect()
}

#[track_caller]
fn shows(rig: &Rig, wanted: &[&str]) {
    let lines = lines(rig);
    for wanted in wanted {
        assert!(lines.iter().any(|line| line == wanted), "no {wanted}\n{}", lines.join("\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn series_follow_a_workload_and_its_hook_and_go_with_them() {
    let rig = Rig::new().await;
    rig.age(45);
    rig.world.create(HOOK_TEMPLATES, hook_template("asInt(result) < 30"));
    let mut object = game_deployment();
    let steps = serde_json::json!([{ "partition": 3 }, { "hook": { "templateName": "test" } }]);
    object["spec"]["updateStrategy"]["canary"]["steps"] = steps;
    rig.world.create(GAME_DEPLOYMENTS, object);
    rig.world.until_seen(60, |_| rig.columns() == [4, 4, 4, 4, 4]).await;
    rig.world.advance_s(5).await;
    shows(
        &rig,
        &[
            r#"bkbcs_gamedeployment_replicas{gd="default/test-gamedeployment"} 4"#,
            r#"bkbcs_gamedeployment_available_replicas{gd="default/test-gamedeployment"} 4"#,
            r#"bkbcs_gamedeployment_pod_create_duration_seconds_count{gd="default/test-gamedeployment",status="success"} 4"#,
        ],
    );

    rig.image("python:3.5");
    let paused = |rig: &Rig| rig.get()["spec"]["updateStrategy"]["paused"] == true;
    assert!(rig.world.until_seen(120, |_| paused(&rig)).await, "the hook fails");
    rig.world.advance_s(5).await;
    shows(
        &rig,
        &[
            r#"bkbcs_gamedeployment_updated_ready_replicas{gd="default/test-gamedeployment"} 1"#,
            r#"bkbcs_gamedeployment_pod_update_duration_seconds_count{gd="default/test-gamedeployment",status="success",grace="false",action="inplaceUpdate"} 1"#,
            r#"bkbcs_gameworkload_hookrun_create_duration_seconds_count{namespace="default",name="test-gamedeployment",status="success",action="canary-step",objectKind="GameDeployment"} 1"#,
            r#"bkbcs_hook_metric_exec_duration_seconds_count{namespace="default",owner="test-gamedeployment",metric="webtest",phase="Failed"} 1"#,
        ],
    );

    rig.world.delete(GAME_DEPLOYMENTS, NAME);
    rig.world.advance_s(60).await;
    let left: Vec<_> = lines(&rig).into_iter().filter(|line| line.contains(NAME)).collect();
    assert_eq!(left, Vec::<String>::new(), "nothing is told of what is gone");
}
