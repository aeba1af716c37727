//! Equal seeds lead to equal clusters, byte for byte.

use std::{collections::BTreeMap, time::Duration};

use kube_sandbox::{Sandbox, Settings};
use serde_json::json;
use tidegate_tests::wire::{Wire, contents, deployment, trace};

use super::{DEPLOYMENTS, MAPS};

/// An hour of a cluster, with the controllers in the order of the seed.
fn hour(seed: u64) -> (BTreeMap<String, String>, String) {
    let sandbox = Sandbox::new(Settings::for_tests().seed(seed).nodes(3).shuffled());
    let wire = Wire::new(&sandbox);
    for (name, image) in [("a", "x:1"), ("b", "x:1-slow-start-20s"), ("c", "x:1-crash-loop")] {
        wire.post(DEPLOYMENTS, &deployment(name, 3, image)).ok();
        let generated = json!({ "metadata": { "generateName": format!("{name}-") } });
        wire.post(MAPS, &generated).ok();
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" },
        "spec": { "selector": { "app": "a" }, "ports": [{ "port": 80 }] },
    });
    wire.post("/api/v1/namespaces/default/services", &service).ok();
    sandbox.advance(Duration::from_mins(20));
    wire.merge(&format!("{DEPLOYMENTS}/a"), &json!({ "spec": { "replicas": 5 } })).ok();
    let foreground = json!({ "propagationPolicy": "Foreground" });
    wire.delete(&format!("{DEPLOYMENTS}/b"), &foreground).ok();
    sandbox.advance(Duration::from_mins(40));
    (contents(&sandbox), trace(&sandbox))
}

#[test]
fn two_runs_with_one_seed_leave_the_same_bytes() {
    let ((one, first), (two, second)) = (hour(5), hour(5));
    assert_eq!(one.len(), two.len());
    for (place, object) in &one {
        assert_eq!(Some(object), two.get(place), "{place}");
    }
    assert!(first == second, "the same requests in the same order");
}

#[test]
fn another_seed_leaves_other_bytes_of_the_same_cluster() {
    let ((one, _), (two, _)) = (hour(5), hour(6));
    assert_ne!(one, two);
    let kinds = |objects: &BTreeMap<String, String>, kind: &str| {
        objects.keys().filter(|place| place.starts_with(kind)).count()
    };
    for kind in ["deployments.apps", "replicasets.apps", "pods.", "services.", "configmaps."] {
        assert_eq!(kinds(&one, kind), kinds(&two, kind), "{kind}");
    }
}
