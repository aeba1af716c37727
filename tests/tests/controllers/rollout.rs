//! Invariants of rollouts after every single step of any controller.

use kube_sandbox::{
    Settings,
    cluster::{DEPLOYMENTS, PODS, REPLICA_SETS},
    kubelet::KubeletSettings,
};
use serde_json::json;
use tidegate_tests::controllers::{World, deployment, is_ready, merged, number, text};

/// `maxSurge`, `maxUnavailable`, replicas; the most pods there may be, and the fewest available.
const BOUNDS: [(&str, &str, i64, i64, usize); 5] = [
    ("25%", "25%", 8, 10, 6),
    ("1", "0", 4, 5, 4),
    ("0", "1", 4, 4, 3),
    ("100%", "0", 3, 6, 3),
    ("50%", "50%", 5, 8, 3),
];

fn strategy(surge: &str, unavailable: &str) -> serde_json::Value {
    let amount = |given: &str| given.parse::<i64>().map_or(json!(given), |number| json!(number));
    json!({ "spec": { "strategy": {
        "type": "RollingUpdate",
        "rollingUpdate": { "maxSurge": amount(surge), "maxUnavailable": amount(unavailable) },
    } } })
}

/// The replicas of all `ReplicaSets` together. The surge limits these and not the existing pods: those of a
/// set that was just scaled down take a moment to be deleted.
fn asked_for(world: &World) -> i64 {
    world.list(REPLICA_SETS).iter().map(|set| number(&set["spec"]["replicas"])).sum()
}

#[test]
fn a_rolling_update_stays_within_surge_and_unavailability_at_every_step() {
    for (surge, unavailable, replicas, most, least) in BOUNDS {
        for (order, world) in World::orders() {
            let wanted =
                merged(deployment("web", replicas, "nginx:1"), &strategy(surge, unavailable));
            world.create(DEPLOYMENTS, wanted);
            world.settle();
            world.set_image(DEPLOYMENTS, "web", "nginx:2");
            let why = format!("{surge}/{unavailable} of {replicas}, {order}");
            world.step_through(|world| {
                let asked = asked_for(world);
                assert!(asked <= most, "{why}: {asked} pods asked for");
                let pods = world.active_pods();
                let available = pods.iter().filter(|pod| is_ready(pod)).count();
                assert!(available >= least, "{why}: only {available} available");
            });
            let images = world.active_pods();
            assert!(
                images.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "nginx:2"),
                "{why}"
            );
            assert_eq!(images.len(), usize::try_from(replicas).unwrap(), "{why}");
        }
    }
}

#[test]
fn slow_pods_do_not_cost_availability_either() {
    let mut settings = Settings::for_tests().seed(7).shuffled();
    settings.controllers.kubelet = KubeletSettings::default();
    let world = World::with(settings);
    world.create(DEPLOYMENTS, merged(deployment("web", 4, "nginx:1"), &strategy("1", "1")));
    world.advance(10);
    world.set_image(DEPLOYMENTS, "web", "nginx:2");
    let mut seconds = 0;
    loop {
        world.step_through(|world| {
            let asked = asked_for(world);
            assert!(asked <= 5, "{asked} pods asked for");
            let pods = world.active_pods();
            let available = pods.iter().filter(|pod| is_ready(pod)).count();
            assert!(available >= 3, "only {available} available");
        });
        if number(&world.get(DEPLOYMENTS, "web")["status"]["updatedReplicas"]) == 4 || seconds > 60
        {
            break;
        }
        seconds += 1;
        let due = world.sandbox.runtime().next_due();
        let Some(due) = due else { break };
        let now = world.sandbox.server().clock.now();
        world.sandbox.server().clock.advance(due.duration_since(now).unsigned_abs());
    }
    world.advance(10);
    assert_eq!(world.sets(), [("nginx:1".into(), 0), ("nginx:2".into(), 4)]);
}

#[test]
fn recreate_never_runs_old_and_new_pods_together() {
    for (order, world) in World::orders() {
        let recreate = json!({ "spec": { "strategy": { "type": "Recreate" } } });
        world.create(DEPLOYMENTS, merged(deployment("web", 3, "nginx:1"), &recreate));
        world.settle();
        world.set_image(DEPLOYMENTS, "web", "nginx:2");
        world.step_through(|world| {
            let mut images: Vec<_> = world
                .list(PODS)
                .iter()
                .map(|pod| text(&pod["spec"]["containers"][0]["image"]))
                .collect();
            images.dedup();
            assert!(images.len() <= 1, "{order}: {images:?}");
        });
        assert_eq!(world.sets(), [("nginx:1".into(), 0), ("nginx:2".into(), 3)], "{order}");
        world.assert_quiet();
    }
}

#[test]
fn scaling_during_a_stuck_rollout_keeps_the_proportions() {
    let world = World::new();
    let wanted = merged(deployment("web", 10, "nginx:1"), &strategy("3", "2"));
    world.create(DEPLOYMENTS, wanted);
    world.settle();
    world.set_image(DEPLOYMENTS, "web", "nginx:2-never-ready");
    world.settle();
    assert_eq!(world.sets(), [("nginx:1".into(), 8), ("nginx:2-never-ready".into(), 5)]);
    world.scale(DEPLOYMENTS, "web", 15);
    world.settle();
    // The example of the Kubernetes documentation: five more, spread 3 to 2.
    assert_eq!(world.sets(), [("nginx:1".into(), 11), ("nginx:2-never-ready".into(), 7)]);
    for set in world.list(REPLICA_SETS) {
        let annotations = &set["metadata"]["annotations"];
        assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "15");
        assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "18");
    }
}

#[test]
fn scaling_down_to_zero_in_the_middle_of_a_rollout_ends_all_pods() {
    for (order, world) in World::orders() {
        world.create(DEPLOYMENTS, deployment("web", 4, "nginx:1"));
        world.settle();
        world.set_image(DEPLOYMENTS, "web", "nginx:2-never-ready");
        world.settle();
        world.scale(DEPLOYMENTS, "web", 0);
        world.settle();
        assert!(world.list(PODS).is_empty(), "{order}");
        assert!(world.sets().iter().all(|(_, size)| *size == 0), "{order}: {:?}", world.sets());
        world.scale(DEPLOYMENTS, "web", 2);
        world.set_image(DEPLOYMENTS, "web", "nginx:3");
        world.settle();
        assert_eq!(world.active_pods().len(), 2, "{order}");
    }
}
