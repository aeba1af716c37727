//! A cluster on a virtual clock: rollouts, deadlines, stabilisation windows and watches, second by
//! second and a day at a time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken rig is a failed test")]

mod clocks;
mod determinism;
mod rollouts;
mod source;
mod watches;

use kube_sandbox::{Sandbox, Settings};
use serde_json::Value;
use tidegate_tests::wire::Wire;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn sandbox() -> (Sandbox, Wire) {
    let sandbox = Sandbox::new(Settings::for_tests());
    sandbox.settle();
    let wire = Wire::new(&sandbox);
    (sandbox, wire)
}

/// Status and reason of a condition; empty if there is no such condition.
fn condition(object: &Value, kind: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind);
    let text = |key: &str| found.and_then(|c| c[key].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}
