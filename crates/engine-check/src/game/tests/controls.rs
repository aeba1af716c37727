//! Commands of people to a release: pause, resume, skip, roll back.

use super::{by_annotation, count, in_place, keep, stepped, until, wait, wait_for};
use crate::game::simulate::{Event, HookWill, World, hook_step, rev};
use tidegate_engine::game::{Asked, Command, Fact, PauseReason, Paused, Plan, ResumeBy, decide};

fn pushed(plan: Plan) -> World {
    World::running(plan).then(&Event::Push(true))
}

#[test]
fn a_pause_holds_until_a_person_goes_on() {
    let mut world = pushed(stepped(vec![keep(3), wait()]));
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world = world.then(&Event::Kill(0)).then(&Event::Scale(5));
    assert!(world.line().ends_with("PausedByCanaryPauseStep paused"), "{}", world.line());
    world = world.then(&Event::Paused(false));
    assert_eq!(world.line(), "2 5/5/5");
    world.is_sound();
}

// Game workloads, mistake 12: docs/mistakes.md.
#[test]
fn a_pause_by_hand_sticks_and_survives_a_new_template() {
    let mut world = World::running(stepped(vec![keep(3), wait()])).then(&Event::Paused(true));
    assert_eq!(world.line(), "2 4/4/4 PausedByUser paused");
    world = world.then(&Event::Push(true));
    assert_eq!(world.line(), "0 0/0/4 PausedByUser paused", "nothing is updated");
    world = world.then(&Event::Paused(false));
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

// Game workloads, mistake 12: docs/mistakes.md.
#[test]
fn a_tool_that_applies_paused_false_again_does_not_resume_where_that_is_asked_for() {
    let mut world = pushed(by_annotation(stepped(vec![keep(3), wait()])));
    world = world.then(&Event::Paused(false));
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    assert!(world.told.contains(&Fact::ResumeIgnored));
    world = world.then(&Event::Ask(Command::Resume));
    assert_eq!(world.line(), "2 4/4/4");
    assert_eq!(world.truth.plan.asked, None);
    world.is_sound();
}

// Game workloads, mistake 13: docs/mistakes.md.
#[test]
fn a_timed_pause_can_be_cut_short() {
    let mut world = World::running(stepped(vec![keep(3), wait_for(3_000), keep(2), wait()]));
    world.happen(&Event::Push(true));
    until(&mut world, "1 1/1/4 PausedByCanaryPauseStep paused");
    world.happen(&Event::Paused(false));
    until(&mut world, "3 2/2/4 PausedByCanaryPauseStep paused");
    world.is_sound();
}

#[test]
fn a_timed_pause_of_nothing_ends_at_once() {
    let world = pushed(stepped(vec![keep(3), wait_for(0)]));
    assert_eq!(world.line(), "2 4/4/4");
    world.is_sound();
}

#[test]
fn skipping_takes_no_more_steps_and_runs_no_more_hooks() {
    let mut world = pushed(stepped(vec![keep(3), wait(), hook_step()]));
    world = world.then(&Event::Ask(Command::SkipAll));
    assert_eq!(world.line(), "3 4/4/4");
    assert!(world.truth.runs.is_empty());
    world.is_sound();
}

#[test]
fn aborting_puts_the_stable_template_back() {
    let mut world = pushed(in_place(vec![keep(2), wait()]));
    world = world.then(&Event::Ask(Command::Abort));
    assert_eq!(world.truth.update, rev("r1"));
    assert_eq!(world.line(), "2 4/4/4");
    assert_eq!(count(&world, "r1"), 4);
    world.is_sound();
}

#[test]
fn a_command_for_another_revision_is_not_done() {
    let mut world = pushed(stepped(vec![keep(3), wait()]));
    world.truth.plan.asked = Some(Asked { command: Command::SkipAll, revision: Some(rev("r1")) });
    world.rest();
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
    assert!(world.told.contains(&Fact::AskedTooLate(Command::SkipAll)));
    assert_eq!(world.truth.plan.asked, None);
}

#[test]
fn a_command_that_cannot_be_done_is_announced_and_removed() {
    for command in Command::ALL.into_iter().filter(|command| *command != Command::Pause) {
        let world = World::running(stepped(vec![keep(3), wait()])).then(&Event::Ask(command));
        assert!(world.told.contains(&Fact::NothingTo(command)), "{command:?}");
        assert_eq!(world.truth.plan.asked, None);
        assert_eq!(world.line(), "2 4/4/4");
        world.is_sound();
    }
}

// Game workloads, mistake 48: docs/mistakes.md.
#[test]
fn a_failed_hook_can_be_run_again() {
    let mut world = World::running(stepped(vec![keep(3), hook_step()]));
    world.happen(&Event::StepHooks(HookWill::Fail));
    world = world.then(&Event::Push(true));
    assert_eq!(world.line(), "1 1/1/4 PausedByStepBasedHook paused");
    world.happen(&Event::StepHooks(HookWill::Pass));
    world = world.then(&Event::Ask(Command::RetryHook));
    assert_eq!(world.line(), "2 4/4/4");
    world.is_sound();
}

#[test]
fn clearing_paused_when_nothing_is_paused_changes_nothing() {
    let mut world = World::running(stepped(vec![keep(3), wait()]));
    world.truth.plan.paused = Paused { value: false, is_ours: false };
    world.rest();
    assert_eq!(world.line(), "2 4/4/4");
    world.is_sound();
}

#[test]
fn a_pause_of_a_person_is_not_ended_by_a_tool_where_only_the_annotation_resumes() {
    let plan = by_annotation(stepped(vec![keep(3), wait()]));
    let mut world = World::running(plan).then(&Event::Paused(true)).then(&Event::Push(true));
    assert_eq!(world.line(), "0 0/0/4 PausedByUser paused");
    world = world.then(&Event::Paused(false));
    assert_eq!(world.line(), "0 0/0/4 PausedByUser paused", "it is set back");
    assert!(world.told.contains(&Fact::ResumeIgnored), "and that is told");
    world = world.then(&Event::Paused(false)).then(&Event::Push(true));
    assert_eq!(world.line(), "0 0/0/4 PausedByUser paused", "again and again");
    world = world.then(&Event::Ask(Command::Resume));
    assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused", "the verb ends it");
    world.is_sound();
}

#[test]
fn a_verb_counts_also_if_a_tool_cleared_paused_just_before() {
    let mut world = pushed(by_annotation(stepped(vec![keep(3), wait()])));
    world.happen(&Event::Paused(false));
    world = world.then(&Event::Ask(Command::Resume));
    assert_eq!(world.line(), "2 4/4/4");
    let plan = by_annotation(stepped(vec![keep(3), wait()]));
    let mut world = World::running(plan).then(&Event::Paused(true)).then(&Event::Push(true));
    world.happen(&Event::Paused(false));
    world = world.then(&Event::Ask(Command::SkipAll));
    assert_eq!(world.line(), "2 0/0/4 PausedByUser paused", "skipping does not resume");
    world.is_sound();
}

#[test]
fn a_pause_can_be_asked_for_by_annotation() {
    for plan in [stepped(vec![keep(3), wait()]), by_annotation(stepped(vec![keep(3), wait()]))] {
        let mut world = World::running(plan).then(&Event::Ask(Command::Pause));
        assert_eq!(world.line(), "2 4/4/4 PausedByUser paused");
        assert_eq!(world.truth.plan.asked, None);
        assert!(world.told.contains(&Fact::Obeyed(Command::Pause)));
        world = world.then(&Event::Push(true));
        assert_eq!(world.line(), "0 0/0/4 PausedByUser paused", "nothing is updated");
        world = world.then(&Event::Ask(Command::Pause));
        assert!(world.told.contains(&Fact::NothingTo(Command::Pause)), "it is held already");
        world = world.then(&Event::Ask(Command::Resume));
        assert_eq!(world.line(), "1 1/1/4 PausedByCanaryPauseStep paused");
        world.is_sound();
    }
}

#[test]
fn no_further_pod_is_updated_in_the_look_that_pauses() {
    let mut world = World::running(stepped(vec![keep(0)]));
    world.happen(&Event::Push(true));
    world.pass();
    world.happen(&Event::Ask(Command::Pause));
    let decision = decide(&world.truth);
    assert!(!format!("{decision:?}").contains("Delete("), "{decision:#?}");
    world.rest();
    assert_eq!(world.line(), "0 0/0/4 PausedByUser paused");
    world.is_sound();
}

#[test]
fn a_release_that_waits_for_a_person_says_how_to_go_on() {
    let by_field = Fact::AwaitingPerson(PauseReason::Step, ResumeBy::Field).text();
    assert!(by_field.contains("updateStrategy.paused to false"), "{by_field}");
    let plan = by_annotation(stepped(vec![keep(3), wait()]));
    let world = pushed(plan);
    let message = &world.truth.memory.message;
    assert_eq!(
        message,
        "PausedByCanaryPauseStep: annotate it with tidegate.dev/ask=resume to continue."
    );
}

#[test]
fn a_word_that_is_no_verb_is_told_and_taken_away_and_stops_nothing() {
    let mut world = World::running(stepped(vec![keep(3), wait()]));
    world.truth.plan.misspelt = Some("reusme".to_owned());
    world = world.then(&Event::Kill(0));
    assert_eq!(world.line(), "2 4/4/4", "a lost pod is replaced all the same");
    assert_eq!(world.truth.plan.misspelt, None);
    let told = |fact: &&Fact| **fact == Fact::UnknownVerb("reusme".to_owned());
    assert_eq!(world.told.iter().filter(told).count(), 1);
    world.is_sound();
}
