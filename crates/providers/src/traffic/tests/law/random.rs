//! Laws that hold with any additions of others to a route, and any source of it.

use proptest::{prelude::*, strategy::Strategy};

use super::*;

/// Any JSON, three levels deep, with our own words among the keys.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "(shop-primary|shop-canary|shop|Canary|[a-z]{0,3})".prop_map(Value::from),
    ];
    let key = "(spec|metadata|http|tcp|rules|route|backendRefs|destination|host|name|weight|filters\
               |annotations|ownerReferences|controller|kind|status|parents|parentRefs|conditions\
               |routes|services|backends|service|weighted|conf|split|traffic|percent|action\
               |routeAction|multi|destinations|destination|upstream|weightedTargets|httpRoute\
               |grpcRoute|virtualNodeRef|paths|backend|kube|selector|serviceName|matchers|headers\
               |latestRevision|revisionName|tag|tls|labels|mesh)";
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Where everything in an object is, but for what tells which object it is.
fn pointers(object: &Value) -> Vec<String> {
    fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    collect(value, &format!("{at}/{key}"), found);
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    collect(value, &format!("{at}/{index}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for part in ["/spec", "/metadata/annotations"] {
        if let Some(value) = object.pointer(part) {
            collect(value, part, &mut found);
        }
    }
    found
}

/// Members of a service that a user may change in mid-run, and their new values.
fn edits() -> impl Strategy<Value = Value> {
    let edit = prop_oneof![
        (1_u16..).prop_map(|port| ("port", json!(port))),
        "(1m|250ms|30s|soon|)".prop_map(|timeout| ("timeout", json!(timeout))),
        "[a-z]{1,5}".prop_map(|host| ("hosts", json!([host]))),
        "[a-z]{1,5}".prop_map(|gateway| ("gateways", json!([gateway]))),
        "/[a-z]{0,5}".prop_map(|path| ("match", json!([{ "uri": { "prefix": path } }]))),
        (0_u8..9, "(5xx|5xx,reset|)").prop_map(|(attempts, on)| {
            ("retries", json!({ "attempts": attempts, "perTryTimeout": "1s", "retryOn": on }))
        }),
        "[a-z]{1,5}".prop_map(|name| ("portName", json!(name))),
        "(http|h2c)".prop_map(|protocol| ("appProtocol", json!(protocol))),
        "[a-z]{1,5}".prop_map(|key| {
            ("apex", json!({ "labels": { key.clone(): "a" }, "annotations": { key: "b" } }))
        }),
        "[a-z]{1,5}".prop_map(|name| ("backends", json!([name]))),
    ];
    prop::collection::vec(edit, 1..4).prop_map(|edits| {
        let edits = edits.into_iter().map(|(key, value)| (key.to_owned(), value));
        Value::Object(edits.collect())
    })
}

proptest! {
    #[test]
    fn what_others_put_on_a_route_survives(
        key in "x-[a-z]{1,8}",
        text in "[a-z]{0,8}",
        mut foreign in anything(),
        percent in 0_i64..=100,
        mesh in prop::sample::select(making()),
    ) {
        strip_nulls(&mut foreign);
        let foreign = if foreign.is_null() { json!([]) } else { foreign };
        let mut world = World::plain(mesh);
        world.reconcile();
        world.edit_route(|route| {
            for member in ["labels", "annotations"] {
                route["metadata"][member][&key] = json!(text);
            }
            route["spec"][&key] = json!({ "of": foreign });
            if let Some(rule) = rule_at(mesh) {
                route.pointer_mut(rule).unwrap()[&key] = json!([foreign]);
            }
            // Gateway API and Istio know every field of a backend.
            if !MOVING.contains(&mesh) {
                for member in route.pointer_mut(members_at(mesh)).unwrap().as_array_mut().unwrap() {
                    member[&key] = foreign.clone();
                }
            }
        });
        prop_assert_eq!(world.drift(), Ok(vec![]));
        world.write(split(percent));
        world.edit_spec(json!({ "service": { "timeout": "7s" } }));
        world.reconcile();
        prop_assert_eq!(world.read(), Ok(split(percent)));
        let route = world.route();
        for member in ["labels", "annotations"] {
            prop_assert_eq!(&route["metadata"][member][&key], &json!(text));
        }
        prop_assert_eq!(&route["spec"][&key], &json!({ "of": foreign }));
        if let Some(rule) = rule_at(mesh) {
            prop_assert_eq!(&route.pointer(rule).unwrap()[&key], &json!([foreign]));
        }
        if !MOVING.contains(&mesh) {
            for member in route.pointer(members_at(mesh)).unwrap().as_array().unwrap() {
                prop_assert_eq!(&member[&key], &foreign);
            }
        }
    }

    #[test]
    fn what_others_put_on_a_copy_or_its_original_survives(
        (key, text) in ("x-[a-z]{1,8}", "[a-z]{0,8}"),
        percent in 0_i64..=100,
        mesh in prop::sample::select(COPYING.to_vec()),
    ) {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.edit_route(|route| {
            for member in ["labels", "annotations"] {
                route["metadata"][member][&key] = json!(text);
            }
        });
        prop_assert_eq!(world.drift(), Ok(vec![]));
        let (kind, name) = mesh.names(&world.cx()).remove(0);
        let mut original = world.live.get(kind, &name).unwrap().clone();
        let list = if mesh == Mesh::Apisix { "/spec/http/1" } else { "/spec/rules/0" };
        original.pointer_mut(list).unwrap()[&key] = json!([text]);
        world.put(kind, original.clone());
        let before = world.live.get(kind, &name).unwrap().clone();
        world.write(split(percent));
        world.reconcile();
        prop_assert_eq!(world.read(), Ok(split(percent)));
        for member in ["labels", "annotations"] {
            prop_assert_eq!(&world.route()["metadata"][member][&key], &json!(text));
        }
        prop_assert!(world.route()["spec"].to_string().contains(&json!([text]).to_string()));
        prop_assert_eq!(world.live.get(kind, &name).unwrap(), &before, "never the original");
    }

    #[test]
    fn no_edit_of_the_service_moves_traffic(
        percent in 0_i64..=100,
        edit in edits(),
        mesh in prop::sample::select(dividing()),
    ) {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(percent));
        if mesh != Mesh::Knative {
            world.edit_spec(json!({ "service": edit }));
        }
        if world.check().is_ok() {
            world.reconcile();
            prop_assert_eq!(world.read(), Ok(split(percent)));
            prop_assert_eq!(world.drift(), Ok(vec![]));
            prop_assert_eq!(world.planned(split(percent)), Ok(vec![]));
        }
    }

    #[test]
    fn no_live_object_makes_a_router_panic(
        object in anything(),
        mesh in prop::sample::select(dividing()),
    ) {
        let mut world = World::plain(mesh).with_cookies();
        for (kind, name) in mesh.names(&world.cx()) {
            let mut object = object.clone();
            if object.is_object() {
                if !object["metadata"].is_object() {
                    object["metadata"] = json!({});
                }
                object["metadata"]["name"] = json!(name);
                world.live.insert(kind, object);
            }
        }
        let _ = world.read();
        let _ = world.drift();
        let _ = world.planned(split(40));
        let _ = mesh.finalize(&world.cx(), &world.live);
    }

    #[test]
    fn a_route_that_was_bent_is_put_right(
        percent in 0_i64..=100,
        junk in anything(),
        place in any::<prop::sample::Index>(),
        mesh in prop::sample::select(dividing()),
    ) {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(percent));
        let pointers = pointers(world.route());
        let pointer = place.get(&pointers);
        let (kind, _) = mesh.names(&world.cx()).pop().unwrap();
        let mut bent = world.route().clone();
        *bent.pointer_mut(pointer).unwrap() = junk;
        // No server would fill anything in there.
        world.live.insert(kind, bent);
        let _ = world.planned(split(40));
        let _ = mesh.finalize(&world.cx(), &world.live);
        let _ = world.read();
        if let Ok(changes) = world.drift() {
            world.carry_out(changes);
            prop_assert!(world.read().is_ok(), "{}: {}", pointer, world.route());
            prop_assert_eq!(world.drift(), Ok(vec![]), "{}", pointer);
        }
    }
}
