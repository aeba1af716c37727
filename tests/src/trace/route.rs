//! What a routing object says, first by its bare numbers, then as the operator reads it.

use serde_json::Value;
use tidegate_api::canary::{Canary, ServiceNames};
use tidegate_engine::Split;
use tidegate_providers::{
    object::{Live, Owner},
    traffic::{Cookies, IngressOptions, Mesh, RouteCx, RouteFields},
};

use super::Objects;
use crate::rollout::{GRPC_ROUTES, HTTP_ROUTES, SERVICES, VIRTUAL_SERVICES};

/// The weights of primary and canary in the first rule where they make no whole.
pub(super) fn wrong(route: &Value, names: &ServiceNames) -> Option<(i64, i64)> {
    let rules =
        ["rules", "http", "tcp"].into_iter().filter_map(|list| route["spec"][list].as_array());
    rules.flatten().find_map(|rule| {
        let backends = rule["backendRefs"].as_array().or(rule["route"].as_array())?;
        let weight = |name: &str| {
            let host = |backend: &Value| {
                let host = backend["destination"]["host"].as_str().or(backend["name"].as_str());
                host.and_then(|host| host.split('.').next()).unwrap_or_default().to_owned()
            };
            let found = backends.iter().find(|backend| host(backend) == name)?;
            Some(found["weight"].as_i64())
        };
        let (primary, canary) = (weight(&names.primary)??, weight(&names.canary)??);
        let is_whole = primary + canary == 100 && (0..=100).contains(&primary);
        (!is_whole).then_some((primary, canary))
    })
}

/// How live traffic is divided.
pub(super) fn split(
    canary: &Canary,
    mesh: Mesh,
    objects: &Objects,
    namespace: &str,
) -> Option<Split> {
    let status = canary.status.clone().unwrap_or_default();
    let cookies = Cookies {
        canary: status.session_affinity_cookie.filter(|text| !text.is_empty()),
        previous: status.previous_session_affinity_cookie.filter(|text| !text.is_empty()),
        primary: status.primary_session_affinity_cookie.filter(|text| !text.is_empty()),
    };
    let cx = RouteCx {
        owner: Owner {
            name: canary.metadata.name.as_deref().unwrap_or_default(),
            namespace,
            uid: canary.metadata.uid.as_deref().unwrap_or_default(),
            can_own: true,
        },
        spec: &canary.spec,
        cookies: &cookies,
        iterating: status.iterations > 0,
        fields: RouteFields::default(),
        annotations: &canary.metadata.annotations.clone().unwrap_or_default(),
        ingress: IngressOptions::default(),
    };
    let mut live = Live::default();
    for (kind, name) in mesh.names(&cx) {
        let tables = [HTTP_ROUTES, GRPC_ROUTES, VIRTUAL_SERVICES, SERVICES];
        let table = tables.into_iter().find(|it| it.plural == kind.plural);
        if let Some(object) = table.and_then(|table| objects.get(table, namespace, &name)) {
            let mut object = object.clone();
            // What a gateway has not taken in yet is written all the same.
            if let Some(object) = object.as_object_mut() {
                object.remove("status");
            }
            live.insert(kind, object);
        }
    }
    mesh.read(&cx, &live).ok()
}
