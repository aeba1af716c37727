//! Behaviour of providers of foreign kinds, beyond the table of providers.

use kube_sandbox::{
    cluster::{Cluster as _, Resource},
    faults::{Effect, Matcher, When},
    request::Verb,
};
use serde_json::{Value, json};
use tidegate_engine::Split;
use tidegate_tests::{
    providers::{canary_for, furnish, promoted_image},
    rollout::{CANARIES, HTTP_ROUTES, OPERATOR, World, canary},
    trace::live_split,
};

use crate::stage::{
    by_weight, condition, edit, edit_analysis, measured, reach, release, with_canary,
};

async fn initialized(provider: &str, analysis: Value) -> World {
    let mut world = with_canary(canary_for(provider, measured(analysis)));
    furnish(&world, provider);
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_no_provider_can_do_does_not_freeze_a_share() {
    for provider in ["contour", "traefik", "linkerd"] {
        let world = initialized(provider, by_weight()).await;
        edit(&world, json!({ "progressDeadlineSeconds": 60 }));
        release(&world, "web:2.0");
        assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 40).await, "{provider}");
        // A test by a condition that none of them supports.
        let by_query = json!([{ "queryParams": { "q": { "exact": "a" } } }]);
        let test = json!({ "stepWeight": null, "iterations": 5, "match": by_query });
        edit_analysis(&world, test);
        let is_back = world.until(300, |it| it.phase("web") == "Failed").await;
        assert!(is_back, "{provider}: {:#}", world.status("web"));
        let canary = world.get(CANARIES, "web").expect("it is there");
        let split = live_split(&world.admin, &canary, &world.options.mesh_provider);
        assert_eq!(split, Some(Split::PRIMARY), "{provider}");
        assert_eq!(promoted_image(&world), "web:1.0", "{provider}: nothing passed");
    }
}

/// A canary that refers to an existing route of the user's.
async fn referring(analysis: Value) -> World {
    let mut canary = canary("web", "gatewayapi:v1", analysis);
    canary["spec"]["routeRef"] = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front",
    });
    let mut world = with_canary(canary);
    let rule = json!({ "backendRefs": [{ "name": "web", "port": 80 }] });
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "front" },
        "spec": { "parentRefs": [{ "name": "edge" }], "rules": [rule] },
    });
    world.create(HTTP_ROUTES, route);
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_a_route_of_the_users_cannot_follow_does_not_freeze_a_share() {
    let world = referring(by_weight()).await;
    edit(&world, json!({ "progressDeadlineSeconds": 60 }));
    release(&world, "web:2.0");
    assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 40).await);
    let by_header = json!([{ "headers": { "x-user": { "exact": "a" } } }]);
    edit_analysis(&world, json!({ "match": by_header }));
    let is_back = world.until(300, |it| it.phase("web") == "Failed").await;
    assert!(is_back, "{:#}", world.status("web"));
    let canary = world.get(CANARIES, "web").expect("it is there");
    let split = live_split(&world.admin, &canary, &world.options.mesh_provider);
    assert_eq!(split, Some(Split::PRIMARY));
    assert_eq!(promoted_image(&world), "web:1.0", "nothing passed");
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_a_route_of_no_use_does_not_freeze_a_share() {
    for provider in ["istio", "contour"] {
        let world = initialized(provider, by_weight()).await;
        edit(&world, json!({ "progressDeadlineSeconds": 60 }));
        release(&world, "web:2.0");
        assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 40).await, "{provider}");
        let reference = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front",
        });
        edit(&world, json!({ "routeRef": reference }));
        let is_back = world.until(300, |it| it.phase("web") == "Failed").await;
        assert!(is_back, "{provider}: {:#}", world.status("web"));
        let canary = world.get(CANARIES, "web").expect("it is there");
        let split = live_split(&world.admin, &canary, &world.options.mesh_provider);
        assert_eq!(split, Some(Split::PRIMARY), "{provider}");
        let (_, reason, message) = condition(&world, "web", "Stalled");
        assert_eq!(reason, "Refused", "{provider}: the next one is not begun");
        assert!(message.contains("spec.routeRef.kind"), "{provider}: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn apisix_is_judged_by_what_the_canarys_own_pods_answered() {
    let world = initialized("apisix", by_weight()).await;
    release(&world, "web:2.0");
    assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 20).await);
    world.network.forget_calls();
    assert!(world.until(60, |it| it.status("web")["canaryWeight"] == 40).await);
    let pods = world.admin.list(Resource { group: "", plural: "pods" }, Some("default"));
    let addresses = |of: &str| -> Vec<String> {
        let is_of = |pod: &&Value| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with("web-primary-") == (of == "primary")
        };
        let address =
            |pod: &Value| pod["status"]["podIP"].as_str().map(|it| it.replace('.', "[.]"));
        pods.iter().filter(is_of).filter_map(address).collect()
    };
    let queries = world.network.calls_to("prometheus").into_iter().map(|call| call.query);
    let queries: Vec<_> = queries.filter(|query| query.contains("apisix_http")).collect();
    assert!(!queries.is_empty());
    let (canary, primary) = (addresses("canary"), addresses("primary"));
    assert_eq!((canary.len(), primary.len()), (2, 2), "{pods:#?}");
    for query in &queries {
        let (_, nodes) = query.split_once("node=~\"").expect("nodes are told apart");
        let nodes: Vec<_> = nodes.split('"').next().unwrap_or_default().split('|').collect();
        let has = |address: &String| nodes.contains(&address.as_str());
        assert!(canary.iter().all(has) && !primary.iter().any(has), "{nodes:?}");
    }
}

/// Two providers of which the cluster may serve one kind or another, with their kinds.
const CHOOSERS: [(&str, Resource, &str); 2] = [
    ("kuma", Resource { group: "kuma.io", plural: "trafficroutes" }, "kuma.io/v1alpha1"),
    (
        "linkerd",
        Resource { group: "split.smi-spec.io", plural: "trafficsplits" },
        "split.smi-spec.io/v1alpha1",
    ),
];

#[tokio::test(start_paused = true)]
async fn an_error_that_passes_makes_no_provider_write_another_kind() {
    for (provider, usual, version) in CHOOSERS {
        let mut world = with_canary(canary_for(provider, measured(by_weight())));
        furnish(&world, provider);
        let lists = Matcher::any().user(OPERATOR).verbs([Verb::List]);
        let lists = lists.resource(usual.group, usual.plural);
        let faults = &world.sandbox.server().faults;
        faults.add(lists, When::First(1), Effect::ServerError { code: 500 });
        world.start().await;
        reach(&world, "Initialized").await;
        let routes = world.admin.list(usual, None);
        assert_eq!(routes.len(), 1, "{provider}: {routes:#?}");
        let writers = routes[0]["metadata"]["managedFields"].as_array().cloned();
        let writers = writers.unwrap_or_default();
        assert!(writers.iter().all(|it| it["apiVersion"] == version), "{provider}: {writers:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_may_list_is_not_one_that_is_not_there() {
    for (provider, usual, _) in CHOOSERS {
        let mut world = with_canary(canary_for(provider, measured(by_weight())));
        furnish(&world, provider);
        let lists = Matcher::any().user(OPERATOR).verbs([Verb::List]);
        let lists = lists.resource(usual.group, usual.plural);
        let refusal = Effect::FailBefore { code: 403, reason: "Forbidden" };
        let faults = &world.sandbox.server().faults;
        // Of Linkerd's, which share a name, only the version that is listed first.
        faults.add(lists, When::Nth((1..=2).collect()), refusal);
        world.start().await;
        world.advance_s(1).await;
        let said = world.status("web")["conditions"].to_string();
        assert!(said.contains("not allowed to watch"), "{provider}: {said}");
        reach(&world, "Initialized").await;
        assert_eq!(world.admin.list(usual, None).len(), 1, "{provider}");
    }
}
