//! Revisions: fingerprints of templates and configuration.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// The fingerprint of a workload's template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(Arc<str>);

/// Fingerprints of the configuration a workload uses, by `configmap/<name>` and `secret/<name>`.
pub type Configs = Arc<BTreeMap<String, String>>;

/// The prefix of our own fingerprints.
const OURS: &str = "v1-";

// === impl Revision ===

impl Revision {
    /// A fingerprint as it is stored.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Made by another controller: it cannot be compared with ours.
    pub fn is_foreign(&self) -> bool {
        !self.0.starts_with(OURS)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
