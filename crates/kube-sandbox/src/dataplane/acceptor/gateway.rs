//! Accepts gateways of the sandbox's class and counts the routes of their listeners.
//!
//! Every gateway of the class is accepted, with all its listeners. Route counts follow the rules in
//! `attach`.

use serde_json::{Value, json};

use super::{Verdict, attach, generation, is_ours, judged};
use crate::{
    cluster::Cluster,
    controllers::{
        Change, Controller, Key, Next,
        object::{items, key, settle, text, write_status},
    },
    dataplane::crds::{GATEWAYS, GRPC_ROUTES, HTTP_ROUTES},
    failure::Outcome,
};

pub(super) struct GatewayController;

impl Controller for GatewayController {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("gateway.networking.k8s.io", "gatewayclasses"),
            ("gateway.networking.k8s.io", "gateways"),
            ("gateway.networking.k8s.io", "httproutes"),
            ("gateway.networking.k8s.io", "grpcroutes"),
        ]
    }

    fn keys(&self, cluster: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        match change.plural {
            "gateways" => {
                vec![Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() }]
            }
            "httproutes" | "grpcroutes" => {
                let routes = [change.old, change.new].into_iter().flatten();
                let parents = routes.flat_map(attach::gateway_parents);
                let mut keys: Vec<_> =
                    parents.map(|(_, (namespace, name))| Key { namespace, name }).collect();
                keys.sort();
                keys.dedup();
                keys
            }
            _ => {
                let gateways = cluster.list(GATEWAYS, None);
                let is_of =
                    |gateway: &&Value| text(gateway, "/spec/gatewayClassName") == change.name;
                gateways.iter().filter(is_of).map(key).collect()
            }
        }
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        let gateway = cluster.get(GATEWAYS, &key.namespace, &key.name);
        let Some(gateway) = gateway.filter(|gateway| is_ours(cluster, gateway)) else {
            return Next::Idle;
        };
        settle(sync(cluster, &gateway).map(|()| Next::Idle))
    }
}

fn sync(cluster: &dyn Cluster, gateway: &Value) -> Outcome<()> {
    let old = gateway.get("status").cloned().unwrap_or_default();
    let verdicts = [verdict("Accepted", "Accepted"), verdict("Programmed", "Programmed")];
    let conditions = judged(&old, generation(gateway), &verdicts, cluster.now());
    let mut routes = cluster.list(HTTP_ROUTES, None);
    routes.extend(cluster.list(GRPC_ROUTES, None));
    let routes: Vec<_> = routes.iter().filter(|route| attach::refers_to(route, gateway)).collect();
    let listeners: Vec<_> = items(gateway, "/spec/listeners")
        .iter()
        .map(|listener| listener_status(cluster, gateway, listener, &old, &routes))
        .collect();
    let status = json!({
        "addresses": [{ "type": "IPAddress", "value": "127.0.0.1" }],
        "conditions": conditions,
        "listeners": listeners,
    });
    write_status(cluster, GATEWAYS, gateway, status).map(|_| ())
}

fn listener_status(
    cluster: &dyn Cluster,
    gateway: &Value,
    listener: &Value,
    old: &Value,
    routes: &[&Value],
) -> Value {
    let name = text(listener, "/name");
    let known = items(old, "/listeners").iter().find(|known| text(known, "/name") == name);
    let verdicts = [
        verdict("Accepted", "Accepted"),
        verdict("Programmed", "Programmed"),
        verdict("ResolvedRefs", "ResolvedRefs"),
    ];
    let known = known.cloned().unwrap_or_default();
    let conditions = judged(&known, generation(gateway), &verdicts, cluster.now());
    let gateway_key = key(gateway);
    let is_attached = |route: &&&Value| {
        let parents = attach::gateway_parents(route);
        let mut ours = parents.filter(|(_, (namespace, name))| {
            *namespace == gateway_key.namespace && *name == gateway_key.name
        });
        ours.any(|(parent, _)| {
            let taking = attach::listeners(cluster, gateway, route, parent);
            taking.is_ok_and(|listeners| listeners.contains(&name))
        })
    };
    json!({
        "name": name,
        "attachedRoutes": routes.iter().filter(is_attached).count(),
        "supportedKinds": [
            { "group": "gateway.networking.k8s.io", "kind": "HTTPRoute" },
            { "group": "gateway.networking.k8s.io", "kind": "GRPCRoute" },
        ],
        "conditions": conditions,
    })
}

fn verdict(kind: &'static str, reason: &'static str) -> Verdict<'static> {
    Verdict { kind, holds: true, reason, message: "The sandbox serves this" }
}
