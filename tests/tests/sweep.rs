//! Crash safety: every write of every scenario, cut in every way.
//!
//! `cargo test` sweeps a sample, `SWEEP=all` everything, `SWEEP=3` every third cut. `SWEEP_ONLY=text` takes
//! the scenarios whose name contains the text.

use mimalloc::MiMalloc;
use tidegate_tests::sweep::{Extent, sample, scenarios, sweep};

/// A simulated cluster makes and drops small objects all day: that is half of a sweep's time with the
/// system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Of how many cuts one is tried with every `cargo test`.
const SAMPLE: usize = 31;

#[test]
fn a_rollout_cut_at_any_write_ends_as_if_it_had_not_been() {
    let (mut scenarios, extent) = match std::env::var("SWEEP").as_deref() {
        Ok("all") => (scenarios(), Extent::All),
        Ok(nth) => (scenarios(), Extent::Every(nth.parse().expect("`all` or a number"))),
        Err(_) => (sample(), Extent::Every(SAMPLE)),
    };
    let only = std::env::var("SWEEP_ONLY").unwrap_or_default();
    scenarios.retain(|scenario| scenario.name.contains(&only));
    let report = sweep(&scenarios, extent);
    println!("{report}");
    assert!(report.is_green(), "{report}");
}
