//! Validation errors of Services, endpoints, Ingresses and `NetworkPolicies`.

use super::*;

#[test]
fn a_service_is_held_to_its_rules() {
    refusals(
        "",
        "Service",
        &service(),
        &[
            ("it has ports", "/spec/ports", json!([]), &["spec.ports: Required value"]),
            ("unless it is headless", "/spec", json!({"clusterIP": "None"}), &[]),
            (
                "several ports have names",
                "/spec/ports",
                json!([{"port": 80}, {"port": 81}]),
                &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
            ),
            (
                "of their own",
                "/spec/ports",
                json!([{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
                &["spec.ports[1].name: Duplicate value: \"a\""],
            ),
            (
                "and numbers of their own",
                "/spec/ports",
                json!([{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]),
                &["spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\
                 \"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}"],
            ),
            (
                "ports are ports",
                "/spec/ports",
                json!([{"port": 0, "targetPort": 80}]),
                &["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"],
            ),
            (
                "targets are ports or names",
                "/spec/ports",
                json!([{"port": 80, "targetPort": "HTTP"}]),
                &[
                    "spec.ports[0].targetPort: Invalid value: \"HTTP\": must contain only alpha-numeric \
                 characters (a-z, 0-9), and hyphens (-)",
                    "spec.ports[0].targetPort: Invalid value: \"HTTP\": must contain at least one letter \
                 (a-z)",
                ],
            ),
        ],
    );
}

#[test]
fn addresses_and_types_of_services_are_held_to_their_rules() {
    refusals(
        "",
        "Service",
        &service(),
        &[
            (
                "types are known",
                "/spec/type",
                json!("Mesh"),
                &["spec.type: Unsupported value: \"Mesh\": supported values: \"ClusterIP\", \
                 \"ExternalName\", \"LoadBalancer\", \"NodePort\""],
            ),
            (
                "node ports need a type",
                "/spec/ports",
                json!([{"port": 80, "nodePort": 30080}]),
                &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
            ),
            (
                "node ports have a range",
                "/spec",
                json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
                &["spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid \
                 range. The range of valid ports is 30000-32767"],
            ),
            (
                "affinity is known",
                "/spec/sessionAffinity",
                json!("Cookie"),
                &["spec.sessionAffinity: Unsupported value: \"Cookie\": supported values: \
                 \"ClientIP\", \"None\""],
            ),
            (
                "an external name is a name",
                "/spec",
                json!({"type": "ExternalName"}),
                &["spec.externalName: Required value"],
            ),
            (
                "an address is an address",
                "/spec/clusterIP",
                json!("10.96"),
                &[
                    "spec.clusterIPs[0]: Invalid value: \"10.96\": must be a valid IP address, (e.g. \
                 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (
                "only what is reached from outside has a policy for it",
                "/spec/externalTrafficPolicy",
                json!("Local"),
                &["spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for \
                 externally-accessible services"],
            ),
            ("names may start with a digit since 1.36", "/metadata/name", json!("1web"), &[]),
        ],
    );
}

#[test]
fn a_service_does_not_move() {
    let mut stored = create("", "Service", service()).expect("valid");
    crate::builtin::set_cluster_ip(&mut stored, "10.96.0.9");
    let moved = with(&service(), &[("/spec/clusterIP", json!("10.96.0.10"))]);
    assert_eq!(
        update("", "Service", &stored, moved),
        Err(vec![
            "spec.clusterIPs[0]: Invalid value: [\"10.96.0.10\"]: may not change once set"
                .to_owned()
        ])
    );
    let headless = with(&service(), &[("/spec/clusterIP", json!("None"))]);
    assert_eq!(
        update("", "Service", &stored, headless),
        Err(vec![
            "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set".to_owned()
        ])
    );
}

#[test]
fn endpoints_are_reachable_addresses() {
    let base = json!({
        "metadata": {"name": "web", "namespace": "shop"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}],
    });
    refusals(
        "discovery.k8s.io",
        "EndpointSlice",
        &base,
        &[
            ("a type is needed", "/addressType", json!(null), &["addressType: Required value"]),
            (
                "and known",
                "/addressType",
                json!("MAC"),
                &[
                    "addressType: Unsupported value: \"MAC\": supported values: \"FQDN\", \"IPv4\", \
                 \"IPv6\"",
                ],
            ),
            (
                "an address at least",
                "/endpoints/0",
                json!({"addresses": []}),
                &["endpoints[0].addresses: Required value: must contain at least 1 address"],
            ),
            (
                "not the loopback",
                "/endpoints/0/addresses",
                json!(["127.0.0.1"]),
                &[
                    "endpoints[0].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback \
                 range (127.0.0.0/8, ::1/128)",
                ],
            ),
            (
                "of the type",
                "/endpoints/0/addresses",
                json!(["2001:db8::1"]),
                &[
                    "endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address",
                ],
            ),
            (
                "ports have names of their own",
                "/ports",
                json!([{"port": 80}, {"port": 81}]),
                &["ports[1].name: Duplicate value: \"\""],
            ),
        ],
    );
    let stored = create("discovery.k8s.io", "EndpointSlice", base.clone()).expect("valid");
    let other = with(
        &base,
        &[("/addressType", json!("IPv6")), ("/endpoints/0/addresses", json!(["2001:db8::1"]))],
    );
    assert_eq!(
        update("discovery.k8s.io", "EndpointSlice", &stored, other),
        Err(vec!["addressType: Invalid value: \"IPv6\": field is immutable".to_owned()])
    );
    let endpoints = json!({"metadata": {"name": "web", "namespace": "shop"},
                           "subsets": [{"addresses": [{"ip": "169.254.1.1"}], "ports": [{"port": 80}]}]});
    assert_eq!(
        create("", "Endpoints", endpoints),
        Err(vec![
            "subsets[0].addresses[0].ip: Invalid value: \"169.254.1.1\": may not be in the \
             link-local range (169.254.0.0/16, fe80::/10)"
                .to_owned()
        ])
    );
}

/// The path of [`ingress`].
const PATH: &str = "/spec/rules/0/http/paths/0";

fn backend() -> Value {
    json!({"service": {"name": "web", "port": {"number": 80}}})
}

fn ingress() -> Value {
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend()});
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"rules": [{"host": "web.example.com", "http": {"paths": [path]}}]},
    })
}

#[test]
fn an_ingress_leads_somewhere() {
    refusals(
        "networking.k8s.io",
        "Ingress",
        &ingress(),
        &[
            (
                "rules or a backend",
                "/spec",
                json!({}),
                &[
                    "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
                ],
            ),
            (
                "a path has a type",
                PATH,
                json!({"path": "/", "backend": backend()}),
                &[
                    "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
                ],
            ),
            (
                "which is known",
                PATH,
                json!({"path": "/", "pathType": "Regex", "backend": backend()}),
                &["spec.rules[0].http.paths[0].pathType: Unsupported value: \"Regex\": supported \
                 values: \"Exact\", \"ImplementationSpecific\", \"Prefix\""],
            ),
            (
                "it is absolute",
                PATH,
                json!({"path": "a", "pathType": "Exact", "backend": backend()}),
                &[
                    "spec.rules[0].http.paths[0].path: Invalid value: \"a\": must be an absolute path",
                ],
            ),
        ],
    );
}

#[test]
fn a_path_of_an_ingress_has_a_backend() {
    refusals(
        "networking.k8s.io",
        "Ingress",
        &ingress(),
        &[
            (
                "and does not climb",
                PATH,
                json!({"path": "/a/../b", "pathType": "Prefix", "backend": backend()}),
                &[
                    "spec.rules[0].http.paths[0].path: Invalid value: \"/a/../b\": must not contain \
                 '/../'",
                ],
            ),
            (
                "a backend is one",
                PATH,
                json!({"path": "/", "pathType": "Prefix"}),
                &["spec.rules[0].http.paths[0].backend: Invalid value: \"\": resource or service \
                 backend is required"],
            ),
            (
                "with a port",
                PATH,
                json!({"path": "/", "pathType": "Prefix",
             "backend": {"service": {"name": "web"}}}),
                &["spec.rules[0].http.paths[0].backend: Required value: port name or number is \
                 required"],
            ),
            (
                "a host is a name",
                "/spec/rules/0/host",
                json!("10.0.0.1"),
                &[
                    "spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP \
                 address",
                ],
            ),
            ("or a wildcard", "/spec/rules/0/host", json!("*.example.com"), &[]),
        ],
    );
}

#[test]
fn a_network_policy_names_peers() {
    let base = json!({"metadata": {"name": "x", "namespace": "shop"}, "spec": {
        "podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}});
    refusals(
        "networking.k8s.io",
        "NetworkPolicy",
        &base,
        &[
            (
                "a peer is someone",
                "/spec/ingress/0/from",
                json!([{}]),
                &["spec.ingress[0].from[0]: Required value: must specify a peer"],
            ),
            (
                "pods or addresses",
                "/spec/ingress/0/from",
                json!([{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]),
                &[
                    "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
                ],
            ),
            (
                "exceptions are within",
                "/spec/ingress/0/from",
                json!([{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]),
                &[
                    "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be \
                 a strict subset of `cidr`",
                ],
            ),
        ],
    );
}
