//! Gates over HTTP, and over a restart.

use serde_json::{Value, json};

use crate::support::{Folder, Tester};

fn canary() -> Value {
    json!({ "name": "podinfo", "namespace": "test" })
}

fn with(metadata: &Value) -> Value {
    let mut payload = canary();
    payload["metadata"] = metadata.clone();
    payload
}

/// "gate check on a fresh process, then open, check, close, check: 403; 202; 200 `Approved`; 202; 403".
#[test]
fn gates_open_and_close() {
    let tester = Tester::start(&[]);
    for road in ["gate", "rollback"] {
        let ask = |action: &str| {
            let answer = tester.post(&format!("/{road}/{action}"), &canary());
            (answer.status, answer.body)
        };
        assert_eq!(ask("check"), (403, "Forbidden".to_owned()), "{road}");
        assert_eq!(ask("open"), (202, String::new()), "{road}");
        assert_eq!(ask("check"), (200, "Approved".to_owned()), "{road}");
        assert_eq!(ask("close"), (202, String::new()), "{road}");
        assert_eq!(ask("check"), (403, "Forbidden".to_owned()), "{road}");
        assert_eq!(ask("open"), (202, String::new()), "{road}: as often as it is asked");
        assert_eq!(ask("check"), (200, "Approved".to_owned()), "{road}");
    }
    tester.until_logged("rollout gate open: done");
    tester.until_logged("\"canary\":\"podinfo.test\"");
}

#[test]
fn a_gate_is_not_confused_with_that_of_a_canary_with_a_clever_name() {
    let tester = Tester::start(&[]);
    let clever = json!({ "name": "rollback.podinfo", "namespace": "test" });
    assert_eq!(tester.post("/gate/open", &clever).status, 202);
    assert_eq!(tester.post("/rollback/check", &canary()).status, 403);
}

/// "`/gate/check` with empty body: 400".
#[test]
fn a_gate_without_a_payload_is_a_bad_request() {
    let tester = Tester::start(&[]);
    for path in ["/gate/check", "/gate/open", "/rollback/close"] {
        for body in ["", "[]", "{\"name\":1}"] {
            let answer = tester.send("POST", path, &[], body);
            assert_eq!((answer.status, answer.body.as_str()), (400, ""), "{path} {body}");
        }
    }
}

#[test]
fn gates_that_always_say_the_same_ask_for_nothing() {
    let tester = Tester::start(&[]);
    for method in ["GET", "POST"] {
        let approve = tester.send(method, "/gate/approve", &[], "");
        assert_eq!((approve.status, approve.body.as_str()), (200, "OK"));
        let halt = tester.send(method, "/gate/halt", &[], "junk");
        assert_eq!((halt.status, halt.body.as_str()), (403, "Forbidden"));
    }
}

#[test]
fn gates_outlive_a_process_that_is_killed() {
    let folder = Folder::new("gates");
    let flag = format!("-gate-file={}", folder.file("gates.json"));
    let tester = Tester::start(&[&flag]);
    assert_eq!(tester.post("/gate/open", &canary()).status, 202);
    let other = json!({ "name": "other", "namespace": "test" });
    assert_eq!(tester.post("/rollback/open", &other).status, 202);
    assert_eq!(tester.post("/rollback/close", &other).status, 202);
    // Killed, not asked to end.
    drop(tester);

    let tester = Tester::start(&[&flag]);
    assert_eq!(tester.post("/gate/check", &canary()).status, 200);
    assert_eq!(tester.post("/rollback/check", &other).status, 403);
    assert_eq!(tester.metric("tidegate_loadtester_gates_open").as_deref(), Some("1"));
}

#[test]
fn open_gates_are_listed() {
    let tester = Tester::start(&[]);
    assert_eq!(tester.get("/gates").body, "[]");
    tester.post("/gate/open", &with(&json!({ "gate": "promotion", "steps": "2" })));
    let gates: Value = serde_json::from_str(&tester.get("/gates").body).unwrap();
    let [gate] = gates.as_array().unwrap().as_slice() else { panic!("one gate, not {gates}") };
    assert_eq!((&gate["namespace"], &gate["canary"]), (&json!("test"), &json!("podinfo")));
    assert_eq!((&gate["gate"], &gate["steps"]), (&json!("promotion"), &json!(2)));
}

#[test]
fn a_canary_can_have_several_gates() {
    let tester = Tester::start(&[]);
    let promotion = with(&json!({ "gate": "promotion" }));
    assert_eq!(tester.post("/gate/open", &promotion).status, 202);
    assert_eq!(tester.post("/gate/check", &promotion).status, 200);
    assert_eq!(tester.post("/gate/check", &canary()).status, 403);
    assert_eq!(tester.post("/gate/check", &with(&json!({ "gate": "other" }))).status, 403);
}

#[test]
fn a_gate_is_opened_step_by_step() {
    let tester = Tester::start(&[]);
    assert_eq!(tester.post("/gate/open", &with(&json!({ "steps": "1" }))).status, 202);
    let check = |key: &str| {
        let body = canary().to_string();
        tester.send("POST", "/gate/check", &[("Idempotency-Key", key)], &body).status
    };
    assert_eq!(check("at-10"), 200);
    assert_eq!(check("at-10"), 200, "the same call again");
    assert_eq!(check("at-20"), 403, "the next step is another");
    assert_eq!(tester.post("/gate/open", &with(&json!({ "steps": "1" }))).status, 202);
    assert_eq!(check("at-20"), 200);
}

#[test]
fn an_opening_can_be_for_one_revision_or_for_a_time() {
    let tester = Tester::start(&[]);
    let of =
        |checksum: &str| json!({ "name": "podinfo", "namespace": "test", "checksum": checksum });
    assert_eq!(tester.post("/gate/open", &with(&json!({ "checksum": "v2" }))).status, 202);
    assert_eq!(tester.post("/gate/check", &of("v2")).status, 200);
    assert_eq!(tester.post("/gate/check", &of("v3")).status, 403);
    assert_eq!(tester.post("/gate/open", &with(&json!({ "ttl": "3s" }))).status, 202);
    assert_eq!(tester.post("/gate/check", &of("v3")).status, 200);
    crate::support::until("the gate to close", || {
        tester.post("/gate/check", &of("v3")).status == 403
    });
}

#[test]
fn an_opening_that_makes_no_sense_is_refused() {
    let tester = Tester::start(&[]);
    let long = "x".repeat(65);
    for metadata in [
        json!({ "steps": "0" }),
        json!({ "steps": "many" }),
        json!({ "ttl": "soon" }),
        json!({ "checksum": long }),
    ] {
        let answer = tester.post("/gate/open", &with(&metadata));
        assert_eq!(answer.status, 400, "{metadata}");
        assert!(!answer.body.is_empty());
        assert_eq!(tester.post("/gate/check", &with(&metadata)).status, 403, "asked as usual");
        assert_eq!(tester.post("/gate/close", &with(&metadata)).status, 202);
    }
    let nameless = with(&json!({ "gate": long }));
    assert_eq!(tester.post("/gate/open", &nameless).status, 400);
}
