//! Objects put into a cluster, and waiting for what comes of them.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use http::{Request, header::ACCEPT};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, TypeMeta},
    discovery::{Scope, pinned_kind},
};
use serde_json::Value;

/// Who owns the fields that tests set.
const FIELD_MANAGER: &str = "tidegate-e2e";
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_mins(2);

/// Applies an object on the server's side, whatever its kind, and returns what is stored.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject> {
    let wanted: DynamicObject = serde_json::from_value(object.clone())?;
    let types = wanted.types.clone().context("the object has no kind")?;
    let name = wanted.name_any();
    let api = api_of(client, &types, wanted.metadata.namespace.as_deref()).await?;
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(&name, &parameters, &Patch::Apply(object)).await;
    applied.with_context(|| format!("{} {name} was not taken", types.kind))
}

/// Applies all YAML of a file or folder. Definitions among it are ready for use afterwards.
pub async fn apply_folder(client: &Client, path: &Path) -> Result<()> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
        files = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
    }
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        apply_yaml(client, &text).await.with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Applies all documents of a YAML text in their order, and returns them.
pub async fn apply_yaml(client: &Client, text: &str) -> Result<Vec<Value>> {
    let mut objects: Vec<Value> =
        serde_saphyr::from_multiple(text).context("the manifests are not YAML")?;
    objects.retain(|object| !object.is_null());
    for object in &objects {
        apply(client, object).await?;
        if object["kind"] == "CustomResourceDefinition" {
            established(client, object["metadata"]["name"].as_str().unwrap_or_default()).await?;
        }
    }
    Ok(objects)
}

/// Looks until there is something to see, and fails once it takes too long. `tests/e2e/run` knows that by its
/// words: a test that waited in vain on a busy machine may try once more.
pub async fn eventually<T>(
    what: &str,
    patience: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        let seen = look().await;
        let in_vain = || format!("waited {} s in vain: {what}", patience.as_secs());
        match seen {
            Ok(Some(seen)) => return Ok(seen),
            Ok(None) if Instant::now() > deadline => bail!(in_vain()),
            Err(error) if Instant::now() > deadline => return Err(error.context(in_vain())),
            Ok(None) | Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// Waits until objects of a definition can be stored.
pub(crate) async fn established(client: &Client, definition: &str) -> Result<()> {
    let types = TypeMeta {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
    };
    let definitions = api_of(client, &types, None).await?;
    let what = format!("{definition} is established");
    eventually(&what, PATIENCE, async || {
        let object = definitions.get(definition).await?;
        let conditions =
            object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        Ok(conditions.iter().any(is).then_some(()))
    })
    .await?;
    // The server's own list of kinds is made a moment later, and what in it asks that list keeps it for half a
    // minute: an owner of a kind that is not in it is refused meanwhile.
    let what = format!("{definition} is discovered");
    eventually(&what, PATIENCE, async || Ok(is_discovered(client, definition).await?.then_some(())))
        .await
}

async fn is_discovered(client: &Client, definition: &str) -> Result<bool> {
    let (plural, group) = definition.split_once('.').context("a definition has a group")?;
    let list =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let request = Request::get("/apis").header(ACCEPT, list).body(Vec::new())?;
    let listed: Value = client.request(request).await?;
    if listed["kind"] != "APIGroupDiscoveryList" {
        // A borrowed cluster may be too old to tell.
        return Ok(true);
    }
    let groups = listed["items"].as_array().into_iter().flatten();
    let of_group = groups.filter(|it| it["metadata"]["name"] == group);
    let versions = of_group.flat_map(|it| it["versions"].as_array().into_iter().flatten());
    let mut kinds = versions.flat_map(|it| it["resources"].as_array().into_iter().flatten());
    Ok(kinds.any(|it| it["resource"] == plural))
}

/// The API of a kind, whatever it is.
pub async fn api_of(
    client: &Client,
    types: &TypeMeta,
    namespace: Option<&str>,
) -> Result<Api<DynamicObject>> {
    let kind = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = pinned_kind(client, &kind).await?;
    Ok(match (capabilities.scope, namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
    })
}
