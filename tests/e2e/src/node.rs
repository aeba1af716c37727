//! Replaces scheduler and kubelets: binds pods, reports on them, and runs an application in them.
//!
//! The behaviour of pods is that of the sandbox's own [`Scheduler`] and [`Kubelet`], so the words in image
//! tags mean the same on both clusters (`never-ready`, `slow-start-15s`, ...). They get the same inputs as
//! in the sandbox: changes from a watch, a queue, and a [`Cluster`](kube_sandbox::cluster::Cluster) whose
//! reads and writes are requests to the API server.
//!
//! ```text
//! watch pods, nodes ──► keys ──► Queue ──► Scheduler, Kubelet ──► Remote ──► API server
//!                                                                   └──► Applications on pod addresses
//! ```

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use kube_sandbox::{
    cluster::{Cluster as _, NODES, PODS},
    controllers::{Change, Controller},
    dataplane::Meter,
    kubelet::{Kubelet, KubeletSettings, Scheduler, node_object},
};
use serde_json::json;
use tokio::sync::{mpsc::UnboundedReceiver, watch};

pub use self::logs::Logs;
use self::{applications::Applications, news::News, queue::Queue, remote::Remote};
use crate::ControlPlane;

mod applications;
mod logs;
mod news;
mod queue;
mod remote;

/// The number of nodes, and the behaviour of their pods.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// They are called `node-0`, `node-1` and so on.
    pub count: u8,
    /// Delays, and behaviours by image; pods are ready after a third of a second or so by default.
    pub kubelet: KubeletSettings,
    /// Whether pods answer: the sample application listens on their addresses and ports. Needs a network in
    /// which those addresses exist ([`crate::inside`]).
    pub applications: bool,
}

/// Running nodes. Dropping them is like a power loss of their machines: pods stay as they are.
#[derive(Debug)]
pub struct Node {
    meter: Arc<Meter>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The node's thread.
struct Worker {
    controllers: Vec<Box<dyn Controller>>,
    queue: Queue,
    remote: Remote,
    news: UnboundedReceiver<News>,
    stop: watch::Receiver<bool>,
}

// === impl NodeSettings ===

impl Default for NodeSettings {
    fn default() -> Self {
        Self { count: 1, kubelet: KubeletSettings::default(), applications: true }
    }
}

// === impl Node ===

impl Node {
    /// Registers the nodes and runs their pods from now on.
    pub async fn start(plane: &ControlPlane, settings: NodeSettings) -> Result<Self> {
        let kubeconfig = plane.kubeconfig("admin")?;
        let meter = Arc::<Meter>::default();
        let (stop, stopping) = watch::channel(false);
        let (ready, started) = tokio::sync::oneshot::channel();
        let counted = Arc::clone(&meter);
        // A thread and a runtime of its own: the controllers are plain synchronous code.
        let thread = thread::Builder::new().name("node".to_owned()).spawn(move || {
            let worker = Worker::new(&kubeconfig, settings, counted, stopping);
            let (worker, told) = match worker {
                Ok(worker) => (Some(worker), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let is_wanted = ready.send(told).is_ok();
            if let Some(worker) = worker.filter(|_| is_wanted) {
                worker.run();
            }
        })?;
        let node = Self { meter, stop, thread: Some(thread) };
        started.await.context("the node's thread ended")??;
        Ok(node)
    }

    /// The requests that the applications in all pods have answered.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// === impl Worker ===

impl Worker {
    fn new(
        kubeconfig: &std::path::Path,
        settings: NodeSettings,
        meter: Arc<Meter>,
        stop: watch::Receiver<bool>,
    ) -> Result<Self> {
        let NodeSettings { count, kubelet, applications } = settings;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("node-worker")
            .enable_all()
            .build()?;
        let client = runtime.block_on(crate::control_plane::client_of(kubeconfig))?;
        let applications = applications.then(|| Applications::new(meter));
        let news = runtime.block_on(async { news::listen(&client) });
        let remote = Remote::new(runtime, client, applications);
        for index in 0..count {
            register(&remote, index)?;
        }
        let controllers: Vec<Box<dyn Controller>> =
            vec![Box::new(Scheduler::default()), Box::new(Kubelet::new(kubelet))];
        Ok(Self { controllers, queue: Queue::default(), remote, news, stop })
    }

    fn run(mut self) {
        while self.wait() {
            while let Some((index, key)) = self.queue.take_due(Timestamp::now()) {
                let Some(controller) = self.controllers.get_mut(index) else { continue };
                let next = controller.reconcile(&self.remote, &key);
                self.queue.put_back(index, key, next, Timestamp::now());
                // A change that arrived meanwhile may matter to the next key.
                while let Ok(news) = self.news.try_recv() {
                    self.note(&news);
                }
            }
        }
    }

    /// Waits until a key is due or changed. False when it is time to stop.
    fn wait(&mut self) -> bool {
        let Self { news, stop, queue, remote, .. } = self;
        let pause = queue.pause(Timestamp::now());
        let heard = remote.runtime().block_on(async {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => Err(()),
                heard = news.recv() => heard.map(Some).ok_or(()),
                () = tokio::time::sleep(pause) => Ok(None),
            }
        });
        match heard {
            Err(()) => return false,
            Ok(Some(news)) => self.note(&news),
            Ok(None) => {}
        }
        true
    }

    fn note(&mut self, news: &News) {
        if news.is_gone && news.resource == PODS {
            self.remote.forget(&news.object);
        }
        let object = Some(&news.object);
        let change = Change {
            group: news.resource.group,
            plural: news.resource.plural,
            namespace: &news.key.namespace,
            name: &news.key.name,
            old: object.filter(|_| news.is_gone),
            new: object.filter(|_| !news.is_gone),
        };
        for (index, controller) in self.controllers.iter().enumerate() {
            for key in controller.keys(&self.remote, &change) {
                self.queue.push(index, key, Timestamp::now());
            }
        }
    }
}

/// Registers a node, ready for pods.
fn register(remote: &Remote, index: u8) -> Result<()> {
    let name = format!("node-{index}");
    let node = node_object(&name, index, Timestamp::now());
    match remote.create(NODES, "", node) {
        Err(failure) if !failure.is_already_exists() => return Err(failure.into()),
        _ => {}
    }
    // Every new node is tainted until a controller, which does not run here, finds it ready.
    remote.patch(NODES, "", &name, "", &json!({ "spec": { "taints": null } }))?;
    Ok(())
}
