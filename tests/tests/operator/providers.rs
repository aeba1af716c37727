//! Whole rollouts over every provider whose objects nobody carries out here: what the operator writes and
//! reads is looked at, under definitions that take anything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate_providers::{object::Kind, traffic::Mesh};
use tidegate_sandbox::cluster::Resource;
use tidegate_tests::rollout::{CANARIES, World};

use crate::stage::{
    blue_green, break_metrics, by_weight, canary_of, edit, edit_analysis, image, measured,
    mend_metrics, reach, release, replicas, with_canary,
};

/// Those that are not covered elsewhere in this folder.
pub(crate) const PROVIDERS: [&str; 13] = [
    "linkerd",
    "osm",
    "smi:v1alpha3",
    "appmesh",
    "appmesh:v1beta2",
    "contour",
    "nginx",
    "skipper",
    "gloo",
    "traefik",
    "kuma",
    KUMA_HTTP,
    "apisix",
];

/// Kuma where its older policy is not served.
const KUMA_HTTP: &str = "kuma without TrafficRoute";

/// Definitions of all kinds that no router here knows better, with schemas that take anything.
fn definitions() -> Vec<Value> {
    const KNOWN: [&str; 3] =
        ["gateway.networking.k8s.io", "networking.istio.io", "networking.k8s.io"];
    let mut kinds: BTreeMap<(&str, &str), BTreeSet<Kind>> = BTreeMap::new();
    for kind in Mesh::ALL.iter().flat_map(|mesh| mesh.kinds()) {
        if !KNOWN.contains(&kind.group) && !kind.group.is_empty() {
            kinds.entry((kind.group, kind.plural)).or_default().insert(*kind);
        }
    }
    kinds
        .into_iter()
        .map(|((group, plural), versions)| definition(group, plural, &versions))
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
    let first = kinds.first().expect("a group has a kind");
    let scope = if first.is_namespaced() { "Namespaced" } else { "Cluster" };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": scope,
            "names": {
                "kind": first.kind, "plural": plural, "singular": first.kind.to_lowercase(),
                "listKind": format!("{}List", first.kind),
            },
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

/// A canary as a user of that provider writes it.
pub(crate) fn canary_for(provider: &str, analysis: Value) -> Value {
    let name = provider.split(' ').next().unwrap_or_default();
    let mut canary = canary_of("web", name, analysis);
    let spec = &mut canary["spec"];
    match provider {
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
        _ => {}
    }
    canary
}

/// Puts the definitions into the cluster, and what its user has there before the canary.
///
/// The observer of these tests reads routes of Gateway API and Istio only, so it does not judge here.
pub(crate) fn furnish(world: &mut World, provider: &str) {
    world.collects_breaches = true;
    mend_metrics(world);
    let mut objects = definitions();
    match provider {
        "nginx" | "skipper" => objects.push(ingress()),
        KUMA_HTTP => objects.retain(|it| it["spec"]["names"]["kind"] != "TrafficRoute"),
        "apisix" => objects.push(json!({
            "apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute",
            "metadata": { "name": "front", "namespace": "default" },
            "spec": { "http": [{
                "name": "web", "match": { "hosts": ["web.test"], "paths": ["/*"] },
                "backends": [{ "serviceName": "web", "servicePort": 80 }],
            }] },
        })),
        _ => {}
    }
    let loaded = world.sandbox.load(objects);
    assert!(loaded.is_ok(), "{provider}: {loaded:?}");
    world.sandbox.settle();
}

/// Leads the user's own route, if there is one, to another Service.
pub(crate) fn redirect(world: &World, service: &str) {
    let routes = Resource { group: "apisix.apache.org", plural: "apisixroutes" };
    let ingresses = Resource { group: "networking.k8s.io", plural: "ingresses" };
    if let Some(mut route) = world.get(routes, "front") {
        route["spec"]["http"][0]["backends"][0]["serviceName"] = json!(service);
        world.patch(routes, "front", &json!({ "spec": route["spec"] }));
    }
    if world.get(ingresses, "front").is_some() {
        world.patch(ingresses, "front", &json!({ "spec": ingress_to(service)["spec"] }));
    }
}

fn ingress() -> Value {
    ingress_to("web")
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

async fn initialized(provider: &str, analysis: Value) -> World {
    let mut canary = canary_for(provider, measured(analysis));
    canary["spec"]["revertOnDeletion"] = json!(true);
    let mut world = with_canary(canary);
    furnish(&mut world, provider);
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_good_version_is_promoted_step_by_step_over_every_provider() {
    for provider in PROVIDERS {
        let world = initialized(provider, by_weight()).await;
        release(&world, "web:2.0");
        for share in [20, 40, 60] {
            let is_there = world.until(60, |it| it.status("web")["canaryWeight"] == share).await;
            assert!(is_there, "{provider}: never {share}: {:#}", world.status("web"));
        }
        reach(&world, "Succeeded").await;
        world.advance_s(5).await;
        let runs = (image(&world, "web-primary"), replicas(&world, "web"));
        assert_eq!(runs, ("web:2.0".to_owned(), 0), "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_version_is_taken_back_over_every_provider() {
    for provider in PROVIDERS {
        let world = initialized(provider, by_weight()).await;
        release(&world, "web:2.0");
        assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 20).await, "{provider}");
        break_metrics(&world);
        reach(&world, "Failed").await;
        world.advance_s(5).await;
        let runs = (image(&world, "web-primary"), replicas(&world, "web"));
        assert_eq!(runs, ("web:1.0".to_owned(), 0), "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn blue_and_green_change_places_over_every_provider() {
    for provider in PROVIDERS {
        let world = initialized(provider, blue_green()).await;
        release(&world, "web:2.0");
        reach(&world, "Succeeded").await;
        assert_eq!(image(&world, "web-primary"), "web:2.0", "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_canary_deleted_half_way_gives_everything_back_over_every_provider() {
    for provider in PROVIDERS {
        let world = initialized(provider, by_weight()).await;
        release(&world, "web:2.0");
        assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 40).await, "{provider}");
        world.delete(CANARIES, "web");
        let is_gone = world.until(300, |it| it.get(CANARIES, "web").is_none()).await;
        assert!(is_gone, "{provider}: {:#}", world.status("web"));
        assert_eq!(replicas(&world, "web"), 2, "{provider}: the target serves again");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_no_provider_can_do_does_not_freeze_a_share() {
    for provider in ["contour", "traefik", "linkerd"] {
        let world = initialized(provider, by_weight()).await;
        edit(&world, json!({ "progressDeadlineSeconds": 60 }));
        release(&world, "web:2.0");
        assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 40).await, "{provider}");
        edit_analysis(&world, json!({ "mirror": true }));
        let is_back = world.until(300, |it| it.status("web")["canaryWeight"] == 0).await;
        assert!(is_back, "{provider}: {:#}", world.status("web"));
    }
}
