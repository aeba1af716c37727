//! The controllers of a cluster on a real API server, with their work in the usual order and in any other.

mod deployment;
mod garbage;
mod kubelet;
mod namespaces;
mod network;
mod policy;
mod quiet;
mod rollout;
mod workloads;
