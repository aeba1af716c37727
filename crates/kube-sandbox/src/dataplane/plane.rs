//! The data plane in real time: one gateway, one server per ready pod, and whoever keeps them so.

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

/// Under a real clock samples cost little, and whoever watches does not want to wait for two of them.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Writes come in bursts: after a look at the store the next waits this long.
const PAUSE: Duration = Duration::from_millis(10);

/// A cluster whose traffic flows. Dropping it stops gateway and applications.
pub struct DataPlane {
    gateway: HttpServer,
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
    reporter: JoinHandle<()>,
}

/// What the gateway, the keeper and the resolver have in common.
pub(super) struct Shared {
    pub(super) server: Arc<Server>,
    pub(super) meter: Arc<Meter>,
    pub(super) random: Random,
    published: watch::Sender<Arc<Published>>,
    /// Addresses that stand in for Services, and a signal that there are more.
    attached: Mutex<BTreeMap<(String, String), SocketAddr>>,
    attachments: watch::Sender<usize>,
}

/// What the gateway goes by: a snapshot, and where its ready pods really are.
#[derive(Default)]
pub(super) struct Published {
    pub(super) snapshot: Arc<Snapshot>,
    addresses: BTreeMap<PodName, SocketAddr>,
    /// The store's revision that this is at least as new as, and how many attachments it knows.
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

    /// Where the gateway listens. The host of a request decides where it goes.
    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// Sends what is meant for a Service to `address`: something of this process that stands in for
    /// it, such as a load tester. The Service need not exist.
    pub fn attach(&self, namespace: &str, service: &str, address: SocketAddr) {
        let mut attached = self.shared.attached.lock();
        attached.insert((namespace.to_owned(), service.to_owned()), address);
        drop(attached);
        self.shared.attachments.send_modify(|count| *count += 1);
    }

    /// Finds the addresses behind names in the cluster.
    pub fn resolver(&self) -> Resolver {
        Resolver::new(Arc::clone(&self.shared), self.gateway.address)
    }

    /// What the gateway answered so far, by Service.
    pub fn backends(&self) -> BackendCounts {
        self.shared.meter.backends()
    }

    /// The routes and pods that the gateway goes by.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.published().snapshot)
    }

    /// Waits until the gateway goes by all that is in the store now.
    pub async fn caught_up(&self) {
        let revision = self.shared.server.store.revision();
        let attachments = *self.shared.attachments.borrow();
        let mut published = self.shared.published.subscribe();
        let caught_up = |published: &Arc<Published>| {
            published.revision >= revision && published.attachments >= attachments
        };
        // The sender is ours: it cannot be gone.
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

/// Follows the store: servers for pods that became ready, none for those that are not, and a new
/// table once the servers it leads to are there.
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
        // Only now that no new request finds them.
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

/// Starts the servers that are missing. Returns those no longer needed, still running.
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
        // Pod addresses are pretended; the socket is not.
        let started = PodServer::start(
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            Arc::new(pod.clone()),
            Arc::clone(&shared.meter),
            shared.random.fork(),
        );
        // Without a socket the pod does not answer, as if its application had crashed: 502.
        if let Ok(server) = started.await {
            running.insert(name.clone(), server);
        }
    }
    stopped
}

/// Reports what was counted, at the pace of a metrics server.
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
