//! Numbered pods.

use super::{all_hooks, count, in_place, keep, set, until, wait, wait_for};
use crate::game::simulate::{Event, World, canary, rev};
use tidegate_engine::game::{
    CanaryStep, Fact, IntOrPercent, Management, NodeState, Plan, UpdateWay, WorkloadKind,
};

fn numbers(world: &World, revision: &str) -> Vec<usize> {
    let pods = world.truth.pods.iter().filter(|pod| pod.is_of(&rev(revision)));
    let mut numbers: Vec<usize> = pods.filter_map(|pod| pod.ordinal).collect();
    numbers.sort_unstable();
    numbers
}

fn five(management: Management, way: UpdateWay, steps: Vec<CanaryStep>) -> Plan {
    Plan { replicas: 5, canary: Some(canary(steps)), ..set(management, way) }
}

const WAYS: [UpdateWay; 3] = [UpdateWay::Recreate, UpdateWay::InPlace, UpdateWay::HotPatch];
const MANAGEMENTS: [Management; 2] = [Management::OrderedReady, Management::Parallel];

#[test]
fn pods_are_made_in_order_or_all_at_once() {
    let mut world = World::new(set(Management::OrderedReady, UpdateWay::Recreate));
    world.pass();
    assert_eq!(numbers(&world, "r1"), [0]);
    world.round();
    world.round();
    assert_eq!(numbers(&world, "r1"), [0], "the first is not ready yet");
    world.rest();
    assert_eq!(numbers(&world, "r1"), [0, 1, 2, 3]);
    world.is_sound();
    let mut world = World::new(set(Management::Parallel, UpdateWay::Recreate));
    world.pass();
    assert_eq!(numbers(&world, "r1"), [0, 1, 2, 3]);
}

#[test]
fn the_highest_numbers_are_updated_and_those_below_the_partition_stay() {
    for management in MANAGEMENTS {
        for way in WAYS {
            let plan = five(management, way, vec![keep(3), wait()]);
            let world = World::running(plan).then(&Event::Push(true));
            assert_eq!(numbers(&world, "r2"), [3, 4], "{management:?} {way:?}");
            let counts = world.truth.memory.counts;
            let columns = (
                counts.replicas,
                counts.ready,
                counts.current,
                counts.updated,
                counts.updated_ready,
            );
            assert_eq!(columns, (5, 5, 3, 2, 2));
            let world = world.then(&Event::Paused(false));
            assert_eq!(numbers(&world, "r2"), [0, 1, 2, 3, 4]);
            assert_eq!(world.truth.memory.counts.current, 5);
            world.is_sound();
        }
    }
}

#[test]
fn in_order_one_pod_at_a_time_is_out_of_service() {
    let plan = Plan {
        max_unavailable: IntOrPercent::Count(3),
        ..five(Management::OrderedReady, UpdateWay::InPlace, Vec::new())
    };
    let mut world = World::running(plan);
    world.happen(&Event::Push(true));
    for _ in 0..60 {
        world.round();
        assert!(world.truth.memory.counts.ready >= 4, "{}", world.line());
    }
    assert_eq!(numbers(&world, "r2").len(), 5);
    world.is_sound();
}

#[test]
fn in_parallel_as_many_as_may_be_are_out_of_service() {
    let plan = Plan {
        max_unavailable: IntOrPercent::Count(3),
        ..five(Management::Parallel, UpdateWay::InPlace, Vec::new())
    };
    let mut world = World::running(plan);
    world.happen(&Event::Push(true));
    until(&mut world, "- 3/0/2");
    world.rest();
    assert_eq!(numbers(&world, "r2").len(), 5);
    world.is_sound();
}

#[test]
fn a_lost_pod_below_the_partition_comes_back_old() {
    for management in MANAGEMENTS {
        let plan = five(management, UpdateWay::Recreate, vec![keep(3), wait()]);
        let mut world = World::running(plan).then(&Event::Push(true));
        world = world.then(&Event::KillAll("r1"));
        assert_eq!(numbers(&world, "r1"), [0, 1, 2], "db_49");
        world = world.then(&Event::KillAll("r2"));
        assert_eq!(numbers(&world, "r2"), [3, 4]);
        world.is_sound();
    }
}

#[test]
fn scaling_in_takes_the_highest_numbers_and_asks_their_hooks() {
    for management in MANAGEMENTS {
        let plan = all_hooks(five(management, UpdateWay::Recreate, Vec::new()));
        let world = World::running(plan).then(&Event::Scale(2));
        assert_eq!(numbers(&world, "r1"), [0, 1]);
        assert!(world.wrote("predelete-r1-4-test"));
        world.is_sound();
    }
}

// Game workloads, mistake 23: docs/mistakes.md.
#[test]
fn a_percentage_keeps_as_many_pods_for_updates_as_for_pods_on_top() {
    let plan = Plan {
        max_surge: IntOrPercent::Count(3),
        ..five(
            Management::Parallel,
            UpdateWay::Recreate,
            vec![CanaryStep::Partition(IntOrPercent::Percent(50)), wait()],
        )
    };
    let world = World::running(plan).then(&Event::Push(true));
    assert_eq!(numbers(&world, "r2"), [3, 4]);
    assert!(world.wrote("ordinal: Some(6)"), "two are updated, two are on top");
    assert!(!world.wrote("ordinal: Some(7)"));
    world.is_sound();
}

#[test]
fn on_delete_nothing_is_updated_until_a_pod_is_deleted() {
    let mut world = World::running(set(Management::Parallel, UpdateWay::OnDelete));
    world = world.then(&Event::Push(true));
    assert_eq!(count(&world, "r1"), 4);
    world = world.then(&Event::Kill(2));
    assert_eq!(count(&world, "r2"), 1);
    world.is_sound();
}

// Game workloads, mistake 19: docs/mistakes.md.
#[test]
fn pods_on_top_do_not_count_for_the_step_and_go_in_the_end() {
    let plan = Plan {
        max_surge: IntOrPercent::Count(1),
        ..five(Management::Parallel, UpdateWay::Recreate, vec![keep(4), wait()])
    };
    let world = World::running(plan).then(&Event::Push(true));
    assert_eq!(numbers(&world, "r2"), [4]);
    assert_eq!(world.line(), "1 1/1/5 PausedByCanaryPauseStep paused");
    assert!(world.wrote("ordinal: Some(5)"), "{:#?}", world.log);
    let world = world.then(&Event::Paused(false));
    assert_eq!(numbers(&world, "r2"), [0, 1, 2, 3, 4]);
    world.is_sound();
}

// Game workloads, mistake 20: docs/mistakes.md.
#[test]
fn a_broken_release_can_be_rolled_forward_and_back() {
    for management in MANAGEMENTS {
        for way in [UpdateWay::Recreate, UpdateWay::InPlace] {
            for repair in [Event::Push(true), Event::Restore("r1")] {
                let plan = Plan { replicas: 3, ..set(management, way) };
                let world = World::running(plan).then(&Event::Push(false)).then(&repair);
                assert_eq!(world.truth.memory.counts.ready, 3, "{management:?} {way:?} {repair:?}");
                let name = world.truth.update.to_string();
                assert_eq!(count(&world, &name), 3);
                world.is_sound();
            }
        }
    }
}

// Game workloads, mistake 22: docs/mistakes.md.
#[test]
fn a_pod_on_a_lost_node_is_taken_by_force() {
    let mut world = World::running(set(Management::OrderedReady, UpdateWay::Recreate));
    let pod = &mut world.truth.pods[1];
    (pod.is_terminating, pod.node) = (true, NodeState::Lost);
    let uid = pod.uid.clone();
    world.happen(&Event::Paused(false));
    world.rest();
    assert!(world.truth.pods.iter().all(|pod| pod.uid != uid));
    assert_eq!(numbers(&world, "r1"), [0, 1, 2, 3]);
    assert!(world.told.iter().any(|fact| matches!(fact, Fact::PodLost(_))));
}

#[test]
fn a_failed_pod_is_made_anew() {
    for management in MANAGEMENTS {
        let world = World::running(set(management, UpdateWay::Recreate)).then(&Event::Fail(1));
        assert_eq!(numbers(&world, "r1"), [0, 1, 2, 3]);
        assert!(world.told.iter().any(|fact| matches!(fact, Fact::PodFailed(_))));
        world.is_sound();
    }
}

#[test]
fn a_pod_that_is_lost_in_the_middle_of_an_update_in_order_comes_back_once() {
    let mut world = World::running(set(Management::OrderedReady, UpdateWay::Recreate));
    world.happen(&Event::Push(true));
    world.rounds(4);
    world = world.then(&Event::Kill(0));
    assert_eq!(numbers(&world, "r2"), [0, 1, 2, 3]);
    world.is_sound();
}

// Game workloads, mistake 20: docs/mistakes.md.
#[test]
fn a_broken_old_pod_with_a_low_number_is_replaced_once() {
    let mut world = World::running(set(Management::OrderedReady, UpdateWay::Recreate));
    world.truth.pods[0].containers[0].image = "bad".to_owned();
    world.happen(&Event::Clock(0));
    world.rest();
    assert_eq!(world.truth.memory.counts.ready, 3);
    world.log.clear();
    world = world.then(&Event::Push(true));
    assert_eq!(numbers(&world, "r2"), [0, 1, 2, 3]);
    let made = world.log.iter().filter(|line| {
        let line = format!("{line:?}");
        line.contains("Create(") && line.contains("ordinal: Some(0)")
    });
    assert_eq!(made.count(), 1, "{:#?}", world.log);
    world.is_sound();
}

#[test]
fn a_pod_that_is_lost_beside_a_broken_one_of_the_new_revision_comes_back_old() {
    let world = World::running(set(Management::OrderedReady, UpdateWay::Recreate))
        .then(&Event::Push(false))
        .then(&Event::Kill(0));
    assert_eq!(numbers(&world, "r2"), [3]);
    assert_eq!(numbers(&world, "r1"), [0, 1, 2]);
    world.is_sound();
}

#[test]
fn broken_pods_can_be_scaled_in() {
    let world = World::running(set(Management::OrderedReady, UpdateWay::Recreate));
    let mut world = world.then(&Event::Push(false));
    for pod in &mut world.truth.pods {
        pod.containers[0].image = "bad".to_owned();
    }
    world = world.then(&Event::Scale(0));
    assert!(world.truth.pods.is_empty());
    world.is_sound();
}

#[test]
fn a_set_without_budget_says_so() {
    let plan = Plan {
        max_unavailable: IntOrPercent::Count(0),
        ..set(Management::Parallel, UpdateWay::Recreate)
    };
    let world = World::running(plan).then(&Event::Push(true));
    assert_eq!(count(&world, "r1"), 4);
    let last = world.last.as_ref().unwrap();
    assert_eq!(last.why, Fact::NoBudget);
}

#[test]
fn a_pause_holds_a_set() {
    let world = World::running(Plan {
        kind: WorkloadKind::StatefulSet(Management::Parallel),
        ..in_place(Vec::new())
    })
    .then(&Event::Paused(true))
    .then(&Event::Push(true));
    assert_eq!(count(&world, "r1"), 4);
    world.is_sound();
}

// Game workloads, mistake 17: docs/mistakes.md.
#[test]
fn the_counts_are_written_in_every_look() {
    let mut world = World::running(set(Management::Parallel, UpdateWay::Recreate));
    world.happen(&Event::Push(true));
    world.pass();
    assert_eq!(world.truth.memory.counts.replicas, 4);
    assert_eq!(world.truth.memory.counts.ready, 4);
}

/// One node is lost after so many rounds of a release, with the pod of this number on it.
fn lose(world: &mut World, number: usize) -> Option<String> {
    let pod = world.truth.pods.iter_mut().find(|pod| pod.ordinal == Some(number))?;
    (pod.is_terminating, pod.node) = (true, NodeState::Lost);
    pod.ready = tidegate_engine::game::Ready::No;
    Some(pod.uid.clone())
}

#[test]
fn a_lost_node_stops_no_release_of_a_set_whenever_it_is_lost() {
    let steps = [None, Some(vec![keep(2), wait_for(20), keep(1)])];
    let mut releases = 0;
    for management in MANAGEMENTS {
        for (way, steps) in WAYS.iter().flat_map(|way| steps.iter().map(move |it| (*way, it))) {
            for (number, rounds) in (0..4).flat_map(|at| (0..7).map(move |rounds| (at, rounds * 2)))
            {
                let canary = steps.clone().map(canary);
                let mut world = World::running(Plan { canary, ..set(management, way) });
                world.happen(&Event::Push(true));
                world.rounds(rounds);
                world.see(&crate::game::check::TraceEvent::Changed);
                let lost = lose(&mut world, number);
                world.rest();
                let about = format!("{management:?} {way:?} {steps:?} {number} {rounds}");
                let is_gone = world.truth.pods.iter().all(|pod| Some(&pod.uid) != lost.as_ref());
                assert!(is_gone, "{about}: {:#?}", world.log);
                assert_eq!(numbers(&world, "r2"), [0, 1, 2, 3], "{about}: {:#?}", world.log);
                assert_eq!(world.truth.memory.counts.ready, 4, "{about}");
                world.is_sound();
                releases += 1;
            }
        }
    }
    assert_eq!(releases, 2 * 3 * 2 * 4 * 7);
}
