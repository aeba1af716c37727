use serde_json::json;
use tidegate_providers::{
    game::{GAME_DEPLOYMENT, POD},
    workload::SECRET,
};
use tokio::sync::watch;

use super::*;
use crate::{
    context::Options,
    game::testing::{Kit, NAMESPACE, UID, owned, pod, step_run, with},
};

fn reconciler(kit: &Kit) -> HookRunReconciler {
    let object = kit.cached(HOOK_RUN, "run").expect("there is a run");
    HookRunReconciler::new(Arc::clone(&kit.cx), Key::new(NAMESPACE, "run"), &object)
}

/// A kit with a run called `run`.
fn stage(run: Value) -> Kit {
    let kit = Kit::new();
    kit.has(HOOK_RUN, run);
    kit
}

/// A run of one metric with these members beside its name.
fn run_of(metric: &Value) -> Value {
    let mut run = step_run("run");
    for (name, value) in metric.as_object().unwrap() {
        run["spec"]["metrics"][0][name] = value.clone();
    }
    run
}

/// The state of the run after one pass.
async fn measured(kit: &Kit) -> Value {
    kit.pass(&mut reconciler(kit)).await.next.unwrap();
    status(kit)
}

fn status(kit: &Kit) -> Value {
    kit.api.get(HOOK_RUN, "run")["status"].clone()
}

/// The message of the only measurement.
fn measurement(status: &Value) -> &Value {
    &status["metricResults"][0]["measurements"][0]
}

#[tokio::test(start_paused = true)]
async fn a_metric_is_measured_and_the_result_written() {
    for (body, phase, reason, kind) in [
        (r#"{"age": 20}"#, "Successful", "Complete", "Normal"),
        (r#"{"age": 40}"#, "Failed", "Failed", "Warning"),
    ] {
        let kit = stage(step_run("run"));
        kit.web.says(200, body);
        let outcome = kit.pass(&mut reconciler(&kit)).await;
        assert_eq!(outcome.next.unwrap(), Next::OnChange);
        assert_eq!(kit.web.calls().len(), 1);
        assert_eq!(kit.web.calls()[0].url.to_string(), "http://hooks.example.com/***");
        assert_eq!(kit.web.calls()[0].max_bytes, 1024 * 1024);
        assert_eq!(kit.web.calls()[0].timeout, Duration::from_secs(10));
        assert_eq!(kit.api.lines(), ["PATCH hookruns/run/status"], "{phase}");
        let status = status(&kit);
        assert_eq!(status["phase"], phase);
        assert_eq!(status["startedAt"], "2026-01-01T00:00:00Z");
        assert_eq!(status["completedAt"], "2026-01-01T00:00:00Z");
        let events = kit.api.events();
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(events[0].2, format!("metric 'age' completed {phase}"));
        assert_eq!(events[1].2, format!("hook completed {phase}"));
        assert!(events.iter().all(|it| it.0 == reason && it.1 == kind), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn measuring_is_counted() {
    let kit = stage(owned(step_run("run"), GAME_DEPLOYMENT, "arena", UID));
    kit.web.takes(Duration::from_secs(3));
    measured(&kit).await;
    let first = |series: &str| kit.metrics(series).into_iter().next().unwrap_or_default();
    let line = first("bkbcs_hook_metric_exec_duration_seconds_count");
    assert!(line.contains("owner=\"arena\"") && line.contains("phase=\"Successful\""), "{line}");
    let line = first("bkbcs_hook_hookrun_exec_duration_seconds_count");
    assert!(line.contains("status=\"success\""), "{line}");
    assert!(first("bkbcs_hook_hookrun_exec_duration_seconds_sum").ends_with(" 3.0"));
    assert!(first("bkbcs_hook_metric_exec_duration_seconds_sum").ends_with(" 3.0"));
    assert!(first("bkbcs_hook_reconcile_duration_seconds_count").contains("success"));
    assert!(first("bkbcs_hook_hookrun_survive_time_seconds").ends_with(" 3.0"));
    let kit = stage(step_run("run"));
    kit.web.says(500, "");
    measured(&kit).await;
    let lines = kit.metrics("bkbcs_hook_hookrun_exec_duration_seconds_count");
    assert!(lines[0].contains("status=\"failure\""), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_gone_ends_its_loop_and_one_on_its_way_out_is_left_alone() {
    let deleted = json!("2026-01-01T00:00:00Z");
    let cases = [
        ("gone", None, Next::Gone),
        ("another of its name", Some(("/metadata/uid", json!("another"))), Next::Gone),
        ("on its way out", Some(("/metadata/deletionTimestamp", deleted)), Next::OnChange),
    ];
    for (reason, change, want) in cases {
        let kit = stage(step_run("run"));
        let mut reconciler = reconciler(&kit);
        match change {
            Some((path, value)) => kit.has(HOOK_RUN, with(step_run("run"), path, value)),
            None => kit.cluster().cache.cache_remove(HOOK_RUN, &Key::new(NAMESPACE, "run")),
        }
        assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), want, "{reason}");
        assert!(kit.web.calls().is_empty(), "{reason}");
    }
    let kit = stage(step_run("run"));
    kit.lose_lease();
    assert_eq!(kit.pass(&mut reconciler(&kit)).await.next.unwrap(), Next::OnChange);
    assert!(kit.web.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn metrics_are_measured_together_and_without_a_permit() {
    let mut run = step_run("run");
    let mut second = run["spec"]["metrics"][0].clone();
    second["name"] = json!("again");
    run["spec"]["metrics"].as_array_mut().unwrap().push(second);
    let kit = Kit::with(Options { permits: 1, ..Options::default() });
    kit.has(HOOK_RUN, run);
    kit.web.takes(Duration::from_secs(10));
    let mut reconciler = reconciler(&kit);
    let others = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        (kit.cx.reconcile_permits.available_permits(), kit.web.calls().len())
    };
    let (outcome, (permits, calls)) = tokio::join!(kit.pass(&mut reconciler), others);
    assert_eq!(outcome.next.unwrap(), Next::OnChange);
    assert_eq!((permits, calls), (1, 2));
    assert_eq!(kit.cx.clock.monotonic().as_secs(), 10, "not one after the other");
    assert_eq!(status(&kit)["phase"], "Successful");
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_mid_measurement_ends_it() {
    let kit = stage(step_run("run"));
    kit.web.takes(Duration::from_secs(100));
    let (stop, stopped) = watch::channel(false);
    let mut reconciler = reconciler(&kit);
    let (outcome, ()) = tokio::join!(kit.pass_until(&mut reconciler, stopped), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        stop.send_replace(true);
    });
    assert_eq!(outcome.next.unwrap(), Next::OnChange);
    assert_eq!(kit.cx.clock.monotonic().as_secs(), 5);
    assert!(kit.api.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_could_not_be_written_is_written_later_and_not_measured_again() {
    for (code, events) in [(503, 0), (403, 1)] {
        let kit = stage(step_run("run"));
        let mut reconciler = reconciler(&kit);
        kit.api.fail("PATCH", "/hookruns", code);
        for _ in 0..2 {
            kit.pass(&mut reconciler).await.next.unwrap_err();
        }
        assert_eq!(kit.api.count_events("FailedUpdate"), events, "{code}: recorded once");
        assert!(kit.api.lines().contains(&"GET hookruns/run".to_owned()), "{code}");
        kit.api.repair();
        assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange);
        assert_eq!(kit.web.calls().len(), 1, "{code}: measured once");
        assert_eq!(status(&kit)["phase"], "Successful", "{code}");
        assert!(reconciler.unwritten.is_none(), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_changed_in_the_meantime_is_read_and_written() {
    let kit = stage(step_run("run"));
    kit.api.put(HOOK_RUN, with(step_run("run"), "/metadata/resourceVersion", json!("900")));
    assert_eq!(measured(&kit).await["phase"], "Successful");
    assert_eq!(kit.web.calls().len(), 1);
    let lines = kit.api.lines();
    assert_eq!(
        lines,
        ["PATCH hookruns/run/status", "GET hookruns/run", "PATCH hookruns/run/status"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_metric_with_an_interval_is_measured_when_it_is_due() {
    let kit = stage(run_of(&json!({ "count": 2, "interval": "60s" })));
    let mut reconciler = reconciler(&kit);
    assert_eq!(
        kit.pass(&mut reconciler).await.next.unwrap(),
        Next::At(Duration::from_millis(60_001)),
        "after the first"
    );
    assert_eq!(status(&kit)["phase"], "Running");
    assert_eq!(kit.api.lines().len(), 1, "nothing is written while nothing is due");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        kit.pass(&mut reconciler).await.next.unwrap(),
        Next::At(Duration::from_millis(60_001)),
        "not due yet"
    );
    assert_eq!((kit.web.calls().len(), kit.api.lines().len()), (1, 1));
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange);
    assert_eq!(kit.web.calls().len(), 2);
    assert_eq!(status(&kit)["metricResults"][0]["count"], 2);
    assert_eq!(status(&kit)["completedAt"], "2026-01-01T00:01:01Z");
}

#[tokio::test(start_paused = true)]
async fn answers_that_cannot_be_judged_are_errors() {
    let error_once = json!({ "consecutiveErrorLimit": 0 });
    for (code, body, want) in
        [(500, "", "received non 2xx response code: 500"), (200, "hello", "the answer is not JSON")]
    {
        let kit = stage(run_of(&error_once));
        kit.web.says(code, body);
        let status = measured(&kit).await;
        assert_eq!(status["phase"], "Error");
        assert_eq!(measurement(&status)["message"], want);
    }
    let kit = stage(run_of(&error_once));
    kit.web.truncates();
    let status = measured(&kit).await;
    assert_eq!(measurement(&status)["message"], "the answer is too long");
}

#[tokio::test(start_paused = true)]
async fn prometheus_is_judged_as_prometheus() {
    let provider = json!({
        "prometheus": { "address": "http://prometheus.example.com", "query": "up" }
    });
    let metric = json!({ "provider": provider, "successCondition": "result > 0" });
    let kit = stage(run_of(&metric));
    let result = json!({ "resultType": "scalar", "result": [1.0, "3"] });
    kit.web.says(200, &json!({ "status": "success", "data": result }).to_string());
    let status = measured(&kit).await;
    assert_eq!(status["phase"], "Successful", "{status}");
    assert_eq!(measurement(&status)["value"], "3");
}

fn secret(labels: &Value) -> Value {
    json!({
        "metadata": { "name": "login", "namespace": NAMESPACE, "uid": "s", "labels": labels },
        "data": { "token": "c2VjcmV0", "ca.crt": "Y2E=" },
    })
}

#[tokio::test(start_paused = true)]
async fn only_secrets_that_are_labelled_for_hooks_are_sent() {
    let mut run = run_of(&json!({ "consecutiveErrorLimit": 0 }));
    run["spec"]["metrics"][0]["provider"]["web"]["secretRef"] = json!({ "name": "login" });
    let cases = [
        ("no Secret", None, "Secret play/login does not exist"),
        ("no label", Some(json!({})), "is not for hooks: it has no label"),
        ("another label", Some(json!({ names::FOR_HOOKS: "no" })), "is not for hooks"),
    ];
    for (reason, labels, want) in cases {
        let kit = stage(run.clone());
        if let Some(labels) = labels {
            kit.api.put(SECRET, secret(&labels));
        }
        let status = measured(&kit).await;
        let message = measurement(&status)["message"].as_str().unwrap().to_owned();
        assert!(message.contains(want), "{reason}: {message}");
        assert!(kit.web.calls().is_empty(), "{reason}");
    }
    let listing = |hosts: &str| {
        let kit = stage(run.clone());
        let mut secret = secret(&json!({ names::FOR_HOOKS: "true" }));
        secret["metadata"]["annotations"] = json!({ "tidegate.dev/for-hosts": hosts });
        kit.api.put(SECRET, secret);
        kit
    };
    let kit = listing("other.example.com");
    let message = measurement(&measured(&kit).await)["message"].clone();
    let want = "Secret play/login is not for hooks.example.com: ";
    assert!(message.as_str().unwrap().starts_with(want), "{message}");
    assert!(kit.web.calls().is_empty());
    let kit = listing("other.example.com, hooks.example.com");
    measured(&kit).await;
    assert_eq!(kit.web.calls().len(), 1);
    let kit = stage(run);
    kit.api.put(SECRET, secret(&json!({ names::FOR_HOOKS: "true" })));
    measured(&kit).await;
    let call = &kit.web.calls()[0];
    assert_eq!(call.headers["authorization"], "Bearer secret");
    assert_eq!(call.authorities.as_deref(), Some(&b"ca"[..]));
    assert!(call.verify_tls);
}

#[tokio::test(start_paused = true)]
async fn calls_of_web_hooks_are_signed_if_there_is_a_secret_for_it() {
    let file = std::env::temp_dir().join(format!("tidegate-hook-secret-{}", std::process::id()));
    std::fs::write(&file, "key\n").unwrap();
    let options = Options { hook_secret_file: Some(file.clone()), ..Options::default() };
    let kit = Kit::with(options);
    kit.has(HOOK_RUN, step_run("run"));
    measured(&kit).await;
    let signed = kit.web.calls()[0].headers.len();
    std::fs::remove_file(file).unwrap();
    let kit = stage(step_run("run"));
    measured(&kit).await;
    assert!(signed > kit.web.calls()[0].headers.len());
}

/// A run that compares or sets an annotation of pod `a`.
fn object_run(function: &str, namespace: &str) -> Value {
    let field = json!({ "path": "metadata.annotations.ready", "value": "yes" });
    let provider = json!({ "kubernetes": { "function": function, "fields": [field] } });
    let mut run = run_of(&json!({ "provider": provider, "consecutiveErrorLimit": 0 }));
    run["spec"]["metrics"][0].as_object_mut().unwrap().remove("successCondition");
    run["spec"]["args"] = json!([
        { "name": "PodName", "value": "a" }, { "name": "PodNamespace", "value": namespace },
    ]);
    run
}

#[tokio::test(start_paused = true)]
async fn fields_of_objects_are_compared_or_set() {
    let annotated = with(pod("a"), "/metadata/annotations", json!({ "ready": "yes" }));
    let cases = [
        ("the field is as wanted", "get", Some(annotated), "Successful"),
        ("the field is not", "get", Some(pod("a")), "Failed"),
        ("there is no pod", "get", None, "Error"),
        ("the field is set", "patch", Some(pod("a")), "Successful"),
    ];
    for (reason, function, object, want) in cases {
        let kit = stage(object_run(function, NAMESPACE));
        if let Some(object) = object {
            kit.api.put(POD, object);
        }
        let status = measured(&kit).await;
        assert_eq!(status["phase"], want, "{reason}: {status}");
        if function == "patch" {
            assert_eq!(kit.api.get(POD, "a")["metadata"]["annotations"]["ready"], "yes");
        }
        assert_eq!(kit.cx.reconcile_permits.available_permits(), 16, "{reason}");
    }
    let kit = stage(object_run("patch", NAMESPACE));
    kit.api.put(POD, pod("a"));
    kit.api.admit("/metadata/annotations/ready", json!("no"));
    let status = measured(&kit).await;
    assert_eq!(status["phase"], "Successful", "it was set, whatever became of it");
    assert!(measurement(&status)["message"].is_null());
    assert_eq!(measurement(&status)["value"], "no");
    let kit = stage(object_run("get", "elsewhere"));
    let status = measured(&kit).await;
    let want = "argument PodNamespace must be the namespace of the run";
    assert_eq!(measurement(&status)["message"], want);
}

#[tokio::test(start_paused = true)]
async fn runs_that_cannot_be_measured_end_in_an_error() {
    let none = with(step_run("run"), "/spec/metrics", json!([]));
    let cases = [
        ("no metrics", none),
        ("no list", with(step_run("run"), "/spec/metrics", json!("x"))),
        (
            "no address",
            with(
                step_run("run"),
                "/spec/metrics",
                json!([{
                    "name": "age", "provider": { "web": { "url": "nonsense", "jsonPath": "{$.age}" } },
                }]),
            ),
        ),
    ];
    for (reason, run) in cases {
        let kit = stage(run);
        let status = measured(&kit).await;
        assert_eq!(status["phase"], "Error", "{reason}: {status}");
        assert!(status["message"].as_str().is_some_and(|it| !it.is_empty()), "{reason}");
        assert!(status["completedAt"].is_string(), "{reason}");
        assert!(kit.web.calls().is_empty(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_metric_without_an_end_is_doubted_as_the_run_begins() {
    let kit = stage(run_of(&json!({ "count": 0, "interval": "10s" })));
    let mut reconciler = reconciler(&kit);
    kit.pass(&mut reconciler).await.next.unwrap();
    let events = kit.api.events();
    assert_eq!(kit.api.count_events("MetricDoubtful"), 1, "{events:?}");
    assert_eq!(events[0].1, "Warning");
    tokio::time::sleep(Duration::from_secs(11)).await;
    kit.pass(&mut reconciler).await.next.unwrap();
    assert_eq!(kit.web.calls().len(), 2);
    assert_eq!(kit.api.count_events("MetricDoubtful"), 1, "as it begins only");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_over_is_deleted_when_its_time_has_come() {
    let over = |ttl: &str| {
        let run = with(step_run("run"), "/metadata/annotations", json!({ TTL: ttl }));
        with(
            run,
            "/status",
            json!({ "phase": "Successful", "completedAt": "2026-01-01T00:00:00Z" }),
        )
    };
    let kit = stage(over("60"));
    let mut reconciler_60 = reconciler(&kit);
    let outcome = kit.pass(&mut reconciler_60).await;
    assert_eq!(outcome.next.unwrap(), Next::At(Duration::from_mins(1)));
    assert!(kit.api.calls().is_empty());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(kit.pass(&mut reconciler_60).await.next.unwrap(), Next::Gone);
    assert_eq!(kit.api.lines(), ["DELETE hookruns/run"]);
    assert_eq!(kit.api.calls()[0].body["preconditions"]["uid"], "run-uid");
    let kept = [
        ("an owner deletes it", owned(over("0"), GAME_DEPLOYMENT, "arena", UID)),
        ("no number", over("soon")),
        ("no annotation", with(over("0"), "/metadata/annotations", json!({}))),
        ("no end", with(over("0"), "/status/completedAt", Value::Null)),
    ];
    for (reason, run) in kept {
        let kit = stage(run);
        let outcome = kit.pass(&mut reconciler(&kit)).await;
        assert_eq!(outcome.next.unwrap(), Next::OnChange, "{reason}");
        assert!(kit.api.calls().is_empty() && kit.web.calls().is_empty(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_always_due_lets_others_go_first() {
    let mut run = with(step_run("run"), "/spec/policy", json!("Ordered"));
    let metric = run["spec"]["metrics"][0].clone();
    let metrics = (0..10).map(|number| with(metric.clone(), "/name", json!(format!("m{number}"))));
    run["spec"]["metrics"] = metrics.collect();
    let kit = stage(run);
    let mut reconciler = reconciler(&kit);
    let soon = kit.cx.clock.monotonic() + Duration::from_millis(10);
    let Next::At(at) = kit.pass(&mut reconciler).await.next.unwrap() else { panic!("it goes on") };
    assert!(at >= soon && at < soon + Duration::from_secs(1), "{at:?}");
    assert_eq!(kit.web.calls().len(), ROUNDS_MAX, "one after the other");
    assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange);
    assert_eq!(kit.web.calls().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_not_due_yet_begins_and_ends_without_being_measured() {
    let cases = [
        ("it is asked to end", "/spec/terminate", json!(true)),
        ("its deadline passes", "/spec/deadlineSeconds", json!(10)),
    ];
    for (reason, path, value) in cases {
        let kit = stage(run_of(&json!({ "initialDelay": "60s" })));
        let mut reconciler = reconciler(&kit);
        let next = kit.pass(&mut reconciler).await.next.unwrap();
        let begun = status(&kit);
        assert_eq!(next, Next::At(Duration::from_mins(1)), "{reason}");
        assert_eq!(begun["startedAt"], "2026-01-01T00:00:00Z", "{reason}");
        assert_eq!(begun["phase"], "Running", "{reason}: {begun}");
        tokio::time::sleep(Duration::from_secs(11)).await;
        kit.has(HOOK_RUN, with(kit.api.get(HOOK_RUN, "run"), path, value));
        assert_eq!(kit.pass(&mut reconciler).await.next.unwrap(), Next::OnChange, "{reason}");
        assert!(status(&kit)["completedAt"].is_string(), "{reason}: {}", status(&kit));
        assert!(kit.web.calls().is_empty(), "{reason}");
    }
}

#[test]
fn patterns_are_found_in_texts_and_bad_ones_are_named() {
    assert_eq!(Regexes.is_match("^a+$", "aaa"), Ok(true));
    assert_eq!(Regexes.is_match("^a+$", "ab"), Ok(false));
    let bad = Err("no regular expression".to_owned());
    assert_eq!(Regexes.is_match("(", ""), bad);
    assert_eq!(Regexes.is_match("(a{1000}){1000}", ""), bad, "too large");
    assert_eq!(Regexes.is_match("a{1000}", ""), Ok(false), "not too large");
}
