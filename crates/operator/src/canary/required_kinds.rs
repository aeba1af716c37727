//! The kinds of object that must be listed before a canary can be observed.
//!
//! Kinds of routing object are watched once a canary needs them. Those of a provider that it had before are
//! watched until nothing of that provider is left, which the status remembers.

use tidegate_api::canary::CanarySpec;
use tidegate_providers::{
    canary::Remembered,
    object::Kind,
    traffic::{self, Mesh},
    workload::{WorkloadKind, scaler::Scaler},
};

use super::{env::Env, previous_route};
use crate::cluster::Cluster;

/// The kinds of target, scaler and routes, and those of the previous route.
pub(super) fn required_kinds(
    env: &Env<'_>,
    mesh: Mesh,
    spec: &CanarySpec,
    remembered: &Remembered,
) -> Vec<Kind> {
    let target = WorkloadKind::of(&spec.target_ref).map(WorkloadKind::kind);
    let scaler = spec.autoscaler_ref.as_ref().map(|scaler| Scaler::of(scaler).kind());
    let previous = previous_route::kind_of(env, remembered).map(|(_, kind)| kind);
    let kinds = target.into_iter().chain(scaler).chain(mesh.kinds_for(spec));
    kinds.chain(previous_provider_kinds(env, mesh, remembered)).chain(previous).collect()
}

/// Further kinds of the provider, of which objects may have been written before. Only those that are served:
/// a watch of others would fail for ever. To be called once the required kinds are listed.
pub(super) fn optional_kinds(cluster: &Cluster, mesh: Mesh, spec: &CanarySpec) -> Vec<Kind> {
    let required = mesh.kinds_for(spec);
    if required.is_empty() {
        return Vec::new();
    }
    let others = mesh.kinds().iter().filter(|kind| !required.contains(kind));
    others.copied().filter(|kind| cluster.serves_route(*kind)).collect()
}

/// Kinds of a previous provider that the present one does not use.
pub(super) fn previous_provider_kinds(
    env: &Env<'_>,
    mesh: Mesh,
    remembered: &Remembered,
) -> Vec<Kind> {
    let previous = remembered.provider().and_then(|provider| traffic::select(provider).ok());
    let Some(previous) = previous.filter(|previous| previous.as_str() != mesh.as_str()) else {
        return Vec::new();
    };
    let previous = previous.served(|kind| env.may_serve(kind));
    let is_used = |kind: &Kind| {
        mesh.kinds().iter().any(|used| (used.group, used.kind) == (kind.group, kind.kind))
    };
    previous.kinds().iter().copied().filter(|kind| !is_used(kind)).collect()
}

#[cfg(test)]
mod tests;
