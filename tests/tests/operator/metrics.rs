//! The metrics for Prometheus: Flagger's series with the right values, and none of deleted objects.

use std::time::Duration;

use serde_json::json;
use tidegate_operator::telemetry::Format;
use tidegate_tests::rollout::{CANARIES, DEPLOYMENTS, World, deployment};

use crate::stage::{
    GATEWAY_API, at_share, blue_green, break_metrics, by_weight, canary_of, initialized,
    initialized_with, measured, reach, release,
};

pub(crate) fn page(world: &World) -> String {
    let telemetry = world.telemetry.borrow();
    telemetry.as_ref().expect("an operator was started").render(Format::Prometheus)
}

/// The value of the series with this prefix and all of these labels.
pub(crate) fn value(world: &World, name: &str, labels: &[&str]) -> Option<f64> {
    let page = page(world);
    let is_it = |line: &&str| {
        line.split(['{', ' ']).next() == Some(name) && labels.iter().all(|it| line.contains(it))
    };
    let line = page.lines().filter(|line| !line.starts_with('#')).find(is_it)?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn the_metrics_server_is_asked_once_at_the_start() {
    use tidegate_operator::probe_server;
    use tidegate_tests::network::{Metric, Network, PROBE, Reply};
    let network = Network::new();
    let probe = || probe_server(&network, "http://prometheus:9090", Duration::from_secs(10));
    assert_eq!(probe().await, Ok(()));
    assert_eq!(network.calls().len(), 1);
    let cases = [
        (Metric::Reply(Reply::Refuse), "cannot connect"),
        (Metric::Reply(Reply::Status(502, "<html>".to_owned())), "502"),
        (Metric::Value(2.0), "cannot be read"),
        (Metric::Nothing, "no values found"),
    ];
    for (metric, words) in cases {
        network.metric(PROBE, metric);
        let why = probe().await.expect_err("it is ill");
        assert!(why.contains(words), "{why}");
    }
}

/// Of the canary, its primary, or a route of it; not of a word that begins alike.
fn is_of_web(line: &str) -> bool {
    line.contains("\"web\"") || line.contains("\"web-")
}

const WEB: [&str; 2] = ["name=\"web\"", "namespace=\"default\""];

#[tokio::test(start_paused = true)]
async fn flaggers_series_follow_a_good_rollout() {
    let mut analysis = measured(by_weight());
    let duration = json!({ "name": "request-duration", "thresholdRange": { "max": 500 } });
    analysis["metrics"].as_array_mut().expect("it has one").push(duration);
    let world = at_share(GATEWAY_API, analysis, 40).await;
    assert_eq!(value(&world, "flagger_info", &["mesh_provider=\"kubernetes\""]), Some(1.0));
    assert_eq!(value(&world, "flagger_canary_total", &["namespace=\"default\""]), Some(1.0));
    assert_eq!(value(&world, "flagger_canary_status", &WEB), Some(0.0));
    let weight = |world: &World, workload: &str| {
        value(world, "flagger_canary_weight", &[&format!("workload=\"{workload}\"")])
    };
    assert_eq!((weight(&world, "web-primary"), weight(&world, "web")), (Some(60.0), Some(40.0)));
    let metric = |world: &World, name: &str| {
        value(world, "flagger_canary_metric_analysis", &[&format!("metric=\"{name}\"")])
    };
    assert_eq!(metric(&world, "request-success-rate"), Some(100.0));
    assert_eq!(metric(&world, "request-duration"), Some(0.000_05), "in seconds");
    let successes = ["deployment_strategy=\"canary\"", "analysis_status=\"completed\""];
    let counted = |world: &World| value(world, "flagger_canary_successes_total", &successes);
    assert_eq!(counted(&world), Some(0.0), "so that the first one is an increase");
    reach(&world, "Succeeded").await;
    world.settle().await;
    assert_eq!(counted(&world), Some(1.0));
    assert_eq!(value(&world, "flagger_canary_status", &WEB), Some(1.0));
    assert_eq!((weight(&world, "web-primary"), weight(&world, "web")), (Some(100.0), Some(0.0)));
}

#[tokio::test(start_paused = true)]
async fn check_ticks_are_timed() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 40).await;
    let counted = value(&world, "flagger_canary_duration_seconds_count", &WEB);
    assert!(counted.is_some_and(|counted| counted >= 2.0), "{}", page(&world));
}

#[tokio::test(start_paused = true)]
async fn flaggers_series_follow_a_bad_rollout() {
    let world = initialized(GATEWAY_API, measured(blue_green())).await;
    release(&world, "web:2.0");
    assert!(world.until(60, |world| world.status("web")["iterations"] == 1).await);
    break_metrics(&world);
    reach(&world, "Failed").await;
    world.settle().await;
    assert_eq!(value(&world, "flagger_canary_status", &WEB), Some(2.0));
    let failures = ["deployment_strategy=\"blue-green\"", "analysis_status=\"completed\""];
    assert_eq!(value(&world, "flagger_canary_failures_total", &failures), Some(1.0));
    let metric = ["metric=\"request-success-rate\""];
    assert_eq!(value(&world, "flagger_canary_metric_analysis", &metric), Some(50.0));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_nobody_checked_is_counted_as_such() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["skipAnalysis"] = json!(true);
    let world = initialized_with(canary).await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    world.settle().await;
    let skipped = ["analysis_status=\"skipped\""];
    assert_eq!(value(&world, "flagger_canary_successes_total", &skipped), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_canary_leaves_no_series_behind() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    assert!(page(&world).contains("\"web\""));
    world.delete(CANARIES, "web");
    world.advance_s(10).await;
    let total = || value(&world, "flagger_canary_total", &["namespace=\"default\""]);
    assert_eq!((total(), total()), (Some(0.0), None), "told once");
    let page = page(&world);
    let left: Vec<_> = page.lines().filter(|line| is_of_web(line)).collect();
    assert_eq!(left, Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn what_a_query_of_the_users_measures_is_exported_as_it_is() {
    let mut analysis = by_weight();
    analysis["metrics"] = json!([
        { "name": "request-duration", "query": "own_latency", "thresholdRange": { "max": 500 } },
    ]);
    let world = initialized(GATEWAY_API, analysis).await;
    world.network.metric("own_latency", tidegate_tests::network::Metric::Value(250.0));
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let metric = ["metric=\"request-duration\""];
    // The built-in one has the same name and is asked first.
    assert_eq!(value(&world, "flagger_canary_metric_analysis", &metric), Some(250.0));
}

#[tokio::test(start_paused = true)]
async fn a_metric_that_was_renamed_leaves_no_series_of_its_old_name() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 40).await;
    let metric = |name: &str| {
        value(&world, "flagger_canary_metric_analysis", &[&format!("metric=\"{name}\"")])
    };
    assert_eq!(metric("request-success-rate"), Some(100.0));
    let renamed = json!([{ "name": "request-duration", "thresholdRange": { "max": 500 } }]);
    crate::stage::edit_analysis(&world, json!({ "metrics": renamed }));
    world.settle().await;
    assert_eq!(metric("request-success-rate"), None);
    reach(&world, "Succeeded").await;
    assert_eq!(
        (metric("request-success-rate"), metric("request-duration")),
        (None, Some(0.000_05))
    );
}

#[tokio::test(start_paused = true)]
async fn a_canary_with_another_target_leaves_no_series_of_the_old_one() {
    let world = initialized(GATEWAY_API, measured(by_weight())).await;
    world.create(DEPLOYMENTS, deployment("shop", "shop:1.0", 2));
    world.patch(CANARIES, "web", &json!({ "spec": { "targetRef": { "name": "shop" } } }));
    world.advance_s(30).await;
    let page = page(&world);
    assert!(page.contains("name=\"shop\""), "{page}");
    let left: Vec<_> = page.lines().filter(|line| is_of_web(line)).collect();
    assert_eq!(left, Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_cloud_is_asked_for_once_until_it_ends() {
    use kube_sandbox::cluster::Resource;
    use tidegate_tests::{network::Reply, rollout::SECRETS};
    let mut analysis = by_weight();
    analysis["metrics"] = json!([
        { "name": "own", "templateRef": { "name": "own" }, "thresholdRange": { "min": 99 } },
    ]);
    let mut world = crate::stage::with_canary(canary_of("web", GATEWAY_API, analysis));
    // The observer of these tests knows only the metrics of Prometheus.
    world.collects_violations = true;
    world.create(SECRETS, crate::telling::secret("shop", json!({ "project": "shop" })));
    world.create(
        Resource { group: "flagger.app", plural: "metrictemplates" },
        json!({ "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
                "metadata": { "name": "own" },
                "spec": { "query": "own_query", "provider": {
                    "type": "stackdriver", "secretRef": { "name": "shop" },
                } } }),
    );
    let answer = |value: serde_json::Value| Reply::Status(200, value.to_string());
    let token =
        "metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token";
    let api = "monitoring.googleapis.com/v3/projects/shop/timeSeries:query";
    world.network.hook(token, answer(json!({ "access_token": "t", "expires_in": 1800 })));
    let points = json!([{ "values": [{ "doubleValue": 100 }] }]);
    world.network.hook(api, answer(json!({ "timeSeriesData": [{ "pointData": points }] })));
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert!(world.network.calls_to(api).len() > 2, "it was asked every time");
    let tokens = || world.network.calls_to(token).len();
    assert_eq!(tokens(), 1, "and in whose name only once");
    world.advance_s(1800).await;
    release(&world, "web:3.0");
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    assert_eq!(tokens(), 2, "until that was over");
    // A token that was refused is not sent again.
    world.network.hook_once(api, Reply::Status(401, String::new()));
    release(&world, "web:4.0");
    reach(&world, "Progressing").await;
    reach(&world, "Succeeded").await;
    assert_eq!(tokens(), 3);
}
