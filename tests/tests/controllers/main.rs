//! The control loops of a cluster at work on a real server: what they make of users' wishes, in the
//! usual order and in any other.

mod deployment;
mod garbage;
mod kubelet;
mod namespaces;
mod network;
mod policy;
mod quiet;
mod rollout;
mod workloads;
