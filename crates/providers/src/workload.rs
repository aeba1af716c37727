//! The objects that run in production, derived from the user's.
//!
//! The user's workload, the *target*, doubles as the canary. Next to it stand objects made for
//! one Canary, each a function of the target and of what is live:
//!
//! ```text
//! target ─┬─> <target>-primary              the workload in production   primary
//!         ├─> <config>-primary              the config of its pods       config
//!         ├─> <scaler>-primary              its autoscaler               scaler
//!         ├─> <target>-primary-promoted     a snapshot to rebuild it     primary::snapshot
//!         └─> <svc>, <svc>-primary, <svc>-canary                         services
//! ```
//!
//! An object that carries one of these names and does not belong to the canary is never touched:
//! see [`WorkloadError`]. Applying a change and deriving it again yields nothing to change.

pub mod clone;
pub mod config;
pub mod hash;
mod kind;
mod metadata;
mod pods;
pub mod primary;
pub mod scaler;
pub mod services;
#[cfg(test)]
mod testing;

use serde_json::Value;

pub use self::{
    kind::{SCALE_TO_ZERO, WorkloadKind},
    metadata::LabelPrefixes,
};
use crate::object::{Kind, Owner, controller_of};

/// Inputs shared by every object derived for one canary.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a> {
    /// The canary.
    pub owner: Owner<'a>,
    /// The kind of the target.
    pub workload: WorkloadKind,
    /// Name of the target.
    pub target: &'a str,
    /// Keys of labels that may tell the target's pods apart, in order of preference
    /// (`-selector-labels`).
    pub selector_labels: &'a [String],
    /// Which labels are copied (`-include-label-prefix`).
    pub included: &'a LabelPrefixes,
}

/// Why an object cannot be derived or must not be written. Each names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// Nothing tells the target's pods apart.
    #[error(
        "{kind} `{name}` has none of the labels {labels} in spec.selector.matchLabels; select its \
         pods by one of them, or add the label it has to -selector-labels"
    )]
    NoSelectorLabel {
        /// Kind of the target.
        kind: &'static str,
        /// Name of the target.
        name: String,
        /// The labels that were looked for.
        labels: String,
    },
    /// A Service of Knative without a revision.
    #[error("Service `{name}` of Knative has no revision yet")]
    NoRevision {
        /// Name of the target.
        name: String,
    },
    /// An object of the name we need is not the canary's.
    #[error(
        "{kind} `{name}` exists and is not controlled by canary `{canary}`, so it is left as it \
         is; rename or delete it"
    )]
    NotOurs {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// The canary that needs the name.
        canary: String,
    },
    /// An object of the name we need belongs to another canary.
    #[error(
        "{kind} `{name}` belongs to canary `{other}`, so canary `{canary}` leaves it as it is; \
         give one of the two another target or service name"
    )]
    OfAnotherCanary {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// The canary that needs the name.
        canary: String,
        /// The canary that has it.
        other: String,
    },
    /// A Service that serves something else, or nothing.
    #[error("Service `{name}` {why}")]
    ServiceRefused {
        /// Its name.
        name: String,
        /// The reason, and the way out.
        why: String,
    },
    /// The API server would refuse the name, or a label made from it.
    #[error(
        "{what} `{name}` would have {length} characters where {most} are allowed; choose a name \
         that is {} shorter", length - most
    )]
    NameTooLong {
        /// The named thing.
        what: &'static str,
        /// The name.
        name: String,
        /// Its length in bytes.
        length: usize,
        /// The longest possible.
        most: usize,
    },
    /// The target's pods need configuration that does not exist.
    #[error(
        "{kind} `{name}` is used by the pods and does not exist; create it or make it optional"
    )]
    ConfigMissing {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
    },
    /// The autoscaler that the canary refers to does not exist.
    #[error("{kind} `{name}` of autoscalerRef does not exist; create it or remove autoscalerRef")]
    ScalerMissing {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
    },
    /// The target is no longer the revision that passed the analysis.
    #[error(
        "{kind} `{name}` is at revision {found}, and {analysed} is to be promoted; the new \
         revision has to be analysed first"
    )]
    TargetMoved {
        /// Kind of the target.
        kind: &'static str,
        /// Name of the target.
        name: String,
        /// The revision that was analysed.
        analysed: String,
        /// The revision that was found.
        found: String,
    },
    /// A selector cannot be changed, and the template no longer matches it.
    #[error(
        "{kind} `{name}` selects pods by labels the target no longer has; delete it to have it \
         made again"
    )]
    SelectorChanged {
        /// Kind of the primary.
        kind: &'static str,
        /// Name of the primary.
        name: String,
    },
    /// The target's pods are replaced only by deleting them.
    #[error(
        "{kind} `{name}` has the update strategy {strategy}, with which no pod is replaced by \
         itself; set spec.updateStrategy.type to RollingUpdate"
    )]
    UpdateStrategy {
        /// Kind of the target.
        kind: &'static str,
        /// Name of the target.
        name: String,
        /// Its strategy.
        strategy: String,
    },
    /// The primary is gone, and so is the record of its template.
    #[error(
        "{kind} `{name}` is gone, and the target is not at the revision it ran, {promoted}; bring \
         the target back to that revision, or set skipAnalysis to promote what it has now"
    )]
    PromotedUnknown {
        /// Kind of the primary.
        kind: &'static str,
        /// Name of the primary.
        name: String,
        /// The revision it ran.
        promoted: String,
    },
    /// The saved copy of the promoted template is empty.
    #[error("Secret `{name}` holds no promoted revision that can be read; delete it")]
    SnapshotUnreadable {
        /// Name of the Secret.
        name: String,
    },
    /// Bounds that no scaler can keep.
    #[error(
        "{kind} `{name}` would have at least {min} and at most {max} replicas; correct \
         autoscalerRef.primaryScalerReplicas"
    )]
    ScalerBounds {
        /// Kind of the scaler.
        kind: &'static str,
        /// Name of the primary's scaler.
        name: String,
        /// Fewest replicas.
        min: i64,
        /// Most replicas.
        max: i64,
    },
    /// The annotation of the user's last apply cannot be read, and it is needed for the restore.
    #[error(
        "annotation {annotation} of {kind} `{name}` cannot be read, so its selector cannot be \
         restored; correct or remove the annotation"
    )]
    OriginalUnreadable {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// The annotation.
        annotation: &'static str,
    },
}

/// `Deployment`.
pub const DEPLOYMENT: Kind =
    Kind { group: "apps", version: "v1", kind: "Deployment", plural: "deployments" };
/// `DaemonSet`.
pub const DAEMON_SET: Kind =
    Kind { group: "apps", version: "v1", kind: "DaemonSet", plural: "daemonsets" };
/// `Service` of the core.
pub const SERVICE: Kind = Kind { group: "", version: "v1", kind: "Service", plural: "services" };
/// `ConfigMap`.
pub const CONFIG_MAP: Kind =
    Kind { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps" };
/// `Secret`.
pub const SECRET: Kind = Kind { group: "", version: "v1", kind: "Secret", plural: "secrets" };
/// `HorizontalPodAutoscaler`.
pub const HORIZONTAL_POD_AUTOSCALER: Kind = Kind {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
};

/// KEDA's `ScaledObject`.
pub const SCALED_OBJECT: Kind =
    Kind { group: "keda.sh", version: "v1alpha1", kind: "ScaledObject", plural: "scaledobjects" };

/// Refuses an object that is not the canary's own.
///
/// As Flagger, kind and name of the controller decide: a canary that was deleted and made again, or
/// one taken over from Flagger, has its objects back.
pub fn require_owned(owner: &Owner<'_>, kind: Kind, object: &Value) -> Result<(), WorkloadError> {
    if owner.owns(object) {
        return Ok(());
    }
    let (kind, name, canary) = (kind.kind, name_of(object).to_owned(), owner.name.to_owned());
    match controller_of(object) {
        Some(("Canary", other)) => {
            Err(WorkloadError::OfAnotherCanary { kind, name, canary, other: other.to_owned() })
        }
        _ => Err(WorkloadError::NotOurs { kind, name, canary }),
    }
}

/// The object's name; empty where it has none.
pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The object's identity; empty where it has none.
pub(crate) fn uid_of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

// === impl Cx ===

impl Cx<'_> {
    /// Name of the primary copy of the target.
    pub fn primary_name(&self) -> String {
        format!("{}-primary", self.target)
    }
}

// === impl WorkloadError ===

impl WorkloadError {
    /// A fixed word for metrics and event reasons.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NoSelectorLabel { .. } => "NoSelectorLabel",
            Self::NoRevision { .. } => "NoRevision",
            Self::NotOurs { .. } => "NotOurs",
            Self::OfAnotherCanary { .. } => "OfAnotherCanary",
            Self::ServiceRefused { .. } => "ServiceRefused",
            Self::NameTooLong { .. } => "NameTooLong",
            Self::ConfigMissing { .. } => "ConfigMissing",
            Self::ScalerMissing { .. } => "ScalerMissing",
            Self::TargetMoved { .. } => "TargetMoved",
            Self::SelectorChanged { .. } => "SelectorChanged",
            Self::UpdateStrategy { .. } => "UpdateStrategy",
            Self::PromotedUnknown { .. } => "PromotedUnknown",
            Self::SnapshotUnreadable { .. } => "SnapshotUnreadable",
            Self::ScalerBounds { .. } => "ScalerBounds",
            Self::OriginalUnreadable { .. } => "OriginalUnreadable",
        }
    }
}
