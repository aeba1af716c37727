//! Pods that do not become ready: the canary says their own cause, for a few requests.

use kube_sandbox::cluster::{Cluster as _, NODES};
use serde_json::json;
use tidegate_tests::rollout::World;

use crate::stage::{
    GATEWAY_API, by_weight, canary_of, condition, initialized, mark, reach, release,
    requests_since, with_canary,
};

const LIST: &str = "list pods";

fn lists(requests: &[String]) -> usize {
    requests.iter().filter(|request| *request == LIST).count()
}

fn told_of(world: &World, reason: &str, cause: &str) -> usize {
    let events = world.events();
    events.iter().filter(|(told, text)| told == reason && text.contains(cause)).count()
}

#[tokio::test(start_paused = true)]
async fn the_cause_is_that_of_the_pods() {
    let cases = [
        ("web:2-crash-loop", "container `app` exits with code 1 (CrashLoopBackOff)"),
        ("web:2-image-pull-error", "image `web:2-image-pull-error` of container `app` cannot be"),
        ("web:2-never-ready", "container `app` runs and is not ready; see its readiness probe"),
    ];
    for (image, cause) in cases {
        let world = initialized(GATEWAY_API, by_weight()).await;
        release(&world, image);
        reach(&world, "Progressing").await;
        world.advance_s(30).await;
        let (_, reason, said) = condition(&world, "web", "Reconciling");
        assert_eq!(reason, "CanaryNotReady");
        assert!(said.contains(cause), "{image}: {said}");
        world.advance_s(120).await;
        assert_eq!(told_of(&world, "CanaryNotReady", cause), 1, "{image}: {:#?}", world.events());
        release(&world, "web:3");
        reach(&world, "Succeeded").await;
        let (_, _, said) = condition(&world, "web", "Ready");
        assert!(!said.contains(cause), "{image}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_never_starts_has_its_cause_too() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    release(&world, "web:1-image-pull-error");
    world.start().await;
    world.advance_s(40).await;
    assert_eq!(told_of(&world, "PrimaryNotReady", "cannot be pulled (ImagePullBackOff)"), 1);
}

#[tokio::test(start_paused = true)]
async fn pods_that_fit_on_no_node_say_so() {
    let world = initialized(GATEWAY_API, by_weight()).await;
    for node in world.admin.list(NODES, None) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let cordoned = json!({ "spec": { "unschedulable": true } });
        world.admin.patch(NODES, "", name, "", &cordoned).expect("it is taken");
    }
    release(&world, "web:2");
    reach(&world, "Progressing").await;
    world.advance_s(30).await;
    let (_, _, said) = condition(&world, "web", "Reconciling");
    assert!(said.contains("pods are not scheduled (Unschedulable): 0/1 nodes"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn pods_are_asked_only_after_a_while_and_once_a_look() {
    let world = initialized(GATEWAY_API, by_weight()).await;
    let before = mark(&world);
    release(&world, "web:2");
    reach(&world, "Succeeded").await;
    assert_eq!(lists(&requests_since(&world, before)), 0, "pods that start in time are not asked");

    let before = mark(&world);
    release(&world, "web:3-never-ready");
    reach(&world, "Progressing").await;
    world.advance_s(100).await;
    let asked = lists(&requests_since(&world, before));
    assert!((5..=10).contains(&asked), "{asked} lists in 100 s at an interval of 10 s");
}
