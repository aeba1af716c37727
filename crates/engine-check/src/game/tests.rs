//! Whole stories in the model cluster, each write judged by the checker.

mod controls;
mod details;
mod edges;
mod mistakes;
mod pod_hooks;
mod seed;
mod sets;
mod stories;
mod sweep;

use std::time::Duration;

use crate::game::simulate::{World, call, canary, hook_step, seed_plan};
use tidegate_engine::game::{
    Canary, CanaryStep, HookKind, IntOrPercent, Management, Plan, PodHook, ResumeBy, UpdateWay,
    WorkloadKind,
};

/// Looks until the columns read like this.
#[track_caller]
fn until(world: &mut World, line: &str) {
    for _ in 0..60 {
        if world.line() == line {
            return;
        }
        world.round();
    }
    panic!("it reads `{}` and never `{line}`\n{:#?}", world.line(), world.log);
}

fn keep(count: usize) -> CanaryStep {
    CanaryStep::Partition(IntOrPercent::Count(count))
}

fn wait() -> CanaryStep {
    CanaryStep::Pause(None)
}

fn wait_for(seconds: u64) -> CanaryStep {
    CanaryStep::Pause(Some(Duration::from_secs(seconds)))
}

/// Four pods that are replaced one at a time, without steps.
fn plain() -> Plan {
    Plan {
        way: UpdateWay::Recreate,
        canary: None,
        grace: Duration::ZERO,
        max_unavailable: IntOrPercent::Count(1),
        ..seed_plan()
    }
}

/// The same with steps.
fn stepped(steps: Vec<CanaryStep>) -> Plan {
    Plan { canary: Some(canary(steps)), ..plain() }
}

/// Updated in place without grace.
fn in_place(steps: Vec<CanaryStep>) -> Plan {
    Plan { way: UpdateWay::InPlace, ..stepped(steps) }
}

fn set(management: Management, way: UpdateWay) -> Plan {
    Plan { kind: WorkloadKind::StatefulSet(management), way, ..plain() }
}

fn hooked(mut plan: Plan, kind: HookKind) -> Plan {
    let hook = PodHook { call: Some(call("test")), retry: false };
    match kind {
        HookKind::PreDelete => plan.hooks.pre_delete = hook,
        HookKind::PreInPlace => plan.hooks.pre_in_place = hook,
        HookKind::PostInPlace => plan.hooks.post_in_place = hook,
    }
    plan
}

fn all_hooks(plan: Plan) -> Plan {
    HookKind::ALL.into_iter().fold(plan, hooked)
}

fn steps_with_hook() -> Vec<CanaryStep> {
    vec![keep(3), wait_for(20), keep(2), hook_step()]
}

/// Only the annotation ends a pause.
fn by_annotation(plan: Plan) -> Plan {
    let canary = plan.canary.map(|canary| Canary { resume_by: ResumeBy::Annotation, ..canary });
    Plan { canary, ..plan }
}

/// Pods of this revision that count.
fn count(world: &World, revision: &str) -> usize {
    let pods = world.truth.pods.iter().filter(|pod| pod.is_active());
    pods.filter(|pod| pod.revision.as_ref().is_some_and(|found| found.as_str() == revision)).count()
}
