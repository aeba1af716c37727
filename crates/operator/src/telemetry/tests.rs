//! The page as Prometheus sees it. Names, labels and codes are an interface.

use super::*;

fn telemetry() -> Telemetry {
    Telemetry::new("1.2.3", "istio", Timestamp::UNIX_EPOCH)
}

/// The page without comments and without series that depend on the machine.
fn samples(telemetry: &Telemetry) -> Vec<String> {
    let page = telemetry.render(Format::Prometheus);
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.filter(|line| !line.starts_with("process_")).map(str::to_owned).collect()
}

#[test]
fn the_page_has_the_series_of_flaggers_dashboards() {
    let telemetry = telemetry();
    let podinfo = Target::new("test", "podinfo");
    telemetry.set_total("test", 2);
    telemetry.set_status(&podinfo, CanaryPhase::Progressing);
    telemetry.set_weight(&podinfo, 70, 30);
    telemetry.observe_duration(&podinfo, Duration::from_millis(300));
    telemetry.set_metric(&podinfo, "request-success-rate", 99.5);
    telemetry.count_success(&podinfo, Strategy::Canary, Analysis::Skipped);
    telemetry.count_failure(&podinfo, Strategy::AbTesting, Analysis::Completed);
    let page = telemetry.render(Format::Prometheus);
    // The encoder keeps series in no order; Prometheus does not mind.
    let mut flagger: Vec<&str> = page.lines().filter(|line| line.contains("flagger_")).collect();
    flagger.sort_unstable();
    let mut golden: Vec<&str> = include_str!("testdata/flagger.txt").lines().collect();
    golden.sort_unstable();
    assert_eq!(flagger, golden);
}

#[test]
fn our_own_series_have_fixed_words_for_labels() {
    let telemetry = telemetry();
    telemetry.set_status(&Target::new("test", "podinfo"), CanaryPhase::Waiting);
    telemetry.count_reconcile("ok", Duration::from_millis(20));
    telemetry.count_decision("shift");
    telemetry.count_hook("rollout", Outcome::Refused);
    telemetry.count_query("prometheus", Outcome::Error("timeout"), Duration::from_secs(5));
    telemetry.count_alert("slack", Outcome::Success);
    telemetry.count_panic();
    telemetry.set_queue(3);
    telemetry.set_leader(true);
    let samples = samples(&telemetry);
    for want in [
        r#"tidegate_canary_phase{name="podinfo",namespace="test",phase="Waiting"} 1"#,
        r#"tidegate_reconciles_total{outcome="ok"} 1"#,
        "tidegate_reconcile_duration_seconds_count 1",
        r#"tidegate_decisions_total{decision="shift"} 1"#,
        r#"tidegate_hooks_total{type="rollout",outcome="refused"} 1"#,
        r#"tidegate_metric_queries_total{provider="prometheus",outcome="timeout"} 1"#,
        r#"tidegate_metric_query_duration_seconds_sum{provider="prometheus"} 5.0"#,
        r#"tidegate_alerts_total{provider="slack",outcome="success"} 1"#,
        "tidegate_panics_total 1",
        "tidegate_queue_depth 3",
        "tidegate_leader 1",
    ] {
        assert!(samples.iter().any(|line| line == want), "no {want} in {samples:#?}");
    }
}

#[test]
fn phases_have_flaggers_codes() {
    let telemetry = telemetry();
    let target = Target::new("test", "podinfo");
    for phase in CanaryPhase::ALL {
        let codes = [(CanaryPhase::Progressing, 0), (CanaryPhase::Failed, 2)];
        let code = codes.iter().find(|(known, _)| known == phase);
        let want = code.map_or(1, |(_, code)| *code);
        telemetry.set_status(&target, *phase);
        let line = format!(r#"flagger_canary_status{{name="podinfo",namespace="test"}} {want}"#);
        let samples = samples(&telemetry);
        assert!(samples.contains(&line), "{phase:?}");
        let phases = samples.iter().filter(|line| line.starts_with("tidegate_canary_phase{"));
        assert_eq!(phases.count(), 1, "a rollout is in one phase, not also in the last one");
    }
}

#[test]
fn a_canary_that_is_gone_leaves_no_series() {
    let telemetry = telemetry();
    let stays = samples(&telemetry);
    let (gone, other) = (Target::new("test", "podinfo"), Target::new("prod", "podinfo"));
    for target in [&gone, &other] {
        telemetry.set_status(target, CanaryPhase::Failed);
        telemetry.set_weight(target, 100, 0);
        telemetry.observe_duration(target, Duration::from_secs(1));
        telemetry.set_metric(target, "latency", 0.1);
        telemetry.set_metric(target, "errors", 0.1);
        telemetry.count_success(target, Strategy::BlueGreen, Analysis::Completed);
        telemetry.count_failure(target, Strategy::Canary, Analysis::Completed);
        for verdict in [Verdict::Passed, Verdict::Failed, Verdict::NoData, Verdict::Held] {
            telemetry.count_check(target, verdict);
        }
    }
    telemetry.forget(&gone);
    assert!(!samples(&telemetry).iter().any(|line| line.contains(r#"namespace="test""#)));
    assert!(samples(&telemetry).len() > stays.len(), "others are not forgotten with it");
    telemetry.forget(&other);
    assert_eq!(samples(&telemetry), stays);
}

#[test]
fn an_emptied_namespace_counts_zero_once_and_is_then_gone() {
    let telemetry = telemetry();
    let totals = |a: usize, b: usize| {
        let totals = [("a".to_owned(), a), ("b".to_owned(), b)].into_iter();
        telemetry.set_totals(&totals.filter(|(_, count)| *count > 0).collect());
    };
    let shown = || {
        let mut lines = samples(&telemetry);
        lines.retain(|line| line.starts_with("flagger_canary_total"));
        lines.sort();
        lines
    };
    let (a, b) =
        (r#"flagger_canary_total{namespace="a"}"#, r#"flagger_canary_total{namespace="b"}"#);
    totals(1, 2);
    totals(0, 3);
    assert_eq!(shown(), [format!("{a} 0"), format!("{b} 3")]);
    assert_eq!(shown(), [format!("{b} 3")], "it was scraped");
    totals(0, 3);
    assert_eq!(shown(), [format!("{b} 3")], "nor does it come back");
    totals(0, 0);
    totals(1, 0);
    assert_eq!(shown(), [format!("{a} 1"), format!("{b} 0")], "unless a canary does");
    assert_eq!(shown(), [format!("{a} 1")]);
}

#[test]
fn a_metric_that_is_not_asked_for_any_more_has_no_series() {
    let telemetry = telemetry();
    let (target, other) = (Target::new("test", "podinfo"), Target::new("test", "other"));
    for target in [&target, &other] {
        telemetry.set_metric(target, "latency", 0.1);
        telemetry.set_metric(target, "errors", 0.1);
    }
    telemetry.keep_metrics(&target, |metric| metric == "errors");
    let lines = samples(&telemetry);
    let of =
        |name: &str| lines.iter().filter(|line| line.contains(&format!("name=\"{name}\""))).count();
    assert_eq!((of("podinfo"), of("other")), (1, 2), "{lines:#?}");
    telemetry.forget(&target);
    telemetry.forget(&other);
    assert!(!telemetry.render(Format::Prometheus).contains("errors"));
}

#[test]
fn counters_are_zero_before_the_first_count() {
    let telemetry = telemetry();
    let podinfo = Target::new("test", "podinfo");
    telemetry.expect(&podinfo, Strategy::BlueGreen);
    let of_run = r#"{name="podinfo",namespace="test",deployment_strategy="blue-green",analysis_status="completed"} 0"#;
    let lines = samples(&telemetry);
    for want in [
        format!("flagger_canary_failures_total{of_run}"),
        format!("flagger_canary_successes_total{of_run}"),
        r#"tidegate_canary_checks_total{name="podinfo",namespace="test",verdict="no_data"} 0"#
            .to_owned(),
        r#"tidegate_alerts_lost_total{provider="slack"} 0"#.to_owned(),
        r#"tidegate_alerts_lost_total{provider="none"} 0"#.to_owned(),
    ] {
        assert!(lines.contains(&want), "no {want} in {lines:#?}");
    }
    telemetry.count_alert("slack", Outcome::Success);
    telemetry.count_alert("slack", Outcome::Error("timeout"));
    assert!(
        samples(&telemetry)
            .contains(&r#"tidegate_alerts_lost_total{provider="slack"} 1"#.to_owned())
    );
    telemetry.expect(&podinfo, Strategy::BlueGreen);
    telemetry.forget(&podinfo);
    assert!(!telemetry.render(Format::Prometheus).contains("podinfo"));
}

#[test]
fn a_metric_without_a_value_shows_no_old_one() {
    let telemetry = telemetry();
    let target = Target::new("test", "podinfo");
    telemetry.set_metric(&target, "latency", 0.1);
    telemetry.clear_metric(&target, "latency");
    assert!(!telemetry.render(Format::Prometheus).contains("latency"));
}

#[test]
fn hostile_names_cannot_break_the_page() {
    let telemetry = telemetry();
    let target = Target::new("test", "podinfo");
    telemetry.set_metric(&target, "a\"} 1\nevil 666\n# TYPE x", f64::NAN);
    let page = telemetry.render(Format::Prometheus);
    assert!(!page.lines().any(|line| line.starts_with("evil")), "{page}");
    assert!(page.contains(r#"metric="a\"} 1\nevil 666\n# TYPE x"} NaN"#), "{page}");
}

#[test]
fn openmetrics_is_for_scrapers_that_ask() {
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4";
    assert_eq!(Format::accepted(Some(accept)), Format::OpenMetrics);
    assert_eq!(Format::accepted(Some("text/plain")), Format::Prometheus);
    assert_eq!(Format::accepted(None), Format::Prometheus);
    let telemetry = telemetry();
    let open = telemetry.render(Format::OpenMetrics);
    assert!(open.ends_with("# EOF\n"));
    assert!(open.contains("# TYPE tidegate_panics counter\n"));
    let plain = telemetry.render(Format::Prometheus);
    assert!(!plain.contains("# EOF"));
    assert!(plain.contains("# TYPE tidegate_panics_total counter\ntidegate_panics_total 0\n"));
    assert!(plain.contains("\nprocess_resident_memory_bytes "));
}
