//! The cause that keeps pods of a workload from becoming ready, by their own status.
//!
//! The words stay the same while the cause does: a container that crashes is waiting, running and terminated
//! by turns, and the message of a backoff has another time in it every few seconds.

use serde_json::Value;

use super::{WorkloadKind, name_of};
use crate::{hook::excerpt, object::controller_of};

/// How much a cause says, best first: a pod that is not scheduled cannot have another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    NotScheduled,
    NoImage,
    NotCreated,
    Exits,
    Failed,
    NotReady,
}

impl WorkloadKind {
    /// The cause of those of its pods that are not ready, the most telling first. `pods` may have others'.
    pub fn cause(self, workload: &Value, pods: &[Value]) -> Option<String> {
        let own = pods.iter().filter(|pod| self.made(workload, pod));
        let there = own.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let causes = there.filter(|pod| !holds(pod, "Ready")).filter_map(cause_of);
        causes.min().map(|(_, cause)| cause)
    }

    /// Whether a pod is one of the workload's, by its controller.
    fn made(self, workload: &Value, pod: &Value) -> bool {
        let Some((kind, name)) = controller_of(pod) else { return false };
        match self {
            Self::Deployment => {
                // The hash of the template has no dash.
                let deployment = name.rsplit_once('-').map(|(deployment, _)| deployment);
                kind == "ReplicaSet" && deployment == Some(name_of(workload))
            }
            Self::DaemonSet => kind == "DaemonSet" && name == name_of(workload),
            Self::Service | Self::Knative => false,
        }
    }
}

fn cause_of(pod: &Value) -> Option<(Rank, String)> {
    let status = &pod["status"];
    let scheduled =
        conditions(pod).find(|it| it["type"] == "PodScheduled" && it["status"] == "False");
    if let Some(condition) = scheduled {
        let reason = condition["reason"].as_str().unwrap_or("Unschedulable");
        let cause = with_message(format!("pods are not scheduled ({reason})"), condition);
        return Some((Rank::NotScheduled, cause));
    }
    let containers = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|list| status[list].as_array())
        .flatten();
    let of_containers = containers.filter_map(|container| cause_of_container(pod, container)).min();
    let failed = || {
        let reason = status["reason"].as_str().unwrap_or("Failed");
        (status["phase"] == "Failed").then(|| {
            (
                Rank::Failed,
                with_message(format!("a pod failed ({})", excerpt(reason.as_bytes())), status),
            )
        })
    };
    of_containers.or_else(failed)
}

fn cause_of_container(pod: &Value, status: &Value) -> Option<(Rank, String)> {
    let name = status["name"].as_str().unwrap_or_default();
    let waiting = status["state"]["waiting"]["reason"].as_str();
    match waiting {
        Some("ErrImagePull" | "ImagePullBackOff") => {
            let image = image_of(pod, name).unwrap_or_default();
            let cause = format!(
                "image `{image}` of container `{name}` cannot be pulled (ImagePullBackOff)"
            );
            return Some((Rank::NoImage, cause));
        }
        None | Some("ContainerCreating" | "PodInitializing" | "CrashLoopBackOff") => {}
        Some(reason) => {
            let cause =
                format!("container `{name}` is not created ({})", excerpt(reason.as_bytes()));
            return Some((Rank::NotCreated, with_message(cause, &status["state"]["waiting"])));
        }
    }
    let last = [&status["state"]["terminated"], &status["lastState"]["terminated"]];
    let ended = last.into_iter().find(|it| it.is_object());
    let is_loop = waiting == Some("CrashLoopBackOff") || status["restartCount"].as_i64() > Some(0);
    if let Some(ended) = ended.filter(|it| is_loop || it["exitCode"] != 0) {
        let code = &ended["exitCode"];
        let reason = match ended["reason"].as_str() {
            Some("OOMKilled") => "OOMKilled",
            _ => "CrashLoopBackOff",
        };
        return Some((
            Rank::Exits,
            format!("container `{name}` exits with code {code} ({reason})"),
        ));
    }
    let runs = status["state"]["running"].is_object() && status["ready"] == false;
    runs.then(|| {
        let cause = format!("container `{name}` runs and is not ready; see its readiness probe");
        (Rank::NotReady, cause)
    })
}

fn image_of<'a>(pod: &'a Value, container: &str) -> Option<&'a str> {
    let lists = ["initContainers", "containers"].into_iter();
    let all = lists.filter_map(|list| pod["spec"][list].as_array()).flatten();
    all.filter(|it| it["name"] == container).find_map(|it| it["image"].as_str())
}

fn with_message(cause: String, of: &Value) -> String {
    match of["message"].as_str().map(|message| excerpt(message.as_bytes())) {
        Some(message) if !message.is_empty() => format!("{cause}: {message}"),
        _ => cause,
    }
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

fn holds(object: &Value, condition: &str) -> bool {
    conditions(object).any(|it| it["type"] == condition && it["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WEB: WorkloadKind = WorkloadKind::Deployment;

    fn web() -> Value {
        json!({ "metadata": { "name": "web" } })
    }

    fn pod(owner: [&str; 2], status: &Value) -> Value {
        let [kind, name] = owner;
        json!({
            "metadata": { "ownerReferences": [{ "kind": kind, "name": name, "controller": true }] },
            "spec": { "containers": [{ "name": "app", "image": "web:2" }] },
            "status": status,
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "rows are literals")]
    fn of_web(status: Value) -> Value {
        pod(["ReplicaSet", "web-5d89"], &status)
    }

    #[expect(clippy::needless_pass_by_value, reason = "rows are literals")]
    fn container(state: Value, more: Value) -> Value {
        let mut status =
            json!({ "name": "app", "ready": false, "restartCount": 0, "state": state });
        if let (Some(status), Value::Object(more)) = (status.as_object_mut(), more) {
            status.extend(more);
        }
        json!({ "containerStatuses": [status] })
    }

    fn waiting(reason: &str) -> Value {
        json!({ "waiting": { "reason": reason, "message": "back-off 40s restarting" } })
    }

    #[test]
    fn a_cause_is_named_in_the_words_of_the_pod() {
        let exit = |code: i64, reason: &str| json!({ "terminated": { "exitCode": code, "reason": reason } });
        let crashed = || json!({ "restartCount": 3, "lastState": exit(1, "Error") });
        let crash = Some("container `app` exits with code 1 (CrashLoopBackOff)");
        let pull = Some("image `web:2` of container `app` cannot be pulled (ImagePullBackOff)");
        let unscheduled = json!({ "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu.",
        }] });
        let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" });
        let cases = [
            ("it waits after a crash", container(waiting("CrashLoopBackOff"), crashed()), crash),
            ("it runs again", container(json!({ "running": {} }), crashed()), crash),
            ("it has just crashed", container(exit(1, "Error"), json!({})), crash),
            (
                "it ends well, and again and again",
                container(
                    waiting("CrashLoopBackOff"),
                    json!({ "lastState": exit(0, "Completed") }),
                ),
                Some("container `app` exits with code 0 (CrashLoopBackOff)"),
            ),
            (
                "it needs more memory",
                container(
                    waiting("CrashLoopBackOff"),
                    json!({ "lastState": exit(137, "OOMKilled") }),
                ),
                Some("container `app` exits with code 137 (OOMKilled)"),
            ),
            ("no image", container(waiting("ErrImagePull"), json!({})), pull),
            ("no image for a while", container(waiting("ImagePullBackOff"), json!({})), pull),
            (
                "no configuration",
                container(
                    json!({ "waiting": {
                        "reason": "CreateContainerConfigError", "message": "configmap \"c\" not found",
                    } }),
                    json!({}),
                ),
                Some(
                    "container `app` is not created (CreateContainerConfigError): configmap \"c\" not \
                     found",
                ),
            ),
            (
                "no node",
                unscheduled,
                Some(
                    "pods are not scheduled (Unschedulable): 0/3 nodes are available: 3 Insufficient cpu.",
                ),
            ),
            ("evicted", evicted, Some("a pod failed (Evicted): low on memory")),
            (
                "its probe fails",
                container(json!({ "running": {} }), json!({})),
                Some("container `app` runs and is not ready; see its readiness probe"),
            ),
            ("it starts", container(waiting("ContainerCreating"), json!({})), None),
            ("nothing is known yet", json!({ "phase": "Pending" }), None),
        ];
        for (reason, status, want) in cases {
            assert_eq!(WEB.cause(&web(), &[of_web(status)]).as_deref(), want, "{reason}");
        }
    }

    #[test]
    fn only_its_own_pods_that_are_not_ready_count() {
        let status = || container(waiting("CrashLoopBackOff"), json!({ "lastState": {} }));
        let failing = || container(waiting("ErrImagePull"), json!({}));
        let mut ready = of_web(failing());
        ready["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
        let mut leaving = of_web(failing());
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let others = [
            pod(["ReplicaSet", "web-primary-5d89"], &failing()),
            pod(["ReplicaSet", "web"], &failing()),
            pod(["DaemonSet", "web-5d89"], &failing()),
            json!({ "status": failing() }),
            ready,
            leaving,
            of_web(status()),
        ];
        assert_eq!(WEB.cause(&web(), &others), None);
        let daemon = [pod(["DaemonSet", "web"], &failing())];
        assert!(WorkloadKind::DaemonSet.cause(&web(), &daemon).is_some());
        assert_eq!(WorkloadKind::Service.cause(&web(), &daemon), None);
    }

    #[test]
    fn the_most_telling_cause_is_named_whatever_the_order() {
        let probe = of_web(container(json!({ "running": {} }), json!({})));
        let pull = of_web(container(waiting("ErrImagePull"), json!({})));
        let both = [probe.clone(), pull.clone()];
        let told = WEB.cause(&web(), &both);
        assert!(told.as_ref().is_some_and(|told| told.contains("pulled")), "{told:?}");
        assert_eq!(told, WEB.cause(&web(), &[pull, probe]));
    }
}
