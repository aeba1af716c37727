//! Invariants that hold after every command of every script.

use serde_json::Value;

use super::routes;
use crate::rollout::{CANARIES, DAEMON_SETS, DEPLOYMENTS, HTTP_ROUTES, VIRTUAL_SERVICES, World};
use kube_sandbox::cluster::Cluster as _;

/// The one place for checks of every scenario.
pub(super) fn examine(world: &World) -> Result<(), String> {
    for canary in world.admin.list(CANARIES, Some("default")) {
        let status = &canary["status"];
        let weight = status["canaryWeight"].as_i64().unwrap_or(0);
        if !(0..=100).contains(&weight) {
            return Err(format!("status.canaryWeight is {weight}"));
        }
        let phase = status["phase"].as_str().unwrap_or_default();
        if !matches!(phase, "" | "Initializing") {
            has_primary(world, &canary, phase)?;
        }
    }
    for resource in [HTTP_ROUTES, VIRTUAL_SERVICES] {
        for route in world.admin.list(resource, Some("default")) {
            routes::adds_up(&route)?;
        }
    }
    Ok(())
}

/// After the setup, the primary has at least one replica and its revision is known.
fn has_primary(world: &World, canary: &Value, phase: &str) -> Result<(), String> {
    if canary["status"]["lastPromotedSpec"].as_str().is_none_or(str::is_empty) {
        return Err(format!("in phase {phase} nobody knows what was promoted"));
    }
    let target = canary["spec"]["targetRef"]["name"].as_str().unwrap_or_default();
    let daemons = world.get(DAEMON_SETS, &format!("{target}-primary")).unwrap_or_default();
    let nodes = &daemons["spec"]["template"]["spec"]["nodeSelector"];
    if nodes.get("flagger.app/scale-to-zero").is_some() {
        return Err(format!("in phase {phase} the primary is kept from every node"));
    }
    let primary = world.get(DEPLOYMENTS, &format!("{target}-primary"));
    match primary.map(|primary| primary["spec"]["replicas"].as_i64()) {
        Some(Some(0)) => Err(format!("in phase {phase} the primary is scaled to zero")),
        _ => Ok(()),
    }
}
