//! A plain HTTP client of a sandbox, without a socket and without an async runtime.
//!
//! Requests are answered at once, so a test reads as a list of steps; a request that has to wait (a delay
//! under a virtual clock) is a [`Pending`] the test polls when it has moved the clock. A [`Watch`] hands
//! out the events so far and never blocks.

use std::{collections::BTreeMap, fmt::Write as _, future::Future, pin::Pin};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Full};
use kube_sandbox::{
    Sandbox,
    http::{ApiService, ResponseBody},
    server::User,
    store::TableKey,
};
use serde_json::{Value, json};
use tower::Service as _;

/// A client in the name of one user.
#[derive(Clone)]
pub struct Wire {
    service: ApiService,
    agent: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

/// The connection broke before there was an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

/// A request that is not answered yet.
pub struct Pending(Pin<Box<dyn Future<Output = Result<Reply, Broken>> + Send>>);

/// An open watch.
pub struct Watch {
    body: ResponseBody,
    buffer: Vec<u8>,
    pub is_over: bool,
}

/// One line of a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub kind: String,
    pub object: Value,
}

// === impl Wire ===

impl Wire {
    pub fn new(sandbox: &Sandbox) -> Self {
        Self { service: sandbox.service(), agent: "wire/1.0".to_owned() }
    }

    pub fn in_the_name_of(sandbox: &Sandbox, user: &str) -> Self {
        let service = sandbox.service_as(User::named(user));
        Self { service, agent: format!("{user}/1.0") }
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", &Value::Null)
    }

    pub fn post(&self, path: &str, object: &Value) -> Reply {
        self.send("POST", path, "application/json", object)
    }

    pub fn put(&self, path: &str, object: &Value) -> Reply {
        self.send("PUT", path, "application/json", object)
    }

    pub fn merge(&self, path: &str, change: &Value) -> Reply {
        self.send("PATCH", path, "application/merge-patch+json", change)
    }

    pub fn json_patch(&self, path: &str, operations: &Value) -> Reply {
        self.send("PATCH", path, "application/json-patch+json", operations)
    }

    pub fn apply(&self, path: &str, object: &Value) -> Reply {
        self.send("PATCH", path, "application/apply-patch+yaml", object)
    }

    pub fn delete(&self, path: &str, options: &Value) -> Reply {
        self.send("DELETE", path, "application/json", options)
    }

    /// Sends a request that is answered at once.
    pub fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Reply {
        let answered = self.try_send(method, path, content_type, body);
        answered.expect("nobody broke the connection")
    }

    /// Sends a request that is answered at once or breaks.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Reply, Broken> {
        let mut pending = self.start(method, path, content_type, body);
        pending.poll().expect("the answer takes no time")
    }

    /// Sends a request whose answer may have to wait for the clock.
    pub fn start(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Pending {
        let answer = self.service.clone().call(self.request(method, path, content_type, body));
        Pending(Box::pin(async move {
            let response = answer.await.map_err(|_| Broken)?;
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.map_err(|_| Broken)?.to_bytes();
            let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
            let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
            Ok(Reply { code: parts.status.as_u16(), headers: parts.headers, body })
        }))
    }

    /// Opens a watch; `path` carries `watch=true`.
    ///
    /// `Err` is the answer of a server that does not start it.
    pub fn watch(&self, path: &str) -> Result<Watch, Reply> {
        let call = self.service.clone().call(self.request("GET", path, "", &Value::Null));
        let response = call.now_or_never().expect("a watch starts at once");
        let response = response.expect("nobody broke the connection");
        if !response.status().is_success() {
            let (parts, body) = response.into_parts();
            let bytes = body.collect().now_or_never().expect("a failure is short");
            let bytes = bytes.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            return Err(Reply { code: parts.status.as_u16(), headers: parts.headers, body });
        }
        Ok(Watch { body: response.into_body(), buffer: Vec::new(), is_over: false })
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Request<Full<Bytes>> {
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, &self.agent)
            .body(Full::new(bytes))
            .expect("a request made of tested parts")
    }
}

// === impl Reply ===

impl Reply {
    pub fn is_success(&self) -> bool {
        self.code < 300
    }

    /// The object of an answer that must be a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.is_success(), "{}: {}", self.code, self.body["message"]);
        self.body
    }

    pub fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn revision(&self) -> u64 {
        revision(&self.body)
    }
}

/// The resource version of an object or list.
pub fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_default()
}

// === impl Pending ===

impl Pending {
    /// The answer, if there is one by now.
    pub fn poll(&mut self) -> Option<Result<Reply, Broken>> {
        self.0.as_mut().now_or_never()
    }
}

// === impl Watch ===

impl Watch {
    /// All events so far.
    pub fn drain(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.poll()).collect()
    }

    /// The next event, if one has arrived. A client that polls seldom is a slow one.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let mut line: Value = serde_json::from_slice(&line).expect("a watch sends JSON");
                let kind = line["type"].as_str().unwrap_or_default().to_owned();
                return Some(Event { kind, object: line["object"].take() });
            }
            if self.is_over {
                return None;
            }
            let Some(Ok(frame)) = self.body.frame().now_or_never()? else {
                self.is_over = true;
                return None;
            };
            self.buffer.extend(frame.into_data().unwrap_or_default());
        }
    }
}

// === impl Event ===

impl Event {
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn revision(&self) -> u64 {
        revision(&self.object)
    }
}

/// Events in short: `ADDED a`, `BOOKMARK`.
pub fn brief(events: &[Event]) -> Vec<String> {
    let word = |event: &Event| format!("{} {}", event.kind, event.name()).trim().to_owned();
    events.iter().map(word).collect()
}

/// All objects of a cluster as they are stored, by where they are.
pub fn contents(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let store = &sandbox.server().store;
    let mut contents = BTreeMap::new();
    for table in store.tables() {
        let TableKey { group, plural } = &table;
        for object in store.list(&table, None).1 {
            let place = format!("{plural}.{group}/{}/{}", object.key.namespace, object.key.name);
            contents.insert(place, String::from_utf8_lossy(&object.json).into_owned());
        }
    }
    contents
}

/// All answered requests, one a line.
pub fn trace(sandbox: &Sandbox) -> String {
    let mut text = String::new();
    for entry in sandbox.server().log.entries() {
        let verb = entry.verb.as_str();
        let target = entry.target();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} {} {verb} {target} {}/{} {}",
            entry.at, entry.user, entry.namespace, entry.name, entry.code
        );
    }
    text
}

/// A ConfigMap with one entry.
pub fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "value": value },
    })
}

/// A Deployment of one container.
pub fn deployment(name: &str, replicas: u32, image: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": image }] },
            },
        },
    })
}
