//! A cluster that goes back to an earlier state, as clients see it.

use std::time::Duration;

use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, DEPLOYMENTS, PODS},
    server::User,
};
use serde_json::json;
use tidegate_tests::{
    rollout::deployment,
    wire::{Watch, Wire, brief, config_map},
};

use super::{MAPS, at, sandbox};

fn create(wire: &Wire, name: &str) -> String {
    let created = wire.post(MAPS, &config_map(name, "1")).ok();
    created["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn names(wire: &Wire) -> Vec<String> {
    let list = wire.get(MAPS).ok();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn watch_from(wire: &Wire, revision: u64) -> Watch {
    let path = format!("{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
    wire.watch(&path).ok().unwrap()
}

#[test]
fn a_restored_cluster_has_the_objects_and_the_revision_of_the_snapshot() {
    let (sandbox, wire) = sandbox();
    create(&wire, "a");
    let (snapshot, revision) = (sandbox.snapshot(), wire.get(MAPS).revision());
    wire.merge(&at("a"), &json!({ "data": { "value": "2" } })).ok();
    let undone = create(&wire, "b");
    sandbox.restore(&snapshot);
    assert_eq!(names(&wire), ["a"]);
    assert_eq!(wire.get(MAPS).revision(), revision);
    assert_eq!(wire.get(&at("a")).body["data"]["value"], "1");
    assert_ne!(create(&wire, "b"), undone, "another object of that name");
    sandbox.restore(&snapshot);
    assert_eq!((names(&wire), wire.get(MAPS).revision()), (vec!["a".to_owned()], revision));
}

#[test]
fn a_watch_of_the_future_is_silent_until_the_restored_cluster_gets_there() {
    let (sandbox, wire) = sandbox();
    sandbox.settle();
    let snapshot = sandbox.snapshot();
    let before = wire.get(MAPS).revision();
    for name in ["a", "b", "c"] {
        create(&wire, name);
    }
    let future = wire.get(MAPS).revision();
    let mut open = watch_from(&wire, future);
    open.drain();
    sandbox.restore(&snapshot);
    assert!(open.drain().is_empty() && open.is_over, "the connection is closed");
    let mut watch = watch_from(&wire, future);
    create(&wire, "x");
    sandbox.advance(Duration::from_mins(4));
    assert_eq!(brief(&watch.drain()), Vec::<String>::new(), "neither event nor bookmark");
    assert!(!watch.is_over);
    for name in ["y", "z", "later"] {
        create(&wire, name);
    }
    assert_eq!(brief(&watch.drain()), ["ADDED later"], "the rest is never told");
    sandbox.advance(Duration::from_mins(1));
    assert_eq!(brief(&watch.drain()), ["BOOKMARK"]);
    let list = wire.get(&format!("{MAPS}?resourceVersion={}", future + 100));
    assert_eq!(list.code, 504, "{:#}", list.body);
    let old = watch_from(&wire, before - 1).drain();
    assert_eq!(old[0].object["code"], 410, "it is not remembered");
}

#[test]
fn control_loops_and_nodes_work_on_from_the_restored_state() {
    let sandbox = Sandbox::new(Settings::for_tests());
    let admin = sandbox.local(User::admin());
    admin.create(DEPLOYMENTS, "default", deployment("web", "web:1", 3)).unwrap();
    sandbox.settle();
    let snapshot = sandbox.snapshot();
    let scale = json!({ "spec": { "replicas": 1 } });
    admin.patch(DEPLOYMENTS, "default", "web", "", &scale).unwrap();
    sandbox.advance(Duration::from_mins(2));
    assert_eq!(admin.list(PODS, Some("default")).len(), 1);
    sandbox.restore(&snapshot);
    sandbox.advance(Duration::from_mins(2));
    assert_eq!(admin.list(PODS, Some("default")).len(), 3);
    let web = admin.get(DEPLOYMENTS, "default", "web").unwrap();
    assert_eq!(web["status"]["readyReplicas"], 3);
    admin.patch(DEPLOYMENTS, "default", "web", "", &scale).unwrap();
    sandbox.advance(Duration::from_mins(2));
    assert_eq!(admin.list(PODS, Some("default")).len(), 1);
}

#[test]
fn the_snapshot_of_another_cluster_puts_that_one_behind_the_same_address() {
    let (sandbox, wire) = sandbox();
    let ours = create(&wire, "a");
    let other = Sandbox::new(Settings::for_tests().seed(7));
    let theirs = create(&Wire::new(&other), "a");
    create(&Wire::new(&other), "b");
    sandbox.restore(&other.snapshot());
    assert_eq!(names(&wire), ["a", "b"]);
    let found = wire.get(&at("a")).body["metadata"]["uid"].clone();
    assert_eq!(found, theirs);
    assert_ne!(found, ours);
}
