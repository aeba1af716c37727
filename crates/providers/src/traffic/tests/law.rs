//! Laws for every provider and every shape of a route.

mod random;

use super::{fixtures::*, *};

/// Specs that give routes of every shape.
fn shapes() -> Vec<(&'static str, Value, Value)> {
    [simple_tests(), other_shapes()].concat()
}

/// A/B testing that most can do.
fn simple_tests() -> Vec<(&'static str, Value, Value)> {
    vec![
        (
            "A/B by one header",
            json!({}),
            json!({ "stepWeight": null, "iterations": 10,
                "match": [{ "headers": { "x-user": { "exact": "a" } } }] }),
        ),
        (
            "A/B by a header or a cookie",
            json!({}),
            json!({ "stepWeight": null, "iterations": 10, "match": [
                { "headers": { "x-user": { "regex": "a.*" } } },
                { "headers": { "cookie": { "exact": "beta" } } },
            ] }),
        ),
    ]
}

fn other_shapes() -> Vec<(&'static str, Value, Value)> {
    let cookie = json!({ "sessionAffinity": { "cookieName": "ck", "path": "/", "secure": true } });
    let cookies = json!({ "sessionAffinity": { "cookieName": "ck", "primaryCookieName": "pk" } });
    let matched = json!({
        "stepWeight": null,
        "iterations": 10,
        "match": [
            { "headers": { "x-user": { "exact": "a" }, "x-group": { "regex": "b.*" } } },
            { "headers": { "cookie": { "regex": ".*beta.*" } } },
        ],
    });
    let rich = json!({
        "hosts": ["shop.example.com"],
        "match": [
            { "uri": { "prefix": "/api" }, "headers": { "x-a": { "exact": "1" } } },
            { "method": { "exact": "GET" }, "queryParams": { "q": { "regex": ".+" } } },
        ],
        "headers": {
            "request": { "add": { "x-b": "2" }, "remove": ["x-c"] },
            "response": { "set": { "x-d": "4" }, "add": { "x-e": "5" } },
        },
        "rewrite": { "uri": "/", "authority": "shop" },
        "corsPolicy": { "allowOrigin": ["*"], "allowMethods": ["GET"], "allowCredentials": true },
        "timeout": "10s",
        "backendTimeout": "5s",
        "retries": { "attempts": 3, "perTryTimeout": "1s", "retryOn": "gateway-error,429" },
        "apex": { "labels": { "team": "a" }, "annotations": { "note": "b" } },
    });
    let prefixes = json!({
        "match": [{ "uri": { "prefix": "/a" } }, { "uri": { "prefix": "/b" } }],
        "rewrite": { "uri": "/", "type": "ReplacePrefixMatch" },
    });
    vec![
        ("plain", json!({}), json!({})),
        ("blue/green", json!({}), json!({ "stepWeight": null, "iterations": 5 })),
        ("mirror weight", json!({}), json!({ "mirror": true, "mirrorWeight": 10 })),
        (
            "a mirror of the user's",
            json!({ "mirror": [
            { "backendRef": { "name": "audit", "port": 80 } },
            { "backendRef": { "name": "shop-canary", "port": 80 } },
        ] }),
            json!({}),
        ),
        ("A/B", json!({}), matched.clone()),
        ("A/B with everything", rich.clone(), matched),
        (
            "some requests by weight",
            json!({}),
            json!({ "match": [
            { "headers": { "x-user": { "exact": "a" } } },
        ] }),
        ),
        ("affinity", json!({}), cookie.clone()),
        ("affinity with everything", rich.clone(), cookie),
        ("affinity of both sides", json!({}), cookies.clone()),
        ("prefix rewrite, affinity of both sides", prefixes, cookies),
        ("connections", json!({ "appProtocol": "TCP", "match": [{ "port": 80 }] }), json!({})),
        ("delegate", json!({ "delegation": true, "portDiscovery": true }), json!({})),
        ("everything", rich, json!({})),
    ]
}

/// Every provider with every shape it can do: it refuses the others.
fn worlds() -> Vec<(String, World)> {
    let mut worlds = Vec::new();
    for mesh in dividing() {
        for (shape, service, analysis) in shapes() {
            let mut world = World::new(mesh, service, analysis).with_cookies();
            if !MOVING.contains(&mesh) && world.check().is_err() {
                continue;
            }
            if mesh == Mesh::Knative {
                world.reconcile();
            }
            worlds.push((format!("{}, {shape}", mesh.as_str()), world));
        }
    }
    worlds
}

/// Every split the provider says it can do.
fn splits(world: &World) -> Vec<Split> {
    let capabilities = world.mesh.capabilities(&world.spec);
    let mirror: &[bool] = if capabilities.mirror { &[false, true] } else { &[false] };
    let all = (0..=100).flat_map(|percent| mirror.iter().map(move |mirror| (percent, *mirror)));
    let all = all.map(|(percent, mirrored)| Split { mirrored, ..split(percent) });
    all.filter(|split| capabilities.weighted || router::is_whole(*split)).collect()
}

#[test]
fn every_provider_can_do_weights_and_blue_green_or_says_otherwise() {
    let cases = worlds();
    for mesh in dividing() {
        for shape in ["plain", "blue/green"] {
            let case = format!("{}, {shape}", mesh.as_str());
            assert!(cases.iter().any(|(found, _)| *found == case), "{case}");
        }
        let tests = format!("{}, A/B by one header", mesh.as_str());
        let is_tested = cases.iter().any(|(found, _)| *found == tests);
        assert_eq!(is_tested, mesh.support().ab.is_some(), "{tests}");
    }
}

#[test]
fn a_read_answers_the_last_write() {
    for (case, mut world) in worlds() {
        for split in splits(&world) {
            world.write(split);
            assert_eq!(world.read(), Ok(split), "{case}");
            assert_eq!(world.planned(split), Ok(vec![]), "{case}: the second write is none");
        }
    }
}

#[test]
fn reconcile_moves_no_traffic_and_comes_to_rest() {
    for (case, mut world) in worlds() {
        world.reconcile();
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{case}: a new route leads to the primary");
        assert_eq!(world.drift(), Ok(vec![]), "{case}: converged");
        for split in splits(&world).into_iter().step_by(7) {
            world.write(split);
            assert_eq!(world.drift(), Ok(vec![]), "{case}: {split:?} is no drift");
        }
    }
}

#[test]
fn weights_of_every_rule_are_whole_and_add_up_to_a_hundred() {
    for (case, mut world) in worlds() {
        for split in splits(&world).into_iter().step_by(10) {
            world.write(split);
            let canary = i64::from(split.canary);
            // With these the first rule may be of a cookie; the sum holds for each.
            if MOVING.contains(&world.mesh) {
                for rule in world.rules() {
                    let mut lists = ["backendRefs", "route"].into_iter();
                    let to = lists.find_map(|key| rule[key].as_array());
                    let weights = to.unwrap().iter().map(|to| to["weight"].as_u64().unwrap());
                    assert_eq!(weights.sum::<u64>(), 100, "{case}: {rule}");
                }
                continue;
            }
            // A header takes all requests that fit, so no others may have a weight.
            let is_whole = world.mesh == Mesh::Nginx && case.contains("A/B");
            let want = if is_whole { (100, 0) } else { (100 - canary, canary) };
            assert_eq!(weights(&world), want, "{case}: {}", world.route());
        }
    }
}

/// Something in the spec, or in what the route is made from, that the route has to follow.
fn edit_what_it_is_made_from(world: &mut World, number: u8) {
    if COPYING.contains(&world.mesh) {
        let (kind, name) = world.mesh.names(&world.cx()).remove(0);
        let mut original = world.live.get(kind, &name).unwrap().clone();
        original["metadata"]["labels"]["edited"] = json!(number.to_string());
        world.put(kind, original);
        return;
    }
    world.edit_spec(json!({ "service": { "timeout": format!("{number}s"),
        "retries": { "attempts": number },
        "apex": { "labels": { "edited": number.to_string() } } } }));
}

#[test]
fn an_edit_in_mid_run_keeps_weights_mirror_and_cookies() {
    for (case, mut world) in worlds() {
        let capabilities = world.mesh.capabilities(&world.spec);
        // The Service of Knative is not made from anything.
        if !capabilities.weighted || world.mesh == Mesh::Knative {
            continue;
        }
        let splits = [(split(30), 20), (mirrored(0), 40)];
        for (split, number) in
            splits.into_iter().filter(|(it, _)| capabilities.mirror || !it.mirrored)
        {
            world.cookies = World::plain(world.mesh).with_cookies().cookies;
            world.write(split);
            let cookies = cookies_in(world.route());
            let is_sticky = capabilities.affinity != Affinity::None && case.contains("affinity");
            assert_eq!(!cookies.is_empty(), is_sticky, "{case}");
            // Status may be a step ahead of the route: the route's cookies count.
            world.cookies.canary = Some("ck=Another".to_owned());
            world.cookies.primary = Some("pk=Another".to_owned());
            let before = world.route().clone();
            edit_what_it_is_made_from(&mut world, number);
            world.reconcile();
            assert_ne!(*world.route(), before, "{case}: nothing was kept if nothing was written");
            assert_eq!(world.read(), Ok(split), "{case}");
            assert_eq!(cookies_in(world.route()), cookies, "{case}");
            if !case.contains("appmesh") {
                let label = &world.route()["metadata"]["labels"]["edited"];
                assert_eq!(*label, number.to_string(), "{case}");
            }
        }
    }
}

/// The cookies of the world that a route has in it.
fn cookies_in(route: &Value) -> Vec<&'static str> {
    let text = route.to_string();
    let known = ["CanaryAbcd", "PrimaryAbc", "OldOldOldO", "Another"].into_iter();
    known.filter(|cookie| text.contains(cookie)).collect()
}

#[test]
fn a_missing_route_is_an_error_that_names_it() {
    for mesh in dividing() {
        let mut world = World::plain(mesh);
        let (kind, name) = mesh.names(&world.cx()).pop().unwrap();
        world.live.remove(kind, &name);
        let error = world.read().unwrap_err();
        assert_eq!(error.label(), "missing");
        assert!(error.to_string().contains("web/shop"), "{error}");
        assert!(!error.is_waiting());
    }
}

#[test]
fn weights_that_are_no_split_are_never_read_as_one() {
    let cases = [
        ("nothing at all", json!(0), json!(0)),
        ("relative", json!(1), json!(1)),
        ("too much", json!(100), json!(100)),
        ("below zero", json!(110), json!(-10)),
        ("no number", json!("half"), json!("half")),
        ("no whole number", json!(49.5), json!(50.5)),
    ];
    for mesh in dividing().into_iter().filter(|mesh| !members_at(*mesh).is_empty()) {
        for (reason, primary, canary) in &cases {
            let mut world = World::plain(mesh);
            world.reconcile();
            world.write(split(20));
            edit_weights(&mut world, primary, canary);
            assert_eq!(world.read().unwrap_err().label(), "malformed", "{mesh:?}: {reason}");
            // And the next reconcile repairs it, with the share the weights really meant.
            world.reconcile();
            let want = match *reason {
                "relative" | "too much" => split(50),
                _ => Split::PRIMARY,
            };
            assert_eq!(world.read(), Ok(want), "{mesh:?}: {reason}");
        }
    }
}

#[test]
fn a_third_member_with_traffic_is_never_read_as_none() {
    let lists = making().into_iter().chain([Mesh::Apisix]);
    for mesh in lists.filter(|mesh| !MOVING.contains(mesh)) {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(20));
        world.edit_route(|route| {
            let members = route.pointer_mut(members_at(mesh)).unwrap().as_array_mut().unwrap();
            members.push(json!({ "name": "other", "weight": 100 }));
        });
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{mesh:?}");
        world.reconcile();
        assert_eq!(world.read(), Ok(split(10)), "{mesh:?}: what the canary really had");
    }
}

#[test]
fn a_route_that_lost_the_primary_is_never_read_as_a_share() {
    for mesh in dividing().into_iter().filter(|mesh| !members_at(*mesh).is_empty()) {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(20));
        world.edit_route(|route| {
            let members = route.pointer_mut(members_at(mesh)).unwrap().as_array_mut().unwrap();
            members.retain(is_canary);
        });
        assert_eq!(world.read().unwrap_err().label(), "malformed", "{mesh:?}");
        world.reconcile();
        assert!(world.read().is_ok(), "{mesh:?}: both sides are in it again");
    }
}

#[test]
fn other_conditions_in_the_middle_of_a_test_do_not_restart_it() {
    let by_user = |user: &str| {
        json!({ "stepWeight": null, "iterations": 5,
            "match": [{ "headers": { "x-user": { "exact": user } } }] })
    };
    for mesh in dividing().into_iter().filter(|mesh| mesh.support().ab.is_some()) {
        let mut world = World::new(mesh, json!({}), by_user("ursula"));
        world.reconcile();
        world.write(split(100));
        world.edit_spec(json!({ "analysis": by_user("boris") }));
        world.reconcile();
        assert_eq!(world.read(), Ok(split(100)), "{mesh:?}");
        let route = world.route().to_string();
        assert!(route.contains("boris") && !route.contains("ursula"), "{mesh:?}: {route}");
        assert_eq!(world.drift(), Ok(vec![]), "{mesh:?}");
    }
}

#[test]
fn a_step_names_the_version_it_is_based_on_so_that_a_race_is_lost_and_seen() {
    for (case, mut world) in worlds() {
        world.reconcile();
        let changes = world.planned(split(100)).unwrap();
        assert!(!changes.is_empty(), "{case}: there is something to lose");
        for change in changes {
            let metadata = match &change {
                Change::Apply { body, .. } => &body["metadata"],
                Change::Merge { patch, .. } => &patch["metadata"],
                Change::Delete { .. } => panic!("{case}: a step deletes nothing"),
            };
            let read = &world.route()["metadata"]["resourceVersion"];
            assert_eq!(metadata["resourceVersion"], *read, "{case}");
        }
    }
}

#[test]
fn dropping_the_conditions_of_a_test_does_not_send_all_users_to_the_canary() {
    for mesh in dividing().into_iter().filter(|mesh| mesh.support().ab.is_some()) {
        let matched = json!({ "stepWeight": null, "iterations": 5,
            "match": [{ "headers": { "x-user": { "exact": "a" } } }] });
        let mut world = World::new(mesh, json!({}), matched);
        world.write(split(100));
        world.edit_spec(json!({ "analysis": { "match": null } }));
        world.reconcile();
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
    }
}

#[test]
fn a_rule_that_a_user_adds_does_not_take_the_canarys_share_away() {
    for mesh in dividing() {
        let Some((list, _)) = rule_at(mesh).and_then(|rule| rule.rsplit_once('/')) else {
            continue;
        };
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(30));
        world.edit_route(|route| {
            let mut added = route.pointer(rule_at(mesh).unwrap()).unwrap().clone();
            let members = members_at(mesh).strip_prefix(rule_at(mesh).unwrap()).unwrap();
            let members = added.pointer_mut(members).unwrap().as_array_mut().unwrap();
            members.retain(|member| member.to_string().contains("primary"));
            if MOVING.contains(&mesh) {
                // Here conditions may be the service's own: one more to the primary could be our rest.
                added =
                    serde_json::from_str(&added.to_string().replace("shop-", "other-")).unwrap();
            }
            route.pointer_mut(list).unwrap().as_array_mut().unwrap().push(added);
        });
        world.reconcile();
        assert_eq!(world.read(), Ok(split(30)), "{mesh:?}");
    }
}

#[test]
fn a_spec_broken_in_mid_run_does_not_hold_traffic_on_the_canary() {
    for mesh in MOVING {
        let sticky = json!({ "sessionAffinity": { "cookieName": "ck" } });
        let mut world = World::new(mesh, json!({ "timeout": "3s" }), sticky).with_cookies();
        world.write(mirrored(40));
        let broken = if mesh == Mesh::Istio {
            json!({ "delegation": true, "hosts": ["a"] })
        } else {
            json!({ "gatewayRefs": null })
        };
        world.edit_spec(json!({ "service": broken }));
        assert_eq!(world.drift().unwrap_err().label(), "spec", "{mesh:?}");
        assert_eq!(world.planned(split(50)).unwrap_err().label(), "spec", "{mesh:?}");
        world.write(Split::PRIMARY);
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
        for rule in world.rules() {
            let to = if mesh == Mesh::Istio { &rule["route"] } else { &rule["backendRefs"] };
            assert_eq!(to[1]["weight"], 0, "{mesh:?}: nor those with a cookie");
        }
        assert_eq!(world.planned(Split::PRIMARY), Ok(vec![]), "{mesh:?}");
    }
}

#[test]
fn a_missing_capability_does_not_hold_traffic_on_the_canary() {
    for mesh in dividing().into_iter().filter(|mesh| !MOVING.contains(mesh)) {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(40));
        world.edit_spec(json!({ "analysis": inexpressible() }));
        assert_eq!(world.drift().unwrap_err().label(), "spec", "{mesh:?}");
        assert_eq!(world.planned(split(50)).unwrap_err().label(), "spec", "{mesh:?}");
        world.write(Split::PRIMARY);
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
        assert_eq!(world.planned(Split::PRIMARY), Ok(vec![]), "{mesh:?}");
    }
}

#[test]
fn a_reference_that_is_of_no_use_does_not_hold_traffic_on_the_canary_either() {
    for mesh in dividing() {
        for kind in ["HTTPRoute", "GRPCRoute"] {
            let mut world = World::plain(mesh);
            world.reconcile();
            world.write(split(40));
            world.edit_spec(json!({ "routeRef": {
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "name": "shop" } }));
            if mesh.refers(&world.spec) {
                continue;
            }
            let impossible = mesh.impossible(&world.spec);
            let refusal = impossible.first().map(ToString::to_string).unwrap_or_default();
            assert!(refusal.starts_with("spec.routeRef.kind: "), "{mesh:?} {kind}: {refusal}");
            let error = world.drift().unwrap_err();
            assert!(error.to_string().ends_with(&refusal), "{mesh:?} {kind}: {error}");
            assert_eq!(world.planned(split(50)), Err(error), "{mesh:?} {kind}");
            world.write(Split::PRIMARY);
            assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?} {kind}");
        }
    }
    let mut plain = World::plain(Mesh::Kubernetes);
    plain.edit_spec(json!({ "routeRef": {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "shop" } }));
    assert_eq!(plain.mesh.impossible(&plain.spec).len(), 1, "not begun");
    assert_eq!(plain.check(), Ok(()), "and not stopped: nothing is divided");
}

#[test]
fn a_route_that_the_canary_had_before_leads_all_users_to_the_primary() {
    for mesh in dividing() {
        let mut world = World::plain(mesh);
        let Some((kind, name)) = mesh.route(&world.cx()) else { continue };
        world.reconcile();
        world.write(split(40));
        // By another name the canary has other sides: the previous ones are reset.
        let before = world.spec.clone();
        world.edit_spec(json!({ "service": { "name": "store" } }));
        let left = |world: &World| {
            let cx = RouteCx { spec: &before, ..world.cx() };
            mesh.leave(&cx, kind, world.live.get(kind, &name).unwrap(), &world.live)
        };
        let change = left(&world).unwrap();
        assert!(change.is_some(), "{mesh:?}");
        world.carry_out(change.into_iter().collect());
        assert_eq!(left(&world), Ok(None), "{mesh:?}: once");
        world.spec = before.clone();
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
    }
}

#[test]
fn a_route_that_takes_over_begins_with_what_it_inherits_and_then_speaks_for_itself() {
    for mesh in dividing() {
        let mut world = World::plain(mesh);
        if mesh.route(&world.cx()).is_none() {
            continue;
        }
        let inheriting = |world: &World, percent: i64| {
            let cx = RouteCx { inherited: split(percent), ..world.cx() };
            mesh.reconcile(&cx, &world.live).unwrap()
        };
        let changes = inheriting(&world, 30);
        world.carry_out(changes);
        assert_eq!(world.read(), Ok(split(30)), "{mesh:?}");
        assert_eq!(inheriting(&world, 70), vec![], "{mesh:?}");
    }
}

#[test]
fn a_missing_route_needs_no_way_back() {
    for mesh in dividing() {
        let mut world = World::plain(mesh);
        if mesh.route(&world.cx()).is_none() {
            continue;
        }
        world.edit_spec(json!({ "service": null }));
        assert_eq!(world.planned(split(10)).unwrap_err().label(), "spec", "{mesh:?}");
        assert_eq!(world.planned(Split::PRIMARY), Ok(vec![]), "{mesh:?}");
    }
}

#[test]
fn a_divided_route_that_cannot_be_written_is_never_taken_for_one_without_a_share() {
    for mesh in dividing() {
        let mut world = World::plain(mesh);
        if mesh.route(&world.cx()).is_none() {
            continue;
        }
        world.reconcile();
        world.write(split(40));
        world.edit_route(|route| {
            route["metadata"]["ownerReferences"] = json!([
                { "kind": "Release", "name": "theirs", "uid": "u-7", "controller": true },
            ]);
        });
        assert_ne!(world.planned(Split::PRIMARY), Ok(vec![]), "{mesh:?}");
    }
}

#[test]
fn a_service_that_is_gone_from_the_spec_does_not_hide_where_traffic_goes() {
    for mesh in dividing() {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(40));
        world.edit_spec(json!({ "service": null }));
        assert_eq!(world.read(), Ok(split(40)), "{mesh:?}");
        world.write(Split::PRIMARY);
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
    }
}

/// A user's rule that leads to the primary alone, for a place or for a few callers.
fn added_rule(mesh: Mesh, place: &str, header: bool) -> Value {
    if mesh == Mesh::Istio {
        let mut condition = json!({ "uri": { "prefix": place } });
        if header {
            condition["headers"] = json!({ "x-staff": { "exact": "yes" } });
        }
        let route = json!([{ "destination": { "host": "shop-primary" } }]);
        return json!({ "match": [condition], "route": route });
    }
    let mut condition = json!({ "path": { "type": "PathPrefix", "value": place } });
    if header {
        condition["headers"] = json!([{ "name": "x-staff", "type": "Exact", "value": "yes" }]);
    }
    let backend = json!({ "group": "", "kind": "Service", "name": "shop-primary", "port": 80 });
    json!({ "matches": [condition], "backendRefs": [backend] })
}

#[test]
fn a_rule_that_a_user_adds_for_the_primary_does_not_take_the_canarys_share() {
    for mesh in MOVING {
        let list = if mesh == Mesh::Istio { "http" } else { "rules" };
        for (place, header) in [("/admin", false), ("/admin", true), ("/", true)] {
            let mut world = World::plain(mesh);
            world.reconcile();
            world.write(split(40));
            world.edit_route(|route| {
                let rules = route["spec"][list].as_array_mut().unwrap();
                rules.push(added_rule(mesh, place, header));
            });
            let case = format!("{mesh:?}, {place}, for some: {header}");
            assert_eq!(world.read(), Ok(split(40)), "{case}");
            world.reconcile();
            assert_eq!(world.read(), Ok(split(40)), "{case}");
        }
    }
}

#[test]
fn conditions_that_are_dropped_in_mid_test_send_no_others_to_the_canary() {
    let headers = json!({ "x-a": { "exact": "a" } });
    let query = json!({ "q": { "exact": "a" } });
    let services = [
        json!({}),
        json!({ "match": [{ "uri": { "prefix": "/shop" } }] }),
        json!({ "match": [{ "uri": { "prefix": "/shop" } }, { "uri": { "exact": "/cart" } }] }),
        json!({ "match": [{ "uri": { "prefix": "/" }, "headers": { "x-b": { "exact": "b" } } }] }),
    ];
    let conditions = [
        json!([{ "headers": headers }]),
        json!([{ "headers": headers }, { "queryParams": query }]),
    ];
    for mesh in MOVING {
        for service in &services {
            for condition in &conditions {
                let test = json!({ "stepWeight": null, "iterations": 5, "match": condition });
                let mut world = World::new(mesh, service.clone(), test);
                world.reconcile();
                world.write(Split::CANARY);
                let dropped = json!({ "match": null, "iterations": null, "stepWeight": 10 });
                world.edit_spec(json!({ "analysis": dropped }));
                world.reconcile();
                let case = format!("{mesh:?} {service} {condition}");
                assert_eq!(world.read(), Ok(Split::PRIMARY), "{case}");
            }
        }
    }
}

#[test]
fn a_provider_that_cannot_mirror_says_so_and_refuses_to() {
    let world = World::new(Mesh::Istio, json!({ "appProtocol": "tcp" }), json!({}));
    let capabilities = Mesh::Istio.capabilities(&world.spec);
    assert!(capabilities.weighted && !capabilities.mirror && !capabilities.ab);
    assert_eq!(world.planned(mirrored(0)).unwrap_err().label(), "unsupported");
    assert!(!Mesh::Kubernetes.capabilities(&world.spec).mirror);
}

#[test]
fn affinity_is_not_claimed_where_it_means_nothing() {
    let affinity = |mesh: Mesh, analysis: Value| {
        mesh.capabilities(&World::new(mesh, json!({}), analysis).spec).affinity
    };
    assert_eq!(affinity(Mesh::Istio, json!({})), Affinity::Both);
    assert_eq!(affinity(Mesh::GatewayApiV1, json!({})), Affinity::Both);
    assert_eq!(affinity(Mesh::GatewayApiV1Beta1, json!({})), Affinity::Both);
    let blue_green = json!({ "stepWeight": null, "iterations": 5 });
    assert_eq!(affinity(Mesh::Istio, blue_green), Affinity::None);
    let matched = json!({ "match": [{ "headers": { "x-a": { "exact": "a" } } }] });
    assert_eq!(affinity(Mesh::GatewayApiV1, matched), Affinity::None);
}

/// Members of `service` that routers may write, each with something to write. Removals from `apex`
/// are known by the server's record of field managers, which another test is about.
fn members() -> Vec<(&'static str, Value)> {
    vec![
        ("hosts", json!(["other.example.com"])),
        ("match", json!([{ "uri": { "prefix": "/api" } }])),
        ("rewrite", json!({ "uri": "/v2" })),
        ("timeout", json!("10s")),
        ("backendTimeout", json!("5s")),
        ("retries", json!({ "attempts": 3, "perTryTimeout": "1s", "retryOn": "gateway-error" })),
        ("headers", json!({ "request": { "add": { "x-b": "2" } } })),
        ("mirror", json!([{ "backendRef": { "name": "audit", "port": 80 } }])),
        ("corsPolicy", json!({ "allowOrigin": ["*"], "allowMethods": ["GET"] })),
        ("gateways", json!(["public"])),
        ("trafficPolicy", json!({ "tls": { "mode": "ISTIO_MUTUAL" } })),
        ("delegation", json!(true)),
        ("backends", json!(["http://db"])),
        ("portName", json!("grpc-web")),
        ("appProtocol", json!("kubernetes.io/h2c")),
    ]
}

/// All that the provider has written, but for what the server counts.
fn written(world: &World) -> Vec<Value> {
    let names = world.mesh.names(&world.cx()).into_iter();
    let objects = names.filter_map(|(kind, name)| world.live.get(kind, &name).cloned());
    let plain = objects.map(|mut object| {
        for field in ["resourceVersion", "uid"] {
            object["metadata"][field].take();
        }
        strip_nulls(&mut object);
        object
    });
    plain.collect()
}

#[test]
fn fields_that_a_user_removes_from_the_service_go_from_the_routes() {
    let mut changed = BTreeMap::<&str, Vec<&str>>::new();
    for mesh in dividing().into_iter().filter(|mesh| *mesh != Mesh::Knative) {
        for (member, value) in members() {
            let mut world = World::plain(mesh);
            world.reconcile();
            world.write(split(30));
            world.reconcile();
            let before = written(&world);
            world.edit_spec(json!({ "service": { member: value } }));
            if world.check().is_err() || world.drift().is_err() {
                continue;
            }
            world.reconcile();
            if written(&world) != before {
                changed.entry(mesh.as_str()).or_default().push(member);
            }
            world.edit_spec(json!({ "service": { member: null } }));
            world.reconcile();
            assert_eq!(written(&world), before, "{}: {member} was taken out", mesh.as_str());
            assert_eq!(world.drift(), Ok(vec![]), "{}: {member}", mesh.as_str());
        }
    }
    // That there was something to take out.
    for mesh in MOVING {
        for member in ["hosts", "match", "rewrite", "timeout", "retries", "headers", "corsPolicy"] {
            assert!(changed[mesh.as_str()].contains(&member), "{mesh:?}: {member}, {changed:?}");
        }
    }
}
