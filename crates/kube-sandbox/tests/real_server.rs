//! Behaviour of a real API server, as regression tests that need none.
//!
//! Each test covers a difference that `tests/e2e` found between the sandbox and kube-apiserver
//! 1.36, since fixed.

#![expect(clippy::unwrap_used, reason = "a broken rig is a failed test")]

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use kube_sandbox::{Sandbox, Settings};
use serde_json::{Value, json};
use tower::Service as _;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

struct Reply {
    code: u16,
    warnings: usize,
    body: Value,
}

fn send(sandbox: &Sandbox, method: &str, path: &str, media: &str, body: &str) -> Reply {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media);
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let response = sandbox.service().call(request).now_or_never().unwrap().unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().now_or_never().unwrap().unwrap().to_bytes();
    Reply {
        code: parts.status.as_u16(),
        warnings: parts.headers.get_all(header::WARNING).iter().count(),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    }
}

fn post(sandbox: &Sandbox, path: &str, object: &Value) -> Reply {
    send(sandbox, "POST", path, JSON, &object.to_string())
}

fn get(sandbox: &Sandbox, path: &str) -> Reply {
    send(sandbox, "GET", path, "", "")
}

fn patch(sandbox: &Sandbox, path: &str, media: &str, body: &Value) -> Reply {
    send(sandbox, "PATCH", path, media, &body.to_string())
}

fn cluster() -> Sandbox {
    Sandbox::new(Settings::for_tests())
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "app", "image": "web:1" }], "serviceAccountName": "default" },
    })
}

/// The events of a watch from the beginning, as `(type, object)`.
fn history(sandbox: &Sandbox, path: &str, from: &str) -> Vec<(String, Value)> {
    let path = format!("{path}?watch=true&resourceVersion={from}");
    let request = Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
    let response = sandbox.service().call(request).now_or_never().unwrap().unwrap();
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(Some(Ok(frame))) = body.frame().now_or_never() {
        bytes.extend_from_slice(&frame.into_data().unwrap());
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    events
        .map(|event| (event["type"].as_str().unwrap().to_owned(), event["object"].clone()))
        .collect()
}

#[test]
fn nobody_owns_what_admission_and_allocation_fill_in() {
    let sandbox = cluster();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" },
        "spec": { "ports": [{ "port": 80 }] },
    });
    let made = post(&sandbox, SERVICES, &service).body;
    let spec = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert!(made["spec"]["ipFamilies"].is_array());
    assert!(spec["f:ports"].is_object() && spec["f:ipFamilies"].is_null(), "{spec}");
    let made = post(&sandbox, PODS, &pod("p")).body;
    let spec = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert!(made["spec"]["tolerations"].is_array());
    assert!(spec["f:containers"].is_object() && spec["f:tolerations"].is_null(), "{spec}");
}

#[test]
fn a_pod_can_be_written_back_as_it_was_sent() {
    let sandbox = cluster();
    post(&sandbox, PODS, &pod("p"));
    let reply = send(&sandbox, "PUT", &format!("{PODS}/p"), JSON, &pod("p").to_string());
    assert_eq!(reply.code, 200, "{}", reply.body);
}

#[test]
fn a_priority_that_no_class_gives_is_forbidden() {
    let mut important = pod("p");
    important["spec"]["priority"] = json!(7);
    assert_eq!(post(&cluster(), PODS, &important).code, 403);
}

#[test]
fn a_patch_changes_no_kind() {
    let sandbox = cluster();
    post(&sandbox, MAPS, &map("m"));
    let path = format!("{MAPS}/m");
    let other = json!({ "kind": "Gadget" });
    let without = |field: &str| json!([{ "op": "remove", "path": field }]);
    let cases = [
        ("a merge patch makes an object of another kind", MERGE, other.clone(), 422),
        ("a strategic patch is merged into a typed object", STRATEGIC, other, 200),
        ("the path says the kind", JSON_PATCH, without("/kind"), 200),
        ("without a version nothing can be read", JSON_PATCH, without("/apiVersion"), 400),
    ];
    for (reason, media, body, want) in cases {
        let reply = patch(&sandbox, &path, media, &body);
        assert_eq!(reply.code, want, "{reason}: {}", reply.body);
        assert_eq!(get(&sandbox, &path).body["kind"], "ConfigMap", "{reason}");
    }
}

#[test]
fn what_is_found_wrong_is_warned_of_even_if_the_request_is_refused() {
    let mut broken = map("UPPER");
    broken["colour"] = json!("red");
    let reply = post(&cluster(), MAPS, &broken);
    assert_eq!((reply.code, reply.warnings), (422, 1), "{}", reply.body);
}

#[test]
fn endpoints_are_deprecated_whatever_is_done_with_them() {
    let sandbox = cluster();
    let all = "/api/v1/namespaces/default/endpoints";
    let object = json!({ "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "e" } });
    assert_eq!(post(&sandbox, all, &object).warnings, 1);
    assert_eq!(get(&sandbox, all).warnings, 1);
    assert_eq!(get(&sandbox, &format!("{all}/missing")).warnings, 1);
}

#[test]
fn refusals_have_the_codes_of_the_real_server() {
    let sandbox = cluster();
    post(&sandbox, MAPS, &map("m"));
    let one = format!("{MAPS}/m");
    let labels = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "labels": "x" } });
    let apply = format!("{one}?fieldManager=a");
    let cases: &[(&str, &str, &str, &str, String, u16)] = &[
        ("nothing is an object without a name", "POST", MAPS, JSON, "null".into(), 422),
        ("an applied text for a map", "PATCH", &apply, APPLY, labels.to_string(), 500),
        (
            "an unknown directive",
            "PATCH",
            &one,
            STRATEGIC,
            r#"{"data":{"$patch":"paint"}}"#.into(),
            500,
        ),
        (
            "a version that is no number",
            "GET",
            &format!("{MAPS}?watch=true&resourceVersion=x"),
            "",
            String::new(),
            500,
        ),
        (
            "a watch that continues a list",
            "GET",
            &format!("{MAPS}?watch=true&continue=x"),
            "",
            String::new(),
            422,
        ),
        ("a negative limit is none", "GET", &format!("{MAPS}?limit=-1"), "", String::new(), 200),
        ("options of another kind", "DELETE", &one, JSON, r#"{"kind":"ConfigMap"}"#.into(), 400),
        (
            "options of the wrong type",
            "DELETE",
            &one,
            JSON,
            r#"{"gracePeriodSeconds":"0"}"#.into(),
            400,
        ),
        ("a path that goes too deep", "GET", &format!("{one}/a/b/c"), "", String::new(), 404),
    ];
    for (reason, method, path, media, body, want) in cases {
        let reply = send(&sandbox, method, path, media, body);
        assert_eq!(reply.code, *want, "{reason}: {}", reply.body);
        assert!(*want == 200 || reply.body["kind"] == "Status", "{reason}: {}", reply.body);
    }
}

#[test]
fn finalizers_of_built_in_kinds_have_a_domain() {
    let sandbox = cluster();
    let with = |finalizer: &str| {
        let mut map = map("m");
        map["metadata"]["finalizers"] = json!([finalizer]);
        post(&sandbox, &format!("{MAPS}?dryRun=All"), &map).code
    };
    assert_eq!(
        [with("bare"), with("example.com/own"), with("foregroundDeletion")],
        [422, 201, 201]
    );
}

#[test]
fn an_autoscaler_names_the_group_of_what_it_scales() {
    let sandbox = cluster();
    let all = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let with = |version: &str| {
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "h" },
            "spec": { "maxReplicas": 2, "scaleTargetRef": { "apiVersion": version, "kind": "Deployment", "name": "web" } },
        });
        post(&sandbox, &format!("{all}?dryRun=All"), &autoscaler).code
    };
    assert_eq!([with("apps/v1"), with("v1"), with("")], [201, 422, 422]);
}

#[test]
fn what_goes_at_once_was_never_marked() {
    let sandbox = cluster();
    let from = get(&sandbox, MAPS).body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    post(&sandbox, MAPS, &map("m"));
    send(&sandbox, "DELETE", &format!("{MAPS}/m"), "", "");
    let events = history(&sandbox, MAPS, &from);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["ADDED", "DELETED"]);
    assert_eq!(events[1].1["metadata"].get("deletionTimestamp"), None);
}

#[test]
fn the_end_of_an_object_is_told_as_it_was_stored() {
    let sandbox = cluster();
    let mut held = map("m");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let from = post(&sandbox, MAPS, &held).body["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    send(&sandbox, "DELETE", &format!("{MAPS}/m"), "", "");
    let free = json!({ "metadata": { "finalizers": null } });
    patch(&sandbox, &format!("{MAPS}/m"), MERGE, &free);
    let events = history(&sandbox, MAPS, &from);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["MODIFIED", "DELETED"]);
    assert_eq!(events[1].1["metadata"]["finalizers"], json!(["example.com/hold"]));
}

#[test]
fn a_pod_is_marked_even_if_it_goes_at_once() {
    let sandbox = cluster();
    let from = post(&sandbox, PODS, &pod("p")).body["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    send(&sandbox, "DELETE", &format!("{PODS}/p"), "", "");
    let events = history(&sandbox, PODS, &from);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["MODIFIED", "DELETED"]);
    assert!(events[1].1["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn events_and_namespaces_wait_for_no_dependents() {
    let sandbox = cluster();
    let all = "/api/v1/namespaces/default/events";
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e" },
        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default" },
    });
    assert_eq!(post(&sandbox, all, &event).code, 201);
    let options = json!({ "propagationPolicy": "Foreground" }).to_string();
    send(&sandbox, "DELETE", &format!("{all}/e"), JSON, &options);
    assert_eq!(get(&sandbox, &format!("{all}/e")).code, 404);
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "app", "image": "web:1" }] },
            },
        },
    })
}

#[test]
fn a_count_that_nobody_owned_is_nobodys_after_it_was_scaled() {
    let sandbox = cluster();
    let one = format!("{DEPLOYMENTS}/d");
    patch(&sandbox, &format!("{one}?fieldManager=owner"), APPLY, &deployment());
    let scale = json!({ "spec": { "replicas": 3 } });
    patch(&sandbox, &format!("{one}/scale?fieldManager=hpa"), MERGE, &scale);
    let mut more = deployment();
    more["spec"]["replicas"] = json!(5);
    let applied = patch(&sandbox, &format!("{one}?fieldManager=other"), APPLY, &more);
    assert_eq!((applied.code, &applied.body["spec"]["replicas"]), (200, &json!(5)));
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A CRD of a scalable kind with this schema.
fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" } },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

fn widget(spec: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": spec })
}

/// A schema with a declared field and a free-form part.
fn with_free_part() -> Value {
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let size = json!({ "type": "integer" });
    json!({
        "type": "object",
        "properties": { "spec": { "type": "object", "properties": { "size": size, "free": free } } },
    })
}

fn fields(reply: &Reply, manager: &str) -> Value {
    let entries = reply.body["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let found = entries.into_iter().find(|entry| entry["manager"] == manager);
    found.unwrap_or_default()["fieldsV1"].clone()
}

#[test]
fn a_custom_resource_that_scales_counts_from_zero() {
    let sandbox = cluster();
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    post(&sandbox, DEFINITIONS, &definition(&free));
    let with = |replicas: Value| {
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" },
            "spec": { "replicas": replicas },
        });
        let reply = post(&sandbox, &format!("{WIDGETS}?dryRun=All"), &widget);
        (reply.code, reply.body["details"]["causes"][0]["field"].clone())
    };
    assert_eq!(with(json!(2)), (201, Value::Null));
    assert_eq!(with(json!(-1)), (422, json!(".spec.replicas")));
    assert_eq!(with(json!("2")), (422, json!(".spec.replicas")));
    assert_eq!(with(json!(2_147_483_648_i64)), (422, json!(".spec.replicas")));
}

#[test]
fn a_scale_is_noted_without_a_time() {
    let sandbox = cluster();
    let all = DEPLOYMENTS;
    post(&sandbox, all, &deployment());
    let scale = json!({ "spec": { "replicas": 3 } });
    patch(&sandbox, &format!("{all}/d/scale?fieldManager=hpa"), MERGE, &scale);
    let stored = get(&sandbox, &format!("{all}/d")).body;
    let entries = stored["metadata"]["managedFields"].as_array().unwrap();
    let noted = entries.iter().find(|entry| entry["manager"] == "hpa").unwrap();
    assert_eq!((&noted["subresource"], noted.get("time")), (&json!("scale"), None));
}

#[test]
fn keys_of_a_free_part_are_owned_with_what_is_in_them() {
    let sandbox = cluster();
    post(&sandbox, DEFINITIONS, &definition(&with_free_part()));
    let one = format!("{WIDGETS}/w");
    let config = widget(&json!({ "size": 3, "free": { "x": { "n": 1 } } }));
    let applied = patch(&sandbox, &format!("{one}?fieldManager=ann"), APPLY, &config);
    let want = json!({ "f:spec": { "f:size": {}, "f:free": { "f:x": { ".": {}, "f:n": {} } } } });
    assert_eq!(fields(&applied, "ann"), want);

    // Changing a value below a key gives no ownership of the key, which is removed with its owner.
    let change = json!({ "spec": { "free": { "x": { "n": 2 }, "y": 1 } } });
    patch(&sandbox, &format!("{one}?fieldManager=bob"), MERGE, &change);
    let less = widget(&json!({ "size": 3 }));
    let applied = patch(&sandbox, &format!("{one}?fieldManager=ann"), APPLY, &less);
    assert_eq!((applied.code, &applied.body["spec"]["free"]), (200, &json!({ "y": 1 })));
}

#[test]
fn an_apply_that_leaves_null_where_none_may_be_is_refused() {
    let sandbox = cluster();
    post(&sandbox, DEFINITIONS, &definition(&with_free_part()));
    let one = format!("{WIDGETS}/w");
    let config = widget(&json!({ "size": 3, "free": { "x": { "n": 1 } } }));
    patch(&sandbox, &format!("{one}?fieldManager=ann"), APPLY, &config);
    let change = json!({ "spec": { "free": { "x": { "n": 2 } } } });
    patch(&sandbox, &format!("{one}?fieldManager=bob"), MERGE, &change);
    let less = widget(&json!({ "size": 3 }));
    let applied = patch(&sandbox, &format!("{one}?fieldManager=ann"), APPLY, &less);
    let field = &applied.body["details"]["causes"][0]["field"];
    assert_eq!((applied.code, field), (422, &json!("spec.free")));
}

#[test]
fn nobody_owned_the_empty_parts_before_the_first_apply() {
    let sandbox = cluster();
    let all = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "l" } });
    post(&sandbox, all, &lease);
    let applied = patch(&sandbox, &format!("{all}/l?fieldManager=a"), APPLY, &lease);
    assert_eq!(applied.code, 200);
    assert!(applied.body["metadata"]["managedFields"].is_null(), "{}", applied.body);
}

#[test]
fn where_items_have_no_name_nobody_owns_anything() {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "a" },
        "secrets": [{ "namespace": "x" }],
    });
    let made = post(&cluster(), "/api/v1/namespaces/default/serviceaccounts", &account);
    assert_eq!(made.code, 201);
    assert!(made.body["metadata"]["managedFields"].is_null(), "{}", made.body);
}

#[test]
fn kubectl_notes_what_it_applied_as_it_was_sent() {
    let sandbox = cluster();
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut before = map("m");
    before["metadata"]["annotations"][annotation] = map("m").to_string().into();
    post(&sandbox, MAPS, &before);
    let path = format!("{MAPS}/m?fieldManager=kubectl&force=true");
    let applied = patch(&sandbox, &path, APPLY, &map("m"));
    let noted = applied.body["metadata"]["annotations"][annotation].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&noted).unwrap(), map("m"));
}

#[test]
fn what_follows_from_a_generated_name_is_nobodys() {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "generateName": "g-" } });
    let made = post(&cluster(), "/api/v1/namespaces", &namespace);
    assert!(made.body["metadata"]["labels"]["kubernetes.io/metadata.name"].is_string());
    assert!(fields(&made, "unknown")["f:metadata"]["f:labels"].is_null(), "{}", made.body);
}

#[test]
fn a_bound_pod_has_a_condition_that_nobody_owns() {
    let sandbox = Sandbox::new(Settings { nodes: 0, ..Settings::for_tests() });
    post(&sandbox, PODS, &pod("p"));
    let binding = json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n" } });
    assert_eq!(post(&sandbox, &format!("{PODS}/p/binding"), &binding).code, 201);
    let stored = get(&sandbox, &format!("{PODS}/p")).body;
    assert_eq!(stored["status"]["conditions"][0]["lastProbeTime"], Value::Null);
    assert!(stored["status"]["conditions"][0].get("lastProbeTime").is_some(), "{stored}");
    assert_eq!(stored["metadata"]["managedFields"].as_array().unwrap().len(), 1);
}

#[test]
fn paths_into_built_in_groups_are_refused_by_their_router() {
    let sandbox = cluster();
    for path in ["/api/v2/pods", "/apis/apps/v7", "/apis/apps/v1beta1/deployments"] {
        let reply = get(&sandbox, path);
        assert_eq!((reply.code, &reply.body["reason"]), (404, &json!("NotFound")), "{path}");
    }
    let reply = get(&sandbox, "/apis/example.com/v1/things");
    assert_eq!((reply.code, reply.body), (404, Value::Null));
}

#[test]
fn a_changed_service_keeps_what_fits_its_type() {
    let sandbox = cluster();
    let ports = json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" },
        "spec": { "type": "NodePort", "ports": ports },
    });
    let port = post(&sandbox, SERVICES, &service).body["spec"]["ports"][0]["nodePort"].clone();
    let one = format!("{SERVICES}/s");
    let twice = json!([{ "name": "a", "port": 80, "nodePort": port }, { "name": "b", "port": 81, "nodePort": port }]);
    let cases = [
        ("the allocator comes first", json!({ "ports": twice }), 500, Value::Null),
        (
            "an address has a family",
            json!({ "ipFamilies": ["IPv6"] }),
            422,
            json!("spec.clusterIPs[0]"),
        ),
    ];
    for (reason, spec, code, field) in cases {
        let reply = patch(&sandbox, &one, MERGE, &json!({ "spec": spec }));
        let found = &reply.body["details"]["causes"][0]["field"];
        assert_eq!((reply.code, found), (code, &field), "{reason}");
    }
    let elsewhere = json!({ "spec": { "type": "ExternalName", "externalName": "a.example.com" } });
    let reply = patch(&sandbox, &one, MERGE, &elsewhere);
    assert_eq!(reply.code, 200, "{}", reply.body);
    assert!(reply.body["spec"].get("internalTrafficPolicy").is_none(), "{}", reply.body);
}

#[test]
fn what_is_null_and_written_all_the_same() {
    let sandbox = cluster();
    let mut bytes = map("m");
    bytes["binaryData"] = json!({ "b": null });
    assert_eq!(post(&sandbox, MAPS, &bytes).body["binaryData"], json!({ "b": "" }));
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "i" },
        "spec": { "defaultBackend": { "resource": { "kind": "Bucket", "name": "b" } } },
    });
    let made = post(&sandbox, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress);
    let backend = json!({ "apiGroup": null, "kind": "Bucket", "name": "b" });
    assert_eq!(made.body["spec"]["defaultBackend"]["resource"], backend, "{}", made.body);
}

#[test]
fn what_may_not_be_meant_is_warned_of() {
    let sandbox = cluster();
    let mut hasty = pod("p");
    hasty["spec"]["terminationGracePeriodSeconds"] = json!(-1);
    let made = post(&sandbox, PODS, &hasty);
    assert_eq!(
        (made.warnings, &made.body["spec"]["terminationGracePeriodSeconds"]),
        (0, &json!(1))
    );

    let mut spread = pod("q");
    let anyhow =
        json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway" });
    spread["spec"]["topologySpreadConstraints"] = json!([anyhow]);
    spread["spec"]["imagePullSecrets"] = json!([{}]);
    assert_eq!(post(&sandbox, PODS, &spread).warnings, 2);

    let mut schema = with_free_part();
    schema["properties"]["spec"]["properties"]["name"] =
        json!({ "type": "string", "format": "nonsense" });
    schema["properties"]["status"] =
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut definition = definition(&schema);
    definition["spec"]["versions"][0]["subresources"]["status"] = json!({});
    assert_eq!(post(&sandbox, DEFINITIONS, &definition).warnings, 1);
    let mut held = widget(&json!({ "size": 1 }));
    held["metadata"]["finalizers"] = json!(["bare"]);
    let made = post(&sandbox, WIDGETS, &held);
    assert_eq!((made.code, made.warnings), (201, 1));
    let seen = json!({ "status": { "seen": true } });
    let told = patch(&sandbox, &format!("{WIDGETS}/w/status"), MERGE, &seen);
    assert_eq!((told.code, told.warnings), (200, 0), "the status has no finalizers");
}

#[test]
fn a_definition_is_marked_without_grace_and_refused_by_what_changed() {
    let sandbox = cluster();
    post(&sandbox, DEFINITIONS, &definition(&with_free_part()));
    let one = format!("{DEFINITIONS}/widgets.example.com");
    let reply = patch(&sandbox, &one, MERGE, &json!({ "spec": { "group": "other.example.com" } }));
    let causes = reply.body["details"]["causes"].as_array().unwrap();
    assert_eq!((causes.len(), &causes[0]["field"]), (1, &json!("spec.group")));
    let marked = send(&sandbox, "DELETE", &format!("{one}?dryRun=All"), "", "").body;
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    assert!(marked["metadata"].get("deletionGracePeriodSeconds").is_none(), "{marked}");
    assert_eq!(marked["metadata"]["generation"], 1);
}

#[test]
fn a_list_from_the_cache_has_no_pages() {
    let sandbox = cluster();
    for name in ["a", "b", "c"] {
        post(&sandbox, MAPS, &map(name));
    }
    let first = get(&sandbox, &format!("{MAPS}?limit=1")).body;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = get(&sandbox, &format!("{MAPS}?limit=1&continue={token}&resourceVersion=0")).body;
    let is_last = rest["metadata"].get("continue").is_none();
    assert_eq!((rest["items"].as_array().map(Vec::len), is_last), (Some(2), true), "{rest}");
}

#[test]
fn a_watch_has_a_bookmark_before_its_end() {
    let sandbox = cluster();
    let list = get(&sandbox, MAPS).body;
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let query = "watch=true&timeoutSeconds=5&allowWatchBookmarks=true&labelSelector=nobody";
    let path = format!("{MAPS}?{query}&resourceVersion={from}");
    let request = Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
    let response = sandbox.service().call(request).now_or_never().unwrap().unwrap();
    let mut body = response.into_body();
    let mut frame = || body.frame().now_or_never();
    sandbox.advance(Duration::from_secs(2));
    assert!(frame().is_none(), "it is early");
    sandbox.advance(Duration::from_secs(1));
    let bytes = frame().unwrap().unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(event["type"], "BOOKMARK");
}
