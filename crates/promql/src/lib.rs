//! A Prometheus in memory: it keeps what is appended and answers its HTTP API.
//!
//! [`Database`] holds the series, [`Query`] evaluates `PromQL` over them as Prometheus 3 does and
//! [`respond`] answers a request; serving it on a socket is left to the caller.
//!
//! ```text
//! text --parse--> syntax tree --plan--> Plan (series found, names resolved) --evaluate--> Value
//! ```
//!
//! An unsupported expression is refused while the plan is made, by name and as `bad_data`; an
//! evaluation then fails only where Prometheus does. Native histograms, annotations and the
//! functions that Prometheus calls experimental are left out.
//!
//! ```
//! use promql::{Database, Labels, Query, Value};
//!
//! let database = Database::new();
//! let requests = Labels::of("http_requests_total", &[("app", "web")]);
//! for second in 0..=60 {
//!     let count = f64::from(second) * 5.0;
//!     database.append(&requests, i64::from(second) * 1_000, count)?;
//! }
//! let rate = Query::new("sum(rate(http_requests_total[30s]))").instant(&database, 60_000)?;
//! let Value::Vector(samples) = rate else { unreachable!("a sum of a vector is a vector") };
//! assert!((samples[0].value - 5.0).abs() < 1e-9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(missing_docs)]

mod aggregate;
mod binary;
mod database;
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
mod query;
mod rate;
mod respond;
mod tables;
#[cfg(test)]
mod tests;

pub use self::{
    database::{AppendError, Database, Limits, Point, STALE, Statistics},
    labels::{Labels, METRIC_NAME},
    query::{LOOKBACK_MS, POINTS_MAX, Query, QueryError, Sample, Series, Steps, Value, WORK_MAX},
    respond::{Answer, respond},
};
