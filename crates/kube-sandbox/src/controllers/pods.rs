//! Predicates on pods, and creation and deletion of pods by controllers.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    cluster::{Cluster, Deletion, PODS},
    controllers::{
        Next,
        events::{Recorder, normal, warning},
        object::{
            Kind, condition, is_deleting, name, namespace, owner_reference, plus_seconds, text,
            time, until,
        },
    },
    failure::{Failure, Outcome},
};

pub(crate) const POD: Kind = Kind { api_version: "v1", kind: "Pod" };

/// Maximum length of a pod name; a prefix of this length has no dash appended.
const PREFIX_MAX: usize = 253;

pub(crate) fn phase(pod: &Value) -> &str {
    text(pod, "/status/phase")
}

/// The pod has stopped for good.
pub(crate) fn is_terminal(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// The pod runs, or may yet, and is not being deleted.
pub(crate) fn is_active(pod: &Value) -> bool {
    !is_terminal(pod) && !is_deleting(pod)
}

/// The pod runs, or may yet, and is being deleted.
pub(crate) fn is_terminating(pod: &Value) -> bool {
    !is_terminal(pod) && is_deleting(pod)
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True")
}

/// The time at which the pod became ready.
pub(crate) fn ready_since(pod: &Value) -> Option<Timestamp> {
    is_ready(pod).then(|| time(condition(pod, "Ready")?, "/lastTransitionTime")).flatten()
}

/// True if ready for at least `min_ready_s` seconds.
pub(crate) fn is_available(pod: &Value, min_ready_s: i64, now: Timestamp) -> bool {
    if min_ready_s <= 0 {
        return is_ready(pod);
    }
    ready_since(pod).is_some_and(|since| plus_seconds(since, min_ready_s) <= now)
}

/// When the next of `pods` becomes available if it stays ready.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Value>,
    min_ready_s: i64,
    now: Timestamp,
) -> Next {
    let moments = pods.into_iter().filter_map(ready_since);
    let moments = moments.map(|since| plus_seconds(since, min_ready_s));
    let wait: Option<Duration> = moments.filter(|at| *at > now).map(|at| until(now, at)).min();
    wait.map_or(Next::Idle, Next::After)
}

/// A pod from `template` controlled by `owner`, without a name.
pub(crate) fn from_template(template: &Value, owner: &Value, kind: Kind) -> Value {
    let mut metadata = Map::new();
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{key}")) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let prefix = format!("{}-", name(owner));
    let prefix = if prefix.len() > PREFIX_MAX { name(owner).to_owned() } else { prefix };
    metadata.insert("generateName".to_owned(), prefix.into());
    metadata.insert("namespace".to_owned(), namespace(owner).into());
    metadata.insert("ownerReferences".to_owned(), json!([owner_reference(kind, owner)]));
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Creates a pod and writes an event about its owner.
pub(crate) fn create(
    cluster: &dyn Cluster,
    recorder: &mut Recorder,
    kind: Kind,
    owner: &Value,
    pod: Value,
) -> Outcome<Value> {
    match cluster.create(PODS, namespace(owner), pod) {
        Ok(created) => {
            let message = format!("Created pod: {}", name(&created));
            recorder.record(cluster, kind, owner, normal("SuccessfulCreate", &message));
            Ok(created)
        }
        Err(failure) => {
            if !is_namespace_terminating(&failure) {
                let message = format!("Error creating: {failure}");
                recorder.record(cluster, kind, owner, warning("FailedCreate", &message));
            }
            Err(failure)
        }
    }
}

/// Deletes a pod and writes an event about its owner. A missing pod is no error.
pub(crate) fn delete(
    cluster: &dyn Cluster,
    recorder: &mut Recorder,
    kind: Kind,
    owner: &Value,
    pod: &str,
) -> Outcome<()> {
    match cluster.delete(PODS, namespace(owner), pod, &Deletion::default()) {
        Ok(()) => {
            let message = format!("Deleted pod: {pod}");
            recorder.record(cluster, kind, owner, normal("SuccessfulDelete", &message));
            Ok(())
        }
        Err(failure) if failure.is_not_found() => Ok(()),
        Err(failure) => {
            let message = format!("Error deleting: {failure}");
            recorder.record(cluster, kind, owner, warning("FailedDelete", &message));
            Err(failure)
        }
    }
}

pub(crate) fn is_namespace_terminating(failure: &Failure) -> bool {
    failure.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}
