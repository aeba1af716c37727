//! OpenAPI documents: contents, references, fingerprints and the protobuf form.

use serde_json::json;

use super::*;

const ALL: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn served(group: &str, kind: &str, plural: &str) -> Served {
    Served {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        namespaced: true,
        verbs: ALL.map(Into::into).to_vec(),
        subresources: vec!["status".into()],
        schema: SchemaSource::Builtin,
    }
}

fn deployments() -> Served {
    let subresources = vec!["status".into(), "scale".into()];
    Served { subresources, ..served("apps", "Deployment", "deployments") }
}

fn widgets() -> Served {
    let schema = json!({"type": "object", "description": "A widget.", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "nullable": true}}}}});
    Served {
        schema: SchemaSource::Custom(Arc::new(schema)),
        ..served("stable.example.com", "Widget", "widgets")
    }
}

/// Every reference in `value` without a target in `document`.
fn dangling(document: &Value, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                let pointer = target.trim_start_matches('#');
                if document.pointer(pointer).is_none() {
                    found.push(target.to_owned());
                }
            }
            members.values().for_each(|member| dangling(document, member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| dangling(document, item, found)),
        _ => {}
    }
}

#[test]
fn a_document_describes_what_kubectl_looks_up() {
    let document = document("apps", "v1", &[deployments()]);
    let path = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    assert_eq!(path["get"]["x-kubernetes-group-version-kind"], kind, "explain");
    let parameters = path["patch"]["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|it| it["name"] == "fieldValidation"), "validation");
    assert!(path["patch"]["requestBody"]["content"]["application/apply-patch+yaml"].is_object());

    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(deployment["x-kubernetes-group-version-kind"], json!([kind]));
    let spec = &schemas["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(spec["required"], json!(["selector", "template"]));
    let replicas = spec["properties"]["replicas"]["description"].as_str().unwrap();
    assert!(replicas.starts_with("Number of desired pods."));
    let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    let port = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"];
    assert_eq!(port["protocol"]["default"], "TCP");

    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"];
    assert_eq!(scale["get"]["x-kubernetes-group-version-kind"]["kind"], "Scale");
    assert!(scale["delete"].is_null());
    assert!(document["paths"]["/apis/apps/v1/deployments"]["get"].is_object());
    assert!(document["paths"]["/apis/apps/v1/deployments"]["post"].is_null());
}

#[test]
fn every_reference_leads_somewhere() {
    let all: Vec<Served> = [deployments(), widgets(), served("", "Pod", "pods")].into();
    for resource in &all {
        let v3 = document(&resource.group, &resource.version, std::slice::from_ref(resource));
        let mut found = Vec::new();
        dangling(&v3, &v3, &mut found);
        assert_eq!(found, Vec::<String>::new(), "{}", resource.kind);
    }
    let v2 = swagger(&all, "v1.36.3");
    let mut found = Vec::new();
    dangling(&v2, &v2, &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_custom_resource_has_what_every_object_has() {
    let document = document("stable.example.com", "v1", &[widgets()]);
    let schema = &document["components"]["schemas"]["com.example.stable.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["type"], "integer");
    assert_eq!(schema["properties"]["kind"]["type"], "string");
    let metadata = schema["properties"]["metadata"]["allOf"][0]["$ref"].as_str().unwrap();
    assert!(metadata.ends_with("meta.v1.ObjectMeta"));
    let list = &document["components"]["schemas"]["com.example.stable.v1.WidgetList"];
    assert_eq!(list["required"], json!(["items"]));
    let patch = &document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/widgets/{name}"]
        ["patch"]["requestBody"]["content"];
    assert!(patch["application/strategic-merge-patch+json"].is_null(), "there is no such patch");

    let v2 = swagger(&[widgets()], "v1.36.3");
    let size = &v2["definitions"]["com.example.stable.v1.Widget"]["properties"]["spec"]["properties"]
        ["size"];
    assert_eq!(*size, json!({}), "v2 has no word for nullable");
}

#[test]
fn the_fingerprint_changes_with_the_resources_and_only_then() {
    let one = fingerprint(&[deployments()]);
    assert_eq!(one, fingerprint(&[deployments()]));
    assert_eq!(one.len(), 128);
    let fewer = Served { verbs: vec!["get".into()], ..deployments() };
    assert_ne!(one, fingerprint(&[fewer]));
    let other =
        Served { schema: SchemaSource::Custom(Arc::new(json!({"type": "object"}))), ..widgets() };
    assert_ne!(fingerprint(&[widgets()]), fingerprint(&[other]));

    let index = index([(document_path("apps", "v1").as_str(), one.as_str())]);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(url, format!("/openapi/v3/apis/apps/v1?hash={one}"));
}

#[test]
fn the_protobuf_of_v2_is_a_gnostic_document() {
    let schema = json!({
        "type": "object", "required": ["a"], "x-kubernetes-map-type": "atomic",
        "properties": { "a": { "$ref": "#/definitions/b" } },
    });
    let document = json!({ "swagger": "2.0", "definitions": { "n": schema } });
    let want = [
        b"\x0a\x032.0".as_slice(),
        // Definitions { NamedSchema { name, value } }
        b"\x4a\x57\x0a\x55\x0a\x01n\x12\x50",
        b"\x9a\x01\x01a",
        b"\xb2\x01\x08\x0a\x06object",
        // Properties { NamedSchema { name, value { _ref } } }
        b"\xca\x01\x18\x0a\x16\x0a\x01a\x12\x11\x0a\x0f#/definitions/b",
        // NamedAny { name, value { yaml } }
        b"\xfa\x01\x23\x0a\x15x-kubernetes-map-type\x12\x0a\x12\x08\"atomic\"",
    ];
    assert_eq!(encode_v2(&document), want.concat());
}
