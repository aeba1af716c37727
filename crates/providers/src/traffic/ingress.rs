//! Copies of the user's Ingress, for controllers that divide traffic between two Ingresses.
//!
//! A copy has the paths that lead to the apex and no others: the rest is served by the original.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{Place, RouteCase, RouteCx, RouteError};
use crate::object::{Change, Kind, exactly};

/// Kind of an Ingress.
pub const INGRESS: Kind =
    Kind { group: "networking.k8s.io", version: "v1", kind: "Ingress", plural: "ingresses" };

/// Subtrees of a copy that are its own, besides the class.
const FIELDS: &[&str] = &["/spec/rules", "/spec/tls", "/spec/defaultBackend"];
/// The class, which is the original's where it has one.
const CLASS: &str = "/spec/ingressClassName";

/// The name of the original.
pub(super) fn original_name<'a>(cx: &RouteCx<'a>) -> Option<&'a str> {
    let reference = cx.spec.ingress_ref.as_ref()?;
    Some(reference.name.as_str()).filter(|name| !name.is_empty())
}

/// The name of the copy.
pub(super) fn copy_name(cx: &RouteCx<'_>) -> String {
    format!("{}-canary", original_name(cx).unwrap_or_default())
}

/// Refuses a canary without an Ingress.
pub(super) fn check(case: &RouteCase<'_>) -> Result<(), RouteError> {
    if original_name(case.cx).is_some() {
        return Ok(());
    }
    let provider = case.mesh.as_str();
    let why = format!("the provider \"{provider}\" needs the Ingress that leads to the apex");
    Err(case.refuse("spec.ingressRef", why))
}

/// The subtrees of a copy with this spec that are its own.
pub(super) fn exact(spec: &Value) -> Vec<Cow<'static, str>> {
    let mut exact = exactly(FIELDS);
    if !spec["ingressClassName"].is_null() {
        exact.push(CLASS.into());
    }
    exact
}

/// Whether a path of a live copy leads to this Service.
pub(super) fn leads_to(copy: &Value, service: &str) -> bool {
    let rules = copy["spec"]["rules"].as_array().into_iter().flatten();
    let mut paths = rules.filter_map(|rule| rule["http"]["paths"].as_array()).flatten();
    paths.any(|path| path["backend"]["service"]["name"] == *service)
}

/// The spec of a copy: in each rule what `to` makes of the paths to the apex. An error if there are
/// none.
pub(super) fn copy(
    case: &RouteCase<'_>,
    original: &Value,
    to: impl Fn(&[Value]) -> Vec<Value>,
) -> Result<Value, RouteError> {
    let apex = &case.names.apex;
    let leads = |path: &&Value| path["backend"]["service"]["name"] == **apex;
    let rules = original["spec"]["rules"].as_array().into_iter().flatten();
    let rules = rules.filter_map(|rule| {
        let paths = rule["http"]["paths"].as_array()?.iter().filter(leads);
        let paths: Vec<_> = paths.cloned().collect();
        if paths.is_empty() {
            return None;
        }
        let mut rule = rule.clone();
        rule["http"]["paths"] = Value::Array(to(&paths));
        Some(rule)
    });
    let rules: Vec<_> = rules.collect();
    if rules.is_empty() {
        let name = original["metadata"]["name"].as_str().unwrap_or_default();
        return Err(RouteError::Malformed {
            object: Place::new(INGRESS, case.cx.owner.namespace, name),
            why: format!("no path of it leads to Service {apex}"),
        });
    }
    let mut spec = json!({ "rules": rules });
    for key in ["tls", "ingressClassName"] {
        let value = &original["spec"][key];
        if !value.is_null() {
            spec[key] = value.clone();
        }
    }
    Ok(spec)
}

/// A path that leads to another Service.
pub(super) fn leading_to(path: &Value, service: &str) -> Value {
    let mut path = path.clone();
    path["backend"]["service"]["name"] = json!(service);
    path
}

/// A merge patch of annotations and nothing else; none where none change.
pub(super) fn annotated(route: &Value, annotations: &Map<String, Value>) -> Option<Change> {
    if annotations.is_empty() {
        return None;
    }
    let metadata = &route["metadata"];
    let patch = json!({ "metadata": {
        "resourceVersion": metadata["resourceVersion"],
        "annotations": annotations,
    } });
    Some(Change::Merge { kind: INGRESS, name: metadata["name"].as_str()?.to_owned(), patch })
}
