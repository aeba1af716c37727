//! Renders the status of a pod from the state of its containers.
//!
//! Called by [`super::Kubelet`] after each step of a pod. Parts of the status that others wrote
//! stay.

use serde_json::{Value, json};

use super::{
    container::{ContainerRun, Ended, State, pull_error},
    image, node,
    run::{PodRun, Scene, is_sidecar},
};
use crate::controllers::{
    object::{condition, int, items, set_at, stamp, text, unset},
    pods,
};

/// A condition of the kubelet; an empty reason or message is left out.
struct Said {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

/// The pod's status to be stored. Parts written by others stay.
pub(super) fn render(scene: &Scene<'_>, run: &PodRun, node: &Value) -> Value {
    let pod = scene.pod;
    let mut status = pod.get("status").cloned().unwrap_or_else(|| json!({}));
    let phase = phase(scene, run);
    set_at(&mut status, &["phase"], phase);
    set_at(&mut status, &["startTime"], stamp(run.started));
    let host = node::internal_address(node);
    for (one, many, address) in
        [("hostIP", "hostIPs", host), ("podIP", "podIPs", run.address.as_str())]
    {
        set_at(&mut status, &[one], address);
        set_at(&mut status, &[many], json!([{ "ip": address }]));
    }
    if text(&status, "/qosClass").is_empty() {
        set_at(&mut status, &["qosClass"], qos_class(pod));
    }
    if let Some(generation) = int(pod, "/metadata/generation") {
        set_at(&mut status, &["observedGeneration"], generation);
    }
    let main: Vec<_> = run.main.iter().map(|one| container(scene, run, one)).collect();
    set_at(&mut status, &["containerStatuses"], main);
    if run.init.is_empty() {
        unset(&mut status, "", "initContainerStatuses");
    } else {
        let init: Vec<_> = run.init.iter().map(|one| container(scene, run, one)).collect();
        set_at(&mut status, &["initContainerStatuses"], init);
    }
    let conditions = conditions(scene, run, phase);
    set_at(&mut status, &["conditions"], conditions);
    status
}

fn phase(scene: &Scene<'_>, run: &PodRun) -> &'static str {
    match pods::phase(scene.pod) {
        // Terminal phases do not change.
        "Succeeded" => return "Succeeded",
        "Failed" => return "Failed",
        _ => {}
    }
    let failed_init = run.init.iter().filter_map(ContainerRun::ended).any(|end| end.exit_code != 0);
    if failed_init {
        return "Failed";
    }
    let ends: Vec<_> = run.main.iter().filter_map(ContainerRun::ended).collect();
    if ends.len() == run.main.len() && !ends.is_empty() {
        let failed = ends.iter().any(|end| end.exit_code != 0);
        return if failed { "Failed" } else { "Succeeded" };
    }
    let all_started = run.main.iter().all(ContainerRun::has_started);
    if all_started { "Running" } else { "Pending" }
}

fn container(scene: &Scene<'_>, pod_run: &PodRun, run: &ContainerRun) -> Value {
    let uid = &pod_run.uid;
    let ready = is_ready(scene, run);
    let state = match &run.state {
        State::Running { since } => json!({ "running": { "startedAt": stamp(*since) } }),
        State::Ended(end) => json!({ "terminated": terminated(uid, &run.name, end) }),
        _ => json!({ "waiting": waiting(scene, pod_run, run) }),
    };
    let mut status = json!({
        "name": run.name, "state": state, "lastState": {}, "ready": ready,
        "restartCount": run.restarts, "started": run.running_since().is_some(),
        "image": run.image, "imageID": "",
    });
    if let Some(last) = &run.last {
        status["lastState"] = json!({ "terminated": terminated(uid, &run.name, last) });
    }
    if run.has_started() {
        status["image"] = image::full_name(&run.shown_image).into();
        status["imageID"] = image::image_id(&run.shown_image).into();
        let incarnation = match (&run.state, &run.last) {
            (State::Running { .. }, _) | (_, None) => run.restarts,
            (State::Ended(end), _) | (_, Some(end)) => end.incarnation,
        };
        status["containerID"] = image::container_id(uid, &run.name, incarnation).into();
    }
    status
}

/// A completed init container counts as ready; any other one while it is ready.
fn is_ready(scene: &Scene<'_>, run: &ContainerRun) -> bool {
    let init = items(scene.pod, "/spec/initContainers").iter();
    let init = init.filter(|spec| text(spec, "/name") == run.name).count() > 0;
    if init && !is_sidecar(scene.pod, &run.name) {
        return run.ended().is_some_and(|end| end.exit_code == 0);
    }
    scene.readiness(run).0
}

fn waiting(scene: &Scene<'_>, pod_run: &PodRun, run: &ContainerRun) -> Value {
    let (pod, image) = (scene.pod, &run.image);
    match &run.state {
        State::PullFailed { .. } => json!({
            "reason": "ErrImagePull", "message": pull_error(image),
        }),
        State::PullBackOff { .. } => json!({
            "reason": "ImagePullBackOff",
            "message":
                format!("Back-off pulling image {image:?}: ErrImagePull: {}", pull_error(image)),
        }),
        State::CrashBackOff { delay, .. } => {
            let (pod_name, place) = (text(pod, "/metadata/name"), text(pod, "/metadata/namespace"));
            let (container, uid) = (&run.name, &pod_run.uid);
            let wait = spell(delay.as_secs());
            json!({
                "reason": "CrashLoopBackOff",
                "message": format!(
                    "back-off {wait} restarting failed container={container} \
                     pod={pod_name}_{place}({uid})"
                ),
            })
        }
        State::Blocked => json!({ "reason": "PodInitializing" }),
        State::Creating { .. } | State::Running { .. } | State::Ended(_) => {
            json!({ "reason": "ContainerCreating" })
        }
    }
}

/// Seconds in Go's duration format: `10s`, `2m40s`, `5m0s`.
fn spell(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

fn terminated(uid: &str, container: &str, end: &Ended) -> Value {
    json!({
        "exitCode": end.exit_code,
        "reason": if end.exit_code == 0 { "Completed" } else { "Error" },
        "startedAt": stamp(end.started), "finishedAt": stamp(end.finished),
        "containerID": image::container_id(uid, container, end.incarnation),
    })
}

fn conditions(scene: &Scene<'_>, run: &PodRun, phase: &str) -> Vec<Value> {
    let over = matches!(phase, "Succeeded" | "Failed");
    let completed = phase == "Succeeded";
    let (containers_ready, reason, message) = unready(scene, run, completed);
    let ready = match gates(scene.pod) {
        _ if !containers_ready => {
            Said { kind: "Ready", holds: false, reason, message: message.clone() }
        }
        None => Said { kind: "Ready", holds: true, reason: "", message: String::new() },
        Some(gates) => {
            Said { kind: "Ready", holds: false, reason: "ReadinessGatesNotReady", message: gates }
        }
    };
    let (initialized, why_not) = uninitialized(scene, run);
    let said = [
        Said {
            kind: "PodReadyToStartContainers",
            holds: !over,
            reason: "",
            message: String::new(),
        },
        Said {
            kind: "Initialized",
            holds: initialized,
            reason: match (initialized, completed) {
                (false, _) => "ContainersNotInitialized",
                (true, true) => "PodCompleted",
                (true, false) => "",
            },
            message: why_not,
        },
        ready,
        Said { kind: "ContainersReady", holds: containers_ready, reason, message },
        Said { kind: "PodScheduled", holds: true, reason: "", message: String::new() },
    ];
    let mut conditions: Vec<_> = said.iter().map(|said| said.render(scene)).collect();
    let others = items(scene.pod, "/status/conditions").iter();
    let others = others.filter(|other| said.iter().all(|own| own.kind != text(other, "/type")));
    conditions.extend(others.cloned());
    conditions
}

/// Whether all containers are ready, and the reason if not.
fn unready(scene: &Scene<'_>, run: &PodRun, completed: bool) -> (bool, &'static str, String) {
    if completed {
        return (false, "PodCompleted", String::new());
    }
    let sidecars = run.init.iter().filter(|one| is_sidecar(scene.pod, &one.name));
    let unready = run.main.iter().chain(sidecars).filter(|one| !scene.readiness(one).0);
    let names: Vec<_> = unready.map(|one| one.name.as_str()).collect();
    if names.is_empty() {
        return (true, "", String::new());
    }
    let message = format!("containers with unready status: [{}]", names.join(" "));
    (false, "ContainersNotReady", message)
}

fn uninitialized(scene: &Scene<'_>, run: &PodRun) -> (bool, String) {
    let incomplete = run.init.iter().filter(|one| {
        if is_sidecar(scene.pod, &one.name) {
            !one.has_started()
        } else {
            one.ended().is_none_or(|end| end.exit_code != 0)
        }
    });
    let names: Vec<_> = incomplete.map(|one| one.name.as_str()).collect();
    if names.is_empty() {
        return (true, String::new());
    }
    (false, format!("containers with incomplete status: [{}]", names.join(" ")))
}

/// The message about unmet readiness gates; `None` if there are none.
fn gates(pod: &Value) -> Option<String> {
    let unmet = items(pod, "/spec/readinessGates").iter().filter_map(|gate| {
        let kind = text(gate, "/conditionType");
        let Some(condition) = condition(pod, kind) else {
            return Some(format!(
                "corresponding condition of pod readiness gate {kind:?} does not exist."
            ));
        };
        let status = text(condition, "/status");
        (status != "True").then(|| {
            format!("the status of pod readiness gate {kind:?} is not \"True\", but {status}")
        })
    });
    let unmet: Vec<_> = unmet.collect();
    (!unmet.is_empty()).then(|| unmet.join(", "))
}

fn qos_class(pod: &Value) -> &'static str {
    let containers =
        items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers"));
    let (mut any, mut all) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let at = |kind: &str| container.pointer(&format!("/resources/{kind}/{resource}"));
            let (request, limit) = (at("requests"), at("limits"));
            any |= request.is_some() || limit.is_some();
            // A missing request is as large as the limit.
            all &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, all) {
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
        (false, _) => "BestEffort",
    }
}

// === impl Said ===

impl Said {
    fn render(&self, scene: &Scene<'_>) -> Value {
        let status = if self.holds { "True" } else { "False" };
        let mut said = json!({ "type": self.kind, "status": status, "lastProbeTime": null });
        let old = condition(scene.pod, self.kind);
        let since = old.filter(|old| text(old, "/status") == status);
        let since = since.map(|old| text(old, "/lastTransitionTime")).filter(|at| !at.is_empty());
        let since = since.map_or_else(|| stamp(scene.now), str::to_owned);
        set_at(&mut said, &["lastTransitionTime"], since);
        if !self.reason.is_empty() {
            set_at(&mut said, &["reason"], self.reason);
        }
        if !self.message.is_empty() {
            set_at(&mut said, &["message"], self.message.as_str());
        }
        if let Some(generation) = int(scene.pod, "/metadata/generation") {
            set_at(&mut said, &["observedGeneration"], generation);
        }
        said
    }
}
