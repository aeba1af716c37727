//! Rules of a virtual service: conditions, destinations, and settings for all requests.

use serde_json::{Map, Value, json};
use tidegate_api::canary::analysis::{AnalysisMatch, HeaderMatch};
use tidegate_engine::Percent;

use super::INSIDE;
use crate::traffic::{
    RouteCase, RouteError, cookie, non_empty,
    plan::{Requests, Rule, To},
};

/// The fields of a rule that the canary sets, and those that exclude them. Others stay as users put them
/// there.
const OWN: [&str; 15] = [
    "name",
    "match",
    "route",
    "rewrite",
    "timeout",
    "retries",
    "corsPolicy",
    "headers",
    "mirror",
    "mirrors",
    "mirrorPercent",
    "mirrorPercentage",
    "redirect",
    "directResponse",
    "delegate",
];

/// Fields that users added to the rule.
pub(super) fn foreign(rule: &Value) -> Map<String, Value> {
    let fields = rule.as_object().into_iter().flatten();
    let foreign = fields.filter(|(key, _)| !OWN.contains(&key.as_str()));
    foreign.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A rule for requests, on top of the fields that users added to it.
pub(super) fn http(case: &RouteCase<'_>, rule: &Rule, mut fields: Map<String, Value>) -> Value {
    let service = case.service;
    let mut set = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    if let Some(name) = rule.name {
        set("name", json!(name));
    }
    let conditions = conditions(case, &rule.requests);
    if !conditions.is_empty() {
        set("match", Value::Array(conditions));
    }
    set("route", Value::Array(destinations(case, rule)));
    if rule.mirrored {
        set("mirror", destination(case, &case.names.canary));
        if let Some(percent) = case.mirror_percent() {
            set("mirrorPercentage", json!({ "value": percent }));
        }
    }
    if let Some(rewrite) = &service.rewrite {
        let mut parts = Map::new();
        let texts = [("uri", &rewrite.uri), ("authority", &rewrite.authority)];
        for (key, text) in texts {
            parts.extend(non_empty(text.as_ref()).map(|text| (key.to_owned(), json!(text))));
        }
        if !parts.is_empty() {
            set("rewrite", Value::Object(parts));
        }
    }
    if let Some(timeout) = non_empty(service.timeout.as_ref()) {
        set("timeout", json!(timeout));
    }
    if let Some(retries) = &service.retries {
        set("retries", without_empty(json!(retries)));
    }
    if let Some(cors) = &service.cors_policy {
        set("corsPolicy", without_empty(json!(cors)));
    }
    if service.headers.is_some() || rule.any_cookie.is_some() {
        set("headers", headers(case, rule));
    }
    Value::Object(fields)
}

/// Without members that are empty: Flagger leaves them out, and Istio takes no empty duration.
pub(super) fn without_empty(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, member| *member != "");
        members.values_mut().for_each(|member| *member = without_empty(member.take()));
    }
    value
}

/// A rule for connections.
pub(super) fn tcp(case: &RouteCase<'_>, rule: &Rule) -> Value {
    let ports = case.service.matches.iter().filter_map(|condition| condition.port);
    let conditions: Vec<_> = ports.map(|port| json!({ "port": port })).collect();
    let mut fields = Map::new();
    if !conditions.is_empty() {
        fields.insert("match".to_owned(), Value::Array(conditions));
    }
    fields.insert("route".to_owned(), Value::Array(destinations(case, rule)));
    Value::Object(fields)
}

/// Refuses a condition of `analysis.match` that would be none: all requests would go to the canary.
pub(super) fn check_condition(
    case: &RouteCase<'_>,
    index: usize,
    condition: &AnalysisMatch,
) -> Result<(), RouteError> {
    let field = format!("spec.analysis.match[{index}]");
    let AnalysisMatch { headers, query_params, source_labels } = condition;
    if headers.is_empty() && query_params.is_empty() && source_labels.is_empty() {
        return Err(case.refuse(field, "an empty condition fits every request"));
    }
    let empty = headers.iter().find(|(_, value)| **value == HeaderMatch::default());
    match empty {
        Some((name, _)) => {
            let why = "needs one of exact, prefix, suffix and regex";
            Err(case.refuse(format!("{field}.headers.{name}"), why))
        }
        None => Ok(()),
    }
}

fn conditions(case: &RouteCase<'_>, requests: &Requests) -> Vec<Value> {
    let all: Vec<_> = case.service.matches.iter().map(|condition| json!(condition)).collect();
    let narrower = match requests {
        Requests::All => return all,
        Requests::Matched => case.cx.spec.analysis.matches.iter().map(analysed).collect(),
        Requests::WithCookie(pattern) => {
            vec![json!({ "headers": { cookie::COOKIE: { "regex": pattern } } })]
        }
    };
    if all.is_empty() {
        return narrower;
    }
    let pairs = narrower.iter().flat_map(|narrower| all.iter().map(move |wide| (narrower, wide)));
    pairs.map(|(narrower, wide)| both(narrower, wide)).collect()
}

/// A condition of the analysis in Istio's words. Istio has no `suffix`: it would be dropped and leave a
/// condition that every value fits.
fn analysed(condition: &AnalysisMatch) -> Value {
    let mut value = json!(condition);
    for (name, header) in &condition.headers {
        if let Some(suffix) = &header.suffix {
            let pattern = format!(".*{}", cookie::escape(suffix));
            value["headers"][name] = json!({ "regex": pattern });
        }
    }
    value
}

/// A condition that holds where both do. Where both name one header, the narrower one counts.
fn both(narrower: &Value, wide: &Value) -> Value {
    let mut merged = wide.clone();
    for member in ["headers", "queryParams", "sourceLabels"] {
        let Some(entries) = narrower[member].as_object() else { continue };
        if !merged[member].is_object() {
            merged[member] = json!({});
        }
        let Some(found) = merged[member].as_object_mut() else { continue };
        if member == "headers" {
            found.retain(|name, _| !entries.keys().any(|key| key.eq_ignore_ascii_case(name)));
        }
        found.extend(entries.clone());
    }
    merged
}

fn destinations(case: &RouteCase<'_>, rule: &Rule) -> Vec<Value> {
    let to = |host: &str, weight: Percent, cookie: Option<&String>| {
        let mut to = json!({ "destination": destination(case, host), "weight": weight.get() });
        if let Some(cookie) = cookie {
            to["headers"] = json!({ "response": { "add": { cookie::SET_COOKIE: cookie } } });
        }
        to
    };
    let names = &case.names;
    match rule.to {
        To::Both(canary) => vec![
            to(&names.primary, canary.rest(), rule.primary_cookie.as_ref()),
            to(&names.canary, canary, rule.canary_cookie.as_ref()),
        ],
        To::Primary => vec![to(&names.primary, Percent::ALL, None)],
    }
}

/// A side. With several ports Istio must be told which, unless the caller's own port says so.
fn destination(case: &RouteCase<'_>, host: &str) -> Value {
    let service = case.service;
    let from_outside = service.gateways.first().is_some_and(|gateway| gateway != INSIDE);
    let mut destination = json!({ "host": host });
    if service.port_discovery == Some(true) && (from_outside || super::is_delegate(case)) {
        destination["port"] = json!({ "number": service.port });
    }
    destination
}

fn headers(case: &RouteCase<'_>, rule: &Rule) -> Value {
    let mut headers = case.service.headers.clone().unwrap_or_default();
    if let Some(cookie) = &rule.any_cookie {
        let add = &mut headers.response.get_or_insert_default().add;
        add.retain(|name, _| !name.eq_ignore_ascii_case(cookie::SET_COOKIE));
        add.insert(cookie::SET_COOKIE.to_owned(), cookie.clone());
    }
    json!(headers)
}
