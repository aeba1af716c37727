//! Quantiles and fractions of classic histograms.

use super::*;
use crate::histogram::{Bucket, bucket_fraction, bucket_quantile};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// Upper bounds and counts.
type Counts<'c> = &'c [(f64, f64)];

fn buckets(pairs: Counts<'_>) -> Vec<Bucket> {
    pairs.iter().map(|&(upper, count)| Bucket { upper, count }).collect()
}

#[test]
fn a_quantile_lies_within_its_bucket() {
    let usual = [(1.0, 10.0), (2.0, 30.0), (5.0, 40.0), (INF, 50.0)];
    let cases: [(&str, f64, Counts<'_>, f64); 21] = [
        // Rank 25 of 50 is 15 of 20 into the bucket from 1 to 2.
        ("in proportion", 0.5, &usual, 1.75),
        ("the lowest bucket begins at zero", 0.1, &usual, 0.5),
        ("at the end of a bucket", 0.2, &usual, 1.0),
        ("zero is its lower end", 0.0, &usual, 0.0),
        ("of the highest only the lower end is known", 0.9, &usual, 5.0),
        ("all observations", 1.0, &usual, 5.0),
        ("below the range", -0.1, &usual, f64::NEG_INFINITY),
        ("above the range", 1.1, &usual, INF),
        ("no quantile", NAN, &usual, NAN),
        ("a bucket without an end only", 0.5, &[(INF, 10.0)], NAN),
        ("no bucket without an end", 0.5, &[(1.0, 10.0), (2.0, 20.0)], NAN),
        ("nothing observed", 0.5, &[(1.0, 0.0), (INF, 0.0)], NAN),
        ("counts that are no numbers", 0.5, &[(1.0, NAN), (INF, NAN)], 1.0),
        ("a bound that is no number", 0.5, &[(1.0, 1.0), (NAN, 2.0), (INF, 2.0)], NAN),
        ("bounds in any order", 0.5, &[(INF, 50.0), (2.0, 30.0), (1.0, 10.0)], 1.75),
        (
            "bounds that are the same",
            0.5,
            &[(1.0, 5.0), (1.0, 5.0), (2.0, 30.0), (INF, 50.0)],
            1.75,
        ),
        // The count falls from 30 to 20: the bucket from 2 to 3 is empty then.
        ("counts never fall", 0.6, &[(2.0, 30.0), (3.0, 20.0), (4.0, 40.0), (INF, 50.0)], 2.0),
        ("all of them in the highest", 0.5, &[(1.0, 0.0), (INF, 10.0)], 1.0),
        ("a lowest bucket below zero has no lower end", 0.1, &[(-1.0, 10.0), (INF, 20.0)], -1.0),
        (
            "a bucket between negative bounds",
            0.75,
            &[(-2.0, 10.0), (-1.0, 20.0), (INF, 20.0)],
            -1.5,
        ),
        ("negative up to zero", 0.5, &[(0.0, 10.0), (INF, 10.0)], 0.0),
    ];
    for (reason, quantile, pairs, want) in cases {
        let got = bucket_quantile(quantile, buckets(pairs));
        assert_eq!(number(got), number(want), "{reason}");
    }
}

#[test]
fn differences_of_rounding_are_ignored() {
    let count = 1e6;
    let nearly = count * (1.0 + 1e-13);
    let got = bucket_quantile(1.0, buckets(&[(1.0, count), (2.0, nearly), (INF, nearly)]));
    assert_eq!(number(got), "1", "the second bucket is empty but for rounding");
}

#[test]
fn a_fraction_lies_between_two_values() {
    let usual = [(1.0, 10.0), (2.0, 30.0), (5.0, 40.0), (INF, 50.0)];
    let negative = [(-1.0, 10.0), (1.0, 20.0), (INF, 20.0)];
    let cases: [(&str, f64, f64, Counts<'_>, f64); 9] = [
        ("from zero to a bound", 0.0, 1.0, &usual, 0.2),
        ("between bounds", 1.0, 2.0, &usual, 0.4),
        ("in proportion", 0.5, 1.5, &usual, 0.3),
        ("all of them", f64::NEG_INFINITY, INF, &usual, 1.0),
        ("nothing in reverse", 2.0, 1.0, &usual, 0.0),
        ("above the last bound nothing is known", 0.0, 100.0, &usual, 0.8),
        ("below zero nothing is known", f64::NEG_INFINITY, -5.0, &negative, 0.5),
        ("not a number", NAN, 1.0, &usual, NAN),
        ("nothing observed", 0.0, 1.0, &[(INF, 0.0)], NAN),
    ];
    for (reason, lower, upper, pairs, want) in cases {
        let got = bucket_fraction(lower, upper, buckets(pairs));
        assert_eq!(number(got), number(want), "{reason}");
    }
}

#[test]
fn buckets_become_histograms_by_their_other_labels() {
    let database = load(
        60,
        &[
            ("h_bucket{le=\"1\", job=\"a\"}", "0 10"),
            ("h_bucket{le=\"2\", job=\"a\"}", "0 30"),
            ("h_bucket{le=\"+Inf\", job=\"a\"}", "0 50"),
            ("h_bucket{le=\"1\", job=\"b\"}", "0 0"),
            ("h_bucket{le=\"+Inf\", job=\"b\"}", "0 0"),
            ("h_bucket{le=\"one\", job=\"c\"}", "0 1"),
            ("h_bucket{job=\"d\"}", "0 1"),
        ],
    );
    check(
        &database,
        60,
        &[
            (
                "each on its own; what has no bound is passed over",
                "histogram_quantile(0.5, h_bucket)",
                "{job=\"a\"} 1.75; {job=\"b\"} NaN",
            ),
            (
                "of rates, added up",
                "histogram_quantile(0.5, sum by (le) (rate(h_bucket{job=~\"a|b\"}[2m])))",
                "{} 1.75",
            ),
            (
                "the part below a bound",
                "histogram_fraction(0, 1, h_bucket{job=\"a\"})",
                "{job=\"a\"} 0.2",
            ),
            ("without bounds there is no histogram", "histogram_quantile(0.5, sum(h_bucket))", ""),
            ("of nothing", "histogram_quantile(0.5, nowhere)", ""),
        ],
    );
}
