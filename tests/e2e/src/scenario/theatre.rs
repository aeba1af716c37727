//! The cluster that scripts are played on: one of our own, or a user's.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::clerk::resource;
use crate::{
    ControlPlane, Installation, Node, NodeSettings, Operator, Options, apply,
    control_plane::client_of, denied, eventually, objects, scratch::Scratch, stage::cluster,
};

/// How long a namespace may take to go, with pods that are given their time to stop.
const PATIENCE: Duration = Duration::from_mins(3);
/// A node takes 110 pods; a script has up to ten at a time.
const NODES: u8 = 6;
/// What pods run on a user's cluster, as `web:1.0`, `web:2.0` and `web:3.0`; small, public and never ready
/// to fail.
const IMAGES: &str =
    "registry.k8s.io/pause:3.8,registry.k8s.io/pause:3.9,registry.k8s.io/pause:3.10";
/// The images of scripts.
const SCRIPTED: [&str; 3] = ["web:1.0", "web:2.0", "web:3.0"];

/// A cluster for many scripts.
pub struct Theatre {
    pub(super) client: Client,
    installation: Installation,
    kind: Kind,
}

enum Kind {
    /// Dropping it ends it.
    Own {
        plane: Box<ControlPlane>,
        _node: Node,
    },
    Borrowed(Borrowed),
}

/// A cluster that others use too: everything that was put into it is taken out again.
struct Borrowed {
    kubeconfig: PathBuf,
    /// What the names of namespaces begin with.
    prefix: String,
    /// What pods run in place of the images of scripts.
    images: Vec<String>,
    /// Definitions that were not there before.
    made: Vec<String>,
    /// Groups of kinds that the cluster knows.
    groups: Vec<String>,
    _scratch: Scratch,
}

// === impl Theatre ===

impl Theatre {
    /// A control plane with nodes.
    pub async fn open() -> Result<Self> {
        // Nobody sends requests to pods here.
        let settings =
            NodeSettings { applications: false, count: NODES, ..NodeSettings::default() };
        let audited = Some(Installation::USER.to_owned());
        let options = Options { audited, ..Options::default() };
        let (plane, node) = cluster(&options, settings).await?;
        let installation = Installation::apply(&plane, &["--allow-loopback-hooks"]).await?;
        let client = plane.client();
        let kind = Kind::Own { plane: Box::new(plane), _node: node };
        Ok(Self { client, installation: installation.without_election(), kind })
    }

    /// The cluster of a kubeconfig. The operator runs beside it, with the rights of its user, and looks
    /// after nothing but namespaces made here.
    pub async fn borrow(kubeconfig: &Path) -> Result<Self> {
        let client = client_of(kubeconfig).await?;
        let version = client.apiserver_version().await;
        version.with_context(|| format!("no cluster answers at {}", kubeconfig.display()))?;
        let made = define(&client).await?;
        let groups = client.list_api_groups().await?.groups;
        let images = std::env::var("E2E_IMAGES").unwrap_or_else(|_| IMAGES.to_owned());
        let scratch = Scratch::new()?;
        let installation = Installation::bare(scratch.path(), &["--allow-loopback-hooks"])?;
        let kind = Kind::Borrowed(Borrowed {
            prefix: format!("tidegate-e2e-{}", std::process::id()),
            images: images.split(',').map(str::to_owned).collect(),
            groups: groups.into_iter().map(|group| group.name).collect(),
            kubeconfig: kubeconfig.to_owned(),
            made,
            _scratch: scratch,
        });
        Ok(Self { client, installation, kind })
    }

    /// What operators asked for without the right to it. On a borrowed cluster they have those of its user.
    pub fn denied(&self) -> Result<BTreeSet<String>> {
        match &self.kind {
            Kind::Own { plane, .. } => Ok(denied(&plane.asked()?)),
            Kind::Borrowed(_) => Ok(BTreeSet::new()),
        }
    }

    /// Takes out again what was put into a borrowed cluster.
    pub async fn close(self) -> Result<()> {
        let Kind::Borrowed(borrowed) = self.kind else { return Ok(()) };
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client);
        for name in &borrowed.made {
            definitions.delete(name, &DeleteParams::default()).await?;
            eventually(&format!("{name} is gone"), PATIENCE, async || {
                Ok(definitions.get_opt(name).await?.is_none().then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// What a script needs that is not here.
    pub(super) fn lacks(&self, text: &str) -> Option<&'static str> {
        let Kind::Borrowed(borrowed) = &self.kind else { return None };
        let has = |group: &str| borrowed.groups.iter().any(|known| known == group);
        if text.contains("-slow-start") || text.contains("-never-ready") {
            return Some("pods of a real registry do as they please");
        }
        if text.contains("gatewayapi") && !has("gateway.networking.k8s.io") {
            return Some("this cluster does not know the Gateway API");
        }
        if (text.contains("istio") || text.contains("virtual service"))
            && !has("networking.istio.io")
        {
            return Some("this cluster does not know Istio");
        }
        None
    }

    pub(super) async fn make_namespace(&self, name: &str) -> Result<String> {
        let name = match &self.kind {
            Kind::Own { .. } => name.to_owned(),
            Kind::Borrowed(borrowed) => format!("{}-{name}", borrowed.prefix),
        };
        let object =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        apply(&self.client, &object).await?;
        Ok(name)
    }

    /// From a borrowed cluster. One of our own goes as a whole.
    pub(super) async fn remove_namespace(&self, name: &str) -> Result<()> {
        if let Kind::Own { .. } = self.kind {
            return Ok(());
        }
        // Nobody is left to let canaries go that wait to be reverted.
        let canaries = resource("flagger.app", "v1beta1", "Canary", "canaries");
        let canaries: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), name, &canaries);
        let let_go = json!({ "metadata": { "finalizers": null } });
        for canary in canaries.list(&ListParams::default()).await? {
            let parameters = PatchParams::default();
            canaries.patch(&canary.name_any(), &parameters, &Patch::Merge(&let_go)).await?;
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(name, &DeleteParams::default()).await?;
        eventually(&format!("namespace {name} is gone"), PATIENCE, async || {
            Ok(namespaces.get_opt(name).await?.is_none().then_some(()))
        })
        .await
    }

    pub(super) async fn start_operator(&self, name: &str, flags: &[String]) -> Result<Operator> {
        let installation = self.installation.clone().with(flags);
        match &self.kind {
            Kind::Own { plane, .. } => installation.start(plane, name).await,
            Kind::Borrowed(borrowed) => installation.start_with(&borrowed.kubeconfig, name).await,
        }
    }

    /// Images as scripts write them, as they are here.
    pub(super) fn outward(&self, text: String) -> String {
        let Kind::Borrowed(borrowed) = &self.kind else { return text };
        let pairs = SCRIPTED.iter().zip(&borrowed.images);
        pairs.fold(text, |text, (scripted, image)| text.replace(scripted, image))
    }

    /// Images as they are here, as scripts write them.
    pub(super) fn inward(&self, text: String) -> String {
        let Kind::Borrowed(borrowed) = &self.kind else { return text };
        let pairs = SCRIPTED.iter().zip(&borrowed.images).rev();
        pairs.fold(text, |text, (scripted, image)| text.replace(image, scripted))
    }
}

/// Defines our kinds where they are missing, and says which were.
async fn define(client: &Client) -> Result<Vec<String>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (mut made, mut missing) = (Vec::new(), Vec::new());
    let ours = tidegate_api::crds();
    for definition in ours.iter().filter(|it| it["spec"]["group"] == "flagger.app") {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if definitions.get_opt(&name).await?.is_none() {
            missing.push(definition);
            made.push(name);
        }
    }
    objects::define(client, missing).await?;
    Ok(made)
}
