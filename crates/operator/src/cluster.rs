//! The cluster as the operator sees it: reads from a cache, writes with preconditions.
//!
//! Routing objects may live in a cluster of their own ([`Cluster::with_mesh`]); readers and writers of objects
//! need not know.

pub mod cache;
pub mod nodes;
pub(crate) mod rewind;
pub mod schema;
pub mod throttle;
pub(crate) mod watch;
pub mod write;

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tidegate_providers::{
    object::Kind,
    traffic::{INGRESS, KNATIVE_SERVICE, Mesh},
    workload::{
        CONFIG_MAP, DAEMON_SET, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, SECRET,
        SERVICE,
    },
};
use tokio::sync::Notify;

use self::{
    cache::{Cache, TableState},
    nodes::NodeAddresses,
    rewind::Rewind,
    schema::Schemas,
};

pub const CANARY: Kind =
    Kind { group: "flagger.app", version: "v1beta1", kind: "Canary", plural: "canaries" };
pub const METRIC_TEMPLATE: Kind = Kind {
    group: "flagger.app",
    version: "v1beta1",
    kind: "MetricTemplate",
    plural: "metrictemplates",
};
pub const ALERT_PROVIDER: Kind = Kind {
    group: "flagger.app",
    version: "v1beta1",
    kind: "AlertProvider",
    plural: "alertproviders",
};
pub const EVENT: Kind = Kind { group: "", version: "v1", kind: "Event", plural: "events" };
/// The addresses behind a Service, in parts.
pub const ENDPOINT_SLICE: Kind = Kind {
    group: "discovery.k8s.io",
    version: "v1",
    kind: "EndpointSlice",
    plural: "endpointslices",
};

/// Every kind that canaries need from the start. Nodes are watched too, see [`nodes`]; others follow when a
/// canary needs them.
const WATCHED: [Kind; 6] =
    [CANARY, METRIC_TEMPLATE, ALERT_PROVIDER, DEPLOYMENT, SERVICE, HORIZONTAL_POD_AUTOSCALER];
/// Watched from the start too, but only where their changes are rolled out.
const CONFIGURATION: [Kind; 2] = [CONFIG_MAP, SECRET];

/// Other kinds that are written, besides routes.
const OTHERS: [Kind; 3] = [DAEMON_SET, SCALED_OBJECT, EVENT];

/// A handle on the cluster; cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: kube::Client,
    /// Unauthenticated client of the same API server, for requests that carry their own credentials.
    pub(crate) anonymous: Option<kube::Client>,
    pub cache: Arc<Cache>,
    /// Addresses that a Canary must not make the operator connect to.
    pub nodes: NodeAddresses,
    /// The one namespace that is watched, or all.
    pub(crate) namespace: Option<String>,
    /// Whether configuration is watched: the kinds `ConfigMap` and `Secret`.
    tracks_configs: bool,
    /// Checked before every write.
    leads: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Notified when a list is complete, or failed.
    pub(crate) synced: Arc<Notify>,
    kinds: Arc<[Kind]>,
    /// Where routing objects are.
    mesh: MeshAccess,
    /// The fields of routing objects on this cluster.
    pub(crate) schemas: Arc<Schemas>,
    /// Kinds that are watched on demand, once they are.
    claimed: Arc<Mutex<BTreeSet<Kind>>>,
    /// Whether the API server went back to an earlier state.
    rewind: Arc<Rewind>,
    /// Kinds whose watch is silent although the server answers.
    pub(crate) silent: Arc<Mutex<BTreeSet<Kind>>>,
}

/// Where routing objects are.
#[derive(Clone)]
struct MeshAccess {
    client: kube::Client,
    /// False where it is another cluster than that of the canaries: nothing there can have a canary
    /// as its owner.
    is_same: bool,
    kinds: Arc<[Kind]>,
}

// === impl Cluster ===

impl Cluster {
    pub fn new(
        client: kube::Client,
        namespace: Option<String>,
        leads: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Self {
        let routing: BTreeSet<Kind> =
            Mesh::ALL.iter().flat_map(|mesh| mesh.kinds().iter().copied()).collect();
        let routing: Arc<[Kind]> = routing.into_iter().collect();
        let watched = WATCHED.into_iter().chain(CONFIGURATION);
        let kinds = watched.chain(routing.iter().copied()).chain(OTHERS).collect();
        Self {
            mesh: MeshAccess { client: client.clone(), is_same: true, kinds: routing },
            schemas: Arc::default(),
            client,
            anonymous: None,
            cache: Arc::new(Cache::default()),
            nodes: NodeAddresses::default(),
            namespace,
            tracks_configs: true,
            leads,
            synced: Arc::new(Notify::new()),
            kinds,
            claimed: Arc::default(),
            rewind: Arc::default(),
            silent: Arc::default(),
        }
    }

    /// Routing objects are in another cluster, or at least reached by another client.
    #[must_use]
    pub fn with_mesh(mut self, client: kube::Client, is_same: bool) -> Self {
        self.mesh = MeshAccess { client, is_same, ..self.mesh };
        self
    }

    /// With a client that reaches the API server without a login.
    #[must_use]
    pub fn with_anonymous(mut self, client: kube::Client) -> Self {
        self.anonymous = Some(client);
        self
    }

    /// With addresses of nodes that are shared with others.
    #[must_use]
    pub fn with_nodes(mut self, nodes: NodeAddresses) -> Self {
        self.nodes = nodes;
        self
    }

    /// With or without watches of configuration.
    #[must_use]
    pub(crate) fn with_config_tracking(mut self, tracks_configs: bool) -> Self {
        self.tracks_configs = tracks_configs;
        self
    }

    /// The kinds that are watched from the start, besides nodes.
    pub(crate) fn watched(&self) -> impl Iterator<Item = Kind> + use<> {
        let tracks_configs = self.tracks_configs;
        let configuration = CONFIGURATION.into_iter().filter(move |_| tracks_configs);
        WATCHED.into_iter().chain(configuration)
    }

    /// The client for objects of a kind.
    pub(crate) fn client_for(&self, kind: Kind) -> &kube::Client {
        // As Flagger: ingresses, and the targets of Knative, are where the canaries are.
        let is_here = kind == INGRESS || kind == KNATIVE_SERVICE;
        let is_mesh = !is_here && self.mesh.kinds.contains(&kind);
        if is_mesh { &self.mesh.client } else { &self.client }
    }

    /// Whether a canary can be the owner of its routing objects.
    pub(crate) fn owns_routes(&self) -> bool {
        self.mesh.is_same
    }

    /// Every kind of routing object that is known here.
    pub(crate) fn routing_kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.mesh.kinds.iter().copied()
    }

    pub(crate) fn leads(&self) -> bool {
        (self.leads)()
    }

    /// True for the first request of a kind that is not watched from the start.
    pub(crate) fn claim(&self, kind: Kind) -> bool {
        self.watched().all(|watched| watched != kind) && self.claimed.lock().insert(kind)
    }

    /// Whether a kind that is not watched from the start was claimed: one that a cluster may have or not.
    pub(crate) fn is_claimed(&self, kind: Kind) -> bool {
        self.claimed.lock().contains(&kind)
    }

    /// Whether everything that is watched from the start was listed once. Nodes may be out of reach.
    pub fn is_synced(&self) -> bool {
        self.watched().all(|kind| self.cache.state(kind) == TableState::Synced)
            && self.nodes.is_settled()
    }

    /// The kinds whose watch hears neither events nor bookmarks although the server answers; `None` without any.
    pub fn silent_watches(&self) -> Option<String> {
        let silent = self.silent.lock();
        let names: Vec<_> =
            silent.iter().map(|kind| format!("{} of {}", kind.kind, kind.api_version())).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Waits for a condition that depends on lists: checked whenever one is complete, or failed.
    pub(crate) async fn wait_until(&self, is_so: fn(&Self) -> bool) {
        loop {
            let notified = self.synced.notified();
            if is_so(self) {
                return;
            }
            notified.await;
        }
    }
}
