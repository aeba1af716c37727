//! The server as a process: from flags to a graceful stop.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tidegate_runtime::{
    log::{self, LogSettings},
    signals::Signals,
};
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::{
    args::{Encoding, Serve},
    auth::{self, Auth},
    concord,
    gates::{Gates, ReadError, config_map::ConfigMapStore},
    load::{BodyFiles, Bounds},
    metrics::Metrics,
    ngrinder,
    runner::{Limits, Runner},
    server::{self, App},
    task::Policy,
};

/// The values of the flags, parsed and validated.
pub struct Settings {
    pub port: u16,
    pub log: LogSettings,
    pub gate_file: Option<PathBuf>,
    /// Instead of a file.
    pub gate_configmap: Option<String>,
    pub auth: Auth,
    pub policy: Policy,
    pub limits: Limits,
}

/// Why the load tester does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("-namespace-regexp is no regular expression")]
    Namespaces(#[source] regex::Error),
    #[error("failed to read secrets from `{}`", .path.display())]
    Secret { path: PathBuf, source: io::Error },
    #[error("`{0}` holds no secret")]
    NoSecret(PathBuf),
    #[error(transparent)]
    Gates(#[from] ReadError),
    #[error("failed to find the API server that keeps gates")]
    Cluster(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("failed to listen on port {port}")]
    Listen { port: u16, source: io::Error },
    #[error("failed to wait for signals")]
    Signals(#[source] io::Error),
}

/// For requests in progress on stop. As Flagger.
const GRACE: Duration = Duration::from_mins(1);

/// Serves until a signal stops it.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let Settings { port, gate_file, gate_configmap, auth, policy, limits, .. } = settings;
    let now = Timestamp::now().as_second();
    let gates = match (gate_configmap, gate_file) {
        (Some(place), _) => Gates::in_config_map(store(&place).await?),
        (None, Some(file)) => Gates::in_file(file, now)?,
        (None, None) => Gates::in_memory(now),
    };
    // Before the port is open: from then on a supervisor may send a signal.
    let mut signals = Signals::listen().map_err(RunError::Signals)?;
    let listener = listen(port).await.map_err(|source| RunError::Listen { port, source })?;
    // The actual port, where any was requested.
    let port = listener.local_addr().map_or(port, |address| address.port());
    warn_about_open_access(&auth, &policy);
    let metrics = Arc::new(Metrics::default());
    let runner = Runner::new(limits, Arc::clone(&metrics));
    let app = App { auth, policy, gates, runner: runner.clone(), metrics };
    let routes = server::routes(Arc::new(app));
    info!(port, version = env!("CARGO_PKG_VERSION"), "Starting load tester");
    let stopping = runner.clone();
    let stop = async move {
        signals.next().await;
        info!("Shutting down");
        stopping.stop_background();
        // As Flagger: a second signal ends the process at once.
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(1);
        });
    };
    server::serve(listener, routes, stop, GRACE).await;
    runner.stop().await;
    Ok(())
}

/// Gates in a `ConfigMap`, as the account of the pod or of the kubeconfig.
async fn store(place: &str) -> Result<ConfigMapStore, RunError> {
    let client = kube::Client::try_default().await;
    let client = client.map_err(|error| RunError::Cluster(Box::new(error)))?;
    Ok(ConfigMapStore::new(client, place))
}

/// On all addresses; on those of IPv4 where the machine has no others.
async fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
        }
        bound => bound,
    }
}

fn warn_about_open_access(auth: &Auth, policy: &Policy) {
    if !auth.needs_signature() {
        warn!("Requests are not signed: anyone who reaches the port can open gates and start load");
        if auth.namespaces.is_some() {
            warn!("Namespaces in requests are not verified; see -secret-dir");
        }
    }
    if policy.shell {
        warn!("Shells are enabled: anyone who can send a request can run any command here");
    }
}

/// A file without a secret refuses every caller: an error at the start.
fn check_secrets(path: &Path) -> Result<(), RunError> {
    let secrets = auth::read_secrets(path);
    let secrets = secrets.map_err(|source| RunError::Secret { path: path.to_owned(), source })?;
    if secrets.is_empty() { Err(RunError::NoSecret(path.to_owned())) } else { Ok(()) }
}

fn log_settings(level: &str, encoding: Encoding) -> LogSettings {
    LogSettings {
        level: log::level(level),
        format: encoding.into(),
        obeys_rust_log: false,
        is_sampled: true,
    }
}

// === impl Settings ===

impl Settings {
    pub fn of(args: Serve) -> Result<Self, RunError> {
        let Serve {
            port,
            log_level,
            zap_encoding,
            zap_replace_globals: _,
            gate_file,
            gate_configmap,
            namespace_regexp,
            secret_file,
            secret_dir,
            enable_tasks,
            allow_tools,
            allow_shell,
            timeout,
            patience,
            max_tasks,
            max_tasks_per_namespace,
            max_connections,
            max_total_connections,
            body_dir,
            concord_key_dir,
            concord_servers,
            ngrinder_password_dir,
            ngrinder_servers,
        } = args;
        let namespaces = match namespace_regexp.as_str() {
            "" => None,
            pattern => Some(auth::whole(pattern).map_err(RunError::Namespaces)?),
        };
        if let Some(path) = &secret_file {
            check_secrets(path)?;
        }
        let concord = concord::Allowed {
            key_dir: concord_key_dir,
            servers: concord_servers.iter().map(crate::client::Server::origin).collect(),
        };
        let ngrinder = ngrinder::Allowed {
            password_dir: ngrinder_password_dir,
            servers: ngrinder_servers.iter().map(crate::client::Server::origin).collect(),
        };
        let body_files = body_dir.map_or(BodyFiles::Refused, BodyFiles::Under);
        Ok(Self {
            port,
            log: log_settings(&log_level, zap_encoding),
            gate_file,
            gate_configmap,
            auth: Auth { secret_file, secret_dir, namespaces },
            policy: Policy {
                kinds: enable_tasks.into_iter().collect(),
                tools: allow_tools.into_iter().filter(|tool| !tool.is_empty()).collect(),
                shell: allow_shell,
                load: Bounds {
                    // More than all may have, no load ever gets.
                    connections_max: max_connections.min(max_total_connections),
                    body_files,
                },
                concord,
                ngrinder,
            },
            limits: Limits {
                tasks: max_tasks,
                tasks_per_namespace: max_tasks_per_namespace,
                connections: max_total_connections,
                timeout,
                patience,
            },
        })
    }
}
