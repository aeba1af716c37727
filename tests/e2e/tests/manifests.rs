//! Every manifest of Flagger's documentation, examples, chart and end-to-end tests works under the default flags
//! of the operator, with the provider that its page installs Flagger with.
//!
//! The manifests come from the part `flagger`. Each Canary is played on a cluster in memory: it is initialized, and
//! a new image is promoted. The API server accepts and stores everything under our definitions that it accepts
//! under Flagger's. Exceptions are rows of [`EXCEPTIONS`], and stand on the page of differences.

use std::{collections::BTreeSet, env, fs, path::Path};

use anyhow::{Context as _, Result, anyhow, ensure};
use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, Resource},
    controllers::{KNATIVE_SERVICES, keda_crds, knative_crds},
};
use serde_json::{Value, json};
use tidegate_e2e::{
    Parts,
    manifests::{Manifest, manifests, provider_of},
};
use tidegate_tests::{
    network::{Metric, Reply},
    providers,
    rollout::{CANARIES, DAEMON_SETS, DEPLOYMENTS, World, scaled_object},
};

/// A manifest that does not work: a part of its place, a part of what is said about it, and why that is right.
struct Exception {
    place: &'static str,
    says: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: [Exception; 2] = [
    Exception {
        place: "docs/gitbook/usage/webhooks.md",
        says: "Flagger's definitions refuse it",
        reason: "a number in the metadata of a webhook, which has texts only",
    },
    Exception {
        place: "kustomize/README.md",
        says: "Flagger's definitions refuse it",
        reason: "a version that Flagger does not serve any more",
    },
];

/// Kinds that are taken from the file of a canary: what it refers to.
const COMPANIONS: [&str; 8] = [
    "AlertProvider",
    "ApisixRoute",
    "ConfigMap",
    "HorizontalPodAutoscaler",
    "Ingress",
    "MetricTemplate",
    "ScaledObject",
    "Upstream",
];
const INGRESSES: Resource = Resource { group: "networking.k8s.io", plural: "ingresses" };
const APISIX_ROUTES: Resource = Resource { group: "apisix.apache.org", plural: "apisixroutes" };
const AUTOSCALERS: Resource = Resource { group: "autoscaling", plural: "horizontalpodautoscalers" };
const SCALED_OBJECTS: Resource = Resource { group: "keda.sh", plural: "scaledobjects" };
const TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };
const ALERTS: Resource = Resource { group: "flagger.app", plural: "alertproviders" };
const UPSTREAMS: Resource = Resource { group: "gloo.solo.io", plural: "upstreams" };

/// The end of a canary's first release.
enum End {
    Promoted,
    /// A metric of it is of a provider that the network does not play.
    NotMeasured,
    Broken(String),
}

#[tokio::test(start_paused = true)]
async fn every_manifest_of_flagger_works() -> Result<()> {
    let parts = Parts::named(&["flagger"])?;
    let part = parts.folder("flagger")?;
    let all = manifests(part)?;
    let only = env::var("E2E_MANIFEST").unwrap_or_default();
    let canaries: Vec<_> = all
        .iter()
        .filter(|it| it.place.contains(&only))
        .filter_map(|it| Some((it, it.canary()?)))
        .collect();
    ensure!(!only.is_empty() || canaries.len() >= 140, "only {} canaries found", canaries.len());

    let (model, theirs) = (model()?, flaggers(part)?);
    let mut problems = Vec::new();
    let (mut promoted, mut not_measured) = (0, 0);
    for (manifest, canary) in &canaries {
        if let Err(error) = accepted(&theirs, canary) {
            let why = format!("Flagger's definitions refuse it: {error:#}");
            problems.push((manifest.place.clone(), why));
            continue;
        }
        match play(&model, part, &all, manifest, canary).await {
            End::Promoted => promoted += 1,
            End::NotMeasured => not_measured += 1,
            End::Broken(why) => problems.push((manifest.place.clone(), why)),
        }
    }
    println!("{} canaries, {promoted} promoted, {not_measured} not measured", canaries.len());
    judge(problems, only.is_empty())
}

/// Compares problems with the exceptions: neither may lack the other.
fn judge(problems: Vec<(String, String)>, is_all: bool) -> Result<()> {
    let mut used = BTreeSet::new();
    let mut unexplained = Vec::new();
    for (place, why) in problems {
        let fits = |it: &Exception| place.contains(it.place) && why.contains(it.says);
        match EXCEPTIONS.iter().position(fits) {
            Some(row) => {
                used.insert(row);
            }
            None => unexplained.push(format!("{place}: {why}")),
        }
    }
    ensure!(unexplained.is_empty(), "manifests that do not work:\n{}", unexplained.join("\n"));
    let unused: Vec<_> = EXCEPTIONS
        .iter()
        .enumerate()
        .filter(|(row, _)| is_all && !used.contains(row))
        .map(|(_, it)| format!("{}: {} ({})", it.place, it.says, it.reason))
        .collect();
    ensure!(unused.is_empty(), "exceptions that are not needed:\n{}", unused.join("\n"));
    Ok(())
}

/// A server with Flagger's definitions.
fn flaggers(part: &Path) -> Result<Sandbox> {
    let sandbox = Sandbox::new(Settings::for_tests());
    let definitions = fs::read_to_string(part.join("artifacts/flagger/crd.yaml"))?;
    let loaded = sandbox.load(serde_saphyr::from_multiple(&joined(&definitions))?);
    loaded.map_err(|error| anyhow!("Flagger's definitions: {error:?}"))?;
    Ok(sandbox)
}

/// Stores an object in any namespace, strictly: an unknown field is an error, as with kubectl.
fn accepted(server: &Sandbox, object: &Value) -> Result<()> {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    server.load(vec![object]).map_err(|error| anyhow!("{}", error.message))?;
    Ok(())
}

/// A cluster with the kinds of all providers.
fn model() -> Result<Sandbox> {
    let sandbox = World::new().sandbox.fork(settings());
    let kinds = [providers::definitions(), knative_crds(), keda_crds()].concat();
    let loaded = sandbox.load(kinds);
    loaded.map_err(|error| anyhow!("definitions are refused: {error:?}"))?;
    sandbox.settle();
    Ok(sandbox)
}

fn settings() -> Settings {
    Settings::for_tests().routing().rbac()
}

/// Initializes the canary, and releases another image.
async fn play(
    model: &Sandbox,
    part: &Path,
    all: &[Manifest],
    manifest: &Manifest,
    canary: &Value,
) -> End {
    let mut world = World::over(model.fork(settings()));
    // The invariants count checks by their calls; many canaries of the documentation have none, or others.
    world.collects_violations = true;
    provider_of(&manifest.place).clone_into(&mut world.options.mesh_provider);
    let stage = Stage::new(part, all, manifest, canary);
    if let Err(error) = stage.furnish(&world) {
        return End::Broken(format!("{error:#}"));
    }
    let is_measured = stage.measure(&world);
    world.start().await;
    for _ in 0..40 {
        if stage.phase(&world) == "Initialized" {
            break;
        }
        world.advance_s(15).await;
    }
    if stage.phase(&world) != "Initialized" || stage.stalled(&world).is_some() {
        return End::Broken(format!("not initialized: {}", stage.said(&world)));
    }
    if let Err(error) = stage.release(&world) {
        return End::Broken(format!("{error:#}"));
    }
    // The longest analysis of the documentation takes 50 steps of a minute.
    for _ in 0..300 {
        world.advance_s(15).await;
        match (stage.phase(&world).as_str(), stage.stalled(&world)) {
            ("Succeeded", _) => return End::Promoted,
            ("Failed", _) if !is_measured => return End::NotMeasured,
            ("Failed", _) => return End::Broken(format!("rolled back: {}", stage.said(&world))),
            (_, Some(why)) => return End::Broken(format!("in its release: {why}")),
            (_, None) => {}
        }
    }
    End::Broken(format!("its release does not end: {}", stage.said(&world)))
}

/// A canary with everything that it refers to.
struct Stage<'a> {
    part: &'a Path,
    companions: Vec<&'a Value>,
    canary: Value,
    namespace: String,
}

// === impl Stage ===

impl<'a> Stage<'a> {
    fn new(part: &'a Path, all: &'a [Manifest], of: &Manifest, canary: &Value) -> Self {
        let file = |place: &str| place.split(':').next().unwrap_or_default().to_owned();
        let is_companion = |it: &&Manifest| {
            let kind = it.object["kind"].as_str().unwrap_or_default();
            let is_old = it.object["apiVersion"].as_str().unwrap_or_default().contains("v1alpha1");
            // Scripts of a folder share what one of them defines.
            let folder = |place: &str| Path::new(&file(place)).parent().map(Path::to_owned);
            let is_near = file(&it.place) == file(&of.place)
                || (of.place.starts_with("test/") && folder(&it.place) == folder(&of.place));
            is_near && COMPANIONS.contains(&kind) && (!is_old || kind == "ScaledObject")
        };
        let mut canary = canary.clone();
        let namespace = canary["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        canary["metadata"]["namespace"] = json!(namespace);
        let companions = all.iter().filter(is_companion).map(|it| &it.object).collect();
        Self { part, companions, canary, namespace }
    }

    fn spec(&self) -> &Value {
        &self.canary["spec"]
    }

    fn phase(&self, world: &World) -> String {
        self.status(world)["phase"].as_str().unwrap_or_default().to_owned()
    }

    fn status(&self, world: &World) -> Value {
        let name = text(&self.canary["metadata"]["name"]);
        let canary = world.admin.get(CANARIES, &self.namespace, name);
        canary.unwrap_or_default()["status"].take()
    }

    /// The message of the condition `Stalled`, if that is true.
    fn stalled(&self, world: &World) -> Option<String> {
        let status = self.status(world);
        let conditions = status["conditions"].as_array()?;
        let stalled = conditions.iter().find(|it| it["type"] == "Stalled")?;
        let says = format!("{}: {}", text(&stalled["reason"]), text(&stalled["message"]));
        (stalled["status"] == "True").then_some(says)
    }

    fn said(&self, world: &World) -> String {
        let status = self.status(world);
        let said = format!("{}, {}", text(&status["phase"]), status["lastDecision"]["message"]);
        self.stalled(world).unwrap_or(said)
    }

    /// Creates the canary and everything that it needs.
    fn furnish(&self, world: &World) -> Result<()> {
        let mut objects: Vec<Value> = self.companions.iter().map(|it| (*it).clone()).collect();
        for object in &mut objects {
            // A `-n` of the command stands for the namespace, or an excerpt leaves it out.
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = json!(self.namespace);
            }
        }
        objects.dedup_by(|one, other| {
            one["metadata"] == other["metadata"] && one["kind"] == other["kind"]
        });
        let spaces: BTreeSet<_> = objects
            .iter()
            .map(|object| text(&object["metadata"]["namespace"]).to_owned())
            .chain([self.namespace.clone()])
            .filter(|name| name != "default")
            .collect();
        let named =
            |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        load(world, spaces.into_iter().map(named).collect())?;
        for object in objects {
            // Some are excerpts, or of versions that no server has. `referred` takes their place.
            drop(world.sandbox.load(vec![object]));
        }
        load(world, self.target()?)?;
        self.referred(world)?;
        load(world, vec![self.canary.clone()])
    }

    /// The target, as Flagger's own tests have it.
    fn target(&self) -> Result<Vec<Value>> {
        let reference = &self.spec()["targetRef"];
        let (kind, name) = (text(&reference["kind"]), text(&reference["name"]));
        let metadata = json!({ "name": name, "namespace": self.namespace });
        if text(&reference["apiVersion"]).starts_with("serving.knative.dev/") {
            return Ok(vec![json!({
                "apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": metadata,
                "spec": { "template": { "spec": { "containers": [{ "name": "app", "image": "app:1" }] } } },
            })]);
        }
        let file = if kind == "DaemonSet" { "daemonset" } else { "deployment" };
        let file = self.part.join(format!("test/workloads/{file}.yaml"));
        let mut target: Value = serde_saphyr::from_str(&fs::read_to_string(file)?)?;
        target["metadata"]["name"] = json!(name);
        target["metadata"]["namespace"] = json!(self.namespace);
        for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            *target.pointer_mut(labels).context("no labels")? = json!({ "app": name });
        }
        let file = self.part.join("test/workloads/secret.yaml");
        let mut secret: Value = serde_saphyr::from_str(&fs::read_to_string(file)?)?;
        secret["metadata"]["namespace"] = json!(self.namespace);
        Ok(vec![secret, target])
    }

    /// Objects that the canary names and that its file does not have.
    fn referred(&self, world: &World) -> Result<()> {
        let spec = self.spec();
        let target = text(&spec["targetRef"]["name"]);
        let apex = spec["service"]["name"].as_str().unwrap_or(target);
        let place = |reference: &Value| {
            let namespace = reference["namespace"].as_str().filter(|it| !it.is_empty());
            (namespace.unwrap_or(&self.namespace).to_owned(), text(&reference["name"]).to_owned())
        };
        let mut missing = Vec::new();
        let mut need = |resource: Resource, reference: &Value, object: Value| {
            let (namespace, name) = place(reference);
            if reference.is_null() || world.admin.get(resource, &namespace, &name).is_some() {
                return;
            }
            let mut object = object;
            object["metadata"] = json!({ "name": name, "namespace": namespace });
            if namespace != "default" && namespace != self.namespace {
                missing.push(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }));
            }
            missing.push(object);
        };
        let scaler = &spec["autoscalerRef"];
        match text(&scaler["kind"]) {
            "HorizontalPodAutoscaler" => need(AUTOSCALERS, scaler, autoscaler(target)),
            "ScaledObject" => need(SCALED_OBJECTS, scaler, scaled_object(target, 1, 3)),
            _ => {}
        }
        need(INGRESSES, &spec["ingressRef"], ingress(apex));
        if text(&spec["routeRef"]["kind"]) == "ApisixRoute" {
            need(APISIX_ROUTES, &spec["routeRef"], apisix_route(apex));
        }
        need(
            UPSTREAMS,
            &spec["upstreamRef"],
            json!({ "apiVersion": "gloo.solo.io/v1", "kind": "Upstream", "spec": {} }),
        );
        for metric in list(&spec["analysis"]["metrics"]) {
            need(TEMPLATES, &metric["templateRef"], template());
        }
        for alert in list(&spec["analysis"]["alerts"]) {
            need(ALERTS, &alert["providerRef"], alerts());
        }
        load(world, missing)
    }

    /// Sets answers of hooks and metrics with which the analysis passes. False if one of the metrics is of
    /// a provider that the network does not play.
    fn measure(&self, world: &World) -> bool {
        let spec = self.spec();
        let mut range = (f64::MIN, f64::MAX);
        let (mut is_measured, mut inline) = (true, Vec::new());
        let builtin = ["request-success-rate", "request-duration"];
        for metric in list(&spec["analysis"]["metrics"]) {
            let own = !metric["templateRef"].is_null() || metric["query"].is_string();
            let limits = &metric["thresholdRange"];
            let max = limits["max"].as_f64().or_else(|| metric["threshold"].as_f64());
            let narrowed = (
                range.0.max(limits["min"].as_f64().unwrap_or(f64::MIN)),
                range.1.min(max.unwrap_or(f64::MAX)),
            );
            if own {
                range = narrowed;
                is_measured &= self.is_prometheus(world, &metric["templateRef"]);
            } else {
                is_measured &=
                    builtin.contains(&text(&metric["name"])) && spec["metricsServer"].is_null();
            }
            if let Some(query) = metric["query"].as_str() {
                let first = query.trim().lines().next().unwrap_or_default().trim();
                inline.push((first.to_owned(), narrowed.1.min(1.0)));
            }
        }
        let value = match range {
            (min, _) if min > f64::MIN => min,
            (_, max) => max.min(1.0),
        };
        let result = json!([{ "metric": {}, "value": [0, value.to_string()] }]);
        let data = json!({ "resultType": "vector", "result": result });
        world.network.metric("", Metric::Value(100.0));
        world.network.metric("histogram_quantile", Metric::Value(0.05));
        for (query, value) in inline {
            world.network.metric(&query, Metric::Value(value));
        }
        world.network.otherwise(Reply::Status(
            200,
            json!({ "status": "success", "data": data }).to_string(),
        ));
        for hook in list(&spec["analysis"]["webhooks"]).filter(|hook| hook["type"] == "rollback") {
            let url = text(&hook["url"]);
            let to = url.split_once("://").map_or(url, |(_, rest)| rest);
            world.network.hook(to, Reply::no());
        }
        is_measured && value <= range.1
    }

    fn is_prometheus(&self, world: &World, template: &Value) -> bool {
        if template.is_null() {
            return true;
        }
        let namespace = template["namespace"].as_str().unwrap_or(&self.namespace);
        let found = world.admin.get(TEMPLATES, namespace, text(&template["name"]));
        found.is_some_and(|it| it["spec"]["provider"]["type"] == "prometheus")
    }

    /// Gives the target another image.
    fn release(&self, world: &World) -> Result<()> {
        let reference = &self.spec()["targetRef"];
        let table = match (text(&reference["apiVersion"]), text(&reference["kind"])) {
            (version, _) if version.starts_with("serving.knative.dev/") => KNATIVE_SERVICES,
            (_, "DaemonSet") => DAEMON_SETS,
            _ => DEPLOYMENTS,
        };
        let name = text(&reference["name"]);
        let target = world.admin.get(table, &self.namespace, name).context("the target is gone")?;
        let mut containers = target["spec"]["template"]["spec"]["containers"].clone();
        containers[0]["image"] = json!("ghcr.io/stefanprodan/podinfo:6.0.1");
        let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        let patched = world.admin.patch(table, &self.namespace, name, "", &patch);
        patched.map_err(|error| anyhow!("the target was not patched: {error:?}"))?;
        Ok(())
    }
}

#[test]
fn our_definitions_accept_everything_that_flaggers_accept() -> Result<()> {
    let parts = Parts::named(&["flagger"])?;
    let part = parts.folder("flagger")?;
    let theirs = flaggers(part)?;
    let ours = Sandbox::new(Settings::for_tests());
    let loaded = ours.load(tidegate_api::crds());
    loaded.map_err(|error| anyhow!("our definitions: {error:?}"))?;

    let mut kinds = BTreeSet::new();
    let mut refused = Vec::new();
    for manifest in manifests(part)? {
        let is_flaggers = text(&manifest.object["apiVersion"]).starts_with("flagger.app/");
        let object = manifest.canary().or_else(|| is_flaggers.then(|| manifest.object.clone()));
        let Some(object) = object.filter(|object| accepted(&theirs, object).is_ok()) else {
            continue;
        };
        kinds.insert(text(&object["kind"]).to_owned());
        if let Err(error) = accepted(&ours, &object) {
            refused.push(format!("{}: {error:#}", manifest.place));
        }
    }
    // The one AlertProvider of the documentation has an address and a Secret, which no server accepts.
    ensure!(kinds.len() == 2, "a kind is missing: {kinds:?}");
    ensure!(refused.is_empty(), "our definitions refuse:\n{}", refused.join("\n"));
    Ok(())
}

/// Flagger's definitions have quoted texts of several lines that are indented less than YAML asks for.
fn joined(yaml: &str) -> String {
    let mut text = String::new();
    let mut is_open = false;
    for line in yaml.lines() {
        text.push_str(if is_open { line.trim_start() } else { line });
        let quotes = line.matches('\'').count();
        is_open = is_open && quotes == 0 || !is_open && line.contains(": '") && quotes == 1;
        text.push(if is_open { ' ' } else { '\n' });
    }
    text
}

fn load(world: &World, objects: Vec<Value>) -> Result<()> {
    for object in objects {
        let name = format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]));
        let loaded = world.sandbox.load(vec![object]);
        loaded.map_err(|error| anyhow!("{name} is not accepted: {error:?}"))?;
    }
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn autoscaler(target: &str) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": target },
            "minReplicas": 2, "maxReplicas": 4,
        },
    })
}

fn ingress(apex: &str) -> Value {
    let backend = json!({ "service": { "name": apex, "port": { "number": 80 } } });
    let path = json!({ "path": "/", "pathType": "Prefix", "backend": backend });
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "spec": { "rules": [{ "host": "app.example.com", "http": { "paths": [path] } }] },
    })
}

fn apisix_route(apex: &str) -> Value {
    json!({
        "apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute",
        "spec": { "http": [{
            "name": "method", "match": { "hosts": ["app.example.com"], "paths": ["/*"] },
            "backends": [{ "serviceName": apex, "servicePort": 80 }],
        }] },
    })
}

fn template() -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
        "spec": {
            "provider": { "type": "prometheus", "address": "http://prometheus.monitoring:9090" },
            "query": "vector(1)",
        },
    })
}

fn alerts() -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "AlertProvider",
        "spec": { "type": "slack", "channel": "general", "address": "https://hooks.slack.com/services/x" },
    })
}
