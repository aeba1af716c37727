//! A world with game workloads in it, and short methods for tests.

use kube_sandbox::{
    cluster::{Cluster as _, PODS, Resource},
    faults::{Effect, Matcher, RuleId, When},
    request::Verb,
};
use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{OPERATOR, World},
};

pub(crate) const GAME_DEPLOYMENTS: Resource =
    Resource { group: "tkex.tencent.com", plural: "gamedeployments" };
pub(crate) const HOOK_TEMPLATES: Resource =
    Resource { group: "tkex.tencent.com", plural: "hooktemplates" };
pub(crate) const HOOK_RUNS: Resource = Resource { group: "tkex.tencent.com", plural: "hookruns" };

/// The game deployment of the published example, with its steps.
pub(crate) const NAME: &str = "test-gamedeployment";

pub(crate) struct Rig {
    pub(crate) world: World,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let mut world = World::of_games();
        world.start().await;
        Self { world }
    }

    pub(crate) fn get(&self) -> Value {
        self.world.get(GAME_DEPLOYMENTS, NAME).unwrap_or_default()
    }

    /// desired, updated, updated and ready, ready, total: the columns of `kubectl get`.
    pub(crate) fn columns(&self) -> [i64; 5] {
        let object = self.get();
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        [
            number(&object["spec"]["replicas"]),
            number(&object["status"]["updatedReplicas"]),
            number(&object["status"]["updatedReadyReplicas"]),
            number(&object["status"]["readyReplicas"]),
            number(&object["status"]["replicas"]),
        ]
    }

    pub(crate) fn patch(&self, patch: &Value) {
        self.world.patch(GAME_DEPLOYMENTS, NAME, patch);
    }

    pub(crate) fn image(&self, image: &str) {
        let mut object = self.get();
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        let updated = self.world.admin.update(GAME_DEPLOYMENTS, "", object);
        updated.expect("the update is taken");
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.patch(&json!({ "spec": { "updateStrategy": { "paused": paused } } }));
    }

    /// Sets the age in the answer of the example's web server.
    pub(crate) fn age(&self, age: i64) {
        let body = json!({ "name": "bryan", "male": "yes", "age": age }).to_string();
        self.world.network.hook("1.1.1.1/", Reply::Status(200, body));
    }

    pub(crate) fn pods(&self) -> Vec<Value> {
        self.world.admin.list(PODS, Some("default"))
    }
}

pub(crate) fn hook_template(condition: &str) -> Value {
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "HookTemplate",
        "metadata": { "name": "test" },
        "spec": { "metrics": [{
            "name": "webtest", "count": 2, "interval": "60s", "failureLimit": 0,
            "successCondition": condition,
            "provider": { "web": { "url": "http://1.1.1.1:9091", "jsonPath": "{$.age}" } },
        }] },
    })
}

pub(crate) fn game_deployment() -> Value {
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment",
        "metadata": { "name": NAME, "labels": { "app": NAME } },
        "spec": {
            "replicas": 4,
            "selector": { "matchLabels": { "app": NAME } },
            "template": {
                "metadata": { "labels": { "app": NAME } },
                "spec": { "containers": [{
                    "name": "python", "image": "python:latest", "imagePullPolicy": "IfNotPresent",
                    "command": ["python"], "args": ["-m", "http.server", "8000"],
                    "ports": [{ "name": "http", "containerPort": 8000 }],
                }] },
            },
            "updateStrategy": {
                "type": "InplaceUpdate", "maxUnavailable": 2,
                "canary": { "steps": [
                    { "partition": 3 }, { "pause": {} }, { "partition": 2 },
                    { "pause": { "duration": 60 } }, { "hook": { "templateName": "test" } },
                ] },
                "inPlaceUpdateStrategy": { "gracePeriodSeconds": 30 },
            },
        },
    })
}

/// Numbered pods.
pub(crate) const GAME_STATEFUL_SETS: Resource =
    Resource { group: "tkex.tencent.com", plural: "gamestatefulsets" };
/// The name of the short workloads.
pub(crate) const ARENA: &str = "arena";

/// Three pods of a `GameDeployment`.
pub(crate) fn arena(strategy: &Value) -> Value {
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment",
        "metadata": { "name": ARENA },
        "spec": {
            "replicas": 3, "selector": { "matchLabels": { "app": ARENA } },
            "template": {
                "metadata": { "labels": { "app": ARENA } },
                "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
            },
            "updateStrategy": strategy,
        },
    })
}

/// The same as a `GameStatefulSet`.
pub(crate) fn numbered(policy: &str, strategy: &Value) -> Value {
    let mut set = arena(strategy);
    set["kind"] = json!("GameStatefulSet");
    set["spec"]["serviceName"] = json!(ARENA);
    set["spec"]["podManagementPolicy"] = json!(policy);
    set
}

/// A template with one metric, called `name` both.
pub(crate) fn template(name: &str, mut metric: Value) -> Value {
    metric["name"] = json!(name);
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "HookTemplate",
        "metadata": { "name": name }, "spec": { "metrics": [metric] },
    })
}

/// A run without an owner, with one metric, called `name` both, and these arguments.
pub(crate) fn run(name: &str, mut metric: Value, arguments: &[(&str, &str)]) -> Value {
    metric["name"] = json!(name);
    let argument = |(name, value): &(&str, &str)| json!({ "name": name, "value": value });
    let arguments: Vec<Value> = arguments.iter().map(argument).collect();
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "HookRun",
        "metadata": { "name": name }, "spec": { "metrics": [metric], "args": arguments },
    })
}

/// The result of a run of this metric alone.
pub(crate) async fn measured(stage: &Stage, metric: Value, arguments: &[(&str, &str)]) -> Value {
    stage.world.create(HOOK_RUNS, run("probe", metric, arguments));
    stage.until(300, "over", |stage| stage.run("probe")["status"]["completedAt"].is_string()).await;
    let status = stage.run("probe")["status"].clone();
    stage.world.delete(HOOK_RUNS, "probe");
    stage.world.settle().await;
    status
}

/// Asks the web server of the example, once.
pub(crate) fn web(condition: &str) -> Value {
    json!({
        "successCondition": condition,
        "provider": { "web": { "url": "http://1.1.1.1:9091", "jsonPath": "{$.age}" } },
    })
}

/// Waits until the pod has this annotation.
pub(crate) fn drained() -> Value {
    json!({
        "interval": "5s", "successfulLimit": 1,
        "provider": { "kubernetes": {
            "function": "get",
            "fields": [{ "path": "metadata.annotations.example.com/drained", "value": "yes" }],
        } },
    })
}

/// One workload in its own world.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) kind: Resource,
}

impl Stage {
    /// With the workload, before the operator starts.
    pub(crate) fn set(object: Value) -> Self {
        let world = World::of_games();
        let kind =
            if object["kind"] == "GameDeployment" { GAME_DEPLOYMENTS } else { GAME_STATEFUL_SETS };
        world.create(HOOK_TEMPLATES, template("check", web("asInt(result) < 30")));
        world.create(HOOK_TEMPLATES, template("drained", drained()));
        world.create(kind, object);
        let stage = Self { world, kind };
        stage.age(20);
        stage
    }

    /// The workload is up.
    pub(crate) async fn up(object: Value) -> Self {
        let mut stage = Self::set(object);
        stage.world.start().await;
        stage.until(300, "up", Self::is_settled).await;
        stage
    }

    /// All pods are of the template and ready, and the status says so.
    pub(crate) fn is_settled(&self) -> bool {
        let object = self.get();
        let (spec, status) = (&object["spec"], &object["status"]);
        let replicas = spec["replicas"].as_i64().unwrap_or(0);
        status["observedGeneration"] == object["metadata"]["generation"]
            && i64::try_from(self.pods().len()) == Ok(replicas)
            && status["updatedReadyReplicas"] == replicas
            && status["readyReplicas"] == replicas
            && spec["updateStrategy"]["paused"] != true
    }

    #[track_caller]
    pub(crate) fn until(
        &self,
        seconds: u64,
        what: &str,
        is_so: impl Fn(&Self) -> bool,
    ) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let reached = self.world.until_seen(seconds, |_| is_so(self)).await;
            assert!(
                reached,
                "{place}: never {what}: {:#}\n{:#?}\n{:#?}",
                self.get(),
                self.world.admin.list(HOOK_RUNS, Some("default")),
                self.world.events()
            );
        }
    }

    pub(crate) fn get(&self) -> Value {
        self.world.get(self.kind, ARENA).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Value {
        self.get()["status"].clone()
    }

    #[expect(clippy::needless_pass_by_value, reason = "always made on the spot")]
    pub(crate) fn patch(&self, patch: Value) {
        self.world.patch(self.kind, ARENA, &patch);
    }

    pub(crate) fn scale(&self, replicas: i64) {
        self.patch(json!({ "spec": { "replicas": replicas } }));
    }

    pub(crate) fn image(&self, image: &str) {
        let mut object = self.get();
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        self.world.admin.update(self.kind, "", object).expect("the update is taken");
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.patch(json!({ "spec": { "updateStrategy": { "paused": paused } } }));
    }

    pub(crate) fn ask(&self, verb: &str) {
        self.patch(json!({ "metadata": { "annotations": { "tidegate.dev/ask": verb } } }));
    }

    pub(crate) fn age(&self, age: i64) {
        let body = json!({ "age": age }).to_string();
        self.world.network.hook("1.1.1.1/", Reply::Status(200, body));
    }

    /// The number of requests to the web server.
    pub(crate) fn asked(&self) -> usize {
        self.world.network.calls_to("1.1.1.1/").len()
    }

    /// Pods that are not being deleted.
    pub(crate) fn pods(&self) -> Vec<Value> {
        let mut pods = self.world.admin.list(PODS, Some("default"));
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// The number of pods whose spec has this image.
    pub(crate) fn with_image(&self, image: &str) -> usize {
        let pods = self.pods();
        pods.iter().filter(|pod| pod["spec"]["containers"][0]["image"] == image).count()
    }

    pub(crate) fn marked(&self) -> Vec<String> {
        let mut pods = self.pods();
        pods.retain(|pod| {
            pod["metadata"]["annotations"]["io.tencent.bcs.dev/game-pod-deleting"] == "true"
        });
        pods.iter().map(name_of).collect()
    }

    pub(crate) fn annotate(&self, pod: &str, name: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { name: value } } });
        self.world.patch(PODS, pod, &patch);
    }

    pub(crate) fn runs(&self) -> Vec<Value> {
        self.world.admin.list(HOOK_RUNS, Some("default"))
    }

    pub(crate) fn run(&self, name: &str) -> Value {
        self.world.get(HOOK_RUNS, name).unwrap_or_default()
    }

    /// The message of a condition that holds.
    pub(crate) fn condition(&self, kind: &str) -> Option<String> {
        let status = self.status();
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut found = conditions.filter(|it| it["type"] == kind && it["status"] == "True");
        found.next().map(|it| it["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Messages of all events with this reason.
    pub(crate) fn told(&self, reason: &str) -> Vec<String> {
        let events = self.world.events().into_iter().filter(|(known, _)| known == reason);
        events.map(|(_, message)| message).collect()
    }

    /// Refuses the operator this verb from now on.
    pub(crate) fn forbid(&self, verbs: &[Verb], group: &str, resource: &str) -> RuleId {
        self.world.sandbox.server().faults.add(
            Matcher::any().user(OPERATOR).verbs(verbs.iter().copied()).resource(group, resource),
            When::Always,
            Effect::FailBefore { code: 403, reason: "Forbidden" },
        )
    }

    pub(crate) fn allow(&self, rule: RuleId) {
        self.world.sandbox.server().faults.remove(rule);
    }
}

pub(crate) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// A patch of the API's own kinds, which `admin` cannot send.
pub(crate) async fn send_patch(
    world: &World,
    media: &str,
    place: &str,
    patch: &Value,
) -> Result<Value, kube::Error> {
    let client = kube::Client::new(world.sandbox.service(), "default");
    let namespace = "/apis/tkex.tencent.com/v1alpha1/namespaces/default";
    let request = http::Request::patch(format!("{namespace}/{place}"))
        .header(http::header::CONTENT_TYPE, media)
        .body(patch.to_string().into_bytes())
        .expect("a request");
    client.request(request).await
}
