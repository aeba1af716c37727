//! Requests of hooks, and verdicts on answers.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use tidegate_api::game::hook::HookMetric;
use tidegate_engine::{
    Moment, Revision,
    game::{Metadata, PodChange, PodRef, RevisionChoice, arguments::Argument},
};

use super::{
    GAME_DEPLOYMENT,
    condition::Matcher,
    measure::{
        Question, ServerQuestion, Verdict, judge_object, judge_prometheus, judge_web, problem,
        question, setting,
    },
    plan::{self, is_paused_by},
    pod::{self, Identity},
    pods, revision,
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
    let body = br#"{"name":"bryan","male":"yes","age":45,"room":{"players":[3,0]},"big":12345678,"rate":"NaN"}"#;
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
        ("{$.rate}", "", "asFloat(result) > 5", ("Inconclusive", "NaN")),
    ];
    for (path, success, failure, want) in rows {
        let verdict = judge_web(&web(path, success, failure), 200, body, &NoPatterns);
        assert_eq!(said(&verdict), want, "{path} {success} {failure}: {verdict:?}");
        let has_reason = want.0 == "Error" || path == "{$.rate}";
        assert_eq!(verdict.message.is_some(), has_reason, "an error has a reason");
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
        (vector(&[]), "", ("Inconclusive", "[]")),
        (vector(&["+Inf"]), "result[0] > 0.1", ("Inconclusive", "[+Inf]")),
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
fn a_template_is_the_revision_that_means_the_same() {
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

/// The hash of these steps.
fn hash(steps: &Value) -> String {
    let object = json!({
        "metadata": { "name": "arena" },
        "spec": {
            "selector": { "matchLabels": { "app": "arena" } },
            "template": {
                "metadata": { "labels": { "app": "arena" } },
                "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
            },
            "updateStrategy": { "canary": { "steps": steps } },
        },
    });
    plan::read(GAME_DEPLOYMENT, &object).unwrap().plan.canary.unwrap().hash
}

#[test]
fn steps_that_mean_the_same_have_one_hash() {
    let hook = |more: Value| {
        let mut hook = json!({ "templateName": "test" });
        for (name, value) in more.as_object().unwrap() {
            hook[name] = value.clone();
        }
        json!([{ "partition": 3 }, { "pause": {} }, { "hook": hook }])
    };
    let plain = hash(&hook(json!({})));
    for same in [
        json!({ "args": [] }),
        json!({ "onFailure": "pause" }),
        json!({ "onFailure": "pause", "args": [] }),
        json!({ "timeoutSeconds": null }),
    ] {
        assert_eq!(hash(&hook(same.clone())), plain, "{same}");
    }
    for other in [
        json!({ "args": [{ "name": "room", "value": "7" }] }),
        json!({ "onFailure": "rollback" }),
        json!({ "timeoutSeconds": 60 }),
        json!({ "templateName": "other" }),
    ] {
        assert_ne!(hash(&hook(other.clone())), plain, "{other}");
    }
    let paused = |pause: Value| hash(&json!([{ "pause": pause }]));
    assert_ne!(paused(json!({})), paused(json!({ "duration": 0 })), "one waits for a person");
}

#[test]
fn the_steps_of_the_published_example_keep_their_hash() {
    let steps = json!([
        { "partition": 3 }, { "pause": {} }, { "partition": 2 }, { "pause": { "duration": 60 } },
        { "hook": { "templateName": "test" } },
    ]);
    assert_eq!(hash(&steps), "57fcd7c8c4");
}

#[test]
fn a_pause_is_ours_while_nobody_else_holds_it_too() {
    let object = |paused: bool, managers: &[&str]| {
        let fields = json!({ "f:spec": { "f:updateStrategy": { "f:paused": {} } } });
        let entry = |manager: &&str| json!({ "manager": manager, "fieldsV1": fields });
        let entries: Vec<Value> = managers.iter().map(entry).collect();
        json!({
            "metadata": { "managedFields": entries },
            "spec": { "updateStrategy": { "paused": paused } },
        })
    };
    let cases = [
        ("we set it", true, vec!["us"], true),
        ("twice", true, vec!["us", "us"], true),
        ("a person set it", true, vec!["kubectl"], false),
        ("a person applied it on top of ours", true, vec!["us", "kubectl"], false),
        ("nobody says", true, vec![], false),
        ("we cleared it", false, vec!["us"], true),
        ("and somebody applies the same", false, vec!["kubectl", "us"], true),
        ("a person cleared it", false, vec!["kubectl"], false),
    ];
    for (reason, paused, managers, want) in cases {
        assert_eq!(is_paused_by("us", &object(paused, &managers)), want, "{reason}");
    }
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

fn server(metric: &HookMetric, arguments: &[Argument]) -> ServerQuestion {
    match question(metric, arguments) {
        Ok(Question::Server(question)) => *question,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_server_is_asked_as_its_metric_says() {
    let room = [Argument { name: "room".to_owned(), value: "lobby".to_owned() }];
    let web = |more: Value| {
        let mut web = json!({ "url": "http://1.1.1.1:9091", "jsonPath": "{$.age}" });
        for (name, value) in more.as_object().unwrap() {
            web[name] = value.clone();
        }
        metric(json!({ "name": "m", "provider": { "web": web } }))
    };
    let plain = server(&web(json!({})), &[]);
    assert_eq!((plain.request.method.as_str(), plain.timeout.as_secs()), ("GET", 10));
    assert!(plain.verify_tls && plain.secret.is_none() && plain.request.body.is_empty());
    let put = server(
        &web(json!({
            "method": "PUT", "body": "room={{ args.room }}", "insecureSkipVerify": true,
            "timeoutSeconds": 9999, "secretRef": { "name": "login" },
            "headers": [
                { "key": "content-type", "value": "text/plain" }, { "key": "Host", "value": "x" },
            ],
        })),
        &room,
    );
    assert_eq!((put.request.method.as_str(), put.timeout.as_secs()), ("PUT", 120));
    assert_eq!(put.request.body, b"room=lobby");
    assert_eq!(put.request.headers["content-type"], "text/plain", "what is said counts");
    assert!(!put.request.headers.contains_key("host"), "what HTTP decides is not said");
    assert_eq!((put.verify_tls, put.secret.as_deref()), (false, Some("login")));
    assert!(question(&web(json!({ "body": "x" })), &[]).is_err(), "a GET has no body");
}

#[test]
fn a_secret_becomes_a_header_and_authorities() {
    let asked = || server(&web("{$.age}", "", ""), &[]);
    let data = |pairs: &[(&str, &str)]| {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), value.as_bytes().to_vec());
        pairs.iter().map(pair).collect()
    };
    let mut question = asked();
    let authorities = question.authorize(&data(&[("token", "t0p\n"), ("ca.crt", "PEM")]));
    assert_eq!(authorities, Ok(Some(b"PEM".to_vec())));
    assert_eq!(question.request.headers["authorization"], "Bearer t0p");
    assert!(question.request.headers["authorization"].is_sensitive());
    let mut question = asked();
    assert_eq!(question.authorize(&data(&[("username", "me"), ("password", "pass")])), Ok(None));
    assert_eq!(question.request.headers["authorization"], "Basic bWU6cGFzcw==");
    let mut question = asked();
    assert_eq!(question.authorize(&data(&[("ca.crt", "PEM")])), Ok(Some(b"PEM".to_vec())));
    assert!(asked().authorize(&data(&[("other", "x")])).is_err());
}

#[test]
fn a_change_that_waits_says_what_becomes_of_labels_and_annotations() {
    let map = |name: &str, value: Option<&str>| {
        BTreeMap::from([(name.to_owned(), value.map(str::to_owned))])
    };
    let change = PodChange {
        pod: PodRef { name: "arena-1".to_owned(), uid: "u".to_owned() },
        revision: Revision::new("r2"),
        from: None,
        images: BTreeMap::from([("game".to_owned(), "game:2".to_owned())]),
        labels: map("mode", Some("ranked")),
        annotations: map("note", None),
        image_ids: BTreeMap::new(),
        images_before: BTreeMap::new(),
        restarts_before: BTreeMap::new(),
        at: Moment(0),
        grace: Some(Duration::from_secs(30)),
        owes_post_hook: false,
    };
    let live = json!({ "metadata": { "name": "arena-1", "uid": "u", "resourceVersion": "1" } });
    let patch = pods::update_in_place(&live, &change);
    let waiting = patch["metadata"]["annotations"]["inplace-update-grace"].as_str().unwrap();
    let waiting: Value = serde_json::from_str(waiting).unwrap();
    let text = waiting["metaDataPatch"].as_str().unwrap();
    let decoded: Value = serde_json::from_slice(&BASE64.decode(text).unwrap()).unwrap();
    let want = json!({ "labels": { "mode": "ranked" }, "annotations": { "note": null } });
    assert_eq!(decoded, json!({ "metadata": want }));
    let mut begun = live;
    begun["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
    let grace = pod::read(&begun, None, Identity::Instance).grace.unwrap();
    let want = Metadata { labels: change.labels.clone(), annotations: change.annotations.clone() };
    assert_eq!(grace.metadata, want, "it is read back");
    let bare = PodChange { labels: BTreeMap::new(), annotations: BTreeMap::new(), ..change };
    let patch = pods::update_in_place(&begun, &bare);
    let waiting = patch["metadata"]["annotations"]["inplace-update-grace"].as_str().unwrap();
    assert!(!waiting.contains("metaDataPatch"), "nothing is said of nothing");
}
