//! A route of the user's of which only backends are changed.

use super::*;

const FLUX: &str = "kustomize.toolkit.fluxcd.io/reconcile";

fn guard() -> Value {
    json!({ "type": "ExtensionRef", "extensionRef": { "group": "a", "kind": "Auth", "name": "g" } })
}

/// Two rules that lead to the apex, one that leads elsewhere.
fn users() -> Value {
    let apex = json!({ "group": "", "kind": "Service", "name": "shop", "port": 8080, "weight": 1 });
    let admin = json!({ "group": "", "kind": "Service", "name": "admin", "port": 80, "weight": 1 });
    let path = |value: &str| json!([{ "path": { "type": "PathPrefix", "value": value } }]);
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "front", "uid": "u-9", "labels": { "team": "a" },
            "annotations": { "note": "mine" } },
        "spec": {
            "parentRefs": [{ "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw" }],
            "hostnames": ["front.example.com"],
            "rules": [
                { "matches": path("/cart"), "filters": [guard()], "timeouts": { "request": "3s" },
                    "backendRefs": [apex] },
                { "matches": path("/admin"), "backendRefs": [admin] },
                { "matches": path("/"), "backendRefs": [apex] },
            ],
        },
    })
}

fn world(mesh: Mesh) -> World {
    let mut world = World::plain(mesh);
    world.edit_spec(json!({
        "routeRef": { "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front" },
        // The needs of a route of our own do not apply here.
        "service": { "gatewayRefs": null },
    }));
    let kind = mesh.kinds_for(&world.spec)[0];
    let mut route = users();
    route["apiVersion"] = json!(kind.api_version());
    world.put(kind, route);
    world
}

fn backends(rule: &Value) -> Vec<(String, i64, i64)> {
    let list = rule["backendRefs"].as_array().unwrap().iter();
    let of = |backend: &Value| {
        let name = backend["name"].as_str().unwrap().to_owned();
        (name, backend["port"].as_i64().unwrap(), backend["weight"].as_i64().unwrap())
    };
    list.map(of).collect()
}

/// The route without the fields that are ours to change.
fn rest(route: &Value) -> Value {
    let mut rest = route.clone();
    let metadata = rest["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    metadata.remove("annotations");
    for rule in rest["spec"]["rules"].as_array_mut().unwrap() {
        rule.as_object_mut().unwrap().remove("backendRefs");
    }
    rest
}

#[test]
fn backends_that_are_the_apex_are_divided_and_nothing_else_changes() {
    for mesh in [Mesh::GatewayApiV1, Mesh::GatewayApiV1Beta1] {
        let mut world = world(mesh);
        let before = world.route().clone();
        world.reconcile();
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
        assert_eq!(world.drift(), Ok(vec![]));
        for percent in 0..=100 {
            world.write(split(percent));
            assert_eq!(world.read(), Ok(split(percent)));
            assert_eq!(world.drift(), Ok(vec![]), "{percent} is no drift");
        }
        world.write(split(30));
        let rules = world.rules();
        let sides = [("shop-primary".to_owned(), 8080, 70), ("shop-canary".to_owned(), 8080, 30)];
        assert_eq!(backends(&rules[0]), sides, "with the port the user gave");
        assert_eq!(backends(&rules[2]), sides);
        assert_eq!(backends(&rules[1]), [("admin".to_owned(), 80, 1)]);
        assert_eq!(rest(world.route()), rest(&before), "{mesh:?}");
        assert_eq!(world.route()["metadata"]["annotations"]["note"], "mine");
        assert_eq!(world.route()["metadata"]["ownerReferences"], Value::Null, "not ours to delete");
    }
}

#[test]
fn the_route_is_given_back_with_what_its_owner_changed_meanwhile() {
    let mut world = world(Mesh::GatewayApiV1);
    world.reconcile();
    world.write(split(60));
    assert_eq!(world.route()["metadata"]["annotations"][FLUX], "disabled", "or Flux undoes it");
    world.edit_route(|route| route["spec"]["hostnames"] = json!(["new.example.com"]));
    assert_eq!(world.finalize(), Ok(1));
    let mut want = users()["spec"].clone();
    want["hostnames"] = json!(["new.example.com"]);
    assert_eq!(world.route()["spec"], want);
    assert_eq!(world.route()["metadata"]["annotations"], json!({ "note": "mine" }));
    assert_eq!(world.finalize(), Ok(0), "given back once");
}

#[test]
fn a_route_whose_rules_its_owner_put_back_is_not_left_with_what_was_written_beside_them() {
    let mut world = world(Mesh::GatewayApiV1);
    let untouched = world.finalize();
    assert_eq!(untouched, Ok(0), "one that was never divided");
    world.reconcile();
    world.write(split(60));
    world.edit_route(|route| route["spec"]["rules"] = users()["spec"]["rules"].clone());
    assert_eq!(world.finalize(), Ok(1));
    assert_eq!(world.route()["metadata"]["annotations"], json!({ "note": "mine" }), "Flux goes on");
    assert_eq!(world.route()["spec"], users()["spec"]);
    assert_eq!(world.finalize(), Ok(0), "given back once");
}

#[test]
fn a_route_that_is_referred_to_no_more_is_not_left_divided() {
    for mesh in [Mesh::GatewayApiV1, Mesh::GatewayApiV1Beta1] {
        let mut world = world(mesh);
        let kind = mesh.kinds_for(&world.spec)[0];
        let before = world.route().clone();
        world.reconcile();
        world.write(split(60));
        let route = world.route().clone();
        assert_eq!(mesh.leftovers(&world.cx(), kind, &[&route]), [], "in use");
        let other = RouteCx { owner: Owner { name: "other", ..world.cx().owner }, ..world.cx() };
        assert_eq!(Mesh::Istio.leftovers(&other, kind, &[&route]), [], "not its own");
        let gone = Mesh::Istio.leftovers(&world.cx(), kind, &[&route]);
        assert_eq!(gone.len(), 1, "{mesh:?}: with another provider");
        for reference in [json!({ "name": "back" }), Value::Null] {
            let mut world = World { spec: world.spec.clone(), ..self::world(mesh) };
            world.live.insert(kind, route.clone());
            world.edit_spec(json!({ "routeRef": reference }));
            let left = mesh.leftovers(&world.cx(), kind, &[&route]);
            world.carry_out(left);
            let after = world.live.get(kind, "front").unwrap();
            assert_eq!(after["spec"], before["spec"], "{mesh:?}");
            assert_eq!(after["metadata"]["annotations"], json!({ "note": "mine" }), "{mesh:?}");
            assert_eq!(mesh.leftovers(&world.cx(), kind, &[after]), [], "{mesh:?}: once");
        }
    }
}

#[test]
fn a_route_that_is_left_in_mid_run_is_given_back_and_the_next_takes_over() {
    for mesh in [Mesh::GatewayApiV1, Mesh::GatewayApiV1Beta1] {
        let mut world = world(mesh);
        let kind = mesh.kinds_for(&world.spec)[0];
        let (before, mut back) = (world.route().clone(), world.route().clone());
        back["metadata"]["name"] = json!("back");
        world.put(kind, back);
        world.reconcile();
        world.write(split(40));
        let front = world.route().clone();
        assert!(mesh.is_route(&world.cx(), kind, &front), "{mesh:?}");
        world.edit_spec(json!({ "routeRef": { "name": "back" } }));
        assert!(!mesh.is_route(&world.cx(), kind, &front), "{mesh:?}");
        let left = mesh.leave(&world.cx(), kind, &front, &world.live).unwrap();
        world.carry_out(left.into_iter().collect());
        let front = world.live.get(kind, "front").unwrap().clone();
        assert_eq!(front["spec"], before["spec"], "{mesh:?}");
        assert_eq!(front["metadata"]["annotations"], json!({ "note": "mine" }), "{mesh:?}");
        assert_eq!(mesh.leave(&world.cx(), kind, &front, &world.live), Ok(None), "{mesh:?}: once");
        let cx = RouteCx { inherited: split(40), ..world.cx() };
        let changes = mesh.reconcile(&cx, &world.live).unwrap();
        world.carry_out(changes);
        assert_eq!(world.read(), Ok(split(40)), "{mesh:?}");
    }
}

#[test]
fn a_route_that_was_referred_to_is_not_taken_for_one_of_ours() {
    // It has the name that a route of ours would have.
    let mut world = world(Mesh::GatewayApiV1);
    let mut route = world.route().clone();
    route["metadata"]["name"] = json!("shop");
    world.put(HTTP_ROUTE_V1, route);
    world.edit_spec(json!({ "routeRef": { "name": "shop" } }));
    world.reconcile();
    world.write(split(60));
    world.edit_spec(json!({ "routeRef": null,
        "service": { "gatewayRefs": [{ "name": "gw" }] } }));
    assert_eq!(world.drift().unwrap_err().label(), "unasked");
    let route = world.route().clone();
    assert!(!world.mesh.is_route(&world.cx(), HTTP_ROUTE_V1, &route));
    let left = Mesh::GatewayApiV1.leftovers(&world.cx(), HTTP_ROUTE_V1, &[&route]);
    world.carry_out(left);
    assert_eq!(world.route()["spec"]["rules"], users()["spec"]["rules"]);
}

#[test]
fn a_route_that_another_canary_divides_too_keeps_flux_away() {
    let mut world = world(Mesh::GatewayApiV1);
    world.reconcile();
    let mark = |world: &World| world.route()["metadata"]["annotations"].clone();
    assert_eq!(mark(&world)["tidegate.dev/divided-for"], "shop");
    world.edit_route(|route| {
        route["metadata"]["annotations"]["tidegate.dev/divided-for"] = json!("admin,shop");
    });
    assert_eq!(world.finalize(), Ok(1));
    assert_eq!(mark(&world)["tidegate.dev/divided-for"], "admin");
    assert_eq!(mark(&world)[FLUX], "disabled");
}

#[test]
fn a_rule_its_owner_put_back_or_added_gets_the_share_of_the_others() {
    let mut world = world(Mesh::GatewayApiV1);
    world.reconcile();
    world.write(split(40));
    let apex = users()["spec"]["rules"][0]["backendRefs"].clone();
    world.edit_route(|route| route["spec"]["rules"][0]["backendRefs"] = apex);
    world.reconcile();
    assert_eq!(world.read(), Ok(split(40)));
    assert_eq!(backends(&world.rules()[0])[1].2, 40);
}

#[test]
fn an_indivisible_route_is_refused_and_left_as_it_is() {
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut world = world(Mesh::GatewayApiV1);
        world.edit_route(|route| edit(route));
        world.drift().unwrap_err()
    };
    let error = edited(&|route| {
        let other =
            json!({ "group": "", "kind": "Service", "name": "legacy", "port": 80, "weight": 9 });
        route["spec"]["rules"][0]["backendRefs"].as_array_mut().unwrap().push(other);
    });
    assert!(error.to_string().contains("rule 0 divides"), "a share of a share: {error}");
    let error = edited(&|route| route["spec"]["rules"] = json!([]));
    assert!(error.to_string().contains("no rule of it leads to Service shop"), "{error}");
    let error = edited(&|route| {
        for index in [0, 2] {
            route["spec"]["rules"][index]["backendRefs"][0]["namespace"] = json!("elsewhere");
        }
    });
    assert_eq!(error.label(), "malformed", "a Service of that name elsewhere: {error}");
    let error = edited(&|route| {
        route["metadata"]["ownerReferences"] =
            json!([{ "kind": "Release", "name": "r", "uid": "u-7", "controller": true }]);
    });
    assert_eq!(error.label(), "taken");
    let mut gone = world(Mesh::GatewayApiV1);
    gone.live.remove(HTTP_ROUTE_V1, "front");
    assert_eq!(gone.drift().unwrap_err().label(), "missing");
    assert_eq!(gone.planned(split(10)).unwrap_err().label(), "missing");
    assert_eq!(gone.planned(Split::PRIMARY), Ok(vec![]), "nobody is led anywhere by it");
    assert_eq!(gone.finalize(), Ok(0), "what is gone needs nothing");
}

#[test]
fn rules_that_disagree_are_never_read_as_a_share() {
    let mut world = world(Mesh::GatewayApiV1);
    world.reconcile();
    world.edit_route(|route| {
        route["spec"]["rules"][0]["backendRefs"][0]["weight"] = json!(50);
        route["spec"]["rules"][0]["backendRefs"][1]["weight"] = json!(50);
    });
    assert_eq!(world.read().unwrap_err().label(), "malformed");
    world.write(split(10));
    assert_eq!(world.read(), Ok(split(10)), "the next step makes them agree");
}

#[test]
fn conditions_of_a_test_and_mirrors_need_a_route_of_our_own() {
    let mut world = world(Mesh::GatewayApiV1);
    let capabilities = world.mesh.capabilities(&world.spec);
    assert!(capabilities.weighted && !capabilities.ab && !capabilities.mirror);
    assert_eq!(world.planned(mirrored(0)).unwrap_err().label(), "unsupported");
    let by_user = json!([{ "headers": { "x-user": { "exact": "a" } } }]);
    world.edit_spec(json!({ "analysis": { "match": by_user } }));
    assert!(world.check().unwrap_err().to_string().contains("spec.analysis.match"));
}

#[test]
fn the_way_back_and_the_way_out_are_there_with_any_spec() {
    let by_user = json!([{ "headers": { "x-user": { "exact": "a" } } }]);
    let edits = [json!({ "analysis": { "match": by_user } }), json!({ "service": null })];
    for mesh in [Mesh::GatewayApiV1, Mesh::GatewayApiV1Beta1] {
        for edit in &edits {
            let mut world = world(mesh);
            world.reconcile();
            world.write(split(40));
            world.edit_spec(edit.clone());
            assert_eq!(world.check().unwrap_err().label(), "spec", "{edit}");
            assert_eq!(world.planned(split(50)).unwrap_err().label(), "spec", "no further: {edit}");
            world.write(Split::PRIMARY);
            let sides =
                [("shop-primary".to_owned(), 8080, 100), ("shop-canary".to_owned(), 8080, 0)];
            assert_eq!(backends(&world.rules()[0]), sides, "{mesh:?} {edit}");
            assert_eq!(backends(&world.rules()[2]), sides, "{mesh:?} {edit}");
            if world.spec.service.is_some() {
                assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?} {edit}");
            }
            assert_eq!(world.finalize(), Ok(1), "{mesh:?} {edit}");
            assert_eq!(world.route()["spec"], users()["spec"], "{mesh:?} {edit}");
        }
    }
}

#[test]
fn calls_can_be_referred_to_and_other_providers_refer_to_nothing() {
    let mut world = world(Mesh::GatewayApiV1);
    world.edit_spec(json!({ "routeRef": { "kind": "GRPCRoute" } }));
    assert_eq!(world.mesh.kinds_for(&world.spec), [GRPC_ROUTE_V1]);
    assert!(world.mesh.refers(&world.spec));
    assert!(!Mesh::GatewayApiV1Beta1.refers(&world.spec), "it has no such kind");
    assert!(!Mesh::Istio.refers(&world.spec) && !Mesh::Kubernetes.refers(&world.spec));
}
