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
    for name in names {
        let (Some(real), Some(ours)) = (real.get(name), ours.get(name)) else {
            compared.different.push(format!("{name}: ran on one of them only"));
            continue;
        };
        let lines = |text: &str| -> BTreeSet<String> {
            let lines = text.lines().map(normal::line);
            lines.filter(|line| !line.is_empty() && !accepted::covers(name, line)).collect()
        };
        // A set: objects are listed by names that are drawn.
        let (real, ours) = (lines(real), lines(ours));
        let mut shown: Vec<_> =
            real.difference(&ours).map(|it| format!("  real    {it}")).collect();
        shown.extend(ours.difference(&real).map(|it| format!("  sandbox {it}")));
        if shown.is_empty() {
            compared.same += 1;
        } else {
            compared.different.push(format!("{name}\n{}", shown.join("\n")));
        }
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_names_and_ages_are_no_difference_and_words_are() {
        let one = read("== get pods\nNAME READY AGE\nweb-5d8f9c7b6d-x2x9z 1/1 3s\n").unwrap();
        let two = read("== get pods\nNAME  READY  AGE\nweb-7c6f9d8b5-q8q8q 1/1 12s\n").unwrap();
        assert!(compare(&one, &two).different.is_empty());
        let three = read("== get pods\nNAME READY AGE\nweb-7c6f9d8b5-q8q8q 0/1 12s\n").unwrap();
        assert_eq!(compare(&one, &three).different.len(), 1);
        assert_eq!(compare(&one, &BTreeMap::new()).different.len(), 1);
        assert!(read("").is_err());
    }
}
