//! Resolves host names of the cluster for code outside of it.

use std::{net::SocketAddr, sync::Arc};

use super::{
    plane::Shared,
    route::{Endpoint, host},
};

/// Resolves host names of the cluster. Cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    shared: Arc<Shared>,
    gateway: SocketAddr,
}

// === impl Resolver ===

impl Resolver {
    pub(super) fn new(shared: Arc<Shared>, gateway: SocketAddr) -> Self {
        Self { shared, gateway }
    }

    /// The address for a request to `http://<host>:<port>/`; its `Host` header must stay unchanged.
    ///
    /// A Service (`shop.test`, or its full name) with this port, and a host of a route, resolve to
    /// the gateway, which selects an endpoint; an attached Service resolves directly. `None` for
    /// names outside the cluster.
    pub fn resolve(&self, host: &str, port: u16) -> Option<SocketAddr> {
        let host = host::normalise(host);
        let snapshot = &self.shared.published().snapshot;
        if let Some(key) = snapshot.table.service_of(&host) {
            if let [Endpoint::Address(address)] = snapshot.table.endpoints(&key.0, &key.1) {
                return Some(*address);
            }
            let service = snapshot.table.service(&key.0, &key.1)?;
            return service.ports.contains(&port).then_some(self.gateway);
        }
        let is_claimed = !host::is_nameless(&host) && snapshot.table.claims(&host);
        is_claimed.then_some(self.gateway)
    }
}
