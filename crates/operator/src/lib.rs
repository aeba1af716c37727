//! The operator: every side effect.
//!
//! ```text
//! watches ─► cluster::cache ─► supervisor ─► reconcile: one loop for each object ─┬─► canary
//!                                                                                 └─► game
//! ```
//!
//! Watches feed a cache ([`cluster`]); each canary, game workload and hook run has a loop ([`Supervisor`])
//! that observes the cache, lets the engine decide, and carries the decision out.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod args;
mod canary;
pub mod clock;
pub mod cluster;
mod context;
mod events;
mod game;
pub mod http;
pub mod install;
pub mod lease;
mod once;
mod outgoing;
mod reconcile;
mod rejected_writes;
mod run;
mod secrets;
pub mod serve;
mod supervisor;
pub mod telemetry;

pub use self::{
    canary::probe_server,
    context::{Context, Options},
    run::{RunError, VERSION, run},
    supervisor::Supervisor,
};
