//! Services: defaults, and the fields that address and node port allocation reads and writes.
//!
//! The server owns the pools and allocates. This module is pure: it tells which service needs an
//! address or a port, the field for it, and how an update keeps earlier allocations.
//!
//! ```text
//! create:  defaults, prepare_create, [service_needs_cluster_ip -> set_cluster_ip],
//!          [service_node_port_slots -> set_node_port], validate
//! update:  defaults, prepare_update (keeps what was allocated), the same again, validate
//! ```

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    at::{At, same},
    edit::{default_to, default_zero, each, object, remove, set, text},
};
use crate::failure::FieldError;

/// Where node ports come from unless the server is told otherwise.
pub(crate) const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

const AFFINITY_TIMEOUT_S: i64 = 10800;

/// A port of a service that needs a node port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodePortSlot {
    /// Position in `spec.ports`, or `None` for `spec.healthCheckNodePort`.
    pub index: Option<usize>,
    pub protocol: String,
    /// The requested or already allocated port; `None` lets the allocator choose.
    pub wanted: Option<u16>,
}

// === impl NodePortSlot ===

impl NodePortSlot {
    /// Why the port that is asked for cannot be had.
    pub(crate) fn taken(&self) -> FieldError {
        let path = match self.index {
            Some(index) => format!("spec.ports[{index}].nodePort"),
            None => "spec.healthCheckNodePort".to_owned(),
        };
        let wanted = json!(self.wanted);
        FieldError::invalid(path, &wanted, "provided port is already allocated")
    }
}

pub(super) fn defaults(service: &mut Value) {
    let Some(spec) = object(service, "spec") else { return };
    default_zero(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            remove(spec, "sessionAffinityConfig");
        }
        "ClientIP" => {
            let timeout = spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds");
            if timeout.is_none_or(Value::is_null) {
                let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_TIMEOUT_S}});
                set(spec, "sessionAffinityConfig", config);
            }
        }
        _ => {}
    }
    default_zero(spec, "type", "ClusterIP");
    each(spec, "ports", |port| {
        default_zero(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(json!(0));
        default_zero(port, "targetPort", number);
    });
    if is_reached_from_outside(spec) {
        default_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    let kind = text(spec, "type").to_owned();
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        default_to(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default_to(spec, "allocateLoadBalancerNodePorts", true);
    }
    let Some(status) = object(service, "status") else { return };
    let Some(balancer) = object(status, "loadBalancer") else { return };
    if kind == "LoadBalancer" {
        each(balancer, "ingress", |ingress| {
            if !text(ingress, "ip").is_empty() {
                default_to(ingress, "ipMode", "VIP");
            }
        });
    }
}

pub(super) fn prepare_create(service: &mut Value) {
    set(service, "status", json!({"loadBalancer": {}}));
    let Some(spec) = object(service, "spec") else { return };
    let ip = text(spec, "clusterIP").to_owned();
    if !ip.is_empty() && At::root(spec).get("clusterIPs").is_empty() {
        set(spec, "clusterIPs", json!([ip]));
    }
    families(spec, None);
}

pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    keep_addresses(new, old);
    let (Some(spec), Some(old)) = (object(new, "spec"), old.get("spec")) else { return };
    drop_unfitting(spec, old);
    families(spec, Some(old));
    if text(spec, "type") != "LoadBalancer"
        && let Some(status) = object(new, "status")
    {
        set(status, "loadBalancer", json!({}));
    }
}

/// A field that an update leaves out stays as it was given. Does nothing the second time.
pub(crate) fn keep_addresses(new: &mut Value, old: &Value) {
    if let (Some(spec), Some(old)) = (object(new, "spec"), old.get("spec")) {
        keep_allocated(spec, old);
        sync_cluster_ips(spec, old);
    }
}

fn keep_allocated(spec: &mut Value, old: &Value) {
    if wants_cluster_ip(old) && wants_cluster_ip(spec) {
        for key in ["clusterIP", "clusterIPs"] {
            if let Some(value) = old.get(key) {
                default_zero(spec, key, value.clone());
            }
        }
    }
    if wants_node_ports(old) && wants_node_ports(spec) {
        let used = |spec: &Value| -> BTreeSet<i64> {
            At::root(spec).get("ports").items().filter_map(|p| p.get("nodePort").int()).collect()
        };
        let taken: BTreeSet<_> = used(old).intersection(&used(spec)).copied().collect();
        let known: Vec<(String, i64)> = At::root(old)
            .get("ports")
            .items()
            .filter_map(|p| Some((p.get("name").text().to_owned(), p.get("nodePort").int()?)))
            .filter(|(_, port)| !taken.contains(port))
            .collect();
        each(spec, "ports", |port| {
            let name = text(port, "name").to_owned();
            if let Some((_, number)) = known.iter().find(|(known, _)| *known == name) {
                default_zero(port, "nodePort", *number);
            }
        });
    }
    if wants_health_check(old)
        && wants_health_check(spec)
        && let Some(port) = old.get("healthCheckNodePort")
    {
        default_zero(spec, "healthCheckNodePort", port.clone());
    }
}

/// Keeps `clusterIP` equal to the first of `clusterIPs`; a client may have changed only one of the
/// two.
fn sync_cluster_ips(spec: &mut Value, old: &Value) {
    let (ip, old_ip) = (text(spec, "clusterIP").to_owned(), text(old, "clusterIP"));
    let unchanged = same(spec.get("clusterIPs"), old.get("clusterIPs"));
    if ip == old_ip || !unchanged {
        return;
    }
    if ip.is_empty() {
        remove(spec, "clusterIPs");
    } else {
        set(spec, "clusterIPs", json!([ip]));
    }
}

/// Drops values allocated for another service type, if the client did not change them.
fn drop_unfitting(spec: &mut Value, old: &Value) {
    let same_key = |spec: &Value, key: &str| same(spec.get(key), old.get(key));
    if wants_cluster_ip(old) && !wants_cluster_ip(spec) {
        if same_key(spec, "clusterIP") && same_key(spec, "clusterIPs") {
            remove(spec, "clusterIP");
            remove(spec, "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same_key(spec, key) {
                remove(spec, key);
            }
        }
    }
    if wants_node_ports(old) && !wants_node_ports(spec) && same_node_ports(spec, old) {
        each(spec, "ports", |port| {
            remove(port, "nodePort");
        });
    }
    let gone = [
        ("healthCheckNodePort", wants_health_check(old) && !wants_health_check(spec)),
        ("allocateLoadBalancerNodePorts", is_balanced(old) && !is_balanced(spec)),
        ("loadBalancerClass", is_balanced(old) && !is_balanced(spec)),
        ("externalTrafficPolicy", is_reached_from_outside(old) && !is_reached_from_outside(spec)),
    ];
    for (key, applies) in gone {
        if applies && same_key(spec, key) {
            remove(spec, key);
        }
    }
}

fn same_node_ports(spec: &Value, old: &Value) -> bool {
    let ports = |spec: &Value| -> BTreeSet<i64> {
        At::root(spec).get("ports").items().filter_map(|p| p.get("nodePort").int()).collect()
    };
    ports(spec) == ports(old)
}

/// The IP families of a single-stack IPv4 cluster.
fn families(spec: &mut Value, old: Option<&Value>) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let headless = text(spec, "clusterIP") == "None";
    let selectorless = At::root(spec).get("selector").is_empty();
    let before = old.and_then(|old| old.get("ipFamilyPolicy")).filter(|policy| !policy.is_null());
    let policy = match before {
        Some(policy) => policy.clone(),
        // The families of the endpoints are unknown.
        None if headless && selectorless => json!("RequireDualStack"),
        None => json!("SingleStack"),
    };
    default_zero(spec, "ipFamilyPolicy", policy);
    let dual = text(spec, "ipFamilyPolicy") != "SingleStack";
    let first = text(spec, "clusterIP");
    let family = if first.contains(':') { "IPv6" } else { "IPv4" };
    let families =
        if headless && selectorless && dual { json!(["IPv4", "IPv6"]) } else { json!([family]) };
    default_to(spec, "ipFamilies", families);
}

/// Whether the server has to give the service an address.
pub(crate) fn service_needs_cluster_ip(service: &Value) -> bool {
    let spec = At::root(service).get("spec");
    spec.value().is_some_and(wants_cluster_ip) && spec.get("clusterIP").text().is_empty()
}

/// The address the service has or asks for, if it is one that can be taken.
pub(crate) fn service_cluster_ip(service: &Value) -> Option<&str> {
    let ip = At::root(service).get("spec.clusterIP").text();
    (!ip.is_empty() && ip != "None").then_some(ip)
}

pub(crate) fn set_cluster_ip(service: &mut Value, ip: &str) {
    if let Some(spec) = object(service, "spec") {
        set(spec, "clusterIP", ip);
        set(spec, "clusterIPs", json!([ip]));
    }
}

/// Whether ports without a node port are to be given one.
pub(crate) fn service_needs_node_ports(service: &Value) -> bool {
    let spec = At::root(service).get("spec");
    let allocates = spec.get("allocateLoadBalancerNodePorts");
    spec.value().is_some_and(|spec| {
        wants_node_ports(spec) && (!is_balanced(spec) || !allocates.is_set() || allocates.flag())
    })
}

/// The node ports the service has, asks for or lacks, in the order of its ports.
pub(crate) fn service_node_port_slots(service: &Value) -> Vec<NodePortSlot> {
    let spec = At::root(service).get("spec");
    let Some(value) = spec.value() else { return Vec::new() };
    let wanted = |port: &At<'_>| u16::try_from(port.int_or_zero()).ok().filter(|port| *port != 0);
    let allocates = service_needs_node_ports(service);
    let mut slots = Vec::new();
    if wants_node_ports(value) {
        for (index, port) in spec.get("ports").items().enumerate() {
            let wanted = wanted(&port.get("nodePort"));
            if allocates || wanted.is_some() {
                let protocol = port.get("protocol").text().to_owned();
                slots.push(NodePortSlot { index: Some(index), protocol, wanted });
            }
        }
    }
    if wants_health_check(value) {
        let wanted = wanted(&spec.get("healthCheckNodePort"));
        slots.push(NodePortSlot { index: None, protocol: "TCP".to_owned(), wanted });
    }
    slots
}

/// Writes an allocated port where the slot says.
pub(crate) fn set_node_port(service: &mut Value, slot: &NodePortSlot, node_port: u16) {
    let Some(spec) = object(service, "spec") else { return };
    match slot.index {
        None => set(spec, "healthCheckNodePort", node_port),
        Some(index) => {
            if let Some(port) = spec.get_mut("ports").and_then(|ports| ports.get_mut(index)) {
                set(port, "nodePort", node_port);
            }
        }
    }
}

/// Why an address that is asked for cannot be had.
pub(crate) fn cluster_ip_taken(service: &Value, ip: &str) -> FieldError {
    let ips = At::root(service).get("spec.clusterIPs");
    ips.invalid(format!("failed to allocate IP {ip}: provided IP is already allocated"))
}

fn wants_cluster_ip(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

fn wants_node_ports(spec: &Value) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

fn is_balanced(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer"
}

pub(super) fn wants_health_check(spec: &Value) -> bool {
    is_balanced(spec) && text(spec, "externalTrafficPolicy") == "Local"
}

pub(super) fn is_reached_from_outside(spec: &Value) -> bool {
    wants_node_ports(spec)
        || (text(spec, "type") == "ClusterIP" && !At::root(spec).get("externalIPs").is_empty())
}
