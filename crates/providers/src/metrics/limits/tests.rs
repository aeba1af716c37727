//! Values against limits, and the messages about them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Measure::*, *};

/// A metric from words: `min 99 max 100`, `threshold 5`, `range` for one without bounds.
fn metric(limits: &str) -> AnalysisMetric {
    let mut metric = AnalysisMetric { name: "errors".into(), ..AnalysisMetric::default() };
    let mut words = limits.split_whitespace();
    while let Some(word) = words.next() {
        if word == "threshold" {
            metric.threshold = words.next().map(|number| number.parse().unwrap());
            continue;
        }
        let range = metric.threshold_range.get_or_insert_default();
        match word {
            "min" => range.min = words.next().map(|number| number.parse().unwrap()),
            "max" => range.max = words.next().map(|number| number.parse().unwrap()),
            other => assert_eq!(other, "range"),
        }
    }
    metric
}

/// Rows of a reason, a value, limits and the message, if any.
fn check_all(measure: Measure, cases: &[(&str, f64, &str, Option<&str>)]) {
    for (reason, value, limits, want) in cases {
        let check = judge(&metric(limits), measure, Sample::new(*value).unwrap());
        let said = check.breach.as_ref().map(ToString::to_string);
        assert_eq!(said.as_deref(), *want, "{reason}");
        assert_eq!(check.passed(), want.is_none(), "{reason}");
    }
}

#[test]
fn a_success_rate_must_not_be_less() {
    check_all(
        SuccessRate,
        &[
            ("on the least", 99.0, "min 99", None),
            ("below it", 98.694, "min 99", Some("success rate 98.69% < 99%")),
            ("below it by little", 98.999, "min 99", Some("success rate 98.999% < 99%")),
            ("above the most", 100.0, "max 99.5", Some("success rate 100.00% > 99.5%")),
            ("below a threshold", 98.0, "threshold 99", Some("success rate 98.00% < 99%")),
            ("above a threshold", 100.0, "threshold 99", None),
            ("no limit is none", 0.0, "", None),
        ],
    );
}

#[test]
fn a_duration_must_not_be_more() {
    check_all(
        Duration,
        &[
            ("on the most", 500.0, "max 500", None),
            ("over it by little", 500.9, "max 500", Some("request duration 500.9ms > 500ms")),
            ("over it by much", 1515.0, "max 500", Some("request duration 1.515s > 500ms")),
            ("too fast", 3.0, "min 5", Some("request duration 3ms < 5ms")),
            ("too fast by little", 4.9, "min 5", Some("request duration 4ms < 5ms")),
            (
                "below a millisecond",
                0.7,
                "max 0.5",
                Some("request duration 700\u{b5}s > 500\u{b5}s"),
            ),
            ("within half a millisecond", 0.4, "max 0.5", None),
            ("no limit is 0", 3.0, "", Some("request duration 3ms > 0s")),
            ("a threshold is the most", 3.0, "threshold 5", None),
            ("endless", f64::INFINITY, "max 500", Some("request duration +Inf > 500ms")),
        ],
    );
}

#[test]
fn any_other_value_must_not_be_more() {
    check_all(
        Custom,
        &[
            ("on the most", 5.0, "max 5", None),
            ("on the least", 5.0, "min 5", None),
            ("over a threshold", 5.01, "threshold 5", Some("errors 5.01 > 5")),
            ("under a threshold", -1.0, "threshold 5", None),
            ("no limit is 0, on it", 0.0, "", None),
            ("no limit is 0, over it", 0.1, "", Some("errors 0.10 > 0")),
            ("an empty range", 1e9, "range", None),
            ("a range beats a threshold", 9.0, "threshold 5 max 10", None),
            ("a large limit", 2e6, "max 1e6", Some("errors 2000000.00 > 1e+06")),
            ("too small to see", 0.004, "max 0.001", Some("errors 0.004 > 0.001")),
            ("limits nobody can meet", 5.0, "min 9 max 1", Some("errors 5.00 < 9")),
            ("endless", f64::INFINITY, "max 5", Some("errors +Inf > 5")),
            ("endless below a least", f64::NEG_INFINITY, "min 5", Some("errors -Inf < 5")),
            ("endless over a least", f64::INFINITY, "min 5", Some("errors +Inf is not finite")),
            ("endless in any range", f64::NEG_INFINITY, "range", Some("errors -Inf is not finite")),
        ],
    );
}

#[test]
fn a_check_keeps_the_value_in_full() {
    let check = judge(&metric("min 99 max 100"), SuccessRate, Sample::new(98.694).unwrap());
    assert_eq!(check.name, "errors");
    assert!((check.value - 98.694).abs() < f64::EPSILON);
    assert_eq!((check.min, check.max), (Some(99.0), Some(100.0)));
}

#[test]
fn odd_metrics_are_pointed_out() {
    let cases = [
        ("as it should be", json!({ "thresholdRange": { "max": 5 } }), vec![]),
        ("the old way", json!({ "threshold": 5 }), vec![]),
        ("no limit", json!({}), vec![Warning::NoLimit]),
        ("no span", json!({ "threshold": 5, "interval": "1min" }), vec![Warning::Interval]),
        ("no bound", json!({ "thresholdRange": {} }), vec![Warning::EmptyRange]),
        ("crossed", json!({ "thresholdRange": { "min": 2, "max": 1 } }), vec![Warning::Crossed]),
        (
            "both",
            json!({ "threshold": 5, "thresholdRange": { "max": 5 } }),
            vec![Warning::ThresholdIgnored],
        ),
        (
            "asked twice",
            json!({ "name": "request-duration", "threshold": 5, "templateRef": { "name": "t" } }),
            vec![Warning::EvaluatedTwice],
        ),
    ];
    for (reason, limits, want) in cases {
        let mut value = json!({ "name": "errors" });
        let Value::Object(limits) = limits else { panic!("{reason}") };
        value.as_object_mut().unwrap().extend(limits);
        assert_eq!(warnings(&serde_json::from_value(value).unwrap()), want, "{reason}");
    }
}

proptest! {
    #[test]
    fn what_is_within_its_limits_passes_and_nothing_else(
        value: f64,
        min: Option<f64>,
        max: Option<f64>,
    ) {
        prop_assume!(!value.is_nan());
        let usable = |limit: Option<f64>| limit.filter(|limit| limit.is_finite());
        let range = ThresholdRange { min: usable(min), max: usable(max) };
        let within = value.is_finite()
            && range.min.is_none_or(|min| value >= min)
            && range.max.is_none_or(|max| value <= max);
        let metric = AnalysisMetric { threshold_range: Some(range), ..AnalysisMetric::default() };
        for measure in [SuccessRate, Duration, Custom] {
            let check = judge(&metric, measure, Sample::new(value).unwrap());
            prop_assert_eq!(check.passed(), within);
        }
    }

    #[test]
    fn a_breach_never_reads_as_if_the_value_were_on_the_limit(value in 0.0..200.0, limit in 0.0..200.0) {
        let metric = AnalysisMetric {
            threshold_range: Some(ThresholdRange { min: None, max: Some(limit) }),
            ..AnalysisMetric::default()
        };
        for measure in [SuccessRate, Duration, Custom] {
            let check = judge(&metric, measure, Sample::new(value).unwrap());
            if let Some(breach) = check.breach {
                prop_assert_ne!(Some(breach.value), breach.limit);
            }
        }
    }
}
