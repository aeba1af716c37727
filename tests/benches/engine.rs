//! Figures of the engine: simulated rollouts a minute on one core. `make bench` runs it.
//!
//! The same runs as in the engine's tests: plain rollouts of every strategy, and seeded ones with every
//! fault. Each is checked against every invariant after every write, since a rate of unchecked rollouts
//! would say little.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use tidegate_engine::{Percent, Strategy, Traffic};
use tidegate_engine_check::simulate::{Report, Script, run};

/// How long each figure is measured.
const MEASURED: Duration = Duration::from_secs(5);

fn main() -> Result<(), String> {
    // `cargo test --benches` only checks that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let plain: Vec<Script> = (0..400).map(plain).collect();
    measure("plain rollouts of every strategy", "1000000/min", |seed| {
        run(&plain[seed % plain.len()])
    })?;
    measure("rollouts among faults, edits and crashes", "1000000/min", |seed| {
        run(&Script::seeded(seed as u64))
    })
}

/// A seeded plan without obstacles, and one revision to roll out.
fn plain(seed: u64) -> Script {
    let mut plan = Script::seeded(seed).plan;
    plan.manual = None;
    plan.skip = false;
    plan.max = Percent::clamped(60);
    if plan.strategy != Strategy::BlueGreen {
        plan.traffic = Traffic::Divisible;
    }
    Script::plain(plan)
}

fn measure(what: &str, target: &str, mut play: impl FnMut(usize) -> Report) -> Result<(), String> {
    let (mut rollouts, mut decisions, mut writes, mut seed) = (0_u64, 0_u64, 0_u64, 0);
    let began = Instant::now();
    while began.elapsed() < MEASURED {
        // The clock is read once a hundred runs, which take a few milliseconds.
        for _ in 0..100 {
            let report = play(seed);
            if let Some(violation) = report.violation {
                return Err(format!("{what}, run {seed}: {violation}"));
            }
            rollouts += report.rollouts;
            decisions += report.decisions;
            writes += u64::from(report.writes);
            seed += 1;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    report(what, per(rollouts, seconds / 60.0, "min"), target);
    report("  decisions taken", per(decisions, seconds, "s"), "-");
    report("  writes judged", per(writes, seconds, "s"), "-");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn per(count: u64, time: f64, unit: &str) -> String {
    format!("{:.0}/{unit}", count as f64 / time)
}

#[expect(clippy::print_stdout, reason = "the figures are what a benchmark is for")]
fn report(what: &str, figure: impl Display, target: &str) {
    println!("{what:<58} {figure:>14}   target {target}");
}
