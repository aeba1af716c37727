//! Rows of core kinds other than workloads and network.
//!
//! [`super::Layout::built_in`] selects the printer of a kind; columns are those of kube-apiserver.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Definition, NAME, Printer, pods,
    read::{
        age, condition, instant, int, items, members, name, none_if_empty, since, text, text_or,
    },
};

static NAMESPACE: Printer = Printer {
    columns: &[NAME, Definition("Status", "string", 0, "The namespace's phase."), AGE],
    cells: |object, now| {
        vec![name(object), text(&object["status"]["phase"]).into(), age(object, now)]
    },
};

static SERVICE_ACCOUNT: Printer =
    Printer { columns: &[NAME, AGE], cells: |object, now| vec![name(object), age(object, now)] };

static CONFIG_MAP: Printer = Printer {
    columns: &[NAME, Definition("Data", "string", 0, "How many keys it holds."), AGE],
    cells: |object, now| {
        let keys = members(&object["data"]) + members(&object["binaryData"]);
        vec![name(object), keys.into(), age(object, now)]
    },
};

static SECRET: Printer = Printer {
    columns: &[
        NAME,
        Definition("Type", "string", 0, "What kind of secret it is."),
        Definition("Data", "string", 0, "How many keys it holds."),
        AGE,
    ],
    cells: |object, now| {
        let keys = members(&object["data"]).into();
        vec![name(object), text(&object["type"]).into(), keys, age(object, now)]
    },
};

static NODE: Printer = Printer {
    columns: &[
        NAME,
        Definition("Status", "string", 0, "Whether the node is ready and takes pods."),
        Definition("Roles", "string", 0, "The node's roles, from its labels."),
        AGE,
        Definition("Version", "string", 0, "The kubelet's version."),
        Definition("Internal-IP", "string", 1, "The node's address inside the cluster."),
        Definition("External-IP", "string", 1, "The node's address outside the cluster."),
        Definition("OS-Image", "string", 1, "The operating system."),
        Definition("Kernel-Version", "string", 1, "The kernel, and what it was built for."),
        Definition("Container-Runtime", "string", 1, "The container runtime and its version."),
    ],
    cells: node,
};

static EVENT: Printer = Printer {
    columns: &[
        Definition("Last Seen", "string", 0, "Time since it last happened."),
        Definition("Type", "string", 0, "Normal or Warning."),
        Definition("Reason", "string", 0, "Why, in one word."),
        Definition("Object", "string", 0, "What it is about."),
        Definition("Subobject", "string", 1, "The part of the object it is about."),
        Definition("Source", "string", 1, "Who reported it."),
        Definition("Message", "string", 0, "What happened."),
        Definition("First Seen", "string", 1, "Time since it first happened."),
        Definition("Count", "string", 1, "How often it happened."),
        Definition("Name", "string", 1, "The event's name."),
    ],
    cells: event,
};

static PERSISTENT_VOLUME_CLAIM: Printer = Printer {
    columns: &[
        NAME,
        Definition("Status", "string", 0, "The claim's phase."),
        Definition("Volume", "string", 0, "The volume it is bound to."),
        Definition("Capacity", "string", 0, "The size of that volume."),
        Definition("Access Modes", "string", 0, "How the volume may be mounted."),
        Definition("StorageClass", "string", 0, "The class asked for."),
        Definition("VolumeAttributesClass", "string", 0, "The attributes class asked for."),
        AGE,
        Definition("VolumeMode", "string", 1, "Filesystem or block device."),
    ],
    cells: claim,
};

static SCALE: Printer = Printer {
    columns: &[
        Definition("Name", "string", 0, "The name of what is scaled."),
        Definition("Desired", "integer", 0, "Replicas asked for."),
        Definition("Available", "integer", 0, "Replicas there are."),
        AGE,
    ],
    cells: |object, now| {
        let (desired, actual) = (&object["spec"]["replicas"], &object["status"]["replicas"]);
        vec![name(object), int(desired).into(), int(actual).into(), age(object, now)]
    },
};

pub(super) fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("", "Pod") => &pods::POD,
        ("", "Namespace") => &NAMESPACE,
        ("", "ServiceAccount") => &SERVICE_ACCOUNT,
        ("", "ConfigMap") => &CONFIG_MAP,
        ("", "Secret") => &SECRET,
        ("", "Node") => &NODE,
        ("" | "events.k8s.io", "Event") => &EVENT,
        ("", "PersistentVolumeClaim") => &PERSISTENT_VOLUME_CLAIM,
        ("autoscaling", "Scale") => &SCALE,
        _ => return None,
    })
}

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let info = &object["status"]["nodeInfo"];
    let ready = match condition(object, "Ready") {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = object["spec"]["unschedulable"] == true;
    let status = if closed { format!("{ready},SchedulingDisabled") } else { ready.to_owned() };
    let address = |type_: &str| {
        let addresses = items(&object["status"]["addresses"]);
        let found = addresses.iter().find(|address| address["type"] == *type_);
        Value::from(found.map_or("<none>", |address| text(&address["address"])))
    };
    let unknown = |key: &str| text_or(&info[key], "<unknown>").to_owned();
    let kernel = match text(&info["architecture"]) {
        "" => unknown("kernelVersion"),
        architecture => format!("{} ({architecture})", unknown("kernelVersion")),
    };
    vec![
        name(object),
        status.into(),
        none_if_empty(roles(object).join(",")).into(),
        age(object, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        unknown("osImage").into(),
        kernel.into(),
        unknown("containerRuntimeVersion").into(),
    ]
}

fn roles(node: &Value) -> Vec<&str> {
    let mut roles = BTreeSet::new();
    for (key, value) in node["metadata"]["labels"].as_object().into_iter().flatten() {
        let role = match key.as_str() {
            "kubernetes.io/role" => Some(text(value)),
            other => other.strip_prefix("node-role.kubernetes.io/"),
        };
        roles.extend(role.filter(|role| !role.is_empty()));
    }
    roles.into_iter().collect()
}

/// Reads events in both forms, that of the core group and that of `events.k8s.io`.
fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &str, newer: &str| match &object[core] {
        Value::Null => &object[newer],
        found => found,
    };
    let involved = either("involvedObject", "regarding");
    let (series, source) = (&object["series"], either("source", "deprecatedSource"));
    let first_at = either("firstTimestamp", "deprecatedFirstTimestamp");
    let first = if instant(first_at).is_some() { first_at } else { &object["eventTime"] };
    let last_at = either("lastTimestamp", "deprecatedLastTimestamp");
    let last = if instant(last_at).is_some() { last_at } else { first };
    let (last, count) = match int(either("count", "deprecatedCount")) {
        _ if series.is_object() => (&series["lastObservedTime"], int(&series["count"])),
        0 => (last, 1),
        count => (last, count),
    };
    let kind = text(&involved["kind"]).to_lowercase();
    let target = match text(&involved["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let reporter =
        text_or(&source["component"], text(either("reportingComponent", "reportingController")));
    let reporter = match text_or(&source["host"], text(&object["reportingInstance"])) {
        "" => reporter.to_owned(),
        instance => format!("{reporter}, {instance}"),
    };
    vec![
        since(last, now).into(),
        text(&object["type"]).into(),
        text(&object["reason"]).into(),
        target.into(),
        text(&involved["fieldPath"]).into(),
        reporter.into(),
        text(either("message", "note")).trim().into(),
        since(first, now).into(),
        count.into(),
        name(object),
    ]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let bound = !text(&spec["volumeName"]).is_empty();
    let capacity =
        if bound { text_or(&status["capacity"]["storage"], "0").to_owned() } else { String::new() };
    let modes = if bound { access_modes(&status["accessModes"]) } else { String::new() };
    vec![
        name(object),
        phase(object).into(),
        text(&spec["volumeName"]).into(),
        capacity.into(),
        modes.into(),
        storage_class(object).into(),
        text_or(&spec["volumeAttributesClassName"], "<unset>").into(),
        age(object, now),
        text_or(&spec["volumeMode"], "<unset>").into(),
    ]
}

fn phase(object: &Value) -> &str {
    let going = object["metadata"]["deletionTimestamp"].is_string();
    if going { "Terminating" } else { text(&object["status"]["phase"]) }
}

fn storage_class(object: &Value) -> &str {
    let beta = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    beta.as_str().unwrap_or_else(|| text(&object["spec"]["storageClassName"]))
}

fn access_modes(modes: &Value) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let asked = |(mode, _): &&(&str, &str)| items(modes).iter().any(|asked| asked == *mode);
    short.iter().filter(asked).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
