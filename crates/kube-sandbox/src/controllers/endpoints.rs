//! Keeps the Endpoints object of every Service with a selector.
//!
//! Endpoints are the older API; [`super::endpoint_slice`] writes the newer one. Both ignore
//! Services without a selector (their endpoints are written by others) and of type `ExternalName`.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Deletion, ENDPOINTS, PODS, SERVICES},
    controllers::{
        Change, Controller, Key, Next,
        hash::canonical,
        object::{flag, items, label, name, namespace, set_at, settle, strings, text, unset},
        pods,
    },
    failure::Outcome,
};

pub(super) mod backend;

use backend::{Port, Selections, belongs, hostname, resolve_ports, target};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

#[derive(Debug, Default)]
pub(crate) struct EndpointsController {
    services: Selections,
}

/// Addresses with the same ports.
#[derive(Debug, Default)]
struct Subset {
    ready: Vec<Value>,
    not_ready: Vec<Value>,
}

// === impl EndpointsController ===

impl Controller for EndpointsController {
    fn name(&self) -> &'static str {
        "endpoints"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "services"), ("", "pods"), ("", "endpoints")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        self.services.note(change);
        match change.plural {
            "pods" => self.services.of_pod(change),
            // Ignores the controller's own writes; only a removal by others needs work.
            "endpoints" if change.new.is_some() => Vec::new(),
            _ => vec![Key { namespace: change.namespace.to_owned(), name: change.name.to_owned() }],
        }
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        settle(sync(cluster, key).map(|()| Next::Idle))
    }
}

fn sync(cluster: &dyn Cluster, key: &Key) -> Outcome<()> {
    let existing = cluster.get(ENDPOINTS, &key.namespace, &key.name);
    let Some(service) = cluster.get(SERVICES, &key.namespace, &key.name) else {
        let ours = existing.is_some_and(|endpoints| label(&endpoints, MANAGED_BY).is_some());
        if !ours {
            return Ok(());
        }
        return match cluster.delete(ENDPOINTS, &key.namespace, &key.name, &Deletion::default()) {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(()),
        };
    };
    if !backend::is_published(&service) {
        return Ok(());
    }
    let subsets = subsets(cluster, &service);
    let labels = labels(&service);
    let Some(existing) = existing else {
        let endpoints = json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": { "name": key.name, "namespace": key.namespace, "labels": labels },
            "subsets": subsets,
        });
        return cluster.create(ENDPOINTS, &key.namespace, prune(endpoints)).map(|_| ());
    };
    let mut changed = existing.clone();
    set_at(&mut changed, &["metadata", "labels"], labels);
    set_at(&mut changed, &["subsets"], subsets);
    if canonical(&changed) == canonical(&existing) {
        return Ok(());
    }
    cluster.update(ENDPOINTS, "", prune(changed)).map(|_| ())
}

/// Drops an empty `subsets` field.
fn prune(mut endpoints: Value) -> Value {
    if items(&endpoints, "/subsets").is_empty() {
        unset(&mut endpoints, "", "subsets");
    }
    endpoints
}

fn labels(service: &Value) -> Value {
    let mut labels = json!({ MANAGED_BY: "endpoint-controller" });
    for (key, value) in strings(service.pointer("/metadata/labels")) {
        set_at(&mut labels, &[key], value);
    }
    if backend::is_headless(service) {
        set_at(&mut labels, &[HEADLESS], "");
    }
    labels
}

fn subsets(cluster: &dyn Cluster, service: &Value) -> Vec<Value> {
    let publish_all = flag(service, "/spec/publishNotReadyAddresses");
    let mut groups: BTreeMap<Vec<Port>, Subset> = BTreeMap::new();
    for pod in cluster.select(PODS, namespace(service), &backend::selector(service)) {
        if !belongs(&pod, publish_all) {
            continue;
        }
        let ports = resolve_ports(service, &pod);
        if ports.is_empty() && !backend::is_headless(service) {
            continue;
        }
        let group = groups.entry(ports).or_default();
        let ready = publish_all || pods::is_ready(&pod);
        let list = if ready { &mut group.ready } else { &mut group.not_ready };
        list.push(address(service, &pod));
    }
    groups.into_iter().map(|(ports, subset)| subset.render(&ports)).collect()
}

fn address(service: &Value, pod: &Value) -> Value {
    let mut address = json!({ "ip": text(pod, "/status/podIP"), "targetRef": target(pod) });
    if !text(pod, "/spec/nodeName").is_empty() {
        set_at(&mut address, &["nodeName"], text(pod, "/spec/nodeName"));
    }
    if let Some(hostname) = hostname(service, pod) {
        set_at(&mut address, &["hostname"], hostname);
    }
    address
}

// === impl Subset ===

impl Subset {
    fn render(self, ports: &[Port]) -> Value {
        let mut subset = json!({});
        for (key, mut addresses) in
            [("addresses", self.ready), ("notReadyAddresses", self.not_ready)]
        {
            addresses.sort_by_key(|address| {
                let ip: Option<IpAddr> = text(address, "/ip").parse().ok();
                (ip, name(&address["targetRef"]).to_owned())
            });
            if !addresses.is_empty() {
                set_at(&mut subset, &[key], addresses);
            }
        }
        if !ports.is_empty() {
            let ports: Vec<_> = ports.iter().map(Port::for_endpoints).collect();
            set_at(&mut subset, &["ports"], ports);
        }
        subset
    }
}

#[cfg(test)]
mod tests;
