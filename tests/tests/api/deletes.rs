//! Deletion: answers, finalizers and grace periods, and refusals.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::api::{Api, MERGE_PATCH};

use super::fixtures::{
    CONFIG_MAPS, DEPLOYMENTS, PODS, cluster, config_map, deployment, labelled, names, pod, revision,
};

async fn held(api: &Api, name: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(CONFIG_MAPS, object).await.expect(201)
}

#[tokio::test]
async fn most_kinds_answer_with_a_status_and_some_with_the_object() {
    let (_sandbox, api) = cluster();
    let made = api.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    let gone = api.delete(&format!("{DEPLOYMENTS}/d")).await.expect(200);
    assert_eq!(
        gone,
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": { "name": "d", "group": "apps", "kind": "deployments",
                "uid": made["metadata"]["uid"] } })
    );
    api.post(PODS, pod("p")).await.expect(201);
    let gone = api.delete(&format!("{PODS}/p")).await.expect(200);
    assert_eq!((&gone["kind"], &gone["metadata"]["name"]), (&json!("Pod"), &json!("p")));
    let missing = api.delete(&format!("{PODS}/p")).await;
    assert_eq!(missing.refused(404, "NotFound"), "pods \"p\" not found");
}

#[tokio::test]
async fn preconditions_must_hold() {
    let (_sandbox, api) = cluster();
    let made = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let reply = api.delete_with(&path, json!({ "preconditions": { "uid": "u" } })).await;
    assert_eq!(
        reply.refused(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (u) does \
             not match the UID in record ({uid}). The object might have been deleted and then \
             recreated"
        )
    );
    let reply =
        api.delete_with(&path, json!({ "preconditions": { "resourceVersion": "1" } })).await;
    assert_eq!(
        reply.refused(409, "Conflict"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the \
             precondition (1) does not match the ResourceVersion in record ({}). The object might \
             have been modified",
            revision(&made)
        )
    );
    let both = json!({ "preconditions": { "uid": uid, "resourceVersion": revision(&made) } });
    api.delete_with(&path, both).await.expect(200);
}

#[tokio::test]
async fn policies_are_finalizers_until_the_collector_has_done_its_work() {
    let (_sandbox, api) = cluster();
    let cases = [
        (json!({ "propagationPolicy": "Foreground" }), Some("foregroundDeletion"), 200),
        (json!({ "propagationPolicy": "Orphan" }), Some("orphan"), 200),
        (json!({ "orphanDependents": true }), Some("orphan"), 200),
        (json!({ "propagationPolicy": "Background" }), None, 200),
        (json!({}), None, 200),
    ];
    for (options, want, code) in cases {
        api.post(DEPLOYMENTS, deployment("d")).await.expect(201);
        let path = format!("{DEPLOYMENTS}/d");
        let answer = api.delete_with(&path, options.clone()).await.expect(code);
        match want {
            Some(finalizer) => {
                assert_eq!(answer["metadata"]["finalizers"], json!([finalizer]), "{options}");
                assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 0);
                assert_eq!(answer["metadata"]["generation"], 2, "deletion is a change");
                let free = json!({ "metadata": { "finalizers": null } });
                api.patch(&path, MERGE_PATCH, free).await.expect(200);
            }
            None => assert_eq!(answer["kind"], "Status", "{options}"),
        }
        api.get(&path).await.refused(404, "NotFound");
    }
    let cases = [
        (json!({ "propagationPolicy": "Sideways" }), "propagationPolicy: Unsupported value"),
        (
            json!({ "propagationPolicy": "Orphan", "orphanDependents": true }),
            "orphanDependents and deletionPropagation cannot be both set",
        ),
        (json!({ "dryRun": ["Some"] }), "dryRun: Unsupported value: [\"Some\"]"),
    ];
    api.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    for (options, want) in cases {
        let reply = api.delete_with(&format!("{DEPLOYMENTS}/d"), options).await;
        let message = reply.refused(422, "Invalid");
        assert!(message.starts_with("DeleteOptions.meta.k8s.io \"\" is invalid: "), "{message}");
        assert!(message.contains(want), "{message}");
    }
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_taken_off() {
    let (sandbox, api) = cluster();
    held(&api, "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let marked = api.delete(&path).await.expect(200);
    assert_eq!(marked["kind"], "ConfigMap");
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    sandbox.server().clock.advance(Duration::from_mins(1));
    let again = api.delete(&path).await.expect(200);
    assert_eq!(again, marked, "it is being deleted already");
    let more = json!({ "metadata": { "finalizers": ["example.com/hold", "example.com/more"] } });
    assert_eq!(
        api.patch(&path, MERGE_PATCH, more).await.refused(422, "Invalid"),
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added \
         if the object is being deleted, found new finalizers []string{\"example.com/more\"}"
    );
    let data = json!({ "data": { "key": "still" } });
    api.patch(&path, MERGE_PATCH, data).await.expect(200);
    let free = json!({ "metadata": { "finalizers": [] } });
    let last = api.patch(&path, MERGE_PATCH, free).await.expect(200);
    assert_eq!(last["data"]["key"], "still");
    api.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_running_pod_gets_its_grace_period() {
    let (sandbox, api) = cluster();
    let mut object = pod("p");
    object["spec"]["nodeName"] = "sandbox-0".into();
    api.post(PODS, object).await.expect(201);
    let path = format!("{PODS}/p");
    let mark = |object: &Value| {
        let meta = &object["metadata"];
        let at = meta["deletionTimestamp"].as_str().unwrap().to_owned();
        (at, meta["deletionGracePeriodSeconds"].as_i64().unwrap())
    };
    let marked = api.delete(&path).await.expect(200);
    assert_eq!(mark(&marked), ("2026-01-01T00:00:30Z".to_owned(), 30));
    sandbox.server().clock.advance(Duration::from_secs(2));
    let cases = [
        (json!({}), "2026-01-01T00:00:30Z", 30, "nothing asked, nothing changed"),
        (json!({ "gracePeriodSeconds": 60 }), "2026-01-01T00:00:30Z", 30, "never longer"),
        (json!({ "gracePeriodSeconds": 10 }), "2026-01-01T00:00:10Z", 10, "shorter, from the mark"),
        (json!({ "gracePeriodSeconds": 1 }), "2026-01-01T00:00:02Z", 1, "not in the past"),
    ];
    for (options, at, seconds, reason) in cases {
        let marked = api.delete_with(&path, options).await.expect(200);
        assert_eq!(mark(&marked), (at.to_owned(), seconds), "{reason}");
    }
    api.delete(&format!("{path}?gracePeriodSeconds=0")).await.expect(200);
    api.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let (_sandbox, api) = cluster();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        api.post(CONFIG_MAPS, labelled(name, app)).await.expect(201);
    }
    let list = api.delete(&format!("{CONFIG_MAPS}?labelSelector=app%3Dx")).await.expect(200);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(names(&list), ["a", "c"], "what was deleted");
    assert_eq!(names(&api.get(CONFIG_MAPS).await.expect(200)), ["b"]);
    let dry = api.delete_with(CONFIG_MAPS, json!({ "dryRun": ["All"] })).await.expect(200);
    assert_eq!(names(&dry), ["b"]);
    assert_eq!(names(&api.get(CONFIG_MAPS).await.expect(200)), ["b"]);
    let all = api.delete("/api/v1/namespaces").await;
    all.refused(405, "MethodNotAllowed");
}

#[tokio::test]
async fn a_dry_deletion_deletes_nothing() {
    let (sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    held(&api, "h").await;
    let before = sandbox.server().store.revision();
    let mark = sandbox.server().log.mark();
    let gone = api.delete(&format!("{CONFIG_MAPS}/a?dryRun=All")).await.expect(200);
    assert_eq!(gone["status"], "Success");
    let options = json!({ "dryRun": ["All"] });
    let marked = api.delete_with(&format!("{CONFIG_MAPS}/h"), options).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(sandbox.server().store.revision(), before);
    assert!(sandbox.server().log.writes_since(mark).is_empty(), "the log knows them for dry runs");
}

#[tokio::test]
async fn a_body_with_options_leaves_the_query_unread() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    api.delete_with(&path, json!({ "kind": "DeleteOptions", "apiVersion": "v1" }))
        .await
        .expect(200);
    api.get(&format!("{CONFIG_MAPS}/a")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn some_namespaces_cannot_be_deleted_and_others_end_slowly() {
    let (_sandbox, api) = cluster();
    for name in ["default", "kube-system", "kube-public"] {
        let reply = api.delete(&format!("/api/v1/namespaces/{name}")).await;
        assert_eq!(
            reply.refused(403, "Forbidden"),
            format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted")
        );
    }
    api.post("/api/v1/namespaces", json!({ "metadata": { "name": "n" } })).await.expect(201);
    let marked = api.delete("/api/v1/namespaces/n").await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"].get("deletionGracePeriodSeconds"), None);
    let again = api.delete("/api/v1/namespaces/n").await.expect(200);
    assert_eq!(again, marked);
}
