//! The game workloads: pods that are released step by step, updated in place and gated by hooks.

mod order;
mod pod;
mod scale;
mod share;

pub use self::{
    order::{CostOrder, by_use, sort_for_deletion},
    pod::{Container, Grace, InPlaceState, NodeState, Pod, PodPhase, ReadinessGate, Ready},
    scale::{Scaling, Standing},
    share::{Budget, Share},
};
