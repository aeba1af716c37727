//! Game workloads on the sandbox, in virtual time.

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
