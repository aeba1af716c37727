//! Pods that start and pods that fail.

use std::time::Duration;

use kube_sandbox::{
    cluster::{Cluster, DEPLOYMENTS, Deletion, PODS},
    kubelet::{Behaviour, KubeletSettings},
    store::EventKind,
};
use serde_json::{Value, json};
use tidegate_tests::controllers::{World, deployment, is_ready, merged, number, pod, text, uid};

fn container(world: &World, name: &str) -> Value {
    world.get(PODS, name)["status"]["containerStatuses"][0].clone()
}

fn waiting(world: &World, name: &str) -> String {
    text(&container(world, name)["state"]["waiting"]["reason"])
}

#[test]
fn a_running_pod_reads_as_on_a_real_cluster() {
    let world = World::new();
    world.create(PODS, pod("web", "nginx:1"));
    world.settle();
    let pod = world.get(PODS, "web");
    let status = &pod["status"];
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["qosClass"], "BestEffort");
    assert_eq!(status["podIPs"], json!([{ "ip": status["podIP"] }]));
    assert_eq!(status["hostIPs"], json!([{ "ip": status["hostIP"] }]));
    let types = status["conditions"].as_array().unwrap().iter().map(|c| text(&c["type"]));
    let want =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    assert_eq!(types.collect::<Vec<_>>(), want);
    let running = container(&world, "web");
    assert_eq!(running["image"], "docker.io/library/nginx:1");
    assert_eq!((&running["ready"], &running["started"]), (&json!(true), &json!(true)));
    world.assert_quiet();
}

#[test]
fn a_crash_loop_backs_off_ever_longer() {
    let world = World::new();
    world.create(PODS, pod("web", "nginx:1-crash-loop"));
    // Dies after 1 s, is restarted at once, dies, and waits 10, 20, 40 s and so on.
    let story = [
        (1, 1, ""),
        (2, 1, "back-off 10s"),
        (13, 2, "back-off 20s"),
        (34, 3, "back-off 40s"),
        (75, 4, "back-off 1m20s"),
        (156, 5, "back-off 2m40s"),
        (317, 6, "back-off 5m0s"),
        (618, 7, "back-off 5m0s"),
    ];
    let mut clock = 0;
    for (at, restarts, message) in story {
        world.advance(at - clock);
        clock = at;
        let status = container(&world, "web");
        assert_eq!(number(&status["restartCount"]), restarts, "after {at} s: {status}");
        if !message.is_empty() {
            assert_eq!(waiting(&world, "web"), "CrashLoopBackOff", "after {at} s");
            let said = text(&status["state"]["waiting"]["message"]);
            assert!(said.starts_with(message), "after {at} s: {said}");
            assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
        }
    }
    assert_eq!(world.get(PODS, "web")["status"]["phase"], "Running");
    assert!(!is_ready(&world.get(PODS, "web")));
}

#[test]
fn an_image_that_cannot_be_pulled_alternates_between_error_and_back_off() {
    let world = World::new();
    world.create(PODS, pod("web", "nginx:1-image-pull-error"));
    world.settle();
    assert_eq!(waiting(&world, "web"), "ErrImagePull");
    world.advance(2);
    assert_eq!(waiting(&world, "web"), "ImagePullBackOff");
    let status = world.get(PODS, "web")["status"].clone();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["containerStatuses"][0]["imageID"], "");
    world.set_pod_image("web", "nginx:1");
    world.settle();
    assert_eq!(world.get(PODS, "web")["status"]["phase"], "Running");
    assert_eq!(container(&world, "web")["restartCount"], 0, "it never ran before");
}

#[test]
fn readiness_follows_the_behaviour() {
    let cases = [
        ("never", "nginx:1-never-ready", [false, false, false]),
        ("slow", "nginx:1-slow-start-30s", [false, true, true]),
        ("flapping", "nginx:1-flapping-20s-30s", [true, false, true]),
        ("steady", "nginx:1", [true, true, true]),
    ];
    let world = World::new();
    for (name, image, _) in cases {
        world.create(PODS, pod(name, image));
    }
    for (moment, wait) in [0, 31, 24].into_iter().enumerate() {
        world.advance(wait);
        for (name, _, ready) in cases {
            assert_eq!(is_ready(&world.get(PODS, name)), ready[moment], "{name} at {moment}");
        }
    }
}

#[test]
fn a_pod_that_was_ready_dies_and_comes_back() {
    let world = World::new();
    world.create(PODS, pod("web", "nginx:1-ready-then-dies-30s"));
    world.settle();
    assert!(is_ready(&world.get(PODS, "web")));
    world.advance(31);
    let status = container(&world, "web");
    assert_eq!(status["restartCount"], 1);
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(status["lastState"]["terminated"]["reason"], "Error");
    assert!(is_ready(&world.get(PODS, "web")), "the first restart comes at once");
    world.advance(31);
    assert_eq!(waiting(&world, "web"), "CrashLoopBackOff");
    assert!(!is_ready(&world.get(PODS, "web")));
}

#[test]
fn a_pod_that_completes_ends_as_its_restart_policy_says() {
    let cases = [
        ("done", "job:1-completes-0-5s", "Never", "Succeeded", 0),
        ("broken", "job:1-completes-3-5s", "Never", "Failed", 0),
        ("done-once", "job:1-completes-0-5s", "OnFailure", "Succeeded", 0),
        ("tried-again", "job:1-completes-3-5s", "OnFailure", "Running", 1),
        ("for-ever", "job:1-completes-0-5s", "Always", "Running", 1),
    ];
    let world = World::new();
    for (name, image, policy, ..) in cases {
        let policy = json!({ "spec": { "restartPolicy": policy } });
        world.create(PODS, merged(pod(name, image), &policy));
    }
    world.advance(6);
    for (name, _, policy, phase, restarts) in cases {
        let status = world.get(PODS, name)["status"].clone();
        assert_eq!(status["phase"], phase, "{name} with {policy}");
        assert_eq!(number(&status["containerStatuses"][0]["restartCount"]), restarts, "{name}");
    }
    let ended = container(&world, "broken")["state"]["terminated"].clone();
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(3), &json!("Error")));
}

#[test]
fn readiness_gates_hold_a_pod_back() {
    let world = World::new();
    let gates = json!({ "spec": { "readinessGates": [{ "conditionType": "example.com/go" }] } });
    world.create(PODS, merged(pod("web", "nginx:1"), &gates));
    world.settle();
    let ready = world.condition(PODS, "web", "Ready");
    assert_eq!(ready["reason"], "ReadinessGatesNotReady");
    assert_eq!(world.condition(PODS, "web", "ContainersReady")["status"], "True");
    let mut conditions = world.get(PODS, "web")["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({ "type": "example.com/go", "status": "True" }));
    let patch = json!({ "status": { "conditions": conditions } });
    world.admin.patch(PODS, "default", "web", "status", &patch).unwrap();
    world.settle();
    assert!(is_ready(&world.get(PODS, "web")));
    world.assert_quiet();
}

#[test]
fn a_pod_stops_within_its_grace_period() {
    let slow =
        KubeletSettings { stop_delay: Duration::from_secs(20), ..KubeletSettings::instant() };
    // The pod's own period, the requested one, and how long it takes.
    let cases = [(30, None, 20), (5, None, 5), (30, Some(3), 3), (30, Some(0), 0)];
    for (own, asked, takes) in cases {
        let world = World::paced(slow.clone());
        let period = json!({ "spec": { "terminationGracePeriodSeconds": own } });
        world.create(PODS, merged(pod("web", "nginx:1"), &period));
        world.settle();
        let deletion = Deletion { grace_period_s: asked, ..Deletion::default() };
        world.admin.delete(PODS, "default", "web", &deletion).unwrap();
        if takes > 0 {
            world.settle();
            let stopping = world.get(PODS, "web");
            let grace = number(&stopping["metadata"]["deletionGracePeriodSeconds"]);
            assert_eq!(grace, asked.unwrap_or(own));
            assert_eq!(stopping["status"]["phase"], "Running", "it runs until it has stopped");
            world.advance(takes - 1);
            assert!(world.find(PODS, "web").is_some(), "{own}, {asked:?}");
            world.advance(2);
        }
        assert!(world.find(PODS, "web").is_none(), "{own}, {asked:?}");
    }
}

#[test]
fn a_pod_that_was_never_bound_goes_at_once_and_a_finalizer_holds_one_that_stopped() {
    let world = World::new();
    world.sandbox.runtime().pause("scheduler");
    world.create(PODS, pod("waiting", "nginx:1"));
    world.settle();
    world.delete(PODS, "waiting");
    assert!(world.find(PODS, "waiting").is_none());
    world.sandbox.runtime().resume("scheduler");
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    world.create(PODS, merged(pod("held", "nginx:1"), &held));
    world.settle();
    world.delete(PODS, "held");
    world.settle();
    let stopped = world.get(PODS, "held");
    assert!(!stopped["status"]["containerStatuses"][0]["state"]["terminated"].is_null());
    world.assert_quiet();
    world.patch(PODS, "held", &json!({ "metadata": { "finalizers": null } }));
    world.settle();
    assert!(world.find(PODS, "held").is_none());
}

#[test]
fn an_image_changed_in_place_restarts_the_container_and_keeps_the_pod() {
    let world = World::new();
    world.create(PODS, pod("web", "nginx:1"));
    world.settle();
    let (before, first) = (world.get(PODS, "web"), container(&world, "web"));
    let revision = world.revision();
    world.set_pod_image("web", "nginx:2");
    world.settle();
    let (after, second) = (world.get(PODS, "web"), container(&world, "web"));
    assert_eq!(uid(&before), uid(&after));
    assert_eq!(before["status"]["podIP"], after["status"]["podIP"]);
    assert_eq!((number(&first["restartCount"]), number(&second["restartCount"])), (0, 1));
    assert_ne!(first["imageID"], second["imageID"]);
    assert_ne!(first["containerID"], second["containerID"]);
    assert_eq!(second["image"], "docker.io/library/nginx:2");
    assert_eq!(second["lastState"]["terminated"]["containerID"], first["containerID"]);
    assert!(is_ready(&after));
    let kinds = world.seen_since(PODS, revision).into_iter().map(|(kind, ..)| kind);
    assert!(kinds.into_iter().all(|kind| kind == EventKind::Modified));
    let said = world.events("Killing");
    assert_eq!(said, ["Container app definition changed, will be restarted"]);
}

#[test]
fn delays_are_kept_to_the_moment() {
    let paced = KubeletSettings {
        pull_delay: Duration::from_secs(10),
        start_delay: Duration::from_secs(5),
        ready_delay: Duration::from_secs(20),
        stop_delay: Duration::from_secs(2),
        ..KubeletSettings::instant()
    };
    let world = World::paced(paced);
    world.create(PODS, pod("web", "nginx:1"));
    world.advance(14);
    assert_eq!(world.get(PODS, "web")["status"]["phase"], "Pending");
    world.advance(1);
    assert_eq!(world.get(PODS, "web")["status"]["phase"], "Running");
    world.advance(19);
    assert!(!is_ready(&world.get(PODS, "web")));
    world.advance(1);
    assert!(is_ready(&world.get(PODS, "web")));
    world.create(PODS, pod("again", "nginx:1"));
    world.advance(6);
    let phase = world.get(PODS, "again")["status"]["phase"].clone();
    assert_eq!(phase, "Running", "an image is pulled to a node once");
}

#[test]
fn a_knob_is_felt_when_the_kubelet_looks_again() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
    world.settle();
    let behaviours = &world.sandbox.controllers().kubelet.behaviours;
    behaviours.set("nginx:1", Behaviour::NeverReady);
    world.settle();
    assert_eq!(world.get(DEPLOYMENTS, "web")["status"]["readyReplicas"], 2, "nobody looked yet");
    world.sandbox.runtime().requeue("kubelet");
    world.settle();
    assert_eq!(world.get(DEPLOYMENTS, "web")["status"].get("readyReplicas"), None);
    behaviours.clear("nginx:1");
    world.sandbox.runtime().requeue("kubelet");
    world.settle();
    assert_eq!(world.get(DEPLOYMENTS, "web")["status"]["readyReplicas"], 2);
}

#[test]
fn a_paused_loop_does_nothing_and_catches_up() {
    let world = World::new();
    let names = world.sandbox.runtime().names();
    for name in
        ["deployment", "replicaset", "scheduler", "kubelet", "garbage-collector", "namespace"]
    {
        assert!(names.contains(&name), "{name}");
    }
    world.sandbox.runtime().pause("kubelet");
    world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
    world.advance(3600);
    assert!(world.list(PODS).iter().all(|pod| pod["status"]["phase"] == "Pending"));
    assert!(world.list(PODS).iter().all(|pod| !pod["spec"]["nodeName"].is_null()));
    let progressing = world.condition(DEPLOYMENTS, "web", "Progressing");
    assert_eq!(progressing["reason"], "ProgressDeadlineExceeded");
    world.sandbox.runtime().resume("kubelet");
    world.settle();
    assert_eq!(world.get(DEPLOYMENTS, "web")["status"]["availableReplicas"], 2);
}
