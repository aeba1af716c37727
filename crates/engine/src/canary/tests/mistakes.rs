//! Mistakes of other controllers that must not happen here. The numbers are those of
//! [the list](../../../../../docs/mistakes.md#canaries).

use super::*;

// Mistake 1.
#[test]
fn a_primary_that_never_starts_does_not_kill_the_live_workload() {
    let scene = at_rest().phase(Phase::Initializing).replicas(2).canary(Readiness::Ready).early();
    assert_eq!(scene.primary(stuck(false)).does(), "", "neither parked nor rerouted");
}

// Mistake 2.
#[test]
fn a_fix_after_a_failed_promotion_does_not_route_to_the_broken_primary() {
    for scene in [stranded().target("v1-c"), rescuing().failing(3), rescuing().checked(true)] {
        assert!(!scene.does().contains("shift"), "{}", scene.does());
        assert!(!scene.does().contains("park"), "{}", scene.does());
    }
    let reverted = stranded().target("v1-a");
    assert_eq!(
        reverted.does(),
        "remember phase=Progressing applied=v1-a replaces_broken_primary=true"
    );
}

// Mistake 3.
#[test]
fn plain_services_do_not_leave_clients_on_the_broken_primary() {
    let scene = stranded().whole();
    assert_eq!(apex_side(&scene.0.plan, &scene.0.memory), Side::Canary);
    let scene = scene.with(|seen| seen.objects.apex_service = State::OutOfSync);
    assert_eq!(scene.does(), "put apex Service");
}

// Mistake 4.
#[test]
fn an_unasked_scale_to_zero_is_not_copied() {
    // Replicas are the executor's to copy; the target is brought back before there is a promotion.
    assert_eq!(progressing(50).replicas(0).checked(true).does(), "scale 2 · remember failed=1");
}

// Mistake 5.
#[test]
fn a_canary_without_pods_does_not_pass() {
    let blue = |scene: Scene| scene.strategy(Strategy::BlueGreen, 2).routed(0);
    table([
        ("at zero", blue(progressing(0)).iterated(2).replicas(0), "scale 2"),
        (
            "its scaler paused",
            { blue(progressing(0)).iterated(2).replicas(0).planning(|plan| plan.scaled = true) },
            "resume scaler · scale 2",
        ),
        (
            "its scaler paused, and about to act",
            {
                let scene = blue(progressing(0)).iterated(2).planning(|plan| plan.scaled = true);
                scene.with(|seen| seen.target.as_mut().unwrap().scaler_paused = true)
            },
            "resume scaler · scale 2",
        ),
        ("not yet up again", blue(progressing(0)).iterated(2).canary(waiting(false)), ""),
        ("skipping does not either", started().skipping().replicas(0), "scale 2"),
    ]);
}

// Mistake 8.
#[test]
fn a_revision_that_was_not_analysed_is_not_promoted() {
    assert_eq!(
        progressing(50).target("v1-c").checked(true).does(),
        "shift 0 · remember weight=0 applied=v1-c prepared=false"
    );
    let promoted = progressing(50).checked(true).decision();
    assert!(promoted.actions.contains(&Action::Promote(rev("v1-b"))), "by its fingerprint");
}

// Mistake 9.
#[test]
fn a_revision_is_not_swallowed() {
    let failed = || at_rest().phase(Phase::Failed).target("v1-b");
    for scene in [failed().primary(waiting(true)), failed().unrouted()] {
        assert_eq!(scene.does(), "", "nothing is written down");
    }
    let landed = progressing(20).failing(3).target("v1-c");
    assert_eq!(landed.why(), "AnalysisRestarted", "landing in a rollback it is not judged");
}

// Mistake 10.
#[test]
fn going_back_in_mid_flight_does_not_leave_an_abandoned_fingerprint() {
    let back = progressing(30).target("v1-a").does();
    assert!(back.contains("phase=Succeeded") && back.contains("applied=v1-a"), "{back}");
    assert!(!back.contains("promoted"), "it is what it was: {back}");
}

// Mistake 11.
#[test]
fn an_unlisted_share_does_not_jump_to_everything() {
    let list = |plan: &mut Plan| plan.steps = Steps::List(vec![5, 25, 45]);
    let scene = progressing(30).planning(list).checked(true);
    assert_eq!(scene.does(), "shift 45 · remember weight=45");
}

// Mistake 12.
#[test]
fn a_canary_that_became_invalid_takes_no_step_forward() {
    let flawed = |scene: Scene| {
        scene.with(|seen| seen.objects.spec_error = Some(Obstacle("of another tenant".to_owned())))
    };
    table([
        ("no check is asked for, and none counts", flawed(progressing(50)), "remember trouble=0"),
        ("nor is what one said", flawed(progressing(50).checked(true)), "remember trouble=0"),
        ("nor is it promoted for want of analysis", flawed(progressing(50).skipping()), {
            "remember trouble=0"
        }),
        ("nothing is begun", flawed(at_rest().target("v1-b")), ""),
        ("nor set up", flawed(at_rest().phase(Phase::New)), "remember phase=Initializing"),
    ]);
    assert_eq!(flawed(at_rest().target("v1-b")).why(), "Refused");
    let theirs = progressing(50).checked(true).with(|seen| seen.blockers = vec!["x".to_owned()]);
    assert_eq!((theirs.does().as_str(), theirs.why()), ("", "Refused"), "it is another's");
}

// Mistake 17.
#[test]
fn a_canary_that_became_invalid_can_go_back() {
    let flawed = |scene: Scene| {
        scene.with(|seen| {
            seen.objects.spec_error = Some(Obstacle("spec.provider: unknown".to_owned()));
        })
    };
    let for_minutes = |minutes: i64, scene: Scene| {
        scene.remembering(|memory| {
            memory.blocked_since = Some(Moment(NOW.0 - minutes * MINUTE));
        })
    };
    let back = "shift 0 · park · remember phase=Failed weight=0 prepared=false trouble=-";
    table([
        ("there is time to mend it", for_minutes(4, flawed(progressing(40))), ""),
        ("then it goes back", for_minutes(5, flawed(progressing(40))), back),
        ("held by hand too", for_minutes(5, flawed(progressing(40).paused(40))), {
            "shift 0 · park · remember phase=Failed weight=0 pause=- prepared=false trouble=-"
        }),
        ("a revision that nobody analysed has no share", flawed(progressing(40).target("v1-c")), {
            "shift 0 · remember weight=0 applied=v1-c prepared=false"
        }),
        ("going back to what was promoted ends it", flawed(progressing(40).target("v1-a")), {
            "shift 0 · park · remember phase=Succeeded weight=0 applied=v1-a prepared=false"
        }),
        (
            "whoever calls it back is heard",
            flawed(progressing(40).hooks(|hooks| hooks.rollback = true)),
            "ask rollback",
        ),
        ("a promotion that was given ends", flawed(promoting(40)), {
            "shift 0 · remember phase=Finalising weight=0"
        }),
        (
            "clients are not left on a canary that died",
            flawed(stranded().canary(waiting(false)).primary(waiting(true))),
            "shift 0 · remember weight=0",
        ),
    ]);
}

// Mistake 13.
#[test]
fn an_edited_route_does_not_run_pre_rollout_hooks_again() {
    let scene = progressing(30).routed(0).hooks(|hooks| hooks.pre_rollout = true);
    assert_eq!(scene.does(), "remember weight=0");
    let next = scene.remembering(|memory| memory.weight = Percent::ZERO);
    assert_eq!(next.does(), "shift 10 · remember weight=10");
}

// Mistake 14.
#[test]
fn promotion_neither_hangs_nor_fails_for_want_of_a_canary() {
    let stepped = |plan: &mut Plan| plan.promotion_step = 20;
    table([
        ("no share left to step back", promoting(0).planning(stepped), "remember phase=Finalising"),
        ("canary pods are lost", promoting(0).canary(stuck(false)), "remember phase=Finalising"),
        (
            "and in the end",
            promoting(0).phase(Phase::Finalising).canary(stuck(false)),
            "park · remember phase=Succeeded promoted=v1-b prepared=false",
        ),
    ]);
}

// Mistake 15.
#[test]
fn the_intent_comes_before_the_copy_and_the_end_is_told_after_a_crash() {
    let begin = progressing(50).checked(true).does();
    assert!(begin.find("phase=Promoting") < begin.find("promote v1-b"), "{begin}");
    let ended = progressing(20).failing(3).hooks(|hooks| hooks.post_rollout = true).does();
    assert!(ended.contains("untold=Some(Failed)"), "in the same write as the end: {ended}");
}

// Mistake 16.
#[test]
fn nothing_is_stuck_for_ever() {
    let ab = |scene: Scene| scene.strategy(Strategy::AbTesting, 2);
    table([
        ("iterations were lowered", ab(progressing(100)).iterated(5).checked(true), {
            "remember phase=Promoting · promote v1-b"
        }),
        (
            "steps that lead back",
            progressing(20)
                .planning(|plan| plan.steps = Steps::List(vec![20, 10, 40]))
                .checked(true),
            "shift 40 · remember weight=40",
        ),
        (
            "a gate whose revision is gone",
            at_rest().phase(Phase::Waiting).hooks(|hooks| hooks.confirm_rollout = true),
            "remember phase=Succeeded",
        ),
    ]);
}

// Mistake 17.
#[test]
fn traffic_is_not_left_with_dead_pods_unnoticed() {
    table([
        ("a failed check an interval", progressing(50).canary(waiting(false)), "remember failed=1"),
        ("not more often", progressing(50).canary(waiting(false)).early(), ""),
        ("a primary that scales stops no check", progressing(20).primary(waiting(true)), "check"),
        (
            "trouble around it does not stop a rollback",
            progressing(20).failing(3).with(|seen| {
                seen.objects.primary_scaler = State::Blocked(Obstacle("gone".to_owned()));
            }),
            "shift 0 · park · remember phase=Failed failed=0 weight=0 prepared=false",
        ),
    ]);
}

// Mistake 18.
#[test]
fn a_lost_status_does_not_declare_the_target_promoted() {
    let lost = || {
        at_rest()
            .phase(Phase::Initializing)
            .target("v1-b")
            .with(|seen| {
                seen.answers.backends = Some(Ok(()));
                seen.target.as_mut().unwrap().same_as_primary = false;
            })
            .replicas(2)
            .canary(Readiness::Ready)
    };
    let scene = lost();
    assert_eq!(
        scene.does(),
        "park · remember phase=Initialized applied=unknown promoted=unknown",
        "the target counts as new"
    );
    assert_eq!(
        lost().routed(30).does(),
        "shift 0 · park · remember phase=Initialized applied=unknown promoted=unknown",
        "and no share is left without pods"
    );
    let next = at_rest().phase(Phase::Initialized).target("v1-b").remembering(|memory| {
        memory.applied = Some(rev("unknown"));
        memory.promoted = Some(rev("unknown"));
    });
    assert_eq!(next.does(), "scale 2 · remember phase=Progressing applied=v1-b");
}

#[test]
fn a_split_that_is_refused_is_tried_again_until_the_deadline() {
    let refused = |scene: Scene, minutes: i64| {
        let scene = scene.remembering(|memory| {
            memory.blocked_since = Some(Moment(NOW.0 - minutes * MINUTE));
        });
        scene.with(|seen| seen.objects.shift_refused = Some(crate::Obstacle("invalid".to_owned())))
    };
    table([
        (
            "within it the step is taken if it can be, and only then the trouble is over",
            refused(progressing(10).checked(true), 4),
            "shift 20 · remember weight=20",
        ),
        (
            "past it the rollout goes back",
            refused(progressing(10).checked(true), 5),
            "shift 0 · park · remember phase=Failed weight=0 prepared=false trouble=-",
        ),
        (
            "a split that was written ends the trouble",
            refused(progressing(10), 4).with(|seen| seen.objects.shift_refused = None),
            "remember trouble=-",
        ),
    ]);
}

// Mistake 20.
#[test]
fn an_answer_that_comes_after_the_deletion_moves_nothing() {
    let deleted = |scene: Scene, held: bool| {
        scene.planning(|plan| plan.revert = held).with(|seen| {
            seen.lifecycle = Lifecycle { has_finalizer: held, deleted_at: Some(NOW) };
        })
    };
    for answered in [progressing(30).checked(true), progressing(50).checked(true)] {
        let does = deleted(answered.clone(), true).does();
        assert!(does.starts_with("remember phase=Terminating"), "{does}");
        assert!(!does.contains("shift") && !does.contains("promote"), "{does}");
        assert_eq!(deleted(answered, false).does(), "", "the rest goes with its owner");
    }
}

// Mistake 32.
#[test]
fn a_primary_nobody_knows_is_not_chosen_by_putting_a_route_back() {
    let bent = |scene: Scene| {
        scene.with(|seen| {
            seen.objects.primary = State::Blocked(Obstacle("what it ran is not known".to_owned()));
            seen.objects.route = State::OutOfSync;
        })
    };
    let lost = |scene: Scene| {
        bent(scene.primary(waiting(false)).unrouted()).with(|seen| seen.primary.exists = false)
    };
    table([
        ("in mid-flight", lost(progressing(30)), "remember trouble=0"),
        ("at rest", lost(at_rest()), ""),
        ("with a revision that nobody analysed", lost(at_rest().target("v1-b")), ""),
        ("one that is there serves, whoever owns it", bent(progressing(30)), "put routing objects"),
    ]);
    assert_eq!(lost(at_rest().target("v1-b")).why(), "Obstructed");
    let promoted = lost(promoting(30)).does();
    assert!(!promoted.contains("put"), "{promoted}");
}
