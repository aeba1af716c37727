//! Gloo.

use super::*;

fn reconciled(service: Value, analysis: Value) -> World {
    let mut world = World::new(Mesh::Gloo, service, analysis);
    world.reconcile();
    world
}

fn upstream_kind() -> Kind {
    Mesh::Gloo.kinds()[0]
}

fn upstream<'w>(world: &'w World, side: &str) -> &'w Value {
    world.live.get(upstream_kind(), &format!("web-shop-{side}upstream-80")).unwrap()
}

/// A canary whose upstreams take settings from `infra/config`.
fn with_settings(settings: Value) -> World {
    let mut world = World::plain(Mesh::Gloo);
    world.edit_spec(json!({ "upstreamRef": { "apiVersion": "gloo.solo.io/v1", "kind": "Upstream",
        "name": "config", "namespace": "infra" } }));
    put_settings(&mut world, settings);
    world
}

fn put_settings(world: &mut World, settings: Value) {
    let object = json!({ "metadata": { "name": "config" }, "spec": settings });
    world.live.insert_from(upstream_kind(), "infra", object);
}

#[test]
fn each_side_has_an_upstream_that_selects_its_pods() {
    let world = reconciled(json!({}), json!({}));
    for (side, app) in [("primary", "store-primary"), ("canary", "store")] {
        assert_eq!(
            upstream(&world, side)["spec"],
            json!({ "kube": {
            "serviceName": format!("shop-{side}"),
            "serviceNamespace": "web",
            "servicePort": 80,
            "selector": { "app.kubernetes.io/name": app },
        } })
        );
        assert_eq!(upstream(&world, side)["metadata"]["labels"], Value::Null);
    }
    let destination = |side: &str, weight: u8| {
        let name = format!("web-shop-{side}upstream-80");
        json!({ "destination": { "upstream": { "name": name, "namespace": "web" } },
            "weight": weight })
    };
    assert_eq!(
        world.route()["spec"],
        json!({ "routes": [{
        "inheritablePathMatchers": true,
        "routeAction": { "multi": { "destinations": [
            destination("primary", 100), destination("canary", 0) ] } },
    }] })
    );
    let mut early = World::plain(Mesh::Gloo);
    early.live.remove(SERVICE, "shop-primary");
    assert_eq!(early.drift().unwrap_err().label(), "missing", "its Service comes first");
}

#[test]
fn a_test_does_not_leave_other_users_without_a_route() {
    let items = json!([
        { "headers": { "x-b": { "regex": "b.*" }, "x-a": { "exact": "a" } } },
        { "headers": { "x-c": { "prefix": "c." } } },
    ]);
    let mut world =
        reconciled(json!({}), json!({ "stepWeight": null, "iterations": 5, "match": items }));
    world.write(Split::CANARY);
    let routes = world.route()["spec"]["routes"].as_array().unwrap().clone();
    assert_eq!(
        routes[0]["matchers"],
        json!([
            { "headers": [{ "name": "x-a", "value": "a" },
                { "name": "x-b", "value": "b.*", "regex": true }] },
            { "headers": [{ "name": "x-c", "value": "c\\..*", "regex": true }] },
        ])
    );
    assert_eq!(routes.len(), 2);
    assert_eq!(routes[1]["matchers"], Value::Null);
    assert_eq!(routes[1]["routeAction"]["multi"]["destinations"][0]["weight"], 100);
    assert_eq!(world.read(), Ok(Split::CANARY));
}

#[test]
fn settings_are_taken_from_another_upstream_at_any_time() {
    let mut world = with_settings(json!({
        "labels": { "a": "b" }, "useHttp2": true, "static": { "hosts": [] },
        "loadBalancerConfig": { "roundRobin": {} },
    }));
    world.reconcile();
    let spec = &upstream(&world, "canary")["spec"];
    assert_eq!(spec["labels"], json!({ "a": "b" }));
    assert_eq!(spec["useHttp2"], true);
    assert_eq!(spec["static"], Value::Null, "where it leads is not a setting");
    assert_eq!(world.drift(), Ok(vec![]));

    put_settings(
        &mut world,
        json!({ "loadBalancerConfig": { "random": {} },
        "connectionConfig": { "maxRequestsPerConnection": 5 } }),
    );
    world.reconcile();
    let spec = &upstream(&world, "primary")["spec"];
    assert_eq!(spec["loadBalancerConfig"], json!({ "random": {} }));
    assert_eq!(spec["connectionConfig"]["maxRequestsPerConnection"], 5);
    assert_eq!(spec["useHttp2"], Value::Null);
}

#[test]
fn a_setting_that_is_removed_does_not_cause_a_write_at_every_look() {
    let mut world = with_settings(json!({ "loadBalancerConfig": { "random": {} } }));
    world.reconcile();
    put_settings(&mut world, json!({}));
    world.reconcile();
    assert_eq!(upstream(&world, "primary")["spec"]["loadBalancerConfig"], Value::Null);
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn settings_go_with_the_reference_to_them_and_those_of_the_users_stay() {
    let mut world = with_settings(json!({ "useHttp2": true, "labels": { "a": "b" } }));
    world.reconcile();
    world.edit_spec(json!({ "upstreamRef": null }));
    world.reconcile();
    for side in ["primary", "canary"] {
        let upstream = upstream(&world, side);
        assert_eq!(upstream["spec"]["useHttp2"], Value::Null, "{side}");
        assert_eq!(upstream["spec"]["labels"], Value::Null, "{side}");
        assert_eq!(upstream["metadata"]["annotations"]["tidegate.dev/settings-of"], Value::Null);
    }
    assert_eq!(world.drift(), Ok(vec![]));
    // A user without a reference may set the upstream directly.
    let mut set = upstream(&world, "primary").clone();
    set["spec"]["useHttp2"] = json!(true);
    world.put(upstream_kind(), set);
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn an_upstream_without_a_namespace_is_not_an_error_but_the_canarys_own() {
    let mut world = World::plain(Mesh::Gloo);
    world.edit_spec(json!({ "upstreamRef": {
        "apiVersion": "gloo.solo.io/v1", "kind": "Upstream", "name": "config" } }));
    let asked = Mesh::Gloo.elsewhere(&world.cx());
    assert_eq!(asked, [(upstream_kind(), "web".to_owned(), "config".to_owned())]);
    let error = world.drift().unwrap_err();
    assert_eq!(error.to_string(), "Upstream web/config does not exist");
    let object = json!({ "metadata": { "name": "config" }, "spec": { "useHttp2": true } });
    world.live.insert_from(upstream_kind(), "web", object);
    world.reconcile();
    assert_eq!(upstream(&world, "primary")["spec"]["useHttp2"], true);
}

#[test]
fn timeouts_and_retries_are_options_beside_those_of_others() {
    let service = json!({ "timeout": "1m30s",
        "retries": { "attempts": 3, "perTryTimeout": "250ms", "retryOn": "gateway-error" } });
    let mut world = reconciled(service, json!({}));
    let ours = json!({ "timeout": "90s", "retries": {
        "retryOn": "gateway-error", "numRetries": 3, "perTryTimeout": "0.250000000s" } });
    assert_eq!(world.route()["spec"]["routes"][0]["options"], ours);
    world.edit_route(|route| {
        route["spec"]["routes"][0]["options"]["prefixRewrite"] = json!("/");
    });
    assert_eq!(world.drift(), Ok(vec![]));
    world.edit_spec(json!({ "service": { "timeout": null, "retries": null } }));
    world.write(split(10));
    assert_eq!(world.route()["spec"]["routes"][0]["options"], json!({ "prefixRewrite": "/" }));
}

#[test]
fn another_port_in_mid_run_does_not_lose_the_weights() {
    let mut world = reconciled(json!({}), json!({}));
    world.write(split(40));
    world.edit_spec(json!({ "service": { "port": 8080 } }));
    world.reconcile();
    assert_eq!(world.read(), Ok(split(40)));
    assert!(world.route().to_string().contains("web-shop-canaryupstream-8080"));
}

#[test]
fn a_table_without_the_primary_is_not_read_as_a_split() {
    let mut world = reconciled(json!({}), json!({}));
    world.edit_route(|route| {
        let action = &mut route["spec"]["routes"][0]["routeAction"];
        action["multi"]["destinations"].as_array_mut().unwrap().remove(0);
    });
    assert_eq!(world.read().unwrap_err().label(), "malformed");
    for odd in [json!({}), json!({ "routes": [{ "delegateAction": {} }] }), json!({ "routes": 3 })]
    {
        world.edit_route(|route| route["spec"] = odd.clone());
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{odd}");
    }
}
