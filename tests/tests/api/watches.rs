//! Watches: their start, their events, and their end.

use std::time::Duration;

use http::Method;
use kube_sandbox::protobuf;
use serde_json::{Value, json};
use tidegate_tests::api::{Api, MERGE_PATCH, TABLE};

use super::fixtures::{
    CONFIG_MAPS, PODS, WIDGETS, WIDGETS_V2, cluster, config_map, labelled, pod, revision, widget,
    with_widgets,
};

async fn touch(api: &Api, name: &str, value: &str) -> Value {
    let patch = json!({ "data": { "key": value } });
    api.patch(&format!("{CONFIG_MAPS}/{name}"), MERGE_PATCH, patch).await.expect(200)
}

#[tokio::test]
async fn a_watch_from_a_version_tells_what_came_after_it() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let list = api.get(CONFIG_MAPS).await.expect(200);
    let from = revision(&list).to_owned();
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).await;
    assert_eq!(watch.code, 200);
    assert_eq!(watch.headers["content-type"], "application/json");
    assert_eq!(watch.told().await, ["ADDED b"]);
    touch(&api, "a", "x").await;
    let gone = api.delete(&format!("{CONFIG_MAPS}/b")).await;
    gone.expect(200);
    assert_eq!(watch.told().await, ["MODIFIED a", "DELETED b"]);
}

#[tokio::test]
async fn a_watch_from_nowhere_begins_with_what_there_is() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    for query in ["watch=1", "watch=true&resourceVersion=0"] {
        let mut watch = api.watch(&format!("{CONFIG_MAPS}?{query}")).await;
        let first = watch.ready().await.unwrap();
        assert_eq!(
            (&first["type"], &first["object"]["kind"]),
            (&json!("ADDED"), &json!("ConfigMap"))
        );
        assert_eq!(watch.told().await, Vec::<String>::new());
    }
    let path = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{path}")).await;
    assert_eq!(watch.told().await, Vec::<String>::new(), "asked for none of what there is");
    touch(&api, "a", "x").await;
    assert_eq!(watch.told().await, ["MODIFIED a"]);
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark_that_says_so() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let list = api.get(CONFIG_MAPS).await.expect(200);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{query}&allowWatchBookmarks=true")).await;
    assert_eq!(watch.ready().await.unwrap()["type"], "ADDED");
    let mark = watch.ready().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["kind"], "ConfigMap");
    assert_eq!(
        mark["object"]["metadata"],
        json!({ "resourceVersion": revision(&list),
            "annotations": { "k8s.io/initial-events-end": "true" } })
    );
    let mut plain = api.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(plain.told().await, ["ADDED a"], "no bookmark for who did not ask for them");
}

#[tokio::test]
async fn watch_options_that_contradict_each_other_are_refused() {
    let (_sandbox, api) = cluster();
    let cases = [
        ("sendInitialEvents=true", "requires setting resourceVersionMatch to NotOlderThan"),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=2",
            "requires setting resourceVersionMatch to NotOlderThan",
        ),
        ("resourceVersionMatch=NotOlderThan", "is forbidden for watch unless sendInitialEvents"),
    ];
    for (query, want) in cases {
        let reply = api.get(&format!("{CONFIG_MAPS}?watch=1&{query}")).await;
        let message = reply.refused(422, "Invalid");
        assert!(message.contains(want), "{message}");
    }
    let reply = api.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=x")).await;
    // The watch cache finds this and sets no reason.
    let message =
        "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";
    assert_eq!((reply.code, &reply.json()["message"]), (500, &json!(message)));
}

#[tokio::test]
async fn a_bookmark_comes_every_minute_to_those_who_asked() {
    let (sandbox, api) = cluster();
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true")).await;
    assert_eq!(watch.told().await, Vec::<String>::new());
    api.post(PODS, pod("elsewhere")).await.expect(201);
    sandbox.server().clock.advance(Duration::from_mins(1));
    let mark = watch.ready().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    let now = sandbox.server().store.revision().to_string();
    assert_eq!(revision(&mark["object"]), now, "other kinds move it, too");
    assert_eq!(mark["object"]["metadata"].get("creationTimestamp"), None);
}

#[tokio::test]
async fn a_watch_from_before_the_compaction_is_told_to_list_again() {
    let (sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let from = sandbox.server().store.revision();
    touch(&api, "a", "x").await;
    sandbox.server().store.compact();
    let now = sandbox.server().store.revision();
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).await;
    assert_eq!(watch.code, 200, "the watch begins; the error is its first event");
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(
        event["object"],
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("too old resource version: {from} ({now})"),
            "reason": "Expired", "code": 410 })
    );
    assert_eq!(watch.next().await, None, "and the last");
}

#[tokio::test]
async fn an_open_watch_survives_a_compaction() {
    let (sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.told().await, ["ADDED a"]);
    api.post(PODS, pod("elsewhere")).await.expect(201);
    sandbox.server().store.compact();
    touch(&api, "a", "x").await;
    assert_eq!(watch.told().await, ["MODIFIED a"], "it had seen all that was forgotten");
}

#[tokio::test]
async fn a_watch_from_the_future_waits_for_it() {
    let (sandbox, api) = cluster();
    let future = sandbox.server().store.revision() + 1;
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={future}")).await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    assert_eq!(watch.told().await, ["ADDED b"]);
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_up() {
    let (sandbox, api) = cluster();
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5")).await;
    sandbox.server().clock.advance(Duration::from_secs(4));
    assert_eq!(watch.told().await, Vec::<String>::new());
    sandbox.server().clock.advance(Duration::from_secs(1));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn objects_come_into_view_and_leave_it() {
    let (_sandbox, api) = cluster();
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=app%3Dx")).await;
    api.post(CONFIG_MAPS, labelled("a", "y")).await.expect(201);
    assert_eq!(watch.told().await, Vec::<String>::new());
    let label = |app: &str| json!({ "metadata": { "labels": { "app": app } } });
    let path = format!("{CONFIG_MAPS}/a");
    api.patch(&path, MERGE_PATCH, label("x")).await.expect(200);
    assert_eq!(watch.told().await, ["ADDED a"]);
    let left = api.patch(&path, MERGE_PATCH, label("z")).await.expect(200);
    let event = watch.ready().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["app"], "x", "its last state in view");
    assert_eq!(revision(&event["object"]), revision(&left), "under the version of the change");
    api.delete(&path).await.expect(200);
    assert_eq!(watch.told().await, Vec::<String>::new());
}

#[tokio::test]
async fn one_name_or_namespace_can_be_watched() {
    let (_sandbox, api) = cluster();
    let other = json!({ "metadata": { "name": "other" } });
    api.post("/api/v1/namespaces", other).await.expect(201);
    let mut one =
        api.watch(&format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Da")).await;
    let mut old_way = api.watch("/api/v1/watch/namespaces/default/configmaps/a").await;
    let mut whole = api.watch("/api/v1/configmaps?watch=1").await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    api.post("/api/v1/namespaces/other/configmaps", config_map("a")).await.expect(201);
    assert_eq!(one.told().await, ["ADDED a"]);
    assert_eq!(old_way.told().await, ["ADDED a"]);
    assert_eq!(whole.told().await, ["ADDED a", "ADDED b", "ADDED a"]);
    let got = api.get(&format!("{CONFIG_MAPS}/a?watch=1")).await.expect(200);
    assert_eq!(got["kind"], "ConfigMap", "a path with a name is read, whatever the query says");
}

#[tokio::test]
async fn a_deletion_is_told_under_its_own_version() {
    let (sandbox, api) = cluster();
    let made = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&made));
    let mut watch = api.watch(&path).await;
    api.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    let event = watch.ready().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    let now = sandbox.server().store.revision().to_string();
    assert_eq!(revision(&event["object"]), now);
    assert_ne!(revision(&event["object"]), revision(&made));
}

#[tokio::test]
async fn table_events_say_their_columns_once() {
    let (_sandbox, api) = cluster();
    api.post(PODS, pod("a")).await.expect(201);
    let ask = api.ask(Method::GET, &format!("{PODS}?watch=1")).accept(TABLE);
    let mut watch = ask.watch().await;
    let first = watch.ready().await.unwrap();
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    assert_eq!(first["object"]["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    api.post(PODS, pod("b")).await.expect(201);
    let second = watch.ready().await.unwrap();
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test]
async fn metadata_can_be_watched_alone() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let ask = api.ask(Method::GET, &format!("{CONFIG_MAPS}?watch=1")).accept(accept);
    let event = ask.watch().await.ready().await.unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"]["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(event["object"]["metadata"]["name"], "a");
    assert_eq!(event["object"].get("data"), None);
}

#[tokio::test]
async fn protobuf_events_come_in_frames_with_their_length() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let ask = api.ask(Method::GET, &format!("{CONFIG_MAPS}?watch=1"));
    let mut watch = ask.accept("application/vnd.kubernetes.protobuf").watch().await;
    assert_eq!(watch.headers["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let frame = watch.frame().await.unwrap();
    let (length, rest) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, rest.len());
    assert!(protobuf::is_body(rest) || rest.windows(4).any(|four| four == b"k8s\0"));
    let ask = api.ask(Method::GET, &format!("{CONFIG_MAPS}?watch=1")).accept("application/yaml");
    let refused = ask.send().await;
    assert_eq!(refused.code, 406);
    assert!(refused.text().contains("application/json;stream=watch"), "YAML has no frames");
}

#[tokio::test]
async fn a_custom_resource_is_watched_at_the_version_asked_for() {
    let (_sandbox, api) = with_widgets().await;
    let mut first = api.watch(&format!("{WIDGETS}?watch=1")).await;
    let mut second = api.watch(&format!("{WIDGETS_V2}?watch=1")).await;
    api.post(WIDGETS, widget("w")).await.expect(201);
    for (watch, version) in [(&mut first, "example.com/v1"), (&mut second, "example.com/v2")] {
        let event = watch.ready().await.unwrap();
        assert_eq!(event["object"]["apiVersion"], version);
        assert_eq!(event["object"]["kind"], "Widget");
    }
}
