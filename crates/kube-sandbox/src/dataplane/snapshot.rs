//! A snapshot of the cluster state that the data plane uses.
//!
//! [`View`] keeps the latest [`Snapshot`] and builds a new one only when a kind it reads has
//! changed.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use serde_json::Value;
use tokio::sync::watch;

use super::{
    app::App,
    crds::{
        GRPC_ROUTES, HTTP_ROUTES, INGRESS_ROUTES, INGRESSES, REFERENCE_GRANTS, TRAEFIK_SERVICES,
        VIRTUAL_SERVICES,
    },
    route::{Endpoint, Sources, Table},
};
use crate::{
    cluster::{ENDPOINT_SLICES, PODS, Resource, SERVICES},
    controllers::{
        object::{controller_of, items, label, name, namespace, text, uid},
        pods,
    },
    server::Server,
    store::TableKey,
};

const KINDS: [Resource; 10] = [
    SERVICES,
    ENDPOINT_SLICES,
    PODS,
    HTTP_ROUTES,
    GRPC_ROUTES,
    VIRTUAL_SERVICES,
    REFERENCE_GRANTS,
    INGRESSES,
    INGRESS_ROUTES,
    TRAEFIK_SERVICES,
];

/// Namespace and name of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A running pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Namespace and name.
    pub name: PodName,
    /// The uid.
    pub uid: String,
    /// The Deployment, DaemonSet or StatefulSet that owns the pod; without one, the pod's own name.
    pub workload: String,
    /// How it answers.
    pub app: App,
    /// Whether it counts among a Service's endpoints.
    pub is_ready: bool,
}

/// Routes, endpoints and applications at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The routes.
    pub table: Table,
    /// The running pods.
    pub pods: BTreeMap<PodName, Pod>,
}

/// The latest snapshot of a store.
pub struct View {
    server: Arc<Server>,
    tables: Vec<watch::Receiver<u64>>,
    /// Addresses in this process attached in place of Services, by namespace and name.
    attached: BTreeMap<(String, String), SocketAddr>,
    is_stale: bool,
    snapshot: Arc<Snapshot>,
}

// === impl View ===

impl View {
    /// A view of a server's store; empty until it is first refreshed.
    pub fn new(server: Arc<Server>) -> Self {
        let tables = KINDS.iter().map(|kind| server.store.subscribe(&table(*kind))).collect();
        let snapshot = Arc::default();
        Self { server, tables, attached: BTreeMap::new(), is_stale: true, snapshot }
    }

    /// Sends requests for a Service to `address` in place of its endpoints.
    pub fn attach(&mut self, namespace: &str, service: &str, address: SocketAddr) {
        let key = (namespace.to_owned(), service.to_owned());
        self.is_stale |= self.attached.insert(key, address) != Some(address);
    }

    /// The latest snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Reads the store again. False if nothing relevant was written.
    pub fn refresh(&mut self) -> bool {
        let mut is_changed = std::mem::take(&mut self.is_stale);
        for table in &mut self.tables {
            // Noted before the read: a concurrent write is read again the next time.
            is_changed |= table.has_changed().unwrap_or_default();
            table.borrow_and_update();
        }
        if is_changed {
            self.snapshot = Arc::new(self.read());
        }
        is_changed
    }

    fn read(&self) -> Snapshot {
        let list = |kind: Resource| {
            let (_, objects) = self.server.store.list(&table(kind), None);
            objects.iter().map(|object| object.value()).collect::<Vec<_>>()
        };
        let pods: BTreeMap<_, _> = list(PODS).iter().filter_map(Pod::read).collect();
        let mut endpoints = endpoints(&list(ENDPOINT_SLICES), &pods);
        for (key, address) in &self.attached {
            endpoints.insert(key.clone(), vec![Endpoint::Address(*address)]);
        }
        let table = Table::new(Sources {
            http_routes: &list(HTTP_ROUTES),
            grpc_routes: &list(GRPC_ROUTES),
            virtual_services: &list(VIRTUAL_SERVICES),
            reference_grants: &list(REFERENCE_GRANTS),
            ingresses: &list(INGRESSES),
            ingress_routes: &list(INGRESS_ROUTES),
            traefik_services: &list(TRAEFIK_SERVICES),
            services: &list(SERVICES),
            endpoints,
        });
        Snapshot { table, pods }
    }
}

fn table(kind: Resource) -> TableKey {
    TableKey::new(kind.group, kind.plural)
}

/// Endpoints of each Service: its ready pods or, as in a node's proxy, its serving terminating pods
/// if no other is left.
fn endpoints(
    slices: &[Value],
    pods: &BTreeMap<PodName, Pod>,
) -> BTreeMap<(String, String), Vec<Endpoint>> {
    let mut ready: BTreeMap<(String, String), Vec<PodName>> = BTreeMap::new();
    let mut stopping = ready.clone();
    for slice in slices {
        let Some(service) = label(slice, "kubernetes.io/service-name") else { continue };
        let key = (namespace(slice).to_owned(), service.to_owned());
        for endpoint in items(slice, "/endpoints") {
            let pod = PodName {
                namespace: namespace(slice).to_owned(),
                name: text(endpoint, "/targetRef/name").to_owned(),
            };
            if !pods.get(&pod).is_some_and(|pod| pod.is_ready) {
                continue;
            }
            let is = |key: &str| endpoint["conditions"][key].as_bool();
            if is("ready").unwrap_or(true) {
                ready.entry(key.clone()).or_default().push(pod);
            } else if is("serving") == Some(true) && is("terminating") == Some(true) {
                stopping.entry(key.clone()).or_default().push(pod);
            }
        }
    }
    for (key, pods) in stopping {
        ready.entry(key).or_insert(pods);
    }
    let list = |mut pods: Vec<PodName>| {
        // Sorted, so that the layout of slices does not affect choices by seed.
        pods.sort();
        pods.dedup();
        pods.into_iter().map(Endpoint::Pod).collect()
    };
    ready.into_iter().map(|(key, pods)| (key, list(pods))).collect()
}

// === impl Pod ===

impl Pod {
    /// Reads a pod object; `None` unless the pod runs.
    pub fn read(object: &Value) -> Option<(PodName, Self)> {
        if pods::phase(object) != "Running" {
            return None;
        }
        let name =
            PodName { namespace: namespace(object).to_owned(), name: name(object).to_owned() };
        let pod = Self {
            name: name.clone(),
            uid: uid(object).to_owned(),
            workload: workload(object),
            app: App::of(object),
            is_ready: pods::is_ready(object),
        };
        Some((name, pod))
    }
}

/// The owner's name; a Deployment's ReplicaSet has that name plus the hash of its template.
fn workload(pod: &Value) -> String {
    let Some(owner) = controller_of(pod) else { return name(pod).to_owned() };
    let hash = label(pod, "pod-template-hash").filter(|_| owner.kind == "ReplicaSet");
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'));
    deployment.unwrap_or(owner.name).to_owned()
}
