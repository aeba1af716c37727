//! The operator on the embedded cluster, in virtual time.

use serde_json::json;
use tidegate_tests::rollout::{CANARIES, DEPLOYMENTS, World, canary, deployment};

#[tokio::test(start_paused = true)]
async fn smoke() {
    let mut world = World::new();
    world.create(DEPLOYMENTS, deployment("web", "web:1.0", 2));
    world.create(
        CANARIES,
        canary("web", "kubernetes", json!({ "interval": "10s", "threshold": 2, "iterations": 3, "metrics": [{"name": "request-success-rate", "thresholdRange": {"min": 99}}] })),
    );
    world.start().await;
    assert!(
        world.until(60, |world| world.phase("web") == "Initialized").await,
        "{:#}",
        world.status("web")
    );
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "template": { "spec": { "containers": [{ "name": "app", "image": "web:2.0", "ports": [{"containerPort": 8080}] }] } } } }));
    let done = world.until(200, |world| world.phase("web") == "Succeeded").await;
    for event in world.events() {
        println!("{event:?}");
    }
    assert!(done, "{:#}", world.status("web"));
}
