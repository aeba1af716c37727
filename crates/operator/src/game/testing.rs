//! A kit for tests: an API server in memory that records requests and fails them on demand, a context over it,
//! and short constructors of objects.
//!
//! Time is tokio's paused time: `#[tokio::test(start_paused = true)]`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidegate_engine::Moment;
use tidegate_providers::{
    game::{
        CONTROLLER_REVISION, GAME_DEPLOYMENT, GAME_STATEFUL_SET, HOOK_RUN, HOOK_TEMPLATE, NODE,
        POD, revision,
    },
    object::Kind,
};
use tokio::sync::watch;
use tracing::Span;

use crate::{
    clock::Clock,
    cluster::{Cluster, cache::Key, write::WriteError},
    context::{Context, Options},
    http::{Answer, HttpError, Outgoing, Transport},
    reconcile::{self, Next, Pass, Reconciler},
    telemetry::{Format, Telemetry},
};

pub(crate) const NAMESPACE: &str = "play";
pub(crate) const NAME: &str = "arena";
pub(crate) const UID: &str = "arena-uid";
/// Kinds that must be listed before a workload is observed.
pub(crate) const LISTED: [Kind; 5] = [POD, NODE, CONTROLLER_REVISION, HOOK_RUN, HOOK_TEMPLATE];
const PLURALS: [&str; 9] = [
    "pods",
    "nodes",
    "controllerrevisions",
    "hookruns",
    "hooktemplates",
    "events",
    "persistentvolumeclaims",
    "gamedeployments",
    "gamestatefulsets",
];

/// Tokio's time as the operator's, from 2026 on.
#[derive(Clone, Copy)]
pub(crate) struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> jiff::Timestamp {
        let passed = jiff::SignedDuration::try_from(self.0.elapsed()).unwrap();
        "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap() + passed
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A request as the API server got it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

/// An API server: objects by path.
#[derive(Clone, Default)]
pub(crate) struct Api(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    calls: Vec<Call>,
    failures: Vec<(String, String, u16)>,
    version: u64,
    /// A field that each write sets, as an admission webhook may.
    admission: Option<(&'static str, Value)>,
}

// === impl Api ===

impl Api {
    /// Requests of this method whose path contains `part` are answered by `code` from now on.
    pub(crate) fn fail(&self, method: &str, part: &str, code: u16) {
        self.0.lock().failures.push((method.to_owned(), part.to_owned(), code));
    }

    /// Each write sets this field.
    pub(crate) fn admit(&self, pointer: &'static str, value: Value) {
        self.0.lock().admission = Some((pointer, value));
    }

    pub(crate) fn repair(&self) {
        self.0.lock().failures.clear();
    }

    /// Answers a `GET` of the path.
    pub(crate) fn serve(&self, path: &str, object: Value) {
        self.0.lock().objects.insert(path.to_owned(), object);
    }

    pub(crate) fn put(&self, kind: Kind, mut object: Value) -> Value {
        let mut state = self.0.lock();
        if object["metadata"]["resourceVersion"].is_null() {
            state.version += 1;
            object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        }
        state.objects.insert(path_of(kind, &object), object.clone());
        object
    }

    pub(crate) fn remove(&self, kind: Kind, name: &str) {
        self.0.lock().objects.remove(&path(kind, name));
    }

    pub(crate) fn get(&self, kind: Kind, name: &str) -> Value {
        self.0.lock().objects.get(&path(kind, name)).cloned().unwrap_or_default()
    }

    pub(crate) fn list(&self, kind: Kind) -> Vec<Value> {
        self.0.lock().list(&path(kind, ""))
    }

    /// Requests so far, without those that write Events.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let calls = self.0.lock().calls.clone();
        calls.into_iter().filter(|call| !call.path.ends_with("/events")).collect()
    }

    /// Method and the end of the path of each request.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |call: &Call| {
            let end = call.path.split_once("/play/").map_or(&*call.path, |(_, end)| end);
            format!("{} {end}", call.method)
        };
        self.calls().iter().map(line).collect()
    }

    /// Reason, type and message of all Events so far.
    pub(crate) fn events(&self) -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let calls = self.0.lock().calls.clone();
        let events = calls.iter().filter(|call| call.path.ends_with("/events"));
        events
            .map(|it| (text(&it.body["reason"]), text(&it.body["type"]), text(&it.body["message"])))
            .collect()
    }

    /// How often an Event of this reason was recorded.
    pub(crate) fn count_events(&self, reason: &str) -> usize {
        self.events().iter().filter(|(it, ..)| it == reason).count()
    }

    pub(crate) fn forget_calls(&self) {
        self.0.lock().calls.clear();
    }

    pub(crate) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await.map_err(|error| error.to_string())?;
                let body = serde_json::from_slice(&bytes).unwrap_or_default();
                let call = Call {
                    method: parts.method.to_string(),
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().unwrap_or_default().to_owned(),
                    body,
                };
                if call.query.contains("watch=true") {
                    // Nothing ever changes but by our own writes.
                    std::future::pending::<()>().await;
                }
                let (code, answer) = api.0.lock().answer(call);
                let answer = kube::client::Body::from(answer.to_string().into_bytes());
                Ok::<_, String>(http::Response::builder().status(code).body(answer).unwrap())
            }
        });
        kube::Client::new(service, NAMESPACE)
    }
}

// === impl State ===

impl State {
    fn answer(&mut self, call: Call) -> (u16, Value) {
        self.calls.push(call.clone());
        let Call { method, path, body, .. } = call;
        let failure = self
            .failures
            .iter()
            .find(|(which, part, _)| *which == method && path.contains(part.as_str()));
        if let Some((.., code)) = failure {
            return status(*code, "as the test wants it");
        }
        let path = path.strip_suffix("/status").unwrap_or(&path);
        match method.as_str() {
            "GET" => match self.objects.get(path) {
                Some(object) => (200, object.clone()),
                None if PLURALS.contains(&path.rsplit('/').next().unwrap()) => {
                    let items = self.list(&format!("{path}/"));
                    let metadata = json!({ "resourceVersion": "1" });
                    (
                        200,
                        json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items }),
                    )
                }
                None => status(404, "not found"),
            },
            "POST" => {
                let mut object = body;
                let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&path) {
                    return status(409, "exists");
                }
                self.version += 1;
                object["metadata"]["uid"] = json!(format!("made-{}", self.version));
                self.store(path, object)
            }
            "PATCH" => {
                let Some(mut object) = self.objects.get(path).cloned() else {
                    return status(404, "not found");
                };
                let same = |field: &str| {
                    let wanted = &body["metadata"][field];
                    wanted.is_null() || *wanted == object["metadata"][field]
                };
                if !same("uid") || !same("resourceVersion") {
                    return status(409, "changed");
                }
                merge(&mut object, &body);
                self.store(path.to_owned(), object)
            }
            "DELETE" => match self.objects.get(path) {
                None => status(404, "not found"),
                Some(object) if object["metadata"]["uid"] != body["preconditions"]["uid"] => {
                    status(409, "another one")
                }
                Some(_) => {
                    self.objects.remove(path);
                    (200, json!({ "kind": "Status", "status": "Success" }))
                }
            },
            _ => status(405, "no such method"),
        }
    }

    fn store(&mut self, path: String, mut object: Value) -> (u16, Value) {
        self.version += 1;
        if let Some((pointer, value)) = &self.admission {
            object = with(object, pointer, value.clone());
        }
        // Tests put objects of their own versions, and versions only rise.
        let known =
            self.objects.get(&path).and_then(|it| it["metadata"]["resourceVersion"].as_str());
        let known = known.and_then(|version| version.parse().ok()).unwrap_or(0);
        let version = (1000 + self.version).max(known + 1);
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        self.objects.insert(path, object.clone());
        (200, object)
    }

    /// Objects of a collection, in one namespace or in all.
    fn list(&self, start: &str) -> Vec<Value> {
        let is_everywhere = !start.contains("/namespaces/");
        let namespace = format!("/namespaces/{NAMESPACE}");
        let is_there = |path: &str| match path.split_once(&namespace) {
            Some((root, end)) if is_everywhere => format!("{root}{end}").starts_with(start),
            _ => path.starts_with(start),
        };
        let found = self.objects.iter().filter(|(path, _)| is_there(path));
        found.map(|(_, object)| object.clone()).collect()
    }
}

fn status(code: u16, message: &str) -> (u16, Value) {
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "metadata": {},
        "message": message, "reason": "Test", "code": code,
    });
    (code, body)
}

fn merge(object: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in members {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut object[name.as_str()], value);
        }
    }
}

fn path_of(kind: Kind, object: &Value) -> String {
    path(kind, object["metadata"]["name"].as_str().unwrap())
}

fn path(kind: Kind, name: &str) -> String {
    let root = if kind.group.is_empty() {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{}", kind.api_version())
    };
    let namespace = if kind == NODE { String::new() } else { format!("/namespaces/{NAMESPACE}") };
    format!("{root}{namespace}/{}/{name}", kind.plural)
}

/// The network: one answer for everything, after a time.
#[derive(Clone)]
pub(crate) struct Web(Arc<Mutex<WebState>>);

struct WebState {
    calls: Vec<Outgoing>,
    status: u16,
    body: String,
    is_truncated: bool,
    takes: Duration,
}

impl Web {
    pub(crate) fn says(&self, status: u16, body: &str) {
        let mut state = self.0.lock();
        (state.status, state.body) = (status, body.to_owned());
    }

    pub(crate) fn truncates(&self) {
        self.0.lock().is_truncated = true;
    }

    pub(crate) fn takes(&self, time: Duration) {
        self.0.lock().takes = time;
    }

    pub(crate) fn calls(&self) -> Vec<Outgoing> {
        self.0.lock().calls.clone()
    }
}

impl Transport for Web {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Answer, HttpError>> {
        Box::pin(async move {
            let takes = {
                let mut state = self.0.lock();
                state.calls.push(request);
                state.takes
            };
            tokio::time::sleep(takes).await;
            let state = self.0.lock();
            Ok(Answer {
                status: StatusCode::from_u16(state.status).unwrap(),
                headers: HeaderMap::new(),
                body: state.body.clone().into_bytes().into(),
                truncated: state.is_truncated,
            })
        })
    }
}

/// An operator without loops.
pub(crate) struct Kit {
    pub(crate) api: Api,
    pub(crate) web: Web,
    pub(crate) cx: Arc<Context>,
    leads: Arc<AtomicBool>,
}

// === impl Kit ===

impl Kit {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let (api, leads) = (Api::default(), Arc::new(AtomicBool::new(true)));
        let asked = Arc::clone(&leads);
        let leads_now = Arc::new(move || asked.load(Ordering::Relaxed));
        let cluster = Cluster::new(api.client(), None, leads_now);
        let clock = TokioClock(tokio::time::Instant::now());
        let web = Web(Arc::new(Mutex::new(WebState {
            calls: Vec::new(),
            status: 200,
            body: r#"{"age": 20}"#.to_owned(),
            is_truncated: false,
            takes: Duration::ZERO,
        })));
        let telemetry = Arc::new(Telemetry::new("test", "kubernetes", clock.now()));
        let http = Arc::new(web.clone());
        let cx = Context::new(cluster, options, Arc::new(clock), http, telemetry);
        Self { api, web, cx, leads }
    }

    /// A kit with everything listed, the workload, and the revision of its template.
    pub(crate) fn of(workload: &Value) -> Self {
        let kit = Self::new();
        kit.has(kind_of(workload), workload.clone());
        kit.has(CONTROLLER_REVISION, revision_of(workload));
        kit.listed(&LISTED);
        kit
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cx.cluster
    }

    pub(crate) fn now(&self) -> Moment {
        Moment(self.cx.clock.now().as_millisecond())
    }

    pub(crate) fn lose_lease(&self) {
        self.leads.store(false, Ordering::Relaxed);
    }

    /// An object that both the API server and the cache have.
    pub(crate) fn has(&self, kind: Kind, object: Value) {
        let object = self.api.put(kind, object);
        self.cluster().cache.cache_insert(kind, object);
    }

    pub(crate) fn cached(&self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        let namespace = if kind == NODE { "" } else { NAMESPACE };
        self.cluster().cache.get(kind, &Key::new(namespace, name))
    }

    /// Lists of these kinds are complete.
    pub(crate) fn listed(&self, kinds: &[Kind]) {
        for kind in kinds {
            self.cluster().cache.list_begins(*kind);
            for object in self.api.list(*kind) {
                self.cluster().cache.list_has(*kind, object);
            }
            self.cluster().cache.list_ends(*kind);
        }
    }

    /// The lines of the metrics page that begin so and are not zero.
    pub(crate) fn metrics(&self, start: &str) -> Vec<String> {
        let page = self.cx.telemetry.render(Format::Prometheus);
        let lines = page.lines().filter(|line| line.starts_with(start) && !line.ends_with(" 0"));
        lines.map(str::to_owned).collect()
    }

    /// One pass of a loop.
    pub(crate) async fn pass<R: Reconciler>(&self, reconciler: &mut R) -> Outcome {
        let (_stop, stopped) = watch::channel(false);
        self.pass_until(reconciler, stopped).await
    }

    /// One pass of a loop that may be stopped.
    pub(crate) async fn pass_until<R: Reconciler>(
        &self,
        reconciler: &mut R,
        stopped: watch::Receiver<bool>,
    ) -> Outcome {
        let follower = Key::new(NAMESPACE, "loop");
        let mut outcome = None;
        let once = OnePass { reconciler, outcome: &mut outcome, cx: &self.cx };
        let cx = Arc::clone(&self.cx);
        reconcile::run(cx, follower, once, Duration::ZERO, stopped).await;
        outcome.expect("a pass was begun")
    }
}

/// The end of a pass.
pub(crate) struct Outcome {
    pub(crate) next: Result<Next, WriteError>,
    /// The objects that the loop depends on after it.
    pub(crate) followed: BTreeSet<(Kind, Key)>,
}

/// A reconciler whose loop ends after one pass.
struct OnePass<'a, R> {
    reconciler: &'a mut R,
    outcome: &'a mut Option<Outcome>,
    cx: &'a Context,
}

impl<R: Reconciler> Reconciler for OnePass<'_, R> {
    async fn reconcile(&mut self, pass: &mut Pass<'_>) -> Result<Next, WriteError> {
        let next = self.reconciler.reconcile(pass).await;
        let of_kind = |kind: Kind| {
            let follower = Key::new(NAMESPACE, &format!("{}/{NAME}", kind.plural));
            self.cx.cluster.cache.followed(&follower)
        };
        let followed = [GAME_DEPLOYMENT, GAME_STATEFUL_SET].into_iter().flat_map(of_kind).collect();
        *self.outcome = Some(Outcome { next, followed });
        Ok(Next::Gone)
    }

    fn span(&self) -> Span {
        self.reconciler.span()
    }

    fn observe_pass(&mut self, is_ok: bool, took: Duration) {
        self.reconciler.observe_pass(is_ok, took);
    }
}

// === Objects ===

pub(crate) fn key() -> Key {
    Key::new(NAMESPACE, NAME)
}

pub(crate) fn kind_of(workload: &Value) -> Kind {
    if workload["kind"] == "GameDeployment" { GAME_DEPLOYMENT } else { GAME_STATEFUL_SET }
}

/// Two pods without numbers.
pub(crate) fn deployment() -> Value {
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "GameDeployment",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE, "uid": UID, "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": NAME } },
            "template": {
                "metadata": { "labels": { "app": NAME } },
                "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
            },
            "updateStrategy": { "type": "RollingUpdate" },
        },
    })
}

/// Two numbered pods.
pub(crate) fn set() -> Value {
    let mut set = deployment();
    set["kind"] = json!("GameStatefulSet");
    set["spec"]["serviceName"] = json!(NAME);
    set
}

/// An object with one field set.
pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let mut place = &mut object;
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/");
        place = &mut place[name.as_str()];
    }
    *place = value;
    object
}

/// The revision of a workload's template, with the lowest number.
pub(crate) fn revision_of(workload: &Value) -> Value {
    let data = revision::data(&workload["spec"]["template"]);
    let name = revision_name(workload);
    let name = tidegate_engine::Revision::new(name);
    let made = revision::new(kind_of(workload), workload, &name, 1, &data);
    with(made, "/metadata/uid", json!(format!("{name}-uid")))
}

pub(crate) fn revision_name(workload: &Value) -> String {
    let data = revision::data(&workload["spec"]["template"]);
    tidegate_engine::game::revision_name(NAME, &data, 0).to_string()
}

/// A ready pod with the labels of the selector and no owner.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("{name}-uid"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "app": NAME },
        },
        "spec": { "containers": [{ "name": "game", "image": "game:1" }] },
        "status": {
            "phase": "Running",
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}

/// The same with an owner.
pub(crate) fn owned(object: Value, kind: Kind, name: &str, uid: &str) -> Value {
    let owner = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    with(object, "/metadata/ownerReferences", json!([owner]))
}

/// A pod of the workload that has the template.
pub(crate) fn own_pod(workload: &Value, name: &str) -> Value {
    let pod = owned(pod(name), kind_of(workload), NAME, UID);
    with(pod, "/metadata/labels/controller-revision-hash", json!(revision_name(workload)))
}

pub(crate) fn hook_template(name: &str) -> Value {
    json!({
        "apiVersion": "tkex.tencent.com/v1alpha1", "kind": "HookTemplate",
        "metadata": { "name": name, "namespace": NAMESPACE, "uid": format!("{name}-uid") },
        "spec": { "metrics": [{
            "name": "age", "count": 1, "successCondition": "asInt(result) < 30",
            "provider": { "web": { "url": "http://hooks.example.com/age", "jsonPath": "{$.age}" } },
        }] },
    })
}

/// A run of a step, without an owner.
pub(crate) fn step_run(name: &str) -> Value {
    let mut run = hook_template(name);
    run["kind"] = json!("HookRun");
    run["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    run["metadata"]["labels"] = json!({
        "hookrun-type": "canary-step", "workload-revision": "arena-1", "canary-step-index": "0",
    });
    run
}

pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("{name}-uid"),
            "annotations": { "io.tencent.bcs.dev/node-deletion-cost": "7" },
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}
