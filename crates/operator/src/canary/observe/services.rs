//! Second stage: compares the Services of canary, primary and apex, and the primary's scaler, with the spec.

use serde_json::Value;
use tidegate_engine::{Fact, ManagedObject, Side, Split, State, apex_side};
use tidegate_providers::{
    object::{Change, Kind},
    traffic::Mesh,
    workload::{
        WorkloadError, WorkloadKind, clone,
        primary::{self, SelectorLabel},
        services::{self, Role, Services as Managed},
    },
};

use super::workloads::{left_by_flagger, primary_scaler};
use crate::{
    canary::{
        env::{Env, Finding, ManagedWrite},
        inputs::Inputs,
    },
    cluster::cache::TableState,
};

/// The Services, each compared with what it should be.
#[derive(Default)]
pub(in crate::canary) struct Services {
    pub(in crate::canary) canary: Finding,
    pub(in crate::canary) primary: Finding,
    /// The primary's Service selects the pods of another workload: an update would redirect live traffic.
    pub(in crate::canary) primary_moves: bool,
    pub(in crate::canary) primary_scaler: Finding,
    pub(in crate::canary) apex: Finding,
    /// Restores the apex Service, on deletion.
    pub(in crate::canary) apex_restored: Finding,
    /// The apex Service was handed over, so deletion restores it.
    pub(in crate::canary) apex_handed_over: bool,
}

pub(in crate::canary) fn observe(env: &Env<'_>, inputs: &Inputs) -> Services {
    let found = match (&inputs.target, inputs.workload) {
        (None, _) => Ok(without_target(env, inputs)),
        // Knative has Services of its own.
        (Some(_), WorkloadKind::Knative) => Ok(Services::default()),
        (Some(target), WorkloadKind::Service) => clones(env, inputs, target),
        (Some(target), WorkloadKind::Deployment | WorkloadKind::DaemonSet) => {
            of_pods(env, inputs, target)
        }
    };
    let found = found.unwrap_or_else(|error| Services {
        canary: Finding::blocked(error.to_string()),
        ..Services::default()
    });
    found.block_if_rejected(env)
}

// === impl Services ===

impl Services {
    fn block_if_rejected(self, env: &Env<'_>) -> Self {
        let ensure = |finding: Finding, object| {
            finding.block_if_rejected(env, &[ManagedWrite::Ensure(object)])
        };
        Self {
            canary: ensure(self.canary, ManagedObject::CanaryService),
            primary: ensure(self.primary, ManagedObject::PrimaryService),
            primary_moves: self.primary_moves,
            primary_scaler: ensure(self.primary_scaler, ManagedObject::PrimaryScaler),
            apex: ensure(self.apex, ManagedObject::ApexService),
            apex_restored: self.apex_restored.block_if_rejected(env, &[ManagedWrite::RestoreApex]),
            apex_handed_over: self.apex_handed_over,
        }
    }
}

/// Services of a target with pods.
fn of_pods(env: &Env<'_>, inputs: &Inputs, target: &Value) -> Result<Services, WorkloadError> {
    let Some(service) = inputs.canary.spec.service.clone() else { return Ok(Services::default()) };
    let cx = inputs.workload_cx();
    let selector = SelectorLabel::of(&cx, target)?;
    let names = inputs.canary.spec.service_names();
    primary::check_names(&cx, &selector, &names.apex)?;
    let managed = Managed::new(inputs.owner(), &service, names, selector, target);
    let side = match apex_side(&inputs.plan, &inputs.remembered.memory) {
        // A switched apex stays where it is: to move it is a shift of traffic.
        Side::Primary if apex_is_switched(env, inputs) => services::Side::Canary,
        Side::Primary => services::Side::Primary,
        Side::Canary => services::Side::Canary,
    };
    let live = |role: Role| env.service(managed.name(role));
    let find = |role: Role| match managed.sync(role, live(role).as_deref()) {
        Ok(sync) => {
            let note = sync.note.map(fact_of);
            Finding { note, ..Finding::of(Ok::<_, WorkloadError>(sync.changes)) }
        }
        Err(error) => Finding::blocked(error.to_string()),
    };
    let primary = find(Role::Primary);
    let apex = live(Role::Apex(side));
    Ok(Services {
        canary: find(Role::Canary),
        primary_moves: managed.leads_elsewhere(Role::Primary, live(Role::Primary).as_deref()),
        primary: match primary.state {
            State::InSync => Finding { note: primary.note, ..prepared(env, inputs) },
            State::OutOfSync | State::Blocked(_) => primary,
        },
        primary_scaler: primary_scaler(env, inputs),
        apex: find(Role::Apex(side)),
        apex_restored: restore_finding(inputs, managed.finalize(apex.as_deref())),
        apex_handed_over: is_handed_over(inputs, apex.as_deref()),
    })
}

/// Without a target its pods are unknown. A Service that was taken over is restored by what was recorded of
/// it: it must not lead to a primary that is deleted with the canary.
fn without_target(env: &Env<'_>, inputs: &Inputs) -> Services {
    let has_services =
        matches!(inputs.workload, WorkloadKind::Deployment | WorkloadKind::DaemonSet);
    let service = inputs.canary.spec.service.clone().filter(|_| has_services);
    let Some(service) = service else { return Services::default() };
    let names = inputs.canary.spec.service_names();
    let apex = env.service(&names.apex);
    let back = services::give_back(inputs.owner(), &service, names, apex.as_deref());
    Services {
        apex_restored: restore_finding(inputs, back),
        apex_handed_over: is_handed_over(inputs, apex.as_deref()),
        ..Services::default()
    }
}

fn is_handed_over(inputs: &Inputs, apex: Option<&Value>) -> bool {
    apex.is_some_and(|apex| services::is_handed_over(&inputs.owner(), apex))
}

fn restore_finding(inputs: &Inputs, back: Result<Option<Change>, WorkloadError>) -> Finding {
    if inputs.is_deleted() { Finding::of_one(back) } else { Finding::default() }
}

/// A Service as target is what clients use, and only its copies follow it.
fn clones(env: &Env<'_>, inputs: &Inputs, target: &Value) -> Result<Services, WorkloadError> {
    if inputs.canary.spec.service.is_none() {
        return Ok(Services::default());
    }
    let cx = inputs.workload_cx();
    clone::check_names(&cx)?;
    let live = env.service(&format!("{}-canary", cx.target));
    let canary = clone::sync_canary(&cx, target, inputs.distribution(), live.as_deref());
    let primary = match left_by_flagger(inputs) {
        Some(change) => Finding::of(Ok::<_, WorkloadError>(vec![change])),
        None => prepared(env, inputs),
    };
    Ok(Services { canary: Finding::of_one(canary), primary, ..Services::default() })
}

/// Objects that pods of the primary need beside their Service, such as those of App Mesh.
fn prepared(env: &Env<'_>, inputs: &Inputs) -> Finding {
    let kinds = inputs.mesh.kinds_for(&inputs.canary.spec);
    let is_listed = |kind: &Kind| env.state(*kind) == TableState::Synced;
    // Invalid parts were stripped from the spec: the existing objects, written by a valid one, stay.
    if !kinds.iter().all(is_listed) || !inputs.spec_errors.is_empty() {
        return Finding::default();
    }
    Finding::of(inputs.mesh.prepare(&inputs.route_cx(Split::PRIMARY), &inputs.live))
}

/// Whether the apex Service of a canary that may switch it selects the canary's pods. Ignored
/// before the primary is set up: the Service still has the user's selector.
fn apex_is_switched(env: &Env<'_>, inputs: &Inputs) -> bool {
    let spec = &inputs.canary.spec;
    let capabilities = inputs.mesh.capabilities(spec);
    // Other providers never switch the Service: there its selector is restored.
    let can_switch = inputs.mesh == Mesh::Kubernetes && capabilities.switched;
    if !can_switch || capabilities.weighted || !inputs.remembered.is_set_up() {
        return false;
    }
    let names = spec.service_names();
    let selector = |name: &str| {
        let service = env.service(name)?;
        Some(service["spec"]["selector"].clone()).filter(Value::is_object)
    };
    let apex = selector(&names.apex);
    apex.is_some() && apex == selector(&names.canary)
}

fn fact_of(note: services::Note) -> Fact {
    match note {
        services::Note::TakenOver { name } => Fact::ServiceTakenOver(name),
        services::Note::Recreated { name, headless } => {
            Fact::ServiceRecreated { service: name, headless }
        }
    }
}

#[cfg(test)]
mod tests;
