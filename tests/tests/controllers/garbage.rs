//! Garbage collection: the objects that are deleted with an owner, the order, and the ones that stay.

use kube_sandbox::{
    cluster::{CONFIG_MAPS, DEPLOYMENTS, PODS, REPLICA_SETS, SECRETS},
    store::EventKind,
};
use serde_json::{Value, json};
use tidegate_tests::controllers::{
    CRDS, GIZMOS, WIDGETS, World, blocking, config_map, custom, definition, deployment, merged,
    owned_by, text, uid,
};

/// A config map `a` that owns `b` that owns `c`, by references made with `reference`.
fn chain(world: &World, reference: fn(&Value) -> Value) -> [Value; 3] {
    let a = world.create(CONFIG_MAPS, config_map("a", &[]));
    let b = world.create(CONFIG_MAPS, config_map("b", &[reference(&a)]));
    let c = world.create(CONFIG_MAPS, config_map("c", &[reference(&b)]));
    world.settle();
    [a, b, c]
}

/// Names of config maps other than the cluster's own.
fn maps(world: &World) -> Vec<String> {
    let mut names = world.names(CONFIG_MAPS);
    names.retain(|name| name != "kube-root-ca.crt");
    names
}

fn removals(world: &World, revision: u64) -> Vec<String> {
    let seen = world.seen_since(CONFIG_MAPS, revision).into_iter();
    seen.filter(|(kind, ..)| *kind == EventKind::Deleted).map(|(_, name, _)| name).collect()
}

#[test]
fn background_deletion_removes_the_owner_first() {
    for (order, world) in World::orders() {
        chain(&world, blocking);
        let revision = world.revision();
        world.delete_with(CONFIG_MAPS, "a", Some("Background"));
        assert!(world.find(CONFIG_MAPS, "a").is_none(), "{order}: gone at once");
        world.settle();
        assert_eq!(removals(&world, revision), ["a", "b", "c"], "{order}");
    }
}

#[test]
fn foreground_deletion_removes_what_blocks_the_owner_first() {
    for (order, world) in World::orders() {
        chain(&world, blocking);
        let revision = world.revision();
        world.delete_with(CONFIG_MAPS, "a", Some("Foreground"));
        let waiting = world.get(CONFIG_MAPS, "a");
        assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{order}");
        assert!(!waiting["metadata"]["deletionTimestamp"].is_null(), "{order}");
        world.settle();
        assert_eq!(removals(&world, revision), ["c", "b", "a"], "{order}");
        let marked =
            world.seen_since(CONFIG_MAPS, revision).into_iter().filter(|(kind, _, map)| {
                *kind == EventKind::Modified && !map["metadata"]["deletionTimestamp"].is_null()
            });
        let marked: Vec<_> = marked.map(|(_, name, _)| name).collect();
        assert_eq!(marked, ["a", "b"], "{order}: what owns nothing is not made to wait");
    }
}

#[test]
fn foreground_deletion_does_not_wait_for_dependents_that_do_not_block() {
    for (order, world) in World::orders() {
        chain(&world, owned_by);
        let revision = world.revision();
        world.delete_with(CONFIG_MAPS, "a", Some("Foreground"));
        world.settle();
        assert_eq!(removals(&world, revision), ["a", "b", "c"], "{order}");
    }
}

#[test]
fn a_finalizer_on_a_dependent_holds_its_owner_and_everything_above() {
    let world = World::new();
    chain(&world, blocking);
    world.patch(CONFIG_MAPS, "c", &json!({ "metadata": { "finalizers": ["example.com/hold"] } }));
    world.delete_with(CONFIG_MAPS, "a", Some("Foreground"));
    world.settle();
    assert_eq!(maps(&world), ["a", "b", "c"]);
    world.patch(CONFIG_MAPS, "c", &json!({ "metadata": { "finalizers": null } }));
    world.settle();
    assert_eq!(maps(&world), Vec::<String>::new());
}

#[test]
fn a_dependent_that_stops_blocking_lets_its_owner_go() {
    let world = World::new();
    let a = world.create(CONFIG_MAPS, config_map("a", &[]));
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    world.create(CONFIG_MAPS, merged(config_map("b", &[blocking(&a)]), &held));
    world.delete_with(CONFIG_MAPS, "a", Some("Foreground"));
    world.settle();
    assert_eq!(maps(&world), ["a", "b"]);
    let free = json!({ "metadata": { "ownerReferences": [owned_by(&a)] } });
    world.patch(CONFIG_MAPS, "b", &free);
    world.settle();
    assert_eq!(maps(&world), ["b"], "and b itself waits for its finalizer only");
}

#[test]
fn orphaned_dependents_stay_without_their_reference() {
    for (order, world) in World::orders() {
        chain(&world, blocking);
        world.delete_with(CONFIG_MAPS, "a", Some("Orphan"));
        world.settle();
        assert_eq!(maps(&world), ["b", "c"], "{order}");
        assert_eq!(world.get(CONFIG_MAPS, "b")["metadata"].get("ownerReferences"), None);
        let kept = world.get(CONFIG_MAPS, "c");
        assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "b", "{order}");
    }
}

#[test]
fn one_of_several_owners_is_enough_to_stay() {
    for (order, world) in World::orders() {
        let a = world.create(CONFIG_MAPS, config_map("a", &[]));
        let b = world.create(CONFIG_MAPS, config_map("b", &[]));
        world.create(CONFIG_MAPS, config_map("c", &[owned_by(&a), owned_by(&b)]));
        world.delete(CONFIG_MAPS, "a");
        world.settle();
        let kept = world.get(CONFIG_MAPS, "c");
        assert_eq!(kept["metadata"]["ownerReferences"], json!([owned_by(&b)]), "{order}");
        world.delete_with(CONFIG_MAPS, "b", Some("Foreground"));
        world.settle();
        assert_eq!(maps(&world), Vec::<String>::new(), "{order}");
    }
}

#[test]
fn an_owner_that_waits_is_dropped_where_another_stays() {
    let world = World::new();
    let a = world.create(CONFIG_MAPS, config_map("a", &[]));
    let b = world.create(CONFIG_MAPS, config_map("b", &[]));
    world.create(CONFIG_MAPS, config_map("c", &[blocking(&a), blocking(&b)]));
    world.delete_with(CONFIG_MAPS, "a", Some("Foreground"));
    world.settle();
    assert_eq!(maps(&world), ["b", "c"]);
    assert_eq!(world.get(CONFIG_MAPS, "c")["metadata"]["ownerReferences"], json!([blocking(&b)]));
}

#[test]
fn references_are_judged_by_kind_name_uid_and_place() {
    let world = World::new();
    let a = world.create(CONFIG_MAPS, config_map("a", &[]));
    world.create(kube_sandbox::cluster::NAMESPACES, json!({ "metadata": { "name": "other" } }));
    let elsewhere = json!({ "metadata": { "name": "far", "namespace": "other" } });
    let far = world.create(CONFIG_MAPS, merged(config_map("far", &[]), &elsewhere));
    let node = world.get(kube_sandbox::cluster::NODES, "sandbox-0");
    let with = |more: Value| merged(owned_by(&a), &more);
    let cases = [
        ("good", owned_by(&a), true),
        ("owner-of-the-whole-cluster", owned_by(&node), true),
        ("uid-never-existed", with(json!({ "uid": "no-such-uid" })), false),
        ("another-name", with(json!({ "name": "b" })), false),
        ("another-kind", with(json!({ "kind": "Secret" })), false),
        ("another-namespace", owned_by(&far), false),
        ("kind-nobody-serves", with(json!({ "apiVersion": "no.such/v1", "kind": "Ghost" })), true),
    ];
    for (name, reference, _) in &cases {
        world.create(CONFIG_MAPS, config_map(name, std::slice::from_ref(reference)));
    }
    world.settle();
    for (name, _, stays) in cases {
        assert_eq!(world.find(CONFIG_MAPS, name).is_some(), stays, "{name}");
    }
}

#[test]
fn an_owner_made_again_under_its_name_inherits_nothing() {
    let world = World::new();
    let a = world.create(CONFIG_MAPS, config_map("a", &[]));
    world.create(CONFIG_MAPS, config_map("b", &[owned_by(&a)]));
    world.sandbox.runtime().pause("garbage-collector");
    world.delete(CONFIG_MAPS, "a");
    let again = world.create(CONFIG_MAPS, config_map("a", &[]));
    world.create(CONFIG_MAPS, config_map("c", &[owned_by(&again)]));
    world.advance(60);
    assert_eq!(maps(&world), ["a", "b", "c"], "nothing goes while the collector hangs");
    world.sandbox.runtime().resume("garbage-collector");
    world.settle();
    assert_eq!(maps(&world), ["a", "c"]);
}

#[test]
fn objects_that_own_each_other_go_together() {
    for policy in ["Background", "Foreground"] {
        for (order, world) in World::orders() {
            let a = world.create(CONFIG_MAPS, config_map("a", &[]));
            let b = world.create(CONFIG_MAPS, config_map("b", &[blocking(&a)]));
            let back = json!({ "metadata": { "ownerReferences": [blocking(&b)] } });
            world.patch(CONFIG_MAPS, "a", &back);
            world.settle();
            assert_eq!(maps(&world), ["a", "b"], "{order}: a circle holds itself");
            world.delete_with(CONFIG_MAPS, "a", Some(policy));
            world.settle();
            assert_eq!(maps(&world), Vec::<String>::new(), "{policy}, {order}");
        }
    }
}

#[test]
fn custom_resources_own_and_are_owned() {
    for (order, world) in World::orders() {
        world.create(CRDS, definition("Widget", "Namespaced"));
        world.create(CRDS, definition("Gizmo", "Cluster"));
        let gizmo = world.create(GIZMOS, custom("Gizmo", "g"));
        let owners = json!({ "metadata": { "ownerReferences": [blocking(&gizmo)] } });
        let widget = world.create(WIDGETS, merged(custom("Widget", "w"), &owners));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "s", "ownerReferences": [blocking(&widget)] },
        });
        world.create(SECRETS, secret);
        world.settle();
        let upwards = json!({ "metadata": { "ownerReferences": [owned_by(&widget)] } });
        world.create(GIZMOS, merged(custom("Gizmo", "child"), &upwards));
        world.settle();
        assert!(
            world.find(GIZMOS, "child").is_some(),
            "{order}: a reference from outside into a namespace proves nothing"
        );
        let revision = world.revision();
        world.delete_with(GIZMOS, "g", Some("Foreground"));
        world.settle();
        assert!(world.find(GIZMOS, "g").is_none(), "{order}");
        assert!(world.find(WIDGETS, "w").is_none(), "{order}");
        assert!(world.find(SECRETS, "s").is_none(), "{order}");
        let gone = |resource| {
            let seen = world.seen_since(resource, revision);
            let gone = seen.iter().find(|(kind, ..)| *kind == EventKind::Deleted);
            gone.map(|(_, _, object)| {
                text(&object["metadata"]["resourceVersion"]).parse::<u64>().unwrap()
            })
        };
        assert!(gone(SECRETS) < gone(WIDGETS) && gone(WIDGETS) < gone(GIZMOS), "{order}");
    }
}

#[test]
fn what_a_deleted_definition_owned_is_collected() {
    let world = World::new();
    world.create(CRDS, definition("Widget", "Namespaced"));
    let widget = world.create(WIDGETS, custom("Widget", "w"));
    world.create(CONFIG_MAPS, config_map("owned", &[owned_by(&widget)]));
    world.settle();
    world.delete(CRDS, "widgets.example.com");
    world.settle();
    assert!(world.find(CRDS, "widgets.example.com").is_none());
    assert_eq!(maps(&world), Vec::<String>::new());
}

#[test]
fn a_reference_to_a_kind_that_comes_later_is_judged_then() {
    let world = World::new();
    let reference =
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u" });
    world.create(CONFIG_MAPS, config_map("early", &[reference]));
    world.advance(60);
    assert_eq!(maps(&world), ["early"]);
    world.create(CRDS, definition("Widget", "Namespaced"));
    world.settle();
    assert_eq!(maps(&world), Vec::<String>::new());
}

#[test]
fn deleting_a_deployment_takes_its_sets_and_pods_along() {
    for policy in [None, Some("Background"), Some("Foreground")] {
        for (order, world) in World::orders() {
            world.create(DEPLOYMENTS, deployment("web", 3, "nginx:1"));
            world.settle();
            world.delete_with(DEPLOYMENTS, "web", policy);
            world.settle();
            assert!(world.list(DEPLOYMENTS).is_empty(), "{policy:?}, {order}");
            assert!(world.list(REPLICA_SETS).is_empty(), "{policy:?}, {order}");
            assert!(world.list(PODS).is_empty(), "{policy:?}, {order}");
        }
    }
}

#[test]
fn an_orphaned_set_keeps_its_pods_and_is_adopted_again() {
    for (order, world) in World::orders() {
        world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
        world.settle();
        let (set, pods) = (world.list(REPLICA_SETS).remove(0), world.names(PODS));
        world.delete_with(DEPLOYMENTS, "web", Some("Orphan"));
        world.settle();
        assert_eq!(world.names(PODS), pods, "{order}");
        let again = world.create(DEPLOYMENTS, deployment("web", 2, "nginx:1"));
        world.settle();
        assert_eq!(world.names(PODS), pods, "{order}");
        let adopted = world.list(REPLICA_SETS);
        assert_eq!(adopted.len(), 1, "{order}");
        assert_eq!(uid(&adopted[0]), uid(&set), "{order}");
        assert_eq!(text(&adopted[0]["metadata"]["ownerReferences"][0]["uid"]), uid(&again));
    }
}
