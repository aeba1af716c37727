//! The primary takes over.

use super::*;

fn stepped(scene: Scene) -> Scene {
    scene.planning(|plan| plan.promotion_step = 20)
}

#[test]
fn traffic_goes_back_to_a_primary_that_is_ready() {
    let finalising = "shift 0 · remember phase=Finalising weight=0";
    table([
        ("at once", promoting(50), finalising),
        ("an interval after the copy", promoting(50).early(), ""),
        ("not before it is ready", promoting(50).primary(waiting(true)), ""),
        ("step by step", stepped(promoting(50)), "shift 30 · remember weight=30"),
        ("the last step", stepped(promoting(20)), finalising),
        ("a smaller one", stepped(promoting(10)), finalising),
        ("nothing left to give back", stepped(promoting(0)), "remember phase=Finalising"),
        (
            "its scaler follows",
            promoting(50).planning(|plan| plan.scaled = true),
            "refresh scaler · shift 0 · remember phase=Finalising weight=0",
        ),
        ("plain Services have nothing to move", promoting(0).whole().iterated(4), {
            "remember phase=Finalising iterations=0"
        }),
        ("we died after a step", stepped(promoting(50).routed(30)), "remember weight=30"),
    ]);
    assert_eq!(stepped(promoting(50)).announces(), ["PrimaryWeightAdvanced"]);
}

#[test]
fn the_canary_is_parked_when_everything_is_on_the_primary() {
    let finalising = || promoting(0).phase(Phase::Finalising);
    let done = "park · remember phase=Succeeded promoted=v1-b prepared=false";
    table([
        ("parked", finalising(), done),
        ("an interval later", finalising().early(), ""),
        ("not while the primary is not ready", finalising().primary(waiting(true)), ""),
        (
            "its scaler first",
            finalising().planning(|plan| plan.scaled = true),
            "pause scaler · park · remember phase=Succeeded promoted=v1-b prepared=false",
        ),
        ("somebody moved traffic back", finalising().routed(30), {
            "shift 0 · park · remember phase=Succeeded promoted=v1-b prepared=false"
        }),
        ("the target is gone", finalising().gone(), {
            "remember phase=Succeeded promoted=v1-b prepared=false"
        }),
        ("we died after parking it", finalising().replicas(0).canary(waiting(false)), {
            "remember phase=Succeeded promoted=v1-b prepared=false"
        }),
        ("hooks are still to be told", finalising().hooks(|hooks| hooks.post_rollout = true), {
            "park · remember phase=Succeeded promoted=v1-b prepared=false untold=Some(Succeeded)"
        }),
    ]);
    assert_eq!(finalising().announces(), ["Promoted"]);
    assert_eq!(finalising().alerts(), ["Info Promoted"]);
}

#[test]
fn a_copy_that_was_not_made_is_made() {
    let uncopied = || promoting(50).with(|seen| seen.primary.is_updated = false);
    table([
        ("we died before it", uncopied(), "promote v1-b"),
        ("early", uncopied().early(), "promote v1-b"),
        (
            "of what was analysed, or not at all",
            uncopied().target("v1-c"),
            "shift 0 · remember phase=Progressing weight=0 applied=v1-c prepared=false",
        ),
        ("back to what the primary runs", uncopied().target("v1-a"), {
            "shift 0 · park · remember phase=Succeeded weight=0 applied=v1-a prepared=false"
        }),
        ("from nothing", uncopied().gone(), ""),
        (
            "something is in the way",
            uncopied()
                .with(|seen| seen.objects.primary = State::Blocked(Obstacle("no".to_owned()))),
            "remember trouble=0",
        ),
        (
            "for too long",
            uncopied()
                .with(|seen| seen.objects.primary = State::Blocked(Obstacle("no".to_owned())))
                .remembering(|memory| memory.blocked_since = Some(Moment(NOW.0 - 5 * MINUTE))),
            "shift 0 · park · remember phase=Failed weight=0 prepared=false trouble=-",
        ),
    ]);
}

#[test]
fn pods_that_were_not_analysed_lose_their_share_at_once() {
    let protected = "shift 0 · remember weight=0";
    table([
        ("another revision came", promoting(50).target("v1-c").early(), protected),
        (
            "while the primary still rolls",
            promoting(50).target("v1-c").primary(waiting(true)),
            protected,
        ),
        ("but not to nobody", promoting(50).target("v1-c").primary(waiting(false)), ""),
        ("the canary died", promoting(50).canary(waiting(false)).primary(waiting(true)), protected),
        ("the canary is gone", promoting(50).gone().primary(waiting(true)), protected),
        ("somebody scaled it away", promoting(50).replicas(0).canary(waiting(false)), protected),
        (
            "and nobody else serves",
            promoting(50).replicas(0).canary(waiting(false)).primary(waiting(false)),
            "scale 2",
        ),
        ("without a share it does not matter", promoting(0).target("v1-c"), {
            "remember phase=Finalising"
        }),
    ]);
}

#[test]
fn a_promotion_that_cannot_finish_leaves_traffic_where_pods_are_healthy() {
    let failed = "shift 100 · remember phase=Failed weight=100 promoted=v1-b prepared=false";
    table([
        ("to the canary", promoting(50).primary(stuck(true)), failed),
        (
            "it has everything already",
            promoting(100).primary(stuck(false)),
            "remember phase=Failed promoted=v1-b prepared=false",
        ),
        (
            "after everything moved",
            promoting(0).phase(Phase::Finalising).primary(stuck(true)),
            failed,
        ),
        (
            "a canary that cannot serve gets nothing",
            promoting(0).canary(waiting(false)).primary(stuck(true)),
            "remember phase=Failed promoted=v1-b prepared=false",
        ),
        (
            "nor one that was not analysed",
            promoting(0).target("v1-c").primary(stuck(true)),
            "remember phase=Failed promoted=v1-b prepared=false",
        ),
        ("unless nobody else serves", promoting(0).target("v1-c").primary(stuck(false)), failed),
        (
            "plain Services: the Service of clients follows the weight",
            promoting(0).whole().iterated(4).primary(stuck(false)),
            "remember phase=Failed weight=100 iterations=0 promoted=v1-b prepared=false",
        ),
        (
            "routes must be known",
            promoting(50).unrouted().canary(waiting(false)).primary(stuck(true)),
            "",
        ),
    ]);
    let alerts = promoting(50).primary(stuck(true)).alerts();
    assert_eq!(alerts, ["Error PromotionFailed(\"1 of 2\")"]);
    let plain = promoting(0).whole();
    assert_eq!(apex_side(&plain.0.plan, &plain.0.memory), Side::Primary);
    let plain = stranded().whole();
    assert_eq!(apex_side(&plain.0.plan, &plain.0.memory), Side::Canary);
}

#[test]
fn skipping_the_analysis_writes_its_intent_copies_and_parks() {
    let unchecked = "park · remember phase=Succeeded promoted=v1-b prepared=false";
    table([
        ("from the start", started().skipping(), "remember phase=Promoting · promote v1-b"),
        ("early", started().skipping().early(), "remember phase=Promoting · promote v1-b"),
        ("not before the canary runs", started().skipping().canary(waiting(false)), ""),
        (
            "a canary that never runs",
            started().skipping().canary(stuck(false)),
            "park · remember phase=Failed",
        ),
        (
            "in mid-flight: traffic first",
            progressing(30).skipping(),
            "shift 0 · remember phase=Promoting weight=0 · promote v1-b",
        ),
        ("gates and failed checks do not matter", progressing(0).failing(9).skipping(), {
            "remember phase=Promoting · promote v1-b"
        }),
        ("then parked", promoting(0).skipping(), unchecked),
        (
            "without waiting for the primary",
            promoting(0).skipping().primary(waiting(true)),
            unchecked,
        ),
        ("which may still fail", promoting(0).skipping().primary(stuck(true)), {
            "shift 100 · remember phase=Failed weight=100 promoted=v1-b prepared=false"
        }),
        (
            "a primary that cannot take the share is promoted over, and waited for",
            progressing(30).skipping().primary(waiting(false)),
            "remember phase=Promoting replaces_broken_primary=true · promote v1-b",
        ),
        (
            "mid-promotion",
            promoting(30).skipping(),
            "shift 0 · park · remember phase=Succeeded weight=0 promoted=v1-b prepared=false",
        ),
    ]);
    assert_eq!(promoting(0).skipping().alerts(), ["Info PromotedUnchecked"]);
}

#[test]
fn a_resume_in_mid_promotion_finds_nothing_held() {
    table([
        ("promoting", promoting(50).holding(20, true).early(), "drop manual step"),
        ("the promotion is not held up by it", promoting(50).holding(20, true), {
            "drop manual step · shift 0 · remember phase=Finalising weight=0"
        }),
        (
            "finalising",
            promoting(0).phase(Phase::Finalising).holding(20, true).early(),
            "drop manual step",
        ),
        ("a hold is ignored", promoting(50).holding(20, false), {
            "shift 0 · remember phase=Finalising weight=0"
        }),
    ]);
}
