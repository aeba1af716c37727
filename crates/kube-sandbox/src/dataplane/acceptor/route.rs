//! Writes the conditions `Accepted` and `ResolvedRefs` of each route, for each parent of the
//! sandbox.

use serde_json::{Value, json};

use super::{CONTROLLER_NAME, Verdict, attach, generation, is_ours, judged};
use crate::{
    cluster::{Cluster, Resource, SERVICES},
    controllers::{
        Change, Controller, Key, Next,
        object::{int, items, key, namespace, settle, text, write_status},
    },
    dataplane::{
        crds::{GATEWAYS, GRPC_ROUTES, HTTP_ROUTES, REFERENCE_GRANTS},
        route::{
            Backend,
            gateway_api::{backend, is_service},
            grants,
        },
    },
    failure::Outcome,
};

/// Controller for one kind of route.
pub(super) struct RouteController {
    name: &'static str,
    routes: Resource,
    watches: &'static [(&'static str, &'static str)],
}

/// The resources watched for a kind of route: routes, and everything they refer to.
macro_rules! watches {
    ($plural:literal) => {
        &[
            ("gateway.networking.k8s.io", "gatewayclasses"),
            ("gateway.networking.k8s.io", "gateways"),
            ("gateway.networking.k8s.io", $plural),
            ("gateway.networking.k8s.io", "referencegrants"),
            ("", "services"),
            ("", "namespaces"),
        ]
    };
}

// === impl RouteController ===

impl RouteController {
    pub(super) const HTTP: Self =
        Self { name: "httproute", routes: HTTP_ROUTES, watches: watches!("httproutes") };
    pub(super) const GRPC: Self =
        Self { name: "grpcroute", routes: GRPC_ROUTES, watches: watches!("grpcroutes") };
}

impl Controller for RouteController {
    fn name(&self) -> &'static str {
        self.name
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        self.watches
    }

    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        let part = |pointer: &str| {
            let part = |object: Option<&Value>| object.and_then(|o| o.pointer(pointer)).cloned();
            (part(change.old), part(change.new))
        };
        let is_same = |pointer: &str| matches!(part(pointer), (Some(old), Some(new)) if old == new);
        match change.plural {
            plural if plural == self.routes.plural => {
                return vec![Key {
                    namespace: change.namespace.to_owned(),
                    name: change.name.to_owned(),
                }];
            }
            // Their status, addresses and the like do not affect routes.
            "gateways" | "gatewayclasses" | "referencegrants" if is_same("/spec") => return vec![],
            "services" if is_same("/spec/ports") => return vec![],
            "namespaces" if is_same("/metadata/labels") => return vec![],
            _ => {}
        }
        cluster.list(self.routes, None).iter().map(key).collect()
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let Some(route) = cluster.get(self.routes, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        settle(sync(cluster, self.routes, &route).map(|()| Next::Idle))
    }
}

fn sync(cluster: &dyn Cluster, routes: Resource, route: &Value) -> Outcome<()> {
    let known = items(route, "/status/parents");
    let is_others = |parent: &&Value| text(parent, "/controllerName") != CONTROLLER_NAME;
    let mut parents: Vec<_> = known.iter().filter(is_others).cloned().collect();
    let resolved = resolved(cluster, route);
    for parent in items(route, "/spec/parentRefs") {
        let Some(accepted) = accepted(cluster, route, parent) else { continue };
        let is_it = |known: &&Value| !is_others(known) && known.get("parentRef") == Some(parent);
        let old = known.iter().find(is_it).cloned().unwrap_or_default();
        let verdicts = [accepted, resolved];
        let conditions = judged(&old, generation(route), &verdicts, cluster.now());
        parents.push(json!({
            "parentRef": parent, "controllerName": CONTROLLER_NAME, "conditions": conditions,
        }));
    }
    if parents.is_empty() && known.is_empty() {
        return Ok(());
    }
    let status = json!({ "parents": parents });
    write_status(cluster, routes, route, status).map(|_| ())
}

/// `None` for parents that the sandbox does not handle.
fn accepted(cluster: &dyn Cluster, route: &Value, parent: &Value) -> Option<Verdict<'static>> {
    let place = match text(parent, "/namespace") {
        "" => namespace(route),
        place => place,
    };
    let accepted = |message| Verdict { kind: "Accepted", holds: true, reason: "Accepted", message };
    match text(parent, "/kind") {
        "Service" => {
            cluster.get(SERVICES, place, text(parent, "/name"))?;
            Some(accepted("Requests to the Service follow this route"))
        }
        "Gateway" => {
            let gateway = cluster.get(GATEWAYS, place, text(parent, "/name"))?;
            if !is_ours(cluster, &gateway) {
                return None;
            }
            Some(match attach::listeners(cluster, &gateway, route, parent) {
                Ok(_) => accepted("Requests to the gateway follow this route"),
                Err(refused) => Verdict {
                    kind: "Accepted",
                    holds: false,
                    reason: refused.reason(),
                    message: refused.message(),
                },
            })
        }
        _ => None,
    }
}

/// Whether every backend of a route is a Service that exists and may be referenced.
fn resolved(cluster: &dyn Cluster, route: &Value) -> Verdict<'static> {
    let grants = cluster.list(REFERENCE_GRANTS, None);
    let problem = references(route).find_map(|reference| {
        let backend = backend(reference, namespace(route));
        if !is_service(reference) {
            return Some(("InvalidKind", "Backends are Services here"));
        }
        if !grants::allow(&grants, (text(route, "/kind"), namespace(route)), &backend) {
            return Some(("RefNotPermitted", "No ReferenceGrant allows a backend"));
        }
        let is_there = has_port(cluster, &backend);
        (!is_there).then_some(("BackendNotFound", "A backend, or its port, does not exist"))
    });
    let (reason, message) = problem.unwrap_or(("ResolvedRefs", "All backends were found"));
    Verdict { kind: "ResolvedRefs", holds: problem.is_none(), reason, message }
}

/// All backend references of a route, including mirrors.
fn references(route: &Value) -> impl Iterator<Item = &Value> {
    let rules = items(route, "/spec/rules").iter();
    rules.flat_map(|rule| {
        let backends = items(rule, "/backendRefs").iter();
        let filters = backends.clone().flat_map(|backend| items(backend, "/filters"));
        let filters = filters.chain(items(rule, "/filters"));
        let mirrors = filters.filter_map(|filter| filter.pointer("/requestMirror/backendRef"));
        backends.chain(mirrors)
    })
}

fn has_port(cluster: &dyn Cluster, backend: &Backend) -> bool {
    let Some(service) = cluster.get(SERVICES, &backend.namespace, &backend.service) else {
        return false;
    };
    let mut ports = items(&service, "/spec/ports").iter().filter_map(|port| int(port, "/port"));
    backend.port.is_none_or(|wanted| ports.any(|port| port == i64::from(wanted)))
}
