//! Get and list: selectors, pages, and resource versions.

use serde_json::{Value, json};
use tidegate_tests::api::Api;

use super::fixtures::{CONFIG_MAPS, cluster, config_map, labelled, names, pod, revision};

async fn fill(api: &Api, names: &[&str]) {
    for name in names {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
}

#[tokio::test]
async fn an_object_is_read_by_name_and_what_is_not_there_is_not_found() {
    let (_sandbox, api) = cluster();
    fill(&api, &["a"]).await;
    let got = api.get(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!((&got["kind"], &got["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    let missing = api.get(&format!("{CONFIG_MAPS}/b")).await;
    let details = missing.json()["details"].clone();
    assert_eq!(details, json!({ "name": "b", "kind": "configmaps" }));
    assert_eq!(missing.refused(404, "NotFound"), "configmaps \"b\" not found");
}

#[tokio::test]
async fn lists_say_the_kind_once_for_built_in_items_and_each_time_for_custom_ones() {
    let (_sandbox, api) = super::fixtures::with_widgets().await;
    fill(&api, &["a"]).await;
    let list = api.get(CONFIG_MAPS).await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!(list["items"][0].get("kind"), None);
    assert_eq!(list["items"][0].get("apiVersion"), None);
    assert_eq!(list["items"][0]["data"], json!({ "key": "value" }));
    let widgets = super::fixtures::WIDGETS;
    api.post(widgets, super::fixtures::widget("w")).await.expect(201);
    let list = api.get(widgets).await.expect(200);
    assert_eq!(list["items"][0]["kind"], "Widget");
    let empty = api.get("/api/v1/namespaces/default/secrets").await.expect(200);
    assert_eq!(empty["items"], json!([]), "never null");
}

#[tokio::test]
async fn selectors_choose_by_labels_and_fields() {
    let (_sandbox, api) = cluster();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        api.post(CONFIG_MAPS, labelled(name, app)).await.expect(201);
    }
    let cases = [
        ("labelSelector=app%3Dx", vec!["a", "c"], "equality"),
        ("labelSelector=app+notin+(x)", vec!["b"], "a set"),
        ("labelSelector=app", vec!["a", "b", "c"], "existence"),
        ("fieldSelector=metadata.name%3Db", vec!["b"], "by name"),
        ("fieldSelector=metadata.name!%3Db", vec!["a", "c"], "by another name"),
        ("labelSelector=app%3Dx&fieldSelector=metadata.name%3Dc", vec!["c"], "both"),
    ];
    for (query, want, reason) in cases {
        let list = api.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(200);
        assert_eq!(names(&list), want, "{reason}");
    }
    let bad = api.get(&format!("{CONFIG_MAPS}?fieldSelector=data.key%3Dv")).await;
    let message = bad.refused(400, "BadRequest");
    assert!(message.contains("data.key"), "{message}");
    api.get(&format!("{CONFIG_MAPS}?labelSelector=a%3D%3D%3Db")).await.refused(400, "BadRequest");
    api.get(&format!("{CONFIG_MAPS}?limit=many")).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn pages_are_of_one_moment_while_writes_go_on() {
    let (_sandbox, api) = cluster();
    fill(&api, &["a", "b", "c", "d", "e"]).await;
    let first = api.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    api.delete(&format!("{CONFIG_MAPS}/c")).await.expect(200);
    fill(&api, &["bb"]).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = api.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["c", "d"], "as it was when the first page was read");
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = api.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&last), ["e"]);
    assert_eq!(last["metadata"].get("continue"), None);
    assert_eq!(last["metadata"].get("remainingItemCount"), None);
}

#[tokio::test]
async fn nothing_is_counted_that_a_selector_would_have_to_look_at() {
    let (_sandbox, api) = cluster();
    for name in ["a", "b", "c"] {
        api.post(CONFIG_MAPS, labelled(name, "x")).await.expect(201);
    }
    let page = api.get(&format!("{CONFIG_MAPS}?limit=1&labelSelector=app%3Dx")).await.expect(200);
    assert!(page["metadata"]["continue"].is_string());
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
}

#[tokio::test]
async fn an_expired_page_can_be_taken_up_where_it_stopped() {
    let (sandbox, api) = cluster();
    fill(&api, &["a", "b", "c"]).await;
    let first = api.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    fill(&api, &["bb"]).await;
    sandbox.server().store.compact();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let reply = api.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await;
    let token = reply.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let message = reply.refused(410, "Expired");
    assert!(message.starts_with("The provided continue parameter is too old"), "{message}");
    let rest = api.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["b", "bb", "c"], "not consistent, but complete from there on");
}

#[tokio::test]
async fn a_version_means_what_it_says() {
    let (_sandbox, api) = cluster();
    fill(&api, &["a"]).await;
    let then = api.get(CONFIG_MAPS).await.expect(200);
    let then = revision(&then).to_owned();
    fill(&api, &["b", "c"]).await;
    let cases = [
        (String::new(), vec!["a", "b", "c"], "unset is the latest"),
        ("resourceVersion=0".into(), vec!["a", "b", "c"], "0 is anything there is"),
        ("resourceVersion=0&limit=1".into(), vec!["a", "b", "c"], "0 has no pages"),
        (format!("resourceVersion={then}"), vec!["a", "b", "c"], "a version is a minimum"),
        (
            format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan"),
            vec!["a", "b", "c"],
            "said explicitly",
        ),
        (format!("resourceVersion={then}&resourceVersionMatch=Exact"), vec!["a"], "exactly then"),
        (format!("resourceVersion={then}&limit=5"), vec!["a"], "a page is exact"),
    ];
    for (query, want, reason) in cases {
        let list = api.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(200);
        assert_eq!(names(&list), want, "{reason}");
    }
}

#[tokio::test]
async fn versions_from_the_future_and_other_nonsense_are_refused() {
    let (sandbox, api) = cluster();
    fill(&api, &["a"]).await;
    let current = sandbox.server().store.revision();
    for query in ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"] {
        let reply = api.get(&format!("{CONFIG_MAPS}?resourceVersion=9999{query}")).await;
        let details = reply.json()["details"].clone();
        let causes = json!([{ "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version" }]);
        assert_eq!(details["causes"], causes, "{query}");
        let want = format!("Timeout: Too large resource version: 9999, current: {current}");
        assert_eq!(reply.refused(504, "Timeout"), want);
        assert_eq!(details["retryAfterSeconds"].is_null(), query.ends_with("Exact"), "{query}");
    }
    api.get(&format!("{CONFIG_MAPS}/a?resourceVersion=9999")).await.refused(504, "Timeout");
    let garbage = api.get(&format!("{CONFIG_MAPS}?resourceVersion=abc")).await;
    assert_eq!(
        garbage.refused(400, "BadRequest"),
        "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: \
         parsing \"abc\": invalid syntax"
    );
    let cases = [
        ("resourceVersionMatch=Exact", "forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Exact&resourceVersion=0", "is forbidden for resourceVersion \"0\""),
        ("resourceVersionMatch=Newest&resourceVersion=2", "Unsupported value: \"Newest\""),
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
    ];
    for (query, want) in cases {
        let reply = api.get(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(reply.json()["details"]["kind"], "ListOptions");
        let message = reply.refused(422, "Invalid");
        assert!(message.starts_with("ListOptions.meta.k8s.io \"\" is invalid: "), "{message}");
        assert!(message.contains(want), "{message}");
    }
    let cases = [
        ("continue=x.y", "invalid continue token: continue key is not valid: "),
        (
            "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiJhL2JcdTAwMDAifQ&\
          resourceVersion=2",
            "specifying resource version is not allowed when using continue",
        ),
    ];
    for (query, want) in cases {
        let message = api.get(&format!("{CONFIG_MAPS}?{query}")).await.refused(400, "BadRequest");
        assert!(message.starts_with(want), "{message}");
    }
}

#[tokio::test]
async fn a_moment_that_was_compacted_cannot_be_listed() {
    let (sandbox, api) = cluster();
    fill(&api, &["a"]).await;
    let then = sandbox.server().store.revision();
    fill(&api, &["b"]).await;
    sandbox.server().store.compact();
    let path = format!("{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=Exact");
    assert_eq!(
        api.get(&path).await.refused(410, "Expired"),
        "The resourceVersion for the provided list is too old."
    );
}

#[tokio::test]
async fn lists_span_namespaces_in_order() {
    let (_sandbox, api) = cluster();
    let namespace = json!({ "metadata": { "name": "a-first" } });
    api.post("/api/v1/namespaces", namespace).await.expect(201);
    for path in ["/api/v1/namespaces/default/pods", "/api/v1/namespaces/a-first/pods"] {
        api.post(path, pod("p")).await.expect(201);
    }
    let list = api.get("/api/v1/pods").await.expect(200);
    let found: Vec<&Value> = list["items"].as_array().unwrap().iter().collect();
    let spaces: Vec<&str> =
        found.iter().map(|item| item["metadata"]["namespace"].as_str().unwrap()).collect();
    assert_eq!(spaces, ["a-first", "default"]);
    let one = api.get("/api/v1/pods?fieldSelector=metadata.namespace%3Ddefault").await;
    assert_eq!(names(&one.expect(200)), ["p"]);
}
