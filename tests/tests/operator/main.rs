//! The operator on the embedded cluster, in virtual time: what it costs, what it survives, what it
//! says, and what must never happen.

mod alerts;
mod conditions;
mod cost;
mod hostile;
mod leadership;
mod metrics;
mod outages;
mod permissions;
mod providers;
mod roads;
mod robustness;
mod secrets;
mod shutdown;
mod signing;
mod signing_http;
mod stage;
mod steps;
mod takeover;
mod targets;
mod telling;
mod vectors;
mod verdicts;
