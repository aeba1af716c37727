//! Clusters for every provider: the definitions of its kinds, the objects its users have before the canary,
//! and the canary as they write it.
//!
//! Definitions of kinds whose real ones cannot be had accept anything. All others are the real ones, without
//! sentences.

#![expect(clippy::panic, reason = "how a rig fails the test that uses it")]

use std::collections::{BTreeMap, BTreeSet};

use kube_sandbox::{
    cluster::Resource,
    controllers::{KNATIVE_REVISIONS, KNATIVE_SERVICES, knative_crds},
    upstream_crds,
};
use serde_json::{Value, json};
use tidegate_providers::{
    object::Kind,
    traffic::{Mesh, Support, matrix},
};

use crate::{
    network::Metric,
    rollout::{DEPLOYMENTS, World, canary},
};

/// Istio over TCP: connections are divided, requests are not seen.
pub const ISTIO_TCP: &str = "istio over TCP";

/// Kuma where its older policy is not served.
pub const KUMA_HTTP: &str = "kuma without TrafficRoute";

/// The provider whose target is a kind of its own.
pub const KNATIVE: &str = "knative";

const APISIX_ROUTES: Resource = Resource { group: "apisix.apache.org", plural: "apisixroutes" };
const INGRESSES: Resource = Resource { group: "networking.k8s.io", plural: "ingresses" };

/// Every provider, and each form it has, with its capabilities.
pub fn all() -> Vec<(&'static str, Support)> {
    let name = |support: &Support| match support.form {
        "" => support.mesh.as_str(),
        _ => ISTIO_TCP,
    };
    let every = matrix().into_iter().map(|support| (name(&support), support));
    every.chain([(KUMA_HTTP, Mesh::KumaHttp.support())]).collect()
}

/// Providers whose kinds the sandbox does not know, with targets that it knows.
pub fn foreign() -> Vec<&'static str> {
    let is_known =
        |mesh: Mesh| matches!(mesh.guide(), "kubernetes" | "gateway-api" | "istio" | "knative");
    let unknown = all().into_iter().filter(|(_, support)| !is_known(support.mesh));
    unknown.map(|(provider, _)| provider).collect()
}

/// Groups with real definitions, which the sandbox does not load by itself.
const REAL: [&str; 2] = ["projectcontour.io", "traefik.io"];

/// Definitions of all kinds that the sandbox does not serve by itself. Those that cannot be had accept anything.
pub fn definitions() -> Vec<Value> {
    const KNOWN: [&str; 4] = [
        "gateway.networking.k8s.io",
        "networking.istio.io",
        "networking.k8s.io",
        "serving.knative.dev",
    ];
    let mut kinds: BTreeMap<(&str, &str), BTreeSet<Kind>> = BTreeMap::new();
    for kind in Mesh::ALL.iter().flat_map(|mesh| mesh.kinds()) {
        let is_defined = KNOWN.contains(&kind.group) || REAL.contains(&kind.group);
        if !is_defined && !kind.group.is_empty() {
            kinds.entry((kind.group, kind.plural)).or_default().insert(*kind);
        }
    }
    let real = upstream_crds().into_iter();
    let real = real.filter(|it| REAL.iter().any(|group| it["spec"]["group"] == *group));
    let anything = kinds.into_iter();
    real.chain(anything.map(|((group, plural), versions)| definition(group, plural, &versions)))
        .collect()
}

fn definition(group: &str, plural: &str, kinds: &BTreeSet<Kind>) -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let versions = kinds.iter().enumerate().map(|(index, kind)| {
        json!({
            "name": kind.version, "served": true, "storage": index == 0,
            "schema": { "openAPIV3Schema": anything },
        })
    });
    let kind = kinds.first().map_or("", |kind| kind.kind);
    let is_namespaced = kinds.iter().all(Kind::is_namespaced);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                "listKind": format!("{kind}List"),
            },
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

/// A canary `web` as a user of that provider writes it.
pub fn canary_for(provider: &str, analysis: Value) -> Value {
    let name = provider.split(' ').next().unwrap_or_default();
    let mut canary = canary("web", name, analysis);
    let spec = &mut canary["spec"];
    match provider {
        "gatewayapi:v1" | "gatewayapi:v1beta1" => {
            spec["service"]["gatewayRefs"] = json!([{ "name": "edge" }]);
        }
        ISTIO_TCP => spec["service"]["appProtocol"] = json!("tcp"),
        "appmesh" => spec["service"]["meshName"] = json!("global"),
        "nginx" | "skipper" => {
            spec["ingressRef"] =
                json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front" });
        }
        "apisix" => {
            spec["routeRef"] = json!({
                "apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute", "name": "front",
            });
        }
        KNATIVE => {
            spec["targetRef"] =
                json!({ "apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "web" });
            spec["service"].take();
        }
        _ => {}
    }
    canary
}

/// Creates the definitions and the user's objects from before the canary, and sets good metrics.
pub fn furnish(world: &World, provider: &str) {
    world.network.metric("", Metric::Value(100.0));
    let mut objects = definitions();
    if provider == KUMA_HTTP {
        objects.retain(|it| it["spec"]["names"]["kind"] != "TrafficRoute");
    }
    if provider == KNATIVE {
        objects.extend(knative_crds());
    }
    objects.extend(users_objects(provider));
    let loaded = world.sandbox.load(objects);
    loaded.unwrap_or_else(|error| panic!("{provider}: not loaded: {error:?}"));
    world.sandbox.settle();
}

/// The objects a user of that provider has before the canary, in the namespace `default`.
pub fn users_objects(provider: &str) -> Vec<Value> {
    match provider {
        "nginx" | "skipper" => vec![ingress_to("web")],
        "apisix" => vec![json!({
            "apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute",
            "metadata": { "name": "front", "namespace": "default" },
            "spec": { "http": [{
                "name": "web", "match": { "hosts": ["web.test"], "paths": ["/*"] },
                "backends": [{ "serviceName": "web", "servicePort": 80 }],
            }] },
        })],
        "traefik" => vec![ingress_route()],
        KNATIVE => vec![knative_service()],
        _ => Vec::new(),
    }
}

/// Leads the user's own route, if there is one, to another Service.
pub fn redirect(world: &World, service: &str) {
    if let Some(mut route) = world.get(APISIX_ROUTES, "front") {
        route["spec"]["http"][0]["backends"][0]["serviceName"] = json!(service);
        world.patch(APISIX_ROUTES, "front", &json!({ "spec": route["spec"] }));
    }
    if world.get(INGRESSES, "front").is_some() {
        world.patch(INGRESSES, "front", &json!({ "spec": ingress_to(service)["spec"] }));
    }
}

/// A target of Knative, with the default traffic.
fn knative_service() -> Value {
    json!({
        "apiVersion": "serving.knative.dev/v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "template": { "spec": { "containers": [{ "name": "app", "image": "web:1.0" }] } },
            "traffic": [{ "latestRevision": true, "percent": 100 }],
        },
    })
}

/// The table of the target of a canary `web`.
pub fn target_table(world: &World) -> Resource {
    let is_knative = world.get(KNATIVE_SERVICES, "web").is_some();
    if is_knative { KNATIVE_SERVICES } else { DEPLOYMENTS }
}

/// The image of the primary.
pub fn promoted_image(world: &World) -> String {
    let primary = match world.get(KNATIVE_SERVICES, "web") {
        Some(service) => {
            let name = &service["metadata"]["annotations"]["flagger.app/primary-revision"];
            let revision = world.get(KNATIVE_REVISIONS, name.as_str().unwrap_or_default());
            revision.map(|revision| revision["spec"].clone())
        }
        None => {
            world.get(DEPLOYMENTS, "web-primary").map(|it| it["spec"]["template"]["spec"].clone())
        }
    };
    let image = primary.unwrap_or_default()["containers"][0]["image"].clone();
    image.as_str().unwrap_or_default().to_owned()
}

/// The user's route of Traefik to the canary's own object.
fn ingress_route() -> Value {
    let services = json!([{ "kind": "TraefikService", "name": "web", "port": 80 }]);
    json!({
        "apiVersion": "traefik.io/v1alpha1", "kind": "IngressRoute",
        "metadata": { "name": "front", "namespace": "default" },
        "spec": { "routes": [{ "kind": "Rule", "match": "Host(`web.test`)", "services": services }] },
    })
}

fn ingress_to(service: &str) -> Value {
    let backend = json!({ "service": { "name": service, "port": { "number": 80 } } });
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": "front", "namespace": "default" },
        "spec": { "rules": [{ "host": "web.test", "http": { "paths": [
            { "path": "/", "pathType": "Prefix", "backend": backend },
        ] } }] },
    })
}
