//! Fields of `spec.service`: Services, and what routers write for them.

use serde_json::{Value, json};

use super::{Scenario, by_weight};

fn with_service(name: &'static str, provider: &str, service: &Value) -> Scenario {
    Scenario::new(name, provider, by_weight())
        .spec(json!({ "service": service }))
        .phase("Initialized")
}

pub(super) fn all() -> Vec<Scenario> {
    let metadata =
        |name: &str| json!({ "labels": { "side": name }, "annotations": { "note": name } });
    let policy = json!({ "tls": { "mode": "ISTIO_MUTUAL" }, "connectionPool": { "http": { "http1MaxPendingRequests": 9 } } });
    let routes = json!({
        "hosts": ["web.test", "www.web.test"], "gateways": ["public", "mesh"],
        "match": [{ "uri": { "prefix": "/api" } }], "rewrite": { "uri": "/" },
        "timeout": "15s", "retries": { "attempts": 3, "perTryTimeout": "1s", "retryOn": "5xx" },
        "headers": { "request": { "add": { "x-a": "b" }, "remove": ["x-c"] }, "response": { "set": { "x-d": "e" } } },
        "corsPolicy": { "allowOrigins": [{ "exact": "https://a.test" }], "allowMethods": ["GET"], "maxAge": "24h" },
    });
    let of_gateway = json!({
        "hosts": ["web.test"], "gatewayRefs": [{ "name": "edge", "namespace": "NAMESPACE", "sectionName": "web" }],
        "match": [{ "uri": { "prefix": "/api" }, "headers": { "x-v": { "exact": "1" } } }],
        "rewrite": { "uri": "/v1" }, "timeout": "15s",
        "headers": { "request": { "add": { "x-a": "b" } }, "response": { "set": { "x-d": "e" } } },
    });
    let renamed = json!({
        "name": "shop", "port": 9000, "portName": "http-shop", "targetPort": 8080, "appProtocol": "http",
    });
    let ports = json!([{ "containerPort": 8080, "name": "web" }, { "containerPort": 9090, "name": "metrics" }]);
    let discovered = json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "app", "image": "web:1.0", "ports": ports },
    ] } } } });
    vec![
        with_service("service: a name and ports of its own", "istio", &renamed),
        with_service("service: metadata", "istio", &json!({
            "apex": metadata("apex"), "primary": metadata("primary"), "canary": metadata("canary"),
        })),
        with_service("service: metadata, gateway", "gatewayapi:v1", &json!({
            "apex": metadata("apex"), "primary": metadata("primary"), "canary": metadata("canary"),
        })),
        with_service("service: ports are discovered", "istio", &json!({ "portDiscovery": true }))
            .target(discovered),
        with_service("service: a named port", "kubernetes", &json!({ "targetPort": "web" }))
            .target(json!({ "spec": { "template": { "spec": { "containers": [
                { "name": "app", "image": "web:1.0", "ports": [{ "containerPort": 8080, "name": "web" }] },
            ] } } } })),
        with_service("service: headless", "kubernetes", &json!({ "headless": true })),
        with_service("service: distribution of traffic", "kubernetes", &json!({
            "trafficDistribution": "PreferClose",
        })),
        with_service("service: routes of istio", "istio", &routes),
        with_service("service: traffic policy", "istio", &json!({ "trafficPolicy": policy })),
        with_service("service: delegation", "istio", &json!({ "delegation": true })),
        with_service("service: gRPC with istio", "istio", &json!({ "portName": "grpc", "appProtocol": "grpc" })),
        with_service("service: routes of a gateway", "gatewayapi:v1", &of_gateway),
        with_service("service: contour", "contour", &json!({
            "timeout": "15s", "match": [{ "uri": { "prefix": "/api" } }], "rewrite": { "uri": "/" },
            "headers": { "request": { "set": { "x-a": "b" } } },
        })),
        with_service("service: traefik, a name of its own", "traefik", &json!({ "name": "shop" })),
    ]
}
