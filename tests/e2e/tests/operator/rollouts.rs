//! Ten kinds of rollout, each in a namespace of its own. Each reports the number of kills of the operator
//! meanwhile.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tidegate_e2e::stage::{
    AUTOSCALER, CANARY, CONFIG_MAP, DEPLOYMENT, HTTP_ROUTE, SERVICE, canary, deployment, metric,
};
use tidegate_providers::workload::hash;

use super::kills::Trial;
use crate::{
    BAD, End, GATEWAY_API, GOOD, by_weight, gets_a_share, initialized, judged, passes, settles,
    weight_of,
};

fn iterated() -> Value {
    judged(json!({ "iterations": 2 }))
}

/// All of them at the same time.
pub(crate) async fn all(trial: &Trial<'_>) -> Result<Vec<u32>> {
    let rollouts = [
        promote(trial).boxed_local(),
        fail_by_metric(trial).boxed_local(),
        fail_by_deadline(trial).boxed_local(),
        ab_test(trial).boxed_local(),
        blue_green(trial).boxed_local(),
        manual_step(trial).boxed_local(),
        new_configuration(trial).boxed_local(),
        autoscaled(trial).boxed_local(),
        deletion(trial).boxed_local(),
        take_over(trial).boxed_local(),
    ];
    futures::future::try_join_all(rollouts).await
}

/// Released while no operator runs.
async fn promote(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "promote");
    initialized(stage, name, canary(GATEWAY_API, "promote.test", &by_weight()), GOOD).await?;
    trial.killed().await?;
    let begun = trial.release(name, "shop:2.0.0").await?;
    gets_a_share(stage, name).await?;
    End::PROMOTED.is_of(stage, name).await?;
    trial.during(begun)
}

async fn fail_by_metric(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "fail-by-metric");
    initialized(stage, name, canary(GATEWAY_API, "metric.test", &by_weight()), BAD).await?;
    let begun = trial.release(name, "shop:2.0.0").await?;
    End::TAKEN_BACK.is_of(stage, name).await?;
    trial.during(begun)
}

async fn fail_by_deadline(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "fail-by-deadline");
    let mut object = canary(GATEWAY_API, "deadline.test", &by_weight());
    object["spec"]["progressDeadlineSeconds"] = json!(20);
    initialized(stage, name, object, GOOD).await?;
    let begun = trial.release(name, "shop:2.0.0-never-ready").await?;
    End::TAKEN_BACK.is_of(stage, name).await?;
    trial.during(begun)
}

async fn ab_test(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "ab-test");
    let mut analysis = iterated();
    analysis["match"] = json!([{ "headers": { "x-insider": { "exact": "yes" } } }]);
    initialized(stage, name, canary(GATEWAY_API, "ab.test", &analysis), GOOD).await?;
    let begun = trial.release(name, "shop:2.0.0").await?;
    let was_checked = |status: &Value| status["iterations"].as_i64() > Some(0);
    passes(stage, name, "it was checked", was_checked).await?;
    End::PROMOTED.is_of(stage, name).await?;
    trial.during(begun)
}

async fn blue_green(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "blue-green");
    initialized(stage, name, canary("kubernetes", "", &iterated()), GOOD).await?;
    let begun = trial.release(name, "shop:2.0.0").await?;
    End { share: None, ..End::PROMOTED }.is_of(stage, name).await?;
    trial.during(begun)
}

/// Resumed while no operator runs.
async fn manual_step(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "manual-step");
    let mut object = canary(GATEWAY_API, "manual.test", &by_weight());
    object["spec"]["manualStep"] = json!({ "weight": 40 });
    initialized(stage, name, object, GOOD).await?;
    let begun = trial.release(name, "shop:2.0.0").await?;
    let held = passes(stage, name, "it waits", |status| status["phase"] == "Waiting").await?;
    ensure!(held["manualPause"]["weight"] == 40, "{held:#}");
    tokio::time::sleep(Duration::from_secs(15)).await;
    let still = stage.status(name).await?;
    ensure!(still["phase"] == "Waiting" && still["canaryWeight"] == 40, "{still:#}");
    trial.killed().await?;
    let resume = json!({ "spec": { "manualStep": { "resume": true } } });
    stage.patch(CANARY, name, "web", &resume).await?;
    End::PROMOTED.is_of(stage, name).await?;
    trial.during(begun)
}

/// Edited while no operator runs.
async fn new_configuration(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "new-configuration");
    let settings = |colour: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" },
            "data": { "colour": colour },
        })
    };
    stage.namespace(name).await?;
    stage.apply(name, settings("green")).await?;
    let mut target = deployment("web", "shop:1.0.0");
    target["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{ "configMapRef": { "name": "settings" } }]);
    stage.apply(name, target).await?;
    stage.apply(name, metric(stage, GOOD)).await?;
    stage.apply(name, canary(GATEWAY_API, "config.test", &by_weight())).await?;
    stage.reach(name, "Initialized").await?;
    trial.killed().await?;
    let begun = trial.begin(name, stage.apply(name, settings("blue"))).await?;
    End { image: "shop:1.0.0", ..End::PROMOTED }.is_of(stage, name).await?;
    let copy = stage.get(CONFIG_MAP, name, "settings-primary").await?.unwrap_or_default();
    ensure!(copy["data"]["colour"] == "blue", "{copy:#}");
    trial.during(begun)
}

async fn autoscaled(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "autoscaled");
    stage.furnish(name, "shop:1.0.0").await?;
    let metrics = json!([{ "type": "Resource", "resource": {
        "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 99 },
    } }]);
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let autoscaler = json!({
        "apiVersion": AUTOSCALER.0, "kind": AUTOSCALER.1, "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4, "metrics": metrics,
        },
    });
    stage.apply(name, autoscaler).await?;
    let mut object = canary(GATEWAY_API, "scaled.test", &by_weight());
    object["spec"]["autoscalerRef"] =
        json!({ "apiVersion": AUTOSCALER.0, "kind": AUTOSCALER.1, "name": "web" });
    stage.apply(name, metric(stage, GOOD)).await?;
    stage.apply(name, object).await?;
    stage.reach(name, "Initialized").await?;
    let begun = trial.release(name, "shop:2.0.0").await?;
    End::PROMOTED.is_of(stage, name).await?;
    let copy = stage.get(AUTOSCALER, name, "web-primary").await?.context("no autoscaler")?;
    ensure!(copy["spec"]["scaleTargetRef"]["name"] == "web-primary", "{copy:#}");
    trial.during(begun)
}

/// Deleted half-way, while no operator runs: the user's objects are restored, and have the live traffic.
async fn deletion(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "deletion");
    stage.furnish(name, "shop:1.0.0").await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": {
            "selector": { "app": "web" },
            "ports": [{ "name": "http", "port": 80, "targetPort": 9898 }],
        },
    });
    stage.apply(name, service).await?;
    stage.apply(name, metric(stage, GOOD)).await?;
    let mut object = canary(GATEWAY_API, "deletion.test", &by_weight());
    object["spec"]["revertOnDeletion"] = json!(true);
    stage.apply(name, object).await?;
    stage.reach(name, "Initialized").await?;
    let begun = trial.release(name, "shop:2.0.0").await?;
    gets_a_share(stage, name).await?;
    trial.killed().await?;
    stage.delete(CANARY, name, "web").await?;
    stage.gone(name).await?;
    let service = stage.get(SERVICE, name, "web").await?.context("the Service is gone")?;
    ensure!(service["spec"]["selector"] == json!({ "app": "web" }), "{:#}", service["spec"]);
    settles(&format!("{name}: the canary is gone"), async || {
        let primary = stage.get(DEPLOYMENT, name, "web-primary").await?;
        ensure!(primary.is_none(), "its copies are not");
        let (image, replicas) = stage.runs(name, "web").await?;
        ensure!((image.as_str(), replicas) == ("shop:2.0.0", 2), "{image} x {replicas}");
        Ok(())
    })
    .await?;
    trial.during(begun)
}

/// A canary that Flagger has promoted before: no rollout starts, missing objects are created, and the next
/// release is rolled out.
async fn take_over(trial: &Trial<'_>) -> Result<u32> {
    let (stage, name) = (trial.stage, "take-over");
    stage.furnish(name, "shop:1.0.0").await?;
    stage.apply(name, metric(stage, GOOD)).await?;
    let mut target = stage.get(DEPLOYMENT, name, "web").await?.context("no target")?;
    let revision = hash::revision(&target["spec"]["template"]);
    let mut primary = deployment("web-primary", "shop:1.0.0");
    primary["spec"]["template"]["metadata"]["annotations"] = json!({ "flagger-id": "left-by-it" });
    let mut object = canary(GATEWAY_API, "take-over.test", &by_weight());
    // No operator acts on it while it is created.
    object["spec"]["suspend"] = json!(true);
    stage.apply(name, object).await?;
    let owner = stage.get(CANARY, name, "web").await?.context("no canary")?;
    primary["metadata"]["ownerReferences"] = json!([{
        "apiVersion": CANARY.0, "kind": CANARY.1, "name": "web",
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    stage.apply(name, primary).await?;
    stage.patch(DEPLOYMENT, name, "web", &json!({ "spec": { "replicas": 0 } })).await?;
    let status = json!({
        "phase": "Succeeded", "failedChecks": 0, "canaryWeight": 0, "iterations": 0,
        "lastAppliedSpec": revision, "lastPromotedSpec": revision,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "conditions": [],
    });
    stage.patch_status(CANARY, name, "web", &status).await?;
    stage.patch(CANARY, name, "web", &json!({ "spec": { "suspend": false } })).await?;
    tokio::time::sleep(Duration::from_secs(25)).await;
    let status = stage.status(name).await?;
    ensure!(status["phase"] == "Succeeded" && status["canaryWeight"] == 0, "{status:#}");
    target = stage.get(DEPLOYMENT, name, "web").await?.context("no target")?;
    ensure!(target["spec"]["replicas"] == 0, "{:#}", target["spec"]);
    let (image, replicas) = stage.runs(name, "web-primary").await?;
    ensure!((image.as_str(), replicas) == ("shop:1.0.0", 2), "{image} x {replicas}");
    settles(&format!("{name}: what Flagger had lost is to be made again"), async || {
        let service = stage.get(SERVICE, name, "web-primary").await?;
        ensure!(service.is_some(), "there is no Service of the primary");
        let route = stage.get(HTTP_ROUTE, name, "web").await?.unwrap_or_default();
        ensure!(weight_of(&route, "web-primary") == 100, "{:#}", route["spec"]);
        Ok(())
    })
    .await?;
    let begun = trial.release(name, "shop:2.0.0").await?;
    gets_a_share(stage, name).await?;
    End::PROMOTED.is_of(stage, name).await?;
    trial.during(begun)
}
