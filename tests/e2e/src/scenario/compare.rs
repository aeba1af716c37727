//! What a script says, against what happened on a real cluster.

use std::fmt;

use tidegate_tests::scenario::{Script, Step, difference};

/// What happened, or should: writes, and calls.
#[derive(Default)]
pub(super) struct Told {
    pub(super) writes: Vec<String>,
    pub(super) calls: Vec<String>,
}

/// Where a cluster did not do what a script says.
#[derive(Debug)]
pub struct Differs {
    /// The lines that differ.
    text: String,
    /// Whether the cluster did nothing that the script does not say, in no other order: it had not come so far.
    pub is_late: bool,
}

// === impl Differs ===

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Differs {}

/// `Err` shows the lines that differ.
pub(super) fn compare(mut wanted: Script, mut played: Script, told: &Told) -> Result<(), Differs> {
    let mut expected = Told::default();
    let mut shown = [String::new(), String::new()];
    for (step, played) in wanted.steps_mut().zip(played.steps_mut()) {
        if is_look(step) {
            shown[0].push_str(&text(step));
            shown[1].push_str(&text(played));
            continue;
        }
        expected.add(&step.outcome);
    }
    let [wanted, seen] = shown;
    let [(wanted_gone, wanted_writes), (seen_gone, seen_writes)] =
        [&expected.writes, &told.writes].map(|writes| apart(writes));
    let pairs = [
        ("writes", wanted_writes, seen_writes),
        ("what is gone", wanted_gone, seen_gone),
        ("calls", once(&expected.calls), once(&told.calls)),
        ("what is shown", wanted, seen),
    ];
    for (what, wanted, seen) in pairs {
        // A rollout goes on while its end is looked at.
        let is_so = if what == "what is gone" {
            has_all(&seen, &wanted)
        } else {
            seen == wanted || what != "what is shown" && seen.starts_with(&format!("{wanted}\n"))
        };
        if !is_so {
            let lines = difference(&wanted, &seen);
            let text = format!("{what} (- the script, + the cluster):\n{lines}");
            let is_late = what != "what is shown" && is_part(&seen, &wanted);
            return Err(Differs { text, is_late });
        }
    }
    Ok(())
}

// === impl Told ===

impl Told {
    /// Takes in what a script says under a command.
    pub(super) fn add(&mut self, outcome: &[String]) {
        for line in outcome.iter().map(|line| without_time(line)) {
            match kind_of(line) {
                Kind::Write => self.writes.push(line.to_owned()),
                Kind::Call => self.calls.push(line.to_owned()),
                Kind::Neither => {}
            }
        }
    }

    /// Whether as much happened as in the other, and everything is gone that is gone there.
    pub(super) fn reaches(&self, other: &Self) -> bool {
        let [(gone, writes), (other_gone, other_writes)] =
            [self, other].map(|told| apart(&told.writes));
        let [calls, other_calls] = [self, other].map(|told| once(&told.calls));
        writes.lines().count() >= other_writes.lines().count()
            && calls.lines().count() >= other_calls.lines().count()
            && has_all(&gone, &other_gone)
    }
}

/// Whether a line of an outcome is one that is compared and comes at its time.
pub(super) fn counts(line: &str) -> bool {
    let line = without_time(line);
    !matches!(kind_of(line), Kind::Neither) && !is_of_pods(line)
}

/// Whether these are lines of the whole, in their order.
fn is_part(lines: &str, whole: &str) -> bool {
    let mut whole = whole.lines();
    lines.lines().all(|line| whole.any(|other| other == line))
}

fn has_all(lines: &str, wanted: &str) -> bool {
    wanted.lines().all(|line| lines.lines().any(|other| other == line))
}

/// How long pods take is their node's business.
fn is_of_pods(line: &str) -> bool {
    line.contains("NotReady: ")
}

/// What is gone, and everything else in its order: in which order the garbage collector takes things is its
/// own business.
fn apart(writes: &[String]) -> (String, String) {
    let told = writes.iter().map(String::as_str).filter(|line| !is_of_pods(line));
    let (mut gone, others): (Vec<&str>, Vec<&str>) =
        told.partition(|line| line.ends_with(" is gone"));
    gone.sort_unstable();
    (gone.join("\n"), others.join("\n"))
}

/// A hook that is asked again and says the same has said it once more or less by the time of day.
fn once(calls: &[String]) -> String {
    let mut calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    calls.dedup();
    calls.join("\n")
}

enum Kind {
    Write,
    Call,
    Neither,
}

fn kind_of(line: &str) -> Kind {
    if line.starts_with("pods of ") || line.starts_with("checks ") {
        return Kind::Neither;
    }
    if line.starts_with("hook ") || line.starts_with("chat") { Kind::Call } else { Kind::Write }
}

fn is_look(step: &Step) -> bool {
    step.text.starts_with("show ")
}

fn text(step: &Step) -> String {
    format!("{}\n{}\n", step.text, step.outcome.join("\n"))
}

/// ` 0:35  Service web is created` without when.
fn without_time(line: &str) -> &str {
    line.get(7..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_may_come_late_and_what_is_other_never_does() {
        let whole = "made\nweight 0 -> 20\nweight 20 -> 40";
        for part in ["", "made", "made\nweight 20 -> 40"] {
            assert!(is_part(part, whole), "{part}");
        }
        for other in ["weight 20 -> 40\nmade", "made\nmade", "made\nweight 0 -> 40"] {
            assert!(!is_part(other, whole), "{other}");
        }
    }
}
