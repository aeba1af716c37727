//! The game workloads: a task for each workload and for each run of a hook.
//!
//! ```text
//! GameDeployment, GameStatefulSet ─┐                        ┌─► pods, claims, revisions
//! pods, runs, templates, nodes ────┼─► workload: observe ──► engine::game::decide ──► act ─┼─► runs of hooks
//!                                  │                        └─► spec.paused, status
//! HookRun ─────────────────────────┴─► run: measure ──► engine::game::hook ──► status
//! ```
//!
//! Nothing is kept in memory that cannot be lost: what the engine needs stands in the objects. Pods are watched
//! only where there are game workloads.

mod act;
mod kubernetes;
mod life;
mod manager;
mod observe;
mod run;
mod tell;
mod workload;

pub use self::manager::Manager;
