//! A scripted network: hooks with set answers, metrics with set values.
//!
//! Requests of the operator are recorded in order. Addresses that are not set up refuse connections.

#![expect(clippy::panic, reason = "one of the answers is a panic")]

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use kube_sandbox::clock::Clock;
use serde_json::{Value, json};
use tidegate_operator::http::{Answer, HttpError, Outgoing, Transport};
use tokio::sync::Semaphore;

/// Host of the metrics server of tests.
pub const PROMETHEUS: &str = "prometheus";
/// The query by which the operator probes a metrics server.
pub const PROBE: &str = "vector(1)";

/// A scripted network; clones are one.
#[derive(Clone, Default)]
pub struct Network(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// By host and path.
    hooks: BTreeMap<String, Reply>,
    /// Answers that come once, before the lasting one.
    next: BTreeMap<String, VecDeque<Reply>>,
    /// By a substring of the query.
    metrics: Vec<(String, Metric)>,
    /// For addresses that are not set up.
    otherwise: Option<Reply>,
    calls: Vec<Call>,
    /// Requests in flight other than calls of hooks.
    in_flight: usize,
    /// Calls that are not yet placed in a history.
    news: Vec<Call>,
    gauge: Option<Gauge>,
    /// The clock that a hanging hook waits on; without one its caller times out at once.
    clock: Option<Clock>,
}

/// The state of the world at the moment of a request.
pub(crate) type Gauge = Box<dyn Fn() -> Reach + Send>;

/// State of the rest of the world that the network depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// The last revision of the cluster.
    pub(crate) revision: u64,
    /// The sender was killed and does not know it yet: its requests go nowhere.
    pub(crate) is_dead: bool,
}

/// The answer of a hook.
#[derive(Clone, Debug)]
pub enum Reply {
    Status(u16, String),
    /// No answer until the caller's timeout.
    Hang,
    /// Connection refused.
    Refuse,
    /// Arbitrary bytes.
    Body(u16, Vec<u8>),
    /// The inner answer, once the test releases it.
    Held(Hold, Box<Reply>),
    /// This status with `Retry-After` of so many seconds.
    Later(u16, u64),
    /// A panic in our own transport.
    Panic,
}

/// Holds an answer back until [`Hold::release`]; clones are one.
#[derive(Clone, Debug)]
pub struct Hold(Arc<Semaphore>);

/// The answer to a query.
#[derive(Clone, Debug)]
pub enum Metric {
    Value(f64),
    Nothing,
    Reply(Reply),
}

/// One request of the operator.
#[derive(Clone, Debug)]
pub struct Call {
    /// Host and path.
    pub to: String,
    pub body: Value,
    /// The body as it was sent.
    pub sent: Vec<u8>,
    /// The query, for calls to the metrics server.
    pub query: String,
    pub headers: HeaderMap,
    /// The answer it got.
    pub reply: Reply,
    /// The revision of the cluster at the time.
    pub stamp: u64,
    pub way: Way,
}

/// The options of a request that decide its address and whom it trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Way {
    /// The address is not checked against the allowed ones.
    pub trusted: bool,
    /// The server's certificate is verified.
    pub verify_tls: bool,
    /// With its own certificate authorities.
    pub own_authorities: bool,
    /// With a client certificate.
    pub certificate: bool,
    /// Through its own proxy.
    pub proxy: bool,
}

// === impl Network ===

impl Network {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the lasting answer of the hook at `host/path`.
    pub fn hook(&self, to: &str, reply: Reply) {
        self.state().hooks.insert(to.to_owned(), reply);
    }

    /// Sets one answer of the hook, used before the lasting one.
    pub fn hook_once(&self, to: &str, reply: Reply) {
        self.state().next.entry(to.to_owned()).or_default().push_back(reply);
    }

    /// Sets the answer of all addresses that are not set up.
    pub fn otherwise(&self, reply: Reply) {
        self.state().otherwise = Some(reply);
    }

    /// Sets the answer to queries that contain `part`; the latest match wins.
    pub fn metric(&self, part: &str, metric: Metric) {
        self.state().metrics.insert(0, (part.to_owned(), metric));
    }

    /// All requests, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Requests to addresses with this prefix.
    pub fn calls_to(&self, to: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.to.starts_with(to)).collect()
    }

    /// Requests since the last call.
    pub(crate) fn take_news(&self) -> Vec<Call> {
        mem::take(&mut self.state().news)
    }

    /// Places calls in the history of a cluster, and in its time.
    pub(crate) fn place(&self, gauge: Gauge, clock: Clock) {
        let mut state = self.state();
        state.gauge = Some(gauge);
        state.clock = Some(clock);
    }

    pub fn forget_calls(&self) {
        self.state().calls.clear();
    }

    /// Whether a chat or a metrics server has not answered yet: the status is written after it.
    pub(crate) fn is_busy(&self) -> bool {
        self.state().in_flight > 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and returns its answer; `None` if the caller is gone.
    pub fn reply(
        &self,
        host: &str,
        uri: &http::Uri,
        headers: HeaderMap,
        body: &[u8],
    ) -> Option<Reply> {
        self.reply_by(Way::default(), host, uri, headers, body)
    }

    fn reply_by(
        &self,
        way: Way,
        host: &str,
        uri: &http::Uri,
        headers: HeaderMap,
        body: &[u8],
    ) -> Option<Reply> {
        let to = format!("{host}{}", uri.path());
        let query = uri.query().unwrap_or_default();
        let query = query.strip_prefix("query=").unwrap_or_default();
        let query = percent(query);
        let sent = body.to_vec();
        let body = serde_json::from_slice(body).unwrap_or_default();
        let mut state = self.state();
        let reach = state.gauge.as_ref().map(|gauge| gauge());
        if reach.is_some_and(|reach| reach.is_dead) {
            return None;
        }
        let stamp = reach.map_or(0, |reach| reach.revision);
        let reply = state.answer(host, &to, &query);
        let call = Call { to, body, sent, query, headers, reply: reply.clone(), stamp, way };
        if reach.is_some() {
            state.news.push(call.clone());
        }
        state.calls.push(call);
        Some(reply)
    }
}

/// A request in flight that is no call of a hook; it counts until it is dropped.
struct InFlight<'a>(&'a Network, usize);

impl<'a> InFlight<'a> {
    fn of(network: &'a Network, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let counts = usize::from(body["checksum"].is_null());
        network.state().in_flight += counts;
        Self(network, counts)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.state().in_flight -= self.1;
    }
}

impl Transport for Network {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Answer, HttpError>> {
        let host = request.url.host().to_owned();
        let headers = request.headers.clone();
        let way = Way {
            trusted: request.trusted,
            verify_tls: request.verify_tls,
            own_authorities: request.authorities.is_some(),
            certificate: request.certificate.is_some(),
            proxy: request.proxy.is_some(),
        };
        let reply = self.reply_by(way, &host, request.url.uri(), headers, &request.body);
        let clock = self.state().clock.clone();
        let flight = InFlight::of(self, &request.body);
        Box::pin(async move {
            let _flight = flight;
            let Some(mut reply) = reply else { return std::future::pending().await };
            while let Reply::Held(hold, inner) = reply {
                hold.released().await;
                reply = *inner;
            }
            let mut headers = HeaderMap::new();
            if let Reply::Later(_, seconds) = reply {
                headers.insert(http::header::RETRY_AFTER, seconds.into());
            }
            let (status, mut body) = match reply {
                Reply::Status(status, text) => (status, text.into_bytes()),
                Reply::Body(status, bytes) => (status, bytes),
                Reply::Later(status, _) => (status, Vec::new()),
                Reply::Hang => {
                    let after = request.timeout.min(request.patience.unwrap_or(Duration::MAX));
                    if let Some(clock) = clock {
                        clock.sleep(after).await;
                    }
                    return Err(HttpError::Timeout { host, after });
                }
                Reply::Refuse | Reply::Held(..) => return Err(HttpError::Connect { host }),
                Reply::Panic => panic!("a test asked for a panic"),
            };
            let truncated = body.len() > request.max_bytes;
            body.truncate(request.max_bytes);
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            Ok(Answer { status, headers, body: body.into(), truncated })
        })
    }
}

// === impl Reply ===

impl Reply {
    /// A hook passes.
    pub fn yes() -> Self {
        Self::Status(200, String::new())
    }

    /// A hook fails.
    pub fn no() -> Self {
        Self::Status(403, "not yet".to_owned())
    }

    /// This answer, once the hold is released.
    #[must_use]
    pub fn held(self) -> (Self, Hold) {
        let hold = Hold(Arc::new(Semaphore::new(0)));
        (Self::Held(hold.clone(), Box::new(self)), hold)
    }
}

// === impl Hold ===

impl Hold {
    /// Releases all answers, waiting ones and later ones.
    pub fn release(&self) {
        self.0.close();
    }

    async fn released(&self) {
        // Closing the semaphore is the release.
        let _closed = self.0.acquire().await;
    }
}

// === impl State ===

impl State {
    fn answer(&mut self, host: &str, to: &str, query: &str) -> Reply {
        if host == PROMETHEUS {
            return self.measure(query);
        }
        if let Some(reply) = self.next.get_mut(to).and_then(VecDeque::pop_front) {
            return reply;
        }
        self.hooks.get(to).or(self.otherwise.as_ref()).cloned().unwrap_or(Reply::Refuse)
    }

    fn measure(&self, query: &str) -> Reply {
        // A probe for availability does not depend on the values of metrics.
        let is_probe = query == PROBE;
        let is_about = |part: &str| if is_probe { part == PROBE } else { query.contains(part) };
        let found = self.metrics.iter().find(|(part, _)| is_about(part));
        match found.map(|(_, metric)| metric) {
            Some(Metric::Value(value)) => vector(Some(*value)),
            None if is_probe => vector(Some(1.0)),
            Some(Metric::Nothing) | None => vector(None),
            Some(Metric::Reply(reply)) => reply.clone(),
        }
    }
}

fn vector(value: Option<f64>) -> Reply {
    let series = |value: f64| json!({ "metric": {}, "value": [0, value.to_string()] });
    let result: Vec<Value> = value.into_iter().map(series).collect();
    let body = json!({ "status": "success", "data": { "resultType": "vector", "result": result } });
    Reply::Status(200, body.to_string())
}

fn percent(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
        let digits = String::from_utf8_lossy(&digits).into_owned();
        bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
