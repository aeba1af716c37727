//! Crash safety: every write of every scenario, cut in every way; and a cluster that goes back in time.
//!
//! `cargo test` sweeps a sample. `SWEEP=essential` makes every cut in every kind of rollout, and every
//! ninth of the same over other routes; `SWEEP=all` makes every cut there is, `SWEEP=3` every third.
//! `SWEEP_ONLY=text` takes the scenarios whose name contains the text.

use mimalloc::MiMalloc;
use tidegate_tests::sweep::{
    Extent, essential, others, sample, scenarios, sweep, time_travel, travellers,
};

/// A simulated cluster allocates and drops small objects all the time: that is half of a sweep's time with
/// the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// One of so many cuts is tried with every `cargo test`.
const SAMPLE: usize = 31;

/// One of so many cuts over other routes is tried with `SWEEP=essential`.
const OTHERS: usize = 9;

#[test]
fn a_rollout_cut_at_any_write_ends_as_if_it_had_not_been() {
    let parts = match std::env::var("SWEEP").as_deref() {
        Ok("all") => vec![(scenarios(), Extent::All)],
        Ok("essential") => vec![(essential(), Extent::All), (others(), Extent::Every(OTHERS))],
        Ok(nth) => {
            let nth = nth.parse().expect("`essential`, `all` or a number");
            vec![(scenarios(), Extent::Every(nth))]
        }
        Err(_) => vec![(sample(), Extent::Every(SAMPLE))],
    };
    let only = std::env::var("SWEEP_ONLY").unwrap_or_default();
    for (mut scenarios, extent) in parts {
        scenarios.retain(|scenario| scenario.name.contains(&only));
        if scenarios.is_empty() {
            continue;
        }
        let report = sweep(&scenarios, extent);
        println!("{report}");
        assert!(report.is_green(), "{report}");
    }
}

#[test]
fn a_rollout_that_a_restored_cluster_undoes_ends_as_if_it_had_not_been() {
    let extent = match std::env::var("SWEEP").as_deref() {
        Ok("all" | "essential") => Extent::All,
        Ok(nth) => Extent::Every(nth.parse().expect("`essential`, `all` or a number")),
        Err(_) => Extent::Every(SAMPLE),
    };
    let only = std::env::var("SWEEP_ONLY").unwrap_or_default();
    let mut scenarios = travellers();
    scenarios.retain(|scenario| scenario.name.contains(&only));
    if scenarios.is_empty() {
        return;
    }
    let report = time_travel(&scenarios, extent);
    println!("{report}");
    assert!(report.runs > 0 && report.findings.is_empty(), "{report}");
}
