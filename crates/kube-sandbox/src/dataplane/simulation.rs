//! Traffic in virtual time: no sockets, no sleeping, the same numbers for the same seed.
//!
//! The owner of the clock calls [`Simulation::step`] for each period in which the cluster does not
//! change. Requests are spaced evenly; each one draws its target, endpoint and outcome with the
//! code of the real-time mode. The result does not depend on the division into steps.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, header::COOKIE};
use jiff::Timestamp;

use super::{
    Answers, BackendCounts, Meter, SCRAPE_INTERVAL, Sink, Snapshot, Traffic, View,
    app::Outcome,
    cookies::Jar,
    route::{Choice, Endpoint, Forward, Found, Refusal, Request},
};
use crate::{clock::between, random::Random, server::Server};

#[cfg(test)]
mod tests;

/// Traffic through a cluster with a virtual clock.
pub struct Simulation {
    view: View,
    meter: Meter,
    sink: Arc<dyn Sink>,
    flows: Vec<Flow>,
    random: Random,
}

/// One source of requests, and its answers.
struct Flow {
    traffic: Traffic,
    headers: HeaderMap,
    random: Random,
    /// Time this flow has been running.
    passed_ns: u128,
    sent: u128,
    jars: Vec<Jar>,
    answers: Answers,
}

// === impl Simulation ===

impl Simulation {
    /// Traffic through the cluster of `server`; `sink` takes what was measured.
    pub fn new(server: Arc<Server>, sink: Arc<dyn Sink>, seed: u64) -> Self {
        Self {
            view: View::new(server),
            meter: Meter::default(),
            sink,
            flows: Vec::new(),
            random: Random::seeded(seed),
        }
    }

    /// Adds a source of traffic from now on.
    pub fn add(&mut self, traffic: Traffic) {
        self.flows.push(Flow::new(traffic, self.random.fork()));
    }

    /// Answers of each source of traffic, in order of addition.
    pub fn answers(&self) -> impl Iterator<Item = (&Traffic, &Answers)> {
        self.flows.iter().map(|flow| (&flow.traffic, &flow.answers))
    }

    /// The gateway's answers so far, by Service.
    pub fn backends(&self) -> BackendCounts {
        self.meter.backends()
    }

    /// Sends the requests due after `from` and until `to`, to the cluster in its current state, and
    /// reports at each multiple of [`SCRAPE_INTERVAL`] in between.
    pub fn step(&mut self, from: Timestamp, to: Timestamp) {
        self.view.refresh();
        let snapshot = Arc::clone(self.view.snapshot());
        let mut at = from;
        while at < to {
            let scrape = next_scrape(at);
            let end = scrape.min(to);
            let stretch_ns = between(at, end).as_nanos();
            for flow in &mut self.flows {
                flow.run(stretch_ns, &snapshot, &self.meter);
            }
            if end == scrape {
                self.meter.scrape(&snapshot.pods, end.as_millisecond(), &*self.sink);
            }
            at = end;
        }
    }
}

/// The first multiple of the interval after `at`.
fn next_scrape(at: Timestamp) -> Timestamp {
    let interval_ns = i128::try_from(SCRAPE_INTERVAL.as_nanos()).unwrap_or(i128::MAX);
    let next = (at.as_nanosecond().div_euclid(interval_ns) + 1).checked_mul(interval_ns);
    next.and_then(|next| Timestamp::from_nanosecond(next).ok()).unwrap_or(Timestamp::MAX)
}

// === impl Flow ===

impl Flow {
    fn new(traffic: Traffic, random: Random) -> Self {
        let jars = usize::try_from(traffic.clients).unwrap_or_default();
        Self {
            headers: traffic.header_map(),
            jars: vec![Jar::default(); jars],
            traffic,
            random,
            passed_ns: 0,
            sent: 0,
            answers: Answers::default(),
        }
    }

    fn run(&mut self, stretch_ns: u128, snapshot: &Snapshot, meter: &Meter) {
        let Some(interval) = self.traffic.interval() else { return };
        self.passed_ns += stretch_ns;
        let due = self.passed_ns / interval.as_nanos();
        // The matching rule depends only on a request's cookies, so it is found once for each set
        // of them.
        let mut found = BTreeMap::new();
        while self.sent < due {
            self.sent += 1;
            self.send(snapshot, meter, &mut found);
        }
    }

    fn send<'s>(
        &mut self,
        snapshot: &'s Snapshot,
        meter: &Meter,
        known: &mut BTreeMap<String, Result<Found<'s>, Refusal<'s>>>,
    ) {
        let client = usize::try_from(self.random.below(self.jars.len() as u64)).unwrap_or_default();
        let cookie = self.jars.get(client).map(Jar::header).unwrap_or_default();
        let (path, query) = self.traffic.path_and_query();
        let request = Request {
            host: &self.traffic.host,
            method: "GET",
            path,
            query,
            headers: &self.headers,
        };
        let found = *known.entry(cookie).or_insert_with_key(|cookie| {
            let mut headers = self.headers.clone();
            if let Some(value) = cookie.parse().ok().filter(|_| !cookie.is_empty()) {
                headers.append(COOKIE, value);
            }
            snapshot.table.find(&Request { headers: &headers, ..request })
        });
        let choice = match found {
            Ok(found) => found.draw(&request, self.random.next_u64()),
            Err(refusal) => Choice::Refuse(refusal),
        };
        let forward = match choice {
            Choice::Forward(forward) => forward,
            Choice::Redirect { status, .. } => return self.answers.count(status, None),
            Choice::Refuse(refusal) => return self.refused(refusal, meter),
        };
        let (outcome, version) = carry(&forward, path, snapshot, meter, &self.random);
        if let Some(jar) = self.jars.get_mut(client) {
            forward.cookies().for_each(|cookie| jar.take(cookie));
        }
        self.answers.count(outcome.status, version);
    }

    fn refused(&mut self, refusal: Refusal<'_>, meter: &Meter) {
        let outcome = Outcome { status: refusal.status, latency: Duration::ZERO };
        if let Some(backend) = refusal.backend {
            meter.sent(backend, None, outcome);
        }
        self.answers.count(refusal.status, None);
    }
}

/// Sends a request to endpoint and mirrors. Returns the client's answer, and the version that sent
/// it.
fn carry<'s>(
    forward: &Forward<'_>,
    path: &str,
    snapshot: &'s Snapshot,
    meter: &Meter,
    random: &Random,
) -> (Outcome, Option<&'s str>) {
    let path = forward.path(path);
    let ask = |endpoint: &Endpoint| {
        let Endpoint::Pod(name) = endpoint else { return None };
        let pod = snapshot.pods.get(name)?;
        let outcome = pod.app.answer(&path, random.next_u64());
        // The pod completes a request even after the client's timeout.
        meter.served(pod, outcome);
        Some((pod, outcome))
    };
    for (_, endpoint) in &forward.mirrors {
        ask(endpoint);
    }
    let answered = ask(forward.endpoint);
    let unreachable = Outcome { status: 502, latency: Duration::ZERO };
    let mut outcome = answered.map_or(unreachable, |(_, outcome)| outcome);
    let mut version = answered.map(|(pod, _)| pod.app.version.as_str());
    if let Some(timeout) = forward.timeout.filter(|timeout| *timeout < outcome.latency) {
        outcome = Outcome { status: 504, latency: timeout };
        version = None;
    }
    meter.sent(forward.backend, answered.map(|(pod, _)| pod), outcome);
    (outcome, version)
}
