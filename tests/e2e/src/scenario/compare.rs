//! The outcome in a script, compared with the one on a real cluster.

use std::fmt;

use tidegate_tests::scenario::{Script, Step, difference};

/// An outcome, actual or expected: writes, and calls.
#[derive(Default)]
pub(super) struct Told {
    pub(super) writes: Vec<String>,
    pub(super) calls: Vec<String>,
}

/// A difference of a cluster from a script.
#[derive(Debug)]
pub struct Differs {
    /// The lines that differ.
    text: String,
    /// Whether the lines are a beginning of the script's, in the same order: the cluster was only too slow.
    pub is_late: bool,
}

// === impl Differs ===

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Differs {}

/// Compares the script with the outcome at its end, and a while later. `Err` shows the lines that differ.
pub(super) fn compare(
    wanted: &Script,
    played: &Script,
    at_the_end: &Told,
    told: &Told,
) -> Result<(), Differs> {
    let mut expected = Told::default();
    let mut shown = [String::new(), String::new()];
    // Where the script ends without further events, there must be none.
    let mut ends_still = false;
    // The moment of an output without an event before it depends on the clock alone, which may be late.
    let mut is_clock_late = true;
    for (step, played) in wanted.steps().zip(played.steps()) {
        if is_look(step) {
            shown[0].push_str(&text(step));
            shown[1].push_str(&text(played));
            is_clock_late &= ends_still || text(step) == text(played);
            continue;
        }
        ends_still = step.text.starts_with("wait ") && !step.outcome.iter().any(|it| counts(it));
        expected.add(&step.outcome);
    }
    let [wanted, seen] = shown;
    let [(wanted_gone, wanted_writes), (seen_gone, seen_writes)] =
        [&expected.writes, &told.writes].map(|writes| apart(writes));
    let differs = |what: &str, wanted: &str, seen: &str, is_late: bool| {
        let lines = difference(wanted, seen);
        Err(Differs { text: format!("{what} (- the script, + the cluster):\n{lines}"), is_late })
    };
    let calls = once(&expected.calls);
    let (_, last_writes) = apart(&at_the_end.writes);
    let last_calls = once(&at_the_end.calls);
    let pairs = [
        ("writes", wanted_writes, seen_writes, last_writes),
        ("calls", calls, once(&told.calls), last_calls),
    ];
    for (what, wanted, seen, last) in pairs {
        // A rollout goes on while its end is compared.
        if !begins(&seen, &wanted) {
            return differs(what, &wanted, &seen, begins(&wanted, &seen));
        }
        if ends_still && !begins(&wanted, &last) {
            return differs(&format!("{what} after the end"), &wanted, &last, false);
        }
    }
    if !has_all(&seen_gone, &wanted_gone) {
        return differs(
            "what is gone",
            &wanted_gone,
            &seen_gone,
            has_all(&wanted_gone, &seen_gone),
        );
    }
    if seen != wanted {
        return differs("what is shown", &wanted, &seen, is_clock_late);
    }
    Ok(())
}

// === impl Told ===

impl Told {
    /// Adds the script's outcome of a command.
    pub(super) fn add(&mut self, outcome: &[String]) {
        for line in outcome.iter().map(|line| without_time(line)) {
            match kind_of(line) {
                Kind::Write => self.writes.push(line.to_owned()),
                Kind::Call => self.calls.push(line.to_owned()),
                Kind::Neither => {}
            }
        }
    }

    /// Whether it has as many lines as the other, and everything is deleted that is deleted there.
    pub(super) fn reaches(&self, other: &Self) -> bool {
        let [(gone, writes), (other_gone, other_writes)] =
            [self, other].map(|told| apart(&told.writes));
        let [calls, other_calls] = [self, other].map(|told| once(&told.calls));
        writes.lines().count() >= other_writes.lines().count()
            && calls.lines().count() >= other_calls.lines().count()
            && has_all(&gone, &other_gone)
    }
}

/// Whether a line of an outcome is compared and comes at its time.
pub(super) fn counts(line: &str) -> bool {
    let line = without_time(line);
    !matches!(kind_of(line), Kind::Neither) && !is_of_pods(line)
}

/// Whether lines begin with these.
fn begins(lines: &str, with: &str) -> bool {
    let mut lines = lines.lines();
    with.lines().all(|line| lines.next() == Some(line))
}

fn has_all(lines: &str, wanted: &str) -> bool {
    wanted.lines().all(|line| lines.lines().any(|other| other == line))
}

/// The times of pods depend on their node.
fn is_of_pods(line: &str) -> bool {
    line.contains("NotReady: ")
}

/// A line without the reason why pods are missing, if it has one: their number and their order depend on
/// the cluster.
fn without_pods(line: &str) -> String {
    let Some((sentence, why)) = line.rsplit_once(": ") else { return line.to_owned() };
    let (pods, rest) = why.split_once("; ").map_or((why, None), |(pods, rest)| (pods, Some(rest)));
    let ends = [
        " are updated",
        " are still terminating",
        "1 has to run",
        " has not seen the latest change",
    ];
    let is_of_pods = ends.iter().any(|end| pods.ends_with(end))
        || pods.contains(" updated ") && pods.contains(" have to be (readyThreshold ");
    if !is_of_pods {
        return line.to_owned();
    }
    let rest = rest.map(|rest| format!("; {rest}")).unwrap_or_default();
    format!("{sentence}: pods are lacking{rest}")
}

/// The workloads whose pods an outcome mentions, and the pods: the last line of each counts.
pub(super) fn pods_of(outcome: &[String]) -> impl Iterator<Item = (String, String)> {
    let lines = outcome.iter().filter_map(|line| without_time(line).strip_prefix("pods of "));
    let pairs = lines.filter_map(|line| line.split_once(": "));
    pairs.map(|(app, pods)| (app.to_owned(), pods.to_owned()))
}

/// Deletions, and all other writes in their order: the order of the garbage collector's deletions is not
/// compared.
fn apart(writes: &[String]) -> (String, String) {
    let told = writes.iter().filter(|line| !is_of_pods(line)).map(|line| without_pods(line));
    let (mut gone, others): (Vec<String>, Vec<String>) =
        told.partition(|line| line.ends_with(" is gone"));
    gone.sort_unstable();
    (gone.join("\n"), others.join("\n"))
}

/// Repeated equal answers of a hook count as one: their number depends on time.
fn once(calls: &[String]) -> String {
    let mut calls: Vec<String> = calls.iter().map(|line| without_pods(line)).collect();
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
    let outcome: Vec<String> = step.outcome.iter().map(|line| without_pods(line)).collect();
    format!("{}\n{}\n", step.text, outcome.join("\n"))
}

/// ` 0:35  Service web is created` without the time.
fn without_time(line: &str) -> &str {
    line.get(7..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_may_come_late_and_what_is_other_never_does() {
        let whole = "made\nweight 0 -> 20\nweight 20 -> 40";
        for part in ["", "made", "made\nweight 0 -> 20", whole] {
            assert!(begins(whole, part), "{part}");
        }
        let others = ["weight 20 -> 40\nmade", "made\nmade", "made\nweight 20 -> 40", "mad"];
        for other in others.into_iter().chain(["made\nweight 0 -> 20\nweight 20 -> 40\nmade"]) {
            assert!(!begins(whole, other), "{other}");
        }
    }

    fn script(text: &str) -> Script {
        Script::parse(&format!("A release\n\n{text}")).unwrap()
    }

    fn told(writes: &[&str]) -> Told {
        let writes = writes.iter().map(|&it| it.to_owned()).collect();
        Told { writes, calls: Vec::new() }
    }

    #[test]
    fn where_a_script_ends_with_nothing_nothing_may_happen() {
        let still = script("release web:2.0\n     0:00  made\nwait 60s\n");
        let goes_on = script("release web:2.0\n     0:00  made\n");
        let (as_said, more) = (told(&["made"]), told(&["made", "made again"]));
        let judged = |script: &Script, at_the_end: &Told, later: &Told| {
            compare(script, script, at_the_end, later).map_err(|differs| differs.is_late)
        };
        assert_eq!(judged(&still, &as_said, &as_said), Ok(()));
        assert_eq!(judged(&still, &more, &more), Err(false), "in the time that nothing happens");
        assert_eq!(judged(&still, &as_said, &more), Ok(()), "after that time");
        assert_eq!(judged(&goes_on, &more, &more), Ok(()), "a rollout goes on");
        assert_eq!(judged(&still, &told(&[]), &told(&[])), Err(true), "it had not come so far");
    }

    #[test]
    fn which_pods_are_lacking_is_not_compared() {
        let lacking = [
            "1 of 2 replicas are updated",
            "0 of 6 updated pods are available, 6 have to be (readyThreshold 100%)",
            "1 old replicas are still terminating",
            "0 replicas are asked for, at least 1 has to run",
            "its controller has not seen the latest change",
        ];
        let lines = ["! CanaryDown: web has no pod", "chat (error): No progress: the primary"];
        for line in lines {
            for why in lacking {
                let told = format!("{line}: {why}; too few have been available for more than 60 s");
                let compared = "pods are lacking; too few have been available for more than 60 s";
                assert_eq!(without_pods(&told), format!("{line}: {compared}"));
                let told = format!("{line}: {why}");
                assert_eq!(without_pods(&told), format!("{line}: pods are lacking"));
            }
        }
        let others = [
            "weight 0 -> 20",
            "! PromotionFailed: web-primary: it made no progress for its own 600 s",
            "Deployment web is created: replicas 2, image web:1.0",
            "* Promoted: web.default is promoted and scaled to zero.",
        ];
        for other in others {
            assert_eq!(without_pods(other), other);
        }
    }

    #[test]
    fn pods_are_read_from_outcomes() {
        let outcome =
            [" 0:10  pods of web: 2 of web:1.0", "       pods of web: none", "       made"];
        let pods: Vec<_> = pods_of(&outcome.map(str::to_owned)).collect();
        let pair = |pods: &str| ("web".to_owned(), pods.to_owned());
        assert_eq!(pods, [pair("2 of web:1.0"), pair("none")]);
    }
}
