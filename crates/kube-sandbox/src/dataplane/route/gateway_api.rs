//! Reads `HTTPRoute` and `GRPCRoute` objects into rules.
//!
//! A gRPC call is a `POST` of `/package.Service/Method`, so a match on services and methods is one
//! on paths.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Backend, Draft, Mirror, Rule, Source, Sources, Target, created,
    edit::{self, PathEdit, Redirect},
    grants,
    host::HostPattern,
    matching::{Condition, Path, Precedence, Text},
};
use crate::{
    controllers::object::{int, items, name, namespace, text},
    dataplane::{acceptor::CONTROLLER_NAME, duration},
};

pub(super) fn read(sources: &Sources<'_>, drafts: &mut Vec<Draft>) {
    let http = sources.http_routes.iter().map(|route| ("HTTPRoute", route));
    let grpc = sources.grpc_routes.iter().map(|route| ("GRPCRoute", route));
    for (kind, route) in http.chain(grpc).filter(|(_, route)| !is_refused(route)) {
        let hosts = hosts(route);
        for (rule_index, object) in items(route, "/spec/rules").iter().enumerate() {
            let rule = Arc::new(rule(kind, route, object, sources.reference_grants));
            let whole = [Value::Null];
            let matches = match items(object, "/matches") {
                [] => &whole[..],
                matches => matches,
            };
            for (match_index, object) in matches.iter().enumerate() {
                let (conditions, precedence, prefix) = match kind {
                    "GRPCRoute" => conditions_of_call(object),
                    _ => conditions(object),
                };
                drafts.push(Draft {
                    precedence,
                    created: created(route),
                    rule_index,
                    match_index,
                    hosts: hosts.clone(),
                    conditions,
                    prefix,
                    rule: Arc::clone(&rule),
                });
            }
        }
    }
}

/// True if every parent refused the route, which then carries no traffic. A route without a status
/// does, so that routes for other gateways work here too.
fn is_refused(route: &Value) -> bool {
    let ours = items(route, "/status/parents").iter();
    let ours: Vec<_> =
        ours.filter(|parent| text(parent, "/controllerName") == CONTROLLER_NAME).collect();
    let is_refusal = |parent: &&Value| {
        let conditions = items(parent, "/conditions").iter();
        let mut accepted = conditions.filter(|condition| text(condition, "/type") == "Accepted");
        accepted.next().is_some_and(|accepted| text(accepted, "/status") == "False")
    };
    let parents = items(route, "/spec/parentRefs").len();
    parents > 0 && ours.len() >= parents && ours.iter().all(is_refusal)
}

/// The hosts of a route, and the names of the Services it is attached to. A route with Services as
/// its only parents has no hosts of its own.
fn hosts(route: &Value) -> Vec<HostPattern> {
    let mut hosts = Vec::new();
    let parents = items(route, "/spec/parentRefs");
    let is_service = |parent: &&Value| text(parent, "/kind") == "Service";
    for parent in parents.iter().filter(is_service) {
        let place = match text(parent, "/namespace") {
            "" => namespace(route),
            place => place,
        };
        hosts.extend(HostPattern::of_service(place, text(parent, "/name")));
    }
    if parents.is_empty() || !parents.iter().all(|parent| is_service(&parent)) {
        let named = items(route, "/spec/hostnames").iter().filter_map(Value::as_str);
        let named: Vec<_> = named.map(HostPattern::parse).collect();
        hosts.extend(if named.is_empty() { vec![HostPattern::Any] } else { named });
    }
    hosts
}

fn rule(kind: &'static str, route: &Value, object: &Value, grants: &[Value]) -> Rule {
    let source =
        Source { kind, namespace: namespace(route).to_owned(), name: name(route).to_owned() };
    let from = (kind, namespace(route));
    let mut rule = Rule::empty(source);
    for filter in items(object, "/filters") {
        take_filter(&mut rule, filter, from, grants);
    }
    rule.targets = items(object, "/backendRefs")
        .iter()
        .map(|reference| target(reference, from, grants))
        .collect();
    rule.timeout = ["/timeouts/request", "/timeouts/backendRequest"]
        .into_iter()
        .filter_map(|pointer| duration::parse(text(object, pointer)))
        .filter(|timeout| !timeout.is_zero())
        .min();
    rule
}

fn take_filter(rule: &mut Rule, filter: &Value, from: (&str, &str), grants: &[Value]) {
    let part = |key: &str| filter.get(key).unwrap_or(&Value::Null);
    match text(filter, "/type") {
        "RequestHeaderModifier" => {
            rule.request.extend(edit::from_lists(part("requestHeaderModifier")));
        }
        "ResponseHeaderModifier" => {
            rule.response.extend(edit::from_lists(part("responseHeaderModifier")));
        }
        "RequestMirror" => {
            let mirror = part("requestMirror");
            let backend = backend(mirror.get("backendRef").unwrap_or(&Value::Null), from.1);
            let is_forbidden = !grants::allow(grants, from, &backend);
            rule.mirrors.push(Mirror { share: mirror_share(mirror), is_forbidden, backend });
        }
        "RequestRedirect" => {
            rule.redirect = Some(Redirect::from_gateway_api(part("requestRedirect")));
        }
        "URLRewrite" => {
            let rewrite = part("urlRewrite");
            rule.rewrite_host = text(rewrite, "/hostname").parse().ok();
            rule.rewrite_host.take_if(|host| host.is_empty());
            rule.rewrite_path = PathEdit::from_gateway_api(rewrite.get("path"));
        }
        _ => {}
    }
}

fn target(reference: &Value, from: (&str, &str), grants: &[Value]) -> Target {
    let backend = backend(reference, from.1);
    let mut target = Target {
        is_forbidden: !grants::allow(grants, from, &backend) || !is_service(reference),
        weight: int(reference, "/weight").map_or(1, |weight| u32::try_from(weight).unwrap_or(0)),
        ..Target::plain(backend)
    };
    for filter in items(reference, "/filters") {
        let part = |key: &str| filter.get(key).unwrap_or(&Value::Null);
        match text(filter, "/type") {
            "RequestHeaderModifier" => {
                target.request.extend(edit::from_lists(part("requestHeaderModifier")));
            }
            "ResponseHeaderModifier" => {
                target.response.extend(edit::from_lists(part("responseHeaderModifier")));
            }
            _ => {}
        }
    }
    target
}

/// The Service of a reference in a route of namespace `from`.
pub(crate) fn backend(reference: &Value, from: &str) -> Backend {
    let place = match text(reference, "/namespace") {
        "" => from,
        place => place,
    };
    Backend {
        namespace: place.to_owned(),
        service: text(reference, "/name").to_owned(),
        port: int(reference, "/port").and_then(|port| u16::try_from(port).ok()),
    }
}

/// References without a kind are to Services.
pub(crate) fn is_service(reference: &Value) -> bool {
    matches!(text(reference, "/kind"), "" | "Service")
        && matches!(text(reference, "/group"), "" | "core")
}

fn mirror_share(mirror: &Value) -> f64 {
    let number = |pointer: &str| mirror.pointer(pointer).and_then(Value::as_f64);
    if let Some(percent) = number("/percent") {
        return percent / 100.0;
    }
    match number("/fraction/numerator") {
        Some(numerator) => numerator / number("/fraction/denominator").unwrap_or(100.0).max(1.0),
        None => 1.0,
    }
}

/// The conditions of a match, their precedence, and the matched path prefix.
fn conditions(object: &Value) -> (Vec<Condition>, Precedence, Option<String>) {
    let value = match text(object, "/path/value") {
        "" => "/",
        value => value,
    };
    let exact = |text: &str| Text::Exact(text.to_owned());
    let mut prefix = None;
    let (path, path_kind) = match text(object, "/path/type") {
        "Exact" => (Condition::Path(Path::Text(exact(value))), 2),
        "RegularExpression" => {
            (Text::regex(value).map_or(Condition::Never, |r| Condition::Path(Path::Text(r))), 1)
        }
        _ => {
            prefix = Some(value.to_owned());
            (Condition::Path(Path::Segments(value.to_owned())), 0)
        }
    };
    let mut conditions = vec![path];
    let method = text(object, "/method");
    if !method.is_empty() {
        conditions.push(Condition::Method(exact(method)));
    }
    let (headers, query) = (items(object, "/headers"), items(object, "/queryParams"));
    conditions.extend(headers.iter().map(header_condition));
    for parameter in query {
        let name = text(parameter, "/name").to_owned();
        let condition = wanted(parameter).map(|text| Condition::Query(name, text));
        conditions.push(condition.unwrap_or(Condition::Never));
    }
    let precedence = Precedence {
        path_kind,
        path_length: value.chars().count(),
        has_method: !method.is_empty(),
        headers: headers.len(),
        query_parameters: query.len(),
    };
    (conditions, precedence, prefix)
}

/// The same for a gRPC match. Services are compared before methods; the longer one is more
/// specific.
fn conditions_of_call(object: &Value) -> (Vec<Condition>, Precedence, Option<String>) {
    let (service, method) = (text(object, "/method/service"), text(object, "/method/method"));
    let is_pattern = text(object, "/method/type") == "RegularExpression";
    let part = |text: &str| match text {
        "" => "[^/]+".to_owned(),
        text if is_pattern => format!("(?:{text})"),
        text => regex::escape(text),
    };
    let mut conditions = vec![Condition::Method(Text::Exact("POST".to_owned()))];
    if !service.is_empty() || !method.is_empty() {
        let path = Text::regex(&format!("/{}/{}", part(service), part(method)));
        conditions.push(path.map_or(Condition::Never, |path| Condition::Path(Path::Text(path))));
    }
    let headers = items(object, "/headers");
    conditions.extend(headers.iter().map(header_condition));
    let precedence = Precedence {
        path_kind: if is_pattern { 1 } else { 2 },
        path_length: service.chars().count() * 1024 + method.chars().count(),
        has_method: true,
        headers: headers.len(),
        query_parameters: 0,
    };
    (conditions, precedence, None)
}

fn header_condition(header: &Value) -> Condition {
    Condition::header(text(header, "/name"), wanted(header))
}

/// The required value of a header or query parameter; `None` for an invalid pattern.
fn wanted(object: &Value) -> Option<Text> {
    match text(object, "/type") {
        "RegularExpression" => Text::regex(text(object, "/value")),
        _ => Some(Text::Exact(text(object, "/value").to_owned())),
    }
}
