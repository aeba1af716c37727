//! Smaller rules, one test each.

use std::time::Duration;

use super::{hooked, in_place, keep, plain, stepped, wait};
use crate::game::simulate::{Event, HookWill, World, call, hook_step, rev};
use tidegate_engine::{
    Again,
    game::{
        Action, CanaryStep, Command, ConditionKind, Container, Fact, HookKind, HookPhase, HookRun,
        Indexes, IntOrPercent, Json, KnownTemplate, PauseReason, Plan, Purpose, ResumeBy, StepHook,
        UpdateWay, WorkloadPhase, decide,
    },
};

#[test]
fn of_the_steps_so_far_the_last_partition_counts() {
    let plan = stepped(vec![wait(), keep(3), wait(), keep(1), hook_step()]);
    let partitions: Vec<usize> = (0..=6).map(|step| plan.partition_at(step)).collect();
    assert_eq!(partitions, [4, 3, 3, 1, 1, 0, 0]);
    let without = Plan { partition: IntOrPercent::Percent(50), ..plain() };
    assert_eq!(without.partition_at(0), 2);
}

#[test]
fn a_workload_that_is_deleted_or_refused_is_left_alone() {
    let mut world = World::running(plain());
    world.happen(&Event::Clock(0));
    world.truth.is_deleted = true;
    world.truth.plan.replicas = 9;
    assert!(decide(&world.truth).is_idle());
    world.truth.is_deleted = false;
    world.truth.problems = vec!["selector matches nothing".to_owned()];
    let decision = world.pass();
    assert_eq!(decision.why.text(), "selector matches nothing");
    assert_eq!(world.truth.memory.message, "selector matches nothing", "it is told");
    assert_eq!(world.truth.memory.phase, Some(WorkloadPhase::Degraded));
    assert_eq!(world.truth.pods.len(), 4, "and that is all");
    let failed = |world: &World| {
        let conditions = world.truth.memory.conditions.iter();
        let mut failed = conditions.filter(|it| it.kind == ConditionKind::FailedUpdate && it.holds);
        failed.next().map(|it| (it.reason.clone(), it.message.clone()))
    };
    let (reason, message) = failed(&world).expect("a condition says so");
    assert_eq!((reason.as_str(), message.as_str()), ("Refused", "selector matches nothing"));
    assert!(decide(&world.truth).is_idle(), "once");
    assert_eq!(world.told.iter().filter(|fact| matches!(fact, Fact::Refused(_))).count(), 1);
    world.truth.problems.clear();
    world.truth.plan.replicas = 4;
    world.rest();
    assert_eq!(failed(&world), None, "it goes with what was wrong");
    assert_eq!(world.truth.memory.phase, Some(WorkloadPhase::Healthy));
}

#[test]
fn each_pod_gets_the_lowest_number_that_is_free() {
    let mut world = World::running(Plan { indexes: Indexes::Range(10, 20), ..plain() });
    let numbers = |world: &World| {
        let mut numbers: Vec<i64> = world.truth.pods.iter().filter_map(|pod| pod.index).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers(&world), [10, 11, 12, 13]);
    world = world.then(&Event::Kill(1));
    assert_eq!(numbers(&world), [10, 11, 12, 13]);
    world = world.then(&Event::Scale(5));
    assert_eq!(numbers(&world), [10, 11, 12, 13, 14]);
    world.is_sound();
}

#[test]
fn too_few_numbers_are_told_and_make_no_pod() {
    let world = World::running(Plan { indexes: Indexes::Range(0, 3), ..plain() });
    assert!(world.truth.pods.is_empty());
    let conditions = &world.truth.memory.conditions;
    assert!(conditions.iter().any(|known| known.kind == ConditionKind::FailedScale && known.holds));
    let told = |fact: &&Fact| matches!(fact, Fact::NoIndex { .. });
    assert_eq!(world.told.iter().filter(told).count(), 1, "told once");
}

#[test]
fn an_unreadable_range_keeps_pods_from_being_made_and_nothing_else() {
    let bad = Indexes::Unreadable("the range is no range".to_owned());
    let mut world = World::running(Plan { indexes: Indexes::Range(0, 9), ..in_place(Vec::new()) });
    world.truth.plan.indexes = bad.clone();
    world = world.then(&Event::Push(true));
    assert_eq!(super::count(&world, "r2"), 4, "pods are updated in place");
    let failed = |world: &World| {
        let conditions = &world.truth.memory.conditions;
        conditions.iter().any(|it| it.kind == ConditionKind::FailedScale && it.holds)
    };
    assert!(failed(&world), "and somebody is told before a pod is missing");
    world = world.then(&Event::Kill(0)).then(&Event::Scale(6));
    assert_eq!(world.truth.pods.len(), 3, "none is made");
    world = world.then(&Event::Scale(2));
    assert_eq!(world.truth.pods.len(), 2, "those that are too many go");
    world.truth.plan.indexes = Indexes::Range(0, 9);
    world = world.then(&Event::Scale(4));
    assert_eq!(world.truth.pods.len(), 4);
    assert!(!failed(&world));
    world.is_sound();
}

#[test]
fn no_pod_is_replaced_while_none_can_be_made() {
    let mut world = World::running(Plan { indexes: Indexes::Range(0, 9), ..plain() });
    world.truth.plan.indexes = Indexes::Unreadable("the range is no range".to_owned());
    world = world.then(&Event::Push(true));
    assert_eq!(super::count(&world, "r1"), 4, "what is deleted would not come back");
    world.is_sound();
}

#[test]
fn a_pod_waits_for_a_number_that_one_on_its_way_out_still_has() {
    let mut world = World::running(Plan { indexes: Indexes::Range(0, 4), ..plain() });
    world.truth.pods[1].is_terminating = true;
    let decision = decide(&world.truth);
    assert_eq!(decision.why, Fact::AwaitingIndex);
    assert!(!decision.actions.iter().any(|action| matches!(action, Action::Create(_))));
    world = world.then(&Event::Kill(1));
    let mut numbers: Vec<Option<i64>> = world.truth.pods.iter().map(|pod| pod.index).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(0), Some(1), Some(2), Some(3)], "each has one");
    world = world.then(&Event::Push(true));
    assert!(world.truth.pods.iter().all(|pod| pod.index.is_some()), "also after a release");
    world.is_sound();
}

#[test]
fn a_range_without_room_for_pods_on_top_is_told_when_it_begins() {
    let plan = Plan { indexes: Indexes::Range(0, 4), max_surge: IntOrPercent::Count(1), ..plain() };
    let world = World::running(plan);
    let doubts = |world: &World| {
        let told = world.told.iter().filter(|fact| matches!(fact, Fact::SpecDoubtful(_)));
        told.map(Fact::text).collect::<Vec<_>>()
    };
    assert_eq!(doubts(&world).len(), 1, "{:?}", world.told);
    assert!(doubts(&world)[0].contains("4 indexes"), "{:?}", doubts(&world));
    let roomy = Plan { indexes: Indexes::Range(0, 5), ..world.truth.plan };
    assert_eq!(doubts(&World::running(roomy)), Vec::<String>::new());
}

#[test]
fn steps_that_are_removed_during_a_release_let_all_pods_go_with_a_warning() {
    let mut world = World::running(stepped(vec![keep(3), wait(), keep(0)]));
    world = world.then(&Event::Push(true));
    let warnings = |world: &World| {
        let told = world.told.iter().filter(|fact| matches!(fact, Fact::SpecDoubtful(_)));
        told.map(Fact::text).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&world), Vec::<String>::new());
    world = world.then(&Event::NoCanary);
    let said = warnings(&world);
    assert!(said.len() == 1 && said[0].contains("all pods"), "{said:?}");
    assert_eq!(super::count(&world, "r1"), 0, "nothing holds them");
    world.is_sound();

    let mut world = World::running(stepped(Vec::new()));
    world.happen(&Event::Push(true));
    world.pass();
    world = world.then(&Event::NoCanary);
    assert_eq!(warnings(&world), Vec::<String>::new(), "there were none to remove");
}

#[test]
fn hooks_that_cannot_be_run_are_told_where_a_release_begins() {
    let mut world = World::running(hooked(plain(), HookKind::PreDelete));
    world.truth.plan.hooks.post_in_place.call = Some(call("missing"));
    let problems = vec!["metric age: successCondition: a string and an integer".to_owned()];
    let known = KnownTemplate { declared: Vec::new(), problems };
    world.truth.templates.insert("test".to_owned(), known);
    world.happen(&Event::Push(true));
    world.pass();
    let told: Vec<String> = world
        .told
        .iter()
        .filter(|fact| matches!(fact, Fact::SpecDoubtful(_)))
        .map(Fact::text)
        .collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].contains("predelete") && told[0].contains("metric age"), "{told:#?}");
    assert!(told[1].contains("there is no hook template missing"), "{told:#?}");
}

#[test]
fn a_run_that_took_too_long_is_ended_although_a_crash_came_between() {
    let hook =
        StepHook { call: call("test"), timeout: Some(Duration::from_secs(30)), rolls_back: false };
    let mut world = World::running(stepped(vec![keep(3), CanaryStep::Hook(hook)]));
    world.happen(&Event::StepHooks(HookWill::Hang));
    world.happen(&Event::Push(true));
    for _ in 0..40 {
        world.round();
        if world.truth.memory.pause(PauseReason::Hook).is_some() {
            break;
        }
    }
    // As if the process had crashed between the pause and the end of the run.
    for run in &mut world.truth.runs {
        run.is_terminated = false;
        run.phase = Some(HookPhase::Running);
    }
    world.rest();
    assert!(world.truth.runs.iter().all(|run| run.is_terminated), "{:#?}", world.truth.runs);
    assert_eq!(world.line(), "1 1/1/4 PausedByStepBasedHook paused");
    world.is_sound();
}

#[test]
fn unused_revisions_go_the_oldest_first() {
    let mut world = World::running(Plan { history_limit: 1, ..plain() });
    for _ in 0..4 {
        world = world.then(&Event::Push(true));
    }
    let names: Vec<String> =
        world.truth.revisions.iter().map(|known| known.name.to_string()).collect();
    assert_eq!(names, ["r4", "r5"]);
    world.is_sound();
}

#[test]
fn the_stable_revision_is_kept_although_no_pod_carries_it() {
    let plan = Plan { history_limit: 0, replicas: 2, ..stepped(vec![keep(1), wait()]) };
    let world = World::running(plan).then(&Event::Push(true)).then(&Event::KillAll("r1"));
    assert!(world.truth.revisions.iter().any(|known| known.name == rev("r1")));
    world.is_sound();
}

#[test]
fn a_pod_that_is_ready_but_not_for_long_enough_ends_no_step_and_is_looked_at_in_time() {
    let plan = Plan { min_ready: Duration::from_secs(20), ..stepped(vec![keep(3), wait()]) };
    let mut world = World::running(plan);
    world.happen(&Event::Push(true));
    for _ in 0..20 {
        world.round();
        if world.line() == "0 1/1/4" {
            break;
        }
    }
    assert_eq!(world.line(), "0 1/1/4");
    assert!(matches!(decide(&world.truth).again, Again::At(_)));
    world.rest();
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

#[test]
fn the_condition_says_what_a_release_waits_for() {
    let world = World::running(stepped(vec![keep(3), hook_step()]));
    let progress = |world: &World| {
        let conditions = world.truth.memory.conditions.iter();
        let mut found = conditions.filter(|it| it.kind == ConditionKind::Progressing);
        let found = found.next().unwrap();
        (found.holds, found.message.clone())
    };
    assert!(!progress(&world).0);
    let mut world = world;
    world.happen(&Event::StepHooks(HookWill::Hang));
    world.happen(&Event::Push(true));
    world.rounds(20);
    let (is_progressing, message) = progress(&world);
    assert!(is_progressing && message.contains("r2-1-test"), "{message}");
    assert_eq!(message, world.truth.memory.message);
}

/// A sidecar whose image both templates ask for, and which a webhook takes from a mirror.
#[test]
fn an_image_that_is_rewritten_on_its_way_is_left_alone() {
    let with_proxy = |world: &mut World| {
        for known in &mut world.truth.revisions {
            let main = match known.template.at(&["spec", "containers"]) {
                Some(Json::List(containers)) => containers[0].clone(),
                _ => panic!("a template has containers"),
            };
            let proxy =
                Json::object([("name", Json::text("proxy")), ("image", Json::text("proxy:1"))]);
            let spec = Json::object([("containers", Json::List(vec![main, proxy]))]);
            let metadata = known.template.get("metadata").unwrap().clone();
            known.template = Json::object([("metadata", metadata), ("spec", spec)]);
        }
    };
    let mut world = World::running(in_place(Vec::new()));
    with_proxy(&mut world);
    for pod in &mut world.truth.pods {
        let main = pod.containers[0].clone();
        let image = "mirror/proxy:1".to_owned();
        pod.containers.push(Container { name: "proxy".to_owned(), image, ..main });
    }
    world.rest();
    world.happen(&Event::Push(true));
    with_proxy(&mut world);
    world.rest();
    assert_eq!(super::count(&world, "r2"), 4);
    let images = world.truth.pods.iter().map(|pod| pod.containers[1].image.as_str());
    assert!(
        images.clone().all(|image| image == "mirror/proxy:1"),
        "{:?}",
        images.collect::<Vec<_>>()
    );
    world.is_sound();
}

#[test]
fn one_pod_that_cannot_be_updated_in_place_does_not_hold_the_others() {
    let plan = in_place(Vec::new());
    let mut world = World::running(plan);
    world.truth.pods[0].revision = Some(rev("gone"));
    world = world.then(&Event::Push(true));
    assert_eq!(super::count(&world, "r2"), 3);
    assert!(world.told.iter().any(|fact| matches!(fact, Fact::NotInPlace { .. })));
    world.is_sound();
}

#[test]
fn a_hook_that_should_take_the_template_back_pauses_if_there_is_no_way() {
    let hook = StepHook { call: call("test"), timeout: None, rolls_back: true };
    let mut world = World::running(stepped(vec![keep(3), CanaryStep::Hook(hook)]));
    world.happen(&Event::StepHooks(HookWill::Hang));
    world.happen(&Event::Push(true));
    world.rounds(12);
    world.truth.revisions.retain(|known| known.name != rev("r1"));
    for run in &mut world.truth.runs {
        run.phase = Some(HookPhase::Failed);
    }
    world.pass();
    assert!(world.truth.memory.pause(PauseReason::Hook).is_some());
    assert_eq!(world.truth.update, rev("r2"));
}

// Game workloads, mistake 39: docs/mistakes.md.
#[test]
fn of_earlier_runs_a_few_are_kept() {
    let mut world = World::running(stepped(vec![keep(3), wait()])).then(&Event::Push(true));
    for at in 0..9 {
        world.truth.runs.push(HookRun {
            name: format!("r2-0-test.{at}"),
            purpose: Purpose::Step { revision: rev("r2"), index: 0 },
            phase: Some(HookPhase::Failed),
            is_terminated: false,
            created: tidegate_engine::Moment(at),
        });
    }
    world.pass();
    let names: Vec<&str> = world.truth.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names.len(), 5);
    assert_eq!(names.first(), Some(&"r2-0-test.4"));
}

#[test]
fn an_argument_without_a_value_blocks_the_hook_and_is_named() {
    let mut world = World::running(stepped(vec![keep(3), hook_step()]));
    let declared =
        tidegate_engine::game::arguments::Declared { name: "room".to_owned(), value: None };
    let known = KnownTemplate { declared: vec![declared], problems: Vec::new() };
    world.truth.templates.insert("test".to_owned(), known);
    world.happen(&Event::Push(true));
    world.rounds(12);
    let conditions = &world.truth.memory.conditions;
    let blocked = conditions.iter().find(|known| known.kind == ConditionKind::HookBlocked).unwrap();
    assert!(blocked.message.contains("args.room was not resolved"), "{}", blocked.message);
    world.is_sound();
}

#[test]
fn every_fact_has_a_word_and_a_sentence() {
    let facts = [
        Fact::AtRest,
        Fact::BeingDeleted,
        Fact::NewRevision(rev("r")),
        Fact::Reverted(rev("r")),
        Fact::StepsChanged,
        Fact::StepDoubtful("why".to_owned()),
        Fact::SpecDoubtful("why".to_owned()),
        Fact::StepSet(2),
        Fact::Paused(PauseReason::User),
        Fact::AwaitingPerson(PauseReason::Hook, ResumeBy::Field),
        Fact::AwaitingPerson(PauseReason::Hook, ResumeBy::Annotation),
        Fact::AwaitingTime(tidegate_engine::Moment(0)),
        Fact::ResumeIgnored,
        Fact::AwaitingHook("run".to_owned()),
        Fact::HookFailed { run: "run".to_owned(), phase: None, is_terminated: false },
        Fact::HookBlocked("why".to_owned()),
        Fact::ArgumentsDropped(vec!["a".to_owned()]),
        Fact::AwaitingPods { available: 1, wanted: 2 },
        Fact::Scaling { created: 1, deleted: 0 },
        Fact::NoIndex { replicas: 2, indexes: 1 },
        Fact::IndexesUnreadable("why".to_owned()),
        Fact::AwaitingIndex,
        Fact::OldPodsKept(1),
        Fact::UnknownVerb("reusme".to_owned()),
        Fact::Updating(1),
        Fact::Refreshing(1),
        Fact::AwaitingBudget,
        Fact::NoBudget,
        not_in_place(UpdateWay::InPlace),
        not_in_place(UpdateWay::HotPatch),
        Fact::AwaitingPodHook { pod: "p".to_owned(), kind: HookKind::PreDelete },
        Fact::PodHookBlocked { pod: "p".to_owned(), why: "w".to_owned() },
        Fact::HooksRetried(HookKind::PreInPlace),
        Fact::PodFailed("p".to_owned()),
        Fact::PodEnded("p".to_owned()),
        Fact::AwaitingNode("p".to_owned()),
        Fact::PodLost("p".to_owned()),
        Fact::AwaitingOrder("p".to_owned()),
        Fact::AwaitingDeletion("p".to_owned()),
        Fact::Promoted(rev("r")),
        Fact::Obeyed(Command::Abort),
        Fact::NothingTo(Command::Resume),
        Fact::AskedTooLate(Command::SkipAll),
        Fact::RollsBack(rev("r")),
    ];
    for fact in facts {
        assert!(!fact.text().is_empty() && !fact.reason().is_empty(), "{fact:?}");
    }
    assert_eq!(Fact::StepSet(3).text(), "Set Step Index to 3");
    assert_eq!(not_in_place(UpdateWay::InPlace).reason(), "FailedUpdatePodInPlace");
    assert_eq!(not_in_place(UpdateWay::HotPatch).reason(), "FailedUpdatePodHotPatch");
}

fn not_in_place(way: UpdateWay) -> Fact {
    Fact::NotInPlace { pod: "p".to_owned(), way, path: "spec".to_owned() }
}

#[test]
fn the_reason_for_waiting_is_announced() {
    let mut world = World::running(hooked(plain(), HookKind::PreDelete));
    world.happen(&Event::PodHooks(HookWill::Hang));
    world = world.then(&Event::Push(true));
    let why = world.last.as_ref().map(|decision| decision.why.clone());
    assert!(matches!(why, Some(Fact::AwaitingPodHook { .. })), "{why:?}");
    let paused = World::running(stepped(vec![keep(3), wait()])).then(&Event::Push(true));
    let why = paused.last.as_ref().map(|decision| decision.why.clone());
    assert_eq!(why, Some(Fact::AwaitingPerson(PauseReason::Step, ResumeBy::Field)));
}

#[test]
fn the_order_of_writes_is_the_order_of_safety() {
    let mut world = World::running(stepped(vec![keep(3), wait(), hook_step()]));
    world.happen(&Event::Push(true));
    let mut paused = None;
    for _ in 0..30 {
        world.round();
        let Some(decision) = &world.last else { continue };
        let at = |test: fn(&Action) -> bool| decision.actions.iter().position(test);
        let set = at(|action| matches!(action, Action::SetPaused(true)));
        if set.is_some() {
            paused = Some((set, at(|action| matches!(action, Action::Remember(_)))));
        }
    }
    let (set, written) = paused.expect("it pauses");
    assert!(set < written, "the field before the status");
    world.happen(&Event::Paused(false));
    world.pass();
    let decision = world.pass();
    let at = |test: fn(&Action) -> bool| decision.actions.iter().position(test);
    let written = at(|action| matches!(action, Action::Remember(_)));
    let started = at(|action| matches!(action, Action::StartHook(_)));
    assert!(written.is_some() && written < started, "the name before the run");
}

#[test]
fn a_name_that_is_taken_is_not_used() {
    let mut world = World::running(stepped(vec![keep(3), hook_step(), wait()]));
    world.truth.taken.insert("r2-1-test".to_owned());
    world = world.then(&Event::Push(true));
    assert_eq!(
        world.truth.runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>(),
        ["r2-1-test.1"]
    );
    world.is_sound();
}

#[test]
fn a_name_that_is_taken_after_it_was_written_down_is_given_up() {
    let mut world = World::running(stepped(vec![keep(3), hook_step(), wait()]));
    world.happen(&Event::Push(true));
    for _ in 0..30 {
        world.round();
        if world.truth.memory.hook_run.is_some() {
            break;
        }
    }
    world.truth.runs.clear();
    world.truth.taken.insert("r2-1-test".to_owned());
    world.pass();
    assert_eq!(world.truth.memory.hook_run.as_deref(), Some("r2-1-test.1"));
    assert_eq!(world.truth.runs.len(), 1);
}

#[test]
fn thousands_of_pods_with_hooks_are_decided_upon_in_one_look() {
    let mut world = World::running(hooked(Plan { replicas: 1, ..plain() }, HookKind::PreDelete));
    let one = world.truth.pods[0].clone();
    world.truth.pods = (0..3_000)
        .map(|at| tidegate_engine::game::Pod {
            name: format!("game-{at}"),
            uid: format!("uid-{at}"),
            id: at.to_string(),
            ..one.clone()
        })
        .collect();
    world.truth.plan.replicas = 0;
    let begun = decide(&world.truth);
    assert!(begun.actions.len() >= 6_000, "a run and a mark each: {}", begun.actions.len());
}
