//! Numbered pods: names, claims, order.

use kube_sandbox::cluster::{Cluster as _, PODS, Resource};
use serde_json::{Value, json};
use tidegate_tests::rollout::World;

use crate::rig::{Stage, numbered};

const SETS: Resource = Resource { group: "tkex.tencent.com", plural: "gamestatefulsets" };
const CLAIMS: Resource = Resource { group: "", plural: "persistentvolumeclaims" };

fn set(policy: &str, strategy: &Value) -> Value {
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameStatefulSet",
        "metadata": { "name": "realm" },
        "spec": {
            "replicas": 3, "serviceName": "realm", "podManagementPolicy": policy,
            "selector": { "matchLabels": { "app": "realm" } },
            "template": {
                "metadata": { "labels": { "app": "realm" } },
                "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "world" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }],
            "updateStrategy": strategy,
        },
    })
}

async fn up(policy: &str, strategy: &Value) -> World {
    let mut world = World::of_games();
    world.create(SETS, set(policy, strategy));
    world.start().await;
    let is_up = world.until_seen(300, |world| status(world)["updatedReadyReplicas"] == 3).await;
    assert!(is_up, "{:#}", status(&world));
    world
}

fn status(world: &World) -> Value {
    world.get(SETS, "realm").unwrap_or_default()["status"].clone()
}

fn names(world: &World, resource: Resource) -> Vec<String> {
    let objects = world.admin.list(resource, Some("default"));
    objects.iter().filter_map(|it| it["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

fn image(world: &World, image: &str) {
    let container = json!({ "name": "game", "image": image });
    let patch = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
    world.patch(SETS, "realm", &patch);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_set_have_numbers_and_claims_that_outlive_them() {
    let world = up("OrderedReady", &json!({ "type": "RollingUpdate" })).await;
    assert_eq!(names(&world, PODS), ["realm-0", "realm-1", "realm-2"]);
    assert_eq!(names(&world, CLAIMS), ["world-realm-0", "world-realm-1", "world-realm-2"]);
    let pod = world.get(PODS, "realm-1").unwrap();
    assert_eq!(pod["spec"]["hostname"], "realm-1");
    assert_eq!(pod["spec"]["subdomain"], "realm");
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["gamestatefulset.kubernetes.io/pod-name"], "realm-1");
    assert_eq!(labels["gamestatefulset.kubernetes.io/pod-ordinal"], "1");
    let claim = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
    assert_eq!(claim, "world-realm-1");
    world.patch(SETS, "realm", &json!({ "spec": { "replicas": 1 } }));
    let is_down = world.until_seen(120, |world| names(world, PODS) == ["realm-0"]).await;
    assert!(is_down, "{:?}", names(&world, PODS));
    assert_eq!(names(&world, CLAIMS).len(), 3, "claims stay");
}

/// Of a migration: the pod of a StatefulSet that is still there.
#[tokio::test(start_paused = true)]
async fn a_pod_of_somebody_else_with_the_name_of_ours_is_told() {
    let mut world = World::of_games();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "realm-0", "labels": { "app": "realm" } },
        "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
    });
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "example.com/v1", "kind": "Realm", "name": "old", "uid": "1", "controller": true,
    }]);
    world.create(PODS, pod);
    world.create(SETS, set("OrderedReady", &json!({ "type": "RollingUpdate" })));
    world.start().await;
    let said = |world: &World| {
        let conditions = status(world)["conditions"].as_array().cloned().unwrap_or_default();
        let failed = conditions.iter().find(|it| it["type"] == "FailedScale");
        failed.is_some_and(|it| it["message"].as_str().unwrap_or_default().contains("Realm old"))
    };
    assert!(world.until_seen(120, said).await, "{:#}", status(&world));
    world.delete(PODS, "realm-0");
    let is_up = world.until_seen(300, |world| status(world)["updatedReadyReplicas"] == 3).await;
    assert!(is_up, "{:#}", status(&world));
}

/// `kubectl delete pvc/world-realm-2 pod/realm-2`, which is how people empty one of them.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_is_being_deleted_waits_for_another() {
    let world = up("OrderedReady", &json!({ "type": "RollingUpdate" })).await;
    let held = json!({ "metadata": { "finalizers": ["example.com/slow"] } });
    world.patch(CLAIMS, "world-realm-2", &held);
    let before = world.get(CLAIMS, "world-realm-2").unwrap()["metadata"]["uid"].clone();
    world.delete(CLAIMS, "world-realm-2");
    world.delete(PODS, "realm-2");
    world.advance_s(60).await;
    assert_eq!(names(&world, PODS), ["realm-0", "realm-1"], "it would be left without its claim");
    let conditions = status(&world)["conditions"].to_string();
    assert!(conditions.contains("world-realm-2 is being deleted"), "{conditions}");
    world.patch(CLAIMS, "world-realm-2", &json!({ "metadata": { "finalizers": null } }));
    let is_up = world.until_seen(300, |world| status(world)["updatedReadyReplicas"] == 3).await;
    assert!(is_up, "{:#}", status(&world));
    let after = world.get(CLAIMS, "world-realm-2").unwrap()["metadata"]["uid"].clone();
    assert_ne!(after, before, "a new claim");
}

#[tokio::test(start_paused = true)]
async fn a_set_is_updated_from_the_highest_number_down_to_its_partition() {
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } });
    let world = up("OrderedReady", &strategy).await;
    image(&world, "game:2");
    let is_there = world.until_seen(300, |world| status(world)["updatedReadyReplicas"] == 2).await;
    assert!(is_there, "{:#}", status(&world));
    world.advance_s(60).await;
    let runs = |name: &str| {
        let pod = world.get(PODS, name).unwrap_or_default();
        pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(["realm-0", "realm-1", "realm-2"].map(runs), ["game:1", "game:2", "game:2"]);
    assert_eq!(status(&world)["currentReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_updates_on_delete_touches_nothing_itself() {
    let world = up("Parallel", &json!({ "type": "OnDelete" })).await;
    let uids = |world: &World| -> Vec<Value> {
        let pods = world.admin.list(PODS, Some("default"));
        pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
    };
    let before = uids(&world);
    image(&world, "game:2");
    world.advance_s(120).await;
    assert_eq!(uids(&world), before);
    world.delete(PODS, "realm-2");
    let is_new = world.until_seen(60, |world| status(world)["updatedReadyReplicas"] == 1).await;
    assert!(is_new, "{:#}", status(&world));
}

#[tokio::test(start_paused = true)]
async fn a_label_that_says_another_number_is_put_right() {
    for policy in ["OrderedReady", "Parallel"] {
        let stage = Stage::up(numbered(policy, &json!({ "type": "RollingUpdate" }))).await;
        let uid = stage.world.get(PODS, "arena-1").unwrap()["metadata"]["uid"].clone();
        let named = "gamestatefulset.kubernetes.io/pod-name";
        let counted = "gamestatefulset.kubernetes.io/pod-ordinal";
        for (label, wrong) in
            [(named, json!("arena-7")), (counted, json!("7")), (named, Value::Null)]
        {
            let patch = json!({ "metadata": { "labels": { label: wrong } } });
            stage.world.patch(PODS, "arena-1", &patch);
            stage
                .until(30, "put right", |stage| {
                    let pod = stage.world.get(PODS, "arena-1").unwrap_or_default();
                    let labels = &pod["metadata"]["labels"];
                    labels[named] == "arena-1" && labels[counted] == "1"
                })
                .await;
        }
        let pod = stage.world.get(PODS, "arena-1").unwrap();
        assert_eq!(pod["metadata"]["uid"], uid, "it is the same pod");
        assert!(stage.is_settled(), "{:#}", stage.get());
    }
}
