//! Patches: JSON, merge and strategic.

use http::Method;
use serde_json::json;
use tidegate_tests::api::{APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH};

use super::fixtures::{
    CONFIG_MAPS, DEPLOYMENTS, WIDGETS, cluster, config_map, deployment, revision, widget,
    with_widgets,
};

#[tokio::test]
async fn a_json_patch_is_a_list_of_steps() {
    let (sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let steps = json!([
        { "op": "test", "path": "/data/key", "value": "value" },
        { "op": "add", "path": "/data/more", "value": "x" },
        { "op": "remove", "path": "/data/key" },
    ]);
    let new = api.patch(&path, JSON_PATCH, steps.clone()).await.expect(200);
    assert_eq!(new["data"], json!({ "more": "x" }));
    let before = sandbox.server().store.revision();
    let reply = api.patch(&path, JSON_PATCH, steps).await;
    assert_eq!(
        reply.refused(422, "Invalid"),
        "the server rejected our request due to an error in our request"
    );
    assert_eq!(sandbox.server().store.revision(), before, "all steps or none");
    let reply = api.ask(Method::PATCH, &path).body(JSON_PATCH, "{").send().await;
    let message = reply.refused(400, "BadRequest");
    assert!(message.starts_with("error decoding patch: "), "{message}");
}

#[tokio::test]
async fn a_merge_patch_replaces_lists_and_a_strategic_one_merges_them() {
    let (_sandbox, api) = cluster();
    api.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/d");
    let side = json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "side", "image": "busybox" },
    ] } } } });
    let names = |object: &serde_json::Value| -> Vec<String> {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        containers.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    let new = api.patch(&path, STRATEGIC_PATCH, side.clone()).await.expect(200);
    assert_eq!(names(&new), ["side", "main"]);
    let new = api.patch(&path, MERGE_PATCH, side).await.expect(200);
    assert_eq!(names(&new), ["side"]);
    let gone = json!({ "metadata": { "labels": { "a": "b" } } });
    api.patch(&path, STRATEGIC_PATCH, gone).await.expect(200);
    let gone = json!({ "metadata": { "labels": { "a": null } } });
    let new = api.patch(&path, STRATEGIC_PATCH, gone).await.expect(200);
    assert_eq!(new["metadata"].get("labels"), None);
}

#[tokio::test]
async fn patches_come_in_known_media_types_only() {
    let (_sandbox, api) = with_widgets().await;
    api.post(WIDGETS, widget("w")).await.expect(201);
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let (custom, builtin) = (format!("{WIDGETS}/w"), format!("{CONFIG_MAPS}/a"));
    let prefix = "the body of the request was in an unknown format - accepted media types include: \
                  application/json-patch+json, application/merge-patch+json, ";
    let cases = [
        (&custom, STRATEGIC_PATCH, "application/apply-patch+yaml"),
        (
            &builtin,
            "application/json",
            "application/strategic-merge-patch+json, application/apply-patch+yaml",
        ),
        (
            &builtin,
            "application/apply-patch+cbor",
            "application/strategic-merge-patch+json, application/apply-patch+yaml",
        ),
    ];
    for (path, media, rest) in cases {
        let reply = api.patch(path, media, json!({})).await;
        assert_eq!(reply.refused(415, "UnsupportedMediaType"), format!("{prefix}{rest}"));
    }
}

#[tokio::test]
async fn a_patch_keeps_the_object_what_and_where_it_is() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let cases = [
        (
            json!({ "metadata": { "name": "b" } }),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({ "metadata": { "namespace": "b" } }),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ];
    for (patch, want) in cases {
        assert_eq!(api.patch(&path, MERGE_PATCH, patch).await.refused(400, "BadRequest"), want);
    }
    let reply = api.patch(&format!("{CONFIG_MAPS}/b"), MERGE_PATCH, json!({})).await;
    assert_eq!(reply.refused(404, "NotFound"), "configmaps \"b\" not found");
}

#[tokio::test]
async fn a_version_in_a_patch_is_a_precondition() {
    let (_sandbox, api) = cluster();
    let old = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let first = json!({ "metadata": { "resourceVersion": revision(&old) }, "data": { "x": "1" } });
    api.patch(&path, MERGE_PATCH, first).await.expect(200);
    let again = json!({ "metadata": { "resourceVersion": revision(&old) }, "data": { "x": "2" } });
    api.patch(&path, MERGE_PATCH, again).await.refused(409, "Conflict");
}

#[tokio::test]
async fn options_are_checked_for_patches_too() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let cases = [
        ("force=true", MERGE_PATCH, "force: Forbidden: may not be specified for non-apply patch"),
        ("force=false", MERGE_PATCH, "force: Forbidden: may not be specified for non-apply patch"),
        ("", APPLY_PATCH, "fieldManager: Required value: is required for apply patch"),
        ("fieldManager=", APPLY_PATCH, "fieldManager: Required value: is required for apply patch"),
        (
            "fieldValidation=Maybe",
            MERGE_PATCH,
            "fieldValidation: Unsupported value: \"Maybe\": supported values: \"\", \"Ignore\", \
             \"Strict\", \"Warn\"",
        ),
    ];
    for (query, media, want) in cases {
        let reply = api.patch(&format!("{path}?{query}"), media, config_map("a")).await;
        let want = format!("PatchOptions.meta.k8s.io \"\" is invalid: {want}");
        assert_eq!(reply.refused(422, "Invalid"), want);
    }
    let long = "m".repeat(129);
    let reply = api.patch(&format!("{path}?fieldManager={long}"), MERGE_PATCH, json!({})).await;
    let message = reply.refused(422, "Invalid");
    assert!(message.ends_with("fieldManager: Too long: may not be more than 128 bytes"));
}

#[tokio::test]
async fn a_dry_patch_changes_nothing() {
    let (sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let before = sandbox.server().store.revision();
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    let shown = api.patch(&path, MERGE_PATCH, json!({ "data": { "key": "x" } })).await.expect(200);
    assert_eq!(shown["data"]["key"], "x");
    assert_eq!(sandbox.server().store.revision(), before);
}
