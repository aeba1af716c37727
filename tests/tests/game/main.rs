//! Game workloads on the sandbox, in virtual time.

mod rig;
mod seed;
