//! Custom resources: versions, schemas that change, columns, subresources, names.

use http::Method;
use kube_sandbox::store::{ObjectKey, TableKey};
use serde_json::{Value, json};
use tidegate_tests::api::{MERGE_PATCH, TABLE};

use super::fixtures::{
    CRDS, WIDGETS, WIDGETS_V2, cluster, names, widget, widget_crd, with_widgets,
};

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

fn condition<'v>(crd: &'v Value, kind: &str) -> &'v Value {
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}

#[tokio::test]
async fn an_object_is_one_at_all_its_versions() {
    let (sandbox, api) = with_widgets().await;
    let mut second = widget("w");
    second["apiVersion"] = "example.com/v2".into();
    let made = api.post(WIDGETS_V2, second).await.expect(201);
    assert_eq!(made["apiVersion"], "example.com/v2");
    let table = TableKey::new("example.com", "widgets");
    let stored = sandbox.server().store.get(&table, &ObjectKey::new("default", "w")).unwrap();
    assert_eq!(stored.value()["apiVersion"], "example.com/v1", "stored as the definition says");
    let first = api.get(&format!("{WIDGETS}/w")).await.expect(200);
    assert_eq!(first["apiVersion"], "example.com/v1");
    assert_eq!(first["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(first["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let patch = json!({ "spec": { "size": 2 } });
    let new = api.patch(&format!("{WIDGETS}/w"), MERGE_PATCH, patch).await.expect(200);
    assert_eq!(new["metadata"]["generation"], 2);
    let list = api.get(WIDGETS_V2).await.expect(200);
    assert_eq!((&list["apiVersion"], names(&list)), (&json!("example.com/v2"), vec!["w"]));
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v2");
    let crd = api.get(CRD).await.expect(200);
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
}

#[tokio::test]
async fn a_default_that_comes_later_holds_for_what_was_written_before() {
    let (_sandbox, api) = with_widgets().await;
    let made = api.post(WIDGETS, widget("w")).await.expect(201);
    assert_eq!(made["spec"]["colour"], "red");
    let mut crd = api.get(CRD).await.expect(200);
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    crd.pointer_mut(schema).unwrap()["weight"] = json!({ "type": "integer", "default": 7 });
    let crd = api.put(CRD, crd).await.expect(200);
    assert_eq!(crd["metadata"]["generation"], 2);
    let got = api.get(&format!("{WIDGETS}/w")).await.expect(200);
    assert_eq!(got["spec"]["weight"], 7);
    assert_eq!(got["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let list = api.get(WIDGETS).await.expect(200);
    assert_eq!(list["items"][0]["spec"]["weight"], 7);
    let second = api.get(&format!("{WIDGETS_V2}/w")).await.expect(200);
    assert_eq!(second["spec"].get("weight"), None, "the other version has no such field");
}

#[tokio::test]
async fn objects_are_held_to_the_schema() {
    let (_sandbox, api) = with_widgets().await;
    let mut wrong = widget("w");
    wrong["spec"] = json!({ "size": -1, "colour": 5 });
    let reply = api.post(WIDGETS, wrong).await;
    let causes = reply.json()["details"]["causes"].clone();
    assert_eq!(reply.json()["details"]["kind"], "Widget");
    assert_eq!(causes.as_array().unwrap().len(), 2);
    let message = reply.refused(422, "Invalid");
    assert!(message.starts_with("Widget.example.com \"w\" is invalid: ["), "{message}");
    assert!(
        message.contains(
            "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0"
        ),
        "{message}"
    );
}

#[tokio::test]
async fn tables_have_the_columns_of_the_definition() {
    let (_sandbox, api) = with_widgets().await;
    api.post(WIDGETS, widget("w")).await.expect(201);
    let table = api.ask(Method::GET, WIDGETS).accept(TABLE).send().await.expect(200);
    let columns = table["columnDefinitions"].as_array().unwrap();
    let columns: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Size"]);
    assert_eq!(table["rows"][0]["cells"], json!(["w", 1]));
}

#[tokio::test]
async fn a_scale_needs_its_paths_and_a_count() {
    let (_sandbox, api) = with_widgets().await;
    api.post(WIDGETS, widget("w")).await.expect(201);
    let path = format!("{WIDGETS}/w/scale");
    let reply = api.get(&path).await;
    assert_eq!(
        reply.json()["details"]["causes"],
        json!([{ "message": "the spec replicas field \".spec.replicas\" does not exist" }])
    );
    assert_eq!(
        reply.refused(500, "InternalError"),
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let count = json!({ "spec": { "replicas": 3 } });
    api.patch(&format!("{WIDGETS}/w"), MERGE_PATCH, count).await.expect(200);
    let status = json!({ "status": { "replicas": 2, "selector": "a=b" } });
    api.patch(&format!("{WIDGETS}/w/status"), MERGE_PATCH, status).await.expect(200);
    let scale = api.get(&path).await.expect(200);
    assert_eq!(scale["spec"], json!({ "replicas": 3 }));
    assert_eq!(scale["status"], json!({ "replicas": 2, "selector": "a=b" }));
    let more = json!({ "spec": { "replicas": 5 } });
    api.patch(&path, MERGE_PATCH, more).await.expect(200);
    let got = api.get(&format!("{WIDGETS}/w")).await.expect(200);
    assert_eq!(got["spec"]["replicas"], 5);
}

#[tokio::test]
async fn without_the_subresource_a_status_is_a_field_like_any_other() {
    let (_sandbox, api) = cluster();
    let mut crd = widget_crd();
    for index in 0..2 {
        crd["spec"]["versions"][index].as_object_mut().unwrap().remove("subresources");
    }
    api.post(CRDS, crd).await.expect(201);
    let mut object = widget("w");
    object["status"] = json!({ "phase": "Up" });
    let made = api.post(WIDGETS, object).await.expect(201);
    assert_eq!(made["status"]["phase"], "Up");
    let patch = json!({ "status": { "phase": "Down" } });
    let new = api.patch(&format!("{WIDGETS}/w"), MERGE_PATCH, patch).await.expect(200);
    assert_eq!(new["metadata"]["generation"], 2);
    for subresource in ["status", "scale"] {
        let reply = api.get(&format!("{WIDGETS}/w/{subresource}")).await;
        assert_eq!(reply.refused(404, "NotFound"), "widgets.example.com \"w\" not found");
    }
}

#[tokio::test]
async fn names_are_given_once() {
    let (_sandbox, api) = with_widgets().await;
    let text = widget_crd().to_string();
    let mut crd: Value = serde_json::from_str(&text.replace("widget", "gadget")).unwrap();
    crd["spec"]["names"]["kind"] = "Gadget".into();
    crd["spec"]["names"]["listKind"] = "GadgetList".into();
    api.post(CRDS, crd).await.expect(201);
    let crd = api.get(&format!("{CRDS}/gadgets.example.com")).await.expect(200);
    let accepted = condition(&crd, "NamesAccepted");
    assert_eq!(
        (&accepted["status"], &accepted["reason"]),
        (&json!("False"), &json!("ShortNamesConflict"))
    );
    assert_eq!(accepted["message"], "\"wd\" is already in use");
    assert_eq!(condition(&crd, "Established")["status"], "False");
    let path = "/apis/example.com/v1/namespaces/default/gadgets";
    assert_eq!(api.get(path).await.code, 404, "nothing is served until the names are free");
    let first = api.get(CRD).await.expect(200);
    assert_eq!(condition(&first, "Established")["status"], "True");
    assert_eq!(first["status"]["acceptedNames"]["shortNames"], json!(["wd"]));
}

#[tokio::test]
async fn a_definition_takes_its_objects_with_it() {
    let (sandbox, api) = with_widgets().await;
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(WIDGETS, widget("w")).await.expect(201);
    api.post(WIDGETS, held).await.expect(201);
    api.delete(CRD).await.expect(200);
    sandbox.settle();
    let crd = api.get(CRD).await.expect(200);
    assert!(crd["metadata"]["deletionTimestamp"].is_string(), "an object holds it");
    assert_eq!(names(&api.get(WIDGETS).await.expect(200)), ["held"]);
    let message = api.post(WIDGETS, widget("new")).await.refused(403, "Forbidden");
    assert!(
        message.ends_with("create not allowed while custom resource definition is terminating"),
        "{message}"
    );
    let free = json!({ "metadata": { "finalizers": null } });
    api.patch(&format!("{WIDGETS}/held"), MERGE_PATCH, free).await.expect(200);
    sandbox.settle();
    api.get(CRD).await.refused(404, "NotFound");
    assert_eq!(api.get(WIDGETS).await.code, 404);
    api.post(CRDS, widget_crd()).await.expect(201);
    assert_eq!(names(&api.get(WIDGETS).await.expect(200)), Vec::<&str>::new());
}

#[tokio::test]
async fn a_deprecated_version_warns_whoever_uses_it() {
    let (_sandbox, api) = cluster();
    let mut crd = widget_crd();
    crd["spec"]["versions"][0]["deprecated"] = true.into();
    api.post(CRDS, crd).await.expect(201);
    let want = ["\"example.com/v1 Widget is deprecated; use example.com/v2 Widget\""];
    assert_eq!(api.get(WIDGETS).await.warnings(), want);
    assert_eq!(api.post(WIDGETS, widget("w")).await.warnings(), want);
    assert_eq!(api.get(&format!("{WIDGETS}/w")).await.warnings(), want);
    let watch = api.watch(&format!("{WIDGETS}?watch=1")).await;
    assert!(watch.headers.contains_key("warning"));
    assert_eq!(api.get(WIDGETS_V2).await.warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn a_watch_ends_with_the_definition_of_its_kind() {
    let (sandbox, api) = with_widgets().await;
    api.post(WIDGETS, widget("w")).await.expect(201);
    let mut watch = api.watch(&format!("{WIDGETS}?watch=1")).await;
    let mut other = api.watch("/api/v1/namespaces?watch=1&resourceVersion=1").await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    api.delete(CRD).await.expect(200);
    sandbox.settle();
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED", "its objects go first");
    assert_eq!(watch.next().await, None);
    assert_eq!(api.get(WIDGETS).await.code, 404);
    assert!(other.ready().await.is_some(), "watches of other kinds go on");
}
