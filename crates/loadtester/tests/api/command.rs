//! `tidegate-loadtester load`, as a person runs it.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{PROGRAM, Tester};

fn load(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("load").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn load_is_made_and_reported() {
    let tester = Tester::start(&[]);
    let address = format!("http://127.0.0.1:{}/healthz", tester.port);
    let output = load(&["-n", "20", "-c", "2", &address]);
    assert_eq!(output.status.code(), Some(0));
    let report = text(&output.stdout);
    assert!(report.starts_with(&format!("GET {address}\n2 connections, HTTP/1.1, ")), "{report}");
    assert!(report.contains("\n  requests                        20  "), "{report}");
    assert!(report.contains("\n  200                             20  OK\n"), "{report}");
    assert_eq!(text(&output.stderr), "", "nothing but the report");

    let output = load(&["hey", "-n=4", "-c=1", "-o", "json", &address]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["requests"], &report["statuses"]["200"]), (&4.into(), &4.into()));
    let output = load(&["wrk", "-t1", "-c2", "-d1s", "--latency", &address]);
    assert!(text(&output.stdout).contains("\nLatency\n"), "{}", text(&output.stdout));
}

#[test]
fn exit_codes_tell_success_from_failure() {
    let nobody = load(&["-n", "1", "-c", "1", "http://127.0.0.1:1/"]);
    assert_eq!(nobody.status.code(), Some(1), "nothing was answered");
    assert!(text(&nobody.stdout).contains("connection refused               1"));
    let wrong = load(&["-z", "soon", "http://a/"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(text(&wrong.stderr), "error: `soon` is no value for -z\n");
    let help = load(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("Flags of hey:"));
}
