//! The documentation compared with the code.
//!
//! `reference` pages are written from the code: `UPDATE_DOCS=1 cargo test -p tidegate-tests --test docs`
//! rewrites them, otherwise they are compared. `examples` applies every YAML example to a cluster with an
//! operator in it; `commands` and `links` check the names in guides.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken page is a failed test")]

mod acceptance;
mod architecture;
mod boards;
mod cases;
mod commands;
mod deploy;
mod events;
mod examples;
mod fields;
mod flags;
mod game_events;
mod invariants;
mod lifecycle;
mod links;
mod markdown;
mod metrics;
mod permissions;
mod reference;
mod routers;
mod status;
