//! Load, tests and gates for rollouts.

pub mod duration;
pub mod files;
pub mod load;
mod tls;
pub mod words;
