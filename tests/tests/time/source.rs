//! Only the clock reads the time.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Calls that read the machine's time, or wait by it.
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

/// Sockets wait by the machine's clock, whatever time it is in the cluster: the data plane under a real
/// clock. Its counterpart for virtual time, `simulation.rs`, is not among them.
const SOCKETS: [&str; 5] = [
    "dataplane/gateway.rs",
    "dataplane/plane.rs",
    "dataplane/pod_server.rs",
    "dataplane/serve.rs",
    "dataplane/traffic.rs",
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kube-sandbox/src");
    let files = sources(&root);
    assert!(files.len() > 100, "the sources are where they were");
    let is_excused = |file: &&PathBuf| {
        file.ends_with("clock.rs") || SOCKETS.iter().any(|socket| file.ends_with(socket))
    };
    for file in files.iter().filter(|file| !is_excused(file)) {
        let text = fs::read_to_string(file).unwrap();
        for word in FORBIDDEN {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
    }
}
