//! A spec that becomes invalid during a rollout: the rollout takes no step forward, calls no hook, and goes
//! back when its deadline has passed. A revision that was not analysed gets no traffic meanwhile.

use serde_json::{Value, json};
use tidegate_api::canary::CrossNamespace;
use tidegate_tests::{
    network::Metric,
    providers::{KNATIVE, canary_for, furnish, promoted_image},
    rollout::{CANARIES, World},
    trace::live_split,
};

use crate::stage::{
    GATEWAY_API, ISTIO, by_weight, condition, edit, edit_analysis, measured, object, reach,
    release, told, with_canary,
};

/// The ways to make a spec invalid.
#[derive(Clone)]
struct Case {
    name: &'static str,
    provider: &'static str,
    edit: Value,
    /// The message about it.
    said: &'static str,
}

fn cases() -> Vec<Case> {
    let cookies = json!({ "cookieName": "side", "primaryCookieName": "side" });
    let elsewhere = json!({ "name": "x", "namespace": "other" });
    let upstream = json!({
        "apiVersion": "gloo.solo.io/v1", "kind": "Upstream", "name": "x", "namespace": "other",
    });
    let scaler = json!({ "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web" });
    let case = |name, provider, edit, said| Case { name, provider, edit, said };
    vec![
        case("to Knative", ISTIO, json!({ "provider": "knative" }), "spec.targetRef: "),
        case("from Knative", KNATIVE, json!({ "provider": "istio" }), "spec.provider: "),
        case(
            "another kind",
            GATEWAY_API,
            json!({ "targetRef": { "kind": "DaemonSet" } }),
            "spec.targetRef.kind: ",
        ),
        case(
            "another name",
            GATEWAY_API,
            json!({ "targetRef": { "name": "shop" } }),
            "spec.targetRef.name: ",
        ),
        case(
            "a target of Knative",
            GATEWAY_API,
            {
                json!({ "targetRef": { "apiVersion": "serving.knative.dev/v1", "kind": "Service" } })
            },
            "spec.provider: ",
        ),
        case(
            "a target that is none of Knative",
            KNATIVE,
            json!({ "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment" } }),
            "spec.targetRef: ",
        ),
        case("a scaler", KNATIVE, json!({ "autoscalerRef": scaler }), "spec.autoscalerRef: "),
        case("one cookie", ISTIO, json!({ "analysis": { "sessionAffinity": cookies } }), {
            "primaryCookieName: "
        }),
        case("another's Upstream", "gloo", json!({ "upstreamRef": upstream }), {
            "spec.upstreamRef.namespace: "
        }),
        case(
            "another's template",
            GATEWAY_API,
            {
                let metrics = json!([{ "name": "theirs", "templateRef": elsewhere }]);
                json!({ "analysis": { "metrics": metrics } })
            },
            "metrics[0].templateRef.namespace: ",
        ),
        case(
            "another's alerts",
            GATEWAY_API,
            {
                let alerts = json!([{ "name": "theirs", "providerRef": elsewhere }]);
                json!({ "analysis": { "alerts": alerts } })
            },
            "alerts[0].providerRef.namespace: ",
        ),
    ]
}

/// Names of other namespaces in a route of Istio.
fn cases_of_names() -> [Case; 2] {
    let case = |name, service: Value, said| {
        let edit = json!({ "service": service });
        Case { name, provider: ISTIO, edit, said }
    };
    let hosts = json!({ "hosts": ["web.other.svc.cluster.local"] });
    let gateways = json!({ "gateways": ["other/public"] });
    [
        case("another's host", hosts, "spec.service.hosts[0]: "),
        case("a gateway that is not shared", gateways, "spec.service.gateways[0]: "),
    ]
}

/// `web` with 2.0 at 40 percent.
async fn half_way(provider: &str) -> World {
    let mut canary = canary_for(provider, measured(by_weight()));
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    let mut world = with_canary(canary);
    furnish(&world, provider);
    world.options.cross_namespace = CrossNamespace::Forbidden;
    world.options.shared_gateways = vec!["edge/public".to_owned()];
    world.network.metric("", Metric::Value(100.0));
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    let is_there = world.until(100, |it| it.status("web")["canaryWeight"] == 40).await;
    assert!(is_there, "{provider}: {:#} {:#?}", world.status("web"), world.events());
    world
}

/// The canary's share by the route of this canary.
fn share_by(world: &World, canary: &Value) -> Option<i64> {
    let split = live_split(&world.admin, canary, "istio");
    split.map(|split| split.canary.into())
}

#[tokio::test(start_paused = true)]
async fn a_rollout_whose_spec_becomes_invalid_goes_back_when_its_deadline_has_passed() {
    for Case { name, provider, edit: spec, said } in cases().into_iter().chain(cases_of_names()) {
        for is_down in [false, true] {
            let case = format!("{name}, nobody looks: {is_down}");
            let mut world = half_way(provider).await;
            let before = object(&world, CANARIES, "web");
            if is_down {
                world.kill();
            }
            edit(&world, spec.clone());
            world.network.forget_calls();
            if is_down {
                world.start().await;
            }
            world.advance_s(40).await;
            assert_eq!(world.network.calls().len(), 0, "{case}: nobody is asked");
            assert_eq!(share_by(&world, &before), Some(40), "{case}: it may be mended");
            let (stalled, reason, message) = condition(&world, "web", "Stalled");
            assert_eq!((&*stalled, &*reason), ("True", "Obstructed"), "{case}: {message}");
            assert!(message.contains(said), "{case}: {message}");
            let is_back = world.until(60, |it| it.phase("web") == "Failed").await;
            assert!(is_back, "{case}: {:#} {:#?}", world.status("web"), world.events());
            world.advance_s(20).await;
            assert_eq!(share_by(&world, &before), Some(0), "{case}");
            assert_eq!(promoted_image(&world), "web:1.0", "{case}: nothing passed");
            assert_eq!(told(&world, "ProgressDeadlineExceeded"), 1, "{case}");
            let (_, reason, _) = condition(&world, "web", "Stalled");
            // After the rollout the other target counts, and it does not exist.
            let is_another = matches!(name, "another kind" | "another name");
            let want = if is_another { "Obstructed" } else { "Refused" };
            assert_eq!(reason, want, "{case}: nothing is begun with it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_comes_while_the_spec_is_invalid_gets_no_share() {
    for Case { name, provider, edit: spec, .. } in cases().into_iter().chain(cases_of_names()) {
        let world = half_way(provider).await;
        let before = object(&world, CANARIES, "web");
        edit(&world, spec);
        world.advance_s(5).await;
        assert_eq!(share_by(&world, &before), Some(40), "{name}");
        release(&world, "web:3.0");
        world.advance_s(2).await;
        assert_eq!(share_by(&world, &before), Some(0), "{name}: {:#?}", world.events());
        let is_back = world.until(120, |it| it.phase("web") == "Failed").await;
        assert!(is_back, "{name}: {:#}", world.status("web"));
        assert_eq!(share_by(&world, &before), Some(0), "{name}");
        assert_eq!(promoted_image(&world), "web:1.0", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_is_mended_in_time_goes_on_from_its_share() {
    let world = half_way(ISTIO).await;
    edit(&world, json!({ "provider": "knative" }));
    world.advance_s(40).await;
    assert_eq!(world.status("web")["canaryWeight"], 40, "{:#}", world.status("web"));
    edit(&world, json!({ "provider": "istio" }));
    world.advance_s(2).await;
    assert_eq!(world.status("web")["canaryWeight"], 60, "{:#}", world.status("web"));
    reach(&world, "Succeeded").await;
    assert_eq!(promoted_image(&world), "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_is_told_of_no_provider_it_knows_leads_back_by_the_one_there_was() {
    let mut canary = canary_for(ISTIO, by_weight());
    canary["spec"]["progressDeadlineSeconds"] = json!(60);
    canary["spec"]["provider"].take();
    let mut world = with_canary(canary);
    world.options.mesh_provider = "istio".to_owned();
    world.start().await;
    reach(&world, "Initialized").await;
    let canary = object(&world, CANARIES, "web");
    release(&world, "web:2.0");
    assert!(world.until(100, |it| share_by(it, &canary) == Some(40)).await);
    world.kill();
    world.options.mesh_provider = "istoi".to_owned();
    world.start().await;
    world.advance_s(20).await;
    assert_eq!(share_by(&world, &canary), Some(40));
    let is_back = world.until(90, |it| it.phase("web") == "Failed").await;
    assert!(is_back, "{:#}", world.status("web"));
    assert_eq!(share_by(&world, &canary), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_hook_is_heard_although_the_spec_is_invalid() {
    let world = half_way(ISTIO).await;
    let hook = json!({ "name": "stop", "type": "rollback", "url": "http://hooks/rollback" });
    edit_analysis(&world, json!({ "webhooks": [hook] }));
    edit(&world, json!({ "provider": "knative" }));
    world.network.hook("hooks/rollback", tidegate_tests::network::Reply::yes());
    let is_back = world.until(25, |it| it.phase("web") == "Failed").await;
    assert!(is_back, "{:#}", world.status("web"));
}
