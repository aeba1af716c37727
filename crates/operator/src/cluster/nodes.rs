//! The addresses of nodes, which a Canary may not make the operator connect to.
//!
//! ```text
//! watch ──► cache ──► NodeListener ──► NodeAddresses ──► http::guard, at every connection
//! ```
//!
//! No request is sent before nodes were listed. An operator whose role does not let it list them, such as one
//! that may act in a single namespace, does without: it warns once, and their addresses are open.

use std::{collections::BTreeMap, mem, net::IpAddr, sync::Arc};

use parking_lot::RwLock;
use serde_json::Value;
use tidegate_providers::game::NODE;
use tracing::{info, warn};

use super::{Cluster, cache::Key, watch::Listener};

/// The addresses of all nodes that are known; cheap to clone, and all clones share them.
#[derive(Clone, Debug, Default)]
pub struct NodeAddresses(Arc<RwLock<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    knowledge: Knowledge,
    /// Counts the times that addresses were added.
    additions: u64,
    by_node: BTreeMap<Arc<str>, Vec<IpAddr>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Knowledge {
    /// Not listed yet.
    #[default]
    Pending,
    Listed,
    /// Changes after the last list, if there was one, are not known.
    Refused,
}

/// Keeps the addresses as the cache has them.
pub(crate) struct NodeListener(pub(crate) Cluster);

/// All addresses of a node. Its names are looked up when a request names one.
///
/// Pod networks give a node two more, which its status does not have: the first of the range of its pods is often
/// that of a tunnel, and the second that of the bridge its pods are on. No pod has either.
fn addresses(node: &Value) -> Vec<IpAddr> {
    let said = node["status"]["addresses"].as_array().into_iter().flatten();
    let said = said.filter_map(|it| it.as_str()?.parse::<IpAddr>().ok());
    let ranges = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
    let firsts = ranges.filter_map(|it| it.as_str()?.split('/').next()?.parse::<IpAddr>().ok());
    let on_pods = firsts.flat_map(|first| [Some(first), next(first)]).flatten();
    said.chain(on_pods).map(|address| address.to_canonical()).collect()
}

fn next(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(address) => IpAddr::V4(address.to_bits().checked_add(1)?.into()),
        IpAddr::V6(address) => IpAddr::V6(address.to_bits().checked_add(1)?.into()),
    })
}

// === impl NodeAddresses ===

impl NodeAddresses {
    /// Whether it is an address of a node. Looks through all of them: ten thousand take some microseconds,
    /// once a connection.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.read().by_node.values().flatten().any(|known| *known == address)
    }

    /// Another number than before if there may be an address that was not one of a node then.
    pub(crate) fn additions(&self) -> u64 {
        self.0.read().additions
    }

    /// Whether nodes were listed, or may not be listed.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.read().knowledge != Knowledge::Pending
    }

    /// Sets the addresses of a node; none if it is gone.
    pub(crate) fn set(&self, node: &str, addresses: Vec<IpAddr>) {
        // Most changes of a node are not about its addresses.
        let known = self.0.read().by_node.get(node).cloned().unwrap_or_default();
        if known == addresses {
            return;
        }
        let mut inner = self.0.write();
        if addresses.is_empty() {
            inner.by_node.remove(node);
        } else {
            inner.additions += 1;
            inner.by_node.insert(node.into(), addresses);
        }
    }

    /// Forgets all addresses: nodes are listed again.
    pub(crate) fn clear(&self) {
        let mut inner = self.0.write();
        inner.by_node.clear();
        inner.knowledge = Knowledge::Pending;
    }

    /// Returns the previous state.
    fn settle(&self, knowledge: Knowledge) -> Knowledge {
        let mut inner = self.0.write();
        mem::replace(&mut inner.knowledge, knowledge)
    }
}

// === impl NodeListener ===

impl Listener for NodeListener {
    fn changed(&mut self, key: &Key) {
        let Self(cluster) = self;
        let node = cluster.cache.get(NODE, key);
        cluster.nodes.set(&key.name, node.as_deref().map(addresses).unwrap_or_default());
    }

    fn listed(&mut self) {
        if self.0.nodes.settle(Knowledge::Listed) == Knowledge::Refused {
            info!("The addresses of nodes are known now, and closed to hooks, metrics and alerts");
        }
    }

    fn refused(&mut self, why: &str) {
        if self.0.nodes.settle(Knowledge::Refused) != Knowledge::Refused {
            warn!(
                why,
                "The addresses of nodes are not known, so hooks, metrics and alerts may reach them; close their ranges with --deny-addresses"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_providers::game::pod::trim_node;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_node_has_every_address_it_is_called_by_and_no_name() {
        let node = trim_node(&json!({ "status": { "addresses": [
            { "type": "InternalIP", "address": "10.0.0.1" },
            { "type": "InternalIP", "address": "fd00::1" },
            { "type": "ExternalIP", "address": "203.0.113.1" },
            { "type": "Hostname", "address": "10.0.0.2" },
            { "type": "Hostname", "address": "node-1" },
            { "type": "InternalDNS", "address": "node-1.internal" },
            { "type": "InternalIP", "address": "::ffff:10.0.0.3" },
            { "type": "InternalIP" },
        ] } }));
        let want = ["10.0.0.1", "fd00::1", "203.0.113.1", "10.0.0.2", "10.0.0.3"].map(ip);
        assert_eq!(addresses(&node), want);
        for odd in [json!({}), json!({ "status": { "addresses": "10.0.0.1" } })] {
            assert_eq!(addresses(&trim_node(&odd)), Vec::<IpAddr>::new(), "{odd}");
        }
    }

    #[test]
    fn a_node_is_known_by_the_ends_of_pod_networks_on_it() {
        let ranges =
            json!(["10.244.3.0/24", "fd00:1::/64", "all of them", 7, "255.255.255.255/32"]);
        let node = trim_node(&json!({ "spec": { "podCIDRs": ranges } }));
        let want = ["10.244.3.0", "10.244.3.1", "fd00:1::", "fd00:1::1", "255.255.255.255"].map(ip);
        assert_eq!(addresses(&node), want);
    }

    #[test]
    fn an_address_is_known_as_long_as_a_node_has_it() {
        let nodes = NodeAddresses::default();
        let shared = nodes.clone();
        nodes.set("a", vec![ip("10.0.0.1"), ip("10.0.0.2")]);
        nodes.set("b", vec![ip("10.0.0.2")]);
        assert!(shared.contains(ip("10.0.0.1")) && shared.contains(ip("10.0.0.2")));
        let before = nodes.additions();
        nodes.set("a", vec![ip("10.0.0.3")]);
        assert_ne!(nodes.additions(), before);
        assert!(!shared.contains(ip("10.0.0.1")), "it has another");
        assert!(shared.contains(ip("10.0.0.2")), "the other one still has it");
        nodes.set("b", Vec::new());
        assert!(!shared.contains(ip("10.0.0.2")), "it is gone");
    }

    #[test]
    fn it_is_settled_once_nodes_were_listed_or_are_not_to_be_had_and_the_latter_is_said_once() {
        let nodes = NodeAddresses::default();
        assert!(!nodes.is_settled());
        assert_eq!(nodes.settle(Knowledge::Refused), Knowledge::Pending);
        assert!(nodes.is_settled());
        assert_eq!(nodes.settle(Knowledge::Refused), Knowledge::Refused, "it is known already");
        assert_eq!(nodes.settle(Knowledge::Listed), Knowledge::Refused);
        assert!(nodes.is_settled());
    }
}
