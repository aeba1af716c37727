//! Trims a workload to the fields that the cache keeps, and reads the writers of its template.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::workload::{WorkloadKind, metadata::LAST_APPLIED};

/// Members of `metadata` that are read here or needed for writing changes.
const METADATA: [&str; 9] = [
    "annotations",
    "deletionTimestamp",
    "generation",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];
const SPEC: [&str; 8] = [
    "minReadySeconds",
    "progressDeadlineSeconds",
    "replicas",
    "revisionHistoryLimit",
    "selector",
    "strategy",
    "template",
    "updateStrategy",
];
const STATUS: [&str; 8] = [
    "availableReplicas",
    "desiredNumberScheduled",
    "numberAvailable",
    "observedGeneration",
    "readyReplicas",
    "replicas",
    "updatedNumberScheduled",
    "updatedReplicas",
];
const CONDITION: [&str; 4] = ["lastUpdateTime", "reason", "status", "type"];

impl WorkloadKind {
    /// The workload without the fields that no function of this module reads.
    ///
    /// The last-applied annotation repeats the whole manifest and managed fields name every field once
    /// more: together they are most of an object's size.
    pub fn trim(self, mut workload: Value) -> Value {
        let mut metadata = picked(workload.get_mut("metadata"), &METADATA);
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
        let writers = template_writers(&workload["metadata"]["managedFields"]);
        if !writers.is_empty() {
            let entries = writers.into_iter().map(|(manager, time)| {
                let fields = json!({ "f:spec": { "f:template": {} } });
                json!({ "manager": manager, "time": time, "fieldsV1": fields })
            });
            metadata.insert("managedFields".to_owned(), entries.collect());
        }
        let spec = picked(workload.get_mut("spec"), &SPEC);
        let mut status = picked(workload.get_mut("status"), &STATUS);
        if let Some(Value::Array(conditions)) =
            workload.get_mut("status").and_then(|status| status.get_mut("conditions"))
        {
            let told = conditions.iter_mut().filter(|condition| {
                matches!(condition["type"].as_str(), Some("Available" | "Progressing"))
            });
            let told = told.map(|condition| Value::Object(picked(Some(condition), &CONDITION)));
            status.insert("conditions".to_owned(), told.collect());
        }
        json!({
            "apiVersion": self.kind().api_version(),
            "kind": self.kind().kind,
            "metadata": metadata,
            "spec": spec,
            "status": status,
        })
    }
}

/// Whether a field manager other than `ours` wrote to the pod template after `time`.
///
/// For a canary taken over from Flagger in the middle of a rollout: its stored revision cannot be
/// compared with ours, but managed fields say whether the template is still the one it meant.
pub fn template_writers_after(managed_fields: &Value, ours: &[&str], time: Timestamp) -> bool {
    template_writers(managed_fields)
        .into_iter()
        .filter(|(manager, _)| !ours.contains(manager))
        .filter_map(|(_, written)| written.parse::<Timestamp>().ok())
        .any(|written| written > time)
}

/// The field managers of the pod template, and when they last wrote.
fn template_writers(managed_fields: &Value) -> Vec<(&str, &str)> {
    let entries = managed_fields.as_array().into_iter().flatten();
    entries
        .filter(|entry| entry["fieldsV1"]["f:spec"].get("f:template").is_some())
        .filter_map(|entry| Some((entry["manager"].as_str()?, entry["time"].as_str()?)))
        .collect()
}

/// Takes the named members out of an object.
fn picked(object: Option<&mut Value>, names: &[&str]) -> Map<String, Value> {
    let members = object.and_then(Value::as_object_mut);
    let take = |(key, value): (&String, &mut Value)| (key.clone(), value.take());
    let kept = members.into_iter().flatten().filter(|(key, _)| names.contains(&key.as_str()));
    kept.map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managed(manager: &str, time: &str, field: &str) -> Value {
        json!({
            "manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { field: { "f:spec": { "f:hostNetwork": {} } } } },
        })
    }

    #[test]
    fn only_later_writers_of_the_template_count() {
        let at = "2026-01-01T12:00:00Z";
        let cases = [
            ("a user, later", managed("kubectl", "2026-01-01T12:00:01Z", "f:template"), true),
            ("a user, before", managed("kubectl", "2026-01-01T11:00:00Z", "f:template"), false),
            ("at the same moment", managed("kubectl", at, "f:template"), false),
            ("Flagger itself", managed("flagger", "2026-01-01T13:00:00Z", "f:template"), false),
            ("a scaler", managed("hpa", "2026-01-01T13:00:00Z", "f:replicas"), false),
            ("nobody knows when", managed("kubectl", "", "f:template"), false),
        ];
        for (reason, entry, want) in cases {
            let ours = ["flagger", "tidegate"];
            let after = template_writers_after(&json!([entry]), &ours, at.parse().unwrap());
            assert_eq!(after, want, "{reason}");
        }
        assert!(!template_writers_after(&Value::Null, &[], at.parse().unwrap()));
    }

    #[test]
    fn trimming_keeps_what_is_read_and_drops_the_bulk() {
        let full = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "shop", "uid": "1", "resourceVersion": "5", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": { LAST_APPLIED: "{}", "note": "mine" },
                "managedFields": [
                    managed("kubectl", "2026-01-01T12:00:01Z", "f:template"),
                    managed("hpa", "2026-01-01T12:00:02Z", "f:replicas"),
                ],
            },
            "spec": { "replicas": 2, "paused": false, "template": { "spec": { "x": [1] } } },
            "status": { "replicas": 2, "unavailableReplicas": 1, "conditions": [
                { "type": "Available", "status": "True", "message": "long" },
                { "type": "ReplicaFailure", "status": "True" },
            ] },
        });
        let want = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "shop", "uid": "1", "resourceVersion": "5", "generation": 2,
                "annotations": { "note": "mine" },
                "managedFields": [{
                    "manager": "kubectl", "time": "2026-01-01T12:00:01Z",
                    "fieldsV1": { "f:spec": { "f:template": {} } },
                }],
            },
            "spec": { "replicas": 2, "template": { "spec": { "x": [1] } } },
            "status": { "replicas": 2, "conditions": [{ "type": "Available", "status": "True" }] },
        });
        assert_eq!(WorkloadKind::Deployment.trim(full), want);
        assert_eq!(
            WorkloadKind::Deployment.trim(want.clone()),
            want,
            "trimming twice is trimming once"
        );
        let nothing = WorkloadKind::Deployment.trim(Value::Null);
        for odd in [json!([1]), json!("text"), json!({ "spec": 7, "status": { "conditions": 1 } })]
        {
            assert_eq!(WorkloadKind::Deployment.trim(odd), nothing);
        }
    }
}
