//! Whether a workload can take traffic.

use std::fmt;

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
    /// The cause by the pods' own status, if it is known: `container app exits with code 1`.
    pub cause: Option<String>,
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
    pub fn unready(&self) -> Option<&Unready> {
        match self {
            Self::Ready => None,
            Self::Waiting(unready) | Self::Stuck(unready) => Some(unready),
        }
    }

    /// The same with the cause that its pods name.
    #[must_use]
    pub fn with_cause(mut self, cause: Option<String>) -> Self {
        if let Self::Waiting(unready) | Self::Stuck(unready) = &mut self {
            unready.cause = cause;
        }
        self
    }
}

// === impl Unready ===

impl Unready {
    /// Without a cause.
    pub fn new(why: impl Into<String>, serving: bool) -> Self {
        Self { why: why.into(), cause: None, serving }
    }
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{}: {cause}", self.why),
            None => f.write_str(&self.why),
        }
    }
}
