//! The game workloads: pods that are released step by step, updated in place and gated by hooks.

pub mod arguments;
pub mod condition;
pub mod hook;
pub mod json_path;

mod json;
mod names;
mod order;
mod pod;
mod scale;
mod share;

pub use self::{
    hook::HookPhase,
    json::Json,
    json_path::{JsonPath, PathError},
    names::{revision_data, revision_name, steps_hash},
    order::{CostOrder, by_use, sort_for_deletion},
    pod::{Container, Grace, InPlaceState, NodeState, Pod, PodPhase, ReadinessGate, Ready},
    scale::{Scaling, Standing},
    share::{Budget, Share},
};
