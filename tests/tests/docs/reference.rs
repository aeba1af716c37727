//! The pages that are written from the code.

use std::fs;

use crate::{events, fields, flags, markdown::repository, metrics, permissions, status};

/// Set to any value to rewrite the pages instead of comparing them.
const UPDATE: &str = "UPDATE_DOCS";

#[test]
fn reference_pages_are_what_the_code_says() {
    let pages = [
        ("canary-fields.md", fields::page()),
        ("game-fields.md", fields::game_page()),
        ("flags.md", flags::page()),
        ("metrics.md", metrics::page()),
        ("events.md", events::page()),
        ("status.md", status::page()),
        ("permissions.md", permissions::page()),
        ("providers.md", tidegate_providers::traffic::capability_table()),
    ];
    for (name, text) in pages {
        let path = repository("docs/reference").join(name);
        let written = format!("{text}\n{}\n", generated());
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&path, &written).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == written,
            "docs/reference/{name} is out of date; run the tests with {UPDATE}=1 and commit"
        );
    }
}

fn generated() -> String {
    format!("<!-- Written from the code: {UPDATE}=1 cargo test -p tidegate-tests --test docs -->")
}
