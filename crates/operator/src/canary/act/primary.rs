//! Creates the primary, and promotes the revision that was analysed.
//!
//! Objects are read from the API server and not from the cache: the copy must be exactly the revision that was
//! decided upon.

use serde_json::Value;
use tidegate_engine::{Fact, Memory, Note, Revision};
use tidegate_providers::{
    object::Live,
    traffic::KNATIVE_SERVICE,
    workload::{
        SECRET, WorkloadKind, clone,
        config::{self, ConfigKind, Tracked},
        primary::{self, Promotion, Snapshot},
    },
};

use crate::{
    canary::{
        canary_ref::{CanaryRef, rejected},
        events::Recorder,
        observation::Observation,
    },
    cluster::write::WriteError,
};

/// Creates the primary: the first time from the target, later from the revision that was promoted.
pub(super) async fn create(
    recorder: &mut Recorder,
    canary: &CanaryRef,
    observation: &Observation,
    memory: &Memory,
) -> Result<(), WriteError> {
    let inputs = &observation.inputs;
    let target = read_target(canary, observation).await?;
    match inputs.workload {
        WorkloadKind::Knative => {
            let cx = inputs.route_cx(observation.routes.inherited);
            canary.write_route(inputs.mesh.reconcile(&cx, &of_knative(target))).await
        }
        WorkloadKind::Service => {
            // The target is at the promoted revision: the observation ensured that.
            let cx = inputs.workload_cx();
            let change = clone::create_primary(&cx, &target, inputs.distribution());
            canary.write(change.map_err(rejected)?.as_slice()).await
        }
        WorkloadKind::Deployment | WorkloadKind::DaemonSet if inputs.remembered.is_set_up() => {
            create_again(canary, observation, &target).await
        }
        WorkloadKind::Deployment | WorkloadKind::DaemonSet => {
            let tracked = &observation.tracked;
            copy_configs(recorder, canary, observation, tracked, memory).await?;
            let promotion = Promotion {
                revision: &inputs.workload.revision(&target),
                tracked,
                has_scaler: observation.observed.plan.scaled,
            };
            let replicas = inputs.workload.replicas(&target);
            save_snapshot(canary, observation, &target, &promotion, replicas).await?;
            let change = primary::create_primary(&inputs.workload_cx(), &target, tracked);
            canary.write(&[change.map_err(rejected)?]).await
        }
    }
}

/// Creates a deleted primary again, from its snapshot.
async fn create_again(
    canary: &CanaryRef,
    observation: &Observation,
    target: &Value,
) -> Result<(), WriteError> {
    let cx = observation.inputs.workload_cx();
    let name = Snapshot::name(cx.target);
    let secret = canary.cx.cluster.read(canary.place(SECRET, &name)).await?;
    let snapshot = match &secret {
        Some(secret) => Some(Snapshot::read(&cx.owner, secret).map_err(rejected)?),
        None => None,
    };
    let promoted = observation.observed.memory.promoted.as_ref().map_or("", Revision::as_str);
    let tracked = &observation.tracked;
    let change = primary::recreate(&cx, target, tracked, promoted, snapshot.as_ref());
    canary.write(&[change.map_err(rejected)?]).await
}

/// Promotes exactly the revision that was analysed, with its configuration.
///
/// The copies of configuration come first, then the snapshot from which a deleted primary is created
/// again, and the template last: once it is in place, all of it is.
pub(super) async fn promote(
    recorder: &mut Recorder,
    canary: &CanaryRef,
    observation: &Observation,
    revision: &Revision,
    memory: &Memory,
) -> Result<(), WriteError> {
    let inputs = &observation.inputs;
    let target = read_target(canary, observation).await?;
    let moved = || WriteError::Conflict { what: "the target".to_owned() };
    if inputs.workload.revision(&target) != revision.as_str() {
        return Err(moved());
    }
    if inputs.workload == WorkloadKind::Knative {
        let cx = inputs.route_cx(observation.routes.inherited);
        return canary.write_route(inputs.mesh.promote(&cx, &of_knative(target))).await;
    }
    let none = Tracked::new();
    let tracked = observation.observed.memory.configs.as_deref().unwrap_or(&none);
    if canary.cx.options.config_tracking && *tracked != observation.tracked {
        return Err(moved());
    }
    copy_configs(recorder, canary, observation, tracked, memory).await?;
    let name = inputs.canary.spec.primary_name();
    let live = canary.cx.cluster.read(canary.place(inputs.workload.kind(), &name)).await?;
    let live = live.ok_or_else(|| WriteError::Missing { what: name.clone() })?;
    let cx = inputs.workload_cx();
    if inputs.workload == WorkloadKind::Service {
        let distribution = inputs.distribution();
        let change = clone::promote(&cx, &target, &live, distribution, revision.as_str());
        return canary.write(change.map_err(rejected)?.as_slice()).await;
    }
    let promotion = Promotion {
        revision: revision.as_str(),
        tracked,
        has_scaler: observation.observed.plan.scaled,
    };
    let change = primary::promote(&cx, &target, &live, &promotion).map_err(rejected)?;
    let replicas = primary::promoted_replicas(&cx, &target, &live, promotion.has_scaler);
    save_snapshot(canary, observation, &target, &promotion, replicas).await?;
    canary.write(change.as_slice()).await
}

async fn read_target(canary: &CanaryRef, observation: &Observation) -> Result<Value, WriteError> {
    let name = &observation.inputs.canary.spec.target_ref.name;
    let kind = observation.inputs.workload.kind();
    let target = canary.cx.cluster.read(canary.place(kind, name)).await?;
    let missing = || WriteError::Missing { what: format!("{} `{name}`", kind.kind) };
    let target = target.ok_or_else(missing)?;
    canary.cx.cluster.cache.cache_insert(kind, target.clone());
    Ok(target)
}

async fn save_snapshot(
    canary: &CanaryRef,
    observation: &Observation,
    target: &Value,
    promotion: &Promotion<'_>,
    replicas: i64,
) -> Result<(), WriteError> {
    let cx = observation.inputs.workload_cx();
    let snapshot = Snapshot::of(&cx, target, promotion, replicas).map_err(rejected)?;
    let name = Snapshot::name(cx.target);
    let existing = canary.cx.cluster.read(canary.place(SECRET, &name)).await?;
    let change = snapshot.save(&cx, existing.as_ref()).map_err(rejected)?;
    canary.write(change.as_slice()).await
}

/// Copies configuration, if it still is as it was tracked.
async fn copy_configs(
    recorder: &mut Recorder,
    canary: &CanaryRef,
    observation: &Observation,
    tracked: &Tracked,
    memory: &Memory,
) -> Result<(), WriteError> {
    let cluster = &canary.cx.cluster;
    for (key, checksum) in tracked {
        let Some((kind, name)) = key.split_once('/') else { continue };
        let kind = match kind {
            "secret" => ConfigKind::Secret,
            _ => ConfigKind::ConfigMap,
        };
        let object = cluster.read(canary.place(kind.kind(), name)).await?;
        let object = object.ok_or_else(|| WriteError::Missing { what: key.clone() })?;
        if config::checksum(kind, &object) != *checksum {
            cluster.cache.cache_insert(kind.kind(), object);
            return Err(WriteError::Conflict { what: key.clone() });
        }
        let copy = config::copy_name(name);
        let existing = cluster.read(canary.place(kind.kind(), &copy)).await?;
        let prefixes = &canary.cx.options.included;
        let owner = observation.inputs.owner();
        let copied = config::copy(&owner, prefixes, kind, &object, existing.as_ref());
        let copied = copied.map_err(rejected)?;
        if !copied.shared_with.is_empty() {
            let others = copied.shared_with.join(", ");
            let note = format!(
                "{} {copy} is shared with the primary of {others}, which reads what is promoted \
                 here. Give each workload a configuration of its own to keep them apart.",
                kind.kind().kind,
            );
            let fact = Fact::Noted(Note::Other(note));
            recorder.announce(canary, observation, &fact, memory).await;
        }
        canary.write(&copied.changes).await?;
    }
    Ok(())
}

/// A Service of Knative as the router sees it.
fn of_knative(service: Value) -> Live {
    let mut live = Live::default();
    live.insert(KNATIVE_SERVICE, service);
    live
}
