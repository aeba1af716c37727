//! A Kubernetes cluster in memory, for tests: an API server compatible with kubectl, kube-rs and
//! controllers, the usual workload controllers, and a simulated kubelet.
//!
//! Start at [`Sandbox`]. [`server`] is the API without a socket, [`http`] puts it on one, [`store`]
//! keeps the objects, [`controllers`] and [`kubelet`] bring them to life, [`promql`] answers
//! queries about them, [`faults`] breaks things on purpose, [`clock`] lets a day pass in a second.
//!
//! A cluster under a virtual clock stands still until it is told to move:
//!
//! ```
//! use std::time::Duration;
//!
//! use kube_sandbox::{
//!     Sandbox, Settings,
//!     cluster::{Cluster as _, DEPLOYMENTS},
//!     manifests,
//!     server::User,
//! };
//!
//! let web = "
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata: { name: web }
//! spec:
//!   replicas: 2
//!   selector: { matchLabels: { app: web } }
//!   template:
//!     metadata: { labels: { app: web } }
//!     spec: { containers: [{ name: app, image: 'web:1-slow-start-30s' }] }
//! ";
//! let sandbox = Sandbox::new(Settings::for_tests());
//! let admin = sandbox.local(User::admin());
//! let ready = || {
//!     let web = admin.get(DEPLOYMENTS, "default", "web").unwrap_or_default();
//!     web["status"]["readyReplicas"].clone()
//! };
//!
//! sandbox.load(manifests::parse(web)?)?;
//! sandbox.settle();
//! assert_eq!(ready(), serde_json::Value::Null);
//! sandbox.advance(Duration::from_secs(30));
//! assert_eq!(ready(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Faults are injected by the test, and every request is on record:
//!
//! ```
//! use kube_sandbox::{
//!     Sandbox, Settings,
//!     cluster::{CONFIG_MAPS, Cluster as _},
//!     faults::{Effect, Matcher, When},
//!     server::User,
//! };
//! use serde_json::json;
//!
//! let sandbox = Sandbox::new(Settings::for_tests());
//! let server = sandbox.server();
//! server.faults.add(Matcher::writes(), When::First(1), Effect::Conflict);
//! let mark = server.log.mark();
//!
//! let jane = sandbox.local(User::named("jane"));
//! let map = json!({ "metadata": { "name": "settings" } });
//! assert_eq!(jane.create(CONFIG_MAPS, "default", map.clone()).unwrap_err().code, 409);
//! assert!(jane.create(CONFIG_MAPS, "default", map).is_ok());
//!
//! let codes: Vec<u16> = server.log.writes_since(mark).iter().map(|entry| entry.code).collect();
//! assert_eq!(codes, [409, 201]);
//! ```

#![deny(missing_docs)]

mod builtin;
pub mod clock;
pub mod cluster;
mod control_plane;
pub mod controllers;
mod crd;
pub mod dataplane;
mod definitions;
pub mod failure;
pub mod faults;
mod field_selector;
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
mod jsonpath;
pub mod kubelet;
mod load;
mod managed;
pub mod manifests;
mod names;
mod openapi;
mod patch;
pub mod protobuf;
mod quantity;
pub mod random;
mod rbac;
mod registry;
pub mod request;
pub mod request_log;
mod runtime;
mod sandbox;
pub mod schema;
mod selector;
pub mod server;
mod shape;
pub mod store;
mod table;
mod types;

pub use self::{
    control_plane::ControllerSettings,
    definitions::upstream_crds,
    sandbox::{Sandbox, Settings},
};
