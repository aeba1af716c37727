use std::{collections::BTreeSet, sync::LazyLock};

use proptest::prelude::*;

use super::*;
use crate::{
    object::HANDED_OVER,
    workload::testing::{applied, applied_all},
};

const OWNER: Owner<'static> =
    Owner { name: "shop", namespace: "test", uid: "u-shop", can_own: true };
const ORIGINAL: &str = "flagger.kubernetes.io/original-configuration";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const APEX: Role = Role::Apex(Side::Primary);

/// `spec.service` with some members changed.
fn service(changes: Value) -> Service {
    let mut service = json!({ "port": 80, "targetPort": 9898 });
    let Value::Object(changes) = changes else { panic!("members, not {changes}") };
    service.as_object_mut().unwrap().extend(changes);
    serde_json::from_value(service).unwrap()
}

static TARGET: LazyLock<Value> = LazyLock::new(|| {
    let labels = json!({ "app": "web", "tier": "front" });
    let ports = json!([{ "containerPort": 9898 }, { "containerPort": 9797 }]);
    json!({ "spec": { "template": {
        "metadata": { "labels": labels },
        "spec": { "containers": [{ "name": "app", "ports": ports }] },
    } } })
});

fn services(service: &Service) -> Services<'_> {
    let names = ServiceNames {
        apex: "shop".to_owned(),
        primary: "shop-primary".to_owned(),
        canary: "shop-canary".to_owned(),
    };
    let selector = SelectorLabel { key: "app".to_owned(), value: "web".to_owned() };
    Services::new(OWNER, service, names, selector, &TARGET)
}

/// The sync of `spec.service` with `changes`.
fn synced(changes: Value, role: Role, live: Option<&Value>) -> Sync {
    services(&service(changes)).sync(role, live).unwrap()
}

fn made(changes: Value, role: Role) -> Value {
    let mut made = applied_all(None, &synced(changes, role, None).changes).unwrap();
    if made["spec"]["clusterIP"].is_null() {
        made["spec"]["clusterIP"] = json!("10.0.0.7");
    }
    made
}

/// A port as the API server returns it; without a name where that is empty.
fn port(name: &str, number: i64, target: i64, node: i64) -> Value {
    let mut port = json!({
        "port": number, "protocol": "TCP", "targetPort": target, "nodePort": node,
    });
    if !name.is_empty() {
        port["name"] = json!(name);
    }
    port
}

/// A Service the user had before, with a load balancer and two ports.
fn users() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "shop", "namespace": "test", "uid": "u-9", "resourceVersion": "40",
            "labels": { "team": "a" }, "annotations": { "lb": "fast" } },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.0.0.9", "sessionAffinity": "ClientIP",
            "selector": { "app": "web", "tier": "front" },
            "ports": [
                port("web", 80, 8080, 30080),
                port("metrics", 9090, 9090, 30090),
            ],
        },
    })
}

fn port_lines(service: &Value) -> Vec<String> {
    let line = |port: &Value| {
        format!(
            "{} {} {} {}",
            port["name"].as_str().unwrap_or("-"),
            port["port"],
            port["targetPort"],
            port["nodePort"]
        )
    };
    ports_of(service).iter().map(line).collect()
}

#[test]
fn three_services_select_two_sets_of_pods() {
    let cases = [
        (Role::Canary, "shop-canary", "web"),
        (Role::Primary, "shop-primary", "web-primary"),
        (Role::Apex(Side::Primary), "shop", "web-primary"),
        (Role::Apex(Side::Canary), "shop", "web"),
    ];
    for (role, name, pods) in cases {
        let live = made(json!({}), role);
        assert_eq!(live["metadata"]["name"], name);
        assert_eq!(live["spec"]["selector"], json!({ "app": pods }), "{role:?}");
        assert_eq!(live["metadata"]["labels"], json!({ "app": name }));
    }
}

#[test]
fn a_service_is_made_as_the_canary_says() {
    let changes = json!({
        "portName": "grpc", "appProtocol": "grpc", "portDiscovery": true, "headless": true,
        "trafficDistribution": "PreferClose",
        "canary": { "labels": { "a": "1", "app": "mine" }, "annotations": { "b": "2" } },
        "apex": { "labels": { "not": "here" } },
    });
    let [Change::Apply { body, .. }] = &synced(changes, Role::Canary, None).changes[..] else {
        panic!("one apply");
    };
    let want = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "shop-canary", "namespace": "test",
            "labels": { "a": "1", "app": "shop-canary" },
            "annotations": { "b": "2", "kustomize.toolkit.fluxcd.io/reconcile": "disabled",
                "helm.toolkit.fluxcd.io/driftDetection": "disabled" },
            "ownerReferences": OWNER.references(),
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": "None", "selector": { "app": "web" },
            "trafficDistribution": "PreferClose",
            "ports": [
                { "name": "grpc", "protocol": "TCP", "port": 80, "targetPort": 9898,
                  "appProtocol": "grpc" },
                { "name": "tcp-app-1", "protocol": "TCP", "port": 9797, "targetPort": 9797 },
            ],
        },
    });
    assert_eq!(*body, want);
}

#[test]
fn the_apex_can_be_pointed_at_the_target_and_back() {
    for live in [made(json!({}), APEX), users()] {
        let mut live = live;
        for (side, pods) in [(Side::Canary, "web"), (Side::Primary, "web-primary")] {
            let sync = synced(json!({}), Role::Apex(side), Some(&live));
            live = applied_all(Some(&live), &sync.changes).unwrap();
            assert_eq!(live["spec"]["selector"], json!({ "app": pods }));
        }
    }
}

#[test]
fn drift_of_our_own_service_is_undone_and_nothing_else() {
    let mut live = made(json!({}), APEX);
    live["spec"]["type"] = json!("NodePort");
    live["spec"]["ports"][0]["nodePort"] = json!(30001);
    live["spec"]["sessionAffinity"] = json!("ClientIP");
    assert_eq!(synced(json!({}), APEX, Some(&live)), Sync::default(), "theirs to choose");

    live["spec"]["ports"][0]["name"] = json!("renamed");
    live["spec"]["ports"].as_array_mut().unwrap().push(json!({ "name": "x", "port": 1 }));
    live["spec"]["selector"] = json!({ "app": "web", "tier": "front" });
    live["metadata"]["labels"]["extra"] = json!("1");
    live["metadata"]["annotations"] = json!({ "extra": "1" });
    let after = applied_all(Some(&live), &synced(json!({}), APEX, Some(&live)).changes).unwrap();
    assert_eq!(port_lines(&after), ["http 80 9898 30001"], "renamed back, with its node port");
    assert_eq!(after["spec"]["selector"], json!({ "app": "web-primary" }));
    assert_eq!(after["metadata"]["labels"], json!({ "app": "shop" }));
    assert_eq!(after["metadata"]["annotations"].as_object().unwrap().len(), FLUX_OFF.len());
    assert_eq!(
        (&after["spec"]["type"], &after["spec"]["sessionAffinity"]),
        (&json!("NodePort"), &json!("ClientIP"))
    );
    assert_eq!(after["spec"]["clusterIP"], "10.0.0.7");
}

#[test]
fn unmanaged_keys_are_kept_as_they_are_found() {
    let changes = json!({
        "apex": { "labels": { "mine": "wanted" }, "annotations": { "note": "wanted" } },
        "unmanagedMetadata": { "labels": ["mine", "absent"], "annotations": ["note", "theirs"] },
    });
    let mut live = made(changes.clone(), APEX);
    assert_eq!(live["metadata"]["labels"]["mine"], "wanted", "made with the canary's");
    live["metadata"]["labels"]["mine"] = json!("changed");
    live["metadata"]["annotations"]["theirs"] = json!("added");
    assert_eq!(synced(changes.clone(), APEX, Some(&live)), Sync::default());
    live["metadata"]["labels"]["other"] = json!("goes");
    let after = applied_all(Some(&live), &synced(changes, APEX, Some(&live)).changes).unwrap();
    assert_eq!(after["metadata"]["labels"], json!({ "app": "shop", "mine": "changed" }));
    assert_eq!(after["metadata"]["annotations"]["theirs"], "added");
}

#[test]
fn ownership_decides_what_is_written() {
    let cases = [
        ("ours", json!({ "kind": "Canary", "name": "shop" }), Ok("exact")),
        ("another canary's", json!({ "kind": "Canary", "name": "cart" }), Err("OfAnotherCanary")),
        ("another kind's of our name", json!({ "kind": "App", "name": "shop" }), Ok("kept")),
        ("nobody's", Value::Null, Ok("kept")),
    ];
    for (reason, controller, want) in cases {
        let mut live = users();
        if let Value::Object(mut controller) = controller {
            controller.extend([
                ("uid".to_owned(), json!("u-shop")),
                ("controller".to_owned(), json!(true)),
            ]);
            live["metadata"]["ownerReferences"] = json!([controller]);
        }
        let found = services(&service(json!({}))).sync(APEX, Some(&live));
        let found = found.map(|sync| applied_all(Some(&live), &sync.changes).unwrap());
        let found = match &found {
            Ok(after) if after["metadata"]["labels"] == json!({ "team": "a" }) => Ok("kept"),
            Ok(_) => Ok("exact"),
            Err(error) => Err(error.label()),
        };
        assert_eq!(found, want, "{reason}");
    }
}

#[test]
fn a_service_of_others_is_taken_over_only_with_a_reason() {
    let selecting = |selector: Value| {
        let mut live = users();
        live["spec"]["selector"] = selector;
        live
    };
    let annotated = |key: &str, value: &str| {
        let mut live = selecting(json!({ "app": "cart" }));
        live["metadata"]["annotations"] = json!({ key: value });
        live
    };
    let mut external = users();
    external["spec"]["type"] = json!("ExternalName");
    external["metadata"]["annotations"] = json!({ HANDED_OVER: "shop" });
    let mut unselected = annotated(HANDED_OVER, "shop");
    unselected["spec"]["selector"] = Value::Null;
    let cases = [
        ("selects the target's pods", selecting(json!({ "app": "web" })), true),
        ("by two labels", selecting(json!({ "app": "web", "tier": "front" })), true),
        ("by another label of theirs", selecting(json!({ "tier": "front" })), true),
        ("leads to the primary", selecting(json!({ "app": "web-primary" })), true),
        ("selects others", selecting(json!({ "app": "cart" })), false),
        ("selects some others", selecting(json!({ "app": "web", "tier": "back" })), false),
        ("selects nothing", selecting(json!({})), false),
        ("handed over", annotated(HANDED_OVER, "shop"), true),
        ("handed over to another", annotated(HANDED_OVER, "cart"), false),
        ("taken over before", annotated(ORIGINAL, r#"{"canary":"shop"}"#), true),
        ("taken over by another", annotated(ORIGINAL, r#"{"canary":"cart"}"#), false),
        ("taken over by no canary that is named", annotated(ORIGINAL, "{}"), false),
        ("an ExternalName, even if handed over", external, false),
        ("without a selector, even if handed over", unselected, false),
    ];
    for (reason, live, is_taken) in cases {
        for role in [APEX, Role::Primary, Role::Canary] {
            let found = services(&service(json!({}))).sync(role, Some(&live));
            let found = found.map(|sync| !sync.changes.is_empty()).map_err(|error| error.label());
            let want = if is_taken { Ok(true) } else { Err("ServiceRefused") };
            let is_as_wanted = role == APEX && reason == "leads to the primary";
            assert!(found == want || is_as_wanted && found.is_ok(), "{reason}: {found:?}");
        }
    }
}

#[test]
fn taking_over_a_service_keeps_its_other_ports_and_its_addresses() {
    let sync = synced(json!({}), APEX, Some(&users()));
    assert_eq!(sync.note, Some(Note::TakenOver { name: "shop".to_owned() }));
    let after = applied_all(Some(&users()), &sync.changes).unwrap();
    assert_eq!(port_lines(&after), ["http 80 9898 30080", "metrics 9090 9090 30090"]);
    assert_eq!(after["spec"]["selector"], json!({ "app": "web-primary" }));
    assert_eq!(after["metadata"]["labels"], users()["metadata"]["labels"]);
    assert_eq!(after["metadata"]["annotations"]["lb"], "fast");
    assert_eq!(
        after["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/reconcile"],
        "disabled"
    );
    assert_eq!(after["metadata"].get("ownerReferences"), None, "it stays the user's");
    for field in ["type", "clusterIP", "sessionAffinity"] {
        assert_eq!(after["spec"][field], users()["spec"][field]);
    }
    let again = synced(json!({}), APEX, Some(&after));
    assert_eq!(again, Sync::default(), "nothing is written twice");
    let changed = synced(json!({ "targetPort": 1 }), APEX, Some(&after));
    assert_eq!(changed.note, None, "told once");
    let later = applied_all(Some(&after), &changed.changes).unwrap();
    let kept = |object: &Value| object["metadata"]["annotations"][ORIGINAL].clone();
    assert_eq!(kept(&later), kept(&after), "the original is written down once");
}

#[test]
fn ports_in_the_way_make_room() {
    let with_ports = |ports: Value| {
        let mut live = users();
        live["spec"]["ports"] = ports;
        live
    };
    let cases = [
        (
            "one of our name and another number is the same port",
            json!([port("http", 8080, 8080, 30080), port("x", 1, 1, 30001)]),
            vec!["http 80 9898 30080", "x 1 1 30001"],
        ),
        (
            "one without a name gets one",
            json!([port("", 8080, 8080, 30080)]),
            vec!["http 80 9898 null", "tcp-8080 8080 8080 30080"],
        ),
        (
            "one without a name that is ours gets ours",
            json!([port("", 80, 8080, 30080)]),
            vec!["http 80 9898 30080"],
        ),
    ];
    for (reason, ports, want) in cases {
        let live = with_ports(ports);
        let sync = synced(json!({}), APEX, Some(&live));
        let after = applied_all(Some(&live), &sync.changes).unwrap();
        assert_eq!(port_lines(&after), want, "{reason}");
        assert_eq!(after["spec"]["selector"], json!({ "app": "web-primary" }), "{reason}");
        assert_eq!(synced(json!({}), APEX, Some(&after)), Sync::default(), "{reason}");
    }
}

#[test]
fn changing_headless_makes_our_service_again_and_says_so() {
    for (before, after) in [(false, true), (true, false)] {
        let live = made(json!({ "headless": before }), Role::Primary);
        let sync = synced(json!({ "headless": after }), Role::Primary, Some(&live));
        let note = Note::Recreated { name: "shop-primary".to_owned(), headless: after };
        assert_eq!(sync.note, Some(note));
        assert!(matches!(&sync.changes[..], [Change::Delete { .. }, Change::Apply { .. }]));
        let new = applied_all(Some(&live), &sync.changes).unwrap();
        assert_eq!(new["spec"]["clusterIP"] == "None", after);
        let mut going = live;
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let sync = synced(json!({ "headless": after }), Role::Primary, Some(&going));
        assert_eq!(sync, Sync::default(), "it is on its way out");
    }
    let sync = synced(json!({ "headless": true }), APEX, Some(&users()));
    assert!(
        !sync.changes.iter().any(|change| matches!(change, Change::Delete { .. })),
        "never the user's"
    );
}

#[test]
fn changing_traffic_distribution_reaches_services_of_ours() {
    let mut live = made(json!({}), APEX);
    for (changes, want) in [
        (json!({ "trafficDistribution": "PreferClose" }), json!("PreferClose")),
        (json!({ "trafficDistribution": "PreferSameZone" }), json!("PreferSameZone")),
        (json!({}), Value::Null),
    ] {
        let sync = synced(changes.clone(), APEX, Some(&live));
        live = applied_all(Some(&live), &sync.changes).unwrap();
        assert_eq!(live["spec"]["trafficDistribution"], want);
        assert_eq!(synced(changes, APEX, Some(&live)), Sync::default());
    }
}

#[test]
fn services_under_names_of_old_are_deleted() {
    let mut old = made(json!({}), APEX);
    old["metadata"]["name"] = json!("store");
    let mut theirs = users();
    theirs["metadata"]["name"] = json!("other");
    let existing = [made(json!({}), APEX), made(json!({}), Role::Canary), old, theirs];
    let service = service(json!({}));
    let orphans = services(&service).orphans(&existing.iter().collect::<Vec<_>>());
    assert!(
        matches!(&orphans[..], [Change::Delete { name, .. }] if name == "store"),
        "{orphans:?}"
    );
}

fn finalized(live: &Value) -> Result<Option<Value>, WorkloadError> {
    let change = services(&service(json!({}))).finalize(Some(live))?;
    Ok(change.map(|change| applied(Some(live), &change).unwrap()))
}

fn without_version(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object
}

#[test]
fn a_service_that_was_taken_over_is_given_back_as_it_was() {
    let taken =
        applied_all(Some(&users()), &synced(json!({}), APEX, Some(&users())).changes).unwrap();
    let given = finalized(&taken).unwrap().unwrap();
    assert_eq!(without_version(given.clone()), without_version(users()));
    assert_eq!(finalized(&given).unwrap(), None, "once is enough");
}

#[test]
fn ports_added_since_and_annotations_from_before_survive_the_giving_back() {
    let mut live = users();
    live["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/reconcile"] = json!("disabled");
    let mut taken =
        applied_all(Some(&live), &synced(json!({ "port": 81 }), APEX, Some(&live)).changes)
            .unwrap();
    taken["spec"]["ports"].as_array_mut().unwrap().push(json!({ "name": "new", "port": 7 }));
    let change = services(&service(json!({ "port": 81 }))).finalize(Some(&taken)).unwrap().unwrap();
    let given = applied(Some(&taken), &change).unwrap();
    let names: Vec<_> = ports_of(&given).iter().map(name).collect();
    assert_eq!(names, ["web", "metrics", "new"], "ours is gone");
    assert_eq!(given["metadata"]["annotations"], live["metadata"]["annotations"]);
}

#[test]
fn the_manifest_last_applied_is_believed_first() {
    let manifest = |selector: Value| {
        let ports = json!([{ "name": "web", "port": 80, "targetPort": 8080 }]);
        json!({ "spec": { "selector": selector, "ports": ports } }).to_string()
    };
    let taken =
        applied_all(Some(&users()), &synced(json!({}), APEX, Some(&users())).changes).unwrap();
    let onto = |selector: Value| Ok(Some(selector));
    let original = json!({ "app": "web", "tier": "front" });
    let cases = [
        (
            "as applied",
            Some(manifest(json!({ "app": "green" }))),
            true,
            onto(json!({ "app": "green" })),
        ),
        ("nothing applied", None, true, onto(original.clone())),
        ("no selector in it", Some(manifest(Value::Null)), true, onto(original.clone())),
        (
            "it selects the primary, which goes",
            Some(manifest(json!({ "app": "web-primary" }))),
            true,
            onto(json!({ "app": "web" })),
        ),
        ("unreadable, but we know", Some("{".to_owned()), true, onto(original)),
        ("unreadable, and nobody knows", Some("{".to_owned()), false, Err("OriginalUnreadable")),
        ("nobody knows: onto the target", None, false, onto(json!({ "app": "web" }))),
    ];
    for (reason, applied, is_known, want) in cases {
        let mut live = taken.clone();
        let annotations = live["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.extend(applied.map(|text| (LAST_APPLIED.to_owned(), json!(text))));
        if !is_known {
            annotations.remove(ORIGINAL);
        }
        let given =
            finalized(&live).map(|given| given.map(|given| given["spec"]["selector"].clone()));
        assert_eq!(given.map_err(|error| error.label()), want, "{reason}");
    }
}

#[test]
fn a_service_that_flagger_took_over_is_not_recorded_as_an_original() {
    let mut live = users();
    live["spec"]["selector"] = json!({ "app": "web-primary" });
    let sync = synced(json!({}), APEX, Some(&live));
    let taken = applied_all(Some(&live), &sync.changes).unwrap();
    assert_eq!(taken["metadata"]["annotations"].get(ORIGINAL), None);
    assert_eq!(sync.note, None);
    let given = finalized(&taken).unwrap().unwrap();
    assert_eq!(given["spec"]["selector"], json!({ "app": "web" }), "not onto the primary");
}

#[test]
fn services_of_canaries_and_missing_ones_are_not_given_back() {
    assert_eq!(finalized(&made(json!({}), APEX)).unwrap(), None);
    assert_eq!(services(&service(json!({}))).finalize(None).unwrap(), None);
}

prop_compose! {
    fn live_port()(
        name in "[a-c]|http|",
        number in 79_i64..83,
        udp: bool,
        node in 30000_i64..30005,
    ) -> Value {
        let mut live = port(&name, number, number, node);
        live["protocol"] = json!(if udp { "UDP" } else { "TCP" });
        live
    }
}

/// Ports of which no two have the same name, or number and protocol.
fn live_ports() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(live_port(), 1..4).prop_map(|mut ports| {
        let (mut keys, mut names) = (BTreeSet::new(), BTreeSet::new());
        ports.retain(|port| {
            let (number, protocol) = key(port);
            keys.insert((number, protocol.to_owned())) && names.insert(name(port).to_owned())
        });
        ports
    })
}

proptest! {
    #[test]
    fn a_sync_needs_no_second_one(
        ports in live_ports(),
        is_ours: bool,
        side in prop_oneof![Just(Side::Primary), Just(Side::Canary)],
        discovery: bool,
        tier in prop::option::of("front"),
    ) {
        let mut live = if is_ours { made(json!({}), APEX) } else { users() };
        live["spec"]["ports"] = json!(ports);
        live["spec"]["selector"] = match tier {
            Some(tier) => json!({ "app": "web", "tier": tier }),
            None => json!({ "app": "web" }),
        };
        let changes = json!({ "portDiscovery": discovery });
        let sync = synced(changes.clone(), Role::Apex(side), Some(&live));
        let after = applied_all(Some(&live), &sync.changes).unwrap();
        prop_assert_eq!(synced(changes, Role::Apex(side), Some(&after)), Sync::default());
        let names: Vec<_> = ports_of(&after).iter().map(name).collect();
        let unique: BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(unique.len(), names.len(), "{:?}", names);
        prop_assert_eq!(&after["spec"]["type"], &live["spec"]["type"]);
        prop_assert_eq!(&after["spec"]["clusterIP"], &live["spec"]["clusterIP"]);
    }

    #[test]
    fn any_service_that_was_taken_over_is_given_back(ports in live_ports()) {
        let mut live = users();
        live["spec"]["ports"] = json!(ports);
        let sync = synced(json!({}), APEX, Some(&live));
        let taken = applied_all(Some(&live), &sync.changes).unwrap();
        let given = finalized(&taken).unwrap().unwrap_or(taken);
        prop_assert!(ports::are_same(ports_of(&given), ports_of(&live)), "{given}");
        prop_assert_eq!(&given["spec"]["selector"], &live["spec"]["selector"]);
        prop_assert_eq!(&given["metadata"]["annotations"], &live["metadata"]["annotations"]);
        prop_assert_eq!(finalized(&given).unwrap(), None);
    }
}
