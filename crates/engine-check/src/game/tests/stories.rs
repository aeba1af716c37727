//! Random stories: after any events every invariant holds and everything comes to rest.

use proptest::{collection::vec, prelude::*, sample::select, test_runner::Config};

use super::{
    all_hooks, hooked, in_place, keep, plain, set, stepped, steps_with_hook, wait, wait_for,
};
use crate::game::simulate::{Event, HookWill, Refused, World, canary, hook_step, seed_plan};
use tidegate_engine::game::{
    Canary, Command, HookKind, IntOrPercent, Management, Plan, Purpose, ResumeBy, UpdateWay,
    WorkloadKind,
};

fn plans() -> impl Strategy<Value = Plan> {
    let steps = select(vec![
        None,
        Some(vec![keep(3), wait(), keep(2), wait_for(20), hook_step()]),
        Some(vec![hook_step(), keep(2), wait()]),
        Some(vec![keep(1), keep(3), hook_step()]),
    ]);
    let ways = select(vec![UpdateWay::Recreate, UpdateWay::InPlace, UpdateWay::HotPatch]);
    let kinds = select(vec![
        WorkloadKind::Deployment,
        WorkloadKind::Deployment,
        WorkloadKind::StatefulSet(Management::OrderedReady),
        WorkloadKind::StatefulSet(Management::Parallel),
    ]);
    let hooks = select(vec![None, Some(HookKind::PreDelete), Some(HookKind::PreInPlace)]);
    (steps, ways, kinds, hooks, 0_usize..4, 0_usize..3, 0_usize..5, any::<[bool; 4]>()).prop_map(
        |(
            steps,
            way,
            kind,
            hook,
            unavailable,
            surge,
            partition,
            [graced, falls_back, slow, verbs],
        )| {
            // A set that may miss nothing is never updated, and says so.
            let is_set = kind != WorkloadKind::Deployment;
            let unavailable = if is_set { unavailable.max(1) } else { unavailable };
            let plan = Plan {
                kind,
                way,
                falls_back,
                canary: steps.map(canary).map(|canary| Canary {
                    resume_by: if verbs { ResumeBy::Annotation } else { ResumeBy::Field },
                    ..canary
                }),
                max_unavailable: IntOrPercent::Count(unavailable),
                max_surge: IntOrPercent::Count(surge),
                partition: IntOrPercent::Count(partition),
                grace: if graced { seed_plan().grace } else { plain().grace },
                min_ready: std::time::Duration::from_secs(if slow { 10 } else { 0 }),
                ..plain()
            };
            match hook {
                None => plan,
                Some(kind) => hooked(hooked(plan, kind), HookKind::PostInPlace),
            }
        },
    )
}

fn events() -> impl Strategy<Value = Event> {
    let fixed = select(vec![
        Event::PushEnv,
        Event::Revert,
        Event::Restore("r1"),
        Event::NoCanary,
        Event::Terminate,
        Event::KillAll("r1"),
        Event::KillAll("r2"),
        Event::Steps(vec![keep(3), wait()]),
        Event::Steps(vec![keep(2), hook_step()]),
        Event::Steps(Vec::new()),
    ]);
    let wills = || select(vec![HookWill::Pass, HookWill::Fail, HookWill::Hang]);
    let refused =
        select(vec![Refused::None, Refused::Create, Refused::Pods, Refused::Spec, Refused::Runs]);
    let verbs = select(Command::ALL.to_vec());
    prop_oneof![
        4 => any::<bool>().prop_map(Event::Push),
        4 => any::<bool>().prop_map(Event::Paused),
        3 => fixed,
        2 => (0_usize..7).prop_map(Event::Scale),
        2 => verbs.prop_map(Event::Ask),
        2 => (0_usize..6).prop_map(Event::Kill),
        1 => (0_usize..6).prop_map(Event::Fail),
        1 => (0_usize..6).prop_map(Event::Finish),
        1 => (0_usize..6).prop_map(Event::Restart),
        1 => (0_usize..6).prop_map(Event::Name),
        1 => wills().prop_map(Event::StepHooks),
        1 => wills().prop_map(Event::PodHooks),
        1 => select(HookKind::ALL.to_vec()).prop_map(Event::Retry),
        1 => any::<bool>().prop_map(Event::Template),
        1 => select(vec![UpdateWay::Recreate, UpdateWay::InPlace]).prop_map(Event::Way),
        1 => (0_usize..6).prop_map(Event::Keep),
        1 => select(vec![-60_i64, -5, 90, 3_600]).prop_map(Event::Clock),
        2 => refused.prop_map(Event::Refuse),
    ]
}

/// `SIMULATED_STORIES=100000` plays that many.
#[expect(clippy::disallowed_methods, reason = "how much to play is the business of who plays")]
fn stories() -> u32 {
    std::env::var("SIMULATED_STORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// After any story: a good template, hooks that pass, and no obstacles.
fn calm_down(world: &mut World) {
    world.truth.plan.falls_back = true;
    world.cuts.clear();
    (world.step_hooks, world.pod_hooks) = (HookWill::Pass, HookWill::Pass);
    world.let_pass();
    world.happen(&Event::Template(true));
    world.rest();
    let events = [
        Event::Keep(0),
        Event::Paused(false),
        Event::Retry(HookKind::PreDelete),
        Event::Retry(HookKind::PreInPlace),
        Event::Retry(HookKind::PostInPlace),
        Event::Push(true),
    ];
    for event in &events {
        world.happen(event);
    }
    world.rest();
    for event in [Event::Ask(Command::Resume), Event::Ask(Command::SkipAll), Event::Paused(false)] {
        world.happen(&event);
        world.rest();
    }
}

/// Why a workload is not healthy that should be.
fn trouble(world: &World) -> Option<String> {
    let truth = &world.truth;
    let replicas = truth.plan.replicas;
    let is_well = |pod: &&tidegate_engine::game::Pod| pod.is_of(&truth.update) && pod.is_ready();
    let well = truth.pods.iter().filter(is_well).count();
    if well != replicas || truth.pods.len() != replicas {
        return Some(format!("{well} of {replicas} pods are well, of {}", truth.pods.len()));
    }
    if truth.pods.iter().any(|pod| pod.is_marked || pod.owes_post_hook || pod.grace.is_some()) {
        return Some("something is left on a pod".to_owned());
    }
    if truth.runs.iter().any(|run| matches!(run.purpose, Purpose::Pod { .. })) {
        return Some("runs of pods are left".to_owned());
    }
    let is_stable = truth.memory.stable.as_ref().is_none_or(|stable| *stable == truth.update);
    (!is_stable).then(|| "it is not stable".to_owned())
}

/// Plays a story to its end; returns the violation on the way, or why the workload is not healthy then.
fn tell(world: &mut World, events: &[(u32, Event)]) -> Option<String> {
    for (rounds, event) in events {
        world.rounds(*rounds);
        world.happen(event);
    }
    world.happen(&Event::Refuse(Refused::None));
    world.rest();
    calm_down(world);
    world.violation.clone().or_else(|| trouble(world))
}

proptest! {
    #![proptest_config(Config { cases: stories(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_story_keeps_every_invariant_and_comes_to_rest(
        plan in plans(),
        events in vec((0_u32..12, events()), 0..10),
        cuts in vec((0_u32..120, any::<bool>()), 0..5),
        lag in 0_u32..5,
        drops_gates in any::<bool>(),
    ) {
        let mut world = World::new(plan);
        (world.lag, world.drops_gates, world.cuts) = (lag, drops_gates, cuts);
        let ending = tell(&mut world, &events);
        prop_assert!(ending.is_none(), "{:?}\n{:#?}\n{:#?}", ending, world.truth.plan, world.log);
    }
}

// More events about pods on top than in any story.
proptest! {
    #![proptest_config(Config { cases: stories(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_surge_that_is_paused_pushed_over_and_taken_back_keeps_every_invariant(
        plan in plans(),
        events in vec((0_u32..12, troubles()), 3..10),
        cuts in vec((0_u32..120, any::<bool>()), 0..3),
        lag in 0_u32..5,
        drops_gates in any::<bool>(),
        scale in 2_usize..6,
    ) {
        let mut plan = plan;
        plan.kind = WorkloadKind::Deployment;
        plan.max_surge = IntOrPercent::Count(2);
        plan.replicas = scale;
        let plan = hooked(hooked(plan, HookKind::PreDelete), HookKind::PostInPlace);
        let mut world = World::new(plan);
        (world.lag, world.drops_gates, world.cuts) = (lag, drops_gates, cuts);
        let ending = tell(&mut world, &events);
        prop_assert!(ending.is_none(), "{:?}\n{:#?}\n{:#?}", ending, world.truth.plan, world.log);
    }
}

fn troubles() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any::<bool>().prop_map(Event::Push),
        4 => any::<bool>().prop_map(Event::Paused),
        2 => select(vec![Event::Revert, Event::Restore("r1"), Event::NoCanary]),
        1 => (0_usize..6).prop_map(Event::Restart),
        2 => (0_usize..6).prop_map(Event::Fail),
        1 => (0_usize..7).prop_map(Event::Scale),
        1 => select(vec![UpdateWay::Recreate, UpdateWay::InPlace]).prop_map(Event::Way),
        1 => (0_usize..6).prop_map(Event::Keep),
    ]
}

/// Pods below the partition are not well yet: whether they count is for the step that was written down.
#[test]
fn steps_that_come_in_mid_release_are_written_down_before_a_pod_is_taken() {
    let mut world = World::new(set(Management::Parallel, UpdateWay::Recreate));
    world.lag = 3;
    world.rounds(8);
    world.happen(&Event::Push(false));
    world.rounds(1);
    world.happen(&Event::Steps(vec![keep(3), wait()]));
    world.rest();
    calm_down(&mut world);
    assert_eq!(world.violation.clone().or_else(|| trouble(&world)), None, "{:#?}", world.log);
}

/// Containers that were started when the clock was ahead look as if they had been started since.
#[test]
fn a_clock_that_is_set_back_finishes_no_update() {
    let plan = Plan {
        way: UpdateWay::InPlace,
        max_unavailable: IntOrPercent::NONE,
        max_surge: IntOrPercent::NONE,
        ..plain()
    };
    let mut world = World::new(plan);
    world.lag = 3;
    for (rounds, event) in [(4, Event::Clock(-60)), (5, Event::Clock(-60)), (4, Event::Push(false))]
    {
        world.rounds(rounds);
        world.happen(&event);
    }
    world.rest();
    calm_down(&mut world);
    assert_eq!(world.violation.clone().or_else(|| trouble(&world)), None, "{:#?}", world.log);
}

/// A crash between `paused` of ours and the status would leave the person's pause, which is over.
#[test]
fn that_a_person_let_go_is_written_down_before_a_step_pauses() {
    let mut world = World::running(stepped(vec![keep(3), wait()]));
    world.happen(&Event::Push(true));
    world.rounds(1);
    world.happen(&Event::Paused(true));
    while world.truth.memory.step != Some(1) {
        world.happen(&Event::Paused(false));
        world.rounds(1);
        world.happen(&Event::Paused(true));
        world.rounds(1);
    }
    world = world.then(&Event::Paused(false));
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

#[test]
fn plans_of_every_kind_come_to_rest_with_a_good_release() {
    let steps = steps_with_hook();
    let plans = [
        plain(),
        stepped(steps.clone()),
        in_place(steps.clone()),
        all_hooks(in_place(steps.clone())),
        all_hooks(stepped(steps)),
        set(Management::Parallel, UpdateWay::Recreate),
        set(Management::OrderedReady, UpdateWay::InPlace),
    ];
    for plan in plans {
        let world = World::running(plan.clone()).then(&Event::Push(true));
        world.is_sound();
        let stands = world.line();
        assert!(stands.ends_with("4/4/4"), "{stands}\n{plan:?}\n{:#?}", world.log);
    }
}
