//! The strategies: weights, requests, blue/green, mirroring, sessions, no analysis.

use serde_json::{Value, json};

use super::{Scenario, by_weight, by_weight_with};

const GATEWAY: &str = "gatewayapi:v1";

fn header() -> Value {
    json!([{ "headers": { "x-canary": { "exact": "insider" } } }])
}

fn cookie() -> Value {
    json!([
        { "headers": { "cookie": { "regex": "^(.*?;)?(canary=always)(;.*)?$" } } },
        { "headers": { "user-agent": { "regex": ".*Firefox.*" } } },
    ])
}

pub(super) fn all() -> Vec<Scenario> {
    let mut all = weights();
    all.extend(requests());
    all.extend(blue_green());
    all.extend(sessions());
    all
}

fn weights() -> Vec<Scenario> {
    let steps = |steps: Value| json!({ "stepWeights": steps });
    vec![
        Scenario::new("weights: one step", "istio", by_weight()).released(),
        Scenario::new("weights: a list", "istio", steps(json!([10, 60]))).released(),
        Scenario::new("weights: a list to 100", GATEWAY, steps(json!([40, 100]))).released(),
        Scenario::new("weights: up to 100", GATEWAY, json!({ "stepWeight": 50 })).released(),
        Scenario::new(
            "weights: a step beyond the maximum",
            "istio",
            json!({ "stepWeight": 40, "maxWeight": 50 }),
        )
        .released(),
        Scenario::new(
            "weights: back in steps",
            "istio",
            by_weight_with(json!({ "stepWeightPromotion": 30 })),
        )
        .released(),
        Scenario::new("weights: two releases", GATEWAY, by_weight())
            .released()
            .release("web:3.0")
            .phase("Progressing")
            .phase("Succeeded"),
    ]
}

fn requests() -> Vec<Scenario> {
    let by_header = || json!({ "iterations": 2, "match": header() });
    vec![
        Scenario::new("A/B: istio", "istio", by_header()).released(),
        Scenario::new("A/B: gateway", GATEWAY, by_header()).released(),
        Scenario::new("A/B: cookies", "istio", json!({ "iterations": 1, "match": cookie() }))
            .released(),
        Scenario::new("A/B: contour", "contour", by_header()).released(),
        Scenario::new("A/B: nginx", "nginx", by_header()).released(),
        Scenario::new("A/B: app mesh", "appmesh:v1beta2", by_header()).released(),
        Scenario::new("A/B: kubernetes ignores it", "kubernetes", by_header()).released(),
        Scenario::new(
            "A/B: gateway, two items",
            GATEWAY,
            json!({ "iterations": 1, "match": [
                { "headers": { "x-canary": { "regex": "in.*" } } },
                { "headers": { "user-agent": { "exact": "probe" } } },
            ] }),
        )
        .released(),
    ]
}

fn blue_green() -> Vec<Scenario> {
    let iterations = || json!({ "iterations": 2 });
    let mirrored = || json!({ "iterations": 2, "mirror": true });
    vec![
        Scenario::new("blue/green: kubernetes", "kubernetes", iterations()).released(),
        Scenario::new("blue/green: istio", "istio", iterations()).released(),
        Scenario::new("blue/green: gateway", GATEWAY, iterations()).released(),
        Scenario::new("blue/green: mirrored, istio", "istio", mirrored()).released(),
        Scenario::new("blue/green: mirrored, gateway", GATEWAY, mirrored()).released(),
        Scenario::new(
            "weights: mirrored first",
            "istio",
            by_weight_with(json!({ "mirror": true, "mirrorWeight": 30 })),
        )
        .released(),
    ]
}

fn sessions() -> Vec<Scenario> {
    let affinity = || by_weight_with(json!({ "sessionAffinity": { "cookieName": "web-cookie" } }));
    let settings = json!({ "sessionAffinity": {
        "cookieName": "web-cookie", "primaryCookieName": "main-cookie", "maxAge": 600,
        "domain": "web.test", "secure": true, "httpOnly": true, "sameSite": "Lax", "path": "/app",
    } });
    vec![
        Scenario::new("sessions: istio", "istio", affinity()).released(),
        Scenario::new("sessions: gateway", GATEWAY, affinity()).released(),
        Scenario::new("sessions: attributes", GATEWAY, by_weight_with(settings)).released(),
        Scenario::new("no analysis: istio", "istio", by_weight())
            .spec(json!({ "skipAnalysis": true }))
            .phase("Initialized")
            .release("web:2.0")
            .phase("Succeeded"),
        Scenario::new("no analysis: kubernetes", "kubernetes", json!({ "iterations": 2 }))
            .spec(json!({ "skipAnalysis": true }))
            .phase("Initialized")
            .release("web:2.0")
            .phase("Succeeded"),
    ]
}
