//! Creation: names, namespaces, fields that the server sets, and objects that it refuses.

use http::Method;
use kube_sandbox::{Sandbox, Settings};
use serde_json::json;
use tidegate_tests::api::Api;

use super::fixtures::{
    CONFIG_MAPS, PODS, WIDGETS, cluster, config_map, deployment, pod, widget, with_widgets,
};

#[tokio::test]
async fn the_server_fills_in_what_only_it_knows() {
    let (sandbox, api) = cluster();
    let mut sent = config_map("a");
    sent["metadata"]["uid"] = "mine".into();
    sent["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    sent["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    sent["metadata"]["generation"] = 7.into();
    let made = api.post(CONFIG_MAPS, sent).await.expect(201);
    let meta = &made["metadata"];
    assert_eq!(meta["namespace"], "default");
    assert_ne!(meta["uid"], "mine");
    assert_eq!(meta["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(meta.get("deletionTimestamp"), None);
    assert_eq!(meta["generation"], 7, "nobody counts the generations of config maps");
    assert_eq!(meta["resourceVersion"], sandbox.server().store.revision().to_string());
    let made = api.post("/apis/apps/v1/namespaces/default/deployments", deployment("d")).await;
    let made = made.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"], json!({}));
}

#[tokio::test]
async fn names_are_made_from_prefixes() {
    let (_sandbox, api) = cluster();
    let sent = json!({ "metadata": { "generateName": "job-" } });
    let made = api.post(CONFIG_MAPS, sent).await.expect(201);
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("job-") && name.len() == 9, "{name}");
    assert_eq!(made["metadata"]["generateName"], "job-");
    let long = json!({ "metadata": { "generateName": "x".repeat(200) } });
    let made = api.post(CONFIG_MAPS, long).await.expect(201);
    assert_eq!(made["metadata"]["name"].as_str().unwrap().len(), 63);
}

#[tokio::test]
async fn a_made_name_that_is_taken_is_made_anew() {
    let generated = json!({ "metadata": { "generateName": "job-" } });
    let first = Api::of(&Sandbox::new(Settings::for_tests().seed(5)));
    first.post(CONFIG_MAPS, config_map("other")).await.expect(201);
    let made = first.post(CONFIG_MAPS, generated.clone()).await.expect(201);
    let name = made["metadata"]["name"].as_str().unwrap();
    let second = Api::of(&Sandbox::new(Settings::for_tests().seed(5)));
    second.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    let again = second.post(CONFIG_MAPS, generated).await.expect(201);
    assert_ne!(again["metadata"]["name"], name, "the same dice would have made the same name");
}

#[tokio::test]
async fn names_and_labels_must_be_well_formed() {
    let (_sandbox, api) = cluster();
    let cases = [
        (json!({}), "metadata.name: Required value: name or generateName is required"),
        (json!({ "name": "A" }), "metadata.name: Invalid value: \"A\": a lowercase RFC 1123"),
        (
            json!({ "name": "a", "labels": { "-": "x" } }),
            "metadata.labels: Invalid value: \"-\": name part must consist of",
        ),
        (
            json!({ "name": "a", "labels": { "x": "no spaces" } }),
            "metadata.labels: Invalid value: \"no spaces\": a valid label must be",
        ),
    ];
    for (metadata, want) in cases {
        let reply = api.post(CONFIG_MAPS, json!({ "metadata": metadata })).await;
        let status = reply.json();
        assert_eq!(status["details"]["kind"], "ConfigMap");
        let field = want.split(':').next().unwrap();
        assert_eq!(status["details"]["causes"][0]["field"], field);
        let message = reply.refused(422, "Invalid");
        assert!(message.contains(want), "{message}");
    }
}

#[tokio::test]
async fn the_namespace_must_exist_stay_and_match() {
    let (sandbox, api) = cluster();
    let reply = api.post("/api/v1/namespaces/nowhere/configmaps", config_map("a")).await;
    assert_eq!(reply.refused(404, "NotFound"), "namespaces \"nowhere\" not found");
    let mut sent = config_map("a");
    sent["metadata"]["namespace"] = "other".into();
    let reply = api.post(CONFIG_MAPS, sent).await;
    assert_eq!(
        reply.refused(400, "BadRequest"),
        "the namespace of the provided object does not match the namespace sent on the request"
    );
    api.post("/api/v1/namespaces", json!({ "metadata": { "name": "ending" } })).await.expect(201);
    api.delete("/api/v1/namespaces/ending").await.expect(200);
    let generated = json!({ "metadata": { "generateName": "job-" } });
    let reply = api.post("/api/v1/namespaces/ending/configmaps", generated).await;
    assert_eq!(
        reply.json()["details"],
        json!({ "name": "job-", "kind": "configmaps", "causes": [{
            "reason": "NamespaceTerminating", "field": "metadata.namespace",
            "message": "namespace ending is being terminated",
        }] })
    );
    assert_eq!(
        reply.refused(403, "Forbidden"),
        "configmaps \"job-\" is forbidden: unable to create new content in namespace ending because \
         it is being terminated"
    );
    sandbox.settle();
    let reply = api.get("/api/v1/namespaces/ending").await;
    assert_eq!(reply.code, 404, "empty namespaces go as soon as someone looks");
}

#[tokio::test]
async fn what_exists_or_existed_is_not_created() {
    let (_sandbox, api) = cluster();
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let reply = api.post(CONFIG_MAPS, config_map("a")).await;
    assert_eq!(reply.json()["details"], json!({ "name": "a", "kind": "configmaps" }));
    assert_eq!(reply.refused(409, "AlreadyExists"), "configmaps \"a\" already exists");
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(CONFIG_MAPS, held).await.expect(201);
    api.delete(&format!("{CONFIG_MAPS}/held")).await.expect(200);
    assert_eq!(
        api.post(CONFIG_MAPS, config_map("held")).await.refused(409, "AlreadyExists"),
        "object is being deleted: configmaps \"held\" already exists"
    );
    let mut versioned = config_map("b");
    versioned["metadata"]["resourceVersion"] = "5".into();
    assert_eq!(
        api.post(CONFIG_MAPS, versioned).await.refused(500, ""),
        "resourceVersion should not be set on objects to be created"
    );
}

#[tokio::test]
async fn a_dry_run_shows_what_would_be_and_does_nothing() {
    let (sandbox, api) = cluster();
    let before = sandbox.server().store.revision();
    let made = api.post(&format!("{PODS}?dryRun=All"), pod("p")).await.expect(201);
    assert!(made["metadata"]["uid"].is_string());
    assert_eq!(made["metadata"].get("resourceVersion"), None);
    assert_eq!(made["spec"]["restartPolicy"], "Always");
    assert_eq!(sandbox.server().store.revision(), before);
    api.get(&format!("{PODS}/p")).await.refused(404, "NotFound");
    let reply = api.post(&format!("{PODS}?dryRun=Some"), pod("p")).await;
    assert_eq!(
        reply.refused(422, "Invalid"),
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported \
         values: \"All\""
    );
}

#[tokio::test]
async fn objects_and_requests_have_a_largest_size() {
    let (_sandbox, api) = with_widgets().await;
    let filled = |bytes: usize| {
        let mut sent = widget("w");
        sent["spec"]["parts"] = json!(["x".repeat(bytes)]);
        sent
    };
    let reply = api.post(WIDGETS, filled(1_600_000)).await;
    assert_eq!(reply.refused(500, ""), "etcdserver: request is too large");
    let reply = api.post(WIDGETS, filled(3 * 1024 * 1024)).await;
    assert_eq!(
        reply.refused(413, "RequestEntityTooLarge"),
        "Request entity too large: limit is 3145728"
    );
    api.post(WIDGETS, filled(1_400_000)).await.expect(201);
}

#[tokio::test]
async fn a_body_must_be_of_the_kind_the_path_is_for() {
    let (_sandbox, api) = with_widgets().await;
    let post = |path: &'static str, body: &'static str| {
        api.ask(Method::POST, path).body("application/json", body).send()
    };
    let pods = "/api/v1/namespaces/default/pods";
    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let cases = [
        (
            pods,
            r#"{"kind":"Service","apiVersion":"v1"}"#,
            "Service in version \"v1\" cannot be handled as a Pod: converting (v1.Service) to \
             (core.Pod): unknown conversion",
        ),
        (
            pods,
            r#"{"kind":"Thing","apiVersion":"v1"}"#,
            "Thing in version \"v1\" cannot be handled as a Pod: no kind \"Thing\" is registered for \
             version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            scalers,
            r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1"}"#,
            "the API version in the data (autoscaling/v1) does not match the expected API version \
             (autoscaling/v2)",
        ),
        (
            WIDGETS,
            r#"{"kind":"Widget","apiVersion":"example.com/v2"}"#,
            "the API version in the data (example.com/v2) does not match the expected API version \
             (example.com/v1)",
        ),
        (
            WIDGETS,
            "{}",
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing \
             in '{}' ({})",
        ),
        (
            pods,
            "",
            "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; \
             json parse error: unexpected end of JSON input (<empty>)",
        ),
    ];
    for (path, body, want) in cases {
        assert_eq!(post(path, body).await.refused(400, "BadRequest"), want);
    }
    let other = r#"{"kind":"Gadget","apiVersion":"example.com/v1","metadata":{"name":"g"}}"#;
    assert_eq!(
        post(WIDGETS, other).await.refused(422, "Invalid"),
        "Gadget.example.com \"g\" is invalid: kind: Invalid value: \"Gadget\": must be Widget"
    );
    let broken = post(pods, "nonsense").await.refused(400, "BadRequest");
    assert!(broken.ends_with("(6e6f6e73656e7365)"), "{broken}");
    let wrong = post(pods, r#"{"metadata":{"name":5}}"#).await.refused(400, "BadRequest");
    assert!(wrong.starts_with("Pod in version \"v1\" cannot be handled as a Pod: "), "{wrong}");
    api.ask(Method::POST, pods).json(&pod("bare")).send().await.expect(201);
}

#[tokio::test]
async fn an_owner_named_twice_is_kept_once() {
    let (_sandbox, api) = cluster();
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1" });
    let mut sent = config_map("a");
    sent["metadata"]["ownerReferences"] = json!([owner, owner]);
    let reply = api.post(CONFIG_MAPS, sent).await;
    let [warning] = reply.warnings().try_into().unwrap();
    assert!(warning.ends_with("duplicate UID(s) observed: u-1\""), "{warning}");
    assert_eq!(reply.expect(201)["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_service_that_is_refused_takes_no_port() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let service = |name: &str, node_port: i64| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": node_port }] },
        })
    };
    let (_sandbox, api) = cluster();
    let mut bad = service("a", 30_080);
    bad["spec"]["sessionAffinity"] = "Sometimes".into();
    api.post(SERVICES, bad).await.refused(422, "Invalid");
    api.post(SERVICES, service("a", 30_080)).await.expect(201);
    api.post(SERVICES, service("a", 30_080)).await.refused(409, "AlreadyExists");
    let mut worse = service("a", 30_090);
    worse["spec"]["sessionAffinity"] = "Sometimes".into();
    api.put(&format!("{SERVICES}/a"), worse).await.refused(422, "Invalid");
    api.post(SERVICES, service("b", 30_080)).await.refused(422, "Invalid");
    api.post(SERVICES, service("c", 30_090)).await.expect(201);
    let mut large = service("d", 30_100);
    large["metadata"]["annotations"] = json!({ "x": "y".repeat(250_000) });
    large["spec"]["externalIPs"] = vec!["198.51.100.7"; 100_000].into();
    let refused = api.post(SERVICES, large).await;
    assert_eq!(refused.message(), "etcdserver: request is too large");
    api.post(SERVICES, service("d", 30_100)).await.expect(201);
}
