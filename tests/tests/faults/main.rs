//! Every setting of fault injection, through the service that clients speak to.
//!
//! A fault must have its effect and no other: a request that failed before it was applied left no trace, a
//! lost answer leaves the write, and a run with the same seed fails in the same places.

#![expect(clippy::unwrap_used, reason = "a broken rig is a failed test")]

mod crashes;
mod replay;
mod requests;
mod restores;
mod watches;

use kube_sandbox::{Sandbox, Settings};
use tidegate_tests::wire::Wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn sandbox() -> (Sandbox, Wire) {
    let sandbox = Sandbox::new(Settings::for_tests());
    let wire = Wire::new(&sandbox);
    (sandbox, wire)
}

fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}
