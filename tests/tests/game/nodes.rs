//! Sets on a node that is lost: the pod comes back elsewhere, and the release goes on.

use kube_sandbox::{
    cluster::{Cluster as _, Deletion, NODES, PODS},
    faults::{Effect, Matcher, RuleId, When},
    request::Verb,
};
use serde_json::{Value, json};

use crate::rig::{Stage, numbered};

const FORCE: &str = "pod.gamestatefulset.bkbcs.tencent.com/node-lost-force-delete";
const VICTIM: &str = "arena-1";

/// The ways to lose a node.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// The node reports no more.
    Silent,
    /// Its object is gone as well.
    Deleted,
}

fn set(policy: &str, way: &str, steps: bool, forces: bool) -> Value {
    let mut strategy = json!({ "type": way, "rollingUpdate": { "maxUnavailable": 1 } });
    if steps {
        strategy["canary"] = json!({ "steps": [{ "partition": 2 }, { "pause": { "duration": 20 } }, { "partition": 1 }] });
    }
    let mut set = numbered(policy, &strategy);
    if forces {
        set["spec"]["template"]["metadata"]["annotations"] = json!({ FORCE: "true" });
    }
    set
}

/// The node of a pod dies and the pod is evicted: no kubelet is left to finish its deletion. The rule keeps
/// the node from reporting.
fn lose(stage: &Stage, loss: Loss) -> RuleId {
    let pod = stage.world.get(PODS, VICTIM).unwrap();
    let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
    let rule = stage.world.sandbox.server().faults.add(
        Matcher::writes().user("system:sandbox:kubelet").resource("", "pods").name(VICTIM),
        When::Always,
        Effect::FailBefore { code: 503, reason: "ServiceUnavailable" },
    );
    let admin = &stage.world.admin;
    match loss {
        Loss::Silent => {
            let mut object = admin.get(NODES, "", &node).unwrap();
            for condition in object["status"]["conditions"].as_array_mut().unwrap() {
                if condition["type"] == "Ready" {
                    condition["status"] = json!("Unknown");
                }
            }
            admin.update(NODES, "status", object).unwrap();
        }
        Loss::Deleted => admin.delete(NODES, "", &node, &Deletion::default()).unwrap(),
    }
    let mut pod = pod;
    for condition in pod["status"]["conditions"].as_array_mut().unwrap() {
        if condition["type"] == "Ready" {
            condition["status"] = json!("False");
        }
    }
    pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    admin.update(PODS, "status", pod).unwrap();
    admin.delete(PODS, "default", VICTIM, &Deletion::default()).unwrap();
    rule
}

/// The node is back, or a new one is there.
fn repair(stage: &Stage, rule: RuleId) {
    stage.allow(rule);
    let admin = &stage.world.admin;
    let nodes = admin.list(NODES, None);
    for mut node in nodes {
        for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
            if condition["type"] == "Ready" {
                condition["status"] = json!("True");
            }
        }
        admin.update(NODES, "status", node).unwrap();
    }
}

fn uid(stage: &Stage) -> Value {
    stage.world.get(PODS, VICTIM).unwrap_or_default()["metadata"]["uid"].clone()
}

fn is_done(stage: &Stage) -> bool {
    stage.is_settled() && stage.with_image("game:2") == 3
}

async fn release(policy: &str, way: &str, steps: bool, loss: Loss) {
    let about = format!("{policy} {way} steps={steps} {loss:?}");
    let stage = Stage::up(set(policy, way, steps, true)).await;
    let before = uid(&stage);
    stage.image("game:2");
    stage.until(120, &about, |stage| stage.status()["updatedReplicas"].as_i64() >= Some(1)).await;
    let rule = lose(&stage, loss);
    stage.until(120, &format!("{about}: by force"), |stage| uid(stage) != before).await;
    assert_eq!(stage.told("SuccessfulForceDelete").len(), 1, "{about}: {:?}", stage.world.events());
    repair(&stage, rule);
    if let Loss::Deleted = loss {
        let node = kube_sandbox::kubelet::node_object("spare", 7, stage.world.admin.now());
        stage.world.admin.create(NODES, "", node).unwrap();
    }
    stage.until(600, &format!("{about}: updated"), is_done).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_node_stops_no_release() {
    for policy in ["OrderedReady", "Parallel"] {
        for way in ["RollingUpdate", "InplaceUpdate", "HotPatchUpdate"] {
            for steps in [false, true] {
                release(policy, way, steps, Loss::Silent).await;
            }
        }
    }
}

// Mistake 22 of docs/mistakes.md.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_as_an_object_lets_its_pods_go_as_well() {
    release("OrderedReady", "RollingUpdate", false, Loss::Deleted).await;
    release("Parallel", "RollingUpdate", true, Loss::Deleted).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_mark_a_lost_pod_is_waited_for() {
    let stage = Stage::up(set("Parallel", "RollingUpdate", false, false)).await;
    let before = uid(&stage);
    let rule = lose(&stage, Loss::Silent);
    stage.world.advance_s(1_800).await;
    assert_eq!(uid(&stage), before, "it may still run, and nobody can tell");
    let forced = stage.world.sandbox.server().log.matching(|it| {
        it.verb == Verb::Delete && it.concerns("", "pods") && it.user.contains("tidegate")
    });
    assert!(forced.is_empty(), "{forced:?}");
    repair(&stage, rule);
    stage.until(300, "back", |stage| stage.is_settled() && uid(stage) != before).await;
}
