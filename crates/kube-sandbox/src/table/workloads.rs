//! Rows of workloads, autoscalers and disruption budgets.
//!
//! [`super::Layout::built_in`] selects the printer of a kind; columns are those of kube-apiserver.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Definition, NAME, Printer,
    read::{
        age, container_cells, first_few, int, items, labels, name, scalar, selector, selector_cell,
        text,
    },
};

const CONTAINERS: Definition = Definition("Containers", "string", 1, "Names of the containers.");
const IMAGES: Definition = Definition("Images", "string", 1, "Images of the containers.");
const SELECTOR: Definition = Definition("Selector", "string", 1, "Labels of the pods it owns.");

static DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        Definition("Ready", "string", 0, "Ready pods, of those asked for."),
        Definition("Up-to-date", "string", 0, "Pods of the current template."),
        Definition("Available", "string", 0, "Pods that have been ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: deployment,
};

static REPLICA_SET: Printer = Printer {
    columns: &[
        NAME,
        Definition("Desired", "integer", 0, "Pods asked for."),
        Definition("Current", "integer", 0, "Pods there are."),
        Definition("Ready", "integer", 0, "Pods that are ready."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: replica_set,
};

static STATEFUL_SET: Printer = Printer {
    columns: &[
        NAME,
        Definition("Ready", "string", 0, "Ready pods, of those asked for."),
        AGE,
        CONTAINERS,
        IMAGES,
    ],
    cells: |object, now| {
        let [containers, images] = container_cells(&object["spec"]["template"]["spec"]);
        vec![name(object), ready_of_desired(object), age(object, now), containers, images]
    },
};

static DAEMON_SET: Printer = Printer {
    columns: &[
        NAME,
        Definition("Desired", "integer", 0, "Nodes that should run it."),
        Definition("Current", "integer", 0, "Nodes that run it and should."),
        Definition("Ready", "integer", 0, "Nodes on which it is ready."),
        Definition("Up-to-date", "integer", 0, "Nodes that run the current template."),
        Definition("Available", "integer", 0, "Nodes on which it has been ready for long enough."),
        Definition("Node Selector", "string", 0, "Labels of the nodes it runs on."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: daemon_set,
};

static CONTROLLER_REVISION: Printer = Printer {
    columns: &[
        NAME,
        Definition("Controller", "string", 0, "Whose revision it is."),
        Definition("Revision", "string", 0, "The revision's number."),
        AGE,
    ],
    cells: |object, now| {
        let revision = int(&object["revision"]).into();
        vec![name(object), controller(object).into(), revision, age(object, now)]
    },
};

static AUTOSCALER: Printer = Printer {
    columns: &[
        NAME,
        Definition("Reference", "string", 0, "What is scaled."),
        Definition("Targets", "string", 0, "Measured and wanted values."),
        Definition("MinPods", "string", 0, "Fewest replicas."),
        Definition("MaxPods", "string", 0, "Most replicas."),
        Definition("Replicas", "string", 0, "Replicas there are."),
        AGE,
    ],
    cells: autoscaler,
};

static DISRUPTION_BUDGET: Printer = Printer {
    columns: &[
        NAME,
        Definition("Min Available", "string", 0, "Fewest pods that must stay available."),
        Definition("Max Unavailable", "string", 0, "Most pods that may be unavailable."),
        Definition("Allowed Disruptions", "integer", 0, "Pods that may be evicted now."),
        AGE,
    ],
    cells: |object, now| {
        let limit = |key: &str| match &object["spec"][key] {
            Value::Null => "N/A".into(),
            limit => Value::from(scalar(limit)),
        };
        let allowed = int(&object["status"]["disruptionsAllowed"]).into();
        let (min, max) = (limit("minAvailable"), limit("maxUnavailable"));
        vec![name(object), min, max, allowed, age(object, now)]
    },
};

pub(super) fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("apps", "Deployment") => &DEPLOYMENT,
        ("apps", "ReplicaSet") => &REPLICA_SET,
        ("apps", "StatefulSet") => &STATEFUL_SET,
        ("apps", "DaemonSet") => &DAEMON_SET,
        ("apps", "ControllerRevision") => &CONTROLLER_REVISION,
        ("autoscaling", "HorizontalPodAutoscaler") => &AUTOSCALER,
        ("policy", "PodDisruptionBudget") => &DISRUPTION_BUDGET,
        _ => return None,
    })
}

fn ready_of_desired(object: &Value) -> Value {
    let (ready, desired) = (&object["status"]["readyReplicas"], &object["spec"]["replicas"]);
    format!("{}/{}", int(ready), int(desired)).into()
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [containers, images] = container_cells(&spec["template"]["spec"]);
    vec![
        name(object),
        ready_of_desired(object),
        int(&status["updatedReplicas"]).into(),
        int(&status["availableReplicas"]).into(),
        age(object, now),
        containers,
        images,
        selector(&spec["selector"]).unwrap_or_else(|_| "<invalid>".to_owned()).into(),
    ]
}

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [containers, images] = container_cells(&spec["template"]["spec"]);
    vec![
        name(object),
        int(&spec["replicas"]).into(),
        int(&status["replicas"]).into(),
        int(&status["readyReplicas"]).into(),
        age(object, now),
        containers,
        images,
        selector_cell(&spec["selector"]),
    ]
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [containers, images] = container_cells(&spec["template"]["spec"]);
    let number = |key: &str| Value::from(int(&status[key]));
    vec![
        name(object),
        number("desiredNumberScheduled"),
        number("currentNumberScheduled"),
        number("numberReady"),
        number("updatedNumberScheduled"),
        number("numberAvailable"),
        labels(&spec["template"]["spec"]["nodeSelector"]).into(),
        age(object, now),
        containers,
        images,
        selector_cell(&spec["selector"]),
    ]
}

/// `statefulset.apps/db`, or `<none>` for a revision without a controller.
fn controller(object: &Value) -> String {
    let mut owners = items(&object["metadata"]["ownerReferences"]).iter();
    let Some(owner) = owners.find(|owner| owner["controller"] == true) else {
        return "<none>".to_owned();
    };
    let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let kind = crate::failure::qualified(group, text(&owner["kind"])).to_lowercase();
    format!("{kind}/{}", text(&owner["name"]))
}

fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let least = match &spec["minReplicas"] {
        Value::Null => "<unset>".to_owned(),
        least => scalar(least),
    };
    vec![
        name(object),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        targets(object).into(),
        least.into(),
        int(&spec["maxReplicas"]).into(),
        int(&status["currentReplicas"]).into(),
        age(object, now),
    ]
}

/// Current and target value of each metric: `cpu: 10%/80%`.
fn targets(object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    // `autoscaling/v1` has one metric, in fields of its own.
    if let Some(wanted) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let measured = status["currentCPUUtilizationPercentage"].as_i64();
        let measured = measured.map_or_else(unknown, |share| format!("{share}%"));
        return format!("cpu: {measured}/{wanted}%");
    }
    let metrics = items(&spec["metrics"]);
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let measured = items(&status["currentMetrics"]);
    let shown: Vec<_> = metrics
        .iter()
        .enumerate()
        .map(|(at, metric)| target(metric, measured.get(at).unwrap_or(&Value::Null)))
        .collect();
    first_few(&shown, 2, ", ")
}

fn unknown() -> String {
    "<unknown>".to_owned()
}

fn target(metric: &Value, measured: &Value) -> String {
    let (source, named) = match text(&metric["type"]) {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let (wanted, current) = (&metric[source]["target"], &measured[source]["current"]);
    let quantity = |value: &Value| if value.is_null() { unknown() } else { scalar(value) };
    let share = |value: &Value, absent: &str| match value.as_i64() {
        Some(share) => format!("{share}%"),
        None => absent.to_owned(),
    };
    let average = &wanted["averageValue"];
    if named {
        let name = text(&metric[source]["name"]);
        return if average.is_null() {
            let current = share(&current["averageUtilization"], "<unknown>");
            format!("{name}: {current}/{}", share(&wanted["averageUtilization"], "<auto>"))
        } else {
            format!("{name}: {}/{}", quantity(&current["averageValue"]), scalar(average))
        };
    }
    match source {
        "pods" => format!("{}/{}", quantity(&current["averageValue"]), scalar(average)),
        _ if average.is_null() => {
            format!("{}/{}", quantity(&current["value"]), scalar(&wanted["value"]))
        }
        _ => format!("{}/{} (avg)", quantity(&current["averageValue"]), scalar(average)),
    }
}
