//! The sandbox's `PromQL` held against a real Prometheus.
//!
//! Both hold the same samples. Half a second lies between every sample and every edge of a window, so that it does not matter
//! whether windows are open at their start (Prometheus 3 and the sandbox) or closed (Prometheus 2, which distributions ship).

mod corpus;
mod samples;

pub use self::{
    corpus::{Question, broken, builtin, generated},
    samples::{Row, database, exposition, rows},
};

use std::collections::BTreeMap;

use serde_json::Value;

/// Why two versions differ, and whether a query and a difference are of that sort.
type Known = (&'static str, fn(&str, &str) -> bool);

/// What Prometheus 2 is known to answer otherwise than Prometheus 3, after which the sandbox is made, or
/// leaves to chance.
const OF_THE_VERSION: &[Known] = &[
    (
        "the spread of one value that is not finite was zero, and is not a number now",
        |query, difference| {
            (query.contains("stdvar") || query.contains("stddev"))
                && difference.contains("\"0\" | \"NaN\"")
        },
    ),
    (
        "the hour or day of a moment that is none depends on the machine; the sandbox has none",
        |query, difference| {
            (query.contains("hour(") || query.contains("day_of_week("))
                && difference.ends_with("| \"NaN\"")
        },
    ),
    ("numbers are durations and durations numbers, in seconds", |query, _| {
        ["a offset 5", "a[5]", "1h"].contains(&query)
    }),
    (
        "which of equals, or of numbers that are none, is among the first is not said; each keeps another",
        |query, difference| {
            (query.contains("topk") || query.contains("bottomk"))
                && (difference.ends_with(": true | false")
                    || difference.ends_with(": false | true"))
        },
    ),
    ("names of labels may be anything in UTF-8", |query, _| {
        query.contains("\"1y\"") || query.contains("\"9\"")
    }),
];

/// Why Prometheus 2 and the sandbox may differ so on this query, if they may.
pub fn explanation(query: &str, difference: &str) -> Option<&'static str> {
    let row = OF_THE_VERSION.iter().find(|(_, explains)| explains(query, difference));
    row.map(|(why, _)| *why)
}

/// Answers within this of each other agree: sums are not made in the same order.
const TOLERANCE: f64 = 1e-9;

/// Where two answers of the HTTP API disagree; nothing if they agree.
///
/// Failures agree in their kind: their words are each server's own.
pub fn disagreement(real: &Value, ours: &Value) -> Option<String> {
    for key in ["status", "errorType"] {
        if real[key] != ours[key] {
            let said = |answer: &Value| format!("{} {}", answer[key], answer["error"]);
            return Some(format!("{key}: {} | {}", said(real), said(ours)));
        }
    }
    let (real, ours) = (&real["data"], &ours["data"]);
    if real["resultType"] != ours["resultType"] {
        return Some(format!("type: {} | {}", real["resultType"], ours["resultType"]));
    }
    if real["resultType"] == "scalar" || real["resultType"] == "string" {
        return different(&real["result"], &ours["result"]);
    }
    let (real, ours) = (by_labels(&real["result"]), by_labels(&ours["result"]));
    let only_ours = ours.keys().filter(|labels| !real.contains_key(*labels));
    for labels in real.keys().chain(only_ours) {
        let (Some(a), Some(b)) = (real.get(labels), ours.get(labels)) else {
            return Some(format!(
                "{labels}: {} | {}",
                real.contains_key(labels),
                ours.contains_key(labels)
            ));
        };
        if let Some(difference) = different(a, b) {
            return Some(format!("{labels}: {difference}"));
        }
    }
    None
}

fn by_labels(result: &Value) -> BTreeMap<String, Value> {
    let rows = result.as_array().into_iter().flatten();
    rows.map(|row| {
        let points = row.get("values").or_else(|| row.get("value")).cloned().unwrap_or_default();
        (row["metric"].to_string(), points)
    })
    .collect()
}

/// Compares points, single or many: times exactly, values with tolerance.
fn different(real: &Value, ours: &Value) -> Option<String> {
    let agree = match (real, ours) {
        (Value::Array(a), Value::Array(b)) => {
            let first = a.iter().zip(b).find_map(|(a, b)| different(a, b));
            return if a.len() == b.len() {
                first
            } else {
                Some(format!("{} | {} points", a.len(), b.len()))
            };
        }
        (Value::String(a), Value::String(b)) => a == b || is_near(a, b),
        (a, b) => a.as_f64() == b.as_f64(),
    };
    (!agree).then(|| format!("{real} | {ours}"))
}

fn is_near(a: &str, b: &str) -> bool {
    let (Ok(a), Ok(b)) = (a.parse::<f64>(), b.parse::<f64>()) else { return false };
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vector(value: &str) -> Value {
        json!({ "status": "success", "data": { "resultType": "vector", "result": [{ "metric": { "a": "b" }, "value": [1, value] }] } })
    }

    #[test]
    fn answers_agree_within_the_last_digits_only() {
        assert_eq!(disagreement(&vector("0.1"), &vector("0.10000000000000002")), None);
        assert_eq!(disagreement(&vector("NaN"), &vector("NaN")), None);
        assert!(disagreement(&vector("0.1"), &vector("0.1001")).is_some());
        assert!(disagreement(&vector("NaN"), &vector("1")).is_some());
    }

    #[test]
    fn failures_agree_in_kind() {
        let failed = |kind: &str, words: &str| json!({ "status": "error", "errorType": kind, "error": words });
        assert_eq!(disagreement(&failed("bad_data", "a"), &failed("bad_data", "b")), None);
        assert!(disagreement(&failed("bad_data", "a"), &failed("execution", "a")).is_some());
    }
}
