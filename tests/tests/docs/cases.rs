//! Tables of cases and the tests that cover them.
//!
//! A module keeps its table in its header, a row a case: `| id | about | tests |`, the tests in backticks,
//! scripts by their paths. Rows are compared with the code, so that a renamed or removed test is noticed.

use std::{collections::BTreeSet, fs, path::Path};

use crate::markdown::repository;

/// Fails unless every row of the module's table names tests, and all of them exist.
pub(crate) fn assert_tested(module: &str) {
    let mut known = BTreeSet::new();
    for folder in ["crates", "tests/tests", "tests/e2e/tests"] {
        tests(&repository(folder), &mut known);
    }
    for (id, rest) in rows(module) {
        let named: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{id} has no test");
        for name in named {
            let is_there =
                if name.contains('/') { repository(name).is_file() } else { known.contains(name) };
            assert!(is_there, "{id}: there is no test {name}");
        }
    }
}

/// Fails unless the module's table has a row for each of these cases, and no other.
pub(crate) fn assert_complete(module: &str, cases: impl IntoIterator<Item = String>) {
    let rows = rows(module);
    let found: BTreeSet<String> = rows.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(found.len(), rows.len(), "a case has one row");
    let cases: BTreeSet<String> = cases.into_iter().collect();
    let missing: Vec<_> = cases.difference(&found).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    let unknown: Vec<_> = found.difference(&cases).collect();
    assert!(unknown.is_empty(), "unknown: {unknown:?}");
}

/// Id and the rest of its row.
fn rows(module: &str) -> Vec<(&str, &str)> {
    let rows = module.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(2);
    rows.map(|row| row.split_once(" | ").unwrap()).collect()
}

/// Names of all tests in the Rust files below a folder: functions that are marked as such.
fn tests(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim_start) {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                let line = line.strip_prefix("async ").unwrap_or(line);
                if let Some(rest) = line.strip_prefix("fn ") {
                    let name = rest.split(['(', '<']).next().unwrap_or_default();
                    if std::mem::take(&mut is_test) {
                        found.insert(name.to_owned());
                    }
                }
            }
        }
    }
}
