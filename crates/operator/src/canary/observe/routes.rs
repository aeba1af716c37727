//! Third stage: reads the weights, compares the route with the spec, and finds a previous route that still gives
//! the canary traffic. It depends on the target and the primary only.

use tidegate_engine::{ManagedObject, Obstacle, Split, State, Traffic, inherited_share};

use super::workloads::Workloads;
use crate::{
    canary::{
        env::{Env, Finding, ManagedWrite},
        inputs::Inputs,
        previous_route::{self, PreviousRoute},
    },
    cluster::cache::TableState,
};

/// The routes of a canary.
pub(in crate::canary) struct Routes {
    /// How traffic is divided, or why that is not known.
    pub(in crate::canary) split: Result<Split, Obstacle>,
    /// The share that a new route takes over from the previous one.
    pub(in crate::canary) inherited: Split,
    pub(in crate::canary) route: Finding,
    /// Restores present and previous route, on deletion.
    pub(in crate::canary) restored: Finding,
    pub(in crate::canary) previous: Option<PreviousRoute>,
    /// Why the kinds of the route could not be listed, if so.
    pub(in crate::canary) unlisted: Option<TableState>,
}

pub(in crate::canary) fn observe(env: &Env<'_>, inputs: &Inputs, workloads: &Workloads) -> Routes {
    let previous = previous_route::observe(env, inputs);
    let inherited = match previous {
        Some(_) => Split::canary(inherited_share(
            &inputs.plan,
            &inputs.remembered.memory,
            workloads.target.as_ref().ok(),
        )),
        None => Split::PRIMARY,
    };
    let present = present(env, inputs, inherited);
    let restored = restored(inputs, present.restored, previous.as_ref());
    let is_route = [ManagedWrite::Ensure(ManagedObject::Route), ManagedWrite::Shift];
    Routes {
        split: present.split,
        inherited,
        route: present.route.block_if_rejected(env, &is_route),
        restored: restored.block_if_rejected(env, &[ManagedWrite::RestoreRoute]),
        previous,
        unlisted: present.unlisted,
    }
}

struct Present {
    split: Result<Split, Obstacle>,
    route: Finding,
    restored: Finding,
    unlisted: Option<TableState>,
}

fn present(env: &Env<'_>, inputs: &Inputs, inherited: Split) -> Present {
    for kind in inputs.mesh.kinds_for(&inputs.canary.spec) {
        let state = env.state(kind);
        if let Some(why) = state.failure() {
            return unlisted(why.to_owned(), state);
        }
    }
    let cx = inputs.route_cx(inherited);
    let read = match inputs.mesh.read(&cx, &inputs.live) {
        // The gateway has not accepted the route yet: only the next step waits for that.
        Err(error) if error.is_waiting() && !needs_effect(inputs) => {
            inputs.mesh.read(&cx, &inputs.live.without_status())
        }
        read => read,
    };
    let restored = if inputs.is_deleted() {
        Finding::of(inputs.mesh.finalize(&cx, &inputs.live))
    } else {
        Finding::default()
    };
    Present {
        split: match inputs.plan.traffic {
            Traffic::Divisible => read.map_err(|error| Obstacle(error.to_string())),
            Traffic::Whole => Ok(Split::PRIMARY),
        },
        route: Finding::of(inputs.mesh.reconcile(&cx, &inputs.live)),
        restored,
        unlisted: None,
    }
}

fn unlisted(why: String, state: TableState) -> Present {
    Present {
        split: Err(Obstacle(why.clone())),
        route: Finding::blocked(why.clone()),
        restored: match state {
            // A kind that is not served has no object to restore.
            TableState::NotServed(_) => Finding::default(),
            TableState::Pending | TableState::Synced | TableState::Failed(_) => {
                Finding::blocked(why)
            }
        },
        unlisted: Some(state),
    }
}

/// Whether the next decision may be a step, which needs the last step to be in effect.
fn needs_effect(inputs: &Inputs) -> bool {
    let (memory, interval) = (&inputs.remembered.memory, &inputs.interval_state);
    !memory.phase.is_idle() && !memory.is_gated() && (interval.due || interval.retry)
}

/// On deletion the previous route is restored together with the present one.
fn restored(inputs: &Inputs, mut present: Finding, previous: Option<&PreviousRoute>) -> Finding {
    let Some(previous) = previous.filter(|_| inputs.is_deleted()) else { return present };
    match &previous.finding.state {
        State::InSync => {}
        State::OutOfSync => {
            present.changes.extend(previous.finding.changes.iter().cloned());
            if present.state == State::InSync {
                present.state = State::OutOfSync;
            }
        }
        State::Blocked(obstacle) => present.state = State::Blocked(obstacle.clone()),
    }
    present
}

#[cfg(test)]
mod tests;
