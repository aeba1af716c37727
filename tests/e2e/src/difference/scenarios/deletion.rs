//! Deletion, in several phases and with each kind of route.

use serde_json::json;

use super::{Scenario, by_weight};
use crate::stage::CANARY;

pub(super) fn all() -> Vec<Scenario> {
    let reverted = |name, provider| {
        Scenario::new(name, provider, by_weight()).spec(json!({ "revertOnDeletion": true }))
    };
    vec![
        Scenario::new("deletion: idle", "istio", by_weight())
            .phase("Initialized")
            .delete(CANARY, "web")
            .gone(CANARY, "web")
            .rest(12),
        Scenario::new("deletion: during a rollout", "gatewayapi:v1", by_weight())
            .phase("Initialized")
            .release("web:2.0")
            .weight(50)
            .delete(CANARY, "web")
            .gone(CANARY, "web")
            .rest(12),
        reverted("revert: idle, istio", "istio")
            .phase("Initialized")
            .delete(CANARY, "web")
            .gone(CANARY, "web")
            .rest(5),
        reverted("revert: after a release, gateway", "gatewayapi:v1")
            .released()
            .delete(CANARY, "web")
            .gone(CANARY, "web")
            .rest(5),
        reverted("revert: during a rollout, istio", "istio")
            .phase("Initialized")
            .release("web:2.0")
            .weight(50)
            .delete(CANARY, "web")
            .gone(CANARY, "web")
            .rest(5),
        Scenario::new("revert: kubernetes", "kubernetes", json!({ "iterations": 1 }))
            .spec(json!({ "revertOnDeletion": true }))
            .phase("Initialized")
            .delete(CANARY, "web")
            .gone(CANARY, "web")
            .rest(5),
        reverted("revert: nginx", "nginx")
            .phase("Initialized")
            .delete(CANARY, "web")
            .gone(CANARY, "web")
            .rest(5),
        reverted("revert: no longer wanted", "istio")
            .phase("Initialized")
            .edit(&json!({ "revertOnDeletion": false }))
            .rest(12)
            .delete(CANARY, "web")
            .gone(CANARY, "web")
            .rest(5),
    ]
}
