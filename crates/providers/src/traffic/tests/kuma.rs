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
fn other_fields_of_a_route_are_not_lost() {
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

    // Taken over by Flagger, from a user who applied it.
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

#[test]
fn the_newer_policy_is_taken_where_the_older_one_is_gone() {
    let served =
        |plurals: &'static [&'static str]| move |kind: Kind| plurals.contains(&kind.plural);
    assert_eq!(Mesh::Kuma.served(|_| true), Mesh::Kuma);
    assert_eq!(Mesh::Kuma.served(served(&["trafficroutes"])), Mesh::Kuma);
    assert_eq!(Mesh::Kuma.served(served(&["meshhttproutes"])), Mesh::KumaHttp);
    assert_eq!(Mesh::Kuma.served(|_| false), Mesh::Kuma, "nothing is known to be better");
    assert_eq!(Mesh::KumaHttp.as_str(), "kuma");
    let world = World::plain(Mesh::KumaHttp);
    let needed =
        |mesh: Mesh| mesh.kinds_for(&world.spec).iter().map(|it| it.kind).collect::<Vec<_>>();
    assert_eq!(
        needed(Mesh::Kuma),
        ["TrafficRoute"],
        "or a cluster without the newer one would wait"
    );
    assert_eq!(needed(Mesh::KumaHttp), ["MeshHTTPRoute"]);
}

#[test]
fn the_newer_policy_is_about_services_and_has_an_owner() {
    let mut world = World::plain(Mesh::KumaHttp);
    world.annotations.insert("kuma.io/mesh".to_owned(), "green".to_owned());
    world.reconcile();
    world.write(split(10));
    let backend = |name: &str, weight: u8| {
        json!({ "kind": "MeshService", "name": name, "port": 80,
        "weight": weight })
    };
    let route = world.route();
    assert!(world.mesh.kinds()[1].is_namespaced());
    assert_eq!(route["metadata"]["name"], "shop");
    assert_eq!(route["metadata"]["labels"], json!({ "kuma.io/mesh": "green" }));
    assert_eq!(route["metadata"]["ownerReferences"][0]["uid"], "u-1");
    assert_eq!(
        route["spec"],
        json!({
            "targetRef": { "kind": "Mesh" },
            "to": [{
                "targetRef": { "kind": "MeshService", "name": "shop", "sectionName": "http" },
                "rules": [{
                    "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                    "default": { "backendRefs": [
                        backend("shop-primary", 90), backend("shop-canary", 10) ] },
                }],
            }],
        })
    );
    assert!(!world.mesh.outlives(&world.spec), "its owner takes it along");
    // The mesh of a route cannot be changed.
    world.annotations.clear();
    world.write(split(20));
    assert_eq!(world.route()["metadata"]["labels"]["kuma.io/mesh"], "green");
}

#[test]
fn filters_of_the_newer_policy_are_not_lost() {
    let mut world = World::plain(Mesh::KumaHttp);
    world.reconcile();
    world.edit_route(|route| {
        route["spec"]["to"][0]["rules"][0]["default"]["filters"] =
            json!([{ "type": "URLRewrite" }]);
    });
    assert_eq!(world.drift(), Ok(vec![]));
    world.write(split(70));
    let rule = &world.route()["spec"]["to"][0]["rules"][0];
    assert_eq!(rule["default"]["filters"], json!([{ "type": "URLRewrite" }]));
}

#[test]
fn a_route_of_the_older_policy_does_not_stay_beside_the_newer() {
    let world = world();
    let route = world.route().clone();
    let left = Mesh::KumaHttp.leftovers(&world.cx(), kind(), &[&route]);
    assert!(matches!(&left[..], [Change::Delete { name, .. }] if name == "shop.web"), "{left:?}");
}
