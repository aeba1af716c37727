//! Whether a workload can take traffic.

/// Readiness by the workload's own status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Enough pods of the current revision are available.
    Ready,
    /// Not yet; waiting may help.
    Waiting(Unready),
    /// Not within its deadline; waiting does not help.
    Stuck(Unready),
}

/// Why a workload is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// The condition that is not met yet, for people: `1 of 3 updated replicas are available`.
    pub why: String,
    /// Whether at least one pod can serve all the same.
    pub serving: bool,
}

// === impl Readiness ===

impl Readiness {
    /// Enough pods are available.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready)
    }

    /// At least one pod can serve.
    pub fn is_serving(&self) -> bool {
        match self {
            Self::Ready => true,
            Self::Waiting(unready) | Self::Stuck(unready) => unready.serving,
        }
    }

    /// The condition that is not met yet, if any.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Ready => None,
            Self::Waiting(unready) | Self::Stuck(unready) => Some(&unready.why),
        }
    }
}
