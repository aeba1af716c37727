//! The entry point of the crate: a cluster with API server, control loops, nodes and initial
//! objects.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    clock::{Clock, between, later},
    cluster::{self, Cluster, Resource},
    control_plane::{self, ControllerSettings},
    dataplane,
    failure::Outcome,
    http::{ApiService, listen::Listener},
    kubelet::{self, KubeletSettings},
    random::Random,
    rbac,
    runtime::{Order, Runtime},
    server::{Server, ServerSettings, Snapshot, User, local::Local},
};

/// Settings of a sandbox. The defaults suit manual use; tests use [`Settings::for_tests`].
#[derive(Debug, Clone)]
pub struct Settings {
    /// Real, or virtual and moved by a test.
    pub clock: Clock,
    /// Nodes that are ready from the start.
    pub nodes: u8,
    /// The part that a cluster's administrator would decide.
    pub server: ServerSettings,
    /// Pace of pods, metrics, certificate.
    pub controllers: ControllerSettings,
    /// Take due work in any order, as a real cluster might; seeded by the server's seed.
    pub shuffled: bool,
    /// Define the kinds of Gateway API and Istio, and run a gateway controller for routes.
    pub routing: bool,
}

/// A running (or, under a virtual clock, steppable) cluster.
pub struct Sandbox {
    server: Arc<Server>,
    runtime: Arc<Mutex<Runtime>>,
    service: ApiService,
    settings: Settings,
    driver: Mutex<Option<JoinHandle<()>>>,
}

/// Steps between two yields to clients: with more, a busy cluster would starve them.
const STEPS_AT_ONCE: usize = 64;
/// A cluster that has not settled after this many steps never will.
const STEPS_MAX: usize = 1_000_000;

const CLUSTER_ROLES: Resource =
    Resource { group: "rbac.authorization.k8s.io", plural: "clusterroles" };
const CLUSTER_ROLE_BINDINGS: Resource =
    Resource { group: "rbac.authorization.k8s.io", plural: "clusterrolebindings" };

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock: Clock::real(),
            nodes: 1,
            server: ServerSettings::default(),
            controllers: ControllerSettings::default(),
            shuffled: false,
            routing: false,
        }
    }
}

impl Settings {
    /// A virtual clock with a fixed start, and a kubelet without delays.
    pub fn for_tests() -> Self {
        let start = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
        Self {
            clock: Clock::virtual_from(start),
            controllers: ControllerSettings {
                kubelet: KubeletSettings::instant(),
                ..ControllerSettings::default()
            },
            ..Self::default()
        }
    }

    /// Seed of names, uids, addresses and, shuffled, of the order of work.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.server.seed = seed;
        self
    }

    /// So many nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self
    }

    /// Roles and bindings count.
    #[must_use]
    pub fn rbac(mut self) -> Self {
        self.server.rbac = true;
        self
    }

    /// Adds the kinds of Gateway API and Istio, and a controller for the former.
    #[must_use]
    pub fn routing(mut self) -> Self {
        self.routing = true;
        self
    }

    /// Work is done in any order that the seed gives.
    #[must_use]
    pub fn shuffled(mut self) -> Self {
        self.shuffled = true;
        self
    }
}

// === impl Sandbox ===

impl Sandbox {
    /// Creates a cluster with its namespaces, nodes, roles and the `kubernetes` Service.
    ///
    /// With a real clock nothing happens until [`Sandbox::run`]; with a virtual one a test advances
    /// it.
    pub fn new(settings: Settings) -> Self {
        let routing = settings.routing;
        let server = Arc::new(Server::new(settings.clock.clone(), settings.server.clone()));
        populate(&server, settings.nodes);
        let service = ApiService::new(Arc::clone(&server), User::admin());
        let sandbox = Self::over(server, service, settings);
        if routing {
            let kinds = dataplane::routing_crds().into_iter().chain([dataplane::gateway_class()]);
            let loaded = sandbox.load(kinds.collect());
            assert!(loaded.is_ok(), "a fresh cluster takes its own definitions: {loaded:?}");
        }
        sandbox
    }

    /// An independent copy with all objects of this cluster, including nodes and definitions. For
    /// many tests with the same start, whose creation takes longer than many a test.
    #[must_use]
    pub fn fork(&self, settings: Settings) -> Self {
        let server = self.server.fork(settings.clock.clone(), settings.server.clone());
        let server = Arc::new(server);
        let service = self.service.over(Arc::clone(&server));
        Self::over(server, service, settings)
    }

    fn over(server: Arc<Server>, service: ApiService, settings: Settings) -> Self {
        let runtime = Arc::new(Mutex::new(control_loops(&server, &settings)));
        Self { server, runtime, service, settings, driver: Mutex::new(None) }
    }

    /// The state at this moment, for [`Sandbox::restore`].
    pub fn snapshot(&self) -> Snapshot {
        self.server.take_snapshot()
    }

    /// Puts the cluster back to a snapshot, as a restored backup of etcd does; that of another sandbox makes
    /// another cluster behind the same address.
    ///
    /// Clients see a server that was started again: their connections are closed, and revisions may be lower
    /// than before. The control loops and nodes start again as well. The clock goes on.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut runtime = self.runtime();
        self.server.go_back_to(snapshot);
        *runtime = control_loops(&self.server, &self.settings);
    }

    /// The API server: its store, log and faults.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The knobs of the control loops and the kubelet: behaviours by image, metrics.
    pub fn controllers(&self) -> &ControllerSettings {
        &self.settings.controllers
    }

    /// The API as a `tower` service, as an administrator. Pass it to `kube::Client::new`.
    pub fn service(&self) -> ApiService {
        self.service.clone()
    }

    /// The API as another user.
    pub fn service_as(&self, user: User) -> ApiService {
        self.service.acting_as(user)
    }

    /// Direct access for code in this process, as `user`.
    pub fn local(&self, user: User) -> Local {
        Local::new(Arc::clone(&self.server), user)
    }

    /// Serves the API on a socket.
    pub async fn listen(&self, address: SocketAddr) -> std::io::Result<Listener> {
        let stranger = if self.server.settings.rbac { User::anonymous() } else { User::admin() };
        self.listen_as(address, stranger).await
    }

    /// Like [`Sandbox::listen`]; requests without a token come from `stranger`.
    pub async fn listen_as(
        &self,
        address: SocketAddr,
        stranger: User,
    ) -> std::io::Result<Listener> {
        Listener::start(address, self.service_as(stranger)).await
    }

    /// Runs the control loops in the background until the sandbox is dropped.
    pub fn run(&self) {
        let task = drive(Arc::clone(&self.server), Arc::clone(&self.runtime));
        let mut driver = self.driver.lock();
        if driver.is_none() {
            *driver = Some(tokio::spawn(task));
        }
    }

    /// The control loops, to pause one or step them by hand.
    pub fn runtime(&self) -> MutexGuard<'_, Runtime> {
        self.runtime.lock()
    }

    /// Runs the control loops until nothing is due now.
    pub fn settle(&self) {
        let is_quiet = self.runtime().settle(STEPS_MAX);
        assert!(is_quiet, "the control loops are still busy after {STEPS_MAX} steps");
    }

    /// Moves a virtual clock forward, stopping wherever work is due.
    pub fn advance(&self, by: Duration) {
        let end = later(self.server.clock.now(), by);
        loop {
            self.settle();
            let next = self.runtime().next_due().filter(|due| *due <= end);
            let now = self.server.clock.now();
            let to = next.unwrap_or(end).max(now);
            let wait = between(now, to);
            self.server.clock.advance(wait);
            if next.is_none() {
                self.settle();
                return;
            }
        }
    }

    /// Moves a virtual clock until `is_so`, at most `within`. False if it never was.
    pub fn advance_until(&self, within: Duration, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        let end = later(self.server.clock.now(), within);
        loop {
            self.settle();
            if is_so(self) {
                return true;
            }
            let now = self.server.clock.now();
            let next = self.runtime().next_due().filter(|due| *due <= end);
            if next.is_none() && now >= end {
                return false;
            }
            self.server.clock.advance(between(now, next.unwrap_or(end)));
        }
    }

    /// Creates or updates objects like `kubectl apply --server-side --force-conflicts`.
    ///
    /// Namespaces and CRDs are applied first. Stops at the first error.
    pub fn load(&self, objects: Vec<Value>) -> Outcome<Vec<Value>> {
        crate::load::load(&self.server, objects)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let driver = self.driver.get_mut();
        if let Some(driver) = driver.take() {
            driver.abort();
        }
    }
}

async fn drive(server: Arc<Server>, runtime: Arc<Mutex<Runtime>>) {
    let mut activity = server.store.activity();
    loop {
        activity.borrow_and_update();
        let (is_quiet, next) = {
            let mut runtime = runtime.lock();
            let is_quiet = runtime.settle(STEPS_AT_ONCE);
            (is_quiet, runtime.next_due())
        };
        if !is_quiet {
            tokio::task::yield_now().await;
            continue;
        }
        let due = async {
            match next {
                Some(at) => server.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = activity.changed() => if changed.is_err() { return },
            () = due => {}
        }
    }
}

/// The control loops, which learn of every object that is there.
fn control_loops(server: &Arc<Server>, settings: &Settings) -> Runtime {
    let seeded = || Order::Shuffled(Random::seeded(settings.server.seed));
    let order = if settings.shuffled { seeded() } else { Order::Fair };
    let mut loops = control_plane::all(settings.controllers.clone());
    if settings.routing {
        loops.extend(dataplane::controllers());
    }
    Runtime::new(Arc::clone(server), loops, order)
}

/// Creates the initial objects of a cluster.
fn populate(server: &Arc<Server>, nodes: u8) {
    let local = Local::new(Arc::clone(server), User::new("system:apiserver", &["system:masters"]));
    let create = |resource: Resource, namespace: &str, object: Value| {
        let created = local.create(resource, namespace, object);
        assert!(created.is_ok(), "a fresh cluster takes its own objects: {created:?}");
    };
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let namespace = json!({ "metadata": { "name": name } });
        create(cluster::NAMESPACES, "", namespace);
    }
    for object in rbac::bootstrap_objects() {
        let is_binding = object["kind"] == "ClusterRoleBinding";
        create(if is_binding { CLUSTER_ROLE_BINDINGS } else { CLUSTER_ROLES }, "", object);
    }
    for index in 0..nodes {
        let node = kubelet::node_object(&format!("sandbox-{index}"), index, server.clock.now());
        create(cluster::NODES, "", node.clone());
        let status = json!({ "status": node["status"] });
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let patched = local.patch(cluster::NODES, "", name, "status", &status);
        assert!(patched.is_ok(), "a node takes its own status: {patched:?}");
    }
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    create(
        cluster::SERVICES,
        "default",
        json!({
            "metadata": { "name": "kubernetes", "labels": labels },
            "spec": {
                "clusterIP": "10.96.0.1",
                "ports": [{ "name": "https", "port": 443, "targetPort": 6443 }],
            },
        }),
    );
}
