//! Validation errors of small kinds: configuration, RBAC, budgets, leases, events, namespaces,
//! nodes.

use super::*;

const RBAC: &str = "rbac.authorization.k8s.io";

fn named(more: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "x", "namespace": "shop"}});
    for (key, value) in more.as_object().expect("an object") {
        object[key] = value.clone();
    }
    object
}

#[test]
fn configuration_is_held_to_its_rules() {
    let bad_key = |key: &str| {
        format!(
            "data[{key}]: Invalid value: \"{key}\": a valid config key must consist of alphanumeric \
             characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex \
             used for validation is '[-._a-zA-Z0-9]+')"
        )
    };
    let big = "x".repeat(1024 * 1024 + 1);
    refusals(
        "",
        "ConfigMap",
        &named(&json!({"data": {}})),
        &[
            ("keys are file names", "/data", json!({"a b": "1"}), &[&bad_key("a b")]),
            ("keys are unique", "/data", json!({"a": "1"}), &[]),
            (
                "there is a limit",
                "/data",
                json!({"a": big}),
                &[": Too long: may not be more than 1048576 bytes"],
            ),
        ],
    );
    refusals(
        "",
        "Secret",
        &named(&json!({"type": "Opaque"})),
        &[
            (
                "a TLS secret has a pair",
                "/type",
                json!("kubernetes.io/tls"),
                &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
            ),
            (
                "a login has a name or a password",
                "/type",
                json!("kubernetes.io/basic-auth"),
                &["data[username]: Required value", "data[password]: Required value"],
            ),
            (
                "a token belongs to an account",
                "/type",
                json!("kubernetes.io/service-account-token"),
                &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
        ],
    );
}

#[test]
fn what_is_frozen_stays() {
    let frozen = "field is immutable when `immutable` is set";
    for kind in ["ConfigMap", "Secret"] {
        let sent = named(&json!({"immutable": true, "data": {"a": "MQ=="}}));
        let stored = create("", kind, sent.clone()).expect("valid");
        let changed = with(&sent, &[("/data", json!({"a": "Mg=="}))]);
        let want = format!("data: Forbidden: {frozen}");
        assert_eq!(update("", kind, &stored, changed), Err(vec![want]), "{kind}");
        let thawed = with(&sent, &[("/immutable", json!(false))]);
        let want = format!("immutable: Forbidden: {frozen}");
        assert_eq!(update("", kind, &stored, thawed), Err(vec![want]), "{kind}");
    }
    let stored = create("", "Secret", named(&json!({}))).expect("valid");
    let other = named(&json!({"type": "example.com/other"}));
    assert_eq!(
        update("", "Secret", &stored, other),
        Err(vec!["type: Invalid value: \"example.com/other\": field is immutable".to_owned()])
    );
}

#[test]
fn roles_are_held_to_their_rules() {
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    refusals(
        RBAC,
        "Role",
        &named(&json!({"rules": [rule]})),
        &[
            (
                "a rule allows something",
                "/rules/0",
                json!({"apiGroups": [""], "resources": ["pods"]}),
                &["rules[0].verbs: Required value: verbs must contain at least one value"],
            ),
            (
                "to something",
                "/rules/0",
                json!({"verbs": ["get"]}),
                &[
                    "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                    "rules[0].resources: Required value: resource rules must supply at least one resource",
                ],
            ),
            (
                "in its namespace",
                "/rules/0",
                json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
                &[
                    "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to \
             non-resource URLs",
                ],
            ),
            ("names are nearly free", "/metadata/name", json!("system:Role"), &[]),
            (
                "but stay in a path",
                "/metadata/name",
                json!("a/b"),
                &["metadata.name: Invalid value: \"a/b\": may not contain '/'"],
            ),
        ],
    );
}

#[test]
fn bindings_are_held_to_their_rules() {
    let binding = named(&json!({"roleRef": {"kind": "Role", "name": "r"}}));
    refusals(
        RBAC,
        "RoleBinding",
        &binding,
        &[
            (
                "a role is named",
                "/roleRef",
                json!({"kind": "Role"}),
                &["roleRef.name: Required value"],
            ),
            (
                "roles are of two kinds",
                "/roleRef/kind",
                json!("Group"),
                &[
                    "roleRef.kind: Unsupported value: \"Group\": supported values: \"Role\", \"ClusterRole\"",
                ],
            ),
            (
                "subjects are of three",
                "/subjects",
                json!([{"kind": "Pod", "name": "p"}]),
                &[
                    "subjects[0].kind: Unsupported value: \"Pod\": supported values: \"ServiceAccount\", \
             \"User\", \"Group\"",
                ],
            ),
        ],
    );
    let stored = create(RBAC, "RoleBinding", binding.clone()).expect("valid");
    let other = with(&binding, &[("/roleRef/name", json!("s"))]);
    assert_eq!(
        update(RBAC, "RoleBinding", &stored, other),
        Err(vec![
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\
             \"Name\":\"s\"}: cannot change roleRef".to_owned()
        ])
    );
}

#[test]
fn budgets_and_leases_are_held_to_their_rules() {
    refusals(
        "policy",
        "PodDisruptionBudget",
        &named(&json!({"spec": {"minAvailable": 1}})),
        &[
            (
                "one bound",
                "/spec/maxUnavailable",
                json!(1),
                &[
                    "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":1,\
             \"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both \
             set",
                ],
            ),
            (
                "a share of all",
                "/spec/minAvailable",
                json!("150%"),
                &["spec.minAvailable: Invalid value: \"150%\": must not be greater than 100%"],
            ),
        ],
    );
    refusals(
        "coordination.k8s.io",
        "Lease",
        &named(&json!({"spec": {}})),
        &[
            (
                "a lease lasts",
                "/spec/leaseDurationSeconds",
                json!(0),
                &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
            ),
            (
                "transitions are counted",
                "/spec/leaseTransitions",
                json!(-1),
                &["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
            ),
        ],
    );
}

#[test]
fn events_are_about_something_in_their_namespace() {
    let base = named(&json!({"involvedObject": {"namespace": "shop", "name": "web"}}));
    refusals(
        "",
        "Event",
        &base,
        &[
            (
                "of another namespace",
                "/involvedObject/namespace",
                json!("other"),
                &[
                    "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace",
                ],
            ),
            (
                "a timed event says who and why",
                "/eventTime",
                json!("2026-01-01T00:00:00.000000Z"),
                &[
                    "reportingComponent: Required value",
                    "reportingComponent: Invalid value: \"\": name part must be non-empty",
                    "reportingComponent: Invalid value: \"\": name part must consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                    "reportingInstance: Required value",
                    "action: Required value",
                    "reason: Required value",
                ],
            ),
        ],
    );
    let new = named(&json!({
        "regarding": {"namespace": "shop", "name": "web"}, "type": "Normal", "reason": "Synced",
        "action": "Sync", "reportingController": "tidegate", "reportingInstance": "tidegate-0",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }));
    let core = crate::builtin::event_to_core(&new);
    assert_eq!(core["involvedObject"]["name"], "web");
    assert_eq!(core["reportingComponent"], "tidegate");
    assert_eq!(crate::builtin::event_from_core(&core)["reportingController"], "tidegate");
    refusals(
        "events.k8s.io",
        "Event",
        &new,
        &[(
            "types are two",
            "/type",
            json!("Odd"),
            &["type: Invalid value: \"\": has invalid value: Odd"],
        )],
    );
}

#[test]
fn namespaces_and_nodes_are_held_to_their_rules() {
    refusals(
        "",
        "Namespace",
        &json!({"metadata": {"name": "shop"}}),
        &[
            (
                "a name is a label",
                "/metadata/name",
                json!("a.b"),
                &["metadata.name: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                "it is in no namespace",
                "/metadata/namespace",
                json!("x"),
                &["metadata.namespace: Forbidden: not allowed on this type"],
            ),
        ],
    );
    let node = json!({"metadata": {"name": "n1"}, "spec": {}});
    refusals(
        "",
        "Node",
        &node,
        &[
            (
                "taints have effects",
                "/spec/taints",
                json!([{"key": "a"}]),
                &["metadata.taints[0].effect: Required value"],
            ),
            (
                "once",
                "/spec/taints",
                json!([{"key": "a", "effect": "NoSchedule"},
                                        {"key": "a", "effect": "NoSchedule"}]),
                &[
                    "metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints \
             must be unique by key and effect pair",
                ],
            ),
        ],
    );
    let mut registering = node.clone();
    registering["status"] = json!({"capacity": {"cpu": "4"}});
    let stored = create("", "Node", registering).expect("valid");
    assert_eq!(stored["status"]["allocatable"], json!({"cpu": "4"}), "a node describes itself");

    let terminating = json!({"metadata": {"name": "shop"}, "status": {"phase": "Terminating"}});
    assert_eq!(
        texts(&of("", "Namespace").validate_status_update(&terminating, &terminating)),
        ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if \
          `deletionTimestamp` is empty"]
    );
}

#[test]
fn a_claim_asks_for_storage() {
    let claim = named(&json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
    refusals(
        "",
        "PersistentVolumeClaim",
        &claim,
        &[
            ("some", "/spec/resources", json!({}), &["spec.resources[storage]: Required value"]),
            (
                "in some way",
                "/spec/accessModes",
                json!([]),
                &["spec.accessModes: Required value: at least 1 access mode is required"],
            ),
        ],
    );
    let stored = create("", "PersistentVolumeClaim", claim.clone()).expect("valid");
    assert_eq!(stored["status"], json!({"phase": "Pending"}));
    let bound = with(&claim, &[("/spec/volumeName", json!("pv-1"))]);
    assert!(update("", "PersistentVolumeClaim", &stored, bound).is_ok());
    let other = with(&claim, &[("/spec/accessModes", json!(["ReadWriteMany"]))]);
    assert!(update("", "PersistentVolumeClaim", &stored, other).is_err());
}
