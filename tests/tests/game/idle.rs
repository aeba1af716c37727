//! The cost of many workloads at rest.

use std::time::Duration;

use kube_sandbox::{
    Settings,
    clock::between,
    cluster::{Cluster as _, NODES},
    kubelet::node_object,
    request::Verb,
    request_log::Mark,
};
use serde_json::json;
use tidegate_tests::rollout::{OPERATOR, World};

use crate::rig::GAME_DEPLOYMENTS;

/// A node takes 110; a few of them are system pods.
const PODS_PER_NODE: usize = 100;

/// Workloads and pods of each; published figures use `GAME_IDLE=1000x10`.
fn size() -> (usize, usize) {
    let text = std::env::var("GAME_IDLE").unwrap_or_else(|_| "30x3".to_owned());
    let (workloads, pods) = text.split_once('x').expect("workloads x pods");
    (workloads.parse().expect("a number"), pods.parse().expect("a number"))
}

fn name(index: usize) -> String {
    format!("game-{index}")
}

/// Adds nodes for so many pods, beside the existing one.
fn add_nodes(world: &World, pods: usize) {
    let nodes = u8::try_from(pods / PODS_PER_NODE).expect("no more than there are numbers for");
    for index in 1..=nodes {
        let name = format!("sandbox-{index}");
        let node = node_object(&name, index, world.sandbox.server().clock.now());
        let status = json!({ "status": node["status"] });
        world.admin.create(NODES, "", node).expect("a node is taken");
        world.admin.patch(NODES, "", &name, "status", &status).expect("and its status");
    }
}

/// Requests of the operator since then, without watches, which every server ends now and then.
fn requests(world: &World, mark: Mark) -> Vec<String> {
    let log = world.sandbox.server().log.clone();
    let since = log.since(mark);
    let ours =
        since.into_iter().filter(|entry| &*entry.user == OPERATOR && entry.verb != Verb::Watch);
    ours.map(|entry| format!("{:?} {} {}", entry.verb, entry.target(), entry.name)).collect()
}

fn create_all(world: &World, workloads: usize, pods: usize) {
    add_nodes(world, workloads * pods);
    for index in 0..workloads {
        let name = name(index);
        world.create(
            GAME_DEPLOYMENTS,
            json!({
                "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment",
                "metadata": { "name": name },
                "spec": {
                    "replicas": pods, "selector": { "matchLabels": { "app": name } },
                    "template": {
                        "metadata": { "labels": { "app": name } },
                        "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
                    },
                    "updateStrategy": { "type": "InplaceUpdate", "maxUnavailable": 1 },
                },
            }),
        );
    }
}

fn is_ready(world: &World, index: usize, pods: usize) -> bool {
    let object = world.get(GAME_DEPLOYMENTS, &name(index)).unwrap_or_default();
    object["status"]["updatedReadyReplicas"] == pods && object["status"]["phase"] == "Healthy"
}

/// Waits for all of them and returns the time it took.
async fn come_up(world: &World, workloads: usize, pods: usize) -> Duration {
    // A workload that is up stays up: each is asked once.
    let mut up = 0;
    let all_up = |world: &World| {
        while up < workloads && is_ready(world, up, pods) {
            up += 1;
        }
        up == workloads
    };
    let begun = world.sandbox.server().clock.now();
    let is_up = world.until_seen(4 * 3600, all_up).await;
    let late = world.get(GAME_DEPLOYMENTS, &name(up)).unwrap_or_default()["status"].take();
    assert!(is_up, "{up} came up, the next is {late:#}");
    between(begun, world.sandbox.server().clock.now())
}

#[tokio::test(start_paused = true)]
async fn workloads_come_up_where_a_watch_is_soon_too_far_behind() {
    let mut settings = Settings::for_tests();
    settings.server.history_max = 60;
    let mut world = World::of_games_with(settings);
    create_all(&world, 20, 10);
    let log = world.sandbox.server().log.clone();
    let mark = log.mark();
    world.start().await;
    come_up(&world, 20, 10).await;
    let lists = log.since(mark).into_iter().filter(|entry| {
        &*entry.user == OPERATOR && entry.verb == Verb::List && &*entry.resource == "pods"
    });
    assert!(lists.count() > 1, "or else nothing was forgotten");
}

#[tokio::test(start_paused = true)]
async fn workloads_that_nobody_touches_cost_no_request_and_an_update_touches_its_own() {
    let (workloads, pods) = size();
    let mut world = World::of_games();
    create_all(&world, workloads, pods);
    world.start().await;
    let took = come_up(&world, workloads, pods).await;
    world.advance_s(30).await;
    let log = world.sandbox.server().log.clone();
    let mark = log.mark();
    world.advance_s(600).await;
    assert_eq!(requests(&world, mark), Vec::<String>::new(), "ten minutes of nothing");

    let mark = log.mark();
    let container = json!({ "name": "game", "image": "game:2" });
    let patch = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
    world.patch(GAME_DEPLOYMENTS, &name(0), &patch);
    let is_done = |world: &World| {
        let object = world.get(GAME_DEPLOYMENTS, &name(0)).unwrap_or_default();
        is_ready(world, 0, pods) && object["status"]["observedGeneration"] == 2
    };
    assert!(world.until_seen(600, is_done).await, "the update ends");
    world.advance_s(30).await;
    let asked = requests(&world, mark);
    // Creations have no name in the log: one revision, and events.
    let made = asked.iter().filter(|line| line.starts_with("Create") && !line.contains("events"));
    assert_eq!(made.collect::<Vec<_>>(), ["Create controllerrevisions.apps "]);
    let others = asked.iter().filter(|line| !line.starts_with("Create"));
    let others: Vec<_> = others.filter(|line| !line.contains(&name(0))).collect();
    assert_eq!(others, Vec::<&String>::new(), "nobody else's");
    println!(
        "{workloads} workloads of {pods} pods, up in {} s; one update took {} requests",
        took.as_secs(),
        asked.len()
    );
}
