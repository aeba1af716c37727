//! Deployments: revisions of the template, and the status.

use std::collections::BTreeSet;

use kube_sandbox::cluster::{DEPLOYMENTS, PODS, REPLICA_SETS};
use serde_json::json;
use tidegate_tests::controllers::{
    World, annotation, deployment, merged, number, owned_by, pod, replica_set, text, uid,
    without_times,
};

fn rolled_out(replicas: i64) -> World {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment("web", replicas, "nginx:1"));
    world.settle();
    world
}

#[test]
fn a_finished_rollout_reads_as_on_a_real_cluster() {
    let world = rolled_out(3);
    let status = without_times(world.get(DEPLOYMENTS, "web")["status"].clone());
    let set = world.names(REPLICA_SETS).remove(0);
    let want = json!({
        "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
        "availableReplicas": 3, "terminatingReplicas": 0,
        "conditions": [
            {
                "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability.",
            },
            {
                "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                "message": format!("ReplicaSet \"{set}\" has successfully progressed."),
            },
        ],
    });
    assert_eq!(status, want);
    let status = without_times(world.get(REPLICA_SETS, &set)["status"].clone());
    let want = json!({
        "observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3,
        "availableReplicas": 3, "terminatingReplicas": 0,
    });
    assert_eq!(status, want);
    world.assert_quiet();
}

#[test]
fn revisions_are_numbered_and_an_undo_takes_up_the_old_set_again() {
    for (order, world) in World::orders() {
        world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
        world.settle();
        for image in ["nginx:2", "nginx:3", "nginx:1"] {
            world.set_image(DEPLOYMENTS, "web", image);
            world.settle();
        }
        let want = [("nginx:2".into(), 0), ("nginx:3".into(), 0), ("nginx:1".into(), 2)];
        assert_eq!(world.sets(), want, "{order}");
        assert_eq!(annotation(&world.get(DEPLOYMENTS, "web"), "revision"), "4", "{order}");
        let sets = world.list(REPLICA_SETS);
        let back = sets.iter().find(|set| annotation(set, "revision") == "4").unwrap();
        assert_eq!(annotation(back, "revision-history"), "1", "{order}");
        world.assert_quiet();
    }
}

#[test]
fn no_more_old_sets_are_kept_than_the_history_limit_says() {
    let world = World::new();
    let limit = json!({ "spec": { "revisionHistoryLimit": 2 } });
    world.create(DEPLOYMENTS, merged(deployment("web", 1, "nginx:1"), &limit));
    world.settle();
    for number in 2..=6 {
        world.set_image(DEPLOYMENTS, "web", &format!("nginx:{number}"));
        world.settle();
    }
    let want = [("nginx:4".into(), 0), ("nginx:5".into(), 0), ("nginx:6".into(), 1)];
    assert_eq!(world.sets(), want);
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "revisionHistoryLimit": 0 } }));
    world.settle();
    assert_eq!(world.sets(), [("nginx:6".into(), 1)]);
}

#[test]
fn a_bad_image_stops_halfway_times_out_and_can_be_undone() {
    for image in ["nginx:2-image-pull-error", "nginx:2-crash-loop"] {
        let world = World::new();
        let deadline = json!({ "spec": { "progressDeadlineSeconds": 60 } });
        world.create(DEPLOYMENTS, merged(deployment("web", 4, "nginx:1"), &deadline));
        world.settle();
        world.set_image(DEPLOYMENTS, "web", image);
        world.advance(30);
        assert_eq!(world.sets(), [("nginx:1".into(), 3), (image.into(), 2)]);
        let available = world.condition(DEPLOYMENTS, "web", "Available");
        assert_eq!(available["status"], "True", "three of four are available");
        assert_eq!(
            world.condition(DEPLOYMENTS, "web", "Progressing")["reason"],
            "ReplicaSetUpdated"
        );
        world.advance(60);
        let set = text(
            &world.list(REPLICA_SETS).iter().max_by_key(|s| annotation(s, "revision")).unwrap()["metadata"]
                ["name"],
        );
        let want = json!({
            "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
            "message": format!("ReplicaSet \"{set}\" has timed out progressing."),
        });
        assert_eq!(world.condition(DEPLOYMENTS, "web", "Progressing"), want);
        let status = world.get(DEPLOYMENTS, "web")["status"].clone();
        let counters = ["replicas", "updatedReplicas", "readyReplicas", "unavailableReplicas"];
        assert_eq!(counters.map(|key| number(&status[key])), [5, 2, 3, 2]);
        world.set_image(DEPLOYMENTS, "web", "nginx:1");
        world.settle();
        assert_eq!(world.sets(), [(image.into(), 0), ("nginx:1".into(), 4)]);
        let progressing = world.condition(DEPLOYMENTS, "web", "Progressing");
        assert_eq!(progressing["reason"], "NewReplicaSetAvailable");
        world.assert_quiet();
    }
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll_out() {
    let world = rolled_out(2);
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "paused": true } }));
    world.set_image(DEPLOYMENTS, "web", "nginx:2");
    world.settle();
    let want = json!({
        "type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused",
        "message": "Deployment is paused",
    });
    assert_eq!(world.condition(DEPLOYMENTS, "web", "Progressing"), want);
    world.scale(DEPLOYMENTS, "web", 5);
    world.settle();
    assert_eq!(world.sets(), [("nginx:1".into(), 5)]);
    let status = world.get(DEPLOYMENTS, "web")["status"].clone();
    assert_eq!(status.get("updatedReplicas"), None, "nothing is updated yet");
    world.advance(3600);
    let progressing = world.condition(DEPLOYMENTS, "web", "Progressing");
    assert_eq!(progressing["reason"], "DeploymentPaused", "no deadline runs while paused");
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "paused": false } }));
    world.settle();
    assert_eq!(world.sets(), [("nginx:1".into(), 0), ("nginx:2".into(), 5)]);
    world.assert_quiet();
}

#[test]
fn min_ready_seconds_pace_a_rollout() {
    let world = World::new();
    let patience = json!({ "spec": {
        "minReadySeconds": 10,
        "strategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
    } });
    world.create(DEPLOYMENTS, merged(deployment("web", 2, "nginx:1"), &patience));
    world.settle();
    let status = world.get(DEPLOYMENTS, "web")["status"].clone();
    assert_eq!((number(&status["readyReplicas"]), number(&status["availableReplicas"])), (2, 0));
    world.advance(11);
    assert_eq!(world.get(DEPLOYMENTS, "web")["status"]["availableReplicas"], 2);
    world.set_image(DEPLOYMENTS, "web", "nginx:2");
    world.advance(5);
    assert_eq!(world.sets(), [("nginx:1".into(), 2), ("nginx:2".into(), 1)]);
    world.advance(6);
    assert_eq!(world.sets(), [("nginx:1".into(), 1), ("nginx:2".into(), 2)]);
    world.advance(11);
    assert_eq!(world.sets(), [("nginx:1".into(), 0), ("nginx:2".into(), 2)]);
    world.assert_quiet();
}

#[test]
fn a_deployment_adopts_a_set_that_matches_and_leaves_a_bare_pod_to_it() {
    for (order, world) in World::orders() {
        let labels = json!({ "metadata": { "labels": { "app": "web" } } });
        let orphan = merged(replica_set("web", 2, "nginx:1"), &labels);
        let orphan = world.create(REPLICA_SETS, orphan);
        let bare = world.create(PODS, pod("web", "nginx:1"));
        world.settle();
        assert_eq!(world.names(PODS).len(), 2, "{order}: one pod was there already");
        world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
        world.settle();
        let web = world.get(DEPLOYMENTS, "web");
        let sets = world.list(REPLICA_SETS);
        assert_eq!(sets.len(), 1, "{order}: the adopted set has the wanted template");
        assert_eq!(uid(&sets[0]), uid(&orphan), "{order}");
        assert_eq!(text(&sets[0]["metadata"]["ownerReferences"][0]["uid"]), uid(&web), "{order}");
        let adopted = world.get(PODS, "web");
        assert_eq!(uid(&adopted), uid(&bare), "{order}");
        let want =
            merged(owned_by(&sets[0]), &json!({ "controller": true, "blockOwnerDeletion": true }));
        assert_eq!(adopted["metadata"]["ownerReferences"], json!([want]), "{order}");
    }
}

#[test]
fn a_pod_that_no_longer_matches_is_let_go_and_replaced() {
    let world = rolled_out(2);
    let freed = world.names(PODS).remove(0);
    world.patch(PODS, &freed, &json!({ "metadata": { "labels": { "app": "other" } } }));
    world.settle();
    let pods = world.list(PODS);
    assert_eq!(pods.len(), 3);
    let pod = world.get(PODS, &freed);
    assert_eq!(pod["metadata"].get("ownerReferences"), None);
    assert_eq!(world.get(DEPLOYMENTS, "web")["status"]["availableReplicas"], 2);
}

#[test]
fn annotations_and_owner_of_a_set_are_the_deployments() {
    let world = World::new();
    let notes = json!({ "metadata": { "annotations": {
        "kubernetes.io/change-cause": "first try",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    } } });
    let web = world.create(DEPLOYMENTS, merged(deployment("web", 1, "nginx:1"), &notes));
    world.settle();
    let set = world.list(REPLICA_SETS).remove(0);
    let keys: BTreeSet<_> =
        set["metadata"]["annotations"].as_object().unwrap().keys().map(String::as_str).collect();
    let want = [
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deployment.kubernetes.io/revision",
        "kubernetes.io/change-cause",
    ];
    assert_eq!(keys, BTreeSet::from(want));
    let want = merged(owned_by(&web), &json!({ "controller": true, "blockOwnerDeletion": true }));
    assert_eq!(set["metadata"]["ownerReferences"], json!([want]));
    let hash = text(&set["metadata"]["labels"]["pod-template-hash"]);
    assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
    let events = world.events("ScalingReplicaSet");
    assert_eq!(events, [format!("Scaled up replica set web-{hash} from 0 to 1")]);
}

#[test]
fn a_resize_is_no_new_revision() {
    let world = rolled_out(1);
    world.scale(DEPLOYMENTS, "web", 4);
    world.settle();
    assert_eq!(world.sets(), [("nginx:1".into(), 4)]);
    assert_eq!(annotation(&world.get(DEPLOYMENTS, "web"), "revision"), "1");
    world.scale(DEPLOYMENTS, "web", 0);
    world.settle();
    assert!(world.names(PODS).is_empty());
    let want = json!({
        "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
        "message": "Deployment has minimum availability.",
    });
    assert_eq!(world.condition(DEPLOYMENTS, "web", "Available"), want);
    world.assert_quiet();
}

#[test]
fn a_deleted_pod_is_replaced_and_a_deleted_set_made_again() {
    for (order, world) in World::orders() {
        world.create(DEPLOYMENTS, deployment("web", 3, "nginx:1"));
        world.settle();
        let gone = world.names(PODS).remove(0);
        world.delete(PODS, &gone);
        world.settle();
        assert_eq!(world.active_pods().len(), 3, "{order}");
        let set = world.list(REPLICA_SETS).remove(0);
        world.delete(REPLICA_SETS, &text(&set["metadata"]["name"]));
        world.settle();
        let sets = world.list(REPLICA_SETS);
        assert_eq!(sets.len(), 1, "{order}");
        assert_ne!(uid(&sets[0]), uid(&set), "{order}");
        let owners: BTreeSet<_> = world
            .active_pods()
            .iter()
            .map(|pod| text(&pod["metadata"]["ownerReferences"][0]["uid"]))
            .collect();
        assert_eq!(owners, BTreeSet::from([uid(&sets[0])]), "{order}");
        assert_eq!(world.active_pods().len(), 3, "{order}");
    }
}
