//! Traffic in virtual time: no sockets, no sleeping, the same numbers for the same seed.
//!
//! Whoever moves the clock calls [`Simulation::step`] for each stretch of time in which the cluster
//! stays as it is. Requests are spaced evenly; each one draws its target, endpoint and outcome as it
//! would in real time, with the same code. How time is cut into steps changes nothing.

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

/// Traffic through a cluster whose time is moved by hand.
pub struct Simulation {
    view: View,
    meter: Meter,
    sink: Arc<dyn Sink>,
    flows: Vec<Flow>,
    random: Random,
}

/// One source of requests, and what came back to it.
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

    /// From now on, also sends this.
    pub fn add(&mut self, traffic: Traffic) {
        self.flows.push(Flow::new(traffic, self.random.fork()));
    }

    /// What came back to each source of traffic, in the order they were added.
    pub fn answers(&self) -> impl Iterator<Item = (&Traffic, &Answers)> {
        self.flows.iter().map(|flow| (&flow.traffic, &flow.answers))
    }

    /// What the gateway answered so far, by Service.
    pub fn backends(&self) -> BackendCounts {
        self.meter.backends()
    }

    /// Sends what is due after `from` and until `to`, to the cluster as it is now, and reports at
    /// each multiple of [`SCRAPE_INTERVAL`] on the way.
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
        // Which rule a request falls under depends on its cookies alone: found once for each.
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

/// Lets endpoint and mirrors answer. Returns what the client sees, and the version that answered.
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
        // The pod does its work to the end, even if nobody waits for it any more.
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
