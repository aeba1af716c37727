//! First stage: the target with its revision and readiness, and the primary compared with its snapshot.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use tidegate_api::canary::TargetRef;
use tidegate_engine::{
    Configs, ManagedObject, Missing, Obstacle, Primary, Readiness, Revision, Side, Split, State,
    Target, Unready,
};
use tidegate_providers::{
    object::Change,
    workload::{
        WorkloadError, WorkloadKind, clone,
        config::{self, ConfigDigest, ConfigKind, ConfigRef, Tracked},
        primary::{self, Deadline, Snapshot},
        require_owned,
        scaler::Scaler,
    },
};

use crate::{
    canary::{
        env::{Env, Finding, ManagedWrite},
        inputs::Inputs,
        memo::Memo,
        unready_since::Since,
    },
    cluster::{cache::Key, write::FIELD_MANAGER},
};

/// Target and primary.
pub(in crate::canary) struct Workloads {
    pub(in crate::canary) target: Result<Target, Missing>,
    /// Fingerprints of the configuration that the target's pods mount.
    pub(in crate::canary) tracked: Tracked,
    pub(in crate::canary) primary: Primary,
    /// The primary workload as a managed object, without changes: they are computed while it is written, from
    /// the target that the API server has by then.
    pub(in crate::canary) primary_object: Finding,
    /// The workload that the primary was made for, if the spec names another one since.
    pub(in crate::canary) previous_target: Option<String>,
}

pub(in crate::canary) fn observe(env: &Env<'_>, inputs: &Inputs, memo: &mut Memo) -> Workloads {
    let (target, tracked) = match &inputs.target {
        Some(object) => match target(env, inputs, memo, object) {
            Ok((target, tracked)) => (Ok(target), tracked),
            Err(error) => (Err(Missing::Unusable(error.to_string())), Tracked::new()),
        },
        None => (Err(missing(env, inputs)), Tracked::new()),
    };
    let usable = target.as_ref().ok();
    let (primary, state) = match &inputs.primary {
        Some(object) => primary(env, inputs, memo, object, usable),
        None => (absent_primary(), absent_primary_state(env, inputs, usable)),
    };
    let is_primary = [ManagedWrite::Ensure(ManagedObject::Primary)];
    let previous = inputs.remembered.previous_target(&inputs.canary.spec.target_ref);
    Workloads {
        target,
        tracked,
        primary,
        primary_object: Finding::state(state).block_if_rejected(env, &is_primary),
        previous_target: previous.map(|was| format!("the {} `{}`", was.kind.as_str(), was.name)),
    }
}

/// Why there is no target: a kind that was never listed may have it.
fn missing(env: &Env<'_>, inputs: &Inputs) -> Missing {
    let TargetRef { kind, name, .. } = &inputs.canary.spec.target_ref;
    match env.state(inputs.workload.kind()).failure() {
        Some(why) => Missing::Unusable(why.to_owned()),
        None => Missing::Gone(format!("{} {name}", kind.as_str())),
    }
}

/// The change that adds the missing owner reference to a primary that is a Service and that Flagger created without
/// one.
pub(super) fn left_by_flagger(inputs: &Inputs) -> Option<Change> {
    let (target, primary) = (inputs.target.as_ref()?, inputs.primary.as_ref()?);
    let can_be = inputs.remembered.is_set_up() && inputs.workload == WorkloadKind::Service;
    can_be.then(|| clone::adopt(&inputs.workload_cx(), target, primary)).flatten()
}

/// The primary's scaler. It is created when it is missing; only promotions update it.
pub(super) fn primary_scaler(env: &Env<'_>, inputs: &Inputs) -> Finding {
    let Some(scaler) = &inputs.canary.spec.autoscaler_ref else { return Finding::default() };
    let kind = Scaler::of(scaler).kind();
    if let Some(why) = env.state(kind).failure() {
        return Finding::blocked(why.to_owned());
    }
    Finding::of(match &inputs.scalers.primary {
        Some(primary) => require_owned(&inputs.owner(), kind, primary)
            .map(|()| Scaler::of(scaler).wake(primary).into_iter().collect()),
        None => inputs.refreshed_scaler(&inputs.scalers),
    })
}

fn target(
    env: &Env<'_>,
    inputs: &Inputs,
    memo: &mut Memo,
    object: &Value,
) -> Result<(Target, Tracked), WorkloadError> {
    let cx = inputs.workload_cx();
    let workload = inputs.workload;
    let spec = &inputs.canary.spec;
    workload.require_rolling(object)?;
    let template = memo.target(workload, object);
    let tracked = track(env, &template.references)?;
    let same_as_primary = memo.is_same(&cx, object, &tracked, inputs.primary.as_deref())?;
    let since = inputs.remembered.status.last_transition_time.as_ref().map(|time| time.0);
    let edited_since = since.is_some_and(|since| {
        let fields = &object["metadata"]["managedFields"];
        primary::template_writers_after(fields, &[FIELD_MANAGER, "flagger"], since)
    });
    let deadline = deadline(env, inputs, memo.unready_since.target);
    let scaler = spec.autoscaler_ref.as_ref().map(Scaler::of);
    let scaler_object = inputs.scalers.target.as_deref();
    let minimum =
        scaler.map(|scaler| scaler_object.map_or(1, |object| scaler.min_replicas(object)));
    memo.replicas_to_run = workload.scale_from_zero(object, inputs.primary.as_deref(), minimum);
    let readiness = workload.readiness(object, spec.analysis.canary_ready_threshold(), deadline);
    let observed = Target {
        revision: template.revision.clone(),
        configs: env.options.config_tracking.then(|| Configs::new(tracked.clone())),
        replicas: workload.replicas(object),
        form: workload.form(),
        scaler_paused: scaler
            .is_some_and(|scaler| scaler_object.is_some_and(|object| scaler.is_paused(object))),
        readiness: readiness.with_cause(memo.unready_pods.cause(Side::Canary)),
        same_as_primary,
        edited_since,
        replicas_to_run: memo.replicas_to_run,
    };
    Ok((observed, tracked))
}

fn track(env: &Env<'_>, references: &[ConfigRef]) -> Result<Tracked, WorkloadError> {
    if !env.options.config_tracking {
        return Ok(Tracked::new());
    }
    let mut digests: BTreeMap<_, Arc<ConfigDigest>> = BTreeMap::new();
    for reference in references {
        let key = Key::new(&env.key.namespace, &reference.name);
        if let Some(digest) = env.cluster.cache.digest(reference.kind, &key) {
            digests.insert((reference.kind, reference.name.clone()), digest);
        }
    }
    config::track(references, |kind, name| digests.get(&(kind, name.to_owned())).map(Arc::as_ref))
}

/// The deadline of a workload, counted from the last transition of the rollout.
fn deadline(env: &Env<'_>, inputs: &Inputs, unready_since: Option<Since>) -> Deadline {
    let status = &inputs.remembered.status;
    Deadline {
        seconds: i64::from(inputs.canary.spec.progress_deadline_s()),
        from: status.last_transition_time.as_ref().map(|time| time.0),
        unready_since: unready_since.and_then(|since| env.clocks.on_the_wall(since)),
        now: env.clocks.wall,
    }
}

fn primary(
    env: &Env<'_>,
    inputs: &Inputs,
    memo: &Memo,
    object: &Value,
    target: Option<&Target>,
) -> (Primary, State) {
    let workload = inputs.workload;
    let threshold = inputs.canary.spec.analysis.primary_ready_threshold();
    let readiness = match workload {
        // It served before it was made the primary, and Knative keeps it.
        WorkloadKind::Knative => Readiness::Ready,
        WorkloadKind::Deployment | WorkloadKind::DaemonSet | WorkloadKind::Service => {
            let deadline = deadline(env, inputs, memo.unready_since.primary);
            workload.readiness(object, threshold, deadline)
        }
    };
    let observed = Primary {
        exists: true,
        readiness: readiness.with_cause(memo.unready_pods.cause(Side::Primary)),
        is_updated: is_updated(inputs, object, target),
        replicas: workload.replicas(object),
    };
    if workload == WorkloadKind::Knative {
        // It belongs to the user and is never changed.
        return (observed, State::InSync);
    }
    let state = match require_owned(&inputs.owner(), workload.kind(), object) {
        Ok(()) => State::InSync,
        Err(_) if left_by_flagger(inputs).is_some() => State::InSync,
        Err(error) => State::Blocked(Obstacle(error.to_string())),
    };
    (observed, state)
}

/// Whether the primary was given the revision that was applied last.
fn is_updated(inputs: &Inputs, primary: &Value, target: Option<&Target>) -> bool {
    let memory = &inputs.remembered.memory;
    let none = Tracked::new();
    let configs = memory.configs.as_deref().unwrap_or(&none);
    let applied = memory.applied.as_ref().map_or("", Revision::as_str);
    let id = primary["spec"]["template"]["metadata"]["annotations"]["flagger-id"].as_str();
    let id = id.unwrap_or_default();
    let is_given = match inputs.workload {
        WorkloadKind::Service => inputs.workload.revision(primary) == applied,
        WorkloadKind::Knative => {
            inputs.workload.revision_of_primary(primary).as_deref() == Some(applied)
        }
        WorkloadKind::Deployment | WorkloadKind::DaemonSet => {
            id == primary::flagger_id(applied, configs)
        }
    };
    // The identifier of another controller has another form; then the template decides.
    let is_foreign = id.get(14..15).is_none_or(|version| version != "8");
    is_given || (is_foreign && target.is_some_and(|target| target.same_as_primary))
}

fn absent_primary() -> Primary {
    let unready = Unready::new("it does not exist", false);
    let readiness = Readiness::Waiting(unready);
    Primary { exists: false, readiness, is_updated: false, replicas: 1 }
}

/// A missing primary can be created from the target, or again from the revision that was promoted.
fn absent_primary_state(env: &Env<'_>, inputs: &Inputs, target: Option<&Target>) -> State {
    let memory = &inputs.remembered.memory;
    let is_first = !inputs.remembered.is_set_up();
    let is_target = target.is_some_and(|it| memory.promoted.as_ref() == Some(&it.revision));
    let is_known =
        is_first || is_target || is_pinned(inputs) || inputs.primary_revision().is_some();
    if inputs.workload == WorkloadKind::Knative && is_known {
        // To choose the primary is to pin traffic to a revision: one write, which the router computes.
        let choice = inputs.mesh.reconcile(&inputs.route_cx(Split::PRIMARY), &inputs.live);
        return Finding::of(choice).state;
    }
    if is_first {
        return State::OutOfSync;
    }
    let key = Key::new(&env.key.namespace, &Snapshot::name(&inputs.canary.spec.target_ref.name));
    // Without tracking no Secret is watched: whether there is a snapshot shows when it is read.
    let is_kept = !env.options.config_tracking
        || env.cluster.cache.digest(ConfigKind::Secret, &key).is_some();
    if is_kept && inputs.target.is_none() {
        // Names and settings that the snapshot does not have are the target's.
        let why = "the primary does not exist, and without the target it cannot be created";
        return State::Blocked(Obstacle(why.to_owned()));
    }
    if is_kept || is_target {
        return State::OutOfSync;
    }
    let why = match inputs.workload {
        WorkloadKind::Knative => {
            "annotation flagger.app/primary-revision is gone and no traffic is pinned; name in \
             it the revision that was promoted"
        }
        WorkloadKind::Deployment | WorkloadKind::DaemonSet | WorkloadKind::Service => {
            "the primary is gone and what it ran is not known; revert the target to what was \
             promoted"
        }
    };
    State::Blocked(Obstacle(why.to_owned()))
}

/// Whether traffic of a Service of Knative is divided by names of revisions: then one of them is the
/// primary, although nothing else says so. A preview, which has a tag, does not count.
fn is_pinned(inputs: &Inputs) -> bool {
    let target = inputs.target.as_ref();
    let entries = target.and_then(|target| target["spec"]["traffic"].as_array());
    let is_named = |it: &Value| it["revisionName"].is_string() && it["tag"].is_null();
    entries.is_some_and(|entries| entries.iter().any(is_named))
}

#[cfg(test)]
mod tests;
