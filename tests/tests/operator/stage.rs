//! Helpers for the tests of this folder: one application called `web`, and short functions for its owner's
//! actions and observations.

use kube_sandbox::{
    cluster::{Cluster as _, PODS, Resource},
    request::Verb,
    request_log::{Entry, Mark},
    store::TableKey,
};
use serde_json::{Value, json};
use tidegate_tests::{
    network::{Metric, Reply},
    providers::target_table,
    rollout::{
        CANARIES, DEPLOYMENTS, GRPC_ROUTES, HTTP_ROUTES, OPERATOR, VIRTUAL_SERVICES, World, canary,
        deployment,
    },
};

pub(crate) const GATEWAY_API: &str = "gatewayapi:v1";
pub(crate) const ISTIO: &str = "istio";
pub(crate) const KUBERNETES: &str = "kubernetes";

/// A step of 20 to 60 every ten seconds, three failures allowed.
pub(crate) fn by_weight() -> Value {
    json!({ "interval": "10s", "threshold": 3, "stepWeight": 20, "maxWeight": 60 })
}

/// Three checks, then all at once.
pub(crate) fn blue_green() -> Value {
    json!({ "interval": "10s", "threshold": 3, "iterations": 3 })
}

/// Requests with a header, three checks.
pub(crate) fn ab_test() -> Value {
    let mut analysis = blue_green();
    analysis["match"] = json!([{ "headers": { "x-canary": { "exact": "yes" } } }]);
    analysis
}

/// With the success rate as its one metric.
pub(crate) fn measured(mut analysis: Value) -> Value {
    analysis["metrics"] =
        json!([{ "name": "request-success-rate", "thresholdRange": { "min": 99 } }]);
    analysis
}

/// With a hook of a type; its address is `hooks/<type>`, and it says yes until told otherwise.
pub(crate) fn hooked(mut analysis: Value, kind: &str) -> Value {
    let hook = json!({ "name": kind, "type": kind, "url": format!("http://hooks/{kind}") });
    match analysis["webhooks"].as_array_mut() {
        Some(hooks) => hooks.push(hook),
        None => analysis["webhooks"] = json!([hook]),
    }
    analysis
}

/// A canary as a user of that provider writes it.
pub(crate) fn canary_of(name: &str, provider: &str, analysis: Value) -> Value {
    let mut object = canary(name, provider, analysis);
    if provider.starts_with("gatewayapi") {
        object["spec"]["service"]["gatewayRefs"] = json!([{ "name": "edge" }]);
    }
    object
}

/// A world with `web` in it at 1.0, before the operator starts.
pub(crate) fn with_canary(canary: Value) -> World {
    let world = World::new();
    for kind in ["confirm-rollout", "pre-rollout", "rollout", "confirm-traffic-increase"] {
        world.network.hook(&format!("hooks/{kind}"), Reply::yes());
    }
    for kind in ["confirm-promotion", "post-rollout", "event"] {
        world.network.hook(&format!("hooks/{kind}"), Reply::yes());
    }
    world.network.hook("hooks/rollback", Reply::no());
    world.create(DEPLOYMENTS, deployment("web", "web:1.0", 2));
    world.create(CANARIES, canary);
    world
}

/// `web` at 1.0, initialised.
pub(crate) async fn initialized(provider: &str, analysis: Value) -> World {
    initialized_with(canary_of("web", provider, analysis)).await
}

pub(crate) async fn initialized_with(canary: Value) -> World {
    let mut world = with_canary(canary);
    world.start().await;
    reach(&world, "Initialized").await;
    world
}

/// `web` with 2.0 on its way, at this share of live traffic.
pub(crate) async fn at_share(provider: &str, analysis: Value, share: i64) -> World {
    let world = initialized(provider, analysis).await;
    release(&world, "web:2.0");
    let there = world.until(200, |world| canary_share(world) == share).await;
    assert!(there, "never at {share}: {:#}", world.status("web"));
    world.settle().await;
    world
}

/// Advances the clock until `web` is in this phase.
#[track_caller]
pub(crate) fn reach<'w>(world: &'w World, phase: &'w str) -> impl Future<Output = ()> + 'w {
    let caller = std::panic::Location::caller();
    async move {
        let there = world.until(900, |world| world.phase("web") == phase).await;
        assert!(there, "{caller}: never {phase}: {:#} {:#?}", world.status("web"), world.events());
    }
}

/// Gives the target another image.
pub(crate) fn release(world: &World, image: &str) {
    release_of(world, "web", image);
}

pub(crate) fn release_of(world: &World, name: &str, image: &str) {
    let ports = json!([{ "containerPort": 8080 }]);
    let containers = json!([{ "name": "app", "image": image, "ports": ports }]);
    let template = json!({ "spec": { "containers": containers } });
    let table = if name == "web" { target_table(world) } else { DEPLOYMENTS };
    world.patch(table, name, &json!({ "spec": { "template": template } }));
}

#[expect(clippy::needless_pass_by_value, reason = "always made on the spot")]
pub(crate) fn edit(world: &World, spec: Value) {
    world.patch(CANARIES, "web", &json!({ "spec": spec }));
}

#[expect(clippy::needless_pass_by_value, reason = "always made on the spot")]
pub(crate) fn edit_analysis(world: &World, analysis: Value) {
    edit(world, json!({ "analysis": analysis }));
}

/// All metrics are bad from now on.
pub(crate) fn break_metrics(world: &World) {
    world.network.metric("", Metric::Value(50.0));
}

pub(crate) fn mend_metrics(world: &World) {
    world.network.metric("", Metric::Value(100.0));
}

pub(crate) fn object(world: &World, resource: Resource, name: &str) -> Value {
    world.get(resource, name).unwrap_or_default()
}

pub(crate) fn image(world: &World, name: &str) -> String {
    let deployment = object(world, DEPLOYMENTS, name);
    text(&deployment["spec"]["template"]["spec"]["containers"][0]["image"])
}

pub(crate) fn replicas(world: &World, name: &str) -> i64 {
    object(world, DEPLOYMENTS, name)["spec"]["replicas"].as_i64().unwrap_or(-1)
}

pub(crate) fn generation(world: &World, name: &str) -> i64 {
    object(world, DEPLOYMENTS, name)["metadata"]["generation"].as_i64().unwrap_or(-1)
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The share of live traffic the canary has, by the routing object of `web`; -1 without one.
pub(crate) fn canary_share(world: &World) -> i64 {
    let routes = [HTTP_ROUTES, GRPC_ROUTES, VIRTUAL_SERVICES];
    let route = routes.into_iter().find_map(|resource| world.get(resource, "web"));
    route.map_or(-1, |route| share_in(&route))
}

/// The same of one version of a routing object.
pub(crate) fn share_in(route: &Value) -> i64 {
    let gateway = route.pointer("/spec/rules/0/backendRefs").and_then(Value::as_array);
    let istio = route.pointer("/spec/http/0/route").and_then(Value::as_array);
    let backends = gateway.or(istio).into_iter().flatten();
    let is_canary = |backend: &&Value| {
        let host = backend["destination"]["host"].as_str().or_else(|| backend["name"].as_str());
        host == Some("web-canary")
    };
    let weight = |backend: &Value| backend["weight"].as_i64().unwrap_or(100);
    backends.filter(is_canary).map(weight).sum()
}

/// Every version of an object that was stored since a revision of the store, oldest first.
pub(crate) fn history(world: &World, resource: Resource, name: &str, since: u64) -> Vec<Value> {
    let store = &world.sandbox.server().store;
    let table = TableKey::new(resource.group, resource.plural);
    let (events, _) = store.events_since(&table, since, usize::MAX).expect("not compacted");
    let of_it = events.iter().filter(|event| &*event.object.key.name == name);
    of_it.map(|event| event.object.value()).collect()
}

pub(crate) fn revision(world: &World) -> u64 {
    world.sandbox.server().store.revision()
}

/// The shares of the canary in all versions of its route since then, without repetition.
pub(crate) fn shares_since(world: &World, since: u64) -> Vec<i64> {
    let mut shares = Vec::new();
    for resource in [HTTP_ROUTES, VIRTUAL_SERVICES] {
        shares.extend(history(world, resource, "web", since).iter().map(share_in));
    }
    shares.dedup();
    shares
}

pub(crate) fn mark(world: &World) -> Mark {
    world.sandbox.server().log.mark()
}

/// Requests of the operator to the API server since then, watches aside: `patch canaries/status`.
pub(crate) fn requests_since(world: &World, mark: Mark) -> Vec<String> {
    let is_request = |entry: &Entry| &*entry.user == OPERATOR && entry.verb != Verb::Watch;
    let requests = world.sandbox.server().log.matching_since(mark, is_request);
    requests.iter().map(|it| format!("{} {}", it.verb.as_str(), it.target())).collect()
}

/// Writes that the operator attempted since then.
pub(crate) fn writes_since(world: &World, mark: Mark) -> Vec<String> {
    let mut requests = requests_since(world, mark);
    requests.retain(|request| !request.starts_with("get ") && !request.starts_with("list "));
    requests
}

/// Reasons of the operator's events, oldest first.
pub(crate) fn reasons(world: &World) -> Vec<String> {
    world.events().into_iter().map(|(reason, _)| reason).collect()
}

pub(crate) fn told(world: &World, reason: &str) -> usize {
    reasons(world).iter().filter(|told| *told == reason).count()
}

/// The condition of a type: status, reason, message.
pub(crate) fn condition(world: &World, name: &str, kind: &str) -> (String, String, String) {
    let status = world.status(name);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind);
    let found = found.unwrap_or_default();
    (text(&found["status"]), text(&found["reason"]), text(&found["message"]))
}

/// Deletes all pods of a workload, as a drained node does.
pub(crate) fn kill_pods(world: &World, app: &str) {
    for pod in world.admin.list(PODS, Some("default")) {
        if pod["metadata"]["labels"]["app"] == app {
            world.delete(PODS, pod["metadata"]["name"].as_str().unwrap_or_default());
        }
    }
}
