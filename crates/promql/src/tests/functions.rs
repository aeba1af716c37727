//! Functions of values, windows, labels and time.

use super::*;

#[test]
fn functions_over_a_window() {
    let database = load(10, &[("g", "4 1 3 2 10"), ("n", "NaN 2 NaN 1"), ("none", "NaN NaN")]);
    check(
        &database,
        40,
        &[
            ("sum", "sum_over_time(g[1m])", "{} 20"),
            ("average", "avg_over_time(g[1m])", "{} 4"),
            ("least", "min_over_time(g[1m])", "{} 1"),
            ("greatest", "max_over_time(g[1m])", "{} 10"),
            ("count", "count_over_time(g[1m])", "{} 5"),
            ("presence", "present_over_time(g[1m])", "{} 1"),
            ("a window of two", "sum_over_time(g[20s])", "{} 12"),
            ("the first keeps its name", "first_over_time(g[1m])", "g{} 4"),
            ("the last keeps its name", "last_over_time(g[1m])", "g{} 10"),
            // Distances from 4: 0, -3, -1, -2, 6; squares add up to 50.
            ("variance", "stdvar_over_time(g[1m])", "{} 10"),
            ("deviation", "stddev_over_time(g[1m])", "{} 3.16227766"),
            ("median", "quantile_over_time(0.5, g[1m])", "{} 3"),
            ("between the two highest", "quantile_over_time(0.9, g[1m])", "{} 7.6"),
            ("beyond the range", "quantile_over_time(2, g[1m])", "{} +Inf"),
            ("NaN is never the least", "min_over_time(n[1m])", "{} 1"),
            ("nor the greatest", "max_over_time(n[1m])", "{} 2"),
            ("but it spoils a sum", "sum_over_time(n[1m])", "{} NaN"),
            ("unless there is nothing else", "max_over_time(none[1m])", "{} NaN"),
            ("nothing of nothing", "sum_over_time(nowhere[1m])", ""),
        ],
    );
}

#[test]
fn functions_of_a_value() {
    let database = load(10, &[("g", "-2.5"), ("none", "NaN"), ("x", "100")]);
    check(
        &database,
        0,
        &[
            ("without its sign", "abs(g)", "{} 2.5"),
            ("up", "ceil(g)", "{} -2"),
            ("down", "floor(g)", "{} -3"),
            ("ties go up", "round(g)", "{} -2"),
            ("to a multiple", "round(x / 7, 0.1)", "{} 14.3"),
            ("to a large one", "round(x, 30)", "{} 90"),
            ("the sign alone", "sgn(g)", "{} -1"),
            ("the sign of NaN", "sgn(none)", "{} NaN"),
            ("a root", "sqrt(x)", "{} 10"),
            ("a root of less than nothing", "sqrt(g)", "{} NaN"),
            ("logarithms", "log10(x) + log2(x ^ 0 * 8) + ln(exp(x ^ 0))", "{} 6"),
            ("the logarithm of nothing", "ln(x - 100)", "{} -Inf"),
            ("half a turn", "deg(x ^ 0 * pi())", "{} 180"),
            ("from above", "clamp_max(x, 7)", "{} 7"),
            ("from below", "clamp_min(g, -1)", "{} -1"),
            ("both", "clamp(x, 0, 9)", "{} 9"),
            ("bounds that leave nothing", "clamp(x, 9, 0)", ""),
            ("NaN stays NaN", "clamp(none, 0, 1)", "{} NaN"),
            ("all elements", "abs({__name__=~\"g|x\"} * 2)", "execution"),
        ],
    );
}

#[test]
fn scalars_and_vectors_turn_into_each_other() {
    let database = load(10, &[("a{x=\"1\"}", "1 2"), ("a{x=\"2\"}", "5 6"), ("b", "3")]);
    check(
        &database,
        10,
        &[
            ("the only element", "scalar(b)", "3"),
            ("of several, none", "scalar(a)", "NaN"),
            ("of none, none", "scalar(nowhere)", "NaN"),
            ("a vector of one", "vector(1)", "{} 1"),
            ("a computed one", "vector(scalar(b) + 1)", "{} 4"),
            ("the time", "time()", "10"),
            ("a text", "\"text\"", "\"text\""),
            ("a number in hex", "0x1F", "31"),
            ("a duration is seconds", "1m30s", "90"),
            ("not a number", "NaN", "NaN"),
            ("no end", "-Inf", "-Inf"),
            ("when a sample was taken", "timestamp(b)", "{} 0"),
            ("in parentheses too", "timestamp((b))", "{} 0"),
            ("a computed value is of now", "timestamp(b + 0)", "{} 10"),
            ("negated", "-a", "{x=\"1\"} -2; {x=\"2\"} -6"),
            ("a power binds tighter than its sign", "-2 ^ 2", "-4"),
        ],
    );
}

#[test]
fn absence_is_a_value() {
    let database = load(10, &[("a", "1")]);
    check(
        &database,
        0,
        &[
            ("present", "absent(a)", ""),
            ("absent", "absent(b)", "{} 1"),
            ("with the labels it would have", "absent(b{x=\"1\", y!=\"2\"})", "{x=\"1\"} 1"),
            ("a label that is asked for twice", "absent(b{x=\"1\", x=\"2\"})", "{} 1"),
            ("of a computed vector nothing is known", "absent(sum(b{x=\"1\"}))", "{} 1"),
            ("over time", "absent_over_time(b{x=\"1\"}[5m])", "{x=\"1\"} 1"),
            ("present over time", "absent_over_time(a[5m])", ""),
        ],
    );
}

#[test]
fn labels_are_made_of_others() {
    let database = load(10, &[("a{pod=\"web-7f-x\", ns=\"test\"}", "1"), ("a{pod=\"db\"}", "2")]);
    let replace = |rest: &str| format!("label_replace(a, {rest})");
    check(
        &database,
        0,
        &[
            (
                "parts of a value",
                &replace("\"app\", \"$1\", \"pod\", \"(.*)-.*-.*\""),
                "a{app=\"web\", ns=\"test\", pod=\"web-7f-x\"} 1; a{pod=\"db\"} 2",
            ),
            (
                "a pattern is anchored",
                &replace("\"app\", \"x\", \"pod\", \"b\""),
                "a{ns=\"test\", pod=\"web-7f-x\"} 1; a{pod=\"db\"} 2",
            ),
            (
                "an empty value removes the label",
                &replace("\"ns\", \"\", \"ns\", \".*\""),
                "a{pod=\"web-7f-x\"} 1; a{pod=\"db\"} 2",
            ),
            (
                "what would be the same",
                &replace("\"pod\", \"\", \"\", \"\""),
                "a{ns=\"test\"} 1; a{} 2",
            ),
            (
                "a name can be given",
                "label_replace(vector(1), \"__name__\", \"n\", \"\", \"\")",
                "n{} 1",
            ),
            ("a pattern that is none", &replace("\"x\", \"\", \"y\", \"(\""), "execution"),
            ("a label without a name", &replace("\"\", \"\", \"y\", \"\""), "execution"),
            (
                "values side by side",
                "label_join(a, \"id\", \"/\", \"ns\", \"pod\")",
                "a{id=\"test/web-7f-x\", ns=\"test\", pod=\"web-7f-x\"} 1; a{id=\"/db\", pod=\"db\"} 2",
            ),
            ("two that become one", "label_join(sum by (pod) (a), \"pod\", \"\")", "execution"),
        ],
    );
}

#[test]
fn vectors_are_sorted_by_value() {
    let database = load(10, &[("a{x=\"1\"}", "2"), ("a{x=\"2\"}", "NaN"), ("a{x=\"3\"}", "1")]);
    check(
        &database,
        0,
        &[
            ("ascending", "sort(a)", "a{x=\"3\"} 1; a{x=\"1\"} 2; a{x=\"2\"} NaN"),
            ("descending", "sort_desc(a)", "a{x=\"1\"} 2; a{x=\"3\"} 1; a{x=\"2\"} NaN"),
        ],
    );
}

#[test]
fn the_calendar_is_that_of_utc() {
    // 2026-02-28 23:59:59, a Saturday.
    let database = load(10, &[("at", "1772323199"), ("never", "1e300")]);
    check(
        &database,
        0,
        &[
            ("year", "year(at)", "{} 2026"),
            ("month", "month(at)", "{} 2"),
            ("day", "day_of_month(at)", "{} 28"),
            ("Sunday is zero", "day_of_week(at)", "{} 6"),
            ("day of the year", "day_of_year(at)", "{} 59"),
            ("days of the month", "days_in_month(at)", "{} 28"),
            ("hour", "hour(at)", "{} 23"),
            ("minute", "minute(at)", "{} 59"),
            ("of now, unless told", "year()", "{} 1970"),
            ("no such year", "year(never)", "{} NaN"),
        ],
    );
}
