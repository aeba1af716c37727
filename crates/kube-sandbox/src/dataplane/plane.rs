//! The data plane in real time: one gateway, and one server per ready pod.
//!
//! A task follows the store and publishes a snapshot for the gateway. A server is stopped only
//! after no new request can reach it, and completes the requests in progress within a limit.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle, time::MissedTickBehavior};

use super::{
    BackendCounts, Meter, PodName, Resolver, Sink, Snapshot, View, gateway::GatewayHandler,
    pod_server::PodServer, route::Endpoint, serve::HttpServer,
};
use crate::{random::Random, server::Server};

#[cfg(test)]
mod tests;

/// With a real clock samples are cheap, and a viewer should not wait long for two of them.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after each read of the store, because writes come in bursts.
const PAUSE: Duration = Duration::from_millis(10);

/// The running data plane of a cluster. Dropping it stops gateway and applications.
pub struct DataPlane {
    gateway: HttpServer,
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
    reporter: JoinHandle<()>,
}

/// State shared by the gateway, the task that follows the store, and the resolver.
pub(super) struct Shared {
    pub(super) server: Arc<Server>,
    pub(super) meter: Arc<Meter>,
    pub(super) random: Random,
    published: watch::Sender<Arc<Published>>,
    /// Addresses attached in place of Services; the channel signals additions.
    attached: Mutex<BTreeMap<(String, String), SocketAddr>>,
    attachments: watch::Sender<usize>,
}

/// The gateway's current state: a snapshot, and the socket addresses of its ready pods.
#[derive(Default)]
pub(super) struct Published {
    pub(super) snapshot: Arc<Snapshot>,
    addresses: BTreeMap<PodName, SocketAddr>,
    /// The store revision that this state is at least as new as, and the number of attachments in
    /// it.
    revision: u64,
    attachments: usize,
}

// === impl DataPlane ===

impl DataPlane {
    /// Starts a gateway on `address` (port 0 for any) and an application for every ready pod of the
    /// cluster, now and later.
    pub async fn start(
        server: Arc<Server>,
        address: SocketAddr,
        sink: Arc<dyn Sink>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            random: server.random.fork(),
            server,
            meter: Arc::default(),
            published: watch::Sender::default(),
            attached: Mutex::default(),
            attachments: watch::Sender::default(),
        });
        let gateway = HttpServer::start(address, GatewayHandler::new(Arc::clone(&shared))).await?;
        let keeper = tokio::spawn(keep(Arc::clone(&shared)));
        let reporter = tokio::spawn(report(Arc::clone(&shared), sink));
        Ok(Self { gateway, shared, keeper, reporter })
    }

    /// The gateway's address. It routes by the host of a request.
    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// Sends requests for a Service to `address`, an endpoint in this process such as a load
    /// tester. The Service need not exist.
    pub fn attach(&self, namespace: &str, service: &str, address: SocketAddr) {
        let mut attached = self.shared.attached.lock();
        attached.insert((namespace.to_owned(), service.to_owned()), address);
        drop(attached);
        self.shared.attachments.send_modify(|count| *count += 1);
    }

    /// Resolves names of the cluster to addresses.
    pub fn resolver(&self) -> Resolver {
        Resolver::new(Arc::clone(&self.shared), self.gateway.address)
    }

    /// The gateway's answers so far, by Service.
    pub fn backends(&self) -> BackendCounts {
        self.shared.meter.backends()
    }

    /// The routes and pods that the gateway uses now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.published().snapshot)
    }

    /// Waits until the gateway uses everything that is in the store now.
    pub async fn caught_up(&self) {
        let revision = self.shared.server.store.revision();
        let attachments = *self.shared.attachments.borrow();
        let mut published = self.shared.published.subscribe();
        let caught_up = |published: &Arc<Published>| {
            published.revision >= revision && published.attachments >= attachments
        };
        // This object owns the sender, so it cannot be closed.
        let _ = published.wait_for(caught_up).await;
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.keeper.abort();
        self.reporter.abort();
    }
}

// === impl Shared ===

impl Shared {
    pub(super) fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published.borrow())
    }
}

// === impl Published ===

impl Published {
    pub(super) fn address(&self, endpoint: &Endpoint) -> Option<SocketAddr> {
        match endpoint {
            Endpoint::Pod(name) => self.addresses.get(name).copied(),
            Endpoint::Address(address) => Some(*address),
        }
    }
}

/// Follows the store: starts servers for pods that became ready, publishes the new table once they
/// run, and then stops the servers of other pods.
async fn keep(shared: Arc<Shared>) {
    let mut activity = shared.server.store.activity();
    let mut attachments = shared.attachments.subscribe();
    let mut view = View::new(Arc::clone(&shared.server));
    let mut running: BTreeMap<PodName, PodServer> = BTreeMap::new();
    loop {
        activity.borrow_and_update();
        let attached = *attachments.borrow_and_update();
        let revision = shared.server.store.revision();
        for ((namespace, service), address) in attached_now(&shared) {
            view.attach(&namespace, &service, address);
        }
        let is_changed = view.refresh();
        let snapshot = Arc::clone(view.snapshot());
        let mut stopped = Vec::new();
        if is_changed {
            stopped = update(&mut running, &snapshot, &shared).await;
        }
        let addresses = running.iter().map(|(name, server)| (name.clone(), server.address()));
        let addresses = addresses.collect();
        let published = Published { snapshot, addresses, revision, attachments: attached };
        shared.published.send_replace(Arc::new(published));
        // Stopped only now, when no new request can reach them.
        drop(stopped);
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            biased;
            changed = activity.changed() => if changed.is_err() { return },
            changed = attachments.changed() => if changed.is_err() { return },
        }
    }
}

fn attached_now(shared: &Shared) -> BTreeMap<(String, String), SocketAddr> {
    shared.attached.lock().clone()
}

/// Starts missing servers. Returns those no longer needed, still running.
async fn update(
    running: &mut BTreeMap<PodName, PodServer>,
    snapshot: &Snapshot,
    shared: &Shared,
) -> Vec<PodServer> {
    let is_same = |server: &PodServer| {
        let pod = snapshot.pods.get(&server.pod.name);
        pod.is_some_and(|pod| pod.is_ready && *pod == *server.pod)
    };
    let over: Vec<_> = running
        .iter()
        .filter(|(_, server)| !is_same(server))
        .map(|(name, _)| name.clone())
        .collect();
    let stopped = over.iter().filter_map(|name| running.remove(name)).collect();
    for (name, pod) in &snapshot.pods {
        if !pod.is_ready || running.contains_key(name) {
            continue;
        }
        // Pod addresses exist in the API only; the socket is real.
        let started = PodServer::start(
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            Arc::new(pod.clone()),
            Arc::clone(&shared.meter),
            shared.random.fork(),
        );
        // Without a socket the pod does not answer, as after a crash of its application: 502.
        if let Ok(server) = started.await {
            running.insert(name.clone(), server);
        }
    }
    stopped
}

/// Reports the counters at the interval of a metrics server.
async fn report(shared: Arc<Shared>, sink: Arc<dyn Sink>) {
    let mut pace = tokio::time::interval(REPORT_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        let pods = &shared.published().snapshot.pods;
        let at_ms = shared.server.clock.now().as_millisecond();
        shared.meter.scrape(pods, at_ms, &*sink);
    }
}
