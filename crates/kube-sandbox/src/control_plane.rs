//! The control loops that a cluster runs. [`crate::Sandbox`] makes them, [`crate::runtime`] runs them.

use crate::{
    controllers::{
        AutoscalerController, Controller, DaemonSetController, DeploymentController,
        DisruptionController, EndpointSliceController, EndpointsController, KnativeController,
        MetricsKnob, ReplicaSetController, ScaledObjectController, ServiceAccountController,
        StatefulSetController, VolumeClaimController,
    },
    kubelet::{Kubelet, KubeletSettings, Scheduler},
};

/// Settings of the control loops.
#[derive(Debug, Clone, Default)]
pub struct ControllerSettings {
    /// Pace and behaviour of pods.
    pub kubelet: KubeletSettings,
    /// Measured use of pods, for autoscalers.
    pub metrics: MetricsKnob,
    /// PEM text put into the ConfigMap `kube-root-ca.crt` of every namespace.
    pub root_certificate: String,
}

/// Every control loop of a cluster, the scheduler and the kubelet among them.
pub(crate) fn all(settings: ControllerSettings) -> Vec<Box<dyn Controller>> {
    let ControllerSettings { kubelet, metrics, root_certificate } = settings;
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
