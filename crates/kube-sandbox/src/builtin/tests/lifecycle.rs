//! Fields that a write keeps, counts and restores.

use super::*;
use crate::builtin::{
    NodePortSlot,
    pod::qos_class,
    service::{keep_addresses, service_needs_node_ports},
    service_needs_cluster_ip, service_node_port_slots, set_node_port,
};

#[test]
fn only_changes_of_what_is_asked_for_are_counted() {
    let stored = create("apps", "Deployment", deployment()).expect("valid");
    let cases = [
        ("nothing", "/metadata/labels", json!({"app": "web"}), 1),
        ("a label is not asked for", "/metadata/labels", json!({"a": "b"}), 1),
        ("an annotation is copied to replica sets", "/metadata/annotations", json!({"a": "b"}), 2),
        ("the number of replicas", "/spec/replicas", json!(3), 2),
        ("a zero that says nothing", "/spec/minReadySeconds", json!(0), 1),
        ("a false that says nothing", "/spec/paused", json!(false), 1),
        ("status is not changed this way", "/status", json!({"replicas": 7}), 1),
        ("nor is the count itself", "/metadata/generation", json!(9), 1),
    ];
    for (reason, pointer, value, want) in cases {
        let new = with(&stored, &[(pointer, value)]);
        let updated = update("apps", "Deployment", &stored, new).expect(reason);
        assert_eq!(updated["metadata"]["generation"], want, "{reason}");
        assert_eq!(updated["status"], json!({}), "{reason}");
    }
}

#[test]
fn kinds_without_a_generation_have_none() {
    let counted: Vec<_> = crate::builtin::table::STRATEGIES
        .iter()
        .filter(|strategy| strategy.has_generation)
        .map(|strategy| strategy.kind)
        .collect();
    assert_eq!(
        counted,
        [
            "Pod",
            "EndpointSlice",
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
            "DaemonSet",
            "Ingress",
            "IngressClass",
            "NetworkPolicy",
            "PodDisruptionBudget",
        ]
    );
    let stored = create("", "Service", service()).expect("valid");
    assert_eq!(stored["metadata"].get("generation"), None);
    let given = create("", "Service", with(&service(), &[("/metadata/generation", json!(4))]));
    assert_eq!(given.expect("valid")["metadata"]["generation"], 4, "it means nothing, and stays");
}

#[test]
fn writing_status_leaves_the_rest_alone() {
    let stored = create("apps", "Deployment", deployment()).expect("valid");
    let mut new = with(
        &stored,
        &[
            ("/spec/replicas", json!(9)),
            ("/metadata/labels", json!({})),
            ("/status", json!({"replicas": 1, "readyReplicas": 0, "observedGeneration": 1})),
        ],
    );
    of("apps", "Deployment").prepare_status_update(&mut new, &stored);
    assert_eq!(of("apps", "Deployment").validate_status_update(&new, &stored), []);
    assert_eq!(new["spec"], stored["spec"]);
    assert_eq!(new["metadata"], stored["metadata"]);
    assert_eq!(new["status"], json!({"replicas": 1, "observedGeneration": 1}));

    let wrong = with(&new, &[("/status/availableReplicas", json!(2))]);
    assert_eq!(
        texts(&of("apps", "Deployment").validate_status_update(&wrong, &stored)),
        [
            "status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
        ]
    );
}

#[test]
fn metadata_that_the_server_owns_survives_an_update() {
    let mut stored =
        create("", "ConfigMap", json!({"metadata": {"name": "c", "namespace": "shop"}}))
            .expect("valid");
    stored["metadata"]["uid"] = json!("u1");
    stored["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    stored["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    stored["metadata"]["finalizers"] = json!(["example.com/a"]);
    let sent = json!({"metadata": {
        "name": "c", "namespace": "shop", "creationTimestamp": "2000-01-01T00:00:00Z",
        "finalizers": ["example.com/a"]}});
    let updated = update("", "ConfigMap", &stored, sent.clone()).expect("valid");
    assert_eq!(updated["metadata"], stored["metadata"]);

    let cases = [
        (
            "another object",
            ("/metadata/uid", json!("u2")),
            "metadata.uid: Invalid value: \"u2\": field is immutable",
        ),
        (
            "a finalizer after deletion began",
            ("/metadata/finalizers", json!(["example.com/a", "example.com/b"])),
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
             deleted, found new finalizers []string{\"example.com/b\"}",
        ),
        (
            "another name",
            ("/metadata/name", json!("d")),
            "metadata.name: Invalid value: \"d\": field is immutable",
        ),
    ];
    for (reason, change, want) in cases {
        let got = update("", "ConfigMap", &stored, with(&sent, &[change]));
        assert_eq!(got, Err(vec![want.to_owned()]), "{reason}");
    }
}

#[test]
fn leases_and_budgets_are_not_overwritten_blindly() {
    let lease = json!({"metadata": {"name": "l", "namespace": "shop"}, "spec": {}});
    let stored = create("coordination.k8s.io", "Lease", lease.clone()).expect("valid");
    let want = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    let got = update("coordination.k8s.io", "Lease", &stored, lease);
    assert_eq!(got, Err(vec![want.to_owned()]));
}

#[test]
fn a_daemon_set_counts_versions_of_its_template() {
    let generation = |object: &Value| {
        object["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    let stored = create("apps", "DaemonSet", deployment()).expect("valid");
    assert_eq!(generation(&stored), "1");
    let image = ("/spec/template/spec/containers/0/image", json!("web:2"));
    let updated = update("apps", "DaemonSet", &stored, with(&deployment(), &[image])).expect("ok");
    assert_eq!(generation(&updated), "2");
    assert_eq!(updated["metadata"]["generation"], 2);
}

#[test]
fn a_service_keeps_what_it_was_given() {
    let mut stored =
        create("", "Service", with(&service(), &[("/spec/type", json!("NodePort"))])).expect("ok");
    assert!(service_needs_cluster_ip(&stored));
    assert!(service_needs_node_ports(&stored));
    crate::builtin::set_cluster_ip(&mut stored, "10.96.0.9");
    let slots = service_node_port_slots(&stored);
    let slot = NodePortSlot { index: Some(0), protocol: "TCP".to_owned(), wanted: None };
    assert_eq!(slots, std::slice::from_ref(&slot));
    set_node_port(&mut stored, &slot, 30123);

    let sent = with(&service(), &[("/spec/type", json!("NodePort"))]);
    let updated = update("", "Service", &stored, sent).expect("valid");
    assert_eq!(updated["spec"]["clusterIP"], "10.96.0.9");
    assert_eq!(updated["spec"]["ports"][0]["nodePort"], 30123);
    assert!(!service_needs_cluster_ip(&updated));
    let mut again = updated.clone();
    keep_addresses(&mut again, &stored);
    assert_eq!(again, updated);

    let back = update("", "Service", &stored, service()).expect("valid");
    assert_eq!(
        back["spec"]["ports"][0].get("nodePort"),
        None,
        "a cluster service has no node port"
    );
    assert_eq!(back["spec"].get("externalTrafficPolicy"), None);
    assert_eq!(back["spec"]["clusterIP"], "10.96.0.9");
}

#[test]
fn an_external_name_needs_no_address() {
    let sent = json!({"metadata": {"name": "x", "namespace": "shop"},
                      "spec": {"type": "ExternalName", "externalName": "example.com"}});
    let stored = create("", "Service", sent).expect("valid");
    assert!(!service_needs_cluster_ip(&stored));
    assert_eq!(
        stored["spec"],
        json!({"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"})
    );
    let headless = with(&service(), &[("/spec/clusterIP", json!("None"))]);
    let stored = create("", "Service", headless).expect("valid");
    assert!(!service_needs_cluster_ip(&stored));
    assert_eq!(stored["spec"]["clusterIPs"], json!(["None"]));
}

#[test]
fn pods_are_classed_by_what_they_ask_for() {
    let of_resources =
        |resources: Value| qos_class(&json!({"spec": {"containers": [{"resources": resources}]}}));
    assert_eq!(of_resources(json!({})), "BestEffort");
    assert_eq!(of_resources(json!({"requests": {"cpu": "1"}})), "Burstable");
    let all = json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(of_resources(json!({"requests": all, "limits": all})), "Guaranteed");
    let spelled = json!({"cpu": "1000m", "memory": "1024Mi"});
    assert_eq!(of_resources(json!({"requests": spelled, "limits": all})), "Guaranteed");
}

#[test]
fn kinds_behave_as_their_flags_say() {
    let deployment = of("apps", "Deployment");
    assert!(of("", "Pod").graceful_delete);
    assert!(
        of("", "Event").allow_create_on_update
            && of("coordination.k8s.io", "Lease").allow_create_on_update
    );
    assert!(!deployment.allow_create_on_update && deployment.allow_unconditional_update);
    assert!(strategy("flagger.app", "Canary").is_none());
}

#[test]
fn warnings_are_those_of_kubernetes() {
    let mut named = deployment();
    named["metadata"]["name"] = json!("web.v1");
    named["spec"]["template"]["spec"]["containers"][0]["env"] = json!([
        {"name": "A", "value": "1"}, {"name": "A", "value": "2"},
        {"name": "A", "value": "$(A)x"},
    ]);
    assert_eq!(
        of("apps", "Deployment").warnings(&named),
        [
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising \
             behavior; a DNS label is recommended: [must not contain dots]",
            "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", which may \
             be dropped when using apply",
        ]
    );
}
