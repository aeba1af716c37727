//! The spec names another route in mid-rollout, or becomes one that cannot be carried out.

use super::*;

fn formerly(scene: Scene, state: State) -> Scene {
    scene.with(|seen| seen.objects.previous_route = state)
}

fn blocked() -> State {
    State::Blocked(Obstacle("refused".to_owned()))
}

fn in_trouble_for(minutes: i64, scene: Scene) -> Scene {
    scene.remembering(|memory| {
        memory.blocked_since = Some(Moment(NOW.0 - minutes * MINUTE));
    })
}

#[test]
fn a_route_that_was_left_behind_has_its_share_taken_at_once() {
    let behind = |scene: Scene| formerly(scene.early(), State::OutOfSync);
    let unplaced = |scene: Scene| scene.with(|seen| seen.objects.route = State::OutOfSync);
    table([
        ("in mid-rollout", behind(progressing(30)), "leave route"),
        ("whatever the new one is", behind(progressing(30).unrouted()), "leave route"),
        ("before the new one has a share", behind(unplaced(progressing(30))), "leave route"),
        ("and then that one", unplaced(progressing(30)).early().unrouted(), "put routing objects"),
        ("held by hand", behind(progressing(20).paused(20).holding(20, false)), "leave route"),
        ("in promotion", behind(promoting(50)), "leave route"),
        (
            "never to a primary that cannot serve",
            behind(unplaced(progressing(30)).unrouted().primary(waiting(false))),
            "remember trouble=0",
        ),
        ("nor to one that broke", behind(stranded()), ""),
        ("once that is well", behind(stranded().primary(Readiness::Ready)), "leave route"),
    ]);
    assert_eq!(behind(progressing(30)).announces(), ["RouteLeft"]);
}

#[test]
fn a_share_that_is_taken_over_is_watched_for_an_interval() {
    for takes_over in [true, false] {
        let scene = progressing(30).with(|seen| {
            seen.objects.route = State::OutOfSync;
            seen.objects.takes_over = takes_over;
        });
        let decision = scene.decision();
        assert_eq!(
            (decision.why.reason(), decision.starts_interval),
            ("ObjectWritten", takes_over)
        );
    }
}

#[test]
fn pods_are_not_taken_away_while_a_former_route_may_lead_to_them() {
    for scene in [progressing(30).failing(3), progressing(30).target("v1-a")] {
        let held = formerly(scene.clone(), blocked());
        assert_eq!((held.does().as_str(), held.why()), ("", "Obstructed"));
        let dead = formerly(scene.primary(waiting(false)), State::OutOfSync);
        assert_eq!((dead.does().as_str(), dead.why()), ("", "RollbackHeld"));
    }
    // A primary that broke in a promotion takes no clients over before it is ready, unless no other pods serve.
    let dead = || stranded().canary(waiting(false)).primary(waiting(true));
    table([
        ("what is dead is left", formerly(dead(), State::OutOfSync), "leave route"),
        ("or waited for", formerly(dead(), blocked()), ""),
        (
            "what a new route says is not the share that was left",
            formerly(stranded(), blocked()),
            "",
        ),
    ]);
    table([
        ("it is in the way", formerly(progressing(30), blocked()), "remember trouble=0"),
        ("for as long as it is", in_trouble_for(5, formerly(progressing(30), blocked())), ""),
        (
            "a route that is missing has no share, and does not hold it up",
            in_trouble_for(5, progressing(30).unrouted()),
            "shift 0 · park · remember phase=Failed weight=0 prepared=false trouble=-",
        ),
    ]);
}

#[test]
fn a_spec_that_becomes_one_that_cannot_be_carried_out_counts_against_the_deadline() {
    let flawed = |scene: Scene| {
        scene.with(|seen| {
            seen.objects.spec_error = Some(Obstacle("spec.service: needed".to_owned()));
            seen.objects.route = State::OutOfSync;
        })
    };
    table([
        ("nothing is put in place by it", flawed(progressing(30)), "remember trouble=0"),
        ("it may be mended", in_trouble_for(4, flawed(progressing(30))), ""),
        ("in time", in_trouble_for(4, progressing(30)).early(), "remember trouble=-"),
        (
            "or it goes back",
            in_trouble_for(5, flawed(progressing(30))),
            "shift 0 · park · remember phase=Failed weight=0 prepared=false trouble=-",
        ),
        (
            "also where traffic is whole",
            in_trouble_for(5, flawed(progressing(0)).whole()),
            "park · remember phase=Failed prepared=false trouble=-",
        ),
        ("nothing is begun", flawed(at_rest()).target("v1-b"), ""),
    ]);
    assert_eq!(flawed(progressing(30)).why(), "Obstructed");
}

#[test]
fn a_route_that_takes_over_begins_with_the_share_that_was_approved() {
    let ab = |iterations| progressing(100).strategy(Strategy::AbTesting, 3).iterated(iterations);
    let green = |iterations| progressing(0).strategy(Strategy::BlueGreen, 2).iterated(iterations);
    let cases = vec![
        ("by weight", progressing(30), 30),
        ("held by hand", progressing(20).paused(20), 20),
        ("before the first step", started(), 0),
        ("pods that do not serve get nothing", progressing(30).canary(waiting(false)), 0),
        ("nor those that are not there", progressing(30).replicas(0), 0),
        ("nor those of another revision", progressing(30).target("v1-c"), 0),
        ("nor without a workload", progressing(30).gone(), 0),
        ("at the goal", progressing(0).phase(Phase::WaitingPromotion), 50),
        (
            "checks that were counted are no share",
            progressing(0).phase(Phase::WaitingPromotion).iterated(2),
            0,
        ),
        ("nor what was rejected", progressing(30).failing(3), 0),
        ("on the way back", promoting(20), 20),
        ("all the way", promoting(0).phase(Phase::Finalising), 0),
        ("a test has begun", ab(1), 100),
        ("a test has not", ab(0), 0),
        ("not all checks passed", green(2), 0),
        ("all did", green(3), 100),
        ("what cannot be divided", progressing(30).whole(), 0),
    ];
    for (reason, scene, want) in cases {
        let Observed { plan, memory, target, .. } = &scene.0;
        assert_eq!(inherited_share(plan, memory, target.as_ref().ok()), pct(want), "{reason}");
    }
}
