use serde_json::json;

use super::*;
use crate::game::testing::{Kit, NAMESPACE, pod};

#[test]
fn hooks_must_not_write_kinds_that_the_operator_works_with() {
    let cases = [
        ("networking.k8s.io", "ingresses", true),
        ("apps", "deployments", true),
        ("tkex.tencent.com", "gamedeployments", true),
        ("networking.k8s.io", "deployments", false),
        ("example.com", "matches", false),
    ];
    for (group, plural, ours) in cases {
        assert_eq!(is_ours(group, plural), ours, "{plural}.{group}");
    }
}

fn question(group: &str, kind: &str, sets: bool) -> ObjectQuestion {
    let path = ["metadata", "annotations", "ready"].map(str::to_owned).to_vec();
    ObjectQuestion {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: "a".to_owned(),
        fields: vec![(path, "yes".to_owned())],
        sets,
    }
}

/// A cluster that serves matches, arenas of the whole cluster, and deployments.
fn stage() -> Kit {
    let kit = Kit::new();
    let resource = |name: &str, kind: &str, namespaced: bool| {
        json!({
            "name": name, "singularName": "", "kind": kind, "namespaced": namespaced,
            "verbs": ["get", "patch"],
        })
    };
    let serve = |group: &str, resources: Value| {
        let version = format!("{group}/v1");
        let list = json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
            "resources": resources,
        });
        kit.api.serve(&format!("/apis/{version}"), list);
    };
    let matches = resource("matches", "Match", true);
    serve("example.com", json!([matches, resource("arenas", "Arena", false)]));
    serve("apps", json!([resource("deployments", "Deployment", true)]));
    kit
}

const MATCH: &str = "/apis/example.com/v1/namespaces/play/matches/a";

fn a_match() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Match",
        "metadata": { "name": "a", "namespace": NAMESPACE, "annotations": { "ready": "no" } },
    })
}

fn ready(object: &Value) -> &Value {
    &object["metadata"]["annotations"]["ready"]
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_read_or_patched_without_discovery() {
    let kit = stage();
    let pod_question = |sets: bool| question("", "Pod", sets);
    assert_eq!(ask(kit.cluster(), &pod_question(false)).await, Ok(None));
    kit.api.put(POD, pod("a"));
    let found = ask(kit.cluster(), &pod_question(false)).await.unwrap().unwrap();
    assert!(ready(&found).is_null());
    let found = ask(kit.cluster(), &pod_question(true)).await.unwrap().unwrap();
    assert_eq!(ready(&found), "yes");
    assert_eq!(kit.api.lines(), ["GET pods/a", "GET pods/a", "PATCH pods/a"]);
    kit.api.fail("GET", "/pods", 403);
    ask(kit.cluster(), &pod_question(false)).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_kinds_are_found_by_discovery() {
    let kit = stage();
    let of_match = |sets: bool| question("example.com", "Match", sets);
    assert_eq!(ask(kit.cluster(), &of_match(false)).await, Ok(None), "it is not there");
    kit.api.serve(MATCH, a_match());
    let found = ask(kit.cluster(), &of_match(false)).await.unwrap().unwrap();
    assert_eq!(ready(&found), "no");
    let found = ask(kit.cluster(), &of_match(true)).await.unwrap().unwrap();
    assert_eq!(ready(&found), "yes");
    let patch = kit.api.calls().pop().unwrap();
    assert_eq!((&*patch.method, &*patch.path), ("PATCH", MATCH));
    assert!(patch.query.contains("fieldManager="), "{}", patch.query);
}

#[tokio::test(start_paused = true)]
async fn questions_that_are_refused_say_why() {
    let cases = [
        ("example.com", "Nothing", false, "does not know Nothing"),
        ("unknown.com", "Match", false, "does not know Match of unknown.com/v1"),
        ("example.com", "Arena", false, "Arena is not in a namespace"),
        ("apps", "Deployment", true, "Deployment is the operator's own work"),
    ];
    for (group, kind, sets, want) in cases {
        let kit = stage();
        let why = ask(kit.cluster(), &question(group, kind, sets)).await.unwrap_err();
        assert!(why.contains(want), "{why}");
    }
    let kit = stage();
    assert_eq!(ask(kit.cluster(), &question("apps", "Deployment", false)).await, Ok(None));
    kit.lose_lease();
    let why = ask(kit.cluster(), &question("example.com", "Match", false)).await.unwrap_err();
    assert_eq!(why, "not the leader any more");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_told_apart_from_one_that_is_not_there() {
    for (code, want) in [
        (403, "the operator's role does not let it at Match play/a"),
        (500, "Match play/a cannot be read now"),
    ] {
        for (method, sets) in [("GET", false), ("PATCH", true)] {
            let kit = stage();
            kit.api.serve(MATCH, a_match());
            kit.api.fail(method, "/matches/a", code);
            let answer = ask(kit.cluster(), &question("example.com", "Match", sets)).await;
            assert_eq!(answer.unwrap_err(), want, "{method} {code}");
        }
    }
    let kit = stage();
    let answer = ask(kit.cluster(), &question("example.com", "Match", true)).await;
    assert_eq!(answer, Ok(None), "a patch of an object that is not there");
}
