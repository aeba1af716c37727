//! The canary that a reconciler works for, and the context it works in.

use std::sync::Arc;

use tidegate_engine::Moment;
use tidegate_providers::{
    object::{Change, Kind},
    traffic::RouteError,
    workload::WorkloadError,
};

use crate::{
    cluster::{
        cache::Key,
        write::{Place, WriteError},
    },
    context::Context,
};

/// Name and identity of a canary, with everything that its reconciler shares with others.
pub(super) struct CanaryRef {
    pub(super) cx: Arc<Context>,
    pub(super) key: Key,
    pub(super) uid: String,
}

// === impl CanaryRef ===

impl CanaryRef {
    /// An object of the canary's namespace.
    pub(super) fn place<'a>(&'a self, kind: Kind, name: &'a str) -> Place<'a> {
        Place { kind, namespace: &self.key.namespace, name, subresource: "" }
    }

    /// Writes changes one after the other, until one fails.
    pub(super) async fn write(&self, changes: &[Change]) -> Result<(), WriteError> {
        for change in changes {
            self.cx.cluster.write_change(&self.key.namespace, change).await?;
        }
        Ok(())
    }

    /// Writes the changes that a router computed.
    pub(super) async fn write_route(
        &self,
        changes: Result<Vec<Change>, RouteError>,
    ) -> Result<(), WriteError> {
        let changes = changes.map_err(|error| WriteError::Refused {
            what: "the route".to_owned(),
            why: error.to_string(),
        })?;
        self.write(&changes).await
    }

    /// The steady clock in the engine's unit.
    pub(super) fn steady(&self) -> Moment {
        let passed = self.cx.clock.monotonic().as_millis();
        Moment(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

/// A change to a workload that cannot be computed, as a write that is refused.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn rejected(error: WorkloadError) -> WriteError {
    if matches!(error, WorkloadError::TargetMoved { .. }) {
        return WriteError::Conflict { what: "the target".to_owned() };
    }
    WriteError::Refused { what: "a workload".to_owned(), why: error.to_string() }
}
