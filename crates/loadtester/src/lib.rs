//! Load, tests and gates for rollouts.

pub mod args;
pub mod auth;
pub mod client;
pub mod concord;
pub mod duration;
pub mod files;
pub mod gates;
pub mod load;
pub mod log;
pub mod metrics;
pub mod ngrinder;
pub mod payload;
pub mod process;
pub mod run;
pub mod runner;
pub mod server;
pub mod task;
mod tls;
pub mod words;
