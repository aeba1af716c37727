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
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The plural of the resource.
    pub plural: &'a str,
    /// The object's namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object before the change.
    pub old: Option<&'a Value>,
    /// The object after the change.
    pub new: Option<&'a Value>,
}

/// What a controller works on: an object's namespace (`""` if none) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The object's namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The object's name.
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
    /// The name to pause and resume it by.
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

pub use autoscaler::MetricsKnob;
pub use knative::{KNATIVE_REVISIONS, KNATIVE_SERVICES, knative_crds};
pub use scaled_object::{SCALED_OBJECTS, keda_crds};

pub(crate) use autoscaler::AutoscalerController;
pub(crate) use daemon_set::DaemonSetController;
pub(crate) use deployment::DeploymentController;
pub(crate) use disruption::DisruptionController;
pub(crate) use endpoint_slice::EndpointSliceController;
pub(crate) use endpoints::EndpointsController;
pub(crate) use knative::KnativeController;
pub(crate) use replica_set::ReplicaSetController;
pub(crate) use scaled_object::ScaledObjectController;
pub(crate) use service_account::ServiceAccountController;
pub(crate) use stateful_set::StatefulSetController;
pub(crate) use volume_claim::VolumeClaimController;
