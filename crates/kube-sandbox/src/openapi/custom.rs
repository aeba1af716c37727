//! Schemas of custom resources: those of their definitions, plus the fields of every object.

use serde_json::{Map, Value, json};

use super::{
    Dialect, Served, group_version_kind,
    schema::{META, Schemas},
};

/// Keywords that v2 does not have.
const V3_ONLY: [&str; 5] = ["oneOf", "anyOf", "allOf", "not", "nullable"];

/// `com.example.stable.v1.CronTab`: with the group's parts reversed.
pub(super) fn name(resource: &Served) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').rev().collect();
    parts.extend([resource.version.as_str(), resource.kind.as_str()]);
    parts.join(".")
}

/// Adds the schemas of the resource and its list, and returns a reference to the first.
pub(super) fn add(resource: &Served, given: &Value, schemas: &mut Schemas) -> Value {
    let mut schema = given.clone();
    if schemas.dialect == Dialect::V2 {
        keep_what_v2_knows(&mut schema);
    }
    if !schema.is_object() {
        schema = json!({});
    }
    schema["type"] = json!("object");
    if schema["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
        let metadata = schemas.reference(&format!("{META}.ObjectMeta"));
        add_type_meta(&mut schema["properties"]);
        schema["properties"]["metadata"] = match schemas.dialect {
            Dialect::V2 => metadata,
            Dialect::V3 => json!({ "allOf": [metadata] }),
        };
        schema["properties"]["metadata"]["description"] =
            json!("Name, labels and what else all objects have.");
    } else if let Some(members) = schema.as_object_mut() {
        members.remove("properties");
        members.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
    }
    let Served { group, version, kind, .. } = resource;
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(group, version, kind)]);
    let reference = schemas.insert(&name(resource), schema);
    add_list(resource, &reference, schemas);
    reference
}

pub(super) fn list_name(resource: &Served) -> String {
    format!("{}List", name(resource))
}

fn add_list(resource: &Served, item: &Value, schemas: &mut Schemas) {
    let Served { group, version, kind, .. } = resource;
    let metadata = schemas.reference(&format!("{META}.ListMeta"));
    let mut properties = json!({
        "items": { "type": "array", "items": item, "description": format!("The {kind} objects.") },
        "metadata": metadata,
    });
    add_type_meta(&mut properties);
    let list = json!({
        "description": format!("{kind}List is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": properties,
        "x-kubernetes-group-version-kind":
            [group_version_kind(group, version, &format!("{kind}List"))],
    });
    schemas.insert(&list_name(resource), list);
}

fn add_type_meta(properties: &mut Value) {
    for (field, description) in [
        ("apiVersion", "Group and version of the object's schema."),
        ("kind", "What the object is, in CamelCase."),
    ] {
        properties[field] = json!({ "type": "string", "description": description });
    }
}

fn keep_what_v2_knows(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    let untyped = members.get("nullable") == Some(&json!(true))
        || members.get("x-kubernetes-int-or-string") == Some(&json!(true))
        || members.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
    members.retain(|key, _| !V3_ONLY.contains(&key.as_str()));
    if untyped {
        // A v2 schema without a type accepts anything, as these do.
        for key in ["type", "items", "properties"] {
            members.remove(key);
        }
    }
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    for each in properties.into_iter().flat_map(Map::values_mut) {
        keep_what_v2_knows(each);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = members.get_mut(key) {
            keep_what_v2_knows(inner);
        }
    }
}
