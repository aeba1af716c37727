//! Objects into a cluster: their order, and one apply each.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    failure::{Failure, Outcome},
    request::{RequestInfo, Verb},
    server::{Body, Request, Server, User, options::Query},
};

/// Applies objects: namespaces first, then CRDs, then the rest in the order given.
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
