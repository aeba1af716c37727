//! Last stage: orphans, objects that were made for the canary and that it no longer uses.
//!
//! They are found by their owner while nothing is rolled out: copies of configuration that no pod of the
//! primary mounts, Services and routes of a previous name.

use std::sync::Arc;

use serde_json::Value;
use tidegate_providers::{
    object::Change,
    workload::{
        SERVICE,
        config::{self, ConfigKind},
        primary::SelectorLabel,
        services::{Role, Services, Side},
    },
};

use super::{routes::Routes, workloads::Workloads};
use crate::{
    canary::{
        env::{Env, Finding},
        inputs::Inputs,
        required_kinds::previous_provider_kinds,
    },
    cluster::cache::TableState,
};

/// Orphans, and the provider that may have some.
pub(in crate::canary) struct Orphans {
    /// Out of sync while there are orphans.
    pub(in crate::canary) finding: Finding,
    /// The provider to remember: a previous one for as long as there may be objects of it.
    pub(in crate::canary) provider: String,
}

pub(in crate::canary) fn observe(
    env: &Env<'_>,
    inputs: &Inputs,
    workloads: &Workloads,
    routes: &Routes,
) -> Orphans {
    let present = inputs.mesh.as_str();
    let remembered = inputs.remembered.provider().unwrap_or(present);
    let is_quiet = inputs.remembered.memory.phase.is_idle()
        && !inputs.is_deleted()
        && workloads.primary.readiness.is_ready();
    if !is_quiet {
        return Orphans { finding: Finding::default(), provider: remembered.to_owned() };
    }
    let mut changes = configs(env, inputs);
    changes.extend(services(env, inputs));
    changes.extend(routing_objects(env, inputs, routes));
    let is_moved = changes.is_empty() && previous_provider_is_gone(env, inputs, routes);
    let provider = if is_moved { present } else { remembered }.to_owned();
    Orphans { finding: Finding::of(Ok::<_, String>(changes)), provider }
}

fn configs(env: &Env<'_>, inputs: &Inputs) -> Vec<Change> {
    let Some(primary) = &inputs.primary else { return Vec::new() };
    let mut digests = env.cluster.cache.digests_in(ConfigKind::ConfigMap, &env.key.namespace);
    digests.extend(env.cluster.cache.digests_in(ConfigKind::Secret, &env.key.namespace));
    let pod = &primary["spec"]["template"]["spec"];
    config::prune(&inputs.owner(), pod, digests.iter().map(Arc::as_ref))
}

fn services(env: &Env<'_>, inputs: &Inputs) -> Vec<Change> {
    let (Some(service), Some(target)) = (&inputs.canary.spec.service, &inputs.target) else {
        return Vec::new();
    };
    let Ok(selector) = SelectorLabel::of(&inputs.workload_cx(), target) else {
        return Vec::new();
    };
    let names = inputs.canary.spec.service_names();
    let services = Services::new(inputs.owner(), service, names, selector, target);
    let apex = services.name(Role::Apex(Side::Primary)).to_owned();
    let existing = env.cluster.cache.list_in(SERVICE, &env.key.namespace);
    let existing: Vec<&Value> = existing.iter().map(Arc::as_ref).collect();
    // Not before the new apex is there: until then clients use the old one.
    if !existing.iter().any(|service| service["metadata"]["name"] == *apex) {
        return Vec::new();
    }
    services.orphans(&existing)
}

fn routing_objects(env: &Env<'_>, inputs: &Inputs, routes: &Routes) -> Vec<Change> {
    let mut changes = Vec::new();
    if routes.split.is_err() {
        return changes;
    }
    let cx = inputs.route_cx(routes.inherited);
    for kind in env.cluster.routing_kinds() {
        let namespace = if kind.is_namespaced() { &*env.key.namespace } else { "" };
        let existing = env.cluster.cache.list_in(kind, namespace);
        let existing: Vec<&Value> = existing.iter().map(Arc::as_ref).collect();
        changes.extend(inputs.mesh.leftovers(&cx, kind, &existing));
    }
    changes
}

/// Whether no object of a previous provider can exist, given that no orphan was found.
fn previous_provider_is_gone(env: &Env<'_>, inputs: &Inputs, routes: &Routes) -> bool {
    let was_listed = |kind| match env.state(kind) {
        TableState::Synced | TableState::NotServed(_) => true,
        TableState::Pending | TableState::Failed(_) => false,
    };
    inputs.blockers.is_empty()
        && inputs.spec_errors.is_empty()
        && routes.split.is_ok()
        && previous_provider_kinds(env, inputs.mesh, &inputs.remembered).into_iter().all(was_listed)
}

#[cfg(test)]
mod tests;
