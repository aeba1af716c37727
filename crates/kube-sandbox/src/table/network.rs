//! Rows of Services, endpoints, Ingresses and other network kinds.
//!
//! [`super::Layout::built_in`] selects the printer of a kind; columns are those of kube-apiserver.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Definition, NAME, Printer,
    read::{
        age, first_few, int, items, joined, labels, name, none_if_empty, selector_cell, text,
        text_or,
    },
};

/// Number of addresses, ports or hosts in a column before it counts the rest.
const SHOWN_MAX: usize = 3;

static SERVICE: Printer = Printer {
    columns: &[
        NAME,
        Definition("Type", "string", 0, "How the service is exposed."),
        Definition("Cluster-IP", "string", 0, "Its address inside the cluster."),
        Definition("External-IP", "string", 0, "Its addresses outside the cluster."),
        Definition("Port(s)", "string", 0, "Its ports, with node ports."),
        AGE,
        Definition("Selector", "string", 1, "Labels of the pods it sends to."),
    ],
    cells: service,
};

static ENDPOINTS: Printer = Printer {
    columns: &[NAME, Definition("Endpoints", "string", 0, "Addresses and ports."), AGE],
    cells: |object, now| vec![name(object), endpoints(object).into(), age(object, now)],
};

static ENDPOINT_SLICE: Printer = Printer {
    columns: &[
        NAME,
        Definition("AddressType", "string", 0, "The kind of its addresses."),
        Definition("Ports", "string", 0, "Its ports."),
        Definition("Endpoints", "string", 0, "Its addresses."),
        AGE,
    ],
    cells: endpoint_slice,
};

static INGRESS: Printer = Printer {
    columns: &[
        NAME,
        Definition("Class", "string", 0, "Which controller it is for."),
        Definition("Hosts", "string", 0, "Hosts its rules name."),
        Definition("Address", "string", 0, "Where its load balancer listens."),
        Definition("Ports", "string", 0, "Ports its load balancer listens on."),
        AGE,
    ],
    cells: ingress,
};

static INGRESS_CLASS: Printer = Printer {
    columns: &[
        NAME,
        Definition("Controller", "string", 0, "Who serves ingresses of this class."),
        Definition("Parameters", "string", 0, "The object that configures it."),
        AGE,
    ],
    cells: ingress_class,
};

static NETWORK_POLICY: Printer = Printer {
    columns: &[NAME, Definition("Pod-Selector", "string", 0, "Labels of its pods."), AGE],
    cells: |object, now| {
        vec![name(object), selector_cell(&object["spec"]["podSelector"]), age(object, now)]
    },
};

pub(super) fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("", "Service") => &SERVICE,
        ("", "Endpoints") => &ENDPOINTS,
        ("discovery.k8s.io", "EndpointSlice") => &ENDPOINT_SLICE,
        ("networking.k8s.io", "Ingress") => &INGRESS,
        ("networking.k8s.io", "IngressClass") => &INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => &NETWORK_POLICY,
        _ => return None,
    })
}

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let inside = spec["clusterIPs"].get(0).unwrap_or(&spec["clusterIP"]);
    let port = |port: &Value| {
        let protocol = text_or(&port["protocol"], "TCP");
        match int(&port["nodePort"]) {
            0 => format!("{}/{protocol}", int(&port["port"])),
            node => format!("{}:{node}/{protocol}", int(&port["port"])),
        }
    };
    let ports = items(&spec["ports"]).iter().map(port).collect::<Vec<_>>().join(",");
    vec![
        name(object),
        text(&spec["type"]).into(),
        text_or(inside, "<none>").into(),
        external_addresses(object).into(),
        none_if_empty(ports).into(),
        age(object, now),
        labels(&spec["selector"]).into(),
    ]
}

fn external_addresses(service: &Value) -> String {
    let spec = &service["spec"];
    let given = joined(items(&spec["externalIPs"]).iter(), ",");
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" => none_if_empty(given),
        "LoadBalancer" => {
            let found = load_balancer(service);
            match (found.is_empty(), given.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (false, true) => found,
                (true, false) => given,
                (false, false) => format!("{found},{given}"),
            }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Addresses of a load balancer, else host names; sorted, without duplicates.
fn load_balancer(object: &Value) -> String {
    let entries = items(&object["status"]["loadBalancer"]["ingress"]).iter();
    let found: BTreeSet<&str> = entries
        .map(|entry| text_or(&entry["ip"], text(&entry["hostname"])))
        .filter(|address| !address.is_empty())
        .collect();
    found.into_iter().collect::<Vec<_>>().join(",")
}

fn endpoints(object: &Value) -> String {
    let subsets = items(&object["subsets"]);
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let (addresses, ports) = (items(&subset["addresses"]), items(&subset["ports"]));
        let plain = addresses.iter().map(|address| text(&address["ip"]));
        if ports.is_empty() {
            all.extend(plain.clone().map(ToOwned::to_owned));
        }
        for port in ports {
            all.extend(plain.clone().map(|ip| host_port(ip, int(&port["port"]))));
        }
    }
    first_few(&all, SHOWN_MAX, ",")
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => port["name"].as_str().unwrap_or("*").to_owned(),
    };
    let ports: Vec<_> = items(&object["ports"]).iter().map(port).collect();
    let addresses: Vec<_> = items(&object["endpoints"])
        .iter()
        .flat_map(|endpoint| items(&endpoint["addresses"]))
        .map(|address| text(address).to_owned())
        .collect();
    let shown = |texts: &[String]| match first_few(texts, SHOWN_MAX, ",") {
        empty if empty.is_empty() => "<unset>".to_owned(),
        few => few,
    };
    vec![
        name(object),
        text(&object["addressType"]).into(),
        shown(&ports).into(),
        shown(&addresses).into(),
        age(object, now),
    ]
}

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let ports = if items(&spec["tls"]).is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        spec["ingressClassName"].as_str().unwrap_or("<none>").into(),
        hosts(items(&spec["rules"])).into(),
        load_balancer(object).into(),
        ports.into(),
        age(object, now),
    ]
}

/// The first hosts. As in Kubernetes, the rest is counted in rules, with or without a host.
fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::new();
    let mut more = false;
    for rule in rules {
        more = more || shown.len() == SHOWN_MAX;
        let host = text(&rule["host"]);
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match shown.join(",") {
        none if none.is_empty() => "*".to_owned(),
        few if more => format!("{few} + {} more...", rules.len() - SHOWN_MAX),
        all => all,
    }
}

fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let default = &object["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"];
    let mut name = text(&object["metadata"]["name"]).to_owned();
    if default == "true" {
        name.push_str(" (default)");
    }
    let parameters = &object["spec"]["parameters"];
    let parameters = if parameters.is_object() {
        let group = text(&parameters["apiGroup"]);
        let kind = crate::failure::qualified(group, text(&parameters["kind"]));
        format!("{kind}/{}", text(&parameters["name"]))
    } else {
        "<none>".to_owned()
    };
    let controller = text(&object["spec"]["controller"]);
    vec![name.into(), controller.into(), parameters.into(), age(object, now)]
}
