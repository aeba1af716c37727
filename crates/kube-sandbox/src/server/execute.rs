//! The road of every request: permission, the work itself, an entry in the request log.
//!
//! [`Server::execute`] is the road of a [`Request`] for a resource. HTTP takes [`Server::admit`],
//! since it does more between permission and log: it negotiates and renders, and answers discovery
//! and watches. A request that fails before permission is looked at is logged by [`Server::refuse`].

use std::cell::Cell;

use super::{Answer, Request, Server};
use crate::{
    failure::{Failure, Outcome},
    request::RequestInfo,
    request_log::{self, Number},
};

/// An outcome that has an entry in the request log.
pub(crate) trait Logged {
    /// `None` for a request that never arrived.
    fn logged(&self) -> Option<request_log::Answer>;
}

/// The log entry of a request at work. It is written at the end, unless it is opened before.
pub(crate) struct LogEntry<'r> {
    server: &'r Server,
    info: &'r RequestInfo,
    number: Cell<Option<Number>>,
}

// === impl Server ===

impl Server {
    /// Carries out a request and logs it. Fault injection is the caller's, since faults take time.
    pub fn execute(&self, request: &Request) -> Outcome<Answer> {
        self.admit(&request.info, |_| self.perform(request))
    }

    /// Checks permission, has `work` done and logs what came of it.
    pub(crate) fn admit<T, E>(
        &self,
        info: &RequestInfo,
        work: impl FnOnce(&LogEntry<'_>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        T: Logged,
        E: Logged + From<Failure>,
    {
        let entry = LogEntry { server: self, info, number: Cell::new(None) };
        let outcome = match self.authorize(info) {
            Ok(()) => work(&entry),
            Err(failure) => Err(failure.into()),
        };
        entry.close(match &outcome {
            Ok(answer) => answer.logged(),
            Err(refusal) => refusal.logged(),
        });
        outcome
    }

    /// Logs a request that was refused before its permission was looked at.
    pub(crate) fn refuse(&self, info: &RequestInfo, failure: &Failure) {
        let answer = request_log::Answer { code: failure.code, bytes: 0 };
        self.log.record(self.clock.now(), info, answer);
    }
}

// === impl LogEntry ===

impl LogEntry<'_> {
    /// Writes the entry now: its answer is a 200 that goes on for a while.
    pub(crate) fn open(&self) -> Number {
        let number = self.record(request_log::Answer { code: 200, bytes: 0 });
        self.number.set(Some(number));
        number
    }

    fn close(&self, answer: Option<request_log::Answer>) {
        match (self.number.get(), answer) {
            (Some(number), Some(answer)) => self.server.log.set_code(number, answer.code),
            (None, Some(answer)) => {
                self.record(answer);
            }
            (_, None) => {}
        }
    }

    fn record(&self, answer: request_log::Answer) -> Number {
        self.server.log.record(self.server.clock.now(), self.info, answer)
    }
}

impl Logged for Answer {
    fn logged(&self) -> Option<request_log::Answer> {
        Some(request_log::Answer { code: self.code, bytes: 0 })
    }
}

impl Logged for Failure {
    fn logged(&self) -> Option<request_log::Answer> {
        Some(request_log::Answer { code: self.code, bytes: 0 })
    }
}
