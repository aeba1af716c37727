//! Traefik.

use super::*;

fn world() -> World {
    let mut world = World::plain(Mesh::Traefik);
    world.reconcile();
    world
}

fn services(world: &World) -> Value {
    world.route()["spec"]["weighted"]["services"].clone()
}

fn member(name: &str, weight: u8) -> Value {
    json!({ "name": name, "namespace": "web", "port": 80, "weight": weight })
}

#[test]
fn the_canary_is_a_member_only_while_it_has_traffic() {
    let mut world = world();
    assert_eq!(services(&world), json!([member("shop-primary", 100)]));
    world.write(split(40));
    let both = json!([member("shop-primary", 60), member("shop-canary", 40)]);
    assert_eq!(services(&world), both);
    world.edit_spec(json!({ "service": { "apex": { "labels": { "a": "b" } } } }));
    world.reconcile();
    assert_eq!(services(&world), both, "a reconcile in mid-run keeps both");
    world.write(Split::PRIMARY);
    assert_eq!(services(&world), json!([member("shop-primary", 100)]));
}

#[test]
fn all_to_the_canary_does_not_leave_a_share_with_the_primary() {
    let mut world = world();
    world.write(Split::CANARY);
    assert_eq!(services(&world), json!([member("shop-canary", 100)]), "none without a weight");
    assert_eq!(world.read(), Ok(Split::CANARY));
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn two_members_of_the_same_weight_are_not_read_as_all_to_the_primary() {
    let mut world = world();
    for weights in [(Some(100), Some(100)), (None, Some(100)), (Some(0), Some(0))] {
        world.edit_route(|route| {
            let member = |name: &str, weight: Option<u8>| json!({ "name": name, "weight": weight });
            let members = [member("shop-primary", weights.0), member("shop-canary", weights.1)];
            route["spec"]["weighted"]["services"] = json!(members);
            strip_nulls(route);
        });
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{weights:?}");
    }
}

#[test]
fn a_service_without_members_is_an_error_and_not_a_crash() {
    let mut world = world();
    for odd in [
        json!({}),
        json!({ "weighted": null }),
        json!({ "weighted": { "services": [] } }),
        json!({ "mirroring": { "name": "a" } }),
    ] {
        world.edit_route(|route| route["spec"] = odd.clone());
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{odd}");
    }
    world.reconcile();
    assert_eq!(world.read(), Ok(Split::PRIMARY));
}

#[test]
fn a_sticky_cookie_and_settings_of_members_are_not_lost() {
    let mut world = world();
    world.edit_route(|route| {
        route["spec"]["weighted"]["sticky"] = json!({ "cookie": { "name": "lb" } });
        route["spec"]["weighted"]["services"][0]["passHostHeader"] = json!(false);
    });
    assert_eq!(world.drift(), Ok(vec![]));
    for percent in [30, 100, 0] {
        world.write(split(percent));
        assert_eq!(world.route()["spec"]["weighted"]["sticky"]["cookie"]["name"], "lb");
        for member in services(&world).as_array().unwrap() {
            assert_eq!(member["passHostHeader"], false, "{percent}: both are reached alike");
        }
    }
}

#[test]
fn the_way_back_from_a_canary_alone_brings_the_primary_in() {
    let mut world = world();
    world.write(Split::CANARY);
    world.edit_spec(json!({ "analysis": fixtures::inexpressible() }));
    assert_eq!(world.check().unwrap_err().label(), "spec", "nothing but the way back is left");
    world.write(Split::PRIMARY);
    assert_eq!(services(&world), json!([member("shop-primary", 100)]));
}
