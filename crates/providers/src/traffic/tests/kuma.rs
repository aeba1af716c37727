//! Kuma.

use super::*;

fn kind() -> Kind {
    Mesh::Kuma.kinds()[0]
}

fn world() -> World {
    let mut world = World::plain(Mesh::Kuma);
    world.reconcile();
    world
}

/// A route as Flagger makes it, for a canary of this name in a namespace.
fn flaggers(namespace: &str, canary: u8) -> Value {
    let tag = |name: &str| json!({ "kuma.io/service": format!("{name}_{namespace}_svc_80") });
    json!({
        "kind": "TrafficRoute",
        "mesh": "blue",
        "metadata": { "name": "shop" },
        "spec": {
            "sources": [{ "match": { "kuma.io/service": "*" } }],
            "destinations": [{ "match": tag("shop") }],
            "conf": { "split": [
                { "weight": 100 - canary, "destination": tag("shop-primary") },
                { "weight": canary, "destination": tag("shop-canary") },
            ] },
        },
    })
}

#[test]
fn a_route_is_about_tags_and_belongs_to_no_namespace() {
    let mut world = world();
    world.write(split(10));
    let route = world.route();
    assert!(!kind().is_namespaced());
    assert_eq!(route["mesh"], "default");
    assert_eq!(route["metadata"]["name"], "shop.web");
    assert_eq!(route["metadata"]["ownerReferences"], Value::Null, "nothing here can own it");
    let mut want = flaggers("web", 10);
    assert_eq!(route["spec"], want["spec"].take());
}

#[test]
fn the_mesh_is_named_by_the_canary_when_the_route_is_made() {
    let mut world = World::plain(Mesh::Kuma);
    world.annotations.insert("kuma.io/mesh".to_owned(), "green".to_owned());
    world.reconcile();
    assert_eq!(world.route()["mesh"], "green");
    world.annotations.clear();
    world.write(split(10));
    assert_eq!(world.route()["mesh"], "green");
}

#[test]
fn two_canaries_of_one_name_do_not_fight_over_one_route() {
    let world = world();
    let elsewhere =
        RouteCx { owner: Owner { namespace: "blue", ..world.cx().owner }, ..world.cx() };
    let (_, name) = Mesh::Kuma.names(&elsewhere).pop().unwrap();
    assert_eq!(name, "shop.blue");
    // Flagger's, of the other namespace: not ours to read, to take over or to delete.
    let mut world = World::plain(Mesh::Kuma);
    world.put(kind(), flaggers("blue", 30));
    assert_eq!(world.read().unwrap_err().label(), "missing");
    world.reconcile();
    assert_eq!(world.read(), Ok(Split::PRIMARY));
    assert_eq!(world.finalize(), Ok(1));
    assert!(world.live.get(kind(), "shop").is_some());
}

#[test]
fn a_route_of_flaggers_does_not_stay_beside_ours_nor_lose_its_weights() {
    let mut world = World::plain(Mesh::Kuma);
    world.put(kind(), flaggers("web", 30));
    assert_eq!(world.read(), Ok(split(30)));
    world.reconcile();
    assert_eq!(world.read(), Ok(split(30)));
    assert_eq!(world.route()["metadata"]["name"], "shop.web");
    assert_eq!(world.route()["mesh"], "blue");
    assert_eq!(world.live.get(kind(), "shop"), None);
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn a_deleted_canary_does_not_leave_a_route_to_deleted_services() {
    let mut world = world();
    assert!(Mesh::Kuma.outlives(&world.spec), "so that it is finalised in any case");
    assert_eq!(world.finalize(), Ok(1));
    assert_eq!(world.live.get(kind(), "shop.web"), None);
    assert_eq!(world.finalize(), Ok(0));
}

#[test]
fn what_else_a_route_says_is_not_lost() {
    let mut world = world();
    world.edit_route(|route| {
        route["spec"]["conf"]["loadBalancer"] = json!({ "roundRobin": {} });
        route["spec"]["conf"]["http"] = json!([{ "match": {} }]);
    });
    world.write(split(70));
    assert_eq!(world.route()["spec"]["conf"]["loadBalancer"], json!({ "roundRobin": {} }));
    assert_eq!(world.route()["spec"]["conf"]["http"][0]["match"], json!({}));
}

#[test]
fn a_route_without_the_primary_is_an_error() {
    let mut world = world();
    world.edit_route(|route| {
        route["spec"]["conf"]["split"].as_array_mut().unwrap().remove(0);
    });
    assert_eq!(world.read().unwrap_err().label(), "malformed");
}
