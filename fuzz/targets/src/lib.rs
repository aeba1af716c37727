//! Bodies of the fuzz targets: one module a target, each with `pub fn run(data: &[u8])`.
//!
//! `fuzz/fuzz_targets` wraps these functions for cargo-fuzz on nightly; `tests/replay.rs` runs them
//! on stable over `fuzz/corpus` and over edits of it. A target accepts any bytes. It panics when the
//! code under test panics or when a law does not hold, and returns otherwise.
//!
//! ```text
//! corpus/<target>/*  ──►  run(data)  ──►  parser, patch, codec  ──►  a law, where there is one
//! ```

pub mod flags_templates;
pub mod input;
pub mod json_patch;
pub mod jsonpath;
pub mod promql;
pub mod protobuf;
pub mod schema_cel;
pub mod server_side_apply;
pub mod strategic_merge;

/// A target: its name, which is also the folder of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by name.
pub const TARGETS: [Target; 8] = [
    ("flags_templates", flags_templates::run),
    ("json_patch", json_patch::run),
    ("jsonpath", jsonpath::run),
    ("promql", promql::run),
    ("protobuf", protobuf::run),
    ("schema_cel", schema_cel::run),
    ("server_side_apply", server_side_apply::run),
    ("strategic_merge", strategic_merge::run),
];
