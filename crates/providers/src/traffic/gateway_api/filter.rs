//! Filters of a rule: changes to a request and its answer on the way.
//!
//! Of most types a rule may have one only, so a cookie for all answers joins the filter that is
//! there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_api::{
    canary::service::{BackendRef, CorsPolicy, HeaderOperations, Rewrite},
    duration::GoDuration,
};

use super::Version;
use crate::traffic::{RouteCase, cookie, non_empty, plan::Rule};

/// The type of rewrite that replaces the matched beginning of a path.
const REPLACE_PREFIX: &str = "ReplacePrefixMatch";
/// The API server's default of `maxAge`, in seconds.
const CORS_MAX_AGE_DEFAULT_S: i64 = 5;

/// The filters of a rule that the canary asks for, in Flagger's order.
pub(super) fn filters(version: Version, case: &RouteCase<'_>, rule: &Rule) -> Vec<Value> {
    let service = case.service;
    let headers = service.headers.clone().unwrap_or_default();
    let mut filters = Vec::new();
    if let Some(request) = headers.request.as_ref().and_then(modifier) {
        filters.push(json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": request }));
    }
    let response = with_cookie(headers.response, rule.any_cookie.as_ref());
    if let Some(response) = modifier(&response) {
        filters.push(response_filter(&response));
    }
    filters.extend(service.rewrite.as_ref().and_then(rewrite));
    filters.extend(service.mirror.iter().map(|mirror| mirror_to(&mirror.backend_ref)));
    if version.full && case.cx.fields.cors {
        filters.extend(service.cors_policy.as_ref().map(cors));
    }
    if rule.mirrored {
        filters.push(mirror_to_canary(case));
    }
    filters
}

/// Whether a filter of this type is set by the canary; others stay as users put them there. A redirect would
/// leave nothing to divide.
pub(super) fn is_own(version: Version, case: &RouteCase<'_>, kind: &str) -> bool {
    match kind {
        "RequestHeaderModifier"
        | "ResponseHeaderModifier"
        | "URLRewrite"
        | "RequestMirror"
        | "RequestRedirect" => true,
        "CORS" => version.full && case.cx.fields.cors,
        _ => false,
    }
}

/// Whether the matched beginning of the path is replaced, which the API allows for one condition a
/// rule only.
pub(super) fn replaces_prefix(case: &RouteCase<'_>) -> bool {
    let rewrite = case.service.rewrite.as_ref();
    rewrite.is_some_and(|rewrite| {
        rewrite.rewrite_type.as_deref() == Some(REPLACE_PREFIX)
            && non_empty(rewrite.uri.as_ref()).is_some()
    })
}

/// A filter that sets a cookie.
pub(super) fn add_cookie(cookie: &str) -> Value {
    response_filter(&json!({ "add": [{ "name": cookie::SET_COOKIE, "value": cookie }] }))
}

fn response_filter(modifier: &Value) -> Value {
    json!({ "type": "ResponseHeaderModifier", "responseHeaderModifier": modifier })
}

fn with_cookie(response: Option<HeaderOperations>, cookie: Option<&String>) -> HeaderOperations {
    let mut response = response.unwrap_or_default();
    if let Some(cookie) = cookie {
        response.add.retain(|name, _| !name.eq_ignore_ascii_case(cookie::SET_COOKIE));
        response.add.insert(cookie::SET_COOKIE.to_owned(), cookie.clone());
    }
    response
}

/// Changes to headers, as lists in the order of names; `None` if there are none.
fn modifier(operations: &HeaderOperations) -> Option<Value> {
    let list = |headers: &BTreeMap<String, String>| -> Value {
        headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
    };
    let mut modifier = Map::new();
    if !operations.add.is_empty() {
        modifier.insert("add".to_owned(), list(&operations.add));
    }
    if !operations.set.is_empty() {
        modifier.insert("set".to_owned(), list(&operations.set));
    }
    if !operations.remove.is_empty() {
        modifier.insert("remove".to_owned(), json!(operations.remove));
    }
    (!modifier.is_empty()).then_some(Value::Object(modifier))
}

fn rewrite(rewrite: &Rewrite) -> Option<Value> {
    let mut url = Map::new();
    if let Some(authority) = non_empty(rewrite.authority.as_ref()) {
        url.insert("hostname".to_owned(), json!(authority));
    }
    if let Some(uri) = non_empty(rewrite.uri.as_ref()) {
        let path = if rewrite.rewrite_type.as_deref() == Some(REPLACE_PREFIX) {
            json!({ "type": REPLACE_PREFIX, "replacePrefixMatch": uri })
        } else {
            json!({ "type": "ReplaceFullPath", "replaceFullPath": uri })
        };
        url.insert("path".to_owned(), path);
    }
    (!url.is_empty()).then(|| json!({ "type": "URLRewrite", "urlRewrite": url }))
}

/// A copy to a backend, with the defaults the API server would fill in.
fn mirror_to(backend: &BackendRef) -> Value {
    let mut reference = json!(backend);
    reference["group"] = json!(backend.group.as_deref().unwrap_or_default());
    reference["kind"] = json!(backend.kind.as_deref().unwrap_or("Service"));
    json!({ "type": "RequestMirror", "requestMirror": { "backendRef": reference } })
}

fn mirror_to_canary(case: &RouteCase<'_>) -> Value {
    let mut filter = mirror_to(&BackendRef {
        name: case.names.canary.clone(),
        port: Some(case.service.port),
        ..BackendRef::default()
    });
    if let Some(percent) = case.mirror_percent().filter(|_| case.cx.fields.mirror_percent) {
        filter["requestMirror"]["percent"] = json!(percent);
    }
    filter
}

fn cors(policy: &CorsPolicy) -> Value {
    let mut cors = Map::new();
    // Patterns have no equivalent here; as Flagger, they are skipped.
    let exact = policy.allow_origins.iter().filter_map(|origin| origin.exact.as_ref());
    let origins: Vec<_> = policy.allow_origin.iter().chain(exact).collect();
    let lists = [
        ("allowOrigins", json!(origins)),
        ("allowMethods", json!(policy.allow_methods)),
        ("allowHeaders", json!(policy.allow_headers)),
        ("exposeHeaders", json!(policy.expose_headers)),
    ];
    for (key, list) in lists {
        if list.as_array().is_some_and(|list| !list.is_empty()) {
            cors.insert(key.to_owned(), list);
        }
    }
    if policy.allow_credentials == Some(true) {
        cors.insert("allowCredentials".to_owned(), json!(true));
    }
    let max_age = policy.max_age.as_deref().and_then(|text| text.parse::<GoDuration>().ok());
    let seconds = max_age.map(|age| age.as_nanos() / 1_000_000_000).filter(|age| *age > 0);
    cors.insert("maxAge".to_owned(), json!(seconds.unwrap_or(CORS_MAX_AGE_DEFAULT_S)));
    json!({ "type": "CORS", "cors": cors })
}
