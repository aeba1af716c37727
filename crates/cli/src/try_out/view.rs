//! The picture of a rollout while it runs.
//!
//! On a terminal one picture is drawn in place; in a pipe every change is a line.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube_sandbox::dataplane::Answers;
use serde_json::Value;

use crate::printer::{Printer, Tone};

/// One moment of the rollout.
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) elapsed: Duration,
    pub(super) status: Value,
    /// Version and ready pods of primary and canary.
    pub(super) primary: Side,
    pub(super) canary: Side,
    /// The canary's share as the route has it.
    pub(super) weight: u8,
    pub(super) answers: Answers,
    /// Reason and message, oldest first.
    pub(super) events: Vec<(String, String, bool)>,
    /// Until the next check.
    pub(super) next: Option<Duration>,
}

#[derive(Clone, Default)]
pub(super) struct Side {
    pub(super) version: String,
    pub(super) ready: u64,
    pub(super) wanted: u64,
}

/// Draws frames.
pub(super) struct View<'p> {
    printer: &'p Printer,
    drawn: usize,
    printed: BTreeSet<(String, String)>,
    last: Option<(Instant, Answers)>,
    rates: BTreeMap<String, f64>,
    /// Events of rollouts that are over.
    skip: usize,
}

const BAR: usize = 32;
const EVENTS: usize = 7;

// === impl View ===

impl<'p> View<'p> {
    pub(super) fn new(printer: &'p Printer) -> Self {
        Self {
            printer,
            drawn: 0,
            printed: BTreeSet::new(),
            last: None,
            rates: BTreeMap::new(),
            skip: 0,
        }
    }

    /// Begins a picture; the first so many events belong to earlier ones.
    pub(super) fn begin(&mut self, events: usize) {
        self.skip = events;
    }

    /// Leaves the picture as it is; the next one is drawn below it.
    pub(super) fn finish(&mut self) {
        self.drawn = 0;
        self.printer.line("");
    }

    pub(super) fn show(&mut self, frame: &Frame) {
        if self.printer.is_terminal() {
            self.measure(&frame.answers);
            let lines = self.picture(frame);
            self.printer.redraw(self.drawn, &lines);
            self.drawn = lines.len();
        } else {
            self.print_events(frame);
        }
    }

    /// New events, one line each.
    fn print_events(&mut self, frame: &Frame) {
        for (reason, message, warning) in frame.events.iter().skip(self.skip) {
            if !self.printed.insert((reason.clone(), format!("{}{message}", frame.title))) {
                continue;
            }
            let mark = if *warning { "!" } else { " " };
            let shares = format!("{:>3}/{:<3}", 100 - frame.weight, frame.weight);
            let at = format!("{:6.1}s", frame.elapsed.as_secs_f64());
            self.printer.line(&format!("{at}  {shares} {mark} {reason:<22} {message}"));
        }
    }

    /// Requests a second by version, over the last second or two.
    fn measure(&mut self, answers: &Answers) {
        let now = Instant::now();
        let Some((since, before)) = &self.last else {
            self.last = Some((now, answers.clone()));
            return;
        };
        let passed = now.duration_since(*since).as_secs_f64();
        if passed < 1.0 {
            return;
        }
        for (version, count) in &answers.by_version {
            let earlier = before.by_version.get(version).copied().unwrap_or_default();
            #[expect(clippy::cast_precision_loss, reason = "counts of seconds are small")]
            let rate = count.saturating_sub(earlier) as f64 / passed;
            self.rates.insert(version.clone(), rate);
        }
        self.last = Some((now, answers.clone()));
    }

    fn picture(&self, frame: &Frame) -> Vec<String> {
        let paint = |tone, text: &str| self.printer.paint(tone, text);
        let clock =
            format!("{:02}:{:02}", frame.elapsed.as_secs() / 60, frame.elapsed.as_secs() % 60);
        let phase = frame.status["phase"].as_str().unwrap_or_default();
        let tone = match phase {
            "Succeeded" | "Initialized" => Tone::Good,
            "Failed" => Tone::Bad,
            _ => Tone::New,
        };
        let next = match frame.next {
            Some(next) => format!("next check in {} s", next.as_secs()),
            None => String::new(),
        };
        let failed = frame.status["failedChecks"].as_i64().unwrap_or_default();
        let failed = if failed > 0 {
            paint(Tone::Bad, &format!("  failed checks {failed}"))
        } else {
            String::new()
        };
        let mut lines = vec![
            format!("  {}  {}", paint(Tone::Strong, &frame.title), paint(Tone::Faint, &clock)),
            String::new(),
            format!(
                "  phase    {} {}{failed}",
                paint(tone, &format!("{phase:<17}")),
                paint(Tone::Faint, &next)
            ),
            self.side("primary", &frame.primary, 100 - frame.weight, Tone::Good),
            self.side("canary", &frame.canary, frame.weight, Tone::New),
            format!("  checks   {}", self.checks(&frame.status)),
            String::new(),
        ];
        let events: Vec<_> = frame.events.iter().skip(self.skip).collect();
        for (reason, message, warning) in events.iter().rev().take(EVENTS).rev() {
            let tone = if *warning { Tone::Bad } else { Tone::Faint };
            lines.push(format!("  {} {message}", paint(tone, &format!("{reason:<22}"))));
        }
        while lines.len() < 7 + EVENTS {
            lines.push(String::new());
        }
        lines
    }

    fn side(&self, name: &str, side: &Side, share: u8, tone: Tone) -> String {
        let filled = BAR * usize::from(share) / 100;
        let bar = format!("{}{}", "█".repeat(filled), "·".repeat(BAR - filled));
        let bar = self.printer.paint(tone, &bar);
        let rate = self.rates.get(&side.version).copied().unwrap_or_default();
        let pods = format!("{}/{} pods", side.ready, side.wanted);
        let rate = if share == 0 { String::new() } else { format!("{rate:>4.0} req/s") };
        format!("  {name:<8} {bar} {share:>3} %  {:<9} {pods:<9} {rate}", side.version)
    }

    fn checks(&self, status: &Value) -> String {
        let checks = status["lastDecision"]["checks"].as_array().cloned().unwrap_or_default();
        let shown: Vec<String> = checks
            .iter()
            .map(|check| {
                let text = |field: &str| check[field].as_str().unwrap_or_default().to_owned();
                let limit = match (check["min"].as_str(), check["max"].as_str()) {
                    (Some(min), _) => format!("≥ {min}"),
                    (_, Some(max)) => format!("≤ {max}"),
                    _ => String::new(),
                };
                let passed = check["passed"] == true;
                let (mark, tone) = if passed { ("✓", Tone::Good) } else { ("✗", Tone::Bad) };
                let line = format!("{} {} {limit} {mark}", text("name"), text("value"));
                self.printer.paint(tone, &line)
            })
            .collect();
        shown.join("   ")
    }
}

/// How long until a time that the operator wrote down.
pub(super) fn until(status: &Value, now: Timestamp) -> Option<Duration> {
    let next: Timestamp = status["lastDecision"]["next"].as_str()?.parse().ok()?;
    Duration::try_from(next.duration_since(now)).ok()
}
