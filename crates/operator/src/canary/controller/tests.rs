use std::collections::BTreeSet;

use tokio::time::timeout;

use super::*;
use crate::canary::testing::Kit;

fn canary(target: &str) -> Value {
    json!({ "metadata": { "uid": target }, "spec": { "targetRef": { "name": target } } })
}

fn id(name: &str) -> Id {
    (CANARY, Key::new("shop", name))
}

fn canaries() -> (Kit, Canaries) {
    let kit = Kit::at_rest(&json!({}), &json!({}));
    let canaries = Canaries::new(Arc::clone(&kit.cx));
    (kit, canaries)
}

#[tokio::test(start_paused = true)]
async fn first_passes_are_spread_but_for_those_that_are_urgent() {
    let (kit, canaries) = canaries();
    let of = |uid: usize, more: &Value| {
        let mut canary = json!({ "metadata": { "uid": uid.to_string() } });
        crate::canary::observe::testing::merge(&mut canary, more);
        canary
    };
    let cases = [
        ("at rest", json!({ "status": { "phase": "Succeeded" } }), true, true),
        ("never seen", json!({}), true, true),
        ("unreadable", json!({ "status": { "phase": 7 } }), true, true),
        ("under way", json!({ "status": { "phase": "Progressing" } }), true, false),
        ("to be deleted", json!({ "metadata": { "deletionTimestamp": "now" } }), true, false),
        ("made while running", json!({}), false, false),
    ];
    for (reason, more, is_initial, is_spread) in cases {
        let delays: BTreeSet<Duration> =
            (0..50).map(|uid| canaries.delay(&of(uid, &more), is_initial)).collect();
        assert_eq!(delays.len() > 25, is_spread, "{reason}: {delays:?}");
        assert!(delays.iter().all(|it| *it < kit.cx.options.spread), "{reason}");
        let is_at_once = delays == [Duration::ZERO].into();
        assert_eq!(is_at_once, !is_spread, "{reason}");
    }
}

#[test]
fn each_start_has_another_order() {
    let span = Duration::from_secs(10);
    let of = |seed: u64| -> Vec<Duration> {
        (0..20).map(|uid: u32| jitter(&uid.to_string(), seed, span)).collect()
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert!(of(1).iter().any(|it| *it > span / 2) && of(1).iter().any(|it| *it < span / 2));
    assert_eq!(jitter("a", 1, Duration::ZERO), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn only_changes_that_are_not_ours_wake_a_loop() {
    let (_, canaries) = canaries();
    let object = json!({ "metadata": { "generation": 1 }, "status": {}, "spec": {} });
    let cases = [
        ("its status", "/status", false),
        ("its generation", "/metadata/generation", true),
        ("its deletion", "/metadata/deletionTimestamp", true),
        ("its finalizers", "/metadata/finalizers", true),
        ("its annotations", "/metadata/annotations", true),
        ("its labels", "/metadata/labels", false),
    ];
    for (reason, place, wakes) in cases {
        let mut changed = object.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[name] = json!(["other"]);
        let is_other = canaries.wake_fields(&changed) != canaries.wake_fields(&object);
        assert_eq!(is_other, wakes, "{reason}");
    }
    assert_eq!(canaries.kinds(), [CANARY]);
    assert_eq!(canaries.follower(&id("web")), Key::new("shop", "web"));
}

#[tokio::test(start_paused = true)]
async fn metrics_of_a_target_end_with_its_last_canary() {
    let (kit, mut canaries) = canaries();
    let show = |target: &str| {
        let target = Target::new("shop", target);
        kit.cx.telemetry.set_status(&target, CanaryPhase::Progressing);
    };
    let shows = |target: &str| {
        kit.has_metric(&format!(r#"flagger_canary_status{{name="{target}",namespace="shop"}}"#))
    };
    let total = |count: usize| {
        kit.has_metric(&format!(r#"flagger_canary_total{{namespace="shop"}} {count}"#))
    };
    canaries.adopt(&Key::new("shop", "one"), &canary("web"));
    canaries.adopt(&Key::new("shop", "two"), &canary("web"));
    canaries.adopt(&Key::new("shop", "three"), &canary("api"));
    assert!(total(3));
    show("web");
    show("api");
    canaries.ended(&id("one"));
    assert!(shows("web") && total(2), "another canary has this target");
    canaries.changed(&id("two"), &canary("job"));
    assert!(!shows("web"), "no canary has it any more");
    assert!(shows("api"));
    canaries.changed(&id("three"), &canary("api"));
    assert!(shows("api"), "the same target");
    canaries.ended(&id("three"));
    assert!(!shows("api") && total(1));
    canaries.ended(&id("two"));
    assert!(total(0));
}

#[tokio::test(start_paused = true)]
async fn canaries_of_one_target_look_again_when_another_comes_or_goes() {
    let (kit, mut canaries) = canaries();
    let cache = Arc::clone(&kit.cx.cluster.cache);
    let woken = async |name: &str, namespace: &str| {
        let wakeup = cache.wakeup(&Key::new(namespace, name));
        timeout(Duration::from_millis(1), wakeup.notified()).await.is_ok()
    };
    for (name, namespace) in [("one", "shop"), ("two", "shop"), ("far", "ops")] {
        cache.wakeup(&Key::new(namespace, name));
    }
    canaries.adopt(&Key::new("shop", "one"), &canary("web"));
    canaries.adopt(&Key::new("ops", "far"), &canary("web"));
    assert!(!woken("one", "shop").await, "the target of another namespace is another one");
    canaries.adopt(&Key::new("shop", "two"), &canary("web"));
    assert!(woken("one", "shop").await, "a rival");
    assert!(!woken("two", "shop").await, "not itself");
    assert!(!woken("far", "ops").await);
    canaries.ended(&id("two"));
    assert!(woken("one", "shop").await, "it may be the only one now");
    assert!(!woken("far", "ops").await);
}
