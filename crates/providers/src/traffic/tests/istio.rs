//! Cases that only Istio has.

use super::*;

fn world(service: Value, analysis: Value) -> World {
    let mut world = World::new(Mesh::Istio, service, analysis);
    world.reconcile();
    world
}

fn spec(service: Value) -> Value {
    world(service, json!({})).route()["spec"].clone()
}

#[test]
fn a_virtual_service_at_rest_leads_to_the_primary() {
    let world = world(
        json!({ "hosts": ["shop.example.com"], "gateways": ["istio-system/public"], "timeout": "30s" }),
        json!({}),
    );
    let route = world.route();
    assert_eq!(
        route["spec"],
        json!({
            "hosts": ["shop.example.com", "shop"],
            "gateways": ["istio-system/public"],
            "http": [{
                "timeout": "30s",
                "route": [
                    { "destination": { "host": "shop-primary" }, "weight": 100 },
                    { "destination": { "host": "shop-canary" }, "weight": 0 },
                ],
            }],
        })
    );
    let metadata = &route["metadata"];
    assert_eq!(metadata["annotations"]["kustomize.toolkit.fluxcd.io/reconcile"], "disabled");
    assert_eq!(metadata["annotations"]["helm.toolkit.fluxcd.io/driftDetection"], "disabled");
    assert_eq!(metadata["ownerReferences"][0]["uid"], "u-1");
}

#[test]
fn hosts_and_gateways_have_their_defaults() {
    let cases = [
        ("nothing said", json!({}), json!(["shop"]), json!(["mesh"])),
        ("a wildcard covers the apex", json!({ "hosts": ["*"] }), json!(["*"]), json!(["mesh"])),
        ("the apex once", json!({ "hosts": ["shop"] }), json!(["shop"]), json!(["mesh"])),
        (
            "the mesh is not added to a list",
            json!({ "gateways": ["a/b"] }),
            json!(["shop"]),
            json!(["a/b"]),
        ),
        (
            "nor taken off it",
            json!({ "gateways": ["a/b", "mesh"] }),
            json!(["shop"]),
            json!(["a/b", "mesh"]),
        ),
        (
            "several of both",
            json!({ "hosts": ["a.example.com", "b.example.com"], "gateways": ["a/b", "c/d"] }),
            json!(["a.example.com", "b.example.com", "shop"]),
            json!(["a/b", "c/d"]),
        ),
    ];
    for (reason, service, hosts, gateways) in cases {
        let spec = spec(service);
        assert_eq!((&spec["hosts"], &spec["gateways"]), (&hosts, &gateways), "{reason}");
    }
}

#[test]
fn destinations_carry_a_port_only_where_istio_cannot_know_it() {
    let cases = [
        ("a gateway first", json!({ "gateways": ["a/b", "mesh"] }), json!({ "number": 80 })),
        ("the mesh first", json!({ "gateways": ["mesh"] }), Value::Null),
        ("no gateways", json!({}), Value::Null),
        ("a delegate", json!({ "delegation": true }), json!({ "number": 80 })),
    ];
    for (reason, mut service, port) in cases {
        service["portDiscovery"] = json!(true);
        let spec = spec(service);
        for side in spec["http"][0]["route"].as_array().unwrap() {
            assert_eq!(side["destination"]["port"], port, "{reason}");
        }
    }
}

#[test]
fn a_delegate_has_neither_hosts_nor_gateways() {
    let mut world = world(json!({ "hosts": ["a.example.com"] }), json!({}));
    // Turned on later: the fields that are there have to go.
    world.edit_spec(json!({ "service": { "hosts": null, "delegation": true } }));
    world.reconcile();
    let spec = &world.route()["spec"];
    assert_eq!((&spec["hosts"], &spec["gateways"]), (&json!([]), &Value::Null));
    for field in ["hosts", "gateways"] {
        let mut world = World::new(Mesh::Istio, json!({ "delegation": true }), json!({}));
        world.edit_spec(json!({ "service": { field: ["a"] } }));
        let error = world.drift().unwrap_err();
        assert!(error.to_string().contains("spec.service.delegation"), "{error}");
    }
}

#[test]
fn a_mirror_goes_to_the_canary_with_its_percentage() {
    for (weight, percentage) in [(0, Value::Null), (10, json!({ "value": 10 }))] {
        let mut world = world(json!({}), json!({ "mirror": true, "mirrorWeight": weight }));
        world.write(mirrored(0));
        let [rule] = world.rules().try_into().unwrap();
        assert_eq!(rule["mirror"], json!({ "host": "shop-canary" }));
        assert_eq!(rule["mirrorPercentage"], percentage);
        world.write(split(10));
        let [rule] = world.rules().try_into().unwrap();
        assert_eq!((&rule["mirror"], &rule["mirrorPercentage"]), (&Value::Null, &Value::Null));
    }
}

#[test]
fn conditions_of_analysis_and_service_hold_together() {
    let service = json!({ "match": [{
        "uri": { "prefix": "/api" },
        "headers": { "x-tenant": { "exact": "a" } },
    }] });
    let analysis = json!({ "stepWeight": null, "iterations": 5, "match": [
        { "headers": { "x-user": { "suffix": ".com" } } },
        { "queryParams": { "beta": { "exact": "1" } }, "sourceLabels": { "app": "front" } },
    ] });
    let mut world = world(service, analysis);
    world.write(split(100));
    let [matched, rest] = world.rules().try_into().unwrap();
    let tenant = json!({ "exact": "a" });
    assert_eq!(
        matched["match"],
        json!([
            {
                "uri": { "prefix": "/api" },
                // Istio has no suffix; it would be dropped and every value would fit.
                "headers": { "x-tenant": tenant, "x-user": { "regex": r".*\.com" } },
            },
            {
                "uri": { "prefix": "/api" },
                "headers": { "x-tenant": tenant },
                "queryParams": { "beta": { "exact": "1" } },
                "sourceLabels": { "app": "front" },
            },
        ])
    );
    assert_eq!(matched["route"][1]["weight"], 100);
    assert_eq!(rest["match"].as_array().unwrap().len(), 1);
    assert_eq!(
        rest["route"],
        json!([{ "destination": { "host": "shop-primary" }, "weight": 100 }])
    );
}

#[test]
fn a_test_without_conditions_is_refused() {
    let cases = [
        (
            "connections have no headers",
            json!({ "appProtocol": "tcp" }),
            json!({ "x-a": { "exact": "a" } }),
        ),
        ("no condition at all", json!({}), json!({})),
        ("a header with any value", json!({}), json!({ "x-a": {} })),
    ];
    for (reason, service, headers) in cases {
        let analysis =
            json!({ "stepWeight": null, "iterations": 5, "match": [{ "headers": headers }] });
        let world = World::new(Mesh::Istio, service, analysis);
        let error = world.check().unwrap_err();
        assert!(error.to_string().contains("spec.analysis.match"), "{reason}: {error}");
        assert_eq!(world.drift(), Err(error.clone()), "{reason}");
        assert_eq!(world.planned(split(100)), Err(error), "{reason}");
    }
}

#[test]
fn connections_are_divided_by_port() {
    let service = json!({ "appProtocol": "TCP", "timeout": "3s",
        "match": [{ "port": 80 }, { "uri": { "prefix": "/" } }, { "port": 81 }] });
    let mut world = world(service, json!({}));
    world.write(split(40));
    assert_eq!(
        world.route()["spec"]["tcp"],
        json!([{
            "match": [{ "port": 80 }, { "port": 81 }],
            "route": [
                { "destination": { "host": "shop-primary" }, "weight": 60 },
                { "destination": { "host": "shop-canary" }, "weight": 40 },
            ],
        }])
    );
    assert_eq!(world.route()["spec"]["http"], Value::Null);
    // Another protocol in mid-run is another list, with the same weights.
    world.edit_spec(json!({ "service": { "appProtocol": "http" } }));
    world.reconcile();
    assert_eq!(world.route()["spec"]["tcp"], Value::Null);
    assert_eq!(world.read(), Ok(split(40)));
}

#[test]
fn settings_for_requests_are_on_every_rule() {
    let service = json!({
        "rewrite": { "uri": "/", "authority": "shop", "type": "ReplacePrefixMatch" },
        "retries": { "attempts": 3, "retryOn": "5xx" },
        "headers": { "request": { "set": { "x-a": "1" } } },
        "corsPolicy": { "allowOrigins": [{ "regex": ".*" }], "maxAge": "24h" },
    });
    let analysis = json!({ "stepWeight": null, "iterations": 5,
        "match": [{ "headers": { "x-user": { "exact": "a" } } }] });
    let world = world(service.clone(), analysis);
    assert_eq!(world.rules().len(), 2);
    for rule in world.rules() {
        assert_eq!(rule["rewrite"], json!({ "uri": "/", "authority": "shop" }));
        for member in ["retries", "headers", "corsPolicy"] {
            assert_eq!(rule[member], service[member], "{member}");
        }
    }
}

#[test]
fn each_side_has_a_destination_rule_with_the_users_policy() {
    let policy = json!({ "loadBalancer": { "consistentHash": { "httpQueryParameterName": "q" } } });
    let mut world = world(json!({ "trafficPolicy": policy }), json!({}));
    for name in ["shop-canary", "shop-primary"] {
        let rule = world.live.get(DESTINATION_RULE, name).unwrap();
        assert_eq!(rule["spec"], json!({ "host": name, "trafficPolicy": policy }));
        assert_eq!(rule["metadata"]["ownerReferences"][0]["name"], "shop");
        assert_eq!(rule["metadata"]["annotations"], Value::Null);
    }
    world.edit_spec(json!({ "service": { "trafficPolicy": null } }));
    world.reconcile();
    let rule = world.live.get(DESTINATION_RULE, "shop-primary").unwrap();
    assert_eq!(rule["spec"], json!({ "host": "shop-primary" }));
}

#[test]
fn fields_of_istio_we_do_not_know_are_not_lost() {
    let mut world = world(json!({}), json!({}));
    world.edit_route(|route| {
        route["spec"]["exportTo"] = json!(["."]);
        route["spec"]["tls"] = json!([{ "match": [] }]);
        route["spec"]["http"][0]["fault"] = json!({ "delay": { "fixedDelay": "1s" } });
    });
    assert_eq!(world.drift(), Ok(vec![]));
    world.write(split(20));
    let spec = &world.route()["spec"];
    assert_eq!(spec["exportTo"], json!(["."]));
    assert!(spec["tls"].is_array() && spec["http"][0]["fault"].is_object());
}

#[test]
fn a_route_of_flaggers_in_mid_run_goes_on_where_it_is() {
    let mut world =
        World::new(Mesh::Istio, json!({}), json!({ "sessionAffinity": { "cookieName": "ck" } }));
    world.cookies.canary = Some("ck=QwErTyUiOp".to_owned());
    let sides = |primary: i64, canary: i64| {
        json!([
            { "destination": { "host": "shop-primary" }, "weight": primary },
            { "destination": { "host": "shop-canary" }, "weight": canary },
        ])
    };
    let mut weighted = json!({ "route": sides(70, 30) });
    weighted["route"][1]["headers"] =
        json!({ "response": { "add": { "Set-Cookie": "ck=QwErTyUiOp; Max-Age=86400" } } });
    let old = json!({ "headers": { "Cookie": { "regex": ".*ck.*QwErTyUiOp.*" } } });
    world.put(
        VIRTUAL_SERVICE,
        json!({
            "kind": "VirtualService",
            "metadata": {
                "name": "shop",
                "ownerReferences": [{ "kind": "Canary", "name": "shop", "uid": "u-1", "controller": true }],
            },
            "spec": { "hosts": ["shop"], "gateways": ["mesh"], "http": [
                { "match": [old], "route": sides(0, 100) },
                weighted,
            ] },
        }),
    );
    assert_eq!(world.read(), Ok(split(30)));
    world.reconcile();
    assert_eq!(world.read(), Ok(split(30)));
    assert!(world.rules()[0].to_string().contains("ck=QwErTyUiOp"));
    assert_eq!(world.route()["metadata"]["annotations"].as_object().unwrap().len(), 2, "no backup");
}
