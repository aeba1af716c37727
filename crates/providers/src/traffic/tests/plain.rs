//! Plain Services, with an apex that may be switched.

use super::*;

fn service(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "selector": { "app": app }, "ports": [{ "port": 80 }] },
    })
}

fn world(switch: bool) -> World {
    let mut world = World::new(Mesh::Kubernetes, json!({ "switchApex": switch }), json!({}));
    for (name, app) in
        [("shop", "shop-primary"), ("shop-primary", "shop-primary"), ("shop-canary", "shop")]
    {
        world.put(SERVICE, service(name, app));
    }
    world
}

fn selected(world: &World) -> Value {
    world.live.get(SERVICE, "shop").unwrap()["spec"]["selector"].clone()
}

#[test]
fn the_apex_selects_the_side_that_has_the_traffic() {
    let mut world = world(true);
    assert_eq!(world.read(), Ok(Split::PRIMARY));
    assert_eq!(world.planned(Split::PRIMARY), Ok(vec![]), "it is there already");
    world.write(Split::CANARY);
    assert_eq!(selected(&world), json!({ "app": "shop" }));
    assert_eq!(world.read(), Ok(Split::CANARY));
    assert_eq!(world.drift(), Ok(vec![]), "no drift");
    world.write(Split::PRIMARY);
    assert_eq!(selected(&world), json!({ "app": "shop-primary" }));
}

#[test]
fn without_the_switch_the_apex_is_never_touched() {
    let world = world(false);
    assert_eq!(world.planned(Split::CANARY), Ok(vec![]));
    assert_eq!(world.read(), Ok(Split::PRIMARY));
    assert!(!world.mesh.capabilities(&world.spec).switched);
    assert_eq!(world.mesh.names(&world.cx()), []);
}

#[test]
fn an_apex_that_is_not_to_be_switched_any_more_goes_back_to_the_primary() {
    let mut world = world(true);
    world.write(Split::CANARY);
    world.edit_spec(json!({ "service": null }));
    let left = |world: &World| {
        let apex = world.live.get(SERVICE, "shop").unwrap();
        world.mesh.leave(&world.cx(), SERVICE, apex, &world.live)
    };
    let change = left(&world).unwrap();
    world.carry_out(change.into_iter().collect());
    assert_eq!(selected(&world), json!({ "app": "shop-primary" }));
    assert_eq!(left(&world), Ok(None), "once");
    world.put(SERVICE, service("shop", "elsewhere"));
    assert_eq!(left(&world), Ok(None), "nobody is led to the canary by it");
    world.live.remove(SERVICE, "shop-primary");
    assert_eq!(left(&world).unwrap_err().label(), "missing", "no guess");
}

#[test]
fn labels_that_users_added_to_the_selector_do_not_survive_a_switch() {
    let mut world = world(true);
    let mut apex = service("shop", "shop-primary");
    apex["spec"]["selector"]["tier"] = json!("web");
    world.put(SERVICE, apex);
    let error = world.read().unwrap_err();
    assert_eq!(error.label(), "malformed", "neither side: no guess");
    world.write(Split::CANARY);
    assert_eq!(selected(&world), json!({ "app": "shop" }));
}

#[test]
fn traffic_of_a_service_is_whole() {
    let world = world(true);
    let capabilities = world.mesh.capabilities(&world.spec);
    assert!(capabilities.switched && !capabilities.weighted && !capabilities.mirror);
    assert_eq!(world.planned(split(50)).unwrap_err().label(), "unsupported");
    assert_eq!(world.planned(mirrored(0)).unwrap_err().label(), "unsupported");
}

#[test]
fn a_side_without_a_service_or_selector_gets_no_traffic() {
    let mut world = world(true);
    world.live.remove(SERVICE, "shop-canary");
    assert_eq!(world.planned(Split::CANARY).unwrap_err().label(), "missing");
    let mut open = service("shop-canary", "shop");
    open["spec"]["selector"] = json!({});
    world.put(SERVICE, open);
    assert_eq!(world.planned(Split::CANARY).unwrap_err().label(), "malformed");
}

#[test]
fn an_apex_of_another_canary_is_not_touched() {
    let mut world = world(true);
    let mut apex = service("shop", "shop-primary");
    apex["metadata"]["ownerReferences"] =
        json!([{ "kind": "Canary", "name": "other", "uid": "u-7", "controller": true }]);
    world.put(SERVICE, apex);
    assert_eq!(world.planned(Split::CANARY).unwrap_err().label(), "taken");
}
