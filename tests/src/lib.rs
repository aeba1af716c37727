//! Rigs shared by the tests that need more than one crate.

pub mod api;
pub mod controllers;
pub mod game;
pub mod network;
pub mod providers;
pub mod rollout;
pub mod scenario;
pub mod sweep;
pub mod tape;
pub mod trace;
pub mod wire;
