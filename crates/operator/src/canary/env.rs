//! The context of one observation of a canary, and the finding that a stage returns for a managed object.
//!
//! An [`Env`] gives the stages of [`super::observe`] the cache, settings, clocks and rejected writes, to read
//! only. A [`Finding`] is one managed object compared with what it should be.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use tidegate_api::canary::CanaryStatus;
use tidegate_engine::{Action, Fact, ManagedObject, Obstacle, State};
use tidegate_providers::{
    object::{Change, Kind},
    workload::SERVICE,
};

use super::unready_since::Clocks;
use crate::{
    cluster::{
        Cluster,
        cache::{Key, TableState},
    },
    context::Options,
    rejected_writes::RejectedWrites,
};

/// The parts of the operator that a look at a canary may read.
pub(super) struct Env<'a> {
    /// The canary as the cache has it.
    pub(super) raw: &'a Arc<Value>,
    pub(super) key: &'a Key,
    pub(super) uid: &'a str,
    pub(super) cluster: &'a Cluster,
    pub(super) options: &'a Arc<Options>,
    pub(super) clocks: Clocks,
    pub(super) rejected: &'a RejectedWrites<ManagedWrite>,
    /// The status as it was meant to be written, if the cluster's definition drops some of its fields.
    pub(super) unpruned_status: Option<&'a CanaryStatus>,
    /// Starts the watch of a kind, unless it is watched.
    pub(super) watch: &'a (dyn Fn(Kind) + Sync),
}

/// Why there is no observation yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotYet {
    /// Kinds that the canary needs are being listed.
    Listing,
    /// The object cannot be read as a canary.
    Unreadable(String),
}

/// A kind of write that brings one managed object in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ManagedWrite {
    /// Creates or updates an object.
    Ensure(ManagedObject),
    /// Divides traffic.
    Shift,
    /// Sets the canary's weight in the previous route to zero.
    RetirePreviousRoute,
    RestoreApex,
    RestoreRoute,
    /// Deletes orphans.
    Prune,
}

/// A managed object: how it compares, the changes that bring it in sync, and the event to record after them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Finding {
    pub(super) state: State,
    pub(super) changes: Vec<Change>,
    pub(super) note: Option<Fact>,
}

/// All findings of a look.
pub(super) type Findings = BTreeMap<ManagedWrite, Finding>;

// === impl Env ===

impl Env<'_> {
    /// An object of the canary's namespace, or of none.
    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        let key = Key::of_kind(kind, &self.key.namespace, name);
        self.cluster.cache.get(kind, &key)
    }

    pub(super) fn service(&self, name: &str) -> Option<Arc<Value>> {
        self.get(SERVICE, name)
    }

    pub(super) fn state(&self, kind: Kind) -> TableState {
        self.cluster.cache.state(kind)
    }

    /// Whether a kind may be served: false only if the API server said that it is not.
    pub(super) fn may_serve(&self, kind: Kind) -> bool {
        !matches!(self.state(kind), TableState::NotServed(_))
    }

    /// Generation of the canary's spec.
    pub(super) fn generation(&self) -> i64 {
        self.raw["metadata"]["generation"].as_i64().unwrap_or(0)
    }

    /// Watches these kinds. `Listing` until each was listed, or turned out not to be served, and the
    /// definitions of routes are read. Nothing else starts watches for a canary.
    pub(super) fn require(&self, kinds: &[Kind]) -> Result<(), NotYet> {
        for kind in kinds {
            (self.watch)(*kind);
        }
        let is_known = |kind: &Kind| {
            self.state(*kind) != TableState::Pending && self.cluster.route_fields(*kind).is_some()
        };
        if kinds.iter().all(is_known) { Ok(()) } else { Err(NotYet::Listing) }
    }
}

// === impl ManagedWrite ===

impl ManagedWrite {
    /// The write of an action, if it brings a managed object in sync.
    pub(super) fn of(action: &Action) -> Option<Self> {
        match action {
            Action::Ensure(object) => Some(Self::Ensure(*object)),
            Action::Promote(_) => Some(Self::Ensure(ManagedObject::Primary)),
            Action::Shift(_) => Some(Self::Shift),
            Action::RetirePreviousRoute => Some(Self::RetirePreviousRoute),
            Action::RestoreApex => Some(Self::RestoreApex),
            Action::RestoreRoute => Some(Self::RestoreRoute),
            // The engine has no alternative to the deletion of an orphan: a rejection is an error.
            Action::Prune
            | Action::Cookies(_)
            | Action::ScaleTarget(_)
            | Action::Park
            | Action::ResumeScaler
            | Action::PauseScaler
            | Action::RefreshPrimaryScaler
            | Action::Remember(_)
            | Action::Announce(_)
            | Action::Alert(_)
            | Action::DropManualStep(_)
            | Action::ResetResume
            | Action::ClearRetry
            | Action::Count(_)
            | Action::AddFinalizer
            | Action::RemoveFinalizer => None,
        }
    }
}

// === impl Finding ===

impl Finding {
    /// In sync if there is nothing to change, blocked if the changes cannot be computed.
    pub(super) fn of(changes: Result<Vec<Change>, impl std::fmt::Display>) -> Self {
        match changes {
            Ok(changes) if changes.is_empty() => Self::default(),
            Ok(changes) => Self { state: State::OutOfSync, changes, note: None },
            Err(error) => Self::blocked(error.to_string()),
        }
    }

    /// The same for what is one change at most.
    pub(super) fn of_one(change: Result<Option<Change>, impl std::fmt::Display>) -> Self {
        Self::of(change.map(|change| change.into_iter().collect()))
    }

    pub(super) fn state(state: State) -> Self {
        Self { state, ..Self::default() }
    }

    pub(super) fn blocked(why: String) -> Self {
        Self::state(State::Blocked(Obstacle(why)))
    }

    /// Blocked if the API server has rejected one of these writes lately.
    pub(super) fn block_if_rejected(mut self, env: &Env<'_>, writes: &[ManagedWrite]) -> Self {
        let (now, generation) = (env.clocks.steady, env.generation());
        let obstacle = |write| env.rejected.obstacle(write, now, generation);
        if let Some(obstacle) = writes.iter().find_map(obstacle) {
            self.state = State::Blocked(obstacle);
        }
        self
    }
}
