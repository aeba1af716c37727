//! Validation errors of Pods, their containers and their updates.

use super::*;

/// The container of [`pod`].
const FIRST: &str = "/spec/containers/0";

/// The same container with more fields.
fn container(more: &Value) -> Value {
    let mut container = pod()["spec"]["containers"][0].clone();
    for (key, value) in more.as_object().expect("an object") {
        container[key] = value.clone();
    }
    container
}

#[test]
fn containers_are_held_to_their_rules() {
    refusals(
        "",
        "Pod",
        &pod(),
        &[
            (
                "there must be one",
                "/spec/containers",
                json!([]),
                &["spec.containers: Required value"],
            ),
            (
                "with a name and an image",
                FIRST,
                json!({}),
                &[
                    "spec.containers[0].name: Required value",
                    "spec.containers[0].image: Required value",
                ],
            ),
            (
                "named once",
                "/spec/containers/1",
                json!({"name": "web", "image": "a:1"}),
                &["spec.containers[1].name: Duplicate value: \"web\""],
            ),
            (
                "named as a host is",
                FIRST,
                container(&json!({"name": "a.b"})),
                &["spec.containers[0].name: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                "an image is not padded",
                FIRST,
                container(&json!({"image": " web"})),
                &["spec.containers[0].image: Invalid value: \" web\": must not have leading or \
                 trailing whitespace"],
            ),
        ],
    );
}

#[test]
fn ports_of_containers_are_held_to_their_rules() {
    refusals(
        "",
        "Pod",
        &pod(),
        &[
            (
                "ports are ports",
                FIRST,
                container(&json!({"ports": [{"containerPort": 70000}]})),
                &[
                    "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 \
                 and 65535, inclusive",
                ],
            ),
            (
                "and have a number",
                FIRST,
                container(&json!({"ports": [{"name": "http"}]})),
                &["spec.containers[0].ports[0].containerPort: Required value"],
            ),
            (
                "port names are unique",
                FIRST,
                container(&json!({"ports": [
                {"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]})),
                &["spec.containers[0].ports[1].name: Duplicate value: \"a\""],
            ),
            (
                "protocols are known",
                FIRST,
                container(&json!({"ports": [{"containerPort": 1, "protocol": "QUIC"}]})),
                &["spec.containers[0].ports[0].protocol: Unsupported value: \"QUIC\": supported \
                 values: \"SCTP\", \"TCP\", \"UDP\""],
            ),
        ],
    );
}

#[test]
fn variables_and_mounts_are_held_to_their_rules() {
    refusals(
        "",
        "Pod",
        &pod(),
        &[
            (
                "variables have names",
                FIRST,
                container(&json!({"env": [{"name": "A=B"}]})),
                &["spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment \
                 variable name must consist only of printable ASCII characters other than '='"],
            ),
            (
                "a value or a source",
                FIRST,
                container(&json!({"env": [{"name": "A", "value": "1",
             "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]})),
                &[
                    "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified \
                 when `value` is not empty",
                ],
            ),
            (
                "a field that can be had",
                FIRST,
                container(&json!({"env": [{"name": "A",
             "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]})),
                &["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \
                 \"status.phase\": supported values: \"metadata.name\", \"metadata.namespace\", \
                 \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \
                 \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\""],
            ),
            (
                "a label of its own",
                FIRST,
                container(&json!({"env": [{"name": "A",
             "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}]})),
                &[],
            ),
            (
                "mounts name volumes",
                FIRST,
                container(&json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
                &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
            ),
        ],
    );
}

#[test]
fn resources_are_held_to_their_rules() {
    refusals(
        "",
        "Pod",
        &pod(),
        &[
            (
                "asking for more than the limit",
                FIRST,
                container(
                    &json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}),
                ),
                &[
                    "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or \
                 equal to cpu limit of 1",
                ],
            ),
            (
                "amounts are not negative",
                FIRST,
                container(&json!({"resources": {"requests": {"memory": "-1"}}})),
                &["spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be \
                 greater than or equal to 0"],
            ),
            (
                "resources are known",
                FIRST,
                container(&json!({"resources": {"requests": {"gpu": "1"}}})),
                &[
                    "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a \
                 standard resource type or fully qualified",
                    "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a \
                 standard resource for containers",
                ],
            ),
        ],
    );
}

#[test]
fn probes_and_hooks_are_held_to_their_rules() {
    refusals(
        "",
        "Pod",
        &pod(),
        &[
            (
                "a probe does something",
                FIRST,
                container(&json!({"livenessProbe": {}})),
                &["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
            ),
            (
                "one thing",
                FIRST,
                container(&json!({"readinessProbe":
             {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}})),
                &[
                    "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than \
                 1 handler type",
                ],
            ),
            (
                "alive at the first answer",
                FIRST,
                container(&json!({"livenessProbe":
             {"tcpSocket": {"port": 80}, "successThreshold": 2}})),
                &["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
            ),
            (
                "sleep within the grace period",
                FIRST,
                container(&json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
                &["spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be \
                 non-negative and less than terminationGracePeriodSeconds (30)"],
            ),
            (
                "pull policies are known",
                FIRST,
                container(&json!({"imagePullPolicy": "Sometimes"})),
                &[
                    "spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported \
                 values: \"Always\", \"IfNotPresent\", \"Never\"",
                ],
            ),
        ],
    );
}

#[test]
fn pod_specs_are_held_to_their_rules() {
    refusals(
        "",
        "Pod",
        &pod(),
        &[
            (
                "restart policies are known",
                "/spec/restartPolicy",
                json!("Sometimes"),
                &["spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \
                 \"Always\", \"OnFailure\", \"Never\""],
            ),
            (
                "volumes are named once",
                "/spec/volumes",
                json!([{"name": "a"}, {"name": "a"}]),
                &["spec.volumes[1].name: Duplicate value: \"a\""],
            ),
            (
                "and are of one kind",
                "/spec/volumes",
                json!([{"name": "a", "emptyDir": {}, "configMap": {"name": "c"}}]),
                &["spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type"],
            ),
            (
                "a claim is named",
                "/spec/volumes",
                json!([{"name": "a",
             "persistentVolumeClaim": {}}]),
                &["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
            ),
            (
                "init containers end",
                "/spec/initContainers",
                json!([{"name": "i", "image": "i:1", "livenessProbe": {"tcpSocket": {"port": 1}}}]),
                &["spec.initContainers[0].livenessProbe: Forbidden: may not be set for init \
                 containers without restartPolicy=Always"],
            ),
        ],
    );
}

#[test]
fn scheduling_of_pods_is_held_to_its_rules() {
    refusals(
        "",
        "Pod",
        &pod(),
        &[
            (
                "names are shared",
                "/spec/initContainers",
                json!([{"name": "web", "image": "i:1"}]),
                &["spec.initContainers[0].name: Duplicate value: \"web\""],
            ),
            (
                "a toleration without a key tolerates all",
                "/spec/tolerations",
                json!([{"operator": "Equal", "effect": "NoSchedule"}]),
                &[
                    "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists \
                 when `key` is empty, which means \"match all values and all keys\"",
                ],
            ),
            (
                "readiness gates are named",
                "/spec/readinessGates",
                json!([{"conditionType": "a/b/c"}]),
                &[
                    "spec.readinessGates[0].conditionType: Invalid value: \"a/b/c\": a valid label key \
                 must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                 with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
                 used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an \
                 optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                ],
            ),
            (
                "a deadline is ahead",
                "/spec/activeDeadlineSeconds",
                json!(0),
                &[
                    "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, \
                 inclusive",
                ],
            ),
            (
                "a spread has a key",
                "/spec/topologySpreadConstraints",
                json!([{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]),
                &[
                    "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                ],
            ),
            (
                "debugging comes later",
                "/spec/ephemeralContainers",
                json!([{"name": "d", "image": "d:1"}]),
                &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
            ),
        ],
    );
}

#[test]
fn on_the_host_network_ports_are_the_hosts() {
    let mut host = pod();
    host["spec"]["hostNetwork"] = json!(true);
    host["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    let stored = create("", "Pod", host.clone()).expect("valid");
    assert_eq!(stored["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    host["spec"]["containers"][0]["ports"][0]["hostPort"] = json!(81);
    let want = "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match \
                `containerPort` when `hostNetwork` is true";
    assert_eq!(create("", "Pod", host), Err(vec![want.to_owned()]));
}

#[test]
fn a_pod_changes_little_once_it_is_made() {
    let stored = create("", "Pod", pod()).expect("valid");
    let forbidden = "spec: Forbidden: pod updates may not change fields other than \
                     `spec.containers[*].image`,`spec.initContainers[*].image`,\
                     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
                     tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if \
                     it was previously negative)\n- \tdnsPolicy: \"ClusterFirst\",\n+ \tdnsPolicy: \
                     \"Default\",";
    let cases = [
        ("its image", "/spec/containers/0/image", json!("web:2"), None),
        ("a deadline", "/spec/activeDeadlineSeconds", json!(60), None),
        ("its labels", "/metadata/labels", json!({"a": "b"}), None),
        (
            "one more toleration",
            "/spec/tolerations/2",
            json!({"key": "a", "operator": "Exists"}),
            None,
        ),
        ("without the tolerations it was given", "/spec/tolerations", json!([]), None),
        (
            "a toleration it was given, made another",
            "/spec/tolerations/0",
            json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists"}),
            Some(
                "spec.tolerations: Forbidden: existing toleration can not be modified except its \
             tolerationSeconds",
            ),
        ),
        ("where names are looked up", "/spec/dnsPolicy", json!("Default"), Some(forbidden)),
        (
            "one container more",
            "/spec/containers/1",
            json!({"name": "b", "image": "b:1"}),
            Some("spec.containers: Forbidden: pod updates may not add or remove containers"),
        ),
    ];
    for (reason, pointer, value, want) in cases {
        let got = update("", "Pod", &stored, with(&stored, &[(pointer, value)]));
        assert_eq!(got.err(), want.map(|text| vec![text.to_owned()]), "{reason}");
    }
}

#[test]
fn the_kubelet_writes_status_and_nothing_else() {
    let stored = create("", "Pod", pod()).expect("valid");
    let mut new = with(
        &stored,
        &[
            ("/spec/nodeName", json!("n2")),
            ("/status", json!({"phase": "Running", "podIP": "10.0.0.3"})),
        ],
    );
    of("", "Pod").prepare_status_update(&mut new, &stored);
    assert_eq!(new["spec"], stored["spec"]);
    assert_eq!(
        new["status"],
        json!({"phase": "Running", "podIP": "10.0.0.3", "podIPs": [{"ip": "10.0.0.3"}],
               "qosClass": "BestEffort"})
    );
    assert_eq!(of("", "Pod").validate_status_update(&new, &stored), []);
    let other = with(&new, &[("/status/qosClass", json!("Guaranteed"))]);
    assert_eq!(
        texts(&of("", "Pod").validate_status_update(&other, &stored)),
        ["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"]
    );
}

#[test]
fn tolerations_that_cover_a_failing_node_are_left_alone() {
    let own = json!([{"operator": "Exists"}]);
    let stored = create("", "Pod", with(&pod(), &[("/spec/tolerations", own.clone())]));
    assert_eq!(stored.expect("valid")["spec"]["tolerations"], own);
}
