//! Side effects.

pub mod args;
pub mod clock;
pub mod http;
pub mod lease;
pub mod log;
pub mod serve;
pub mod telemetry;
