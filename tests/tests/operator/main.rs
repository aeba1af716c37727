//! The operator on the embedded cluster, in virtual time: its cost, its behaviour under faults, its
//! messages and its invariants.

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
mod robustness;
mod routes;
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
