//! `ReplicaSets`, `StatefulSets` and `DaemonSets`.

use std::collections::BTreeSet;

use kube_sandbox::{
    Settings,
    cluster::{Cluster, DAEMON_SETS, Deletion, NODES, PODS, REPLICA_SETS, Resource, STATEFUL_SETS},
    kubelet::node_object,
    store::EventKind,
};
use serde_json::{Value, json};
use tidegate_tests::controllers::{
    World, daemon_set, is_ready, merged, number, replica_set, stateful_set, text, uid,
    without_times,
};

const CLAIMS: Resource = Resource { group: "", plural: "persistentvolumeclaims" };

fn images(world: &World) -> Vec<(String, String)> {
    let image = |pod: &Value| text(&pod["spec"]["containers"][0]["image"]);
    world.list(PODS).iter().map(|pod| (text(&pod["metadata"]["name"]), image(pod))).collect()
}

fn pod_events(world: &World, revision: u64, wanted: EventKind) -> Vec<String> {
    let seen = world.seen_since(PODS, revision).into_iter();
    seen.filter(|(kind, ..)| *kind == wanted).map(|(_, name, _)| name).collect()
}

#[test]
fn a_replica_set_replaces_what_fails_and_deletes_what_is_useless_first() {
    for (order, world) in World::orders() {
        world.create(REPLICA_SETS, replica_set("web", 3, "nginx:1"));
        world.settle();
        let sick = world.names(PODS).remove(1);
        let behaviour = json!({ "sandbox.tidegate.dev/behaviour": "never-ready" });
        world.patch(PODS, &sick, &json!({ "metadata": { "annotations": behaviour } }));
        world.settle();
        let status = world.get(REPLICA_SETS, "web")["status"].clone();
        assert_eq!((number(&status["replicas"]), number(&status["readyReplicas"])), (3, 2));
        world.scale(REPLICA_SETS, "web", 2);
        world.settle();
        assert!(!world.names(PODS).contains(&sick), "{order}: the unready pod goes first");
        let failing = world.names(PODS).remove(0);
        let status = json!({ "status": { "phase": "Failed" } });
        world.admin.patch(PODS, "default", &failing, "status", &status).unwrap();
        world.settle();
        let status = world.get(REPLICA_SETS, "web")["status"].clone();
        assert_eq!(number(&status["readyReplicas"]), 2, "{order}: a failed pod is replaced");
        world.assert_quiet();
    }
}

#[test]
fn a_stateful_set_comes_up_in_order_and_goes_down_in_reverse() {
    for (order, world) in World::orders() {
        let revision = world.revision();
        world.create(STATEFUL_SETS, stateful_set("db", 3, "pg:1"));
        world.step_through(|world| {
            let pods = world.list(PODS);
            let waiting = pods.iter().filter(|pod| !is_ready(pod)).count();
            assert!(waiting <= 1, "{order}: the next pod comes when the last is ready");
        });
        let created = pod_events(&world, revision, EventKind::Added);
        assert_eq!(created, ["db-0", "db-1", "db-2"], "{order}");
        let revision = world.revision();
        world.scale(STATEFUL_SETS, "db", 0);
        world.settle();
        let deleted = pod_events(&world, revision, EventKind::Deleted);
        assert_eq!(deleted, ["db-2", "db-1", "db-0"], "{order}");
    }
}

#[test]
fn a_settled_stateful_set_reads_as_on_a_real_cluster() {
    let world = World::new();
    world.create(STATEFUL_SETS, stateful_set("db", 2, "pg:1"));
    world.settle();
    let status = without_times(world.get(STATEFUL_SETS, "db")["status"].clone());
    let revision = text(&status["updateRevision"]);
    assert!(revision.starts_with("db-"));
    let want = json!({
        "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "currentReplicas": 2,
        "updatedReplicas": 2, "availableReplicas": 2, "collisionCount": 0,
        "currentRevision": revision, "updateRevision": revision,
    });
    assert_eq!(status, want);
    let labels = world.get(PODS, "db-1")["metadata"]["labels"].clone();
    let want = json!({
        "app": "db", "apps.kubernetes.io/pod-index": "1",
        "controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": "db-1",
    });
    assert_eq!(labels, want);
    world.assert_quiet();
}

#[test]
fn an_update_goes_from_the_highest_number_down_to_the_partition() {
    for (order, world) in World::orders() {
        let strategy = json!({ "spec": { "updateStrategy": {
            "type": "RollingUpdate", "rollingUpdate": { "partition": 2 },
        } } });
        world.create(STATEFUL_SETS, merged(stateful_set("db", 4, "pg:1"), &strategy));
        world.settle();
        let revision = world.revision();
        world.set_image(STATEFUL_SETS, "db", "pg:2");
        world.settle();
        let want = ["pg:1", "pg:1", "pg:2", "pg:2"];
        let found: Vec<_> = images(&world).into_iter().map(|(_, image)| image).collect();
        assert_eq!(found, want, "{order}");
        assert_eq!(pod_events(&world, revision, EventKind::Deleted), ["db-3", "db-2"], "{order}");
        let status = world.get(STATEFUL_SETS, "db")["status"].clone();
        let counters = ["currentReplicas", "updatedReplicas", "readyReplicas"];
        assert_eq!(counters.map(|key| number(&status[key])), [2, 2, 4], "{order}");
        assert_ne!(status["currentRevision"], status["updateRevision"], "{order}");
        world.delete(PODS, "db-0");
        world.settle();
        assert_eq!(images(&world)[0], ("db-0".into(), "pg:1".into()), "{order}: made as it was");
        let all = json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } } });
        world.patch(STATEFUL_SETS, "db", &all);
        world.settle();
        assert!(images(&world).iter().all(|(_, image)| image == "pg:2"), "{order}");
        let status = world.get(STATEFUL_SETS, "db")["status"].clone();
        assert_eq!(status["currentRevision"], status["updateRevision"], "{order}");
        world.assert_quiet();
    }
}

#[test]
fn on_delete_waits_for_someone_to_delete() {
    let world = World::new();
    let strategy = json!({ "spec": { "updateStrategy": { "type": "OnDelete" } } });
    world.create(STATEFUL_SETS, merged(stateful_set("db", 2, "pg:1"), &strategy));
    world.settle();
    world.set_image(STATEFUL_SETS, "db", "pg:2");
    world.settle();
    assert!(images(&world).iter().all(|(_, image)| image == "pg:1"));
    world.delete(PODS, "db-0");
    world.settle();
    let found: Vec<_> = images(&world).into_iter().map(|(_, image)| image).collect();
    assert_eq!(found, ["pg:2", "pg:1"]);
}

#[test]
fn parallel_pods_do_not_wait_for_each_other() {
    let world = World::new();
    let policy = json!({ "spec": { "podManagementPolicy": "Parallel" } });
    world.create(STATEFUL_SETS, merged(stateful_set("db", 3, "pg:1-never-ready"), &policy));
    world.settle();
    assert_eq!(world.names(PODS), ["db-0", "db-1", "db-2"]);
    world.create(STATEFUL_SETS, stateful_set("slow", 3, "pg:1-never-ready"));
    world.settle();
    assert!(world.find(PODS, "slow-0").is_some());
    assert!(world.find(PODS, "slow-1").is_none(), "an ordered one waits for the first");
}

#[test]
fn a_stateful_set_gives_each_pod_its_own_lasting_volume() {
    let world = World::new();
    let claims = json!({ "spec": { "volumeClaimTemplates": [{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } } },
    }] } });
    world.create(STATEFUL_SETS, merged(stateful_set("db", 2, "pg:1"), &claims));
    world.settle();
    assert_eq!(world.names(CLAIMS), ["data-db-0", "data-db-1"]);
    let first = uid(&world.get(CLAIMS, "data-db-1"));
    let volumes = &world.get(PODS, "db-1")["spec"]["volumes"];
    let named = volumes.as_array().unwrap().iter().find(|volume| volume["name"] == "data");
    assert_eq!(named.unwrap()["persistentVolumeClaim"]["claimName"], "data-db-1");
    world.scale(STATEFUL_SETS, "db", 1);
    world.settle();
    assert_eq!(world.names(CLAIMS), ["data-db-0", "data-db-1"], "data outlives its pod");
    world.scale(STATEFUL_SETS, "db", 2);
    world.settle();
    assert_eq!(uid(&world.get(CLAIMS, "data-db-1")), first, "and is found again");
}

fn nodes(world: &World) -> BTreeSet<String> {
    world.list(PODS).iter().map(|pod| text(&pod["spec"]["nodeName"])).collect()
}

fn add_node(world: &World, name: &str, index: u8, more: &Value) {
    let now = world.sandbox.server().clock.now();
    let node = merged(node_object(name, index, now), more);
    world.create(NODES, node.clone());
    let status = json!({ "status": node["status"] });
    world.admin.patch(NODES, "", name, "status", &status).expect("a node");
}

#[test]
fn daemons_follow_nodes_as_they_come_and_go() {
    for seed in 1..=3 {
        let world = World::with(Settings::for_tests().nodes(2).seed(seed).shuffled());
        world.create(DAEMON_SETS, daemon_set("agent", "agent:1"));
        world.settle();
        assert_eq!(nodes(&world), BTreeSet::from(["sandbox-0", "sandbox-1"].map(str::to_owned)));
        add_node(&world, "late", 7, &json!({}));
        world.settle();
        assert_eq!(nodes(&world).len(), 3, "seed {seed}");
        let status = without_times(world.get(DAEMON_SETS, "agent")["status"].clone());
        let want = json!({
            "observedGeneration": 1, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
            "numberMisscheduled": 0, "numberReady": 3, "updatedNumberScheduled": 3,
            "numberAvailable": 3,
        });
        assert_eq!(status, want, "seed {seed}");
        let select = json!({ "spec": { "template": { "spec": {
            "nodeSelector": { "kubernetes.io/hostname": "late" },
        } } } });
        world.patch(DAEMON_SETS, "agent", &select);
        world.settle();
        assert_eq!(nodes(&world), BTreeSet::from(["late".to_owned()]), "seed {seed}");
        world.assert_quiet();
    }
}

#[test]
fn daemons_ignore_a_cordon_and_respect_a_taint() {
    let world = World::with(Settings::for_tests().nodes(2));
    world.patch(NODES, "sandbox-0", &json!({ "spec": { "unschedulable": true } }));
    let taint = json!([{ "key": "gpu", "value": "yes", "effect": "NoExecute" }]);
    world.patch(NODES, "sandbox-1", &json!({ "spec": { "taints": taint } }));
    world.create(DAEMON_SETS, daemon_set("agent", "agent:1"));
    world.settle();
    assert_eq!(nodes(&world), BTreeSet::from(["sandbox-0".to_owned()]));
    world.patch(NODES, "sandbox-1", &json!({ "spec": { "taints": null } }));
    world.settle();
    assert_eq!(nodes(&world).len(), 2);
}

#[test]
fn a_daemon_update_takes_no_more_than_one_node_down() {
    for seed in 1..=3 {
        let world = World::with(Settings::for_tests().nodes(4).seed(seed).shuffled());
        world.create(DAEMON_SETS, daemon_set("agent", "agent:1"));
        world.settle();
        world.set_image(DAEMON_SETS, "agent", "agent:2");
        world.step_through(|world| {
            let ready = world.active_pods().iter().filter(|pod| is_ready(pod)).count();
            assert!(ready >= 3, "seed {seed}: {ready} ready");
        });
        assert!(images(&world).iter().all(|(_, image)| image == "agent:2"), "seed {seed}");
        assert_eq!(world.get(DAEMON_SETS, "agent")["status"]["updatedNumberScheduled"], 4);
        world.assert_quiet();
    }
}

#[test]
fn a_pod_on_a_node_that_is_gone_can_be_deleted() {
    let world = World::with(Settings::for_tests().nodes(2));
    world.create(REPLICA_SETS, replica_set("web", 2, "nginx:1"));
    world.settle();
    let pods = world.list(PODS);
    let stranded = pods.iter().find(|pod| pod["spec"]["nodeName"] == "sandbox-1").unwrap();
    world.delete(NODES, "sandbox-1");
    let name = text(&stranded["metadata"]["name"]);
    world.admin.delete(PODS, "default", &name, &Deletion::default()).unwrap();
    world.settle();
    assert!(world.find(PODS, &name).is_none());
    assert_eq!(nodes(&world), BTreeSet::from(["sandbox-0".to_owned()]));
}
