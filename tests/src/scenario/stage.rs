//! Carries commands out on a world.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use tidegate_operator::telemetry::Format;
use tidegate_sandbox::{
    clock::{between, later},
    cluster::{Cluster as _, Deletion, PODS, Resource},
    dataplane::routing_crds,
    faults::{Effect, When},
    kubelet::Behaviour,
};

use super::{
    chronicle::Chronicle,
    command::{Command, Config, Sight, Thing},
    routes, settings,
};
use crate::{
    network::{Metric, Reply},
    rollout::{
        AUTOSCALERS, CANARIES, CONFIG_MAPS, DEPLOYMENTS, HTTP_ROUTES, SECRETS, SERVICES,
        VIRTUAL_SERVICES, World, canary, deployment,
    },
};

/// A world, and what happened in it.
pub(super) struct Stage {
    world: World,
    chronicle: Chronicle,
    /// Hooks that have an answer.
    hooks: BTreeSet<String>,
    knows_routes: bool,
}

type Done<T = ()> = Result<T, String>;

const TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };
const ALERT_PROVIDERS: Resource = Resource { group: "flagger.app", plural: "alertproviders" };
/// `wait until` gives up after this long.
const PATIENCE: Duration = Duration::from_hours(2);
/// The workload of all scripts, and its canary.
const NAME: &str = "web";

// === impl Stage ===

impl Stage {
    pub(super) async fn new() -> Self {
        let world = World::new();
        world.settle().await;
        let chronicle = Chronicle::new(&world);
        Self { world, chronicle, hooks: BTreeSet::new(), knows_routes: false }
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// Does what the command says, and tells what happened.
    pub(super) async fn carry_out(&mut self, command: Command) -> Done<Vec<String>> {
        match command {
            Command::Start => self.world.start().await,
            Command::Kill => self.world.kill(),
            Command::Wait(time) => self.wait(time, None).await?,
            Command::WaitUntil(phase) => self.wait(PATIENCE, Some(&phase)).await?,
            Command::GivenInitialized(settings) => {
                self.initialize(&settings).await?;
                return Ok(Vec::new());
            }
            Command::Show(Sight::Status) => return Ok(self.status()),
            Command::Show(Sight::Cluster) => return Ok(self.cluster()),
            Command::Show(Sight::Metrics) => return Ok(self.metrics()),
            command => {
                self.prepare(command)?;
                self.chronicle.skip(&self.world);
            }
        }
        self.world.settle().await;
        self.chronicle.note(&self.world);
        Ok(self.chronicle.take())
    }

    /// The usual beginning: two pods of `web:1.0`, unless something else was given.
    async fn initialize(&mut self, settings: &str) -> Done {
        if self.world.get(DEPLOYMENTS, NAME).is_none() {
            self.create(DEPLOYMENTS, deployment(NAME, "web:1.0", 2))?;
        }
        self.make_canary(settings)?;
        self.world.start().await;
        self.wait(PATIENCE, Some("Initialized")).await?;
        self.chronicle.take();
        Ok(())
    }

    /// Lets time pass, taking note at every moment something is due.
    async fn wait(&mut self, time: Duration, until: Option<&str>) -> Done {
        let clock = self.world.sandbox.server().clock.clone();
        let end = later(clock.now(), time);
        loop {
            self.world.settle().await;
            self.chronicle.note(&self.world);
            let now = clock.now();
            if until.is_some_and(|phase| self.world.phase(NAME) == phase) {
                return Ok(());
            }
            if now >= end {
                return match until {
                    Some(phase) => Err(format!("never {phase}, but {}", self.world.phase(NAME))),
                    None => Ok(()),
                };
            }
            let due = [self.world.sandbox.runtime().next_due(), clock.next_deadline()];
            let next: Option<Timestamp> = due.into_iter().flatten().filter(|at| *at > now).min();
            clock.advance(between(now, next.filter(|at| *at < end).unwrap_or(end)));
        }
    }

    /// Everything that takes no time.
    fn prepare(&mut self, command: Command) -> Done {
        match command {
            Command::GivenDeployment { image, replicas, reads } => {
                let object = reading(deployment(NAME, &image, replicas), &reads);
                self.create(DEPLOYMENTS, object)
            }
            Command::GivenConfig { config, data } => {
                self.create(config.resource(), config.object(&data))
            }
            Command::GivenAutoscaler { min, max } => self.create(AUTOSCALERS, autoscaler(min, max)),
            Command::GivenService(name) => self.create(SERVICES, service(&name)),
            Command::GivenVirtualService(name) => {
                self.know_routes()?;
                self.create(VIRTUAL_SERVICES, virtual_service(&name))
            }
            Command::GivenTemplate(name) => self.create(TEMPLATES, template(&name)),
            Command::GivenCanary(settings) => self.make_canary(&settings),
            Command::Edit(settings) => {
                let mut object = self.get(CANARIES, NAME)?;
                settings::apply(&mut object, &settings)?;
                self.listen(&object);
                done(self.world.admin.update(CANARIES, "", object))
            }
            Command::Answer { hook, reply, once } => self.answer(&hook, reply, once),
            Command::Measure(metric, value) => {
                self.measure(&metric, &value);
                Ok(())
            }
            Command::Become { image, behaviour } => {
                let behaviour = Behaviour::parse(&behaviour).ok_or("no such behaviour")?;
                self.world.sandbox.controllers().kubelet.behaviours.set(&image, behaviour);
                Ok(())
            }
            command => self.write(command),
        }
    }

    /// Writes to objects that are there.
    fn write(&self, command: Command) -> Done {
        match command {
            Command::Release(image) => {
                let mut object = self.get(DEPLOYMENTS, NAME)?;
                object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
                done(self.world.admin.update(DEPLOYMENTS, "", object))
            }
            Command::SetConfig { config, data } => {
                let mut object = self.get(config.resource(), &config.name)?;
                object["data"] = config.object(&data)["data"].clone();
                done(self.world.admin.update(config.resource(), "", object))
            }
            Command::SetAutoscaler { min, max } => {
                let spec = json!({ "spec": { "minReplicas": min, "maxReplicas": max } });
                self.patch(AUTOSCALERS, NAME, "", &spec)
            }
            Command::Annotate(key, value) => {
                let patch = json!({ "metadata": { "annotations": { key: value } } });
                self.patch(CANARIES, NAME, "", &patch)
            }
            Command::Scale(name, replicas) => {
                self.patch(DEPLOYMENTS, &name, "", &json!({ "spec": { "replicas": replicas } }))
            }
            Command::Delete(thing, name) => {
                let resource = self.resource(thing);
                let deletion = Deletion::default();
                done(self.world.admin.delete(resource, "default", &name, &deletion))
            }
            Command::Die(app) => self.kill_pods(&app),
            Command::SetRoute { primary, canary } => self.set_route(primary, canary),
            Command::Gateway { accepts } => self.judge_route(accepts),
            Command::Permit(may) => {
                self.permit(may);
                Ok(())
            }
            Command::ForgetHold => {
                let patch = json!({ "status": { "manualPause": null } });
                self.patch(CANARIES, NAME, "status", &patch)
            }
            _ => Err("cannot be carried out here".to_owned()),
        }
    }

    fn make_canary(&mut self, settings: &str) -> Done {
        let mut object = canary(NAME, "kubernetes", json!({ "interval": "10s", "threshold": 3 }));
        settings::apply(&mut object, settings)?;
        if object["spec"]["provider"] != "kubernetes" {
            self.know_routes()?;
        }
        if !object["spec"]["analysis"]["alerts"].is_null() {
            self.create(ALERT_PROVIDERS, chat())?;
            self.world.network.hook("chat/", Reply::Status(200, "ok".to_owned()));
        }
        self.listen(&object);
        self.create(CANARIES, object)
    }

    /// Every hook says yes until told otherwise; but one that calls back says no.
    fn listen(&mut self, canary: &Value) {
        for hook in settings::hooks(canary) {
            let is_quiet = hook.starts_with("hooks/rollback/");
            if self.hooks.insert(hook.clone()) {
                let status = if is_quiet { 403 } else { 200 };
                self.world.network.hook(&hook, Reply::Status(status, String::new()));
            }
        }
    }

    fn answer(&self, name: &str, reply: Reply, once: bool) -> Done {
        let is_it = |hook: &&String| hook.rsplit('/').next() == Some(name);
        let hook = self.hooks.iter().find(is_it).ok_or("no such hook")?;
        if once {
            self.world.network.hook_once(hook, reply);
        } else {
            self.world.network.hook(hook, reply);
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
            self.world.network.metric(part, value.clone());
        }
    }

    fn know_routes(&mut self) -> Done {
        if std::mem::replace(&mut self.knows_routes, true) {
            return Ok(());
        }
        let loaded = self.world.sandbox.load(routing_crds());
        loaded.map(|_| ()).map_err(|error| format!("{error:?}"))
    }

    fn route(&self) -> Resource {
        let provider = self.world.get(CANARIES, NAME).unwrap_or_default();
        if provider["spec"]["provider"] == "istio" { VIRTUAL_SERVICES } else { HTTP_ROUTES }
    }

    fn resource(&self, thing: Thing) -> Resource {
        match thing {
            Thing::Canary => CANARIES,
            Thing::Deployment => DEPLOYMENTS,
            Thing::Service => SERVICES,
            Thing::Route => self.route(),
            Thing::ConfigMap => CONFIG_MAPS,
            Thing::Autoscaler => AUTOSCALERS,
        }
    }

    fn kill_pods(&self, app: &str) -> Done {
        let pods = self.world.admin.list(PODS, Some("default"));
        for pod in pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == app) {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let at_once = Deletion { grace_period_s: Some(0), ..Deletion::default() };
            done(self.world.admin.delete(PODS, "default", name, &at_once))?;
        }
        Ok(())
    }

    /// As somebody with `kubectl edit` would.
    fn set_route(&self, primary: i64, canary: i64) -> Done {
        let resource = self.route();
        let mut object = self.get(resource, NAME)?;
        let rules = if resource == HTTP_ROUTES { "rules" } else { "http" };
        let backends = if resource == HTTP_ROUTES { "backendRefs" } else { "route" };
        let rule = object["spec"][rules].as_array_mut().and_then(|rules| rules.last_mut());
        let rule = rule.ok_or("the route has no rules")?;
        rule[backends][0]["weight"] = json!(primary);
        rule[backends][1]["weight"] = json!(canary);
        done(self.world.admin.update(resource, "", object))
    }

    /// As a gateway controller would; one that accepts everything and says nothing is the default.
    fn judge_route(&self, accepts: bool) -> Done {
        let route = self.get(HTTP_ROUTES, NAME)?;
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
        self.patch(HTTP_ROUTES, NAME, "status", &json!({ "status": { "parents": parents } }))
    }

    /// As a Role without `patch` would.
    fn permit(&self, may: bool) {
        let faults = &self.world.sandbox.server().faults;
        faults.clear();
        if !may {
            let edits =
                World::operators().resource(CANARIES.group, CANARIES.plural).subresource("");
            faults.add(edits, When::Always, Effect::FailBefore { code: 403, reason: "Forbidden" });
        }
    }

    fn get(&self, resource: Resource, name: &str) -> Done<Value> {
        self.world.get(resource, name).ok_or_else(|| format!("there is no {name}"))
    }

    fn create(&self, resource: Resource, object: Value) -> Done {
        done(self.world.admin.create(resource, "default", object))
    }

    fn patch(&self, resource: Resource, name: &str, sub: &str, patch: &Value) -> Done {
        done(self.world.admin.patch(resource, "default", name, sub, patch))
    }

    /// What people read in the status.
    fn status(&self) -> Vec<String> {
        let canary = self.world.get(CANARIES, NAME).unwrap_or_default();
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
        lines
    }

    /// What Flagger's dashboards show.
    fn metrics(&self) -> Vec<String> {
        let telemetry = self.world.telemetry.borrow();
        let page = telemetry.as_ref().map(|it| it.render(Format::Prometheus)).unwrap_or_default();
        let shown = ["status{", "weight{", "successes_total{", "failures_total{"];
        let is_shown = |line: &&str| {
            let name = line.strip_prefix("flagger_canary_");
            name.is_some_and(|name| shown.iter().any(|start| name.starts_with(start)))
        };
        let mut lines: Vec<String> = page.lines().filter(is_shown).map(str::to_owned).collect();
        // The encoder keeps them in no order.
        lines.sort_unstable();
        lines
    }

    /// What serves, and how it is reached.
    fn cluster(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let list = |resource| self.world.admin.list(resource, Some("default"));
        let name =
            |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for object in list(DEPLOYMENTS) {
            let image = super::lines::image(&object["spec"]["template"]["spec"]);
            let replicas = &object["spec"]["replicas"];
            let image = image.unwrap_or_default();
            lines.push(format!("Deployment {}: {replicas} of {image}", name(&object)));
        }
        for object in list(SERVICES).iter().filter(|object| name(object) != "kubernetes") {
            let app = object["spec"]["selector"]["app"].as_str().unwrap_or_default();
            lines.push(format!("Service {}: pods of {app}", name(object)));
        }
        for resource in [HTTP_ROUTES, VIRTUAL_SERVICES] {
            for object in list(resource) {
                let kind = object["kind"].as_str().unwrap_or_default();
                lines.push(format!("{kind} {}: {}", name(&object), routes::text(&object)));
            }
        }
        let others = [AUTOSCALERS, CONFIG_MAPS, SECRETS, CANARIES];
        for object in others.into_iter().flat_map(list) {
            let kind = object["kind"].as_str().unwrap_or_default();
            if !name(&object).starts_with("kube-") {
                lines.push(format!("{kind} {}", name(&object)));
            }
        }
        lines
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

fn done<T>(outcome: Result<T, tidegate_sandbox::failure::Failure>) -> Done {
    outcome.map(|_| ()).map_err(|error| format!("{error:?}"))
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
