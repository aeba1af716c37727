//! Outcomes of requests, counted.

use std::time::Duration;

use super::histogram::Histogram;

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host's name has no address.
    Lookup,
    /// No server listens there, or it cannot be reached.
    Connect,
    Tls,
    /// Not answered in time.
    Timeout,
    /// The connection broke while the answer was awaited.
    Broken,
    /// The answer is not HTTP.
    Protocol,
}

/// Everything that is counted. One for each thread; added up at the end.
#[derive(Clone, Debug)]
pub struct Stats {
    /// From when a request should have been sent to the end of its answer.
    pub latency: Histogram,
    /// From when it was sent. Only kept under a set rate; without one it is the same.
    pub service: Histogram,
    statuses: Box<[u64; 600]>,
    failures: [u64; Failure::ALL.len()],
    pub bytes: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Requests that a set rate asked for and that were not sent when time was up.
    pub missed: u64,
    /// Answers over HTTP/2.
    pub http2: u64,
}

// === impl Failure ===

impl Failure {
    pub const ALL: [Self; 6] =
        [Self::Lookup, Self::Connect, Self::Tls, Self::Timeout, Self::Broken, Self::Protocol];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lookup => "name not found",
            Self::Connect => "connection refused",
            Self::Tls => "TLS handshake failed",
            Self::Timeout => "timed out",
            Self::Broken => "connection broken",
            Self::Protocol => "answer not understood",
        }
    }

    /// For metrics and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::Protocol => "protocol",
        }
    }
}

// === impl Stats ===

impl Default for Stats {
    fn default() -> Self {
        Self {
            latency: Histogram::default(),
            service: Histogram::default(),
            statuses: Box::new([0; 600]),
            failures: [0; Failure::ALL.len()],
            bytes: 0,
            connections: 0,
            missed: 0,
            http2: 0,
        }
    }
}

impl Stats {
    pub fn count_answer(&mut self, status: u16, bytes: u64, latency: Duration) {
        // A status above 599 was refused when it was read.
        if let Some(count) = self.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
        self.bytes += bytes;
        self.latency.record(latency);
    }

    /// Failures have no latency, except that a timeout took all the time there was: left out it would
    /// make a hanging server look fast.
    pub fn count_failure(&mut self, failure: Failure, waited: Duration) {
        if let Some(count) = self.failures.get_mut(failure as usize) {
            *count += 1;
        }
        if failure == Failure::Timeout {
            self.latency.record(waited);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        for (count, more) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *count += more;
        }
        for (count, more) in self.failures.iter_mut().zip(&other.failures) {
            *count += more;
        }
        self.bytes += other.bytes;
        self.connections += other.connections;
        self.missed += other.missed;
        self.http2 += other.http2;
    }

    /// Statuses that occurred, with how often.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        let counted = (0_u16..).zip(self.statuses.iter().copied());
        counted.filter(|(_, count)| *count > 0)
    }

    /// Failures that occurred, with how often.
    pub fn failures(&self) -> impl Iterator<Item = (Failure, u64)> {
        let counted = Failure::ALL.into_iter().zip(self.failures.iter().copied());
        counted.filter(|(_, count)| *count > 0)
    }

    pub fn answers(&self) -> u64 {
        self.statuses.iter().sum()
    }

    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Answers that say that all is well: 2xx and 3xx.
    pub fn good(&self) -> u64 {
        self.statuses().filter(|(status, _)| (200..400).contains(status)).map(|(_, n)| n).sum()
    }

    pub fn requests(&self) -> u64 {
        self.answers() + self.failed()
    }
}
