//! The CRDs against the types, the manifests and the API server's own rules.
//!
//! `definitions` compares the CRDs with the original ones, `manifests` runs a corpus of good and bad
//! objects through pruning, defaulting and validation, and `round_trip` does the same with random objects
//! made from the types, so that no field of a type is missing in a schema.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken corpus is a failed test")]

mod arbitrary;
mod corpus;
mod definitions;
mod manifests;
mod round_trip;
