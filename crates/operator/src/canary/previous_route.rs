//! The route that had the canary's share before the spec named another one.
//!
//! During a rollout the status remembers which object divides traffic. If the spec names another one since,
//! by another reference, provider, protocol or name, the previous route gives all traffic to the primary
//! before the new one is given anything: at most one route has a share, and after a crash the status says
//! which one that may be.
//!
//! From route A to route B:
//!
//! ```text
//! status names A ─► A: all traffic to the primary ─► status names B ─► B: the weight that was approved last
//! ```
//!
//! A status without a route, as older versions write it, means that the route is the same.

use serde_json::Value;
use tidegate_api::canary::status::RouteMemory;
use tidegate_engine::Split;
use tidegate_engine::{Side, State, apex_side};
use tidegate_providers::{
    canary::Remembered,
    object::{Kind, Live},
    traffic::{self, Mesh, RouteCx},
    workload::SERVICE,
};

use super::{
    env::{Env, Finding, ManagedWrite},
    inputs::Inputs,
};
use crate::cluster::cache::{Key, TableState};

/// The route that Kuma has where it has no other; its kind tells which of the two it was.
const MESH_HTTP_ROUTE: &str = "MeshHTTPRoute";

/// A remembered route that the spec does not name.
pub(super) struct PreviousRoute {
    /// As the status has it.
    pub(super) route: RouteMemory,
    /// Where it is, if its kind is known here.
    pub(super) place: Option<(Kind, Key)>,
    /// Out of sync while the canary has a share in it.
    pub(super) finding: Finding,
    /// Whether the canary does not own it, and it still leads to Services that are deleted with the canary.
    pub(super) outlives_canary: bool,
}

/// The provider and kind of the remembered route.
pub(super) fn kind_of(env: &Env<'_>, remembered: &Remembered) -> Option<(Mesh, Kind)> {
    let route = remembered.route()?;
    let mesh = traffic::select(&route.provider).ok()?.served(|kind| env.may_serve(kind));
    let mesh = match (mesh == Mesh::Kuma || mesh == Mesh::KumaHttp, &*route.kind) {
        (true, MESH_HTTP_ROUTE) => Mesh::KumaHttp,
        (true, _) => Mesh::Kuma,
        (false, _) => mesh,
    };
    let mut kinds = mesh.kinds().iter().chain([&SERVICE]);
    kinds.find(|kind| kind.kind == route.kind).map(|kind| (mesh, *kind))
}

/// Compares the remembered route with the one that the spec names.
pub(super) fn observe(env: &Env<'_>, inputs: &Inputs) -> Option<PreviousRoute> {
    let present = inputs.present_route();
    let remembered = inputs.remembered.route().filter(|it| present.as_ref() != Some(*it));
    let route = remembered?.clone();
    let Some((mesh, kind)) = kind_of(env, &inputs.remembered) else {
        let finding = Finding::default();
        return Some(PreviousRoute { route, place: None, finding, outlives_canary: false });
    };
    let object = env.get(kind, &route.name);
    let finding = match (unknown_reason(env, inputs, kind, &route), &object) {
        (Some(why), _) => Finding::blocked(why),
        (None, Some(object)) => retire(env, inputs, (mesh, kind), &route, object),
        (None, None) => Finding::default(),
    };
    let is_foreign = object.is_some_and(|object| !inputs.owner().owns(&object));
    let outlives_canary = is_foreign && finding.state != State::InSync;
    let place = Some((kind, Key::of_kind(kind, &env.key.namespace, &route.name)));
    Some(PreviousRoute { route, place, finding, outlives_canary })
}

// === impl PreviousRoute ===

impl PreviousRoute {
    /// Blocked while the API server rejects its retirement.
    pub(super) fn finding(&self, env: &Env<'_>) -> Finding {
        self.finding.clone().block_if_rejected(env, &[ManagedWrite::RetirePreviousRoute])
    }
}

/// Why it is unknown whether there is a previous route, or how it divides traffic: after an error of a list
/// it is unknown which kinds are served.
fn unknown_reason(
    env: &Env<'_>,
    inputs: &Inputs,
    kind: Kind,
    previous: &RouteMemory,
) -> Option<String> {
    let failure = |kind: Kind| match env.state(kind) {
        TableState::Failed(why) => Some(why),
        TableState::Pending | TableState::Synced | TableState::NotServed(_) => None,
    };
    let is_kumas = previous.provider == inputs.mesh.as_str() && previous.kind == MESH_HTTP_ROUTE;
    let needed = inputs.mesh.kinds_for(&inputs.canary.spec).into_iter().filter(|_| is_kumas);
    needed.chain([kind]).find_map(failure)
}

/// The change that gives all traffic of a previous route to the primary.
fn retire(
    env: &Env<'_>,
    inputs: &Inputs,
    (mesh, kind): (Mesh, Kind),
    previous: &RouteMemory,
    object: &Value,
) -> Finding {
    let present = inputs.route_cx(Split::PRIMARY);
    let is_same_service = inputs.canary.spec.apex_name() == previous.service;
    if is_same_service && inputs.mesh.is_route(&present, kind, object) {
        // The same object in other words, such as another version of its API.
        return Finding::default();
    }
    let is_apex = kind == SERVICE && is_same_service && inputs.canary.spec.service.is_some();
    let side = apex_side(&inputs.plan, &inputs.remembered.memory);
    if is_apex && (side == Side::Canary || inputs.is_deleted()) {
        // Still the Service that clients use, on the side of the remembered phase.
        return Finding::default();
    }
    let mut spec = inputs.canary.spec.clone();
    spec.service.get_or_insert_default().name = Some(previous.service.clone());
    let mut live = Live::default();
    if kind == SERVICE {
        let names = spec.service_names();
        let names = [names.apex, names.primary, names.canary];
        for service in names.iter().filter_map(|name| env.service(name)) {
            live.insert(SERVICE, service);
        }
    }
    Finding::of_one(mesh.leave(&RouteCx { spec: &spec, ..present }, kind, object, &live))
}
