//! An in-memory Prometheus: a time series database with the HTTP query API.
//!
//! [`Database`] holds the series, [`query`] evaluates `PromQL` over them as Prometheus 3
//! does, [`respond`] answers a request without a socket and [`listen`] puts it on one.
//!
//! ```text
//! text --parse--> syntax tree --plan--> Plan (series found, names resolved) --evaluate--> Value
//! ```
//!
//! Unsupported expressions are refused while the plan is made, by name and as `bad_data`; an
//! evaluation fails only where Prometheus fails. Native histograms, annotations and experimental
//! functions are not supported.

mod aggregate;
mod binary;
pub mod database;
mod evaluate;
mod functions;
mod histogram;
mod json;
mod labels;
pub mod listen;
mod numbers;
mod over_time;
mod parameters;
mod parse;
mod plan;
pub mod query;
mod rate;
mod respond;
mod tables;
#[cfg(test)]
mod tests;

pub use self::{
    database::{AppendError, Database, Limits, Point, STALE, Statistics},
    labels::{Labels, METRIC_NAME},
    query::{Query, QueryError, Sample, Series, Steps, Value},
    respond::{Answer, respond},
};
