//! The custom resources of Tidegate as Rust types, and the CRDs that describe them to Kubernetes.
//!
//! Two groups: `flagger.app/v1beta1` ([`Canary`], [`MetricTemplate`], [`AlertProvider`]), drop-in
//! for Flagger's own, and `tkex.tencent.com/v1alpha1` ([`GameDeployment`], [`GameStatefulSet`],
//! [`HookTemplate`], [`HookRun`]).
//!
//! The types are the single source: their doc comments are the text of `kubectl explain`, their
//! attributes are the bounds, enums and rules the API server enforces. [`crds`] puts them together
//! and [`to_yaml`] writes them down. There is no client, no clock and no I/O in this crate.
//!
//! An optional scalar is an `Option` even where a default exists, so that "absent" survives a round
//! trip; methods such as [`canary::Analysis::max_weight`] answer with the default applied. An empty
//! list or map and an absent one mean the same, except where a field is an `Option` of one.

#![warn(missing_docs)]

#[macro_use]
mod text_enum;
#[macro_use]
mod resource;

pub mod alert_provider;
pub mod canary;
mod crd;
pub mod duration;
pub mod game;
pub mod metric_template;
mod numbers;
mod schema;

pub use alert_provider::AlertProvider;
pub use canary::Canary;
pub use crd::{crds, to_yaml};
pub use game::{GameDeployment, GameStatefulSet, HookRun, HookTemplate};
pub use metric_template::MetricTemplate;
