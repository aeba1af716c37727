//! Tests that other systems run: nGrinder and Concord.

use serde_json::{Value, json};

use crate::support::{Fake, Folder, Tester};

fn ngrinder(port: u16) -> Value {
    json!({
        "type": "ngrinder",
        "server": format!("http://127.0.0.1:{port}"),
        "clone": "960",
        "username": "admin",
        "passwd": "YWRtaW4=",
        "pollInterval": "100ms",
    })
}

/// "nGrinder clone 960 → id 961 → FINISHED: POST `clone_and_start`, GET status of 961, task ends OK".
#[test]
fn a_test_is_cloned_and_watched() {
    let server = Fake::start(&[
        ("POST /perftest/api/960/clone_and_start ", &[r#"{"success":true,"id":961}"#]),
        (
            "GET /perftest/api/961/status ",
            &[
                r#"{"status":[{"status_id":"TESTING"}]}"#,
                "not json",
                r#"{"status":[{"status_id":"FINISHED"}]}"#,
            ],
        ),
    ]);
    let tester = Tester::start(&[]);
    let answer = tester.task(&ngrinder(server.port));
    assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    tester.until_logged("command finished nGrinder test 960");
    let asked = server.asked();
    assert_eq!(asked.len(), 4, "{asked:?}");
    let basic = |request: &String| {
        request.to_ascii_lowercase().contains("authorization: basic ywrtaw46ywrtaw4=")
    };
    assert!(asked.iter().all(basic), "{asked:?}");
    assert!(!tester.log().contains("YWRtaW4"), "no password in the log");
}

#[test]
fn a_test_that_ends_badly_or_does_not_start_has_failed() {
    for (started, status, want) in [
        (r#"{"id":1}"#, r#"{"status":[{"status_id":"STOP_BY_ERROR"}]}"#, "ended as STOP_BY_ERROR"),
        (r#"{"id":1}"#, r#"{"status":[{"status_id":"CANCELED"}]}"#, "ended as CANCELED"),
        (r#"{"success":false}"#, "{}", "did not start the test"),
        // A crash in Flagger.
        ("{}", "{}", "did not start the test"),
        ("[]", "{}", "did not start the test"),
    ] {
        let server = Fake::start(&[("POST /", &[started]), ("GET /", &[status])]);
        let tester = Tester::start(&[]);
        assert_eq!(tester.task(&ngrinder(server.port)).status, 202);
        tester.until_logged(want);
    }
}

#[test]
fn when_its_time_is_over_a_test_is_stopped() {
    let server = Fake::start(&[
        ("POST /perftest/api/960/clone_and_start ", &[r#"{"id":961}"#]),
        ("GET /perftest/api/961/status ", &[r#"{"status":[{"status_id":"TESTING"}]}"#]),
        ("PUT /perftest/api/961?action=stop ", &["{}"]),
    ]);
    let tester = Tester::start(&["-timeout=2s"]);
    assert_eq!(tester.task(&ngrinder(server.port)).status, 202);
    tester.until_logged("timed out after 2s");
    let asked = server.asked();
    assert!(asked.last().unwrap().starts_with("PUT /perftest/api/961?action=stop "), "{asked:?}");
}

#[test]
fn metadata_of_a_test_is_checked_before_it_starts() {
    let tester = Tester::start(&[]);
    let mut metadata = ngrinder(1);
    metadata["pollInterval"] = json!("0s");
    let answer = tester.task(&metadata);
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (400, "`pollInterval` in the metadata cannot be used")
    );
    metadata["passwd"] = json!("");
    let answer = tester.task(&metadata);
    let want = "server, clone, username and passwd are required metadata";
    assert_eq!((answer.status, answer.body.as_str()), (400, want));
}

fn concord(port: u16) -> Value {
    json!({
        "type": "concord",
        "server": format!("http://127.0.0.1:{port}/ignored"),
        "org": "o",
        "project": "p",
        "repo": "r",
        "entrypoint": "main",
        "apiKeyPath": "key",
        "endpoint": "http://podinfo.test",
        "arguments.x": "1",
        "pollInterval": "1",
    })
}

fn concord_tester(folder: &Folder, port: u16) -> Tester {
    folder.write("key", "the-key\n");
    let servers = format!("-concord-servers=http://127.0.0.1:{port}");
    let keys = format!("-concord-key-dir={}", folder.0.display());
    Tester::start(&["-enable-tasks=concord", &servers, &keys])
}

#[test]
fn a_process_is_started_and_watched() {
    let folder = Folder::new("concord");
    let server = Fake::start(&[
        ("POST /api/v1/process ", &[r#"{"instanceId":"a-1"}"#]),
        ("GET /api/v1/process/a-1 ", &[r#"{"status":"RUNNING"}"#, r#"{"status":"FINISHED"}"#]),
    ]);
    let tester = concord_tester(&folder, server.port);
    let answer = tester.task(&concord(server.port));
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    let start = &server.asked()[0];
    assert!(start.to_ascii_lowercase().contains("authorization: the-key\r\n"), "{start}");
    for (name, value) in [
        ("org", "o"),
        ("entryPoint", "main"),
        ("arguments.endpoint", "http://podinfo.test"),
        ("arguments.x", "1"),
    ] {
        let field = format!("form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        assert!(start.contains(&field), "no {name} in {start}");
    }
}

#[test]
fn every_end_of_a_process_is_an_end() {
    for (status, want) in [
        ("FAILED", "concord instanceID: a-1 failed"),
        ("CANCELLED", "concord instanceID: a-1 ended as CANCELLED"),
        ("TIMED_OUT", "concord instanceID: a-1 ended as TIMED_OUT"),
    ] {
        let folder = Folder::new("concord-ends");
        let status = format!("{{\"status\":\"{status}\"}}");
        let server = Fake::start(&[
            ("POST /api/v1/process ", &[r#"{"instanceId":"a-1"}"#]),
            ("GET /api/v1/process/a-1 ", &[&status]),
        ]);
        let tester = concord_tester(&folder, server.port);
        let answer = tester.task(&concord(server.port));
        assert_eq!((answer.status, answer.body.as_str()), (500, want));
    }
}

#[test]
fn a_process_has_the_time_it_was_given() {
    let folder = Folder::new("concord-time");
    let server = Fake::start(&[
        ("POST /api/v1/process ", &[r#"{"instanceId":"a-1"}"#]),
        ("GET /api/v1/process/a-1 ", &[r#"{"status":"RUNNING"}"#]),
    ]);
    let tester = concord_tester(&folder, server.port);
    let mut metadata = concord(server.port);
    metadata["pollTimeout"] = json!("2");
    let answer = tester.task(&metadata);
    let want = "concord process timed out, after 2 seconds";
    assert_eq!((answer.status, answer.body.as_str()), (500, want));
}

#[test]
fn statuses_are_looked_at() {
    let folder = Folder::new("concord-404");
    let server = Fake::start(&[]);
    let tester = concord_tester(&folder, server.port);
    let answer = tester.task(&concord(server.port));
    let want = "failed to start the process: the server answered 404";
    assert_eq!((answer.status, answer.body.as_str()), (500, want));
}

/// "concord without `server` / with `arguments.endpoint`: 500 with reason".
#[test]
fn a_process_that_may_not_be_started_is_refused() {
    let folder = Folder::new("concord-refused");
    let server = Fake::start(&[]);
    let tester = concord_tester(&folder, server.port);
    let cases = [
        ("server", "", "`server` is required with type concord"),
        ("arguments.endpoint", "x", "`arguments.endpoint` is set by `endpoint`"),
        (
            "server",
            "http://evil.test",
            "the server is not one of those that -concord-servers lists",
        ),
        (
            "apiKeyPath",
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "the key is not a file in the folder that -concord-key-dir names",
        ),
    ];
    for (key, value, want) in cases {
        let mut metadata = concord(server.port);
        metadata[key] = json!(value);
        let answer = tester.task(&metadata);
        assert_eq!((answer.status, answer.body.as_str()), (500, want), "{key}");
    }
    assert!(server.asked().is_empty());
}
