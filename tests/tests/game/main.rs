//! Game workloads on the sandbox, in virtual time.

mod crash;
mod rig;
mod seed;
