//! A steady stream of requests, and statistics of the answers.
//!
//! The same [`Traffic`] drives both modes: [`Traffic::start`] sends it over sockets,
//! [`super::Simulation`] in virtual time.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request,
    header::{COOKIE, HOST, SET_COOKIE},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::MissedTickBehavior,
};

use super::{client, cookies::Jar};
use crate::random::Random;

/// Maximum number of requests in flight; beyond that requests are skipped.
const IN_FLIGHT_MAX: usize = 256;
/// Maximum rate: 5,000 requests a second is more than a sandbox is for.
const INTERVAL_MIN: Duration = Duration::from_micros(200);
/// Longer than any application here takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);

/// Requests to one host at a steady pace.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The `Host` header.
    pub host: String,
    /// Path, with an optional query.
    pub path: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The pace.
    pub requests_per_second: f64,
    /// Number of clients with cookie jars, one of which sends each request; 0 for requests without
    /// cookies.
    pub clients: u32,
}

/// Statistics of answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// Answers by HTTP status.
    pub by_status: BTreeMap<u16, u64>,
    /// By the version in the answer.
    pub by_version: BTreeMap<String, u64>,
    /// Requests without an answer: connections refused or broken.
    pub failed: u64,
    /// Requests not sent because too many were in flight.
    pub skipped: u64,
}

/// Running traffic. Dropping it stops it.
pub struct Load {
    answers: Arc<Mutex<Answers>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// State shared by the requests of a load.
struct Client {
    traffic: Traffic,
    gateway: SocketAddr,
    random: Random,
    jars: Mutex<Vec<Jar>>,
    answers: Arc<Mutex<Answers>>,
}

// === impl Traffic ===

impl Traffic {
    /// `GET /` of a host, without headers or clients.
    pub fn new(host: &str, requests_per_second: f64) -> Self {
        Self {
            host: host.to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            requests_per_second,
            clients: 0,
        }
    }

    /// Another path.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// So many clients that keep their cookies.
    #[must_use]
    pub fn clients(mut self, clients: u32) -> Self {
        self.clients = clients;
        self
    }

    /// Sends requests to a gateway until the load is dropped or stopped.
    pub fn start(&self, gateway: SocketAddr) -> Load {
        let answers = Arc::<Mutex<Answers>>::default();
        let clients = usize::try_from(self.clients).unwrap_or_default();
        let client = Client {
            traffic: self.clone(),
            gateway,
            random: Random::seeded(0),
            jars: Mutex::new(vec![Jar::default(); clients]),
            answers: Arc::clone(&answers),
        };
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(run(Arc::new(client), stopping));
        Load { answers, stop, task }
    }

    /// The time between two requests; `None` for no traffic.
    pub(super) fn interval(&self) -> Option<Duration> {
        let seconds = Some(1.0 / self.requests_per_second).filter(|seconds| *seconds > 0.0)?;
        Duration::try_from_secs_f64(seconds).ok().map(|interval| interval.max(INTERVAL_MIN))
    }

    /// Invalid headers are left out.
    pub(super) fn header_map(&self) -> HeaderMap {
        let pairs = self.headers.iter().filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
        });
        pairs.collect()
    }

    pub(super) fn path_and_query(&self) -> (&str, &str) {
        self.path.split_once('?').unwrap_or((&self.path, ""))
    }
}

// === impl Answers ===

impl Answers {
    pub(super) fn count(&mut self, status: u16, version: Option<&str>) {
        *self.by_status.entry(status).or_default() += 1;
        let Some(version) = version else { return };
        match self.by_version.get_mut(version) {
            Some(count) => *count += 1,
            None => {
                self.by_version.insert(version.to_owned(), 1);
            }
        }
    }

    /// All answers.
    pub fn total(&self) -> u64 {
        self.by_status.values().sum()
    }
}

// === impl Load ===

impl Load {
    /// Counts so far.
    pub fn answers(&self) -> Answers {
        self.answers.lock().clone()
    }

    /// Stops sending, waits for requests in flight, and returns all statistics.
    pub async fn stop(self) -> Answers {
        self.stop.send_replace(true);
        // A panic in the task would lose its own requests only.
        let _ = self.task.await;
        self.answers.lock().clone()
    }
}

async fn run(client: Arc<Client>, mut stopping: watch::Receiver<bool>) {
    let Some(interval) = client.traffic.interval() else { return };
    let mut pace = tokio::time::interval(interval);
    // After a busy second the missed requests are not sent in a burst.
    pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut sending = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stopping.changed() => break,
            Some(_) = sending.join_next() => {}
            _ = pace.tick() => {
                if sending.len() < IN_FLIGHT_MAX {
                    sending.spawn(Arc::clone(&client).send());
                } else {
                    client.answers.lock().skipped += 1;
                }
            }
        }
    }
    if *stopping.borrow() {
        while sending.join_next().await.is_some() {}
    }
}

// === impl Client ===

impl Client {
    async fn send(self: Arc<Self>) {
        let index = {
            let jars = self.jars.lock();
            usize::try_from(self.random.below(jars.len() as u64)).unwrap_or_default()
        };
        let answer = client::send(self.gateway, self.request(index));
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
        let Ok(Ok(response)) = answer else {
            self.answers.lock().failed += 1;
            return;
        };
        if let Some(jar) = self.jars.lock().get_mut(index) {
            response.headers().get_all(SET_COOKIE).iter().for_each(|cookie| jar.take(cookie));
        }
        let body = serde_json::from_slice::<Value>(response.body()).unwrap_or_default();
        self.answers.lock().count(response.status().as_u16(), body["version"].as_str());
    }

    fn request(&self, index: usize) -> Request<Bytes> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.traffic.path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        *headers = self.traffic.header_map();
        if let Ok(host) = self.traffic.host.parse() {
            headers.insert(HOST, host);
        }
        let cookie = self.jars.lock().get(index).map(Jar::header).unwrap_or_default();
        if let Some(cookie) = cookie.parse().ok().filter(|_| !cookie.is_empty()) {
            headers.append(COOKIE, cookie);
        }
        request
    }
}
