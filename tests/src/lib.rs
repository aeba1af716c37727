//! Rigs shared by the tests that need more than one crate.

pub mod api;
pub mod controllers;
pub mod wire;
