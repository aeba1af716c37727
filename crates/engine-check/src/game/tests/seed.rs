//! The documented example, row by row.

use super::until;
use crate::game::simulate::{
    Event::{Paused, Push, Restore, StepHooks},
    HookWill, World, rev, seed_plan,
};
use tidegate_engine::game::PauseReason;

fn released() -> World {
    let mut world = World::running(seed_plan());
    assert_eq!(world.line(), "5 4/4/4");
    assert_eq!(world.truth.memory.stable, Some(rev("r1")));
    world.happen(&StepHooks(HookWill::Fail));
    world.happen(&Push(true));
    world
}

fn at_the_hook() -> World {
    let mut world = released();
    until(&mut world, "1 1/1/4 PausedByCanaryPauseStep paused");
    world.happen(&Paused(false));
    until(&mut world, "3 2/2/4 PausedByCanaryPauseStep paused");
    until(&mut world, "4 2/2/4 PausedByStepBasedHook paused");
    world
}

#[test]
fn the_documented_release_goes_through_its_rows() {
    let mut world = released();
    world.pass();
    assert_eq!(world.line(), "0 0/0/4", "row 1: no pod is touched");
    until(&mut world, "0 1/0/3");
    let graced = world.truth.pods.iter().filter(|pod| pod.grace.is_some()).count();
    assert_eq!(graced, 1, "row 2: the pod waits for its grace period");
    until(&mut world, "1 1/1/4");
    until(&mut world, "1 1/1/4 PausedByCanaryPauseStep paused");
    world.rounds(50);
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused", "row 5: it holds");
    world.happen(&Paused(false));
    until(&mut world, "2 1/1/4");
    until(&mut world, "2 2/1/3");
    until(&mut world, "3 2/2/4");
    until(&mut world, "3 2/2/4 PausedByCanaryPauseStep paused");
    let began = world.truth.memory.pause(PauseReason::Step).unwrap().since;
    until(&mut world, "4 2/2/4");
    assert!(world.truth.now.0 - began.0 > 60_000, "row 11: a minute passed");
    until(&mut world, "4 2/2/4 PausedByStepBasedHook paused");
    assert_eq!(world.truth.memory.hook_run.as_deref(), Some("r2-4-test"), "row 14");
    assert_eq!(world.truth.memory.stable, Some(rev("r1")));
    world.is_sound();
}

#[test]
fn going_on_after_the_failed_hook_updates_all_pods_two_at_a_time() {
    let mut world = at_the_hook();
    world.happen(&Paused(false));
    until(&mut world, "5 2/2/4");
    assert_eq!(world.truth.memory.stable, Some(rev("r1")), "not stable before all pods run it");
    until(&mut world, "5 4/2/2");
    until(&mut world, "5 4/4/4");
    world.rest();
    assert_eq!(world.truth.memory.stable, Some(rev("r2")));
    assert_eq!(world.truth.runs.len(), 1, "the run stays listed until the template changes");
    world.is_sound();
}

#[test]
fn going_back_after_the_failed_hook_takes_the_canary_pods_back_at_once() {
    let mut world = at_the_hook();
    world.happen(&Restore("r1"));
    until(&mut world, "5 2/2/4");
    until(&mut world, "5 4/2/2");
    until(&mut world, "5 4/4/4");
    world.rest();
    assert_eq!(world.truth.memory.stable, Some(rev("r1")));
    assert!(world.truth.runs.is_empty(), "runs of the other revision are gone");
    world.is_sound();
}

#[test]
fn a_hook_that_passes_is_followed_by_the_rest_without_a_pause() {
    let mut world = released();
    world.happen(&StepHooks(HookWill::Pass));
    until(&mut world, "1 1/1/4 PausedByCanaryPauseStep paused");
    world.happen(&Paused(false));
    until(&mut world, "4 2/2/4");
    until(&mut world, "5 4/2/2");
    until(&mut world, "5 4/4/4");
    world.rest();
    assert_eq!(world.truth.memory.stable, Some(rev("r2")));
    world.is_sound();
}
