//! The NGINX ingress controller.

use super::{fixtures::users_ingress, *};

const PREFIX: &str = "nginx.ingress.kubernetes.io";

fn world(analysis: Value) -> World {
    let mut world = World::new(Mesh::Nginx, json!({}), analysis);
    world.reconcile();
    world
}

fn test(items: Value) -> Value {
    json!({ "stepWeight": null, "iterations": 5, "match": items })
}

/// The annotations of the controller on the copy, without their prefix.
fn canary_annotations(world: &World) -> Value {
    let annotations = world.route()["metadata"]["annotations"].as_object().unwrap();
    let ours = annotations.iter().filter_map(|(key, value)| {
        let key = key.strip_prefix(world.ingress.annotation_prefix)?.strip_prefix('/')?;
        key.starts_with("canary").then(|| (key.to_owned(), value.clone()))
    });
    Value::Object(ours.collect())
}

fn refusal(items: Value) -> String {
    World::new(Mesh::Nginx, json!({}), test(items)).check().unwrap_err().to_string()
}

#[test]
fn the_copy_has_the_paths_to_the_apex_and_no_others() {
    let world = world(json!({}));
    let copy = world.route();
    assert_eq!(copy["metadata"]["name"], "shop-canary");
    assert_eq!(copy["metadata"]["labels"], json!({ "team": "a" }));
    assert_eq!(
        copy["spec"],
        json!({
            "ingressClassName": "web",
            "tls": [{ "hosts": ["shop.example.com"], "secretName": "cert" }],
            "rules": [{ "host": "shop.example.com", "http": { "paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": { "service": { "name": "shop-canary", "port": { "number": 80 } } },
            }] } }],
        }),
        "neither a path of others, nor a rule without paths, nor a default"
    );
    let annotations = &copy["metadata"]["annotations"];
    assert_eq!(annotations[format!("{PREFIX}/proxy-body-size")], "8m");
    for mark in
        ["kubectl.kubernetes.io/last-applied-configuration", "argocd.argoproj.io/tracking-id"]
    {
        assert_eq!(annotations[mark], Value::Null, "{mark}");
    }
    assert_eq!(annotations["kustomize.toolkit.fluxcd.io/reconcile"], "disabled");
}

#[test]
fn weights_are_annotations_under_the_prefix_of_the_operator() {
    let mut world = World::plain(Mesh::Nginx);
    world.ingress.annotation_prefix = "custom.ingress.io";
    world.reconcile();
    assert_eq!(canary_annotations(&world), json!({ "canary": "true", "canary-weight": "0" }));
    world.write(split(50));
    assert_eq!(canary_annotations(&world), json!({ "canary": "true", "canary-weight": "50" }));
    assert_eq!(world.read(), Ok(split(50)));
    world.write(Split::PRIMARY);
    assert_eq!(canary_annotations(&world), json!({ "canary": "true", "canary-weight": "0" }));
}

#[test]
fn a_test_sends_only_the_named_users_to_the_canary() {
    let header = json!({ "headers": { "x-user": { "exact": "a" } } });
    let pattern = json!({ "headers": { "x-user": { "regex": "a.*" } } });
    let cookie = json!({ "headers": { "cookie": { "exact": "beta" } } });
    let cases = [
        (json!([header]), json!({ "canary-by-header": "x-user", "canary-by-header-value": "a" })),
        (
            json!([pattern]),
            json!({ "canary-by-header": "x-user", "canary-by-header-pattern": "a.*" }),
        ),
        (json!([cookie]), json!({ "canary-by-cookie": "beta" })),
        (
            json!([{ "headers": { "x-user": { "exact": "a" }, "cookie": { "exact": "beta" } } }]),
            json!({ "canary-by-header": "x-user",
            "canary-by-header-value": "a", "canary-by-cookie": "beta" }),
        ),
        (
            json!([header, cookie]),
            json!({ "canary-by-header": "x-user",
            "canary-by-header-value": "a", "canary-by-cookie": "beta" }),
        ),
    ];
    for (items, who) in cases {
        let mut world = world(test(items));
        let rest = json!({ "canary": "true", "canary-weight": "0" });
        assert_eq!(canary_annotations(&world), rest);
        assert_eq!(world.read(), Ok(Split::PRIMARY));
        world.write(Split::CANARY);
        let mut want = rest.clone();
        merge(&mut want, &who);
        assert_eq!(canary_annotations(&world), want);
        assert_eq!(world.read(), Ok(Split::CANARY));
        assert_eq!(world.drift(), Ok(vec![]));
        world.write(Split::PRIMARY);
        assert_eq!(canary_annotations(&world), rest);
    }
}

#[test]
fn a_test_has_no_weights_and_says_so() {
    let world = world(test(json!([{ "headers": { "x-user": { "exact": "a" } } }])));
    let capabilities = world.mesh.capabilities(&world.spec);
    assert!(!capabilities.weighted && capabilities.switched && capabilities.ab);
    assert_eq!(world.planned(split(50)).unwrap_err().label(), "unsupported");
}

#[test]
fn conditions_beside_weights_do_not_promote_at_the_first_step() {
    let analysis = json!({ "match": [{ "headers": { "x-user": { "exact": "a" } } }] });
    let mut world = world(analysis);
    for percent in [10, 20, 100, 0, 30] {
        world.write(split(percent));
        assert_eq!(world.read(), Ok(split(percent)), "the weight, not the header");
        assert_eq!(world.drift(), Ok(vec![]));
        let named = canary_annotations(&world)["canary-by-header"].is_string();
        assert_eq!(named, percent > 0, "named users from the first step on");
    }
}

#[test]
fn users_named_on_the_original_are_kept() {
    let mut world = World::plain(Mesh::Nginx);
    let mut original = users_ingress();
    let annotations = &mut original["metadata"]["annotations"];
    annotations[format!("{PREFIX}/canary-by-header")] = json!("x-insider");
    annotations[format!("{PREFIX}/canary-weight")] = json!("99");
    world.put(INGRESS, original);
    world.reconcile();
    let nobody = json!({ "canary": "true", "canary-weight": "0" });
    assert_eq!(canary_annotations(&world), nobody, "at rest there are no pods to be led to");
    world.write(split(5));
    assert_eq!(
        canary_annotations(&world),
        json!({ "canary": "true", "canary-weight": "5", "canary-by-header": "x-insider" })
    );
    assert_eq!(world.read(), Ok(split(5)));
    assert_eq!(world.drift(), Ok(vec![]));
    world.write(split(0));
    assert_eq!(canary_annotations(&world), nobody, "nor after a rollout");
    assert_eq!(world.drift(), Ok(vec![]));
}

#[test]
fn annotations_of_the_original_do_not_stay_behind() {
    let mut world = world(json!({}));
    world.write(split(25));
    let mut original = users_ingress();
    let annotations = original["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove(&format!("{PREFIX}/proxy-body-size"));
    annotations.insert(format!("{PREFIX}/auth-url"), json!("https://auth"));
    world.put(INGRESS, original);
    world.reconcile();
    let annotations = &world.route()["metadata"]["annotations"];
    assert_eq!(annotations[format!("{PREFIX}/auth-url")], "https://auth");
    assert_eq!(annotations[format!("{PREFIX}/proxy-body-size")], Value::Null);
    assert_eq!(world.read(), Ok(split(25)));
}

#[test]
fn an_annotation_that_is_only_removed_does_not_stay_behind_either() {
    for mesh in fixtures::COPYING {
        let mut world = World::plain(mesh);
        let (kind, name) = mesh.names(&world.cx()).remove(0);
        let mut original = world.live.get(kind, &name).unwrap().clone();
        original["metadata"]["annotations"]["x-auth"] = json!("on");
        world.put(kind, original.clone());
        world.reconcile();
        assert_eq!(world.route()["metadata"]["annotations"]["x-auth"], "on", "{mesh:?}");
        original["metadata"]["annotations"].as_object_mut().unwrap().remove("x-auth");
        world.put(kind, original);
        world.reconcile();
        assert_eq!(world.route()["metadata"]["annotations"]["x-auth"], Value::Null, "{mesh:?}");
        assert_eq!(world.drift(), Ok(vec![]), "{mesh:?}");
    }
}

#[test]
fn foreign_keys_on_the_copy_send_no_user_to_the_canary() {
    let mut world = world(json!({}));
    world.edit_route(|route| {
        let annotations = &mut route["metadata"]["annotations"];
        annotations[format!("{PREFIX}/canary-by-header")] = json!("x-old");
        annotations[format!("{PREFIX}/canary-weight-total")] = json!("1000");
    });
    world.reconcile();
    assert_eq!(canary_annotations(&world), json!({ "canary": "true", "canary-weight": "0" }));
}

#[test]
fn several_headers_do_not_collapse_to_any_one_of_them() {
    let two = json!([{ "headers": { "x-a": { "exact": "1" } } },
        { "headers": { "x-b": { "exact": "2" } } }]);
    assert!(refusal(two).contains("match[1]"));
    let ways = json!([{ "headers": { "x-a": { "exact": "1" } } },
        { "headers": { "x-a": { "regex": "2" } } }]);
    assert!(refusal(ways).contains("one header and one cookie"));
    let one_item = json!([{ "headers": { "x-a": { "exact": "1" }, "x-b": { "exact": "b" } } }]);
    assert!(refusal(one_item).contains("match[0].headers.x-b"));
    let cookies = json!([{ "headers": { "cookie": { "exact": "a" } } },
        { "headers": { "Cookie": { "exact": "b" } } }]);
    assert!(refusal(cookies).contains("one header and one cookie"));
    let cookie = json!([{ "headers": { "Cookie": { "regex": "b.*" } } }]);
    assert!(refusal(cookie).contains("by its name"));
    let prefix = json!([{ "headers": { "x-a": { "prefix": "1" } } }]);
    assert!(refusal(prefix).contains("exact or regex"));
}

#[test]
fn an_ingress_that_cannot_be_copied_is_an_error_that_names_it() {
    let mut world = World::plain(Mesh::Nginx);
    world.live.remove(INGRESS, "shop");
    assert_eq!(world.drift().unwrap_err().to_string(), "Ingress web/shop does not exist");
    let mut other = users_ingress();
    other["spec"]["rules"].as_array_mut().unwrap().remove(0);
    world.put(INGRESS, other);
    let error = world.drift().unwrap_err();
    assert!(error.to_string().contains("no path of it leads to Service shop"), "{error}");
    world.edit_spec(json!({ "ingressRef": null }));
    let error = world.drift().unwrap_err();
    assert!(error.to_string().contains("spec.ingressRef"), "{error}");
}

#[test]
fn an_original_that_is_gone_does_not_hold_traffic_on_the_canary() {
    for mesh in fixtures::COPYING {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(60));
        let (kind, name) = mesh.names(&world.cx()).remove(0);
        world.live.remove(kind, &name);
        assert_eq!(world.read(), Ok(split(60)), "{mesh:?}: the copy is still there");
        assert_eq!(world.planned(split(70)).unwrap_err().label(), "missing", "{mesh:?}");
        world.write(Split::PRIMARY);
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
    }
}

#[test]
fn a_weight_that_is_no_number_is_an_error() {
    let mut world = world(json!({}));
    for text in ["", "ten", "10%", "101", "-1", "9223372036854775807", "-9223372036854775808"] {
        world.edit_route(|route| {
            route["metadata"]["annotations"][format!("{PREFIX}/canary-weight")] = json!(text);
        });
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{text:?}");
    }
    world.edit_route(|route| {
        let annotations = route["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(&format!("{PREFIX}/canary-weight"));
    });
    assert_eq!(world.read(), Ok(Split::PRIMARY), "none is nothing");
    world.edit_route(|route| {
        route["metadata"]["annotations"][format!("{PREFIX}/canary")] = json!("false");
    });
    assert_eq!(world.read().unwrap_err().label(), "malformed", "it divides nothing");
}

#[test]
fn the_copy_goes_with_its_owner_or_is_deleted() {
    let mut owned = world(json!({}));
    assert_eq!(owned.finalize(), Ok(0), "its owner takes it along");
    let mut world = World::plain(Mesh::Nginx);
    world.can_own = false;
    world.reconcile();
    assert_eq!(world.finalize(), Ok(1), "nobody else would");
    assert_eq!(world.live.get(INGRESS, "shop-canary"), None);
    assert_eq!(world.finalize(), Ok(0), "what is gone needs nothing");
}

/// An Ingress of the user's own that has the name of the copy.
fn users_canary() -> Value {
    let mut ingress = users_ingress();
    ingress["apiVersion"] = json!("networking.k8s.io/v1");
    ingress["metadata"] = json!({ "name": "shop-canary", "labels": { "team": "beta" }, "annotations": {
        format!("{PREFIX}/canary"): "true",
        format!("{PREFIX}/canary-weight"): "40",
        format!("{PREFIX}/canary-by-header"): "x-beta",
        format!("{PREFIX}/proxy-body-size"): "1m",
    } });
    let path = &mut ingress["spec"]["rules"][0]["http"]["paths"][0];
    path["backend"]["service"]["name"] = json!("shop-beta");
    ingress
}

#[test]
fn an_ingress_of_the_users_with_the_name_of_the_copy_is_backed_up_and_given_back() {
    let mut world = World::plain(Mesh::Nginx);
    world.put(INGRESS, users_canary());
    let before = world.route().clone();
    assert_eq!(world.read().unwrap_err().label(), "malformed", "its weight is about another");
    assert_eq!(world.finalize(), Ok(0), "nor is it ours to delete");
    world.reconcile();
    assert_eq!(world.read(), Ok(Split::PRIMARY), "never with the weight of something else");
    world.write(split(30));
    assert_eq!(canary_annotations(&world), json!({ "canary": "true", "canary-weight": "30" }));
    assert_eq!(world.drift(), Ok(vec![]));
    assert_eq!(world.finalize(), Ok(1));
    let mut after = world.route().clone();
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(after, before);
    assert_eq!(world.finalize(), Ok(0));
}

#[test]
fn a_copy_of_ours_that_was_led_elsewhere_keeps_its_weight() {
    let mut world = world(json!({}));
    world.write(split(30));
    world.edit_route(|route| {
        let path = &mut route["spec"]["rules"][0]["http"]["paths"][0];
        path["backend"]["service"]["name"] = json!("other");
    });
    world.reconcile();
    assert!(ingress::leads_to(world.route(), "shop-canary"));
    assert_eq!(world.read(), Ok(split(30)));
}
