//! Rollouts that start while nothing is rolled out, and changes that start none.

use super::*;

const START: &str = "scale 2 · remember phase=Progressing applied=v1-b";

#[test]
fn a_new_revision_starts_at_once_when_there_is_no_gate() {
    let failed = |revision: &str| {
        at_rest().phase(Phase::Failed).remembering(|memory| {
            memory.applied = Some(rev(revision));
        })
    };
    table([
        ("nothing changed", at_rest(), ""),
        ("after success", at_rest().target("v1-b"), START),
        ("early", at_rest().target("v1-b").early(), START),
        ("after initialisation", at_rest().phase(Phase::Initialized).target("v1-b"), START),
        ("after failure", failed("v1-x").target("v1-b"), START),
        ("it runs already", at_rest().target("v1-b").replicas(1), {
            "remember phase=Progressing applied=v1-b"
        }),
        (
            "its scaler first",
            at_rest().target("v1-b").planning(|plan| plan.scaled = true),
            "resume scaler · scale 2 · remember phase=Progressing applied=v1-b",
        ),
        (
            "configuration counts",
            at_rest().with(|seen| {
                seen.memory.configs = Some(configs("1"));
                seen.target.as_mut().unwrap().configs = Some(configs("2"));
            }),
            "scale 2 · remember phase=Progressing configs=Some(\"2\")",
        ),
        (
            "tracking that was switched on is a change",
            at_rest().with(|seen| seen.target.as_mut().unwrap().configs = Some(configs("1"))),
            "scale 2 · remember phase=Progressing configs=Some(\"1\")",
        ),
        (
            "switched off it is not",
            at_rest().remembering(|memory| memory.configs = Some(configs("1"))),
            "",
        ),
    ]);
    let start = at_rest().target("v1-b");
    assert_eq!(start.announces(), ["NewRevision"]);
    assert_eq!(start.alerts(), ["Info NewRevision"]);
}

#[test]
fn counters_of_the_last_rollout_are_gone() {
    let scene = at_rest().target("v1-b").failing(2).remembering(|memory| {
        memory.prepared = true;
        memory.blocked_since = Some(NOW);
    });
    let want =
        "scale 2 · remember phase=Progressing failed=0 applied=v1-b prepared=false trouble=-";
    assert_eq!(scene.does(), want);
}

#[test]
fn a_target_that_equals_the_primary_is_written_down_and_not_rolled_out() {
    let same = |scene: Scene| {
        scene.target("v1-b").with(|seen| seen.target.as_mut().unwrap().same_as_primary = true)
    };
    table([
        ("defaults were filled in", same(at_rest()), "remember applied=v1-b promoted=v1-b"),
        ("at the beginning", same(at_rest().phase(Phase::Initialized)), {
            "remember applied=v1-b promoted=v1-b"
        }),
    ]);
}

#[test]
fn a_failed_revision_rests_until_something_changes() {
    let failed = || {
        at_rest().phase(Phase::Failed).target("v1-b").remembering(|memory| {
            memory.applied = Some(rev("v1-b"));
        })
    };
    table([
        ("it rests", failed(), ""),
        ("so it does with pods of its own", failed().replicas(2), ""),
        (
            "the target goes back: that is followed",
            failed().target("v1-a"),
            "remember applied=v1-a",
        ),
        (
            "and so the failed one is new when it comes again",
            failed().remembering(|memory| memory.applied = Some(rev("v1-a"))),
            START,
        ),
        (
            "back to what the primary was given and does not run",
            failed().target("v1-a").with(|seen| {
                seen.target.as_mut().unwrap().same_as_primary = false;
            }),
            "scale 2 · remember phase=Progressing applied=v1-a",
        ),
    ]);
    assert_eq!(failed().replicas(2).why(), "IdleTargetRuns");
}

#[test]
fn a_revision_waits_for_a_primary_that_is_not_ready_and_rescues_one_that_is_stuck() {
    let pushed = || at_rest().target("v1-b");
    table([
        ("not ready", pushed().primary(waiting(true)), ""),
        (
            "stuck: only another revision can mend it",
            pushed().primary(stuck(true)),
            "scale 2 · remember phase=Progressing applied=v1-b replaces_broken_primary=true",
        ),
        (
            "stuck, with a closed gate",
            pushed()
                .primary(stuck(true))
                .hooks(|hooks| hooks.confirm_rollout = true)
                .answering(|answers| answers.confirm_rollout = Some(closed())),
            "remember phase=Waiting replaces_broken_primary=true",
        ),
        ("skipping waits for nobody", pushed().primary(waiting(true)).skipping(), START),
        ("routes cannot be read", pushed().unrouted(), ""),
        ("the target is gone", pushed().gone(), ""),
    ]);
    assert_eq!(pushed().primary(waiting(true)).why(), "PrimaryNotReady");
}

#[test]
fn a_share_that_was_not_approved_goes_back() {
    table([
        ("a share", at_rest().routed(30), "shift 0"),
        ("copies", at_rest().mirrored(), "shift 0"),
        (
            "waiting for a gate",
            at_rest().phase(Phase::Waiting).target("v1-b").routed(30),
            "shift 0",
        ),
        ("not to nobody", at_rest().routed(30).primary(waiting(false)), ""),
    ]);
}

#[test]
fn a_lost_mark_of_a_hold_is_not_a_closed_gate() {
    let lost = || progressing(20).phase(Phase::Waiting).holding(20, false);
    table([
        ("the hold goes on", lost(), "remember pause=20"),
        (
            "with another revision it is none",
            lost().target("v1-c").primary(Readiness::Ready),
            "shift 0 · remember weight=0 replaces_broken_primary=true",
        ),
    ]);
}

#[test]
fn unused_objects_go_only_while_nothing_can_need_them() {
    let left = || at_rest().with(|seen| seen.objects.orphans = true);
    table([
        ("at rest", left(), "prune"),
        ("after a failure the primary is what it was", left().phase(Phase::Failed), "prune"),
        ("pods of the revision before may still read it", left().primary(waiting(true)), ""),
        ("a new revision is not kept waiting", left().target("v1-b"), START),
        (
            "a failed promotion left clients on the canary",
            left().phase(Phase::Failed).remembering(|memory| memory.weight = pct(100)).with(
                |seen| {
                    seen.routes = Ok(Split::CANARY);
                    seen.primary.readiness = waiting(true);
                    let target = seen.target.as_mut().unwrap();
                    target.readiness = Readiness::Ready;
                    target.replicas = 2;
                },
            ),
            "",
        ),
    ]);
}
