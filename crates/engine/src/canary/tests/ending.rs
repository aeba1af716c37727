//! Rollbacks, and none to a side without pods that serve.

use super::*;

#[test]
fn a_rollback_never_sends_traffic_to_a_side_without_pods() {
    table([
        ("the primary has no pod", progressing(30).failing(3).primary(waiting(false)), ""),
        ("one is enough", progressing(30).failing(3).primary(waiting(true)), {
            "shift 0 · park · remember phase=Failed failed=0 weight=0 prepared=false"
        }),
        (
            "without a share there is nothing to lose",
            progressing(0).failing(3).primary(waiting(false)),
            { "park · remember phase=Failed failed=0 prepared=false" },
        ),
        (
            "with copies only neither",
            progressing(0).mirrored().failing(3).primary(waiting(false)),
            { "shift 0 · park · remember phase=Failed failed=0 prepared=false" },
        ),
        (
            "clients were sent to the canary by hand, and the primary is down",
            progressing(0)
                .failing(3)
                .primary(waiting(false))
                .with(|seen| seen.objects.apex_service = State::OutOfSync),
            "",
        ),
    ]);
    let held = progressing(30).failing(3).primary(waiting(false));
    assert_eq!(held.why(), "RollbackHeld");
    assert_eq!(held.alerts(), ["Error RollbackHeld(\"1 of 2\")"]);
}

#[test]
fn a_rollback_that_was_cut_short_is_finished() {
    table([
        ("after traffic", progressing(30).routed(0).failing(3), {
            "park · remember phase=Failed failed=0 weight=0 prepared=false"
        }),
        ("after parking", progressing(0).replicas(0).canary(waiting(false)).failing(3), {
            "remember phase=Failed failed=0 prepared=false"
        }),
    ]);
}

#[test]
fn a_fix_after_a_failed_promotion_is_analysed_where_traffic_is() {
    table([
        (
            "it starts, and nobody is moved",
            stranded().target("v1-c"),
            "remember phase=Progressing applied=v1-c replaces_broken_primary=true",
        ),
        (
            "so does the revision before",
            stranded().target("v1-a"),
            "remember phase=Progressing applied=v1-a replaces_broken_primary=true",
        ),
        ("the failed one does not", stranded(), ""),
        ("checked", rescuing(), "check"),
        ("promoted over the broken primary", rescuing().checked(true), {
            "remember phase=Promoting · promote v1-c"
        }),
        (
            "skipping does the same",
            rescuing().skipping(),
            "remember phase=Promoting · promote v1-c",
        ),
        ("another fix", rescuing().target("v1-d"), "remember applied=v1-d"),
        (
            "back to the broken one is no way back",
            rescuing().target("v1-b"),
            "remember applied=v1-b",
        ),
        (
            "failed checks leave it where it is",
            rescuing().failing(3),
            "remember phase=Failed failed=0 replaces_broken_primary=false",
        ),
        (
            "a few old pods are no primary",
            rescuing().failing(3).primary(stuck(true)),
            "remember phase=Failed failed=0 replaces_broken_primary=false",
        ),
        (
            "a primary that recovered is one",
            rescuing().failing(3).primary(Readiness::Ready),
            "shift 0 · park · remember phase=Failed failed=0 weight=0 replaces_broken_primary=false",
        ),
        (
            "a canary that died as well goes to whoever serves",
            rescuing().canary(stuck(false)).primary(stuck(true)),
            "shift 0 · park · remember phase=Failed weight=0 replaces_broken_primary=false",
        ),
    ]);
}

#[test]
fn a_rescue_shifts_back_only_to_a_primary_that_is_ready() {
    let replacing =
        |scene: Scene| scene.remembering(|memory| memory.replaces_broken_primary = true);
    let copied = || replacing(promoting(100));
    table([
        ("not yet", copied().primary(waiting(true)), ""),
        ("skipping waits too", copied().skipping().primary(waiting(true)), ""),
        ("ready", copied(), "shift 0 · remember phase=Finalising weight=0"),
        (
            "stuck again",
            copied().primary(stuck(false)),
            "remember phase=Failed promoted=v1-b prepared=false replaces_broken_primary=false",
        ),
    ]);
}

#[test]
fn plain_services_hand_clients_over_before_pods_go() {
    let replacing = || rescuing().whole().remembering(|memory| memory.weight = Percent::ALL);
    let ready = || replacing().primary(Readiness::Ready);
    assert_eq!(apex_side(&replacing().0.plan, &replacing().0.memory), Side::Canary);
    table([
        ("the memory first", ready().failing(3), "remember weight=0 replaces_broken_primary=false"),
        (
            "then the Service",
            ready().failing(3).with(|seen| {
                seen.memory.weight = Percent::ZERO;
                seen.memory.replaces_broken_primary = false;
                seen.objects.apex_service = State::OutOfSync;
            }),
            "put apex Service",
        ),
        (
            "then the pods",
            ready().failing(3).remembering(|memory| {
                memory.weight = Percent::ZERO;
                memory.replaces_broken_primary = false;
            }),
            "park · remember phase=Failed failed=0",
        ),
        (
            "in promotion as well",
            replacing().phase(Phase::Promoting).primary(Readiness::Ready).with(|seen| {
                seen.primary.is_updated = true;
            }),
            "remember phase=Finalising weight=0",
        ),
    ]);
    let waits =
        replacing().hooks(|hooks| hooks.confirm_promotion = true).iterated(3).with(|seen| {
            seen.memory.weight = Percent::ALL;
            seen.answers.confirm_promotion = Some(closed());
        });
    assert_eq!(
        waits.checked(true).does(),
        "remember phase=WaitingPromotion iterations=2",
        "clients stay where they are while somebody thinks"
    );
    let promoted = promoting(0).whole().iterated(4).remembering(|memory| {
        memory.replaces_broken_primary = true;
        memory.weight = Percent::ALL;
    });
    assert_eq!(promoted.announces(), ["RoutedToPrimary"]);
    assert_eq!(promoted.decision().again, Again::Now, "the Service follows the memory at once");
}

#[test]
fn traffic_comes_back_when_the_primary_recovers() {
    let ready = || stranded().primary(Readiness::Ready);
    let handed = |memory: &mut Memory| {
        memory.weight = Percent::ZERO;
        memory.replaces_broken_primary = true;
    };
    table([
        ("traffic first", ready(), "shift 0 · remember weight=0 replaces_broken_primary=true"),
        (
            "then the pods",
            ready().routed(0).remembering(handed),
            "park · remember replaces_broken_primary=false",
        ),
        (
            "plain Services: the memory first",
            ready().whole(),
            "remember weight=0 replaces_broken_primary=true",
        ),
        (
            "then the Service",
            ready().whole().remembering(handed).with(|seen| {
                seen.objects.apex_service = State::OutOfSync;
            }),
            "put apex Service",
        ),
        ("somebody did it by hand", stranded().routed(0), "remember weight=0"),
        (
            "the canary died, and old pods of the primary serve",
            stranded().canary(waiting(false)).primary(stuck(true)),
            "shift 0 · remember weight=0",
        ),
        ("the canary died, and nobody serves", stranded().canary(waiting(false)), ""),
    ]);
}
