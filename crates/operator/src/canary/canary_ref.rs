//! The canary that a reconciler works for, and the context it works in.

use std::sync::Arc;

use tidegate_engine::Moment;
use tidegate_providers::object::{Change, Kind};

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
            self.cx.cluster.carry_out(&self.key.namespace, change).await?;
        }
        Ok(())
    }

    /// The steady clock in the engine's unit.
    pub(super) fn steady(&self) -> Moment {
        let passed = self.cx.clock.monotonic().as_millis();
        Moment(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}
