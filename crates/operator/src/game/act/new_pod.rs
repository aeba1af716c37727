//! Creates pods, with names that are free and claims that are there.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use tidegate_engine::game::NewPod;
use tidegate_providers::{
    game::{POD, VOLUME_CLAIM, is_selected, pods, revision},
    object::controller_of,
};

use crate::{
    cluster::{cache::Key, write::WriteError},
    game::{observe::Observation, workload_ref::WorkloadRef},
};

/// Letters and digits that make no words.
pub(super) const ID_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const ID_LENGTH: usize = 5;

/// Creates a pod, and the claims of a numbered one before it. Returns its name.
pub(super) async fn create(
    workload: &WorkloadRef,
    observation: &Observation,
    pod: &NewPod,
    created: &BTreeSet<String>,
) -> Result<String, WriteError> {
    let cluster = &workload.cx.cluster;
    let Some(known) = observation.revisions.get(pod.revision.as_str()) else {
        return Err(WriteError::Missing { what: format!("revision {}", pod.revision) });
    };
    let name = match pod.ordinal {
        Some(ordinal) => format!("{}-{ordinal}", workload.key.name),
        None => free_name(workload, observation, created),
    };
    if let Some(ordinal) = pod.ordinal {
        for claim in pods::new_claims(&observation.workload, ordinal) {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            match cluster.create(workload.place(VOLUME_CLAIM, name), &claim).await {
                Ok(_) => {}
                Err(WriteError::Conflict { .. }) => require_claim(workload, name).await?,
                Err(error) => return Err(error),
            }
        }
    }
    let template = revision::template(known);
    let body = pods::new(workload.kind, &observation.workload, &template, pod, &name);
    match (cluster.create_named(workload.place(POD, &name), &body).await, pod.ordinal) {
        (Ok(_), _) => {}
        (Err(error), None) => return Err(nameless(error, &name, &workload.key.name)),
        (Err(error @ WriteError::Conflict { .. }), Some(_)) => {
            require_free(workload, observation, &name).await?;
            return Err(error);
        }
        (Err(error), Some(_)) => return Err(error),
    }
    Ok(name)
}

/// A name that no pod has, and that none had a moment ago.
pub(super) fn free_name(
    workload: &WorkloadRef,
    observation: &Observation,
    created: &BTreeSet<String>,
) -> String {
    let mut number = 0_u32;
    loop {
        let text = format!("{}/{}/{number}", workload.uid, observation.observed.now.0);
        let digest = Sha256::digest(text.as_bytes());
        let letters = digest
            .iter()
            .take(ID_LENGTH)
            .filter_map(|byte| ID_LETTERS.get(usize::from(*byte) % ID_LETTERS.len()));
        let id: String = letters.map(|letter| char::from(*letter)).collect();
        let name = format!("{}-{id}", workload.key.name);
        let key = Key::new(&workload.key.namespace, &name);
        let is_known = workload.cx.cluster.cache.get(POD, &key).is_some();
        let was_seen = observation.observed.pods.iter().any(|pod| pod.name == name);
        if !is_known && !was_seen && !created.contains(&name) {
            return name;
        }
        number += 1;
    }
}

/// A claim outlives its pod by design. One that is being deleted waits for its pod to end, and a pod created
/// meanwhile would have no claim.
async fn require_claim(workload: &WorkloadRef, name: &str) -> Result<(), WriteError> {
    let claim = workload.cx.cluster.read(workload.place(VOLUME_CLAIM, name)).await?;
    match claim {
        Some(claim) if claim["metadata"]["deletionTimestamp"].is_null() => Ok(()),
        Some(_) => Err(WriteError::Refused {
            what: "the pod of a claim".to_owned(),
            why: format!("PersistentVolumeClaim {name} is being deleted"),
        }),
        None => Err(WriteError::Conflict { what: format!("PersistentVolumeClaim {name}") }),
    }
}

/// A foreign pod of this name that cannot be adopted blocks ours until it is deleted.
async fn require_free(
    workload: &WorkloadRef,
    observation: &Observation,
    name: &str,
) -> Result<(), WriteError> {
    let Some(pod) = workload.cx.cluster.read(workload.place(POD, name)).await? else {
        return Ok(());
    };
    let owner = match controller_of(&pod) {
        Some((kind, of)) if (kind, of) != (workload.kind.kind, &*workload.key.name) => {
            format!("belongs to {kind} {of}")
        }
        None if !is_selected(
            &observation.workload["spec"]["selector"],
            &pod["metadata"]["labels"],
        ) =>
        {
            "has no owner, and other labels than the selector".to_owned()
        }
        Some(_) | None => return Ok(()),
    };
    Err(WriteError::Refused {
        what: format!("Pod {name}"),
        why: format!("there is a pod of that name, which {owner}"),
    })
}

/// Removes the random name from a rejection: each attempt has another one, and the rejection is the same.
fn nameless(error: WriteError, name: &str, workload: &str) -> WriteError {
    let any = format!("{workload}-*");
    if let WriteError::Refused { what, why } = error {
        return WriteError::Refused {
            what: what.replace(name, &any),
            why: why.replace(name, &any),
        };
    }
    error
}
