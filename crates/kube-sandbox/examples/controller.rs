//! A small controller written with kube-rs, and its test on a cluster in memory.
//!
//! The controller keeps a ConfigMap beside each Deployment that says how many pods are ready.
//!
//! ```text
//! cargo test -p kube-sandbox --example controller
//! ```

#![expect(clippy::print_stdout, reason = "it shows what happened")]

use std::error::Error;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use kube_sandbox::{Sandbox, Settings, manifests};
use serde_json::json;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: app, image: 'web:1' }] }
";

/// Brings each ConfigMap up to date.
async fn reconcile(client: &Client) -> kube::Result<()> {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for deployment in deployments.list(&ListParams::default()).await? {
        let name = format!("{}-ready", deployment.name_any());
        let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "ready": ready.to_string() },
        });
        let who = PatchParams::apply("ready-controller").force();
        maps.patch(&name, &who, &Patch::Apply(map)).await?;
    }
    Ok(())
}

/// The test: pods start under a virtual clock, and the ConfigMap follows.
async fn the_map_follows_the_pods() -> Result<(), Box<dyn Error>> {
    let sandbox = Sandbox::new(Settings::for_tests());
    let client = Client::new(sandbox.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    sandbox.load(manifests::parse(WEB)?)?;

    reconcile(&client).await?;
    assert_eq!(maps.get("web-ready").await?.data.unwrap_or_default()["ready"], "0");

    // The workload controllers and the kubelet work until nothing is due.
    sandbox.settle();
    reconcile(&client).await?;
    assert_eq!(maps.get("web-ready").await?.data.unwrap_or_default()["ready"], "2");

    // A look that finds nothing new writes nothing new.
    let before = maps.get("web-ready").await?.resource_version();
    reconcile(&client).await?;
    assert_eq!(maps.get("web-ready").await?.resource_version(), before);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    the_map_follows_the_pods().await?;
    println!("the ConfigMap went from 0 to 2 with the pods of the Deployment");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn the_map_follows_the_pods() {
        super::the_map_follows_the_pods().await.unwrap();
    }
}
