//! `DaemonSets` in virtual time: placement, rolling and surging updates, failed pods.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use super::*;
use crate::{
    cluster::CONTROLLER_REVISIONS,
    controllers::testing::{Simulation, daemon_set, set_image},
    kubelet::{KubeletSettings, node_object},
};

fn status(simulation: &Simulation) -> Value {
    simulation.get(DAEMON_SETS, "agent")["status"].clone()
}

fn nodes(simulation: &Simulation) -> Vec<String> {
    let pods = simulation.active_pods();
    let mut nodes: Vec<_> = pods.iter().map(|pod| text(pod, "/spec/nodeName").to_owned()).collect();
    nodes.sort();
    nodes
}

#[test]
fn every_node_runs_one_daemon_also_a_new_or_cordoned_one() {
    let mut simulation = Simulation::new();
    simulation
        .cluster
        .patch(NODES, "", "node-1", "", &json!({ "spec": { "unschedulable": true } }))
        .unwrap();
    simulation.create(DAEMON_SETS, daemon_set("agent", "nginx:1"));
    simulation.settle();
    assert_eq!(nodes(&simulation), ["node-0", "node-1", "node-2"]);
    simulation
        .cluster
        .create(NODES, "", node_object("node-3", 3, simulation.cluster.now()))
        .unwrap();
    simulation.settle();
    assert_eq!(nodes(&simulation).len(), 4);
    let status = status(&simulation);
    for counter in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "numberAvailable",
        "updatedNumberScheduled",
    ] {
        assert_eq!(status[counter], 4, "{counter}");
    }
    assert_eq!(status["numberMisscheduled"], 0);
    let pod = simulation.list(PODS).remove(0);
    assert_eq!(label(&pod, GENERATION_LABEL), Some("1"));
    let revision = simulation.list(CONTROLLER_REVISIONS).remove(0);
    assert_eq!(label(&pod, HASH_LABEL), label(&revision, HASH_LABEL));
    simulation.assert_quiet();
}

#[test]
fn daemons_stay_away_from_nodes_they_do_not_select_or_tolerate() {
    let mut simulation = Simulation::new();
    let taint = json!({ "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] } });
    simulation.cluster.patch(NODES, "", "node-0", "", &taint).unwrap();
    let mut set = daemon_set("agent", "nginx:1");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({ "kubernetes.io/os": "linux" });
    simulation.create(DAEMON_SETS, set);
    simulation.settle();
    assert_eq!(nodes(&simulation), ["node-1", "node-2"]);
    let relabel = json!({ "metadata": { "labels": { "kubernetes.io/os": "plan9" } } });
    simulation.cluster.patch(NODES, "", "node-1", "", &relabel).unwrap();
    simulation.settle();
    assert_eq!(nodes(&simulation), ["node-2"]);
    assert_eq!(status(&simulation)["desiredNumberScheduled"], 1);
}

fn updated_under(strategy: Value, least: usize, most: usize) -> Simulation {
    let second = Duration::from_secs(1);
    let kubelet =
        KubeletSettings { ready_delay: second, stop_delay: second, ..KubeletSettings::instant() };
    let mut simulation = Simulation::with(kubelet, 11);
    let mut set = daemon_set("agent", "nginx:1");
    set["spec"]["updateStrategy"]["rollingUpdate"] = strategy;
    simulation.create(DAEMON_SETS, set);
    simulation.advance(10);
    simulation.always(move |cluster| {
        let pods = cluster.list(PODS, None);
        let active: Vec<_> = pods.iter().filter(|pod| pods::is_active(pod)).collect();
        let ready = active.iter().filter(|pod| pods::is_ready(pod)).count();
        assert!(ready >= least, "{ready} ready of at least {least}");
        assert!(active.len() <= most, "{} pods of at most {most}", active.len());
    });
    set_image(&simulation, DAEMON_SETS, "agent", "nginx:2");
    let generation = json!({ "metadata": { "annotations": {
        "deprecated.daemonset.template.generation": "2",
    } } });
    simulation.patch(DAEMON_SETS, "agent", &generation);
    simulation.advance(60);
    simulation
}

#[test]
fn an_update_replaces_daemons_one_by_one() {
    let strategy = json!({ "maxSurge": 0, "maxUnavailable": 1 });
    let mut simulation = updated_under(strategy, 2, 3);
    assert_eq!(simulation.images(), BTreeSet::from(["nginx:2".to_owned()]));
    assert_eq!(status(&simulation)["updatedNumberScheduled"], 3);
    assert_eq!(simulation.list(CONTROLLER_REVISIONS).len(), 2);
    simulation.assert_quiet();
}

#[test]
fn a_surging_update_keeps_every_node_served() {
    let strategy = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    let mut simulation = updated_under(strategy, 3, 4);
    assert_eq!(simulation.images(), BTreeSet::from(["nginx:2".to_owned()]));
    assert_eq!(nodes(&simulation).len(), 3);
    simulation.assert_quiet();
}

#[test]
fn on_delete_updates_only_what_is_deleted() {
    let mut simulation = Simulation::new();
    let mut set = daemon_set("agent", "nginx:1");
    set["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    simulation.create(DAEMON_SETS, set);
    simulation.settle();
    set_image(&simulation, DAEMON_SETS, "agent", "nginx:2");
    let generation = json!({ "metadata": { "annotations": {
        "deprecated.daemonset.template.generation": "2",
    } } });
    simulation.patch(DAEMON_SETS, "agent", &generation);
    simulation.settle();
    assert_eq!(simulation.images(), BTreeSet::from(["nginx:1".to_owned()]));
    let pod = name(&simulation.list(PODS)[0]).to_owned();
    simulation.delete(PODS, &pod);
    simulation.settle();
    assert_eq!(simulation.images().len(), 2);
    assert_eq!(status(&simulation)["updatedNumberScheduled"], 1);
}

#[test]
fn a_failed_daemon_is_deleted_and_made_again() {
    let mut simulation = Simulation::new();
    simulation.create(DAEMON_SETS, daemon_set("agent", "nginx:1"));
    simulation.settle();
    let pod = name(&simulation.list(PODS)[0]).to_owned();
    simulation.patch(PODS, &pod, &json!({ "status": { "phase": "Failed" } }));
    simulation.settle();
    assert!(simulation.find(PODS, &pod).is_none());
    assert_eq!(nodes(&simulation).len(), 3);
    assert_eq!(simulation.events("FailedDaemonPod").len(), 1);
}
