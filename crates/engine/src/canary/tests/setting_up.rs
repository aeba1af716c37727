//! From nothing to a primary that serves.

use super::*;

/// The actions that end the setup.
const DONE: &str = "park · remember phase=Initialized applied=v1-a promoted=v1-a";

fn setting_up() -> Scene {
    let scene = at_rest().phase(Phase::Initializing).replicas(2).canary(Readiness::Ready);
    scene.answering(|answers| answers.backends = Some(Ok(()))).remembering(|memory| {
        memory.applied = None;
        memory.promoted = None;
    })
}

fn missing(mut scene: Scene, pieces: &[ManagedObject]) -> Scene {
    let objects = &mut scene.0.objects;
    for piece in pieces {
        *match piece {
            ManagedObject::CanaryService => &mut objects.canary_service,
            ManagedObject::PrimaryService => &mut objects.primary_service,
            ManagedObject::Primary => &mut objects.primary,
            ManagedObject::PrimaryScaler => &mut objects.primary_scaler,
            ManagedObject::ApexService => &mut objects.apex_service,
            ManagedObject::Route => &mut objects.route,
        } = State::OutOfSync;
    }
    scene
}

#[test]
fn pieces_are_put_in_place_one_by_one_and_the_target_is_parked_last() {
    let all = ManagedObject::ALL;
    table([
        ("nothing was done", at_rest().phase(Phase::New), "remember phase=Initializing"),
        ("the canary Service is first", missing(setting_up(), &all), "put canary Service"),
        ("then the primary's", missing(setting_up(), &all[1..]), "put primary Service"),
        ("then the primary", missing(setting_up(), &all[2..]), "put primary workload"),
        (
            "which must be ready before clients move",
            missing(setting_up(), &all[3..]).primary(waiting(true)),
            "",
        ),
        ("then its scaler", missing(setting_up(), &all[3..]), "put primary scaler"),
        ("then clients", missing(setting_up(), &all[4..]), "put apex Service"),
        ("then routes", missing(setting_up(), &all[5..]), "put routing objects"),
        ("then the target goes", setting_up(), DONE),
        (
            "its scaler first",
            setting_up().planning(|plan| plan.scaled = true),
            "pause scaler · park · remember phase=Initialized applied=v1-a promoted=v1-a",
        ),
        (
            "unless it has gone",
            setting_up().replicas(0),
            "remember phase=Initialized applied=v1-a promoted=v1-a",
        ),
    ]);
    assert_eq!(setting_up().announces(), ["MetricsAvailable", "Initialized"]);
    assert_eq!(setting_up().alerts(), ["Info Initialized"]);
}

#[test]
fn metric_backends_are_asked_and_never_in_the_way() {
    let unasked = || setting_up().answering(|answers| answers.backends = None);
    let down = |answers: &mut Answers| answers.backends = Some(Err("refused".to_owned()));
    table([
        ("asked once an interval", unasked(), "ask backends"),
        ("not for nothing", unasked().skipping(), DONE),
        ("not early", unasked().early(), DONE),
        ("down", setting_up().answering(down), DONE),
    ]);
    assert_eq!(setting_up().answering(down).announces()[0], "MetricsUnavailable");
}

#[test]
fn a_primary_that_does_not_start_touches_nobody() {
    table([
        ("not yet", setting_up().primary(waiting(false)), ""),
        ("stuck", setting_up().primary(stuck(false)), ""),
        ("stuck with some pods", setting_up().primary(stuck(true)), ""),
        ("nobody waits, and nobody serves", setting_up().skipping().primary(stuck(false)), ""),
        ("nobody waits, and somebody serves", setting_up().skipping().primary(stuck(true)), DONE),
    ]);
    assert_eq!(setting_up().primary(stuck(false)).alerts(), ["Error PrimaryStuck(\"1 of 2\")"]);
}

#[test]
fn an_obstacle_is_waited_for() {
    let blocked = || State::Blocked(Obstacle("taken".to_owned()));
    let cases = [
        setting_up().with(|seen| seen.objects.canary_service = blocked()),
        setting_up().with(|seen| seen.objects.primary = blocked()),
        setting_up().with(|seen| seen.objects.route = blocked()),
        setting_up().unrouted(),
        setting_up().gone(),
        setting_up().with(|seen| seen.target = Err(Missing::Unusable("no label".to_owned()))),
    ];
    for scene in cases {
        assert_eq!((scene.does().as_str(), scene.why()), ("", "Obstructed"));
    }
}

#[test]
fn switches_of_the_user_come_first() {
    let refused = at_rest().phase(Phase::New).with(|seen| seen.blockers = vec!["twice".to_owned()]);
    table([
        ("a canary that must not be acted upon", refused, "remember phase=Initializing"),
        (
            "the finalizer is put on before anything else",
            at_rest().phase(Phase::New).planning(|plan| plan.revert = true),
            "hold",
        ),
        (
            "and taken off on sight",
            at_rest().with(|seen| seen.lifecycle.has_finalizer = true),
            "release",
        ),
        (
            "a suspended canary is seen and left alone",
            at_rest().phase(Phase::New).planning(|plan| plan.suspended = true),
            "remember phase=Initializing",
        ),
        ("suspended", setting_up().planning(|plan| plan.suspended = true), ""),
        ("suspended in mid-flight", progressing(30).planning(|plan| plan.suspended = true), ""),
    ]);
}

#[test]
fn another_target_is_set_up_anew_once_nothing_is_rolled_out() {
    let moved = |scene: Scene| {
        scene.with(|seen| seen.objects.previous_target = Some("the Deployment `shop`".to_owned()))
    };
    let done = at_rest().phase(Phase::Succeeded);
    let anew = moved(done.clone()).decision();
    let remembered = anew.actions.iter().find_map(|action| {
        if let Action::Remember(next) = action { Some(next.clone()) } else { None }
    });
    let wanted = Memory { phase: Phase::Initializing, since: Some(NOW), ..Memory::default() };
    assert_eq!(remembered, Some(Box::new(wanted)), "nothing that was remembered is of this one");
    assert_eq!(moved(done.clone()).announces(), ["TargetChanged"]);
    let why = |scene: Scene| moved(scene).why().to_owned();
    assert_eq!(why(done.clone().gone()), "Obstructed", "not before it is there");
    assert_ne!(why(stranded()), "TargetChanged", "clients are on the canary");
    assert_eq!(moved(progressing(30)).does(), "check", "in mid-rollout it is checked");
    let untold = done.remembering(|memory| memory.untold = Some(Phase::Succeeded));
    assert_ne!(why(untold), "TargetChanged", "hooks are told of the end first");
}

#[test]
fn a_service_that_leads_to_pods_of_another_target_is_moved_once_the_primary_is_ready() {
    let all = ManagedObject::ALL;
    let moving = |scene: Scene| scene.with(|seen| seen.objects.primary_service_moves = true);
    table([
        ("the canary's has no clients", moving(missing(setting_up(), &all)), "put canary Service"),
        ("the primary first", moving(missing(setting_up(), &all[1..])), "put primary workload"),
        (
            "which must be ready",
            moving(missing(setting_up(), &[ManagedObject::PrimaryService])).primary(waiting(true)),
            "",
        ),
        (
            "before those who use the Service",
            moving(missing(
                setting_up(),
                &[ManagedObject::PrimaryService, ManagedObject::ApexService],
            )),
            "put primary Service",
        ),
    ]);
    let at_rest = |readiness: Readiness| {
        moving(missing(at_rest(), &[ManagedObject::PrimaryService])).primary(readiness)
    };
    assert_eq!(at_rest(Readiness::Ready).does(), "put primary Service");
    assert_eq!(at_rest(waiting(false)).does(), "", "never onto pods that cannot serve");
}
