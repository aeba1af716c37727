//! Discovery: groups, versions and resources of the server.

use http::Method;
use serde_json::{Value, json};
use tidegate_tests::api::Api;

use super::fixtures::{CRDS, cluster, widget_crd};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn find<'v>(list: &'v Value, key: &str, want: &str) -> &'v Value {
    let found = list.as_array().unwrap().iter().find(|item| item[key] == want);
    found.unwrap_or_else(|| panic!("no {key} {want} in {list}"))
}

#[tokio::test]
async fn groups_and_versions_are_listed() {
    let (_sandbox, api) = cluster();
    let core = api.get("/api").await.expect(200);
    assert_eq!((&core["kind"], &core["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    let groups = api.get("/apis").await.expect(200);
    assert_eq!(groups["kind"], "APIGroupList");
    let scaling = find(&groups["groups"], "name", "autoscaling");
    assert_eq!(scaling["preferredVersion"]["groupVersion"], "autoscaling/v2");
    let group = api.get("/apis/apps").await.expect(200);
    assert_eq!((&group["kind"], &group["name"]), (&json!("APIGroup"), &json!("apps")));
    assert_eq!(group["versions"], json!([{ "groupVersion": "apps/v1", "version": "v1" }]));
}

#[tokio::test]
async fn resources_say_their_names_and_verbs() {
    let (_sandbox, api) = cluster();
    let list = api.get("/api/v1").await.expect(200);
    assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let resources = &list["resources"];
    let pods = find(resources, "name", "pods");
    assert_eq!((&pods["shortNames"], &pods["singularName"]), (&json!(["po"]), &json!("pod")));
    assert_eq!((&pods["namespaced"], &pods["categories"]), (&json!(true), &json!(["all"])));
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    assert_eq!(pods["verbs"], json!(all));
    let namespaces = &find(resources, "name", "namespaces")["verbs"];
    assert!(!namespaces.as_array().unwrap().contains(&json!("deletecollection")));
    let eviction = find(resources, "name", "pods/eviction");
    assert_eq!((&eviction["group"], &eviction["kind"]), (&json!("policy"), &json!("Eviction")));
    let apps = api.get("/apis/apps/v1").await.expect(200);
    let scale = find(&apps["resources"], "name", "deployments/scale");
    assert_eq!((&scale["kind"], &scale["group"]), (&json!("Scale"), &json!("autoscaling")));
}

#[tokio::test]
async fn all_of_it_comes_at_once_and_only_when_it_changed() {
    let (_sandbox, api) = cluster();
    let ask = |path: &str| api.ask(Method::GET, path).accept(AGGREGATED);
    let first = ask("/apis").send().await;
    assert_eq!(first.content_type(), AGGREGATED);
    let etag = first.headers["etag"].to_str().unwrap().to_owned();
    let list = first.expect(200);
    assert_eq!(list["kind"], "APIGroupDiscoveryList");
    let apps = list["items"].as_array().unwrap().iter();
    let apps = apps.clone().find(|item| item["metadata"]["name"] == "apps").unwrap();
    let deployments = find(&apps["versions"][0]["resources"], "resource", "deployments");
    assert_eq!(deployments["scope"], "Namespaced");
    assert_eq!(deployments["subresources"][0]["subresource"], "scale");
    let again = ask("/apis").header("if-none-match", &etag).send().await;
    assert_eq!((again.code, again.bytes.len()), (304, 0));
    api.post(CRDS, widget_crd()).await.expect(201);
    let changed = ask("/apis").header("if-none-match", &etag).send().await;
    assert_eq!(changed.code, 200);
    assert!(changed.text().contains("widgets"));
    let core = ask("/api").send().await.expect(200);
    assert!(core.to_string().contains("configmaps"));
}

async fn serves_widgets(api: &Api) -> [bool; 4] {
    let group = api.get("/apis/example.com").await.code == 200;
    let version = api.get("/apis/example.com/v1").await.code == 200;
    let schema = api.get("/openapi/v3/apis/example.com/v1").await.code == 200;
    let listed = api.get("/apis").await.text().contains("example.com");
    [group, version, schema, listed]
}

#[tokio::test]
async fn discovery_follows_the_definitions() {
    let (sandbox, api) = cluster();
    assert_eq!(serves_widgets(&api).await, [false; 4]);
    api.post(CRDS, widget_crd()).await.expect(201);
    assert_eq!(serves_widgets(&api).await, [true; 4]);
    let group = api.get("/apis/example.com").await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v2", "the highest, not the stored one");
    let list = api.get("/apis/example.com/v1").await.expect(200);
    let widgets = find(&list["resources"], "name", "widgets");
    assert_eq!((&widgets["shortNames"], &widgets["kind"]), (&json!(["wd"]), &json!("Widget")));
    find(&list["resources"], "name", "widgets/status");
    find(&list["resources"], "name", "widgets/scale");
    api.delete(&format!("{CRDS}/widgets.example.com")).await.expect(200);
    sandbox.settle();
    assert_eq!(serves_widgets(&api).await, [false; 4]);
}

#[tokio::test]
async fn schemas_are_published() {
    let (_sandbox, api) = cluster();
    let index = api.get("/openapi/v3").await.expect(200);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = api.get(url).await.expect(200);
    assert_eq!(document["openapi"], "3.0.0");
    let schemas = &document["components"]["schemas"];
    assert!(schemas["io.k8s.api.apps.v1.Deployment"].is_object());
    let swagger = api.get("/openapi/v2").await.expect(200);
    assert_eq!(swagger["swagger"], "2.0");
    assert!(swagger["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
}

#[tokio::test]
async fn version_and_health_are_told() {
    let (_sandbox, api) = cluster();
    let version = api.get("/version").await.expect(200);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.36."));
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        let reply = api.get(path).await;
        assert_eq!((reply.code, reply.text().as_str()), (200, "ok"), "{path}");
        assert!(reply.content_type().starts_with("text/plain"), "{path}");
    }
    let verbose = api.get("/readyz?verbose").await.text();
    assert!(verbose.starts_with("[+]ping ok\n") && verbose.ends_with("readyz check passed\n"));
    let paths = api.get("/").await.expect(200);
    assert!(paths["paths"].as_array().unwrap().contains(&json!("/apis/apps/v1")));
}
