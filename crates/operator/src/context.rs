//! The context that all reconcilers share, and the administrator's settings.

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tidegate_api::canary::CrossNamespace;
use tidegate_providers::{notify::Destination, object::Kind, workload::LabelPrefixes};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    canary::CloudTokens,
    clock::Clock,
    cluster::{
        Cluster,
        watch::{Listener, Silent, Watch},
    },
    http::{Proxy, Transport},
    telemetry::Telemetry,
};

/// The part that all reconcilers share.
pub struct Context {
    pub cluster: Cluster,
    pub options: Arc<Options>,
    pub clock: Arc<dyn Clock>,
    pub http: Arc<dyn Transport>,
    pub telemetry: Arc<Telemetry>,
    /// Permits for looks and writes, given in the order of requests.
    pub(crate) reconcile_permits: Semaphore,
    /// Watches on demand and queues. They end with the supervisor.
    background: Mutex<JoinSet<()>>,
    /// Deletions of objects that a check made. The supervisor waits for them.
    cleanup_tasks: Mutex<JoinSet<()>>,
    pub(crate) cloud_tokens: CloudTokens,
}

/// The administrator's settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Provider of canaries that name none.
    pub mesh_provider: String,
    /// Prometheus of canaries that name none.
    pub metrics_server: String,
    /// Deadline of a query with all its requests.
    pub query_timeout: Duration,
    pub selector_labels: Vec<String>,
    pub included: LabelPrefixes,
    pub config_tracking: bool,
    pub cross_namespace: CrossNamespace,
    /// Secrets are sent to metric servers only with the label of consent.
    pub require_metric_secret_label: bool,
    /// Istio gateways of other namespaces that canaries may use, as `namespace/name`; if empty, any.
    pub shared_gateways: Vec<String>,
    /// The domain that names of Services end in.
    pub cluster_domain: String,
    /// Receives all events of canaries that have no event hook of their own.
    pub event_webhook: Option<String>,
    /// A file with the secret that calls of hooks are signed with.
    pub hook_secret_file: Option<PathBuf>,
    pub cluster_name: String,
    /// Prefix of the annotations of the NGINX ingress controller.
    pub ingress_annotations_prefix: String,
    /// Class of Contour's proxies; empty for none.
    pub ingress_class: String,
    /// Receiver of alerts of canaries that have none of their own.
    pub notifier: Option<(Destination, Option<Proxy>)>,
    /// Canaries found at start are reconciled spread over this time, not all at once.
    pub spread: Duration,
    /// Objects that are observed or written at the same time.
    pub permits: usize,
    /// Game workloads are reconciled too, where the cluster serves their kinds.
    pub game: bool,
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
        let reconcile_permits = Semaphore::new(options.permits.max(1));
        Arc::new(Self {
            cluster: cluster.with_config_tracking(options.config_tracking),
            options: Arc::new(options),
            clock,
            http,
            telemetry,
            reconcile_permits,
            background: Mutex::default(),
            cleanup_tasks: Mutex::default(),
            cloud_tokens: CloudTokens::default(),
        })
    }

    /// Runs a task that ends with the operator.
    pub(crate) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut background = self.background.lock();
        while background.try_join_next().is_some() {}
        background.spawn(task);
    }

    /// Runs a short task that the operator waits for when it ends.
    pub(crate) fn spawn_cleanup(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut cleanup_tasks = self.cleanup_tasks.lock();
        while cleanup_tasks.try_join_next().is_some() {}
        cleanup_tasks.spawn(task);
    }

    /// Watches a kind from now on, if it is not watched already.
    pub(crate) fn watch(self: &Arc<Self>, kind: Kind) {
        if self.cluster.claim(kind) {
            self.spawn_background(self.cluster.clone().load_schema(kind));
            self.spawn_background(self.watch_of(kind, Silent).feed());
        }
    }

    /// A watch of a kind, which is not fed yet.
    pub(crate) fn watch_of<L: Listener>(&self, kind: Kind, listener: L) -> Watch<L> {
        let (clock, telemetry) = (Arc::clone(&self.clock), Arc::clone(&self.telemetry));
        Watch::new(self.cluster.clone(), clock, telemetry, kind, listener)
    }

    /// Ends all background tasks, and waits until none runs.
    pub(crate) async fn end_background(&self) {
        let mut background = std::mem::take(&mut *self.background.lock());
        background.shutdown().await;
    }

    /// Waits for all cleanup.
    pub(crate) async fn cleaned_up(&self) {
        let mut cleanup_tasks = std::mem::take(&mut *self.cleanup_tasks.lock());
        while cleanup_tasks.join_next().await.is_some() {}
    }

    pub(crate) fn abort_background(&self) {
        self.background.lock().abort_all();
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
            require_metric_secret_label: false,
            shared_gateways: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            event_webhook: None,
            hook_secret_file: None,
            cluster_name: String::new(),
            ingress_annotations_prefix: "nginx.ingress.kubernetes.io".to_owned(),
            ingress_class: String::new(),
            notifier: None,
            spread: Duration::from_secs(10),
            permits: 16,
            game: true,
        }
    }
}
