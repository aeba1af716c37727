//! Skipper.

use super::{fixtures::users_ingress, *};

fn world() -> World {
    let mut world = World::plain(Mesh::Skipper);
    world.reconcile();
    world
}

/// Weights and predicate of the copy.
fn state(world: &World) -> (String, String) {
    let annotations = &world.route()["metadata"]["annotations"];
    let text = |key: &str| annotations[key].as_str().unwrap().to_owned();
    (text("zalando.org/backend-weights"), text("zalando.org/skipper-predicate"))
}

fn weights(canary: u8) -> String {
    format!("{{\"shop-canary\":{canary},\"shop-primary\":{}}}", 100 - canary)
}

#[test]
fn the_copy_leads_to_both_sides() {
    let world = world();
    let paths = world.route()["spec"]["rules"][0]["http"]["paths"].as_array().unwrap().clone();
    let services: Vec<_> = paths.iter().map(|path| &path["backend"]["service"]["name"]).collect();
    assert_eq!(services, ["shop-primary", "shop-canary"]);
    assert_eq!(world.route()["metadata"]["labels"], json!({ "team": "a" }));
}

#[test]
fn weights_and_predicate_go_together() {
    let mut world = world();
    assert_eq!(state(&world), (weights(0), "Weight(100) && Host(/shop/)".to_owned()));
    for canary in [10, 85, 100] {
        world.write(split(canary.into()));
        assert_eq!(state(&world), (weights(canary), "Weight(100) && Host(/shop/)".to_owned()));
    }
    world.write(Split::PRIMARY);
    assert_eq!(state(&world), (weights(0), "False() && Host(/shop/)".to_owned()));
    assert_eq!(world.drift(), Ok(vec![]), "off it stays until the next run");
    world.write(split(10));
    assert_eq!(state(&world), (weights(10), "Weight(100) && Host(/shop/)".to_owned()));
}

#[test]
fn an_edit_in_mid_run_does_not_reset_weights_and_predicate() {
    let mut world = world();
    world.write(split(40));
    let mut original = users_ingress();
    original["spec"]["tls"] = json!([]);
    original["metadata"]["annotations"]["zalando.org/skipper-predicate"] = json!("Path(\"/a\")");
    world.put(INGRESS, original);
    world.reconcile();
    assert_eq!(state(&world), (weights(40), "Weight(100) && Path(\"/a\")".to_owned()));
}

#[test]
fn an_ingress_without_annotations_does_not_crash() {
    let mut world = World::plain(Mesh::Skipper);
    let mut original = users_ingress();
    original["metadata"].as_object_mut().unwrap().remove("annotations");
    world.put(INGRESS, original);
    world.reconcile();
    assert_eq!(state(&world), (weights(0), "Weight(100)".to_owned()));
}

#[test]
fn a_misnamed_ingress_does_not_yield_a_copy_without_the_canary() {
    let mut world = World::plain(Mesh::Skipper);
    world.edit_spec(json!({ "service": { "name": "store" } }));
    let error = world.drift().unwrap_err();
    assert!(error.to_string().contains("no path of it leads to Service store"), "{error}");
}

#[test]
fn weights_that_are_no_weights_are_an_error() {
    let mut world = world();
    for text in
        ["", "{", "[]", "{\"shop-primary\":100}", "{\"shop-canary\":\"a\",\"shop-primary\":1}"]
    {
        world.edit_route(|route| {
            route["metadata"]["annotations"]["zalando.org/backend-weights"] = json!(text);
        });
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{text}");
    }
    world.reconcile();
    assert_eq!(world.read(), Ok(Split::PRIMARY));
}

#[test]
fn an_ingress_that_is_gone_does_not_keep_the_canary_from_being_deleted() {
    let mut world = world();
    assert_eq!(world.finalize(), Ok(1));
    assert_eq!(world.live.get(INGRESS, "shop-canary"), None);
    assert!(world.live.get(INGRESS, "shop").is_some(), "never the original");
    assert_eq!(world.finalize(), Ok(0));
}
