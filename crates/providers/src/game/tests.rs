//! What a hook may ask, and what answers are worth.

use serde_json::{Value, json};
use tidegate_api::game::hook::HookMetric;
use tidegate_engine::game::{RevisionChoice, arguments::Argument, condition::Matcher};

use super::{
    measure::{
        Question, Verdict, judge_object, judge_prometheus, judge_web, problem, question, setting,
    },
    revision,
};

struct NoPatterns;

impl Matcher for NoPatterns {
    fn is_match(&self, _: &str, _: &str) -> Result<bool, String> {
        Err("no patterns here".to_owned())
    }
}

fn metric(value: Value) -> HookMetric {
    serde_json::from_value(value).unwrap()
}

fn web(path: &str, success: &str, failure: &str) -> HookMetric {
    metric(json!({
        "name": "webtest", "successCondition": success, "failureCondition": failure,
        "provider": { "web": { "url": "http://1.1.1.1:9091", "jsonPath": path } },
    }))
}

fn prometheus(success: &str) -> HookMetric {
    metric(json!({
        "name": "query", "successCondition": success,
        "provider": { "prometheus": { "address": "http://prometheus:9090", "query": "up" } },
    }))
}

fn said(verdict: &Verdict) -> (&str, &str) {
    (verdict.phase.as_str(), &verdict.value)
}

#[test]
fn answers_of_a_web_server_have_the_documented_phase() {
    let body = br#"{"name":"bryan","male":"yes","age":45,"room":{"players":[3,0]},"big":12345678}"#;
    let rows = [
        ("{$.age}", "asInt(result) < 30", "", ("Failed", "45")),
        ("{$.age}", "asInt(result) > 30", "", ("Successful", "45")),
        ("$.age", "asInt(result) > 30", "", ("Successful", "45")),
        ("{$.age}", "", "", ("Successful", "45")),
        ("{$.age}", "", "asInt(result) > 30", ("Failed", "45")),
        ("{$.age}", "asInt(result) < 30", "asInt(result) > 60", ("Inconclusive", "45")),
        ("{$.male}", "result == \"yes\"", "", ("Successful", "yes")),
        ("{$.room.players[*]}", "result == '3 0'", "", ("Successful", "3 0")),
        ("{$.room}", "len(result) > 0", "", ("Successful", r#"{"players":[3,0]}"#)),
        ("{$.big}", "asInt(result) == 12345678", "", ("Successful", "12345678")),
        ("{$.name}", "asInt(result) < 30", "", ("Error", "bryan")),
        ("{$.nothing}", "asInt(result) < 30", "", ("Error", "")),
    ];
    for (path, success, failure, want) in rows {
        let verdict = judge_web(&web(path, success, failure), 200, body, &NoPatterns);
        assert_eq!(said(&verdict), want, "{path} {success} {failure}: {verdict:?}");
        assert_eq!(verdict.message.is_some(), want.0 == "Error", "an error has a reason");
    }
    let good = web("{$.age}", "true", "");
    for (status, body, message) in [
        (404, &b"{}"[..], "received non 2xx response code: 404"),
        (302, b"{}", "received non 2xx response code: 302"),
        (200, b"<html>", "the answer is not JSON"),
    ] {
        let verdict = judge_web(&good, status, body, &NoPatterns);
        assert_eq!((said(&verdict).0, verdict.message.as_deref()), ("Error", Some(message)));
    }
}

#[test]
fn answers_of_a_prometheus_have_the_documented_phase() {
    let vector = |values: &[&str]| {
        let series: Vec<Value> =
            values.iter().map(|value| json!({ "metric": {}, "value": [0, value] })).collect();
        json!({ "data": { "resultType": "vector", "result": series } })
    };
    let scalar = |value: &str| json!({ "data": { "resultType": "scalar", "result": [0, value] } });
    let rows = [
        (scalar("0.6"), "result > 0.5", ("Successful", "0.6")),
        (vector(&["0.1"]), "result[0] <= 0.1", ("Successful", "[0.1]")),
        (
            vector(&["0.01", "0.2"]),
            "len(result) > 0 && all(result, {# < 0.05})",
            ("Failed", "[0.01,0.2]"),
        ),
        (vector(&["NaN"]), "result[0] <= 0.1", ("Inconclusive", "[NaN]")),
        (scalar("NaN"), "result <= 0.1", ("Inconclusive", "NaN")),
        (vector(&[]), "result[0] <= 0.1", ("Error", "[]")),
        (vector(&[]), "len(result) == 0", ("Successful", "[]")),
        (json!({ "data": { "resultType": "matrix", "result": [] } }), "true", ("Error", "")),
        (json!({ "status": "error" }), "true", ("Error", "")),
    ];
    for (body, success, want) in rows {
        let body = body.to_string();
        let verdict = judge_prometheus(&prometheus(success), 200, body.as_bytes(), &NoPatterns);
        assert_eq!(said(&verdict), want, "{body} {success}: {verdict:?}");
    }
}

#[test]
fn what_can_never_be_measured_is_found_before_anything_is_asked() {
    let cases = [
        (web("{$.age}", "asInt(result) < 30", ""), None),
        (web("$.age", "", ""), None),
        (prometheus("result > 0.5"), None),
        (prometheus("result[0] > 0.5"), None),
        (web("{$.age", "", ""), Some("jsonPath")),
        (web("{$.age}", "result < 30", ""), Some("successCondition")),
        (web("{$.age}", "", "result <"), Some("failureCondition")),
        (prometheus("result == 'a'"), Some("successCondition")),
    ];
    for (metric, want) in cases {
        let found = problem(&metric, &[]);
        assert_eq!(found.is_some(), want.is_some(), "{metric:?}: {found:?}");
        assert!(found.unwrap_or_default().contains(want.unwrap_or_default()));
    }
}

#[test]
fn db_40_a_template_is_the_revision_that_means_the_same() {
    let template = |cpu: &str| {
        json!({
            "metadata": { "labels": { "app": "a" } },
            "spec": { "containers": [
                { "name": "a", "image": "a:1", "resources": { "limits": { "cpu": cpu } } },
            ] },
        })
    };
    let stored = |name: &str, number: i64, cpu: &str| {
        let data: Value = serde_json::from_str(&revision::data(&template(cpu))).unwrap();
        json!({ "metadata": { "name": name }, "revision": number, "data": data })
    };
    let (one, two) = (stored("w-one", 1, "1"), stored("w-two", 2, "2"));
    let choose = |cpu: &str| revision::choose("w", &template(cpu), &[&one, &two], 0);
    let named = |name: &str| tidegate_engine::Revision::new(name);
    assert_eq!(choose("2000m"), RevisionChoice::Use(named("w-two")));
    assert_eq!(choose("1000m"), RevisionChoice::Renumber(named("w-one"), 3), "going back");
    assert!(matches!(choose("3"), RevisionChoice::Create { number: 3, .. }));
}

fn asked(function: &str, path: &str, arguments: &[(&str, &str)]) -> Result<Question, String> {
    let metric: HookMetric = serde_json::from_value(json!({
        "name": "m",
        "provider": { "kubernetes": {
            "function": function, "fields": [{ "path": path, "value": "yes" }],
        } },
    }))
    .unwrap();
    let pod = [("PodName", "arena-0"), ("PodNamespace", "default")];
    let arguments: Vec<Argument> = pod
        .iter()
        .chain(arguments)
        .map(|(name, value)| Argument { name: (*name).to_owned(), value: (*value).to_owned() })
        .collect();
    question(&metric, &arguments)
}

#[test]
fn a_hook_looks_at_pods_and_never_at_secrets() {
    let path = "metadata.annotations.example.com/drained";
    let Ok(Question::Object(pod)) = asked("get", path, &[]) else { unreachable!("pods are fine") };
    let object = |value: Value| json!({ "metadata": { "annotations": value } });
    let found = judge_object(&pod, Some(&object(json!({ "example.com/drained": "yes" }))));
    assert_eq!((found.phase.as_str(), found.value.as_str()), ("Successful", "yes"));
    let other = judge_object(&pod, Some(&object(json!({}))));
    assert_eq!(other.phase.as_str(), "Failed", "absent is a no, not an error");
    for kind in ["Secret", "ConfigMap"] {
        let arguments = [("Version", "v1"), ("Kind", kind)];
        assert!(asked("get", "data.token", &arguments).is_err(), "{kind}");
    }
}

#[test]
fn a_hook_sets_annotations_and_labels_and_nothing_else() {
    let Ok(Question::Object(set)) = asked("patch", "metadata.annotations.a/b.c", &[]) else {
        unreachable!("annotations may be set")
    };
    assert_eq!(setting(&set), json!({ "metadata": { "annotations": { "a/b.c": "yes" } } }));
    for path in ["spec.nodeName", "status.phase", "metadata.name"] {
        assert!(asked("patch", path, &[]).is_err(), "{path}");
        assert!(asked("get", path, &[]).is_ok(), "{path} may be looked at");
    }
}
