//! Traefik on a real control plane follows the routes, to the request, and Prometheus counts it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tidegate_e2e::{
    ControlPlane, Node, NodeSettings, Parts, Prometheus, Traefik, apply, eventually, inside,
};

const PATIENCE: Duration = Duration::from_mins(2);
const HOST: &str = "shop.example.com";

/// A Deployment of one pod and a Service for it.
async fn side(client: &Client, name: &str, version: &str) -> Result<()> {
    let labels = json!({ "app": name });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "shop" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{
                    "name": "shop", "image": format!("shop:{version}"),
                    "ports": [{ "containerPort": 9898 }],
                }] },
            },
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": "shop" },
        "spec": { "selector": labels, "ports": [{ "port": 9898 }] },
    });
    apply(client, &deployment).await?;
    apply(client, &service).await?;
    Ok(())
}

fn rules(primary: u8, canary: u8) -> Value {
    json!([{ "backendRefs": [
        { "name": "primary", "port": 9898, "weight": primary },
        { "name": "canary", "port": 9898, "weight": canary },
    ] }])
}

fn counts(primary: usize, canary: usize) -> BTreeMap<String, usize> {
    BTreeMap::from([("1.0.0".to_owned(), primary), ("2.0.0".to_owned(), canary)])
}

#[test]
fn a_split_is_exact_before_and_after_a_patch() {
    inside("a_split_is_exact_before_and_after_a_patch", async || {
        let plane = ControlPlane::start(&Parts::find()?).await?;
        let _node = Node::start(&plane, NodeSettings::default()).await?;
        let traefik = Traefik::start(&plane).await?;
        let targets = [("traefik", traefik.metrics())];
        let prometheus = Prometheus::start(plane.parts(), plane.folder(), &targets).await?;
        let client = plane.client();
        let shop =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
        apply(&client, &shop).await?;
        side(&client, "primary", "1.0.0").await?;
        side(&client, "canary", "2.0.0").await?;
        apply(&client, &traefik.gateway("shop", "public")).await?;
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": { "name": "shop", "namespace": "shop" },
            "spec": {
                "hostnames": [HOST], "parentRefs": [{ "name": "public" }], "rules": rules(90, 10),
            },
        });
        apply(&client, &route).await?;
        // Both sides answer once the route has pods of both.
        split(&traefik, 90, 10).await?;

        let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute");
        let routes: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), "shop", &ApiResource::from_gvk(&kind));
        let half = json!({ "spec": { "rules": rules(50, 50) } });
        routes.patch("shop", &PatchParams::default(), &Patch::Merge(&half)).await?;
        split(&traefik, 50, 50).await?;

        let query = r#"sum(traefik_service_requests_total{service=~".*canary.*",code="200"})"#;
        eventually("Prometheus counted", PATIENCE, async || {
            let number = prometheus.number(query).await?;
            Ok(number.filter(|number| *number >= 660.0))
        })
        .await?;
        Ok(())
    });
}

/// Waits until a thousand requests are split so, to the request; a hundred show whether it is worth a try.
/// A reload of Traefik during them starts its count anew.
async fn split(traefik: &Traefik, primary: usize, canary: usize) -> Result<()> {
    traefik.routes(HOST).await?;
    eventually("traffic is split as the route says", PATIENCE, async || {
        let is_so = traefik.versions(HOST, 100).await? == counts(primary, canary)
            && traefik.versions(HOST, 1000).await? == counts(10 * primary, 10 * canary);
        Ok(is_so.then_some(()))
    })
    .await
}
