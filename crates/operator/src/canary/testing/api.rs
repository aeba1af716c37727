//! An API server that keeps objects, records requests, and fails where a table says so.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak, atomic::AtomicU64},
};

use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use tidegate_providers::{
    object::Kind,
    workload::{
        CONFIG_MAP, DAEMON_SET, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, SECRET,
        SERVICE,
    },
};

use super::routing_kinds;
use crate::{
    canary::observe::testing::{SHOP, merge},
    cluster::{ALERT_PROVIDER, CANARY, METRIC_TEMPLATE},
    context::Context,
};

/// An API server that keeps objects by path.
pub(in crate::canary) struct Api {
    objects: Mutex<BTreeMap<String, Value>>,
    requests: Mutex<Vec<Request>>,
    failures: Mutex<Vec<Failure>>,
    version: AtomicU64,
    context: OnceLock<Weak<Context>>,
    /// The definition of canaries has no `status.observedGeneration`.
    pub(in crate::canary) is_pruning: AtomicBool,
}

/// A request that was made.
#[derive(Clone, Debug)]
pub(in crate::canary) struct Request {
    pub(in crate::canary) method: Method,
    /// Path and query.
    pub(in crate::canary) path: String,
    pub(in crate::canary) media: String,
    pub(in crate::canary) authorization: Option<String>,
    pub(in crate::canary) body: Value,
    /// A permit was taken when it was made.
    pub(in crate::canary) has_permit: bool,
}

struct Failure {
    line: String,
    code: u16,
    /// How many requests still fail.
    times: u32,
}

/// All kinds that this server knows.
pub(super) fn kinds() -> Vec<Kind> {
    let known = [
        CANARY,
        METRIC_TEMPLATE,
        ALERT_PROVIDER,
        CONFIG_MAP,
        SECRET,
        DEPLOYMENT,
        DAEMON_SET,
        SERVICE,
        HORIZONTAL_POD_AUTOSCALER,
        SCALED_OBJECT,
    ];
    known.into_iter().chain(routing_kinds()).collect()
}

// === impl Api ===

impl Default for Api {
    fn default() -> Self {
        Self {
            objects: Mutex::default(),
            requests: Mutex::default(),
            failures: Mutex::default(),
            version: AtomicU64::new(1000),
            context: OnceLock::new(),
            is_pruning: AtomicBool::new(false),
        }
    }
}

impl Api {
    pub(super) fn client(self: &Arc<Self>) -> kube::Client {
        let this = Arc::clone(self);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let this = Arc::clone(&this);
            async move {
                let (parts, body) = request.into_parts();
                let body = body
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes)
                    .unwrap_or_default();
                let header = |name| {
                    let value = parts.headers.get(name)?;
                    value.to_str().ok().map(str::to_owned)
                };
                let request = Request {
                    path: parts.uri.path_and_query().expect("a path").to_string(),
                    method: parts.method.clone(),
                    media: header(http::header::CONTENT_TYPE).unwrap_or_default(),
                    authorization: header(http::header::AUTHORIZATION),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                    has_permit: this.is_permit_taken(),
                };
                this.requests.lock().push(request.clone());
                let (code, answer) = this.answer(&request);
                let body = Body::from(answer.to_string().into_bytes());
                let response = http::Response::builder().status(code).body(body).unwrap();
                Ok::<_, std::io::Error>(response)
            }
        });
        kube::Client::new(service, SHOP)
    }

    pub(super) fn watch_permits(&self, cx: &Arc<Context>) {
        let _ = self.context.set(Arc::downgrade(cx));
    }

    fn is_permit_taken(&self) -> bool {
        is_permit_taken(&self.context)
    }

    /// Puts an object there as it is.
    pub(super) fn seed(&self, kind: Kind, object: Value) {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.objects.lock().insert(path(kind, &name), object);
    }

    /// Puts an object there, with a new version.
    pub(in crate::canary) fn put(&self, kind: Kind, mut object: Value) -> Value {
        object["metadata"]["resourceVersion"] = json!(self.next_version());
        self.seed(kind, object.clone());
        object
    }

    /// Answers requests of other paths with this.
    pub(in crate::canary) fn put_at(&self, path: &str, object: Value) {
        self.objects.lock().insert(path.to_owned(), object);
    }

    pub(in crate::canary) fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        self.objects.lock().get(&path(kind, name)).cloned()
    }

    pub(in crate::canary) fn remove(&self, kind: Kind, name: &str) {
        self.objects.lock().remove(&path(kind, name));
    }

    /// The next requests of this line fail with this status.
    pub(in crate::canary) fn fail(&self, line: &str, code: u16, times: u32) {
        self.failures.lock().push(Failure { line: line.to_owned(), code, times });
    }

    pub(in crate::canary) fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }

    /// All requests that write, Events aside: method and object.
    pub(in crate::canary) fn writes(&self) -> Vec<String> {
        let requests = self.requests();
        let lines = requests.iter().filter(|it| it.method != Method::GET).map(Request::line);
        lines.filter(|line| line != "POST events").collect()
    }

    /// The bodies of requests of this line.
    pub(in crate::canary) fn bodies(&self, line: &str) -> Vec<Value> {
        let requests = self.requests();
        requests.into_iter().filter(|it| it.line() == line).map(|it| it.body).collect()
    }

    /// Forgets the requests so far.
    pub(in crate::canary) fn clear(&self) {
        self.requests.lock().clear();
    }

    fn next_version(&self) -> String {
        self.version.fetch_add(1, Ordering::SeqCst).to_string()
    }

    fn answer(&self, request: &Request) -> (u16, Value) {
        let line = request.line();
        let code = self.failures.lock().iter_mut().find_map(|it| {
            let is_meant = it.line == line && it.times > 0;
            it.times -= u32::from(is_meant);
            is_meant.then_some(it.code)
        });
        if let Some(code) = code {
            return failure(code, "as the table says");
        }
        let path = request.path.split('?').next().unwrap_or_default();
        match request.method {
            Method::GET => self.read(path),
            Method::POST => (201, request.body.clone()),
            Method::DELETE => match self.objects.lock().remove(path) {
                Some(object) => (200, object),
                None => failure(404, "not found"),
            },
            _ => self.patch(path, request),
        }
    }

    fn read(&self, path: &str) -> (u16, Value) {
        let objects = self.objects.lock();
        if let Some(object) = objects.get(path) {
            return (200, object.clone());
        }
        let folder = format!("{path}/");
        let inside = objects.iter().filter(|(path, _)| path.starts_with(&folder));
        let items: Vec<Value> = inside.map(|(_, object)| object.clone()).collect();
        let is_list = path.ends_with('s') && path.matches('/').count() <= 6 && !items.is_empty();
        if is_list { (200, json!({ "items": items })) } else { failure(404, "not found") }
    }

    fn patch(&self, path: &str, request: &Request) -> (u16, Value) {
        let of_status = path.strip_suffix("/status");
        let place = of_status.unwrap_or(path);
        let version = self.next_version();
        let mut objects = self.objects.lock();
        let is_apply = request.media.starts_with("application/apply-patch");
        let Some(mut object) =
            objects.get(place).cloned().or_else(|| is_apply.then(|| json!({ "metadata": {} })))
        else {
            return failure(404, "not found");
        };
        if request.media == "application/json-patch+json" {
            let operations = request.body.as_array().cloned().unwrap_or_default();
            if !operations.iter().all(|operation| operate(&mut object, operation)) {
                // As the API server says it, in these words.
                return failure(
                    422,
                    "the server rejected our request due to an error in our request",
                );
            }
        } else {
            let wanted = &request.body["metadata"]["resourceVersion"];
            if !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"] {
                return failure(409, "changed");
            }
            merge(&mut object, &request.body);
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("made-{version}"));
            object["metadata"]["namespace"] = json!(SHOP);
        }
        if of_status.is_some()
            && self.is_pruning.load(Ordering::SeqCst)
            && let Some(status) = object["status"].as_object_mut()
        {
            status.remove("observedGeneration");
            status.remove("rollout");
        }
        object["metadata"]["resourceVersion"] = json!(version);
        objects.insert(place.to_owned(), object.clone());
        (200, object)
    }
}

// === impl Request ===

impl Request {
    /// Method, plural and name: `PATCH services/web-canary`.
    pub(in crate::canary) fn line(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let place = path.split_once(&format!("/namespaces/{SHOP}/")).map_or(path, |(_, it)| it);
        format!("{} {place}", self.method)
    }
}

/// Whether a permit of the context is taken now.
pub(super) fn is_permit_taken(context: &OnceLock<Weak<Context>>) -> bool {
    let context = context.get().and_then(Weak::upgrade);
    context.is_some_and(|cx| cx.reconcile_permits.available_permits() < cx.options.permits)
}

fn path(kind: Kind, name: &str) -> String {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let group = if kind.group.is_empty() { String::new() } else { format!("/{}", kind.group) };
    format!("{root}{group}/{}/namespaces/{SHOP}/{}/{name}", kind.version, kind.plural)
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Table", "code": code,
    });
    (code, body)
}

/// Carries out one operation of a JSON patch; false if its test fails or its place is missing.
fn operate(object: &mut Value, operation: &Value) -> bool {
    let pointer = operation["path"].as_str().unwrap_or_default();
    let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
    let name = name.replace("~1", "/").replace("~0", "~");
    match operation["op"].as_str() {
        Some("test") => object.pointer(pointer) == Some(&operation["value"]),
        Some("remove") => {
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
            parent.is_some_and(|it| it.remove(&name).is_some())
        }
        _ => {
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
            parent.is_some_and(|it| {
                it.insert(name, operation["value"].clone());
                true
            })
        }
    }
}
