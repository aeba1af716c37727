//! Canaries that another controller left.

use super::*;

fn foreign(scene: Scene) -> Scene {
    scene.remembering(|memory| {
        memory.applied = Some(rev("5d4f8b9c"));
        memory.promoted = Some(rev("6c7b8f44"));
    })
}

fn edited(scene: Scene) -> Scene {
    scene.with(|seen| seen.target.as_mut().unwrap().edited_since = true)
}

fn same(scene: Scene, same: bool) -> Scene {
    scene.with(|seen| seen.target.as_mut().unwrap().same_as_primary = same)
}

#[test]
fn at_rest_fingerprints_are_replaced_and_nothing_is_rolled_out() {
    table([
        ("after success", same(foreign(at_rest()), true), "remember applied=v1-a promoted=v1-a"),
        ("after initialisation", same(foreign(at_rest().phase(Phase::Initialized)), true), {
            "remember applied=v1-a promoted=v1-a"
        }),
        ("a genuine change is rolled out", same(foreign(at_rest()), false), {
            "scale 2 · remember phase=Progressing applied=v1-a"
        }),
    ]);
    assert_eq!(same(foreign(at_rest()), true).announces(), ["Adopted"]);
}

#[test]
fn in_mid_flight_it_goes_on_from_where_it_is() {
    let phases = [Phase::Progressing, Phase::WaitingPromotion, Phase::Promoting, Phase::Finalising];
    for phase in phases {
        let scene = same(foreign(progressing(30).phase(phase)), false);
        assert_eq!(scene.does(), "remember applied=v1-b", "{phase}");
    }
    let scene = same(foreign(at_rest().phase(Phase::Failed)), false);
    assert_eq!(scene.does(), "remember applied=v1-a", "a failed revision stays failed");
    let scene = same(foreign(at_rest().phase(Phase::Waiting)), false);
    assert_eq!(scene.does(), "remember applied=v1-a", "waiting for a gate");
}

#[test]
fn an_edit_since_then_is_a_change() {
    table([
        ("in mid-flight", edited(same(foreign(progressing(30)), false)), {
            "shift 0 · remember weight=0 applied=v1-b prepared=false"
        }),
        ("after failure", edited(same(foreign(at_rest().phase(Phase::Failed)), false)), {
            "scale 2 · remember phase=Progressing applied=v1-a"
        }),
        ("back to what the primary runs", edited(same(foreign(progressing(30)), true)), {
            "shift 0 · park · remember phase=Succeeded weight=0 applied=v1-b promoted=v1-b prepared=false"
        }),
    ]);
}

#[test]
fn a_foreign_promotion_is_judged_by_what_the_primary_runs() {
    let promoted =
        |scene: Scene| scene.remembering(|memory| memory.promoted = Some(rev("6c7b8f44")));
    table([
        ("the same", same(promoted(progressing(30).target("v1-c")), true), {
            "shift 0 · park · remember phase=Succeeded weight=0 applied=v1-c promoted=v1-c prepared=false"
        }),
        ("another", same(promoted(progressing(30).target("v1-c")), false), {
            "shift 0 · remember weight=0 applied=v1-c prepared=false"
        }),
    ]);
}
