//! A rollout in progress.

use super::*;

#[test]
fn a_share_grows_by_one_step_for_each_check_that_passes() {
    let list = |scene: Scene| scene.planning(|plan| plan.steps = Steps::List(vec![1, 5, 40]));
    table([
        ("the first step needs no check", started(), "shift 10 · remember weight=10 prepared=true"),
        ("then checks are asked for", progressing(10), "check"),
        ("the next step", progressing(10).checked(true), "shift 20 · remember weight=20"),
        ("too early", progressing(10).early(), ""),
        (
            "the last step may go beyond",
            progressing(45).checked(true),
            "shift 55 · remember weight=55",
        ),
        (
            "at the maximum the primary is updated",
            progressing(50).checked(true),
            "remember phase=Promoting · promote v1-b",
        ),
        (
            "beyond it as well",
            progressing(60).checked(true),
            "remember phase=Promoting · promote v1-b",
        ),
        ("a list", list(progressing(5)).checked(true), "shift 40 · remember weight=40"),
        ("a share between", list(progressing(3)).checked(true), "shift 5 · remember weight=5"),
        (
            "past the end of the list",
            list(progressing(40)).planning(|plan| plan.max = pct(40)).checked(true),
            "remember phase=Promoting · promote v1-b",
        ),
        (
            "no step leads on",
            progressing(10).planning(|plan| plan.steps = Steps::By(0)).checked(true),
            "remember trouble=0",
        ),
    ]);
    assert_eq!(started().announces(), ["AnalysisStarted", "WeightAdvanced"]);
}

#[test]
fn copies_come_before_the_first_share() {
    let mirror = |scene: Scene| scene.planning(|plan| plan.mirror = true);
    table([
        ("one interval of copies", mirror(started()), "remember prepared=true · shift 0 mirrored"),
        ("which are checked", mirror(progressing(0)).mirrored(), "check"),
        (
            "then a share",
            mirror(progressing(0)).mirrored().checked(true),
            "shift 10 · remember weight=10",
        ),
    ]);
}

#[test]
fn matching_requests_meet_the_canary_for_some_checks() {
    let ab = |scene: Scene| scene.strategy(Strategy::AbTesting, 2);
    table([
        ("at once", ab(started()), "shift 100 · remember iterations=1 prepared=true"),
        ("checked", ab(progressing(100)).iterated(1), "check"),
        ("once more", ab(progressing(100)).iterated(1).checked(true), "remember iterations=2"),
        (
            "somebody took the share away",
            ab(progressing(0)).iterated(1).checked(true),
            "shift 100 · remember iterations=2",
        ),
        (
            "often enough",
            ab(progressing(100)).iterated(2).checked(true),
            "remember phase=Promoting · promote v1-b",
        ),
    ]);
}

#[test]
fn the_new_version_meets_no_clients_until_all_checks_passed() {
    let blue = |scene: Scene| scene.strategy(Strategy::BlueGreen, 2);
    let mirror = |scene: Scene| scene.planning(|plan| plan.mirror = true);
    table([
        ("first", blue(started()), "remember iterations=1 prepared=true"),
        ("checked", blue(progressing(0)).iterated(1), "check"),
        ("second", blue(progressing(0)).iterated(1).checked(true), "remember iterations=2"),
        (
            "everything at once",
            blue(progressing(0)).iterated(2).checked(true),
            "shift 100 · remember iterations=3",
        ),
        ("checked with everything", blue(progressing(100)).iterated(3), "check"),
        (
            "promoted",
            blue(progressing(100)).iterated(3).checked(true),
            "remember phase=Promoting · promote v1-b",
        ),
        (
            "copies from the start",
            mirror(blue(started())),
            "shift 0 mirrored · remember iterations=1 prepared=true",
        ),
        (
            "and no longer",
            mirror(blue(progressing(0))).mirrored().iterated(2).checked(true),
            "shift 100 · remember iterations=3",
        ),
        (
            "plain Services move nobody",
            progressing(0).whole().iterated(3).checked(true),
            "remember iterations=4",
        ),
    ]);
}

#[test]
fn a_canary_that_is_not_ready_is_waited_for() {
    table([
        ("before any traffic", started().canary(waiting(true)), ""),
        ("checks go on while it serves", progressing(20).canary(waiting(true)), "check"),
        ("but not the share", progressing(20).canary(waiting(true)).checked(true), ""),
        (
            "nor with a primary that is not",
            progressing(20).primary(waiting(true)).checked(true),
            "",
        ),
        ("a primary that scales stops no check", progressing(20).primary(waiting(true)), "check"),
    ]);
    assert_eq!(started().canary(waiting(true)).why(), "CanaryNotReady");
    assert_eq!(progressing(20).primary(waiting(true)).checked(true).why(), "PrimaryNotReady");
}

#[test]
fn a_failed_check_counts_and_too_many_end_it() {
    table([
        ("the first", progressing(20).checked(false), "remember failed=1"),
        ("the last but one", progressing(20).failing(1).checked(false), "remember failed=2"),
        (
            "too many: back at once",
            progressing(20).failing(3),
            "shift 0 · park · remember phase=Failed failed=0 weight=0 prepared=false",
        ),
        (
            "before the interval is over",
            progressing(20).failing(3).early(),
            "shift 0 · park · remember phase=Failed failed=0 weight=0 prepared=false",
        ),
    ]);
    assert_eq!(progressing(20).failing(2).checked(false).decision().again, Again::Now);
    assert_eq!(progressing(20).failing(3).alerts(), ["Error ThresholdReached(3)"]);
    assert_eq!(progressing(20).failing(3).announces(), ["ThresholdReached", "Failed"]);
}

#[test]
fn no_data_is_a_failed_check_that_is_told_apart() {
    let no_data = || Verdict::NoData("no values found".to_owned());
    table([("it counts", progressing(20).failing(1).judged(no_data()), "remember failed=2")]);
    assert_eq!(progressing(20).judged(no_data()).why(), "NotEnoughData");
    assert_eq!(progressing(20).judged(no_data()).announces(), ["NotEnoughData"]);
    assert_eq!(progressing(20).failing(2).judged(no_data()).decision().again, Again::Now);
}

#[test]
fn a_hold_for_want_of_data_counts_and_moves_nothing() {
    let held = || Verdict::Held("no values found".to_owned());
    let promotion = |scene: Scene| scene.phase(Phase::WaitingPromotion);
    table([
        ("on the way", progressing(20).failing(1).judged(held()), "remember without data=0"),
        ("at the goal", progressing(50).judged(held()), "remember without data=0"),
        ("while promotion waits", promotion(progressing(50)).judged(held()), ""),
        (
            "too many that failed before are too many",
            progressing(20).failing(3).judged(held()),
            "shift 0 · park · remember phase=Failed failed=0 weight=0 prepared=false",
        ),
    ]);
    let decision = progressing(20).judged(held()).decision();
    assert_eq!(decision.why.reason(), "WaitingForData");
    assert!(
        decision.starts_interval && decision.announces(&decision.why),
        "told, and an interval until the next"
    );
    assert_eq!(decision.again, Again::At(NOW.after(Duration::from_mins(1))));
}

#[test]
fn a_hold_for_want_of_data_lasts_no_longer_than_the_deadline() {
    let held = || Verdict::Held("no values found".to_owned());
    let ago = |minutes: i64| Some(Moment(NOW.0 - minutes * 60_000));
    let without = |since| {
        let scene = progressing(20).planning(|plan| plan.deadline = Duration::from_mins(10));
        scene.remembering(move |memory| memory.no_data_since = since)
    };
    table([
        ("a moment before", without(ago(9)).judged(held()), ""),
        ("it is up: the check counts", without(ago(10)).judged(held()), "remember failed=1"),
        ("and so does the next", without(ago(11)).failing(1).judged(held()), "remember failed=2"),
        (
            "data that is bad begins it anew",
            without(ago(11)).checked(false),
            "remember failed=1 without data=-",
        ),
        (
            "so does a clock that was put back",
            without(ago(-5)).judged(held()),
            "remember without data=0",
        ),
        (
            "a person who holds it is waited for",
            without(ago(60)).paused(20).holding(20, false).judged(held()),
            "remember without data=-",
        ),
        (
            "and one who is to approve",
            without(ago(60)).phase(Phase::WaitingPromotion).judged(held()),
            "remember without data=-",
        ),
    ]);
    assert_eq!(without(ago(10)).judged(held()).why(), "NotEnoughData");
    let passed = without(ago(9)).checked(true).does();
    assert!(passed.contains("without data=-"), "data that is good begins it anew: {passed}");
}

#[test]
fn the_deadline_ends_a_rollout_in_every_phase_of_analysis() {
    let failed = "shift 0 · park · remember phase=Failed weight=0 prepared=false";
    table([
        ("the canary", progressing(20).canary(stuck(true)), failed),
        ("early", progressing(20).canary(stuck(true)).early(), failed),
        ("the primary", progressing(20).primary(stuck(true)), failed),
        (
            "waiting for approval",
            progressing(50).phase(Phase::WaitingPromotion).canary(stuck(true)),
            failed,
        ),
        (
            "held by hand",
            progressing(20).paused(20).holding(20, false).canary(stuck(true)),
            "shift 0 · park · remember phase=Failed weight=0 pause=- prepared=false",
        ),
        ("without a share", started().canary(stuck(false)), "park · remember phase=Failed"),
        (
            "with a scaler",
            started().canary(stuck(false)).planning(|plan| plan.scaled = true),
            "pause scaler · park · remember phase=Failed",
        ),
    ]);
    let canary = progressing(20).canary(stuck(true));
    assert_eq!(canary.alerts(), ["Error DeadlineExceeded(\"1 of 2\")"]);
    let primary = progressing(20).primary(stuck(true));
    assert_eq!(primary.alerts(), ["Error DeadlineExceeded(\"the primary is not ready: 1 of 2\")"]);
    assert_eq!(
        primary.announces(),
        canary.announces(),
        "why it goes back is told, whoever is to blame"
    );
}

#[test]
fn another_revision_starts_from_nothing() {
    let restart = "shift 0 · remember weight=0 applied=v1-c prepared=false";
    table([
        ("in mid-flight", progressing(30).target("v1-c"), restart),
        ("early", progressing(30).target("v1-c").early(), restart),
        ("with failed checks", progressing(30).target("v1-c").failing(2), {
            "shift 0 · remember failed=0 weight=0 applied=v1-c prepared=false"
        }),
        (
            "waiting for approval",
            progressing(50).phase(Phase::WaitingPromotion).target("v1-c"),
            "shift 0 · remember phase=Progressing weight=0 applied=v1-c prepared=false",
        ),
        ("without a share", started().target("v1-c"), "remember applied=v1-c"),
        ("copies end too", progressing(0).mirrored().target("v1-c"), {
            "shift 0 · remember applied=v1-c prepared=false"
        }),
        (
            "copies need no primary to end",
            { progressing(0).mirrored().target("v1-c").primary(waiting(false)) },
            "shift 0 · remember applied=v1-c prepared=false",
        ),
        (
            "a share stays where somebody serves",
            { progressing(30).target("v1-c").primary(waiting(false)) },
            "",
        ),
        (
            "configuration counts",
            progressing(30).with(|seen| {
                seen.memory.configs = Some(configs("1"));
                seen.target.as_mut().unwrap().configs = Some(configs("2"));
            }),
            "shift 0 · remember weight=0 configs=Some(\"2\") prepared=false",
        ),
    ]);
    assert_eq!(progressing(30).target("v1-c").announces(), ["AnalysisRestarted"]);
}

#[test]
fn going_back_to_what_the_primary_runs_ends_it() {
    let back = "shift 0 · park · remember phase=Succeeded weight=0 applied=v1-a prepared=false";
    table([
        ("in mid-flight", progressing(30).target("v1-a"), back),
        (
            "waiting for approval",
            progressing(30).phase(Phase::WaitingPromotion).target("v1-a"),
            back,
        ),
        (
            "with another configuration it is another rollout",
            progressing(30).target("v1-a").with(|seen| {
                seen.memory.configs = Some(configs("1"));
                seen.target.as_mut().unwrap().configs = Some(configs("2"));
            }),
            "shift 0 · remember weight=0 applied=v1-a configs=Some(\"2\") prepared=false",
        ),
        (
            "not onto pods that are not there",
            { progressing(30).target("v1-a").primary(waiting(false)) },
            "",
        ),
    ]);
    assert_eq!(progressing(30).target("v1-a").announces(), ["RevisionReverted"]);
}

#[test]
fn routes_and_memory_that_disagree_are_settled_first() {
    table([
        ("we died after a step", progressing(10).routed(20), "remember weight=20"),
        ("somebody took it lower", progressing(30).routed(10), "remember weight=10"),
        ("somebody took it higher", progressing(10).routed(70), "shift 10"),
        ("and nobody else serves", progressing(10).routed(70).primary(waiting(false)), ""),
        ("held by hand", progressing(20).paused(20).holding(20, false).routed(50), "shift 20"),
        (
            "what waits for approval has no weight",
            { progressing(50).phase(Phase::WaitingPromotion).remembering(|it| it.weight = pct(0)) },
            "check",
        ),
        (
            "blue moved before its time",
            progressing(100).strategy(Strategy::BlueGreen, 3).iterated(1),
            "shift 0",
        ),
        (
            "we died after moving it",
            progressing(100).strategy(Strategy::BlueGreen, 3).iterated(3),
            "remember iterations=4",
        ),
        (
            "unless a gate stands there",
            progressing(100)
                .strategy(Strategy::BlueGreen, 3)
                .iterated(3)
                .hooks(|hooks| hooks.confirm_promotion = true),
            "shift 0",
        ),
    ]);
    assert!(
        progressing(10).routed(20).decision().starts_interval,
        "and the next step is an interval away"
    );
}

#[test]
fn lasting_trouble_counts_against_the_deadline() {
    let since =
        |ago: i64| move |memory: &mut Memory| memory.blocked_since = Some(Moment(NOW.0 - ago));
    let blocked = |scene: Scene| {
        scene.with(|seen| seen.objects.route = State::Blocked(Obstacle("denied".to_owned())))
    };
    table([
        ("it begins", blocked(progressing(20)), "remember trouble=0"),
        ("it lasts", blocked(progressing(20)).remembering(since(4 * MINUTE)), ""),
        (
            "too long",
            blocked(progressing(20)).remembering(since(5 * MINUTE)),
            "shift 0 · park · remember phase=Failed weight=0 prepared=false trouble=-",
        ),
        ("it is over", progressing(20).remembering(since(MINUTE)), "remember trouble=-"),
        ("routes cannot be read", progressing(20).unrouted(), "remember trouble=0"),
        (
            "the target is gone: its share goes back",
            progressing(20).gone(),
            "shift 0 · remember weight=0",
        ),
        ("then it is waited for", progressing(0).gone(), "remember trouble=0"),
        (
            "not for ever",
            progressing(0).gone().remembering(since(5 * MINUTE)),
            "remember phase=Failed prepared=false trouble=-",
        ),
        (
            "a clock that was put back begins anew",
            blocked(progressing(20)).remembering(since(-60 * MINUTE)),
            "remember trouble=0",
        ),
        ("a rollback needs no routes", progressing(20).unrouted().failing(3), {
            "shift 0 · park · remember phase=Failed failed=0 weight=0 prepared=false"
        }),
    ]);
}

#[test]
fn a_plan_that_is_edited_into_one_without_a_step_goes_back_in_time() {
    let since =
        |ago: i64| move |memory: &mut Memory| memory.blocked_since = Some(Moment(NOW.0 - ago));
    for step in [0, -5] {
        let nowhere = |scene: Scene| scene.planning(move |plan| plan.steps = Steps::By(step));
        table([
            ("it begins", nowhere(progressing(20)).checked(true), "remember trouble=0"),
            ("checks go on", nowhere(progressing(20)).remembering(since(4 * MINUTE)), "check"),
            ("and pass", nowhere(progressing(20)).remembering(since(4 * MINUTE)).checked(true), ""),
            (
                "or fail",
                nowhere(progressing(20)).remembering(since(4 * MINUTE)).checked(false),
                "remember failed=1",
            ),
            (
                "too long",
                nowhere(progressing(20)).remembering(since(5 * MINUTE)),
                "shift 0 · park · remember phase=Failed weight=0 prepared=false trouble=-",
            ),
            (
                "mended in time",
                progressing(20).remembering(since(4 * MINUTE)),
                "remember trouble=-",
            ),
            (
                "at the goal no step is needed",
                nowhere(progressing(50)).checked(true),
                "remember phase=Promoting · promote v1-b",
            ),
            (
                "held by hand it is waited for",
                nowhere(progressing(20).paused(20).holding(20, false))
                    .remembering(since(5 * MINUTE)),
                "remember trouble=-",
            ),
        ]);
        assert_eq!(nowhere(progressing(20)).checked(true).why(), "Obstructed");
    }
}

#[test]
fn objects_that_were_deleted_or_edited_come_back() {
    table([
        (
            "in mid-flight",
            progressing(20).with(|seen| seen.objects.canary_service = State::OutOfSync),
            { "put canary Service" },
        ),
        ("at rest", at_rest().with(|seen| seen.objects.primary = State::OutOfSync), {
            "put primary workload"
        }),
        (
            "the Service of clients",
            at_rest().with(|seen| seen.objects.apex_service = State::OutOfSync),
            { "put apex Service" },
        ),
        (
            "but not onto pods that are not there",
            at_rest()
                .primary(waiting(false))
                .with(|seen| seen.objects.apex_service = State::OutOfSync),
            "",
        ),
    ]);
}
