//! A run that is cut short at any write ends where the clean one does.

use super::{all_hooks, hooked, in_place, plain, set, stepped, steps_with_hook, wait};
use crate::game::simulate::{Event, HookWill, World, canary, hook_step, seed_plan};
use tidegate_engine::game::{Command, HookKind, IntOrPercent, Management, Plan, UpdateWay};

/// Plays the events, each when everything before came to rest or after so many rounds.
fn play(plan: &Plan, events: &[(Option<u32>, Event)], cut: Option<(u32, bool)>) -> World {
    let mut world = World::new(plan.clone());
    world.cuts.extend(cut);
    world.rest();
    for (rounds, event) in events {
        match rounds {
            Some(rounds) => world.rounds(*rounds),
            None => world.rest(),
        }
        world.happen(event);
    }
    world.rest();
    world
}

/// Cuts a story at every write, before and after it lands. Returns how many runs that was.
fn sweep(name: &str, plan: &Plan, events: &[(Option<u32>, Event)]) -> u32 {
    let clean = play(plan, events, None);
    assert_eq!(clean.violation, None, "{name}, clean: {:#?}", clean.log);
    assert!(clean.writes > 0, "{name}: a story that writes nothing sweeps nothing");
    for write in 0..clean.writes {
        for lands in [false, true] {
            let cut = play(plan, events, Some((write, lands)));
            let about = || format!("{name}, write {write}, lands {lands}: {:#?}", cut.log);
            assert_eq!(cut.violation, None, "{}", about());
            assert_eq!(cut.ending(), clean.ending(), "{}", about());
        }
    }
    clean.writes * 2
}

#[test]
fn a_release_that_is_cut_short_anywhere_ends_where_the_clean_one_does() {
    let push = (None, Event::Push(true));
    let steps = steps_with_hook();
    let surging = |plan: Plan| Plan { max_surge: IntOrPercent::Count(1), ..plan };
    let parallel = set(Management::Parallel, UpdateWay::Recreate);
    let ordered = set(Management::OrderedReady, UpdateWay::InPlace);
    let with_steps = |plan: Plan| Plan { canary: Some(canary(steps.clone())), ..plan };
    let plans = [
        ("plain", plain()),
        ("partition", Plan { partition: IntOrPercent::Percent(50), ..plain() }),
        ("steps", stepped(steps.clone())),
        ("steps, surge", surging(stepped(steps.clone()))),
        ("in place", in_place(steps.clone())),
        ("in place, grace", Plan { grace: seed_plan().grace, ..in_place(steps.clone()) }),
        ("in place, all hooks", all_hooks(in_place(steps.clone()))),
        ("in place, pre-delete", hooked(in_place(steps.clone()), HookKind::PreDelete)),
        ("replaced, all hooks", all_hooks(stepped(steps.clone()))),
        ("hot patch", Plan { way: UpdateWay::HotPatch, ..stepped(steps.clone()) }),
        ("set, in order", with_steps(set(Management::OrderedReady, UpdateWay::Recreate))),
        ("set, parallel", with_steps(surging(parallel))),
        ("set, in place", all_hooks(with_steps(ordered))),
    ];
    let mut runs = 0;
    for (name, plan) in plans {
        runs += sweep(name, &plan, std::slice::from_ref(&push));
    }
    assert!(runs > 500, "only {runs} runs: the sweep is blind");
}

#[test]
fn a_story_that_is_cut_short_anywhere_ends_where_the_clean_one_does() {
    let push = (None, Event::Push(true));
    let paused = stepped(vec![super::keep(3), wait(), super::keep(1), hook_step()]);
    let annotated = super::by_annotation(paused.clone());
    let hooks = all_hooks(in_place(Vec::new()));
    let fail = (None, Event::StepHooks(HookWill::Fail));
    let stories = [
        ("resumed", &paused, vec![push.clone(), (None, Event::Paused(false))]),
        ("asked to resume", &paused, vec![push.clone(), (None, Event::Ask(Command::Resume))]),
        ("skipped", &paused, vec![push.clone(), (None, Event::Ask(Command::SkipAll))]),
        ("aborted", &paused, vec![push.clone(), (None, Event::Ask(Command::Abort))]),
        ("gone back", &paused, vec![push.clone(), (None, Event::Restore("r1"))]),
        ("another revision", &paused, vec![push.clone(), (None, Event::Push(true))]),
        ("asked to pause", &paused, vec![(None, Event::Ask(Command::Pause)), push.clone()]),
        (
            "asked to pause half-way",
            &paused,
            vec![push.clone(), (None, Event::Ask(Command::Pause))],
        ),
        (
            "paused by hand, and a tool that sets it back",
            &annotated,
            vec![
                (None, Event::Paused(true)),
                push.clone(),
                (None, Event::Paused(false)),
                (None, Event::Ask(Command::Resume)),
            ],
        ),
        ("paused by hand", &paused, vec![(None, Event::Paused(true)), push.clone()]),
        (
            "a failed hook run again",
            &paused,
            vec![
                fail,
                push.clone(),
                (None, Event::Paused(false)),
                (None, Event::StepHooks(HookWill::Pass)),
                (None, Event::Ask(Command::RetryHook)),
            ],
        ),
        ("scaled in and out", &hooks, vec![(None, Event::Scale(1)), (Some(1), Event::Scale(5))]),
        ("named", &hooks, vec![(None, Event::Name(0))]),
        ("failed", &hooks, vec![(None, Event::Fail(1))]),
    ];
    let mut runs = 0;
    for (name, plan, events) in &stories {
        runs += sweep(name, plan, events);
    }
    assert!(runs > 500, "only {runs} runs: the sweep is blind");
}
