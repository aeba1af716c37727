//! Rows of Pods, with the derived STATUS column.
//!
//! The status starts as the phase. The first unfinished init container overrides it; once all are
//! done (or the pod is initialized) the containers do, the first one with the highest precedence;
//! and a deletion in progress overrides everything.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    AGE, Definition, NAME, Printer,
    read::{age, between, condition, instant, int, is_true, items, name, text, text_or},
};

pub(super) static POD: Printer = Printer {
    columns: &[
        NAME,
        Definition("Ready", "string", 0, "Ready containers, of all containers."),
        Definition("Status", "string", 0, "What the pod and its containers are doing."),
        Definition("Restarts", "string", 0, "Container restarts, and when the last one was."),
        AGE,
        Definition("IP", "string", 1, "The pod's first address."),
        Definition("Node", "string", 1, "The node the pod is bound to."),
        Definition("Nominated Node", "string", 1, "The node others are evicted from for it."),
        Definition("Readiness Gates", "string", 1, "Readiness gates met, of all of them."),
    ],
    cells,
};

/// Status, ready count and restarts derived from the containers.
#[derive(Default)]
struct Story {
    status: String,
    ready: usize,
    restarts: Restarts,
}

#[derive(Default, Clone, Copy)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

/// The row condition of a completed pod, by which clients hide it.
pub(super) fn completion(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({ "type": "Completed", "status": "True", "reason": reason, "message": message }))
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut story = Story { status: initial_status(pod), ..Story::default() };
    let initializing = story.tell_init(pod);
    if !initializing || is_true(pod, "Initialized") {
        story.tell_containers(pod);
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut story.status);
        } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut story.status);
        }
    }
    let sidecars = items(&spec["initContainers"]).iter().filter(|c| is_sidecar(c)).count();
    let total = items(&spec["containers"]).len() + sidecars;
    let address = status["podIPs"].get(0).map_or("", |first| text(&first["ip"]));
    let address = if address.is_empty() { "<none>" } else { address };
    vec![
        name(pod),
        format!("{}/{total}", story.ready).into(),
        story.status.into(),
        story.restarts.shown(now).into(),
        age(pod, now),
        address.into(),
        text_or(&spec["nodeName"], "<none>").into(),
        text_or(&status["nominatedNodeName"], "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

fn initial_status(pod: &Value) -> String {
    let scheduled = condition(pod, "PodScheduled");
    if scheduled.is_some_and(|condition| condition["reason"] == "SchedulingGated") {
        return "SchedulingGated".to_owned();
    }
    text_or(&pod["status"]["reason"], text(&pod["status"]["phase"])).to_owned()
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met = gates.iter().filter(|gate| is_true(pod, text(&gate["conditionType"]))).count();
    format!("{met}/{}", gates.len())
}

/// A sidecar: an init container that keeps running.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// The result of a terminated container: its reason, else its signal, else its exit code.
fn ending(terminated: &Value) -> String {
    match (text(&terminated["reason"]), int(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", int(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

// === impl Story ===

impl Story {
    /// Reads the init containers up to the first unfinished one. True if there is one.
    fn tell_init(&mut self, pod: &Value) -> bool {
        let specs = items(&pod["spec"]["initContainers"]);
        let mut sidecar_restarts = Restarts::default();
        for (at, status) in items(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            let spec = specs.iter().find(|spec| spec["name"] == status["name"]);
            let sidecar = spec.is_some_and(is_sidecar);
            self.restarts.add(status);
            if sidecar {
                sidecar_restarts.add(status);
            }
            let (terminated, waiting) =
                (&status["state"]["terminated"], text(&status["state"]["waiting"]["reason"]));
            if terminated.is_object() && int(&terminated["exitCode"]) == 0 {
                continue;
            }
            if sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.status = if terminated.is_object() {
                format!("Init:{}", ending(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{at}/{}", specs.len())
            };
            if is_true(pod, "Initialized") {
                self.restarts = sidecar_restarts;
            }
            return true;
        }
        self.restarts = sidecar_restarts;
        false
    }

    /// Reads the containers from last to first, so that the first one wins.
    fn tell_containers(&mut self, pod: &Value) {
        let mut running = false;
        let mut error = None;
        for status in items(&pod["status"]["containerStatuses"]).iter().rev() {
            self.restarts.add(status);
            let state = &status["state"];
            let (waiting, terminated) = (text(&state["waiting"]["reason"]), &state["terminated"]);
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.status);
            } else if terminated.is_object() {
                self.status = ending(terminated);
                if int(&terminated["exitCode"]) != 0 {
                    error = Some(self.status.clone());
                }
            } else if status["ready"] == true && state["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.status != "Completed" {
            return;
        }
        // Some containers have completed and others have not: the pod itself is not completed.
        match error {
            _ if running && is_true(pod, "Ready") => "Running".clone_into(&mut self.status),
            Some(error) => self.status = error,
            None if running => "NotReady".clone_into(&mut self.status),
            None => {}
        }
    }
}

// === impl Restarts ===

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += int(&status["restartCount"]);
        let ended = instant(&status["lastState"]["terminated"]["finishedAt"]);
        self.last = self.last.max(ended);
    }

    fn shown(self, now: Timestamp) -> String {
        match self.last.filter(|_| self.count != 0) {
            Some(last) => format!("{} ({} ago)", self.count, between(last, now)),
            None => self.count.to_string(),
        }
    }
}
