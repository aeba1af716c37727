//! A world with game workloads in it, and short words for what is done to them.

use serde_json::{Value, json};
use tidegate_sandbox::cluster::{Cluster as _, PODS, Resource};
use tidegate_tests::{network::Reply, rollout::World};

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

    /// desired, updated, updated and ready, ready, total: what `kubectl get` shows.
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

    /// The web server of the example says this age.
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
