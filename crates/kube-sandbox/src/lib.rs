//! A Kubernetes cluster in memory: an API server that kubectl, kube-rs and controllers cannot tell
//! from a real one for what they use, the usual workload controllers, and a kubelet that pretends.
//!
//! Start at [`Sandbox`]. [`server`] is the API without a socket, [`http`] puts it on one, [`store`]
//! keeps the objects, [`controllers`] and [`kubelet`] bring them to life, [`promql`] answers
//! queries about them, [`faults`] breaks things on purpose and [`clock`] lets a day pass in a second.

pub mod builtin;
pub mod clock;
pub mod cluster;
mod control_plane;
pub mod controllers;
pub mod crd;
pub mod dataplane;
pub mod failure;
pub mod faults;
pub mod field_selector;
pub mod http;
pub mod jsonpath;
pub mod kubelet;
mod load;
pub mod managed;
pub mod manifests;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod protobuf;
mod quantity;
pub mod random;
pub mod rbac;
pub mod registry;
pub mod request;
pub mod request_log;
pub mod runtime;
mod sandbox;
pub mod schema;
pub mod selector;
pub mod server;
pub mod shape;
pub mod store;
pub mod table;
pub mod types;

pub use self::{
    control_plane::ControllerSettings,
    sandbox::{Sandbox, Settings},
};
