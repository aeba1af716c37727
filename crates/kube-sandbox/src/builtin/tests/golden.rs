//! Whole objects as a 1.36 server stores them, derived from its defaulting rules by hand.

use super::*;

#[test]
fn kubectl_create_deployment_is_stored_with_every_default() {
    // The request of `kubectl create deployment web --image=nginx:1.27 --port=80`.
    let sent = json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default", "creationTimestamp": null,
                     "labels": {"app": "web"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "nginx", "image": "nginx:1.27",
                    "ports": [{"containerPort": 80}], "resources": {},
                }]},
            },
            "strategy": {},
        },
        "status": {},
    });
    let want = json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default", "generation": 1,
                     "labels": {"app": "web"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{
                        "name": "nginx", "image": "nginx:1.27",
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "imagePullPolicy": "IfNotPresent",
                    }],
                    "restartPolicy": "Always",
                    "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst",
                    "securityContext": {},
                    "schedulerName": "default-scheduler",
                },
            },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            },
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
        "status": {},
    });
    assert_eq!(create("apps", "Deployment", sent), Ok(want));
}

#[test]
fn a_pod_is_stored_with_what_admission_adds() {
    let mut sent = pod();
    sent["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 8080}});
    sent["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1000m"}});
    let tolerations = json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": 300},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": 300},
    ]);
    let want = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "shop", "generation": 1},
        "spec": {
            "containers": [{
                "name": "web", "image": "web:1", "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                "readinessProbe": {
                    "httpGet": {"port": 8080, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
                    "failureThreshold": 3,
                },
            }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst", "serviceAccountName": "default",
            "serviceAccount": "default", "securityContext": {},
            "schedulerName": "default-scheduler", "tolerations": tolerations, "priority": 0,
            "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    });
    assert_eq!(create("", "Pod", sent), Ok(want));
}

#[test]
fn a_service_is_stored_with_its_families_and_policies() {
    let mut sent = service();
    super::super::set_cluster_ip(&mut sent, "10.96.0.7");
    let want = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 80, "protocol": "TCP"}],
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        },
        "status": {"loadBalancer": {}},
    });
    assert_eq!(create("", "Service", sent), Ok(want));
}

#[test]
fn a_stateful_set_is_stored_with_its_claims() {
    let mut sent = deployment();
    sent["kind"] = json!("StatefulSet");
    sent["spec"]["serviceName"] = json!("web");
    sent["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
    }]);
    sent["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}]);
    let stored = create("apps", "StatefulSet", sent).expect("valid");
    let mut spec = stored["spec"].clone();
    spec.as_object_mut().expect("an object").remove("template");
    assert_eq!(
        spec,
        json!({
            "replicas": 1, "serviceName": "web", "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain", "whenScaled": "Retain",
            },
            "volumeClaimTemplates": [{
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem",
                },
                "status": {"phase": "Pending"},
            }],
        })
    );
    assert_eq!(stored["status"], json!({"replicas": 0, "availableReplicas": 0}));
}

#[test]
fn small_kinds_are_stored_with_their_defaults() {
    let meta = json!({"name": "x", "namespace": "shop"});
    let cases = [
        (
            "a namespace is Active, finalized and labelled with its name",
            ("", "Namespace"),
            json!({"metadata": {"name": "shop"}}),
            json!({
                "metadata": {"name": "shop", "labels": {"kubernetes.io/metadata.name": "shop"}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            }),
        ),
        (
            "plain text of a secret is encoded and wins over data",
            ("", "Secret"),
            json!({"metadata": meta, "data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"a": "x"}}),
            json!({"metadata": meta, "type": "Opaque", "data": {"a": "eA==", "b": "Mg=="}}),
        ),
        (
            "a disruption budget has counts",
            ("policy", "PodDisruptionBudget"),
            json!({"metadata": meta, "spec": {"minAvailable": 1}}),
            json!({
                "metadata": {"name": "x", "namespace": "shop", "generation": 1},
                "spec": {"minAvailable": 1},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0,
                           "expectedPods": 0},
            }),
        ),
        (
            "an endpoint has conditions, if empty ones",
            ("discovery.k8s.io", "EndpointSlice"),
            json!({"metadata": meta, "addressType": "IPv4",
                   "endpoints": [{"addresses": ["10.0.0.1"]}]}),
            json!({
                "metadata": {"name": "x", "namespace": "shop", "generation": 1},
                "addressType": "IPv4", "ports": null,
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}],
            }),
        ),
        (
            "a slice names its ports and says that it has no endpoints",
            ("discovery.k8s.io", "EndpointSlice"),
            json!({"metadata": meta, "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": []}),
            json!({
                "metadata": {"name": "x", "namespace": "shop", "generation": 1},
                "addressType": "IPv4", "ports": [{"port": 80, "name": "", "protocol": "TCP"}],
                "endpoints": null,
            }),
        ),
    ];
    for (reason, (group, kind), sent, want) in cases {
        assert_eq!(create(group, kind, sent), Ok(want), "{reason}");
    }
}

#[test]
fn rules_of_access_are_stored_with_their_defaults() {
    let meta = json!({"name": "x", "namespace": "shop"});
    let cases = [
        (
            "a binding's references are in the RBAC group",
            ("rbac.authorization.k8s.io", "RoleBinding"),
            json!({"metadata": meta, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
            json!({
                "metadata": meta,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "ServiceAccount", "name": "s"},
                ],
            }),
        ),
        (
            "a policy with egress rules has both types",
            ("networking.k8s.io", "NetworkPolicy"),
            json!({"metadata": meta, "spec": {"egress": [{"ports": [{"port": 53}]}]}}),
            json!({
                "metadata": {"name": "x", "namespace": "shop", "generation": 1},
                "spec": {
                    "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
                    "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
                },
            }),
        ),
    ];
    for (reason, (group, kind), sent, want) in cases {
        assert_eq!(create(group, kind, sent), Ok(want), "{reason}");
    }
}

#[test]
fn an_autoscaler_is_stored_with_its_defaults() {
    let meta = json!({"name": "x", "namespace": "shop"});
    let cases = [(
        "an autoscaler scales by CPU unless told otherwise",
        ("autoscaling", "HorizontalPodAutoscaler"),
        json!({"metadata": meta, "spec": {
                "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}}),
        json!({
            "metadata": meta,
            "spec": {
                "minReplicas": 1, "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 80}}}],
                "behavior": {
                    "scaleUp": {
                        "stabilizationWindowSeconds": 0, "selectPolicy": "Max",
                        "policies": [
                            {"type": "Pods", "value": 4, "periodSeconds": 15},
                            {"type": "Percent", "value": 100, "periodSeconds": 15}],
                    },
                    "scaleDown": {
                        "stabilizationWindowSeconds": 60, "selectPolicy": "Max",
                        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                    },
                },
            },
            "status": {"desiredReplicas": 0, "currentMetrics": null},
        }),
    )];
    for (reason, (group, kind), sent, want) in cases {
        assert_eq!(create(group, kind, sent), Ok(want), "{reason}");
    }
}

#[test]
fn defaulting_twice_is_defaulting_once() {
    let samples = [
        ("apps", "Deployment", deployment()),
        ("apps", "DaemonSet", deployment()),
        ("apps", "StatefulSet", deployment()),
        ("", "Pod", pod()),
        ("", "Service", service()),
        ("", "Secret", json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}})),
        ("", "Event", json!({"metadata": {"name": "e"}})),
        ("", "Node", json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})),
    ];
    for (group, kind, mut object) in samples {
        of(group, kind).defaults(&mut object);
        let once = object.clone();
        of(group, kind).defaults(&mut object);
        // Fields written as null are dropped and written again.
        assert_eq!(object, once, "{kind}");
    }
}
