//! A kit for tables of effects: a canary's context over an API server, receivers and clocks that a table scripts.
//!
//! ```text
//! Bench ─► cache ─► Kit::observe ─► code under test ─┬─► Api: keeps objects, records requests
//!                                                    └─► Net: records calls, answers from a table
//! ```
//!
//! Tests run on a paused runtime: the clock is that of tokio.

mod api;
mod net;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidegate_engine::{Action, Again, Answers, Decision, Fact, Memory};
use tidegate_providers::{
    object::Kind,
    traffic::{KNATIVE_SERVICE, Mesh, VIRTUAL_SERVICE},
};
use tokio::{sync::watch, time::Instant};
use tracing::Span;

pub(in crate::canary) use self::{
    api::{Api, Request},
    net::{Called, Net, Reply},
};
use super::{
    act::Actor,
    canary_ref::CanaryRef,
    env::{Env, NotYet},
    memo::Memo,
    observation::Observation,
    observe::{
        observe,
        testing::{Bench, SHOP, clocks},
    },
    unready_since::{Clocks, UnreadySince},
};
use crate::{
    clock::Clock,
    cluster::{CANARY, Cluster, cache::Key, write::WriteError},
    context::Context,
    reconcile::{self, Next, Pass, Reconciler},
    telemetry::{Format, Telemetry},
};

/// One canary, `shop/web`, and everything that its effects reach.
pub(in crate::canary) struct Kit {
    pub(in crate::canary) bench: Bench,
    pub(in crate::canary) cx: Arc<Context>,
    pub(in crate::canary) api: Arc<Api>,
    pub(in crate::canary) net: Arc<Net>,
    pub(in crate::canary) leads: Arc<AtomicBool>,
    /// The loop is to stop.
    pub(in crate::canary) stop: watch::Sender<bool>,
}

/// The outcome of actions.
#[derive(Debug)]
pub(in crate::canary) struct Acted {
    /// What is remembered after them, if all succeeded.
    pub(in crate::canary) memory: Option<Memory>,
    /// Why one failed; empty if none did.
    pub(in crate::canary) error: String,
    pub(in crate::canary) is_rejection: bool,
}

/// The paused clock of tokio; it begins at the time of every look of a [`Bench`].
struct PausedClock(Instant);

// === impl PausedClock ===

impl PausedClock {
    fn passed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        clocks().wall + SignedDuration::try_from(self.passed()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        clocks().steady + self.passed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

// === impl Kit ===

impl Kit {
    /// The objects of a bench, in the cache and on the API server.
    pub(in crate::canary) fn of(mut bench: Bench) -> Self {
        let api = Arc::new(Api::default());
        let net = Arc::new(Net::default());
        let leads = Arc::new(AtomicBool::new(true));
        let is_leading = Arc::clone(&leads);
        let client = api.client();
        let mut cluster =
            Cluster::new(client, None, Arc::new(move || is_leading.load(Ordering::SeqCst)));
        cluster.cache = Arc::clone(&bench.cluster.cache);
        bench.cluster = cluster.with_anonymous(api.client());
        let mut canary = bench.canary.clone();
        canary["metadata"]["resourceVersion"] = json!("10");
        bench.cluster.cache.cache_insert(CANARY, canary);
        for kind in api::kinds() {
            // Everything was listed: no watch is to be started.
            bench.cluster.claim(kind);
            for object in bench.cluster.cache.list(kind) {
                api.seed(kind, Value::clone(&object));
            }
        }
        let telemetry = Arc::new(Telemetry::new("test", "istio", clocks().wall));
        let cx = Context::new(
            bench.cluster.clone(),
            bench.options.clone(),
            Arc::new(PausedClock(Instant::now())),
            Arc::clone(&net) as Arc<dyn crate::http::Transport>,
            telemetry,
        );
        api.watch_permits(&cx);
        net.watch_permits(&cx);
        let (stop, _) = watch::channel(false);
        Self { bench, cx, api, net, leads, stop }
    }

    /// An idle canary of Istio that is set up, with these fields in its spec and status.
    pub(in crate::canary) fn at_rest(spec: &Value, status: &Value) -> Self {
        Self::of(Bench::new("istio").set_up().spec(spec).remembering(status))
    }

    /// The same in the middle of an analysis of a new image.
    pub(in crate::canary) fn in_analysis(spec: &Value, status: &Value) -> Self {
        Self::of(in_analysis("istio").spec(spec).remembering(status))
    }

    pub(in crate::canary) fn key() -> Key {
        Key::new(SHOP, "web")
    }

    pub(in crate::canary) fn canary(&self) -> CanaryRef {
        let cx = Arc::clone(&self.cx);
        CanaryRef { cx, key: Self::key(), uid: "canary-web".to_owned() }
    }

    /// Puts an object into the cache and on the API server.
    pub(in crate::canary) fn put(&self, kind: Kind, mut object: Value) {
        object["metadata"]["namespace"] = json!(SHOP);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("{}-{name}", kind.plural));
        }
        let object = self.api.put(kind, object);
        self.cx.cluster.cache.cache_insert(kind, object);
    }

    /// Changes an object in the cache and on the API server.
    pub(in crate::canary) fn edit(&self, kind: Kind, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut object = self.api.get(kind, name).expect("it is there");
        edit(&mut object);
        self.put(kind, object);
    }

    /// Removes an object from both.
    pub(in crate::canary) fn remove(&self, kind: Kind, name: &str) {
        self.bench.remove(kind, name);
        self.api.remove(kind, name);
    }

    /// The canary as the API server has it.
    pub(in crate::canary) fn live(&self) -> Value {
        self.api.get(CANARY, "web").expect("the canary")
    }

    /// Changes the canary on the API server, but not in the cache.
    pub(in crate::canary) fn edit_live(&self, change: impl FnOnce(&mut Value)) {
        let mut live = self.live();
        change(&mut live);
        self.api.put(CANARY, live);
    }

    /// Updates the cache from the API server.
    pub(in crate::canary) fn catch_up(&self) {
        self.cx.cluster.cache.insert_watched(CANARY, self.live());
    }

    pub(in crate::canary) fn look(&self) -> Result<Observation, NotYet> {
        let raw = self.cx.cluster.cache.get(CANARY, &Self::key()).expect("the canary");
        let actor_has = &self.bench.rejected;
        let env = Env {
            raw: &raw,
            key: &Self::key(),
            uid: "canary-web",
            cluster: &self.cx.cluster,
            options: &self.cx.options,
            clocks: Clocks::now(&*self.cx.clock),
            rejected: actor_has,
            unpruned_status: self.bench.unpruned_status.as_ref(),
            watch: &|_| {},
        };
        observe(&env, &mut Memo::default(), &Answers::default())
    }

    pub(in crate::canary) fn observe(&self) -> Observation {
        self.look().unwrap_or_else(|not_yet| panic!("no observation: {not_yet:?}"))
    }

    pub(in crate::canary) fn actor(&self) -> Actor {
        Actor::new(&self.cx, &Self::key())
    }

    /// Carries out actions upon the present observation, by an actor of their own.
    pub(in crate::canary) async fn act(&self, actions: Vec<Action>) -> Acted {
        self.act_by(&mut self.actor(), &self.observe(), actions).await
    }

    pub(in crate::canary) async fn act_by(
        &self,
        actor: &mut Actor,
        observation: &Observation,
        actions: Vec<Action>,
    ) -> Acted {
        let decision =
            Decision { why: Fact::Idle, actions, again: Again::OnChange, starts_interval: false };
        let canary = self.canary();
        let mut outcome = None;
        let errand = Errand {
            actor,
            canary: &canary,
            observation,
            decision: &decision,
            outcome: &mut outcome,
        };
        let follower = Key::new(SHOP, "errand");
        let stop = self.stop.subscribe();
        reconcile::run(Arc::clone(&self.cx), follower, errand, Duration::ZERO, stop).await;
        outcome.expect("no panic, and no stop before")
    }

    /// One pass over the canary; `None` if it panicked or the loop was stopped before.
    pub(in crate::canary) async fn pass(
        &self,
        reconciler: &mut super::reconcile::CanaryReconciler,
    ) -> Option<Result<Next, String>> {
        let mut outcome = None;
        let once = OnePass { reconciler, outcome: &mut outcome };
        let stop = self.stop.subscribe();
        reconcile::run(Arc::clone(&self.cx), Self::key(), once, Duration::ZERO, stop).await;
        outcome
    }

    pub(in crate::canary) fn reconciler(&self) -> super::reconcile::CanaryReconciler {
        let uid = "canary-web".to_owned();
        super::reconcile::CanaryReconciler::new(Arc::clone(&self.cx), Self::key(), uid)
    }

    /// Whether the metrics page has a line that begins so.
    pub(in crate::canary) fn has_metric(&self, line: &str) -> bool {
        let page = self.cx.telemetry.render(Format::Prometheus);
        page.lines().any(|it| it.starts_with(line))
    }

    /// Lets background tasks run until all of them wait.
    pub(in crate::canary) async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Messages of recorded Events, with their reasons.
    pub(in crate::canary) fn events(&self) -> Vec<(String, String)> {
        let is_event = |it: &Request| it.line() == "POST events";
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let requests = self.api.requests().into_iter().filter(is_event);
        requests.map(|it| (text(&it.body["reason"]), text(&it.body["message"]))).collect()
    }

    pub(in crate::canary) fn event_reasons(&self) -> Vec<String> {
        self.events().into_iter().map(|(reason, _)| reason).collect()
    }
}

/// A canary whose target has another image than its primary, with a share of 20 %.
pub(in crate::canary) fn in_analysis(provider: &str) -> Bench {
    let bench = Bench::new(provider).set_up();
    bench.edit(tidegate_providers::workload::DEPLOYMENT, "web", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2.0");
        web["metadata"]["generation"] = json!(2);
        web["status"]["observedGeneration"] = json!(2);
    });
    divide(&bench, 20);
    let revision = bench.observe().observed.target.expect("a target").revision;
    bench.metadata(&json!({ "finalizers": ["finalizer.flagger.app"] })).remembering(&json!({
        "phase": "Progressing", "canaryWeight": 20, "lastAppliedSpec": revision.as_str(),
    }))
}

/// A canary of a Service of Knative whose newest revision is `web-00002`, with these traffic entries. The
/// primary is the revision `primary`, if one was chosen.
pub(in crate::canary) fn knative(primary: Option<&str>, traffic: &Value) -> Bench {
    let bench = Bench::new("knative").spec(&json!({
        "targetRef": { "apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "web" },
    }));
    bench.put(
        KNATIVE_SERVICE,
        json!({
            "apiVersion": "serving.knative.dev/v1", "kind": "Service",
            "metadata": {
                "name": "web", "generation": 1,
                "annotations": { "flagger.app/primary-revision": primary },
            },
            "spec": { "template": { "spec": {} }, "traffic": traffic },
            "status": {
                "observedGeneration": 1,
                "latestCreatedRevisionName": "web-00002", "latestReadyRevisionName": "web-00002",
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        }),
    );
    bench
}

/// Gives the canary this share in the route of Istio.
fn divide(bench: &Bench, canary: i64) {
    if bench.get(VIRTUAL_SERVICE, "web").is_none() {
        return;
    }
    bench.edit(VIRTUAL_SERVICE, "web", |route| {
        for destination in route["spec"]["http"][0]["route"].as_array_mut().unwrap() {
            let is_canary = destination["destination"]["host"] == "web-canary";
            destination["weight"] = json!(if is_canary { canary } else { 100 - canary });
        }
    });
}

/// Carries out one decision in a pass.
struct Errand<'a> {
    actor: &'a mut Actor,
    canary: &'a CanaryRef,
    observation: &'a Observation,
    decision: &'a Decision,
    outcome: &'a mut Option<Acted>,
}

impl Reconciler for Errand<'_> {
    async fn reconcile(&mut self, pass: &mut Pass<'_>) -> Result<Next, WriteError> {
        let Self { canary, observation, decision, .. } = *self;
        let unready_since = UnreadySince::default();
        let acted = self.actor.act(canary, observation, decision, &unready_since, pass).await;
        *self.outcome = Some(match acted {
            Ok(memory) => Acted { memory: Some(memory), error: String::new(), is_rejection: false },
            Err(failure) => Acted {
                memory: None,
                error: failure.error.to_string(),
                is_rejection: failure.is_rejection,
            },
        });
        Ok(Next::Gone)
    }

    fn span(&self) -> Span {
        Span::none()
    }

    fn observe_pass(&mut self, _: bool, _: Duration) {}
}

/// One pass of a reconciler.
struct OnePass<'a> {
    reconciler: &'a mut super::reconcile::CanaryReconciler,
    outcome: &'a mut Option<Result<Next, String>>,
}

impl Reconciler for OnePass<'_> {
    async fn reconcile(&mut self, pass: &mut Pass<'_>) -> Result<Next, WriteError> {
        let outcome = self.reconciler.reconcile(pass).await;
        *self.outcome = Some(outcome.map_err(|error| error.to_string()));
        Ok(Next::Gone)
    }

    fn span(&self) -> Span {
        self.reconciler.span()
    }

    fn observe_pass(&mut self, is_ok: bool, took: Duration) {
        self.reconciler.observe_pass(is_ok, took);
    }
}

/// Every routing provider's kinds, for tables over all of them.
pub(in crate::canary) fn routing_kinds() -> Vec<Kind> {
    Mesh::ALL.iter().flat_map(|mesh| mesh.kinds().iter().copied()).collect()
}
