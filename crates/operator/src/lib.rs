//! The operator: every side effect.
//!
//! Watches feed a cache ([`cluster`]); each canary has a task ([`canary`]) that looks at the cache,
//! lets the engine decide, and carries the decision out.

pub mod args;
pub mod canary;
pub mod clock;
pub mod cluster;
pub mod game;
pub mod http;
pub mod install;
pub mod lease;
mod run;
pub mod serve;
pub mod telemetry;

pub use self::run::{RunError, VERSION, run};
