//! Hooks of single pods.

use super::{all_hooks, count, hooked, in_place, keep, plain, stepped, until, wait};
use crate::game::simulate::{Event, HookWill, World};
use tidegate_engine::game::{Command, Fact, HookKind, HookPhase, IntOrPercent, Plan, Purpose};

fn hooks_of(world: &World, kind: HookKind) -> usize {
    let of_kind =
        |purpose: &Purpose| matches!(purpose, Purpose::Pod { kind: of, .. } if *of == kind);
    world.truth.runs.iter().filter(|run| of_kind(&run.purpose)).count()
}

fn hanging(plan: Plan) -> World {
    let mut world = World::running(plan);
    world.happen(&Event::PodHooks(HookWill::Hang));
    world
}

#[test]
fn a_pod_is_deleted_only_after_its_hook_passed() {
    let world = hanging(hooked(plain(), HookKind::PreDelete)).then(&Event::Scale(2));
    assert_eq!(world.truth.pods.len(), 4);
    assert_eq!(hooks_of(&world, HookKind::PreDelete), 2);
    assert_eq!(world.truth.pods.iter().filter(|pod| pod.is_marked).count(), 2);
    assert_eq!(world.truth.memory.pod_hooks.len(), 2);
    world.is_sound();
}

#[test]
fn the_hook_is_told_about_the_pod() {
    let mut world = hanging(hooked(plain(), HookKind::PreDelete));
    world.happen(&Event::Scale(3));
    let decision = world.pass();
    let text = format!("{:?}", decision.actions);
    for name in ["PodName", "PodNamespace", "PodIP", "HostIP", "PodContainer[0]"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert!(text.contains("predelete-r1-p"), "{text}");
}

// Game workloads, mistake 24: docs/mistakes.md.
#[test]
fn scaling_out_again_calls_the_deletion_off() {
    let mut world = hanging(hooked(plain(), HookKind::PreDelete)).then(&Event::Scale(2));
    let marked: Vec<String> = names(&world, true);
    world = world.then(&Event::Scale(4));
    assert_eq!(world.truth.pods.len(), 4, "nobody is made in addition");
    assert!(marked.iter().all(|name| names(&world, false).contains(name)), "and nobody went");
    assert!(world.truth.runs.is_empty());
    world.is_sound();
}

fn names(world: &World, marked: bool) -> Vec<String> {
    let pods = world.truth.pods.iter().filter(|pod| pod.is_marked == marked);
    pods.map(|pod| pod.name.clone()).collect()
}

// Game workloads, mistake 24: docs/mistakes.md.
#[test]
fn a_pod_that_was_told_to_go_goes_although_others_become_cheaper() {
    let mut world = hanging(hooked(plain(), HookKind::PreDelete)).then(&Event::Scale(3));
    let marked = names(&world, true);
    for pod in world.truth.pods.iter_mut().filter(|pod| !pod.is_marked) {
        pod.cost = Some(-100.0);
    }
    world.rounds(5);
    assert_eq!(names(&world, true), marked);
    assert_eq!(hooks_of(&world, HookKind::PreDelete), 1);
    world.is_sound();
}

#[test]
fn a_failed_hook_keeps_the_pod_until_it_is_run_again() {
    let mut world = World::running(hooked(plain(), HookKind::PreDelete));
    world.happen(&Event::PodHooks(HookWill::Fail));
    world = world.then(&Event::Scale(3));
    assert_eq!(world.truth.pods.len(), 4);
    assert_eq!(world.truth.memory.pod_hooks[0].phase, HookPhase::Failed);
    world.happen(&Event::PodHooks(HookWill::Pass));
    world = world.then(&Event::Retry(HookKind::PreDelete));
    assert_eq!(world.truth.pods.len(), 3);
    assert!(!world.truth.plan.hooks.pre_delete.retry, "the flag is taken back");
    assert!(world.told.contains(&Fact::HooksRetried(HookKind::PreDelete)));
    assert!(world.truth.memory.pod_hooks.is_empty());
    world.is_sound();
}

// Game workloads, mistake 30: docs/mistakes.md.
#[test]
fn a_failed_hook_is_run_again_without_a_change_of_the_spec() {
    let mut world = World::running(hooked(plain(), HookKind::PreDelete));
    world.happen(&Event::PodHooks(HookWill::Fail));
    world = world.then(&Event::Scale(3));
    assert_eq!(world.truth.pods.len(), 4);
    world.happen(&Event::PodHooks(HookWill::Pass));
    world = world.then(&Event::Ask(Command::RetryHook));
    assert_eq!((world.truth.pods.len(), world.truth.plan.asked.as_ref()), (3, None));
    assert!(world.told.contains(&Fact::Obeyed(Command::RetryHook)));
    world.is_sound();
}

#[test]
fn a_failed_hook_of_one_pod_leaves_no_other_pod_out_of_service() {
    let mut world = World::running(hooked(plain(), HookKind::PreDelete));
    world.happen(&Event::PodHooks(HookWill::Fail));
    world = world.then(&Event::Push(true));
    assert_eq!((count(&world, "r1"), hooks_of(&world, HookKind::PreDelete)), (4, 1));
    world.is_sound();
}

#[test]
fn no_more_pods_are_asked_at_a_time_than_may_be_out_of_service() {
    let plan = Plan { max_unavailable: IntOrPercent::Count(2), ..in_place(Vec::new()) };
    let world = hanging(hooked(plan, HookKind::PreInPlace)).then(&Event::Push(true));
    assert_eq!(hooks_of(&world, HookKind::PreInPlace), 2);
    assert_eq!(world.truth.memory.counts.ready, 4);
    world.is_sound();
}

// Game workloads, mistake 50: docs/mistakes.md.
#[test]
fn a_run_of_a_pod_that_is_terminated_does_not_pass() {
    let world = hanging(hooked(plain(), HookKind::PreDelete))
        .then(&Event::Scale(3))
        .then(&Event::Terminate);
    assert_eq!(world.truth.pods.len(), 4);
    world.is_sound();
}

#[test]
fn an_update_in_place_asks_before_and_after() {
    let world = World::running(all_hooks(in_place(vec![keep(3), wait()]))).then(&Event::Push(true));
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    assert!(world.wrote("preinplace-r1-"), "{:#?}", world.log);
    assert!(world.wrote("postinplace-r2-"), "{:#?}", world.log);
    assert!(world.truth.runs.is_empty(), "all of it is cleaned up");
    world.is_sound();
}

#[test]
fn without_a_hook_of_its_own_an_update_in_place_asks_that_of_deletion() {
    let plan = hooked(in_place(vec![keep(3), wait()]), HookKind::PreDelete);
    let world = World::running(plan).then(&Event::Push(true));
    assert!(world.wrote("predelete-r1-"));
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

// Game workloads, mistake 27: docs/mistakes.md.
#[test]
fn the_mark_goes_when_the_pod_stays() {
    let world = World::running(all_hooks(in_place(Vec::new()))).then(&Event::Push(true));
    assert_eq!(count(&world, "r2"), 4);
    assert!(world.truth.pods.iter().all(|pod| !pod.is_marked));
    world.is_sound();
}

// Game workloads, mistake 28: docs/mistakes.md.
#[test]
fn the_hook_after_an_update_waits_until_the_pod_is_ready_again() {
    let plan = hooked(in_place(vec![keep(3), wait()]), HookKind::PostInPlace);
    let mut world = World::running(plan);
    world.happen(&Event::PodHooks(HookWill::Fail));
    world.happen(&Event::Push(true));
    until(&mut world, "0 1/0/3");
    assert_eq!(hooks_of(&world, HookKind::PostInPlace), 0);
    world.rest();
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused", "nobody waits for it");
    assert_eq!(hooks_of(&world, HookKind::PostInPlace), 1);
    world.happen(&Event::PodHooks(HookWill::Pass));
    world = world.then(&Event::Retry(HookKind::PostInPlace));
    assert!(world.truth.runs.is_empty(), "it was run again and passed");
    assert!(world.truth.pods.iter().all(|pod| !pod.owes_post_hook));
    world.is_sound();
}

#[test]
fn going_back_calls_hooks_of_the_update_off() {
    let mut world = hanging(hooked(in_place(Vec::new()), HookKind::PreInPlace));
    world = world.then(&Event::Push(true)).then(&Event::Restore("r1"));
    assert!(world.truth.runs.is_empty());
    assert!(world.truth.pods.iter().all(|pod| !pod.is_marked));
    world.is_sound();
}

// Game workloads, mistake 26: docs/mistakes.md.
#[test]
fn named_pods_are_replaced_and_their_names_pruned() {
    let mut world = World::running(plain());
    let name = world.truth.pods[2].name.clone();
    world = world.then(&Event::Name(2));
    assert!(world.truth.pods.iter().all(|pod| pod.name != name));
    assert_eq!(world.truth.pods.len(), 4);
    assert!(world.truth.plan.pods_to_delete.is_empty());
    world.is_sound();
}

#[test]
fn a_pod_that_does_not_run_is_not_asked() {
    let mut world = World::running(hooked(stepped(Vec::new()), HookKind::PreDelete));
    for pod in &mut world.truth.pods {
        pod.phase = tidegate_engine::game::PodPhase::Unknown;
    }
    world.happen(&Event::Scale(0));
    let decision = world.pass();
    assert!(!format!("{:?}", decision.actions).contains("StartHook"));
}
