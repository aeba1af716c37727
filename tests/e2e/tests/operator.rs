//! The shipped program on a real control plane: as the account it ships with, killed at random moments,
//! and with a second replica beside one that stands still.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tidegate_e2e::{
    Asked, Installation, apply_folder, eventually, inside,
    stage::{
        AUTOSCALER, CANARY, CONFIG_MAP, DEPLOYMENT, HTTP_ROUTE, Kind, SERVICE, Stage, canary,
        deployment, metric,
    },
};
use tidegate_providers::workload::hash;
use tidegate_sandbox::random::Random;

const GATEWAY_API: &str = "gatewayapi:v1";
const GOOD: &str = "vector(100)";
const BAD: &str = "vector(50)";
const PATIENCE: Duration = Duration::from_mins(3);
/// How often somebody else writes to what the operator writes to.
const TOUCHES: u32 = 100;

fn judged(mut analysis: Value) -> Value {
    analysis["interval"] = json!("10s");
    // One check may fail for want of an answer in time.
    analysis["threshold"] = json!(2);
    analysis["metrics"] = json!([{
        "name": "success", "templateRef": { "name": "success" }, "interval": "1m",
        "thresholdRange": { "min": 99 },
    }]);
    analysis
}

fn by_weight() -> Value {
    judged(json!({ "stepWeight": 40, "maxWeight": 80 }))
}

fn iterated() -> Value {
    judged(json!({ "iterations": 2 }))
}

/// `web` at 1.0.0 with a canary, set up.
async fn initialized(stage: &Stage, name: &str, canary: Value, query: &str) -> Result<()> {
    stage.furnish(name, "shop:1.0.0").await?;
    stage.apply(name, metric(stage, query)).await?;
    stage.apply(name, canary).await?;
    stage.reach(name, "Initialized").await?;
    Ok(())
}

/// What is left of a rollout: image of the primary, replicas of the target, share of the canary.
async fn ended(stage: &Stage, name: &str, primary: &str, share: Option<i64>) -> Result<()> {
    eventually(&format!("{name} has settled"), PATIENCE, async || {
        let (image, replicas) = stage.runs(name, "web-primary").await?;
        let target = stage.runs(name, "web").await?.1;
        ensure!(image == primary, "the primary runs {image}");
        ensure!(replicas > 0 && target == 0, "{replicas} of the primary, {target} of the target");
        if let Some(share) = share {
            let route = stage.get(HTTP_ROUTE, name, "web").await?.unwrap_or_default();
            ensure!(weight_of(&route, "web-canary") == share, "{:#}", route["spec"]);
        }
        Ok(Some(()))
    })
    .await
}

/// The largest weight that a route gives to a Service.
fn weight_of(route: &Value, service: &str) -> i64 {
    let rules = route["spec"]["rules"].as_array().into_iter().flatten();
    let backends = rules.flat_map(|rule| rule["backendRefs"].as_array().into_iter().flatten());
    let of_it = backends.filter(|backend| backend["name"] == service);
    of_it.filter_map(|backend| backend["weight"].as_i64()).max().unwrap_or(0)
}

// === What is rolled out ===

async fn promote(stage: &Stage) -> Result<()> {
    let name = "promote";
    initialized(stage, name, canary(GATEWAY_API, "promote.test", &by_weight()), GOOD).await?;
    stage.release(name, "shop:2.0.0").await?;
    stage.until(name, "it gets a share", |status| status["canaryWeight"] == 40).await?;
    stage.reach(name, "Succeeded").await?;
    ended(stage, name, "shop:2.0.0", Some(0)).await
}

async fn fail_by_metric(stage: &Stage) -> Result<()> {
    let name = "fail-by-metric";
    initialized(stage, name, canary(GATEWAY_API, "metric.test", &by_weight()), BAD).await?;
    stage.release(name, "shop:2.0.0").await?;
    stage.reach(name, "Failed").await?;
    ended(stage, name, "shop:1.0.0", Some(0)).await
}

async fn fail_by_deadline(stage: &Stage) -> Result<()> {
    let name = "fail-by-deadline";
    let mut object = canary(GATEWAY_API, "deadline.test", &by_weight());
    object["spec"]["progressDeadlineSeconds"] = json!(20);
    initialized(stage, name, object, GOOD).await?;
    stage.release(name, "shop:2.0.0-never-ready").await?;
    stage.reach(name, "Failed").await?;
    ended(stage, name, "shop:1.0.0", Some(0)).await
}

async fn ab_test(stage: &Stage) -> Result<()> {
    let name = "ab-test";
    let mut analysis = iterated();
    analysis["match"] = json!([{ "headers": { "x-insider": { "exact": "yes" } } }]);
    initialized(stage, name, canary(GATEWAY_API, "ab.test", &analysis), GOOD).await?;
    stage.release(name, "shop:2.0.0").await?;
    stage.until(name, "it was checked", |status| status["iterations"] == 1).await?;
    stage.reach(name, "Succeeded").await?;
    ended(stage, name, "shop:2.0.0", Some(0)).await
}

async fn blue_green(stage: &Stage) -> Result<()> {
    let name = "blue-green";
    initialized(stage, name, canary("kubernetes", "", &iterated()), GOOD).await?;
    stage.release(name, "shop:2.0.0").await?;
    stage.reach(name, "Succeeded").await?;
    ended(stage, name, "shop:2.0.0", None).await
}

async fn manual_step(stage: &Stage) -> Result<()> {
    let name = "manual-step";
    let mut object = canary(GATEWAY_API, "manual.test", &by_weight());
    object["spec"]["manualStep"] = json!({ "weight": 40 });
    initialized(stage, name, object, GOOD).await?;
    stage.release(name, "shop:2.0.0").await?;
    let held = stage.reach(name, "Waiting").await?;
    ensure!(held["manualPause"]["weight"] == 40, "{held:#}");
    tokio::time::sleep(Duration::from_secs(15)).await;
    let still = stage.status(name).await?;
    ensure!(still["phase"] == "Waiting" && still["canaryWeight"] == 40, "{still:#}");
    let resume = json!({ "spec": { "manualStep": { "resume": true } } });
    stage.patch(CANARY, name, "web", &resume).await?;
    stage.reach(name, "Succeeded").await?;
    ended(stage, name, "shop:2.0.0", Some(0)).await
}

async fn new_configuration(stage: &Stage) -> Result<()> {
    let name = "new-configuration";
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
    stage.apply(name, settings("blue")).await?;
    stage.reach(name, "Progressing").await?;
    stage.reach(name, "Succeeded").await?;
    ended(stage, name, "shop:1.0.0", Some(0)).await?;
    let copy = stage.get(CONFIG_MAP, name, "settings-primary").await?.unwrap_or_default();
    ensure!(copy["data"]["colour"] == "blue", "{copy:#}");
    Ok(())
}

async fn autoscaled(stage: &Stage) -> Result<()> {
    let name = "autoscaled";
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
    stage.release(name, "shop:2.0.0").await?;
    stage.reach(name, "Succeeded").await?;
    ended(stage, name, "shop:2.0.0", Some(0)).await?;
    let copy = stage.get(AUTOSCALER, name, "web-primary").await?.context("no autoscaler")?;
    ensure!(copy["spec"]["scaleTargetRef"]["name"] == "web-primary", "{copy:#}");
    Ok(())
}

/// Deleted half-way: what the user had is as it was, and live traffic is back on it.
async fn deletion(stage: &Stage) -> Result<()> {
    let name = "deletion";
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
    stage.release(name, "shop:2.0.0").await?;
    stage.until(name, "it gets a share", |status| status["canaryWeight"] == 40).await?;
    stage.delete(CANARY, name, "web").await?;
    stage.gone(name).await?;
    let service = stage.get(SERVICE, name, "web").await?.context("the Service is gone")?;
    ensure!(service["spec"]["selector"] == json!({ "app": "web" }), "{:#}", service["spec"]);
    eventually("the copies are gone", PATIENCE, async || {
        let primary = stage.get(DEPLOYMENT, name, "web-primary").await?;
        let (_, replicas) = stage.runs(name, "web").await?;
        Ok((primary.is_none() && replicas == 2).then_some(()))
    })
    .await
}

/// A canary that Flagger has promoted before: no rollout starts, what is missing is made, and the next release
/// is rolled out.
async fn take_over(stage: &Stage) -> Result<()> {
    let name = "take-over";
    stage.furnish(name, "shop:1.0.0").await?;
    stage.apply(name, metric(stage, GOOD)).await?;
    let mut target = stage.get(DEPLOYMENT, name, "web").await?.context("no target")?;
    let revision = hash::revision(&target["spec"]["template"]);
    let mut primary = deployment("web-primary", "shop:1.0.0");
    primary["spec"]["template"]["metadata"]["annotations"] = json!({ "flagger-id": "left-by-it" });
    let mut object = canary(GATEWAY_API, "take-over.test", &by_weight());
    // Nobody looks after it while it is made.
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
    eventually("take-over: what Flagger had lost is made again", PATIENCE, async || {
        let service = stage.get(SERVICE, name, "web-primary").await?;
        let route = stage.get(HTTP_ROUTE, name, "web").await?.unwrap_or_default();
        Ok((service.is_some() && weight_of(&route, "web-primary") == 100).then_some(()))
    })
    .await?;
    stage.release(name, "shop:2.0.0").await?;
    stage.until(name, "it gets a share", |status| status["canaryWeight"] == 40).await?;
    stage.reach(name, "Succeeded").await?;
    ended(stage, name, "shop:2.0.0", Some(0)).await
}

/// All of them at the same time.
async fn all(stage: &Stage) -> Result<()> {
    tokio::try_join!(
        promote(stage),
        fail_by_metric(stage),
        fail_by_deadline(stage),
        ab_test(stage),
        blue_green(stage),
        manual_step(stage),
        new_configuration(stage),
        autoscaled(stage),
        deletion(stage),
        take_over(stage),
    )?;
    Ok(())
}

#[test]
fn rollouts_end_as_they_should_whenever_the_operator_is_killed() {
    inside("rollouts_end_as_they_should_whenever_the_operator_is_killed", async || {
        let stage = Stage::start().await?;
        let seed = std::env::var("E2E_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(7);
        let random = Random::seeded(seed);
        let mut kills = 0;
        let work = all(&stage);
        tokio::pin!(work);
        let installation = stage.installation.without_election();
        let mut operator = Some(installation.start(&stage.plane, "operator-0").await?);
        let outcome = loop {
            let life = Duration::from_millis(2000 + random.below(7000));
            tokio::select! {
                outcome = &mut work => break outcome,
                () = tokio::time::sleep(life) => {}
            }
            if let Some(running) = operator.take() {
                running.kill();
            }
            kills += 1;
            let name = format!("operator-{kills}");
            operator = Some(installation.start(&stage.plane, &name).await?);
        };
        outcome.with_context(|| format!("E2E_SEED={seed}, killed {kills} times"))?;
        println!("10 rollouts, {kills} kills, seed {seed}");
        ensure!(kills >= 5, "killed {kills} times only");
        stage.nothing_was_denied()
    });
}

#[test]
fn another_replica_goes_on_when_the_leader_stands_still() {
    inside("another_replica_goes_on_when_the_leader_stands_still", async || {
        let stage = Stage::start().await?;
        let one = stage.installation.start(&stage.plane, "one").await?;
        let holder = leader(&stage, "").await?;
        let two = stage.installation.start(&stage.plane, "two").await?;
        let name = "handed-over";
        initialized(&stage, name, canary(GATEWAY_API, "over.test", &by_weight()), GOOD).await?;
        stage.release(name, "shop:2.0.0").await?;
        stage.until(name, "it gets a share", |status| status["canaryWeight"] == 40).await?;
        let before = logins(&stage)?;
        ensure!(before.len() == 1, "only the leader writes: {before:?}");
        one.process().signal("STOP")?;
        let next = leader(&stage, &holder).await?;
        stage.reach(name, "Succeeded").await?;
        ended(&stage, name, "shop:2.0.0", Some(0)).await?;
        // It wakes up in the belief that it leads, and must find out before it writes.
        let mark = stage.plane.asked()?.len();
        one.process().signal("CONT")?;
        println!("1 times frozen and woken");
        stage.release(name, "shop:3.0.0").await?;
        stage.reach(name, "Progressing").await?;
        stage.reach(name, "Succeeded").await?;
        let asked = stage.plane.asked()?;
        let since = asked.get(mark..).unwrap_or_default();
        let late = since.iter().filter(|it| before.contains(&it.login) && is_of_rollouts(it));
        let late: Vec<_> = late.collect();
        ensure!(late.is_empty(), "the former leader wrote: {late:?}");
        ensure!(leader(&stage, "").await? == next, "and did not take the lease back");
        drop((one, two));
        stage.nothing_was_denied()
    });
}

fn is_of_rollouts(asked: &Asked) -> bool {
    asked.is_write() && asked.resource != "leases"
}

/// The logins that wrote something other than the lease.
fn logins(stage: &Stage) -> Result<BTreeSet<String>> {
    let asked = stage.plane.asked()?;
    Ok(asked.into_iter().filter(is_of_rollouts).map(|it| it.login).collect())
}

/// Who holds the lease, once it is somebody other than `former`.
async fn leader(stage: &Stage, former: &str) -> Result<String> {
    let lease = ("coordination.k8s.io/v1", "Lease");
    eventually("somebody leads", PATIENCE, async || {
        let found = stage.get(lease, Installation::NAMESPACE, "flagger-leader-election").await?;
        let found = found.unwrap_or_default();
        let holder = found["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        Ok((!holder.is_empty() && holder != former).then_some(holder))
    })
    .await
}

// === Permissions ===

/// One life in which everything happens that the operator may be asked to do.
struct Life<'s> {
    stage: &'s Stage,
    name: &'static str,
    provider: &'static str,
    protocol: &'static str,
    target: Kind,
    /// What scales it, where something does.
    scaler: Option<Kind>,
}

impl Life<'_> {
    /// Lives it, while somebody else keeps writing to the same objects.
    async fn live(&self) -> Result<()> {
        self.furnish().await?;
        self.stage.reach(self.name, "Initialized").await?;
        tokio::select! {
            outcome = self.change_everything() => outcome?,
            outcome = self.meddle() => outcome?,
        }
        self.rename_and_let_go().await
    }

    async fn furnish(&self) -> Result<()> {
        let Self { stage, name, provider, protocol, target: (_, kind), scaler } = self;
        stage.namespace(name).await?;
        for object in [
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "web" },
                    "data": { "colour": "green" } }),
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "web" },
                    "stringData": { "password": "one" } }),
        ] {
            stage.apply(name, object).await?;
        }
        if let Some(scaler) = scaler {
            stage.apply(name, scaling(*scaler)).await?;
        }
        let mut target = deployment("web", "shop:1.0.0");
        target["kind"] = json!(kind);
        if self.target != DEPLOYMENT {
            target["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
        }
        target["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
            json!([{ "configMapRef": { "name": "web" } }, { "secretRef": { "name": "web" } }]);
        stage.apply(name, target).await?;
        let host = format!("{name}.test");
        let mut object = canary(provider, &host, &judged(json!({ "iterations": 1 })));
        object["spec"]["skipAnalysis"] = json!(true);
        object["spec"]["revertOnDeletion"] = json!(true);
        object["spec"]["service"]["portName"] = json!(protocol);
        if *protocol == "grpc" {
            // Traefik serves calls over clear text, and refuses protocols it has no name for.
            object["spec"]["service"]["appProtocol"] = json!("kubernetes.io/h2c");
        }
        object["spec"]["targetRef"]["kind"] = json!(kind);
        if let Some((version, kind)) = scaler {
            object["spec"]["autoscalerRef"] =
                json!({ "apiVersion": version, "kind": kind, "name": "web" });
        }
        if self.has_ingress() {
            object["spec"]["ingressRef"] =
                json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front" });
        }
        self.lead_to("web").await?;
        stage.apply(name, object).await
    }

    async fn change_everything(&self) -> Result<()> {
        let Self { stage, name, .. } = self;
        let policy = json!({ "loadBalancer": { "simple": "RANDOM" } });
        let mut service = json!({ "service": { "port": 8081, "trafficPolicy": policy } });
        if self.protocol == "http" {
            // Calls have no timeout of their own.
            service["service"]["timeout"] = json!("15s");
        }
        stage.patch(CANARY, name, "web", &json!({ "spec": service })).await?;
        stage.patch(CONFIG_MAP, name, "web", &json!({ "data": { "colour": "blue" } })).await?;
        let secret = ("v1", "Secret");
        stage.delete(secret, name, "web").await?;
        let other = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "web" },
            "type": "kubernetes.io/basic-auth", "stringData": { "username": "web", "password": "two" },
        });
        stage.apply(name, other).await?;
        if let Some(scaler) = self.scaler {
            let most = if scaler == AUTOSCALER { "maxReplicas" } else { "maxReplicaCount" };
            stage.patch(scaler, name, "web", &json!({ "spec": { most: 5 } })).await?;
        }
        self.image("shop:2.0.0").await?;
        eventually(&format!("{name}: promoted"), PATIENCE, async || {
            let primary = stage.get(self.target, name, "web-primary").await?.unwrap_or_default();
            let primary = &primary["spec"]["template"]["spec"]["containers"][0]["image"];
            let phase = stage.status(name).await?["phase"].take();
            Ok((*primary == "shop:2.0.0" && phase == "Succeeded").then_some(()))
        })
        .await
    }

    /// Touches the canary and its target for a while, so that the operator loses races. Then never ends.
    async fn meddle(&self) -> Result<()> {
        let Self { stage, name, .. } = self;
        for count in 0..TOUCHES {
            let touch = json!({ "metadata": { "annotations": { "touched": count.to_string() } } });
            stage.patch(CANARY, name, "web", &touch).await?;
            stage.patch(self.target, name, "web", &touch).await?;
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        std::future::pending().await
    }

    fn has_ingress(&self) -> bool {
        ["nginx", "skipper"].contains(&self.provider)
    }

    /// The user's own Ingress, where the provider needs one.
    async fn lead_to(&self, service: &str) -> Result<()> {
        if !self.has_ingress() {
            return Ok(());
        }
        let backend = json!({ "service": { "name": service, "port": { "number": 80 } } });
        let path = json!({ "path": "/", "pathType": "Prefix", "backend": backend });
        let rule = json!({ "host": format!("{}.test", self.name), "http": { "paths": [path] } });
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "front" },
            "spec": { "ingressClassName": "nginx", "rules": [rule] },
        });
        self.stage.apply(self.name, ingress).await
    }

    async fn rename_and_let_go(&self) -> Result<()> {
        let Self { stage, name, .. } = self;
        let service = |patch: Value| json!({ "spec": { "service": patch } });
        stage.patch(CANARY, name, "web", &service(json!({ "headless": true }))).await?;
        eventually(&format!("{name}: headless"), PATIENCE, async || {
            let made = stage.get(SERVICE, name, "web-primary").await?.unwrap_or_default();
            Ok((made["spec"]["clusterIP"] == "None").then_some(()))
        })
        .await?;
        stage.patch(CANARY, name, "web", &service(json!({ "name": "shop" }))).await?;
        self.lead_to("shop").await?;
        eventually(&format!("{name}: renamed"), PATIENCE, async || {
            let new = stage.get(SERVICE, name, "shop-primary").await?;
            let old = stage.get(SERVICE, name, "web-primary").await?;
            Ok((new.is_some() && old.is_none()).then_some(()))
        })
        .await?;
        let mut target = stage.get(self.target, name, "web").await?.context("no target")?;
        let mut containers = target["spec"]["template"]["spec"]["containers"].take();
        containers[0]["envFrom"] = json!([]);
        let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        stage.patch(self.target, name, "web", &template).await?;
        eventually(&format!("{name}: copies nobody reads are gone"), PATIENCE, async || {
            let map = stage.get(CONFIG_MAP, name, "web-primary").await?;
            let secret = stage.get(("v1", "Secret"), name, "web-primary").await?;
            Ok((map.is_none() && secret.is_none()).then_some(()))
        })
        .await?;
        stage.delete(CANARY, name, "web").await?;
        stage.gone(name).await
    }

    async fn image(&self, image: &str) -> Result<()> {
        let Self { stage, name, .. } = self;
        let mut target = stage.get(self.target, name, "web").await?.context("no target")?;
        let mut containers = target["spec"]["template"]["spec"]["containers"].take();
        containers[0]["image"] = json!(image);
        let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        stage.patch(self.target, name, "web", &template).await?;
        Ok(())
    }
}

/// From two to four of `web`.
fn scaling(kind: Kind) -> Value {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let spec = if kind == AUTOSCALER {
        json!({ "scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4 })
    } else {
        json!({
            "scaleTargetRef": target, "minReplicaCount": 2, "maxReplicaCount": 4,
            "triggers": [{ "type": "cpu", "metricType": "Utilization", "metadata": { "value": "99" } }],
        })
    };
    json!({
        "apiVersion": kind.0, "kind": kind.1, "metadata": { "name": "web" }, "spec": spec,
    })
}

/// Rights that nobody can use here, as their kinds are not to be had; those of Knative need its controllers. On the
/// sandbox they are used: `tests/tests/operator/permissions.rs`.
const ELSEWHERE: [&str; 7] = [
    "apisix.apache.org",
    "appmesh.k8s.aws",
    "gateway.solo.io",
    "gloo.solo.io",
    "kuma.io",
    "serving.knative.dev",
    "split.smi-spec.io",
];

/// What the shipped roles say: `group/resource verb`.
async fn granted(stage: &Stage) -> Result<BTreeSet<String>> {
    const GROUP: &str = "rbac.authorization.k8s.io/v1";
    let cluster = stage.get((GROUP, "ClusterRole"), "", "tidegate").await?.context("no role")?;
    let own = stage.get((GROUP, "Role"), Installation::NAMESPACE, "tidegate").await?;
    let own = own.context("no role in its own namespace")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rules = [&cluster, &own].map(|role| role["rules"].as_array().cloned().unwrap_or_default());
    let mut lines = BTreeSet::new();
    for rule in rules.iter().flatten() {
        let (group, resource) = (text(&rule["apiGroups"][0]), text(&rule["resources"][0]));
        // Addresses are looked up with APISIX alone; owners are asked about by an admission plugin of the server's, and
        // by no request.
        let is_elsewhere = ELSEWHERE.contains(&group.as_str()) || resource == "endpointslices";
        if is_elsewhere || resource.ends_with("/finalizers") {
            continue;
        }
        for verb in rule["verbs"].as_array().into_iter().flatten() {
            lines.insert(format!("{group}/{resource} {}", text(verb)));
        }
    }
    Ok(lines)
}

#[test]
fn the_shipped_role_is_enough_and_grants_nothing_in_vain() {
    inside("the_shipped_role_is_enough_and_grants_nothing_in_vain", async || {
        let stage = Stage::start().await?;
        for name in ["contour", "keda"] {
            let definitions = stage.plane.parts().folder("providers")?.join(name);
            apply_folder(&stage.client, &definitions).await?;
        }
        let _operator = stage.installation.start(&stage.plane, "operator").await?;
        let life = |name, provider, protocol| Life {
            stage: &stage,
            name,
            provider,
            protocol,
            target: DEPLOYMENT,
            scaler: Some(AUTOSCALER),
        };
        let daemons = ("apps/v1", "DaemonSet");
        let keda = ("keda.sh/v1alpha1", "ScaledObject");
        let lives = [
            life("plain", "kubernetes", "http"),
            Life { target: daemons, scaler: None, ..life("daemons", "kubernetes", "http") },
            Life { scaler: Some(keda), ..life("keda", "kubernetes", "http") },
            life("gateway", GATEWAY_API, "http"),
            life("gateway-grpc", GATEWAY_API, "grpc"),
            life("gateway-beta", "gatewayapi:v1beta1", "http"),
            life("istio", "istio", "http"),
            life("contour", "contour", "http"),
            life("nginx", "nginx", "http"),
            life("skipper", "skipper", "http"),
            life("traefik", "traefik", "http"),
        ];
        futures::future::try_join_all(lives.iter().map(Life::live)).await?;
        stage.nothing_was_denied()?;
        let asked = stage.plane.asked()?;
        let used: BTreeSet<_> = asked.iter().map(Asked::line).collect();
        let granted = granted(&stage).await?;
        let vain: Vec<_> = granted.difference(&used).collect();
        ensure!(vain.is_empty(), "granted, and never used: {vain:#?}");
        println!("{} requests, {} rights granted and used", asked.len(), granted.len());
        let conflicts = asked.iter().filter(|it| it.code == 409).count();
        println!("{conflicts} conflicts, of writes that somebody else came before");
        Ok(())
    });
}
