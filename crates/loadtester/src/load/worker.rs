//! The load of one connection.
//!
//! Without a rate a request follows the answer before it. With one, requests have a time at which they
//! should be sent, and their latency counts **from that time**: when an answer is late, the requests
//! that had to wait for it are late too, as they would be for users. Counting from when they were sent
//! would leave out just the time that mattered (coordinated omission).

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::time::{Sleep, sleep, sleep_until};

use super::{
    connect::{Connector, Link, Request},
    http1::{Answer, ExchangeError},
    plan::Rate,
    stats::{Failure, Stats},
};

/// Shared by all workers of a thread.
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) connector: Connector,
    pub(super) stats: Mutex<Stats>,
    pub(super) start: Instant,
    /// No request is begun after this.
    pub(super) end: Option<Instant>,
    pub(super) rate: Option<Rate>,
    pub(super) timeout: Option<Duration>,
    pub(super) keep_alive: bool,
    /// Whether a request may be sent again when it was lost on a kept connection that was closed. As Go's
    /// client: only idempotent ones. A request that was not sent at all always may.
    pub(super) repeatable: bool,
    pub(super) connections: u32,
}

pub(super) struct Worker {
    pub(super) job: Arc<Job>,
    /// Among all connections of the load.
    pub(super) index: u32,
    /// None if time ends it.
    pub(super) requests: Option<u64>,
}

/// When requests should be sent.
struct Schedule {
    first: Instant,
    period: Duration,
    sent: u32,
}

/// A request's turn.
struct Turn {
    /// The start of its latency.
    due: Instant,
    sent: Instant,
}

/// Timers are as fine as a millisecond: their delay is ours and not the server's. More than two milliseconds are not
/// due to timers, and count.
const TIMER_SLACK: Duration = Duration::from_millis(2);
/// The first wait after a request that failed, and the longest: a target that is down must not be called in a
/// busy loop.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

// === impl Worker ===

impl Worker {
    pub(super) async fn run(self) {
        let job = &*self.job;
        let mut schedule = job.rate.map(|rate| Schedule::of(rate, job, self.index));
        let mut timer = pin!(sleep(job.timeout.unwrap_or_default()));
        let mut link = None;
        let mut left = self.requests;
        let mut now = Instant::now();
        let mut failures = 0_u32;
        while left != Some(0) {
            let turn = match &mut schedule {
                Some(schedule) => match schedule.turn(job).await {
                    Some(turn) => turn,
                    None => break,
                },
                None if job.end.is_some_and(|end| now >= end) => break,
                None => Turn { due: now, sent: now },
            };
            let answer = self.bounded(&mut link, timer.as_mut(), turn.sent).await;
            now = Instant::now();
            self.count(&turn, now, answer);
            left = left.map(|left| left - 1);
            failures = if answer.is_ok() { 0 } else { failures + 1 };
            if failures > 0 {
                sleep((PAUSE * 2_u32.saturating_pow(failures - 1)).min(PAUSE_MAX)).await;
                now = Instant::now();
            }
        }
    }

    fn count(&self, turn: &Turn, now: Instant, answer: Result<Answer, Failure>) {
        let latency = now.saturating_duration_since(turn.due);
        let mut stats = self.job.stats.lock();
        match answer {
            Ok(Answer { status, bytes, http2, .. }) => {
                stats.count_answer(status, bytes, latency);
                stats.http2 += u64::from(http2);
                if self.job.rate.is_some() {
                    stats.service.record(now.saturating_duration_since(turn.sent));
                }
            }
            Err(failure) => stats.count_failure(failure, latency),
        }
    }

    /// One request, in its time. The timer is armed once and looked at when it fires: most requests
    /// never touch it.
    async fn bounded(
        &self,
        link: &mut Option<Link>,
        mut timer: Pin<&mut Sleep>,
        sent: Instant,
    ) -> Result<Answer, Failure> {
        let mut attempt = pin!(self.attempt(link));
        let Some(timeout) = self.job.timeout else { return attempt.await };
        let deadline = tokio::time::Instant::from_std(sent + timeout);
        loop {
            tokio::select! {
                biased;
                answer = attempt.as_mut() => return answer,
                () = timer.as_mut() => {
                    if tokio::time::Instant::now() >= deadline {
                        return Err(Failure::Timeout);
                    }
                    timer.as_mut().reset(deadline);
                }
            }
        }
    }

    /// Sends on the kept connection, or on a new one if that was closed in the meantime.
    async fn attempt(&self, link: &mut Option<Link>) -> Result<Answer, Failure> {
        let mut kept = link.take();
        if let Some(connection) = &mut kept {
            // Before a request that cannot be repeated the system is queried, too.
            if connection.is_gone(!self.job.repeatable).await {
                kept = None;
            }
        }
        loop {
            let (mut connection, is_fresh) = match kept.take() {
                Some(kept) => (kept, false),
                None => (self.connect().await?, true),
            };
            match connection.exchange(&self.job.request).await {
                Ok(answer) => {
                    if answer.reusable && self.job.keep_alive {
                        *link = Some(connection);
                    }
                    return Ok(answer);
                }
                Err(ExchangeError::ClosedUnanswered) if !is_fresh && self.job.repeatable => {}
                Err(ExchangeError::Unsent) if !is_fresh => {}
                Err(ExchangeError::Unsent | ExchangeError::ClosedUnanswered) => {
                    return Err(Failure::Broken);
                }
                Err(ExchangeError::Failed(failure)) => return Err(failure),
            }
        }
    }

    async fn connect(&self) -> Result<Link, Failure> {
        let link = self.job.connector.connect(self.index as usize).await?;
        self.job.stats.lock().connections += 1;
        Ok(link)
    }
}

// === impl Schedule ===

impl Schedule {
    /// Connections take turns, so that a rate is not a burst followed by silence.
    fn of(rate: Rate, job: &Job, index: u32) -> Self {
        // So slow that it would not happen in a lifetime is as slow as once in a lifetime.
        let seconds = (1.0 / rate.per_second()).min(1e9);
        let period = Duration::from_secs_f64(seconds).max(Duration::from_nanos(1));
        let share = f64::from(index) / f64::from(job.connections);
        Self { first: job.start + period.mul_f64(share), period, sent: 0 }
    }

    fn due(&self) -> Option<Instant> {
        self.first.checked_add(self.period.saturating_mul(self.sent))
    }

    /// Waits for the next turn; `None` when there is none any more.
    async fn turn(&mut self, job: &Job) -> Option<Turn> {
        let due = self.due()?;
        if let Some(end) = job.end.filter(|end| due >= *end) {
            // Load lasts as long as requested, also if its last request was sent before.
            sleep_until(end.into()).await;
            return None;
        }
        let now = Instant::now();
        if let Some(end) = job.end.filter(|end| now >= *end) {
            let missed = (end - due).as_nanos().div_ceil(self.period.as_nanos());
            job.stats.lock().missed += u64::try_from(missed).unwrap_or(u64::MAX);
            return None;
        }
        self.sent = self.sent.saturating_add(1);
        if now >= due {
            return Some(Turn { due, sent: now });
        }
        sleep_until(due.into()).await;
        let woken = Instant::now();
        let late = woken.saturating_duration_since(due);
        Some(Turn { due: if late <= TIMER_SLACK { woken } else { due }, sent: woken })
    }
}
