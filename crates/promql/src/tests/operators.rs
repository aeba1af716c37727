//! Binary operators and vector matching.

use super::*;

fn answers() -> Database {
    load(
        60,
        &[
            ("errors{job=\"api\", code=\"500\"}", "24"),
            ("errors{job=\"api\", code=\"404\"}", "30"),
            ("errors{job=\"web\", code=\"500\"}", "3"),
            ("requests{job=\"api\"}", "600"),
            ("requests{job=\"db\"}", "7"),
            ("info{job=\"api\", zone=\"north\"}", "1"),
        ],
    )
}

#[test]
fn scalars_are_calculated_and_compared() {
    check(
        &Database::new(),
        0,
        &[
            ("precedence", "1 + 2 * 3 ^ 2", "19"),
            ("powers from the right", "2 ^ 3 ^ 2", "512"),
            ("division by nothing", "1 / 0", "+Inf"),
            ("nothing by nothing", "0 / 0", "NaN"),
            ("a remainder has the sign of the left", "-7 % 3", "-1"),
            ("an angle", "1 atan2 1", "0.785398163"),
            ("a comparison is one or zero", "(1 < bool 2) + (1 == bool 2)", "1"),
            ("NaN equals nothing", "(NaN == bool NaN) + (NaN != bool NaN)", "1"),
        ],
    );
}

#[test]
fn a_scalar_works_on_each_element() {
    let api = "requests{job=\"api\"} 600";
    check(
        &answers(),
        0,
        &[
            ("a value changes, a name goes", "requests / 2", "{job=\"api\"} 300; {job=\"db\"} 3.5"),
            ("on the left", "1200 / requests{job=\"api\"}", "{job=\"api\"} 2"),
            ("a comparison filters", "requests > 100", api),
            ("and keeps the element's value", "100 < requests", api),
            ("or tells", "requests > bool 100", "{job=\"api\"} 1; {job=\"db\"} 0"),
            ("on the left, too", "100 < bool requests", "{job=\"api\"} 1; {job=\"db\"} 0"),
            ("between", "requests >= 7 <= 7", "requests{job=\"db\"} 7"),
        ],
    );
}

#[test]
fn elements_match_by_their_labels() {
    check(
        &answers(),
        0,
        &[
            ("all labels but the name", "requests - requests", "{job=\"api\"} 0; {job=\"db\"} 0"),
            ("the same labels are needed", "errors / requests", ""),
            (
                "ignoring one",
                "errors{code=\"500\"} / ignoring(code) requests",
                "{job=\"api\"} 0.04",
            ),
            ("on one", "errors{code=\"404\"} / on(job) requests", "{job=\"api\"} 0.05"),
            ("on none", "errors{code=\"404\"} / on() requests{job=\"db\"}", "{} 4.285714286"),
            ("a comparison keeps name and value", "requests > on(job) info", "{job=\"api\"} 600"),
            (
                "without `on`, the name stays",
                "requests > ignoring(zone) info",
                "requests{job=\"api\"} 600",
            ),
            ("or tells", "requests > bool ignoring(zone) info", "{job=\"api\"} 1"),
            ("with nothing", "errors / on(job) nowhere", ""),
            ("many on the left", "errors / on(job) requests", "execution"),
            ("many on the right", "requests / on(job) errors", "execution"),
        ],
    );
}

#[test]
fn many_match_one_when_told() {
    let both = "{code=\"404\", job=\"api\"} 0.05; {code=\"500\", job=\"api\"} 0.04";
    check(
        &answers(),
        0,
        &[
            ("many on the left", "errors / on(job) group_left requests", both),
            (
                "many on the right",
                "requests / on(job) group_right errors",
                "{code=\"404\", job=\"api\"} 20; {code=\"500\", job=\"api\"} 25",
            ),
            (
                "labels taken over",
                "errors{code=\"500\"} * on(job) group_left(zone) info",
                "{code=\"500\", job=\"api\", zone=\"north\"} 24",
            ),
            (
                "a comparison gives the left value",
                "requests > on(job) group_right errors{code=\"404\"}",
                "errors{code=\"404\", job=\"api\"} 600",
            ),
            ("the one must be one", "requests * on(job) group_left errors", "execution"),
            (
                "results must be told apart",
                "errors * on(job) group_left(code) requests",
                "execution",
            ),
        ],
    );
}

#[test]
fn vectors_are_sets() {
    let (e404, e500) =
        ("errors{code=\"404\", job=\"api\"} 30", "errors{code=\"500\", job=\"api\"} 24");
    let web = "errors{code=\"500\", job=\"web\"} 3";
    let (api, db) = ("requests{job=\"api\"} 600", "requests{job=\"db\"} 7");
    check(
        &answers(),
        0,
        &[
            ("in both", "errors and on(job) requests", &format!("{e404}; {e500}")),
            ("in the left only", "errors unless on(job) requests", web),
            (
                "in either, the left first",
                "requests or on(job) errors",
                &format!("{api}; {db}; {web}"),
            ),
            ("names do not count", "requests and requests * 2", &format!("{api}; {db}")),
            ("ignoring", "requests and ignoring(zone) info", api),
            ("with nothing", "requests or nowhere", &format!("{api}; {db}")),
            ("a default", "nowhere or vector(0)", "{} 0"),
            ("if anything is there", "requests{job=\"db\"} and on() vector(1)", db),
        ],
    );
}
