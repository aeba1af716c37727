//! Fault injection for API clients, seeded and off by default.
//!
//! A test adds [`Rule`]s (matching requests, frequency, effect) or a crash point. The server calls
//! [`Faults::on_request`] before it applies anything, and [`Faults::on_watch_start`] and
//! [`Faults::on_watch_event`] along a watch. The same seed and order of requests give the same
//! faults. [`Injected`] counts them by class: a test that injected nothing proves nothing.
//!
//! ```text
//! request --> on_request --> Verdict { delay, stale_at, course }
//!                                      Proceed | Fail(status) | Drop (not applied) | LoseAnswer
//! watch   --> on_watch_start --> WatchPlan --> on_watch_event --> WatchAction
//! ```

mod crash;
mod matcher;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

pub use self::{
    crash::{Crash, Cut},
    matcher::Matcher,
    watch::{Interruption, WatchAction, WatchFault, WatchPlan, WatchSignal},
};

use self::{crash::Crashes, watch::Interruptions};
use crate::{failure::Failure, random::Random, request::RequestInfo};

/// A handle on the faults of one sandbox; clones are cheap and share state.
#[derive(Clone)]
pub struct Faults(Arc<Mutex<State>>);

/// Matching requests, frequency and effect of a fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Which requests.
    pub matcher: Matcher,
    /// Which of those.
    pub when: When,
    /// Their effect.
    pub effect: Effect,
}

/// The matching requests that are hit. They are counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// All of them.
    Always,
    /// This fraction of them, 0.0 to 1.0.
    Share(f64),
    /// Exactly these.
    Nth(BTreeSet<u64>),
    /// The first so many.
    First(u64),
    /// All but the first ones.
    After(u64),
}

/// The fault itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Answered with this failure; nothing is applied.
    FailBefore {
        /// The HTTP status.
        code: u16,
        /// The reason in the `Status`.
        reason: &'static str,
    },
    /// Applied, but the client sees a broken connection instead of the answer.
    LoseAnswer,
    /// 409, as after a write by another client.
    Conflict,
    /// 429
    TooManyRequests {
        /// The header `Retry-After`; `None` leaves it out.
        retry_after_s: Option<u32>,
    },
    /// 500, 502, 503 or 504.
    ServerError {
        /// The HTTP status.
        code: u16,
    },
    /// 504 after this delay; nothing is applied.
    Timeout {
        /// How long the client waits for it.
        after: Duration,
    },
    /// A delay before normal handling.
    Delay {
        /// By so much.
        by: Duration,
    },
    /// A read is answered as of this resource version. Other requests are unaffected.
    StaleRead {
        /// A version that the server still remembers.
        resource_version: u64,
    },
    /// Evaluated when a watch starts.
    Watch(WatchFault),
}

/// Identifies an added rule, for its removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

/// How the server handles a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Wait this long first.
    pub delay: Option<Duration>,
    /// Answer a read as of this resource version.
    pub stale_at: Option<u64>,
    /// Whether it is applied and answered.
    pub course: Course,
}

/// The course of a request and of its answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Course {
    /// Carry it out and answer it.
    Proceed,
    /// Answer with this, apply nothing.
    Fail(Failure),
    /// Break the connection, apply nothing.
    Drop,
    /// Apply, then break the connection.
    LoseAnswer,
}

/// Number of injected faults by class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Injected(pub BTreeMap<&'static str, u64>);

struct State {
    seeds: Random,
    rules: BTreeMap<RuleId, Armed>,
    next_id: u64,
    crashes: Crashes,
    interruptions: Interruptions,
    injected: Injected,
    waker: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// An active rule. Each draws from its own random source, so rules do not affect one another.
struct Armed {
    rule: Rule,
    random: Random,
    met: u64,
}

// === impl Faults ===

impl Default for Faults {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Faults {
    /// No faults yet; `seed` decides which requests a [`When::Share`] hits.
    pub fn seeded(seed: u64) -> Self {
        let state = State {
            seeds: Random::seeded(seed),
            rules: BTreeMap::new(),
            next_id: 0,
            crashes: Crashes::default(),
            interruptions: Interruptions::default(),
            injected: Injected::default(),
            waker: None,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Adds a rule; it counts from the next request on.
    pub fn add(&self, matcher: Matcher, when: When, effect: Effect) -> RuleId {
        let mut state = self.state();
        let id = RuleId(state.next_id);
        state.next_id += 1;
        let random = state.seeds.fork();
        let rule = Rule { matcher, when, effect };
        state.rules.insert(id, Armed { rule, random, met: 0 });
        id
    }

    /// Takes a rule away.
    pub fn remove(&self, id: RuleId) {
        self.state().rules.remove(&id);
    }

    /// Removes all rules and crash points. Counters stay.
    pub fn clear(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.crashes.disarm();
    }

    /// Counts so far, by class.
    pub fn injected(&self) -> Injected {
        self.state().injected.clone()
    }

    /// The verdict on a request. Call it once per request, before anything is applied.
    pub fn on_request(&self, info: &RequestInfo) -> Verdict {
        let mut state = self.state();
        let state = &mut *state;
        let mut verdict = Verdict { delay: None, stale_at: None, course: Course::Proceed };
        if let Some((course, class)) = state.crashes.meet(info) {
            state.injected.count(class);
            verdict.course = course;
            return verdict;
        }
        for armed in state.rules.values_mut().filter(|armed| !armed.is_for_watches()) {
            // Every rule counts its matches, also when another rule has already decided.
            if armed.hits(info) && verdict.suffer(&armed.rule.effect, info) {
                state.injected.count(armed.rule.effect.class());
            }
        }
        verdict
    }

    /// The faults of a watch that is about to start. Call it after [`Faults::on_request`], and then
    /// [`Faults::on_watch_event`] with [`WatchSignal::Wake`], because the watch may fail at the
    /// start.
    pub fn on_watch_start(&self, info: &RequestInfo) -> WatchPlan {
        let mut state = self.state();
        let mut plan = WatchPlan::new(info, state.interruptions.latest());
        for armed in state.rules.values_mut().filter(|armed| armed.is_for_watches()) {
            if armed.hits(info)
                && let Effect::Watch(fault) = &armed.rule.effect
            {
                plan.add(fault.clone());
            }
        }
        plan
    }

    /// The action for something about to be sent on a watch, or for nothing ([`WatchSignal::Wake`])
    /// when the server only checks for an interruption.
    pub fn on_watch_event(&self, plan: &mut WatchPlan, signal: WatchSignal) -> WatchAction {
        let mut state = self.state();
        let state = &mut *state;
        let dead = state.crashes.is_down(plan.info());
        let (action, class) = plan.next(signal, dead, &state.interruptions);
        if let Some(class) = class {
            state.injected.count(class);
        }
        action
    }

    /// Breaks open watches that match.
    pub fn interrupt_watches(&self, matcher: Matcher, how: Interruption) {
        let waker = {
            let mut state = self.state();
            state.interruptions.push(matcher, how);
            state.waker.clone()
        };
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Calls `waker` when an open watch has to check again although nothing was sent on it.
    pub fn on_interruption(&self, waker: impl Fn() + Send + Sync + 'static) {
        self.state().waker = Some(Arc::new(waker));
    }

    /// Counts only matching writes; by default all. Restarts counting at 0.
    pub fn count_only(&self, matcher: Matcher) {
        self.state().crashes.count_only(matcher);
    }

    /// The number of counted writes: a sweep over crash points runs from 0 up to this.
    pub fn writes(&self) -> u64 {
        self.state().crashes.writes()
    }

    /// Cuts the client off at counted write `index`, the first being 0.
    ///
    /// After [`Cut::BeforeSend`] and [`Cut::AfterApply`] the client counts as dead: all requests of
    /// a client whose requests are counted are dropped, reads included, until [`Faults::revive`].
    pub fn crash_at(&self, index: u64, cut: Cut) {
        self.state().crashes.arm(index, cut);
    }

    /// The crash point that was reached, if any.
    pub fn crashed(&self) -> Option<Crash> {
        self.state().crashes.reached()
    }

    /// Restarts the dead client: its requests are served again. Its crash is cleared, its writes
    /// are not: counting goes on.
    pub fn revive(&self) {
        self.state().crashes.revive();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let rules: Vec<_> = state.rules.values().map(|armed| &armed.rule).collect();
        f.debug_struct("Faults").field("rules", &rules).field("injected", &state.injected).finish()
    }
}

// === impl Armed ===

impl Armed {
    fn is_for_watches(&self) -> bool {
        matches!(self.rule.effect, Effect::Watch(_))
    }

    /// Whether the rule applies to this request.
    fn hits(&mut self, info: &RequestInfo) -> bool {
        if !self.rule.matcher.matches(info) {
            return false;
        }
        self.met += 1;
        match &self.rule.when {
            When::Always => true,
            When::Share(share) => self.random.chance(*share),
            When::Nth(chosen) => chosen.contains(&self.met),
            When::First(count) => self.met <= *count,
            When::After(count) => self.met > *count,
        }
    }
}

// === impl When ===

impl When {
    /// Exactly the matching requests with these numbers, counted from 1.
    pub fn nth(chosen: impl IntoIterator<Item = u64>) -> Self {
        Self::Nth(chosen.into_iter().collect())
    }
}

// === impl Effect ===

impl Effect {
    /// The class under which this effect is counted.
    fn class(&self) -> &'static str {
        match self {
            Self::FailBefore { .. } => "fail-before",
            Self::LoseAnswer => "lose-answer",
            Self::Conflict => "conflict",
            Self::TooManyRequests { .. } => "too-many-requests",
            Self::ServerError { .. } => "server-error",
            Self::Timeout { .. } => "timeout",
            Self::Delay { .. } => "delay",
            Self::StaleRead { .. } => "stale-read",
            Self::Watch(fault) => fault.class(),
        }
    }

    fn failure(&self, info: &RequestInfo) -> Option<Failure> {
        let failure = match self {
            Self::FailBefore { code, reason } => {
                Failure::new(*code, reason, format!("injected: {reason}"))
            }
            Self::Conflict => return Some(conflict(info)),
            Self::TooManyRequests { retry_after_s } => too_many_requests(*retry_after_s),
            Self::ServerError { code } => server_error(*code),
            Self::Timeout { .. } => server_error(504),
            Self::LoseAnswer | Self::Delay { .. } | Self::StaleRead { .. } | Self::Watch(_) => {
                return None;
            }
        };
        Some(failure.about(&info.group, &info.resource, &info.name))
    }
}

fn conflict(info: &RequestInfo) -> Failure {
    Failure::stale(&info.group, &info.resource, &info.name)
}

fn too_many_requests(retry_after_s: Option<u32>) -> Failure {
    let message = "the server has received too many requests and has asked us to try again later";
    let mut failure = Failure::new(429, "TooManyRequests", message);
    failure.retry_after_s = retry_after_s;
    failure
}

fn server_error(code: u16) -> Failure {
    match code {
        502 => Failure::new(502, "", "bad gateway"),
        503 => {
            let message = "the server is currently unable to handle the request";
            Failure::new(503, "ServiceUnavailable", message)
        }
        504 => {
            let message = "Timeout: request did not complete within the allotted timeout";
            Failure::new(504, "Timeout", message)
        }
        500 => Failure::internal("injected"),
        other => Failure::new(other, "InternalError", "Internal error occurred: injected"),
    }
}

// === impl Verdict ===

impl Verdict {
    /// Applies `effect` to the request. False if the effect makes no difference.
    fn suffer(&mut self, effect: &Effect, info: &RequestInfo) -> bool {
        match effect {
            Effect::Delay { by } => self.delay = Some(self.delay.unwrap_or_default() + *by),
            Effect::StaleRead { resource_version } => {
                let reads = matches!(info.verb.as_str(), "get" | "list") && info.is_resource();
                if !reads || self.stale_at.is_some() {
                    return false;
                }
                self.stale_at = Some(*resource_version);
            }
            // The first effect that decides the course wins.
            _ if self.course != Course::Proceed => return false,
            Effect::LoseAnswer => self.course = Course::LoseAnswer,
            other => {
                let Some(failure) = other.failure(info) else { return false };
                if let Effect::Timeout { after } = other {
                    self.delay = Some(self.delay.unwrap_or_default() + *after);
                }
                self.course = Course::Fail(failure);
            }
        }
        true
    }
}

// === impl Injected ===

impl Injected {
    /// Faults of all classes.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Faults of one class: `conflict`, `lose-answer`, ...
    pub fn of(&self, class: &str) -> u64 {
        self.0.get(class).copied().unwrap_or_default()
    }

    fn count(&mut self, class: &'static str) {
        *self.0.entry(class).or_default() += 1;
    }
}

impl fmt::Display for Injected {
    /// `conflict 3, lose-answer 1`; `nothing` if there were none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (at, (class, count)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{class} {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
