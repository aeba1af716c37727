//! Aggregation operators.

use super::*;

fn requests() -> Database {
    load(
        60,
        &[
            ("r{job=\"api\", pod=\"a\"}", "1"),
            ("r{job=\"api\", pod=\"b\"}", "2"),
            ("r{job=\"web\", pod=\"c\"}", "5"),
            ("r{pod=\"d\"}", "2"),
        ],
    )
}

#[test]
fn elements_are_grouped_by_labels() {
    let by_job = "{job=\"api\"} 3; {job=\"web\"} 5; {} 2";
    check(
        &requests(),
        0,
        &[
            ("all of them", "sum(r)", "{} 10"),
            ("by no label", "sum by () (r)", "{} 10"),
            ("by a label", "sum by (job) (r)", by_job),
            ("the clause may follow", "sum(r) by (job)", by_job),
            ("without a label, and without the name", "sum without (pod) (r)", by_job),
            ("by a label that nothing has", "sum by (zone) (r)", "{} 10"),
            ("by the name", "sum by (__name__) (r)", "r{} 10"),
            ("by two labels", "count by (job, pod) (r{job=\"web\"})", "{job=\"web\", pod=\"c\"} 1"),
            ("of nothing", "sum(nowhere)", ""),
        ],
    );
}

#[test]
fn a_group_comes_to_one_value() {
    check(
        &requests(),
        0,
        &[
            ("average", "avg(r)", "{} 2.5"),
            ("least", "min(r)", "{} 1"),
            ("greatest", "max(r)", "{} 5"),
            ("count", "count(r)", "{} 4"),
            ("being there", "group(r)", "{} 1"),
            // Distances from 2.5: -1.5, -0.5, 2.5, -0.5; squares add up to 9.
            ("variance", "stdvar(r)", "{} 2.25"),
            ("deviation", "stddev(r)", "{} 1.5"),
            ("median", "quantile(0.5, r)", "{} 2"),
            (
                "a quantile by label",
                "quantile by (job) (1, r{job!=\"\"})",
                "{job=\"api\"} 2; {job=\"web\"} 5",
            ),
            ("beyond the range", "quantile(-1, r)", "{} -Inf"),
            ("a computed parameter", "quantile(scalar(r{pod=\"a\"}), r)", "{} 5"),
        ],
    );
}

#[test]
fn values_are_counted() {
    check(
        &requests(),
        0,
        &[
            ("each in a label", "count_values(\"v\", r)", "{v=\"1\"} 1; {v=\"2\"} 2; {v=\"5\"} 1"),
            (
                "by label",
                "count_values by (job) (\"v\", r{job=\"api\"})",
                "{job=\"api\", v=\"1\"} 1; {job=\"api\", v=\"2\"} 1",
            ),
            (
                "without labels",
                "count_values without (pod) (\"v\", r{job=\"web\"})",
                "{job=\"web\", v=\"5\"} 1",
            ),
            ("a label needs a name", "count_values(\"\", r)", "execution"),
        ],
    );
}

#[test]
fn the_first_few_keep_their_labels() {
    let (a, b) = ("r{job=\"api\", pod=\"a\"} 1", "r{job=\"api\", pod=\"b\"} 2");
    let (c, d) = ("r{job=\"web\", pod=\"c\"} 5", "r{pod=\"d\"} 2");
    check(
        &requests(),
        0,
        &[
            ("the greatest", "topk(2, r)", &format!("{c}; {b}")),
            ("the least", "bottomk(1, r)", a),
            ("of each group", "topk by (job) (1, r)", &format!("{b}; {c}; {d}")),
            ("more than there are", "bottomk(9, r)", &format!("{a}; {b}; {d}; {c}")),
            ("a part of one is none", "topk(0.9, r)", ""),
            ("less than none", "topk(-1, r)", ""),
            ("not a number of elements", "topk(NaN, r)", "execution"),
            ("too many to count", "topk(1e19, r)", "execution"),
        ],
    );
}

#[test]
fn nan_is_the_worst_of_all() {
    let database = load(60, &[("n{x=\"1\"}", "NaN"), ("n{x=\"2\"}", "2"), ("n{x=\"3\"}", "1")]);
    check(
        &database,
        0,
        &[
            ("never the least", "min(n)", "{} 1"),
            ("never the greatest", "max(n)", "{} 2"),
            ("unless alone", "max(n{x=\"1\"})", "{} NaN"),
            ("last of the greatest", "topk(3, n)", "n{x=\"2\"} 2; n{x=\"3\"} 1; n{x=\"1\"} NaN"),
            ("last of the least", "bottomk(3, n)", "n{x=\"3\"} 1; n{x=\"2\"} 2; n{x=\"1\"} NaN"),
            ("but it spoils a sum", "sum(n)", "{} NaN"),
            ("and an average", "avg(n)", "{} NaN"),
            ("and a variance", "stdvar(n)", "{} NaN"),
            ("first among values", "quantile(0, n)", "{} NaN"),
        ],
    );
}
