//! Cookies: made with the first share, drawn again with each, retired with the last.

use super::*;

fn sticky(scene: Scene, stickiness: Stickiness, canary: bool, primary: bool) -> Scene {
    let mut scene = scene.planning(|plan| plan.stickiness = stickiness);
    scene.0.cookies = Cookies { canary, primary };
    scene
}

#[test]
fn a_share_comes_with_cookies_that_are_written_down_first() {
    let (none, canary, both) = (Stickiness::None, Stickiness::Canary, Stickiness::Both);
    table([
        (
            "nobody asked for any",
            sticky(progressing(10).checked(true), none, false, false),
            "shift 20 · remember weight=20",
        ),
        (
            "the first share makes them",
            sticky(started(), both, false, false),
            "cookies canary=fresh primary=fresh · shift 10 · remember weight=10 prepared=true",
        ),
        (
            "with the next, whoever saw the canary stays and everybody else is drawn again",
            sticky(progressing(10).checked(true), both, true, true),
            "cookies primary=fresh · shift 20 · remember weight=20",
        ),
        (
            "the canary's cookie alone stays as it is",
            sticky(progressing(10).checked(true), canary, true, false),
            "shift 20 · remember weight=20",
        ),
        (
            "one that nobody wants any more goes",
            sticky(progressing(10).checked(true), canary, true, true),
            "cookies primary=retire · shift 20 · remember weight=20",
        ),
    ]);
}

#[test]
fn cookies_are_retired_with_the_last_share() {
    let both = Stickiness::Both;
    let threshold = |scene: Scene| scene.remembering(|memory| memory.failed_checks = 3);
    table([
        (
            "taken back",
            sticky(threshold(progressing(30)), both, true, true),
            "cookies canary=retire primary=retire · shift 0 · park · remember phase=Failed failed=0 weight=0 prepared=false",
        ),
        (
            "taken back, and we died before it was written down",
            sticky(threshold(progressing(30).routed(0)), both, true, true),
            "park · cookies canary=retire primary=retire · remember phase=Failed failed=0 weight=0 prepared=false",
        ),
        (
            "nobody wants them any more, and still browsers have them",
            sticky(threshold(progressing(30)), Stickiness::None, true, false),
            "cookies canary=retire · shift 0 · park · remember phase=Failed failed=0 weight=0 prepared=false",
        ),
        ("what rests is left alone", sticky(at_rest(), both, true, true), ""),
    ]);
}
