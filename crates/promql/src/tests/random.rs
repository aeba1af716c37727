//! Random queries: each gets an answer, and the same one again.

use http::Method;
use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::respond;

fn fixture() -> Database {
    load(
        20,
        &[
            ("a{x=\"1\", le=\"1\"}", "0 5 9 2 7 NaN 8 9"),
            ("a{x=\"1\", le=\"+Inf\"}", "0 6 9 12 17 20 21 23"),
            ("a{x=\"2\", le=\"0\"}", "1 1 1 _ _ stale 1"),
            ("b{x=\"1\"}", "-1 +Inf 3 -Inf 0 0 1e308 1e308"),
            ("b", "3 2 1 0 -0 1 2 3"),
        ],
    )
}

fn one_of(words: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(words).prop_map(str::to_owned).boxed()
}

fn duration() -> BoxedStrategy<String> {
    one_of(&["1ms", "20s", "1m", "1m30s", "5m", "90", "0.5", "1h", "3y"])
}

/// A selector, with any of the modifiers.
fn selector() -> BoxedStrategy<String> {
    let matchers = one_of(&[
        "",
        "{x=\"1\"}",
        "{x!=\"1\"}",
        "{x=~\"1|2\"}",
        "{x!~\".\"}",
        "{le!=\"\", x=\"2\"}",
    ]);
    (one_of(&["a", "b", "nowhere"]), matchers).prop_map(|(name, rest)| name + &rest).boxed()
}

fn moved(expression: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let modifier = one_of(&["", "", "", " offset 30s", " offset -1m", " @ 60", " @ end()"]);
    (expression, modifier).prop_map(|(expression, modifier)| expression + &modifier).boxed()
}

fn scalar(vector: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let literal = one_of(&["0", "1", "-1", "0.5", "2", "NaN", "Inf", "1e300", "time()", "pi()"]);
    prop_oneof![4 => literal, 1 => vector.prop_map(|vector| format!("scalar({vector})"))].boxed()
}

fn window(vector: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let stored = (selector(), duration()).prop_map(|(from, range)| format!("{from}[{range}]"));
    let step = one_of(&["", "20s", "1m", "7s"]);
    let range = one_of(&["1m", "2m", "5m"]);
    let computed = (vector, range, step)
        .prop_map(|(vector, range, step)| format!("({vector})[{range}:{step}]"));
    moved(prop_oneof![3 => stored, 1 => computed].boxed())
}

fn call(vector: &BoxedStrategy<String>) -> BoxedStrategy<String> {
    let of_vector = one_of(&[
        "abs",
        "ceil",
        "sgn",
        "ln",
        "sqrt",
        "absent",
        "sort",
        "sort_desc",
        "timestamp",
        "year",
        "day_of_week",
        "round",
    ]);
    let of_window = one_of(&[
        "rate",
        "increase",
        "delta",
        "irate",
        "idelta",
        "resets",
        "changes",
        "deriv",
        "avg_over_time",
        "sum_over_time",
        "min_over_time",
        "max_over_time",
        "count_over_time",
        "last_over_time",
        "stddev_over_time",
        "present_over_time",
        "absent_over_time",
    ]);
    let with_scalar = one_of(&["clamp_min", "clamp_max", "round"]);
    let number = || scalar(vector.clone());
    prop_oneof![
        (of_vector, vector.clone()).prop_map(|(name, vector)| format!("{name}({vector})")),
        (of_window, window(vector.clone())).prop_map(|(name, range)| format!("{name}({range})")),
        (with_scalar, vector.clone(), number())
            .prop_map(|(name, vector, number)| format!("{name}({vector}, {number})")),
        (number(), vector.clone())
            .prop_map(|(number, vector)| format!("histogram_quantile({number}, {vector})")),
        (number(), number(), vector.clone())
            .prop_map(|(low, high, vector)| format!("histogram_fraction({low}, {high}, {vector})")),
        (number(), window(vector.clone()))
            .prop_map(|(number, range)| format!("quantile_over_time({number}, {range})")),
        (number(), window(vector.clone()))
            .prop_map(|(number, range)| format!("predict_linear({range}, {number})")),
        number().prop_map(|number| format!("vector({number})")),
        vector.clone().prop_map(|vector| format!(
            "label_replace({vector}, \"y\", \"$1-$2\", \"x\", \"(.)\")"
        )),
        vector
            .clone()
            .prop_map(|vector| format!("label_join({vector}, \"x\", \"-\", \"x\", \"le\")")),
    ]
    .boxed()
}

fn operation(vector: &BoxedStrategy<String>) -> BoxedStrategy<String> {
    let operator = one_of(&[
        "+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=", "> bool",
        "== bool",
    ]);
    let set = one_of(&["and", "or", "unless"]);
    let matching = one_of(&["", "on(x)", "on()", "ignoring(le)", "ignoring(x, le)"]);
    let grouping =
        one_of(&["", "on(x) group_left()", "ignoring(le) group_right(le)", "on(x) group_left(le)"]);
    let how = prop_oneof![matching.clone(), grouping];
    let arithmetic = one_of(&["+", "*", "/", ">", "<= bool", "^"]);
    prop_oneof![
        (vector.clone(), operator, how, vector.clone())
            .prop_map(|(left, operator, how, right)| format!("{left} {operator} {how} {right}")),
        (vector.clone(), set, matching, vector.clone())
            .prop_map(|(left, operator, how, right)| format!("{left} {operator} {how} {right}")),
        (vector.clone(), arithmetic.clone(), scalar(vector.clone()))
            .prop_map(|(left, operator, right)| format!("{left} {operator} {right}")),
        (scalar(vector.clone()), arithmetic, vector.clone())
            .prop_map(|(left, operator, right)| format!("{left} {operator} {right}")),
        vector.clone().prop_map(|vector| format!("-({vector})")),
    ]
    .boxed()
}

fn aggregation(vector: &BoxedStrategy<String>) -> BoxedStrategy<String> {
    let operator = one_of(&["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"]);
    let parametric = one_of(&["topk", "bottomk", "quantile"]);
    let clause = || one_of(&["", "by (x)", "by (le, x)", "without (le)", "without ()", "by ()"]);
    prop_oneof![
        (operator, clause(), vector.clone())
            .prop_map(|(operator, by, vector)| format!("{operator} {by} ({vector})")),
        (parametric, clause(), scalar(vector.clone()), vector.clone()).prop_map(
            |(operator, by, number, vector)| format!("{operator} {by} ({number}, {vector})")
        ),
        (clause(), vector.clone())
            .prop_map(|(by, vector)| format!("count_values {by} (\"v\", {vector})")),
    ]
    .boxed()
}

/// A query that is a vector.
fn vector() -> BoxedStrategy<String> {
    moved(selector())
        .prop_recursive(4, 24, 3, |inner| {
            let inner = inner.boxed();
            let wrapped = prop_oneof![operation(&inner), aggregation(&inner), call(&inner)];
            wrapped.prop_map(|text| format!("({text})"))
        })
        .boxed()
}

proptest! {
    #[test]
    fn a_query_of_the_grammar_is_answered_twice_alike(text in vector()) {
        let database = fixture();
        let query = Query::new(&text).work_max(500_000);
        let answer = query.instant(&database, 140_000);
        prop_assert!(!matches!(answer, Err(QueryError::BadData(_))), "{}: {:?}", text, answer);
        let again = query.instant(&database, 140_000);
        prop_assert_eq!(format!("{:?}", answer), format!("{:?}", again));
    }

    #[test]
    fn a_range_of_one_step_is_an_instant(text in vector()) {
        let database = fixture();
        let query = Query::new(&text).work_max(500_000);
        let at_ms = 140_000;
        let steps = Steps { start_ms: at_ms, end_ms: at_ms, step_ms: 1_000 };
        let (instant, range) = (query.instant(&database, at_ms), query.range(&database, steps));
        let (Ok(Value::Vector(mut samples)), Ok(series)) = (instant, range) else { return Ok(()) };
        samples.sort_by(|a, b| a.labels.cmp(&b.labels));
        let samples = samples.iter().map(|sample| format!("{} {}", sample.labels, sample.value));
        let series = series.iter().flat_map(|row| {
            row.points.iter().map(|point| format!("{} {}", row.labels, point.value))
        });
        prop_assert_eq!(samples.collect::<Vec<_>>(), series.collect::<Vec<_>>());
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,60}") {
        let _ = Query::new(&text).work_max(500_000).instant(&fixture(), 140_000);
    }

    #[test]
    fn a_jumble_of_tokens_is_answered(
        tokens in prop::collection::vec(
            one_of(&[
                "a", "{x=\"1\"}", "[5m]", "[1m:20s]", "[", "]", "(", ")", "{", "}", "1", "1e400",
                "NaN", "Inf", "-", "+", "offset", "@", "start()", "sum", "by", "rate", ",", "\"s\"",
                "0x", "1y1ms", "[1e99]", "^", "==", "bool", "on", "group_left", "#", "'", "\\", "é",
            ]),
            0..25,
        ),
        glue in prop::sample::select(vec!["", " ", "\n"]),
    ) {
        let text = tokens.join(glue);
        let _ = Query::new(&text).work_max(500_000).instant(&fixture(), 140_000);
    }

    #[test]
    fn any_request_is_answered_in_json(
        path in one_of(&[
            "/api/v1/query", "/api/v1/query_range", "/api/v1/series", "/api/v1/labels",
            "/api/v1/label/x/values", "/api/v1/label/%FF/values",
        ]),
        names in prop::collection::vec(
            (
                one_of(&["query", "time", "start", "end", "step", "limit", "match[]", "timeout"]),
                prop_oneof![
                    one_of(&["a", "1", "0", "-1", "1e18", "NaN", "5m", "1e-9", "2026-01-01T00:00:00Z"]),
                    "[a-z0-9%+.:-]{0,12}",
                ],
            ),
            0..6,
        ),
    ) {
        let pairs: Vec<_> = names.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let path = format!("{path}?{}", pairs.join("&"));
        let now = Timestamp::from_second(140).unwrap();
        let answer = respond(&fixture(), now, &Method::GET, &path, &[]);
        prop_assert!([200, 400, 422].contains(&answer.status), "{}: {}", path, answer.status);
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let is_success = answer.status == 200;
        prop_assert_eq!(&body["status"], if is_success { "success" } else { "error" });
    }
}
