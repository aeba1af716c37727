//! `ReferenceGrant` checks: references from routes to Services of another namespace.

use serde_json::Value;

use super::Backend;
use crate::controllers::object::{items, namespace, text};

const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

/// True if a route of this kind, in this namespace, may refer to the Service.
pub(crate) fn allow(grants: &[Value], (kind, from): (&str, &str), backend: &Backend) -> bool {
    if from == backend.namespace {
        return true;
    }
    grants.iter().filter(|grant| namespace(grant) == backend.namespace).any(|grant| {
        let is_from = items(grant, "/spec/from").iter().any(|entry| {
            text(entry, "/group") == GATEWAY_GROUP
                && text(entry, "/kind") == kind
                && text(entry, "/namespace") == from
        });
        let is_to = items(grant, "/spec/to").iter().any(|entry| {
            text(entry, "/group").is_empty()
                && text(entry, "/kind") == "Service"
                && matches!(text(entry, "/name"), name if name.is_empty() || name == backend.service)
        });
        is_from && is_to
    })
}
