//! Observation: the cached objects of one canary, as one value that the engine decides upon.
//!
//! ```text
//! canary ─► remembered ─► usable spec ─► required kinds ─► inputs
//!                                                            │
//!              Observation ◄─ orphans ◄─ routes ◄─ services ◄─ workloads
//! ```
//!
//! Nothing here waits or writes. The only side effect: `Env::require` starts watches of kinds that are not watched
//! yet. Each stage returns a value that later ones borrow. An object that differs comes with the changes that put it
//! right; those of the primary are computed while it is written. Invalid fields end in `usable_spec`, with a reason.

pub(super) mod orphans;
pub(super) mod routes;
pub(super) mod services;
pub(super) mod workloads;

use tidegate_api::canary::CanaryStatus;
use tidegate_engine::Answers;
use tidegate_providers::canary::Remembered;

use super::{
    env::{Env, NotYet},
    inputs::Inputs,
    memo::Memo,
    observation::Observation,
    required_kinds::{optional_kinds, required_kinds},
    usable_spec::usable_spec,
};

/// Runs the stages in order, and assembles their values.
pub(super) fn observe(
    env: &Env<'_>,
    memo: &mut Memo,
    answers: &Answers,
) -> Result<Observation, NotYet> {
    let canary = memo.canary(env.raw).map_err(|error| NotYet::Unreadable(error.to_string()))?;
    let status = unpruned(env, canary.status.clone().unwrap_or_default());
    let remembered = Remembered::of(status, canary.spec.manual_step.is_some());
    let spec = usable_spec(env, &canary, &remembered)?;
    env.require(&required_kinds(env, spec.mesh, &spec.canary.spec, &remembered))?;
    env.require(&optional_kinds(env.cluster, spec.mesh, &spec.canary.spec))?;
    let inputs = Inputs::gather(env, spec, remembered, memo);
    let workloads = workloads::observe(env, &inputs, memo);
    let services = services::observe(env, &inputs);
    let routes = routes::observe(env, &inputs, &workloads);
    let orphans = orphans::observe(env, &inputs, &workloads, &routes);
    Ok(Observation::of(env, inputs, workloads, services, routes, orphans, answers))
}

/// Restores status fields that the cluster's CRD, for example Flagger's, drops: from this process' last write.
fn unpruned(env: &Env<'_>, mut status: CanaryStatus) -> CanaryStatus {
    let Some(written) = env.unpruned_status else { return status };
    if status.observed_generation.is_none() && status.phase == written.phase {
        status.observed_generation = written.observed_generation;
        status.last_decision.clone_from(&written.last_decision);
        status.rollout.clone_from(&written.rollout);
        status.manual_pause.clone_from(&written.manual_pause);
    }
    status
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
