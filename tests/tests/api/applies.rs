//! Server-side apply and ownership of fields.

use serde_json::{Value, json};
use tidegate_tests::api::{Api, MERGE_PATCH};

use super::fixtures::{
    CONFIG_MAPS, DEPLOYMENTS, WIDGETS, cluster, config_map, deployment, widget, with_widgets,
};

const MAP: &str = "/api/v1/namespaces/default/configmaps/a";

fn data(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

/// `manager operation subresource`, in the order they are kept.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let shown = entries.iter().map(|entry| {
        let parts = ["manager", "operation", "subresource"].map(|key| text(entry, key));
        parts.join(" ").trim_end().to_owned()
    });
    shown.collect()
}

async fn apply(api: &Api, manager: &str, config: Value) -> Value {
    let reply = api.apply(MAP, manager, config).await;
    assert!(matches!(reply.code, 200 | 201), "{}", reply.text());
    reply.json()
}

#[tokio::test]
async fn an_apply_creates_and_then_updates() {
    let (sandbox, api) = cluster();
    let made = api.apply(MAP, "one", data(&json!({ "x": "1" }))).await.expect(201);
    assert_eq!(
        made["metadata"]["managedFields"],
        json!([{ "manager": "one", "operation": "Apply", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": { "f:x": {} } } }])
    );
    let before = sandbox.server().store.revision();
    api.apply(MAP, "one", data(&json!({ "x": "1" }))).await.expect(200);
    assert_eq!(sandbox.server().store.revision(), before, "the same again is nothing");
    let new = api.apply(MAP, "one", data(&json!({ "y": "2" }))).await.expect(200);
    assert_eq!(new["data"], json!({ "y": "2" }), "what is not applied any more goes");
}

#[tokio::test]
async fn a_conflict_names_the_fields_and_their_owners() {
    let (_sandbox, api) = cluster();
    apply(&api, "one", data(&json!({ "x": "1", "y": "1" }))).await;
    let reply = api.apply(MAP, "two", data(&json!({ "x": "2" }))).await;
    assert_eq!(
        reply.json()["details"],
        json!({ "causes": [{ "reason": "FieldManagerConflict",
            "message": "conflict with \"one\"", "field": ".data.x" }] })
    );
    assert_eq!(
        reply.refused(409, "Conflict"),
        "Apply failed with 1 conflict: conflict with \"one\": .data.x"
    );
    let path = format!("{MAP}?force=true");
    let new = api.apply(&path, "two", data(&json!({ "x": "2" }))).await.expect(200);
    assert_eq!(new["data"], json!({ "x": "2", "y": "1" }));
    assert_eq!(owners(&new), ["one Apply", "two Apply"]);
    let new = apply(&api, "one", data(&json!({ "y": "1" }))).await;
    assert_eq!(new["data"]["x"], "2", "one lost it to two, so it does not go");
}

#[tokio::test]
async fn what_two_agree_on_they_share() {
    let (_sandbox, api) = cluster();
    apply(&api, "one", data(&json!({ "x": "1" }))).await;
    apply(&api, "two", data(&json!({ "x": "1" }))).await;
    let new = apply(&api, "one", data(&json!({}))).await;
    assert_eq!(new["data"], json!({ "x": "1" }), "the other still wants it");
    let new = apply(&api, "two", data(&json!({}))).await;
    assert_eq!(new.get("data"), None);
}

#[tokio::test]
async fn every_way_of_writing_leaves_its_mark() {
    let (_sandbox, api) = cluster();
    let path = format!("{DEPLOYMENTS}/d");
    api.post(&format!("{DEPLOYMENTS}?fieldManager=maker"), deployment("d")).await.expect(201);
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    api.patch(&format!("{path}?fieldManager=patcher"), MERGE_PATCH, label).await.expect(200);
    let status = json!({ "status": { "replicas": 1 } });
    let status_path = format!("{path}/status?fieldManager=controller");
    api.patch(&status_path, MERGE_PATCH, status).await.expect(200);
    let scale = json!({ "spec": { "replicas": 9 } });
    let scale_path = format!("{path}/scale?fieldManager=scaler");
    api.patch(&scale_path, MERGE_PATCH, scale).await.expect(200);
    let ask = api.ask(http::Method::PATCH, &path).header("user-agent", "kubectl/v1.36 (linux)");
    let note = json!({ "metadata": { "annotations": { "n": "1" } } });
    ask.body(MERGE_PATCH, note.to_string()).send().await.expect(200);
    let new = api.get(&path).await.expect(200);
    let mut found = owners(&new);
    found.sort();
    let want = [
        "controller Update status",
        "kubectl Update",
        "maker Update",
        "patcher Update",
        "scaler Update scale",
    ];
    assert_eq!(found, want);
    let entries = new["metadata"]["managedFields"].as_array().unwrap();
    let of = |manager: &str| entries.iter().find(|entry| entry["manager"] == manager).unwrap();
    assert_eq!(of("scaler")["fieldsV1"], json!({ "f:spec": { "f:replicas": {} } }));
    assert_eq!(of("controller")["fieldsV1"], json!({ "f:status": { "f:replicas": {} } }));
    assert_eq!(of("maker")["fieldsV1"]["f:spec"].get("f:replicas"), None, "taken by the scaler");
}

#[tokio::test]
async fn a_status_is_applied_apart_from_its_object() {
    let (_sandbox, api) = with_widgets().await;
    let path = format!("{WIDGETS}/w");
    let mut config = widget("w");
    config["status"] = json!({ "phase": "Up" });
    api.apply(&format!("{path}/status"), "c", config.clone()).await.refused(404, "NotFound");
    let made = api.apply(&path, "o", config.clone()).await.expect(201);
    assert_eq!(made.get("status"), None);
    config["spec"]["size"] = 8.into();
    let new = api.apply(&format!("{path}/status"), "c", config).await.expect(200);
    assert_eq!((&new["spec"]["size"], &new["status"]["phase"]), (&json!(1), &json!("Up")));
    let entries = new["metadata"]["managedFields"].as_array().unwrap();
    let status = entries.iter().find(|entry| entry["manager"] == "c").unwrap();
    assert_eq!(status["subresource"], "status");
    assert_eq!(status["fieldsV1"], json!({ "f:status": { "f:phase": {} } }));
}

#[tokio::test]
async fn an_applied_version_or_uid_must_be_the_current_one() {
    let (_sandbox, api) = cluster();
    let mut config = data(&json!({ "x": "1" }));
    config["metadata"]["uid"] = "u".into();
    assert_eq!(
        api.apply(MAP, "one", config).await.refused(409, "Conflict"),
        "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object \
         specified uid u, and no existing object was found"
    );
    let made = apply(&api, "one", data(&json!({ "x": "1" }))).await;
    let mut config = data(&json!({ "x": "2" }));
    config["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    apply(&api, "one", config.clone()).await;
    config["data"]["x"] = "3".into();
    api.apply(MAP, "one", config).await.refused(409, "Conflict");
}

#[tokio::test]
async fn a_configuration_must_be_one() {
    let (_sandbox, api) = with_widgets().await;
    let mut owned = data(&json!({}));
    owned["metadata"]["managedFields"] = json!([]);
    let mut older = data(&json!({}));
    older["apiVersion"] = "v0".into();
    let mut renamed = data(&json!({}));
    renamed["metadata"]["name"] = "b".into();
    let mut nameless = data(&json!({}));
    nameless["metadata"] = json!({});
    let mut moved = data(&json!({}));
    moved["metadata"]["namespace"] = "other".into();
    let cases = [
        (owned, "metadata.managedFields must be nil"),
        (
            older,
            "Incorrect version specified in apply patch. Specified patch version: v0, expected: v1",
        ),
        (renamed, "the name of the object (b) does not match the name on the URL (a)"),
        (
            nameless,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            moved,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ];
    for (config, want) in cases {
        assert_eq!(api.apply(MAP, "one", config).await.refused(400, "BadRequest"), want);
    }
    let mut strange = deployment("d");
    strange["spec"]["speed"] = 5.into();
    let reply = api.apply(&format!("{DEPLOYMENTS}/d"), "one", strange).await;
    assert_eq!(
        reply.refused(500, ""),
        "failed to create typed patch object (default/d; apps/v1, Kind=Deployment): .spec.speed: \
         field not declared in schema"
    );
    let mut strange = widget("w");
    strange["spec"]["speed"] = 5.into();
    let path = format!("{WIDGETS}/w?fieldValidation=Ignore");
    let message = api.apply(&path, "one", strange).await.refused(500, "");
    assert!(message.ends_with(".spec.speed: field not declared in schema"), "{message}");
}

#[tokio::test]
async fn a_dry_apply_creates_nothing() {
    let (sandbox, api) = cluster();
    let before = sandbox.server().store.revision();
    let path = format!("{MAP}?dryRun=All");
    api.apply(&path, "one", data(&json!({ "x": "1" }))).await.expect(201);
    assert_eq!(sandbox.server().store.revision(), before);
    api.get(MAP).await.refused(404, "NotFound");
}

#[tokio::test]
async fn the_list_of_owners_can_be_cleared() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let clear = json!({ "metadata": { "managedFields": [{}] } });
    let new = api.patch(MAP, MERGE_PATCH, clear).await.expect(200);
    assert_eq!(new["metadata"].get("managedFields"), None);
}
