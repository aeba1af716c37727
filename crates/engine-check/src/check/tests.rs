//! For each invariant, a trace that breaks it and one that comes close and does not. The numbers are those of
//! [the list](../../../../docs/invariants.md).

use std::time::Duration;

use super::*;
use tidegate_engine::{Hooks, ManualStep, Steps, Strategy, Traffic, Unready};

fn plan() -> Plan {
    Plan {
        strategy: Strategy::Weighted,
        traffic: Traffic::Divisible,
        steps: Steps::By(20),
        max: Percent::clamped(40),
        promotion_step: 0,
        iterations: 0,
        mirror: false,
        threshold: 2,
        interval: Duration::from_mins(1),
        deadline: Duration::from_mins(5),
        skip: false,
        suspended: false,
        revert: true,
        manual: None,
        hooks: Hooks::default(),
        stickiness: tidegate_engine::Stickiness::None,
        scaled: false,
        notes: Vec::new(),
    }
}

fn template(revision: &str) -> Template {
    Template { revision: Revision::new(revision), configs: None }
}

fn memory(phase: Phase, applied: &str, weight: i64) -> Memory {
    Memory {
        phase,
        weight: Percent::clamped(weight),
        applied: Some(Revision::new(applied)),
        promoted: Some(Revision::new("v1-a")),
        ..Memory::default()
    }
}

fn remembered(phase: Phase, applied: &str, weight: i64) -> TraceEvent {
    TraceEvent::Remembered(Box::new(memory(phase, applied, weight)))
}

fn routed(canary: i64) -> TraceEvent {
    TraceEvent::Routed { primary: 100 - canary, canary, mirrored: false }
}

fn target_is(revision: &str) -> TraceEvent {
    TraceEvent::TargetIs(Box::new(template(revision)))
}

fn pods(workload: Workload, serving: bool) -> TraceEvent {
    TraceEvent::Pods(workload, Pods { serving, ready: serving, stuck: false })
}

fn announced(fact: Fact) -> TraceEvent {
    TraceEvent::Announced(Box::new(fact))
}

/// A canary that was set up: the primary serves `v1-a`, the target is parked.
fn set_up() -> Vec<TraceEvent> {
    vec![
        target_is("v1-a"),
        TraceEvent::ScaledByOthers(Workload::Target, 2),
        pods(Workload::Target, true),
        remembered(Phase::Initializing, "v1-a", 0),
        TraceEvent::Templated(Box::new(template("v1-a")), Some(2)),
        pods(Workload::Primary, true),
        TraceEvent::ApexSelects(Side::Primary),
        TraceEvent::Scaled(Workload::Target, 0),
        pods(Workload::Target, false),
        remembered(Phase::Initialized, "v1-a", 0),
    ]
}

/// `v1-b` was started and serves.
fn started() -> Vec<TraceEvent> {
    let mut trace = set_up();
    trace.extend([
        target_is("v1-b"),
        TraceEvent::Looked,
        TraceEvent::Scaled(Workload::Target, 2),
        remembered(Phase::Progressing, "v1-b", 0),
        pods(Workload::Target, true),
        TraceEvent::Looked,
    ]);
    trace
}

/// `v1-b` has this share, after as many steps of 20 as it takes, and its checks passed.
fn at(share: i64) -> Vec<TraceEvent> {
    let mut trace = started();
    for share in (20..=share).step_by(20) {
        trace.extend([
            TraceEvent::Looked,
            TraceEvent::Checked(true),
            routed(share),
            remembered(Phase::Progressing, "v1-b", share),
        ]);
    }
    trace.extend([TraceEvent::Looked, TraceEvent::Checked(true)]);
    trace
}

/// Judges entries that lie an interval apart each.
fn judge(plan: &Plan, trace: &[TraceEvent]) -> Vec<Violation> {
    let entries: Vec<Entry> = (0_i64..)
        .zip(trace)
        .map(|(minute, event)| Entry { at: Moment(minute * 60_000), event: event.clone() })
        .collect();
    check(&entries, plan)
}

#[track_caller]
fn breaks(invariant: u8, reason: &str, plan: &Plan, before: Vec<TraceEvent>, then: &[TraceEvent]) {
    assert_eq!(judge(plan, &before), [], "{reason}: before");
    let last = before.len() + then.len() - 1;
    let mut trace = before;
    trace.extend_from_slice(then);
    let found = judge(plan, &trace);
    let numbers: Vec<(u8, usize)> = found.iter().map(|it| (it.invariant, it.at)).collect();
    assert_eq!(numbers, [(invariant, last)], "{reason}: {found:?}");
}

#[track_caller]
fn holds(reason: &str, plan: &Plan, before: Vec<TraceEvent>, then: &[TraceEvent]) {
    let mut trace = before;
    trace.extend_from_slice(then);
    assert_eq!(judge(plan, &trace), [], "{reason}");
}

#[test]
fn a_whole_rollout_breaks_nothing() {
    let promoting = remembered(Phase::Promoting, "v1-b", 40);
    let mut succeeded = memory(Phase::Succeeded, "v1-b", 0);
    succeeded.promoted = Some(Revision::new("v1-b"));
    let rest = [
        promoting,
        TraceEvent::Templated(Box::new(template("v1-b")), Some(2)),
        TraceEvent::Looked,
        routed(0),
        remembered(Phase::Finalising, "v1-b", 0),
        TraceEvent::Scaled(Workload::Target, 0),
        TraceEvent::Remembered(Box::new(succeeded)),
        announced(Fact::Promoted),
        TraceEvent::Settled,
    ];
    holds("a rollout as it should be", &plan(), at(40), &rest);
}

// Invariant 1.
#[test]
fn weights_make_a_hundred() {
    for (primary, canary) in [(81, 20), (120, -20), (0, 20), (-1, 101)] {
        let bad = TraceEvent::Routed { primary, canary, mirrored: false };
        breaks(1, "no split", &plan(), started(), &[bad]);
    }
    holds("a split", &plan(), started(), &[routed(20)]);
}

// Invariant 2.
#[test]
fn no_share_for_a_side_without_pods() {
    let dead = |workload| [pods(workload, false), TraceEvent::Looked];
    let mut before = started();
    before.extend(dead(Workload::Target));
    breaks(2, "to a dead canary", &plan(), before, &[routed(20)]);
    let mut before = at(20);
    before.extend(dead(Workload::Primary));
    breaks(2, "to a dead primary", &plan(), before, &[routed(0)]);
    let mut before = at(20);
    before.push(pods(Workload::Primary, false));
    holds("it died after the look", &plan(), before, &[routed(0)]);
    let mut before = at(20);
    before.extend(dead(Workload::Target));
    holds("away from a dead canary", &plan(), before, &[routed(0)]);
}

// Invariant 3.
#[test]
fn clients_always_meet_pods() {
    let dead = vec![target_is("v1-a"), pods(Workload::Target, true), TraceEvent::Looked];
    let onto_primary = [TraceEvent::ApexSelects(Side::Primary)];
    breaks(3, "onto a primary that does not serve", &plan(), dead, &onto_primary);
    let early = vec![target_is("v1-a"), pods(Workload::Primary, true), TraceEvent::Looked];
    let park = [TraceEvent::Scaled(Workload::Target, 0)];
    breaks(3, "parked before clients moved", &plan(), early.clone(), &park);
    let whole = Plan { traffic: Traffic::Whole, ..plan() };
    let mut stranded = set_up();
    stranded.extend([pods(Workload::Target, true), TraceEvent::ApexSelects(Side::Canary)]);
    breaks(3, "parked while clients use it", &whole, stranded, &park);
    holds("clients move first", &plan(), early, &[onto_primary[0].clone(), park[0].clone()]);
}

// Invariant 4.
#[test]
fn the_share_rises_by_steps() {
    breaks(4, "a leap", &plan(), started(), &[routed(40)]);
    breaks(4, "a step that is none", &plan(), at(20), &[routed(30)]);
    breaks(4, "down without a reason", &plan(), at(40), &[routed(20)]);
    breaks(4, "in an idle phase", &plan(), set_up(), &[pods(Workload::Target, true), routed(20)]);
    let copies = TraceEvent::Routed { primary: 80, canary: 20, mirrored: true };
    breaks(4, "a share and copies", &plan(), started(), &[copies]);
    let unchecked = [TraceEvent::Checked(false), routed(40)];
    breaks(4, "without checks that passed", &plan(), at(20), &unchecked);
    let gone = [routed(20), TraceEvent::Looked, remembered(Phase::Failed, "v1-b", 0)];
    breaks(4, "failed and left behind", &plan(), started(), &gone);
    let stepped = Plan { promotion_step: 15, ..plan() };
    let promoting = || {
        let mut trace = at(40);
        trace.push(remembered(Phase::Promoting, "v1-b", 40));
        trace
    };
    breaks(4, "back by more than its step", &stepped, promoting(), &[routed(20)]);
    holds("back by its step", &stepped, promoting(), &[routed(25), routed(10), routed(0)]);
    let mut held = plan();
    held.manual = Some(ManualStep { weight: 10, resume: false });
    let lower = [TraceEvent::Planned(Box::new(held.clone())), routed(10)];
    holds("down to where a person wants it", &plan(), at(40), &lower);
    holds("no further than that", &held, started(), &[routed(10)]);
}

// Invariant 4.
#[test]
fn one_step_takes_one_interval() {
    let at_second = |seconds: &[i64], whats: &[TraceEvent]| {
        let mut entries: Vec<Entry> = (0_i64..)
            .zip(started())
            .map(|(index, event)| Entry { at: Moment(index - 100_000), event })
            .collect();
        let late = seconds.iter().zip(whats);
        entries.extend(
            late.map(|(second, event)| Entry { at: Moment(second * 1_000), event: event.clone() }),
        );
        let found = check(&entries, &plan());
        found.iter().map(|violation| violation.invariant).collect::<Vec<u8>>()
    };
    let steps = [routed(20), TraceEvent::Checked(true), routed(40)];
    assert_eq!(at_second(&[0, 59, 59], &steps), [4], "a second too early");
    assert_eq!(at_second(&[0, 60, 60], &steps), []);
    let retried = [routed(20), TraceEvent::Retried, TraceEvent::Checked(true), routed(40)];
    assert_eq!(at_second(&[0, 1, 2, 3], &retried), [], "a person asked for it");
}

// Invariant 6.
#[test]
fn a_promoted_revision_was_analysed() {
    let promote = |revision: &str| TraceEvent::Templated(Box::new(template(revision)), None);
    breaks(6, "before the end", &plan(), at(20), &[remembered(Phase::Promoting, "v1-b", 20)]);
    let unchecked = [TraceEvent::Checked(false), remembered(Phase::Promoting, "v1-b", 40)];
    breaks(6, "after checks that failed", &plan(), at(40), &unchecked);
    breaks(6, "without the intent", &plan(), at(40), &[promote("v1-b")]);
    let other = [remembered(Phase::Promoting, "v1-b", 40), promote("v1-c")];
    breaks(6, "another one", &plan(), at(40), &other);
    let skipped = Plan { skip: true, ..plan() };
    let at_once = [remembered(Phase::Promoting, "v1-b", 0), promote("v1-b")];
    holds("unless that was asked for", &skipped, started(), &at_once);
    let mut lied = memory(Phase::Succeeded, "v1-b", 0);
    lied.promoted = Some(Revision::new("v1-b"));
    let lied = [TraceEvent::Remembered(Box::new(lied))];
    breaks(6, "counts as promoted and is not", &plan(), started(), &lied);
    holds("deleted, it comes back", &plan(), set_up(), &[TraceEvent::PrimaryGone, promote("v1-a")]);
}

// Invariant 7.
#[test]
fn a_failed_revision_is_not_tried_again() {
    let failed = || {
        let mut trace = at(20);
        trace.extend([routed(0), TraceEvent::Looked, remembered(Phase::Failed, "v1-b", 0)]);
        trace
    };
    let again = [remembered(Phase::Progressing, "v1-b", 0)];
    breaks(7, "started again", &plan(), failed(), &again);
    let touched = [target_is("v1-c"), target_is("v1-b"), again[0].clone()];
    holds("until the target changes", &plan(), failed(), &touched);
}

// Invariant 8.
#[test]
fn nothing_is_seen_before_it_is_started() {
    let pushed = || {
        let mut trace = set_up();
        trace.extend([target_is("v1-b"), TraceEvent::Looked]);
        trace
    };
    let early = [remembered(Phase::Initialized, "v1-b", 0)];
    holds("the first of all is known", &plan(), vec![target_is("v1-b")], &early);
    let swallowed = [remembered(Phase::Succeeded, "v1-b", 0)];
    breaks(8, "swallowed", &plan(), pushed(), &swallowed);
    holds("started", &plan(), pushed(), &[remembered(Phase::Progressing, "v1-b", 0)]);
}

// Invariant 8.
#[test]
fn conditions_promise_only_what_the_primary_runs() {
    let says = |ready, promoted| [TraceEvent::Says(Claims { ready, promoted })];
    let pushed = || {
        let mut trace = set_up();
        trace.extend([target_is("v1-b"), TraceEvent::Looked]);
        trace
    };
    holds("the primary runs it", &plan(), set_up(), &says(true, true));
    breaks(8, "Promoted of the last revision", &plan(), pushed(), &says(false, true));
    breaks(8, "Ready with the last revision", &plan(), pushed(), &says(true, false));
    holds("neither", &plan(), pushed(), &says(false, false));
    let reverted = || {
        let mut trace = started();
        let mut over = memory(Phase::Succeeded, "v1-a", 0);
        over.promoted = Some(Revision::new("v1-a"));
        trace.extend([
            target_is("v1-a"),
            TraceEvent::Looked,
            TraceEvent::Remembered(Box::new(over)),
        ]);
        trace
    };
    breaks(8, "Promoted after a revert", &plan(), reverted(), &says(true, true));
    holds("Ready after a revert", &plan(), reverted(), &says(true, false));
}

// Invariant 9.
#[test]
fn another_revision_starts_from_nothing() {
    let pushed = || {
        let mut trace = at(20);
        trace.extend([target_is("v1-c"), TraceEvent::Looked]);
        trace
    };
    let restart = remembered(Phase::Progressing, "v1-c", 0);
    breaks(9, "with a share", &plan(), pushed(), std::slice::from_ref(&restart));
    breaks(
        9,
        "goes on as if nothing happened",
        &plan(),
        pushed(),
        &[TraceEvent::Checked(true), routed(40)],
    );
    let mut counted = memory(Phase::Progressing, "v1-c", 0);
    counted.failed_checks = 1;
    let counted = [routed(0), TraceEvent::Remembered(Box::new(counted))];
    breaks(9, "with counters", &plan(), pushed(), &counted);
    holds("share first", &plan(), pushed(), &[routed(0), restart]);
}

// Invariant 11.
#[test]
fn the_primary_keeps_its_pods() {
    breaks(11, "scaled to nothing", &plan(), set_up(), &[TraceEvent::Scaled(Workload::Primary, 0)]);
    let mut ready = at(40);
    ready.push(remembered(Phase::Promoting, "v1-b", 40));
    let parked = [TraceEvent::Templated(Box::new(template("v1-b")), Some(0))];
    breaks(11, "given the replicas of a parked target", &plan(), ready.clone(), &parked);
    let given = [TraceEvent::Templated(Box::new(template("v1-b")), Some(1))];
    holds("given fewer", &plan(), ready, &given);
}

// Invariant 12.
#[test]
fn a_canary_with_a_share_keeps_its_pods() {
    let park = TraceEvent::Scaled(Workload::Target, 0);
    breaks(12, "parked with a share", &plan(), at(20), std::slice::from_ref(&park));
    holds("parked without", &plan(), at(20), &[routed(0), park]);
}

// Invariant 13.
#[test]
fn no_pause_is_left_behind() {
    breaks(13, "at the primary", &plan(), set_up(), &[TraceEvent::ScalerPaused(Workload::Primary)]);
    let deleted = || {
        let mut trace = set_up();
        trace.extend([
            TraceEvent::ScalerPaused(Workload::Target),
            TraceEvent::Deleted,
            TraceEvent::Scaled(Workload::Target, 2),
            pods(Workload::Target, true),
            TraceEvent::Looked,
            TraceEvent::ApexSelects(Side::Canary),
        ]);
        trace
    };
    breaks(13, "after deletion", &plan(), deleted(), &[TraceEvent::Released]);
    let resumed = [TraceEvent::ScalerResumed(Workload::Target), TraceEvent::Released];
    holds("resumed first", &plan(), deleted(), &resumed);
}

// Invariant 14.
#[test]
fn it_comes_to_rest_with_all_clients_served() {
    let ending = |trace: Vec<TraceEvent>| {
        let mut checker = Checker::new(plan());
        for (index, event) in (0_i64..).zip(trace) {
            checker.see(&Entry { at: Moment(index * 60_000), event });
        }
        checker.at_rest().map(|violation| violation.invariant)
    };
    assert_eq!(ending(set_up()), None);
    assert_eq!(ending(at(20)), Some(14), "in mid-rollout");
    let mut edited = set_up();
    edited.push(TraceEvent::RouteEdited(Split::canary(Percent::clamped(30))));
    assert_eq!(ending(edited), Some(14), "with a share for nobody");
    let mut stranded = at(40);
    stranded.extend([
        remembered(Phase::Promoting, "v1-b", 40),
        TraceEvent::Templated(Box::new(template("v1-b")), None),
        TraceEvent::Pods(Workload::Primary, Pods { serving: true, ready: false, stuck: true }),
        TraceEvent::Looked,
        routed(100),
        remembered(Phase::Failed, "v1-b", 100),
    ]);
    assert_eq!(ending(stranded.clone()), None, "traffic stays where pods are healthy");
    stranded.push(pods(Workload::Primary, true));
    assert_eq!(ending(stranded), Some(14), "until the primary is");
}

// Invariant 15.
#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut resting = set_up();
    resting.push(TraceEvent::Settled);
    breaks(15, "a write", &plan(), resting.clone(), &[TraceEvent::Placed]);
    breaks(15, "an event", &plan(), resting.clone(), &[announced(Fact::Idle)]);
    holds("after a change", &plan(), resting, &[target_is("v1-b"), TraceEvent::Placed]);
}

// Invariant 16.
#[test]
fn waiting_has_a_reason_and_an_end() {
    breaks(16, "no reason", &plan(), set_up(), &[TraceEvent::Waits("")]);
    let stuck =
        TraceEvent::Pods(Workload::Target, Pods { serving: true, ready: false, stuck: true });
    let overdue = [stuck.clone(), TraceEvent::Looked, TraceEvent::Waits("CanaryNotReady")];
    breaks(16, "past the deadline", &plan(), started(), &overdue);
    let suspended = Plan { suspended: true, ..plan() };
    holds("told to do nothing", &suspended, started(), &overdue);
}

// Invariant 19.
#[test]
fn deletion_gives_everything_back() {
    let deleted = || {
        let mut trace = set_up();
        trace.push(TraceEvent::Deleted);
        trace
    };
    breaks(19, "at zero", &plan(), deleted(), &[TraceEvent::Released]);
    let back = [
        TraceEvent::Scaled(Workload::Target, 2),
        pods(Workload::Target, true),
        TraceEvent::Looked,
        TraceEvent::ApexSelects(Side::Canary),
        TraceEvent::Released,
    ];
    let early = [back[0].clone(), back[1].clone(), back[4].clone()];
    breaks(19, "clients are left", &plan(), deleted(), &early);
    holds("in order", &plan(), deleted(), &back);
    let mut late = deleted();
    late.extend(back);
    breaks(19, "the finalizer was not last", &plan(), late, &[TraceEvent::Placed]);
    holds(
        "nothing to give back to",
        &plan(),
        deleted(),
        &[TraceEvent::TargetGone, TraceEvent::Released],
    );
    let keeps = Plan { revert: false, ..plan() };
    holds("nobody asked for it", &keeps, deleted(), &[TraceEvent::Released]);
}

// Invariant 20.
#[test]
fn a_refused_canary_writes_nothing() {
    let refused = TraceEvent::Refused(true);
    breaks(20, "a write", &plan(), set_up(), &[refused.clone(), TraceEvent::Placed]);
    let told = [refused.clone(), announced(Fact::Refused(vec!["taken".to_owned()]))];
    holds("it is told", &plan(), set_up(), &told);
    let first = Memory { phase: Phase::Initializing, ..Memory::default() };
    let named = [refused.clone(), TraceEvent::Remembered(Box::new(first.clone()))];
    holds("its phase is named", &plan(), Vec::new(), &named);
    let more = Memory { failed_checks: 1, ..first };
    let counted = [refused.clone(), TraceEvent::Remembered(Box::new(more))];
    breaks(20, "more is remembered", &plan(), Vec::new(), &counted);
    holds("again", &plan(), set_up(), &[refused, TraceEvent::Refused(false), TraceEvent::Placed]);
}

// Invariant 21.
#[test]
fn no_write_without_leadership() {
    let lost = TraceEvent::Leads(false);
    breaks(21, "a write", &plan(), set_up(), &[lost.clone(), TraceEvent::Placed]);
    breaks(21, "an event", &plan(), set_up(), &[lost.clone(), announced(Fact::Idle)]);
    holds("regained", &plan(), set_up(), &[lost, TraceEvent::Leads(true), TraceEvent::Placed]);
}

// Invariant 22.
#[test]
fn hooks_and_alerts_once() {
    let alert = TraceEvent::Alerted(Box::new(Notice::NewRevision));
    breaks(22, "an alert", &plan(), set_up(), &[alert.clone(), alert.clone()]);
    let crash = [alert.clone(), TraceEvent::Restarted, alert.clone()];
    holds("after a crash once more", &plan(), set_up(), &crash);
    let moved = [alert.clone(), remembered(Phase::Succeeded, "v1-a", 0), alert];
    holds("elsewhere", &plan(), set_up(), &moved);
    let words = TraceEvent::Messaged("promoted".to_owned());
    breaks(22, "the same words", &plan(), set_up(), &[words.clone(), words.clone()]);
    let crash = [words.clone(), TraceEvent::Restarted, words];
    holds("after a crash once more", &plan(), set_up(), &crash);
    let pre = TraceEvent::Asked(GateKind::PreRollout, true);
    breaks(22, "pre-rollout", &plan(), started(), &[pre.clone(), pre.clone()]);
    let refused = [TraceEvent::Asked(GateKind::PreRollout, false), pre];
    holds("until it passed", &plan(), started(), &refused);
    let post = TraceEvent::Asked(GateKind::PostRollout, true);
    let mut failed = started();
    failed.push(remembered(Phase::Failed, "v1-b", 0));
    breaks(22, "post-rollout", &plan(), failed.clone(), &[post.clone(), post.clone()]);
    holds("on request", &plan(), failed, &[post.clone(), TraceEvent::Retried, post]);
}

// Invariant 23.
#[test]
fn an_event_is_announced_once() {
    let event = announced(Fact::CanaryNotReady(Unready::new("0 of 2", false)));
    breaks(23, "twice", &plan(), started(), &[event.clone(), event.clone()]);
    let other = announced(Fact::CanaryNotReady(Unready::new("1 of 2", false)));
    holds("another number", &plan(), started(), &[event.clone(), other]);
    let crash = [event.clone(), TraceEvent::Restarted, event.clone()];
    holds("after a crash once more", &plan(), started(), &crash);
    let moved = [event.clone(), remembered(Phase::Failed, "v1-b", 0), event];
    holds("elsewhere", &plan(), started(), &moved);
}
