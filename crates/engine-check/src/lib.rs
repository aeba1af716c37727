//! Test equipment for the engine: invariants over traces, and simulations that produce traces.
//!
//! ```text
//! simulate ── TraceEvent ──┐
//!                          ├──► check::Checker ──► Violation
//! tests of the operator ───┘
//! ```
//!
//! [`check`] judges a trace of a canary and [`game::check`] that of a game workload. [`simulate`] runs
//! the decisions of the engine against a model of a cluster. Tests and the command line use this crate;
//! the operator never links it. `docs/invariants.md` lists what is checked.

#![warn(missing_docs)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod check;
pub mod game;
pub mod simulate;
