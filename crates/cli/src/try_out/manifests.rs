//! The objects that the demonstration applies to the cluster.

use serde_json::{Value, json};

pub(super) const HOST: &str = "harbour.example";
pub(super) const REPLICAS: u32 = 3;

pub(super) fn gateway() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": "public", "namespace": "default" },
        "spec": {
            "gatewayClassName": "tidegate-sandbox",
            "listeners": [{ "name": "http", "protocol": "HTTP", "port": 80 }],
        },
    })
}

pub(super) fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "harbour", "namespace": "default" },
        "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": { "app": "harbour" } },
            "template": {
                "metadata": { "labels": { "app": "harbour" } },
                "spec": { "containers": [
                    { "name": "app", "image": image, "ports": [{ "containerPort": 8080 }] }
                ] },
            },
        },
    })
}

pub(super) fn canary() -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
        "metadata": { "name": "harbour", "namespace": "default" },
        "spec": {
            "provider": "gatewayapi:v1",
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "harbour" },
            "service": {
                "port": 80, "targetPort": 8080, "hosts": [HOST],
                "gatewayRefs": [{ "name": "public", "namespace": "default" }],
            },
            "analysis": {
                "interval": "10s", "threshold": 2, "stepWeight": 20, "maxWeight": 60,
                "metrics": [
                    { "name": "request-success-rate", "interval": "20s",
                      "thresholdRange": { "min": 99 } },
                    // Wide: a machine that is busy with something else must not fail the release.
                    { "name": "request-duration", "interval": "20s",
                      "thresholdRange": { "max": 5000 } },
                ],
            },
        },
    })
}

/// The patch that releases an image.
pub(super) fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "app", "image": image, "ports": [{ "containerPort": 8080 }] }
    ] } } } })
}
