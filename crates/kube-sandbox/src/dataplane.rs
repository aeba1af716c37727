//! The data plane: carries requests along the routing objects in the store.
//!
//! [`route`] compiles `HTTPRoute`, `VirtualService`, `Ingress` (with the canaries of the NGINX
//! ingress controller), `IngressRoute`, `TraefikService` and Service objects into a table and
//! chooses the target of a request. [`app`] answers it: a sample application whose version, error
//! rate and latency are set by its image tag or environment. Two modes share both:
//!
//! ```text
//!            store ──► View ──► Snapshot (routes, endpoints, apps)
//!                                  │
//!   DataPlane: sockets, real time ─┼─ Simulation: no sockets, virtual time
//!                                  ▼
//!                          Meter ──► Sink, every five seconds
//! ```
//!
//! [`controllers`] are the control loops of a gateway controller for the kinds that
//! [`routing_crds`] defines.

use std::time::Duration;

mod acceptor;
pub mod app;
mod client;
mod cookies;
mod crds;
mod duration;
mod gateway;
mod meter;
mod plane;
mod pod_server;
mod resolve;
mod route;
mod serve;
mod simulation;
mod snapshot;
#[cfg(test)]
mod testing;
mod traffic;

pub(crate) use self::acceptor::{controllers, gateway_class};
pub use self::{
    acceptor::{CONTROLLER_NAME, GATEWAY_CLASS},
    crds::routing_crds,
    meter::{BackendCounts, Meter},
    plane::DataPlane,
    pod_server::PodServer,
    resolve::Resolver,
    simulation::Simulation,
    snapshot::{Pod, PodName, Snapshot, View},
    traffic::{Answers, Load, Traffic},
};

/// Reporting interval of simulated traffic.
pub const SCRAPE_INTERVAL: Duration = Duration::from_secs(5);

/// Receives samples: a time series database, or a test.
pub trait Sink: Send + Sync {
    /// One sample of the series `name` with `labels`. Samples arrive in any order.
    fn append(&self, name: &str, labels: &[(&str, &str)], at_ms: i64, value: f64);
}

impl Sink for promql::Database {
    fn append(&self, name: &str, labels: &[(&str, &str)], at_ms: i64, value: f64) {
        // A sample that comes too late, after the clock was put back, is lost as with any scrape.
        let _ = Self::append(self, &promql::Labels::of(name, labels), at_ms, value);
    }
}
