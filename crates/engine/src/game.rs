//! The game workloads: pods that are released step by step, updated in place and gated by hooks.
//!
//! ```text
//!            observe                 decide                     act
//!  cluster ----------> Observed --> Decision { why, actions, again } --> one write after the other
//!  hook runs --------> hook::Run -> next, assess ----------------------> measure, write the status
//! ```
//!
//! A controller of workloads settles the revision of the template first ([`choose_revision`]), reads
//! pods, runs of hooks and hook templates no older than its own last write, calls [`decide`], and
//! carries the actions out one by one: those on a pod only if the pod still has that uid, those on the
//! workload only if it was not changed since it was read. The first that fails ends the look. A
//! controller of hook runs asks [`hook::Run::next`] what to measure, judges each answer with
//! [`condition::judge`], records it, and writes down what [`hook::Run::assess`] says.
//!
//! [`decide`] is a function of what was observed. What it needs to remember is in the cluster: in the
//! status, on the pods and on the runs of hooks. It can be asked at any time, by any process, after any
//! of its actions, and goes on from there.

pub mod arguments;
pub mod check;
pub mod condition;
pub mod hook;
pub mod json_path;

mod decide;
mod decision;
mod deployment;
mod fact;
mod in_place;
mod json;
mod memory;
mod names;
mod observed;
mod order;
mod plan;
mod pod;
mod pod_hooks;
mod run_names;
mod scale;
mod share;
mod stateful;
mod steps;
mod verbs;
mod view;
mod work;

#[cfg(test)]
mod simulate;
#[cfg(test)]
mod tests;

pub use self::{
    decide::decide,
    decision::{Action, Decision, Departure, HookStart, NewPod, PodChange, PodRef, Scope},
    fact::Fact,
    hook::HookPhase,
    in_place::{images, qualify},
    json::Json,
    json_path::{JsonPath, PathError},
    memory::{
        Condition, ConditionKind, Counts, Memory, Pause, PauseReason, PodHookState, WorkloadPhase,
    },
    names::{
        RevisionChoice, StoredRevision, choose_revision, revision_data, revision_name, steps_hash,
    },
    observed::{HookRun, KnownRevision, Observed, Purpose, Refusal},
    order::{CostOrder, by_use, sort_for_deletion},
    plan::{
        Asked, Canary, CanaryStep, HookCall, HookKind, Management, Paused, Plan, PodHook, PodHooks,
        ResumeBy, StepHook, UpdateWay, Verb, WorkloadKind,
    },
    pod::{Container, Grace, InPlaceState, NodeState, Pod, PodPhase, ReadinessGate, Ready},
    scale::{Scaling, Standing},
    share::{Budget, Share},
};
