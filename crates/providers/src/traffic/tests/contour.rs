//! Contour.

use super::*;

fn world(service: Value, analysis: Value) -> World {
    let mut world = World::new(Mesh::Contour, service, analysis);
    world.reconcile();
    world
}

fn routes(world: &World) -> Vec<Value> {
    world.route()["spec"]["routes"].as_array().unwrap().clone()
}

fn matched(items: Value) -> Value {
    json!({ "stepWeight": null, "iterations": 5, "match": items })
}

#[test]
fn a_proxy_has_no_host_and_tells_linkerd_where_it_goes() {
    let mut world = world(
        json!({ "match": [{ "uri": { "prefix": "/api" } }], "timeout": "15s",
            "apex": { "labels": { "team": "a" } } }),
        json!({}),
    );
    world.write(split(10));
    let service = |name: &str, weight: u8| {
        let to = format!("{name}.web.svc.cluster.local:80");
        json!({ "name": name, "port": 80, "weight": weight, "requestHeadersPolicy": {
            "set": [{ "name": "l5d-dst-override", "value": to }] } })
    };
    let want = json!({ "routes": [{
        "conditions": [{ "prefix": "/api" }],
        "timeoutPolicy": { "response": "15s", "idle": "5m" },
        "services": [service("shop-primary", 90), service("shop-canary", 10)],
    }] });
    assert_eq!(world.route()["spec"], want);
    assert_eq!(world.route()["metadata"]["labels"], json!({ "team": "a" }));
    world.write(split(50));
    assert_eq!(world.read(), Ok(split(50)));
}

#[test]
fn the_class_is_a_field_of_the_proxy() {
    let mut world = World::plain(Mesh::Contour);
    world.ingress.class = "edge";
    world.reconcile();
    assert_eq!(world.route()["spec"]["ingressClassName"], "edge");
    assert_eq!(world.route()["spec"]["virtualhost"], Value::Null);
}

#[test]
fn retries_without_a_kind_of_failure_do_not_write_an_empty_one() {
    let retry = |retries: Value| {
        routes(&world(json!({ "retries": retries }), json!({})))[0]["retryPolicy"].clone()
    };
    assert_eq!(retry(json!({ "attempts": 3 })), json!({ "count": 3 }));
    assert_eq!(retry(json!({ "attempts": 3, "retryOn": "" })), json!({ "count": 3 }));
    assert_eq!(retry(json!({})), json!({ "count": 1 }), "as the server would fill in");
    assert_eq!(
        retry(json!({ "attempts": 2, "perTryTimeout": "1s", "retryOn": "5xx, gateway-error," })),
        json!({ "count": 2, "perTryTimeout": "1s", "retryOn": ["5xx", "gateway-error"] })
    );
}

#[test]
fn a_test_by_two_headers_does_not_repeat_the_prefix() {
    let items = json!([
        { "headers": { "x-b": { "prefix": "in" }, "x-a": { "exact": "1" } } },
        { "headers": { "x-a": { "exact": "2" } } },
    ]);
    let mut world = world(json!({}), matched(items));
    world.write(Split::CANARY);
    let routes = routes(&world);
    let conditions: Vec<_> = routes.iter().map(|route| route["conditions"].clone()).collect();
    assert_eq!(
        conditions,
        [
            json!([{ "prefix": "/" }, { "header": { "name": "x-a", "exact": "1" } },
            { "header": { "name": "x-b", "contains": "in" } }]),
            json!([{ "prefix": "/" }, { "header": { "name": "x-a", "exact": "2" } }]),
            json!([{ "prefix": "/" }]),
        ],
        "items are alternatives, and headers of one item hold together"
    );
    let weights: Vec<_> = routes
        .iter()
        .map(|route| [&route["services"][0]["weight"], &route["services"][1]["weight"]])
        .collect();
    assert_eq!(weights, [[0, 100], [0, 100], [100, 0]], "everybody else stays with the primary");
    assert_eq!(world.read(), Ok(Split::CANARY));
}

#[test]
fn a_pattern_does_not_become_a_condition_that_all_users_fit() {
    let items = json!([{ "headers": { "x-a": { "regex": "a.*" } } }]);
    let error = World::new(Mesh::Contour, json!({}), matched(items)).check().unwrap_err();
    assert!(error.to_string().contains("spec.analysis.match[0].headers.x-a"), "{error}");
    assert!(error.to_string().contains("exact or prefix or suffix"), "{error}");
}

#[test]
fn headers_that_a_user_sets_for_a_side_stay() {
    let mut world = world(json!({}), json!({}));
    world.edit_route(|route| {
        route["spec"]["routes"][0]["services"][1]["requestHeadersPolicy"]["set"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "x-side", "value": "canary" }));
        route["spec"]["routes"][0]["enableWebsockets"] = json!(true);
    });
    assert_eq!(world.drift(), Ok(vec![]));
    world.write(split(20));
    let route = &routes(&world)[0];
    assert_eq!(route["services"][1]["requestHeadersPolicy"]["set"][1]["name"], "x-side");
    assert_eq!(route["enableWebsockets"], true);
}

#[test]
fn a_route_that_a_user_adds_in_mid_run_does_not_reset_the_weights() {
    for mesh in [Mesh::Contour, Mesh::Gloo, Mesh::AppMeshV1Beta1, Mesh::AppMeshV1Beta2] {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(40));
        world.edit_route(|route| {
            let routes = route["spec"]["routes"].as_array_mut().unwrap();
            routes.push(json!({ "services": [{ "name": "other", "port": 80 }] }));
        });
        assert_eq!(world.read(), Ok(split(40)), "{mesh:?}");
        world.reconcile();
        assert_eq!(world.read(), Ok(split(40)), "{mesh:?}");
    }
}

#[test]
fn a_proxy_without_the_primary_is_not_read_as_a_split() {
    let mut world = world(json!({}), json!({}));
    world.edit_route(|route| {
        route["spec"]["routes"][0]["services"].as_array_mut().unwrap().remove(0);
    });
    assert_eq!(world.read().unwrap_err().label(), "malformed");
}
