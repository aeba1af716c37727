//! The pages on invariants and mistakes against the tests that they name.
//!
//! In both pages a path that ends in `.rs` names a file, and words that at least two underscores join
//! name a test in the file before them. Both must exist.

use std::{fs, path::Path};

use crate::markdown::repository;

const PAGES: [&str; 2] = ["docs/invariants.md", "docs/mistakes.md"];

#[test]
fn every_test_that_a_list_names_exists() {
    let mut missing = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(repository(page)).unwrap();
        let named = tests_of(&text);
        assert!(named.len() > 50, "{page} names only {} tests", named.len());
        missing.extend(named.into_iter().filter(|(file, test)| !is_defined(file, test)));
    }
    assert!(missing.is_empty(), "tests that do not exist: {missing:#?}");
}

#[test]
fn every_list_is_numbered_without_gaps() {
    let invariants = fs::read_to_string(repository(PAGES[0])).unwrap();
    let headings = invariants.lines().filter_map(|line| line.strip_prefix("### "));
    assert_eq!(numbers(headings), (1..=30).collect::<Vec<_>>());
    let mistakes = fs::read_to_string(repository(PAGES[1])).unwrap();
    let (canaries, game) = mistakes.split_once("## Game workloads").unwrap();
    assert_eq!(numbers(canaries.lines()), (1..=36).collect::<Vec<_>>());
    assert_eq!(numbers(game.lines()), (1..=51).collect::<Vec<_>>());
}

fn numbers<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<u32> {
    lines.filter_map(|line| line.split_once(". ")?.0.parse().ok()).collect()
}

/// Files and names of tests, in the order of a page.
fn tests_of(page: &str) -> Vec<(String, String)> {
    let mut file = String::new();
    let mut tests = Vec::new();
    // Every second part stands between backticks.
    for span in page.split('`').skip(1).step_by(2) {
        if Path::new(span).extension().is_some_and(|it| it == "rs") {
            span.clone_into(&mut file);
        } else if is_name(span) && span.matches('_').count() >= 2 {
            tests.push((file.clone(), span.to_owned()));
        }
    }
    tests
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_defined(file: &str, test: &str) -> bool {
    let source = fs::read_to_string(repository(file)).unwrap_or_default();
    source.split("fn ").skip(1).filter_map(|rest| rest.split('(').next()).any(|name| name == test)
}
