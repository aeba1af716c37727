//! Mistakes of other controllers, one test each. The numbers are those of
//! [the list](../../../../../docs/mistakes.md#game-workloads).

use std::time::Duration;

use super::{count, hooked, in_place, keep, plain, stepped, until, wait};
use crate::game::simulate::{Event, HookWill, World, call, canary, hook_step, rev, seed_plan};
use tidegate_engine::game::{
    CanaryStep, ConditionKind, Fact, HookKind, IntOrPercent, PauseReason, Plan, ReadinessGate,
    StepHook, UpdateWay,
};

fn pushed(plan: Plan) -> World {
    World::running(plan).then(&Event::Push(true))
}

fn has(world: &World, kind: ConditionKind) -> bool {
    world.truth.memory.conditions.iter().any(|known| known.kind == kind && known.holds)
}

// Mistake 4.
#[test]
fn a_pod_that_is_made_in_a_pause_becomes_ready() {
    let mut world = pushed(in_place(vec![keep(3), wait()]));
    world = world.then(&Event::Kill(3)).then(&Event::Scale(5));
    assert_eq!(world.truth.memory.counts.ready, 5);
    assert!(world.truth.pods.iter().all(|pod| pod.gate == ReadinessGate::Open));
    world.is_sound();
}

// Mistake 5.
#[test]
fn a_pod_in_its_grace_period_does_not_end_a_step() {
    let mut world = World::running(seed_plan());
    world.happen(&Event::Push(true));
    until(&mut world, "0 1/0/3");
    // A node that is late still says that the pod is ready.
    let pod = world.truth.pods.iter_mut().find(|pod| pod.grace.is_some()).unwrap();
    pod.ready = tidegate_engine::game::Ready::Since(Some(tidegate_engine::Moment(0)));
    world.pass();
    assert_eq!(world.truth.memory.step, Some(0));
    assert_eq!(world.truth.memory.counts.updated_ready, 0);
}

// Mistake 6.
#[test]
fn a_second_change_within_the_grace_period_loses_no_image() {
    let mut world = World::running(seed_plan());
    world.happen(&Event::Push(true));
    until(&mut world, "0 1/0/3");
    world.happen(&Event::Push(true));
    world.rest();
    let new = world.truth.pods.iter().find(|pod| pod.is_of(&rev("r3"))).unwrap();
    assert_eq!(new.containers[0].image, "image:r3");
    assert_eq!(count(&world, "r2"), 0, "the abandoned pod went first");
    world.is_sound();
}

// Mistake 7.
#[test]
fn steps_that_come_with_a_new_template_apply_to_it() {
    let mut world = World::running(plain());
    world.happen(&Event::Steps(vec![keep(3), wait()]));
    world = world.then(&Event::Push(true));
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    assert_eq!(world.truth.memory.stable, Some(rev("r1")));
    world.is_sound();
}

// Mistake 7.
#[test]
fn steps_that_are_added_in_the_middle_of_an_update_apply_to_it() {
    let mut world = World::running(plain());
    world.happen(&Event::Push(true));
    world.rounds(3);
    world = world.then(&Event::Steps(vec![keep(3), wait()]));
    assert_eq!(world.truth.memory.stable, Some(rev("r1")));
    assert!(world.line().starts_with('1'), "{}", world.line());
    assert!(count(&world, "r1") > 0);
    world.is_sound();
}

// Mistake 8.
#[test]
fn a_partition_that_is_exceeded_already_is_reached() {
    let mut world = pushed(stepped(vec![keep(2), wait()]));
    assert_eq!(world.line(), "1 2/2/4 PausedByCanaryPauseStep paused");
    world = world.then(&Event::Steps(vec![keep(3), wait()]));
    assert_eq!(world.line(), "1 2/2/4 PausedByCanaryPauseStep paused", "nobody is downgraded");
    world.is_sound();
}

// Mistake 8.
#[test]
fn a_partition_above_the_replicas_is_reached() {
    let mut world = pushed(stepped(vec![keep(3), wait()]));
    world = world.then(&Event::Scale(2)).then(&Event::Paused(false));
    assert_eq!(world.line(), "2 2/2/2");
    world.is_sound();
}

// Mistake 9.
#[test]
fn going_back_to_a_larger_partition_deletes_no_pod() {
    let plan = Plan { max_surge: IntOrPercent::Count(1), ..stepped(vec![keep(2), wait()]) };
    let mut world = pushed(plan);
    world = world.then(&Event::Steps(vec![keep(3), wait()]));
    assert_eq!(world.truth.memory.counts.replicas, 4);
    assert_eq!(count(&world, "r2"), 2);
    world.is_sound();
}

// Mistake 10.
#[test]
fn going_back_in_the_last_batch_is_going_back() {
    let mut world = pushed(stepped(vec![keep(3), wait()]));
    world.happen(&Event::Paused(false));
    until(&mut world, "2 1/1/4");
    world.rounds(2);
    assert_eq!(world.truth.memory.stable, Some(rev("r1")));
    world = world.then(&Event::Restore("r1"));
    assert_eq!(world.line(), "2 4/4/4", "it does not stop at a step");
    assert_eq!(count(&world, "r1"), 4);
    world.is_sound();
}

// Mistake 10.
#[test]
fn nothing_is_stable_with_a_pod_on_top_that_waits_for_its_hook() {
    let plan = Plan {
        replicas: 3,
        max_unavailable: IntOrPercent::Count(0),
        max_surge: IntOrPercent::Count(1),
        ..stepped(vec![keep(2), wait()])
    };
    let mut world = pushed(hooked(plan, HookKind::PreDelete));
    assert_eq!(world.line(), "1 1/1/3 PausedByCanaryPauseStep paused");
    world.happen(&Event::Paused(false));
    for _ in 0..60 {
        if count(&world, "r1") == 1 {
            break;
        }
        world.round();
    }
    world = world.then(&Event::PodHooks(HookWill::Hang));
    assert_eq!(world.line(), "2 3/3/4");
    assert_eq!((count(&world, "r1"), count(&world, "r2")), (1, 3));
    assert_eq!(world.truth.memory.stable, Some(rev("r1")));
    world.happen(&Event::PodHooks(HookWill::Pass));
    let back = world.clone().then(&Event::Restore("r1"));
    assert_eq!(back.line(), "2 3/3/3", "it does not stop at a step");
    assert_eq!(count(&back, "r1"), 3);
    back.is_sound();
    // The hook passes: the pod goes, and the release is over.
    world.let_pass();
    world.rest();
    assert_eq!((world.line().as_str(), count(&world, "r2")), ("2 3/3/3", 3));
    assert_eq!(world.truth.memory.stable, Some(rev("r2")));
    world.is_sound();
}

// Mistake 11.
#[test]
fn pods_of_an_abandoned_release_are_updated_first() {
    let mut world = pushed(stepped(vec![keep(3), wait()]));
    // Old pods that are younger would come first by their age.
    world = world.then(&Event::KillAll("r1"));
    assert_eq!((count(&world, "r1"), count(&world, "r2")), (3, 1));
    world = world.then(&Event::Push(true));
    assert_eq!((count(&world, "r1"), count(&world, "r2"), count(&world, "r3")), (3, 0, 1));
    world.is_sound();
}

// Mistake 14.
#[test]
fn a_hook_that_cannot_be_run_stops_neither_scaling_nor_replacement() {
    let mut world =
        World::running(hooked(stepped(vec![keep(3), hook_step()]), HookKind::PreDelete));
    world.happen(&Event::Template(false));
    world.happen(&Event::Push(true));
    world.rounds(6);
    world.happen(&Event::Scale(6));
    world.happen(&Event::Kill(0));
    world.rounds(6);
    assert_eq!(world.truth.memory.counts.replicas, 6);
    assert!(has(&world, ConditionKind::HookBlocked));
    world.is_sound();
}

#[test]
fn a_hook_without_a_template_is_told_and_pauses_after_ten_minutes() {
    let mut world = World::running(stepped(vec![keep(3), hook_step()]));
    world.happen(&Event::Template(false));
    world.happen(&Event::Push(true));
    world.rounds(30);
    assert_eq!(world.line(), "1 1/1/4");
    assert!(has(&world, ConditionKind::HookBlocked));
    world.rounds(110);
    assert_eq!(world.line(), "1 1/1/4 PausedByStepBasedHook paused");
    world.is_sound();
}

// Mistake 41.
#[test]
fn a_change_that_cannot_be_made_in_place_is_announced_with_its_path() {
    let world = World::running(in_place(vec![keep(3)])).then(&Event::PushEnv);
    let conditions = &world.truth.memory.conditions;
    let failed = conditions.iter().find(|known| known.kind == ConditionKind::FailedUpdate).unwrap();
    assert!(failed.message.contains("spec.containers[0].env"), "{}", failed.message);
    assert_eq!(count(&world, "r1"), 4);
    world.is_sound();
}

// Mistake 41.
#[test]
fn where_that_is_wanted_it_is_replaced_instead() {
    let plan = Plan { falls_back: true, ..in_place(vec![keep(3), wait()]) };
    let world = World::running(plan).then(&Event::PushEnv);
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

// Mistake 41.
#[test]
fn a_budget_of_nothing_at_all_still_goes_on() {
    let plan = Plan { max_unavailable: IntOrPercent::Count(0), ..plain() };
    assert_eq!(pushed(plan).line(), "- 4/4/4");
}

// Mistake 43.
#[test]
fn a_failed_pod_is_replaced_and_told() {
    let world = World::running(plain()).then(&Event::Fail(0));
    assert_eq!(world.truth.pods.len(), 4);
    assert!(world.told.iter().any(|fact| matches!(fact, Fact::PodFailed(_))));
    world.is_sound();
}

// Mistake 49.
#[test]
fn old_pods_that_are_all_lost_come_back_old() {
    let plans = [
        Plan { replicas: 2, ..stepped(vec![keep(1), wait()]) },
        Plan { replicas: 2, partition: IntOrPercent::Count(1), ..plain() },
    ];
    for plan in plans {
        let mut world = pushed(plan);
        world = world.then(&Event::KillAll("r1"));
        assert_eq!((count(&world, "r1"), count(&world, "r2")), (1, 1));
        world.is_sound();
    }
}

// Mistake 50.
#[test]
fn a_run_that_is_terminated_does_not_pass() {
    let mut world = World::running(stepped(vec![keep(3), hook_step()]));
    world.happen(&Event::StepHooks(HookWill::Hang));
    world.happen(&Event::Push(true));
    until(&mut world, "1 1/1/4");
    world.rounds(4);
    world = world.then(&Event::Terminate);
    assert_eq!(world.line(), "1 1/1/4 PausedByStepBasedHook paused");
    world.is_sound();
}

// Mistake 45.
#[test]
fn a_hook_is_run_once_in_any_order_of_reads() {
    let mut world = World::running(stepped(vec![keep(3), hook_step(), wait()]));
    world.happen(&Event::Push(true));
    until(&mut world, "1 1/1/4");
    let runs = world.truth.runs.clone();
    world.pass();
    world.pass();
    world.pass();
    assert!(runs.len() <= 1 && world.truth.runs.len() == 1);
    world.rest();
    assert_eq!(world.truth.runs.len(), 1);
    world.is_sound();
}

#[test]
fn hooks_of_an_edited_list_of_steps_are_run_again_under_another_name() {
    let mut world = World::running(stepped(vec![keep(3), hook_step(), wait()]));
    world = world.then(&Event::Push(true));
    world = world.then(&Event::Steps(vec![keep(3), hook_step(), wait(), wait()]));
    let names: Vec<&str> = world.truth.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["r2-1-test", "r2-1-test.1"]);
    world.is_sound();
}

fn hook_with(timeout: Option<Duration>, rolls_back: bool) -> CanaryStep {
    CanaryStep::Hook(StepHook { call: call("test"), timeout, rolls_back })
}

#[test]
fn a_hook_that_takes_too_long_is_ended_and_pauses() {
    let timeout = Some(Duration::from_mins(1));
    let mut world = World::running(stepped(vec![keep(3), hook_with(timeout, false)]));
    world.happen(&Event::StepHooks(HookWill::Hang));
    world = world.then(&Event::Push(true));
    assert_eq!(world.line(), "1 1/1/4 PausedByStepBasedHook paused");
    assert!(world.truth.runs[0].is_terminated);
    world.is_sound();
}

// Mistake 48.
#[test]
fn a_failed_hook_takes_the_template_back_where_that_is_wanted() {
    let mut world = World::running(in_place(vec![keep(2), hook_with(None, true)]));
    world.happen(&Event::StepHooks(HookWill::Fail));
    world = world.then(&Event::Push(true));
    assert_eq!(world.truth.update, rev("r1"));
    assert_eq!(world.line(), "2 4/4/4");
    assert!(world.told.contains(&Fact::RollsBack(rev("r1"))));
    world.is_sound();
}

#[test]
fn a_bad_release_stops_at_its_first_step_and_can_be_taken_back() {
    let mut world = World::running(in_place(vec![keep(3), wait()])).then(&Event::Push(false));
    assert_eq!(world.line(), "0 1/0/3");
    assert_eq!(world.truth.memory.pause(PauseReason::Step), None);
    world = world.then(&Event::Restore("r1"));
    assert_eq!(world.line(), "2 4/4/4");
    world.is_sound();
}

#[test]
fn leading_pauses_and_hooks_hold_every_pod_back() {
    let world = pushed(stepped(vec![wait(), keep(2)]));
    assert_eq!(world.line(), "0 0/0/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

#[test]
fn removed_steps_let_the_rest_follow() {
    let world = pushed(stepped(vec![keep(3), wait()])).then(&Event::NoCanary);
    assert_eq!(world.line(), "- 4/4/4");
    assert_eq!(world.truth.memory.steps_hash, None);
    world.is_sound();
}

#[test]
fn steps_that_are_edited_at_rest_start_nothing() {
    let world = World::running(stepped(vec![keep(3), wait()])).then(&Event::Steps(vec![
        keep(1),
        wait(),
        wait(),
    ]));
    assert_eq!(world.line(), "3 4/4/4");
    world.is_sound();
}

// Mistake 46.
#[test]
fn a_percentage_keeps_its_share_when_the_workload_grows() {
    let plan = Plan {
        canary: Some(canary(vec![CanaryStep::Partition(IntOrPercent::Percent(50)), wait()])),
        ..plain()
    };
    let world = pushed(plan).then(&Event::Scale(6));
    assert_eq!(count(&world, "r2"), 3);
    world.is_sound();
}

#[test]
fn hot_patches_need_no_hook_and_never_leave_service() {
    let plan = Plan { way: UpdateWay::HotPatch, ..stepped(vec![keep(3), wait()]) };
    let plan = hooked(plan, HookKind::PreDelete);
    let world = pushed(plan.clone());
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    assert!(world.truth.runs.is_empty());
    let refused = World::running(plan).then(&Event::PushEnv);
    assert!(has(&refused, ConditionKind::FailedUpdate));
    world.is_sound();
}
