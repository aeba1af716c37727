//! The result of load, for people and as JSON.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};

use super::{
    histogram::Histogram,
    plan::{End, Plan, Protocol},
    stats::Stats,
};
use crate::duration;

/// Load that was made, and its result.
#[derive(Clone, Debug)]
pub struct Report {
    pub plan: Plan,
    pub stats: Stats,
    pub elapsed: Duration,
    /// It was ended before its time.
    pub halted: bool,
}

/// Columns of the longest bar.
const BAR_MAX: u32 = 32;
/// Rows of the picture of latencies.
const ROWS: usize = 12;
/// Steps of its scale: three to a power of ten read easily.
const STEPS_MS: [f64; 22] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3,
    2e3, 5e3, 1e4, 2e4, 5e4, 1e5,
];
const PERCENTILES: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

// === impl Report ===

impl Report {
    /// Whether there was any answer at all. Metrics decide which answers are good.
    pub fn is_answered(&self) -> bool {
        self.stats.answers() > 0
    }

    /// Answers a second.
    pub fn rate(&self) -> f64 {
        ratio(self.stats.answers(), self.elapsed.as_secs_f64())
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        self.summary(&mut text);
        self.latencies(&mut text);
        self.outcomes(&mut text);
        text
    }

    /// One line for a log.
    pub fn line(&self) -> String {
        let Stats { latency, .. } = &self.stats;
        format!(
            "{} requests, {:.1}/s, {} good, {} other statuses, {} errors; p50 {} p99 {} max {}",
            self.stats.requests(),
            self.rate(),
            self.stats.good(),
            self.stats.answers() - self.stats.good(),
            self.stats.failed(),
            time(latency.percentile(50.0)),
            time(latency.percentile(99.0)),
            time(latency.max()),
        )
    }

    pub fn json(&self) -> Value {
        let statuses = self.stats.statuses().map(|(status, n)| (status.to_string(), n.into()));
        let errors =
            self.stats.failures().map(|(failure, n)| (failure.label().to_owned(), n.into()));
        let counted_from =
            if self.plan.rate.is_some() { "intended send time" } else { "send time" };
        let mut json = json!({
            "address": self.plan.address(),
            "connections": self.plan.connections,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "halted": self.halted,
            "requests": self.stats.requests(),
            "requests_per_second": self.rate(),
            "missed": self.stats.missed,
            "received_bytes": self.stats.bytes,
            "statuses": statuses.collect::<serde_json::Map<String, Value>>(),
            "errors": errors.collect::<serde_json::Map<String, Value>>(),
            "latency": histogram(&self.stats.latency),
            "latency_counted_from": counted_from,
        });
        if self.plan.rate.is_some() {
            json["service_time"] = histogram(&self.stats.service);
        }
        json
    }

    fn summary(&self, text: &mut String) {
        let Self { plan, stats, elapsed, halted } = self;
        let requests = stats.requests();
        let protocol = match stats.http2 {
            0 => "HTTP/1.1",
            _ if plan.protocol == Protocol::Http2PriorKnowledge => "HTTP/2 without TLS",
            _ => "HTTP/2",
        };
        let connections = match plan.connections.get() {
            1 => "1 connection".to_owned(),
            many => format!("{many} connections"),
        };
        let length = match (halted, plan.end) {
            (true, End::After(planned)) => format!(", halted; {} planned", duration::show(planned)),
            (true, End::Requests(planned)) => format!(", halted; {} planned", grouped(planned)),
            (false, _) => String::new(),
        };
        line(text, format_args!("{} {}", plan.method, plan.address()));
        let took = time(*elapsed);
        line(text, format_args!("{connections}, {protocol}, {took}{length}\n"));
        row(text, "requests", &grouped(requests), &format!("{} answered", per_second(self.rate())));
        let good = ratio(stats.good() * 100, as_f64(requests).max(1.0));
        row(text, "good", &grouped(stats.good()), &format!("{} %", percent(good)));
        let speed = ratio(stats.bytes, elapsed.as_secs_f64());
        row(text, "received", &bytes(as_f64(stats.bytes)), &format!("{}/s", bytes(speed)));
        if let Some(rate) = plan.rate {
            let asked = rate.per_second() * f64::from(plan.connections.get());
            let note = if stats.missed == 0 {
                "kept".to_owned()
            } else {
                format!("{} requests were due and not sent in time", grouped(stats.missed))
            };
            row(text, "rate asked", &per_second(asked), &note);
        }
    }

    fn latencies(&self, text: &mut String) {
        let Stats { latency, service, .. } = &self.stats;
        if latency.count() == 0 {
            return;
        }
        if self.plan.rate.is_some() {
            line(text, format_args!("\nLatency, from when each request was due"));
            line(
                text,
                format_args!(
                    "  a late answer also delays the requests behind it, and that is counted"
                ),
            );
        } else {
            line(text, format_args!("\nLatency"));
        }
        let served = |text: &mut String, name: &str, of: &dyn Fn(&Histogram) -> Duration| {
            if service.count() > 0 {
                let sent = format!("{:>9} from when it was sent", time(of(service)));
                row(text, name, &time(of(latency)), &sent);
            } else {
                row(text, name, &time(of(latency)), "");
            }
        };
        served(text, "mean", &Histogram::mean);
        served(text, "fastest", &Histogram::min);
        for percent in PERCENTILES {
            // Of ten requests none is the slowest in a thousand.
            if as_f64(latency.count()) * (100.0 - percent) >= 100.0 || percent <= 50.0 {
                served(text, &format!("{percent} %"), &|it| it.percentile(percent));
            }
        }
        served(text, "slowest", &Histogram::max);
        text.push('\n');
        for (limit, share) in picture(latency) {
            let bar = bar(share);
            let limit = format!("\u{2264} {limit}");
            line(text, format_args!("  {limit:>10}  {bar:<32} {:>6} %", percent(share * 100.0)));
        }
    }

    fn outcomes(&self, text: &mut String) {
        let Self { plan, stats, .. } = self;
        if stats.answers() > 0 {
            line(text, format_args!("\nStatuses"));
        }
        for (status, count) in stats.statuses() {
            let reason = http::StatusCode::from_u16(status).ok();
            let reason = reason.and_then(|it| it.canonical_reason()).unwrap_or_default();
            row(text, &status.to_string(), &grouped(count), reason);
        }
        if stats.failed() > 0 {
            line(text, format_args!("\nErrors"));
        }
        for (failure, count) in stats.failures() {
            row(text, failure.as_str(), &grouped(count), "");
        }
        let redirects: u64 = stats
            .statuses()
            .filter(|(it, _)| matches!(it, 301 | 302 | 303 | 307 | 308))
            .map(|it| it.1)
            .sum();
        if redirects > 0 {
            line(text, format_args!("\nnote: redirects are counted, not followed"));
        }
        if plan.protocol == Protocol::Http2 && !plan.target.tls {
            line(text, format_args!("\nnote: -h2 needs https; use -h2c for HTTP/2 without TLS"));
        }
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _infallible = writeln!(text, "{arguments}");
}

fn row(text: &mut String, name: &str, value: &str, note: &str) {
    let row = format!("  {name:<22}{value:>12}  {note}");
    line(text, format_args!("{}", row.trim_end()));
}

/// Rows for the picture: an upper limit, and the share of answers between it and the one before. Rows
/// with nothing in them are left out.
fn picture(latency: &Histogram) -> Vec<(String, f64)> {
    let mut below = 0;
    let mut rows = Vec::new();
    for step in STEPS_MS {
        let limit = Duration::from_secs_f64(step / 1000.0);
        let up_to = latency.count_up_to(limit);
        let share = ratio(up_to - below, as_f64(latency.count()));
        if up_to > below {
            rows.push((time(limit), share));
        }
        below = up_to;
    }
    // The slowest rows are the ones worth seeing; the fastest are put together.
    if rows.len() > ROWS {
        let fastest = rows.drain(..=rows.len() - ROWS).collect::<Vec<_>>();
        let share = fastest.iter().map(|(_, share)| share).sum();
        rows.insert(0, (fastest.last().map(|it| it.0.clone()).unwrap_or_default(), share));
    }
    rows
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 32")]
fn bar(share: f64) -> String {
    let eighths = (share * f64::from(BAR_MAX) * 8.0).round() as usize;
    let mut bar = "\u{2588}".repeat(eighths / 8);
    // From one eighth of a block to seven.
    let part = ['\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}'];
    match (eighths % 8).checked_sub(1).and_then(|index| part.get(index)) {
        Some(part) => bar.push(*part),
        // A small share is visible, too.
        None if eighths == 0 && share > 0.0 => bar.push('\u{258f}'),
        None => {}
    }
    bar
}

fn histogram(histogram: &Histogram) -> Value {
    let mut json = json!({
        "mean_s": histogram.mean().as_secs_f64(),
        "min_s": histogram.min().as_secs_f64(),
        "max_s": histogram.max().as_secs_f64(),
    });
    for percent in PERCENTILES {
        json[format!("p{percent}_s")] = histogram.percentile(percent).as_secs_f64().into();
    }
    json
}

/// Three figures and a unit: `1.23 ms`.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = match seconds {
        s if s < 999.5e-9 => (s * 1e9, "ns"),
        s if s < 999.5e-6 => (s * 1e6, "\u{b5}s"),
        s if s < 999.5e-3 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{} {unit}", figures(value))
}

fn bytes(count: f64) -> String {
    let (value, unit) = match count {
        n if n < 1024.0 => return format!("{n:.0} B"),
        n if n < 1024.0 * 1024.0 => (n / 1024.0, "KiB"),
        n if n < 1024.0 * 1024.0 * 1024.0 => (n / 1024.0 / 1024.0, "MiB"),
        n => (n / 1024.0 / 1024.0 / 1024.0, "GiB"),
    };
    format!("{} {unit}", figures(value))
}

/// Three of them, unless there are more before the point; no zeros at the end.
fn figures(value: f64) -> String {
    let text = match value {
        v if v >= 99.95 => return format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Never rounds up to 100, nor down to 0.
fn percent(value: f64) -> String {
    match value {
        v if v >= 100.0 => "100".to_owned(),
        v if v > 99.99 => "99.99".to_owned(),
        v if v > 0.0 && v < 0.01 => "< 0.01".to_owned(),
        v => format!("{v:.2}"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate, rounded")]
fn per_second(rate: f64) -> String {
    if rate < 1000.0 {
        format!("{rate:.1}/s")
    } else {
        format!("{}/s", grouped(rate.round() as u64))
    }
}

/// Thousands apart: `12 345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

fn ratio(count: u64, of: f64) -> f64 {
    if of > 0.0 { as_f64(count) / of } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        load::{BodyFiles, Bounds, Failure, Tool},
        words::{Meta, split},
    };

    fn report(arguments: &str, fill: impl FnOnce(&mut Stats)) -> Report {
        let bounds = Bounds { connections_max: 100, body_files: BodyFiles::Refused };
        let words = split(arguments, Meta::Refuse).unwrap();
        let plan = Plan::parse(Tool::Hey, &words, &bounds).unwrap();
        let mut stats = Stats::default();
        fill(&mut stats);
        Report { plan, stats, elapsed: Duration::from_secs(10), halted: false }
    }

    #[test]
    fn a_report_reads_well() {
        let report = report("-z 10s -q 50 -c 2 'http://app.test:8080/x?token=secret'", |stats| {
            for millis in 1..=990 {
                stats.count_answer(200, 100, Duration::from_millis(1 + millis / 100));
                stats.service.record(Duration::from_millis(1));
            }
            for _ in 0..8 {
                stats.count_answer(503, 10, Duration::from_millis(150));
                stats.service.record(Duration::from_millis(100));
            }
            stats.count_failure(Failure::Timeout, Duration::from_secs(20));
            stats.count_failure(Failure::Connect, Duration::from_millis(1));
            stats.missed = 3;
        });
        let want = "\
GET http://app.test:8080/x
2 connections, HTTP/1.1, 10 s

  requests                     1 000  99.8/s answered
  good                           990  99.00 %
  received                  96.8 KiB  9.68 KiB/s
  rate asked                 100.0/s  3 requests were due and not sent in time

Latency, from when each request was due
  a late answer also delays the requests behind it, and that is counted
  mean                       26.6 ms    1.79 ms from when it was sent
  fastest                       1 ms       1 ms from when it was sent
  50 %                       6.03 ms       1 ms from when it was sent
  75 %                       8.03 ms       1 ms from when it was sent
  90 %                         10 ms       1 ms from when it was sent
  95 %                         10 ms       1 ms from when it was sent
  99 %                         10 ms       1 ms from when it was sent
  slowest                       20 s     100 ms from when it was sent

      \u{2264} 1 ms  \u{2588}\u{2588}\u{2588}\u{258f}                               9.91 %
";
        let text = report.text();
        assert!(text.starts_with(want), "{text}");
        let end = "
Statuses
  200                            990  OK
  503                              8  Service Unavailable

Errors
  connection refused               1
  timed out                        1
";
        assert!(text.ends_with(end), "{text}");
        assert!(!text.contains("secret"));
    }

    #[test]
    fn a_report_of_nothing_is_no_panic() {
        let report = report("-z 1s http://a", |_| ());
        assert!(!report.is_answered());
        assert!(report.text().contains("0.0/s answered"), "{}", report.text());
        assert_eq!(report.json()["requests"], 0);
    }

    #[test]
    fn json_has_the_numbers_of_the_text() {
        let report = report("-z 1s -q 5 http://a", |stats| {
            stats.count_answer(200, 7, Duration::from_millis(2));
            stats.count_failure(Failure::Tls, Duration::ZERO);
        });
        let json = report.json();
        assert_eq!(json["statuses"]["200"], 1);
        assert_eq!(json["errors"]["tls"], 1);
        assert_eq!(json["received_bytes"], 7);
        assert_eq!(json["latency_counted_from"], "intended send time");
        let p99 = json["latency"]["p99_s"].as_f64().unwrap();
        assert!((p99 - 0.002).abs() < 0.0001, "{p99}");
    }

    #[test]
    fn shares_are_never_rounded_to_all_or_nothing() {
        for (value, want) in
            [(100.0, "100"), (99.999, "99.99"), (99.5, "99.50"), (0.001, "< 0.01"), (0.0, "0.00")]
        {
            assert_eq!(percent(value), want);
        }
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!(time(Duration::from_nanos(999_600)), "1 ms");
        assert_eq!(time(Duration::from_millis(1234)), "1.23 s");
        assert_eq!(time(Duration::from_mins(2)), "120 s");
    }
}
