//! One task per canary: look, decide, carry out.
//!
//! ```text
//! watches -> cache -> bell -+-> task: observe -> engine::decide -+-> ask: hooks, metrics -+
//!              clock -------+            ^                       |                        |
//!                                        +-----------------------+------ answers ---------+
//!                                        +-- conflict, or one of several effects -- act <-- decision
//! ```
//!
//! A task is woken when something it looked at changes, or when its time has come; between that it
//! costs nothing. It holds no lock and no other canary's time: a hook that hangs delays its own canary
//! only, and a panic is caught here.

mod act;
mod alert;
mod amazon;
mod ask;
mod cookies;
mod derived;
mod former;
mod identities;
mod inquire;
mod lacking;
mod manager;
mod measure;
mod mend;
mod observe;
mod plan;
mod refusals;
mod roads;
mod status;
mod task;
mod tell;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tidegate_api::canary::{Canary, CrossNamespace};
use tidegate_engine::{Memory, Plan};
use tidegate_providers::{notify::Destination, traffic::Mesh, workload::LabelPrefixes};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    clock::Clock,
    cluster::Cluster,
    http::{Proxy, Transport},
    telemetry::Telemetry,
};

pub(crate) use self::{
    ask::{outgoing, sign_call},
    measure::{decode, read_secret},
    tell::event_number,
};
pub use self::{manager::Manager, measure::probe_server};

/// What is the same for all canaries.
pub struct Context {
    pub cluster: Cluster,
    pub options: Options,
    pub clock: Arc<dyn Clock>,
    pub http: Arc<dyn Transport>,
    pub telemetry: Arc<Telemetry>,
    /// Turns: tasks wait for one in the order they asked.
    pub(crate) turns: Semaphore,
    /// What runs beside the tasks: watches on demand, queues. Ends with the manager.
    beside: Mutex<JoinSet<()>>,
    /// What puts away things of ours that nobody needs any more. The manager waits for it.
    tidying: Mutex<JoinSet<()>>,
    pub(crate) identities: identities::Identities,
}

/// The administrator's settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Provider of canaries that name none.
    pub mesh_provider: String,
    /// Prometheus of canaries that name none.
    pub metrics_server: String,
    /// One deadline for everything a query does.
    pub query_timeout: Duration,
    pub selector_labels: Vec<String>,
    pub included: LabelPrefixes,
    pub config_tracking: bool,
    pub cross_namespace: CrossNamespace,
    /// Told every event of canaries that have no event hook of their own.
    pub event_webhook: Option<String>,
    /// A file with the secret that calls of hooks are signed with.
    pub hook_secret_file: Option<PathBuf>,
    pub cluster_name: String,
    /// What annotations of the NGINX ingress controller begin with.
    pub ingress_annotations_prefix: String,
    /// Class of Contour's proxies; empty for none.
    pub ingress_class: String,
    /// Where alerts of canaries without alerts of their own go.
    pub notifier: Option<(Destination, Option<Proxy>)>,
    /// Canaries found at start are looked at spread over this long, not all at once.
    pub spread: Duration,
    /// How many canaries are worked on at the same time.
    pub turns: usize,
    /// Game workloads are looked after too, where the cluster knows them.
    pub game: bool,
}

/// What a canary asks for and remembers, as the operator understands it: for those who watch it.
///
/// `None` if its provider is unknown, or does not fit its target, and nothing says which one it was.
pub fn understand(canary: &Canary, mesh_provider: &str) -> Option<(Mesh, Plan, Memory)> {
    let mesh = mend::mesh_of(canary, mesh_provider)?;
    let memory = status::memory(&canary.status.clone().unwrap_or_default());
    Some((mesh, plan::plan(&canary.spec, mesh), memory))
}

// === impl Context ===

impl Context {
    pub fn new(
        cluster: Cluster,
        options: Options,
        clock: Arc<dyn Clock>,
        http: Arc<dyn Transport>,
        telemetry: Arc<Telemetry>,
    ) -> Arc<Self> {
        let turns = Semaphore::new(options.turns.max(1));
        Arc::new(Self {
            cluster,
            options,
            clock,
            http,
            telemetry,
            turns,
            beside: Mutex::default(),
            tidying: Mutex::default(),
            identities: identities::Identities::default(),
        })
    }
}

impl Context {
    /// Runs something that ends with the operator.
    pub(crate) fn spawn_beside(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        while beside.try_join_next().is_some() {}
        beside.spawn(task);
    }

    /// Runs something that is over in a moment, and that the end of the operator waits for.
    pub(crate) fn spawn_tidying(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tidying = self.tidying.lock().unwrap_or_else(PoisonError::into_inner);
        while tidying.try_join_next().is_some() {}
        tidying.spawn(task);
    }

    /// Waits for all of it.
    async fn tidied(&self) {
        let mut tidying =
            std::mem::take(&mut *self.tidying.lock().unwrap_or_else(PoisonError::into_inner));
        while tidying.join_next().await.is_some() {}
    }

    fn end_beside(&self) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        let labels = ["app", "name", "app.kubernetes.io/name"];
        Self {
            mesh_provider: "istio".to_owned(),
            metrics_server: "http://prometheus:9090".to_owned(),
            query_timeout: Duration::from_secs(10),
            selector_labels: labels.map(str::to_owned).to_vec(),
            included: LabelPrefixes::parse(""),
            config_tracking: true,
            cross_namespace: CrossNamespace::Allowed,
            event_webhook: None,
            hook_secret_file: None,
            cluster_name: String::new(),
            ingress_annotations_prefix: "nginx.ingress.kubernetes.io".to_owned(),
            ingress_class: String::new(),
            notifier: None,
            spread: Duration::from_secs(10),
            turns: 16,
            game: true,
        }
    }
}
