//! The metrics of the load tester.
//!
//! Labels are fixed words: text of callers never becomes one.

use std::{collections::BTreeMap, fmt::Write as _};

use parking_lot::Mutex;
use tidegate_runtime::process::Process;

use crate::load::Stats;

/// All counters. One for the whole process.
#[derive(Debug, Default)]
pub struct Metrics {
    counters: Mutex<BTreeMap<Series, u64>>,
}

/// A counter with its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    counter: Counter,
    labels: [&'static str; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counter {
    Tasks,
    Gates,
    Load,
    Refused,
}

/// Gauges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    pub running: usize,
    pub gates_open: usize,
}

// === impl Counter ===

impl Counter {
    const ALL: [Self; 4] = [Self::Tasks, Self::Gates, Self::Load, Self::Refused];

    /// Name, help, and the names of its labels; an empty one is none.
    fn about(self) -> (&'static str, &'static str, [&'static str; 2]) {
        match self {
            Self::Tasks => {
                ("tidegate_loadtester_tasks_total", "Tasks by outcome", ["type", "outcome"])
            }
            Self::Gates => (
                "tidegate_loadtester_gate_requests_total",
                "Requests to gates by action and answer",
                ["action", "answer"],
            ),
            Self::Load => (
                "tidegate_loadtester_load_requests_total",
                "Requests that the load generator sent, by class of status or kind of error",
                ["outcome", ""],
            ),
            Self::Refused => (
                "tidegate_loadtester_refused_total",
                "Requests that were turned away before anything was done",
                ["reason", ""],
            ),
        }
    }
}

// === impl Metrics ===

impl Metrics {
    pub fn count_task(&self, kind: &'static str, outcome: &'static str) {
        self.add(Counter::Tasks, [kind, outcome], 1);
    }

    pub fn count_gate(&self, action: &'static str, answer: &'static str) {
        self.add(Counter::Gates, [action, answer], 1);
    }

    pub fn count_refused(&self, reason: &'static str) {
        self.add(Counter::Refused, [reason, ""], 1);
    }

    /// Counts the difference between `now` and `before`.
    pub fn count_load(&self, before: &Stats, now: &Stats) {
        for (outcome, count) in by_outcome(now) {
            let already = by_outcome(before).get(outcome).copied().unwrap_or(0);
            self.add(Counter::Load, [outcome, ""], count.saturating_sub(already));
        }
    }

    /// The page, in Prometheus' own text format.
    pub fn page(&self, now: Gauges) -> String {
        let mut page = String::new();
        let version = env!("CARGO_PKG_VERSION");
        let info = format!("tidegate_loadtester_info{{version=\"{version}\"}}");
        push(&mut page, "tidegate_loadtester_info", "Version", "gauge", &[(info, 1.0)]);
        for counter in Counter::ALL {
            let (name, help, [first, second]) = counter.about();
            let counters = self.counters.lock();
            let series = counters.iter().filter(|(series, _)| series.counter == counter);
            let samples = series.map(|(Series { labels: [one, two], .. }, count)| {
                let second =
                    if second.is_empty() { String::new() } else { format!(",{second}=\"{two}\"") };
                #[expect(clippy::cast_precision_loss, reason = "as every Prometheus client does")]
                (format!("{name}{{{first}=\"{one}\"{second}}}"), *count as f64)
            });
            push(&mut page, name, help, "counter", &samples.collect::<Vec<_>>());
        }
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return };
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            push(&mut page, name, help, kind, &[(name.to_owned(), value)]);
        };
        let Gauges { running, gates_open } = now;
        let number = |count: usize| u32::try_from(count).ok().map(f64::from);
        gauge("tidegate_loadtester_tasks_running", "Tasks under way", number(running));
        gauge("tidegate_loadtester_gates_open", "Gates that are open", number(gates_open));
        let process = Process::read();
        gauge("process_resident_memory_bytes", "Memory in use", process.resident_bytes);
        gauge("process_open_fds", "Open files", process.open_files);
        gauge("process_cpu_seconds_total", "Processor time used", process.processor_seconds);
        page
    }

    fn add(&self, counter: Counter, labels: [&'static str; 2], more: u64) {
        *self.counters.lock().entry(Series { counter, labels }).or_default() += more;
    }
}

fn by_outcome(stats: &Stats) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for (status, count) in stats.statuses() {
        let class = match status / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            _ => "5xx",
        };
        *counts.entry(class).or_default() += count;
    }
    counts.extend(stats.failures().map(|(failure, count)| (failure.label(), count)));
    counts
}

fn push(page: &mut String, name: &str, help: &str, kind: &str, samples: &[(String, f64)]) {
    // Writing to a string does not fail.
    let _infallible = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (series, value) in samples {
        let _infallible = writeln!(page, "{series} {value}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::Failure;

    #[test]
    fn the_page_is_in_prometheus_format() {
        let metrics = Metrics::default();
        metrics.count_task("cmd", "succeeded");
        metrics.count_task("cmd", "succeeded");
        metrics.count_gate("open", "ok");
        metrics.count_refused("signature");
        let page = metrics.page(Gauges { running: 3, gates_open: 1 });
        for line in [
            "# TYPE tidegate_loadtester_tasks_total counter",
            "tidegate_loadtester_tasks_total{type=\"cmd\",outcome=\"succeeded\"} 2",
            "tidegate_loadtester_gate_requests_total{action=\"open\",answer=\"ok\"} 1",
            "tidegate_loadtester_refused_total{reason=\"signature\"} 1",
            "# TYPE tidegate_loadtester_tasks_running gauge",
            "tidegate_loadtester_tasks_running 3",
            "tidegate_loadtester_gates_open 1",
            "# TYPE process_cpu_seconds_total counter",
        ] {
            assert!(page.lines().any(|it| it == line), "no {line} in\n{page}");
        }
    }

    #[test]
    fn load_is_counted_once_while_it_runs() {
        let metrics = Metrics::default();
        let mut stats = Stats::default();
        stats.count_answer(200, 0, Duration::ZERO);
        metrics.count_load(&Stats::default(), &stats);
        let before = stats.clone();
        stats.count_answer(204, 0, Duration::ZERO);
        stats.count_answer(503, 0, Duration::ZERO);
        stats.count_failure(Failure::Timeout, Duration::ZERO);
        metrics.count_load(&before, &stats);
        let page = metrics.page(Gauges::default());
        for (outcome, count) in [("2xx", 2), ("5xx", 1), ("timeout", 1)] {
            let line =
                format!("tidegate_loadtester_load_requests_total{{outcome=\"{outcome}\"}} {count}");
            assert!(page.lines().any(|it| it == line), "no {line} in\n{page}");
        }
    }
}
