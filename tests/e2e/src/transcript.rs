//! The output of kubectl on two clusters, compared line by line.
//!
//! Generated names, addresses, times and ages differ between any two clusters. They are replaced by
//! placeholders before lines are compared; columns keep their order, not their width.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

mod accepted;
mod normal;

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Compared {
    pub same: usize,
    /// Each difference, for people.
    pub different: Vec<String>,
    /// Accepted lines that neither cluster printed.
    pub idle: Vec<String>,
}

/// The output of each command, by the name of its check.
pub fn read(text: &str) -> Result<BTreeMap<String, String>> {
    let mut outputs: BTreeMap<String, String> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(next) = line.strip_prefix("== ") {
            next.clone_into(&mut name);
            outputs.entry(name.clone()).or_default();
        } else if let Some(output) = outputs.get_mut(&name) {
            output.push_str(line);
            output.push('\n');
        }
    }
    ensure!(!outputs.is_empty(), "the transcript is empty");
    Ok(outputs)
}

/// Compares two transcripts of the same checks.
pub fn compare(real: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) -> Compared {
    let mut compared = Compared::default();
    let names: BTreeSet<_> = real.keys().chain(ours.keys()).collect();
    let mut covered = BTreeSet::new();
    for name in names {
        let (Some(real), Some(ours)) = (real.get(name), ours.get(name)) else {
            compared.different.push(format!("{name}: ran on one of them only"));
            continue;
        };
        let ends = [real, ours].map(|text| last_line(text));
        let waited = waits(real) || waits(ours);
        // Without order: objects are listed by generated names.
        let mut lines = |text: &str| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for line in compared_lines(text) {
                match accepted::covering(name, &line) {
                    Some(row) => _ = covered.insert(row),
                    None if is_counted(name) => *counts.entry(line).or_default() += 1,
                    None => _ = counts.insert(line, 1),
                }
            }
            counts
        };
        let (real, ours) = (lines(real), lines(ours));
        let surplus = |cluster: &str, one: &BTreeMap<String, usize>, other: &BTreeMap<_, usize>| {
            let more = one.iter().filter_map(|(line, count)| {
                let more = count.saturating_sub(other.get(line).copied().unwrap_or(0));
                (more > 0).then(|| format!("  {cluster} {more} x {line}"))
            });
            more.collect::<Vec<_>>()
        };
        let fewer = accepted::may_be_fewer(name);
        let mut shown = if fewer { Vec::new() } else { surplus("real   ", &real, &ours) };
        shown.extend(surplus("sandbox", &ours, &real));
        let [real_end, own_end] = ends;
        if waited && real_end != own_end {
            shown.push(format!("  in the end: {real_end:?} | {own_end:?}"));
        }
        if shown.is_empty() {
            compared.same += 1;
        } else {
            compared.different.push(format!("{name}\n{}", shown.join("\n")));
        }
    }
    compared.idle = accepted::others(&covered);
    compared
}

/// The lines of an output that both clusters must print.
fn compared_lines(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().map(normal::line);
    lines.filter(|line| !line.is_empty() && !is_waiting(line))
}

/// A line of `rollout status` about progress: the printed states depend on milliseconds.
fn is_waiting(line: &str) -> bool {
    line.starts_with("Waiting for ") || line.starts_with("waiting for ")
}

fn waits(text: &str) -> bool {
    text.lines().any(|line| is_waiting(&normal::line(line)))
}

/// The last line of a command.
fn last_line(text: &str) -> Option<String> {
    text.lines().map(normal::line).rfind(|line| !line.is_empty())
}

/// Lists are counted. The number of repeated events and waits depends on time.
fn is_counted(check: &str) -> bool {
    check.starts_with("get ") && check != "get events"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_names_and_ages_are_no_difference_and_words_are() {
        let one = read("== get pods\nNAME READY AGE\nweb-5d8f9c7b6d-x2x9z 1/1 3s\n").unwrap();
        let two = read("== get pods\nNAME  READY  AGE\nweb-7c6f9d8b5-q8q8q 1/1 12s\n").unwrap();
        assert!(compare(&one, &two).different.is_empty());
        let old = read("== get pods\nNAME  READY  AGE\nweb-7c6f9d8b5-q8q8q 1/1 2m\n").unwrap();
        assert!(compare(&one, &old).different.is_empty());
        let three = read("== get pods\nNAME READY AGE\nweb-7c6f9d8b5-q8q8q 0/1 12s\n").unwrap();
        assert_eq!(compare(&one, &three).different.len(), 1);
        let twice = "web-7c6f9d8b5-q8q8q 1/1 12s\n";
        let four = read(&format!("== get pods\nNAME READY AGE\n{twice}{twice}")).unwrap();
        assert_eq!(compare(&one, &four).different.len(), 1, "two pods are not one");
        assert_eq!(compare(&one, &BTreeMap::new()).different.len(), 1);
        assert!(read("").is_err());
    }

    #[test]
    fn how_a_rollout_got_there_is_no_difference_and_where_it_ended_is() {
        let status = |lines: &[&str]| {
            read(&format!("== statefulset rolls out\n{}\n", lines.join("\n"))).unwrap()
        };
        let waiting = "Waiting for partitioned roll out to finish: 0 out of 2 new pods...";
        let ready = "Waiting for 1 pods to be ready...";
        let done = "partitioned roll out complete: 2 new pods have been updated...";
        let slow = status(&[waiting, ready, waiting, done]);
        assert!(compare(&slow, &status(&[done])).different.is_empty());
        assert!(compare(&status(&[done]), &slow).different.is_empty());
        for other in [&[waiting][..], &["error: timed out"], &[done, waiting], &[]] {
            assert_eq!(compare(&slow, &status(other)).different.len(), 1, "{other:?}");
            assert_eq!(compare(&status(other), &slow).different.len(), 1, "{other:?}");
        }
    }
}
