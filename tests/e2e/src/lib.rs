//! Rigs that hold our own parts against real ones.

pub mod conformance;
