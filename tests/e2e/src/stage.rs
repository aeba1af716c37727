//! A cluster with everything a release needs, and short functions for its owner's actions.
//!
//! ```text
//! Stage ── control plane, node, Traefik with the Gateway `public`, Prometheus, `tidegate install`
//!            └── furnish(namespace): a Deployment `web`; a Canary of the same name is the test's own
//! ```

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use kube::{
    Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::TypeMeta,
};
use serde_json::{Value, json};
use tidegate_providers::workload::hash;

use crate::{
    ControlPlane, Installation, Node, NodeSettings, Options, Parts, Prometheus, Traefik, api_of,
    apply, apply_folder, denied, eventually,
};

/// A rollout of a few steps of ten seconds, with an operator that is killed now and then.
const PATIENCE: Duration = Duration::from_mins(4);
/// The time for which a terminating pod goes on answering. Gateways learn of its end at the same moment as
/// it does, so every application that loses no requests waits: a `preStop` of a few seconds is usual, and
/// on a busy machine a gateway is slow to learn.
const DRAIN: Duration = Duration::from_secs(10);
/// The namespace of the Gateway.
const EDGE: &str = "edge";

/// The kinds that tests read: version, kind.
pub type Kind = (&'static str, &'static str);

pub const CANARY: Kind = ("flagger.app/v1beta1", "Canary");
pub const DEPLOYMENT: Kind = ("apps/v1", "Deployment");
const DAEMON_SET: Kind = ("apps/v1", "DaemonSet");
pub const HTTP_ROUTE: Kind = ("gateway.networking.k8s.io/v1", "HTTPRoute");
pub const SERVICE: Kind = ("v1", "Service");
pub const CONFIG_MAP: Kind = ("v1", "ConfigMap");
pub const EVENT: Kind = ("v1", "Event");
pub const AUTOSCALER: Kind = ("autoscaling/v2", "HorizontalPodAutoscaler");

/// Dropping it ends everything.
pub struct Stage {
    pub installation: Installation,
    pub prometheus: Prometheus,
    pub traefik: Traefik,
    pub node: Node,
    pub client: Client,
    pub plane: ControlPlane,
}

// === impl Stage ===

impl Stage {
    /// Starts everything except the operator, whose requests will be logged.
    pub async fn start() -> Result<Self> {
        let audited = Some(Installation::USER.to_owned());
        let options = Options { audited, ..Options::default() };
        let mut settings = NodeSettings::default();
        settings.kubelet.stop_delay = DRAIN;
        let (plane, node) = cluster(&options, settings).await?;
        let client = plane.client();
        let traefik = Traefik::start(&plane).await?;
        let targets = [("traefik", traefik.metrics())];
        let prometheus = Prometheus::start(plane.parts(), plane.folder(), &targets).await?;
        let server = format!("--metrics-server={}", prometheus.url());
        let flags = ["--mesh-provider=gatewayapi:v1", &server, "--allow-loopback-hooks"];
        let installation = Installation::apply(&plane, &flags).await?;
        let stage = Self { installation, prometheus, traefik, node, client, plane };
        stage.namespace(EDGE).await?;
        apply(&stage.client, &stage.traefik.gateway(EDGE, "public")).await?;
        Ok(stage)
    }

    pub async fn namespace(&self, name: &str) -> Result<()> {
        let object =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        apply(&self.client, &object).await?;
        Ok(())
    }

    /// A namespace with a Deployment in it.
    pub async fn furnish(&self, namespace: &str, image: &str) -> Result<()> {
        self.namespace(namespace).await?;
        self.apply(namespace, deployment("web", image)).await
    }

    /// Creates an object in a namespace.
    pub async fn apply(&self, namespace: &str, mut object: Value) -> Result<()> {
        object["metadata"]["namespace"] = namespace.into();
        apply(&self.client, &object).await?;
        Ok(())
    }

    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<Value>> {
        let found = self.api(kind, namespace).await?.get_opt(name).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// A merge patch.
    pub async fn patch(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value> {
        let api = self.api(kind, namespace).await?;
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        Ok(serde_json::to_value(patched.with_context(|| format!("{} {name}", kind.1))?)?)
    }

    pub async fn patch_status(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        status: &Value,
    ) -> Result<()> {
        let api = self.api(kind, namespace).await?;
        let patch = json!({ "status": status });
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<()> {
        self.api(kind, namespace).await?.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Another image for the target.
    pub async fn release(&self, namespace: &str, image: &str) -> Result<()> {
        let template = deployment("web", image)["spec"]["template"].take();
        self.patch(DEPLOYMENT, namespace, "web", &json!({ "spec": { "template": template } }))
            .await?;
        Ok(())
    }

    /// The status of the canary `web`.
    pub async fn status(&self, namespace: &str) -> Result<Value> {
        let mut canary = self.get(CANARY, namespace, "web").await?.unwrap_or_default();
        Ok(canary["status"].take())
    }

    /// Waits until the canary `web` is in a phase.
    pub async fn reach(&self, namespace: &str, phase: &str) -> Result<Value> {
        let what = format!("{namespace}: phase {phase}");
        let is_so = |status: &Value| status["phase"] == phase;
        if phase != "Failed" {
            return self.until(namespace, &what, is_so).await;
        }
        // Whether it was promoted instead shows in the revision, as the phase may still be that of the last
        // rollout.
        let wanted = self.revision(namespace).await?;
        let is_over = |status: &Value| status["lastPromotedSpec"] == wanted;
        let status = self.until(namespace, &what, |it| is_so(it) || is_over(it)).await?;
        ensure!(is_so(&status), "{what}: it was promoted instead: {:#}", status["lastDecision"]);
        Ok(status)
    }

    /// Waits until the status of the canary `web` is as expected. If the rollout of the target's revision
    /// ends otherwise, that is an error at once and in other words, as no time would help.
    pub async fn until(
        &self,
        namespace: &str,
        what: &str,
        mut is_so: impl FnMut(&Value) -> bool,
    ) -> Result<Value> {
        let waited = eventually(what, PATIENCE, async || {
            let status = self.status(namespace).await?;
            if is_so(&status) {
                return Ok(Some((status, true)));
            }
            let is_over = self.has_failed(namespace, &status).await?;
            Ok(is_over.then_some((status, false)))
        });
        let (status, error) = match waited.await {
            Ok((status, true)) => return Ok(status),
            Ok((status, false)) => (status, anyhow!("{what}: it failed instead")),
            Err(error) => (self.status(namespace).await.unwrap_or_default(), error),
        };
        let said = format!("{:#}", status["lastDecision"]);
        Err(error.context(format!("phase {}: {said}", status["phase"])))
    }

    /// Whether the target's current revision failed, and not one before it.
    async fn has_failed(&self, namespace: &str, status: &Value) -> Result<bool> {
        if status["phase"] != "Failed" {
            return Ok(false);
        }
        Ok(status["lastAppliedSpec"] == self.revision(namespace).await?)
    }

    /// The operator's revision of the target's current template.
    pub async fn revision(&self, namespace: &str) -> Result<String> {
        let canary = self.get(CANARY, namespace, "web").await?.context("no canary")?;
        let kind = match canary["spec"]["targetRef"]["kind"].as_str() {
            Some("DaemonSet") => DAEMON_SET,
            _ => DEPLOYMENT,
        };
        let target = self.get(kind, namespace, "web").await?.context("no target")?;
        Ok(hash::revision(&target["spec"]["template"]))
    }

    /// Waits until there is no canary `web`.
    pub async fn gone(&self, namespace: &str) -> Result<()> {
        eventually(&format!("{namespace}: the canary is gone"), PATIENCE, async || {
            Ok(self.get(CANARY, namespace, "web").await?.is_none().then_some(()))
        })
        .await
    }

    /// Fails if a request of the operator was denied.
    pub fn nothing_was_denied(&self) -> Result<()> {
        let denied = denied(&self.plane.asked()?);
        ensure!(denied.is_empty(), "denied: {denied:?}");
        Ok(())
    }

    /// The events in a namespace, with `reason` and `message`.
    pub async fn events(&self, namespace: &str) -> Result<Vec<Value>> {
        let events = self.api(EVENT, namespace).await?.list(&ListParams::default()).await?;
        events.items.into_iter().map(|event| Ok(serde_json::to_value(event)?)).collect()
    }

    /// Image and replicas of a Deployment.
    pub async fn runs(&self, namespace: &str, name: &str) -> Result<(String, i64)> {
        let found = self.get(DEPLOYMENT, namespace, name).await?.unwrap_or_default();
        let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
        let replicas = found["spec"]["replicas"].as_i64().unwrap_or(-1);
        Ok((image.as_str().unwrap_or_default().to_owned(), replicas))
    }

    async fn api(
        &self,
        kind: Kind,
        namespace: &str,
    ) -> Result<kube::Api<kube::api::DynamicObject>> {
        let (api_version, kind) = (kind.0.to_owned(), kind.1.to_owned());
        api_of(&self.client, &TypeMeta { api_version, kind }, Some(namespace)).await
    }
}

/// A control plane with nodes, and the definitions of gateways and meshes.
pub async fn cluster(options: &Options, settings: NodeSettings) -> Result<(ControlPlane, Node)> {
    let plane = ControlPlane::start_with(&Parts::find()?, options).await?;
    let node = Node::start(&plane, settings).await?;
    for part in ["gateway-api", "istio"] {
        apply_folder(&plane.client(), plane.parts().folder(part)?).await?;
    }
    Ok((plane, node))
}

/// Two pods of an image.
pub fn deployment(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{
                    "name": "app", "image": image, "ports": [{ "containerPort": 9898 }],
                }] },
            },
        },
    })
}

/// A canary of `web` over the Gateway, or over the routes of `provider`.
pub fn canary(provider: &str, host: &str, analysis: &Value) -> Value {
    let mut object = json!({
        "apiVersion": CANARY.0, "kind": CANARY.1, "metadata": { "name": "web" },
        "spec": {
            "provider": provider,
            // Pods are up in a second; on a busy machine, and with an operator that is killed, in more.
            "progressDeadlineSeconds": 180,
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "service": { "port": 80, "targetPort": 9898 },
            "analysis": analysis,
        },
    });
    if provider.starts_with("gatewayapi") {
        object["spec"]["service"]["hosts"] = json!([host]);
        object["spec"]["service"]["gatewayRefs"] = json!([{ "name": "public", "namespace": EDGE }]);
    }
    object
}

/// A metric of a canary: any query to the Prometheus of the stage.
pub fn metric(stage: &Stage, query: &str) -> Value {
    json!({
        "apiVersion": CANARY.0, "kind": "MetricTemplate", "metadata": { "name": "success" },
        "spec": {
            "provider": { "type": "prometheus", "address": stage.prometheus.url() }, "query": query,
        },
    })
}
