//! The page Prometheus reads: Flagger's series with the right values, and none of what is gone.

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

/// The value of the series that begins like this and has all of these labels.
pub(crate) fn value(world: &World, name: &str, labels: &[&str]) -> Option<f64> {
    let page = page(world);
    let is_it = |line: &&str| {
        line.split(['{', ' ']).next() == Some(name) && labels.iter().all(|it| line.contains(it))
    };
    let line = page.lines().filter(|line| !line.starts_with('#')).find(is_it)?;
    line.rsplit(' ').next()?.parse().ok()
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
    assert_eq!(value(&world, "flagger_canary_successes_total", &successes), None);
    reach(&world, "Succeeded").await;
    world.settle().await;
    assert_eq!(value(&world, "flagger_canary_successes_total", &successes), Some(1.0));
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
async fn bet_46_a_deleted_canary_leaves_no_series_behind() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    assert!(page(&world).contains("\"web\""));
    world.delete(CANARIES, "web");
    world.advance_s(10).await;
    let page = page(&world);
    let left: Vec<_> = page.lines().filter(|line| line.contains("\"web")).collect();
    assert_eq!(left, Vec::<&str>::new());
    assert_eq!(value(&world, "flagger_canary_total", &["namespace=\"default\""]), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn bet_46_a_canary_with_another_target_leaves_no_series_of_the_old_one() {
    let world = initialized(GATEWAY_API, measured(by_weight())).await;
    world.create(DEPLOYMENTS, deployment("shop", "shop:1.0", 2));
    world.patch(CANARIES, "web", &json!({ "spec": { "targetRef": { "name": "shop" } } }));
    world.advance_s(30).await;
    let page = page(&world);
    assert!(page.contains("name=\"shop\""), "{page}");
    let left: Vec<_> = page.lines().filter(|line| line.contains("\"web")).collect();
    assert_eq!(left, Vec::<&str>::new());
}
