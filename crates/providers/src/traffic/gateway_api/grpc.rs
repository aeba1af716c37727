//! `GRPCRoute`: rules about calls, from a canary that describes HTTP requests.
//!
//! A call is a `POST` of `/package.Service/Method`. Conditions on paths of that form become conditions on
//! service and method; conditions without an equivalent for calls are refused, and the refusal names the
//! alternative: to route the calls as the requests they are.

use serde_json::{Map, Value, json};

use super::condition::{Condition, EXACT, PREFIX};
use crate::traffic::{RouteCase, RouteError, non_empty};

/// Appended to every refusal.
const WAY_OUT: &str = "leave it out, or set appProtocol to http to route calls as HTTP requests";

/// Which calls a path means.
#[derive(Debug, PartialEq, Eq)]
enum Call<'p> {
    All,
    Service(&'p str),
    Method(&'p str, &'p str),
}

/// Refuses a spec with conditions or settings that calls do not have.
pub(super) fn check(case: &RouteCase<'_>) -> Result<(), RouteError> {
    let refuse = |field: &str, what: &str| {
        Err(case.refuse(format!("spec.{field}"), format!("a GRPCRoute {what}; {WAY_OUT}")))
    };
    let service = case.service;
    let unsaid = [
        ("service.rewrite", service.rewrite.is_some()),
        ("service.corsPolicy", service.cors_policy.is_some()),
        ("service.timeout", non_empty(service.timeout.as_ref()).is_some()),
        ("service.backendTimeout", non_empty(service.backend_timeout.as_ref()).is_some()),
    ];
    if let Some((field, _)) = unsaid.iter().find(|(_, is_asked)| *is_asked) {
        return refuse(field, "has no such setting");
    }
    for (index, condition) in service.matches.iter().enumerate() {
        let field = |member: &str| format!("service.match[{index}].{member}");
        if !condition.query_params.is_empty() {
            return refuse(&field("queryParams"), "cannot tell calls apart by it");
        }
        let method = condition.method.as_ref().map(|method| method.exact.as_deref());
        if method.is_some_and(|method| method != Some("POST")) {
            return refuse(&field("method"), "has calls only, all of which are POST");
        }
    }
    for (index, condition) in case.cx.spec.analysis.matches.iter().enumerate() {
        if !condition.query_params.is_empty() {
            let field = format!("analysis.match[{index}].queryParams");
            return refuse(&field, "cannot tell calls apart by it");
        }
    }
    let all = super::condition::conditions(case, &crate::traffic::plan::Requests::All)?;
    match all.iter().find(|condition| call(condition).is_none()) {
        Some(_) => refuse(
            "service.match",
            "can compare a path with exact /package.Service/Method and prefix /package.Service/ only",
        ),
        None => Ok(()),
    }
}

/// The conditions as items of `matches`; none where all calls are meant.
pub(super) fn matches(conditions: &[Condition]) -> Option<Value> {
    let items: Vec<_> = conditions.iter().map(item).collect();
    let is_narrow = items.iter().all(|item| !item.is_empty());
    is_narrow.then(|| items.into_iter().map(Value::Object).collect())
}

fn item(condition: &Condition) -> Map<String, Value> {
    let method = match call(condition) {
        Some(Call::Service(service)) => Some(json!({ "type": EXACT, "service": service })),
        Some(Call::Method(service, method)) => {
            Some(json!({ "type": EXACT, "service": service, "method": method }))
        }
        Some(Call::All) | None => None,
    };
    let headers = condition.headers();
    let headers = (!headers.is_empty()).then_some(Value::Array(headers));
    let members = [("method", method), ("headers", headers)];
    members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn call(condition: &Condition) -> Option<Call<'_>> {
    let Some((kind, path)) = condition.path() else { return Some(Call::All) };
    let path = path.strip_prefix('/')?;
    let mut parts = path.split('/');
    match (kind, parts.next()?, parts.next(), parts.next()) {
        (PREFIX, "", None, None) => Some(Call::All),
        (PREFIX, service, None | Some(""), None) if !service.is_empty() => {
            Some(Call::Service(service))
        }
        (EXACT, service, Some(method), None) if !service.is_empty() && !method.is_empty() => {
            Some(Call::Method(service, method))
        }
        _ => None,
    }
}
