//! `PromQL`: a query over a small fixed database.
//!
//! Law: an instant vector has the samples that a range query of one step has.

use std::{collections::BTreeMap, sync::LazyLock};

use promql::{Database, Labels, Query, Steps, Value};

/// Half an hour of samples each 15 s ends here.
const NOW_MS: i64 = 1_800_000;
/// A query that wants more is refused: as much as takes milliseconds.
const WORK_MAX: u64 = 200_000;

static DATABASE: LazyLock<Database> = LazyLock::new(|| {
    let database = Database::new();
    let put = |name: &str, pairs: &[(&str, &str)], at_ms, value| {
        database.append(&Labels::of(name, pairs), at_ms, value).expect("samples come in order");
    };
    for at_ms in (0..=NOW_MS).step_by(15_000) {
        let seconds = f64::from(i32::try_from(at_ms / 1000).expect("half an hour of seconds"));
        for (pod, code, rate) in [("a", "200", 3.0), ("a", "500", 0.25), ("b", "200", 1.5)] {
            // The counters of pod b start again each ten minutes.
            let counted = if pod == "b" { seconds % 600.0 } else { seconds };
            put("requests_total", &[("pod", pod), ("code", code)], at_ms, counted * rate);
        }
        for (le, share) in [("0.1", 0.5), ("1", 0.9), ("+Inf", 1.0)] {
            put("duration_seconds_bucket", &[("pod", "a"), ("le", le)], at_ms, seconds * share);
        }
        put("memory_bytes", &[("pod", "a")], at_ms, f64::NAN);
        put("memory_bytes", &[("pod", "b")], at_ms, -seconds);
    }
    database
});

/// Input: the text of a query.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let query = Query::new(text).work_max(WORK_MAX);
    let steps = Steps { start_ms: NOW_MS - 600_000, end_ms: NOW_MS, step_ms: 60_000 };
    let _ = query.range(&DATABASE, steps);

    let Ok(Value::Vector(samples)) = query.instant(&DATABASE, NOW_MS) else { return };
    let steps = Steps { start_ms: NOW_MS, end_ms: NOW_MS, step_ms: 1 };
    let series = query.range(&DATABASE, steps).expect("a query with an instant has a range");
    let instant: BTreeMap<Labels, Vec<u64>> =
        samples.into_iter().map(|sample| (sample.labels, vec![bits(sample.value)])).collect();
    let range: BTreeMap<Labels, Vec<u64>> = series
        .into_iter()
        .map(|series| {
            (series.labels, series.points.iter().map(|point| bits(point.value)).collect())
        })
        .collect();
    assert_eq!(instant, range, "an instant is a range of one step");
}

/// The bits of a number; all NaNs are one.
fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
}
