//! What kubectl said on two clusters, compared as a person would.
//!
//! Names that are drawn, addresses, times and ages differ between any two clusters. They are replaced by
//! what they are before lines are compared; columns keep their order, not their width.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

mod accepted;
mod normal;

/// How a comparison went.
#[derive(Debug, Default)]
pub struct Compared {
    pub same: usize,
    /// Each difference, to be read by a person.
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
        // Without order: objects are listed by names that are drawn.
        let mut lines = |text: &str| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for line in text.lines().map(normal::line).filter(|line| !line.is_empty()) {
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
        if shown.is_empty() {
            compared.same += 1;
        } else {
            compared.different.push(format!("{name}\n{}", shown.join("\n")));
        }
    }
    compared.idle = accepted::others(&covered);
    compared
}

/// What is listed is counted. How often something is said to happen, or to be waited for, is a matter of time.
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
}
