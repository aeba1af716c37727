//! Objects in a cluster, and waits for their state.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use http::{Request, header::ACCEPT};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::{GroupVersionKind, TypeMeta},
    discovery::{Scope, pinned_kind},
};
use serde_json::Value;

/// The owner of the fields that tests set.
const FIELD_MANAGER: &str = "tidegate-e2e";
/// An attempt is a request or two, and many wait at the same time on two cores.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_mins(2);

/// Server-side apply of an object of any kind; returns the stored object.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject> {
    let wanted: DynamicObject = serde_json::from_value(object.clone())?;
    let types = wanted.types.clone().context("the object has no kind")?;
    let name = wanted.name_any();
    let api = api_of(client, &types, wanted.metadata.namespace.as_deref()).await?;
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(&name, &parameters, &Patch::Apply(object)).await;
    applied.with_context(|| format!("{} {name} was not taken", types.kind))
}

/// Applies all YAML of a file or folder. Definitions come first, and are ready for use afterwards.
pub async fn apply_folder(client: &Client, path: &Path) -> Result<()> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
        files = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
    }
    let mut objects = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        objects.extend(parsed(&text).with_context(|| file.display().to_string())?);
    }
    apply_all(client, &objects).await.with_context(|| path.display().to_string())
}

/// Applies all documents of a YAML text, definitions first and the others in their order, and returns them.
pub async fn apply_yaml(client: &Client, text: &str) -> Result<Vec<Value>> {
    let objects = parsed(text)?;
    apply_all(client, &objects).await?;
    Ok(objects)
}

fn parsed(text: &str) -> Result<Vec<Value>> {
    let mut objects: Vec<Value> =
        serde_saphyr::from_multiple(text).context("the manifests are not YAML")?;
    objects.retain(|object| !object.is_null());
    Ok(objects)
}

async fn apply_all(client: &Client, objects: &[Value]) -> Result<()> {
    let is_definition = |object: &&Value| object["kind"] == "CustomResourceDefinition";
    let (definitions, others): (Vec<_>, Vec<_>) = objects.iter().partition(is_definition);
    define(client, definitions).await?;
    for object in others {
        apply(client, object).await?;
    }
    Ok(())
}

/// Applies definitions, and waits until objects of all of them can be stored.
pub(crate) async fn define(
    client: &Client,
    definitions: impl IntoIterator<Item = &Value>,
) -> Result<()> {
    let mut names = BTreeSet::new();
    for definition in definitions {
        apply(client, definition).await?;
        names.insert(definition["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    }
    established(client, &names).await
}

/// Repeats until there is a result, and fails once it takes too long. `tests/e2e/run` knows that by its
/// words: a test that timed out on a busy machine may try once more.
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

/// Waits until objects of all these definitions can be stored.
async fn established(client: &Client, definitions: &BTreeSet<String>) -> Result<()> {
    let types = TypeMeta {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
    };
    let Some(first) = definitions.first() else { return Ok(()) };
    let what = format!("{first} and {} more", definitions.len() - 1);
    let api = api_of(client, &types, None).await?;
    // The server's own list of kinds is made a moment after they are established, and its clients keep the
    // former one for half a minute: an owner of a kind that is not in it is refused meanwhile.
    eventually(&format!("{what} are discovered"), PATIENCE, async || {
        let Some(known) = discovered(client).await? else { return Ok(Some(())) };
        Ok(definitions.is_subset(&known).then_some(()))
    })
    .await?;
    eventually(&format!("{what} are established"), PATIENCE, async || {
        let listed = api.list(&ListParams::default()).await?;
        let ready = listed.iter().filter(|definition| is_established(&definition.data));
        let ready: BTreeSet<_> = ready.map(ResourceExt::name_any).collect();
        Ok(definitions.is_subset(&ready).then_some(()))
    })
    .await
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|condition| condition["type"] == "Established");
    conditions.any(|condition| condition["status"] == "True")
}

/// Names that definitions of all kinds known to the server have, or would have. A borrowed cluster may be
/// too old to list them.
pub(crate) async fn discovered(client: &Client) -> Result<Option<BTreeSet<String>>> {
    let list =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let request = Request::get("/apis").header(ACCEPT, list).body(Vec::new())?;
    let listed: Value = client.request(request).await?;
    if listed["kind"] != "APIGroupDiscoveryList" {
        return Ok(None);
    }
    let mut names = BTreeSet::new();
    for group in listed["items"].as_array().into_iter().flatten() {
        let versions = group["versions"].as_array().into_iter().flatten();
        let kinds = versions.flat_map(|it| it["resources"].as_array().into_iter().flatten());
        let of = group["metadata"]["name"].as_str().unwrap_or_default();
        names.extend(kinds.filter_map(|it| Some(format!("{}.{of}", it["resource"].as_str()?))));
    }
    Ok(Some(names))
}

/// The API of any kind.
pub async fn api_of(
    client: &Client,
    types: &TypeMeta,
    namespace: Option<&str>,
) -> Result<Api<DynamicObject>> {
    let (resource, scope) = known(client, types).await?;
    Ok(match (scope, namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
    })
}

/// The plural of a kind, and its scope. A server is asked once: no two of them disagree about a kind they
/// both have.
async fn known(client: &Client, types: &TypeMeta) -> Result<(ApiResource, Scope)> {
    static KNOWN: Mutex<BTreeMap<(String, String), (ApiResource, Scope)>> =
        Mutex::new(BTreeMap::new());
    let key = (types.api_version.clone(), types.kind.clone());
    let found = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(found) = found {
        return Ok(found);
    }
    let kind = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = pinned_kind(client, &kind).await?;
    let found = (resource, capabilities.scope);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
    Ok(found)
}
