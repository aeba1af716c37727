//! Pods on simulated nodes: life cycle, crashes, images, readiness, deletion, logs.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{
    cluster::EVENTS,
    controllers::{
        object::{condition, items, label},
        testing::{Simulation, template},
    },
};

fn bare_pod(pod_name: &str, image: &str) -> Value {
    let mut pod = template("web", image);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = pod_name.into();
    pod
}

fn with_pod(settings: KubeletSettings, pod: Value) -> Simulation {
    let mut simulation = Simulation::with(settings, 1);
    simulation.create(PODS, pod);
    simulation.settle();
    simulation
}

fn container(simulation: &Simulation) -> Value {
    simulation.get(PODS, "web")["status"]["containerStatuses"][0].clone()
}

fn ready(simulation: &Simulation) -> bool {
    pods::is_ready(&simulation.get(PODS, "web"))
}

fn waiting(simulation: &Simulation) -> String {
    text(&container(simulation), "/state/waiting/reason").to_owned()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_pod_is_created_then_runs_then_is_ready() {
    let settings = KubeletSettings {
        pull_delay: SECOND,
        start_delay: SECOND,
        ready_delay: SECOND,
        ..KubeletSettings::instant()
    };
    let mut simulation = with_pod(settings, bare_pod("web", "nginx:1"));
    let pod = simulation.get(PODS, "web");
    assert_eq!(pods::phase(&pod), "Pending");
    assert_eq!(waiting(&simulation), "ContainerCreating");
    assert_eq!(condition(&pod, "Ready").unwrap()["reason"], "ContainersNotReady");
    assert!(!text(&pod, "/status/startTime").is_empty());
    simulation.advance(2);
    assert_eq!(pods::phase(&simulation.get(PODS, "web")), "Running");
    assert!(!ready(&simulation));
    simulation.advance(1);
    assert!(ready(&simulation));
    let pod = simulation.get(PODS, "web");
    for kind in ["PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled"] {
        assert_eq!(condition(&pod, kind).unwrap()["status"], "True", "{kind}");
    }
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    assert_eq!(pod["status"]["podIPs"][0]["ip"], pod["status"]["podIP"]);
    let status = container(&simulation);
    assert_eq!(status["image"], "docker.io/library/nginx:1");
    assert!(text(&status, "/imageID").starts_with("docker.io/library/nginx@sha256:"));
    assert!(text(&status, "/containerID").starts_with("containerd://"));
    assert_eq!((&status["started"], &status["ready"]), (&json!(true), &json!(true)));
    for reason in ["Scheduled", "Pulling", "Pulled", "Created", "Started"] {
        assert_eq!(simulation.events(reason).len(), 1, "{reason}");
    }
    let events = simulation.list(EVENTS);
    let event = events.iter().find(|event| event["reason"] == "Started").unwrap();
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{web}");
    assert_eq!(event["source"], json!({ "component": "kubelet", "host": "node-0" }));
    simulation.assert_quiet();
}

#[test]
fn pods_are_spread_over_nodes_and_no_two_share_an_address() {
    let mut simulation = Simulation::new();
    for number in 0..9 {
        simulation.create(PODS, bare_pod(&format!("web-{number}"), "nginx:1"));
    }
    simulation.settle();
    let pods = simulation.list(PODS);
    for node in ["node-0", "node-1", "node-2"] {
        assert_eq!(pods.iter().filter(|pod| text(pod, "/spec/nodeName") == node).count(), 3);
    }
    let addresses: BTreeSet<_> = pods.iter().map(|pod| text(pod, "/status/podIP")).collect();
    assert_eq!(addresses.len(), 9);
    assert!(addresses.contains("10.244.2.2"), "{addresses:?}");
}

#[test]
fn a_pod_that_fits_nowhere_says_why_and_is_scheduled_when_it_fits() {
    let mut pod = bare_pod("web", "nginx:1");
    pod["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    let mut simulation = Simulation::new();
    let cordon = json!({ "spec": { "unschedulable": true } });
    simulation.cluster.patch(NODES, "", "node-0", "", &cordon).unwrap();
    simulation.create(PODS, pod);
    simulation.settle();
    let pod = simulation.get(PODS, "web");
    let scheduled = condition(&pod, "PodScheduled").unwrap();
    assert_eq!(scheduled["reason"], "Unschedulable");
    let message = "0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, \
                   1 node(s) were unschedulable. preemption: 0/3 nodes are available: \
                   3 Preemption is not helpful for scheduling.";
    assert_eq!(text(scheduled, "/message"), message);
    assert_eq!(simulation.events("FailedScheduling"), [message]);
    simulation.assert_quiet();
    let relabel = json!({ "metadata": { "labels": { "disk": "ssd" } } });
    simulation.cluster.patch(NODES, "", "node-2", "", &relabel).unwrap();
    simulation.settle();
    assert_eq!(text(&simulation.get(PODS, "web"), "/spec/nodeName"), "node-2");
    assert!(ready(&simulation));
}

#[test]
fn a_crashing_container_backs_off() {
    let mut simulation = with_pod(KubeletSettings::instant(), bare_pod("web", "nginx:crash-loop"));
    assert!(!ready(&simulation));
    simulation.advance(2);
    assert_eq!(waiting(&simulation), "CrashLoopBackOff");
    let status = container(&simulation);
    assert_eq!(status["restartCount"], 1);
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    let message = text(&status, "/state/waiting/message");
    assert!(message.starts_with("back-off 10s restarting failed container=web pod=web_default("));
    assert_eq!(pods::phase(&simulation.get(PODS, "web")), "Running");
    simulation.advance(600);
    assert_eq!(container(&simulation)["restartCount"], 6, "10, 20, 40, 80, 160 seconds");
    assert!(!ready(&simulation));
    let back_offs = simulation.list(EVENTS).into_iter().filter(|e| e["reason"] == "BackOff");
    let counts: Vec<_> = back_offs.map(|event| count(&event, "/count")).collect();
    assert_eq!(counts, [6], "one event that counts");
}

#[test]
fn an_image_that_cannot_be_pulled_is_tried_again_and_again() {
    let mut simulation =
        with_pod(KubeletSettings::instant(), bare_pod("web", "nginx:image-pull-error"));
    assert_eq!(waiting(&simulation), "ErrImagePull");
    simulation.advance(1);
    assert_eq!(waiting(&simulation), "ImagePullBackOff");
    assert_eq!(pods::phase(&simulation.get(PODS, "web")), "Pending");
    let mut containers = simulation.get(PODS, "web")["spec"]["containers"].clone();
    containers[0]["image"] = "nginx:1".into();
    simulation.patch(PODS, "web", &json!({ "spec": { "containers": containers } }));
    simulation.settle();
    assert!(ready(&simulation), "another image can be");
    assert_eq!(container(&simulation)["restartCount"], 0, "it had never started");
}

#[test]
fn a_changed_image_restarts_its_container_in_place() {
    let settings = KubeletSettings { pull_delay: SECOND, ..KubeletSettings::instant() };
    let mut simulation = with_pod(settings, bare_pod("web", "nginx:1"));
    simulation.advance(5);
    let before = container(&simulation);
    let address = simulation.get(PODS, "web")["status"]["podIP"].clone();
    let mut containers = simulation.get(PODS, "web")["spec"]["containers"].clone();
    containers[0]["image"] = "nginx:2".into();
    simulation.patch(PODS, "web", &json!({ "spec": { "containers": containers } }));
    simulation.settle();
    let during = container(&simulation);
    assert!(!ready(&simulation), "while the image is pulled");
    assert_eq!(during["imageID"], before["imageID"], "the new one does not run yet");
    simulation.advance(1);
    let after = container(&simulation);
    assert!(ready(&simulation));
    assert_eq!(after["restartCount"], 1);
    assert_ne!(after["imageID"], before["imageID"]);
    assert_ne!(after["containerID"], before["containerID"]);
    assert_eq!(after["lastState"]["terminated"]["containerID"], before["containerID"]);
    assert_eq!(simulation.get(PODS, "web")["status"]["podIP"], address, "the pod stays");
    assert_eq!(simulation.get(PODS, "web")["status"]["observedGeneration"], 3);
    let killed = "Container web definition changed, will be restarted";
    assert_eq!(simulation.events("Killing"), [killed]);
    simulation.assert_quiet();
}

#[test]
fn readiness_gates_hold_a_pod_back_until_someone_opens_them() {
    let mut pod = bare_pod("web", "nginx:1");
    pod["spec"]["readinessGates"] = json!([{ "conditionType": "tidegate.dev/in-place" }]);
    let mut simulation = with_pod(KubeletSettings::instant(), pod);
    let pod = simulation.get(PODS, "web");
    assert_eq!(condition(&pod, "ContainersReady").unwrap()["status"], "True");
    assert_eq!(condition(&pod, "Ready").unwrap()["reason"], "ReadinessGatesNotReady");
    let gate = |status: &str| {
        let mut conditions = items(&simulation.get(PODS, "web"), "/status/conditions").to_vec();
        conditions.retain(|condition| condition["type"] != "tidegate.dev/in-place");
        conditions.push(json!({ "type": "tidegate.dev/in-place", "status": status }));
        let patch = json!({ "status": { "conditions": conditions } });
        simulation.cluster.patch(PODS, "default", "web", "status", &patch).unwrap();
    };
    gate("True");
    simulation.settle();
    assert!(ready(&simulation));
    let kept = simulation.get(PODS, "web");
    assert!(condition(&kept, "tidegate.dev/in-place").is_some(), "others' conditions stay");
    let mut conditions = items(&kept, "/status/conditions").to_vec();
    conditions.retain(|condition| condition["type"] != "tidegate.dev/in-place");
    let patch = json!({ "status": { "conditions": conditions } });
    simulation.cluster.patch(PODS, "default", "web", "status", &patch).unwrap();
    simulation.settle();
    assert!(!ready(&simulation), "a gate that closes again counts");
}

#[test]
fn a_deleted_pod_stops_gracefully_and_is_then_gone() {
    let settings = KubeletSettings { stop_delay: 5 * SECOND, ..KubeletSettings::instant() };
    let mut simulation = with_pod(settings.clone(), bare_pod("web", "nginx:1"));
    simulation.delete(PODS, "web");
    simulation.settle();
    assert!(ready(&simulation), "it serves until it has stopped");
    assert_eq!(simulation.events("Killing"), ["Stopping container web"]);
    simulation.advance(4);
    assert!(simulation.find(PODS, "web").is_some());
    simulation.advance(1);
    assert!(simulation.find(PODS, "web").is_none());

    let mut hasty = bare_pod("web", "nginx:1");
    hasty["spec"]["terminationGracePeriodSeconds"] = json!(2);
    let mut simulation = with_pod(settings, hasty);
    simulation.delete(PODS, "web");
    simulation.advance(2);
    assert!(simulation.find(PODS, "web").is_none(), "the grace period is shorter");
}

#[test]
fn a_pod_held_by_a_finalizer_is_stopped_once() {
    let mut pod = bare_pod("web", "nginx:1");
    pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let mut simulation = with_pod(KubeletSettings::instant(), pod);
    simulation.delete(PODS, "web");
    simulation.settle();
    let pod = simulation.get(PODS, "web");
    assert_eq!(pods::phase(&pod), "Succeeded");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 0);
    simulation.assert_quiet();
}

#[test]
fn slow_flapping_and_dying_containers_keep_their_times() {
    let cases = [
        ("slow-start=30s", vec![(29, false), (30, true), (300, true)]),
        ("flapping=5s/3s", vec![(0, true), (4, true), (5, false), (8, true), (13, false)]),
        ("ready-then-dies=20s", vec![(19, true), (20, true), (41, false), (51, true)]),
        ("never-ready", vec![(0, false), (1000, false)]),
    ];
    for (behaviour, moments) in cases {
        let mut pod = bare_pod("web", "nginx:1");
        pod["metadata"]["annotations"] = json!({ "sandbox.tidegate.dev/behaviour": behaviour });
        let mut simulation = with_pod(KubeletSettings::instant(), pod);
        let mut at = 0;
        for (moment, want) in moments {
            simulation.advance(moment - at);
            at = moment;
            assert_eq!(ready(&simulation), want, "{behaviour} after {moment} s");
        }
    }
}

#[test]
fn what_completes_ends_the_pod_by_its_restart_policy() {
    let cases = [
        ("Never", "completes=0/1s", "Succeeded"),
        ("Never", "completes=3/1s", "Failed"),
        ("OnFailure", "completes=0/1s", "Succeeded"),
        ("OnFailure", "completes=3/1s", "Running"),
        ("Always", "completes=0/1s", "Running"),
    ];
    for (policy, behaviour, want) in cases {
        let mut pod = bare_pod("web", "nginx:1");
        pod["metadata"]["annotations"] = json!({ "sandbox.tidegate.dev/behaviour": behaviour });
        pod["spec"]["restartPolicy"] = policy.into();
        let mut simulation = with_pod(KubeletSettings::instant(), pod);
        simulation.advance(3);
        let pod = simulation.get(PODS, "web");
        assert_eq!(pods::phase(&pod), want, "{policy} {behaviour}");
    }
}

#[test]
fn init_containers_run_in_order_before_the_others() {
    let mut pod = bare_pod("web", "nginx:1");
    pod["spec"]["initContainers"] = json!([
        { "name": "first", "image": "busybox:1" },
        { "name": "beside", "image": "proxy:1", "restartPolicy": "Always" },
        { "name": "second", "image": "busybox:2" },
    ]);
    let settings = KubeletSettings { start_delay: SECOND, ..KubeletSettings::instant() };
    let mut simulation = with_pod(settings, pod);
    let states = |simulation: &Simulation| -> Vec<String> {
        let pod = simulation.get(PODS, "web");
        let statuses = items(&pod, "/status/initContainerStatuses").iter();
        let states =
            statuses.map(|s| s["state"].as_object().unwrap().keys().next().unwrap().clone());
        states.collect()
    };
    assert_eq!(waiting(&simulation), "PodInitializing");
    simulation.advance(2);
    assert_eq!(states(&simulation), ["terminated", "waiting", "waiting"]);
    simulation.advance(3);
    assert_eq!(states(&simulation), ["terminated", "running", "terminated"]);
    let pod = simulation.get(PODS, "web");
    assert_eq!(condition(&pod, "Initialized").unwrap()["status"], "True");
    assert_eq!(pods::phase(&pod), "Pending");
    simulation.advance(1);
    assert!(ready(&simulation));
    assert_eq!(container(&simulation)["restartCount"], 0);
}

#[test]
fn probes_hold_readiness_back_if_they_are_honoured() {
    let mut pod = bare_pod("web", "nginx:1");
    pod["spec"]["containers"][0]["readinessProbe"] =
        json!({ "initialDelaySeconds": 5, "periodSeconds": 10 });
    let settings = KubeletSettings {
        ready_delay: 7 * SECOND,
        honour_probes: true,
        ..KubeletSettings::instant()
    };
    let mut simulation = with_pod(settings, pod);
    simulation.advance(14);
    assert!(!ready(&simulation));
    simulation.advance(1);
    assert!(ready(&simulation), "the second probe, ten seconds after the first at five");
}

#[test]
fn a_restarted_kubelet_goes_on_where_it_was() {
    let mut simulation = with_pod(KubeletSettings::instant(), bare_pod("web", "nginx:1"));
    simulation.advance(10);
    let before = simulation.get(PODS, "web");
    let mut kubelet = Kubelet::new(KubeletSettings::instant());
    assert_eq!(kubelet.reconcile(&simulation.cluster, &key(&before)), Next::Idle);
    assert_eq!(simulation.get(PODS, "web"), before);
    let other = simulation.create(PODS, bare_pod("other", "nginx:1"));
    let bind = json!({ "spec": { "nodeName": text(&before, "/spec/nodeName") } });
    simulation.patch(PODS, "other", &bind);
    kubelet.reconcile(&simulation.cluster, &key(&other));
    let addresses: BTreeSet<_> =
        simulation.list(PODS).iter().map(|pod| text(pod, "/status/podIP").to_owned()).collect();
    assert_eq!(addresses.len(), 2, "addresses in use are not given out again");
}

#[test]
fn logs_tell_what_happened() {
    let mut simulation = with_pod(KubeletSettings::instant(), bare_pod("web", "nginx:crash-loop"));
    simulation.advance(2);
    let pod = simulation.get(PODS, "web");
    let now = simulation.cluster.now();
    let lines = log_lines(&pod, "web", now);
    assert_eq!(lines.last().map(String::as_str), Some("exited with code 1"));
    assert_eq!(log_lines(&pod, "nobody", now), Vec::<String>::new());
    let entries = log_entries(&pod, "web", true, now);
    assert!(entries.is_sorted_by_key(|(at, _)| *at));
    assert_eq!(label(&pod, "app"), Some("web"));
}
