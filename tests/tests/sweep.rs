//! Crash safety: every write of every scenario, cut in every way.
//!
//! `cargo test` sweeps a sample; `make sweep` (`SWEEP=all`) sweeps everything. `SWEEP_ONLY=text` takes
//! the scenarios whose name contains the text.

#![expect(clippy::print_stdout, reason = "a sweep reports what it did in one line")]

use tidegate_tests::sweep::{Extent, scenarios, sweep};

/// Of how many cuts one is tried with every `cargo test`.
const SAMPLE: usize = 61;

#[test]
fn a_rollout_cut_at_any_write_ends_as_if_it_had_not_been() {
    let extent = match std::env::var("SWEEP").as_deref() {
        Ok("all") => Extent::All,
        Ok(nth) => Extent::Every(nth.parse().expect("SWEEP is `all` or a number")),
        Err(_) => Extent::Every(SAMPLE),
    };
    let only = std::env::var("SWEEP_ONLY").unwrap_or_default();
    let mut scenarios = scenarios();
    scenarios.retain(|scenario| scenario.name.contains(&only));
    let report = sweep(&scenarios, extent);
    println!("{report}");
    assert!(report.is_green(), "{report}");
}
