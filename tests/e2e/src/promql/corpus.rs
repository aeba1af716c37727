//! The queries: all built-in ones, generated ones, and some invalid ones.

use kube_sandbox::random::Random;

use super::samples::{END_S, START_S};

/// A query and its time.
#[derive(Debug, Clone)]
pub struct Question {
    pub query: String,
    pub start_s: i64,
    /// With a step in seconds: a range; without: an instant.
    pub range: Option<(i64, i64)>,
}

const GENERATED: usize = 1_500;

const BROKEN: &[&str] = &[
    "",
    "a[",
    "a[5m]",
    "sum(",
    "sum(a))",
    "rate(a)",
    "rate(a[5m:])",
    "rate(5)",
    "a +",
    "a + on(x) b[5m]",
    "{}",
    "{x=\"\"}",
    "{x=~\".*\"}",
    "a{x=}",
    "a{x=\"1\"",
    "a{x=~\"(\"}",
    "1 + \"a\"",
    "\"text\"",
    "5",
    "a offset",
    "a offset 5",
    "a @ x",
    "nosuch(a)",
    "abs()",
    "abs(a, b)",
    "abs(1)",
    "clamp_max(a)",
    "topk(a)",
    "topk(\"x\", a)",
    "quantile(a, a)",
    "count_values(1, a)",
    "histogram_quantile(a, b)",
    "label_replace(a, \"y\", \"$1\", \"x\", \"(\")",
    "label_replace(a, \"\", \"$1\", \"x\", \"(.*)\")",
    "label_replace(a, \"1y\", \"$1\", \"x\", \"(.*)\")",
    "a + b[5m]",
    "a[5m] + a",
    "a and 1",
    "1 and a",
    "a == bool b",
    "1 == 1",
    "1 == bool 1",
    "a + on(x) b",
    "a + on(y) group_left() b",
    "a * on(x) one",
    "one * on(x) group_right(y) a",
    "one * on(x) group_left(y) a",
    "a unless on(x) group_left() b",
    "sum by (x",
    "sum by x (a)",
    "sum(a) by (x) by (y)",
    "a[5m] offset 1m",
    "a offset 1m[5m]",
    "a[5m][5m]",
    "a[5m:1m]",
    "a[0s]",
    "a[-5m]",
    "a[5]",
    "a[5x]",
    "a[5m5m]",
    "a[5m1h]",
    "time()",
    "time(1)",
    "vector(a)",
    "scalar(1)",
    "sort(1)",
    "1 ^ 2 ^ 3",
    "-1 ^ 2",
    "- a",
    "--1",
    "+a",
    "!a",
    "a != b",
    "a ! b",
    "a =~ b",
    "1h",
    "0x1F",
    "1_000",
    ".5",
    "5.",
    "1e",
    "Inf",
    "inf",
    "NAN",
    "nan",
    "infinity",
    "a # comment",
    "# comment",
    "a\nand\nb",
    "a;b",
    "a,b",
    "(a",
    "a)",
    "((a))",
    "a @ start()",
    "a @ end()",
    "a @ middle()",
    "a @ 1.5e9",
    "a @ NaN",
    "sum without (x) (a) > 1",
    "avg_over_time(a)",
    "predict_linear(a[5m])",
    "absent(a, b)",
    "absent_over_time(a)",
    "day_of_week(1)",
    "minute()",
    "round(a, 0.5, 1)",
    "rate(a[5m]) offset 1m",
    "label_join(a, \"z\", \"-\")",
    "label_join(a, \"z\", \"-\", \"x\", \"y\")",
    "label_join(a, \"9\", \"-\", \"x\")",
    "holt_winters(a[5m])",
    "on(x)",
    "by(x)",
    "sum",
    "sum sum(a)",
    "a{le=\"0.5\",le=\"1\"}",
    "a{__name__=\"b\"}",
    "{__name__=\"a\"}",
    "{__name__=~\"a|b\"}",
];

/// The first of values no two of which are equal: the result is never random.
const RANKED: &[&str] = &[
    "topk(1, special)",
    "topk(2, special)",
    "topk(3, special)",
    "bottomk(1, special)",
    "bottomk(2, special)",
    "bottomk(3, special)",
    "topk(1, rank)",
    "topk(3, rank)",
    "topk(2.9, rank)",
    "topk(0, rank)",
    "topk(-1, rank)",
    "topk(100, rank)",
    "bottomk(1, rank)",
    "bottomk(5, rank)",
    "topk by (g) (1, rank)",
    "bottomk by (g) (2, rank)",
    "topk without (i) (1, rank)",
    "bottomk by (nowhere) (2, rank)",
    "topk(1, max by (g) (rank))",
    "bottomk(2, max_over_time(rank[2m]))",
    "topk(scalar(one{x=\"1\"}) % 4, rank)",
    "topk(2, -rank)",
    "topk(2, rank > 40)",
    "sum(topk(2, rank))",
    "count by (g) (bottomk(4, rank))",
    "topk(4, rank) / bottomk(6, rank)",
    "topk(1, bottomk(3, rank))",
    "rank unless topk(3, rank)",
];

/// Queries for the first of many, each of which has one right answer.
pub fn ranked() -> Vec<Question> {
    let queries: Vec<String> = RANKED.iter().map(|query| (*query).to_owned()).collect();
    builtin(&queries)
}

/// `queries` at several times, also early ones with few samples.
pub fn builtin(queries: &[String]) -> Vec<Question> {
    let moments = [START_S + 3, START_S + 90, START_S + 600, END_S, END_S + 200, END_S + 900];
    let mut questions = Vec::new();
    for query in queries {
        let at = |start_s: i64| Question { query: query.clone(), start_s, range: None };
        questions.extend(moments.into_iter().map(at));
        questions.push(Question { range: Some((END_S, 30)), ..at(START_S + 60) });
    }
    questions
}

/// Queries by a grammar, from a seed.
pub fn generated() -> Vec<Question> {
    let random = Random::seeded(11);
    let question = |_| {
        let query = vector(&random, 3);
        let start_s = off_the_grid(START_S + 60 + i64::try_from(random.below(1_100)).unwrap_or(0));
        let range = random.chance(0.2).then(|| (start_s + 140, 35));
        Question { query, start_s, range }
    };
    (0..GENERATED).map(question).collect()
}

/// Queries that no server can parse or answer.
pub fn broken() -> Vec<Question> {
    let all = BROKEN.iter();
    all.map(|query| Question {
        query: (*query).to_owned(),
        start_s: off_the_grid(START_S + 600),
        range: None,
    })
    .collect()
}

/// The next second at which no window of a subquery, with any range, step and offset used here, begins on a
/// step: 3 of 20 seconds and 5 of 7. A range query avoids them by steps of 35 seconds.
fn off_the_grid(from_s: i64) -> i64 {
    (from_s..from_s + 140).find(|second| second % 20 == 3 && second % 7 == 5).unwrap_or(from_s)
}

fn pick<'t>(random: &Random, from: &[&'t str]) -> &'t str {
    let index = usize::try_from(random.below(from.len() as u64)).unwrap_or_default();
    from.get(index).copied().unwrap_or_default()
}

fn vector(random: &Random, depth: u32) -> String {
    if depth == 0 || random.chance(0.15) {
        return selector(random)
            + pick(random, &["", "", "", " offset 30s", " offset -1m", " @ 1767226000"]);
    }
    match random.below(10) {
        0..=2 => over_window(random, depth),
        3 | 4 => aggregation(random, depth),
        5 | 6 => operation(random, depth),
        7 => {
            let function = pick(
                random,
                &[
                    "abs",
                    "ceil",
                    "floor",
                    "sgn",
                    "ln",
                    "exp",
                    "sqrt",
                    "absent",
                    "timestamp",
                    "round",
                    "hour",
                    "day_of_week",
                ],
            );
            format!("{function}({})", vector(random, depth - 1))
        }
        8 => {
            let share = pick(random, &["0.5", "0.9", "0.99", "0", "1", "1.5", "-1", "NaN"]);
            let window = pick(random, &["30s", "1m", "5m"]);
            format!("histogram_quantile({share}, sum by (le, x) (rate(h_bucket[{window}])))")
        }
        _ => {
            let inner = vector(random, depth - 1);
            match random.below(4) {
                0 => format!("clamp_max({inner}, {})", number(random)),
                1 => format!("clamp({inner}, -1, {})", number(random)),
                2 => format!("label_replace({inner}, \"z\", \"$1-v\", \"x\", \"(.)\")"),
                _ => format!("label_join({inner}, \"z\", \"-\", \"x\", \"y\")"),
            }
        }
    }
}

fn selector(random: &Random) -> String {
    let name = pick(random, &["a", "b", "a", "b", "one", "special", "h_bucket", "nowhere"]);
    let matchers = pick(
        random,
        &[
            "",
            "",
            "{x=\"1\"}",
            "{x!=\"1\"}",
            "{x=~\"1|2\"}",
            "{y!~\"a\"}",
            "{y=\"\"}",
            "{x=~\"[23]\", y=\"b\"}",
        ],
    );
    format!("{name}{matchers}")
}

fn number(random: &Random) -> &'static str {
    pick(
        random,
        &["0", "1", "-1", "0.5", "2", "10", "1e3", "NaN", "Inf", "time()", "scalar(one{x=\"1\"})"],
    )
}

fn over_window(random: &Random, depth: u32) -> String {
    let function = pick(
        random,
        &[
            "rate",
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
            "stdvar_over_time",
            "present_over_time",
            "absent_over_time",
        ],
    );
    let range = pick(random, &["7s", "30s", "1m", "5m", "10m"]);
    let inner = vector(random, depth - 1);
    // A subquery in another is evaluated on the grid of the outer one.
    let window = if random.chance(0.25) && !inner.contains(':') {
        let step = pick(random, &["20s", "1m", "7s"]);
        let range = pick(random, &["1m", "2m", "5m"]);
        format!("({inner})[{range}:{step}]")
    } else {
        format!("{}[{range}]", selector(random))
    };
    match random.below(12) {
        0 => format!("quantile_over_time({}, {window})", number(random)),
        1 => format!("predict_linear({window}, {})", pick(random, &["60", "-30", "0"])),
        _ => format!("{function}({window})"),
    }
}

fn aggregation(random: &Random, depth: u32) -> String {
    let clause =
        pick(random, &["", "by (x)", "by (y, x)", "without (x)", "without ()", "by ()", "by (z)"]);
    let inner = vector(random, depth - 1);
    match random.below(8) {
        0 => format!("topk {clause} ({}, {inner})", pick(random, &["1", "2", "0", "-1", "100"])),
        1 => format!("bottomk {clause} ({}, {inner})", pick(random, &["1", "3"])),
        2 => format!(
            "quantile {clause} ({}, {inner})",
            pick(random, &["0.5", "0.25", "1", "2", "-1", "NaN"])
        ),
        3 => format!("count_values {clause} (\"v\", {inner})"),
        _ => {
            let operator =
                pick(random, &["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"]);
            format!("{operator} {clause} ({inner})")
        }
    }
}

fn operation(random: &Random, depth: u32) -> String {
    let left = vector(random, depth - 1);
    if random.chance(0.4) {
        let operator =
            pick(random, &["+", "-", "*", "/", "%", "^", ">", "<", "== bool", "!=", ">= bool"]);
        return format!("({left} {operator} {})", number(random));
    }
    let right = vector(random, depth - 1);
    let operator =
        pick(random, &["+", "-", "*", "/", ">", "<= bool", "and", "or", "unless", "== bool"]);
    let is_set = ["and", "or", "unless"].contains(&operator);
    let matching = pick(random, &["", "on(x)", "on(x, y)", "ignoring(y)", "on()"]);
    let grouping = if is_set || matching.is_empty() {
        ""
    } else {
        pick(random, &["", "", "group_left()", "group_right()"])
    };
    format!("({left} {operator} {matching} {grouping} {right})")
}
