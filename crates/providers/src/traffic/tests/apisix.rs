//! APISIX.

use super::{fixtures::users_apisix_route, *};

fn kind() -> Kind {
    Mesh::Apisix.kinds()[0]
}

fn world() -> World {
    let mut world = World::plain(Mesh::Apisix);
    world.reconcile();
    world
}

fn refusal(edit: impl FnOnce(&mut Value)) -> String {
    let mut world = World::plain(Mesh::Apisix);
    let mut original = users_apisix_route();
    edit(&mut original);
    world.put(kind(), original);
    world.drift().unwrap_err().to_string()
}

#[test]
fn the_rule_to_the_apex_is_copied_with_two_backends() {
    let mut world = world();
    world.write(split(50));
    assert_eq!(world.read(), Ok(split(50)));
    let copy = world.route();
    assert_eq!(copy["metadata"]["name"], "shop-shop-canary");
    let mut want = users_apisix_route()["spec"]["http"][1].clone();
    want["priority"] = json!(20_001);
    let backend = |name: &str| {
        json!({ "serviceName": name, "servicePort": 80,
        "resolveGranularity": "service", "subset": "a", "weight": 50 })
    };
    want["backends"] = json!([backend("shop-primary"), backend("shop-canary")]);
    assert_eq!(copy["spec"], json!({ "ingressClassName": "apisix", "http": [want] }));
}

#[test]
fn connections_and_marks_of_tools_are_not_copied() {
    let mut world = world();
    let copy = world.route();
    assert_eq!(copy["spec"]["stream"], Value::Null, "two routes of one port");
    assert_eq!(copy["metadata"]["labels"], json!({ "team": "a" }));
    let copied = json!({ "note": "b", "tidegate.dev/copied-annotations": "note" });
    assert_eq!(copy["metadata"]["annotations"], copied);
    // A copy of Flagger's has them still.
    world.edit_route(|route| route["spec"]["stream"] = json!([{ "name": "tcp" }]));
    world.reconcile();
    assert_eq!(world.route()["spec"]["stream"], Value::Null);
}

#[test]
fn a_priority_of_the_users_does_not_win_over_the_copy() {
    let priority = |users: Value| {
        let mut world = World::plain(Mesh::Apisix);
        let mut original = users_apisix_route();
        original["spec"]["http"][0]["priority"] = users;
        world.put(kind(), original);
        world.reconcile();
        world.route()["spec"]["http"][0]["priority"].clone()
    };
    assert_eq!(priority(Value::Null), 10_000);
    assert_eq!(priority(json!(10)), 10_000);
    assert_eq!(priority(json!(10_000)), 10_001);
    assert_eq!(priority(json!(i64::MAX)), i64::MAX);
}

#[test]
fn the_copy_follows_its_original_and_keeps_its_weights() {
    let mut world = world();
    world.write(split(35));
    let mut original = users_apisix_route();
    original["spec"]["http"][1]["timeout"]["read"] = json!("9s");
    original["spec"]["http"][1]["backends"][0]["servicePort"] = json!(8080);
    world.put(kind(), original);
    world.reconcile();
    let rule = &world.route()["spec"]["http"][0];
    assert_eq!(rule["timeout"]["read"], "9s");
    assert_eq!(rule["backends"][1]["servicePort"], 8080);
    assert_eq!(world.read(), Ok(split(35)));
}

#[test]
fn a_route_that_cannot_be_copied_is_an_error_that_says_why() {
    assert!(refusal(|route| route["spec"]["http"] = json!([])).contains("no rules for HTTP"));
    let elsewhere =
        refusal(|route| route["spec"]["http"][1]["backends"][0]["serviceName"] = json!("b"));
    assert!(elsewhere.contains("leads to Service shop"), "{elsewhere}");
    let more = refusal(|route| {
        let backends = route["spec"]["http"][1]["backends"].as_array_mut().unwrap();
        backends.push(json!({ "serviceName": "b" }));
    });
    assert!(more.contains("more backends"), "{more}");
    let mut world = World::plain(Mesh::Apisix);
    world.live.remove(kind(), "shop");
    assert_eq!(world.drift().unwrap_err().to_string(), "ApisixRoute web/shop does not exist");
    world.edit_spec(json!({ "routeRef": null }));
    assert!(world.drift().unwrap_err().to_string().contains("spec.routeRef"));
}

#[test]
fn a_copy_without_the_primary_is_not_read_as_a_split() {
    let mut world = world();
    world.edit_route(|route| {
        route["spec"]["http"][0]["backends"].as_array_mut().unwrap().remove(0);
    });
    assert_eq!(world.read().unwrap_err().label(), "malformed");
}
