//! Rollouts in a world of counters, with everything that can go wrong.
//!
//! `SIMULATED_ROLLOUTS=1000000 cargo test -p tidegate-engine --release --test simulation` runs that
//! many; a failure prints the seed, which `SIMULATED_SEED` runs again and explains.

use std::fmt::Write as _;

use tidegate_engine::simulate::{Report, Script, explain, run};

#[expect(clippy::disallowed_methods, reason = "how much to run is the business of who runs it")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What happened up to the breach, for people.
fn story(script: &Script) -> String {
    let Report { breach, log, ending, .. } = explain(script);
    let mut text = format!("{script:#?}\n");
    for (index, (at, what)) in log.iter().enumerate() {
        let _ = writeln!(text, "{index:4} {:>8}s {what:?}", (at.0 - 1_000_000) / 1_000);
    }
    let _ = writeln!(text, "{ending:?}\n{breach:?}");
    text
}

#[test]
fn rollouts_keep_every_invariant_and_come_to_rest() {
    if let Some(seed) = number("SIMULATED_SEED") {
        panic!("{}", story(&Script::seeded(seed)));
    }
    let wanted = number("SIMULATED_ROLLOUTS").unwrap_or(20_000);
    let (mut rollouts, mut cuts, mut seed) = (0, 0, 0);
    while rollouts < wanted {
        let script = Script::seeded(seed);
        let report = run(&script);
        if let Some(breach) = report.breach {
            panic!("seed {seed}: {breach}");
        }
        rollouts += report.rollouts;
        cuts += u64::from(report.cuts);
        seed += 1;
    }
    assert!(cuts > rollouts / 20, "only {cuts} writes were cut short: the faults do not bite");
}
