//! Update: conflicts, fields that a write may change, and the generation.

use serde_json::{Value, json};
use tidegate_tests::api::{Api, MERGE_PATCH};

use super::fixtures::{
    CONFIG_MAPS, DEPLOYMENTS, LEASES, WIDGETS, cluster, config_map, deployment, lease, revision,
    widget, with_widgets,
};

async fn made(api: &Api, path: &str, object: Value) -> Value {
    api.post(path, object).await.expect(201)
}

#[tokio::test]
async fn a_stale_version_is_a_conflict() {
    let (_sandbox, api) = cluster();
    let mut object = made(&api, DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    object["spec"]["replicas"] = 3.into();
    api.put(&path, object.clone()).await.expect(200);
    object["spec"]["replicas"] = 4.into();
    let reply = api.put(&path, object).await;
    let details = json!({ "name": "d", "group": "apps", "kind": "deployments" });
    assert_eq!(reply.json()["details"], details);
    assert_eq!(
        reply.refused(409, "Conflict"),
        "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; \
         please apply your changes to the latest version and try again"
    );
}

#[tokio::test]
async fn some_kinds_must_be_updated_with_a_version_and_others_need_not() {
    let (_sandbox, api) = with_widgets().await;
    made(&api, CONFIG_MAPS, config_map("a")).await;
    let mut object = config_map("a");
    object["data"]["key"] = "new".into();
    api.put(&format!("{CONFIG_MAPS}/a"), object).await.expect(200);
    made(&api, WIDGETS, widget("w")).await;
    let reply = api.put(&format!("{WIDGETS}/w"), widget("w")).await;
    assert_eq!(reply.json()["details"]["kind"], "widgets", "the resource, not the kind");
    assert_eq!(
        reply.refused(422, "Invalid"),
        "widgets.example.com \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
         specified for an update"
    );
    let mut garbled = widget("w");
    garbled["metadata"]["resourceVersion"] = "x".into();
    let reply = api.put(&format!("{WIDGETS}/w"), garbled).await;
    assert_eq!(reply.refused(500, ""), "strconv.ParseUint: parsing \"x\": invalid syntax");
}

#[tokio::test]
async fn a_uid_in_the_body_is_a_precondition() {
    let (_sandbox, api) = cluster();
    let old = made(&api, CONFIG_MAPS, config_map("a")).await;
    let mut object = config_map("a");
    object["metadata"]["uid"] = "other".into();
    let reply = api.put(&format!("{CONFIG_MAPS}/a"), object).await;
    let uid = old["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        reply.refused(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: \
             4, Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: other, UID in object meta: {uid}"
        )
    );
    let patch = json!({ "metadata": { "uid": "other" } });
    let reply = api.patch(&format!("{CONFIG_MAPS}/a"), MERGE_PATCH, patch).await;
    assert_eq!(
        reply.refused(422, "Invalid"),
        "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable"
    );
}

#[tokio::test]
async fn writing_the_same_again_changes_nothing() {
    let (sandbox, api) = cluster();
    let object = made(&api, DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let before = sandbox.server().store.revision();
    let again = api.put(&path, object.clone()).await.expect(200);
    assert_eq!(again, object);
    let same = json!({ "spec": { "replicas": 2 } });
    api.patch(&path, MERGE_PATCH, same).await.expect(200);
    api.put(&path, deployment("d")).await.expect(200);
    assert_eq!(sandbox.server().store.revision(), before);
}

#[tokio::test]
async fn the_name_in_the_body_must_be_the_one_in_the_path() {
    let (_sandbox, api) = cluster();
    made(&api, CONFIG_MAPS, config_map("a")).await;
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(
        api.put(&path, config_map("b")).await.refused(400, "BadRequest"),
        "the name of the object (b) does not match the name on the URL (a)"
    );
    assert_eq!(
        api.put(&path, json!({ "data": {} })).await.refused(400, "BadRequest"),
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    );
}

#[tokio::test]
async fn some_kinds_are_created_by_an_update() {
    let (_sandbox, api) = cluster();
    api.put(&format!("{LEASES}/l"), lease("l")).await.expect(201);
    let missing = api.put(&format!("{CONFIG_MAPS}/c"), config_map("c")).await;
    assert_eq!(missing.refused(404, "NotFound"), "configmaps \"c\" not found");
    let mut known = lease("m");
    known["metadata"]["uid"] = "u".into();
    let message = api.put(&format!("{LEASES}/m"), known).await.refused(409, "Conflict");
    assert!(message.ends_with("UID in precondition: u, UID in object meta: "), "{message}");
    let mut versioned = lease("n");
    versioned["metadata"]["resourceVersion"] = "3".into();
    api.put(&format!("{LEASES}/n"), versioned).await.expect(201);
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec_alone() {
    let (_sandbox, api) = with_widgets().await;
    made(&api, DEPLOYMENTS, deployment("d")).await;
    made(&api, WIDGETS, widget("w")).await;
    for (path, spec) in [
        (format!("{DEPLOYMENTS}/d"), json!({ "spec": { "replicas": 5 } })),
        (format!("{WIDGETS}/w"), json!({ "spec": { "size": 5 } })),
    ] {
        let generation = async |path: &str, patch: &Value| {
            let new = api.patch(path, MERGE_PATCH, patch.clone()).await.expect(200);
            new["metadata"]["generation"].as_i64().unwrap()
        };
        let label = json!({ "metadata": { "labels": { "x": "y" } } });
        assert_eq!(generation(&path, &label).await, 1, "{path}: a label is no change");
        let own = json!({ "metadata": { "generation": 9 } });
        assert_eq!(generation(&path, &own).await, 1, "{path}: nobody sets it");
        assert_eq!(generation(&path, &spec).await, 2, "{path}: a spec is");
        let status = json!({ "status": { "replicas": 1 } });
        let subresource = format!("{path}/status");
        assert_eq!(generation(&subresource, &status).await, 2, "{path}: a status is not");
        assert_eq!(generation(&path, &spec).await, 2, "{path}: the same again is not");
    }
}

#[tokio::test]
async fn the_object_and_its_status_are_written_apart() {
    let (_sandbox, api) = with_widgets().await;
    let mut sent = widget("w");
    sent["status"] = json!({ "phase": "Made" });
    let made = made(&api, WIDGETS, sent).await;
    assert_eq!(made.get("status"), None, "no status on creation");
    let both = json!({ "spec": { "size": 7 }, "status": { "phase": "Up" },
        "metadata": { "labels": { "a": "b" } } });
    let status = format!("{WIDGETS}/w/status");
    let new = api.patch(&status, MERGE_PATCH, both.clone()).await.expect(200);
    assert_eq!((&new["spec"]["size"], &new["status"]["phase"]), (&json!(1), &json!("Up")));
    assert_eq!(new["metadata"].get("labels"), None);
    let clear = json!({ "spec": { "size": 7 }, "status": null });
    let new = api.patch(&format!("{WIDGETS}/w"), MERGE_PATCH, clear).await.expect(200);
    assert_eq!((&new["spec"]["size"], &new["status"]["phase"]), (&json!(7), &json!("Up")));
    let got = api.get(&status).await.expect(200);
    assert_eq!((&got["kind"], revision(&got)), (&json!("Widget"), revision(&new)));
}

#[tokio::test]
async fn a_scale_changes_the_replicas_and_nothing_else() {
    let (_sandbox, api) = cluster();
    made(&api, DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let mut scale = api.get(&path).await.expect(200);
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["spec"], json!({ "replicas": 2 }));
    assert_eq!(scale["status"], json!({ "replicas": 0, "selector": "app=d" }));
    scale["spec"]["replicas"] = 4.into();
    scale["metadata"]["labels"] = json!({ "x": "y" });
    let new = api.put(&path, scale.clone()).await.expect(200);
    assert_eq!(new["spec"]["replicas"], 4);
    let object = api.get(&format!("{DEPLOYMENTS}/d")).await.expect(200);
    assert_eq!(object["spec"]["replicas"], 4);
    assert_eq!(object["metadata"]["generation"], 2);
    assert_eq!(object["metadata"].get("labels"), None);
    let message = api.put(&path, scale.clone()).await.refused(409, "Conflict");
    assert!(message.starts_with("Operation cannot be fulfilled on deployments.apps \"d\""));
    scale["metadata"] = json!({ "name": "d" });
    scale["spec"]["replicas"] = (-1).into();
    let message = api.put(&path, scale.clone()).await.refused(422, "Invalid");
    assert!(message.contains("spec.replicas: Invalid value: -1"), "{message}");
    scale["metadata"]["name"] = "e".into();
    api.put(&path, scale).await.refused(400, "BadRequest");
    let none = json!({ "spec": { "replicas": 0 } });
    let new = api.patch(&path, MERGE_PATCH, none).await.expect(200);
    assert_eq!(new["spec"], json!({}), "zero goes without saying");
}

#[tokio::test]
async fn what_is_immutable_stays() {
    let (_sandbox, api) = cluster();
    made(&api, DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let selector = json!({ "spec": { "selector": { "matchLabels": { "app": "x" } },
        "template": { "metadata": { "labels": { "app": "x" } } } } });
    let message = api.patch(&path, MERGE_PATCH, selector).await.refused(422, "Invalid");
    assert!(message.contains("spec.selector: Invalid value: "), "{message}");
    assert!(message.contains("field is immutable"), "{message}");
    let stamp = json!({ "metadata": { "deletionTimestamp": "2030-01-01T00:00:00Z" } });
    let message = api.patch(&path, MERGE_PATCH, stamp).await.refused(422, "Invalid");
    assert!(message.contains("metadata.deletionTimestamp: Invalid value: "), "{message}");
    let created = json!({ "metadata": { "creationTimestamp": "2001-01-01T00:00:00Z" } });
    let new = api.patch(&path, MERGE_PATCH, created).await.expect(200);
    assert_eq!(new["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z", "put back in silence");
}

#[tokio::test]
async fn a_dry_update_shows_the_outcome_under_the_old_version() {
    let (sandbox, api) = cluster();
    let object = made(&api, CONFIG_MAPS, config_map("a")).await;
    let mut changed = config_map("a");
    changed["data"]["key"] = "new".into();
    let before = sandbox.server().store.revision();
    let shown = api.put(&format!("{CONFIG_MAPS}/a?dryRun=All"), changed).await.expect(200);
    assert_eq!(shown["data"]["key"], "new");
    assert_eq!(revision(&shown), revision(&object));
    assert_eq!(sandbox.server().store.revision(), before);
}
