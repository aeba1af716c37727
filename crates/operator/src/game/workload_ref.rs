//! The game workload that a reconciler works for, and the context it works in.

use std::sync::Arc;

use serde_json::Value;
use tidegate_engine::{Moment, Tone};
use tidegate_providers::{game::GAME_DEPLOYMENT, object::Kind};

use crate::{
    cluster::{cache::Key, write::Place},
    context::Context,
    events,
    telemetry::{GameKind, GameWorkload},
};

/// Kind, name and identity of a workload.
pub(super) struct WorkloadRef {
    pub(super) cx: Arc<Context>,
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) uid: String,
}

// === impl WorkloadRef ===

impl WorkloadRef {
    /// An object of the workload's namespace.
    pub(super) fn place<'a>(&'a self, kind: Kind, name: &'a str) -> Place<'a> {
        Place { kind, namespace: &self.key.namespace, name, subresource: "" }
    }

    /// The workload itself.
    pub(super) fn own_place<'a>(&'a self, subresource: &'a str) -> Place<'a> {
        Place { subresource, ..self.place(self.kind, &self.key.name) }
    }

    /// Records an Event about the workload.
    pub(super) async fn record(&self, object: &Value, reason: &str, tone: Tone, message: &str) {
        let report = events::Report { kind: self.kind, object, reason, tone, message };
        events::record(&self.cx, &report).await;
    }

    /// The labels of its metrics.
    pub(super) fn labels(&self) -> GameWorkload<'_> {
        labels_of(self.kind, &self.key.namespace, &self.key.name)
    }

    pub(super) fn now(&self) -> Moment {
        Moment(self.cx.clock.now().as_millisecond())
    }
}

/// The labels of a workload's metrics.
pub(super) fn labels_of<'a>(kind: Kind, namespace: &'a str, name: &'a str) -> GameWorkload<'a> {
    let is_deployment = kind == GAME_DEPLOYMENT;
    let kind = if is_deployment { GameKind::Deployment } else { GameKind::StatefulSet };
    GameWorkload { kind, namespace, name }
}

/// The name under which the cache wakes a loop: with its kind it cannot be the name of a canary.
pub(super) fn follower(kind: Kind, key: &Key) -> Key {
    Key::new(&key.namespace, &format!("{}/{}", kind.plural, key.name))
}
