//! Keeps the `EndpointSlices` of every Service with a selector.
//!
//! A slice holds at most a hundred endpoints, all of pods with the same ports. Slices change as
//! little as possible: an endpoint stays where it is, new ones fill gaps, and a slice no longer
//! needed is reused before another is created. A Service without endpoints keeps one empty slice.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::endpoints::{
    HEADLESS,
    backend::{self, Selections},
};
use crate::{
    cluster::{Cluster, Deletion, ENDPOINT_SLICES, PODS, SERVICES},
    controllers::{
        Change, Controller, Key, Next,
        hash::canonical,
        object::{
            Kind, flag, is_deleting, items, label, name, namespace, owner_reference, set_at,
            settle, strings, text, uid,
        },
        pods,
    },
    failure::Outcome,
};

const SERVICE: Kind = Kind { api_version: "v1", kind: "Service" };
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Endpoints in one slice, the default of `--max-endpoints-per-slice`.
const SLICE_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct EndpointSliceController {
    services: Selections,
}

/// Endpoints by the address and pod that identify them.
type Endpoints = BTreeMap<(String, String), Value>;

/// Target state of a Service's slices.
#[derive(Debug, Default)]
struct Plan {
    /// Slices with their target ports and endpoints; the first is `None` for a slice to create.
    keep: Vec<(Option<Value>, Value, Vec<Value>)>,
    unused: Vec<Value>,
}

// === impl EndpointSliceController ===

impl Controller for EndpointSliceController {
    fn name(&self) -> &'static str {
        "endpointslice"
    }

    fn watches(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "services"), ("", "pods"), ("discovery.k8s.io", "endpointslices")]
    }

    fn keys(&self, _: &dyn Cluster, change: &Change<'_>) -> Vec<Key> {
        self.services.note(change);
        let service = match change.plural {
            "pods" => return self.services.of_pod(change),
            "endpointslices" => {
                // Ignores the controller's own writes; only a removal by others needs work.
                let removed = change.old.filter(|_| change.new.is_none());
                removed.filter(|slice| is_ours(slice)).and_then(|slice| label(slice, SERVICE_NAME))
            }
            _ => Some(change.name),
        };
        let key =
            |name: &str| Key { namespace: change.namespace.to_owned(), name: name.to_owned() };
        service.map(key).into_iter().collect()
    }

    fn reconcile(&mut self, cluster: &dyn Cluster, key: &Key) -> Next {
        // Garbage collection deletes the slices of a deleted Service.
        let Some(service) = cluster.get(SERVICES, &key.namespace, &key.name) else {
            return Next::Idle;
        };
        if !backend::is_published(&service) {
            return Next::Idle;
        }
        settle(sync(cluster, &service).map(|()| Next::Idle))
    }
}

fn is_ours(slice: &Value) -> bool {
    label(slice, MANAGED_BY) == Some(MANAGER)
}

fn sync(cluster: &dyn Cluster, service: &Value) -> Outcome<()> {
    let slices = cluster.owned(ENDPOINT_SLICES, namespace(service), uid(service));
    let slices: Vec<_> = slices
        .into_iter()
        .filter(|slice| is_ours(slice) && label(slice, SERVICE_NAME) == Some(name(service)))
        .collect();
    plan(wanted(cluster, service), slices).carry_out(cluster, service)
}

/// The endpoints of a Service, grouped by their ports.
fn wanted(cluster: &dyn Cluster, service: &Value) -> BTreeMap<Vec<backend::Port>, Endpoints> {
    let mut groups: BTreeMap<_, Endpoints> = BTreeMap::new();
    for pod in cluster.select(PODS, namespace(service), &backend::selector(service)) {
        if !backend::belongs(&pod, true) {
            continue;
        }
        let endpoint = endpoint(service, &pod);
        let group = groups.entry(backend::resolve_ports(service, &pod)).or_default();
        group.insert(identity(&endpoint), endpoint);
    }
    groups
}

fn endpoint(service: &Value, pod: &Value) -> Value {
    let (serving, terminating) = (pods::is_ready(pod), is_deleting(pod));
    let publish_all = flag(service, "/spec/publishNotReadyAddresses");
    let mut endpoint = json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": {
            "ready": publish_all || (serving && !terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": backend::target(pod),
    });
    if !text(pod, "/spec/nodeName").is_empty() {
        set_at(&mut endpoint, &["nodeName"], text(pod, "/spec/nodeName"));
    }
    if let Some(hostname) = backend::hostname(service, pod) {
        set_at(&mut endpoint, &["hostname"], hostname);
    }
    endpoint
}

fn identity(endpoint: &Value) -> (String, String) {
    let address = items(endpoint, "/addresses").first().and_then(Value::as_str);
    (address.unwrap_or_default().to_owned(), text(endpoint, "/targetRef/uid").to_owned())
}

fn plan(groups: BTreeMap<Vec<backend::Port>, Endpoints>, mut slices: Vec<Value>) -> Plan {
    let mut plan = Plan::default();
    for (ports, endpoints) in groups {
        let ports: Value = ports.iter().map(backend::Port::for_slice).collect();
        let (ours, others) =
            slices.into_iter().partition(|slice| canonical(&slice["ports"]) == canonical(&ports));
        slices = others;
        plan.fill(&ports, endpoints, ours);
    }
    plan.unused.extend(slices);
    for (slice, _, _) in &mut plan.keep {
        if slice.is_none() {
            *slice = plan.unused.pop();
        }
    }
    if plan.keep.is_empty() {
        let slice = (!plan.unused.is_empty()).then(|| plan.unused.remove(0));
        plan.keep.push((slice, json!([]), Vec::new()));
    }
    plan
}

// === impl Plan ===

impl Plan {
    /// Distributes endpoints over slices with the same ports.
    fn fill(&mut self, ports: &Value, mut endpoints: Endpoints, slices: Vec<Value>) {
        let mut filled: Vec<(Option<Value>, Vec<Value>)> = Vec::new();
        for slice in slices {
            let kept = items(&slice, "/endpoints").iter();
            let kept = kept.filter_map(|endpoint| endpoints.remove(&identity(endpoint))).collect();
            filled.push((Some(slice), kept));
        }
        let mut rest = endpoints.into_values();
        for (_, kept) in &mut filled {
            let room = SLICE_MAX.saturating_sub(kept.len());
            kept.extend(rest.by_ref().take(room));
        }
        loop {
            let more: Vec<_> = rest.by_ref().take(SLICE_MAX).collect();
            if more.is_empty() {
                break;
            }
            filled.push((None, more));
        }
        for (slice, kept) in filled {
            match slice {
                Some(slice) if kept.is_empty() => self.unused.push(slice),
                slice => self.keep.push((slice, ports.clone(), kept)),
            }
        }
    }

    fn carry_out(self, cluster: &dyn Cluster, service: &Value) -> Outcome<()> {
        for (slice, ports, endpoints) in self.keep {
            let Some(slice) = slice else {
                let fresh = render(service, &ports, &endpoints);
                cluster.create(ENDPOINT_SLICES, namespace(service), fresh)?;
                continue;
            };
            let mut changed = slice.clone();
            set_at(&mut changed, &["endpoints"], endpoints);
            set_at(&mut changed, &["ports"], ports);
            set_at(&mut changed, &["metadata", "labels"], labels(service));
            if canonical(&changed) != canonical(&slice) {
                cluster.update(ENDPOINT_SLICES, "", changed)?;
            }
        }
        for slice in self.unused {
            let deletion = Deletion::default();
            match cluster.delete(ENDPOINT_SLICES, namespace(&slice), name(&slice), &deletion) {
                Err(failure) if !failure.is_not_found() => return Err(failure),
                _ => {}
            }
        }
        Ok(())
    }
}

fn labels(service: &Value) -> Value {
    let mut labels = json!({});
    for (key, value) in strings(service.pointer("/metadata/labels")) {
        set_at(&mut labels, &[key], value);
    }
    set_at(&mut labels, &[SERVICE_NAME], name(service));
    set_at(&mut labels, &[MANAGED_BY], MANAGER);
    if backend::is_headless(service) {
        set_at(&mut labels, &[HEADLESS], "");
    }
    labels
}

fn render(service: &Value, ports: &Value, endpoints: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", name(service)), "namespace": namespace(service),
            "labels": labels(service),
            "ownerReferences": [owner_reference(SERVICE, service)],
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    })
}

#[cfg(test)]
mod tests;
