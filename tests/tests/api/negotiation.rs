//! Forms of bodies and answers, and paths and methods that do not exist.

use http::Method;
use kube_sandbox::protobuf;
use serde_json::{Value, json};
use tidegate_tests::api::TABLE;

use super::fixtures::{CONFIG_MAPS, PODS, WIDGETS, cluster, config_map, pod, widget, with_widgets};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

#[tokio::test]
async fn yaml_goes_in_and_comes_out() {
    let (_sandbox, api) = cluster();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: \"yes\"\n";
    let ask = api.ask(Method::POST, CONFIG_MAPS).body("application/yaml", yaml);
    let made = ask.accept("application/yaml").send().await;
    assert_eq!((made.code, made.content_type()), (201, "application/yaml"));
    let parsed: Value = serde_saphyr::from_str(&made.text()).unwrap();
    assert_eq!(parsed["data"], json!({ "key": "yes" }), "still a string");
    let list = api.ask(Method::GET, CONFIG_MAPS).accept("application/yaml").send().await;
    let parsed: Value = serde_saphyr::from_str(&list.text()).unwrap();
    assert_eq!(parsed["kind"], "ConfigMapList");
    let missing = api.ask(Method::GET, &format!("{CONFIG_MAPS}/b")).accept("application/yaml");
    let missing = missing.send().await;
    assert_eq!((missing.code, missing.content_type()), (404, "application/yaml"));
}

#[tokio::test]
async fn built_in_kinds_speak_protobuf_and_custom_ones_do_not() {
    let (_sandbox, api) = with_widgets().await;
    let body = protobuf::encode(&config_map("a")).unwrap();
    let ask = api.ask(Method::POST, CONFIG_MAPS).body(PROTOBUF, body).accept(PROTOBUF);
    let made = ask.send().await;
    assert_eq!((made.code, made.content_type()), (201, PROTOBUF));
    let decoded = protobuf::decode(&made.bytes).unwrap();
    assert_eq!(decoded["data"], json!({ "key": "value" }));
    assert_eq!(decoded["metadata"]["namespace"], "default");
    let list = api.ask(Method::GET, CONFIG_MAPS).accept(PROTOBUF).send().await;
    let decoded = protobuf::decode(&list.bytes).unwrap();
    assert_eq!(decoded["items"][0]["metadata"]["name"], "a");
    let failed = api.ask(Method::GET, &format!("{CONFIG_MAPS}/b")).accept(PROTOBUF).send().await;
    assert_eq!((failed.code, failed.content_type()), (404, PROTOBUF));
    assert_eq!(protobuf::decode(&failed.bytes).unwrap()["reason"], "NotFound");
    let custom = api.ask(Method::GET, WIDGETS).accept(PROTOBUF).send().await;
    assert_eq!(custom.code, 406);
    let both = format!("{PROTOBUF},application/json");
    let custom = api.ask(Method::GET, WIDGETS).accept(&both).send().await;
    assert_eq!((custom.code, custom.content_type()), (200, "application/json"));
}

#[tokio::test]
async fn unknown_forms_are_refused() {
    let (sandbox, api) = cluster();
    let ask = api.ask(Method::POST, CONFIG_MAPS).body("text/html", "<p>");
    assert_eq!(
        ask.send().await.refused(415, "UnsupportedMediaType"),
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
    let before = sandbox.server().store.revision();
    let ask = api.ask(Method::POST, CONFIG_MAPS).json(&config_map("a")).accept("text/html");
    assert_eq!(
        ask.send().await.refused(406, "NotAcceptable"),
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf"
    );
    assert_eq!(sandbox.server().store.revision(), before, "refused before anything was done");
}

#[tokio::test]
async fn tables_carry_as_much_of_the_object_as_was_asked_for() {
    let (_sandbox, api) = cluster();
    api.post(PODS, pod("p")).await.expect(201);
    let table = async |path: String| api.ask(Method::GET, &path).accept(TABLE).send().await;
    let cases = [
        ("", json!("PartialObjectMetadata"), "metadata by default"),
        ("includeObject=Metadata", json!("PartialObjectMetadata"), "said"),
        ("includeObject=Object", json!("Pod"), "all of it"),
        ("includeObject=None", Value::Null, "nothing"),
    ];
    for (query, want, reason) in cases {
        for path in [PODS.to_owned(), format!("{PODS}/p")] {
            let table = table(format!("{path}?{query}")).await.expect(200);
            assert_eq!(
                (&table["kind"], &table["apiVersion"]),
                (&json!("Table"), &json!("meta.k8s.io/v1"))
            );
            assert_eq!(table["rows"][0]["object"]["kind"], want, "{reason}");
            assert_eq!(table["rows"][0]["cells"][0], "p");
        }
    }
    assert_eq!(
        table(format!("{PODS}?includeObject=Half")).await.refused(400, "BadRequest"),
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Half\": must be \
         'Metadata', 'Object', 'None', or empty"
    );
    let missing = table(format!("{PODS}/q")).await;
    assert_eq!(missing.refused(404, "NotFound"), "pods \"q\" not found", "a status is no table");
}

#[tokio::test]
async fn metadata_alone_comes_for_objects_and_lists() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let many = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let path = format!("{CONFIG_MAPS}/a");
    let got = api.ask(Method::GET, &path).accept(one).send().await.expect(200);
    assert_eq!((&got["kind"], got.get("data")), (&json!("PartialObjectMetadata"), None));
    let list = api.ask(Method::GET, CONFIG_MAPS).accept(many).send().await.expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert!(list["metadata"]["resourceVersion"].is_string());
    assert_eq!(
        api.ask(Method::GET, CONFIG_MAPS).accept(one).send().await.refused(406, "NotAcceptable"),
        "you requested PartialObjectMetadata, but the requested object is a list \
         (*core.ConfigMapList)"
    );
    assert_eq!(
        api.ask(Method::GET, &path).accept(many).send().await.refused(406, "NotAcceptable"),
        "you requested PartialObjectMetadataList, but the requested object is not a list \
         (*core.ConfigMap)"
    );
}

#[tokio::test]
async fn people_get_line_breaks() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let is_pretty = |text: String| text.contains("\n  \"");
    assert!(!is_pretty(api.get(&path).await.text()));
    assert!(is_pretty(api.get(&format!("{path}?pretty=true")).await.text()));
    let curl = |path: &str| api.ask(Method::GET, path).header("user-agent", "curl/8.0").send();
    assert!(is_pretty(curl(&path).await.text()));
    assert!(!is_pretty(curl(&format!("{path}?pretty=false")).await.text()));
    let list = curl(CONFIG_MAPS).await;
    assert!(is_pretty(list.text()));
    assert_eq!(list.json()["items"][0].get("kind"), None);
}

#[tokio::test]
async fn paths_that_do_not_exist_are_not_found() {
    let (_sandbox, api) = with_widgets().await;
    api.post(WIDGETS, widget("w")).await.expect(201);
    let routed = [
        "/api/v1/things",
        "/api/v1/namespaces/default/things",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/p",
        "/api/v1/namespaces/default/configmaps/a/status",
        "/api/v1/namespaces/default/pods/p/log/x",
    ];
    for path in routed {
        let reply = api.get(path).await;
        assert_eq!(reply.json()["details"], json!({}), "{path}");
        let message = reply.refused(404, "NotFound");
        assert_eq!(message, "the server could not find the requested resource", "{path}");
    }
    let nowhere = [
        "/nowhere",
        "/apis/example.org/v1/things",
        "/apis/example.org",
        "/apis/example.com/v3/namespaces/default/widgets",
        "/apis/example.com/v1/namespaces/default/gadgets",
    ];
    for path in nowhere {
        let reply = api.get(path).await;
        assert_eq!((reply.code, reply.text().as_str()), (404, "404 page not found\n"), "{path}");
    }
    let reply = api.get(&format!("{WIDGETS}/w/log")).await;
    assert_eq!(reply.refused(404, "NotFound"), "widgets.example.com \"w\" not found");
}

#[tokio::test]
async fn methods_that_a_path_does_not_know_are_not_allowed() {
    let (_sandbox, api) = with_widgets().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let named = format!("{CONFIG_MAPS}/a");
    let cases = [
        (Method::POST, named.as_str(), "a name is no place to create"),
        (Method::PUT, CONFIG_MAPS, "a collection cannot be replaced"),
        (Method::PATCH, CONFIG_MAPS, "or patched"),
        (Method::POST, "/api/v1/pods", "no namespace to create in"),
        (Method::HEAD, named.as_str(), "the router knows no HEAD"),
        (Method::OPTIONS, named.as_str(), "and no OPTIONS"),
        (Method::POST, "/api", "discovery is read"),
        (Method::GET, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "only created"),
    ];
    for (method, path, reason) in cases {
        let reply = api.ask(method, path).json(&config_map("b")).send().await;
        let message = reply.refused(405, "MethodNotAllowed");
        let want = "the server does not allow this method on the requested resource";
        assert_eq!(message, want, "{reason}");
    }
    let reply = api.ask(Method::PUT, WIDGETS).json(&widget("w")).send().await;
    assert_eq!(reply.refused(400, "BadRequest"), "name must be provided");
    let path = format!("{WIDGETS}/w/status");
    let reply = api.ask(Method::DELETE, &path).send().await;
    assert_eq!(
        reply.refused(405, "MethodNotAllowed"),
        "delete is not supported on resources of kind \"widgets.example.com\""
    );
    let healthy = api.ask(Method::HEAD, "/healthz").send().await;
    assert_eq!((healthy.code, healthy.bytes.len()), (200, 0));
}
