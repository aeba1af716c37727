//! Ports of the generated Services, and how two lists of ports are compared.
//!
//! A Service names a port by number and protocol, clients also by name. So both have to be unique,
//! and a port keeps its node port by either.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_api::canary::Service;

use crate::workload::hash::is_same;

/// Containers that a mesh adds; their ports are not the workload's.
const SIDECARS: [&str; 2] = ["istio-proxy", "envoy"];
/// Longest name of a port.
const NAME_LENGTH_MAX: usize = 63;

/// The ports a canary's Services have: the one it names, and those of the containers if asked for.
pub(super) fn wanted(service: &Service, pod_spec: &Value) -> Vec<Value> {
    let mut main = json!({
        "name": service.port_name(),
        "protocol": "TCP",
        "port": service.port,
        "targetPort": service.target_port(),
    });
    if let Some(protocol) = service.app_protocol.as_deref().filter(|text| !text.is_empty()) {
        main["appProtocol"] = json!(protocol);
    }
    let mut ports = vec![main];
    if service.port_discovery == Some(true) {
        discover(pod_spec, &mut ports);
    }
    ports
}

/// Adds the ports of the containers, except the one that is covered.
///
/// Flagger calls every port TCP and may name two alike, which the API server refuses. Here the
/// protocol is kept, a port that is there already is passed by, and a name that is taken gets a
/// number.
fn discover(pod_spec: &Value, ports: &mut Vec<Value>) {
    let main_target = ports.first().map(|main| main["targetPort"].clone()).unwrap_or_default();
    let mut keys: BTreeSet<_> = ports.iter().map(|port| owned(key(port))).collect();
    let mut names: BTreeSet<_> = ports.iter().map(|port| name(port).to_owned()).collect();
    let containers = pod_spec["containers"].as_array().into_iter().flatten();
    for container in containers {
        let container_name = container["name"].as_str().unwrap_or_default();
        if SIDECARS.contains(&container_name) {
            continue;
        }
        let listed = container["ports"].as_array().into_iter().flatten();
        for (at, port) in listed.enumerate() {
            let Some(number) = port["containerPort"].as_i64() else { continue };
            let protocol = protocol(port);
            let is_main = main_target == port["containerPort"] && protocol == "TCP"
                || main_target.is_string() && main_target == port["name"];
            if is_main || !keys.insert((number, protocol.to_owned())) {
                continue;
            }
            let given = port["name"].as_str().filter(|name| !name.is_empty());
            let name =
                given.map_or_else(|| generated_name(protocol, container_name, at), str::to_owned);
            let name = free_name(&name, &names);
            names.insert(name.clone());
            ports.push(json!({
                "name": name,
                "protocol": protocol,
                "port": number,
                "targetPort": number,
            }));
        }
    }
}

/// Number and protocol, by which a Service knows a port.
pub(super) fn key(port: &Value) -> (i64, &str) {
    (port["port"].as_i64().unwrap_or(0), protocol(port))
}

/// The name, empty where it has none.
pub(super) fn name(port: &Value) -> &str {
    port["name"].as_str().unwrap_or_default()
}

/// Whether both lists have the same ports, in any order and with any node ports.
pub(super) fn are_same(one: &[Value], other: &[Value]) -> bool {
    let plain = |ports: &[Value]| {
        let mut ports: Vec<_> = ports.iter().map(without_defaults).collect();
        ports.sort_by(|one, other| key(one).cmp(&key(other)));
        Value::Array(ports)
    };
    is_same(&plain(one), &plain(other))
}

/// Whether the live port has all fields of `wanted`. It may have more.
pub(super) fn is_covered(wanted: &Value, live: &Value) -> bool {
    let wanted = without_defaults(wanted);
    let live = without_defaults(live);
    wanted.as_object().into_iter().flatten().all(|(field, value)| live[field] == *value)
}

/// `ports` with the node ports they have in `live`, by name or else by number.
pub(super) fn with_node_ports(ports: &[Value], live: &[Value]) -> Vec<Value> {
    let with_node_port = |port: &Value| {
        let mut port = port.clone();
        let by_name =
            live.iter().find(|other| !name(other).is_empty() && name(other) == name(&port));
        let by_number = || live.iter().find(|other| key(other) == key(&port));
        let node_port = by_name.or_else(by_number).and_then(|other| other["nodePort"].as_i64());
        if let Some(number) = node_port.filter(|number| *number > 0)
            && port["nodePort"].as_i64().unwrap_or(0) == 0
        {
            port["nodePort"] = json!(number);
        }
        port
    };
    ports.iter().map(with_node_port).collect()
}

/// A name for a port that has none, in a Service where every port needs one.
pub(super) fn name_by_number(port: &Value) -> String {
    let (number, protocol) = key(port);
    format!("{}-{number}", protocol.to_ascii_lowercase())
}

/// The port without its node port, and with the API server's defaults.
fn without_defaults(port: &Value) -> Value {
    let mut port = port.clone();
    let (number, protocol) = owned(key(&port));
    if let Some(members) = port.as_object_mut() {
        members.remove("nodePort");
        members.insert("protocol".to_owned(), json!(protocol));
        let target = members.entry("targetPort").or_insert(Value::Null);
        if target.is_null() || *target == 0 {
            *target = json!(number);
        }
    }
    port
}

fn owned((number, protocol): (i64, &str)) -> (i64, String) {
    (number, protocol.to_owned())
}

fn protocol(port: &Value) -> &str {
    port["protocol"].as_str().filter(|text| !text.is_empty()).unwrap_or("TCP")
}

/// `tcp-<container>-<index>`, as Flagger has it, cut where the container's name is long.
fn generated_name(protocol: &str, container: &str, at: usize) -> String {
    let (head, tail) = (protocol.to_ascii_lowercase(), at.to_string());
    let room = NAME_LENGTH_MAX.saturating_sub(head.len() + tail.len() + 2);
    let container = container.get(..room).unwrap_or(container).trim_end_matches('-');
    format!("{head}-{container}-{tail}")
}

/// The name, with a number where it is taken.
fn free_name(name: &str, taken: &BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| {
        let tail = format!("-{number}");
        let head = name.get(..NAME_LENGTH_MAX - tail.len()).unwrap_or(name);
        format!("{head}{tail}")
    });
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    candidates.find(|candidate| !taken.contains(candidate)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(value: Value) -> Service {
        serde_json::from_value(value).unwrap()
    }

    fn container(name: &str, ports: Value) -> Value {
        Value::Object(
            [("name".to_owned(), json!(name)), ("ports".to_owned(), ports)].into_iter().collect(),
        )
    }

    /// Name, protocol, number and target of the ports.
    fn found(service: Value, containers: Value) -> Vec<String> {
        let pod_spec = Value::Object([("containers".to_owned(), containers)].into_iter().collect());
        let ports = wanted(&self::service(service), &pod_spec);
        let line = |port: &Value| {
            let (number, protocol) = key(port);
            format!("{} {protocol} {number} {}", name(port), port["targetPort"])
        };
        ports.iter().map(line).collect()
    }

    #[test]
    fn the_main_port_is_the_canarys() {
        let main = |value: Value| wanted(&service(value), &Value::Null).remove(0);
        let want = json!({ "name": "http", "protocol": "TCP", "port": 80, "targetPort": 80 });
        assert_eq!(main(json!({ "port": 80 })), want);
        assert_eq!(main(json!({ "port": 80, "targetPort": 0, "appProtocol": "" })), want);
        let named = main(json!({
            "port": 80, "portName": "grpc", "targetPort": "api", "appProtocol": "grpc",
        }));
        let want = json!({ "name": "grpc", "protocol": "TCP", "port": 80, "targetPort": "api",
            "appProtocol": "grpc" });
        assert_eq!(named, want);
    }

    #[test]
    fn ports_of_containers_are_discovered() {
        let http = json!({ "name": "http", "containerPort": 8080 });
        let cases = [
            (
                "the main port by number",
                json!({ "port": 80, "targetPort": 8080 }),
                json!([container("app", json!([http, { "name": "grpc", "containerPort": 9000 }]))]),
                vec!["http TCP 80 8080", "grpc TCP 9000 9000"],
            ),
            (
                "the main port by name",
                json!({ "port": 80, "targetPort": "http" }),
                json!([container("app", json!([http, { "containerPort": 9000 }]))]),
                vec!["http TCP 80 \"http\"", "tcp-app-1 TCP 9000 9000"],
            ),
            (
                "sidecars have no ports",
                json!({ "port": 8080 }),
                json!([
                    container("istio-proxy", json!([{ "containerPort": 15000 }])),
                    container("envoy", json!([{ "containerPort": 15001 }])),
                    container("app", json!([http]))
                ]),
                vec!["http TCP 8080 8080"],
            ),
            (
                "protocols are kept, also on the main number",
                json!({ "port": 53, "portName": "dns" }),
                json!([container(
                    "app",
                    json!([{ "containerPort": 53 },
                    { "containerPort": 53, "protocol": "UDP" }])
                )]),
                vec!["dns TCP 53 53", "udp-app-1 UDP 53 53"],
            ),
            (
                "no port twice, and none that is the Service's own",
                json!({ "port": 80, "targetPort": 8080 }),
                json!([
                    container("a", json!([{ "containerPort": 80 }, { "containerPort": 9000 }])),
                    container("b", json!([{ "containerPort": 9000 }]))
                ]),
                vec!["http TCP 80 8080", "tcp-a-1 TCP 9000 9000"],
            ),
            (
                "no name twice",
                json!({ "port": 80 }),
                json!([
                    container("a", json!([{ "name": "http", "containerPort": 1 }])),
                    container("b", json!([{ "name": "http", "containerPort": 2 }]))
                ]),
                vec!["http TCP 80 80", "http-2 TCP 1 1", "http-3 TCP 2 2"],
            ),
        ];
        for (reason, mut service, containers, want) in cases {
            service["portDiscovery"] = json!(true);
            assert_eq!(found(service, containers), want, "{reason}");
        }
        let without = found(json!({ "port": 80 }), json!([container("app", json!([http]))]));
        assert_eq!(without, ["http TCP 80 80"], "not unless asked for");
    }

    #[test]
    fn names_fit_however_long_the_containers_are() {
        let long = "c".repeat(63);
        let ports = json!([{ "containerPort": 1 }, { "containerPort": 2 }]);
        let containers = json!([
            container(&long, ports.clone()),
            container(&long, json!([{ "containerPort": 3 }]))
        ]);
        let service = service(json!({ "port": 80, "portDiscovery": true }));
        let wanted = wanted(&service, &json!({ "containers": containers }));
        let names: BTreeSet<_> = wanted.iter().map(name).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names.iter().all(|name| name.len() <= NAME_LENGTH_MAX), "{names:?}");
    }

    #[test]
    fn node_ports_are_kept_by_name_or_number() {
        let live = [
            json!({ "name": "http", "port": 8080, "protocol": "TCP", "nodePort": 30001 }),
            json!({ "name": "web", "port": 81, "protocol": "TCP", "nodePort": 30002 }),
        ];
        let ports = [
            json!({ "name": "http", "port": 80 }),
            json!({ "name": "renamed", "port": 81 }),
            json!({ "name": "new", "port": 82 }),
        ];
        let kept: Vec<_> =
            with_node_ports(&ports, &live).iter().map(|port| port["nodePort"].as_i64()).collect();
        assert_eq!(kept, [Some(30001), Some(30002), None]);
    }

    #[test]
    fn lists_are_compared_without_order_defaults_and_node_ports() {
        let one = [json!({ "name": "a", "port": 1 }), json!({ "name": "b", "port": 2 })];
        let same = [
            json!({ "name": "b", "port": 2, "targetPort": 2, "nodePort": 30000 }),
            json!({ "name": "a", "port": 1, "protocol": "TCP", "targetPort": 1 }),
        ];
        assert!(are_same(&one, &same));
        let mut renamed = same.clone();
        renamed[0]["name"] = json!("c");
        assert!(!are_same(&one, &renamed));
        assert!(!are_same(&one, &same[..1]));
        let wanted = json!({ "name": "b", "port": 2 });
        assert!(is_covered(&wanted, &json!({ "name": "b", "port": 2, "appProtocol": "http" })));
        assert!(!is_covered(&wanted, &json!({ "name": "b", "port": 2, "targetPort": 3 })));
    }
}
