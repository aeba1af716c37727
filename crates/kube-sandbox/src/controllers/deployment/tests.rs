//! Deployments in virtual time: rollouts, rollbacks, deadlines, scaling, history, and random
//! changes.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    controllers::{
        object::{annotation, label},
        testing::{FakeCluster, Simulation, deployment, set_image},
    },
    kubelet::{Behaviour, KubeletSettings},
};

fn rolled_out(replicas: i64) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.create(DEPLOYMENTS, deployment("web", replicas, "nginx:1"));
    simulation.settle();
    simulation
}

fn status(simulation: &Simulation) -> Value {
    simulation.get(DEPLOYMENTS, "web")["status"].clone()
}

fn progress(simulation: &Simulation) -> (String, String) {
    let condition = simulation.condition(DEPLOYMENTS, "web", "Progressing");
    (text(&condition, "/status").to_owned(), text(&condition, "/reason").to_owned())
}

fn sets(simulation: &Simulation) -> Vec<(String, i64)> {
    let mut sets = simulation.list(REPLICA_SETS);
    sets.sort_by_key(history::revision);
    let image = |set: &Value| text(set, "/spec/template/spec/containers/0/image").to_owned();
    sets.iter().map(|set| (image(set), count(set, "/spec/replicas"))).collect()
}

#[test]
fn a_new_deployment_gets_a_replica_set_and_becomes_available() {
    let mut simulation = rolled_out(3);
    let set = simulation.list(REPLICA_SETS).remove(0);
    let hash = label(&set, TEMPLATE_HASH).unwrap();
    assert_eq!(name(&set), format!("web-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"][TEMPLATE_HASH], hash);
    assert_eq!(annotation(&set, REVISION), Some("1"));
    assert_eq!(annotation(&set, DESIRED_REPLICAS), Some("3"));
    assert_eq!(annotation(&set, MAX_REPLICAS), Some("4"));
    for pod in simulation.list(PODS) {
        assert_eq!(label(&pod, TEMPLATE_HASH), Some(hash));
        assert!(name(&pod).starts_with(&format!("{}-", name(&set))));
    }
    let status = status(&simulation);
    for counter in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[counter], 3, "{counter}");
    }
    assert_eq!(status.get("unavailableReplicas"), None);
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(progress(&simulation), ("True".into(), "NewReplicaSetAvailable".into()));
    let available = simulation.condition(DEPLOYMENTS, "web", "Available");
    assert_eq!(available["reason"], "MinimumReplicasAvailable");
    let message = format!("Scaled up replica set {} from 0 to 3", name(&set));
    assert_eq!(simulation.events("ScalingReplicaSet"), [message]);
    assert_eq!(annotation(&simulation.get(DEPLOYMENTS, "web"), REVISION), Some("1"));
    simulation.assert_quiet();
}

#[test]
fn a_new_image_replaces_all_pods_and_the_old_set_is_kept_empty() {
    let mut simulation = rolled_out(4);
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:2");
    simulation.settle();
    assert_eq!(simulation.images(), BTreeSet::from(["nginx:2".to_owned()]));
    assert_eq!(sets(&simulation), [("nginx:1".to_owned(), 0), ("nginx:2".to_owned(), 4)]);
    assert_eq!(annotation(&simulation.get(DEPLOYMENTS, "web"), REVISION), Some("2"));
    simulation.assert_quiet();
}

#[test]
fn going_back_to_an_old_template_reuses_its_set_under_a_new_revision() {
    let mut simulation = rolled_out(2);
    let first = name(&simulation.list(REPLICA_SETS)[0]).to_owned();
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:2");
    simulation.settle();
    let cause = json!({ "metadata": { "annotations": { "kubernetes.io/change-cause": "undo" } } });
    simulation.patch(DEPLOYMENTS, "web", &cause);
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:1");
    simulation.settle();
    let set = simulation.get(REPLICA_SETS, &first);
    assert_eq!(simulation.list(REPLICA_SETS).len(), 2, "no third set is made");
    assert_eq!(annotation(&set, REVISION), Some("3"));
    assert_eq!(annotation(&set, REVISION_HISTORY), Some("1"));
    assert_eq!(annotation(&set, "kubernetes.io/change-cause"), Some("undo"));
    assert_eq!(simulation.images(), BTreeSet::from(["nginx:1".to_owned()]));
    simulation.assert_quiet();
}

#[test]
fn a_rollout_that_never_becomes_ready_stops_halfway_and_exceeds_its_deadline() {
    let mut simulation = rolled_out(4);
    simulation.behaviours.set("*:2", Behaviour::NeverReady);
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:2");
    simulation.settle();
    // One pod may be missing and one surplus: one old pod is deleted, two new ones are created.
    assert_eq!(sets(&simulation), [("nginx:1".to_owned(), 3), ("nginx:2".to_owned(), 2)]);
    assert_eq!(progress(&simulation).1, "ReplicaSetUpdated");
    simulation.advance(590);
    assert_eq!(progress(&simulation).0, "True", "the deadline has not passed");
    simulation.advance(20);
    assert_eq!(progress(&simulation), ("False".into(), "ProgressDeadlineExceeded".into()));
    let condition = simulation.condition(DEPLOYMENTS, "web", "Progressing");
    let message = text(&condition, "/message");
    assert!(message.ends_with("has timed out progressing."), "{message}");
    assert_eq!(status(&simulation)["availableReplicas"], 3);
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:1");
    simulation.settle();
    assert_eq!(status(&simulation)["availableReplicas"], 4);
    assert_eq!(progress(&simulation).1, "NewReplicaSetAvailable", "an undo recovers");
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut simulation = rolled_out(2);
    simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "paused": true } }));
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:2");
    simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 5 } }));
    simulation.settle();
    assert_eq!(progress(&simulation), ("Unknown".into(), "DeploymentPaused".into()));
    assert_eq!(sets(&simulation), [("nginx:1".to_owned(), 5)]);
    simulation.advance(1000);
    assert_eq!(progress(&simulation).1, "DeploymentPaused", "time stands still for the deadline");
    simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "paused": false } }));
    simulation.settle();
    assert_eq!(sets(&simulation), [("nginx:1".to_owned(), 0), ("nginx:2".to_owned(), 5)]);
    assert_eq!(progress(&simulation).1, "NewReplicaSetAvailable");
    simulation.assert_quiet();
}

#[test]
fn recreate_lets_old_pods_go_before_new_ones_come() {
    let kubelet =
        KubeletSettings { stop_delay: Duration::from_secs(5), ..KubeletSettings::instant() };
    let mut simulation = Simulation::with(kubelet, 3);
    let mut object = deployment("web", 3, "nginx:1");
    object["spec"]["strategy"] = json!({ "type": "Recreate" });
    simulation.create(DEPLOYMENTS, object);
    simulation.settle();
    simulation.always(|cluster| {
        let pods = cluster.list(PODS, None);
        let images = pods.iter().map(|pod| text(pod, "/spec/containers/0/image").to_owned());
        assert!(images.collect::<BTreeSet<_>>().len() <= 1, "two versions at once");
    });
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:2");
    simulation.settle();
    assert_eq!(status(&simulation).get("availableReplicas"), None, "all stop at once");
    simulation.advance(10);
    assert_eq!(simulation.images(), BTreeSet::from(["nginx:2".to_owned()]));
    assert_eq!(status(&simulation)["availableReplicas"], 3);
    simulation.assert_quiet();
}

#[test]
fn scaling_in_the_middle_of_a_rollout_keeps_the_proportions() {
    let mut simulation = rolled_out(10);
    simulation.behaviours.set("*:2", Behaviour::NeverReady);
    let strategy = json!({ "spec": { "strategy": { "rollingUpdate": {
        "maxSurge": 3, "maxUnavailable": 2,
    } } } });
    simulation.patch(DEPLOYMENTS, "web", &strategy);
    set_image(&simulation, DEPLOYMENTS, "web", "nginx:2");
    simulation.settle();
    assert_eq!(sets(&simulation), [("nginx:1".to_owned(), 8), ("nginx:2".to_owned(), 5)]);
    simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 15 } }));
    simulation.settle();
    // The five added pods are split 8 to 5, as in the example of the Kubernetes documentation.
    assert_eq!(sets(&simulation), [("nginx:1".to_owned(), 11), ("nginx:2".to_owned(), 7)]);
}

#[test]
fn only_as_many_old_sets_are_kept_as_the_history_allows() {
    let mut simulation = rolled_out(1);
    simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "revisionHistoryLimit": 2 } }));
    for version in 2..7 {
        set_image(&simulation, DEPLOYMENTS, "web", &format!("nginx:{version}"));
        simulation.settle();
    }
    let kept: Vec<_> = sets(&simulation).into_iter().map(|(image, _)| image).collect();
    assert_eq!(kept, ["nginx:4", "nginx:5", "nginx:6"]);
    simulation.assert_quiet();
}

#[test]
fn pods_count_as_available_only_after_min_ready_seconds() {
    let mut simulation = Simulation::new();
    let mut object = deployment("web", 2, "nginx:1");
    object["spec"]["minReadySeconds"] = json!(30);
    simulation.create(DEPLOYMENTS, object);
    simulation.settle();
    assert_eq!(status(&simulation)["readyReplicas"], 2);
    assert_eq!(status(&simulation)["unavailableReplicas"], 2);
    simulation.advance(29);
    assert_eq!(status(&simulation).get("availableReplicas"), None);
    simulation.advance(1);
    assert_eq!(status(&simulation)["availableReplicas"], 2);
    assert_eq!(progress(&simulation).1, "NewReplicaSetAvailable");
    simulation.assert_quiet();
}

#[test]
fn a_name_that_is_taken_is_a_collision_and_another_is_found() {
    let mut simulation = rolled_out(1);
    let taken = simulation.list(REPLICA_SETS).remove(0);
    simulation.delete(DEPLOYMENTS, "web");
    simulation.settle();
    let mut squatter = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name(&taken) },
        "spec": taken["spec"].clone(),
    });
    squatter["spec"]["selector"] = json!({ "matchLabels": { "app": "other" } });
    squatter["spec"]["template"]["metadata"]["labels"] = json!({ "app": "other" });
    simulation.create(REPLICA_SETS, squatter);
    simulation.create(DEPLOYMENTS, deployment("web", 1, "nginx:1"));
    simulation.advance(5);
    assert_eq!(status(&simulation)["collisionCount"], 1);
    assert_eq!(status(&simulation)["availableReplicas"], 1);
    simulation.assert_quiet();
}

#[test]
fn pods_that_may_not_be_made_fail_the_deployment_until_they_may() {
    let mut simulation = Simulation::new();
    simulation.cluster.refuses_pods.set(true);
    simulation.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
    simulation.settle();
    let failure = simulation.condition(DEPLOYMENTS, "web", "ReplicaFailure");
    assert_eq!(failure["reason"], "FailedCreate");
    assert!(text(&failure, "/message").contains("exceeded quota"));
    simulation.cluster.refuses_pods.set(false);
    simulation.advance(5);
    assert_eq!(simulation.condition(DEPLOYMENTS, "web", "ReplicaFailure"), Value::Null);
    assert_eq!(status(&simulation)["availableReplicas"], 2);
}

#[test]
fn an_orphaned_replica_set_is_adopted() {
    let mut simulation = rolled_out(2);
    let set = name(&simulation.list(REPLICA_SETS)[0]).to_owned();
    simulation.patch(REPLICA_SETS, &set, &json!({ "metadata": { "ownerReferences": null } }));
    simulation.settle();
    assert_eq!(controller_of(&simulation.get(REPLICA_SETS, &set)).unwrap().name, "web");
    assert_eq!(simulation.list(REPLICA_SETS).len(), 1);
}

/// Available pods stay above, and requested pods below, the limits of the strategy.
///
/// More pods may exist for a moment, when one ReplicaSet creates before another has deleted.
fn within_allowances(cluster: &FakeCluster, least: i64, most: i64) {
    let pods = cluster.list(PODS, None);
    let ready = pods.iter().filter(|pod| pods::is_active(pod) && pods::is_ready(pod)).count();
    let available = i64::try_from(ready).unwrap();
    assert!(available >= least, "{available} available of at least {least}");
    let sets = cluster.list(REPLICA_SETS, None);
    let total: i64 = sets.iter().map(|set| count(set, "/spec/replicas")).sum();
    assert!(total <= most, "{total} pods of at most {most}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_rollout_stays_within_its_allowances(
        replicas in 1_i64..9,
        surge in 0_i64..4,
        unavailable in 0_i64..4,
        delay_ms in 0_u64..2000,
        conflict_percent in 0_u64..20,
        images in proptest::collection::vec(2_u8..5, 1..4),
        seed in any::<u64>(),
    ) {
        let kubelet = KubeletSettings {
            ready_delay: Duration::from_millis(delay_ms),
            stop_delay: Duration::from_millis(delay_ms / 2),
            ..KubeletSettings::instant()
        };
        let mut simulation = Simulation::with(kubelet, seed);
        let mut object = deployment("web", replicas, "nginx:1");
        object["spec"]["strategy"]["rollingUpdate"] =
            json!({ "maxSurge": surge, "maxUnavailable": unavailable });
        simulation.create(DEPLOYMENTS, object);
        simulation.advance(60);
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        let (least, most) = (replicas - unavailable, replicas + surge);
        simulation.cluster.conflict_percent.set(conflict_percent);
        simulation.always(move |cluster| within_allowances(cluster, least, most));
        for image in &images {
            set_image(&simulation, DEPLOYMENTS, "web", &format!("nginx:{image}"));
            simulation.advance_by(Duration::from_millis(700));
            prop_assert!(i64::try_from(simulation.active_pods().len()).unwrap() <= most);
        }
        simulation.advance(300);
        let last = format!("nginx:{}", images.last().unwrap());
        prop_assert_eq!(simulation.images(), BTreeSet::from([last]));
        prop_assert_eq!(&status(&simulation)["availableReplicas"], replicas);
        simulation.cluster.conflict_percent.set(0);
        simulation.assert_quiet();
    }

    #[test]
    fn whatever_is_done_to_a_deployment_it_ends_up_as_last_asked(
        acts in proptest::collection::vec((0_u8..7, 0_i64..8, 0_u64..3000), 1..12),
        conflict_percent in 0_u64..30,
        seed in any::<u64>(),
    ) {
        let mut simulation = Simulation::with(KubeletSettings::default(), seed);
        simulation.create(DEPLOYMENTS, deployment("web", 3, "nginx:1"));
        simulation.cluster.conflict_percent.set(conflict_percent);
        for (act, number, wait_ms) in acts {
            meddle(&simulation, act, number);
            simulation.advance_by(Duration::from_millis(wait_ms));
        }
        simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "paused": false, "replicas": 4 } }));
        set_image(&simulation, DEPLOYMENTS, "web", "nginx:last");
        simulation.advance(120);
        prop_assert_eq!(simulation.images(), BTreeSet::from(["nginx:last".to_owned()]));
        prop_assert_eq!(simulation.list(PODS).len(), 4);
        prop_assert_eq!(&status(&simulation)["availableReplicas"], 4);
        prop_assert_eq!(progress(&simulation).1, "NewReplicaSetAvailable");
        simulation.cluster.conflict_percent.set(0);
        simulation.assert_quiet();
    }
}

/// A random change to a Deployment and its pods, as by people and other programs.
fn meddle(simulation: &Simulation, act: u8, number: i64) {
    let pods = simulation.active_pods();
    let victim = pods.get(usize::try_from(number).unwrap()).map(|pod| name(pod).to_owned());
    match (act, victim) {
        (0, _) => {
            simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": number } }));
        }
        (1, _) => set_image(simulation, DEPLOYMENTS, "web", &format!("nginx:{number}")),
        (2, _) => set_image(simulation, DEPLOYMENTS, "web", "nginx:crash-loop"),
        (3, _) => {
            simulation.patch(DEPLOYMENTS, "web", &json!({ "spec": { "paused": number > 3 } }));
        }
        (4, Some(pod)) => simulation.delete(PODS, &pod),
        (5, Some(pod)) => {
            // Removed from its set, and deleted before the set can notice.
            simulation.patch(PODS, &pod, &json!({ "metadata": { "labels": null } }));
            simulation.delete(PODS, &pod);
        }
        (6, Some(pod)) => {
            let patch = json!({ "metadata": { "annotations": {
                "sandbox.tidegate.dev/behaviour": "never-ready",
            } } });
            simulation.patch(PODS, &pod, &patch);
        }
        _ => {}
    }
}
