//! Node objects, and the addresses of nodes and pods.
//!
//! Node `index` has the address `172.18.0.<index + 2>` and gives its pods addresses from
//! `10.244.<index>.0/24`; past 253 pods it goes on in `10.245.<index>.0/24` and so forth.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::{
    hash::digest,
    object::{items, stamp, text},
};

/// Pod addresses in one `/24`: without network, gateway and broadcast address.
const HOSTS_PER_RANGE: u32 = 253;
/// The second octet runs from 244 to 254.
const RANGES: u32 = 11;
/// Number of pod addresses of a node.
pub(super) const HOSTS: u32 = HOSTS_PER_RANGE * RANGES;

/// A node as its kubelet reports it: 8 cores, 16 GiB, room for 110 pods, ready.
pub fn node_object(name: &str, index: u8, now: Timestamp) -> Value {
    let resources = json!({
        "cpu": "8", "memory": "16393172Ki", "pods": "110", "ephemeral-storage": "102626232Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    let at = stamp(now);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": at, "lastTransitionTime": at,
        })
    };
    let unique = digest(name);
    let identity = |from: usize| unique.get(from..from + 32).unwrap_or_default().to_owned();
    let range = format!("10.244.{index}.0/24");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "podCIDR": range, "podCIDRs": [range], "providerID": format!("sandbox://{name}"),
        },
        "status": {
            "addresses": [
                { "type": "InternalIP", "address": format!("172.18.0.{}", u16::from(index) + 2) },
                { "type": "Hostname", "address": name },
            ],
            "capacity": resources, "allocatable": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure",
                    "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID",
                    "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux",
                "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
                "containerRuntimeVersion": "containerd://2.2.0",
                "kernelVersion": "6.12.0-sandbox", "osImage": "Tidegate Sandbox",
                "machineID": identity(0), "systemUUID": identity(16), "bootID": identity(32),
            },
        },
    })
}

/// The address of the node itself.
pub(super) fn internal_address(node: &Value) -> &str {
    let mut addresses = items(node, "/status/addresses").iter();
    let internal = addresses.find(|address| text(address, "/type") == "InternalIP");
    internal.map_or("127.0.0.1", |address| text(address, "/address"))
}

/// The number after `host` in a node's range, wrapping around at its end.
pub(super) fn next_host(host: u32) -> u32 {
    if host > HOSTS { 2 } else { host + 1 }
}

/// Pod address number `host` of a node, counted from 2.
pub(super) fn pod_address(node: &Value, host: u32) -> String {
    let range = text(node, "/spec/podCIDR");
    let third = range.split('.').nth(2).and_then(|part| part.parse::<u8>().ok()).unwrap_or(255);
    let number = host.saturating_sub(2);
    let (second, fourth) = (244 + number / HOSTS_PER_RANGE, 2 + number % HOSTS_PER_RANGE);
    format!("10.{second}.{third}.{fourth}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_node_has_an_address_for_every_pod_it_could_hold() {
        let node = node_object("n", 3, Timestamp::UNIX_EPOCH);
        assert_eq!(pod_address(&node, 2), "10.244.3.2");
        assert_eq!(pod_address(&node, 254), "10.244.3.254");
        assert_eq!(pod_address(&node, 255), "10.245.3.2");
        let mut host = 1;
        let addresses: BTreeSet<_> = (0..HOSTS)
            .map(|_| {
                host = next_host(host);
                pod_address(&node, host)
            })
            .collect();
        assert_eq!(addresses.len(), HOSTS as usize, "all differ");
    }
}
