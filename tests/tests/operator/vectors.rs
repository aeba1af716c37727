//! Cases of the metrics and alerts of Flagger that need a whole operator. All cases and their tests are
//! listed in `tests/tests/docs/acceptance.rs`.

use kube_sandbox::cluster::Resource;
use serde_json::json;
use tidegate_tests::network::{Metric, PROBE, Reply};

use crate::{
    stage::{
        GATEWAY_API, at_share, by_weight, canary_share, condition, edit, edit_analysis, hooked,
        initialized, measured, reach, release, told,
    },
    telling::{reporting, texts},
};

const METRIC_TEMPLATES: Resource = Resource { group: "flagger.app", plural: "metrictemplates" };

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_is_alerted() {
    let world = reporting("error", by_weight()).await;
    edit(&world, json!({ "progressDeadlineSeconds": 60 }));
    release(&world, "web:2.0-crash-loop");
    reach(&world, "Failed").await;
    world.advance_s(30).await;
    let alerts = texts(&world.network.calls_to("chat"));
    assert_eq!(alerts.len(), 1, "{alerts:#?}");
    assert!(alerts[0].contains("No progress within the deadline"), "{alerts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_template_without_an_interval_looks_back_a_minute() {
    let world = initialized(GATEWAY_API, by_weight()).await;
    let template = json!({ "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
        "metadata": { "name": "errors" },
        "spec": { "provider": { "type": "prometheus", "address": "http://prometheus" },
                  "query": "errors_of_{{ target }}[{{ interval }}]" } });
    world.create(METRIC_TEMPLATES, template);
    let metric = json!({ "name": "errors", "templateRef": { "name": "errors" }, "threshold": 200 });
    edit_analysis(&world, json!({ "metrics": [metric] }));
    world.network.metric("errors", Metric::Value(1.0));
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let asked = world.network.calls_to("prometheus").into_iter().map(|call| call.query);
    let asked: Vec<_> = asked.filter(|query| query != PROBE).collect();
    assert!(!asked.is_empty() && asked.iter().all(|it| it == "errors_of_web[1m]"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_metric_with_several_series_is_told_once_a_rollout() {
    let mut world = initialized(GATEWAY_API, by_weight()).await;
    // The observer of these tests does not parse an answer.
    world.collects_violations = true;
    let template = json!({ "apiVersion": "flagger.app/v1beta1", "kind": "MetricTemplate",
        "metadata": { "name": "errors" },
        "spec": { "provider": { "type": "prometheus", "address": "http://prometheus" },
                  "query": "errors" } });
    world.create(METRIC_TEMPLATES, template);
    let metrics = json!([
        { "name": "mine", "templateRef": { "name": "errors" }, "thresholdRange": { "max": 5 } },
        { "name": "inline", "query": "errors", "thresholdRange": { "max": 5 } },
        { "name": "single", "query": "single", "thresholdRange": { "max": 5 } },
    ]);
    edit_analysis(&world, json!({ "metrics": metrics }));
    let series = |pod: &str, value: &str| json!({ "metric": { "pod": pod }, "value": [0, value] });
    let several = json!({ "status": "success", "data": {
        "resultType": "vector", "result": [series("a", "90"), series("b", "1")],
    } });
    world.network.metric("errors", Metric::Reply(Reply::Status(200, several.to_string())));
    world.network.metric("single", Metric::Value(1.0));
    for rollout in 1..=2 {
        release(&world, &format!("web:{}.0", rollout + 1));
        reach(&world, "Progressing").await;
        // As Flagger: the last series counts.
        reach(&world, "Succeeded").await;
        let texts = world.events().into_iter().filter(|(reason, _)| reason == "MetricAmbiguous");
        let texts: Vec<_> = texts.map(|(_, text)| text).collect();
        assert_eq!(texts.len(), 2 * rollout, "one a metric and rollout: {texts:#?}");
        for name in ["mine", "inline"] {
            assert!(texts.iter().any(|it| it.contains(&format!("metric {name} "))), "{texts:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_that_does_not_render_says_so() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let metric = json!({ "name": "mine", "query": "{{ bad", "threshold": 5, "onNoData": "hold" });
    edit_analysis(&world, json!({ "metrics": [metric] }));
    world.network.forget_calls();
    world.advance_s(12).await;
    let (_, reason, message) = condition(&world, "web", "Reconciling");
    assert_eq!(reason, "CheckFailed", "{message}");
    assert!(message.contains("template mine does not render"), "{message}");
    let asked = world.network.calls_to("prometheus");
    assert!(asked.is_empty(), "an empty query is not sent: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn servers_that_hang_are_waited_for_side_by_side_and_not_for_ever() {
    let mut analysis = by_weight();
    let metric = |number: usize| json!({ "name": format!("m{number}"), "query": format!("m{number}"), "threshold": 5 });
    analysis["metrics"] = (0..4).map(metric).collect();
    analysis["interval"] = json!("20s");
    let world = initialized(GATEWAY_API, analysis).await;
    world.network.metric("", Metric::Reply(Reply::Hang));
    release(&world, "web:2.0");
    assert!(world.until(90, |world| canary_share(world) == 20).await);
    // Four that hang for ten seconds each, one after another, would not be through by then.
    let failed = |world: &tidegate_tests::rollout::World| world.status("web")["failedChecks"] == 1;
    assert!(world.until(32, failed).await, "{:#}", world.status("web"));
    let message = condition(&world, "web", "Reconciling").2;
    assert!(message.contains("the query of metric m0 failed"), "the first one is told: {message}");
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_says_is_told_with_its_status() {
    for (reply, passes) in [
        (Reply::Status(204, String::new()), true),
        (Reply::Status(299, String::new()), true),
        (Reply::Status(500, "command false failed: : exit status 1".to_owned()), false),
    ] {
        let world = initialized(GATEWAY_API, hooked(by_weight(), "rollout")).await;
        world.network.hook("hooks/rollout", reply.clone());
        release(&world, "web:2.0");
        if passes {
            reach(&world, "Succeeded").await;
            continue;
        }
        reach(&world, "Failed").await;
        let events = world.events();
        let said = events.iter().find(|(reason, _)| reason == "CheckFailed").expect("it failed");
        let words = "external check rollout failed, answered 500: command false failed: : exit";
        assert!(said.1.contains(words), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_once_passes_with_a_retry() {
    let world = initialized(GATEWAY_API, by_weight()).await;
    let hook = json!({ "name": "rollout", "url": "http://hooks/rollout", "retries": 1 });
    edit_analysis(&world, json!({ "webhooks": [hook] }));
    world.network.hook("hooks/rollout", Reply::Status(202, String::new()));
    world.network.hook_once("hooks/rollout", Reply::Status(500, String::new()));
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(told(&world, "CheckFailed"), 0, "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_megabyte_does_not_get_into_events() {
    let world = at_share(GATEWAY_API, measured(by_weight()), 20).await;
    let page = format!("<html>hush{}</html>", "x".repeat(1_000_000));
    world.network.metric("", Metric::Reply(Reply::Status(500, page)));
    reach(&world, "Failed").await;
    for (reason, message) in world.events() {
        assert!(message.len() <= 1024 && !message.contains("hush"), "{reason}: {message}");
    }
    assert_eq!(told(&world, "CheckFailed"), 1, "and not at every tick");
}
