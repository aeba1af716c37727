//! The cluster for scripts: one of our own, or a user's.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    serde::de::DeserializeOwned,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use kube_sandbox::kubelet::{Behaviour, Behaviours};
use serde_json::json;

use super::clerk::resource;
use crate::{
    ControlPlane, Installation, Node, NodeSettings, Operator, Options, apply,
    control_plane::{Proxy, client_by},
    denied, eventually, objects,
    scratch::Scratch,
    stage::cluster,
};

/// The longest deletion of a namespace, with pods that get their grace period.
const PATIENCE: Duration = Duration::from_mins(3);
/// A node takes 110 pods; a script has up to ten at a time.
const NODES: u8 = 6;
/// The images of pods on a user's cluster, for `web:1.0`, `web:2.0` and `web:3.0`; small, public and never
/// failing to become ready.
const IMAGES: &str =
    "registry.k8s.io/pause:3.8,registry.k8s.io/pause:3.9,registry.k8s.io/pause:3.10";
/// An operator that watches all namespaces writes the status of a new canary well within this.
const ANSWERS_IN: Duration = Duration::from_secs(5);
const OF_A_REGISTRY: &str = "pods of a real registry do as they please";
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
        /// Behaviours of pods, by image.
        behaviours: Behaviours,
    },
    Borrowed(Borrowed),
}

/// A cluster that others use too: every object that was created there is deleted again.
struct Borrowed {
    kubeconfig: PathBuf,
    /// The prefix of the names of namespaces.
    prefix: String,
    /// The images of pods in place of those of scripts.
    images: Vec<String>,
    /// Definitions that were created for the scripts.
    made: Vec<String>,
    /// The versions that the cluster serves, as `group/version`.
    versions: BTreeSet<String>,
    _scratch: Scratch,
}

// === impl Theatre ===

impl Theatre {
    /// A control plane with nodes.
    pub async fn open() -> Result<Self> {
        // No requests are sent to pods here.
        let settings =
            NodeSettings { applications: false, count: NODES, ..NodeSettings::default() };
        let audited = Some(Installation::USER.to_owned());
        let options = Options { audited, ..Options::default() };
        let behaviours = settings.kubelet.behaviours.clone();
        let (plane, node) = cluster(&options, settings).await?;
        let installation = Installation::apply(&plane, &["--allow-loopback-hooks"]).await?;
        let client = plane.client();
        let kind = Kind::Own { plane: Box::new(plane), _node: node, behaviours };
        Ok(Self { client, installation: installation.without_election(), kind })
    }

    /// The cluster of a kubeconfig. The operator runs beside it, with the permissions of its user, and
    /// watches only the namespaces made here.
    pub async fn borrow(kubeconfig: &Path) -> Result<Self> {
        let client = client_by(kubeconfig, Proxy::AsConfigured).await?;
        let version = client.apiserver_version().await;
        version.with_context(|| format!("no cluster answers at {}", kubeconfig.display()))?;
        let images = std::env::var("E2E_IMAGES").unwrap_or_else(|_| IMAGES.to_owned());
        let images: Vec<String> = images.split(',').map(str::to_owned).collect();
        let wanted = SCRIPTED.len();
        ensure!(images.len() == wanted, "E2E_IMAGES names {wanted} images, one comma apart");
        let scratch = Scratch::new()?;
        let installation = Installation::bare(scratch.path(), &["--allow-loopback-hooks"])?;
        let groups = client.list_api_groups().await?.groups;
        let versions = groups.into_iter().flat_map(|group| group.versions);
        let mut borrowed = Borrowed {
            prefix: format!("tidegate-e2e-{}", std::process::id()),
            images,
            versions: versions.map(|it| it.group_version).collect(),
            kubeconfig: kubeconfig.to_owned(),
            made: Vec::new(),
            _scratch: scratch,
        };
        // From here on there are objects to delete again, whatever happens.
        let defined = define(&client, &mut borrowed.made).await;
        let theatre = Self { client, installation, kind: Kind::Borrowed(borrowed) };
        let prepared = match defined {
            Ok(()) => theatre.is_alone().await,
            Err(error) => Err(error),
        };
        if let Err(error) = prepared {
            theatre.close().await.context("what was put into the cluster is still there")?;
            return Err(error);
        }
        Ok(theatre)
    }

    /// Fails if another operator watches canaries of all namespaces: both would act on each of ours.
    async fn is_alone(&self) -> Result<()> {
        let namespace = self.make_namespace("probe").await?;
        let canaries = self.canaries(&namespace);
        let probe = json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "metadata": { "name": "probe" },
            "spec": {
                "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "probe" },
                "service": { "port": 80 },
                "analysis": { "interval": "1m", "threshold": 1, "iterations": 1 },
            },
        });
        canaries.create(&PostParams::default(), &serde_json::from_value(probe)?).await?;
        tokio::time::sleep(ANSWERS_IN).await;
        let probe = serde_json::to_value(canaries.get("probe").await?)?;
        self.remove_namespace(&namespace).await?;
        ensure!(
            probe["status"].is_null() && probe["metadata"]["finalizers"].is_null(),
            "another operator looks after canaries of all namespaces of this cluster: stop it, or use another \
             cluster"
        );
        Ok(())
    }

    fn canaries(&self, namespace: &str) -> Api<DynamicObject> {
        let canaries = resource("flagger.app", "v1beta1", "Canary", "canaries");
        Api::namespaced_with(self.client.clone(), namespace, &canaries)
    }

    /// Denied requests of operators. On a borrowed cluster they have the permissions of its user.
    pub fn denied(&self) -> Result<BTreeSet<String>> {
        match &self.kind {
            Kind::Own { plane, .. } => Ok(denied(&plane.asked()?)),
            Kind::Borrowed(_) => Ok(BTreeSet::new()),
        }
    }

    /// Deletes all objects of ours from a borrowed cluster, as far as possible, and then reports the rest.
    pub async fn close(self) -> Result<()> {
        let Kind::Borrowed(borrowed) = &self.kind else { return Ok(()) };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let left = namespaces.list(&ListParams::default()).await?;
        let left = left.iter().map(ResourceExt::name_any);
        let prefix = format!("{}-", borrowed.prefix);
        let mut outcomes = Vec::new();
        for name in left.filter(|name| name.starts_with(&prefix)) {
            outcomes.push(self.remove_namespace(&name).await);
        }
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for name in &borrowed.made {
            outcomes.push(remove(&definitions, name).await);
        }
        outcomes.into_iter().collect()
    }

    /// Whether kinds of this group and version are served.
    pub(super) fn knows(&self, group: &str, version: &str) -> bool {
        let Kind::Borrowed(borrowed) = &self.kind else { return true };
        // Every cluster serves the core, and ours were defined after discovery.
        let is_certain = group.is_empty() || group == "flagger.app";
        is_certain || borrowed.versions.contains(&format!("{group}/{version}"))
    }

    /// Sets the behaviour of pods of an image in this namespace.
    pub(super) fn change_pods(
        &self,
        namespace: &str,
        image: &str,
        behaviour: Behaviour,
    ) -> Result<(), String> {
        let Kind::Own { behaviours, .. } = &self.kind else { return Err(OF_A_REGISTRY.to_owned()) };
        behaviours.set(&format!("{namespace}/{image}"), behaviour);
        Ok(())
    }

    /// A requirement of a script that is missing here.
    pub(super) fn lacks(&self, text: &str) -> Option<&'static str> {
        let Kind::Borrowed(borrowed) = &self.kind else { return None };
        let knows = |group: &str| self.knows(group, "v1");
        let is_scripted = [" become ", "-slow-start", "-never-ready"];
        if is_scripted.iter().any(|words| text.contains(words)) {
            return Some(OF_A_REGISTRY);
        }
        if text.contains("gatewayapi") && !knows("gateway.networking.k8s.io") {
            return Some("this cluster does not know version 1 of the Gateway API");
        }
        if (text.contains("istio") || text.contains("virtual service"))
            && !knows("networking.istio.io")
        {
            return Some("this cluster does not know version 1 of Istio's kinds");
        }
        let has_keda = borrowed.versions.iter().any(|version| version.starts_with("keda.sh/"));
        if text.contains("no KEDA") && has_keda {
            return Some("this cluster knows KEDA");
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

    /// From a borrowed cluster. One of our own is dropped as a whole.
    pub(super) async fn remove_namespace(&self, name: &str) -> Result<()> {
        if let Kind::Own { .. } = self.kind {
            return Ok(());
        }
        // No operator is left to finish the deletion of canaries with a finalizer.
        let canaries = self.canaries(name);
        let let_go = json!({ "metadata": { "finalizers": null } });
        for canary in canaries.list(&ListParams::default()).await? {
            let parameters = PatchParams::default();
            let outcome =
                canaries.patch(&canary.name_any(), &parameters, &Patch::Merge(&let_go)).await;
            outcome.map(drop).or_else(unless_gone)?;
        }
        remove(&Api::<Namespace>::all(self.client.clone()), name).await
    }

    pub(super) async fn start_operator(&self, name: &str, flags: &[String]) -> Result<Operator> {
        let installation = self.installation.clone().with(flags);
        match &self.kind {
            Kind::Own { plane, .. } => installation.start(plane, name).await,
            Kind::Borrowed(borrowed) => installation.start_with(&borrowed.kubeconfig, name).await,
        }
    }

    /// Replaces images of scripts by those here: those of each namespace may have their own behaviour.
    pub(super) fn outward(&self, namespace: &str, text: String) -> String {
        let Kind::Borrowed(borrowed) = &self.kind else {
            return text.replace("\"web:", &format!("\"{namespace}/web:"));
        };
        let pairs = SCRIPTED.iter().zip(&borrowed.images);
        pairs.fold(text, |text, (scripted, image)| text.replace(scripted, image))
    }

    /// Replaces the images here by those of scripts.
    pub(super) fn inward(&self, namespace: &str, text: String) -> String {
        let Kind::Borrowed(borrowed) = &self.kind else {
            return text.replace(&format!("{namespace}/web:"), "web:");
        };
        let pairs = SCRIPTED.iter().zip(&borrowed.images).rev();
        pairs.fold(text, |text, (scripted, image)| text.replace(image, scripted))
    }
}

/// Deletes a cluster-scoped object, and waits until it is gone.
async fn remove<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.map(drop).or_else(unless_gone)?;
    eventually(&format!("{name} is gone"), PATIENCE, async || {
        Ok(api.get_opt(name).await?.is_none().then_some(()))
    })
    .await
}

fn unless_gone(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => Err(error),
    }
}

/// Creates the definitions of our kinds where they are missing, and returns the created ones.
async fn define(client: &Client, made: &mut Vec<String>) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut missing = Vec::new();
    let ours = tidegate_api::crds();
    for definition in ours.iter().filter(|it| it["spec"]["group"] == "flagger.app") {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if definitions.get_opt(&name).await?.is_none() {
            missing.push(definition);
            made.push(name);
        }
    }
    objects::define(client, missing).await
}
