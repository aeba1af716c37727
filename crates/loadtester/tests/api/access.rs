//! Access control: signatures, namespaces, limits.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::json;
use tidegate_loadtester::auth::{SIGNATURE, Signed, TIMESTAMP, sign};

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

/// A call that was signed some seconds ago, as somebody who listens has it.
struct Captured {
    path: String,
    body: String,
    time: String,
    signature: String,
}

impl Captured {
    fn new(path: &str, body: &str, age_s: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let time = (now - age_s).to_string();
        let signature = sign("s3cr3t", &time, Signed { path, body: body.as_bytes() });
        Self { path: path.to_owned(), body: body.to_owned(), time, signature }
    }

    fn send(&self, tester: &Tester) -> Answer {
        let headers = [(TIMESTAMP, self.time.as_str()), (SIGNATURE, self.signature.as_str())];
        tester.send("POST", &self.path, &headers, &self.body)
    }
}

#[test]
fn a_captured_call_does_not_change_a_gate_that_was_changed_meanwhile() {
    let folder = Folder::new("captured");
    let secret = folder.write("secret", "s3cr3t\n");
    for road in ["gate", "rollback"] {
        let file = format!("-gate-file={}", folder.write(&format!("{road}.json"), "[]"));
        let start = || Tester::start(&["-secret-file", &secret, &file]);
        let mut tester = start();
        let call = |action: &str, metadata, age_s| {
            let mut body = json!({ "name": "app", "namespace": "test" });
            body["metadata"] = metadata;
            Captured::new(&format!("/{road}/{action}"), &body.to_string(), age_s)
        };
        let check = |tester: &Tester| call("check", json!({}), 0).send(tester).status;
        // Signed in this order; the first one is held back.
        let held_back = call("open", json!({}), 60);
        let changes = [
            (call("open", json!({}), 50), 200),
            (call("close", json!({}), 40), 403),
            (call("open", json!({ "ttl": "1h" }), 30), 200),
            (call("open", json!({ "steps": "1" }), 20), 200),
            (call("close", json!({}), 10), 403),
        ];
        for (number, (change, open)) in changes.iter().enumerate() {
            assert_eq!(change.send(&tester).status, 202, "{road} {number}");
            for restarts in [false, true] {
                if restarts {
                    tester = start();
                }
                assert_eq!(change.send(&tester).status, 202, "sent again as its answer was lost");
                let earlier = changes.iter().take(number).map(|(earlier, _)| earlier);
                for earlier in earlier.chain([&held_back]) {
                    let answer = earlier.send(&tester);
                    assert_eq!(answer.status, 409, "{road} {number} {restarts}: {answer:?}");
                    let text =
                        format!("the {road} of app.test was changed after this call was signed");
                    let text = text.replace("rollback", "gate");
                    assert!(answer.body.starts_with(&text), "{}", answer.body);
                }
                let used_up = number == 3 && restarts;
                assert_eq!(check(&tester), if used_up { 403 } else { *open }, "{road} {number}");
            }
        }
        assert_eq!(call("open", json!({}), 0).send(&tester).status, 202, "a new call");
        assert_eq!(check(&tester), 200);
        let outdated =
            "tidegate_loadtester_gate_requests_total{action=\"open\",answer=\"outdated\"}";
        assert!(tester.metric(outdated).is_some(), "since the last restart");
    }
}

#[test]
fn a_load_tester_that_forgot_its_gates_takes_no_call_from_before() {
    let folder = Folder::new("forgot");
    let secret = folder.write("secret", "s3cr3t\n");
    let file = format!("-gate-file={}", folder.file("lost.json"));
    for flags in [vec!["-secret-file", &secret], vec!["-secret-file", &secret, &file]] {
        let tester = Tester::start(&flags);
        let body = json!({ "name": "app", "namespace": "test" }).to_string();
        for path in ["/gate/open", "/gate/close"] {
            let answer = Captured::new(path, &body, 60).send(&tester);
            assert_eq!(answer.status, 409, "{answer:?}");
            assert!(answer.body.starts_with("the load tester started after this call was signed"));
        }
        assert_eq!(Captured::new("/gate/check", &body, 60).send(&tester).status, 403, "as usual");
        assert_eq!(signed(&tester, &secret, "/gate/open", &body).status, 202);
    }
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
