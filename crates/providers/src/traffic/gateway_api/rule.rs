//! Rules of a route: conditions, filters, backends, and additions of users.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tidegate_api::canary::{ServiceNames, service::Retries};
use tidegate_engine::Percent;

use super::{
    Version, backend,
    condition::{Condition, conditions},
    filter, grpc,
};
use crate::traffic::{
    RouteCase, RouteError, non_empty,
    plan::{Rule, To},
};

/// Additions of users to the rules that carry traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Foreign {
    fields: Map<String, Value>,
    /// A name is one rule's alone.
    name: Option<Value>,
    filters: Vec<Value>,
}

/// Most digits of one number in a duration, and most numbers in it.
const DURATION_DIGITS_MAX: usize = 5;
const DURATION_PARTS_MAX: usize = 4;

/// A planned rule as rules of the route: one, or one for each condition where the API wants that.
pub(super) fn render(
    version: Version,
    case: &RouteCase<'_>,
    rule: &Rule,
    foreign: &Foreign,
) -> Result<Vec<Value>, RouteError> {
    let conditions = conditions(case, &rule.requests)?;
    if !filter::replaces_prefix(case) {
        return Ok(vec![one(version, case, rule, foreign, (0, &conditions))]);
    }
    if !conditions.iter().all(Condition::is_prefix) {
        let why = "ReplacePrefixMatch needs a prefix in every uri of spec.service.match";
        return Err(case.refuse("spec.service.rewrite.type", why));
    }
    // Counted from the end, so that the last part is the one that keeps its name.
    let mut parts: Vec<_> = conditions.chunks(1).rev().enumerate().collect();
    parts.reverse();
    Ok(parts.into_iter().map(|part| one(version, case, rule, foreign, part)).collect())
}

fn one(
    version: Version,
    case: &RouteCase<'_>,
    rule: &Rule,
    foreign: &Foreign,
    (part, conditions): (usize, &[Condition]),
) -> Value {
    let mut fields = foreign.fields.clone();
    let mut set = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    match (rule.name, &foreign.name) {
        (Some(name), _) if case.cx.fields.rule_name => {
            let name = if part == 0 { name.to_owned() } else { format!("{name}-{part}") };
            set("name", json!(name));
        }
        (None, Some(name)) if part == 0 && rule.to != To::Primary => {
            set("name", name.clone());
        }
        (_, _) => {}
    }
    let matches = if version.is_grpc() {
        grpc::matches(conditions)
    } else {
        Some(conditions.iter().map(Condition::render).collect())
    };
    if let Some(matches) = matches {
        set("matches", matches);
    }
    let mut filters = filter::filters(version, case, rule);
    filters.extend(foreign.filters.iter().cloned());
    if !filters.is_empty() {
        set("filters", Value::Array(filters));
    }
    let names = &case.names;
    let backends = match rule.to {
        To::Both(canary) => vec![
            backend_ref(case, &names.primary, canary.rest(), rule.primary_cookie.as_ref()),
            backend_ref(case, &names.canary, canary, rule.canary_cookie.as_ref()),
        ],
        To::Primary => vec![backend_ref(case, &names.primary, Percent::ALL, None)],
    };
    set("backendRefs", Value::Array(backends));
    if version.full {
        if let Some(timeouts) = timeouts(case).filter(|_| case.cx.fields.timeouts) {
            set("timeouts", timeouts);
        }
        if let Some(retries) = retries_to_write(version, case) {
            set("retry", retry(retries));
        }
    }
    Value::Object(fields)
}

/// Whether a text is a duration in the form of Gateway API: up to four whole numbers with units.
pub(in crate::traffic) fn is_duration(text: &str) -> bool {
    let mut rest = text;
    for _ in 0..DURATION_PARTS_MAX {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=DURATION_DIGITS_MAX).contains(&digits) {
            return false;
        }
        let after = rest.get(digits..).unwrap_or_default();
        // The longer unit first, lest the `m` of `ms` be taken for minutes.
        let units = ["ms", "h", "m", "s"];
        let Some(next) = units.into_iter().find_map(|unit| after.strip_prefix(unit)) else {
            return false;
        };
        if next.is_empty() {
            return true;
        }
        rest = next;
    }
    false
}

/// A backend: one of our Services with the share it gets.
fn backend_ref(
    case: &RouteCase<'_>,
    name: &str,
    weight: Percent,
    cookie: Option<&String>,
) -> Value {
    let mut backend = json!({
        "group": "",
        "kind": "Service",
        "name": name,
        "port": case.service.port,
        "weight": weight.get(),
    });
    if let Some(cookie) = cookie {
        backend["filters"] = json!([filter::add_cookie(cookie)]);
    }
    backend
}

fn timeouts(case: &RouteCase<'_>) -> Option<Value> {
    let service = case.service;
    let texts = [("request", &service.timeout), ("backendRequest", &service.backend_timeout)];
    let said = texts.into_iter().filter_map(|(key, text)| Some((key, non_empty(text.as_ref())?)));
    let timeouts: Map<_, _> = said.map(|(key, text)| (key.to_owned(), json!(text))).collect();
    (!timeouts.is_empty()).then_some(Value::Object(timeouts))
}

fn retries_to_write<'a>(version: Version, case: &RouteCase<'a>) -> Option<&'a Retries> {
    case.service.retries.as_ref().filter(|_| version.full && case.cx.fields.retry)
}

/// Retries in the words of Gateway API, which knows a number and status codes. Failed connections
/// are repeated in any case.
fn retry(retries: &Retries) -> Value {
    let mut codes = BTreeSet::new();
    for word in retries.retry_on.as_deref().unwrap_or_default().split(',') {
        match word.trim() {
            "5xx" => codes.extend([500, 502, 503, 504]),
            "gateway-error" => codes.extend([502, 503, 504]),
            "retriable-4xx" => codes.extend([409]),
            number => {
                codes.extend(number.parse::<u16>().ok().filter(|code| (400..600).contains(code)));
            }
        }
    }
    let mut retry = Map::new();
    if let Some(attempts) = retries.attempts {
        retry.insert("attempts".to_owned(), json!(attempts));
    }
    if !codes.is_empty() {
        retry.insert("codes".to_owned(), json!(codes));
    }
    Value::Object(retry)
}

// === impl Foreign ===

impl Foreign {
    /// Reads them from the rules of a live route that divide traffic. A route that is not ours yet has none:
    /// then from those that lead to the apex Service, filters only; fields may be about requests that are no
    /// longer the same.
    pub(super) fn of(version: Version, case: &RouteCase<'_>, object: &Value) -> Self {
        let rules = object["spec"]["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = &case.names;
        let weighted: Vec<_> = rules.iter().filter(|rule| divides(rule, names)).collect();
        let mut foreign = Self::default();
        if weighted.is_empty() {
            let apex = rules.iter().filter(|rule| backend(rule, &names.apex).is_some());
            apex.for_each(|rule| foreign.add_filters(version, case, rule));
            return foreign;
        }
        for rule in &weighted {
            foreign.add_filters(version, case, rule);
            foreign.add_fields(version, case, rule);
        }
        // Only names that are not ours: cookie rules are removed, and their names with them.
        foreign.name = weighted.last().map(|rule| rule["name"].clone()).filter(Value::is_string);
        foreign
    }

    fn add_filters(&mut self, version: Version, case: &RouteCase<'_>, rule: &Value) {
        for filter in rule["filters"].as_array().into_iter().flatten() {
            let kind = filter["type"].as_str().unwrap_or_default();
            if !filter::is_own(version, case, kind) && !self.filters.contains(filter) {
                self.filters.push(filter.clone());
            }
        }
    }

    fn add_fields(&mut self, version: Version, case: &RouteCase<'_>, rule: &Value) {
        for (key, value) in rule.as_object().into_iter().flatten() {
            let own = match key.as_str() {
                "name" | "matches" | "filters" | "backendRefs" => true,
                "timeouts" => version.full && case.cx.fields.timeouts,
                "retry" => version.full && case.cx.fields.retry,
                _ => false,
            };
            if !own && !self.fields.contains_key(key) {
                self.fields.insert(key.clone(), value.clone());
            }
        }
    }
}

fn divides(rule: &Value, names: &ServiceNames) -> bool {
    backend(rule, &names.primary).is_some() && backend(rule, &names.canary).is_some()
}
