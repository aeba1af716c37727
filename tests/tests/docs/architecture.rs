//! The walk and the table of places in ARCHITECTURE.md: the files and functions that they name exist.

use std::{fs, path::Path};

use crate::markdown::repository;

/// The section under a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("## {heading}\n")).expect("the heading is there");
    rest.split("\n## ").next().unwrap_or_default()
}

/// Words in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn has_function(source: &str, name: &str) -> bool {
    ["(", "<"].iter().any(|end| source.contains(&format!("fn {name}{end}")))
}

#[test]
fn the_walk_of_an_image_change_names_functions_that_exist() {
    let page = fs::read_to_string(repository("ARCHITECTURE.md")).unwrap();
    let walk = section(&page, "One image change, function by function");
    let rows: Vec<&str> = walk.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!((5..=10).contains(&rows.len()), "at most ten files: {}", rows.len());
    for row in rows {
        let words = quoted(row);
        let [file, function, ..] = words.as_slice() else { panic!("a file and a function: {row}") };
        let path = repository(&format!("crates/operator/src/{file}"));
        let source = fs::read_to_string(&path).unwrap_or_else(|_| panic!("no file {file}"));
        assert!(has_function(&source, function), "{file} has no function {function}");
    }
}

#[test]
fn every_file_with_a_path_that_the_page_names_exists() {
    let page = fs::read_to_string(repository("ARCHITECTURE.md")).unwrap();
    let places = section(&page, "Where to find it");
    let mut files = 0;
    for row in places.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let words = quoted(row);
        for (index, word) in words.iter().enumerate() {
            let is_file = Path::new(word).extension().is_some_and(|it| it == "rs");
            if !word.starts_with("crates/") || !is_file {
                continue;
            }
            files += 1;
            let source = fs::read_to_string(repository(word));
            let source = source.unwrap_or_else(|_| panic!("no file {word}"));
            let function = words.get(index + 1).filter(|next| !next.contains(['/', '.', ':']));
            if let Some(function) = function {
                assert!(has_function(&source, function), "{word} has no function {function}");
            }
        }
    }
    assert!(files >= 4, "the table names files: {files}");
}
