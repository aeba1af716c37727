//! For each invariant, a trace that breaks it and one that comes close and does not. The numbers are those of
//! [the list](../../../../../docs/invariants.md).

use super::*;
use crate::game::simulate::{Event, World, call, rev, seed_plan};
use tidegate_engine::{
    Moment,
    game::{
        Departure, HookKind, HookPhase, HookRun, HookStart, Memory, NewPod, Pause, PauseReason,
        Paused, PodChange, PodHook, PodRef, Purpose, ReadinessGate, UpdateWay,
    },
};

/// The documented release at its first step: one of four pods may be new, none is yet.
fn released() -> Observed {
    let mut world = World::running(seed_plan());
    world.happen(&Event::Push(true));
    world.pass();
    world.truth
}

fn judge(world: &Observed, action: Action) -> Option<u8> {
    let trace = [TraceEvent::World(Box::new(world.clone())), TraceEvent::Did(Box::new(action))];
    check(&trace).first().map(|violation| violation.invariant)
}

fn pod(world: &Observed, at: usize) -> PodRef {
    PodRef::of(&world.pods[at])
}

fn update(world: &Observed, at: usize) -> Action {
    Action::UpdateInPlace(Box::new(PodChange {
        pod: pod(world, at),
        revision: world.update.clone(),
        from: None,
        images: std::collections::BTreeMap::new(),
        labels: std::collections::BTreeMap::new(),
        annotations: std::collections::BTreeMap::new(),
        image_ids: std::collections::BTreeMap::new(),
        images_before: std::collections::BTreeMap::new(),
        restarts_before: std::collections::BTreeMap::new(),
        at: world.now,
        grace: None,
        owes_post_hook: false,
    }))
}

fn remember(world: &Observed, change: impl FnOnce(&mut Memory)) -> Action {
    let mut next = world.memory.clone();
    change(&mut next);
    Action::Remember(Box::new(next))
}

fn new_pod(revision: &str) -> Action {
    let revision = rev(revision);
    Action::Create(NewPod { revision, ordinal: None, index: None })
}

// Invariant 28.
#[test]
fn no_more_pods_are_new_than_the_step_allows() {
    let mut world = released();
    world.pods[0].gate = ReadinessGate::Closed;
    assert_eq!(judge(&world, update(&world, 0)), None);
    world.pods[1].revision = Some(world.update.clone());
    assert_eq!(judge(&world, update(&world, 0)), Some(28), "a second one");
    world.pods.remove(0);
    assert_eq!(judge(&world, new_pod("r2")), Some(28), "a lost old pod comes back old");
    assert_eq!(judge(&world, new_pod("r1")), None);
}

// Invariant 28.
#[test]
fn no_more_pods_are_out_of_service_than_may_be() {
    let mut world = released();
    let close = |world: &Observed| Action::SetGate(pod(world, 0), false);
    world.pods[3].ready = tidegate_engine::game::Ready::No;
    assert_eq!(judge(&world, close(&world)), None, "two may be");
    world.pods[2].ready = tidegate_engine::game::Ready::No;
    assert_eq!(judge(&world, close(&world)), Some(28));
    world.pods[0].ready = tidegate_engine::game::Ready::No;
    assert_eq!(judge(&world, close(&world)), None, "it is out of service already");
}

// Invariant 28.
#[test]
fn a_pod_leaves_service_before_it_is_changed() {
    let world = released();
    assert_eq!(judge(&world, update(&world, 0)), Some(28));
}

// Invariant 28.
#[test]
fn no_more_pods_are_made_than_there_should_be() {
    let world = released();
    assert_eq!(judge(&world, new_pod("r1")), Some(28));
}

// Invariant 11.
#[test]
fn a_pod_that_is_needed_is_not_surplus() {
    let mut world = released();
    let delete = |world: &Observed| Action::Delete(pod(world, 0), Departure::Surplus);
    assert_eq!(judge(&world, delete(&world)), Some(11));
    world.plan.replicas = 3;
    assert_eq!(judge(&world, delete(&world)), None);
}

// Invariant 29.
#[test]
fn nothing_further_is_updated_in_a_pause() {
    let mut world = released();
    world.pods[0].gate = ReadinessGate::Closed;
    world.plan.paused = Paused { value: true, is_ours: true };
    assert_eq!(judge(&world, update(&world, 0)), Some(29));
    world.plan.paused.value = false;
    world.memory.pauses = vec![Pause { reason: PauseReason::Step, since: Moment(0) }];
    assert_eq!(judge(&world, Action::SetGate(pod(&world, 1), false)), Some(29));
}

// Invariant 29.
#[test]
fn a_step_ends_when_it_is_over() {
    let mut world = released();
    let next = |world: &Observed| remember(world, |memory| memory.step = Some(1));
    assert_eq!(judge(&world, next(&world)), Some(29));
    world.pods[0].revision = Some(world.update.clone());
    assert_eq!(judge(&world, next(&world)), None);
    let far = remember(&world, |memory| memory.step = Some(2));
    assert_eq!(judge(&world, far), Some(29), "two at once");
    world.plan.paused = Paused { value: true, is_ours: false };
    assert_eq!(judge(&world, next(&world)), Some(29), "a person holds it");
}

// Invariant 29.
#[test]
fn a_pause_ends_on_request_or_when_it_is_over() {
    let mut world = released();
    world.memory.step = Some(1);
    world.memory.pauses = vec![Pause { reason: PauseReason::Step, since: Moment(0) }];
    world.plan.paused = Paused { value: true, is_ours: true };
    let end = |world: &Observed| remember(world, |memory| memory.pauses.clear());
    assert_eq!(judge(&world, end(&world)), Some(29));
    world.plan.paused.value = false;
    assert_eq!(judge(&world, end(&world)), None);
}

// Invariant 29.
#[test]
fn a_failed_hook_does_not_advance() {
    let mut world = released();
    world.memory.step = Some(4);
    world.memory.hook_run = Some("run".to_owned());
    let run = |phase, is_terminated| HookRun {
        name: "run".to_owned(),
        purpose: Purpose::Step { revision: rev("r2"), index: 4 },
        phase: Some(phase),
        is_terminated,
        created: Moment(0),
    };
    for at in 0..2 {
        world.pods[at].revision = Some(world.update.clone());
    }
    let next = |world: &Observed| remember(world, |memory| memory.step = Some(5));
    for (phase, is_terminated, want) in [
        (HookPhase::Failed, false, Some(29)),
        (HookPhase::Running, false, Some(29)),
        (HookPhase::Successful, true, Some(29)),
        (HookPhase::Successful, false, None),
    ] {
        world.runs = vec![run(phase, is_terminated)];
        assert_eq!(judge(&world, next(&world)), want, "{phase:?} {is_terminated}");
    }
    world.pods[0].ready = tidegate_engine::game::Ready::No;
    assert_eq!(judge(&world, next(&world)), Some(29), "it passed with pods that do not serve");
}

// Invariant 28.
#[test]
fn a_pod_whose_images_change_does_not_serve_until_its_node_took_notice() {
    let mut world = released();
    world.plan.max_unavailable = tidegate_engine::game::IntOrPercent::Count(1);
    world.plan.canary = None;
    for pod in &mut world.pods {
        pod.gate = ReadinessGate::Absent;
    }
    let change = |world: &Observed, at: usize| {
        let Action::UpdateInPlace(mut change) = update(world, at) else { panic!("it is one") };
        change.images.insert("main".to_owned(), "image:r2".to_owned());
        Action::UpdateInPlace(change)
    };
    let first = change(&world, 0);
    let mut trace =
        vec![TraceEvent::World(Box::new(world.clone())), TraceEvent::Did(Box::new(first))];
    world.pods[0].revision = Some(world.update.clone());
    let second = change(&world, 1);
    trace.push(TraceEvent::World(Box::new(world.clone())));
    trace.push(TraceEvent::Did(Box::new(second)));
    let violations = check(&trace);
    assert_eq!(violations.first().map(|violation| violation.invariant), Some(28), "{violations:?}");
    world.pods[0].containers[0].started = Some(world.now);
    trace[2] = TraceEvent::World(Box::new(world));
    assert_eq!(check(&trace), []);
}

// Invariant 11.
#[test]
fn a_pause_takes_no_pod_that_serves_for_one_that_does_not() {
    let mut world = released();
    world.plan.paused = Paused { value: true, is_ours: false };
    let mut fifth = world.pods[0].clone();
    (fifth.name, fifth.uid) = ("game-p5".to_owned(), "uid-5".to_owned());
    fifth.revision = Some(world.update.clone());
    world.pods.push(fifth);
    let delete = |world: &Observed, at| Action::Delete(pod(world, at), Departure::Surplus);
    assert_eq!(judge(&world, delete(&world, 0)), None, "all five serve");
    world.pods[4].ready = tidegate_engine::game::Ready::No;
    assert_eq!(judge(&world, delete(&world, 0)), Some(11));
    assert_eq!(judge(&world, delete(&world, 4)), None);
}

// Invariant 29.
#[test]
fn a_pause_is_set_before_it_is_written_down() {
    let mut world = released();
    let pause = Pause { reason: PauseReason::Step, since: Moment(0) };
    let write = |world: &Observed| remember(world, |memory| memory.pauses = vec![pause]);
    assert_eq!(judge(&world, write(&world)), Some(29));
    world.plan.paused = Paused { value: true, is_ours: true };
    assert_eq!(judge(&world, write(&world)), None);
}

// Invariant 29.
#[test]
fn the_pause_of_a_person_is_not_taken_back() {
    let mut world = released();
    world.plan.paused = Paused { value: true, is_ours: false };
    assert_eq!(judge(&world, Action::SetPaused(false)), Some(29));
    world.plan.paused.is_ours = true;
    assert_eq!(judge(&world, Action::SetPaused(false)), None);
}

// Invariant 6.
#[test]
fn a_stable_revision_runs_everywhere() {
    let mut world = released();
    let next = |world: &Observed| {
        let update = world.update.clone();
        remember(world, |memory| memory.stable = Some(update))
    };
    assert_eq!(judge(&world, next(&world)), Some(6));
    for pod in &mut world.pods {
        pod.revision = Some(world.update.clone());
    }
    assert_eq!(judge(&world, next(&world)), None);
    let mut left = world.pods[0].clone();
    (left.name, left.uid) = ("game-p5".to_owned(), "uid-5".to_owned());
    left.revision = Some(rev("r1"));
    world.pods.push(left);
    assert_eq!(judge(&world, next(&world)), Some(6), "one that is left over runs another");
    world.pods[4].is_terminating = true;
    assert_eq!(judge(&world, next(&world)), None, "it is on its way out");
}

// Invariant 30.
#[test]
fn a_pod_that_can_be_updated_in_place_is_not_deleted_for_it() {
    let mut world = released();
    let delete = |world: &Observed| Action::Delete(pod(world, 0), Departure::Replaced);
    assert_eq!(judge(&world, delete(&world)), Some(30));
    world.plan.falls_back = true;
    assert_eq!(judge(&world, delete(&world)), Some(30), "it need not fall back");
    world.plan.way = UpdateWay::Recreate;
    assert_eq!(judge(&world, delete(&world)), None);
}

// Invariant 30.
#[test]
fn the_hook_before_a_deletion_is_over() {
    let mut world = released();
    world.plan.replicas = 3;
    world.plan.hooks.pre_delete = PodHook { call: Some(call("test")), retry: false };
    let delete = |world: &Observed| Action::Delete(pod(world, 0), Departure::Surplus);
    assert_eq!(judge(&world, delete(&world)), Some(30));
    let purpose = Purpose::Pod {
        kind: HookKind::PreDelete,
        pod: world.pods[0].name.clone(),
        uid: world.pods[0].uid.clone(),
        target: None,
    };
    world.runs = vec![HookRun {
        name: "run".to_owned(),
        purpose: purpose.clone(),
        phase: Some(HookPhase::Running),
        is_terminated: false,
        created: Moment(0),
    }];
    assert_eq!(judge(&world, delete(&world)), Some(30));
    let start = HookStart {
        name: "other".to_owned(),
        purpose,
        template: "test".to_owned(),
        arguments: Vec::new(),
    };
    assert_eq!(judge(&world, Action::StartHook(Box::new(start))), Some(22), "it runs once");
    world.runs[0].phase = Some(HookPhase::Successful);
    assert_eq!(judge(&world, delete(&world)), None);
}

// Invariant 15.
#[test]
fn nothing_is_written_when_nothing_changes() {
    let world = Box::new(released());
    let write = || TraceEvent::Did(Box::new(Action::SetPaused(false)));
    let settled = [TraceEvent::World(world.clone()), TraceEvent::Settled, write()];
    assert_eq!(check(&settled).len(), 1);
    let changed = [TraceEvent::World(world), TraceEvent::Settled, TraceEvent::Changed, write()];
    assert_eq!(check(&changed), []);
}
