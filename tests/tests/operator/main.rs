//! The operator on the embedded cluster, in virtual time: what it costs, what it survives, what it
//! says, and what must never happen.

mod alerts;
mod builtin;
mod conditions;
mod cost;
mod deletion;
mod flawed;
mod gates;
mod hostile;
mod knative;
mod leadership;
mod matrix;
mod metrics;
mod moving;
mod nodes;
mod outages;
mod own_metrics;
mod permissions;
mod permits;
mod providers;
mod rerouted;
mod retargeted;
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
mod trust;
mod vectors;
mod verdicts;
