//! Nothing but the clock asks what time it is.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Ways to ask the machine for time, or to wait by it.
const FORBIDDEN: [&str; 8] = [
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "Zoned::now",
    "UNIX_EPOCH.elapsed",
    "tokio::time::",
    "thread::sleep",
    "use tokio::time",
];

/// Source files below `folder`, tests left out.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_owned();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
    found
}

#[test]
fn only_the_clock_asks_the_machine_for_time() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/sandbox/src");
    let files = sources(&root);
    assert!(files.len() > 100, "the sources are where they were");
    for file in files.iter().filter(|file| !file.ends_with("clock.rs")) {
        let text = fs::read_to_string(file).unwrap();
        for word in FORBIDDEN {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
    }
}
