use serde_json::json;
use tidegate_engine::Percent;

use super::*;
use crate::canary::testing::Kit;

#[tokio::test(start_paused = true)]
async fn each_verdict_and_each_end_is_counted_apart() {
    let kit = Kit::in_analysis(&json!({}), &json!({}));
    let (telemetry, observation) = (&kit.cx.telemetry, kit.observe());
    let why = || "why".to_owned();
    let verdicts = [
        (Verdict::Passed, "passed"),
        (Verdict::Failed(why()), "failed"),
        (Verdict::NoData(why()), "no_data"),
        (Verdict::Held(why()), "held"),
    ];
    for (times, (verdict, word)) in verdicts.into_iter().enumerate() {
        let checks = Checks { verdict, ..Checks::default() };
        for _ in 0..=times {
            count_check(telemetry, &observation, &checks);
        }
        let line = format!(
            r#"tidegate_canary_checks_total{{name="web",namespace="shop",verdict="{word}"}} {}"#,
            times + 1
        );
        assert!(kit.has_metric(&line), "{line}");
    }
    for outcome in [Outcome::Completed, Outcome::Skipped, Outcome::Skipped, Outcome::Failed] {
        count_rollout(telemetry, &observation, outcome);
    }
    let page = telemetry.render(telemetry::Format::Prometheus);
    let ends: Vec<&str> = page
        .lines()
        .filter(|it| {
            it.starts_with("flagger_canary_successes_total{")
                || it.starts_with("flagger_canary_failures_total{")
        })
        .filter(|it| !it.ends_with(" 0"))
        .collect();
    assert_eq!(ends.len(), 3, "{ends:?}");
    assert!(ends.iter().all(|it| it.contains("canary")), "the strategy");
    assert!(ends.iter().any(|it| it.contains("skipped") && it.ends_with(" 2")), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn the_phase_and_the_weights_are_shown() {
    let kit = Kit::in_analysis(&json!({}), &json!({}));
    let (telemetry, observation) = (&kit.cx.telemetry, kit.observe());
    set_phase(telemetry, &observation, Phase::Failed);
    assert!(kit.has_metric(r#"flagger_canary_status{name="web",namespace="shop"} 2"#));
    telemetry.set_metric(&observation.labels, "of-before", 1.0);
    set_phase(telemetry, &observation, Phase::Progressing);
    assert!(kit.has_metric(r#"flagger_canary_status{name="web",namespace="shop"} 0"#));
    assert!(!kit.has_metric("flagger_canary_metric_analysis{"), "no metric of that name");
    let split = Split { canary: Percent::clamped(30), mirrored: false };
    set_weight(telemetry, &observation, split);
    assert!(kit.has_metric(r#"flagger_canary_weight{workload="web-primary",namespace="shop"} 70"#));
    assert!(kit.has_metric(r#"flagger_canary_weight{workload="web",namespace="shop"} 30"#));
}

#[test]
fn each_strategy_has_its_label() {
    let cases = [
        (Asked::Canary, Strategy::Canary),
        (Asked::AbTesting, Strategy::AbTesting),
        (Asked::BlueGreen, Strategy::BlueGreen),
    ];
    for (asked, want) in cases {
        assert_eq!(strategy(asked), want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_stays_as_long_as_its_metric_is_asked_for() {
    let metric = json!({ "name": "kept", "query": "up", "thresholdRange": { "max": 1 } });
    let kit = Kit::in_analysis(&json!({ "analysis": { "metrics": [metric] } }), &json!({}));
    let (telemetry, observation) = (&kit.cx.telemetry, kit.observe());
    telemetry.set_metric(&observation.labels, "kept", 1.0);
    telemetry.set_metric(&observation.labels, "dropped", 1.0);
    set_phase(telemetry, &observation, Phase::Progressing);
    let gauge = r#"flagger_canary_metric_analysis{name="web",namespace="shop",metric="#;
    assert!(kit.has_metric(&format!(r#"{gauge}"kept"}} 1"#)));
    assert!(!kit.has_metric(&format!(r#"{gauge}"dropped"}}"#)));
}
