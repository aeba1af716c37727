//! The control loops of a cluster: workloads, endpoints, autoscaling, scheduler and simulated
//! kubelet.
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
    pub group: &'a str,
    pub plural: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub old: Option<&'a Value>,
    pub new: Option<&'a Value>,
}

/// The namespace (`""` if none) and name of an object to reconcile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
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

use crate::kubelet::{Kubelet, KubeletSettings, Scheduler};

/// Inputs of the control loops from outside the cluster.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub kubelet: KubeletSettings,
    pub metrics: MetricsKnob,
    /// PEM text for the ConfigMap `kube-root-ca.crt` of every namespace.
    pub root_certificate: String,
}

/// Every control loop of a cluster, including the scheduler and the kubelet.
pub fn all(settings: Settings) -> Vec<Box<dyn Controller>> {
    let Settings { kubelet, metrics, root_certificate } = settings;
    vec![
        Box::new(DeploymentController::default()),
        Box::new(ReplicaSetController::default()),
        Box::new(StatefulSetController::default()),
        Box::new(VolumeClaimController),
        Box::new(DaemonSetController::default()),
        Box::new(EndpointsController::default()),
        Box::new(EndpointSliceController::default()),
        Box::new(AutoscalerController::new(metrics)),
        Box::new(ScaledObjectController),
        Box::new(KnativeController),
        Box::new(DisruptionController::default()),
        Box::new(ServiceAccountController { root_certificate }),
        Box::new(Scheduler::default()),
        Box::new(Kubelet::new(kubelet)),
    ]
}
