//! The sandbox's gateway controller: writes the status of gateway classes, gateways and routes.
//!
//! It handles the class [`GATEWAY_CLASS`] and any other that names [`CONTROLLER_NAME`]; objects of
//! other gateways are left alone. As in Gateway API, a route is accepted if a listener takes it,
//! and resolved if its backends are Services that exist and may be referenced. An unchanged status
//! is not written.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::crds::GATEWAY_CLASSES;
use crate::{
    cluster::Cluster,
    controllers::{
        Controller,
        object::{Condition, count, items, set_at, text},
    },
};

mod attach;
mod class;
mod gateway;
mod route;
#[cfg(test)]
mod tests;

/// Name of the gateway class that the sandbox serves.
pub const GATEWAY_CLASS: &str = "tidegate-sandbox";

/// Controller name in everything that the sandbox's gateway controller writes.
pub const CONTROLLER_NAME: &str = "tidegate.dev/sandbox-gateway";

/// The result for one condition of an object.
#[derive(Debug, Clone, Copy)]
struct Verdict<'v> {
    kind: &'v str,
    holds: bool,
    reason: &'v str,
    message: &'v str,
}

/// The control loops of a gateway controller.
pub(crate) fn controllers() -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(class::ClassController),
        Box::new(gateway::GatewayController),
        Box::new(route::RouteController::HTTP),
        Box::new(route::RouteController::GRPC),
    ]
}

/// The `GatewayClass` that the sandbox answers for.
pub(crate) fn gateway_class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": { "name": GATEWAY_CLASS },
        "spec": { "controllerName": CONTROLLER_NAME, "description": "Gateways of the sandbox" },
    })
}

/// True for a gateway of a class that names the sandbox's controller.
fn is_ours(cluster: &dyn Cluster, gateway: &Value) -> bool {
    let class = cluster.get(GATEWAY_CLASSES, "", text(gateway, "/spec/gatewayClassName"));
    class.is_some_and(|class| text(&class, "/spec/controllerName") == CONTROLLER_NAME)
}

/// The conditions of `old`, updated with `verdicts`.
fn judged(old: &Value, generation: i64, verdicts: &[Verdict<'_>], now: Timestamp) -> Vec<Value> {
    let mut conditions = items(old, "/conditions").to_vec();
    for verdict in verdicts {
        let condition = Condition {
            kind: verdict.kind,
            status: if verdict.holds { "True" } else { "False" },
            reason: verdict.reason,
            message: verdict.message,
        };
        condition.put(&mut conditions, now);
        let placed = conditions.iter_mut().find(|placed| text(placed, "/type") == verdict.kind);
        if let Some(placed) = placed {
            set_at(placed, &["observedGeneration"], generation);
        }
    }
    conditions
}

fn generation(object: &Value) -> i64 {
    count(object, "/metadata/generation")
}
