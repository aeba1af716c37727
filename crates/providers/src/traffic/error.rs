//! Why a route could not be read or written. Every error names the object or canary it is about.

use std::fmt;

use super::Mesh;
use crate::object::HANDED_OVER;
use crate::object::{Kind, Owner};

/// An object, for people: `HTTPRoute web/shop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Kind of the object.
    pub kind: &'static str,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// Why a route could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The routing object is not there.
    #[error("{object} does not exist")]
    Missing {
        /// The object.
        object: Place,
    },
    /// The routing object has content that we did not write.
    #[error("{object} cannot be read: {why}")]
    Malformed {
        /// The object.
        object: Place,
        /// The problem.
        why: String,
    },
    /// The routing object has another controller.
    #[error("{object} is controlled by {controller} and is not touched")]
    Taken {
        /// The object.
        object: Place,
        /// Kind and name of its controller.
        controller: String,
    },
    /// The routing object is a user's, who did not ask for it to be rewritten.
    #[error(
        "{object} was not made for this canary and is left alone; to have all of it rewritten, \
         annotate it with {HANDED_OVER}={canary}; to have its backends divided and nothing else, \
         name it in spec.routeRef of the canary; or give it another name"
    )]
    Unasked {
        /// The object.
        object: Place,
        /// Name of the canary.
        canary: String,
    },
    /// The routing object is written, but not in effect yet.
    #[error("{object} is not ready at {parent}: {why}")]
    NotReady {
        /// The object.
        object: Place,
        /// The Gateway or Service it is attached to.
        parent: String,
        /// Which condition is missing.
        why: String,
    },
    /// The canary's spec has a field that cannot be written.
    #[error("{canary}: {field}: {why}")]
    Spec {
        /// The canary.
        canary: Place,
        /// Path of the field.
        field: String,
        /// The problem.
        why: String,
    },
    /// The caller requests something that the provider cannot do.
    #[error("{canary}: the provider \"{provider}\" cannot {what}")]
    Unsupported {
        /// The canary.
        canary: Place,
        /// The provider.
        provider: &'static str,
        /// The requested value.
        what: &'static str,
    },
    /// A share for the canary was requested before there was a cookie.
    #[error("{canary}: {field} has to be stored before traffic is shifted")]
    NoCookie {
        /// The canary.
        canary: Place,
        /// The status field of the cookie.
        field: &'static str,
    },
    /// The earlier content cannot be restored.
    #[error("{object}: annotation {annotation} cannot be restored: {why}")]
    Backup {
        /// The object.
        object: Place,
        /// The annotation that should have it.
        annotation: &'static str,
        /// The problem.
        why: String,
    },
}

/// There is no such provider: a typo, most likely.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no provider \"{provider}\"; known are {}", known())]
pub struct UnknownProvider {
    /// The requested value.
    pub provider: String,
}

fn known() -> String {
    Mesh::ALL.iter().map(|mesh| mesh.as_str()).collect::<Vec<_>>().join(", ")
}

// === impl Place ===

impl Place {
    pub(super) fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind: kind.kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub(super) fn canary(owner: &Owner<'_>) -> Self {
        Self { kind: "Canary", namespace: owner.namespace.to_owned(), name: owner.name.to_owned() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

// === impl RouteError ===

impl RouteError {
    /// Whether time alone may help: the route is written and another controller has to act on it.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::NotReady { .. })
    }

    /// A fixed word for metrics.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Malformed { .. } => "malformed",
            Self::Taken { .. } => "taken",
            Self::Unasked { .. } => "unasked",
            Self::NotReady { .. } => "not-ready",
            Self::Spec { .. } => "spec",
            Self::Unsupported { .. } => "unsupported",
            Self::NoCookie { .. } => "no-cookie",
            Self::Backup { .. } => "backup",
        }
    }
}
