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
        "metadata": { "name": "shop", "annotations": {
            "kustomize.toolkit.fluxcd.io/reconcile": "disabled",
            "helm.toolkit.fluxcd.io/driftDetection": "disabled",
        } },
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

#[test]
fn a_route_of_the_users_with_our_name_is_given_back_and_not_deleted() {
    // Also one that divides traffic between our sides already.
    let divided = flaggers("web", 20)["spec"].clone();
    let other =
        json!({ "destinations": [], "conf": { "destination": { "kuma.io/service": "a" } } });
    for spec in [divided, other] {
        let mut world = World::plain(Mesh::Kuma);
        let users = json!({ "apiVersion": "kuma.io/v1alpha1", "kind": "TrafficRoute", "mesh": "blue",
            "metadata": { "name": "shop.web", "annotations": { "note": "mine" } }, "spec": spec });
        world.put(kind(), users);
        let before = world.route().clone();
        assert_eq!(world.finalize(), Ok(0), "it was never touched: {spec}");
        world.reconcile();
        world.write(split(30));
        assert_eq!(world.drift(), Ok(vec![]));
        assert_eq!(world.finalize(), Ok(1));
        let mut after = world.route().clone();
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        assert_eq!(after, before);
        assert_eq!(world.finalize(), Ok(0));
        // Nor is it deleted when the apex gets another name.
        world.reconcile();
        let taken = world.route().clone();
        world.edit_spec(json!({ "service": { "name": "store" } }));
        let left = Mesh::Kuma.leftovers(&world.cx(), kind(), &[&taken]);
        assert!(
            matches!(&left[..], [Change::Merge { name, .. }] if name == "shop.web"),
            "{left:?}"
        );
    }
}

#[test]
fn a_route_of_ours_that_was_bent_does_not_stay_for_ever() {
    let mut world = world();
    world.edit_route(|route| route["spec"] = json!({}));
    assert_eq!(world.finalize(), Ok(1));
    assert_eq!(world.live.get(kind(), "shop.web"), None);
}

#[test]
fn a_route_under_flaggers_name_that_is_the_users_is_not_deleted() {
    let mut by_hand = flaggers("web", 30);
    by_hand["metadata"]["annotations"] = json!({ "note": "mine" });
    let mut world = World::plain(Mesh::Kuma);
    world.put(kind(), by_hand);
    world.reconcile();
    assert!(world.live.get(kind(), "shop").is_some());
    assert_eq!(world.finalize(), Ok(1));
    assert!(world.live.get(kind(), "shop").is_some());

    // Taken over by Flagger, from somebody who applied it.
    let mut taken = flaggers("web", 30);
    let applied = json!({ "metadata": { "name": "shop" }, "spec": { "sources": [] } });
    taken["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        json!(applied.to_string());
    let mut world = World::plain(Mesh::Kuma);
    world.put(kind(), taken);
    world.reconcile();
    assert_eq!(world.live.get(kind(), "shop").unwrap()["spec"], json!({ "sources": [] }));
    assert_eq!(world.read(), Ok(split(30)), "its weights are ours by now");
    assert_eq!(world.drift(), Ok(vec![]));
}
