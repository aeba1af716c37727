//! Every action of the operator, one run for each kind of object that it may write: set up, edited,
//! released, renamed, deleted.
//!
//! Definitions of some providers cannot be obtained. Their kinds are defined here without a schema: these
//! tests are about permissions, not about the written objects. Where the operator waits for a provider's
//! controllers, a test writes their status.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tidegate_e2e::{
    apply_folder, apply_yaml, eventually,
    stage::{AUTOSCALER, CANARY, CONFIG_MAP, DEPLOYMENT, Kind, SERVICE, Stage, canary, deployment},
};
use tidegate_providers::workload::WorkloadKind;
use tidegate_tests::providers::{
    KNATIVE, KUMA_HTTP, canary_for, definitions, foreign, users_objects,
};

use crate::{GATEWAY_API, LOOK_AGAIN, PATIENCE, judged, settles};

/// The number of writes in a row to the operator's objects before the test looks for a conflict.
const TOUCHES: u32 = 25;

const SECRET: Kind = ("v1", "Secret");
const DAEMON_SET: Kind = ("apps/v1", "DaemonSet");
const SCALED_OBJECT: Kind = ("keda.sh/v1alpha1", "ScaledObject");
const UPSTREAM: Kind = ("gloo.solo.io/v1", "Upstream");
const KNATIVE_SERVICE: Kind = ("serving.knative.dev/v1", "Service");

/// Providers whose kinds the server has real definitions of, among those that the sandbox does not know.
const KNOWN: [&str; 4] = ["contour", "nginx", "skipper", "traefik"];
const KNOWN_GROUPS: [&str; 2] = ["projectcontour.io", "traefik.io"];

/// One run.
pub(crate) struct Life<'s> {
    stage: &'s Stage,
    name: String,
    provider: &'static str,
    protocol: &'static str,
    target: Kind,
    /// Its scaler, where there is one.
    scaler: Option<Kind>,
    /// Whether the first release moves traffic; some routes are changed by nothing else.
    by_weight: bool,
}

/// Defines the kinds of all providers.
pub(crate) async fn furnish_providers(stage: &Stage) -> Result<()> {
    for name in ["contour", "keda", "knative"] {
        let definitions = stage.plane.parts().folder("providers")?.join(name);
        apply_folder(&stage.client, &definitions).await?;
    }
    define(stage, |it| KNOWN_GROUPS.iter().all(|group| it["spec"]["group"] != *group)).await
}

/// Defines the kinds of a Kuma without its older policies.
pub(crate) async fn furnish_kuma(stage: &Stage) -> Result<()> {
    define(stage, |it| it["spec"]["names"]["kind"] == "MeshHTTPRoute").await
}

/// Defines kinds that accept anything.
async fn define(stage: &Stage, is_meant: impl Fn(&Value) -> bool) -> Result<()> {
    let definitions = definitions().into_iter().filter(is_meant);
    let documents: Vec<_> = definitions.map(|it| it.to_string()).collect();
    ensure!(!documents.is_empty(), "nothing is defined");
    apply_yaml(&stage.client, &documents.join("\n---\n")).await?;
    Ok(())
}

// === impl Life ===

impl<'s> Life<'s> {
    /// Runs with all kinds that the server has real definitions of.
    pub(crate) fn usual(stage: &'s Stage) -> Vec<Self> {
        let life = |name: &str, provider, protocol| Life {
            stage,
            name: name.to_owned(),
            provider,
            protocol,
            target: DEPLOYMENT,
            scaler: Some(AUTOSCALER),
            by_weight: false,
        };
        vec![
            life("plain", "kubernetes", "http"),
            Life { target: DAEMON_SET, scaler: None, ..life("daemons", "kubernetes", "http") },
            Life { scaler: Some(SCALED_OBJECT), ..life("keda", "kubernetes", "http") },
            life("gateway", GATEWAY_API, "http"),
            life("gateway-grpc", GATEWAY_API, "grpc"),
            life("gateway-beta", "gatewayapi:v1beta1", "http"),
            life("istio", "istio", "http"),
            life("contour", "contour", "http"),
            life("nginx", "nginx", "http"),
            life("skipper", "skipper", "http"),
            life("traefik", "traefik", "http"),
        ]
    }

    /// Runs with providers whose kinds accept anything. Kuma without its older policies is
    /// [`kuma`](Self::kuma), as both cannot be on one cluster.
    pub(crate) fn others(stage: &'s Stage) -> Vec<Self> {
        let is_lived = |it: &&str| !KNOWN.contains(it) && *it != KUMA_HTTP;
        foreign().into_iter().filter(is_lived).map(|it| Self::by_weight(stage, it)).collect()
    }

    pub(crate) fn kuma(stage: &'s Stage) -> Self {
        Self::by_weight(stage, "kuma")
    }

    fn by_weight(stage: &'s Stage, provider: &'static str) -> Self {
        Life {
            stage,
            name: provider.replace(':', "-"),
            provider,
            protocol: "http",
            target: DEPLOYMENT,
            scaler: None,
            by_weight: true,
        }
    }

    /// Runs it, while another client keeps writing to the same objects.
    pub(crate) async fn live(&self) -> Result<()> {
        self.furnish().await?;
        self.stage.reach(&self.name, "Initialized").await?;
        tokio::try_join!(self.change_everything(), self.meddle())?;
        self.misdirect().await?;
        self.rename_and_let_go().await
    }

    async fn furnish(&self) -> Result<()> {
        let Self { stage, name, target: (_, kind), scaler, .. } = self;
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
        self.lead_to("web").await?;
        stage.apply(name, self.canary()).await
    }

    fn canary(&self) -> Value {
        let Self { name, provider, protocol, target: (_, kind), .. } = self;
        let mut object = canary(provider, &format!("{name}.test"), &self.analysis());
        let spec = &mut object["spec"];
        spec["skipAnalysis"] = json!(!self.by_weight);
        spec["revertOnDeletion"] = json!(true);
        spec["service"]["portName"] = json!(protocol);
        if *protocol == "grpc" {
            // Traefik serves gRPC over clear text, and refuses protocols it has no name for.
            spec["service"]["appProtocol"] = json!("kubernetes.io/h2c");
        }
        spec["targetRef"]["kind"] = json!(kind);
        if let Some((version, kind)) = self.scaler {
            spec["autoscalerRef"] = json!({ "apiVersion": version, "kind": kind, "name": "web" });
        }
        // The settings of the provider's users.
        let usual = canary_for(provider, json!({}));
        for field in ["/ingressRef", "/routeRef", "/service/meshName"] {
            if let Some(said) = usual["spec"].pointer(field) {
                set(spec, field, said.clone());
            }
        }
        object
    }

    fn analysis(&self) -> Value {
        if !self.by_weight {
            return judged(json!({ "iterations": 1 }));
        }
        let mut analysis =
            json!({ "interval": "10s", "threshold": 20, "stepWeight": 50, "maxWeight": 50 });
        if self.has_addresses() {
            analysis["metrics"] =
                json!([{ "name": "request-success-rate", "thresholdRange": { "min": 99 } }]);
        }
        analysis
    }

    /// Whether built-in queries use the addresses of the canary.
    fn has_addresses(&self) -> bool {
        self.provider == "apisix"
    }

    async fn change_everything(&self) -> Result<()> {
        let Self { stage, name, .. } = self;
        let policy = json!({ "loadBalancer": { "simple": "RANDOM" } });
        let mut service = json!({ "service": { "port": 8081, "trafficPolicy": policy } });
        if self.protocol == "http" {
            // GRPCRoutes have no timeout of their own.
            service["service"]["timeout"] = json!("15s");
        }
        stage.patch(CANARY, name, "web", &json!({ "spec": service })).await?;
        stage.patch(CONFIG_MAP, name, "web", &json!({ "data": { "colour": "blue" } })).await?;
        stage.delete(SECRET, name, "web").await?;
        let other = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "web" },
            "type": "kubernetes.io/basic-auth", "stringData": { "username": "web", "password": "two" },
        });
        stage.apply(name, other).await?;
        if let Some(scaler) = self.scaler {
            let most = if scaler == AUTOSCALER { "maxReplicas" } else { "maxReplicaCount" };
            stage.patch(scaler, name, "web", &json!({ "spec": { most: 5 } })).await?;
        }
        let wanted = self.release("image", json!("shop:2.0.0")).await?;
        if self.has_addresses() {
            // No requests are served here that could be counted: a check without data is all there can be.
            let what = format!("{name}: a check fails");
            stage.until(name, &what, |it| it["failedChecks"].as_i64() > Some(0)).await?;
            let without = json!({ "spec": { "analysis": { "metrics": [] } } });
            stage.patch(CANARY, name, "web", &without).await?;
        }
        self.promoted(&wanted).await?;
        let primary = stage.get(self.target, name, "web-primary").await?.context("no primary")?;
        let image = &primary["spec"]["template"]["spec"]["containers"][0]["image"];
        ensure!(image == "shop:2.0.0", "{name}: promoted, and the primary runs {image}");
        // The rest is not about traffic.
        self.edit(json!({ "skipAnalysis": true })).await
    }

    /// Edits the canary, and waits until the operator has seen that.
    async fn edit(&self, spec: Value) -> Result<()> {
        let Self { stage, name, .. } = self;
        let edited = stage.patch(CANARY, name, "web", &json!({ "spec": spec })).await?;
        let generation = edited["metadata"]["generation"].as_i64();
        let is_seen = |it: &Value| it["observedGeneration"].as_i64() >= generation;
        stage.until(name, &format!("{name}: an edit is seen"), is_seen).await?;
        Ok(())
    }

    async fn promoted(&self, revision: &str) -> Result<()> {
        let Self { stage, name, .. } = self;
        let is_so = |it: &Value| it["phase"] == "Succeeded" && it["lastPromotedSpec"] == *revision;
        stage.until(name, &format!("{name}: promoted"), is_so).await?;
        Ok(())
    }

    /// Touches the canary and its target until a write of the operator's got a conflict: then it reads all
    /// its objects again, which some of its `get` permissions are for.
    async fn meddle(&self) -> Result<()> {
        let Self { stage, name, .. } = self;
        let before = self.races_lost()?;
        eventually(&format!("{name}: the operator loses a race"), PATIENCE, async || {
            for count in 0..TOUCHES {
                let touch = json!({ "annotations": { "touched": count.to_string() } });
                // Changes the generation, which is in the status. So many checks never fail.
                let analysis = json!({ "threshold": 20 + count });
                let edit = json!({ "metadata": touch, "spec": { "analysis": analysis } });
                stage.patch(CANARY, name, "web", &edit).await?;
                stage.patch(self.target, name, "web", &json!({ "metadata": touch })).await?;
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
            Ok((self.races_lost()? > before).then_some(()))
        })
        .await
    }

    fn races_lost(&self) -> Result<usize> {
        let asked = self.stage.plane.asked()?;
        Ok(asked.iter().filter(|it| it.code == 409 && it.namespace == self.name).count())
    }

    /// An edit of an Upstream by another client is corrected. Its name follows from all settings that it
    /// depends on: nothing else ever changes one.
    async fn misdirect(&self) -> Result<()> {
        let Self { stage, name, .. } = self;
        if self.provider != "gloo" {
            return Ok(());
        }
        let upstream = format!("{name}-web-primaryupstream-8081");
        let port = |port: u16| json!({ "spec": { "kube": { "servicePort": port } } });
        stage.patch(UPSTREAM, name, &upstream, &port(1)).await?;
        eventually(&format!("{name}: the port is put right"), PATIENCE, async || {
            let found = stage.get(UPSTREAM, name, &upstream).await?.unwrap_or_default();
            Ok((found["spec"]["kube"]["servicePort"] == 8081).then_some(()))
        })
        .await
    }

    /// The user's own route, where the provider needs one.
    async fn lead_to(&self, service: &str) -> Result<()> {
        let Self { stage, name, provider, .. } = self;
        for mut object in users_objects(provider) {
            match *provider {
                "apisix" => {
                    let backends = "/spec/http/0/backends/0/serviceName";
                    set(&mut object, backends, json!(service));
                }
                "nginx" | "skipper" => {
                    let backend = "/spec/rules/0/http/paths/0/backend/service/name";
                    set(&mut object, backend, json!(service));
                }
                // Leads to the canary's own objects.
                _ => continue,
            }
            stage.apply(name, object).await?;
        }
        Ok(())
    }

    async fn rename_and_let_go(&self) -> Result<()> {
        let Self { stage, name, .. } = self;
        self.edit(json!({ "service": { "headless": true } })).await?;
        settles(&format!("{name} is to be headless"), async || {
            let made = stage.get(SERVICE, name, "web-primary").await?.unwrap_or_default();
            ensure!(made["spec"]["clusterIP"] == "None", "{:#}", made["spec"]);
            Ok(())
        })
        .await?;
        let renamed = self.edit(json!({ "service": { "name": "shop" } }));
        tokio::try_join!(renamed, self.lead_to("shop"))?;
        settles(&format!("{name} has another name"), async || {
            let new = stage.get(SERVICE, name, "shop-primary").await?;
            let old = stage.get(SERVICE, name, "web-primary").await?;
            ensure!(new.is_some(), "nothing has it");
            ensure!(old.is_none(), "something has the old one");
            Ok(())
        })
        .await?;
        let wanted = self.release("envFrom", json!([])).await?;
        self.promoted(&wanted).await?;
        settles(&format!("{name} reads no configuration"), async || {
            for kind in [CONFIG_MAP, SECRET] {
                let copy = stage.get(kind, name, "web-primary").await?;
                ensure!(copy.is_none(), "there is a copy of its {}", kind.1);
            }
            Ok(())
        })
        .await?;
        stage.delete(CANARY, name, "web").await?;
        stage.gone(name).await
    }

    /// Changes one field of the target's container. Returns the operator's name of the revision.
    async fn release(&self, field: &str, value: Value) -> Result<String> {
        let Self { stage, name, .. } = self;
        let mut target = stage.get(self.target, name, "web").await?.context("no target")?;
        let mut containers = target["spec"]["template"]["spec"]["containers"].take();
        containers[0][field] = value;
        let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        let target = stage.patch(self.target, name, "web", &template).await?;
        let workload = match self.target {
            DEPLOYMENT => WorkloadKind::Deployment,
            _ => WorkloadKind::DaemonSet,
        };
        Ok(workload.revision(&target))
    }
}

/// Sets a value at a JSON pointer; all but its last step exists.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (place, field) = pointer.rsplit_once('/').unwrap_or_default();
    if let Some(place) = object.pointer_mut(place) {
        place[field] = value;
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

// === Knative ===

/// A run in which the target is target, primary and route in one, and nothing is created.
pub(crate) async fn live_with_knative(stage: &Stage) -> Result<()> {
    let name = KNATIVE;
    let life = async {
        stage.namespace(name).await?;
        for object in users_objects(KNATIVE) {
            stage.apply(name, object).await?;
        }
        let steps = json!({ "interval": "10s", "threshold": 2, "stepWeight": 50, "maxWeight": 50 });
        let mut object = canary_for(KNATIVE, steps);
        object["spec"].as_object_mut().map(|spec| spec.remove("service"));
        object["spec"]["revertOnDeletion"] = json!(true);
        stage.apply(name, object).await?;
        stage.reach(name, "Initialized").await?;
        let containers = json!([{ "name": "app", "image": "web:2.0" }]);
        let template = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        stage.patch(KNATIVE_SERVICE, name, "web", &template).await?;
        let is_over = |it: &Value| it["phase"] == "Succeeded" || it["phase"] == "Failed";
        let status = stage.until(name, "knative: promoted", is_over).await?;
        ensure!(status["phase"] == "Succeeded", "{name}: {:#}", status["lastDecision"]);
        stage.delete(CANARY, name, "web").await?;
        stage.gone(name).await?;
        settles("knative: the canary is gone", async || {
            let service = stage.get(KNATIVE_SERVICE, name, "web").await?.context("so is web")?;
            let traffic = &service["spec"]["traffic"];
            let all_to_the_latest = json!([{ "latestRevision": true, "percent": 100 }]);
            ensure!(*traffic == all_to_the_latest, "traffic is divided: {traffic:#}");
            Ok(())
        })
        .await
    };
    tokio::select! {
        outcome = life => outcome,
        outcome = stand_in_for_knative(stage, name) => outcome,
    }
}

/// Writes the status of Knative's controllers for a Service: each image is a revision that can serve at
/// once, and traffic is divided as in the spec.
async fn stand_in_for_knative(stage: &Stage, name: &str) -> Result<()> {
    let mut images = Vec::new();
    loop {
        let service = stage.get(KNATIVE_SERVICE, name, "web").await.ok().flatten();
        if let Some(mut service) = service {
            let image = service["spec"]["template"]["spec"]["containers"][0]["image"].take();
            if images.last() != Some(&image) {
                images.push(image);
            }
            let latest = format!("web-{:05}", images.len());
            let mut traffic = service["spec"]["traffic"].take();
            for entry in traffic.as_array_mut().into_iter().flatten() {
                if entry["latestRevision"] == true {
                    entry["revisionName"] = json!(latest);
                }
            }
            let status = json!({
                "observedGeneration": service["metadata"]["generation"], "traffic": traffic,
                "latestCreatedRevisionName": latest, "latestReadyRevisionName": latest,
            });
            stage.patch_status(KNATIVE_SERVICE, name, "web", &status).await?;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
