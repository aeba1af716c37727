//! Pods to make and changes to make to pods.
//!
//! A change is a strategic merge patch that names the pod's uid and the version it is based on: of a pod
//! that was replaced or changed meanwhile it is refused.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Map, Value, json};
use tidegate_engine::{
    Moment, Revision,
    game::{Metadata, NewPod, PodChange},
};

use super::{GAME_DEPLOYMENT, GAME_STATEFUL_SET, names, pod::ordinal, revision::owner, time};
use crate::object::Kind;

/// A pod to make: of this template, called so.
pub fn new(kind: Kind, workload: &Value, template: &Value, pod: &NewPod, name: &str) -> Value {
    let metadata = &workload["metadata"];
    let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut labels = map(&template["metadata"]["labels"]);
    let mut annotations = map(&template["metadata"]["annotations"]);
    let mut spec = map(&template["spec"]);
    labels.insert(names::REVISION.to_owned(), pod.revision.as_str().into());
    if kind == GAME_DEPLOYMENT {
        let id = name.rsplit('-').next().unwrap_or_default();
        labels.insert(names::INSTANCE.to_owned(), id.into());
    }
    if let Some(ordinal) = pod.ordinal {
        labels.extend(identity_labels(name, ordinal));
        spec.insert("hostname".to_owned(), name.into());
        spec.insert("subdomain".to_owned(), workload["spec"]["serviceName"].clone());
        let claims = claims(workload, ordinal);
        if !claims.is_empty() {
            let volumes = spec.get("volumes").and_then(Value::as_array).cloned();
            let volumes = with_claims(volumes.unwrap_or_default(), &claims);
            spec.insert("volumes".to_owned(), volumes.into());
        }
    }
    if let Some(index) = pod.index {
        annotations.insert(names::INDEX.to_owned(), index.to_string().into());
        let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let variable = json!({ "name": names::INDEX_VARIABLE, "value": index.to_string() });
            match container["env"].as_array_mut() {
                Some(variables) => {
                    variables.retain(|known| known["name"] != names::INDEX_VARIABLE);
                    variables.push(variable);
                }
                None => container["env"] = json!([variable]),
            }
        }
    }
    // With any update strategy: the user may choose another one later, and a gate cannot be added to a pod
    // that exists.
    let gate = json!({ "conditionType": names::GATE });
    let gates = spec.entry("readinessGates").or_insert_with(|| json!([]));
    if let Some(gates) = gates.as_array_mut()
        && !gates.contains(&gate)
    {
        gates.push(gate);
    }
    let mut made = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": metadata["namespace"], "labels": labels,
            "ownerReferences": [owner(kind, workload)],
        },
        "spec": spec,
    });
    if !annotations.is_empty() {
        made["metadata"]["annotations"] = annotations.into();
    }
    made
}

/// The claims of a numbered pod, to be made before it.
pub fn new_claims(set: &Value, ordinal: usize) -> Vec<Value> {
    let templates = set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
    let names = claims(set, ordinal);
    let make = |(template, (_, claim)): (&Value, (String, String))| {
        let mut labels = template["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        let selected = set["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten();
        labels.extend(selected.map(|(name, value)| (name.clone(), value.clone())));
        let mut made = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim, "namespace": set["metadata"]["namespace"], "labels": labels,
            },
            "spec": template["spec"],
        });
        if template["metadata"]["annotations"].is_object() {
            made["metadata"]["annotations"] = template["metadata"]["annotations"].clone();
        }
        made
    };
    templates.zip(names).map(make).collect()
}

/// Volume and claim of each claim template, for a numbered pod.
fn claims(set: &Value, ordinal: usize) -> Vec<(String, String)> {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    let templates = set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
    let volumes = templates.filter_map(|template| template["metadata"]["name"].as_str());
    volumes.map(|volume| (volume.to_owned(), format!("{volume}-{name}-{ordinal}"))).collect()
}

/// Volumes named like a claim are replaced.
fn with_claims(mut volumes: Vec<Value>, claims: &[(String, String)]) -> Vec<Value> {
    volumes.retain(|volume| !claims.iter().any(|(name, _)| volume["name"] == name.as_str()));
    volumes.extend(claims.iter().map(
        |(name, claim)| json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } }),
    ));
    volumes
}

fn identity_labels(name: &str, ordinal: usize) -> Map<String, Value> {
    let labels = [
        (names::SET_POD.to_owned(), Value::from(name)),
        (names::SET_ORDINAL.to_owned(), Value::from(ordinal.to_string())),
    ];
    labels.into_iter().collect()
}

/// Whether the labels of a numbered pod are those of its number. Its volumes cannot be changed.
pub(super) fn is_identified(pod: &Value) -> bool {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let Some(ordinal) = ordinal(name) else { return true };
    let labels = &pod["metadata"]["labels"];
    identity_labels(name, ordinal).iter().all(|(key, value)| labels[key] == *value)
}

/// Fixes the labels of a numbered pod. Its volumes cannot be changed once it exists.
pub fn identify(pod: &Value) -> Value {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let labels = ordinal(name).map(|ordinal| identity_labels(name, ordinal)).unwrap_or_default();
    based_on(pod, json!({ "metadata": { "labels": labels } }))
}

/// Marks the pod as about to be deleted, or removes the mark.
pub fn mark(pod: &Value, is_leaving: bool) -> Value {
    annotate(pod, names::DELETING, is_leaving.then_some("true"))
}

/// Forgets a change that waited.
pub fn drop_grace(pod: &Value) -> Value {
    annotate(pod, names::UPDATE_GRACE, None)
}

/// No hook is owed any more.
pub fn clear_post_hook(pod: &Value) -> Value {
    annotate(pod, names::OWES_POST_HOOK, None)
}

fn annotate(pod: &Value, name: &str, value: Option<&str>) -> Value {
    based_on(pod, json!({ "metadata": { "annotations": { name: value } } }))
}

/// Sets the condition of the readiness gate, through the status.
pub fn set_gate(pod: &Value, is_open: bool, now: Moment) -> Value {
    let mut condition = json!({
        "type": names::GATE, "status": if is_open { "True" } else { "False" },
        "lastTransitionTime": time::text(now), "reason": Value::Null,
    });
    if !is_open {
        condition["reason"] = "StartInPlaceUpdate".into();
    }
    based_on(pod, json!({ "status": { "conditions": [condition] } }))
}

/// Begins an update in place: the label, the state before, and the change or that it waits.
pub fn update_in_place(pod: &Value, change: &PodChange) -> Value {
    let mut patch = relabelled(change);
    let annotations = &mut patch["metadata"]["annotations"];
    annotations[names::UPDATE_STATE] = state(change).into();
    annotations[names::UPDATE_GRACE] = change.grace.map_or(Value::Null, |grace| {
        let mut waiting = json!({
            "revision": change.revision.as_str(),
            "from": change.from.as_ref().map(Revision::as_str),
            "containerImages": change.images,
            "graceSeconds": grace.as_secs(),
        });
        let metadata = metadata_patch(change);
        if !metadata.is_empty() {
            let patch = json!({ "metadata": metadata }).to_string();
            waiting["metaDataPatch"] = BASE64.encode(patch).into();
        }
        waiting.to_string().into()
    });
    if change.owes_post_hook {
        annotations[names::OWES_POST_HOOK] = change.revision.as_str().into();
    }
    if change.grace.is_none() {
        make(&mut patch, change);
    }
    based_on(pod, patch)
}

/// Labels and annotations that a change sets and removes, as a patch has them.
fn metadata_patch(change: &PodChange) -> Map<String, Value> {
    let mut patch = Map::new();
    for (member, changes) in [("labels", &change.labels), ("annotations", &change.annotations)] {
        if !changes.is_empty() {
            patch.insert(member.to_owned(), json!(changes));
        }
    }
    patch
}

/// The same, read back from the text it is written as. A text that cannot be read is none.
pub(super) fn metadata(text: &str) -> Metadata {
    let patch = BASE64.decode(text).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let patch: Value = patch.unwrap_or_default();
    let member = |name: &str| {
        let members = patch["metadata"][name].as_object().into_iter().flatten();
        // Directives of such a patch are not keys.
        let keys = members.filter(|(key, _)| !key.starts_with('$'));
        keys.map(|(key, value)| (key.clone(), value.as_str().map(str::to_owned))).collect()
    };
    Metadata { labels: member("labels"), annotations: member("annotations") }
}

/// Makes the change that waited, and records the state before anew.
pub fn apply_grace(pod: &Value, change: &PodChange) -> Value {
    let mut patch = relabelled(change);
    let annotations = &mut patch["metadata"]["annotations"];
    annotations[names::UPDATE_STATE] = state(change).into();
    annotations[names::UPDATE_GRACE] = Value::Null;
    make(&mut patch, change);
    based_on(pod, patch)
}

/// Changes images while the pod serves.
pub fn hot_patch(pod: &Value, change: &PodChange) -> Value {
    let mut patch = relabelled(change);
    let annotations = &mut patch["metadata"]["annotations"];
    annotations[names::HOT_PATCH_STATE] = state(change).into();
    annotations[names::UPDATE_STATE] = Value::Null;
    annotations[names::UPDATE_GRACE] = Value::Null;
    if pod["metadata"]["annotations"][names::HOT_PATCH].is_null() {
        annotations[names::HOT_PATCH] = "true".into();
    }
    make(&mut patch, change);
    based_on(pod, patch)
}

fn relabelled(change: &PodChange) -> Value {
    json!({ "metadata": {
        "labels": { names::REVISION: change.revision.as_str() }, "annotations": {},
    } })
}

/// The state before, which tells when the update is over.
fn state(change: &PodChange) -> String {
    let statuses: Map<String, Value> = change
        .image_ids
        .iter()
        .map(|(container, id)| {
            let image = change.images_before.get(container);
            let restarts = change.restarts_before.get(container);
            let status = json!({ "imageID": id, "image": image, "restartCount": restarts });
            (container.clone(), status)
        })
        .collect();
    json!({
        "revision": change.revision.as_str(), "updateTimestamp": time::text(change.at),
        "lastContainerStatuses": statuses,
    })
    .to_string()
}

/// Images and metadata of the template.
fn make(patch: &mut Value, change: &PodChange) {
    let images = change.images.iter();
    let containers: Vec<Value> =
        images.map(|(name, image)| json!({ "name": name, "image": image })).collect();
    if !containers.is_empty() {
        patch["spec"]["containers"] = containers.into();
    }
    for (name, value) in &change.labels {
        // Labels that we write ourselves are not taken from a template.
        if name != names::REVISION {
            patch["metadata"]["labels"][name] = value.as_deref().map_or(Value::Null, Value::from);
        }
    }
    for (name, value) in &change.annotations {
        patch["metadata"]["annotations"][name] = value.as_deref().map_or(Value::Null, Value::from);
    }
}

fn based_on(pod: &Value, mut patch: Value) -> Value {
    patch["metadata"]["uid"] = pod["metadata"]["uid"].clone();
    patch["metadata"]["resourceVersion"] = pod["metadata"]["resourceVersion"].clone();
    patch
}

/// The name of a set's pod.
pub fn numbered(kind: Kind, workload: &str, ordinal: usize) -> Option<String> {
    (kind == GAME_STATEFUL_SET).then(|| format!("{workload}-{ordinal}"))
}
