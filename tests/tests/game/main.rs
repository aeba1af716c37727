//! Game workloads on the sandbox, in virtual time.

mod crash;
mod idle;
mod metrics;
mod rig;
mod seed;
mod sets;
