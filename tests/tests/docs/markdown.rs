//! Pages: their paths, their blocks, and tables.

use std::{
    fs::{self, DirEntry},
    path::PathBuf,
};

/// A page of the documentation.
pub(crate) struct Page {
    /// Path below the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A fenced block of a page.
pub(crate) struct Block {
    /// The word after the fence.
    pub(crate) language: String,
    pub(crate) text: String,
    /// Line of the fence, for messages.
    pub(crate) line: usize,
}

/// The pages at the root that users and contributors read.
const ROOT_PAGES: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

/// A path below the root of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Every page, in order of its path.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths: Vec<String> = ROOT_PAGES.iter().map(|path| (*path).to_owned()).collect();
    let folders = ["docs", "docs/guide", "docs/guide/providers", "docs/concepts", "docs/reference"];
    for folder in folders {
        let entries = fs::read_dir(repository(folder)).unwrap().map(Result::unwrap);
        let is_page = |entry: &DirEntry| entry.path().extension().is_some_and(|it| it == "md");
        let names = entries.filter(is_page).map(|entry| entry.file_name().into_string().unwrap());
        paths.extend(names.map(|name| format!("{folder}/{name}")));
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(repository(&path))
                .unwrap_or_else(|error| panic!("{path}: {error}"));
            Page { path, text }
        })
        .collect()
}

/// Escapes a text for a cell of a table.
pub(crate) fn cell(text: &str) -> String {
    let escaped = text.replace('|', "\\|").replace('<', "&lt;");
    escaped.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text as code, in a cell.
pub(crate) fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// A table; cells are written as they are given.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let line = |cells: &[String; N]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&head.map(str::to_owned));
    text.push_str(&line(&[(); N].map(|()| "---".to_owned())));
    text.extend(rows.iter().map(line));
    text
}

// === impl Page ===

impl Page {
    /// The fenced blocks, in order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (number, line) in self.text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), open.take()) {
                (Some(language), None) => {
                    let language = language.trim().to_owned();
                    open = Some(Block { language, text: String::new(), line: number + 1 });
                }
                (Some(_), Some(block)) => blocks.push(block),
                (None, Some(mut block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                    open = Some(block);
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block has no end", self.path);
        blocks
    }

    /// The lines outside blocks, without fences.
    pub(crate) fn prose(&self) -> String {
        let mut inside = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                prose.push_str(line);
                prose.push('\n');
            }
        }
        prose
    }
}

#[test]
fn blocks_are_told_from_prose() {
    let text = "a\n```yaml\nb: 1\n```\nc\n".to_owned();
    let page = Page { path: "page.md".to_owned(), text };
    let blocks = page.blocks();
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].language, "yaml");
    assert_eq!(blocks[0].text, "b: 1\n");
    assert_eq!(page.prose(), "a\nc\n");
}
