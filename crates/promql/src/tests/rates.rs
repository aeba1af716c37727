//! Growth of counters over a window.

use super::*;

#[test]
fn a_rate_reaches_to_the_ends_of_its_window() {
    let database = load(15, &[("c", "0 10 20 30 40 50 60 70 80")]);
    check(
        &database,
        120,
        &[
            // Samples at 75, 90, 105 and 120: 30 in 45 s, and 15 s more to the window's start.
            ("the open start is one sample away", "increase(c[1m])", "{} 40"),
            ("by the second", "rate(c[1m])", "{} 0.666666667"),
            ("a name does not survive", "rate({__name__=\"c\"}[1m])", "{} 0.666666667"),
            ("offset", "increase(c[1m] offset 30s)", "{} 40"),
            ("a single sample has no rate", "rate(c[15s])", ""),
            ("the difference of a gauge", "delta(c[1m])", "{} 40"),
            ("the last two samples", "irate(c[1m])", "{} 0.666666667"),
            ("the last difference", "idelta(c[1m])", "{} 10"),
        ],
    );
    // At 127 s the last sample is 7 s old; the first, at 75 s, is 8 s into the window.
    check(&database, 127, &[("both ends are near", "increase(c[1m])", "{} 40")]);
}

#[test]
fn growth_goes_on_for_half_a_step_where_a_series_begins_or_ends() {
    let database = load(10, &[("c", "_ _ _ 100 110 120 130 _ _ _ _")]);
    check(
        &database,
        100,
        &[
            // 30 in 30 s; the ends are 30 s and 40 s away, so 5 s are added at each.
            ("neither end is near", "increase(c[100s])", "{} 40"),
            ("nor for a gauge", "delta(c[100s])", "{} 40"),
            ("by the second", "rate(c[100s])", "{} 0.4"),
        ],
    );
    // A distance of exactly 1.1 steps is not near; a millisecond less is.
    check(
        &database,
        60,
        &[
            ("eleven seconds are far", "increase(c[41s])", "{} 35"),
            ("ten are near", "increase(c[40s])", "{} 40"),
        ],
    );
}

#[test]
fn a_counter_was_never_below_zero() {
    let database = load(10, &[("c", "_ 2 12 22"), ("zero", "_ 0 10 20"), ("gauge", "_ -5 5 15")]);
    check(
        &database,
        30,
        &[
            // 20 in 20 s; from 2 it is 2 s down to zero, not 10 s to the window's start.
            ("the slope ends at zero", "increase(c[30s])", "{} 22"),
            ("a counter that starts at zero", "increase(zero[30s])", "{} 20"),
            ("a gauge has no floor", "delta(c[30s])", "{} 30"),
            ("below zero there is no floor either", "increase(gauge[30s])", "{} 30"),
        ],
    );
}

#[test]
fn a_counter_that_falls_began_anew() {
    let database = load(
        10,
        &[
            ("once", "0 10 20 5 15"),
            ("twice", "4 1 3 2 6"),
            ("flat", "7 7 7 7 7"),
            ("odd", "1 NaN 3 2 2"),
        ],
    );
    check(
        &database,
        40,
        &[
            // Samples 10, 20, 5, 15: 5 and the lost 20; 10 s more, where 12 s lead to zero.
            ("what was reached is added", "increase(once[40s])", "{} 33.333333333"),
            // Samples 1, 3, 2, 6: 5 and the lost 3, in 30 s; zero is 3.75 s away.
            ("each time", "increase(twice[40s])", "{} 9"),
            ("the last two, with a reset", "irate(once[31s] offset 10s)", "{} 0.5"),
            ("a gauge just falls", "idelta(once[31s] offset 10s)", "{} -15"),
            ("counted", "resets(twice[1m])", "{} 2"),
            ("changes of any kind", "changes(twice[1m])", "{} 4"),
            ("none", "changes(flat[1m])", "{} 0"),
            ("none at all", "resets(flat[1m])", "{} 0"),
            ("no growth", "increase(flat[1m])", "{} 0"),
            ("not a number is a change", "changes(odd[1m])", "{} 3"),
        ],
    );
}

#[test]
fn rates_of_a_name_and_its_namesake_cannot_be_told_apart() {
    let database = load(10, &[("a{x=\"1\"}", "0 1 2"), ("b{x=\"1\"}", "0 1 2")]);
    assert_eq!(ask(&database, "rate({x=\"1\"}[1m])", 20), "execution");
    let both = "a{x=\"1\"} 2; b{x=\"1\"} 2";
    assert_eq!(ask(&database, "last_over_time({x=\"1\"}[1m])", 20), both);
}

#[test]
fn lines_are_laid_through_samples() {
    let database = load(10, &[("g", "0 2 4 6"), ("bent", "0 3 3 6"), ("flat", "5 5 5 5")]);
    check(
        &database,
        30,
        &[
            ("a straight line", "deriv(g[1m])", "{} 0.2"),
            // x = 0, 10, 20, 30 around 15; covariance 90 + 90 = 90, variance 500.
            ("the least squares", "deriv(bent[1m])", "{} 0.18"),
            ("level", "deriv(flat[1m])", "{} 0"),
            ("ahead", "predict_linear(g[1m], 60)", "{} 18"),
            ("ahead of a level line", "predict_linear(flat[1m], 60)", "{} 5"),
            ("from now, though the window is past", "predict_linear(g[1m] offset 10s, 0)", "{} 6"),
            ("one sample is no line", "deriv(g[5s])", ""),
        ],
    );
}
