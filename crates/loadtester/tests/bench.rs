//! The numbers that `tools/bench-load` reads from the reports of the generators that it compares.

#![expect(clippy::unwrap_used, reason = "all of this file is tests")]

use std::{fs, path::PathBuf, process::Command};

/// The good requests of a report; none if the comparison ends with it.
fn count(name: &str, report: &str) -> Option<String> {
    let file = std::env::temp_dir().join(format!("bench-{name}-{}", std::process::id()));
    fs::write(&file, report).unwrap();
    let tool = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/bench-load");
    let output = Command::new(tool).args(["--count", name]).arg(&file).output().unwrap();
    fs::remove_file(file).unwrap();
    let counted = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| counted.trim().to_owned())
}

#[test]
fn generators_are_compared_by_answers_with_200_and_by_nothing_else() {
    let ours = |statuses: &str, errors: &str| {
        let report = format!(
            r#"{{"errors": {errors}, "latency": {{"count": 9}}, "requests": 9, "statuses": {statuses}}}"#
        );
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        count("ours-close", &format!("{report:#}\n"))
    };
    assert_eq!(ours(r#"{"200": 9}"#, "{}").as_deref(), Some("9"));
    assert_eq!(ours(r#"{"200": 8}"#, r#"{"broken": 1}"#), None);
    assert_eq!(ours(r#"{"200": 8, "503": 1}"#, "{}"), None);
    assert_eq!(ours("{}", "{}"), None);

    let hey = "Status code distribution:\n  [200]\t9 responses\n";
    assert_eq!(count("hey", hey).as_deref(), Some("9"));
    assert_eq!(count("hey", &format!("{hey}  [500]\t1 responses\n")), None);
    assert_eq!(count("hey", &format!("{hey}\nError distribution:\n  [1]\tEOF\n")), None);

    let wrk = "  9 requests in 5.00s, 1.00MB read\n";
    assert_eq!(count("wrk", wrk).as_deref(), Some("9"));
    assert_eq!(count("wrk", &format!("{wrk}  Non-2xx or 3xx responses: 2\n")), None);
    assert_eq!(count("wrk", &format!("{wrk}  Socket errors: connect 0, read 1\n")), None);
}
