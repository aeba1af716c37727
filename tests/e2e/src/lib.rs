//! The real environment of Tidegate: a Kubernetes control plane, a node, Traefik, and metric servers.
//!
//! `tests/e2e/get` obtains the programs; this crate starts and stops them. A suite is a function that
//! [`inside`] runs in a network of its own, where pod addresses exist and all ports are free:
//!
//! ```text
//! inside ── ControlPlane: etcd, kube-apiserver, kube-controller-manager
//!              ├── Node: schedules pods and runs the sample application in them
//!              ├── Traefik: carries out routes         ◄── Prometheus scrapes it
//!              ├── Graphite, InfluxDb: take samples from a test
//!              ├── Operator: the shipped program, as it is installed
//!              └── client(), kubeconfig(..), service_account_kubeconfig(..)
//! ```
//!
//! However a test ends (its end, a panic, Ctrl-C, `kill -9`), none of its programs stays behind.

mod audit;
pub mod conformance;
mod control_plane;
pub mod difference;
mod graphite;
mod influxdb;
mod namespace;
mod node;
mod objects;
mod operator;
mod parts;
mod process;
mod prometheus;
pub mod promql;
pub mod scenario;
mod scratch;
pub mod settled;
pub mod stage;
mod traefik;
pub mod transcript;
mod web;

pub use self::{
    audit::{Asked, denied},
    control_plane::{ControlPlane, Options},
    graphite::Graphite,
    influxdb::InfluxDb,
    namespace::{inside, inside_for},
    node::{Logs, Node, NodeSettings},
    objects::{api_of, apply, apply_folder, apply_yaml, eventually},
    operator::{Installation, Operator, program},
    parts::Parts,
    process::Process,
    prometheus::Prometheus,
    traefik::Traefik,
    web::{Answer, Web},
};
