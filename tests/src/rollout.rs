//! A cluster with an operator in it, under one virtual clock.
//!
//! The operator is the real one over the sandbox's API: watches, caches, writes. Only the network is
//! scripted ([`Network`]). Tests run on a paused current-thread runtime, where a sleep of tokio's ends only
//! when no task can run: [`World::settle`] builds on that.

#![expect(clippy::panic, reason = "how a rig fails the test that uses it")]

use std::{
    cell::RefCell,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube_sandbox::{
    Sandbox, Settings,
    clock::{between, later},
    cluster::{Cluster, Deletion, EVENTS, Resource},
    faults::Matcher,
    server::{Snapshot, User, local::Local},
};
use serde_json::{Value, json};
use tidegate_operator::{
    Context, Options, Supervisor,
    clock::Clock,
    cluster::Cluster as Seat,
    install::{Install, Scope},
    telemetry::Telemetry,
};
use tokio::task::JoinHandle;

use crate::{
    network::{Metric, Network, Reach},
    tape::Tape,
    trace::{Habits, Observer},
};

pub const CANARIES: Resource = Resource { group: "flagger.app", plural: "canaries" };
pub const DEPLOYMENTS: Resource = Resource { group: "apps", plural: "deployments" };
pub const DAEMON_SETS: Resource = Resource { group: "apps", plural: "daemonsets" };
pub const SERVICES: Resource = Resource { group: "", plural: "services" };
pub const HTTP_ROUTES: Resource =
    Resource { group: "gateway.networking.k8s.io", plural: "httproutes" };
pub const GRPC_ROUTES: Resource =
    Resource { group: "gateway.networking.k8s.io", plural: "grpcroutes" };
pub const VIRTUAL_SERVICES: Resource =
    Resource { group: "networking.istio.io", plural: "virtualservices" };
pub const AUTOSCALERS: Resource =
    Resource { group: "autoscaling", plural: "horizontalpodautoscalers" };
pub const SCALED_OBJECTS: Resource = Resource { group: "keda.sh", plural: "scaledobjects" };
pub const CONFIG_MAPS: Resource = Resource { group: "", plural: "configmaps" };
pub const SECRETS: Resource = Resource { group: "", plural: "secrets" };

/// The start of every world, made once: making it takes longer than many a test.
static MODEL: LazyLock<Sandbox> = LazyLock::new(|| {
    let sandbox = Sandbox::new(Settings::for_tests().routing().rbac());
    let loaded = sandbox.load(definitions());
    loaded.unwrap_or_else(|error| panic!("definitions are refused: {error:?}"));
    sandbox.settle();
    sandbox
});

/// The kinds of a canary's objects, and the operator's permissions.
fn definitions() -> Vec<Value> {
    let mut objects = tidegate_api::crds();
    objects.retain(|crd| crd["spec"]["group"] == "flagger.app");
    let install = Install {
        namespace: "tidegate".to_owned(),
        create_namespace: true,
        image: "tidegate".to_owned(),
        arguments: Vec::new(),
        scope: Scope::default(),
    };
    let is_permission = |it: &Value| {
        matches!(it["kind"].as_str(), Some("Namespace" | "ClusterRole" | "ClusterRoleBinding"))
    };
    objects.extend(install.manifests().into_iter().filter(is_permission));
    objects
}

/// The user the operator writes as; tests tell its requests from their own by it.
pub const OPERATOR: &str = "system:serviceaccount:tidegate:tidegate";

/// A cluster, an operator, a network.
pub struct World {
    pub sandbox: Sandbox,
    pub admin: Local,
    pub network: Network,
    pub options: Options,
    /// The one namespace that the operator watches, or all.
    pub namespace: Option<String>,
    /// A second cluster, which has the routing objects. Its clock stands still.
    pub mesh: Option<Sandbox>,
    /// The unauthenticated client of the operator, if it has one.
    pub anonymous: Option<kube::Client>,
    /// Records the operator's requests.
    pub tape: Option<Tape>,
    /// The metrics of the operator that was started last.
    pub telemetry: RefCell<Option<Arc<Telemetry>>>,
    /// Whether that operator believes that it leads.
    pub leads: Arc<AtomicBool>,
    /// An operator that a crash point killed is started again on the spot.
    pub restarts: bool,
    /// Writes of the operator take time, so it may be in the middle of a decision when all is quiet.
    pub has_slow_writes: bool,
    /// Violations are kept for [`World::take_violations`]; without this they end the test.
    pub collects_violations: bool,
    operator: RefCell<Option<JoinHandle<()>>>,
    observer: RefCell<Observer>,
}

/// A cluster at one moment, with what the observer knows of it.
pub struct Moment {
    cluster: Snapshot,
    observer: Observer,
}

/// The sandbox's clock as the operator's.
struct Time(kube_sandbox::clock::Clock);

impl Clock for Time {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.passed().unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.0.sleep(duration))
    }
}

// === impl World ===

impl World {
    /// A cluster with our definitions, good metrics, and hooks that pass.
    pub fn new() -> Self {
        Self::with(Settings::for_tests())
    }

    pub fn with(settings: Settings) -> Self {
        Self::over(MODEL.fork(settings.routing().rbac()))
    }

    /// A cluster with the definitions and the operator's half for game workloads.
    pub fn of_games() -> Self {
        Self::of_games_with(Settings::for_tests())
    }

    pub fn of_games_with(settings: Settings) -> Self {
        let mut world = Self::with(settings);
        let mut kinds = tidegate_api::crds();
        kinds.retain(|crd| crd["spec"]["group"] == "tkex.tencent.com");
        let loaded = world.sandbox.load(kinds);
        loaded.unwrap_or_else(|error| panic!("definitions are refused: {error:?}"));
        world.sandbox.settle();
        world.options.game = true;
        world
    }

    /// A world that begins as a copy of `sandbox`.
    pub fn over(sandbox: Sandbox) -> Self {
        let admin = sandbox.local(User::admin());
        let network = Network::new();
        let server = Arc::clone(sandbox.server());
        let clock = server.clock.clone();
        let gauge = move || Reach {
            revision: server.store.revision(),
            is_dead: server.faults.crashed().is_some_and(|crash| crash.cut.kills()),
        };
        network.place(Box::new(gauge), clock);
        network.metric("histogram_quantile", Metric::Value(0.05));
        network.metric("response_code!~", Metric::Value(100.0));
        network.metric("status!~", Metric::Value(100.0));
        let options = Options {
            metrics_server: "http://prometheus:9090".to_owned(),
            mesh_provider: "kubernetes".to_owned(),
            spread: Duration::ZERO,
            game: false,
            ..Options::default()
        };
        Self {
            sandbox,
            admin,
            network,
            options,
            namespace: None,
            mesh: None,
            anonymous: None,
            tape: None,
            telemetry: RefCell::default(),
            leads: Arc::new(AtomicBool::new(true)),
            restarts: false,
            has_slow_writes: false,
            collects_violations: false,
            operator: RefCell::default(),
            observer: RefCell::default(),
        }
    }

    /// Only the operator's requests.
    pub fn operators() -> Matcher {
        Matcher::writes().user(OPERATOR)
    }

    /// Starts the operator, or starts it again.
    pub async fn start(&mut self) {
        self.restart();
        self.settle().await;
    }

    fn restart(&self) {
        self.end();
        self.observe();
        self.observer.borrow_mut().restarted(self.sandbox.server().clock.now());
        let (operator, telemetry) = self.run_one(Arc::clone(&self.leads));
        *self.operator.borrow_mut() = Some(operator);
        *self.telemetry.borrow_mut() = Some(telemetry);
    }

    /// A second operator beside the one of this world. It ends when its task is aborted.
    pub fn spawn(&self, leads: Arc<AtomicBool>) -> (JoinHandle<()>, Arc<Telemetry>) {
        self.observer.borrow_mut().another_operator();
        self.run_one(leads)
    }

    fn run_one(&self, leads: Arc<AtomicBool>) -> (JoinHandle<()>, Arc<Telemetry>) {
        let (cx, telemetry) = self.context(leads);
        let mut supervisor = Supervisor::start(cx);
        let operator = tokio::spawn(async move { supervisor.run().await });
        (operator, telemetry)
    }

    /// An operator that does not run yet.
    pub fn supervisor(&self, leads: Arc<AtomicBool>) -> (Supervisor, Arc<Telemetry>) {
        let (cx, telemetry) = self.context(leads);
        (Supervisor::start(cx), telemetry)
    }

    fn context(&self, leads: Arc<AtomicBool>) -> (Arc<Context>, Arc<Telemetry>) {
        let user = User::new(OPERATOR, &["system:serviceaccounts", "system:authenticated"]);
        let service = self.sandbox.service_as(user.clone());
        let client = match &self.tape {
            Some(tape) => kube::Client::new(tape.over(service), "default"),
            None => kube::Client::new(service, "default"),
        };
        let clock: Arc<dyn Clock> = Arc::new(Time(self.sandbox.server().clock.clone()));
        let leads = Arc::new(move || leads.load(Ordering::Relaxed));
        let seat = Seat::new(client, self.namespace.clone(), leads);
        let seat = match &self.mesh {
            Some(mesh) => {
                seat.with_mesh(kube::Client::new(mesh.service_as(user), "default"), false)
            }
            None => seat,
        };
        let seat = match &self.anonymous {
            Some(client) => seat.with_anonymous(client.clone()),
            None => seat,
        };
        let telemetry = Telemetry::new("test", &self.options.mesh_provider, clock.now());
        let telemetry = Arc::new(telemetry);
        let network = Arc::new(self.network.clone());
        let cx = Context::new(seat, self.options.clone(), clock, network, Arc::clone(&telemetry));
        (cx, telemetry)
    }

    /// Ends the operator where it stands, as SIGKILL would.
    pub fn kill(&mut self) {
        self.end();
    }

    fn end(&self) {
        if let Some(operator) = self.operator.borrow_mut().take() {
            operator.abort();
        }
    }

    /// The cluster at this moment, for [`World::restore`].
    pub fn snapshot(&self) -> Moment {
        self.observe();
        Moment { cluster: self.sandbox.snapshot(), observer: self.observer.borrow().clone() }
    }

    /// Puts the cluster back to an earlier moment, or to that of another world. The operator runs on: it is
    /// not told.
    pub fn restore(&self, moment: &Moment) {
        self.observe();
        self.sandbox.restore(&moment.cluster);
        let now = self.sandbox.server().clock.now();
        self.observer.borrow_mut().go_back_to(&moment.observer, now);
    }

    pub fn is_running(&self) -> bool {
        self.operator.borrow().is_some()
    }

    /// Violations since the last call.
    pub fn take_violations(&self) -> Vec<String> {
        self.observer.borrow_mut().take_violations()
    }

    /// Checks the invariants on all changes since the last call.
    fn observe(&self) {
        let habits = Habits {
            mesh_provider: self.options.mesh_provider.clone(),
            config_tracking: self.options.config_tracking,
        };
        let mut observer = self.observer.borrow_mut();
        let leads = self.is_running() && self.leads.load(Ordering::Relaxed);
        let is_at_work = leads && !self.network.is_busy() && !self.has_slow_writes;
        observer.look(&self.sandbox, &self.network, &habits, is_at_work);
        if self.collects_violations {
            return;
        }
        if let Some(violation) = observer.take_violations().into_iter().next() {
            panic!("{violation}");
        }
    }

    /// Runs all tasks until none can run at this moment.
    pub async fn settle(&self) {
        let mut before = None;
        loop {
            self.sandbox.settle();
            self.mesh.iter().for_each(Sandbox::settle);
            // The sleep ends only when no task can run.
            tokio::time::sleep(Duration::from_millis(1)).await;
            if self.restarts && self.is_killed() {
                self.sandbox.server().faults.revive();
                self.restart();
                before = None;
                continue;
            }
            let elsewhere = self.mesh.as_ref().map(|mesh| mesh.server().store.revision());
            let now = (self.sandbox.server().store.revision(), elsewhere);
            if before == Some(now) {
                return self.observe();
            }
            before = Some(now);
        }
    }

    /// Whether a crash point cut the operator off for good.
    fn is_killed(&self) -> bool {
        self.sandbox.server().faults.crashed().is_some_and(|crash| crash.cut.kills())
    }

    /// Advances the clock, stopping at every moment something is due.
    pub async fn advance(&self, by: Duration) {
        let clock = &self.sandbox.server().clock;
        let end = later(clock.now(), by);
        loop {
            self.settle().await;
            let now = clock.now();
            if now >= end {
                return;
            }
            let due = [self.sandbox.runtime().next_due(), clock.next_deadline()];
            let next = due.into_iter().flatten().filter(|at| *at > now).min();
            let to = next.filter(|at| *at < end).unwrap_or(end);
            clock.advance(between(now, to));
        }
    }

    pub async fn advance_s(&self, seconds: u64) {
        self.advance(Duration::from_secs(seconds)).await;
    }

    /// Advances the clock until `is_so`, at most so many seconds. False if it never was.
    pub async fn until(&self, seconds: u64, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        for _ in 0..=seconds {
            self.settle().await;
            if is_so(self) {
                return true;
            }
            self.advance_s(1).await;
        }
        false
    }

    /// As [`World::until`], but checks at every moment something happens: no state is too short to be seen.
    pub async fn until_seen(&self, seconds: u64, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        let clock = &self.sandbox.server().clock;
        let end = later(clock.now(), Duration::from_secs(seconds));
        loop {
            self.settle().await;
            if is_so(self) {
                return true;
            }
            let now = clock.now();
            if now >= end {
                return false;
            }
            let due = [self.sandbox.runtime().next_due(), clock.next_deadline()];
            let next = due.into_iter().flatten().filter(|at| *at > now).min();
            clock.advance(between(now, next.filter(|at| *at < end).unwrap_or(end)));
        }
    }

    pub fn create(&self, resource: Resource, object: Value) -> Value {
        let created = self.admin.create(resource, "default", object);
        created.unwrap_or_else(|error| panic!("not created: {error:?}"))
    }

    pub fn get(&self, resource: Resource, name: &str) -> Option<Value> {
        self.admin.get(resource, "default", name)
    }

    pub fn patch(&self, resource: Resource, name: &str, patch: &Value) -> Value {
        let patched = self.admin.patch(resource, "default", name, "", patch);
        patched.unwrap_or_else(|error| panic!("`{name}` not patched: {error:?}"))
    }

    pub fn delete(&self, resource: Resource, name: &str) {
        let deleted = self.admin.delete(resource, "default", name, &Deletion::default());
        deleted.unwrap_or_else(|error| panic!("`{name}` not deleted: {error:?}"));
    }

    pub fn status(&self, canary: &str) -> Value {
        self.get(CANARIES, canary).unwrap_or_default()["status"].clone()
    }

    pub fn phase(&self, canary: &str) -> String {
        self.status(canary)["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// Reasons and messages of all events of the operator, in the order they were written.
    pub fn events(&self) -> Vec<(String, String)> {
        let mut events = self.admin.list(EVENTS, Some("default"));
        events.retain(|event| event["source"]["component"] == "tidegate");
        events.sort_by_key(|event| {
            let version = event["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            version.parse::<u64>().unwrap_or_default()
        });
        let text =
            |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end();
    }
}

/// A Deployment of `replicas` pods of an image.
pub fn deployment(name: &str, image: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [
                    { "name": "app", "image": image, "ports": [{ "containerPort": 8080 }] }
                ] },
            },
        },
    })
}

/// A `DaemonSet` of an image.
pub fn daemon_set(name: &str, image: &str) -> Value {
    let mut set = deployment(name, image, 1);
    set["kind"] = json!("DaemonSet");
    if let Some(spec) = set["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    set
}

/// A `ScaledObject` of that Deployment.
pub fn scaled_object(name: &str, min: i64, max: i64) -> Value {
    json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": { "name": name },
            "minReplicaCount": min, "maxReplicaCount": max,
            "triggers": [{ "type": "prometheus", "name": "load", "metadata": {
                "serverAddress": "http://prometheus:9090", "threshold": "5",
                "query": format!("sum(rate(http_requests_total{{app=\"{name}\"}}[1m]))"),
            } }],
        },
    })
}

/// A canary of that Deployment.
#[expect(clippy::needless_pass_by_value, reason = "always made on the spot")]
pub fn canary(name: &str, provider: &str, analysis: Value) -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "metadata": { "name": name },
        "spec": {
            "provider": provider,
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "service": { "port": 80, "targetPort": 8080 },
            "analysis": analysis,
        },
    })
}
