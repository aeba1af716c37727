//! Where two things meet: a pause and a surge, a grace period and a restart, a refusal and the rest.

use super::{count, hooked, in_place, keep, plain, set, stepped, until, wait};
use crate::game::simulate::{Event, HookWill, Refused, World, call, hook_step, rev, seed_plan};
use tidegate_engine::game::{
    Action, CanaryStep, Command, ConditionKind, Fact, HookKind, HookPhase, InPlaceState,
    IntOrPercent, Management, Plan, Pod, ReadinessGate, Ready, StepHook, UpdateWay, WorkloadPhase,
};

fn surging(plan: Plan) -> Plan {
    Plan { max_unavailable: IntOrPercent::Count(0), max_surge: IntOrPercent::Count(1), ..plan }
}

fn has(world: &World, kind: ConditionKind) -> bool {
    world.truth.memory.conditions.iter().any(|known| known.kind == kind && known.holds)
}

fn serving(world: &World) -> usize {
    world.truth.pods.iter().filter(|pod| pod.is_active() && pod.is_ready()).count()
}

#[test]
fn a_release_that_may_miss_nothing_can_be_taken_back() {
    let mut world = World::running(surging(stepped(vec![keep(2), wait()])));
    world = world.then(&Event::Push(true)).then(&Event::Restore("r1"));
    assert_eq!(world.line(), "2 4/4/4");
    assert_eq!(count(&world, "r1"), 4);
    world.is_sound();
}

#[test]
fn a_release_that_is_taken_back_and_scaled_in_loses_its_new_pods() {
    let mut world = World::running(stepped(vec![keep(2), wait()])).then(&Event::Push(true));
    assert_eq!((count(&world, "r1"), count(&world, "r2")), (2, 2));
    world.happen(&Event::Restore("r1"));
    world.happen(&Event::Scale(2));
    world.pass();
    assert_eq!((count(&world, "r1"), count(&world, "r2")), (2, 0));
    world.rest();
    assert_eq!(world.line(), "2 2/2/2");
    world.is_sound();
}

/// Ten pods of which two are new and broken: half of them are not wanted any more.
#[test]
fn fewer_replicas_in_a_broken_release_interrupt_no_pod_that_serves() {
    let plan = Plan { max_unavailable: IntOrPercent::Percent(20), replicas: 10, ..plain() };
    let mut world = World::running(plan).then(&Event::Push(false));
    assert_eq!((count(&world, "r1"), count(&world, "r2")), (8, 2));
    world.happen(&Event::Scale(5));
    for _ in 0..30 {
        world.round();
        assert!(serving(&world) >= 4, "{:#?}", world.log);
    }
    world.is_sound();
}

/// A new template in the middle of a surge: pods on top are not deleted to be made again.
#[test]
fn pods_on_top_outlast_another_template() {
    let mut world = World::running(surging(plain()));
    world.happen(&Event::Push(true));
    world.rounds(2);
    assert_eq!(world.truth.pods.len(), 5);
    world.happen(&Event::Push(true));
    world.log.clear();
    world.pass();
    assert!(!world.wrote("Delete"), "{:#?}", world.log);
    world.rest();
    assert_eq!(count(&world, "r3"), 4);
    world.is_sound();
}

/// Without steps and with a partition: the revision released before is not the one that is kept.
#[test]
fn a_template_that_goes_back_keeps_no_pod_of_what_it_went_back_from() {
    let plan = Plan { partition: IntOrPercent::Count(2), ..surging(plain()) };
    let mut world = World::running(plan).then(&Event::Push(false));
    world = world.then(&Event::Restore("r1"));
    assert_eq!(serving(&world), 4, "{:#?}", world.log);
    world.is_sound();
}

#[test]
fn a_set_that_is_taken_back_has_pods_on_top_as_well() {
    let steps = vec![keep(2), wait()];
    let plan = Plan {
        max_surge: IntOrPercent::Count(1),
        canary: stepped(steps).canary,
        ..set(Management::Parallel, UpdateWay::Recreate)
    };
    let mut world = World::running(plan).then(&Event::Push(true));
    world.log.clear();
    world = world.then(&Event::Restore("r1"));
    assert!(world.wrote("ordinal: Some(4)"), "{:#?}", world.log);
    assert_eq!(count(&world, "r1"), 4);
    world.is_sound();
}

#[test]
fn a_pause_in_the_middle_of_a_surge_takes_no_pod_out_of_service() {
    let mut world = World::running(surging(plain()));
    world.happen(&Event::Push(true));
    world.rounds(2);
    assert_eq!((count(&world, "r1"), count(&world, "r2"), serving(&world)), (4, 1, 4));
    world = world.then(&Event::Paused(true));
    assert_eq!((count(&world, "r1"), serving(&world)), (4, 4));
    world = world.then(&Event::Paused(false));
    assert_eq!(count(&world, "r2"), 4);
    world.is_sound();
}

/// One is marked for deletion and serves; one is ready for longer, as its node has not noticed yet that its
/// images changed, and does not serve.
#[test]
fn in_a_pause_idle_pods_go_before_those_that_were_told_to() {
    let mut world = World::running(Plan { way: UpdateWay::InPlace, ..surging(plain()) });
    world.truth.pods.push(world.truth.pods[0].clone());
    world.truth.plan.paused.value = true;
    let [changed, marked, ..] = &mut world.truth.pods[..] else { panic!("there are five") };
    marked.is_marked = true;
    marked.ready = Ready::Since(Some(world.truth.now));
    changed.uid = "uid-changed".to_owned();
    changed.gate = ReadinessGate::Absent;
    changed.update = Some(InPlaceState {
        revision: rev("r1"),
        since: world.truth.now,
        image_ids: [("main".to_owned(), "id:image:r1".to_owned())].into(),
        images: [("main".to_owned(), "image:r0".to_owned())].into(),
        restarts: [("main".to_owned(), 0)].into(),
    });
    let actions = tidegate_engine::game::decide(&world.truth).actions;
    let deleted = actions.iter().filter_map(|action| {
        if let Action::Delete(pod, _) = action { Some(pod.uid.as_str()) } else { None }
    });
    assert_eq!(deleted.collect::<Vec<_>>(), ["uid-changed"], "{actions:#?}");
}

#[test]
fn a_pause_leaves_a_set_its_pod_on_top_while_another_is_away() {
    let plan = Plan {
        max_surge: IntOrPercent::Count(1),
        ..set(Management::Parallel, UpdateWay::Recreate)
    };
    let mut world = World::running(plan);
    world.happen(&Event::Push(true));
    for _ in 0..20 {
        world.round();
        let is_on_top = |pod: &&Pod| pod.ordinal == Some(4) && pod.is_ready();
        let is_away = world.truth.pods.iter().filter(|pod| pod.is_active()).count() < 5;
        if is_away && world.truth.pods.iter().any(|pod| is_on_top(&pod)) {
            break;
        }
    }
    assert_eq!(serving(&world), 4, "{:#?}", world.log);
    world.happen(&Event::Paused(true));
    for _ in 0..20 {
        world.round();
        assert!(serving(&world) >= 4, "{:#?}", world.log);
    }
    assert_eq!(world.truth.pods.len(), 4, "it goes when the other is back");
    world.is_sound();
}

#[test]
fn pods_without_a_gate_that_are_updated_in_place_are_out_of_service() {
    let mut world = World::new(plain());
    world.drops_gates = true;
    world.rest();
    world = world.then(&Event::Way(UpdateWay::InPlace));
    assert!(world.truth.pods.iter().all(|pod| pod.gate == ReadinessGate::Absent));
    world.lag = 3;
    world.happen(&Event::Push(true));
    let is_late =
        |pod: &&Pod| pod.containers[0].image_id != Some(format!("id:{}", pod.containers[0].image));
    for _ in 0..60 {
        world.round();
        assert!(world.truth.pods.iter().filter(is_late).count() <= 1, "one may be out");
    }
    assert_eq!(count(&world, "r2"), 4);
    world.is_sound();
}

/// A release in its grace period, on nodes that take their time.
fn graced() -> (World, usize) {
    let mut world = World::running(seed_plan());
    world.happen(&Event::Push(true));
    until(&mut world, "0 1/0/3");
    let at = world.truth.pods.iter().position(|pod| pod.grace.is_some()).unwrap();
    (world, at)
}

fn apply(world: &mut World, at: usize) {
    world.lag = 1_000;
    for _ in 0..20 {
        world.round();
        if world.truth.pods[at].grace.is_none() {
            return;
        }
    }
    panic!("its grace period never ends: {:#?}", world.log);
}

#[test]
fn a_change_that_others_began_takes_its_labels_from_what_they_wrote_down() {
    let (mut world, at) = graced();
    let grace = world.truth.pods[at].grace.as_mut().unwrap();
    grace.from = None;
    let labels = grace.metadata.labels.clone();
    assert!(!labels.is_empty());
    for _ in 0..20 {
        world.round();
        let actions = world.last.iter().flat_map(|decision| &decision.actions);
        let applied = actions.into_iter().find_map(|action| {
            if let Action::ApplyGrace(change) = action { Some(change.labels.clone()) } else { None }
        });
        if let Some(applied) = applied {
            assert_eq!(applied, labels);
            return;
        }
    }
    panic!("its grace period never ends: {:#?}", world.log);
}

#[test]
fn a_restart_within_the_grace_period_does_not_end_the_update() {
    let (mut world, at) = graced();
    world.happen(&Event::Restart(at));
    apply(&mut world, at);
    world.rounds(3);
    let pod = &world.truth.pods[at];
    assert_eq!(pod.containers[0].image_id.as_deref(), Some("id:image:r1"), "it runs the old image");
    assert_eq!(pod.gate, ReadinessGate::Closed);
    world.lag = 0;
    world.rest();
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

#[test]
fn an_image_of_the_change_before_is_not_taken_for_that_of_this_change() {
    let (mut world, at) = graced();
    apply(&mut world, at);
    world.happen(&Event::Push(true));
    world.rounds(4);
    assert_eq!(world.truth.pods[at].revision, Some(rev("r2")), "its node is waited for");
    let last = world.last.as_ref().unwrap();
    assert!(matches!(last.why, Fact::AwaitingNode(_) | Fact::AwaitingPods { .. }), "{last:?}");
    world.lag = 0;
    world.round();
    world.rounds(2);
    assert_eq!(world.truth.pods[at].revision, Some(rev("r3")));
    apply(&mut world, at);
    let pod = &world.truth.pods[at];
    assert_eq!(pod.containers[0].image_id.as_deref(), Some("id:image:r2"));
    assert_eq!(pod.update.as_ref().unwrap().image_ids["main"], "id:image:r2");
    world.rounds(2);
    assert_eq!(world.truth.pods[at].gate, ReadinessGate::Closed);
    world.lag = 0;
    world.rest();
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

#[test]
fn the_images_of_a_pod_are_written_down_when_they_change_and_not_before() {
    let (mut world, at) = graced();
    apply(&mut world, at);
    world.happen(&Event::Push(true));
    world.rounds(16);
    let pod = &world.truth.pods[at];
    assert_eq!(pod.grace.as_ref().map(|grace| &grace.revision), Some(&rev("r3")), "{pod:?}");
    assert_eq!(pod.update.as_ref().unwrap().image_ids["main"], "id:image:r1");
    // The node answers after all, and applies the previous change.
    world.truth.pods[at].containers[0].image_id = Some("id:image:r2".to_owned());
    world.truth.pods[at].containers[0].started = Some(world.truth.now);
    world.happen(&Event::Paused(false));
    apply(&mut world, at);
    world.rounds(3);
    assert_eq!(world.truth.pods[at].gate, ReadinessGate::Closed, "it does not run r3 yet");
    world.lag = 0;
    world.rest();
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

#[test]
fn a_node_that_does_not_answer_is_not_waited_for_and_going_back_is_over_at_once() {
    let mut world = World::running(in_place(vec![keep(3), wait()]));
    world.happen(&Event::Push(true));
    world.lag = 1_000;
    until(&mut world, "0 1/0/4");
    world.happen(&Event::Restore("r1"));
    world.rounds(4);
    assert_eq!(count(&world, "r2"), 1, "its node may still take notice");
    world.rounds(14);
    assert_eq!(count(&world, "r1"), 4);
    assert!(world.truth.pods.iter().all(|pod| pod.gate == ReadinessGate::Open));
    world.is_sound();
}

#[test]
fn a_gate_that_was_closed_for_a_change_that_does_not_come_is_opened() {
    let plans = [
        in_place(Vec::new()),
        Plan { way: UpdateWay::InPlace, ..set(Management::Parallel, UpdateWay::InPlace) },
    ];
    for plan in plans {
        let mut world = World::running(hooked(plan, HookKind::PreInPlace));
        world.happen(&Event::PodHooks(HookWill::Hang));
        world = world.then(&Event::Push(true));
        let at = world.truth.pods.iter().position(|pod| pod.is_marked).unwrap();
        world.truth.pods[at].gate = ReadinessGate::Closed;
        world.truth.pods[at].ready = Ready::No;
        world.happen(&Event::Paused(false));
        world.rest();
        assert_eq!(world.truth.pods[at].gate, ReadinessGate::Open);
        assert_eq!(serving(&world), 4);
        world.is_sound();
    }
}

#[test]
fn a_hook_that_passes_with_pods_out_of_service_waits_for_them() {
    let mut world = World::running(stepped(vec![keep(3), hook_step(), wait()]));
    world.happen(&Event::StepHooks(HookWill::Hang));
    world.happen(&Event::Push(true));
    until(&mut world, "1 1/1/4");
    world.rounds(3);
    let at = world.truth.pods.iter().position(|pod| pod.is_of(&rev("r2"))).unwrap();
    world.truth.pods[at].containers[0].image = "bad".to_owned();
    world.let_pass();
    world.rest();
    assert_eq!(world.line(), "1 1/0/3");
    let last = world.last.as_ref().unwrap();
    assert_eq!(last.why, Fact::AwaitingPods { available: 0, wanted: 1 });
    world.truth.pods[at].containers[0].image = "image:r2".to_owned();
    world.happen(&Event::Paused(false));
    world.rest();
    assert_eq!(world.line(), "2 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

#[test]
fn a_hot_patch_takes_away_what_an_update_in_place_left() {
    let mut world = World::running(in_place(vec![keep(2), wait()])).then(&Event::Push(true));
    world = world.then(&Event::Paused(false));
    assert!(world.truth.pods.iter().all(|pod| pod.update.is_some()));
    world.happen(&Event::Way(UpdateWay::HotPatch));
    world = world.then(&Event::Push(true));
    assert_eq!(world.line(), "1 2/2/4 PausedByCanaryPauseStep paused");
    let patched: Vec<&Pod> = world.truth.pods.iter().filter(|pod| pod.is_of(&rev("r3"))).collect();
    assert!(patched.iter().all(|pod| pod.update.is_none() && pod.grace.is_none()));
    world.is_sound();
}

fn rolling_back() -> Plan {
    let hook = StepHook { call: call("test"), timeout: None, rolls_back: true };
    in_place(vec![keep(2), CanaryStep::Hook(hook)])
}

#[test]
fn a_template_that_cannot_go_back_does_not_stop_the_care_of_pods() {
    let is_back = |action: &Action| matches!(action, Action::RestoreTemplate { .. });
    for asks in [false, true] {
        let mut world =
            World::running(if asks { in_place(vec![keep(2), wait()]) } else { rolling_back() });
        world.happen(&Event::StepHooks(HookWill::Fail));
        world.refuses = is_back;
        world.happen(&Event::Push(true));
        world.rounds(15);
        if asks {
            world.happen(&Event::Ask(Command::Abort));
        }
        world.happen(&Event::Kill(0));
        world.happen(&Event::Scale(6));
        world.rounds(6);
        assert_eq!(world.truth.memory.counts.ready, 6, "{:#?}", world.log);
        assert!(count(&world, "r2") <= 4, "nobody further is updated");
        let told = |world: &World| {
            world.told.contains(&Fact::RollsBack(rev("r1")))
                || world.told.contains(&Fact::Obeyed(Command::Abort))
        };
        assert!(!told(&world), "it did not go back");
        world.refuses = |_| false;
        world.happen(&Event::Paused(false));
        world.rest();
        assert!(told(&world));
        assert_eq!(count(&world, "r1"), 6);
        world.is_sound();
    }
}

// Game workloads, mistake 14: docs/mistakes.md.
#[test]
fn pods_that_cannot_be_made_are_told_and_the_release_still_stops() {
    let mut world = World::running(in_place(vec![keep(2), hook_step()]));
    world.happen(&Event::StepHooks(HookWill::Hang));
    world = world.then(&Event::Push(true));
    assert_eq!(world.line(), "1 2/2/4");
    world.refuses = |action| matches!(action, Action::Create(_));
    world.happen(&Event::Scale(5));
    world.rounds(2);
    assert!(has(&world, ConditionKind::FailedScale));
    assert_eq!(world.truth.memory.phase, Some(WorkloadPhase::Degraded));
    world.truth.runs[0].phase = Some(HookPhase::Failed);
    world.rounds(3);
    assert_eq!(world.line(), "1 2/2/4 PausedByStepBasedHook paused", "{:#?}", world.log);
    let is_told = |fact: &Fact| matches!(fact, Fact::WriteRefused(_));
    assert!(!world.told.iter().any(is_told), "whoever tried it tells it");
    world.refuses = |_| false;
    world.rest();
    assert_eq!(world.truth.memory.counts.ready, 5);
    assert!(!has(&world, ConditionKind::FailedScale));
    world.is_sound();
}

#[test]
fn pods_that_may_not_be_made_do_not_stop_the_repair_of_others() {
    for plan in [
        in_place(Vec::new()),
        set(Management::OrderedReady, UpdateWay::InPlace),
        set(Management::Parallel, UpdateWay::InPlace),
    ] {
        let plan = Plan { max_unavailable: IntOrPercent::Count(4), ..plan };
        let mut world = World::running(plan.clone());
        world.happen(&Event::Push(false));
        world.rounds(20);
        let broken = count(&world, "r2");
        assert!(broken >= 1 && serving(&world) == 4 - broken);
        world.happen(&Event::Refuse(Refused::Create));
        world.happen(&Event::Scale(6));
        world.happen(&Event::Push(true));
        world.rounds(40);
        assert_eq!(count(&world, "r2"), 0, "{plan:?}: {:#?}", world.log);
        assert_eq!(serving(&world), 4, "{plan:?}: {:#?}", world.log);
        assert!(has(&world, ConditionKind::FailedScale));
        world.happen(&Event::Refuse(Refused::None));
        world.rest();
        assert_eq!((count(&world, "r3"), serving(&world)), (6, 6));
        world.is_sound();
    }
}

#[test]
fn a_refused_deletion_does_not_let_a_set_out_of_order() {
    let plan = Plan {
        max_unavailable: IntOrPercent::Count(3),
        ..set(Management::OrderedReady, UpdateWay::InPlace)
    };
    let mut world = World::running(plan);
    world.happen(&Event::Push(false));
    world.rounds(20);
    let refusal = tidegate_engine::game::Refusal {
        kind: ConditionKind::FailedScale,
        message: "Pod game-9 was refused".to_owned(),
    };
    for _ in 0..5 {
        assert_eq!(count(&world, "r2"), 1, "the next waits for the broken one: {:#?}", world.log);
        world.truth.refusals.push(refusal.clone());
        world.round();
    }
    assert!(has(&world, ConditionKind::FailedScale));
    world.is_sound();
}

#[test]
fn a_release_that_cannot_be_written_down_does_not_stop_the_care_of_pods() {
    let plans = [in_place(vec![keep(2), wait()]), set(Management::Parallel, UpdateWay::InPlace)];
    for plan in plans {
        let mut world = World::running(plan);
        world.refuses = |action| matches!(action, Action::SetPaused(_) | Action::Remember(_));
        world.happen(&Event::Push(true));
        world.happen(&Event::Kill(0));
        world.happen(&Event::Scale(5));
        world.rounds(6);
        assert_eq!(serving(&world), 5, "{:#?}", world.log);
        assert_eq!(count(&world, "r1"), 3, "nobody who is there is updated");
        world.refuses = |_| false;
        world.happen(&Event::Paused(false));
        world.rest();
        assert!(count(&world, "r2") >= 3);
        world.is_sound();
    }
}

#[test]
fn flags_and_names_that_cannot_be_taken_back_hold_no_release_up() {
    let mut world = World::running(hooked(plain(), HookKind::PreInPlace));
    world.happen(&Event::Refuse(Refused::Spec));
    world.happen(&Event::Name(0));
    world.happen(&Event::Retry(HookKind::PreInPlace));
    world.happen(&Event::Push(true));
    world.rounds(40);
    assert_eq!(count(&world, "r2"), 4, "{:#?}", world.log);
    assert!(!world.told.contains(&Fact::HooksRetried(HookKind::PreInPlace)), "it did not happen");
    assert!(
        world.truth.plan.hooks.pre_in_place.retry && !world.truth.plan.pods_to_delete.is_empty()
    );
    world.happen(&Event::Refuse(Refused::None));
    world.rest();
    assert!(!world.truth.plan.hooks.pre_in_place.retry);
    assert!(world.truth.plan.pods_to_delete.is_empty());
    world.is_sound();
}

#[test]
fn one_pod_that_cannot_be_changed_holds_no_other_up() {
    let mut world =
        World::running(Plan { max_unavailable: IntOrPercent::Count(2), ..in_place(Vec::new()) });
    world.refuses =
        |action| matches!(action, Action::UpdateInPlace(change) if change.pod.name == "game-p1");
    world.happen(&Event::Push(true));
    world.rounds(20);
    assert_eq!(count(&world, "r2"), 3);
    assert!(has(&world, ConditionKind::FailedUpdate));
    world.is_sound();
}

#[test]
fn a_hook_that_cannot_be_run_is_told_in_every_pause() {
    let mut world = World::running(stepped(vec![keep(3), hook_step(), wait()]));
    world.happen(&Event::Template(false));
    world.happen(&Event::Push(true));
    world.rounds(20);
    assert!(has(&world, ConditionKind::HookBlocked));
    world.happen(&Event::Paused(true));
    world.rounds(3);
    assert!(has(&world, ConditionKind::HookBlocked), "a person pauses");
    world.happen(&Event::Paused(false));
    world.rounds(130);
    assert_eq!(world.line(), "1 1/1/4 PausedByStepBasedHook paused");
    assert!(has(&world, ConditionKind::HookBlocked), "it took too long");
    let is_told = |fact: &&Fact| matches!(fact, Fact::HookBlocked(_));
    assert_eq!(world.told.iter().filter(is_told).count(), 1, "{:?}", world.told);
    world = world.then(&Event::Template(true));
    assert!(!has(&world, ConditionKind::HookBlocked), "it could be run now");
    world = world.then(&Event::Ask(Command::RetryHook));
    assert_eq!(world.line(), "2 1/1/4 PausedByCanaryPauseStep paused");
    assert_eq!(world.truth.memory.blocked_since, None);
    world.is_sound();
}

#[test]
fn hooks_of_a_step_and_of_a_pod_that_cannot_be_run_are_told_once() {
    let plan = Plan { max_surge: IntOrPercent::Count(1), ..stepped(vec![keep(3), hook_step()]) };
    let mut world = World::running(hooked(plan, HookKind::PreDelete));
    world.happen(&Event::Push(true));
    until(&mut world, "1 1/1/4");
    world.happen(&Event::Template(false));
    world.happen(&Event::Scale(3));
    world.truth.runs.clear();
    world.truth.memory.hook_run = None;
    world.rounds(8);
    let is_told = |fact: &&Fact| matches!(fact, Fact::HookBlocked(_) | Fact::PodHookBlocked { .. });
    let told = world.told.iter().filter(is_told).count();
    assert!((1..=2).contains(&told), "{:?}", world.told);
}

#[test]
fn a_hook_before_an_update_is_called_off_when_the_pod_is_to_stay() {
    let sets = set(Management::Parallel, UpdateWay::InPlace);
    for plan in [Plan { way: UpdateWay::InPlace, ..plain() }, sets] {
        let mut world = World::running(hooked(plan, HookKind::PreInPlace));
        world.happen(&Event::PodHooks(HookWill::Hang));
        world = world.then(&Event::Push(true));
        assert_eq!(world.truth.runs.len(), 1);
        world = world.then(&Event::Keep(4));
        assert!(world.truth.runs.is_empty());
        assert!(world.truth.pods.iter().all(|pod| !pod.is_marked));
        world.is_sound();
    }
}

#[test]
fn a_pod_whose_hook_is_run_again_stays_marked() {
    let sets = set(Management::Parallel, UpdateWay::InPlace);
    for plan in [in_place(Vec::new()), sets] {
        let mut world = World::running(hooked(plan, HookKind::PreInPlace));
        world.happen(&Event::PodHooks(HookWill::Fail));
        world = world.then(&Event::Push(true));
        let at = world.truth.pods.iter().position(|pod| pod.is_marked).unwrap();
        world.happen(&Event::PodHooks(HookWill::Hang));
        world.happen(&Event::Retry(HookKind::PreInPlace));
        for _ in 0..4 {
            world.pass();
            assert!(world.truth.pods[at].is_marked, "{:#?}", world.log);
        }
        assert_eq!(world.truth.runs.len(), 1);
        world.is_sound();
    }
}

#[test]
fn a_pod_that_ended_is_made_anew() {
    for plan in [
        plain(),
        set(Management::OrderedReady, UpdateWay::Recreate),
        set(Management::Parallel, UpdateWay::Recreate),
    ] {
        for event in [Event::Finish(0), Event::Fail(0)] {
            let mut world = World::running(plan.clone()).then(&event);
            assert_eq!(world.truth.pods.len(), 4);
            assert_eq!(serving(&world), 4);
            world.happen(&event);
            world = world.then(&Event::Push(true));
            assert_eq!(count(&world, "r2"), 4, "it holds no release up");
            world.is_sound();
        }
    }
}

#[test]
fn times_of_conditions_change_with_what_they_say_and_nothing_else() {
    let mut world = World::running(stepped(vec![keep(3), wait()]));
    let since = |world: &World, kind| {
        let conditions = &world.truth.memory.conditions;
        conditions.iter().find(|known| known.kind == kind).unwrap().since
    };
    let before = since(&world, ConditionKind::Paused);
    world.rounds(10);
    assert_eq!(since(&world, ConditionKind::Paused), before);
    world = world.then(&Event::Push(true));
    assert!(since(&world, ConditionKind::Paused) > before);
    assert_eq!(world.truth.memory.phase, Some(WorkloadPhase::Paused));
    assert_eq!(world.truth.memory.paused_since(), Some(since(&world, ConditionKind::Paused)));
    assert!(world.truth.memory.message.contains("paused"), "{}", world.truth.memory.message);
    world = world.then(&Event::Paused(false));
    assert_eq!(world.truth.memory.phase, Some(WorkloadPhase::Healthy));
    assert_eq!(world.truth.memory.paused_since(), None);
}
