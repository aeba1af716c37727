//! Objects that were there before us.

use super::{
    fixtures::{COPYING, making},
    *,
};
use crate::object::HANDED_OVER;

const ORIGINAL: &str = "flagger.kubernetes.io/original-configuration";
const FLUX: &str = "kustomize.toolkit.fluxcd.io/reconcile";
const KUBECTL: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The user's own route to the apex Service.
fn users_spec(mesh: Mesh) -> Value {
    match mesh {
        Mesh::GatewayApiV1 | Mesh::GatewayApiV1Beta1 => json!({
            "parentRefs": [{ "name": "gw", "namespace": "infra" }],
            "hostnames": ["old.example.com"],
            "rules": [{
                "filters": [{ "type": "ExtensionRef", "extensionRef": { "name": "guard" } }],
                "backendRefs": [{ "name": "shop", "port": 80 }],
            }],
        }),
        Mesh::Istio => json!({ "hosts": ["shop.example.com"], "exportTo": ["."],
            "http": [{ "route": [{ "destination": { "host": "shop" } }] }] }),
        Mesh::Smi { .. } => json!({ "service": "shop", "note": "mine",
            "backends": [{ "service": "shop-v1", "weight": 1 }] }),
        Mesh::Traefik => json!({ "weighted": { "sticky": { "cookie": {} },
            "services": [{ "name": "shop", "port": 80 }] } }),
        Mesh::AppMeshV1Beta1 | Mesh::AppMeshV1Beta2 => json!({ "note": "mine",
            "routes": [{ "name": "mine", "tcpRoute": { "action": {} } }] }),
        _ => json!({ "virtualhost": { "fqdn": "a.example.com" },
            "routes": [{ "services": [{ "name": "shop", "port": 80 }] }] }),
    }
}

/// Providers whose routes are taken over and restored.
fn taking_over() -> Vec<Mesh> {
    making().into_iter().filter(|mesh| *mesh != Mesh::Kuma).collect()
}

/// A route that its owner handed over to the canary.
fn with_users_route(mesh: Mesh, mut annotations: Value) -> World {
    annotations[HANDED_OVER] = json!("shop");
    with_route(mesh, annotations)
}

fn with_route(mesh: Mesh, annotations: Value) -> World {
    let mut world = World::plain(mesh);
    let (kind, name) = mesh.names(&world.cx()).pop().unwrap();
    world.put(
        kind,
        json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": { "name": name, "uid": "u-9", "labels": { "app": "shop" }, "annotations": annotations },
            "spec": users_spec(mesh),
        }),
    );
    world
}

fn annotation(world: &World, key: &str) -> Value {
    world.route()["metadata"]["annotations"][key].clone()
}

#[test]
fn a_users_route_is_backed_up_once_and_given_back() {
    for mesh in taking_over() {
        let mut world = with_users_route(mesh, json!({ "note": "mine" }));
        let before = world.route().clone();
        world.reconcile();
        assert_eq!(world.read(), Ok(Split::PRIMARY), "{mesh:?}");
        let backup = annotation(&world, ORIGINAL);
        let saved: Value = serde_json::from_str(backup.as_str().unwrap()).unwrap();
        assert_eq!(saved, before["spec"], "{mesh:?}: the whole spec, unknown fields too");
        assert_eq!(world.route()["metadata"]["ownerReferences"], Value::Null, "not ours to delete");
        assert_eq!(world.drift(), Ok(vec![]), "{mesh:?}");

        world.write(split(40));
        world.edit_spec(json!({ "service": { "timeout": "9s" } }));
        world.reconcile();
        assert_eq!(annotation(&world, ORIGINAL), backup, "{mesh:?}: never a backup of our own");

        assert_eq!(world.finalize(), Ok(1), "{mesh:?}");
        let mut after = world.route().clone();
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        assert_eq!(after, before, "{mesh:?}");
        assert_eq!(world.finalize(), Ok(0), "{mesh:?}: given back once");
    }
}

#[test]
fn a_users_route_of_gateway_api_is_not_taken_over_unasked() {
    for mesh in [Mesh::GatewayApiV1, Mesh::GatewayApiV1Beta1] {
        for annotations in [json!({}), json!({ HANDED_OVER: "other" }), json!({ KUBECTL: "{}" })] {
            let world = with_route(mesh, annotations);
            let error = world.drift().unwrap_err();
            assert_eq!(error.label(), "unasked", "{mesh:?}");
            for way_out in ["HTTPRoute web/shop", "tidegate.dev/canary=shop", "spec.routeRef"] {
                assert!(error.to_string().contains(way_out), "{error}");
            }
            assert_eq!(world.planned(split(10)), Err(error));
            assert_eq!(world.planned(Split::PRIMARY), Ok(vec![]), "nor has anybody to come back");
        }
    }
    let mut istio = with_route(Mesh::Istio, json!({}));
    istio.reconcile();
    assert_eq!(istio.read(), Ok(Split::PRIMARY), "as Flagger, which its users count on");
}

#[test]
fn routes_of_flagger_are_adopted_without_asking() {
    for mesh in taking_over() {
        let mut made = World::plain(mesh);
        made.reconcile();
        made.write(split(30));
        // Flagger's owner, another identity of the same canary.
        made.edit_route(|route| route["metadata"]["ownerReferences"][0]["uid"] = json!("u-0"));
        made.reconcile();
        assert_eq!(made.read(), Ok(split(30)), "{mesh:?}");
        // Taken over by Flagger, which sets no owner and, for Gateway API, keeps no backup.
        let mut taken = World::plain(mesh);
        taken.reconcile();
        taken.write(split(30));
        taken.edit_route(|route| {
            let metadata = route["metadata"].as_object_mut().unwrap();
            metadata.remove("ownerReferences");
            metadata.remove("annotations");
        });
        taken.reconcile();
        assert_eq!(taken.read(), Ok(split(30)), "{mesh:?}");
    }
}

#[test]
fn routes_of_a_former_name_or_provider_are_left_over_and_no_others() {
    let mut world = World::plain(Mesh::GatewayApiV1);
    world.reconcile();
    let current = world.route().clone();
    let mut former = current.clone();
    former["metadata"]["name"] = json!("store");
    let mut users = former.clone();
    users["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    let existing = [&current, &former, &users];
    let left = world.mesh.leftovers(&world.cx(), HTTP_ROUTE_V1, &existing);
    assert!(matches!(&left[..], [Change::Delete { name, .. }] if name == "store"), "{left:?}");
    let left = Mesh::Istio.leftovers(&world.cx(), HTTP_ROUTE_V1, &existing);
    assert_eq!(left.len(), 2, "with another provider both are: {left:?}");
}

#[test]
fn a_filter_that_guards_a_users_route_stays_when_it_is_taken_over() {
    let mut world = with_users_route(Mesh::GatewayApiV1, json!({}));
    world.reconcile();
    assert_eq!(filters(&world.rules()[0], "ExtensionRef").len(), 1);
}

#[test]
fn the_annotation_of_kubectl_is_the_backup_and_wins() {
    for mesh in taking_over() {
        let applied = json!({ "metadata": { "annotations": { FLUX: "disabled" } },
            "spec": users_spec(mesh) });
        let annotations =
            json!({ KUBECTL: applied.to_string(), ORIGINAL: "{\"hosts\":[\"wrong\"]}" });
        let mut world = with_users_route(mesh, annotations);
        world.reconcile();
        assert_eq!(annotation(&world, KUBECTL), json!(applied.to_string()));
        assert_eq!(world.finalize(), Ok(1));
        let mut want = json!({ "kind": world.route()["kind"], "spec": users_spec(mesh) });
        default(&mut want);
        assert_eq!(world.route()["spec"], want["spec"], "{mesh:?}");
        assert_eq!(annotation(&world, ORIGINAL), Value::Null);
        if !mesh.as_str().starts_with("appmesh") {
            assert_eq!(annotation(&world, FLUX), "disabled", "{mesh:?}: the user had said so too");
        }
        assert_eq!(world.finalize(), Ok(0), "{mesh:?}");
    }
    let mut kubectl_only = with_users_route(Mesh::Istio, json!({ KUBECTL: "{\"spec\":{}}" }));
    kubectl_only.reconcile();
    assert_eq!(annotation(&kubectl_only, ORIGINAL), Value::Null, "one backup is enough");
}

#[test]
fn a_backup_of_flaggers_is_kept_and_restored() {
    let original =
        "{\"hosts\":[\"*\"],\"http\":[{\"route\":[{\"destination\":{\"host\":\"shop\"}}]}]}";
    let mut world = with_users_route(Mesh::Istio, json!({ ORIGINAL: original }));
    world.reconcile();
    assert_eq!(annotation(&world, ORIGINAL), original);
    assert_eq!(world.finalize(), Ok(1));
    let mut want: Value = serde_json::from_str(original).unwrap();
    let spec = world.route()["spec"].clone();
    assert_eq!(spec, want.take());
}

#[test]
fn an_object_that_cannot_be_given_back_is_named_or_left() {
    for (annotation, text) in [(ORIGINAL, "{"), (KUBECTL, "[]"), (KUBECTL, "{}")] {
        let mut world = with_users_route(Mesh::Istio, json!({ annotation: text }));
        let error = world.finalize().unwrap_err();
        assert_eq!(error.label(), "backup");
        assert!(error.to_string().contains(annotation), "{error}");
    }
    let mut unknown = with_users_route(Mesh::Istio, json!({}));
    assert_eq!(unknown.finalize(), Ok(0), "nothing is known, nothing is changed");
    assert_eq!(World::plain(Mesh::Istio).finalize(), Ok(0), "what is gone needs nothing");
}

#[test]
fn objects_made_for_the_canary_go_with_it() {
    for mesh in taking_over() {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.write(split(50));
        assert_eq!(world.route()["metadata"]["ownerReferences"][0]["uid"], "u-1");
        assert_eq!(annotation(&world, ORIGINAL), Value::Null, "{mesh:?}: no backup of our own");
        assert_eq!(world.finalize(), Ok(0), "{mesh:?}");
    }
}

#[test]
fn without_owners_our_own_objects_are_not_taken_for_the_users() {
    for mesh in taking_over() {
        let mut world = World::plain(mesh);
        world.can_own = false;
        world.reconcile();
        assert_eq!(world.route()["metadata"]["ownerReferences"], Value::Null);
        let policy = json!({ "loadBalancer": { "simple": "RANDOM" } });
        world.edit_spec(json!({ "service": { "timeout": "9s", "trafficPolicy": policy } }));
        world.reconcile();
        for (kind, name) in mesh.names(&world.cx()) {
            let Some(object) = world.live.get(kind, &name) else { continue };
            assert_eq!(object["metadata"]["annotations"][ORIGINAL], Value::Null, "{mesh:?} {name}");
        }
    }
}

#[test]
fn objects_with_another_controller_are_not_touched() {
    for mesh in taking_over() {
        for (kind, name) in [("Canary", "other"), ("Release", "shop")] {
            let mut world = with_users_route(mesh, json!({}));
            world.edit_route(|route| {
                route["metadata"]["ownerReferences"] =
                    json!([{ "kind": kind, "name": name, "uid": "u-7", "controller": true }]);
            });
            let error = world.drift().unwrap_err();
            assert_eq!(error.label(), "taken", "{mesh:?}");
            assert!(error.to_string().contains(&format!("{kind} {name}")), "{error}");
            assert_eq!(world.planned(split(10)), Err(error));
            assert_eq!(world.finalize(), Ok(0));
        }
    }
}

#[test]
fn a_destination_rule_of_the_users_is_given_back() {
    let spec = json!({ "host": "shop-primary", "subsets": [{ "name": "v1" }],
        "trafficPolicy": { "tls": { "mode": "ISTIO_MUTUAL" } } });
    let mut world = World::new(
        Mesh::Istio,
        json!({ "trafficPolicy": { "loadBalancer": { "simple": "RANDOM" } } }),
        json!({}),
    );
    world.put(
        DESTINATION_RULE,
        json!({ "kind": "DestinationRule", "metadata": { "name": "shop-primary" }, "spec": spec }),
    );
    world.reconcile();
    let rule = world.live.get(DESTINATION_RULE, "shop-primary").unwrap();
    assert_eq!(rule["spec"]["trafficPolicy"], json!({ "loadBalancer": { "simple": "RANDOM" } }));
    assert_eq!(world.drift(), Ok(vec![]));
    assert_eq!(world.finalize(), Ok(1));
    let rule = world.live.get(DESTINATION_RULE, "shop-primary").unwrap();
    assert_eq!(rule["spec"], spec);
    assert_eq!(rule["metadata"]["annotations"], json!({}));
    assert_eq!(world.finalize(), Ok(0));
}

#[test]
fn a_canary_made_again_takes_its_objects_back() {
    for mesh in taking_over() {
        let mut world = World::plain(mesh);
        world.reconcile();
        world.edit_route(|route| route["metadata"]["ownerReferences"][0]["uid"] = json!("u-0"));
        world.reconcile();
        assert_eq!(world.route()["metadata"]["ownerReferences"][0]["uid"], "u-1", "{mesh:?}");
        assert_eq!(annotation(&world, ORIGINAL), Value::Null, "{mesh:?}");
    }
}

#[test]
fn labels_and_annotations_that_are_written_over_come_back_too() {
    for mesh in taking_over().into_iter().filter(|mesh| !mesh.as_str().starts_with("appmesh")) {
        let annotations = json!({ "note": "mine", FLUX: "enabled" });
        let mut world = with_users_route(mesh, annotations);
        let before = world.route().clone();
        let apex = json!({ "labels": { "app": "b", "team": "b" }, "annotations": { "note": "b" } });
        world.edit_spec(json!({ "service": { "apex": apex } }));
        world.reconcile();
        let labels = &world.route()["metadata"]["labels"];
        assert_eq!((&labels["app"], &labels["team"]), (&json!("b"), &json!("b")), "{mesh:?}");
        // One more in the middle of a run, and one that is ours for the second time.
        let apex = json!({ "labels": { "app": "c" }, "annotations": { "tier": "c" } });
        world.edit_spec(json!({ "service": { "apex": apex } }));
        world.write(split(20));
        assert_eq!(annotation(&world, "tier"), "c", "{mesh:?}");
        assert_eq!(world.drift(), Ok(vec![]), "{mesh:?}");
        assert_eq!(world.finalize(), Ok(1), "{mesh:?}");
        for member in ["labels", "annotations"] {
            assert_eq!(world.route()["metadata"][member], before["metadata"][member], "{mesh:?}");
        }
    }
}

#[test]
fn an_annotation_of_kubectl_about_another_object_is_no_backup() {
    let applied = json!({ "metadata": { "name": "front" }, "spec": { "hosts": ["wrong"] } });
    let mut world = with_users_route(Mesh::Istio, json!({ KUBECTL: applied.to_string() }));
    let before = world.route()["spec"].clone();
    world.reconcile();
    assert!(annotation(&world, ORIGINAL).is_string());
    assert_eq!(world.finalize(), Ok(1));
    assert_eq!(world.route()["spec"], before);
}

#[test]
fn a_copy_that_flagger_made_where_nothing_can_own_it_is_deleted_and_not_given_back() {
    for mesh in COPYING {
        let mut world = World::plain(mesh);
        world.can_own = false;
        world.reconcile();
        // Flagger copies all annotations, kubectl's of the original among them.
        let original = json!({ "metadata": { "name": "shop" }, "spec": {} }).to_string();
        world.edit_route(|route| route["metadata"]["annotations"][KUBECTL] = json!(original));
        world.write(split(10));
        let (kind, name) = mesh.names(&world.cx()).pop().unwrap();
        assert_eq!(annotation(&world, KUBECTL), Value::Null, "{mesh:?}: nor does the mark stay");
        assert_eq!(world.finalize(), Ok(1), "{mesh:?}");
        assert_eq!(world.live.get(kind, &name), None, "{mesh:?}");
    }
}

#[test]
fn an_object_beside_the_route_that_was_never_touched_is_not_given_back() {
    // As its owner edited it, after it was applied.
    let applied = json!({ "spec": { "host": "old", "listeners": [] } }).to_string();
    for (mesh, kind) in
        [(Mesh::Istio, DESTINATION_RULE), (Mesh::AppMeshV1Beta2, Mesh::AppMeshV1Beta2.kinds()[0])]
    {
        let mut world = World::plain(mesh);
        world.put(
            kind,
            json!({ "kind": kind.kind, "spec": { "host": "new" }, "metadata": {
                "name": "shop-primary", "annotations": { KUBECTL: applied } } }),
        );
        assert_eq!(world.finalize(), Ok(0), "{mesh:?}");
        world.reconcile();
        assert_eq!(world.finalize(), Ok(1), "{mesh:?}: once it was, it is");
        let spec = &world.live.get(kind, "shop-primary").unwrap()["spec"];
        assert_eq!(*spec, json!({ "host": "old", "listeners": [] }), "{mesh:?}");
        assert_eq!(world.finalize(), Ok(0), "{mesh:?}");
    }
}

#[test]
fn labels_and_annotations_of_the_apex_reach_the_route() {
    for mesh in MOVING {
        let mut world = World::new(
            mesh,
            json!({ "apex": { "labels": { "team": "a" }, "annotations": { "note": "b" } },
                "unmanagedMetadata": { "labels": ["x"] } }),
            json!({}),
        );
        world.reconcile();
        assert_eq!(world.route()["metadata"]["labels"], json!({ "team": "a" }), "{mesh:?}");
        assert_eq!(annotation(&world, "note"), "b");
        // Dropped by the user, dropped by the next write.
        world.edit_spec(json!({ "service": { "apex": { "labels": null } } }));
        world.write(split(10));
        assert_eq!(world.route()["metadata"]["labels"], Value::Null, "{mesh:?}");
    }
}
