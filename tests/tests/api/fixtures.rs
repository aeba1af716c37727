//! Objects and paths that many tests use.

use kube_sandbox::{Sandbox, Settings};
use serde_json::{Value, json};
use tidegate_tests::api::Api;

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
pub(crate) const WIDGETS_V2: &str = "/apis/example.com/v2/namespaces/default/widgets";

/// A cluster whose controllers do not run, and its API.
pub(crate) fn cluster() -> (Sandbox, Api) {
    let sandbox = Sandbox::new(Settings::for_tests());
    let api = Api::of(&sandbox);
    (sandbox, api)
}

/// A cluster that also knows widgets.
pub(crate) async fn with_widgets() -> (Sandbox, Api) {
    let (sandbox, api) = cluster();
    api.post(CRDS, widget_crd()).await.expect(201);
    (sandbox, api)
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "key": "value" } })
}

pub(crate) fn labelled(name: &str, app: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = json!({ "app": app });
    object
}

pub(crate) fn pod(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "nginx" }] } })
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] },
            },
        } })
}

pub(crate) fn lease(name: &str) -> Value {
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name }, "spec": { "holderIdentity": "a" } })
}

pub(crate) fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name },
        "spec": { "size": 1 } })
}

/// Two versions that differ in name only, a status, a scale and a column.
pub(crate) fn widget_crd() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                "spec": { "type": "object", "properties": {
                    "size": { "type": "integer", "minimum": 0 },
                    "colour": { "type": "string", "default": "red" },
                    "replicas": { "type": "integer" },
                    "parts": { "type": "array", "items": { "type": "string" } },
                } },
                "status": { "type": "object", "properties": {
                    "phase": { "type": "string" }, "replicas": { "type": "integer" },
                    "selector": { "type": "string" },
                } },
            } } },
            "subresources": { "status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            } },
            "additionalPrinterColumns": [
                { "name": "Size", "type": "integer", "jsonPath": ".spec.size" },
            ],
        })
    };
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget",
                "listKind": "WidgetList", "shortNames": ["wd"] },
            "versions": [version("v1", true), version("v2", false)],
        } })
}

pub(crate) fn revision(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}
