//! Rigs shared by the tests that need more than one crate.

pub mod controllers;
