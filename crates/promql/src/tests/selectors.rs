//! Samples that a selector finds, by labels and time.

use super::*;

#[test]
fn matchers_compare_whole_values_and_absent_labels_are_empty() {
    let database = load(
        60,
        &[
            ("up{job=\"api\", zone=\"a\"}", "1"),
            ("up{job=\"api-canary\"}", "2"),
            ("up{job=\"web\", zone=\"b\"}", "3"),
            ("down{job=\"api\"}", "4"),
        ],
    );
    let api = "up{job=\"api\", zone=\"a\"} 1";
    let canary = "up{job=\"api-canary\"} 2";
    let web = "up{job=\"web\", zone=\"b\"} 3";
    check(
        &database,
        0,
        &[
            ("a name alone", "up", &format!("{api}; {canary}; {web}")),
            ("an equal value", "up{job=\"web\"}", web),
            ("another value", "up{job!=\"web\"}", &format!("{api}; {canary}")),
            ("a pattern is anchored", "up{job=~\"api\"}", api),
            ("a pattern goes on when told to", "up{job=~\"api.*\"}", &format!("{api}; {canary}")),
            (
                "an excluded pattern is anchored too",
                "up{job!~\"a\"}",
                &format!("{api}; {canary}; {web}"),
            ),
            ("all branches of a pattern are anchored", "up{job=~\"w|api\"}", api),
            ("an empty value means no label", "up{zone=\"\"}", canary),
            ("a label that must be there", "up{zone!=\"\"}", &format!("{api}; {web}")),
            ("the name is a label", "{__name__=~\"d.*\"}", "down{job=\"api\"} 4"),
            ("a quoted name", "{\"down\"}", "down{job=\"api\"} 4"),
            ("all matchers hold", "up{job=~\"api.*\", zone=\"a\"}", api),
            ("nothing is found", "up{job=\"nowhere\"}", ""),
        ],
    );
}

#[test]
fn the_newest_sample_counts_for_five_minutes() {
    let database = load(60, &[("a", "7 8"), ("b", "1 _ 3"), ("gone", "1 2 stale")]);
    for (reason, at_s, query, want) in [
        ("before the second sample", 59, "a", "a{} 7"),
        ("at the second sample", 60, "a", "a{} 8"),
        ("within five minutes", 60 + 299, "a", "a{} 8"),
        ("the look back is open at its start", 60 + 300, "a", ""),
        ("a missed sample is bridged", 60, "b", "b{} 1"),
        ("an ended series", 119, "gone", "gone{} 2"),
        ("ends at once", 120, "gone", ""),
        ("before the first sample", -1, "a", ""),
    ] {
        assert_eq!(ask(&database, query, at_s), want, "{reason}");
    }
}

#[test]
fn offsets_and_fixed_times_move_the_eye() {
    let database = load(60, &[("a", "0 1 2 3 4 5")]);
    check(
        &database,
        240,
        &[
            ("back", "a offset 1m", "a{} 3"),
            ("forward", "a offset -1m", "a{} 5"),
            ("in plain seconds", "a offset 120", "a{} 2"),
            ("fixed", "a @ 60", "a{} 1"),
            ("fixed and then back", "a @ 180 offset 1m", "a{} 2"),
            ("at the start of the query", "a @ start()", "a{} 4"),
            ("at its end", "a @ end()", "a{} 4"),
            ("a window moves as well", "count_over_time(a[2m] offset 2m)", "{} 2"),
            ("a window at a fixed time", "max_over_time(a[2m] @ 120)", "{} 2"),
        ],
    );
}

#[test]
fn a_window_is_open_at_its_start_and_shows_no_marks() {
    let database = load(60, &[("a", "0 1 2 3"), ("b", "5 stale 6 _"), ("c", "9")]);
    check(
        &database,
        180,
        &[
            ("open at its start, closed at its end", "a[2m]", "a{} 2@120 3@180"),
            ("reaching one further", "a[2m1ms]", "a{} 1@60 2@120 3@180"),
            ("a mark is no sample", "b[5m]", "b{} 5@0 6@120"),
            ("a series without samples is left out", "{__name__=~\"b|c\"}[2m]", "b{} 6@120"),
        ],
    );
}

#[test]
fn subqueries_lie_on_multiples_of_their_step() {
    let database = load(30, &[("a", "0 1 2 3 4 5 6 7 8 9 10")]);
    check(
        &database,
        250,
        &[
            ("from the first multiple in the window", "a[2m:1m]", "a{} 6@180 8@240"),
            ("a minute unless told", "a[2m:]", "a{} 6@180 8@240"),
            ("each step is an evaluation", "(a * 2)[1m:30s]", "{} 14@210 16@240"),
            ("moved", "a[1m:1m] offset 1m", "a{} 6@180"),
            ("the greatest rate of all", "max_over_time(rate(a[1m])[3m:30s])", "{} 0.033333333"),
            ("within another", "sum_over_time(count_over_time(a[1m:30s])[2m:1m])", "{} 4"),
        ],
    );
}

#[test]
fn a_range_query_is_an_instant_one_at_each_step() {
    let database = load(60, &[("a{x=\"1\"}", "0 1 2 3 4"), ("a{x=\"0\"}", "_ _ 7 stale")]);
    let steps = Steps { start_ms: 60_000, end_ms: 200_000, step_ms: 60_000 };
    let cases = [
        ("series in the order of labels", "a", "a{x=\"0\"} 7@120; a{x=\"1\"} 1@60 2@120 3@180"),
        ("a scalar is a series without labels", "2", "{} 2@60 2@120 2@180"),
        ("a value at the start", "sum(a @ start())", "{} 1@60 1@120 1@180"),
        ("a value at the end", "sum(a @ end())", "{} 3@60 3@120 3@180"),
        ("the time of each step", "time()", "{} 60@60 120@120 180@180"),
        ("a window has no value at a step", "a[5m]", "bad_data"),
        ("nor has a text", "\"a\"", "bad_data"),
    ];
    for (reason, query, want) in cases {
        assert_eq!(ask_range(&database, query, steps), want, "{reason}");
    }
}

#[test]
fn a_range_query_has_eleven_thousand_points_at_most() {
    let database = load(60, &[("a", "1")]);
    let steps = Steps { start_ms: 0, end_ms: 11_000_000, step_ms: 1_000 };
    assert!(Query::new("1").range(&database, steps).is_ok());
    let more = Steps { end_ms: 11_001_000, ..steps };
    assert_eq!(ask_range(&database, "1", more), "bad_data");
    assert_eq!(ask_range(&database, "1", Steps { step_ms: 0, ..steps }), "bad_data");
}

#[test]
fn a_query_has_a_budget() {
    let database = load(60, &[("a", "1 1 1 1 1 1 1 1")]);
    let frugal = |text| Query::new(text).work_max(10_000).instant(&database, 240_000);
    assert!(frugal("sum_over_time(a[5m:1m])").is_ok());
    let refused = frugal("sum_over_time(a[5m:1s])");
    assert!(matches!(refused, Err(QueryError::Execution(_))), "{refused:?}");
    let endless = Query::new("count_over_time(vector(1)[100y:1ms])").instant(&database, 0);
    assert!(matches!(endless, Err(QueryError::Execution(_))), "{endless:?}");
}

#[test]
fn what_is_not_supported_is_named() {
    let database = Database::new();
    for (query, named) in [
        ("histogram_count(a)", "histogram_count"),
        ("sort_by_label(a, \"b\")", "sort_by_label"),
        ("limitk(1, a)", "limitk"),
        ("a + fill(0) b", "fill"),
        ("a{b=\"c\" or d=\"e\"}", "or"),
        ("mad_over_time(a[5m])", "mad_over_time"),
    ] {
        let error = error_of(&database, query);
        let is_named = matches!(&error, Some(QueryError::BadData(text)) if text.contains(named));
        assert!(is_named, "{query}: {error:?}");
    }
}

#[test]
fn wrong_questions_are_bad_data() {
    let database = load(60, &[("a", "1")]);
    let deep = format!("{}a", "-".repeat(1_990));
    let wrapped = format!("{}a{}", "abs(".repeat(660), ")".repeat(660));
    let chain = ["a"; 990].join(" + ");
    for (reason, query) in [
        ("nothing", ""),
        ("not closed", "sum(a"),
        ("an unknown function", "frobnicate(a)"),
        ("a selector that selects all", "{}"),
        ("a selector that may be empty", "{a=~\".*\"}"),
        ("a function of a window without one", "rate(a)"),
        ("a window where none belongs", "sum(a[5m])"),
        ("a window without a length", "rate(a[])"),
        ("a window of no length", "rate(a[0s])"),
        ("a window shorter than time", "rate(a[0.0001])"),
        ("a window of a thousand years", "rate(a[1000y])"),
        ("a comparison of scalars without bool", "1 > 2"),
        ("a number where a vector belongs", "exp(NaN)"),
        ("a pattern that is none", "a{b=~\"(\"}"),
        ("sets of scalars", "1 and 2"),
        ("an aggregation of a scalar", "sum(1)"),
        ("too few arguments", "histogram_quantile(0.9)"),
        ("deeper than any stack", &deep),
        ("wrapped deeper than any stack", &wrapped),
        ("longer than any sum", &chain),
        ("a time beyond all", "a @ 1e17"),
    ] {
        assert_eq!(ask(&database, query, 0), "bad_data", "{reason}");
    }
}
