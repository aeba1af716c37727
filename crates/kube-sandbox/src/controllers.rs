//! The control loops of a cluster: workloads, endpoints, autoscaling.
//!
//! Each is a [`Controller`]: told which objects changed, it names the keys it wants to look at, and
//! is then asked to reconcile them one by one. It keeps no cache of objects; it may keep small
//! memory of its own (expected address, next serial) that a restart can lose without harm.
//! [`crate::runtime`] owns the queues and the clock, so a test can step them in any order.

use std::time::Duration;

use serde_json::Value;

use crate::cluster::Cluster;

/// One object changed. `old` is absent for a creation, `new` for a removal.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    pub group: &'a str,
    pub plural: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub old: Option<&'a Value>,
    pub new: Option<&'a Value>,
}

/// What a controller works on: an object's namespace (`""` if none) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

/// What to do with a key after looking at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes.
    Idle,
    /// Look again after this long, whatever happens.
    After(Duration),
    /// A write failed in a way that another look may mend; the runtime backs off.
    Retry,
}

/// One control loop.
pub trait Controller: Send {
    fn name(&self) -> &'static str;

    /// Group and plural of every resource whose changes matter to it.
    fn watches(&self) -> &'static [(&'static str, &'static str)];

    /// The keys to look at because of `change`. `cluster` may be read, not written.
    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key>;

    /// Brings the world one step closer to what the object of `key` asks for. Runs twice unharmed.
    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next;
}

mod autoscaler;
mod claim;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoint_slice;
mod endpoints;
pub(crate) mod events;
pub(crate) mod hash;
mod intstr;
mod knative;
pub(crate) mod node_fit;
pub(crate) mod object;
pub(crate) mod pods;
mod replica_set;
mod revisions;
mod scaled_object;
mod service_account;
mod stateful_set;
#[cfg(test)]
pub(crate) mod testing;
mod volume_claim;

pub use autoscaler::{AutoscalerController, MetricsKnob};
pub use daemon_set::DaemonSetController;
pub use deployment::DeploymentController;
pub use disruption::DisruptionController;
pub use endpoint_slice::EndpointSliceController;
pub use endpoints::EndpointsController;
pub use knative::{KNATIVE_REVISIONS, KNATIVE_SERVICES, KnativeController, knative_crds};
pub use replica_set::ReplicaSetController;
pub use scaled_object::{SCALED_OBJECTS, ScaledObjectController, keda_crds};
pub use service_account::ServiceAccountController;
pub use stateful_set::StatefulSetController;
pub use volume_claim::VolumeClaimController;
