//! Tasks, as a webhook asks for them.

use std::fs;

use serde_json::json;

use crate::support::{Folder, Tester, task, until};

/// "`/healthz`: 200 `OK`".
#[test]
fn health_and_metrics_are_served() {
    let tester = Tester::start(&[]);
    let answer = tester.get("/healthz");
    assert_eq!((answer.status, answer.body.as_str()), (200, "OK"));
    let answer = tester.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    assert!(answer.body.contains("\nprocess_resident_memory_bytes "), "{}", answer.body);
}

/// "`type: bash`, `cmd: echo x`: 200, empty body; with `returnCmdOutput` the output with its newline".
#[test]
fn a_test_that_passes() {
    let tester = Tester::start(&["-allow-shell"]);
    let answer = tester.task(&json!({ "type": "bash", "cmd": "echo x" }));
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    tester.until_logged("\"output\":\"x\"");
    for yes in ["1", "t", "T", "true", "TRUE", "True"] {
        let answer =
            tester.task(&json!({ "type": "bash", "cmd": "echo x", "returnCmdOutput": yes }));
        assert_eq!((answer.status, answer.body.as_str()), (200, "x\n"));
    }
}

/// "`type: bash`, `cmd: false`: 500, body `command false failed: : exit status 1`".
#[test]
fn a_test_that_fails() {
    let tester = Tester::start(&["-allow-shell"]);
    let answer = tester.task(&json!({ "type": "bash", "cmd": "false" }));
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (500, "command false failed: : exit status 1")
    );
    let answer = tester.task(&json!({ "type": "bash", "cmd": "echo no >&2; kill -9 $$" }));
    let want = "command echo no >&2; kill -9 $$ failed: no\n: signal: killed";
    assert_eq!((answer.status, answer.body.as_str()), (500, want));
}

/// The operator writes a part of the answer into an event, and we write it into the log.
#[test]
fn secrets_of_a_command_are_in_no_answer_and_no_log() {
    let tester = Tester::start(&["-allow-shell"]);
    let refusing = Tester::start(&[]);
    let cases = [
        (&tester, "false -H 'Authorization: Bearer s3cr3t' http://a", 500),
        (&tester, "false --token s3cr3t http://joe:s3cr3t@a/?t=s3cr3t", 500),
        (&refusing, "hey -H Authorization: Bearer s3cr3t http://a", 400),
        (&refusing, "hey -H Authorization: s3cr3t", 400),
        (&refusing, "TOKEN=s3cr3t curl http://a", 403),
    ];
    for (tester, cmd, status) in cases {
        let answer = tester.task(&json!({ "type": "bash", "cmd": cmd }));
        assert_eq!(answer.status, status, "{cmd}: {}", answer.body);
        assert!(!answer.body.contains("s3cr3t"), "{}", answer.body);
    }
    tester.until_logged("command failed");
    refusing.until_logged("see -allow-tools");
    for tester in [&tester, &refusing] {
        assert!(!tester.log().contains("s3cr3t"), "{}", tester.log());
    }
}

/// "task without metadata: 400 `metadata not found in payload`"; "`type: foo`: 400 for us".
#[test]
fn a_task_that_is_none_is_a_bad_request() {
    let tester = Tester::start(&[]);
    let cases = [
        (json!({}), "metadata not found in payload"),
        (json!({ "type": "foo" }), "unknown task type foo"),
        (json!({ "type": "" }), "unknown task type "),
        (json!({ "logCmdOutput": "true" }), "cmd not found in metadata"),
        (json!({ "cmd": "hey -z 1m" }), "an address to send requests to is missing"),
    ];
    for (metadata, want) in cases {
        let answer = tester.task(&metadata);
        assert_eq!((answer.status, answer.body.as_str()), (400, want), "{metadata}");
    }
    assert_eq!(tester.send("POST", "/", &[], "").status, 400);
}

#[test]
fn nothing_but_load_is_run_unless_it_is_enabled() {
    let tester = Tester::start(&[]);
    let folder = Folder::new("nothing");
    let touch = format!("touch {}", folder.file("touched"));
    for (metadata, hint) in [
        (json!({ "cmd": touch }), "-allow-tools"),
        (json!({ "type": "bash", "cmd": touch }), "-allow-tools"),
        (json!({ "type": "bash", "cmd": format!("true; {touch}") }), "-allow-shell"),
        (json!({ "cmd": format!("hey http://a$({touch})") }), "-allow-shell"),
        (json!({ "type": "kubectl", "cmd": "get pods" }), "-enable-tasks"),
        (json!({ "type": "helm", "cmd": "list" }), "-enable-tasks"),
    ] {
        let answer = tester.task(&metadata);
        assert_eq!(answer.status, 403, "{metadata}: {}", answer.body);
        assert!(answer.body.contains(hint), "{metadata}: {}", answer.body);
    }
    assert!(!folder.0.join("touched").exists());
}

#[test]
fn a_tool_on_the_list_runs_without_a_shell() {
    let folder = Folder::new("tools");
    folder.program("ghz", 0);
    let tester = Tester::start_with(&["-allow-tools=ghz"], Some(&folder.0));
    let line = "ghz --insecure -d '{\"a b\": \"$HOME\"}' app:9090";
    let answer = tester.task(&json!({ "type": "bash", "cmd": line, "returnCmdOutput": "true" }));
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (200, "[--insecure][-d][{\"a b\": \"$HOME\"}][app:9090]")
    );
}

#[test]
fn helm_kubectl_and_bats_get_their_arguments_whole() {
    let folder = Folder::new("programs");
    for program in ["helm", "kubectl", "bats"] {
        folder.program(program, 0);
    }
    let flags = ["-enable-tasks=helm,kubectl,bats"];
    let tester = Tester::start_with(&flags, Some(&folder.0));
    let cases = [
        ("helm", "test podinfo --timeout 5m", "[test][podinfo][--timeout][5m]"),
        ("helmv3", "test podinfo", "[test][podinfo]"),
        (
            "kubectl",
            "run t --overrides='{ \"a\": \"b c\" }'",
            "[run][t][--overrides={ \"a\": \"b c\" }]",
        ),
        ("bats", "/tests/smoke.bats", "[/tests/smoke.bats]"),
    ];
    for (kind, cmd, want) in cases {
        let answer = tester.task(&json!({ "type": kind, "cmd": cmd, "returnCmdOutput": "true" }));
        assert_eq!((answer.status, answer.body.as_str()), (200, want), "{kind}");
    }
    folder.program("helm", 3);
    let answer = tester.task(&json!({ "type": "helm", "cmd": "test podinfo" }));
    let want = "command test podinfo failed: [test][podinfo]: exit status 3";
    assert_eq!((answer.status, answer.body.as_str()), (500, want));
    fs::remove_file(folder.0.join("bats")).unwrap();
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let tester = Tester::start(&["-allow-tools=no-such-tool"]);
    let answer = tester.task(&json!({ "type": "bash", "cmd": "no-such-tool x" }));
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("no-such-tool cannot be started"), "{}", answer.body);
}

/// "cmd tasks submitted three times, then again after they end: 2 executions, then 4".
#[test]
fn commands_run_once_at_a_time() {
    let folder = Folder::new("once");
    let tester = Tester::start(&["-allow-shell"]);
    let (runs, gate) = (folder.file("runs"), folder.file("gate"));
    let running = || tester.metric("tidegate_loadtester_tasks_running");
    for round in 1..=2 {
        for _ in 0..3 {
            for seconds in ["0.06", "0.07"] {
                let cmd =
                    format!("echo run >> {runs}; while [ ! -e {gate} ]; do sleep {seconds}; done");
                let answer = tester.task(&json!({ "cmd": cmd }));
                assert_eq!((answer.status, answer.body.as_str()), (202, ""));
            }
        }
        folder.write("gate", "");
        until("the end of both", || running().as_deref() == Some("0"));
        assert_eq!(folder.lines("runs"), 2 * round);
        fs::remove_file(&gate).unwrap();
    }
    tester.until_logged("is already running");
}

#[test]
fn load_is_made_by_the_built_in_generator() {
    let tester = Tester::start(&[]);
    let cmd = format!("hey -n 50 -c 2 http://127.0.0.1:{}/healthz", tester.port);
    let answer = tester.task(&json!({ "cmd": cmd, "logCmdOutput": "true" }));
    assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    tester.until_logged("command finished load on http://127.0.0.1");
    tester.until_logged("50 requests, ");
    tester.until_logged("200                             50  OK");
    let series = "tidegate_loadtester_load_requests_total{outcome=\"2xx\"}";
    assert_eq!(tester.metric(series).as_deref(), Some("50"));

    // For a waiting caller.
    let cmd = format!("wrk -t1 -c1 -d1s http://127.0.0.1:{}/healthz", tester.port);
    let answer = tester.task(&json!({ "type": "bash", "cmd": cmd, "returnCmdOutput": "true" }));
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("Latency"), "{}", answer.body);
}

#[test]
fn load_without_an_answer_has_failed() {
    let tester = Tester::start(&[]);
    let answer =
        tester.task(&json!({ "type": "bash", "cmd": "hey -n 2 -c 1 http://127.0.0.1:1/" }));
    assert_eq!(answer.status, 500);
    assert!(answer.body.ends_with("no request was answered"), "{}", answer.body);
    assert!(answer.body.contains("connection refused"), "{}", answer.body);
}

#[test]
fn a_test_goes_on_for_a_caller_that_comes_back() {
    let folder = Folder::new("back");
    let tester = Tester::start(&["-allow-shell"]);
    let cmd = format!("echo run >> {}; sleep 1; echo done", folder.file("runs"));
    let body = task(&json!({ "type": "bash", "cmd": cmd, "returnCmdOutput": "true" })).to_string();
    let impatient = tester.begin("POST", "/", &[], &body);
    until("the test to begin", || folder.lines("runs") == 1);
    drop(impatient);
    let answer = tester.send("POST", "/", &[], &body);
    assert_eq!((answer.status, answer.body.as_str()), (200, "done\n"));
    assert_eq!(folder.lines("runs"), 1);
}

#[test]
fn a_test_is_ended_when_its_caller_is_gone() {
    let folder = Folder::new("gone");
    let tester = Tester::start(&["-allow-shell", "-patience=100ms"]);
    let cmd = format!("echo run >> {}; sleep 9999", folder.file("runs"));
    let body = task(&json!({ "type": "bash", "cmd": cmd })).to_string();
    let impatient = tester.begin("POST", "/", &[], &body);
    until("the test to begin", || folder.lines("runs") == 1);
    drop(impatient);
    tester.until_logged("the caller has disconnected");
    let series = "tidegate_loadtester_tasks_running";
    until("its end", || tester.metric(series).as_deref() == Some("0"));
}

#[test]
fn too_many_tasks_are_told_to_wait() {
    let tester = Tester::start(&["-allow-shell", "-max-tasks=2", "-max-tasks-per-namespace=1"]);
    assert_eq!(tester.task(&json!({ "cmd": "sleep 60" })).status, 202);
    let answer = tester.task(&json!({ "cmd": "sleep 61" }));
    assert_eq!(answer.status, 429);
    assert!(answer.head.contains("retry-after: 10"), "{}", answer.head);
    assert_eq!(tester.task(&json!({ "type": "bash", "cmd": "true" })).status, 429);
}

#[test]
fn time_ends_a_test_with_all_it_started() {
    let folder = Folder::new("time");
    let tester = Tester::start(&["-allow-shell", "-timeout=2s"]);
    let cmd = format!("sleep 9999 & echo $! > {}; wait", folder.file("pid"));
    let answer = tester.task(&json!({ "type": "bash", "cmd": cmd }));
    assert_eq!(answer.status, 500);
    assert!(answer.body.ends_with("timed out after 2s"), "{}", answer.body);
    let pid = fs::read_to_string(folder.0.join("pid")).unwrap();
    until("the end of its child", || !is_alive(pid.trim()));
}

#[test]
fn a_signal_ends_tasks_and_the_process() {
    let folder = Folder::new("signal");
    let mut tester = Tester::start(&["-allow-shell"]);
    let cmd = format!("echo $$ > {}; sleep 9999", folder.file("pid"));
    assert_eq!(tester.task(&json!({ "cmd": cmd })).status, 202);
    until("the command to begin", || folder.lines("pid") == 1);
    let pid = fs::read_to_string(folder.0.join("pid")).unwrap();
    tester.signal("TERM");
    assert_eq!(tester.ended(), Some(0));
    assert!(!is_alive(pid.trim()), "a command is left");
}

#[test]
fn requests_under_way_are_finished_and_a_second_signal_is_the_last() {
    let folder = Folder::new("twice");
    let mut tester = Tester::start(&["-allow-shell"]);
    let begun = folder.file("begun");
    let body = |then: &str| {
        let cmd = format!("echo run >> {begun}; {then}");
        task(&json!({ "type": "bash", "cmd": cmd, "returnCmdOutput": "true" })).to_string()
    };
    let mut waiting = tester.begin("POST", "/", &[], &body("sleep 1; echo served"));
    until("the test to begin", || folder.lines("begun") == 1);
    tester.signal("TERM");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut waiting, &mut answer).unwrap();
    assert!(answer.ends_with("served\n"), "{answer}");
    assert_eq!(tester.ended(), Some(0));

    let mut tester = Tester::start(&["-allow-shell"]);
    let _waiting = tester.begin("POST", "/", &[], &body("sleep 60"));
    until("the test to begin", || folder.lines("begun") == 2);
    tester.signal("INT");
    tester.until_logged("Shutting down");
    tester.signal("INT");
    assert_eq!(tester.ended(), Some(1));
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    // A zombie has ended.
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|it| it.1.starts_with('Z')))
}
