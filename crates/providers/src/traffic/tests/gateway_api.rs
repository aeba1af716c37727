//! Cases that only Gateway API has.

use super::*;

fn world(service: Value, analysis: Value) -> World {
    let mut world = World::new(Mesh::GatewayApiV1, service, analysis);
    world.reconcile();
    world
}

fn rule(service: Value) -> Value {
    let [rule] = world(service, json!({})).rules().try_into().unwrap();
    rule
}

fn refusal(service: Value, analysis: Value) -> String {
    let world = World::new(Mesh::GatewayApiV1, service, analysis);
    let error = world.check().unwrap_err();
    assert_eq!(error.label(), "spec");
    assert_eq!(world.drift(), Err(error.clone()));
    error.to_string()
}

fn matched(conditions: Value) -> Value {
    json!({ "stepWeight": null, "iterations": 5, "match": conditions })
}

#[test]
fn a_route_at_rest_leads_to_the_primary() {
    let world = world(
        json!({ "hosts": ["shop.example.com"], "timeout": "10s", "backendTimeout": "5s" }),
        json!({}),
    );
    let backend = |name: &str, weight: i64| json!({ "group": "", "kind": "Service", "name": name, "port": 80, "weight": weight });
    assert_eq!(
        world.route()["spec"],
        json!({
            "parentRefs": [{
                "group": "gateway.networking.k8s.io", "kind": "Gateway",
                "name": "gw", "namespace": "infra",
            }],
            "hostnames": ["shop.example.com"],
            "rules": [{
                "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                "timeouts": { "request": "10s", "backendRequest": "5s" },
                "backendRefs": [backend("shop-primary", 100), backend("shop-canary", 0)],
            }],
        })
    );
}

#[test]
fn host_names_that_are_no_longer_wanted_go() {
    let mut world = world(json!({ "hosts": ["a.example.com"] }), json!({}));
    world.edit_spec(json!({ "service": { "hosts": null } }));
    world.reconcile();
    assert_eq!(world.route()["spec"]["hostnames"], Value::Null);
}

#[test]
fn a_route_without_a_gateway_is_refused() {
    assert!(
        refusal(json!({ "gatewayRefs": null }), json!({})).contains("spec.service.gatewayRefs")
    );
}

#[test]
fn conditions_are_converted_sorted_and_defaulted() {
    let service = json!({ "match": [
        {
            "uri": { "exact": "/a" },
            "method": { "exact": "GET" },
            "headers": { "x-b": { "regex": "r" }, "X-A": { "exact": "e" } },
            "queryParams": { "q": { "exact": "1" }, "p": { "regex": "2" } },
            "sourceLabels": { "app": "front" },
        },
        { "uri": { "regex": "/b.*" } },
        { "headers": { "x-c": { "exact": "c" } } },
        { "authority": { "exact": "shop" } },
    ] });
    assert_eq!(
        rule(service)["matches"],
        json!([
            {
                "path": { "type": "Exact", "value": "/a" },
                "method": "GET",
                "headers": [
                    { "type": "Exact", "name": "X-A", "value": "e" },
                    { "type": "RegularExpression", "name": "x-b", "value": "r" },
                ],
                "queryParams": [
                    { "type": "RegularExpression", "name": "p", "value": "2" },
                    { "type": "Exact", "name": "q", "value": "1" },
                ],
            },
            { "path": { "type": "RegularExpression", "value": "/b.*" } },
            {
                // The API server would fill the path in, and the next look would see a difference.
                "path": { "type": "PathPrefix", "value": "/" },
                "headers": [{ "type": "Exact", "name": "x-c", "value": "c" }],
            },
        ])
    );
}

#[test]
fn conditions_that_cannot_be_said_are_refused_with_their_path() {
    let cases = [
        (json!({ "headers": { "x-a": { "prefix": "a" } } }), "spec.service.match[0].headers.x-a"),
        (json!({ "method": { "regex": "G.*" } }), "spec.service.match[0].method"),
        (json!({ "uri": {} }), "spec.service.match[0].uri"),
        (json!({ "queryParams": { "q": {} } }), "spec.service.match[0].queryParams.q"),
    ];
    for (condition, field) in cases {
        let text = refusal(json!({ "match": [condition] }), json!({}));
        assert!(text.contains(field), "{text}");
    }
}

#[test]
fn a_condition_without_an_equivalent_never_becomes_all_users() {
    let cases = [
        ("a prefix", json!({ "headers": { "x-user": { "prefix": "a" } } })),
        ("a suffix", json!({ "headers": { "x-user": { "suffix": "a" } } })),
        ("labels of the caller only", json!({ "sourceLabels": { "app": "front" } })),
        (
            "labels of the caller beside a header, or it would be a test of more than were meant",
            json!({ "headers": { "x-user": { "exact": "b" } }, "sourceLabels": { "app": "front" } }),
        ),
        ("nothing", json!({})),
    ];
    for (reason, condition) in cases {
        let good = json!({ "headers": { "x-user": { "exact": "a" } } });
        let text = refusal(json!({}), matched(json!([good, condition])));
        assert!(text.contains("spec.analysis.match[1]"), "{reason}: {text}");
    }
}

#[test]
fn a_test_routes_matching_requests_and_leaves_the_rest() {
    let service = json!({ "timeout": "3s", "match": [
        { "uri": { "prefix": "/api" }, "headers": { "x-tenant": { "exact": "a" } } },
    ] });
    let conditions = json!([
        { "headers": { "x-user": { "exact": "a" } } },
        { "headers": { "X-Tenant": { "exact": "b" } } },
    ]);
    let mut world = world(service, matched(conditions));
    world.write(split(100));
    let [tested, rest] = world.rules().try_into().unwrap();
    let header = |name: &str, value: &str| json!({ "type": "Exact", "name": name, "value": value });
    let path = json!({ "type": "PathPrefix", "value": "/api" });
    assert_eq!(
        tested["matches"],
        json!([
            { "path": path, "headers": [header("x-tenant", "a"), header("x-user", "a")] },
            // A header can be named once, and the narrower condition is the one that counts.
            { "path": path, "headers": [header("X-Tenant", "b")] },
        ])
    );
    assert_eq!(tested["backendRefs"][1]["weight"], 100);
    assert_eq!(rest["matches"], json!([{ "path": path, "headers": [header("x-tenant", "a")] }]));
    assert_eq!(rest["backendRefs"].as_array().unwrap().len(), 1);
    assert_eq!(rest["backendRefs"][0]["weight"], 100);
    assert_eq!(rest["timeouts"], tested["timeouts"]);
}

#[test]
fn filters_come_in_a_fixed_order() {
    let rule = rule(json!({
        "headers": {
            "request": { "add": { "b": "2", "a": "1" }, "remove": ["z", "c"] },
            "response": { "set": { "d": "4" } },
        },
        "rewrite": { "uri": "/new", "authority": "shop.internal" },
        "mirror": [{ "backendRef": { "name": "audit", "port": 90, "namespace": "ops" } }],
        "corsPolicy": { "allowOrigin": ["https://a"], "maxAge": "24h", "allowCredentials": true },
    }));
    let pair = |name: &str, value: &str| json!({ "name": name, "value": value });
    assert_eq!(
        rule["filters"],
        json!([
            {
                "type": "RequestHeaderModifier",
                "requestHeaderModifier": { "add": [pair("a", "1"), pair("b", "2")], "remove": ["z", "c"] },
            },
            { "type": "ResponseHeaderModifier", "responseHeaderModifier": { "set": [pair("d", "4")] } },
            {
                "type": "URLRewrite",
                "urlRewrite": {
                    "hostname": "shop.internal",
                    "path": { "type": "ReplaceFullPath", "replaceFullPath": "/new" },
                },
            },
            {
                "type": "RequestMirror",
                "requestMirror": { "backendRef": {
                    "group": "", "kind": "Service", "name": "audit", "namespace": "ops", "port": 90,
                } },
            },
            {
                "type": "CORS",
                "cors": { "allowOrigins": ["https://a"], "allowCredentials": true, "maxAge": 86400 },
            },
        ])
    );
}

#[test]
fn cors_says_what_it_can_and_defaults_like_the_server() {
    let cases = [
        ("hours", json!("24h"), 86_400),
        ("no duration", json!("1d"), 5),
        ("none", Value::Null, 5),
        ("less than a second", json!("10ms"), 5),
    ];
    for (reason, age, seconds) in cases {
        let policy = json!({ "maxAge": age, "allowOrigins": [
            { "regex": ".*" }, { "exact": "https://b" }, { "prefix": "https://c" },
        ] });
        let world = world(json!({ "corsPolicy": policy }), json!({}));
        let filter = &world.rules()[0]["filters"][0]["cors"];
        assert_eq!(filter["maxAge"], seconds, "{reason}");
        assert_eq!(filter["allowOrigins"], json!(["https://b"]), "patterns are skipped");
        assert_eq!(world.drift(), Ok(vec![]), "{reason}");
    }
}

#[test]
fn a_mirror_goes_to_the_canary_in_steps_and_in_blue_green() {
    let strategies = [json!({}), json!({ "stepWeight": null, "iterations": 5 })];
    for mut analysis in strategies {
        merge(&mut analysis, &json!({ "mirror": true, "mirrorWeight": 20 }));
        let mut world = world(json!({}), analysis);
        world.write(mirrored(0));
        let [filter] = filters(&world.rules()[0], "RequestMirror").try_into().unwrap();
        assert_eq!(
            filter["requestMirror"],
            json!({
                "backendRef": { "group": "", "kind": "Service", "name": "shop-canary", "port": 80 },
                "percent": 20,
            })
        );
        assert_eq!(world.drift(), Ok(vec![]), "a mirror is no drift");
        world.write(Split::PRIMARY);
        assert_eq!(world.rules()[0]["filters"], Value::Null);
    }
    let mut old = World::new(Mesh::GatewayApiV1, json!({}), json!({ "mirrorWeight": 20 }));
    old.fields = RouteFields::default();
    old.write(mirrored(0));
    let [filter] = filters(&old.rules()[0], "RequestMirror").try_into().unwrap();
    assert_eq!(
        filter["requestMirror"]["percent"],
        Value::Null,
        "everything, where percent is unknown"
    );
}

#[test]
fn a_prefix_rewrite_makes_one_rule_of_each_condition() {
    let rewrite = json!({ "uri": "/", "type": "ReplacePrefixMatch" });
    let service = json!({ "rewrite": rewrite,
        "match": [{ "uri": { "prefix": "/a" } }, { "uri": { "prefix": "/b" } }] });
    let mut world = world(service, json!({}));
    world.write(split(30));
    let rules = world.rules();
    assert_eq!(rules.len(), 2);
    for rule in &rules {
        assert_eq!(rule["matches"].as_array().unwrap().len(), 1);
        assert_eq!(rule["backendRefs"][1]["weight"], 30);
        let path = &filters(rule, "URLRewrite")[0]["urlRewrite"]["path"];
        assert_eq!(*path, json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": "/" }));
    }
    let exact = json!({ "rewrite": rewrite, "match": [{ "uri": { "exact": "/a" } }] });
    assert!(refusal(exact, json!({})).contains("spec.service.rewrite.type"));
    let prefix = |index: usize| json!({ "uri": { "prefix": format!("/{index}") } });
    let many: Vec<_> = (0..17).map(prefix).collect();
    let text = refusal(json!({ "rewrite": rewrite, "match": many }), json!({}));
    assert!(text.contains("at most 16"), "{text}");
}

#[test]
fn a_prefix_rewrite_beside_a_test_has_one_condition_a_rule() {
    let service = json!({ "rewrite": { "uri": "/", "type": "ReplacePrefixMatch" },
        "match": [{ "uri": { "prefix": "/a" } }, { "uri": { "prefix": "/b" } }] });
    let conditions = json!([
        { "headers": { "x-user": { "exact": "a" } } },
        { "headers": { "x-group": { "regex": "b.*" } } },
    ]);
    let mut world = world(service, matched(conditions));
    world.write(split(100));
    let rules = world.rules();
    for rule in &rules {
        assert_eq!(rule["matches"].as_array().unwrap().len(), 1, "or the API refuses it: {rule}");
        assert_eq!(rule["matches"][0]["path"]["type"], "PathPrefix");
        assert_eq!(filters(rule, "URLRewrite").len(), 1);
    }
    let shares: Vec<_> =
        rules.iter().map(|rule| rule["backendRefs"][1]["weight"].as_i64()).collect();
    let (tested, rest) = (Some(100), None);
    assert_eq!(shares, [tested, tested, tested, tested, rest, rest], "two paths for each");
    assert_eq!(world.read(), Ok(split(100)));
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn durations_the_api_would_refuse_are_refused_with_a_reason() {
    for good in ["10s", "1m30s", "500ms", "1h"] {
        assert_eq!(rule(json!({ "timeout": good }))["timeouts"]["request"], good);
    }
    for bad in ["1.5s", "10", "1d", "s", "1h1h1h1h1h", "100000s", "-1s"] {
        assert!(refusal(json!({ "timeout": bad }), json!({})).contains("spec.service.timeout"));
    }
}

#[test]
fn retries_are_written_where_the_cluster_knows_them() {
    let service =
        json!({ "retries": { "attempts": 2, "retryOn": "gateway-error, 429,connect-failure" } });
    assert_eq!(
        rule(service.clone())["retry"],
        json!({ "attempts": 2, "codes": [429, 502, 503, 504] })
    );
    let mut world = World::new(Mesh::GatewayApiV1, service, json!({}));
    world.fields = RouteFields::default();
    world.reconcile();
    assert_eq!(world.rules()[0]["retry"], Value::Null);
}

#[test]
fn the_cluster_tells_which_fields_it_knows() {
    let schema = |rule: Value, mirror: Value, cors: Value| {
        let mut rule = rule;
        rule["filters"] = json!({ "items": { "properties": {
            "requestMirror": { "properties": mirror },
            "cors": cors,
        } } });
        json!({ "properties": { "spec": { "properties": {
            "rules": { "items": { "properties": rule } },
        } } } })
    };
    let text = json!({ "type": "string" });
    let cors = json!({ "type": "object" });
    let rule = json!({ "name": text, "retry": text, "timeouts": cors });
    let new = schema(rule, json!({ "percent": text }), cors);
    assert_eq!(RouteFields::in_schema(&new), fixtures::EVERY_FIELD);
    let none = RouteFields {
        rule_name: false,
        retry: false,
        mirror_percent: false,
        timeouts: false,
        cors: false,
    };
    assert_eq!(RouteFields::in_schema(&schema(json!({}), json!({}), json!(null))), none);
    assert_eq!(RouteFields::in_schema(&Value::Null), none);
}

#[test]
fn a_cors_policy_the_cluster_does_not_know_is_refused_and_not_dropped() {
    let policy = json!({ "corsPolicy": { "allowOrigin": ["*"] } });
    let mut world = World::new(Mesh::GatewayApiV1, policy.clone(), json!({}));
    world.fields.cors = false;
    let error = world.check().unwrap_err().to_string();
    assert!(error.contains("spec.service.corsPolicy"), "{error}");
    world.fields = RouteFields::default();
    assert_eq!(world.check(), Ok(()), "nothing is known: the user is believed");
    let mut older = World::new(Mesh::GatewayApiV1Beta1, policy, json!({}));
    older.fields.cors = false;
    assert_eq!(older.check(), Ok(()), "Flagger never wrote it there, and the canary ran");
}

#[test]
fn both_versions_write_timeouts_cors_and_retries_where_the_cluster_knows_them() {
    let service = json!({ "timeout": "15s", "retries": { "attempts": 2 },
        "corsPolicy": { "allowOrigin": ["*"] } });
    let rule = |mesh: Mesh| {
        let mut world = World::new(mesh, service.clone(), json!({}));
        world.reconcile();
        assert_eq!(world.drift(), Ok(vec![]), "{mesh:?}");
        let [rule] = world.rules().try_into().unwrap();
        rule
    };
    let newer: Value = rule(Mesh::GatewayApiV1);
    assert_eq!(newer["timeouts"]["request"], "15s");
    assert_eq!(newer["retry"]["attempts"], 2);
    assert_eq!(filters(&newer, "CORS").len(), 1);
    assert_eq!(rule(Mesh::GatewayApiV1Beta1), newer);
}

#[test]
fn an_older_definition_without_timeouts_cors_or_retries_is_left_without_as_by_flagger() {
    let service = json!({ "timeout": "1.5s", "retries": { "attempts": 2 },
        "corsPolicy": { "allowOrigin": ["*"] } });
    let mut world = World::new(Mesh::GatewayApiV1Beta1, service, json!({}));
    world.fields = RouteFields::assumed(HTTP_ROUTE_V1BETA1);
    world.reconcile();
    assert_eq!(world.route()["apiVersion"], "gateway.networking.k8s.io/v1beta1");
    let [rule] = world.rules().try_into().unwrap();
    for member in ["timeouts", "filters", "retry"] {
        assert_eq!(rule[member], Value::Null, "{member}");
    }
    world.edit_route(|route| route["spec"]["rules"][0]["timeouts"] = json!({ "request": "3s" }));
    world.write(split(10));
    assert_eq!(world.rules()[0]["timeouts"]["request"], "3s", "what others wrote stays");
}

#[test]
fn filters_of_extensions_are_on_every_rule() {
    let guard = json!({ "type": "ExtensionRef",
        "extensionRef": { "group": "example.com", "kind": "Auth", "name": "guard" } });
    let analysis = json!({ "sessionAffinity": { "cookieName": "ck" } });
    let mut world = World::new(Mesh::GatewayApiV1, json!({}), analysis);
    world.reconcile();
    world.edit_route(|route| {
        route["spec"]["rules"][0]["filters"] = json!([guard]);
        route["spec"]["rules"][0]["name"] = json!("main");
    });
    assert_eq!(world.drift(), Ok(vec![]));
    world = world.with_cookies();
    world.write(split(10));
    let [sticky, weighted] = world.rules().try_into().unwrap();
    let want = [guard];
    assert_eq!(filters(&sticky, "ExtensionRef"), want, "or who has a cookie is let in");
    assert_eq!(filters(&weighted, "ExtensionRef"), want);
    assert_eq!((&sticky["name"], &weighted["name"]), (&json!("canary-cookie"), &json!("main")));
    assert_eq!(world.drift(), Ok(vec![]));
}

fn with_status(world: &mut World, parent: Value, conditions: Value) {
    world.edit_route(|route| {
        route["metadata"]["generation"] = json!(3);
        let parents = json!([{ "parentRef": parent, "conditions": conditions }]);
        route["status"] = json!({ "parents": parents });
    });
}

#[test]
fn a_route_counts_once_its_gateway_took_it() {
    let gateway = json!({ "name": "gw", "namespace": "infra" });
    let condition = |kind: &str, status: &str, generation: Value| {
        let mut condition = json!({ "type": kind, "status": status, "reason": "Why" });
        condition["observedGeneration"] = generation;
        condition
    };
    let accepted = condition("Accepted", "True", json!(3));
    let cases = [
        ("accepted", gateway.clone(), json!([accepted]), None),
        (
            "not accepted",
            gateway.clone(),
            json!([condition("Accepted", "False", json!(3))]),
            Some("(Why)"),
        ),
        (
            "accepted before",
            gateway.clone(),
            json!([condition("Accepted", "True", json!(2))]),
            Some("earlier"),
        ),
        (
            "backends not found",
            gateway.clone(),
            json!([accepted, condition("ResolvedRefs", "False", json!(3))]),
            Some("ResolvedRefs"),
        ),
        (
            "a condition of its own",
            gateway.clone(),
            json!([condition("Odd", "False", json!(1))]),
            None,
        ),
        ("no generation", gateway, json!([condition("Accepted", "True", Value::Null)]), None),
        (
            "another parent's old news",
            json!({ "name": "other", "namespace": "infra" }),
            json!([condition("Accepted", "False", json!(1))]),
            None,
        ),
        (
            "the same parent, spelled out",
            json!({ "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw",
                "namespace": "infra" }),
            json!([condition("Accepted", "False", json!(3))]),
            Some("Gateway infra/gw"),
        ),
    ];
    for mesh in [Mesh::GatewayApiV1, Mesh::GatewayApiV1Beta1] {
        for (reason, parent, conditions, waiting) in &cases {
            let mut world = World::plain(mesh);
            world.reconcile();
            with_status(&mut world, parent.clone(), conditions.clone());
            match (world.read(), waiting) {
                (Ok(split), None) => assert_eq!(split, Split::PRIMARY, "{reason}"),
                (Err(error), Some(text)) => {
                    assert!(error.is_waiting(), "{reason}");
                    assert!(error.to_string().contains(text), "{reason}: {error}");
                }
                (found, _) => panic!("{reason}: {found:?}"),
            }
            assert_eq!(
                world.drift(),
                Ok(vec![]),
                "{reason}: waiting does not keep us from writing"
            );
            assert!(world.planned(split(10)).is_ok());
        }
    }
}
