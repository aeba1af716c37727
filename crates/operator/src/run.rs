//! The operator as a process: from flags to a clean end.
//!
//! Pages are served from the start, on followers too. Canaries are reconciled only while we lead; when
//! leadership is lost the process exits, since its memory cannot be trusted. On a stop, effects in progress
//! are finished before the lease is released.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use tidegate_api::canary::CrossNamespace;
use tidegate_providers::{notify::Destination, workload::LabelPrefixes};
use tidegate_runtime::log;
use tokio::{net::TcpListener, sync::watch};
use tracing::{info, warn};

use crate::{
    args::{Args, ClusterAccess, Notifier, Settings, SettingsError},
    canary::probe_server,
    clock::{Clock, SystemClock},
    cluster::{
        Cluster,
        nodes::NodeAddresses,
        throttle::{Rate, Throttle},
    },
    context::{Context, Options},
    http,
    lease::{Election, Ended, LeaseSettings, identity},
    serve::{self, Health},
    supervisor::Supervisor,
    telemetry::Telemetry,
};

/// Why the operator could not run, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("failed to read the kubeconfig")]
    Kubeconfig(#[source] kube::config::KubeconfigError),
    #[error("no kubeconfig was given and this is not a pod of a cluster")]
    NotInCluster(#[source] kube::config::InferConfigError),
    #[error("--master: not a valid URL")]
    Master,
    #[error("failed to make a client for the API server")]
    Client(#[source] kube::Error),
    #[error("the API server does not answer")]
    Unreachable(#[source] kube::Error),
    #[error("failed to listen on port {port}")]
    Listen { port: u16, source: std::io::Error },
    #[error("leadership was lost")]
    LeadershipLost,
}

/// Settings of the machine's resolver.
const RESOLVER: &str = "/etc/resolv.conf";
/// Effects in progress get this long to finish; less than the 30 s a pod has to end.
const DRAIN_MAX: Duration = Duration::from_secs(20);
/// Between two heartbeats of the main loop.
const BEAT: Duration = Duration::from_secs(5);
/// A main loop that is silent for this long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Runs until `stop` resolves.
pub async fn run(args: Args, stop: impl Future<Output = ()>) -> Result<(), RunError> {
    let metrics_server = args.metrics_server.expose().to_owned();
    let settings = Settings::try_from(args)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    // A second start in one process keeps the log of the first.
    let _ = log::init(settings.log);
    for warning in &settings.warnings {
        warn!("{warning}");
    }
    let access = &settings.cluster;
    let config = config(access).await?;
    let client = limited(config.clone(), access, &clock)?;
    let mesh = mesh(access, &config, &clock).await?;
    let version = client.apiserver_version().await.map_err(RunError::Unreachable)?;
    info!(kubernetes = version.git_version, version = VERSION, "Connected");

    let telemetry = Arc::new(Telemetry::new(VERSION, &settings.mesh_provider, clock.now()));
    let health = Health::new(Arc::clone(&clock));
    let address = SocketAddr::from(([0, 0, 0, 0], settings.port));
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| RunError::Listen { port: settings.port, source })?;
    let (ending, ended) = watch::channel(false);
    let pages = serve::routes(Arc::clone(&telemetry), Arc::clone(&health));
    let pages = tokio::spawn(serve::serve(listener, pages, until_set(ended.clone())));

    let mut nobody = config.clone();
    nobody.auth_info = AuthInfo::default();
    let anonymous = limited(nobody, &settings.cluster, &clock)?;
    let reach = Reach { client, anonymous, config, mesh, nodes: NodeAddresses::default() };
    let outcome = lead(&settings, metrics_server, reach, clock, telemetry, health, stop).await;
    let _ = ending.send(true);
    let _ = pages.await;
    outcome
}

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The API servers.
struct Reach {
    /// Of the canaries and their workloads, within the limit on requests.
    client: Client,
    /// The same server, without credentials.
    anonymous: Client,
    /// The configuration, for clients without the limit.
    config: Config,
    /// Of the routing objects, if it is configured, and whether it is the same cluster.
    mesh: Option<(Client, bool)>,
    /// Set by the watch of nodes, closed to the HTTP client.
    nodes: NodeAddresses,
}

// === impl Reach ===

impl Reach {
    fn cluster(&self, settings: &Settings, leads: Arc<dyn Fn() -> bool + Send + Sync>) -> Cluster {
        let cluster = Cluster::new(self.client.clone(), settings.namespace.clone(), leads);
        let cluster = cluster.with_anonymous(self.anonymous.clone()).with_nodes(self.nodes.clone());
        match &self.mesh {
            Some((client, is_same)) => cluster.with_mesh(client.clone(), *is_same),
            None => cluster,
        }
    }
}

async fn lead(
    settings: &Settings,
    metrics_server: String,
    reach: Reach,
    clock: Arc<dyn Clock>,
    telemetry: Arc<Telemetry>,
    health: Arc<Health>,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let ready = health.expect_ready("the cache of the cluster");
    let options = options(settings, metrics_server);
    let transport = http::Client::new(settings.http.clone()).with_nodes(reach.nodes.clone());
    let transport = Arc::new(transport);
    // As Flagger: logged once, and nothing waits for it.
    let (asking, address) = (Arc::clone(&transport), options.metrics_server.clone());
    let timeout = options.query_timeout;
    tokio::spawn(async move {
        match probe_server(&*asking, &address, timeout).await {
            Ok(()) => info!("The metrics server answers"),
            Err(error) => warn!(error, "The metrics server does not answer"),
        }
    });
    let Some(namespace) = &settings.election_namespace else {
        telemetry.set_leader(true);
        let cluster = reach.cluster(settings, Arc::new(|| true));
        let cx = Context::new(cluster, options, clock, transport, telemetry);
        work(cx, health, ready, stop).await;
        return Ok(());
    };
    // The lease has its own client: canaries must not be able to starve it.
    let own = Client::try_from(reach.config.clone()).map_err(RunError::Client)?;
    let lease = LeaseSettings::new(namespace.clone(), identity());
    let election = Election::new(own, lease, Arc::clone(&clock));
    let leadership = election.leadership();
    let asked = leadership.clone();
    let leads = Arc::new(move || asked.is_leader_now());
    let cluster = reach.cluster(settings, leads);
    let cx = Context::new(cluster, options, clock, transport, Arc::clone(&telemetry));
    let (done, drained) = watch::channel(false);
    let mut election = tokio::spawn(election.run(until_set(drained)));
    let mut changes = leadership.changes();
    let mut stop = std::pin::pin!(stop);
    let led = tokio::select! {
        biased;
        () = &mut stop => false,
        _ = &mut election => return Err(RunError::LeadershipLost),
        led = changes.wait_for(|leads| *leads) => led.is_ok(),
    };
    if led {
        telemetry.set_leader(true);
        tokio::select! {
            biased;
            ended = &mut election => {
                telemetry.set_leader(false);
                return match ended {
                    Ok(Ended::Released) => Ok(()),
                    Ok(Ended::Lost) | Err(_) => Err(RunError::LeadershipLost),
                };
            }
            () = work(cx, health, ready, &mut stop) => {}
        }
    }
    let _ = done.send(true);
    let _ = election.await;
    Ok(())
}

/// Reconciles canaries until `stop`, then lets effects in progress finish.
async fn work(
    cx: Arc<Context>,
    health: Arc<Health>,
    ready: serve::Readiness,
    stop: impl Future<Output = ()>,
) {
    let watches = health.expect_ready("the watches");
    let heartbeat = health.expect_beats("the main loop", SILENCE_MAX);
    let clock = Arc::clone(&cx.clock);
    let mut supervisor = Supervisor::start(Arc::clone(&cx));
    let mut stop = std::pin::pin!(stop);
    {
        let mut running = std::pin::pin!(supervisor.run());
        loop {
            ready.set(cx.cluster.is_synced());
            let silent = cx.cluster.silent_watches();
            watches.tell(
                silent.map(|kinds| format!("no news of {kinds} although the API server answers")),
            );
            heartbeat.beat();
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = &mut running => {
                    warn!("A watch ended");
                    break;
                }
                () = clock.sleep(BEAT) => {}
            }
        }
    }
    info!("Stopping");
    supervisor.drain(DRAIN_MAX).await;
}

fn options(settings: &Settings, metrics_server: String) -> Options {
    let notifier = settings.notifier.as_ref().map(|notifier| match notifier {
        Notifier::Slack { url, token, proxy, user, channel } => {
            let token = token.as_ref().map(|token| token.expose().to_owned());
            let url = url.uri().to_string();
            (Destination::slack(&url, channel, user, token.as_deref()), proxy.clone())
        }
        Notifier::Teams { url, proxy } => {
            (Destination::teams(&url.uri().to_string()), proxy.clone())
        }
    });
    Options {
        mesh_provider: settings.mesh_provider.clone(),
        metrics_server,
        query_timeout: settings.query_timeout,
        selector_labels: settings.selector_labels.clone(),
        included: LabelPrefixes::parse(&settings.include_label_prefix.join(",")),
        config_tracking: settings.config_tracking,
        cross_namespace: if settings.no_cross_namespace_refs {
            CrossNamespace::Forbidden
        } else {
            CrossNamespace::Allowed
        },
        require_metric_secret_label: settings.require_metric_secret_label,
        shared_gateways: settings.shared_gateways.clone(),
        cluster_domain: cluster_domain(&std::fs::read_to_string(RESOLVER).unwrap_or_default()),
        hook_secret_file: settings.hook_secret_file.clone(),
        event_webhook: settings.event_webhook.as_ref().map(|url| url.uri().to_string()),
        cluster_name: settings.cluster_name.clone(),
        ingress_annotations_prefix: settings.ingress_annotations_prefix.clone(),
        ingress_class: settings.ingress_class.clone(),
        notifier,
        spread: settings.startup_spread,
        // Flagger's workers only fill a queue; ours write, so there are more of them.
        permits: usize::from(settings.workers.get()).saturating_mul(8),
        game: settings.game_workloads,
    }
}

/// The domain of the cluster, by the settings that a pod's resolver gets; elsewhere the usual one.
fn cluster_domain(resolver: &str) -> String {
    let searched = resolver.lines().filter_map(|line| line.trim().strip_prefix("search"));
    let mut domains = searched.flat_map(str::split_whitespace);
    let found = domains.find_map(|domain| domain.strip_prefix("svc."));
    found.unwrap_or("cluster.local").trim_end_matches('.').to_owned()
}

/// A client that keeps to the limit on requests.
fn limited(
    config: Config,
    access: &ClusterAccess,
    clock: &Arc<dyn Clock>,
) -> Result<Client, RunError> {
    let rate = Rate { per_second: access.requests_per_second, burst: access.requests_burst };
    let Some(throttle) = Throttle::new(rate, Arc::clone(clock)) else {
        return Client::try_from(config).map_err(RunError::Client);
    };
    let builder = ClientBuilder::try_from(config).map_err(RunError::Client)?;
    Ok(builder.with_layer(&throttle).build())
}

/// The cluster of the mesh, and whether it is that of the canaries: as Flagger, by the API server's
/// address.
async fn mesh(
    access: &ClusterAccess,
    own: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<Option<(Client, bool)>, RunError> {
    let Some(path) = &access.mesh_kubeconfig else { return Ok(None) };
    let config = from_file(path).await?;
    let is_same = config.cluster_url.authority() == own.cluster_url.authority();
    Ok(Some((limited(config, access, clock)?, is_same)))
}

async fn from_file(path: &Path) -> Result<Config, RunError> {
    let file = Kubeconfig::read_from(path).map_err(RunError::Kubeconfig)?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(file, &options).await.map_err(RunError::Kubeconfig)
}

async fn config(access: &ClusterAccess) -> Result<Config, RunError> {
    let mut config = match &access.kubeconfig {
        Some(path) => from_file(path).await?,
        None => Config::infer().await.map_err(RunError::NotInCluster)?,
    };
    if let Some(master) = &access.master {
        config.cluster_url = master.parse().map_err(|_| RunError::Master)?;
    }
    Ok(config)
}

async fn until_set(mut channel: watch::Receiver<bool>) {
    // A sender that is dropped means the same.
    let _ = channel.wait_for(|is_set| *is_set).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_of_the_cluster_is_that_of_the_resolver_of_the_pod() {
        let pod = "nameserver 10.96.0.10\nsearch ops.svc.corp.internal svc.corp.internal corp.internal\noptions ndots:5\n";
        assert_eq!(cluster_domain(pod), "corp.internal");
        for elsewhere in ["", "nameserver 192.168.1.1\nsearch lan\n", "search\n"] {
            assert_eq!(cluster_domain(elsewhere), "cluster.local", "{elsewhere:?}");
        }
    }
}
