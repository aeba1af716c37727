//! Hooks that hang hold up their own canary only, however many there are.

use std::{collections::BTreeSet, time::Duration};

use kube_sandbox::cluster::{Cluster as _, Deletion, NAMESPACES};
use serde_json::{Value, json};
use tidegate_tests::{
    network::Reply,
    rollout::{CANARIES, DEPLOYMENTS, World, canary, deployment},
};

use crate::stage::{
    GATEWAY_API, KUBERNETES, blue_green, by_weight, canary_of, canary_share, hooked, reach,
    release, with_canary,
};

const PERMITS: usize = 4;
const TENANTS: usize = 10;

/// A canary whose hooks hang, in the namespace of its tenant.
struct Slow {
    namespace: String,
    name: String,
}

// === impl Slow ===

impl Slow {
    /// Twice as many as there are permits, at least one for each tenant.
    fn all() -> Vec<Self> {
        let number = (2 * PERMITS).max(2 * TENANTS);
        let slow = |index: usize| Self {
            namespace: format!("tenant-{}", index % TENANTS),
            name: format!("slow-{index}"),
        };
        (0..number).map(slow).collect()
    }

    fn create(&self, world: &World, has_finalizer: bool) {
        let analysis = hooked(hooked(blue_green(), "confirm-rollout"), "rollout");
        let mut object = canary(&self.name, KUBERNETES, analysis);
        // No deadline and no patience ends the wait for the hook.
        for hook in object["spec"]["analysis"]["webhooks"].as_array_mut().into_iter().flatten() {
            hook["timeout"] = json!("1440m");
        }
        object["spec"]["revertOnDeletion"] = json!(has_finalizer);
        let workload = deployment(&self.name, "slow:1.0", 1);
        for (resource, object) in [(DEPLOYMENTS, workload), (CANARIES, object)] {
            world.admin.create(resource, &self.namespace, object).expect("it is accepted");
        }
    }

    fn release(&self, world: &World) {
        let containers = json!([{ "name": "app", "image": "slow:2.0" }]);
        let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        let patched = world.admin.patch(DEPLOYMENTS, &self.namespace, &self.name, "", &patch);
        patched.expect("it is accepted");
    }

    fn get(&self, world: &World) -> Option<Value> {
        world.admin.get(CANARIES, &self.namespace, &self.name)
    }

    fn phase(&self, world: &World) -> String {
        let canary = self.get(world).unwrap_or_default();
        canary["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    fn delete(&self, world: &World) {
        let deleted =
            world.admin.delete(CANARIES, &self.namespace, &self.name, &Deletion::default());
        deleted.expect("it is there");
    }
}

/// The share of `web` after each second of its rollout.
async fn shares(world: &World) -> Vec<i64> {
    release(world, "web:2.0");
    let mut shares = Vec::new();
    for _ in 0..100 {
        world.advance(Duration::from_secs(1)).await;
        shares.push(canary_share(world));
    }
    shares
}

#[tokio::test(start_paused = true)]
async fn hooks_that_hang_delay_no_other_canary_and_no_deletion() {
    let mut alone = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    alone.options.permits = PERMITS;
    alone.start().await;
    reach(&alone, "Initialized").await;
    let on_time = shares(&alone).await;
    let steps: BTreeSet<i64> = on_time.iter().copied().collect();
    assert_eq!(steps, [0, 20, 40, 60].into(), "a whole rollout: {on_time:?}");
    drop(alone);

    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.options.permits = PERMITS;
    for tenant in 0..TENANTS {
        let namespace = json!({ "metadata": { "name": format!("tenant-{tenant}") } });
        world.admin.create(NAMESPACES, "", namespace).expect("it is accepted");
    }
    let all = Slow::all();
    for (index, slow) in all.iter().enumerate() {
        slow.create(&world, index % 2 == 0);
    }
    world.start().await;
    reach(&world, "Initialized").await;
    let is_set_up = |world: &World| all.iter().all(|slow| slow.phase(world) == "Initialized");
    assert!(world.until(120, is_set_up).await, "every neighbour is set up");

    let (hangs, _hold) = Reply::yes().held();
    world.network.hook("hooks/confirm-rollout", hangs.clone());
    world.network.hook("hooks/rollout", hangs);
    for slow in &all {
        slow.release(&world);
    }
    world.advance(Duration::from_secs(30)).await;
    let waiting = world.network.calls_to("hooks/confirm-rollout").len();
    assert_eq!(waiting, all.len(), "each of them waits for its hook");

    assert_eq!(shares(&world).await, on_time, "every step on time, beside {waiting} that hang");

    for slow in &all {
        slow.delete(&world);
    }
    // No time passes: the deletion itself wakes them.
    world.settle().await;
    for slow in &all {
        let phase = slow.get(&world).map(|_| slow.phase(&world));
        let is_noticed = phase.as_deref().is_none_or(|phase| phase.starts_with("Terminat"));
        assert!(is_noticed, "{}/{}: {phase:?}", slow.namespace, slow.name);
    }
    let is_gone = |world: &World| all.iter().all(|slow| slow.get(world).is_none());
    assert!(world.until(120, is_gone).await, "all are given back");
}
