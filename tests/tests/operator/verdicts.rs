//! Results of a check: passed, failed, or not enough data; and how often metrics are queried.

use kube_sandbox::cluster::Resource;
use serde_json::{Value, json};
use tidegate_tests::{
    network::{Metric, PROBE, Reply},
    rollout::World,
};

use crate::{
    metrics::value,
    stage::{
        GATEWAY_API, at_share, by_weight, canary_share, condition, edit, edit_analysis,
        initialized, measured, mend_metrics, reach, release, told,
    },
};

const METRIC_TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };

/// The success rate, with a tolerance for missing data.
fn patient(mut analysis: Value) -> Value {
    analysis = measured(analysis);
    analysis["metrics"][0]["onNoData"] = json!("hold");
    analysis
}

fn counted(world: &World, verdict: &str) -> Option<f64> {
    let labels = ["name=\"web\"", &format!("verdict=\"{verdict}\"")];
    value(world, "tidegate_canary_checks_total", &labels)
}

#[tokio::test(start_paused = true)]
async fn no_data_is_told_apart_from_bad_and_still_fails() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    world.network.metric("", Metric::Nothing);
    world.advance_s(12).await;
    let (status, reason, message) = condition(&world, "web", "Reconciling");
    assert_eq!((&*status, &*reason), ("True", "NotEnoughData"));
    assert!(message.contains("counts as a failed check"), "{message}");
    assert_eq!(world.status("web")["failedChecks"], 1);
    assert_eq!(world.status("web")["lastDecision"]["reason"], "NotEnoughData");
    reach(&world, "Failed").await;
    assert_eq!((told(&world, "NotEnoughData"), told(&world, "CheckFailed")), (1, 0));
    assert_eq!(counted(&world, "no_data"), Some(3.0));
    assert_eq!((counted(&world, "failed"), counted(&world, "held")), (Some(0.0), Some(0.0)));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_ill_is_not_a_lack_of_data() {
    let world = at_share(GATEWAY_API, patient(by_weight()), 20).await;
    world.network.metric("", Metric::Reply(Reply::Status(500, String::new())));
    reach(&world, "Failed").await;
    assert_eq!((told(&world, "NotEnoughData"), told(&world, "CheckFailed")), (0, 1));
    assert_eq!((counted(&world, "failed"), counted(&world, "held")), (Some(3.0), Some(0.0)));
}

#[tokio::test(start_paused = true)]
async fn on_no_data_hold_waits_for_data_and_goes_on() {
    let world = at_share(GATEWAY_API, patient(by_weight()), 20).await;
    world.network.metric("", Metric::Nothing);
    world.advance_s(590).await;
    assert_eq!((canary_share(&world), world.phase("web").as_str()), (20, "Progressing"));
    assert_eq!(world.status("web")["failedChecks"], 0);
    let (_, reason, message) = condition(&world, "web", "Reconciling");
    assert_eq!(reason, "WaitingForData", "{message}");
    assert_eq!(told(&world, "WaitingForData"), 1, "once, not every interval");
    let held = counted(&world, "held");
    assert!(held > Some(50.0), "but it is asked at every interval: {held:?}");
    mend_metrics(&world);
    reach(&world, "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn on_no_data_hold_waits_no_longer_than_the_deadline() {
    let world = at_share(GATEWAY_API, patient(by_weight()), 20).await;
    edit(&world, json!({ "progressDeadlineSeconds": 120 }));
    world.network.metric("", Metric::Nothing);
    world.advance_s(115).await;
    assert_eq!((canary_share(&world), told(&world, "NotEnoughData")), (20, 0));
    assert!(world.status("web")["rollout"]["noDataSince"].is_string(), "{:#}", world.status("web"));
    reach(&world, "Failed").await;
    assert_eq!((told(&world, "NotEnoughData"), counted(&world, "held") > Some(10.0)), (1, true));
    assert_eq!(world.status("web")["rollout"]["noDataSince"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn bad_wins_over_waiting_for_data() {
    let mut analysis = patient(by_weight());
    let duration = json!({ "name": "request-duration", "thresholdRange": { "max": 500 } });
    analysis["metrics"].as_array_mut().expect("it has one").push(duration);
    let world = at_share(GATEWAY_API, analysis, 20).await;
    world.network.metric("", Metric::Nothing);
    world.network.metric("_bucket", Metric::Value(900.0));
    reach(&world, "Failed").await;
    assert_eq!((told(&world, "CheckFailed"), told(&world, "WaitingForData")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn one_metric_that_does_not_wait_is_enough_to_fail() {
    let mut analysis = patient(by_weight());
    let other = json!({ "name": "mine", "query": "mine", "threshold": 5, "onNoData": "fail" });
    analysis["metrics"].as_array_mut().expect("it has one").push(other);
    let world = at_share(GATEWAY_API, analysis, 20).await;
    world.network.metric("", Metric::Nothing);
    reach(&world, "Failed").await;
    assert_eq!(told(&world, "NotEnoughData"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_question_is_asked_once_a_check_and_shared() {
    let world = initialized(GATEWAY_API, by_weight()).await;
    let template = json!({ "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
        "metadata": { "name": "errors" },
        "spec": { "provider": { "type": "prometheus", "address": "http://prometheus" },
                  "query": "errors[{{ interval }}]" } });
    world.create(METRIC_TEMPLATES, template);
    let of = |name: &str, query: &str, max: u32| json!({ "name": name, "query": query, "thresholdRange": { "max": max } });
    let templated = |name: &str, interval: &str| {
        json!({ "name": name, "templateRef": { "name": "errors" }, "interval": interval,
                "thresholdRange": { "max": 5 } })
    };
    edit_analysis(
        &world,
        json!({ "metrics": [
            of("low", "latency", 5), of("high", "latency", 500), of("other", "load", 5),
            templated("a", "1m"), templated("b", "1m"), templated("c", "2m"),
        ] }),
    );
    for (part, value) in [("latency", 9.0), ("load", 1.0), ("errors", 1.0)] {
        world.network.metric(part, Metric::Value(value));
    }
    release(&world, "web:2.0");
    assert!(world.until(60, |world| canary_share(world) == 20).await);
    world.network.forget_calls();
    assert!(world.until(60, |world| world.status("web")["failedChecks"] == 1).await);
    let mut asked: Vec<String> =
        world.network.calls_to("prometheus").into_iter().map(|call| call.query).collect();
    asked.retain(|query| query != PROBE);
    asked.sort();
    assert_eq!(asked, ["errors[1m]", "errors[2m]", "latency", "load"]);
    let checks = world.status("web")["lastDecision"]["checks"].clone();
    let judged: Vec<_> = checks.as_array().into_iter().flatten().collect();
    let passed = |name: &str| judged.iter().find(|it| it["name"] == name).map(|it| &it["passed"]);
    assert_eq!(judged.len(), 6, "{checks:#}");
    assert_eq!((passed("low"), passed("high")), (Some(&json!(false)), Some(&json!(true))));
}
