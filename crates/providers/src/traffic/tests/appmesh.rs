//! App Mesh, both versions.

use super::*;

const BOTH: [Mesh; 2] = [Mesh::AppMeshV1Beta1, Mesh::AppMeshV1Beta2];

fn reconciled(mesh: Mesh, service: Value, analysis: Value) -> World {
    let mut world = World::new(mesh, service, analysis);
    world.reconcile();
    world
}

fn object(world: &World, kind: &str, name: &str) -> Value {
    let kind = world.mesh.kinds().iter().find(|it| it.kind == kind).unwrap();
    world.live.get(*kind, name).unwrap_or(&Value::Null).clone()
}

fn targets(world: &World, route: usize) -> Value {
    let key = if world.mesh == Mesh::AppMeshV1Beta1 { "http" } else { "httpRoute" };
    world.route()["spec"]["routes"][route][key]["action"]["weightedTargets"].clone()
}

#[test]
fn the_first_version_has_three_nodes_and_two_services() {
    let service = json!({ "backends": ["backend.web"], "timeout": "30s" });
    let world = reconciled(Mesh::AppMeshV1Beta1, service, json!({}));
    for (name, host) in [
        ("shop", "shop-primary.web"),
        ("shop-primary", "shop-primary.web"),
        ("shop-canary", "shop-canary.web"),
    ] {
        let node = object(&world, "VirtualNode", name);
        assert_eq!(
            node["spec"],
            json!({
                "meshName": "global",
                "listeners": [{ "portMapping": { "port": 80, "protocol": "http" } }],
                "serviceDiscovery": { "dns": { "hostName": host } },
                "backends": [{ "virtualService": { "virtualServiceName": "backend.web" } }],
            })
        );
    }
    let canary = object(&world, "VirtualService", "shop-canary.web");
    assert_eq!(canary["spec"]["virtualRouter"]["name"], "shop-canary");
    let direct = &canary["spec"]["routes"][0]["http"]["action"]["weightedTargets"];
    assert_eq!(
        *direct,
        json!([{ "virtualNodeName": "shop-canary", "weight": 100 },
        { "virtualNodeName": "shop-primary", "weight": 0 }])
    );
    let apex = object(&world, "VirtualService", "shop.web");
    assert_eq!(apex["spec"]["routes"][0]["name"], "shop");
    assert_eq!(apex["spec"]["routes"][0]["http"]["match"], json!({ "prefix": "/" }));
    assert_eq!(
        targets(&world, 0),
        json!([{ "virtualNodeName": "shop-canary", "weight": 0 },
        { "virtualNodeName": "shop-primary", "weight": 100 }])
    );
}

#[test]
fn the_first_version_needs_the_name_of_the_mesh() {
    let mut world = World::plain(Mesh::AppMeshV1Beta1);
    world.edit_spec(json!({ "service": { "meshName": null } }));
    let error = world.check().unwrap_err();
    assert!(error.to_string().contains("spec.service.meshName"), "{error}");
}

#[test]
fn the_second_version_has_two_nodes_two_routers_and_two_services() {
    let service = json!({ "timeout": "30s", "targetPort": 9898,
        "backends": ["backend", "arn:aws:appmesh:eu:1:mesh/m/virtualService/b"] });
    let world = reconciled(Mesh::AppMeshV1Beta2, service, json!({}));
    let node = object(&world, "VirtualNode", "shop-canary");
    let timeout = json!({ "perRequest": { "unit": "ms", "value": 30_000 } });
    let mapping = json!({ "port": 9898, "protocol": "http" });
    assert_eq!(
        node["spec"],
        json!({
            "podSelector": { "matchLabels": { "app.kubernetes.io/name": "store" } },
            "listeners": [{ "portMapping": mapping, "timeout": { "http": timeout } }],
            "serviceDiscovery": { "dns": { "hostname": "shop-canary.web.svc.cluster.local." } },
            "backends": [
                { "virtualService": { "virtualServiceRef": { "name": "backend" } } },
                { "virtualService": {
                    "virtualServiceARN": "arn:aws:appmesh:eu:1:mesh/m/virtualService/b" } },
            ],
        })
    );
    assert_eq!(object(&world, "VirtualNode", "shop"), Value::Null);
    let router = object(&world, "VirtualRouter", "shop");
    assert_eq!(router["spec"]["listeners"], json!([{ "portMapping": mapping }]));
    assert_eq!(router["spec"]["routes"][0]["httpRoute"]["timeout"], timeout);
    assert_eq!(
        targets(&world, 0)[0],
        json!({ "virtualNodeRef": { "name": "shop-canary" },
        "weight": 0 })
    );
    let provider = |name: &str| {
        json!({ "provider": {
        "virtualRouter": { "virtualRouterRef": { "name": name } } } })
    };
    for name in ["shop", "shop-canary"] {
        assert_eq!(object(&world, "VirtualService", name)["spec"], provider(name));
    }
}

#[test]
fn pods_are_not_selected_by_the_name_of_the_target_but_by_their_label() {
    let world = reconciled(Mesh::AppMeshV1Beta2, json!({}), json!({}));
    let selector = object(&world, "VirtualNode", "shop-primary")["spec"]["podSelector"].clone();
    assert_eq!(selector, json!({ "matchLabels": { "app.kubernetes.io/name": "store-primary" } }));
    let mut early = World::plain(Mesh::AppMeshV1Beta2);
    early.live.remove(SERVICE, "shop-canary");
    assert_eq!(early.drift().unwrap_err().label(), "missing", "its Service comes first");
}

#[test]
fn pods_do_not_start_before_their_nodes_are_there() {
    for mesh in BOTH {
        let mut world = World::plain(mesh);
        let nodes = mesh.prepare(&world.cx(), &world.live).unwrap();
        world.carry_out(nodes);
        for name in ["shop-primary", "shop-canary"] {
            assert_ne!(object(&world, "VirtualNode", name), Value::Null, "{mesh:?} {name}");
        }
        assert_eq!(world.read().unwrap_err().label(), "missing", "{mesh:?}: and nothing else");
        assert_eq!(mesh.prepare(&world.cx(), &world.live), Ok(vec![]), "{mesh:?}");
        world.reconcile();
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
        world.edit_spec(json!({ "analysis": fixtures::inexpressible() }));
        assert_eq!(mesh.prepare(&world.cx(), &Live::default()), Ok(vec![]), "{mesh:?}: refused");
    }
    let istio = World::plain(Mesh::Istio);
    assert_eq!(Mesh::Istio.prepare(&istio.cx(), &istio.live), Ok(vec![]));
}

#[test]
fn drift_is_undone_while_weights_stay() {
    for mesh in BOTH {
        let mut world = reconciled(mesh, json!({}), json!({}));
        world.write(split(50));
        let key = if mesh == Mesh::AppMeshV1Beta1 { "http" } else { "httpRoute" };
        world.edit_route(|route| {
            route["spec"]["routes"][0][key]["match"]["prefix"] = json!("/other");
        });
        world.reconcile();
        assert_eq!(world.route()["spec"]["routes"][0][key]["match"]["prefix"], "/");
        assert_eq!(world.read(), Ok(split(50)), "{mesh:?}");
    }
}

#[test]
fn nodes_are_not_rewritten_at_every_tick_and_fields_of_the_controller_stay() {
    let service = json!({ "apex": { "labels": { "a": "b" }, "annotations": { "c": "d" } } });
    let mut world = reconciled(Mesh::AppMeshV1Beta2, service, json!({}));
    for (kind, name) in Mesh::AppMeshV1Beta2.names(&world.cx()) {
        let mut object = world.live.get(kind, &name).unwrap().clone();
        if kind != SERVICE {
            object["spec"]["awsName"] = json!(format!("{name}_web"));
            object["spec"]["meshRef"] = json!({ "name": "m", "uid": "u" });
            world.put(kind, object);
        }
    }
    assert_eq!(world.drift(), Ok(vec![]));
    world.write(split(30));
    world.edit_spec(json!({ "service": { "timeout": "2s" } }));
    world.reconcile();
    assert_eq!(world.route()["spec"]["awsName"], "shop_web");
    let node = object(&world, "VirtualNode", "shop-primary");
    assert_eq!(node["spec"]["meshRef"]["name"], "m");
    assert_eq!(node["metadata"]["labels"], json!({ "a": "b" }));
    assert_eq!(world.route()["metadata"]["labels"], Value::Null, "nodes only");
}

#[test]
fn a_service_that_is_deleted_or_told_another_host_is_not_left_so() {
    let mut world =
        reconciled(Mesh::AppMeshV1Beta2, json!({ "hosts": ["a.example.com"] }), json!({}));
    let kind = *Mesh::AppMeshV1Beta2.kinds().last().unwrap();
    world.live.remove(kind, "shop");
    world.applied.clear();
    world.reconcile();
    assert_ne!(object(&world, "VirtualService", "shop"), Value::Null);
    world.edit_spec(json!({ "service": { "hosts": ["b.example.com"] } }));
    world.reconcile();
    let annotations = &object(&world, "VirtualService", "shop")["metadata"]["annotations"];
    assert_eq!(annotations["gateway.appmesh.k8s.aws/domain"], "b.example.com,");
}

#[test]
fn a_gateway_is_told_hosts_with_a_comma_after_each() {
    for (mesh, name) in [(BOTH[0], "shop.web"), (BOTH[1], "shop")] {
        let service = json!({ "hosts": ["a.example.com", "b.example.com"], "timeout": "15s",
            "retries": { "attempts": 3 } });
        let world = reconciled(mesh, service, json!({}));
        let annotations = &object(&world, "VirtualService", name)["metadata"]["annotations"];
        assert_eq!(
            *annotations,
            json!({
                "gateway.appmesh.k8s.aws/expose": "true",
                "gateway.appmesh.k8s.aws/domain": "a.example.com,b.example.com,",
                "gateway.appmesh.k8s.aws/timeout": "15s",
                "gateway.appmesh.k8s.aws/retries": "3",
            }),
            "{mesh:?}"
        );
        let plain = reconciled(mesh, json!({ "timeout": "15s" }), json!({}));
        let annotations = &object(&plain, "VirtualService", name)["metadata"]["annotations"];
        assert_eq!(*annotations, Value::Null);
    }
}

#[test]
fn a_service_without_hosts_does_not_stay_exposed() {
    for (mesh, name) in [(BOTH[0], "shop.web"), (BOTH[1], "shop")] {
        let service = json!({ "hosts": ["a.example.com"], "timeout": "15s" });
        let mut world = reconciled(mesh, service, json!({}));
        world.edit_spec(json!({ "service": { "hosts": null } }));
        world.reconcile();
        let annotations = object(&world, "VirtualService", name)["metadata"]["annotations"].clone();
        assert!(!annotations.to_string().contains("gateway"), "{mesh:?}: {annotations}");
        assert_eq!(world.drift(), Ok(vec![]), "{mesh:?}");
    }
}

#[test]
fn retries_have_defaults() {
    let policy = |mesh: Mesh, retries: Value| {
        let world = reconciled(mesh, json!({ "retries": retries }), json!({}));
        let key = if mesh == Mesh::AppMeshV1Beta1 { "http" } else { "httpRoute" };
        world.route()["spec"]["routes"][0][key]["retryPolicy"].clone()
    };
    assert_eq!(
        policy(BOTH[0], json!({})),
        json!({ "maxRetries": 1, "perRetryTimeoutMillis": 250,
            "httpRetryEvents": ["gateway-error"] })
    );
    let asked =
        json!({ "attempts": 4, "perTryTimeout": "2s", "retryOn": "server-error,stream-error" });
    assert_eq!(
        policy(BOTH[1], asked),
        json!({ "maxRetries": 4, "perRetryTimeout": { "unit": "ms", "value": 2000 },
            "httpRetryEvents": ["server-error", "stream-error"] })
    );
    let odd = policy(BOTH[1], json!({ "perTryTimeout": "soon" }));
    assert_eq!(odd["perRetryTimeout"]["value"], 250);
}

#[test]
fn a_test_has_a_route_for_each_alternative_and_one_for_the_rest() {
    for mesh in BOTH {
        let items = json!([{ "headers": { "x-a": { "suffix": "1" }, "x-b": { "exact": "2" } } },
            { "headers": { "x-c": { "regex": "3" } } }]);
        let analysis = json!({ "stepWeight": null, "iterations": 5, "match": items });
        let mut world = reconciled(mesh, json!({}), analysis);
        world.write(Split::CANARY);
        let routes = world.route()["spec"]["routes"].as_array().unwrap().clone();
        let named: Vec<_> =
            routes.iter().map(|route| (&route["name"], &route["priority"])).collect();
        assert_eq!(
            named,
            [
                (&json!("shop-a"), &json!(10)),
                (&json!("shop-a1"), &json!(11)),
                (&json!("shop-b"), &json!(20)),
            ]
        );
        let key = if mesh == Mesh::AppMeshV1Beta1 { "http" } else { "httpRoute" };
        assert_eq!(
            routes[0][key]["match"]["headers"],
            json!([
                { "name": "x-a", "match": { "suffix": "1" } },
                { "name": "x-b", "match": { "exact": "2" } },
            ])
        );
        assert_eq!(routes[2][key]["match"], json!({ "prefix": "/" }));
        assert_eq!(targets(&world, 2)[1]["weight"], 100, "the rest stays with the primary");
        assert_eq!(world.read(), Ok(Split::CANARY));
    }
}

#[test]
fn calls_do_not_get_routes_for_requests() {
    for (mesh, key) in [(BOTH[0], "grpc"), (BOTH[1], "grpcRoute")] {
        let analysis = json!({ "stepWeight": null, "iterations": 5,
            "match": [{ "headers": { "x-a": { "exact": "1" } } }] });
        let mut world = reconciled(mesh, json!({ "portName": "grpc-web" }), analysis);
        let route = &world.route()["spec"]["routes"][0];
        assert_eq!(route[key]["match"]["metadata"][0]["name"], "x-a");
        assert_eq!(route[key]["match"]["prefix"], Value::Null);
        world.write(Split::CANARY);
        assert_eq!(world.read(), Ok(Split::CANARY));
        assert_eq!(world.drift(), Ok(vec![]));
    }
}

#[test]
fn access_logs_are_asked_for_by_an_annotation_of_the_canary() {
    for mesh in BOTH {
        let mut world = World::plain(mesh);
        world.annotations.insert("appmesh.flagger.app/accesslog".to_owned(), "enabled".to_owned());
        world.reconcile();
        let node = object(&world, "VirtualNode", "shop-primary");
        let file = &node["spec"]["logging"]["accessLog"]["file"];
        assert_eq!(file["path"], "/dev/stdout", "{mesh:?}");
    }
}

#[test]
fn an_empty_list_of_routes_is_an_error_and_not_a_crash() {
    for mesh in BOTH {
        let mut world = reconciled(mesh, json!({}), json!({}));
        world.edit_route(|route| route["spec"]["routes"] = json!([]));
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{mesh:?}");
        world.reconcile();
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
    }
}

#[test]
fn fields_of_app_mesh_stay_when_objects_are_given_back() {
    // The object that kubectl applied has neither, and the mesh's webhook refuses to remove them.
    let users = json!({ "listeners": [], "routes": [] });
    let mut world = World::plain(Mesh::AppMeshV1Beta2);
    let kinds = Mesh::AppMeshV1Beta2.kinds();
    for (kind, name) in [(kinds[0], "shop-primary"), (kinds[1], "shop")] {
        let mut spec = users.clone();
        merge(&mut spec, &json!({ "awsName": format!("{name}_web"), "meshRef": { "name": "m" } }));
        let applied = json!({ "metadata": { "name": name }, "spec": users }).to_string();
        let annotations = json!({ "kubectl.kubernetes.io/last-applied-configuration": applied });
        world.put(
            kind,
            json!({ "kind": kind.kind, "spec": spec,
                "metadata": { "name": name, "annotations": annotations } }),
        );
    }
    world.reconcile();
    assert_eq!(world.finalize(), Ok(2));
    for (kind, name) in [(kinds[0], "shop-primary"), (kinds[1], "shop")] {
        let spec = &world.live.get(kind, name).unwrap()["spec"];
        assert_eq!(spec["awsName"], format!("{name}_web"));
        assert_eq!(spec["meshRef"]["name"], "m");
        assert_eq!(spec["routes"], json!([]), "{name}");
    }
}
