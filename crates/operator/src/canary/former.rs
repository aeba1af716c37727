//! The route that had the canary's share before the spec named another one.
//!
//! While a rollout is under way the status remembers which object divides traffic. Once that is not the one
//! that the spec leads to, by another reference, provider, protocol or name, it is led back to the primary
//! before the new one is given anything: at most one route has a share, and whoever is killed on the way finds
//! in the status which one that may be.
//!
//! ```text
//! status: front ──> front to the primary ──> status: back ──> back, with the share that was approved last
//! ```
//!
//! A status without it, as older versions write it, means that nothing was changed.

use std::sync::Arc;

use serde_json::Value;
use tidegate_api::canary::{CanaryStatus, status::RouteMemory};
use tidegate_engine::{Observed, Obstacle, Side, Split, State, apex_side, inherited_share};
use tidegate_providers::{
    object::{Change, Kind, Live},
    traffic::{self, Mesh, RouteCx},
    workload::SERVICE,
};

use super::{
    Context, manager,
    observe::{Seen, state_of},
    task::Task,
};
use crate::cluster::{
    Cluster,
    cache::{Key, TableState},
};

/// The route that Kuma has where it has no other; which of the two it was is told by its kind.
const MESH_HTTP_ROUTE: &str = "MeshHTTPRoute";

/// A route that the status remembers and the spec does not lead to.
pub(super) struct Former {
    /// As the status has it.
    pub(super) route: RouteMemory,
    /// Where it is; nowhere if nobody here knows its kind.
    pub(super) place: Option<(Kind, Key)>,
    /// What leads everybody to the primary in it.
    pub(super) changes: Vec<Change>,
}

/// The route that the status remembers.
fn remembered(status: &CanaryStatus) -> Option<&RouteMemory> {
    status.rollout.as_ref()?.route.as_ref()
}

/// The provider of a route, and its kind.
fn kind_of(cluster: &Cluster, route: &RouteMemory) -> Option<(Mesh, Kind)> {
    let serves = |kind| !matches!(cluster.cache.state(kind), TableState::NotServed(_));
    let mesh = match traffic::select(&route.provider).ok()?.served(serves) {
        Mesh::Kuma | Mesh::KumaHttp if route.kind == MESH_HTTP_ROUTE => Mesh::KumaHttp,
        Mesh::Kuma | Mesh::KumaHttp => Mesh::Kuma,
        mesh => mesh,
    };
    let mut kinds = mesh.kinds().iter().chain([&SERVICE]);
    kinds.find(|kind| kind.kind == route.kind).map(|kind| (mesh, *kind))
}

/// Whether the kind of the route that is remembered was listed, or turned out not to be served.
pub(super) fn is_known(cx: &Arc<Context>, status: &CanaryStatus) -> bool {
    let route = remembered(status).and_then(|route| kind_of(&cx.cluster, route));
    route.is_none_or(|(_, kind)| {
        manager::watch_too(cx, kind);
        cx.cluster.cache.state(kind) != TableState::Pending
    })
}

// === impl Seen ===

impl Seen {
    /// Compares the route that the spec leads to with the one that is remembered.
    pub(super) fn look_at_former(&mut self, task: &Task) {
        let present = self.present_route();
        let remembered = remembered(&self.status).filter(|it| present.as_ref() != Some(*it));
        let Some(route) = remembered.cloned() else { return };
        self.observed.objects.takes_over = true;
        let Some((mesh, kind)) = kind_of(&task.cx.cluster, &route) else {
            self.former = Some(Former { route, place: None, changes: Vec::new() });
            return;
        };
        let key = Key::of_kind(kind, &task.key.namespace, &route.name);
        let object = task.cx.cluster.cache.get(kind, &key);
        let (state, changes) = match (self.doubt(task, kind, &route), &object) {
            (Some(why), _) => (State::Blocked(Obstacle(why)), Vec::new()),
            (None, Some(object)) => self.leave(task, (mesh, kind), &route, object),
            (None, None) => (State::InSync, Vec::new()),
        };
        let is_users = object.is_some_and(|object| !self.owner().owns(&object));
        if self.observed.lifecycle.has_finalizer && is_users && state != State::InSync {
            // It would lead to Services that go with the canary.
            self.observed.plan.revert = true;
        }
        self.observed.objects.previous_route = state;
        self.former = Some(Former { route, place: Some((kind, key)), changes });
    }

    /// The route that the status remembers.
    pub(super) fn remembered_route(&self) -> Option<&RouteMemory> {
        remembered(&self.status)
    }

    /// The route that the spec leads to.
    pub(super) fn present_route(&self) -> Option<RouteMemory> {
        let (kind, name) = self.mesh.route(&self.route_cx(""))?;
        Some(RouteMemory {
            provider: self.mesh.as_str().to_owned(),
            kind: kind.kind.to_owned(),
            name,
            service: self.canary.spec.apex_name().to_owned(),
        })
    }

    /// Why nobody can tell what there is of a former route, or whether it is one: an error says nothing about what
    /// is served.
    fn doubt(&self, task: &Task, kind: Kind, former: &RouteMemory) -> Option<String> {
        let failure = |kind: Kind| match task.cx.cluster.cache.state(kind) {
            TableState::Failed(why) => Some(why),
            TableState::Pending | TableState::Synced | TableState::NotServed(_) => None,
        };
        let is_kumas = former.provider == self.mesh.as_str() && former.kind == MESH_HTTP_ROUTE;
        let needed = self.mesh.kinds_for(&self.canary.spec).into_iter().filter(|_| is_kumas);
        needed.chain([kind]).find_map(failure)
    }

    /// What leads everybody to the primary in a former route.
    fn leave(
        &self,
        task: &Task,
        (mesh, kind): (Mesh, Kind),
        former: &RouteMemory,
        object: &Value,
    ) -> (State, Vec<Change>) {
        let present = self.route_cx("");
        let is_same_service = self.canary.spec.apex_name() == former.service;
        if is_same_service && self.mesh.is_route(&present, kind, object) {
            // The same object in other words, such as another version of its API.
            return (State::InSync, Vec::new());
        }
        let is_apex = kind == SERVICE && is_same_service && self.canary.spec.service.is_some();
        let Observed { plan, memory, lifecycle, .. } = &self.observed;
        if is_apex && (apex_side(plan, memory) == Side::Canary || lifecycle.deleted_at.is_some()) {
            // It is still the Service that clients use, on the side that the memory says.
            return (State::InSync, Vec::new());
        }
        let mut spec = self.canary.spec.clone();
        spec.service.get_or_insert_default().name = Some(former.service.clone());
        let mut live = Live::default();
        if kind == SERVICE {
            let names = spec.service_names();
            let names = [names.apex, names.primary, names.canary];
            for service in names.iter().filter_map(|name| Self::service(task, name)) {
                live.insert(SERVICE, service);
            }
        }
        let change = mesh.leave(&RouteCx { spec: &spec, ..present }, kind, object, &live);
        state_of(change.map(|change| change.into_iter().collect()))
    }

    /// How a route begins that takes over from a former one.
    pub(super) fn inherited(&self) -> Split {
        match self.former {
            Some(_) => Split::canary(inherited_share(&self.observed)),
            None => Split::PRIMARY,
        }
    }

    /// On deletion a former route is given back together with the present one.
    pub(super) fn give_former_back(&mut self) {
        let Some(former) =
            self.former.as_ref().filter(|_| self.observed.lifecycle.deleted_at.is_some())
        else {
            return;
        };
        let objects = &mut self.observed.objects;
        match &objects.previous_route {
            State::InSync => {}
            State::OutOfSync => {
                self.route_back.extend(former.changes.iter().cloned());
                if objects.route_restored == State::InSync {
                    objects.route_restored = State::OutOfSync;
                }
            }
            State::Blocked(obstacle) => {
                objects.route_restored = State::Blocked(obstacle.clone());
            }
        }
    }
}
