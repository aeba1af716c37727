//! Runs commands on a ground.

use std::{collections::BTreeSet, time::Duration};

use kube_sandbox::{
    cluster::{PODS, Resource},
    kubelet::Behaviour,
};
use serde_json::{Value, json};

use super::{
    command::{Command, Config, Sight, Thing},
    ground::{Done, Ground},
    routes, settings,
};
use crate::{
    network::{Metric, Reply},
    rollout::{
        AUTOSCALERS, CANARIES, CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, HTTP_ROUTES, SCALED_OBJECTS,
        SECRETS, SERVICES, VIRTUAL_SERVICES, canary, daemon_set, deployment, scaled_object,
    },
};

/// A ground, and the state of the script on it.
pub(super) struct Stage<G> {
    ground: G,
    /// Hooks that have an answer.
    hooks: BTreeSet<String>,
    knows_routes: bool,
    /// Kinds that few scripts have, from the moment this one has them.
    has: BTreeSet<Thing>,
}

const TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };
const ALERT_PROVIDERS: Resource = Resource { group: "flagger.app", plural: "alertproviders" };
/// `wait until` gives up after this long.
const PATIENCE: Duration = Duration::from_hours(2);
/// The workload of all scripts, and its canary.
pub(super) const NAME: &str = "web";

// === impl Stage ===

impl<G: Ground> Stage<G> {
    pub(super) fn on(ground: G) -> Self {
        Self { ground, hooks: BTreeSet::new(), knows_routes: false, has: BTreeSet::new() }
    }

    pub(super) fn into_ground(self) -> G {
        self.ground
    }

    /// The recorded outcome of the next command.
    pub(super) fn expect(&mut self, outcome: &[String]) {
        self.ground.expect(outcome);
    }

    /// Runs a command and returns its outcome.
    pub(super) async fn carry_out(&mut self, command: Command) -> Done<Vec<String>> {
        match command {
            Command::Start => self.ground.start_operator().await?,
            Command::Kill => self.ground.kill_operator().await?,
            Command::Wait(time) => self.ground.wait(time, None).await?,
            Command::WaitUntil(phase) => self.ground.wait(PATIENCE, Some(&phase)).await?,
            Command::GivenInitialized(settings) => {
                self.initialize(&settings).await?;
                return Ok(Vec::new());
            }
            Command::Show(Sight::Status) => return self.status().await,
            Command::Show(Sight::Cluster) => return self.cluster().await,
            Command::Show(Sight::Metrics) => return self.metrics().await,
            command => {
                self.prepare(command).await?;
                self.ground.skip();
            }
        }
        self.ground.settle().await?;
        self.ground.examine().await?;
        Ok(self.ground.take_news())
    }

    /// The usual beginning: two pods of `web:1.0`, unless something else was given.
    async fn initialize(&mut self, settings: &str) -> Done {
        let has_pods = !settings.contains("service target");
        if has_pods && self.ground.get(self.workload(), NAME).await?.is_none() {
            self.create(DEPLOYMENTS, deployment(NAME, "web:1.0", 2)).await?;
        }
        self.make_canary(settings).await?;
        self.ground.start_operator().await?;
        self.ground.wait(PATIENCE, Some("Initialized")).await?;
        self.ground.forget();
        Ok(())
    }

    /// Commands that take no time.
    async fn prepare(&mut self, command: Command) -> Done {
        match command {
            Command::GivenDeployment { image, replicas, reads } => {
                let object = reading(deployment(NAME, &image, replicas), &reads);
                self.create(DEPLOYMENTS, object).await
            }
            Command::GivenDaemonSet { image, reads } => {
                self.has.insert(Thing::DaemonSet);
                self.create(DAEMON_SETS, reading(daemon_set(NAME, &image), &reads)).await
            }
            Command::GivenScaledObject { min, max } => {
                self.know_routes().await?;
                self.has.insert(Thing::ScaledObject);
                self.create(SCALED_OBJECTS, scaled_object(NAME, min, max)).await
            }
            Command::GivenConfig { config, data } => {
                self.create(config.resource(), config.object(&data)).await
            }
            Command::GivenAutoscaler { min, max } => {
                self.create(AUTOSCALERS, autoscaler(min, max)).await
            }
            Command::GivenService(name) => self.create(SERVICES, service(&name)).await,
            Command::GivenVirtualService(name) => {
                self.know_routes().await?;
                self.create(VIRTUAL_SERVICES, virtual_service(&name)).await
            }
            Command::GivenTemplate(name) => self.create(TEMPLATES, template(&name)).await,
            Command::GivenCanary(settings) => self.make_canary(&settings).await,
            Command::Edit(settings) => {
                let mut object = self.get(CANARIES, NAME).await?;
                settings::apply(&mut object, &settings)?;
                self.listen(&object);
                self.ground.update(CANARIES, object).await
            }
            Command::Answer { hook, reply, once } => self.answer(&hook, reply, once),
            Command::Measure(metric, value) => {
                self.measure(&metric, &value);
                Ok(())
            }
            Command::Become { image, behaviour } => {
                let behaviour = Behaviour::parse(&behaviour).ok_or("no such behaviour")?;
                self.ground.settle_pods().await?;
                self.ground.change_pods(&image, behaviour)
            }
            Command::Die(app) => {
                self.ground.settle_pods().await?;
                self.kill_pods(&app).await
            }
            command => self.write(command).await,
        }
    }

    /// Writes to existing objects.
    async fn write(&self, command: Command) -> Done {
        match command {
            Command::Release(image) => {
                let mut object = self.get(self.workload(), NAME).await?;
                object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
                self.ground.update(self.workload(), object).await
            }
            Command::SetConfig { config, data } => {
                let mut object = self.get(config.resource(), &config.name).await?;
                object["data"] = config.object(&data)["data"].clone();
                self.ground.update(config.resource(), object).await
            }
            Command::SetAutoscaler { min, max } => {
                let spec = json!({ "spec": { "minReplicas": min, "maxReplicas": max } });
                self.ground.patch(AUTOSCALERS, NAME, "", &spec).await
            }
            Command::SetScaledObject { min, max } => {
                let spec = json!({ "spec": { "minReplicaCount": min, "maxReplicaCount": max } });
                self.ground.patch(SCALED_OBJECTS, NAME, "", &spec).await
            }
            Command::Point(app) => {
                let patch = json!({ "spec": { "selector": { "app": app } } });
                self.ground.patch(SERVICES, NAME, "", &patch).await
            }
            Command::PauseScaledObject => {
                let annotations = json!({ "autoscaling.keda.sh/paused-replicas": "0" });
                let patch = json!({ "metadata": { "annotations": annotations } });
                self.ground.patch(SCALED_OBJECTS, NAME, "", &patch).await
            }
            Command::Annotate(key, value) => {
                let patch = json!({ "metadata": { "annotations": { key: value } } });
                self.ground.patch(CANARIES, NAME, "", &patch).await
            }
            Command::Scale(name, replicas) => {
                let patch = if self.has.contains(&Thing::DaemonSet) {
                    let mark = if replicas == 0 { json!("true") } else { Value::Null };
                    let nodes = json!({ "flagger.app/scale-to-zero": mark });
                    json!({ "spec": { "template": { "spec": { "nodeSelector": nodes } } } })
                } else {
                    json!({ "spec": { "replicas": replicas } })
                };
                self.ground.patch(self.workload(), &name, "", &patch).await
            }
            Command::Delete(thing, name) => {
                let resource = self.resource(thing).await?;
                self.ground.delete(resource, &name, None).await
            }
            Command::SetRoute { primary, canary } => self.set_route(primary, canary).await,
            Command::Gateway { accepts } => self.judge_route(accepts).await,
            Command::Permit(may) => self.ground.permit(may),
            Command::ForgetHold => {
                let patch = json!({ "status": { "manualPause": null } });
                self.ground.patch(CANARIES, NAME, "status", &patch).await
            }
            _ => Err("cannot be carried out here".to_owned()),
        }
    }

    async fn make_canary(&mut self, settings: &str) -> Done {
        let mut object = canary(NAME, "kubernetes", json!({ "interval": "10s", "threshold": 3 }));
        settings::apply(&mut object, settings)?;
        if object["spec"]["provider"] != "kubernetes" {
            self.know_routes().await?;
        }
        if !object["spec"]["analysis"]["alerts"].is_null() {
            self.create(ALERT_PROVIDERS, chat()).await?;
            self.ground.network().hook("chat/", Reply::Status(200, "ok".to_owned()));
        }
        self.listen(&object);
        self.create(CANARIES, object).await
    }

    /// Every hook passes by default; a rollback hook fails.
    fn listen(&mut self, canary: &Value) {
        for hook in settings::hooks(canary) {
            let is_quiet = hook.starts_with("hooks/rollback/");
            if self.hooks.insert(hook.clone()) {
                let status = if is_quiet { 403 } else { 200 };
                self.ground.network().hook(&hook, Reply::Status(status, String::new()));
            }
        }
    }

    fn answer(&self, name: &str, reply: Reply, once: bool) -> Done {
        let is_it = |hook: &&String| hook.rsplit('/').next() == Some(name);
        let hook = self.hooks.iter().find(is_it).ok_or("no such hook")?;
        if once {
            self.ground.network().hook_once(hook, reply);
        } else {
            self.ground.network().hook(hook, reply);
        }
        Ok(())
    }

    fn measure(&self, metric: &str, value: &Metric) {
        let parts: &[&str] = match metric {
            "success-rate" => &["response_code!~", "status!~"],
            "duration" => &["histogram_quantile"],
            other => &[other],
        };
        for part in parts {
            self.ground.network().metric(part, value.clone());
        }
    }

    async fn know_routes(&mut self) -> Done {
        if std::mem::replace(&mut self.knows_routes, true) {
            return Ok(());
        }
        self.ground.know_routes().await
    }

    /// The kind of `web` in this script.
    fn workload(&self) -> Resource {
        if self.has.contains(&Thing::DaemonSet) { DAEMON_SETS } else { DEPLOYMENTS }
    }

    async fn route(&self) -> Done<Resource> {
        let canary = self.ground.get(CANARIES, NAME).await?.unwrap_or_default();
        let is_istio = canary["spec"]["provider"] == "istio";
        Ok(if is_istio { VIRTUAL_SERVICES } else { HTTP_ROUTES })
    }

    async fn resource(&self, thing: Thing) -> Done<Resource> {
        Ok(match thing {
            Thing::Canary => CANARIES,
            Thing::Deployment => DEPLOYMENTS,
            Thing::Service => SERVICES,
            Thing::Route => self.route().await?,
            Thing::ConfigMap => CONFIG_MAPS,
            Thing::Autoscaler => AUTOSCALERS,
            Thing::DaemonSet => DAEMON_SETS,
            Thing::ScaledObject => SCALED_OBJECTS,
        })
    }

    async fn kill_pods(&self, app: &str) -> Done {
        let pods = self.ground.list(PODS).await?;
        for pod in pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == app) {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            self.ground.delete(PODS, name, Some(0)).await?;
        }
        Ok(())
    }

    /// As an edit with `kubectl edit` would.
    async fn set_route(&self, primary: i64, canary: i64) -> Done {
        let resource = self.route().await?;
        let mut object = self.get(resource, NAME).await?;
        let rules = if resource == HTTP_ROUTES { "rules" } else { "http" };
        let backends = if resource == HTTP_ROUTES { "backendRefs" } else { "route" };
        let rule = object["spec"][rules].as_array_mut().and_then(|rules| rules.last_mut());
        let rule = rule.ok_or("the route has no rules")?;
        rule[backends][0]["weight"] = json!(primary);
        rule[backends][1]["weight"] = json!(canary);
        self.ground.update(resource, object).await
    }

    /// As a gateway controller would; by default one that accepts everything and writes no status.
    async fn judge_route(&self, accepts: bool) -> Done {
        let route = self.get(HTTP_ROUTES, NAME).await?;
        let parent = &route["spec"]["parentRefs"][0];
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": "",
                "observedGeneration": route["metadata"]["generation"],
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let parents = json!([{
            "parentRef": parent, "controllerName": "example.com/gateway",
            "conditions": [condition("Accepted", "False", "NoMatchingListenerHostname")],
        }]);
        let parents = if accepts { json!([]) } else { parents };
        let patch = json!({ "status": { "parents": parents } });
        self.ground.patch(HTTP_ROUTES, NAME, "status", &patch).await
    }

    async fn get(&self, resource: Resource, name: &str) -> Done<Value> {
        self.ground.get(resource, name).await?.ok_or_else(|| format!("there is no {name}"))
    }

    async fn create(&self, resource: Resource, object: Value) -> Done {
        self.ground.create(resource, object).await
    }

    /// The status as people read it.
    async fn status(&self) -> Done<Vec<String>> {
        let canary = self.ground.get(CANARIES, NAME).await?.unwrap_or_default();
        let status = &canary["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        let mut lines = vec![format!(
            "phase {}, weight {}, iterations {}, failedChecks {}",
            status["phase"].as_str().unwrap_or("none"),
            count("canaryWeight"),
            count("iterations"),
            count("failedChecks")
        )];
        for condition in status["conditions"].as_array().into_iter().flatten() {
            lines.push(format!(
                "condition {} is {} ({}): {}",
                text(&condition["type"]),
                text(&condition["status"]),
                text(&condition["reason"]),
                text(&condition["message"])
            ));
        }
        for check in status["lastDecision"]["checks"].as_array().into_iter().flatten() {
            let passed = if check["passed"] == true { "passed" } else { "failed" };
            let value = text(&check["value"]);
            lines.push(format!("check {} {passed} with {value}", text(&check["name"])));
        }
        Ok(lines)
    }

    /// The metrics of Flagger's dashboards.
    async fn metrics(&self) -> Done<Vec<String>> {
        let page = self.ground.metrics().await?;
        let shown = ["status{", "weight{", "successes_total{", "failures_total{"];
        let is_shown = |line: &&str| {
            let name = line.strip_prefix("flagger_canary_");
            name.is_some_and(|name| shown.iter().any(|start| name.starts_with(start)))
        };
        let mut lines: Vec<String> = page.lines().filter(is_shown).map(str::to_owned).collect();
        // The encoder keeps them in no order.
        lines.sort_unstable();
        Ok(lines)
    }

    /// The workloads and the objects that route to them.
    async fn cluster(&self) -> Done<Vec<String>> {
        let mut lines = Vec::new();
        let name =
            |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for object in self.ground.list(DEPLOYMENTS).await? {
            let image = super::lines::image(&object["spec"]["template"]["spec"]);
            let replicas = &object["spec"]["replicas"];
            let image = image.unwrap_or_default();
            lines.push(format!("Deployment {}: {replicas} of {image}", name(&object)));
        }
        if self.has.contains(&Thing::DaemonSet) {
            for object in self.ground.list(DAEMON_SETS).await? {
                let pod = &object["spec"]["template"]["spec"];
                let is_parked = pod["nodeSelector"].get("flagger.app/scale-to-zero").is_some();
                let nodes = if is_parked { "no node" } else { "every node" };
                let image = super::lines::image(pod).unwrap_or_default();
                lines.push(format!("DaemonSet {}: {image} on {nodes}", name(&object)));
            }
        }
        let services = self.ground.list(SERVICES).await?;
        for object in services.iter().filter(|object| name(object) != "kubernetes") {
            let app = object["spec"]["selector"]["app"].as_str().unwrap_or_default();
            lines.push(format!("Service {}: pods of {app}", name(object)));
        }
        for resource in [HTTP_ROUTES, VIRTUAL_SERVICES] {
            for object in self.ground.list(resource).await? {
                let kind = object["kind"].as_str().unwrap_or_default();
                lines.push(format!("{kind} {}: {}", name(&object), routes::text(&object)));
            }
        }
        let scaled = self.has.contains(&Thing::ScaledObject).then_some(SCALED_OBJECTS);
        let scalers = [AUTOSCALERS].into_iter().chain(scaled);
        for resource in scalers.chain([CONFIG_MAPS, SECRETS, CANARIES]) {
            for object in self.ground.list(resource).await? {
                let kind = object["kind"].as_str().unwrap_or_default();
                if !name(&object).starts_with("kube-") {
                    lines.push(format!("{kind} {}", name(&object)));
                }
            }
        }
        Ok(lines)
    }
}

// === impl Config ===

impl Config {
    fn resource(&self) -> Resource {
        if self.is_secret { SECRETS } else { CONFIG_MAPS }
    }

    fn object(&self, (key, value): &(String, String)) -> Value {
        let metadata = json!({ "name": self.name });
        if self.is_secret {
            let value = json!(k8s_openapi::ByteString(value.clone().into_bytes()));
            return json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": metadata,
                "type": "Opaque", "data": { key: value },
            });
        }
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { key: value },
        })
    }
}

fn reading(mut deployment: Value, configs: &[Config]) -> Value {
    let source = |config: &Config| {
        let kind = if config.is_secret { "secretRef" } else { "configMapRef" };
        json!({ kind: { "name": config.name } })
    };
    if !configs.is_empty() {
        let sources: Vec<Value> = configs.iter().map(source).collect();
        deployment["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!(sources);
    }
    deployment
}

fn autoscaler(min: i64, max: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": NAME },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": NAME },
            "minReplicas": min, "maxReplicas": max,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 },
            } }],
        },
    })
}

/// As a user had it before there was a canary.
fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "selector": { "app": name }, "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
        ] },
    })
}

fn virtual_service(name: &str) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": { "name": name },
        "spec": { "hosts": [name], "http": [{ "route": [{ "destination": { "host": name } }] }] },
    })
}

fn template(name: &str) -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate", "metadata": { "name": name },
        "spec": {
            "provider": { "type": "prometheus", "address": "http://prometheus:9090" },
            "query": format!("{name}{{app=\"{{{{ target }}}}\"}}"),
        },
    })
}

fn chat() -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider", "metadata": { "name": "chat" },
        "spec": { "type": "slack", "channel": "web", "username": "tidegate", "address": "http://chat/" },
    })
}
