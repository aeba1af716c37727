//! Gates that pass or hold, and hooks that roll back.

use super::*;

fn confirm_rollout(scene: Scene) -> Scene {
    scene.hooks(|hooks| hooks.confirm_rollout = true)
}

fn confirm_increase(scene: Scene) -> Scene {
    scene.hooks(|hooks| hooks.confirm_traffic_increase = true)
}

fn confirm_promotion(scene: Scene) -> Scene {
    scene.hooks(|hooks| hooks.confirm_promotion = true)
}

fn pre_rollout(scene: Scene) -> Scene {
    scene.hooks(|hooks| hooks.pre_rollout = true)
}

fn rollback(scene: Scene) -> Scene {
    scene.hooks(|hooks| hooks.rollback = true)
}

#[test]
fn confirm_rollout_is_asked_every_interval_until_it_is_open() {
    let pushed = || confirm_rollout(at_rest().target("v1-b"));
    let answered =
        |scene: Scene, gate: Gate| scene.answering(|answers| answers.confirm_rollout = Some(gate));
    table([
        ("asked", pushed(), "ask confirm-rollout"),
        ("a new revision at once", pushed().early(), "ask confirm-rollout"),
        ("again not early", pushed().phase(Phase::Waiting).early(), ""),
        ("closed", answered(pushed(), closed()), "remember phase=Waiting"),
        ("asked again", pushed().phase(Phase::Waiting), "ask confirm-rollout"),
        ("still closed", answered(pushed().phase(Phase::Waiting), closed()), ""),
        (
            "open",
            answered(pushed().phase(Phase::Waiting), open()),
            "scale 2 · remember phase=Progressing applied=v1-b",
        ),
        (
            "the target went back meanwhile",
            confirm_rollout(at_rest()).phase(Phase::Waiting),
            "remember phase=Succeeded",
        ),
        ("skipping the analysis skips no gate", pushed().skipping(), "ask confirm-rollout"),
    ]);
    let refused = answered(pushed(), closed());
    assert_eq!(refused.announces(), ["WaitingForApproval"]);
    assert_eq!(refused.alerts(), ["Warn Awaiting(ConfirmRollout)"]);
    assert_eq!(
        answered(pushed().phase(Phase::Waiting), closed()).announces(),
        [""; 0],
        "told once"
    );
    let mut quiet = closed();
    quiet.refused[0].muted = true;
    assert_eq!(answered(pushed(), quiet).alerts(), [""; 0], "muted");
}

#[test]
fn pre_rollout_runs_once_a_rollout() {
    let answered =
        |gate: Gate| pre_rollout(started()).answering(|answers| answers.pre_rollout = Some(gate));
    table([
        ("asked before any traffic", pre_rollout(started()), "ask pre-rollout"),
        ("closed", answered(closed()), "remember failed=1"),
        (
            "open: on in the same tick",
            answered(open()),
            "shift 10 · remember weight=10 prepared=true",
        ),
        ("not again at a share of nothing", pre_rollout(progressing(0)), {
            "shift 10 · remember weight=10"
        }),
        ("not before the canary is ready", pre_rollout(started()).canary(waiting(true)), ""),
        (
            "remembered although the primary is not ready",
            answered(open()).primary(waiting(true)),
            "remember prepared=true",
        ),
        (
            "remembered although the next gate is closed",
            confirm_increase(answered(open()))
                .answering(|answers| answers.confirm_traffic_increase = Some(closed())),
            "remember prepared=true",
        ),
    ]);
    assert_eq!(
        answered(open()).announces(),
        ["AnalysisStarted", "PreRolloutPassed", "WeightAdvanced"]
    );
    assert_eq!(answered(closed()).announces(), ["AnalysisStarted", "PreRolloutFailed"]);
}

#[test]
fn confirm_traffic_increase_gates_every_step_and_promotion() {
    let answered = |share: i64, gate: Gate| {
        confirm_increase(progressing(share).checked(true))
            .answering(|answers| answers.confirm_traffic_increase = Some(gate))
    };
    table([
        ("after checks", confirm_increase(progressing(10)), "check"),
        ("asked", confirm_increase(progressing(10)).checked(true), "ask confirm-traffic-increase"),
        ("open", answered(10, open()), "shift 20 · remember weight=20"),
        ("closed: no failed check", answered(10, closed()), ""),
        ("promotion too", confirm_increase(progressing(50)).checked(true), {
            "ask confirm-traffic-increase"
        }),
        (
            "not while copies are sent",
            confirm_increase(progressing(0))
                .planning(|plan| plan.mirror = true)
                .mirrored()
                .checked(true),
            "shift 10 · remember weight=10",
        ),
        (
            "not while waiting for approval",
            confirm_increase(progressing(50)).phase(Phase::WaitingPromotion).checked(true),
            "remember phase=Promoting · promote v1-b",
        ),
        (
            "not for A/B",
            {
                confirm_increase(progressing(100))
                    .strategy(Strategy::AbTesting, 2)
                    .iterated(1)
                    .checked(true)
            },
            "remember iterations=2",
        ),
    ]);
}

#[test]
fn confirm_promotion_is_asked_at_the_goal_and_checks_go_on() {
    let at_goal = || confirm_promotion(progressing(50)).checked(true);
    let answered = |scene: Scene, gate: Gate| {
        scene.answering(|answers| answers.confirm_promotion = Some(gate))
    };
    let waiting = |scene: Scene| scene.phase(Phase::WaitingPromotion);
    let blue = |scene: Scene| scene.strategy(Strategy::BlueGreen, 3).routed(0).iterated(3);
    let ab = |scene: Scene| scene.strategy(Strategy::AbTesting, 3).routed(100).iterated(3);
    let promoted = "remember phase=Promoting · promote v1-b";
    table([
        (
            "not below",
            confirm_promotion(progressing(40)).checked(true),
            "shift 50 · remember weight=50",
        ),
        ("asked", at_goal(), "ask confirm-promotion"),
        ("closed: routes stay", answered(at_goal(), closed()), {
            "remember phase=WaitingPromotion"
        }),
        ("checks go on", waiting(confirm_promotion(progressing(50))), "check"),
        (
            "and count",
            waiting(confirm_promotion(progressing(50))).checked(false),
            "remember failed=1",
        ),
        ("asked again", waiting(at_goal()), "ask confirm-promotion"),
        ("still closed", answered(waiting(at_goal()), closed()), ""),
        ("open", answered(waiting(at_goal()), open()), promoted),
        ("A/B", answered(ab(at_goal()), closed()), "remember phase=WaitingPromotion iterations=2"),
        ("blue/green", answered(blue(at_goal()), closed()), {
            "remember phase=WaitingPromotion iterations=2"
        }),
        (
            "blue/green, open: traffic moves first",
            answered(blue(at_goal()).phase(Phase::WaitingPromotion).iterated(2), open()),
            "shift 100 · remember iterations=4",
        ),
        (
            "and is not asked about again",
            blue(at_goal()).phase(Phase::WaitingPromotion).routed(100).iterated(4),
            "remember phase=Promoting · promote v1-b",
        ),
    ]);
    let refused = answered(at_goal(), closed());
    assert_eq!(refused.alerts(), ["Warn Awaiting(ConfirmPromotion)"]);
    assert_eq!(answered(waiting(at_goal()), closed()).alerts(), [""; 0]);
}

#[test]
fn a_rollback_hook_is_asked_in_every_phase_of_analysis() {
    let signalled = |answers: &mut Answers| answers.rollback = Some(Some("gate".to_owned()));
    let silent = |answers: &mut Answers| answers.rollback = Some(None);
    let gated = || {
        rollback(at_rest().target("v1-b").phase(Phase::Waiting))
            .hooks(|hooks| hooks.confirm_rollout = true)
    };
    let held = || rollback(progressing(20).paused(20).holding(20, false));
    let failed = "shift 0 · park · remember phase=Failed weight=0 prepared=false";
    table([
        ("progressing", rollback(progressing(20)), "ask rollback"),
        ("signals", rollback(progressing(20)).answering(signalled), failed),
        ("does not", rollback(progressing(20)).answering(silent), "check"),
        ("not early", rollback(progressing(20)).early(), ""),
        ("waiting for promotion", rollback(progressing(50)).phase(Phase::WaitingPromotion), {
            "ask rollback"
        }),
        ("held by hand", held(), "ask rollback"),
        ("held by hand, signals", held().answering(signalled), {
            "shift 0 · park · remember phase=Failed weight=0 pause=- prepared=false"
        }),
        ("waiting to start", gated(), "ask rollback"),
        (
            "waiting to start, signals: judged",
            gated().answering(signalled),
            "remember phase=Failed applied=v1-b",
        ),
        ("a canary in trouble with a share", rollback(progressing(20)).canary(waiting(false)), {
            "ask rollback"
        }),
        ("one without", rollback(started()).canary(waiting(false)), ""),
        (
            "not while promoting",
            rollback(promoting(50)),
            "shift 0 · remember phase=Finalising weight=0",
        ),
    ]);
    let decided = rollback(progressing(20)).answering(signalled);
    assert_eq!(decided.announces(), ["RollbackRequested", "RolledBackByHook", "Failed"]);
    assert_eq!(decided.alerts(), ["Warn RolledBackByHook"]);
}

#[test]
fn post_rollout_hooks_are_told_once_after_the_end() {
    let ended = |phase: Phase| {
        at_rest().phase(phase).hooks(|hooks| hooks.post_rollout = true).remembering(|memory| {
            memory.untold = Some(phase);
        })
    };
    let told = |answers: &mut Answers| answers.post_rollout = Some(open());
    let refused = |answers: &mut Answers| answers.post_rollout = Some(closed());
    table([
        ("asked at once", ended(Phase::Succeeded).early(), "ask post-rollout"),
        ("told", ended(Phase::Succeeded).answering(told), "remember untold=None"),
        ("what they say changes nothing", ended(Phase::Failed).answering(refused), {
            "remember untold=None"
        }),
        ("before a new revision starts", ended(Phase::Failed).target("v1-b"), "ask post-rollout"),
        (
            "the hook was removed",
            ended(Phase::Failed).planning(|plan| plan.hooks = Hooks::default()),
            { "remember untold=None" },
        ),
    ]);
    assert_eq!(ended(Phase::Failed).answering(refused).announces(), ["PostRolloutFailed"]);
    let both = |answers: &mut Answers| {
        let mut gate = closed();
        gate.refused.extend(closed().refused);
        answers.post_rollout = Some(gate);
    };
    let told = ended(Phase::Failed).answering(both).announces();
    assert_eq!(told, ["PostRolloutFailed", "PostRolloutFailed"], "each of them");
}

#[test]
fn another_try_asks_gates_at_once_and_counts_nothing() {
    let open_increase = |answers: &mut Answers| answers.confirm_traffic_increase = Some(open());
    let over = || at_rest().hooks(|hooks| hooks.post_rollout = true).retrying();
    table([
        ("the gate before a rollout", confirm_rollout(at_rest().target("v1-b")).retrying(), {
            "ask confirm-rollout"
        }),
        ("the gate before any traffic", pre_rollout(started()).retrying(), "ask pre-rollout"),
        (
            "refused, and not counted",
            pre_rollout(started())
                .retrying()
                .answering(|answers| answers.pre_rollout = Some(closed())),
            "clear retry",
        ),
        ("checks come before the gate", confirm_increase(progressing(10)).retrying(), "check"),
        ("failed, and not counted", confirm_increase(progressing(10)).retrying().checked(false), {
            "clear retry"
        }),
        (
            "an open gate leads one step on",
            confirm_increase(progressing(10)).retrying().checked(true).answering(open_increase),
            "clear retry · shift 20 · remember weight=20",
        ),
        ("without a gate nothing is hastened", progressing(10).retrying(), "clear retry"),
        (
            "nor for A/B",
            progressing(100).strategy(Strategy::AbTesting, 3).iterated(1).retrying(),
            "clear retry",
        ),
        (
            "the gate before promotion",
            confirm_promotion(progressing(50))
                .phase(Phase::WaitingPromotion)
                .retrying()
                .checked(true),
            "ask confirm-promotion",
        ),
        ("hooks after the end, once more", over(), "ask post-rollout"),
        (
            "and that was it",
            over().answering(|answers| answers.post_rollout = Some(open())),
            "clear retry",
        ),
        ("nothing to try", at_rest().retrying(), "clear retry"),
        ("suspended", at_rest().retrying().planning(|plan| plan.suspended = true), ""),
    ]);
}

#[test]
fn what_cannot_be_carried_out_is_told_once_a_rollout() {
    let note = |scene: Scene| scene.planning(|plan| plan.notes = vec![Note::MatchIgnored]);
    assert_eq!(note(at_rest().target("v1-b")).announces(), ["NotSupported", "NewRevision"]);
    assert_eq!(
        note(progressing(20).target("v1-c")).announces(),
        ["NotSupported", "AnalysisRestarted"]
    );
    assert_eq!(note(progressing(20)).checked(true).announces(), ["WeightAdvanced"]);
    assert_eq!(note(at_rest()).announces(), [""; 0]);
}
