//! Writes that come before any decision: orphans are adopted, pods released, revisions created.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_engine::game::RevisionChoice;
use tidegate_providers::{
    game::{CONTROLLER_REVISION, HOOK_RUN, POD, names, revision, selector_text},
    object::Kind,
};

use super::{observe::Revise, workload_ref::WorkloadRef};
use crate::cluster::{cache::Key, write::WriteError};

/// Makes the workload the owner of an orphan. The workload is read from the API server first: one that is
/// being deleted must not adopt anything.
pub(super) async fn adopt(
    workload: &WorkloadRef,
    kind: Kind,
    orphan: &Value,
) -> Result<(), WriteError> {
    let own = workload.cx.cluster.read(workload.own_place("")).await?;
    let is_alive = |own: &Value| {
        own["metadata"]["uid"] == workload.uid.as_str()
            && own["metadata"]["deletionTimestamp"].is_null()
    };
    let Some(own) = own.filter(is_alive) else {
        return Err(WriteError::Missing { what: workload.key.to_string() });
    };
    let mut owners = orphan["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners.push(revision::owner(workload.kind, &own));
    write_owners(workload, kind, orphan, &json!(owners)).await
}

/// Takes the workload's owner reference off a pod that is not selected any more.
pub(super) async fn release(workload: &WorkloadRef, pod: &Value) -> Result<(), WriteError> {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let others: Vec<&Value> = owners.filter(|it| it["uid"] != workload.uid.as_str()).collect();
    write_owners(workload, POD, pod, &json!(others)).await
}

async fn write_owners(
    workload: &WorkloadRef,
    kind: Kind,
    object: &Value,
    owners: &Value,
) -> Result<(), WriteError> {
    let metadata = &object["metadata"];
    let patch = json!({ "metadata": {
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        "ownerReferences": owners,
    } });
    let name = metadata["name"].as_str().unwrap_or_default();
    workload.cx.cluster.merge(workload.place(kind, name), &patch).await.map(|_| ())
}

/// Creates the revision of the template, or gives it the highest number. Returns the number of collisions, if
/// the name of a new revision turned out to be taken.
pub(super) async fn revise(
    workload: &WorkloadRef,
    revise: &Revise,
) -> Result<Option<u32>, WriteError> {
    let cluster = &workload.cx.cluster;
    match &revise.choice {
        RevisionChoice::Use(_) => Ok(None),
        RevisionChoice::Renumber(name, number) => {
            let key = Key::new(&workload.key.namespace, name.as_str());
            let known = cluster.cache.get(CONTROLLER_REVISION, &key);
            let version = known.map(|it| it["metadata"]["resourceVersion"].clone());
            let patch = json!({
                "metadata": { "resourceVersion": version }, "revision": number,
            });
            let place = workload.place(CONTROLLER_REVISION, name.as_str());
            cluster.merge(place, &patch).await.map(|_| None)
        }
        RevisionChoice::Create { name, number, collisions } => {
            let body = revision::new(workload.kind, &revise.workload, name, *number, &revise.data);
            let place = workload.place(CONTROLLER_REVISION, name.as_str());
            match cluster.create_named(place, &body).await {
                Err(WriteError::Conflict { .. }) => {
                    let is_taken = is_taken(workload, name.as_str()).await?;
                    Ok(is_taken.then(|| collisions.saturating_add(1)))
                }
                made => made.map(|_| None),
            }
        }
    }
}

/// Whether the name of a revision has another owner.
async fn is_taken(workload: &WorkloadRef, name: &str) -> Result<bool, WriteError> {
    let cluster = &workload.cx.cluster;
    cluster.refresh(workload.place(CONTROLLER_REVISION, name)).await?;
    let key = Key::new(&workload.key.namespace, name);
    let Some(found) = cluster.cache.get(CONTROLLER_REVISION, &key) else { return Ok(false) };
    Ok(!is_owned(&found, &workload.uid))
}

/// Reads everything of the workload from the API server.
pub(super) async fn refresh(workload: &WorkloadRef) -> Result<(), WriteError> {
    let cluster = &workload.cx.cluster;
    cluster.refresh(workload.own_place("")).await?;
    let Some(object) = cluster.cache.get(workload.kind, &workload.key) else { return Ok(()) };
    let selector = selector_text(&object["spec"]["selector"]);
    let namespace = &workload.key.namespace;
    for (kind, selector) in
        [(POD, selector.as_str()), (CONTROLLER_REVISION, &selector), (HOOK_RUN, names::RUN_TYPE)]
    {
        let found = cluster.read_all(kind, namespace, selector).await?;
        let keys: BTreeSet<Key> = found.iter().map(Key::of).collect();
        for object in found {
            cluster.cache.cache_insert(kind, object);
        }
        for known in cluster.cache.list_in(kind, namespace) {
            if is_owned(&known, &workload.uid) && !keys.contains(&Key::of(&known)) {
                cluster.cache.cache_remove(kind, &Key::of(&known));
            }
        }
    }
    Ok(())
}

fn is_owned(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|it| it["uid"] == uid))
}

#[cfg(test)]
mod tests;
