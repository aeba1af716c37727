//! Objects as an API server stores them, with defaults.

use serde_json::{Value, json};

use crate::{cluster::Resource, controllers::testing::Simulation};

pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": {
            "containers": [{
                "name": "web", "image": image,
                "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
            }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        },
    })
}

pub(crate) fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": { "matchLabels": { "app": name } },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" },
            },
            "template": template(name, image),
        },
    })
}

pub(crate) fn stateful_set(name: &str, replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "revisionHistoryLimit": 10, "serviceName": name,
            "podManagementPolicy": "OrderedReady",
            "selector": { "matchLabels": { "app": name } },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
            "template": template(name, image),
        },
    })
}

pub(crate) fn daemon_set(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "annotations": { "deprecated.daemonset.template.generation": "1" },
        },
        "spec": {
            "revisionHistoryLimit": 10,
            "selector": { "matchLabels": { "app": name } },
            "updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 },
            },
            "template": template(name, image),
        },
    })
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "labels": { "of": name } },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.10", "selector": { "app": name },
            "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }],
        },
    })
}

/// Changes the image of a workload's first container.
pub(crate) fn set_image(simulation: &Simulation, resource: Resource, name: &str, image: &str) {
    let object = simulation.get(resource, name);
    let mut containers = object["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["image"] = image.into();
    let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    simulation.patch(resource, name, &patch);
}
