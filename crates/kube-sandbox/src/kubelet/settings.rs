//! Delays of the simulated kubelet.

use std::time::Duration;

use super::Behaviours;

/// Delays between the states of a pod, and behaviours by image.
#[derive(Debug, Clone)]
pub struct KubeletSettings {
    /// Time to pull an image that is not on its node yet.
    pub pull_delay: Duration,
    /// Time from then until the container runs. Init containers take as long to finish.
    pub start_delay: Duration,
    /// Time from running to ready.
    pub ready_delay: Duration,
    /// Time from deletion until removal, if the grace period is not shorter.
    pub stop_delay: Duration,
    /// Whether `initialDelaySeconds` and `periodSeconds` of readiness probes delay readiness. Off
    /// by default, to keep experiments short.
    pub honour_probes: bool,
    /// Behaviours of containers, by image.
    pub behaviours: Behaviours,
}

// === impl KubeletSettings ===

impl Default for KubeletSettings {
    /// Half a second from bound to ready: visible, but short.
    fn default() -> Self {
        Self {
            pull_delay: Duration::from_millis(200),
            start_delay: Duration::from_millis(100),
            ready_delay: Duration::from_millis(200),
            stop_delay: Duration::from_millis(300),
            honour_probes: false,
            behaviours: Behaviours::default(),
        }
    }
}

impl KubeletSettings {
    /// No delays: a pod is ready after its first reconcile.
    pub fn instant() -> Self {
        Self {
            pull_delay: Duration::ZERO,
            start_delay: Duration::ZERO,
            ready_delay: Duration::ZERO,
            stop_delay: Duration::ZERO,
            ..Self::default()
        }
    }
}
