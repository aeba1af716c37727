//! A Prometheus in memory: it keeps what is appended and answers its HTTP API.
//!
//! [`Database`] holds the series, [`query`] evaluates `PromQL` over them as Prometheus 3
//! does and [`respond`] answers a request; serving it on a socket is left to the caller.
//!
//! ```text
//! text --parse--> syntax tree --plan--> Plan (series found, names resolved) --evaluate--> Value
//! ```
//!
//! Whatever is not supported is refused while the plan is made, by name and as `bad_data`; an
//! evaluation then fails only where Prometheus does. Native histograms, annotations and the
//! functions that Prometheus calls experimental are left out.

mod aggregate;
mod binary;
pub mod database;
mod evaluate;
mod functions;
mod histogram;
mod json;
mod labels;
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
