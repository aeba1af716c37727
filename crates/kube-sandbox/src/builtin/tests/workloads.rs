//! Validation errors of Deployments, `ReplicaSets`, `StatefulSets` and `DaemonSets`.

use super::*;

#[test]
fn a_deployment_is_held_to_its_rules() {
    let not_selected = "spec.template.metadata.labels: Invalid value: {\"app\":\"api\"}: `selector` \
                        does not match template `labels`";
    refusals(
        "apps",
        "Deployment",
        &deployment(),
        &[
            (
                "a selector is needed",
                "/spec/selector",
                json!(null),
                &[
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does \
                 not match template `labels`",
                ],
            ),
            (
                "an empty selector would own everything",
                "/spec/selector",
                json!({}),
                &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
            ),
            (
                "its pods must be its own",
                "/spec/template/metadata/labels",
                json!({"app": "api"}),
                &[not_selected],
            ),
            (
                "a template is needed",
                "/spec/template",
                json!(null),
                &[
                    "spec.template.metadata.labels: Invalid value: null: `selector` does not match \
                 template `labels`",
                    "spec.template.spec.containers: Required value",
                ],
            ),
            (
                "replicas are counted from zero",
                "/spec/replicas",
                json!(-1),
                &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
            ),
        ],
    );
}

#[test]
fn the_strategy_of_a_deployment_is_held_to_its_rules() {
    refusals(
        "apps",
        "Deployment",
        &deployment(),
        &[
            (
                "one of the two must move",
                "/spec/strategy",
                json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 \
                 when `maxSurge` is 0",
                ],
            ),
            (
                "a percentage has a sign",
                "/spec/strategy",
                json!({"rollingUpdate": {"maxSurge": "10"}}),
                &["spec.strategy.rollingUpdate.maxSurge: Invalid value: \"10\": a valid percent \
                 string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                 regex used for validation is '[0-9]+%')"],
            ),
            (
                "no more than all",
                "/spec/strategy",
                json!({"rollingUpdate": {"maxUnavailable": "101%"}}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be \
                 greater than 100%",
                ],
            ),
            (
                "surge may be more than all",
                "/spec/strategy",
                json!({"rollingUpdate": {"maxSurge": "200%"}}),
                &[],
            ),
            (
                "recreating does not roll",
                "/spec/strategy",
                json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
                &[
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` \
                 is 'Recreate'",
                ],
            ),
            (
                "an unknown strategy",
                "/spec/strategy",
                json!({"type": "BlueGreen"}),
                &[
                    "spec.strategy: Unsupported value: {\"Type\":\"BlueGreen\",\"RollingUpdate\":null}: \
                 supported values: \"Recreate\", \"RollingUpdate\"",
                ],
            ),
        ],
    );
}

#[test]
fn pods_of_a_deployment_run_forever() {
    refusals(
        "apps",
        "Deployment",
        &deployment(),
        &[
            (
                "progress takes longer than readiness",
                "/spec/minReadySeconds",
                json!(600),
                &["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than \
                 minReadySeconds"],
            ),
            (
                "its pods run forever",
                "/spec/template/spec/restartPolicy",
                json!("Never"),
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \
                 \"Always\"",
                ],
            ),
            (
                "a selector's expressions are checked",
                "/spec/selector/matchExpressions",
                json!([{"key": "app", "operator": "In"}]),
                &[
                    "spec.selector.matchExpressions[0].values: Required value: must be specified when \
                 `operator` is 'In' or 'NotIn'",
                    "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"web\"},\
                 \"matchExpressions\":[{\"key\":\"app\",\"operator\":\"In\"}]}: invalid label \
                 selector",
                ],
            ),
        ],
    );
}

#[test]
fn names_and_metadata_are_checked_on_creation() {
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                     characters, '-' or '.', and must start and end with an alphanumeric character \
                     (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let bad_name = format!("metadata.name: Invalid value: \"Web\": {subdomain}");
    refusals(
        "apps",
        "Deployment",
        &deployment(),
        &[
            ("a name is a subdomain", "/metadata/name", json!("Web"), &[&bad_name]),
            (
                "a name is needed",
                "/metadata/name",
                json!(null),
                &["metadata.name: Required value: name or generateName is required"],
            ),
            (
                "a namespace is needed",
                "/metadata/namespace",
                json!(null),
                &["metadata.namespace: Required value"],
            ),
            (
                "owners are named fully",
                "/metadata/ownerReferences",
                json!([{"apiVersion": "apps/v1", "kind": "X", "name": "", "uid": "1"}]),
                &["metadata.ownerReferences.name: Invalid value: \"\": must not be empty"],
            ),
            (
                "one controller at most",
                "/metadata/ownerReferences",
                json!([{"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
                    {"apiVersion": "b/v1", "kind": "B", "name": "b", "uid": "2", "controller": true}]),
                &[
                    "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"a/v1\",\"controller\":\
                 true,\"kind\":\"A\",\"name\":\"a\",\"uid\":\"1\"},{\"apiVersion\":\"b/v1\",\
                 \"controller\":true,\"kind\":\"B\",\"name\":\"b\",\"uid\":\"2\"}]: Only one \
                 reference can have Controller set to true. Found \"true\" in references for A/a \
                 and B/b",
                ],
            ),
            (
                "annotations have a limit",
                "/metadata/annotations",
                json!({"a": "x".repeat(256 * 1024)}),
                &["metadata.annotations: Too long: may not be more than 262144 bytes"],
            ),
            (
                "finalizers exclude each other",
                "/metadata/finalizers",
                json!(["orphan", "foregroundDeletion"]),
                &[
                    "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer \
                 orphan and foregroundDeletion cannot be both set",
                ],
            ),
        ],
    );
}

#[test]
fn selectors_never_change() {
    for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
        let stored = create("apps", kind, deployment()).expect("valid");
        let labels = json!({"app": "web", "tier": "a"});
        let new = with(
            &stored,
            &[
                ("/spec/selector", json!({"matchLabels": labels})),
                ("/spec/template/metadata/labels", labels.clone()),
            ],
        );
        let want = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"web\",\"tier\":\"a\"}}: \
                    field is immutable";
        assert_eq!(update("apps", kind, &stored, new), Err(vec![want.to_owned()]), "{kind}");
    }
}

#[test]
fn a_stateful_set_changes_only_what_it_can_roll_out() {
    let stored = create("apps", "StatefulSet", deployment()).expect("valid");
    let forbidden = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', \
                     'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', \
                     'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    let cases = [
        ("replicas", "/spec/replicas", json!(3), None),
        ("the image", "/spec/template/spec/containers/0/image", json!("web:2"), None),
        ("the partition", "/spec/updateStrategy/rollingUpdate/partition", json!(2), None),
        ("the service", "/spec/serviceName", json!("other"), Some(forbidden)),
        ("the order of pods", "/spec/podManagementPolicy", json!("Parallel"), Some(forbidden)),
        (
            "a partition below zero",
            "/spec/updateStrategy/rollingUpdate/partition",
            json!(-1),
            Some(
                "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater \
                 than or equal to 0",
            ),
        ),
    ];
    for (reason, pointer, value, want) in cases {
        let got = update("apps", "StatefulSet", &stored, with(&stored, &[(pointer, value)]));
        assert_eq!(got.err(), want.map(|text| vec![text.to_owned()]), "{reason}");
    }
}

#[test]
fn a_daemon_set_moves_one_way_at_a_time() {
    refusals(
        "apps",
        "DaemonSet",
        &deployment(),
        &[
            (
                "both",
                "/spec/updateStrategy",
                json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
                &[
                    "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when \
                 maxUnavailable is non-zero",
                ],
            ),
            (
                "neither",
                "/spec/updateStrategy",
                json!({"rollingUpdate": {"maxUnavailable": 0}}),
                &[
                    "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when \
                 maxSurge is 0",
                ],
            ),
            (
                "surge alone",
                "/spec/updateStrategy",
                json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
                &[],
            ),
        ],
    );
}

#[test]
fn a_revision_keeps_its_data() {
    let revision = json!({"metadata": {"name": "r", "namespace": "shop"}, "revision": 1,
                          "data": {"spec": {"paused": false}}});
    let stored = create("apps", "ControllerRevision", revision).expect("valid");
    assert_eq!(stored["data"]["spec"]["paused"], false, "data is not tidied");
    let new = with(&stored, &[("/data", json!({"a": 1}))]);
    let want = "data: Invalid value: {\"a\":1}: field is immutable";
    let got = update("apps", "ControllerRevision", &stored, new);
    assert_eq!(got, Err(vec![want.to_owned()]));
}

fn autoscaler() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    })
}

#[test]
fn an_autoscaler_is_held_to_its_rules() {
    refusals(
        "autoscaling",
        "HorizontalPodAutoscaler",
        &autoscaler(),
        &[
            (
                "at least one replica",
                "/spec/minReplicas",
                json!(0),
                &[
                    "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                    "spec.metrics: Forbidden: nothing but an Object or External metric tells when to leave zero",
                ],
            ),
            (
                "an upper bound is needed",
                "/spec/maxReplicas",
                json!(null),
                &[
                    "spec.maxReplicas: Required value: must be set and greater than 0",
                    "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
                ],
            ),
            (
                "the bounds are in order",
                "/spec/minReplicas",
                json!(5),
                &[
                    "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
                ],
            ),
            (
                "it scales something",
                "/spec/scaleTargetRef",
                json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
                &["spec.scaleTargetRef.name: Required value"],
            ),
        ],
    );
}

#[test]
fn metrics_of_an_autoscaler_have_targets() {
    let memory = |target: Value| json!([{"type": "Resource", "resource": {"name": "memory", "target": target}}]);
    refusals(
        "autoscaling",
        "HorizontalPodAutoscaler",
        &autoscaler(),
        &[
            (
                "a metric has a target",
                "/spec/metrics",
                memory(json!({"type": "Utilization"})),
                &["spec.metrics[0].resource.target.averageUtilization: Required value: must set \
                 either a target raw value or a target utilization"],
            ),
            (
                "one target",
                "/spec/metrics",
                memory(json!({"type": "Value", "averageUtilization": 1, "averageValue": "1"})),
                &[
                    "spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target \
                 raw value and a target utilization",
                ],
            ),
            (
                "a metric of its type",
                "/spec/metrics",
                json!([{"type": "Pods"}]),
                &["spec.metrics[0].pods: Required value: must populate information for the given \
                 metric source"],
            ),
            (
                "windows have an end",
                "/spec/behavior",
                json!({"scaleUp": {"stabilizationWindowSeconds": 3601}}),
                &[
                    "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be \
                 less than or equal to 3600",
                ],
            ),
        ],
    );
}
