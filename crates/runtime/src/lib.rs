//! Shared by the long-running programs of this workspace: logs, TLS, serving, signals, process metrics, flags.
//!
//! Called by the operator, the load tester and the `tidegate` command. It has no Kubernetes types and no client: the
//! load tester runs commands for others and must not be able to do what the operator does.

pub mod flags;
pub mod log;
pub mod process;
pub mod serve;
pub mod signals;
pub mod tls;
