//! Calls: a `GRPCRoute` instead of an `HTTPRoute`.

use super::*;

fn world(service: Value, analysis: Value) -> World {
    let mut grpc = json!({ "appProtocol": "grpc" });
    merge(&mut grpc, &service);
    World::new(Mesh::GatewayApiV1, grpc, analysis)
}

fn refusal(service: Value, analysis: Value) -> String {
    world(service, analysis).check().unwrap_err().to_string()
}

#[test]
fn the_protocol_or_else_the_ports_name_tells_calls_from_requests() {
    let cases = [
        ("says nothing", json!({}), "HTTPRoute"),
        ("the protocol", json!({ "appProtocol": "grpc" }), "GRPCRoute"),
        ("in any case", json!({ "appProtocol": "GRPC" }), "GRPCRoute"),
        ("the port", json!({ "portName": "grpc" }), "GRPCRoute"),
        ("a port among several", json!({ "portName": "grpc-api" }), "GRPCRoute"),
        ("web is HTTP", json!({ "portName": "grpc-web" }), "HTTPRoute"),
        ("another word", json!({ "portName": "grpcurl" }), "HTTPRoute"),
        ("bytes, not meaning", json!({ "appProtocol": "kubernetes.io/h2c" }), "HTTPRoute"),
        (
            "bytes, and the port",
            json!({ "appProtocol": "kubernetes.io/h2c", "portName": "grpc" }),
            "GRPCRoute",
        ),
        ("the way out", json!({ "appProtocol": "http", "portName": "grpc" }), "HTTPRoute"),
    ];
    for (reason, service, want) in cases {
        let mut world = World::new(Mesh::GatewayApiV1, service.clone(), json!({}));
        world.reconcile();
        assert_eq!(world.route()["kind"], want, "{reason}");
        let older = World::new(Mesh::GatewayApiV1Beta1, service, json!({}));
        assert_eq!(older.mesh.kinds_for(&older.spec), [HTTP_ROUTE_V1BETA1], "{reason}");
    }
}

#[test]
fn calls_are_divided_by_weight() {
    let headers =
        json!({ "request": { "add": { "x-a": "1" } }, "response": { "remove": ["x-b"] } });
    let mut world = world(json!({ "headers": headers, "hosts": ["shop.example.com"] }), json!({}));
    world.reconcile();
    world.write(split(20));
    assert_eq!(world.read(), Ok(split(20)));
    let route = world.route();
    assert_eq!(route["apiVersion"], "gateway.networking.k8s.io/v1");
    assert_eq!(route["spec"]["hostnames"], json!(["shop.example.com"]));
    let [rule] = world.rules().try_into().unwrap();
    assert_eq!(rule["matches"], Value::Null, "all calls");
    let backend = |name: &str, weight: i64| json!({ "group": "", "kind": "Service", "name": name, "port": 80, "weight": weight });
    assert_eq!(
        rule["backendRefs"],
        json!([backend("shop-primary", 80), backend("shop-canary", 20)])
    );
    assert_eq!(filters(&rule, "RequestHeaderModifier").len(), 1);
    assert_eq!(filters(&rule, "ResponseHeaderModifier").len(), 1);
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn calls_are_mirrored() {
    let mut world = world(json!({}), json!({ "mirror": true, "mirrorWeight": 10 }));
    world.write(mirrored(0));
    assert_eq!(world.read(), Ok(mirrored(0)));
    let mirror = &filters(&world.rules()[0], "RequestMirror")[0]["requestMirror"];
    assert_eq!(
        (&mirror["backendRef"]["name"], &mirror["percent"]),
        (&json!("shop-canary"), &json!(10))
    );
}

#[test]
fn a_test_tells_calls_apart_by_headers_and_service() {
    let by_user = json!({ "stepWeight": null, "iterations": 5,
        "match": [{ "headers": { "x-user": { "exact": "a" } } }] });
    let service = json!({ "match": [
        { "uri": { "prefix": "/shop.v1.Orders/" } },
        { "uri": { "exact": "/shop.v1.Cart/Add" }, "method": { "exact": "POST" } },
    ] });
    let mut world = world(service, by_user);
    world.write(Split::CANARY);
    assert_eq!(world.read(), Ok(Split::CANARY));
    let [tested, rest] = world.rules().try_into().unwrap();
    let header = json!({ "type": "Exact", "name": "x-user", "value": "a" });
    let orders = json!({ "type": "Exact", "service": "shop.v1.Orders" });
    let add = json!({ "type": "Exact", "service": "shop.v1.Cart", "method": "Add" });
    assert_eq!(
        tested["matches"],
        json!([{ "method": orders, "headers": [header] }, { "method": add, "headers": [header] }])
    );
    assert_eq!(rest["matches"], json!([{ "method": orders }, { "method": add }]));
    assert_eq!(rest["backendRefs"][0]["name"], "shop-primary");
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn a_condition_that_fits_all_calls_leaves_no_condition() {
    let service = json!({ "match": [
        { "uri": { "prefix": "/" } }, { "uri": { "prefix": "/shop.v1.Orders" } },
    ] });
    let mut world = world(service, json!({}));
    world.reconcile();
    assert_eq!(world.rules()[0]["matches"], Value::Null);
}

#[test]
fn settings_without_an_equivalent_for_calls_are_refused_with_the_way_out() {
    let matched = |condition: Value| json!({ "match": [condition] });
    let plain = json!({});
    let by_query = json!({ "stepWeight": null, "iterations": 5,
        "match": [{ "queryParams": { "q": { "exact": "1" } } }] });
    let cases = [
        ("service.timeout", json!({ "timeout": "10s" }), plain.clone()),
        ("service.backendTimeout", json!({ "backendTimeout": "10s" }), plain.clone()),
        ("service.rewrite", json!({ "rewrite": { "uri": "/" } }), plain.clone()),
        ("service.corsPolicy", json!({ "corsPolicy": {} }), plain.clone()),
        (
            "service.match[0].queryParams",
            matched(json!({ "queryParams": { "q": { "exact": "1" } } })),
            plain.clone(),
        ),
        (
            "service.match[0].method",
            matched(json!({ "method": { "exact": "GET" } })),
            plain.clone(),
        ),
        ("service.match", matched(json!({ "uri": { "regex": "/a.*" } })), plain.clone()),
        ("service.match", matched(json!({ "uri": { "prefix": "/a/b/c" } })), plain.clone()),
        ("service.match", matched(json!({ "uri": { "exact": "/" } })), plain),
        ("analysis.match[0].queryParams", json!({}), by_query),
    ];
    for (field, service, analysis) in cases {
        let refusal = refusal(service, analysis);
        assert!(refusal.contains(&format!("spec.{field}: ")), "{field}: {refusal}");
        assert!(refusal.contains("appProtocol to http"), "{refusal}");
    }
}

#[test]
fn callers_keep_no_cookies() {
    let world = world(json!({}), json!({ "sessionAffinity": { "cookieName": "ck" } }));
    assert_eq!(world.mesh.capabilities(&world.spec).affinity, Affinity::None);
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn a_service_that_changes_its_protocol_keeps_its_weights_and_one_route() {
    for (from, to, kind) in [("http", "grpc", "GRPCRoute"), ("grpc", "http", "HTTPRoute")] {
        let mut world = World::new(Mesh::GatewayApiV1, json!({ "appProtocol": from }), json!({}));
        world.reconcile();
        world.write(split(40));
        world.edit_spec(json!({ "service": { "appProtocol": to } }));
        world.reconcile();
        assert_eq!(world.route()["kind"], kind);
        assert_eq!(world.read(), Ok(split(40)), "{from} to {to}");
        let routes =
            world.mesh.kinds().iter().filter(|kind| world.live.get(**kind, "shop").is_some());
        assert_eq!(routes.count(), 1, "{from} to {to}: the other one is gone");
        assert_eq!(world.drift(), Ok(vec![]));
    }
}

#[test]
fn a_route_of_the_other_protocol_that_was_led_back_does_not_pass_that_on() {
    let mut world = World::new(Mesh::GatewayApiV1, json!({ "appProtocol": "http" }), json!({}));
    world.reconcile();
    world.write(split(40));
    world.edit_spec(json!({ "service": { "appProtocol": "grpc" } }));
    let requests = world.live.get(HTTP_ROUTE_V1, "shop").unwrap();
    let left = world.mesh.leave(&world.cx(), HTTP_ROUTE_V1, requests, &world.live).unwrap();
    assert!(left.is_some());
    world.carry_out(left.into_iter().collect());
    let cx = RouteCx { inherited: split(40), ..world.cx() };
    let changes = world.mesh.reconcile(&cx, &world.live).unwrap();
    world.carry_out(changes);
    assert_eq!(world.read(), Ok(split(40)));
    assert_eq!(world.live.get(HTTP_ROUTE_V1, "shop"), None);
}

#[test]
fn a_route_of_the_other_protocol_that_is_the_users_stays() {
    let mut world = world(json!({}), json!({}));
    let route = json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "shop" }, "spec": { "rules": [] } });
    world.put(HTTP_ROUTE_V1, route);
    world.reconcile();
    assert!(world.live.get(HTTP_ROUTE_V1, "shop").is_some());
    assert_eq!(world.route()["kind"], "GRPCRoute");
}

#[test]
fn a_route_of_calls_counts_once_its_gateway_took_it() {
    let mut world = world(json!({}), json!({}));
    world.reconcile();
    world.edit_route(|route| {
        route["metadata"]["generation"] = json!(2);
        let parent = route["spec"]["parentRefs"][0].clone();
        let refused =
            json!([{ "type": "Accepted", "status": "False", "reason": "NoMatchingParent" }]);
        route["status"] = json!({ "parents": [{ "parentRef": parent, "conditions": refused }] });
    });
    let error = world.read().unwrap_err();
    assert!(error.is_waiting(), "{error}");
    assert!(error.to_string().contains("GRPCRoute web/shop"), "{error}");
}
