//! Loads manifests into a cluster: parsing, ordering, and one apply per object.
//!
//! Used by [`crate::Sandbox::load`], and for the CRDs that the crate embeds.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    failure::{Failure, Outcome},
    request::{RequestInfo, Verb},
    server::{Body, Request, Server, User, options::Query},
};

/// Parses YAML or JSON text: one or many documents, with lists split and comments skipped.
pub fn parse(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            Value::Object(mut fields) if fields.get("kind").is_some_and(is_list) => {
                match fields.remove("items") {
                    Some(Value::Array(items)) => objects.extend(items),
                    _ => return Err("a List has no `items`".into()),
                }
            }
            object @ Value::Object(_) => objects.push(object),
            other => return Err(format!("expected an object, found `{other}`")),
        }
    }
    Ok(objects)
}

fn is_list(kind: &Value) -> bool {
    kind == "List"
}

/// Applies objects: namespaces first, then CRDs, then the rest in the given order.
pub(crate) fn load(server: &Arc<Server>, mut objects: Vec<Value>) -> Outcome<Vec<Value>> {
    objects.sort_by_key(|object| match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        _ => 2,
    });
    objects.into_iter().map(|object| apply(server, &object)).collect()
}

fn apply(server: &Arc<Server>, object: &Value) -> Outcome<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let name = text(&object["metadata"]["name"]);
    let def = server.registry().find_kind(&api_version, &kind).ok_or_else(|| {
        Failure::new(
            404,
            "NotFound",
            format!("no matches for kind {kind:?} in version {api_version:?}: is its CRD loaded?"),
        )
    })?;
    let mut namespace = text(&object["metadata"]["namespace"]);
    if def.namespaced && namespace.is_empty() {
        "default".clone_into(&mut namespace);
    }
    if name.is_empty() {
        return Err(Failure::bad_request(format!("a {kind} without a name cannot be loaded")));
    }
    let user = User::admin();
    let info = RequestInfo {
        verb: Verb::Patch,
        group: def.group.clone(),
        version: def.version.clone(),
        resource: def.plural.clone(),
        namespace: if def.namespaced { namespace } else { String::new() },
        name,
        user: user.name,
        groups: user.groups,
        patch_type: "application/apply-patch+yaml".into(),
        ..RequestInfo::default()
    };
    let body =
        Body::Raw { content_type: info.patch_type.clone(), bytes: Bytes::from(object.to_string()) };
    let query = Query::parse("fieldManager=tidegate-sandbox&force=true&fieldValidation=Strict");
    let request = Request { info, query, body, agent: "tidegate".into(), stale_at: None };
    server.execute(&request).map(crate::server::Answer::into_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_become_objects() {
        let text = "# first\nkind: A\n---\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let kinds: Vec<_> = parse(text).unwrap().iter().map(|o| o["kind"].to_string()).collect();
        assert_eq!(kinds, ["\"A\"", "\"B\"", "\"C\""]);
        assert!(parse("- just\n- a list\n").is_err());
        assert!(parse("kind: [unclosed").is_err());
    }
}
