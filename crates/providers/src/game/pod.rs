//! A pod as it is, for the engine.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tidegate_engine::{
    Revision,
    game::{Container, Grace, InPlaceState, NodeState, Pod, PodPhase, ReadinessGate, Ready},
};

use super::{names, pods, time};

/// The identity of a workload's pods, besides their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Pods without identity.
    Instance,
    /// Numbered pods.
    Ordinal,
}

/// A pod, with its node if that is known.
pub fn read(pod: &Value, node: Option<&Value>, identity: Identity) -> Pod {
    let metadata = &pod["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let label = |name: &str| metadata["labels"][name].as_str().filter(|it| !it.is_empty());
    let annotation = |name: &str| metadata["annotations"][name].as_str();
    let name = text(&metadata["name"]);
    let ordinal = match identity {
        Identity::Instance => None,
        Identity::Ordinal => ordinal(&name),
    };
    let id = match identity {
        Identity::Instance => label(names::INSTANCE).map(str::to_owned),
        Identity::Ordinal => ordinal.map(|ordinal| ordinal.to_string()),
    };
    let revision = label(names::REVISION).map(Revision::new);
    let node_name = pod["spec"]["nodeName"].as_str().filter(|it| !it.is_empty());
    Pod {
        uid: text(&metadata["uid"]),
        id: id.unwrap_or_else(|| name.clone()),
        ordinal,
        phase: phase(&pod["status"]["phase"]),
        is_assigned: node_name.is_some(),
        ready: ready(pod),
        restarts: restarts(pod),
        created: time::read(&metadata["creationTimestamp"]),
        is_terminating: metadata["deletionTimestamp"].is_string(),
        cost: annotation(names::COST).and_then(number),
        node_cost: node
            .and_then(|node| node["metadata"]["annotations"][names::NODE_COST].as_str())
            .and_then(number),
        is_marked: annotation(names::DELETING) == Some("true"),
        gate: gate(pod),
        update: update(pod, revision.as_ref()),
        grace: annotation(names::UPDATE_GRACE).and_then(grace),
        owes_post_hook: annotation(names::OWES_POST_HOOK).is_some(),
        containers: containers(pod),
        ip: text(&pod["status"]["podIP"]),
        host_ip: text(&pod["status"]["hostIP"]),
        index: annotation(names::INDEX).and_then(|text| text.parse().ok()),
        node: node_state(annotation(names::FORCE_DELETE), node_name, node),
        is_identified: match identity {
            Identity::Instance => true,
            Identity::Ordinal => pods::is_identified(pod),
        },
        revision,
        name,
    }
}

/// The number at the end of a name.
pub fn ordinal(name: &str) -> Option<usize> {
    let (_, digits) = name.rsplit_once('-')?;
    // `01` is the name of another pod than `1`.
    let is_plain = digits == "0" || !digits.starts_with('0');
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain && is_number { digits.parse().ok() } else { None }
}

fn phase(phase: &Value) -> PodPhase {
    match phase.as_str() {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

fn condition<'p>(pod: &'p Value, kind: &str) -> Option<&'p Value> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

fn ready(pod: &Value) -> Ready {
    match condition(pod, "Ready") {
        Some(ready) if ready["status"] == "True" => {
            Ready::Since(time::read(&ready["lastTransitionTime"]))
        }
        _ => Ready::No,
    }
}

fn restarts(pod: &Value) -> u32 {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    statuses.map(restart_count).max().unwrap_or_default()
}

fn restart_count(status: &Value) -> u32 {
    u32::try_from(status["restartCount"].as_u64().unwrap_or_default()).unwrap_or(u32::MAX)
}

fn gate(pod: &Value) -> ReadinessGate {
    let gates = pod["spec"]["readinessGates"].as_array().into_iter().flatten();
    let has_gate = gates.into_iter().any(|gate| gate["conditionType"] == names::GATE);
    match condition(pod, names::GATE).map(|condition| condition["status"] == "True") {
        _ if !has_gate => ReadinessGate::Absent,
        None => ReadinessGate::Unset,
        Some(true) => ReadinessGate::Open,
        Some(false) => ReadinessGate::Closed,
    }
}

fn update(pod: &Value, revision: Option<&Revision>) -> Option<InPlaceState> {
    let read = |name: &str| -> Option<Value> {
        serde_json::from_str(pod["metadata"]["annotations"][name].as_str()?).ok()
    };
    let state = read(names::UPDATE_STATE)?;
    let leads_to = Revision::new(state["revision"].as_str()?);
    let is_about =
        |state: &Value| revision.is_some_and(|revision| state["revision"] == revision.as_str());
    // Others leave the state behind when a pod is updated while it serves.
    if Some(&leads_to) != revision && read(names::HOT_PATCH_STATE).is_some_and(|it| is_about(&it)) {
        return None;
    }
    let statuses = state["lastContainerStatuses"].as_object().cloned().unwrap_or_default();
    let member = |name: &'static str| -> BTreeMap<String, String> {
        let each = statuses.iter();
        each.filter_map(|(container, status)| {
            Some((container.clone(), status[name].as_str()?.to_owned()))
        })
        .collect()
    };
    Some(InPlaceState {
        revision: leads_to,
        since: time::read(&state["updateTimestamp"]).unwrap_or_default(),
        image_ids: member("imageID"),
        images: member("image"),
        restarts: statuses
            .iter()
            .filter_map(|(container, status)| {
                let restarts = u32::try_from(status["restartCount"].as_u64()?).ok()?;
                Some((container.clone(), restarts))
            })
            .collect(),
    })
}

fn grace(text: &str) -> Option<Grace> {
    let grace: Value = serde_json::from_str(text).ok()?;
    let seconds = grace["graceSeconds"].as_u64().unwrap_or_default();
    Some(Grace {
        revision: Revision::new(grace["revision"].as_str()?),
        from: grace["from"].as_str().map(Revision::new),
        metadata: grace["metaDataPatch"].as_str().map(pods::metadata).unwrap_or_default(),
        period: Duration::from_secs(seconds),
    })
}

fn containers(pod: &Value) -> Vec<Container> {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let status_of =
        |name: &Value| statuses.into_iter().flatten().find(|status| status["name"] == *name);
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let read = |container: &Value| {
        let status = status_of(&container["name"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Container {
            name: text(&container["name"]),
            image: text(&container["image"]),
            image_id: status
                .and_then(|status| status["imageID"].as_str())
                .filter(|id| !id.is_empty())
                .map(str::to_owned),
            started: status.and_then(|status| time::read(&status["state"]["running"]["startedAt"])),
            restarts: status.map(restart_count).unwrap_or_default(),
        }
    };
    containers.map(read).collect()
}

fn node_state(force: Option<&str>, name: Option<&str>, node: Option<&Value>) -> NodeState {
    if force != Some("true") || name.is_none() {
        return NodeState::Kept;
    }
    let conditions = node.and_then(|node| node["status"]["conditions"].as_array());
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    if ready.is_some_and(|ready| ready["status"] == "True") {
        NodeState::Well
    } else {
        NodeState::Lost
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

/// Trims a pod to the fields that the cache keeps: everything that is read here or written back.
pub fn trim(mut pod: Value) -> Value {
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("generateName");
    }
    let kept = ["nodeName", "containers", "readinessGates", "volumes"];
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.retain(|name, _| kept.contains(&name.as_str()));
        let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.retain(|name, _| name == "name" || name == "image");
        }
        let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
        if let Some(volumes) = volumes {
            volumes.retain(|volume| volume["persistentVolumeClaim"].is_object());
        }
    }
    let kept = ["phase", "conditions", "containerStatuses", "podIP", "hostIP"];
    if let Some(status) = pod["status"].as_object_mut() {
        status.retain(|name, _| kept.contains(&name.as_str()));
        let statuses = status.get_mut("containerStatuses").and_then(Value::as_array_mut);
        let kept = ["name", "imageID", "restartCount", "state"];
        for status in statuses.into_iter().flatten().filter_map(Value::as_object_mut) {
            status.retain(|name, _| kept.contains(&name.as_str()));
        }
    }
    pod
}

/// Trims a node to the fields that the cache keeps. Heartbeats change nothing of it.
pub fn trim_node(node: &Value) -> Value {
    let metadata = &node["metadata"];
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready: Vec<Value> = conditions
        .filter(|condition| condition["type"] == "Ready")
        .map(|condition| serde_json::json!({ "type": "Ready", "status": condition["status"] }))
        .collect();
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let addresses: Vec<&str> = addresses.filter_map(|it| it["address"].as_str()).collect();
    let mut kept = serde_json::json!({
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "status": { "conditions": ready, "addresses": addresses },
    });
    let ranges = &node["spec"]["podCIDRs"];
    if !ranges.is_null() {
        kept["spec"] = serde_json::json!({ "podCIDRs": ranges });
    }
    let cost = &metadata["annotations"][names::NODE_COST];
    if !cost.is_null() {
        kept["metadata"]["annotations"] = serde_json::json!({ names::NODE_COST: cost });
    }
    kept
}
