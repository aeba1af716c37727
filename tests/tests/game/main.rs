//! Game workloads on the sandbox, in virtual time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what is not there is a failed test")]

mod admission;
mod crash;
mod hooks;
mod idle;
mod mistakes;
mod nodes;
mod refusals;
mod rig;
mod seed;
mod sets;
mod stale;
mod storms;
