//! The control loops of a cluster: workloads, endpoints, autoscaling.
//!
//! Each is a [`Controller`]: it maps a change to the keys to reconcile, and [`crate::runtime`],
//! which owns the queues and the clock, calls [`Controller::reconcile`] for one key at a time. A
//! controller keeps no cache of objects, and loses nothing on a restart: its own memory is small
//! and can be rebuilt. Tests may step controllers in any order.

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

/// The namespace (`""` if none) and name of an object to reconcile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The object's namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

/// Result of a reconcile: when to look at the key again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait for the next change.
    Idle,
    /// Look again after this long, even without a change.
    After(Duration),
    /// A write failed and may succeed later; the runtime backs off.
    Retry,
}

/// One control loop.
pub trait Controller: Send {
    /// The name to pause and resume it by.
    fn name(&self) -> &'static str;

    /// Group and plural of every watched resource.
    fn watches(&self) -> &'static [(&'static str, &'static str)];

    /// The keys to reconcile because of `change`. `cluster` may be read, not written.
    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key>;

    /// Brings the cluster one step closer to the spec of the object at `key`. Idempotent.
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
