//! Everything is restored before the canary is gone.

use super::*;

fn deleted(scene: Scene) -> Scene {
    scene.planning(|plan| plan.revert = true).with(|seen| {
        seen.lifecycle =
            Lifecycle { has_finalizer: true, deleted_at: Some(Moment(NOW.0 - 60 * MINUTE)) };
    })
}

fn terminating() -> Scene {
    deleted(at_rest()).phase(Phase::Terminating).replicas(2).canary(Readiness::Ready)
}

#[test]
fn the_target_comes_back_then_clients_then_routes_and_the_finalizer_goes_last() {
    let apex = |seen: &mut Observed| seen.objects.apex_restored = State::OutOfSync;
    let route = |seen: &mut Observed| seen.objects.route_restored = State::OutOfSync;
    table([
        ("it is written down", deleted(at_rest()), "remember phase=Terminating"),
        ("the target first", terminating().with(apex).with(route).replicas(0), "scale 2"),
        (
            "its scaler before it",
            terminating().replicas(0).planning(|plan| plan.scaled = true),
            "resume scaler · scale 2",
        ),
        ("which must be ready", terminating().with(apex).canary(waiting(true)), ""),
        ("then clients", terminating().with(apex).with(route), "give apex back"),
        ("then routes", terminating().with(route), "give route back"),
        ("then it is over", terminating(), "remember phase=Terminated · release"),
        (
            "no scaler is left paused",
            terminating().planning(|plan| plan.scaled = true),
            "resume scaler · remember phase=Terminated · release",
        ),
        ("we died before the last write", terminating().phase(Phase::Terminated), "release"),
        (
            "and somebody scaled the target away",
            terminating().phase(Phase::Terminated).replicas(0),
            "scale 2",
        ),
        ("nobody asked for it", terminating().planning(|plan| plan.revert = false), "release"),
        (
            "without our finalizer",
            terminating().with(|seen| seen.lifecycle.has_finalizer = false),
            "",
        ),
    ]);
}

#[test]
fn a_target_that_is_gone_leaves_nothing_that_leads_to_what_goes() {
    let apex = |seen: &mut Observed| seen.objects.apex_restored = State::OutOfSync;
    let route = |seen: &mut Observed| seen.objects.route_restored = State::OutOfSync;
    table([
        (
            "a target that is gone needs nothing",
            terminating().gone(),
            "remember phase=Terminated · release",
        ),
        (
            "but clients must not be left with what goes with the canary",
            terminating().gone().with(apex).with(route),
            "give apex back",
        ),
        ("nor a route", terminating().gone().with(route), "give route back"),
    ]);
}

#[test]
fn deletion_is_heard_in_every_phase_and_above_every_switch() {
    let scenes = [
        at_rest().phase(Phase::New),
        at_rest().phase(Phase::Initializing),
        progressing(30),
        progressing(30).paused(30),
        promoting(50),
        stranded(),
        at_rest().planning(|plan| plan.suspended = true),
        at_rest().with(|seen| seen.blockers = vec!["taken".to_owned()]),
    ];
    for scene in scenes {
        assert!(deleted(scene.clone()).does().starts_with("remember phase=Terminating"));
    }
}

#[test]
fn a_target_that_does_not_come_back_is_not_waited_for_for_ever() {
    let since = |ago: i64| move |memory: &mut Memory| memory.since = Some(Moment(NOW.0 - ago));
    let unready = || terminating().canary(stuck(false));
    table([
        ("waited for", unready().remembering(since(14 * MINUTE)), ""),
        (
            "three deadlines",
            unready().remembering(since(15 * MINUTE)),
            "remember phase=Terminated · release",
        ),
        (
            "from when the way back began, not from when it was asked for",
            unready().with(|seen| seen.lifecycle.deleted_at = Some(Moment(0))),
            "",
        ),
        (
            "a clock that was put back begins anew",
            unready().remembering(since(-MINUTE)),
            "remember ",
        ),
        (
            "what blocks is not waited for either",
            terminating().remembering(since(15 * MINUTE)).with(|seen| {
                seen.objects.apex_restored = State::Blocked(Obstacle("no".to_owned()));
            }),
            "remember phase=Terminated · release",
        ),
    ]);
    let apex = |seen: &mut Observed| seen.objects.apex_restored = State::OutOfSync;
    let route = |seen: &mut Observed| seen.objects.route_restored = State::OutOfSync;
    let no = |seen: &mut Observed| {
        seen.objects.route_restored = State::Blocked(Obstacle("no".to_owned()));
    };
    let late = |scene: Scene| scene.remembering(since(15 * MINUTE));
    table([
        (
            "what outlives the canary is put in order all the same",
            late(unready()).with(apex).with(route),
            "give apex back · give route back · remember phase=Terminated · release",
        ),
        (
            "for a target that nobody can read too",
            late(unready()).with(route).with(|seen| {
                seen.target = Err(Missing::Unusable("paused".to_owned()));
            }),
            "give route back · remember phase=Terminated · release",
        ),
        (
            "but for what cannot be",
            late(unready()).with(apex).with(no),
            "give apex back · remember phase=Terminated · release",
        ),
        ("a route that cannot go back is tried for a while", terminating().gone().with(no), ""),
        (
            "and holds no canary for ever",
            late(terminating().gone()).with(no),
            "remember phase=Terminated · release",
        ),
    ]);
    let given_up = unready().remembering(since(15 * MINUTE));
    assert_eq!(given_up.alerts(), ["Error RevertGivenUp(\"1 of 2\")"]);
}
