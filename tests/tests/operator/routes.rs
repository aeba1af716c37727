//! Routes to primary and canary: routes of gRPC, routes of users, a Service that is switched, definitions of
//! another version, a cluster of its own; and the cleanup after a change of names.

use kube_sandbox::{
    Sandbox, Settings,
    cluster::{Cluster as _, Deletion, Resource},
    faults::{Effect, Matcher, When},
    server::User,
};
use serde_json::{Value, json};
use tidegate_tests::rollout::{
    CANARIES, CONFIG_MAPS, DEPLOYMENTS, GRPC_ROUTES, HTTP_ROUTES, OPERATOR, SERVICES,
    VIRTUAL_SERVICES, World, canary, deployment,
};

use crate::stage::{
    GATEWAY_API, ISTIO, KUBERNETES, at_share, blue_green, break_metrics, by_weight, canary_of,
    canary_share, condition, edit, history, image, initialized, initialized_with, mark, measured,
    object, reach, release, requests_since, revision, told, with_canary, writes_since,
};

const DEFINITIONS: Resource =
    Resource { group: "apiextensions.k8s.io", plural: "customresourcedefinitions" };
const HTTP_ROUTE_DEFINITION: &str = "httproutes.gateway.networking.k8s.io";
const FINALIZER: &str = "finalizer.flagger.app";

/// For routes and owners that the observer of invariants does not see: such a test checks for itself.
fn unjudged(mut world: World) -> World {
    world.collects_violations = true;
    world
}

fn grpc() -> Value {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["service"]["appProtocol"] = json!("grpc");
    canary
}

// === Routes of gRPC ===

#[tokio::test(start_paused = true)]
async fn calls_are_rolled_out_by_weight_over_a_route_of_calls() {
    let world = initialized_with(grpc()).await;
    let since = revision(&world);
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    let routes = history(&world, GRPC_ROUTES, "web", since);
    let mut shares: Vec<_> = routes.iter().map(crate::stage::share_in).collect();
    shares.dedup();
    assert_eq!(shares, [20, 40, 60, 0]);
    assert_eq!(world.get(HTTP_ROUTES, "web"), None);
    assert_eq!(image(&world, "web-primary"), "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_begins_to_speak_grpc_leaves_no_route_of_requests_behind() {
    let world = at_share(GATEWAY_API, by_weight(), 20).await;
    edit(&world, json!({ "service": { "appProtocol": "grpc" } }));
    world.settle().await;
    assert_eq!(world.get(HTTP_ROUTES, "web"), None, "{:?}", world.events());
    assert_eq!(canary_share(&world), 20, "the share went with it");
    reach(&world, "Succeeded").await;
    edit(&world, json!({ "service": { "appProtocol": "http" } }));
    world.settle().await;
    assert_eq!(world.get(GRPC_ROUTES, "web"), None);
    assert!(world.get(HTTP_ROUTES, "web").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_routes_of_calls_says_so_and_nothing_is_touched() {
    let mut world = with_canary(grpc());
    let name = "grpcroutes.gateway.networking.k8s.io";
    let gone = world.admin.delete(DEFINITIONS, "", name, &Deletion::default());
    gone.unwrap();
    world.start().await;
    world.advance_s(60).await;
    let (_, _, message) = condition(&world, "web", "Stalled");
    let (_, _, ready) = condition(&world, "web", "Ready");
    assert!(format!("{message}{ready}").contains("does not serve GRPCRoute"), "{message} {ready}");
    assert_eq!(world.get(HTTP_ROUTES, "web"), None, "no guess");
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_route_that_is_taken_away_and_given_back_is_noticed_without_a_restart() {
    let world = unjudged(initialized_with(canary_of("web", GATEWAY_API, by_weight())).await);
    let mut definition = world.admin.get(DEFINITIONS, "", HTTP_ROUTE_DEFINITION).unwrap();
    let gone = world.admin.delete(DEFINITIONS, "", HTTP_ROUTE_DEFINITION, &Deletion::default());
    gone.unwrap();
    let says_so = |world: &World| {
        let (_, _, message) = condition(world, "web", "Reconciling");
        let (_, _, stalled) = condition(world, "web", "Stalled");
        format!("{message}{stalled}").contains("does not serve HTTPRoute")
    };
    assert!(world.until(300, says_so).await, "{}", world.status("web"));

    for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        definition["metadata"][field] = Value::Null;
    }
    world.admin.create(DEFINITIONS, "", definition).unwrap();
    let is_back = |world: &World| world.get(HTTP_ROUTES, "web").is_some();
    assert!(world.until(900, is_back).await, "{}", world.status("web"));
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(image(&world, "web-primary"), "web:2.0");
}

// === Routes of users ===

/// A route to the apex with a filter, as a user wrote it long before there was a canary.
fn users_route(name: &str) -> Value {
    let guard = json!({ "group": "example.com", "kind": "Auth", "name": "guard" });
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": name },
        "spec": {
            "parentRefs": [{ "name": "edge" }], "hostnames": ["shop.example.com"],
            "rules": [{
                "matches": [{ "path": { "type": "PathPrefix", "value": "/shop" } }],
                "filters": [{ "type": "ExtensionRef", "extensionRef": guard }],
                "backendRefs": [{ "name": "web", "port": 80 }],
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_users_route_of_that_name_is_refused_until_it_is_handed_over_and_comes_back() {
    let mut canary = canary_of("web", GATEWAY_API, by_weight());
    canary["spec"]["revertOnDeletion"] = json!(true);
    let mut world = with_canary(canary);
    let before = world.create(HTTP_ROUTES, users_route("web"));
    world.start().await;
    world.advance_s(60).await;
    assert_eq!(world.phase("web"), "Initializing");
    assert_eq!(object(&world, HTTP_ROUTES, "web")["spec"], before["spec"], "not a word of it");
    let said = world.status("web")["conditions"].to_string();
    assert!(said.contains("tidegate.dev/canary=web"), "the condition says how: {said}");

    let handed_over = json!({ "metadata": { "annotations": { "tidegate.dev/canary": "web" } } });
    world.patch(HTTP_ROUTES, "web", &handed_over);
    reach(&world, "Initialized").await;
    assert_eq!(canary_share(&world), 0);
    let rule = object(&world, HTTP_ROUTES, "web")["spec"]["rules"][0].clone();
    assert_eq!(rule["filters"][0]["type"], "ExtensionRef", "who guards it still does: {rule}");

    world.delete(CANARIES, "web");
    let is_gone = world.until(300, |world| world.get(CANARIES, "web").is_none()).await;
    assert!(is_gone, "{:#}", world.status("web"));
    assert_eq!(object(&world, HTTP_ROUTES, "web")["spec"], before["spec"]);
}

fn referring() -> Value {
    let mut canary = canary("web", GATEWAY_API, by_weight());
    canary["spec"]["routeRef"] = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front",
    });
    canary
}

/// The shares of the canary in all versions of the route since then, without repetition.
fn front_shares(world: &World, since: u64) -> Vec<i64> {
    let versions = history(world, HTTP_ROUTES, "front", since);
    let mut shares: Vec<_> = versions.iter().map(crate::stage::share_in).collect();
    shares.dedup();
    shares
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_referred_to_is_divided_and_given_back_whatever_deletion_reverts() {
    let mut world = with_canary(referring());
    let before = world.create(HTTP_ROUTES, users_route("front"));
    world.start().await;
    reach(&world, "Initialized").await;
    assert_eq!(object(&world, CANARIES, "web")["metadata"]["finalizers"][0], FINALIZER);
    let since = revision(&world);
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(front_shares(&world, since), [20, 40, 60, 0]);
    let rule = object(&world, HTTP_ROUTES, "front")["spec"]["rules"][0].clone();
    assert_eq!(rule["filters"], before["spec"]["rules"][0]["filters"]);
    assert_eq!(rule["matches"], before["spec"]["rules"][0]["matches"]);
    assert_eq!(world.get(HTTP_ROUTES, "web"), None, "no route of our own");
    world.delete(CANARIES, "web");
    let is_gone = world.until(300, |world| world.get(CANARIES, "web").is_none()).await;
    assert!(is_gone, "{:#}", world.status("web"));
    let after = object(&world, HTTP_ROUTES, "front");
    assert_eq!(after["spec"], before["spec"], "its Services go with the canary; it must not");
    assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_who_puts_his_route_back_in_mid_rollout_does_not_skip_a_step() {
    let mut world = with_canary(referring());
    world.create(HTTP_ROUTES, users_route("front"));
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    let share = |world: &World| crate::stage::share_in(&object(world, HTTP_ROUTES, "front"));
    assert!(world.until(100, |world| share(world) == 40).await);
    let rules = users_route("front")["spec"]["rules"].clone();
    let since = revision(&world);
    world.patch(HTTP_ROUTES, "front", &json!({ "spec": { "rules": rules } }));
    reach(&world, "Succeeded").await;
    let shares = front_shares(&world, since);
    assert!(shares.windows(2).all(|pair| pair[1] - pair[0] <= 20), "a step at a time: {shares:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_leads_nowhere_holds_and_says_what_is_missing() {
    let mut world = with_canary(referring());
    world.start().await;
    world.advance_s(60).await;
    let said = world.status("web")["conditions"].to_string();
    assert!(said.contains("HTTPRoute default/front does not exist"), "{said}");
    let mut elsewhere = users_route("front");
    elsewhere["spec"]["rules"][0]["backendRefs"][0]["name"] = json!("other");
    world.create(HTTP_ROUTES, elsewhere);
    world.advance_s(60).await;
    let said = world.status("web")["conditions"].to_string();
    assert!(said.contains("no rule of it leads to Service web"), "{said}");
}

// === Services ===

fn users_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
        ] },
    })
}

/// Messages of events with this reason.
fn messages(world: &World, reason: &str) -> Vec<String> {
    let events = world.events().into_iter().filter(|(it, _)| it == reason);
    events.map(|(_, message)| message).collect()
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_taken_over_is_told_of_once_and_not_before_it_is() {
    let mut world = with_canary(canary_of("web", KUBERNETES, blue_green()));
    world.create(SERVICES, users_service());
    let writes = Matcher::writes().user(OPERATOR).resource("", "services").name("web");
    let faults = world.sandbox.server().faults.clone();
    let rule = faults.add(writes, When::Always, Effect::ServerError { code: 500 });
    world.start().await;
    world.advance_s(30).await;
    assert_eq!(messages(&world, "ServiceTakenOver"), Vec::<String>::new(), "it is not done yet");
    faults.remove(rule);
    reach(&world, "Initialized").await;
    let [message] = messages(&world, "ServiceTakenOver").try_into().unwrap();
    assert!(message.contains("Service web existed before"), "{message}");
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    world.start().await;
    world.advance_s(30).await;
    assert_eq!(told(&world, "ServiceTakenOver"), 1, "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn every_service_that_is_made_again_to_be_headless_is_told_of_once() {
    let world = initialized(KUBERNETES, blue_green()).await;
    for headless in [true, false] {
        let before = messages(&world, "ServiceRecreated").len();
        edit(&world, json!({ "service": { "headless": headless } }));
        world.advance_s(30).await;
        let mut told = messages(&world, "ServiceRecreated").split_off(before);
        told.sort();
        assert_eq!(told.len(), 3, "{told:?}");
        for (message, name) in told.iter().zip(["web was", "web-canary was", "web-primary was"]) {
            assert!(message.contains(name), "{message}");
            assert_eq!(message.contains("headless Service"), headless, "{message}");
        }
        let address = object(&world, SERVICES, "web")["spec"]["clusterIP"].clone();
        assert_eq!(address == "None", headless);
    }
    assert_eq!(told(&world, "ServiceTakenOver"), 0, "they were its own");
}

#[tokio::test(start_paused = true)]
async fn a_label_that_is_no_longer_asked_for_leaves_the_route_at_once_and_those_of_others_stay() {
    for provider in [GATEWAY_API, ISTIO] {
        let table = if provider == ISTIO { VIRTUAL_SERVICES } else { HTTP_ROUTES };
        let mut canary = canary_of("web", provider, by_weight());
        canary["spec"]["service"]["apex"] = json!({
            "labels": { "team": "a", "tier": "front" }, "annotations": { "note": "b" },
        });
        let world = initialized_with(canary).await;
        world.patch(table, "web", &json!({ "metadata": { "labels": { "theirs": "yes" } } }));
        let apex = json!({ "labels": { "tier": null }, "annotations": { "note": null } });
        edit(&world, json!({ "service": { "apex": apex } }));
        world.advance_s(5).await;
        let metadata = object(&world, table, "web")["metadata"].clone();
        assert_eq!(metadata["labels"], json!({ "team": "a", "theirs": "yes" }), "{provider}");
        assert_eq!(metadata["annotations"].get("note"), None, "{provider}: {metadata:#}");
        let at_rest = mark(&world);
        world.advance_s(120).await;
        assert_eq!(writes_since(&world, at_rest), Vec::<String>::new(), "{provider}");
    }
}

// === A Service that is switched ===

fn switching(analysis: Value) -> Value {
    let mut canary = canary("web", KUBERNETES, analysis);
    canary["spec"]["service"]["switchApex"] = json!(true);
    canary
}

/// The pods that the apex selected in each of its versions since then, without repetition.
fn selected_since(world: &World, since: u64) -> Vec<String> {
    let versions = history(world, SERVICES, "web", since);
    let app = |service: &Value| crate::stage::text(&service["spec"]["selector"]["app"]);
    let mut selected: Vec<_> = versions.iter().map(app).collect();
    selected.dedup();
    selected
}

fn selects(world: &World) -> String {
    crate::stage::text(&object(world, SERVICES, "web")["spec"]["selector"]["app"])
}

#[tokio::test(start_paused = true)]
async fn a_switched_apex_selects_the_canary_after_its_checks_and_the_primary_after_promotion() {
    let world = initialized_with(switching(measured(blue_green()))).await;
    assert_eq!(selects(&world), "web-primary");
    let since = revision(&world);
    release(&world, "web:2.0");
    let is_switched = world.until(200, |world| selects(world) == "web").await;
    assert!(is_switched, "{:#}", world.status("web"));
    assert_eq!(image(&world, "web-primary"), "web:1.0", "clients go first");
    reach(&world, "Succeeded").await;
    assert_eq!(selected_since(&world, since), ["web", "web-primary"]);
    assert_eq!(image(&world, "web-primary"), "web:2.0");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_fails_its_checks_is_never_selected() {
    let world = initialized_with(switching(measured(blue_green()))).await;
    let since = revision(&world);
    break_metrics(&world);
    release(&world, "web:2.0");
    reach(&world, "Failed").await;
    assert_eq!(selected_since(&world, since), Vec::<String>::new(), "not even touched");
}

#[tokio::test(start_paused = true)]
async fn a_revision_pushed_while_the_canary_is_selected_gets_no_clients_unanalysed() {
    let world = initialized_with(switching(measured(blue_green()))).await;
    release(&world, "web:2.0");
    assert!(world.until(200, |world| selects(world) == "web").await);
    release(&world, "web:3.0");
    world.settle().await;
    assert_eq!(selects(&world), "web-primary", "{:#?}", world.events());
    reach(&world, "Succeeded").await;
    assert_eq!(image(&world, "web-primary"), "web:3.0");
}

#[tokio::test(start_paused = true)]
async fn a_switched_apex_of_the_users_is_as_it_was_once_the_canary_is_deleted() {
    for is_switched in [false, true] {
        let mut canary = switching(measured(blue_green()));
        canary["spec"]["revertOnDeletion"] = json!(true);
        let mut world = with_canary(canary);
        let spec = json!({
            "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }],
        });
        let metadata = json!({ "name": "web", "labels": { "team": "a" } });
        let service =
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec });
        world.create(SERVICES, service);
        let before = object(&world, SERVICES, "web");
        world.start().await;
        reach(&world, "Initialized").await;
        release(&world, "web:2.0");
        let is_there = world.until(200, |world| {
            let iterations = &world.status("web")["iterations"];
            if is_switched { selects(world) == "web" } else { *iterations == 1 }
        });
        assert!(is_there.await, "{:#}", world.status("web"));
        world.delete(CANARIES, "web");
        let is_gone = world.until(300, |world| world.get(CANARIES, "web").is_none()).await;
        assert!(is_gone, "switched: {is_switched}: {:#}", world.status("web"));
        world.advance_s(5).await;
        let after = object(&world, SERVICES, "web");
        assert_eq!(after["spec"], before["spec"], "switched: {is_switched}");
        assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
        assert_eq!(after["metadata"]["ownerReferences"], Value::Null);
        assert_eq!(crate::stage::replicas(&world, "web"), 2, "switched: {is_switched}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_apex_somebody_switches_by_hand_goes_back() {
    let world = initialized_with(switching(blue_green())).await;
    world.patch(DEPLOYMENTS, "web", &json!({ "spec": { "replicas": 1 } }));
    world.advance_s(10).await;
    world.patch(SERVICES, "web", &json!({ "spec": { "selector": { "app": "web" } } }));
    world.advance_s(10).await;
    assert_eq!(selects(&world), "web-primary");
}

#[tokio::test(start_paused = true)]
async fn without_the_switch_clients_see_the_primary_at_all_times() {
    let world = initialized(KUBERNETES, measured(blue_green())).await;
    let since = revision(&world);
    release(&world, "web:2.0");
    reach(&world, "Succeeded").await;
    assert_eq!(selected_since(&world, since), Vec::<String>::new());
}

// === Definitions ===

/// The definition of `HTTPRoute` with or without the later fields.
fn define(world: &World, knows: bool) {
    let mut definition =
        world.admin.get(DEFINITIONS, "", HTTP_ROUTE_DEFINITION).expect("routing is on");
    let versions = definition["spec"]["versions"].as_array_mut().expect("versions are a list");
    for version in versions {
        let rule = version
            .pointer_mut(
                "/schema/openAPIV3Schema/properties/spec/properties/rules/items/properties",
            )
            .expect("rules have a schema");
        let fields = rule.as_object_mut().expect("fields are a map");
        for name in ["name", "retry"] {
            fields.remove(name);
        }
        if knows {
            fields.insert("name".to_owned(), json!({ "type": "string" }));
            let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            fields.insert("retry".to_owned(), open);
        }
    }
    world.admin.update(DEFINITIONS, "", definition).expect("it is taken");
}

fn sticky() -> Value {
    let mut analysis = by_weight();
    analysis["sessionAffinity"] = json!({ "cookieName": "ck" });
    let mut canary = canary_of("web", GATEWAY_API, analysis);
    canary["spec"]["service"]["retries"] = json!({ "attempts": 2 });
    canary
}

/// Whether the rules of the route have names and retries.
fn has_new_fields(world: &World) -> (bool, bool) {
    let route = object(world, HTTP_ROUTES, "web");
    let rules = route["spec"]["rules"].as_array().cloned().unwrap_or_default();
    (rules.iter().any(|it| it["name"].is_string()), rules.iter().any(|it| it["retry"].is_object()))
}

#[tokio::test(start_paused = true)]
async fn a_route_has_the_fields_that_the_cluster_knows_and_no_others() {
    for knows in [true, false] {
        let mut world = with_canary(sticky());
        define(&world, knows);
        world.start().await;
        reach(&world, "Initialized").await;
        release(&world, "web:2.0");
        let there = world.until(100, |world| world.status("web")["canaryWeight"] == 20).await;
        assert!(there, "{knows}: {:#?}", world.events());
        assert_eq!(has_new_fields(&world), (knows, knows));
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_come_with_a_newer_definition_are_used_from_the_next_rollout_on() {
    let mut world = with_canary(sticky());
    define(&world, false);
    world.start().await;
    reach(&world, "Initialized").await;
    define(&world, true);
    let before = mark(&world);
    world.advance_s(3_600).await;
    assert_eq!(requests_since(&world, before), Vec::<String>::new(), "at rest nobody asks");
    release(&world, "web:2.0");
    let there = world.until(100, |world| world.status("web")["canaryWeight"] == 20).await;
    assert!(there, "{:#?}", world.events());
    assert_eq!(has_new_fields(&world), (true, true));
}

#[tokio::test(start_paused = true)]
async fn fields_that_are_taken_away_in_mid_rollout_do_not_stop_it() {
    let mut world = with_canary(sticky());
    define(&world, true);
    world.start().await;
    reach(&world, "Initialized").await;
    release(&world, "web:2.0");
    assert!(world.until(100, |world| world.status("web")["canaryWeight"] == 20).await);
    define(&world, false);
    // An API server drops stored fields that are no longer in the definition.
    let mut rules = object(&world, HTTP_ROUTES, "web")["spec"]["rules"].clone();
    for rule in rules.as_array_mut().unwrap() {
        rule.as_object_mut().unwrap().retain(|key, _| key != "name" && key != "retry");
    }
    world.patch(HTTP_ROUTES, "web", &json!({ "spec": { "rules": rules } }));
    reach(&world, "Succeeded").await;
    assert_eq!(has_new_fields(&world), (false, false), "{:#?}", world.events());
}

// === Cleanup ===

fn with_config(image: &str, config: Option<&str>) -> Value {
    let mut template = deployment("web", image, 2)["spec"]["template"].clone();
    let reads = config.map(|name| json!([{ "configMapRef": { "name": name } }]));
    template["spec"]["containers"][0]["envFrom"] = json!(reads);
    json!({ "spec": { "template": template } })
}

fn config(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "color": "blue" } })
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_no_pod_reads_any_more_goes_after_the_promotion_and_not_before() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.create(CONFIG_MAPS, config("old"));
    world.create(CONFIG_MAPS, config("new"));
    // The user's own, whatever its name.
    world.create(CONFIG_MAPS, config("mine-primary"));
    world.patch(DEPLOYMENTS, "web", &with_config("web:1.0", Some("old")));
    world.start().await;
    reach(&world, "Initialized").await;
    assert!(world.get(CONFIG_MAPS, "old-primary").is_some());
    world.patch(DEPLOYMENTS, "web", &with_config("web:2.0", Some("new")));
    reach(&world, "Promoting").await;
    assert!(world.get(CONFIG_MAPS, "old-primary").is_some(), "pods of 1.0 may still start");
    reach(&world, "Succeeded").await;
    world.settle().await;
    assert_eq!(world.get(CONFIG_MAPS, "old-primary"), None, "{:#?}", world.events());
    for name in ["new-primary", "old", "new", "mine-primary"] {
        assert!(world.get(CONFIG_MAPS, name).is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_two_canaries_own_is_told_of_and_stays() {
    let mut world = with_canary(canary_of("web", GATEWAY_API, by_weight()));
    world.create(CONFIG_MAPS, config("shared"));
    world.patch(DEPLOYMENTS, "web", &with_config("web:1.0", Some("shared")));
    world.start().await;
    reach(&world, "Initialized").await;
    let mut other = deployment("api", "web:1.0", 1);
    other["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{ "configMapRef": { "name": "shared" } }]);
    world.create(DEPLOYMENTS, other);
    world.create(CANARIES, canary("api", KUBERNETES, blue_green()));
    assert!(world.until(120, |world| world.phase("api") == "Initialized").await);
    let events = world.events();
    let is_warned = |(_, message): &(String, String)| {
        message.contains("shared-primary") && message.contains("the primary of web")
    };
    assert!(events.iter().any(is_warned), "{events:#?}");
    world.patch(DEPLOYMENTS, "web", &with_config("web:2.0", None));
    reach(&world, "Succeeded").await;
    world.settle().await;
    assert!(world.get(CONFIG_MAPS, "shared-primary").is_some(), "the other one reads it");
}

#[tokio::test(start_paused = true)]
async fn a_renamed_service_leaves_nothing_of_its_old_name_but_what_is_the_users() {
    let world = initialized(ISTIO, by_weight()).await;
    let mut users = object(&world, SERVICES, "web");
    users["metadata"] = json!({ "name": "web-extra" });
    users["spec"].as_object_mut().unwrap().retain(|key, _| key == "selector" || key == "ports");
    world.create(SERVICES, users);
    edit(&world, json!({ "service": { "name": "shop" } }));
    world.advance_s(30).await;
    for name in ["shop", "shop-primary", "shop-canary", "web-extra"] {
        assert!(world.get(SERVICES, name).is_some(), "{name}");
    }
    let virtual_services = Resource { group: "networking.istio.io", plural: "virtualservices" };
    let rules = Resource { group: "networking.istio.io", plural: "destinationrules" };
    for (resource, name) in [
        (SERVICES, "web"),
        (SERVICES, "web-primary"),
        (SERVICES, "web-canary"),
        (virtual_services, "web"),
        (rules, "web-primary"),
        (rules, "web-canary"),
    ] {
        assert_eq!(world.get(resource, name), None, "{name}: {:#?}", world.events());
    }
    assert!(world.get(virtual_services, "shop").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_changed_while_nobody_looks_leaves_nothing_of_the_former_one() {
    let mut world = initialized(ISTIO, by_weight()).await;
    assert_eq!(world.status("web")["rollout"]["provider"], ISTIO);
    world.kill();
    let gateways = json!([{ "name": "edge" }]);
    edit(&world, json!({ "provider": GATEWAY_API, "service": { "gatewayRefs": gateways } }));
    world.start().await;
    world.advance_s(30).await;
    assert!(world.get(HTTP_ROUTES, "web").is_some(), "{:#?}", world.events());
    let rules = Resource { group: "networking.istio.io", plural: "destinationrules" };
    let former = [(VIRTUAL_SERVICES, "web"), (rules, "web-primary"), (rules, "web-canary")];
    for (resource, name) in former {
        assert_eq!(world.get(resource, name), None, "{name}: {:#?}", world.events());
    }
    assert_eq!(world.status("web")["rollout"]["provider"], GATEWAY_API, "nothing of it is left");
    let before = mark(&world);
    world.start().await;
    world.advance_s(3_600).await;
    let requests = requests_since(&world, before);
    assert!(!requests.iter().any(|it| it.contains("istio")), "nobody asks for it: {requests:?}");
    assert_eq!(writes_since(&world, before), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_was_never_written_down_is_no_reason_to_write() {
    let mut world = initialized(ISTIO, by_weight()).await;
    world.kill();
    let forgotten = json!({ "status": { "rollout": null } });
    let patched = world.admin.patch(CANARIES, "default", "web", "status", &forgotten);
    patched.expect("the status is accepted");
    let before = mark(&world);
    world.start().await;
    world.advance_s(600).await;
    assert_eq!(writes_since(&world, before), Vec::<String>::new(), "at rest");
    release(&world, "web:2.0");
    reach(&world, "Progressing").await;
    assert_eq!(world.status("web")["rollout"]["provider"], ISTIO, "it came along");
}

// === Another cluster ===

#[tokio::test(start_paused = true)]
async fn routes_live_in_the_cluster_of_the_mesh_and_workloads_in_their_own() {
    let mut world = unjudged(with_canary(canary_of("web", GATEWAY_API, by_weight())));
    let mesh = Sandbox::new(Settings::for_tests().routing());
    let there = mesh.local(User::admin());
    world.mesh = Some(mesh);
    world.start().await;
    reach(&world, "Initialized").await;
    let route = || there.get(HTTP_ROUTES, "default", "web");
    let made = route().unwrap();
    assert_eq!(made["metadata"]["ownerReferences"], Value::Null, "owners do not reach that far");
    assert_eq!(world.get(HTTP_ROUTES, "web"), None);
    assert_eq!(there.get(SERVICES, "default", "web-primary"), None);
    release(&world, "web:2.0");
    let share = || crate::stage::share_in(&route().unwrap());
    assert!(world.until(100, |_| share() == 40).await, "{:#?}", world.events());
    reach(&world, "Succeeded").await;
    assert_eq!(share(), 0);
    assert_eq!(image(&world, "web-primary"), "web:2.0");
    assert_eq!(told(&world, "Failed"), 0);
    let original = "flagger.kubernetes.io/original-configuration";
    let annotations = route().unwrap()["metadata"]["annotations"].clone();
    assert_eq!(annotations[original], Value::Null, "our own is no original: {annotations}");
}
