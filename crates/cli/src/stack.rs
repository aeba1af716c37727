//! A sandbox with operator, traffic and metrics.
//!
//! All of it lives in this process and on loopback. Hooks and metrics may therefore be reached on loopback,
//! which the operator on a real cluster refuses by default. Its nodes are not real: their addresses may be
//! those of containers on this machine, and are open.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube_sandbox::{
    Sandbox,
    dataplane::{DataPlane, Resolver},
    http::{listen::Listener, prometheus},
    server::User,
};
use promql::Database;
use tidegate_operator::{
    Context, Options, Supervisor,
    clock::{Clock, FastClock},
    cluster::Cluster,
    http::{Client, Policy, Resolve, SystemResolver},
    telemetry::Telemetry,
};
use tokio::task::JoinHandle;

/// The operator's user in the cluster.
const OPERATOR: &str = "system:serviceaccount:tidegate:tidegate";
const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// The tasks beside the cluster. They end when it is dropped.
pub(crate) struct Stack {
    pub(crate) plane: DataPlane,
    pub(crate) prometheus: SocketAddr,
    operator: Option<JoinHandle<()>>,
    clock: Arc<dyn Clock>,
    metrics: Listener,
}

/// Names of the cluster first, then the machine's.
struct ClusterNames(Resolver);

// === impl Stack ===

impl Stack {
    /// Starts traffic and metrics, and an operator unless there should be none.
    pub(crate) async fn start(
        sandbox: &Sandbox,
        gateway: SocketAddr,
        speed: Option<f64>,
    ) -> anyhow::Result<Self> {
        let server = sandbox.server();
        let database = Database::new();
        let sink = Arc::new(database.clone());
        let plane = DataPlane::start(Arc::clone(server), gateway, sink)
            .await
            .context("failed to start the gateway")?;
        let metrics = prometheus::start(LOOPBACK, database, server.clock.clone())
            .await
            .context("failed to start the metrics server")?;
        let address = metrics.address;
        plane.attach("default", "prometheus", address);
        let speed_or_one = speed.unwrap_or(1.0);
        let clock: Arc<dyn Clock> = Arc::new(FastClock::new(speed_or_one));
        let operator = speed.map(|_| spawn_operator(sandbox, &plane, address, Arc::clone(&clock)));
        Ok(Self { plane, prometheus: address, operator, clock, metrics })
    }

    /// The time, as the operator has it.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn stop(self) {
        if let Some(operator) = &self.operator {
            operator.abort();
        }
        drop(self.plane);
        self.metrics.stop().await;
    }
}

fn spawn_operator(
    sandbox: &Sandbox,
    plane: &DataPlane,
    prometheus: SocketAddr,
    clock: Arc<dyn Clock>,
) -> JoinHandle<()> {
    let user = User::new(OPERATOR, &["system:masters"]);
    let client = kube::Client::new(sandbox.service_as(user), "default");
    let policy = Policy { allow_loopback: true, ..Policy::default() };
    let http = Client::with_resolver(policy, Arc::new(ClusterNames(plane.resolver())));
    let options = Options {
        mesh_provider: "gatewayapi:v1".to_owned(),
        metrics_server: format!("http://{prometheus}"),
        spread: Duration::ZERO,
        ..Options::default()
    };
    let telemetry = Telemetry::new(tidegate_operator::VERSION, &options.mesh_provider, clock.now());
    let cluster = Cluster::new(client, None, Arc::new(|| true));
    let cx = Context::new(cluster, options, clock, Arc::new(http), Arc::new(telemetry));
    tokio::spawn(async move {
        Supervisor::start(cx).run().await;
    })
}

// === impl ClusterNames ===

impl Resolve for ClusterNames {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        match self.0.resolve(host, port) {
            Some(address) => Box::pin(async move { Ok(vec![address]) }),
            None => SystemResolver.resolve(host, port),
        }
    }
}
