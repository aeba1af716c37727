//! Deletion of namespaces and definitions.

use kube_sandbox::cluster::{
    CONFIG_MAPS, Cluster, DEPLOYMENTS, Deletion, NAMESPACES, PODS, SERVICE_ACCOUNTS, SERVICES,
};
use serde_json::{Value, json};
use tidegate_tests::controllers::{
    CRDS, WIDGETS, World, config_map, custom, definition, deployment, merged, service, text,
};

fn in_stage(object: Value) -> Value {
    merged(object, &json!({ "metadata": { "namespace": "stage" } }))
}

/// A namespace `stage` with objects of many kinds.
fn furnished(world: &World) {
    world.create(CRDS, definition("Widget", "Namespaced"));
    world.create(NAMESPACES, json!({ "metadata": { "name": "stage" } }));
    world.create(DEPLOYMENTS, in_stage(deployment("web", 3, "nginx:1")));
    world.create(SERVICES, in_stage(service("web")));
    world.create(CONFIG_MAPS, in_stage(config_map("settings", &[])));
    world.create(WIDGETS, in_stage(custom("Widget", "w")));
    world.settle();
}

fn left_in_stage(world: &World) -> usize {
    let store = &world.sandbox.server().store;
    store.tables().iter().map(|table| store.list(table, Some("stage")).1.len()).sum()
}

fn delete_stage(world: &World) {
    world.admin.delete(NAMESPACES, "", "stage", &Deletion::default()).expect("a namespace");
}

#[test]
fn a_new_namespace_gets_its_account_and_certificate() {
    let world = World::new();
    world.create(NAMESPACES, json!({ "metadata": { "name": "stage" } }));
    world.settle();
    assert!(world.admin.get(SERVICE_ACCOUNTS, "stage", "default").is_some());
    assert!(world.admin.get(CONFIG_MAPS, "stage", "kube-root-ca.crt").is_some());
    let namespace = world.get(NAMESPACES, "stage");
    assert_eq!(namespace["status"], json!({ "phase": "Active" }));
    assert_eq!(namespace["spec"], json!({ "finalizers": ["kubernetes"] }));
    assert_eq!(namespace["metadata"]["labels"], json!({ "kubernetes.io/metadata.name": "stage" }));
}

#[test]
fn deleting_a_namespace_empties_it_of_every_kind() {
    for (order, world) in World::orders() {
        furnished(&world);
        assert!(left_in_stage(&world) > 8, "{order}");
        delete_stage(&world);
        let namespace = world.get(NAMESPACES, "stage");
        assert_eq!(namespace["status"]["phase"], "Terminating", "{order}");
        world.settle();
        assert!(world.find(NAMESPACES, "stage").is_none(), "{order}");
        assert_eq!(left_in_stage(&world), 0, "{order}");
        world.create(NAMESPACES, json!({ "metadata": { "name": "stage" } }));
        world.settle();
        assert_eq!(left_in_stage(&world), 2, "{order}: the new one starts empty");
        world.assert_quiet();
    }
}

#[test]
fn finalizers_inside_hold_a_namespace_and_it_says_so() {
    for (order, world) in World::orders() {
        furnished(&world);
        let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        world.admin.patch(WIDGETS, "stage", "w", "", &hold).unwrap();
        world.admin.patch(CONFIG_MAPS, "stage", "settings", "", &hold).unwrap();
        delete_stage(&world);
        world.settle();
        assert_eq!(left_in_stage(&world), 2, "{order}");
        let said = |kind: &str| world.condition(NAMESPACES, "stage", kind);
        let remaining = json!({
            "type": "NamespaceContentRemaining", "status": "True",
            "reason": "SomeResourcesRemain",
            "message": "Some resources are remaining: configmaps. has 1 resource instances, \
                        widgets.example.com has 1 resource instances",
        });
        assert_eq!(said("NamespaceContentRemaining"), remaining, "{order}");
        let finalizers = json!({
            "type": "NamespaceFinalizersRemaining", "status": "True",
            "reason": "SomeFinalizersRemain",
            "message": "Some content in the namespace has finalizers remaining: \
                        example.com/hold in 2 resource instances",
        });
        assert_eq!(said("NamespaceFinalizersRemaining"), finalizers, "{order}");
        assert_eq!(said("NamespaceDeletionDiscoveryFailure")["status"], "False", "{order}");
        assert_eq!(said("NamespaceDeletionGroupVersionParsingFailure")["status"], "False");
        assert_eq!(said("NamespaceDeletionContentFailure")["reason"], "ContentDeleted");
        world.assert_quiet();
        let free = json!({ "metadata": { "finalizers": null } });
        world.admin.patch(WIDGETS, "stage", "w", "", &free).unwrap();
        world.settle();
        let message = text(&said("NamespaceContentRemaining")["message"]);
        assert!(message.ends_with(": configmaps. has 1 resource instances"), "{message}");
        world.admin.patch(CONFIG_MAPS, "stage", "settings", "", &free).unwrap();
        world.settle();
        assert!(world.find(NAMESPACES, "stage").is_none(), "{order}");
    }
}

#[test]
fn pods_go_before_anything_else_in_their_namespace() {
    let world = World::new();
    furnished(&world);
    let pods = world.admin.list(PODS, Some("stage"));
    let last = text(&pods[0]["metadata"]["name"]);
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    world.admin.patch(PODS, "stage", &last, "", &hold).unwrap();
    delete_stage(&world);
    world.settle();
    assert!(world.admin.get(CONFIG_MAPS, "stage", "settings").is_some());
    assert!(world.admin.get(DEPLOYMENTS, "stage", "web").is_some());
    assert_eq!(world.admin.list(PODS, Some("stage")).len(), 1);
    let free = json!({ "metadata": { "finalizers": null } });
    world.admin.patch(PODS, "stage", &last, "", &free).unwrap();
    world.settle();
    assert!(world.find(NAMESPACES, "stage").is_none());
}

#[test]
fn nothing_new_comes_into_a_namespace_that_is_going() {
    let world = World::new();
    furnished(&world);
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    world.admin.patch(CONFIG_MAPS, "stage", "settings", "", &hold).unwrap();
    delete_stage(&world);
    for (resource, object) in [
        (CONFIG_MAPS, config_map("late", &[])),
        (WIDGETS, custom("Widget", "late")),
        (DEPLOYMENTS, deployment("late", 1, "nginx:1")),
    ] {
        let refused = world.try_create(resource, in_stage(object)).unwrap_err();
        assert_eq!((refused.code, refused.reason), (403, "Forbidden"), "{}", resource.plural);
        let why = "unable to create new content in namespace stage because it is being terminated";
        assert!(refused.message.ends_with(why), "{}", refused.message);
        assert_eq!(refused.causes[0].reason, "NamespaceTerminating");
    }
    let change = json!({ "data": { "still": "editable" } });
    assert!(world.admin.patch(CONFIG_MAPS, "stage", "settings", "", &change).is_ok());
}

#[test]
fn a_definition_waits_for_its_objects_and_takes_no_more() {
    for (order, world) in World::orders() {
        world.create(CRDS, definition("Widget", "Namespaced"));
        let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        world.create(WIDGETS, merged(custom("Widget", "held"), &hold));
        world.create(WIDGETS, custom("Widget", "free"));
        world.settle();
        world.delete(CRDS, "widgets.example.com");
        world.settle();
        assert_eq!(world.names(WIDGETS), ["held"], "{order}");
        let want = json!({
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        });
        assert_eq!(world.condition(CRDS, "widgets.example.com", "Terminating"), want, "{order}");
        let refused = world.try_create(WIDGETS, custom("Widget", "late")).unwrap_err();
        assert_eq!(refused.code, 403, "{order}");
        let why = "create not allowed while custom resource definition is terminating";
        assert!(refused.message.ends_with(why), "{}", refused.message);
        world.patch(WIDGETS, "held", &json!({ "metadata": { "finalizers": null } }));
        world.settle();
        assert!(world.find(CRDS, "widgets.example.com").is_none(), "{order}");
        let refused = world.try_create(WIDGETS, custom("Widget", "late")).unwrap_err();
        assert_eq!(refused.code, 404, "{order}: the kind is served no more");
        world.create(CRDS, definition("Widget", "Namespaced"));
        assert_eq!(world.names(WIDGETS), Vec::<String>::new(), "{order}");
    }
}
