//! Links between pages have a target.

use std::collections::BTreeSet;

use crate::markdown::{Page, pages, repository};

#[test]
fn links_lead_to_pages_and_headings_that_exist() {
    let pages = pages();
    let mut broken = Vec::new();
    for page in &pages {
        for link in links(page) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let path = resolve(&page.path, path);
            let is_there = repository(&path).exists();
            let target = pages.iter().find(|other| other.path == path);
            let has_heading =
                heading.is_empty() || target.is_some_and(|other| headings(other).contains(heading));
            if !is_there || !has_heading {
                broken.push(format!("{}: {link}", page.path));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn links(page: &Page) -> Vec<String> {
    let prose = page.prose();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(str::to_owned).collect()
}

/// A path relative to a page, from the root of the repository.
fn resolve(page: &str, link: &str) -> String {
    if link.is_empty() {
        return page.to_owned();
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a page, as GitHub makes them.
fn headings(page: &Page) -> BTreeSet<String> {
    let prose = page.prose();
    let lines = prose.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept =
                title.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
            kept.map(|it| if it == ' ' { '-' } else { it }).collect()
        })
        .collect()
}
