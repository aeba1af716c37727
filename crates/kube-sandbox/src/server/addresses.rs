//! Allocation of cluster IPs and node ports, each of which is used once.
//!
//! The pool is kept in memory and follows every write of a Service; [`Server::restore`] undoes an
//! allocation.

use std::{collections::BTreeSet, net::Ipv4Addr};

use serde_json::Value;

use super::{Server, decode::invalid};
use crate::{
    builtin::{self, NODE_PORTS, NodePortSlot},
    failure::{FieldError, Outcome},
    registry::ResourceDef,
};

/// The service network is 10.96.0.0/16, as in most clusters; .1 belongs to `kubernetes`.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 96, 0, 2]);
const ADDRESSES: u32 = 65_533;

/// Addresses and ports in use.
#[derive(Debug, Clone, Default)]
pub(super) struct Addresses {
    addresses: BTreeSet<String>,
    /// A port may be in use once per protocol.
    ports: BTreeSet<(u16, String)>,
}

// === impl Server ===

impl Server {
    /// Allocates the addresses and ports that a Service needs; no effect on other kinds.
    ///
    /// This is the last step before the write, so that an object refused for another reason
    /// allocates nothing. Returns the state to [`Server::restore`] if the write itself fails.
    pub(super) fn allocate(
        &self,
        def: &ResourceDef,
        live: Option<&Value>,
        object: &mut Value,
        dry_run: bool,
    ) -> Outcome<Option<Addresses>> {
        if !is_service(def) {
            return Ok(None);
        }
        let mut pool = self.addresses.lock();
        let before = pool.clone();
        if let Some(live) = live {
            pool.give_back(live);
        }
        let outcome = pool.take(object, &|bound| self.random.below(bound));
        if dry_run || outcome.is_err() {
            pool.clone_from(&before);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        outcome.map(|()| Some(before)).map_err(|error| invalid(def, name, &[error]))
    }

    /// Undoes an allocation whose object was not written.
    pub(super) fn restore(&self, before: Option<Addresses>) {
        if let Some(before) = before {
            *self.addresses.lock() = before;
        }
    }

    pub(super) fn release(&self, def: &ResourceDef, object: &Value) {
        if is_service(def) {
            let mut pool = self.addresses.lock();
            pool.give_back(object);
        }
    }
}

fn is_service(def: &ResourceDef) -> bool {
    def.group.is_empty() && def.plural == "services"
}

// === impl Addresses ===

impl Addresses {
    fn take(&mut self, service: &mut Value, random: &dyn Fn(u64) -> u64) -> Result<(), FieldError> {
        if builtin::service_needs_cluster_ip(service) {
            let Some(address) = self.free_address(random) else {
                let why = "failed to allocate a service IP: the range is full";
                return Err(FieldError::invalid("spec.clusterIPs", &Value::Null, why));
            };
            builtin::set_cluster_ip(service, &address);
        }
        if let Some(address) = builtin::service_cluster_ip(service).map(str::to_owned)
            && !self.addresses.insert(address.clone())
        {
            return Err(builtin::cluster_ip_taken(service, &address));
        }
        for slot in builtin::service_node_port_slots(service) {
            let number = match slot.wanted {
                Some(number) => number,
                None => self.free_port(&slot, random).ok_or_else(|| slot.taken())?,
            };
            if !self.ports.insert((number, slot.protocol.clone())) {
                return Err(slot.taken());
            }
            builtin::set_node_port(service, &slot, number);
        }
        Ok(())
    }

    fn give_back(&mut self, service: &Value) {
        if let Some(address) = builtin::service_cluster_ip(service) {
            self.addresses.remove(address);
        }
        for slot in builtin::service_node_port_slots(service) {
            if let Some(number) = slot.wanted {
                self.ports.remove(&(number, slot.protocol));
            }
        }
    }

    fn free_address(&self, random: &dyn Fn(u64) -> u64) -> Option<String> {
        let start = u32::try_from(random(u64::from(ADDRESSES))).unwrap_or_default();
        let all = (0..ADDRESSES).map(|step| FIRST_ADDRESS + (start + step) % ADDRESSES);
        let mut all = all.map(|address| Ipv4Addr::from(address).to_string());
        all.find(|address| !self.addresses.contains(address))
    }

    fn free_port(&self, slot: &NodePortSlot, random: &dyn Fn(u64) -> u64) -> Option<u16> {
        let (first, last) = (*NODE_PORTS.start(), *NODE_PORTS.end());
        let count = last - first + 1;
        let start = u16::try_from(random(u64::from(count))).unwrap_or_default();
        let mut all = (0..count).map(|step| first + (start + step) % count);
        all.find(|number| !self.ports.contains(&(*number, slot.protocol.clone())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first(_: u64) -> u64 {
        0
    }

    #[test]
    fn a_port_taken_is_refused_and_one_given_back_can_be_had() {
        let mut pool = Addresses::default();
        let service = |port: Value| {
            json!({"spec": {"type": "NodePort", "ports": [
                {"port": 80, "protocol": "TCP", "nodePort": port}
            ]}})
        };
        let mut one = service(json!(30080));
        pool.take(&mut one, &first).unwrap();
        assert_eq!(one["spec"]["clusterIP"], "10.96.0.2");
        assert!(pool.take(&mut service(json!(30080)), &first).is_err());
        let mut chosen = service(Value::Null);
        pool.take(&mut chosen, &first).unwrap();
        assert_eq!(chosen["spec"]["ports"][0]["nodePort"], 30000);
        pool.give_back(&one);
        pool.take(&mut service(json!(30080)), &first).unwrap();
    }
}
