//! Accessors for JSON objects, shared by printers. An absent field reads as its zero value.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::human_duration;

pub(super) fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

/// Time since creation.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

/// Time since a timestamp; `<unknown>` if there is none.
pub(super) fn since(timestamp: &Value, now: Timestamp) -> String {
    instant(timestamp).map_or_else(|| "<unknown>".to_owned(), |then| between(then, now))
}

pub(super) fn between(start: Timestamp, end: Timestamp) -> String {
    human_duration(end.duration_since(start).as_secs())
}

pub(super) fn instant(timestamp: &Value) -> Option<Timestamp> {
    timestamp.as_str()?.parse().ok()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn text_or<'v>(value: &'v Value, absent: &'v str) -> &'v str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(absent)
}

pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn members(value: &Value) -> usize {
    value.as_object().map_or(0, Map::len)
}

/// A number, a quantity or a percentage, unchanged.
pub(super) fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// The texts of the items, joined with `separator`.
pub(super) fn joined<'v>(texts: impl Iterator<Item = &'v Value>, separator: &str) -> String {
    texts.map(text).collect::<Vec<_>>().join(separator)
}

/// The wide columns of kinds with a pod template: names and images of its containers.
pub(super) fn container_cells(pod_spec: &Value) -> [Value; 2] {
    let containers = items(&pod_spec["containers"]);
    let column = |key: &str| joined(containers.iter().map(|container| &container[key]), ",").into();
    [column("name"), column("image")]
}

/// `a=1,b=2`, or `<none>`.
pub(super) fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let shown: Vec<_> = pairs.map(|(key, value)| format!("{key}={}", text(value))).collect();
    none_if_empty(shown.join(","))
}

pub(super) fn none_if_empty(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// A label selector in one line, sorted by key; empty if it has no requirements.
pub(super) fn selector(selector: &Value) -> Result<String, UnknownOperator> {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut requirements: Vec<(&str, String)> =
        equal.map(|(key, value)| (key.as_str(), format!("{key}={}", text(value)))).collect();
    for expression in items(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let mut values: Vec<_> = items(&expression["values"]).iter().map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(&expression["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return Err(UnknownOperator),
        };
        requirements.push((key, shown));
    }
    requirements.sort_by_key(|(key, _)| *key);
    let shown: Vec<_> = requirements.into_iter().map(|(_, shown)| shown).collect();
    Ok(shown.join(","))
}

/// An operator that label selectors do not have.
pub(super) struct UnknownOperator;

/// A selector column, with `<none>` for an empty selector.
pub(super) fn selector_cell(value: &Value) -> Value {
    selector(value).map_or_else(|_| "<error>".to_owned(), none_if_empty).into()
}

pub(super) fn condition<'v>(object: &'v Value, type_: &str) -> Option<&'v Value> {
    items(&object["status"]["conditions"]).iter().find(|condition| condition["type"] == *type_)
}

pub(super) fn is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|condition| condition["status"] == "True")
}

/// The first `max` texts and the number of others: `a,b,c + 2 more...`.
pub(super) fn first_few(texts: &[String], max: usize, separator: &str) -> String {
    let shown = texts.iter().take(max).map(String::as_str).collect::<Vec<_>>().join(separator);
    match texts.len().saturating_sub(max) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}
