//! Semantics as tables: values computed by hand, with a reason per row.
//!
//! Series are written as text, one value every few seconds from zero on: `_` is a missing sample,
//! `stale` the end of the series. Answers are compared as text.

use promql_parser::{label::MatchOp, parser::Expr};

use super::{
    Database, Labels, METRIC_NAME, STALE, Sample, Series, Value,
    numbers::as_digits,
    parse::parse,
    query::{Query, QueryError, Steps},
};

mod aggregation;
mod api;
mod builtin;
mod functions;
mod histograms;

mod operators;
mod random;
mod rates;
mod selectors;

/// A reason, a query, and the expected answer.
type Case<'c> = (&'c str, &'c str, &'c str);

/// Series with a value every `step_s` seconds.
fn load(step_s: i64, rows: &[(&str, &str)]) -> Database {
    let database = Database::new();
    for (series, values) in rows {
        let labels = labels(series);
        for (index, value) in (0..).zip(values.split_whitespace()) {
            let value = match value {
                "_" => continue,
                "stale" => STALE,
                number => number.parse().expect("a value is a number"),
            };
            database.append(&labels, index * step_s * 1_000, value).expect("a fixture is in order");
        }
    }
    database
}

/// Parses labels in selector syntax.
fn labels(text: &str) -> Labels {
    let Ok(Expr::VectorSelector(selector)) = parse(text) else { panic!("`{text}` is a series") };
    let name = (METRIC_NAME, selector.name.as_deref().unwrap_or_default());
    let pairs = selector.matchers.matchers.iter().map(|matcher| {
        assert_eq!(matcher.op, MatchOp::Equal, "`{text}` is a series");
        (matcher.name.as_str(), matcher.value.as_str())
    });
    pairs.chain([name]).collect()
}

/// Runs each query at a time and compares the answers.
fn check(database: &Database, at_s: i64, cases: &[Case<'_>]) {
    for (reason, query, want) in cases {
        assert_eq!(ask(database, query, at_s), *want, "{reason}: {query} at {at_s}");
    }
}

fn ask(database: &Database, query: &str, at_s: i64) -> String {
    match Query::new(query).instant(database, at_s * 1_000) {
        Ok(value) => shown(&value),
        Err(error) => error.kind().to_owned(),
    }
}

fn ask_range(database: &Database, query: &str, steps: Steps) -> String {
    match Query::new(query).range(database, steps) {
        Ok(series) => shown(&Value::Matrix(series)),
        Err(error) => error.kind().to_owned(),
    }
}

/// The elements in sequence; points as `value@second`.
fn shown(value: &Value) -> String {
    let series = |Series { labels, points }: &Series| {
        let points = points.iter();
        let points = points.map(|point| format!("{}@{}", number(point.value), point.at_ms / 1_000));
        format!("{labels} {}", points.collect::<Vec<_>>().join(" "))
    };
    let sample = |Sample { labels, value }: &Sample| format!("{labels} {}", number(*value));
    match value {
        Value::Scalar(value) => number(*value),
        Value::Text(text) => format!("{text:?}"),
        Value::Vector(samples) => samples.iter().map(sample).collect::<Vec<_>>().join("; "),
        Value::Matrix(rows) => rows.iter().map(series).collect::<Vec<_>>().join("; "),
    }
}

/// Nine decimals distinguish a correct formula from a wrong one.
fn number(value: f64) -> String {
    let scaled = value * 1e9;
    as_digits(if scaled.is_finite() { scaled.round() / 1e9 } else { value })
}

fn error_of(database: &Database, query: &str) -> Option<QueryError> {
    Query::new(query).instant(database, 0).err()
}
