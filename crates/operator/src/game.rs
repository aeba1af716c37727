//! Game workloads and hook runs: observe, decide, act.
//!
//! ```text
//! GameDeployment, GameStatefulSet ─┐                         ┌─► pods, claims, revisions
//! pods, runs, templates, nodes ────┼─► observe ─► engine::game::decide ─► act ─┼─► hook runs
//!                                  │                         └─► spec.paused, status
//! HookRun ─────────────────────────┴─► hook_run: measure ─► engine::game::hook ─► status
//! ```
//!
//! Everything the engine remembers is in the objects, so a process that ends loses nothing. Pods are watched
//! only where there are game workloads.

mod act;
mod controller;
mod hook_run;
mod object_probe;
mod observe;
mod prepare;
mod reconcile;
#[cfg(test)]
pub(crate) mod testing;
mod workload_ref;

pub(crate) use self::controller::GameWorkloads;
