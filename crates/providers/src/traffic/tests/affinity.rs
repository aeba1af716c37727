//! Session affinity: cookies are set, found, kept and dropped.

use super::*;

const STICKY: [Mesh; 3] = MOVING;

fn affinity(more: Value) -> Value {
    let mut affinity = json!({ "cookieName": "ck" });
    merge(&mut affinity, &more);
    json!({ "sessionAffinity": affinity })
}

fn world(mesh: Mesh, service: Value, more: Value) -> World {
    let mut world = World::new(mesh, service, affinity(more)).with_cookies();
    world.reconcile();
    world
}

/// The pattern on the `Cookie` header of a rule, if it has one.
fn pattern(rule: &Value) -> Option<String> {
    let istio = &rule["match"][0]["headers"]["Cookie"]["regex"];
    let headers = rule["matches"][0]["headers"].as_array().into_iter().flatten();
    let gateway =
        headers.filter(|header| header["name"] == "Cookie").map(|header| &header["value"]);
    gateway.chain([istio]).find_map(|value| value.as_str()).map(str::to_owned)
}

/// `Set-Cookie` on answers of the side with this index, of all answers if `None`.
fn set_cookie(rule: &Value, side: Option<usize>) -> Option<String> {
    let holder = match side {
        Some(side) if rule["route"].is_array() => &rule["route"][side],
        Some(side) => &rule["backendRefs"][side],
        None => rule,
    };
    let istio = holder["headers"]["response"]["add"]["Set-Cookie"].as_str();
    let modifiers = filters(holder, "ResponseHeaderModifier");
    let added = modifiers.iter().flat_map(|filter| {
        filter["responseHeaderModifier"]["add"].as_array().into_iter().flatten()
    });
    let mut gateway = added.filter(|header| header["name"] == "Set-Cookie");
    istio.or_else(|| gateway.find_map(|header| header["value"].as_str())).map(str::to_owned)
}

fn weights(rule: &Value) -> (i64, i64) {
    let to = if rule["route"].is_array() { &rule["route"] } else { &rule["backendRefs"] };
    (to[0]["weight"].as_i64().unwrap(), to[1]["weight"].as_i64().unwrap())
}

#[test]
fn users_who_met_the_canary_stay_there_for_the_whole_run() {
    for mesh in STICKY {
        let mut world = world(mesh, json!({}), json!({}));
        for percent in [10, 50] {
            world.write(split(percent));
            let [sticky, weighted] = world.rules().try_into().unwrap();
            assert_eq!(pattern(&sticky).unwrap(), r"^(.*;\s*)?ck=CanaryAbcd(;.*)?$", "{mesh:?}");
            assert_eq!(weights(&sticky), (0, 100));
            assert_eq!(set_cookie(&sticky, Some(1)), None);
            assert_eq!(pattern(&weighted), None);
            assert_eq!(weights(&weighted), (100 - percent, percent));
            let set = set_cookie(&weighted, Some(1)).unwrap();
            assert_eq!(set, "ck=CanaryAbcd; Max-Age=86400", "{mesh:?}");
            assert_eq!(set_cookie(&weighted, Some(0)), None, "no primary cookie was asked for");
        }
    }
}

#[test]
fn users_who_met_the_primary_stay_there_for_a_step() {
    for mesh in STICKY {
        let mut world = world(mesh, json!({}), json!({ "primaryCookieName": "pk" }));
        world.write(split(10));
        let [_, primary, weighted] = world.rules().try_into().unwrap();
        assert!(pattern(&primary).unwrap().contains("pk=PrimaryAbc"));
        assert_eq!(weights(&primary), (100, 0));
        assert_eq!(set_cookie(&weighted, Some(0)).unwrap(), "pk=PrimaryAbc; Max-Age=60");
        // The next step has a cookie of its own.
        world.cookies.primary = Some("pk=NextNextNe".to_owned());
        world.write(split(20));
        assert!(!world.route().to_string().contains("PrimaryAbc"), "{mesh:?}");
    }
}

#[test]
fn an_unreadable_interval_does_not_stop_the_primary_cookie() {
    let mut world = world(Mesh::Istio, json!({}), json!({ "primaryCookieName": "pk" }));
    world.spec.analysis.interval = None;
    world.write(split(10));
    assert_eq!(set_cookie(&world.rules()[2], Some(0)).unwrap(), "pk=PrimaryAbc; Max-Age=60");
}

#[test]
fn at_the_end_browsers_are_told_to_drop_the_cookie() {
    for mesh in STICKY {
        let attributes = json!({ "path": "/shop", "domain": "example.com", "secure": true });
        let mut world = world(mesh, json!({}), attributes);
        world.write(split(50));
        world.cookies = Cookies { previous: world.cookies.canary.take(), ..Cookies::default() };
        world.write(Split::PRIMARY);
        let [cleanup, weighted] = world.rules().try_into().unwrap();
        assert!(pattern(&cleanup).unwrap().contains("ck=CanaryAbcd"));
        assert_eq!(
            set_cookie(&cleanup, None).unwrap(),
            "ck=CanaryAbcd; Max-Age=-1; Domain=example.com; Path=/shop; Secure",
            "{mesh:?}: a browser knows a cookie by its attributes too"
        );
        for side in [None, Some(0), Some(1)] {
            assert_eq!(set_cookie(&weighted, side), None, "{mesh:?}: nobody else is told");
        }
        assert_eq!(world.drift(), Ok(vec![]));
    }
}

#[test]
fn an_expired_cookie_is_sent_to_its_bearers_only_and_joins_the_users_headers() {
    let headers = json!({ "headers": { "response": { "add": { "x-a": "1" } } } });
    for mesh in STICKY {
        let world = world(mesh, headers.clone(), json!({}));
        let [cleanup, weighted] = world.rules().try_into().unwrap();
        assert!(set_cookie(&cleanup, None).unwrap().starts_with("ck=OldOldOldO; Max-Age=-1"));
        assert_eq!(set_cookie(&weighted, None), None, "{mesh:?}: the rules share nothing");
        for rule in [&cleanup, &weighted] {
            assert!(rule.to_string().contains("x-a"), "{mesh:?}: the user's header is on both");
            let modifiers = filters(rule, "ResponseHeaderModifier").len();
            assert!(modifiers <= 1, "{mesh:?}: the API allows one such filter a rule");
        }
    }
}

#[test]
fn without_a_cookie_to_drop_there_is_one_rule() {
    for mesh in STICKY {
        let mut world = World::new(mesh, json!({}), affinity(json!({})));
        world.reconcile();
        assert_eq!(world.rules().len(), 1, "{mesh:?}");
    }
}

#[test]
fn no_share_is_written_before_its_cookie_is_stored() {
    let cases = [
        ("none", Cookies::default(), "status.sessionAffinityCookie"),
        (
            "a primary cookie without a name, as Flagger made them",
            Cookies {
                canary: Some("ck=a".to_owned()),
                primary: Some("=xyz".to_owned()),
                previous: None,
            },
            "status.primarySessionAffinityCookie",
        ),
    ];
    for (reason, cookies, field) in cases {
        let mut world = world(Mesh::Istio, json!({}), json!({ "primaryCookieName": "pk" }));
        world.cookies = cookies;
        let error = world.planned(split(10)).unwrap_err();
        assert!(error.to_string().contains(field), "{reason}: {error}");
        assert!(world.planned(Split::PRIMARY).is_ok(), "{reason}: going back needs none");
    }
}

#[test]
fn a_cookie_that_status_lost_is_kept_from_the_live_route() {
    for mesh in STICKY {
        let mut world = world(mesh, json!({}), json!({}));
        world.write(split(30));
        let before = world.rules();
        world.cookies = Cookies::default();
        assert_eq!(world.drift(), Ok(vec![]), "{mesh:?}");
        world.edit_spec(json!({ "service": { "hosts": ["a.example.com"] } }));
        world.reconcile();
        assert_eq!(world.rules(), before, "{mesh:?}");
    }
}

#[test]
fn edits_reach_every_rule_while_cookies_are_out() {
    for mesh in [Mesh::Istio, Mesh::GatewayApiV1] {
        let service = json!({ "match": [{ "uri": { "prefix": "/a" } }] });
        let mut world = world(mesh, service, json!({}));
        world.write(split(30));
        world.edit_spec(
            json!({ "service": { "timeout": "9s", "match": [{ "uri": { "prefix": "/b" } }] } }),
        );
        world.reconcile();
        for rule in world.rules() {
            let text = rule.to_string();
            assert!(text.contains("9s") && text.contains("/b") && !text.contains("/a\""), "{text}");
        }
        assert_eq!(world.read(), Ok(split(30)));
    }
}

#[test]
fn conditions_of_a_test_are_not_written_over_the_rule_of_a_cookie() {
    let by_user = json!([{ "headers": { "x-user": { "exact": "a" } } }]);
    let strategies = [
        ("some requests by weight", json!({ "match": by_user })),
        ("a test", json!({ "match": by_user, "stepWeight": null, "iterations": 5 })),
    ];
    for mesh in STICKY {
        for (reason, strategy) in &strategies {
            let mut analysis = strategy.clone();
            analysis["sessionAffinity"] = json!({ "cookieName": "ck" });
            let mut world = World::new(mesh, json!({}), analysis).with_cookies();
            world.write(split(100));
            let [tested, rest] = world.rules().try_into().unwrap();
            let case = format!("{mesh:?}, {reason}");
            assert!(tested.to_string().contains("x-user"), "{case}: {tested}");
            assert!(!rest.to_string().contains("shop-canary"), "{case}: {rest}");
            assert!(!world.route().to_string().contains("ck="), "{case}: conditions say who goes");
            let told = world.mesh.ignored(&world.spec);
            assert_eq!(told[0].field, "spec.analysis.sessionAffinity", "{case}");
        }
    }
}

#[test]
fn cookie_rules_have_names_where_the_api_has_room_for_them() {
    for mesh in STICKY {
        let mut world = world(mesh, json!({}), json!({ "primaryCookieName": "pk" }));
        world.write(split(30));
        assert_eq!(world.rules()[0]["name"], "canary-cookie", "{mesh:?}");
        assert_eq!(world.rules().last().unwrap()["name"], Value::Null, "{mesh:?}");
    }
    let mut old = World::new(Mesh::GatewayApiV1, json!({}), affinity(json!({}))).with_cookies();
    old.fields = RouteFields::default();
    old.write(split(30));
    assert_eq!(old.rules()[0]["name"], Value::Null, "an apply with an unknown field is refused");
}
