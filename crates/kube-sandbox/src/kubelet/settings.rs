//! How fast the pretending kubelet is.

use std::time::Duration;

use super::Behaviours;

/// Delays between the states of a pod, and who misbehaves.
#[derive(Debug, Clone)]
pub struct KubeletSettings {
    /// An image not yet on its node takes this long to arrive.
    pub pull_delay: Duration,
    /// From there until the container runs. Init containers take as long to finish.
    pub start_delay: Duration,
    /// From running to ready.
    pub ready_delay: Duration,
    /// From being asked to stop until gone, if the grace period is not shorter.
    pub stop_delay: Duration,
    /// Whether `initialDelaySeconds` and `periodSeconds` of readiness probes hold readiness back.
    /// Off by default: who tries something out does not want to wait for it.
    pub honour_probes: bool,
    /// Behaviours of containers, by image.
    pub behaviours: Behaviours,
}

// === impl KubeletSettings ===

impl Default for KubeletSettings {
    /// Half a second from bound to ready: slow enough to be watched, fast enough not to bore.
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
    /// No delays at all: a pod is ready in the look that first sees it.
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
