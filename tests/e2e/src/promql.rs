//! The sandbox's `PromQL` compared with a real Prometheus.
//!
//! Both hold the same samples. Half a second lies between every sample and every edge of a window, so that it does not matter
//! whether windows are open at their start (Prometheus 3 and the sandbox) or closed (Prometheus 2, which distributions ship).

mod corpus;
mod samples;

pub use self::{
    corpus::{Question, broken, builtin, generated, ranked},
    samples::{Row, database, exposition, rows},
};

use std::collections::BTreeMap;

use serde_json::Value;

/// A class of accepted differences.
pub struct Known {
    /// The reason why two versions differ.
    pub why: &'static str,
    /// The most queries it may explain: more must be looked at.
    pub most: usize,
    explains: fn(&Seen) -> bool,
}

/// A query, one difference of its answers, and whether the answers rank the same values.
struct Seen<'a> {
    query: &'a str,
    difference: &'a str,
    ranks_agree: bool,
}

/// The known differences of Prometheus 2 from Prometheus 3, which the sandbox follows, and results that are
/// random there.
const OF_THE_VERSION: &[Known] = &[
    Known {
        why: "the spread of one value that is not finite was zero, and is not a number now",
        most: 6,
        explains: |it| {
            (it.query.contains("stdvar") || it.query.contains("stddev"))
                && it.difference.contains("\"0\" | \"NaN\"")
        },
    },
    Known {
        why: "the hour or day of a moment that is none depends on the machine; the sandbox has none",
        most: 2,
        explains: |it| {
            (it.query.contains("hour(") || it.query.contains("day_of_week("))
                && it.difference.ends_with("| \"NaN\"")
        },
    },
    Known {
        why: "numbers are durations and durations numbers, in seconds",
        most: 3,
        explains: |it| ["a offset 5", "a[5]", "1h"].contains(&it.query),
    },
    Known {
        why: "which of equals, or of numbers that are none, is among the first is not said; each keeps another",
        most: 8,
        explains: |it| it.ranks_agree && is_ranked(it.query),
    },
    Known {
        why: "what comes of the first of equals, or of numbers that are none, is as little said",
        most: 3,
        explains: |it| {
            (it.query.contains("topk") || it.query.contains("bottomk"))
                && !is_ranked(it.query)
                && (it.difference.ends_with(": true | false")
                    || it.difference.ends_with(": false | true"))
        },
    },
    Known {
        why: "names of labels may be anything in UTF-8",
        most: 2,
        explains: |it| it.query.contains("\"1y\"") || it.query.contains("\"9\""),
    },
];

/// Whether the outermost operation of a query ranks.
fn is_ranked(query: &str) -> bool {
    query.starts_with("topk") || query.starts_with("bottomk")
}

/// The differences of two answers to one query: reasons of accepted ones, and the rest.
pub fn judge(query: &str, real: &Value, ours: &Value) -> (Vec<&'static Known>, Vec<String>) {
    let ranks_agree = agree_in_rank(real, ours);
    let (mut known, mut unknown) = (Vec::<&Known>::new(), Vec::new());
    for difference in disagreements(real, ours) {
        let seen = Seen { query, difference: &difference, ranks_agree };
        match OF_THE_VERSION.iter().find(|row| (row.explains)(&seen)) {
            Some(row) if known.iter().all(|it| it.why != row.why) => known.push(row),
            Some(_) => {}
            None => unknown.push(difference),
        }
    }
    (known, unknown)
}

/// Answers within this of each other agree: sums are not computed in the same order.
const TOLERANCE: f64 = 1e-9;

/// All differences of two answers of the HTTP API.
///
/// Failures agree in their kind: their messages are each server's own.
pub fn disagreements(real: &Value, ours: &Value) -> Vec<String> {
    for key in ["status", "errorType"] {
        if real[key] != ours[key] {
            let said = |answer: &Value| format!("{} {}", answer[key], answer["error"]);
            return vec![format!("{key}: {} | {}", said(real), said(ours))];
        }
    }
    let (real, ours) = (&real["data"], &ours["data"]);
    if real["resultType"] != ours["resultType"] {
        return vec![format!("type: {} | {}", real["resultType"], ours["resultType"])];
    }
    if real["resultType"] == "scalar" || real["resultType"] == "string" {
        return different(&real["result"], &ours["result"]).into_iter().collect();
    }
    let (real, ours) = (by_labels(&real["result"]), by_labels(&ours["result"]));
    let only_ours = ours.keys().filter(|labels| !real.contains_key(*labels));
    let labels = real.keys().chain(only_ours);
    let found = labels.filter_map(|labels| match (real.get(labels), ours.get(labels)) {
        (Some(a), Some(b)) => different(a, b).map(|difference| format!("{labels}: {difference}")),
        (a, b) => Some(format!("{labels}: {} | {}", a.is_some(), b.is_some())),
    });
    found.collect()
}

/// The values of an answer in order, by their times.
fn ranks(answer: &Value) -> BTreeMap<String, Vec<f64>> {
    let mut ranks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in answer["data"]["result"].as_array().into_iter().flatten() {
        let points = row["values"].as_array().into_iter().flatten();
        for point in points.chain(row.get("value")) {
            let value = point[1].as_str().and_then(|text| text.parse().ok());
            ranks
                .entry(point[0].as_f64().unwrap_or_default().to_string())
                .or_default()
                .push(value.unwrap_or(f64::NAN));
        }
    }
    for values in ranks.values_mut() {
        values.sort_by(f64::total_cmp);
    }
    ranks
}

fn agree_in_rank(real: &Value, ours: &Value) -> bool {
    let (real, ours) = (ranks(real), ranks(ours));
    let near = |a: &Vec<f64>, b: &Vec<f64>| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_near(*a, *b))
    };
    real.len() == ours.len()
        && real.iter().all(|(moment, values)| ours.get(moment).is_some_and(|it| near(values, it)))
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
    are_near(a, b)
}

fn are_near(a: f64, b: f64) -> bool {
    // NaN and infinity equal only themselves.
    let both_finite = a.is_finite() && b.is_finite();
    a.total_cmp(&b).is_eq()
        || a.is_nan() && b.is_nan()
        || both_finite && (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
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
        let count = |real: &str, ours: &str| disagreements(&vector(real), &vector(ours)).len();
        assert_eq!(count("0.1", "0.10000000000000002"), 0);
        assert_eq!(count("NaN", "NaN"), 0);
        assert_eq!(count("+Inf", "+Inf"), 0);
        assert_eq!(count("0.1", "0.1001"), 1);
        assert_eq!(count("NaN", "1"), 1);
        assert_eq!(count("+Inf", "1"), 1);
    }

    #[test]
    fn failures_agree_in_kind() {
        let failed = |kind: &str, words: &str| json!({ "status": "error", "errorType": kind, "error": words });
        let same = disagreements(&failed("bad_data", "a"), &failed("bad_data", "b"));
        assert!(same.is_empty(), "{same:?}");
        assert_eq!(disagreements(&failed("bad_data", "a"), &failed("execution", "a")).len(), 1);
    }

    #[test]
    fn of_equals_either_may_be_first_and_of_others_none_but_the_first() {
        let answer = |rows: &[(&str, &str)]| {
            let row = |(name, value): &(&str, &str)| json!({ "metric": { "x": name }, "value": [1, value] });
            let result: Vec<Value> = rows.iter().map(row).collect();
            json!({ "status": "success", "data": { "resultType": "vector", "result": result } })
        };
        let unknown = |query: &str, real: &[_], ours: &[_]| {
            judge(query, &answer(real), &answer(ours)).1.len()
        };
        assert_eq!(unknown("topk(1, a)", &[("1", "7")], &[("2", "7")]), 0);
        assert_eq!(unknown("topk(1, a)", &[("1", "NaN")], &[("2", "NaN")]), 0);
        assert_eq!(unknown("topk(1, a)", &[("1", "7")], &[("2", "6")]), 2);
        assert_eq!(unknown("topk(1, a)", &[("1", "7")], &[]), 1);
        assert_eq!(unknown("topk(1, a)", &[("1", "7")], &[("1", "7"), ("2", "7")]), 1);
        assert_eq!(unknown("a", &[("1", "7")], &[("2", "7")]), 2);
    }
}
