//! Canaries: observe, decide, act.
//!
//! ```text
//! watches ─► cache ─► wakeup ─► reconcile ─► observe ─► engine::decide ─┬─► hooks, analysis ─┐
//!                                  ▲                                    └─► act              │
//!                                  └──────────── answers, conflicts ◄────────────────────────┘
//! ```
//!
//! [`reconcile`] is one pass; [`observe`] and its stages turn the cache into a value; [`act`] carries a decision
//! out. A canary is woken when an object it depends on changes, or when its time has come; between that it costs
//! nothing.

mod act;
mod alerts;
mod analysis;
mod aws_signing;
mod canary_ref;
mod cloud_tokens;
mod controller;
mod cookies;
mod env;
mod events;
mod hooks;
mod inputs;
mod left_behind;
mod memo;
mod metric_query;
mod observation;
mod observe;
mod previous_route;
mod reconcile;
mod required_kinds;
mod series;
mod status;
mod unready_pods;
mod unready_since;
mod usable_spec;

#[cfg(test)]
mod testing;

pub use self::metric_query::probe_server;
pub(crate) use self::{cloud_tokens::CloudTokens, controller::Canaries};
