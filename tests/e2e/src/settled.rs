//! The results of controllers for the same manifests on two clusters, compared once nothing changes any
//! more.
//!
//! Generated names, hashes, addresses and times are replaced by their origin: a hash by the image of its
//! template, a pod by its owner. The rest must be equal, and there must be as many of each.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Labels whose value is a hash of a template.
const HASHES: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];
/// Fields that differ between any two clusters, wherever they are.
const VOLATILE: [&str; 21] = [
    "clusterIP",
    "clusterIPs",
    "containerID",
    "creationTimestamp",
    "finishedAt",
    "generateName",
    "hostIP",
    "hostIPs",
    "imageID",
    "lastProbeTime",
    "lastTransitionTime",
    "lastUpdateTime",
    "managedFields",
    "nodeName",
    "podIP",
    "podIPs",
    "resourceVersion",
    "startTime",
    "startedAt",
    "uid",
    "deletionTimestamp",
];

/// The objects of a cluster as lines that can be compared, with how many there are of each.
pub fn canonical(objects: &[Value]) -> BTreeMap<String, usize> {
    let images = images_of_hashes(objects);
    let names = stable_names(objects, &images);
    let mut lines = BTreeMap::new();
    for object in objects {
        let mut object = object.clone();
        // The number of changes of an object depends on the order of writers; whether its controller has
        // seen the last one does not.
        let generation = object["metadata"]["generation"].clone();
        if let Some(seen) = object.pointer_mut("/status/observedGeneration") {
            *seen = json!(*seen == generation);
        }
        simplify(&mut object, &images, &names);
        reduce(&mut object);
        *lines.entry(object.to_string()).or_default() += 1;
    }
    lines
}

/// The image of each hash.
fn images_of_hashes(objects: &[Value]) -> BTreeMap<String, String> {
    let mut images = BTreeMap::new();
    for object in objects {
        let spec = if object["kind"] == "Pod" {
            &object["spec"]
        } else {
            &object["spec"]["template"]["spec"]
        };
        let Some(image) = spec["containers"][0]["image"].as_str() else { continue };
        let labels = &object["metadata"]["labels"];
        for hash in HASHES.iter().filter_map(|label| labels[*label].as_str()) {
            images.insert(hash.to_owned(), format!("<hash of {image}>"));
        }
        // The name of a revision, which pods carry too; there may be none left that does.
        if let Some(revision) = object["status"]["updateRevision"].as_str() {
            images.insert(revision.to_owned(), format!("<hash of {image}>"));
        }
    }
    images
}

/// A stable name for each object, equal on both clusters.
fn stable_names(objects: &[Value], images: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let owner = object["metadata"]["ownerReferences"][0]["name"].as_str();
        let stable = match (object["kind"].as_str(), owner) {
            (Some("ReplicaSet"), Some(owner)) => {
                let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
                format!("{owner}-<hash of {}>", image.as_str().unwrap_or_default())
            }
            (Some("Pod"), Some(owner)) if !is_ordinal(name, owner) => format!("<pod of {owner}>"),
            // An orphan.
            (Some("Pod"), None) => match object["metadata"]["generateName"].as_str() {
                Some(prefix) => format!("<pod of {}>", prefix.trim_end_matches('-')),
                None => continue,
            },
            (Some("EndpointSlice"), Some(owner)) => format!("<slice of {owner}>"),
            _ => continue,
        };
        names.insert(name.to_owned(), with_hashes(&stable, images));
    }
    names
}

fn is_ordinal(name: &str, owner: &str) -> bool {
    let rest = name.strip_prefix(owner).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| rest.parse::<u32>().is_ok())
}

fn with_hashes(text: &str, images: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (hash, image) in images {
        if text.contains(hash.as_str()) {
            text = text.replace(hash.as_str(), image);
        }
    }
    text
}

fn simplify(
    value: &mut Value,
    images: &BTreeMap<String, String>,
    names: &BTreeMap<String, String>,
) {
    match value {
        Value::Object(members) => {
            members.retain(|key, _| !VOLATILE.contains(&key.as_str()));
            members.values_mut().for_each(|member| simplify(member, images, names));
            sort_conditions(members);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| simplify(item, images, names)),
        Value::String(text) => {
            let stable = names.get(text.as_str()).cloned();
            let stable = stable.unwrap_or_else(|| with_hashes(text, images));
            // Nodes have a number, and another prefix on each cluster.
            *text = match stable.strip_prefix("sandbox-") {
                Some(number) => format!("node-{number}"),
                None => stable,
            };
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The order of conditions follows from the last changes alone.
fn sort_conditions(members: &mut Map<String, Value>) {
    if let Some(Value::Array(conditions)) = members.get_mut("conditions") {
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
}

/// Removes the known differences, each with its reason.
fn reduce(object: &mut Value) {
    // The number of a controller's writes depends on the speed of the others.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("generation");
    }
    match object["kind"].as_str() {
        Some("Pod") => reduce_pod(object),
        Some("EndpointSlice") => reduce_slice(object),
        _ => {}
    }
}

/// Admission of the real server mounts a token and tolerates an unhealthy node for five minutes; the
/// sandbox has neither.
fn reduce_pod(pod: &mut Value) {
    let Some(spec) = pod["spec"].as_object_mut() else { return };
    for field in ["preemptionPolicy", "priority"] {
        spec.remove(field);
    }
    without(spec, "tolerations", |toleration| toleration["tolerationSeconds"] == 300);
    without(spec, "volumes", is_token);
    for container in spec.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten()
    {
        if let Some(container) = container.as_object_mut() {
            without(container, "volumeMounts", is_token);
        }
    }
    for status in pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten() {
        if let Some(status) = status.as_object_mut() {
            without(status, "volumeMounts", is_token);
        }
    }
}

/// Removes items from a list, and an empty list with them.
fn without(members: &mut Map<String, Value>, key: &str, is_out: fn(&Value) -> bool) {
    if let Some(Value::Array(items)) = members.get_mut(key) {
        items.retain(|item| !is_out(item));
        if items.is_empty() {
            members.remove(key);
        }
    }
}

/// A volume, or its mount, by its name.
fn is_token(volume: &Value) -> bool {
    volume["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"))
}

/// The order of pods and their nodes: only the number is compared.
fn reduce_slice(slice: &mut Value) {
    // It holds the time of the last change, and nothing else.
    if let Some(metadata) = slice["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    if let Some(endpoints) = slice["endpoints"].as_array_mut() {
        for endpoint in endpoints.iter_mut() {
            endpoint["addresses"] = json!(["<address>"]);
        }
        endpoints.sort_by_key(ToString::to_string);
    }
}

/// Lines that only one of them has, for people.
pub fn differences(real: &BTreeMap<String, usize>, ours: &BTreeMap<String, usize>) -> Vec<String> {
    let count = |of: &BTreeMap<String, usize>, line: &String| of.get(line).copied().unwrap_or(0);
    let mut shown = Vec::new();
    for line in real.keys().chain(ours.keys().filter(|line| !real.contains_key(*line))) {
        let (theirs, own) = (count(real, line), count(ours, line));
        if theirs != own {
            shown.push(format!("real {theirs}, sandbox {own}: {line}"));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica_set(hash: &str, image: &str, replicas: u32) -> Value {
        json!({
            "kind": "ReplicaSet",
            "metadata": {
                "name": format!("web-{hash}"), "uid": hash, "labels": { "pod-template-hash": hash },
                "ownerReferences": [{ "kind": "Deployment", "name": "web", "uid": "x" }],
            },
            "spec": {
                "replicas": replicas,
                "template": { "spec": { "containers": [{ "image": image }] } },
            },
        })
    }

    #[test]
    fn what_admission_adds_is_no_difference_and_what_was_asked_for_is() {
        let pod = |tolerations: Value, volumes: Value| {
            json!({
                "kind": "Pod",
                "spec": {
                    "tolerations": tolerations, "volumes": volumes,
                    "containers": [{ "volumeMounts": volumes }],
                },
            })
        };
        let equal = |real: Value, ours: Value| {
            differences(&canonical(&[real]), &canonical(&[ours])).is_empty()
        };
        let added = json!({ "key": "a", "tolerationSeconds": 300 });
        let token = json!({ "name": "kube-api-access-x2x9z" });
        let (asked, own) = (json!({ "key": "b" }), json!({ "name": "data" }));
        let bare = || json!({ "kind": "Pod", "spec": { "containers": [{}] } });
        assert!(equal(pod(json!([added]), json!([token])), bare()));
        let full = || pod(json!([added, asked]), json!([own, token]));
        assert!(equal(full(), pod(json!([asked]), json!([own]))));
        assert!(!equal(full(), pod(json!([asked]), json!([]))));
        assert!(!equal(full(), pod(json!([]), json!([own]))));
    }

    #[test]
    fn the_order_of_endpoints_is_no_difference_and_their_state_is() {
        let slice = |ready: &[bool]| {
            let endpoint =
                |ready: &bool| json!({ "addresses": ["a"], "conditions": { "ready": ready } });
            let endpoints: Vec<Value> = ready.iter().map(endpoint).collect();
            canonical(&[json!({ "kind": "EndpointSlice", "metadata": {}, "endpoints": endpoints })])
        };
        assert!(differences(&slice(&[true, false]), &slice(&[false, true])).is_empty());
        assert_eq!(differences(&slice(&[true, false]), &slice(&[true, true])).len(), 2);
    }

    #[test]
    fn a_hash_is_no_difference_and_a_number_is() {
        let one = canonical(&[replica_set("abc", "web:1", 2)]);
        let two = canonical(&[replica_set("def", "web:1", 2)]);
        assert_eq!(differences(&one, &two), Vec::<String>::new());
        let three = canonical(&[replica_set("def", "web:1", 3)]);
        assert_eq!(differences(&one, &three).len(), 2);
        let twice = canonical(&[replica_set("abc", "web:1", 2), replica_set("abc", "web:1", 2)]);
        assert_eq!(differences(&one, &twice).len(), 1, "how many there are counts");
    }
}
