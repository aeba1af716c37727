//! A person holds a rollout at a share.

use super::*;

fn hold(share: i64, at: i64) -> Scene {
    progressing(share).holding(at, false).checked(true)
}

#[test]
fn it_holds_at_the_share_and_goes_on_when_told() {
    table([
        ("below, a step is a step", hold(0, 30), "shift 10 · remember weight=10"),
        (
            "the step that gets there holds",
            hold(20, 30),
            "shift 30 · remember phase=Waiting weight=30 pause=30",
        ),
        ("between steps", hold(20, 25), "shift 25 · remember phase=Waiting weight=25 pause=25"),
        (
            "between entries of a list",
            hold(10, 15).planning(|plan| plan.steps = Steps::List(vec![10, 20, 50])),
            "shift 15 · remember phase=Waiting weight=15 pause=15",
        ),
        (
            "beyond the maximum means at it",
            hold(40, 90),
            "shift 50 · remember phase=Waiting weight=50 pause=50",
        ),
        ("held: checks go on", progressing(30).paused(30).holding(30, false), "check"),
        ("and pass", progressing(30).paused(30).holding(30, false).checked(true), ""),
        (
            "or fail, and the hold stays",
            { progressing(30).paused(30).holding(30, false).checked(false) },
            "remember failed=1",
        ),
        ("resumed", progressing(30).paused(30).holding(30, true).early(), {
            "remember phase=Progressing pause=- · drop manual step"
        }),
        ("removed", progressing(30).paused(30).early(), "remember phase=Progressing pause=-"),
        (
            "on from there by the step",
            progressing(25).checked(true),
            "shift 35 · remember weight=35",
        ),
        (
            "on from there by the list",
            progressing(15)
                .planning(|plan| plan.steps = Steps::List(vec![10, 20, 50]))
                .checked(true),
            "shift 20 · remember weight=20",
        ),
        ("at the maximum promotion follows", progressing(50).checked(true), {
            "remember phase=Promoting · promote v1-b"
        }),
    ]);
    let held = hold(20, 30);
    assert_eq!(held.announces(), ["WeightAdvanced", "Paused"]);
    assert_eq!(held.alerts(), ["Warn Held(Percent(30))"]);
    assert_eq!(progressing(30).paused(30).holding(30, true).announces(), ["Resumed"]);
}

#[test]
fn changes_that_never_raise_traffic_happen_at_once() {
    table([
        ("added late: down to it", progressing(40).holding(20, false).early(), {
            "shift 20 · remember phase=Waiting weight=20 pause=20"
        }),
        ("added at the share", progressing(20).holding(20, false).early(), {
            "remember phase=Waiting pause=20"
        }),
        ("lowered while held", progressing(30).paused(30).holding(10, false).early(), {
            "shift 10 · remember weight=10 pause=10"
        }),
        ("raised while held", progressing(30).paused(30).holding(40, false).early(), {
            "remember phase=Progressing pause=-"
        }),
        ("which waits for the interval", progressing(30).holding(40, false).early(), ""),
        ("not onto nobody", progressing(40).holding(20, false).early().primary(waiting(false)), ""),
        (
            "added while waiting for promotion",
            {
                progressing(50)
                    .phase(Phase::WaitingPromotion)
                    .remembering(|memory| memory.weight = Percent::ZERO)
                    .holding(20, false)
                    .early()
            },
            "shift 20 · remember phase=Waiting weight=20 pause=20",
        ),
    ]);
}

#[test]
fn a_hold_at_nothing_comes_after_the_first_gate_and_before_any_traffic() {
    let pre = |scene: Scene| scene.hooks(|hooks| hooks.pre_rollout = true);
    table([
        ("the gate", pre(started()).holding(0, false), "ask pre-rollout"),
        (
            "then the hold",
            pre(started())
                .holding(0, false)
                .answering(|answers| answers.pre_rollout = Some(open())),
            "remember phase=Waiting pause=0 prepared=true",
        ),
        ("nothing is measured", progressing(0).paused(0).holding(0, false), ""),
        (
            "rollback hooks are asked",
            { progressing(0).paused(0).holding(0, false).hooks(|hooks| hooks.rollback = true) },
            "ask rollback",
        ),
        (
            "copies do not start",
            { started().holding(0, false).planning(|plan| plan.mirror = true) },
            "remember phase=Waiting pause=0 prepared=true",
        ),
        ("copies end", progressing(0).mirrored().holding(0, false), {
            "shift 0 · remember phase=Waiting pause=0"
        }),
        (
            "copies come first otherwise",
            { started().holding(20, false).planning(|plan| plan.mirror = true) },
            "remember prepared=true · shift 0 mirrored",
        ),
    ]);
}

#[test]
fn gates_are_not_asked_while_held() {
    let hooks = |scene: Scene| {
        scene.hooks(|hooks| {
            hooks.confirm_traffic_increase = true;
            hooks.confirm_promotion = true;
            hooks.confirm_rollout = true;
        })
    };
    table([
        ("held", hooks(progressing(50).paused(50).holding(50, false)).checked(true), ""),
        ("lowering is not gated", hooks(progressing(40).holding(20, false)), {
            "shift 20 · remember phase=Waiting weight=20 pause=20"
        }),
        ("leaving it is", hooks(progressing(30)).checked(true), "ask confirm-traffic-increase"),
        ("a resume asks nobody whether to start", hooks(progressing(30).paused(30)), {
            "remember phase=Progressing pause=-"
        }),
    ]);
}

#[test]
fn another_revision_voids_a_resume() {
    let pushed = |resume| progressing(30).paused(30).holding(30, resume).target("v1-c");
    table([
        (
            "the hold applies to the new one",
            pushed(false),
            "shift 0 · remember phase=Progressing weight=0 applied=v1-c pause=- prepared=false",
        ),
        (
            "a resume was for the old one",
            pushed(true),
            "shift 0 · take resume back · remember phase=Progressing weight=0 applied=v1-c pause=- prepared=false",
        ),
    ]);
    assert_eq!(pushed(true).announces(), ["AnalysisRestarted", "ResumeIgnored"]);
}

#[test]
fn too_many_failed_checks_end_a_hold_and_leave_the_wish() {
    let failed = progressing(30).paused(30).holding(30, false).failing(3);
    assert_eq!(
        failed.does(),
        "shift 0 · park · remember phase=Failed failed=0 weight=0 pause=- prepared=false"
    );
}

#[test]
fn a_resume_that_finds_nothing_held_goes_away() {
    table([
        (
            "below the share: the hold is off",
            progressing(10).holding(30, true).early(),
            "drop manual step",
        ),
        (
            "with the step, if that is due: what cannot be removed holds nothing up",
            progressing(10).holding(30, true).checked(true),
            "drop manual step · shift 20 · remember weight=20",
        ),
        ("at rest", at_rest().holding(30, true), "drop manual step"),
        (
            "at rest, with something to start",
            at_rest().target("v1-b").holding(30, true),
            "drop manual step · scale 2 · remember phase=Progressing applied=v1-b",
        ),
        (
            "waiting for a gate",
            at_rest()
                .phase(Phase::Waiting)
                .target("v1-b")
                .holding(30, true)
                .hooks(|hooks| hooks.confirm_rollout = true)
                .answering(|answers| answers.confirm_rollout = Some(closed())),
            "drop manual step",
        ),
        ("a wish at rest stays", at_rest().holding(30, false), ""),
        ("suspended", at_rest().holding(30, true).planning(|plan| plan.suspended = true), ""),
    ]);
    let due = progressing(10).holding(30, true).checked(true);
    assert_eq!(due.announces(), ["Resumed", "WeightAdvanced"]);
    assert_eq!(at_rest().holding(30, true).announces(), ["NothingToResume"]);
}

#[test]
fn only_a_rollout_by_weight_can_be_held() {
    table([
        (
            "A/B",
            progressing(100)
                .strategy(Strategy::AbTesting, 3)
                .iterated(1)
                .holding(0, false)
                .checked(true),
            "remember iterations=2",
        ),
        (
            "plain Services",
            progressing(0).whole().iterated(1).holding(0, false).checked(true),
            "remember iterations=2",
        ),
        (
            "it became one while held",
            progressing(30).paused(30).holding(30, false).strategy(Strategy::AbTesting, 3),
            "remember phase=Progressing pause=-",
        ),
        ("skipping wins", progressing(30).paused(30).holding(30, false).skipping(), {
            "shift 0 · remember phase=Promoting weight=0 pause=- · promote v1-b"
        }),
    ]);
}

#[test]
fn a_wish_beyond_the_maximum_is_told_where_it_matters() {
    let note = Note::ManualStepBeyondMax { weight: 90, max: pct(50) };
    let told = |scene: Scene| scene.planning(|plan| plan.notes = vec![note.clone()]).announces();
    assert_eq!(told(hold(40, 90)), ["NotSupported", "WeightAdvanced", "Paused"]);
    assert_eq!(told(hold(10, 90)), ["WeightAdvanced"]);
}
