//! The findings of a sweep, in one line and in full.

use std::{collections::BTreeMap, fmt};

use kube_sandbox::faults::Cut;
use serde_json::Value;

use super::{Fault, Outcome, Scenario};

/// Findings that are printed in full.
const FINDINGS_SHOWN: usize = 12;
/// Differences of one finding that are printed.
const DIFFERENCES_SHOWN: usize = 8;

/// Counts and findings of a sweep.
#[derive(Debug, Default)]
pub struct Report {
    pub scenarios: usize,
    /// Runs with a cut in them.
    pub runs: usize,
    /// Cuts that took effect, by class.
    pub cuts: BTreeMap<Cut, usize>,
    /// Writes of all runs.
    pub writes: u64,
    pub findings: Vec<String>,
    pub seconds: f64,
}

// === impl Report ===

impl Report {
    pub(super) fn add_clean(&mut self, scenario: &Scenario, outcome: &Outcome) {
        self.scenarios += 1;
        self.writes += outcome.writes;
        let name = &scenario.name;
        if outcome.writes == 0 {
            self.findings.push(format!("{name}: a scenario that writes nothing sweeps nothing"));
        }
        self.judge(&format!("{name}, undisturbed"), outcome);
    }

    pub(super) fn add_cut(
        &mut self,
        scenario: &Scenario,
        Fault { at, cut }: Fault,
        clean: &Outcome,
        outcome: &Outcome,
    ) {
        if outcome.injected > 0 {
            *self.cuts.entry(cut).or_default() += 1;
        }
        self.add_run(&format!("{}, write {at}, {cut:?}", scenario.name), clean, outcome);
    }

    /// Compares a disturbed run with the clean one.
    pub(super) fn add_run(&mut self, place: &str, clean: &Outcome, outcome: &Outcome) {
        let before = self.findings.len();
        self.runs += 1;
        self.writes += outcome.writes;
        if outcome.injected == 0 {
            self.findings.push(format!("{place}: nothing was disturbed"));
        }
        self.judge(place, outcome);
        if outcome.stuck.is_none() && outcome.objects != clean.objects {
            let differences = differences(&clean.objects, &outcome.objects);
            self.findings.push(format!("{place}: another end:\n  {}", differences.join("\n  ")));
        }
        if self.findings.len() > before {
            let written = outcome.written.join("\n  ");
            self.findings.push(format!("{place}: what was written:\n  {written}"));
        }
    }

    fn judge(&mut self, place: &str, outcome: &Outcome) {
        let Outcome { violations, restless, stuck, .. } = outcome;
        let found = violations.iter().chain(stuck);
        self.findings.extend(found.map(|text| format!("{place}: {text}")));
        if !restless.is_empty() {
            let text = restless.join(", ");
            self.findings.push(format!("{place}: written with nothing left to do: {text}"));
        }
    }

    /// Whether there were runs and no findings.
    pub fn is_green(&self) -> bool {
        let is_complete = Cut::ALL.iter().all(|cut| self.cuts.contains_key(cut));
        is_complete && self.findings.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenarios, runs, cuts, writes, findings, seconds } = self;
        let cuts: Vec<_> = cuts.iter().map(|(cut, count)| format!("{cut:?} {count}")).collect();
        let cuts = cuts.join(", ");
        let violations = findings.len();
        write!(
            f,
            "sweep: {scenarios} scenarios, {runs} runs ({cuts}), {writes} writes checked, \
             {violations} violations, {seconds:.1} s"
        )?;
        for finding in findings.iter().take(FINDINGS_SHOWN) {
            write!(f, "\n{finding}")?;
        }
        let rest = findings.len().saturating_sub(FINDINGS_SHOWN);
        if rest > 0 {
            write!(f, "\nand {rest} more:")?;
            for finding in findings.iter().skip(FINDINGS_SHOWN) {
                write!(f, "\n{}", finding.lines().next().unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

/// Paths at which two states differ, with both values.
fn differences(clean: &[Value], cut: &[Value]) -> Vec<String> {
    let by_name = |objects: &[Value]| -> BTreeMap<String, Value> {
        let name = |object: &Value| {
            let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
            format!("{}/{}", text("/kind"), text("/metadata/name"))
        };
        objects.iter().map(|object| (name(object), object.clone())).collect()
    };
    let (clean, cut) = (by_name(clean), by_name(cut));
    let names: std::collections::BTreeSet<_> = clean.keys().chain(cut.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let (left, right) = (clean.get(name), cut.get(name));
        compare(name, left.unwrap_or(&Value::Null), right.unwrap_or(&Value::Null), &mut found);
    }
    found.truncate(DIFFERENCES_SHOWN);
    found
}

fn compare(path: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                compare(&format!("{path}.{key}"), &left[key.as_str()], &right[key.as_str()], found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{at}]"), one, other, found);
            }
        }
        _ if left == right => {}
        _ => {
            let short = |value: &Value| value.to_string().chars().take(300).collect::<String>();
            found.push(format!("{path}: {} undisturbed, {} when cut", short(left), short(right)));
        }
    }
}
