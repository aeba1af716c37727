//! Access control: signatures, namespaces, limits.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::support::{Answer, Folder, PROGRAM, Tester, task};

/// Asks as the documentation says: signed by the program itself.
fn signed(tester: &Tester, secret_file: &str, path: &str, body: &str) -> Answer {
    let mut signing = Command::new(PROGRAM)
        .args(["sign", "--secret-file", secret_file, "--path", path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    signing.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = signing.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let headers: Vec<_> = text.lines().map(|line| line.split_once(": ").unwrap()).collect();
    let method = if path == "/gates" { "GET" } else { "POST" };
    tester.send(method, path, &headers, body)
}

#[test]
fn unsigned_requests_are_turned_away() {
    let folder = Folder::new("signed");
    let secret = folder.write("secret", "s3cr3t\n");
    let wrong = folder.write("wrong", "guess\n");
    let tester = Tester::start(&["-secret-file", &secret, "-allow-shell"]);
    let body = task(&json!({ "type": "bash", "cmd": "echo x", "returnCmdOutput": "true" }));
    let body = body.to_string();
    for path in ["/", "/gate/open", "/gate/check", "/rollback/open"] {
        let answer = tester.send("POST", path, &[], &body);
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (401, "the request is not signed"),
            "{path}"
        );
        assert_eq!(signed(&tester, &wrong, path, &body).status, 401, "{path}");
    }
    assert_eq!(tester.get("/gates").status, 401);
    assert_eq!(signed(&tester, &secret, "/gates", "").status, 200);
    let answer = signed(&tester, &secret, "/", &body);
    assert_eq!((answer.status, answer.body.as_str()), (200, "x\n"));
    assert_eq!(signed(&tester, &secret, "/gate/open", &body).status, 202);
    for path in ["/healthz", "/metrics", "/gate/approve"] {
        assert_eq!(tester.get(path).status, 200, "{path} is anybody's");
    }
    let refused = tester.metric("tidegate_loadtester_refused_total{reason=\"signature\"}");
    assert_eq!(refused.as_deref(), Some("9"));
    assert!(!tester.log().contains("s3cr3t"));
}

#[test]
fn a_namespace_is_claimed_with_its_own_secret() {
    let folder = Folder::new("namespaces");
    let red = folder.write("red", "r");
    folder.write("blue", "b");
    let tester = Tester::start(&["-secret-dir", &folder.0.display().to_string()]);
    let of = |namespace: &str| json!({ "name": "app", "namespace": namespace }).to_string();
    assert_eq!(signed(&tester, &red, "/gate/open", &of("red")).status, 202);
    assert_eq!(signed(&tester, &red, "/gate/open", &of("blue")).status, 401);
}

#[test]
fn the_pattern_for_namespaces_is_for_whole_names() {
    let tester = Tester::start(&["-namespace-regexp=test", "-allow-shell"]);
    for path in ["/", "/gate/check", "/gate/open", "/rollback/close"] {
        let mut body = task(&json!({ "type": "bash", "cmd": "true" }));
        body["namespace"] = json!("not-test-2");
        let answer = tester.post(path, &body);
        assert_eq!((answer.status, answer.body.as_str()), (403, "Forbidden"), "{path}");
    }
    let body = task(&json!({ "type": "bash", "cmd": "true" }));
    assert_eq!(tester.post("/", &body).status, 200);
    let wrong = Command::new(PROGRAM).args(["-port=0", "-namespace-regexp=("]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "as Flagger: it does not start");
    let text = String::from_utf8(wrong.stderr).unwrap();
    assert!(text.starts_with("error: -namespace-regexp is no regular expression"), "{text}");
}

#[test]
fn tasks_are_taken_at_one_place_only() {
    let tester = Tester::start(&["-allow-shell"]);
    let body = task(&json!({ "type": "bash", "cmd": "true" }));
    for path in ["/x", "/bash", "/gate", "/gate/x", "/rollback/x", "/healthz/x"] {
        assert_eq!(tester.post(path, &body).status, 404, "{path}");
    }
    for method in ["GET", "PUT", "DELETE"] {
        assert_eq!(tester.send(method, "/", &[], &body.to_string()).status, 405, "{method}");
    }
}

#[test]
fn a_body_has_a_limit() {
    let tester = Tester::start(&["-allow-shell"]);
    let body = task(&json!({ "type": "bash", "cmd": "x".repeat(70_000) })).to_string();
    assert_eq!(tester.send("POST", "/", &[], &body).status, 413);
    let body = task(&json!({ "type": "bash", "cmd": ":".repeat(60_000) })).to_string();
    assert_ne!(tester.send("POST", "/", &[], &body).status, 413);
}
