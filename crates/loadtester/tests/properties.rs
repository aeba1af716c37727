//! Any request is understood or refused, and never a panic.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_loadtester::{
    duration,
    load::{BodyFiles, Bounds, Histogram, Plan, Tool},
    payload::Payload,
};

/// Words as they stand on command lines, with some that look like flags and values.
fn words() -> impl Strategy<Value = Vec<String>> {
    let flag = "-{1,2}[a-zA-Z2-]{1,10}(=.{0,8})?";
    let value =
        prop_oneof!["[0-9]{1,25}[kMGsmhu]?", "https?://[a-z:@./?\\[\\]0-9]{0,20}", ".{0,10}"];
    prop::collection::vec(prop_oneof![flag.prop_map(String::from), value], 0..8)
}

proptest! {
    #[test]
    fn command_lines(words in words()) {
        let bounds = Bounds { connections_max: 100, body_files: BodyFiles::Refused };
        for tool in [Tool::Hey, Tool::Wrk] {
            if let Ok(plan) = Plan::parse(tool, &words, &bounds) {
                prop_assert!(plan.connections.get() <= 100);
                prop_assert!(!plan.target.host.is_empty());
                prop_assert!(plan.target.path.starts_with('/'));
                let is_clean = |text: &str| !text.contains(['\r', '\n', ' ']);
                prop_assert!(is_clean(&plan.target.path) && is_clean(&plan.target.authority));
            }
        }
    }

    #[test]
    fn payloads(body in prop::collection::vec(any::<u8>(), 0..100), json in "\\{.{0,60}\\}") {
        let _whatever = Payload::parse(&body);
        let _whatever = Payload::parse(json.as_bytes());
    }

    #[test]
    fn durations(text in "[0-9.]{0,25}(ns|us|ms|s|m|h|x)?([0-9]{1,4}s)?") {
        if let Ok(duration) = duration::parse(&text) {
            prop_assert!(duration <= Duration::from_hours(366 * 24));
        }
    }

    #[test]
    fn percentiles_rise_and_stay_within_bounds(nanos in prop::collection::vec(any::<u64>(), 1..50)) {
        let mut histogram = Histogram::default();
        for nanos in &nanos {
            histogram.record(Duration::from_nanos(*nanos));
        }
        let percents = [0.0, 1.0, 50.0, 90.0, 99.0, 99.99, 100.0];
        let values = percents.map(|percent| histogram.percentile(percent));
        prop_assert!(values.is_sorted());
        prop_assert!(values[0] >= histogram.min() && values[6] <= histogram.max());
    }
}
