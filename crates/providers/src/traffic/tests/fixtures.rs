//! The objects each provider needs, and where its objects have weights.

use super::*;

/// Every provider that moves traffic, in every way it has.
pub(super) fn dividing() -> Vec<Mesh> {
    let all = Mesh::ALL.into_iter().chain([Mesh::KumaHttp]);
    all.filter(|mesh| *mesh != Mesh::Kubernetes).collect()
}

/// Providers whose route is made, or taken over, under the name of the apex and from nothing but
/// the spec.
pub(super) fn making() -> Vec<Mesh> {
    let others = [Mesh::Nginx, Mesh::Skipper, Mesh::Apisix, Mesh::Knative];
    dividing().into_iter().filter(|mesh| !others.contains(mesh)).collect()
}

/// Those with a route made from one of the user's.
pub(super) const COPYING: [Mesh; 3] = [Mesh::Nginx, Mesh::Skipper, Mesh::Apisix];

/// A cluster whose definition of routes has every field.
pub(super) const EVERY_FIELD: RouteFields =
    RouteFields { rule_name: true, retry: true, mirror_percent: true, timeouts: true, cors: true };

/// A test that no provider with weights alone, or with headers alone, can do.
pub(super) fn inexpressible() -> Value {
    let by_query = json!([{ "queryParams": { "q": { "exact": "a" } } }]);
    json!({ "stepWeight": null, "iterations": 5, "match": by_query })
}

/// Members of a spec that only some providers need.
pub(super) fn spec_of(mesh: Mesh) -> Value {
    let ingress = json!({ "ingressRef": {
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "shop" } });
    match mesh {
        Mesh::GatewayApiV1 | Mesh::GatewayApiV1Beta1 | Mesh::Kubernetes => json!({
            "service": { "gatewayRefs": [{ "name": "gw", "namespace": "infra" }] } }),
        Mesh::AppMeshV1Beta1 => json!({ "service": { "meshName": "global" } }),
        Mesh::Nginx | Mesh::Skipper => ingress,
        Mesh::Apisix => json!({ "routeRef": {
            "apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute", "name": "shop" } }),
        Mesh::Knative => json!({ "service": null, "targetRef": {
            "apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "shop" } }),
        _ => json!({}),
    }
}

/// The objects in the cluster before the canary.
pub(super) fn surroundings(mesh: Mesh) -> Vec<(Kind, Value)> {
    let service = |name: &str, app: &str| {
        let spec = json!({ "selector": { "app.kubernetes.io/name": app } });
        (SERVICE, json!({ "kind": "Service", "metadata": { "name": name }, "spec": spec }))
    };
    match mesh {
        Mesh::Gloo | Mesh::AppMeshV1Beta2 => {
            vec![service("shop-primary", "store-primary"), service("shop-canary", "store")]
        }
        Mesh::Nginx | Mesh::Skipper => vec![(INGRESS, users_ingress())],
        Mesh::Apisix => vec![(mesh.kinds()[0], users_apisix_route())],
        Mesh::Knative => vec![(KNATIVE_SERVICE, users_knative_service())],
        _ => Vec::new(),
    }
}

pub(super) fn users_ingress() -> Value {
    let path = |path: &str, service: &str| {
        json!({ "path": path, "pathType": "Prefix",
            "backend": { "service": { "name": service, "port": { "number": 80 } } } })
    };
    json!({
        "kind": "Ingress",
        "metadata": {
            "name": "shop",
            "labels": { "team": "a" },
            "annotations": {
                "nginx.ingress.kubernetes.io/proxy-body-size": "8m",
                "zalando.org/skipper-predicate": "Host(/shop/)",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "argocd.argoproj.io/tracking-id": "x",
            },
        },
        "spec": {
            "ingressClassName": "web",
            "tls": [{ "hosts": ["shop.example.com"], "secretName": "cert" }],
            "defaultBackend": { "service": { "name": "error", "port": { "number": 80 } } },
            "rules": [
                { "host": "shop.example.com",
                    "http": { "paths": [path("/", "shop"), path("/help", "help")] } },
                { "host": "bare.example.com" },
                { "host": "help.example.com", "http": { "paths": [path("/", "help")] } },
            ],
        },
    })
}

pub(super) fn users_apisix_route() -> Value {
    json!({
        "kind": "ApisixRoute",
        "metadata": {
            "name": "shop",
            "labels": { "team": "a" },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "b" },
        },
        "spec": {
            "ingressClassName": "apisix",
            "stream": [{ "name": "tcp", "protocol": "TCP" }],
            "http": [
                { "name": "help", "priority": 20_000,
                    "backends": [{ "serviceName": "help", "servicePort": 80 }] },
                {
                    "name": "web",
                    "match": { "hosts": ["shop.example.com"], "paths": ["/*"] },
                    "timeout": { "read": "5s" },
                    "websocket": true,
                    "plugins": [{ "name": "cors", "enable": true }],
                    "backends": [{ "serviceName": "shop", "servicePort": 80,
                        "resolveGranularity": "service", "subset": "a" }],
                },
            ],
        },
    })
}

pub(super) fn users_knative_service() -> Value {
    json!({
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": { "name": "shop", "uid": "u-5" },
        "spec": { "template": { "spec": { "containers": [{ "image": "shop" }] } } },
        "status": {
            "latestCreatedRevisionName": "shop-00001",
            "latestReadyRevisionName": "shop-00001",
            "traffic": [{ "latestRevision": true, "revisionName": "shop-00001", "percent": 100 }],
        },
    })
}

/// Knative's answer to a changed Service.
pub(super) fn serve_knative(object: &mut Value) {
    let latest = object["status"]["latestReadyRevisionName"].clone();
    let mut traffic = object["spec"]["traffic"].clone();
    for entry in traffic.as_array_mut().into_iter().flatten() {
        if entry["latestRevision"] == true {
            entry["revisionName"] = latest.clone();
        }
    }
    if traffic.is_array() {
        object["status"]["traffic"] = traffic;
    }
}

/// Where the weighted members of the first rule are.
pub(super) fn members_at(mesh: Mesh) -> &'static str {
    match mesh {
        Mesh::GatewayApiV1 | Mesh::GatewayApiV1Beta1 => "/spec/rules/0/backendRefs",
        Mesh::Istio => "/spec/http/0/route",
        Mesh::Smi { .. } => "/spec/backends",
        Mesh::AppMeshV1Beta1 => "/spec/routes/0/http/action/weightedTargets",
        Mesh::AppMeshV1Beta2 => "/spec/routes/0/httpRoute/action/weightedTargets",
        Mesh::Contour => "/spec/routes/0/services",
        Mesh::Gloo => "/spec/routes/0/routeAction/multi/destinations",
        Mesh::Traefik => "/spec/weighted/services",
        Mesh::Kuma => "/spec/conf/split",
        Mesh::KumaHttp => "/spec/to/0/rules/0/default/backendRefs",
        Mesh::Apisix => "/spec/http/0/backends",
        Mesh::Knative => "/spec/traffic",
        Mesh::Kubernetes | Mesh::Nginx | Mesh::Skipper => "",
    }
}

/// The rule those are in, if the object has rules.
pub(super) fn rule_at(mesh: Mesh) -> Option<&'static str> {
    match mesh {
        Mesh::GatewayApiV1 | Mesh::GatewayApiV1Beta1 => Some("/spec/rules/0"),
        Mesh::Istio => Some("/spec/http/0"),
        Mesh::AppMeshV1Beta1 | Mesh::AppMeshV1Beta2 | Mesh::Contour | Mesh::Gloo => {
            Some("/spec/routes/0")
        }
        Mesh::KumaHttp => Some("/spec/to/0/rules/0"),
        _ => None,
    }
}

/// The weights of the two sides in the first rule, the primary's first; a side that is left out has none.
pub(super) fn weights(world: &World) -> (i64, i64) {
    let route = world.route();
    let annotation = |key: &str| route["metadata"]["annotations"][key].as_str().unwrap().to_owned();
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().unwrap(),
        value => value.as_i64().unwrap(),
    };
    match world.mesh {
        Mesh::Nginx => {
            let canary: i64 =
                annotation("nginx.ingress.kubernetes.io/canary-weight").parse().unwrap();
            (100 - canary, canary)
        }
        Mesh::Skipper => {
            let text = annotation("zalando.org/backend-weights");
            let weights: Value = serde_json::from_str(&text).unwrap();
            (number(&weights["shop-primary"]), number(&weights["shop-canary"]))
        }
        mesh => {
            let members = route.pointer(members_at(mesh)).unwrap().as_array().unwrap();
            let key = if mesh == Mesh::Knative { "percent" } else { "weight" };
            let sum = |of_canary: bool| {
                let of = members.iter().filter(|member| is_canary(member) == of_canary);
                of.map(|member| member.get(key).map_or(0, number)).sum()
            };
            (sum(false), sum(true))
        }
    }
}

/// Whether a member is the canary's; all others count as the primary's.
pub(super) fn is_canary(member: &Value) -> bool {
    member.to_string().contains("canary") || member["latestRevision"] == true
}

/// Edits the weights of the two sides, as a user would.
pub(super) fn edit_weights(world: &mut World, primary: &Value, canary: &Value) {
    let mesh = world.mesh;
    let key = if mesh == Mesh::Knative { "percent" } else { "weight" };
    world.edit_route(|route| {
        let members = route.pointer_mut(members_at(mesh)).unwrap().as_array_mut().unwrap();
        for member in members {
            member[key] = if is_canary(member) { canary.clone() } else { primary.clone() };
        }
    });
}
