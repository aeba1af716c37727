//! `StatefulSets` in virtual time: order of pods, updates with partitions, revisions, volume
//! claims.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    cluster::{CONTROLLER_REVISIONS, Resource},
    controllers::testing::{FakeCluster, Simulation, set_image, stateful_set},
    kubelet::{Behaviour, KubeletSettings},
};

fn slow() -> Simulation {
    let second = Duration::from_secs(1);
    let kubelet =
        KubeletSettings { ready_delay: second, stop_delay: second, ..KubeletSettings::instant() };
    Simulation::with(kubelet, 7)
}

fn names(simulation: &Simulation) -> Vec<String> {
    simulation.list(PODS).iter().map(|pod| name(pod).to_owned()).collect()
}

fn image(simulation: &Simulation, pod: &str) -> String {
    text(&simulation.get(PODS, pod), "/spec/containers/0/image").to_owned()
}

fn status(simulation: &Simulation) -> Value {
    simulation.get(STATEFUL_SETS, "db")["status"].clone()
}

fn unready(cluster: &FakeCluster) -> usize {
    let pods = cluster.list(PODS, None);
    pods.iter().filter(|pod| is_deleting(pod) || !pods::is_ready(pod)).count()
}

#[test]
fn pods_come_up_in_order_each_waiting_for_the_one_before() {
    let mut simulation = slow();
    simulation.always(|cluster| assert!(unready(cluster) <= 1, "one at a time"));
    simulation.create(STATEFUL_SETS, stateful_set("db", 3, "nginx:1"));
    simulation.settle();
    assert_eq!(names(&simulation), ["db-0"]);
    simulation.advance(1);
    assert_eq!(names(&simulation), ["db-0", "db-1"]);
    simulation.advance(10);
    assert_eq!(names(&simulation), ["db-0", "db-1", "db-2"]);
    let pod = simulation.get(PODS, "db-1");
    assert_eq!(label(&pod, "statefulset.kubernetes.io/pod-name"), Some("db-1"));
    assert_eq!(label(&pod, "apps.kubernetes.io/pod-index"), Some("1"));
    assert_eq!((text(&pod, "/spec/hostname"), text(&pod, "/spec/subdomain")), ("db-1", "db"));
    let status = status(&simulation);
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(label(&pod, REVISION_LABEL), status["currentRevision"].as_str());
    for counter in
        ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas"]
    {
        assert_eq!(status[counter], 3, "{counter}");
    }
    simulation.assert_quiet();
}

#[test]
fn parallel_pods_come_up_together() {
    let mut simulation = slow();
    let mut set = stateful_set("db", 3, "nginx:1");
    set["spec"]["podManagementPolicy"] = "Parallel".into();
    simulation.create(STATEFUL_SETS, set);
    simulation.settle();
    assert_eq!(names(&simulation).len(), 3);
}

#[test]
fn scaling_down_goes_from_the_highest_number() {
    let mut simulation = slow();
    simulation.create(STATEFUL_SETS, stateful_set("db", 3, "nginx:1"));
    simulation.advance(20);
    simulation.patch(STATEFUL_SETS, "db", &json!({ "spec": { "replicas": 1 } }));
    simulation.settle();
    assert!(is_deleting(&simulation.get(PODS, "db-2")));
    assert!(!is_deleting(&simulation.get(PODS, "db-1")), "one after the other");
    simulation.advance(10);
    assert_eq!(names(&simulation), ["db-0"]);
    simulation.assert_quiet();
}

#[test]
fn an_update_goes_down_to_the_partition_and_no_further() {
    let mut simulation = slow();
    simulation.create(STATEFUL_SETS, stateful_set("db", 4, "nginx:1"));
    simulation.advance(20);
    let partition = |number: i64| json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": number } } } });
    simulation.patch(STATEFUL_SETS, "db", &partition(2));
    set_image(&simulation, STATEFUL_SETS, "db", "nginx:2");
    simulation.always(|cluster| assert!(unready(cluster) <= 1, "one at a time"));
    simulation.advance(20);
    let images: Vec<_> = (0..4).map(|n| image(&simulation, &format!("db-{n}"))).collect();
    assert_eq!(images, ["nginx:1", "nginx:1", "nginx:2", "nginx:2"]);
    let now = status(&simulation);
    assert_ne!(now["currentRevision"], now["updateRevision"]);
    assert_eq!((&now["currentReplicas"], &now["updatedReplicas"]), (&json!(2), &json!(2)));

    simulation.delete(PODS, "db-0");
    simulation.advance(10);
    assert_eq!(image(&simulation, "db-0"), "nginx:1", "below the partition nothing changes");

    simulation.patch(STATEFUL_SETS, "db", &partition(0));
    simulation.advance(20);
    assert_eq!(image(&simulation, "db-0"), "nginx:2");
    let now = status(&simulation);
    assert_eq!(now["currentRevision"], now["updateRevision"]);
    simulation.assert_quiet();
}

#[test]
fn on_delete_waits_for_someone_to_delete() {
    let mut simulation = Simulation::new();
    let mut set = stateful_set("db", 2, "nginx:1");
    set["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    simulation.create(STATEFUL_SETS, set);
    simulation.settle();
    set_image(&simulation, STATEFUL_SETS, "db", "nginx:2");
    simulation.settle();
    assert_eq!(image(&simulation, "db-1"), "nginx:1");
    simulation.delete(PODS, "db-1");
    simulation.settle();
    assert_eq!(image(&simulation, "db-1"), "nginx:2");
    assert_eq!(image(&simulation, "db-0"), "nginx:1");
    assert_eq!(status(&simulation)["updatedReplicas"], 1);
    simulation.assert_quiet();
}

#[test]
fn a_broken_update_stops_at_the_first_pod() {
    let mut simulation = Simulation::new();
    simulation.create(STATEFUL_SETS, stateful_set("db", 3, "nginx:1"));
    simulation.settle();
    simulation.behaviours.set("*:2", Behaviour::NeverReady);
    set_image(&simulation, STATEFUL_SETS, "db", "nginx:2");
    simulation.advance(600);
    assert_eq!(image(&simulation, "db-2"), "nginx:2");
    assert_eq!(image(&simulation, "db-1"), "nginx:1");
    assert_eq!(status(&simulation)["readyReplicas"], 2);
}

#[test]
fn revisions_are_kept_in_the_form_kubectl_undoes_with() {
    let mut simulation = Simulation::new();
    simulation.create(STATEFUL_SETS, stateful_set("db", 1, "nginx:1"));
    simulation.settle();
    set_image(&simulation, STATEFUL_SETS, "db", "nginx:2");
    simulation.settle();
    let numbers = |simulation: &Simulation| {
        let mut revisions = simulation.list(CONTROLLER_REVISIONS);
        revisions.sort_by_key(revisions::number);
        let images = revisions.iter().map(|revision| {
            let image = text(revision, "/data/spec/template/spec/containers/0/image");
            (revisions::number(revision), image.to_owned())
        });
        images.collect::<Vec<_>>()
    };
    let revision = simulation.list(CONTROLLER_REVISIONS).remove(0);
    assert_eq!(revision["data"]["spec"]["template"]["$patch"], "replace");
    assert_eq!(numbers(&simulation), [(1, "nginx:1".to_owned()), (2, "nginx:2".to_owned())]);
    set_image(&simulation, STATEFUL_SETS, "db", "nginx:1");
    simulation.settle();
    assert_eq!(numbers(&simulation), [(2, "nginx:2".to_owned()), (3, "nginx:1".to_owned())]);
    assert_eq!(image(&simulation, "db-0"), "nginx:1");
    simulation.patch(STATEFUL_SETS, "db", &json!({ "spec": { "revisionHistoryLimit": 1 } }));
    for version in 3..6 {
        set_image(&simulation, STATEFUL_SETS, "db", &format!("nginx:{version}"));
        simulation.settle();
    }
    assert_eq!(numbers(&simulation).len(), 2, "the one in use and one of history");
    simulation.assert_quiet();
}

#[test]
fn each_pod_gets_its_own_volume_claim() {
    let mut simulation = Simulation::new();
    let mut set = stateful_set("db", 2, "nginx:1");
    set["spec"]["volumeClaimTemplates"] = json!([
        { "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"] } },
    ]);
    simulation.create(STATEFUL_SETS, set);
    simulation.settle();
    let claims = simulation.list(Resource { group: "", plural: "persistentvolumeclaims" });
    let claims: Vec<_> = claims.iter().map(name).collect();
    assert_eq!(claims, ["data-db-0", "data-db-1"]);
    let volume = simulation.get(PODS, "db-1")["spec"]["volumes"][0].clone();
    assert_eq!(volume["persistentVolumeClaim"]["claimName"], "data-db-1");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn an_ordered_set_has_one_pod_unready_at_a_time_and_respects_its_partition(
        replicas in 1_i64..6,
        partition in 0_i64..6,
        conflict_percent in 0_u64..20,
        seed in any::<u64>(),
    ) {
        let second = Duration::from_secs(1);
        let kubelet = KubeletSettings { ready_delay: second, stop_delay: second, ..KubeletSettings::default() };
        let mut simulation = Simulation::with(kubelet, seed);
        let mut set = stateful_set("db", replicas, "nginx:1");
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = partition.into();
        simulation.cluster.conflict_percent.set(conflict_percent);
        simulation.always(|cluster| assert!(unready(cluster) <= 1, "one at a time"));
        simulation.create(STATEFUL_SETS, set);
        simulation.advance(60);
        set_image(&simulation, STATEFUL_SETS, "db", "nginx:2");
        simulation.advance(60);
        for number in 0..replicas {
            let want = if number < partition { "nginx:1" } else { "nginx:2" };
            prop_assert_eq!(image(&simulation, &format!("db-{number}")), want);
        }
        simulation.cluster.conflict_percent.set(0);
        simulation.assert_quiet();
    }
}
