//! The life of one canary's task.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use tidegate_api::canary::CanaryStatus;
use tidegate_engine::{
    Action, Again, Answers, Clocks, Decision, EventDedup, Fact, IntervalState, IntervalTimer,
    Memory, Moment, Phase, Question, Step, Verdict, decide,
};
use tokio::sync::watch;
use tracing::{Instrument, debug, error, info_span, warn};

use super::{
    Context, alert, ask,
    derived::Derived,
    lacking::Lacking,
    observe::{self, Look, Seen},
    refusals::Refusals,
    roads, status, tell,
};
use crate::{
    cluster::{
        CANARY,
        cache::Key,
        write::{Place, WriteError},
    },
    telemetry,
};

/// Effects of one wake-up. Setting up a canary takes about ten; more is a circle.
const ROUNDS_MAX: usize = 40;
/// Pauses after trouble with the API server, doubled each time.
const PAUSE_MIN: Duration = Duration::from_secs(1);
pub(super) const PAUSE_MAX: Duration = Duration::from_mins(1);

/// What a task keeps in memory. All of it can be lost without harm.
pub(super) struct Task {
    pub(super) cx: Arc<Context>,
    pub(super) key: Key,
    pub(super) uid: String,
    /// When the last step, check or question was.
    pace: IntervalTimer,
    /// What was told where the rollout stands now: said once is enough.
    pub(super) told: EventDedup,
    /// What the server refused lately.
    pub(super) refusals: Refusals,
    /// How often that was in this wake-up.
    pub(super) refused: u32,
    pub(super) derived: Derived,
    /// Since when pods are missing, where the cluster does not say.
    pub(super) lacking: Lacking,
    /// Status as we meant to write it, for clusters whose definitions drop our additions.
    pub(super) shadow: Option<CanaryStatus>,
    pub(super) events: tell::Queue,
    pub(super) outbox: alert::Outbox,
    /// The canary as the decision that is carried out knows it.
    pub(super) based_on: Option<Arc<serde_json::Value>>,
    /// A write was not answered, so the cache may be behind what we did ourselves.
    is_in_doubt: bool,
    /// Failed attempts in a row.
    troubles: u32,
    /// What this wake-up is timed for: one that got as far as a check or a step.
    timed: Option<telemetry::Target>,
    /// What the last checks measured, until it is written down.
    pub(super) checks: Option<tidegate_engine::Checks>,
}

/// What to do after a wake-up.
enum Next {
    At(Duration),
    OnChange,
    Gone,
}

// === impl Task ===

impl Task {
    pub(super) fn new(cx: Arc<Context>, key: Key, uid: String) -> Self {
        let events = tell::Queue::start(&cx, &key);
        let outbox = alert::Outbox::start(&cx, &key);
        Self {
            cx,
            key,
            uid,
            pace: IntervalTimer::default(),
            told: EventDedup::default(),
            refusals: Refusals::default(),
            refused: 0,
            derived: Derived::default(),
            lacking: Lacking::default(),
            shadow: None,
            events,
            outbox,
            based_on: None,
            is_in_doubt: false,
            troubles: 0,
            timed: None,
            checks: None,
        }
    }

    /// Runs until the canary is gone or `stop` says so.
    pub(super) async fn run(mut self, delay: Duration, mut stop: watch::Receiver<bool>) {
        let bell = self.cx.cluster.cache.wakeup(&self.key);
        let mut due = Some(self.cx.clock.monotonic() + delay);
        // A list that is complete rings for everybody: whoever heard that in the first pause would look
        // together with all others, and that is what the pause is against.
        let mut listens = false;
        loop {
            let clock = Arc::clone(&self.cx.clock);
            let time = async {
                match due {
                    Some(due) => clock.sleep(due.saturating_sub(clock.monotonic())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                () = bell.notified(), if listens => {}
                () = time => {}
            }
            listens = true;
            match self.turn(&mut stop).await {
                Next::At(at) => due = Some(at),
                Next::OnChange => due = None,
                Next::Gone => break,
            }
        }
        self.cx.cluster.cache.leave(&self.key);
    }

    /// One wake-up, with whatever goes wrong in it kept to this canary.
    async fn turn(&mut self, stop: &mut watch::Receiver<bool>) -> Next {
        let cx = Arc::clone(&self.cx);
        let Ok(_turn) = cx.turns.acquire().await else { return Next::Gone };
        let span = info_span!("reconcile", canary = %self.key);
        let start = cx.clock.monotonic();
        let outcome = AssertUnwindSafe(self.reconcile(stop)).catch_unwind().instrument(span).await;
        let took = cx.clock.monotonic().saturating_sub(start);
        let (word, next) = match outcome {
            Ok(Ok(next)) => {
                self.troubles = 0;
                ("ok", next)
            }
            Ok(Err(trouble)) => {
                warn!(canary = %self.key, error = %trouble, "Could not finish, trying again");
                ("error", self.pause())
            }
            Err(_) => {
                error!(canary = %self.key, "Panicked; this canary is paused, others go on");
                cx.telemetry.count_panic();
                ("panic", self.pause())
            }
        };
        cx.telemetry.count_reconcile(word, took);
        if let Some(target) = self.timed.take() {
            cx.telemetry.observe_duration(&target, took);
        }
        next
    }

    fn pause(&mut self) -> Next {
        let pause = PAUSE_MIN.saturating_mul(1 << self.troubles.min(6)).min(PAUSE_MAX);
        self.troubles = self.troubles.saturating_add(1);
        Next::At(self.cx.clock.monotonic() + pause)
    }

    async fn reconcile(&mut self, stop: &mut watch::Receiver<bool>) -> Result<Next, WriteError> {
        let mut answers = Answers::default();
        // The revision they are about.
        let mut about: Option<String> = None;
        self.refused = 0;
        for _ in 0..ROUNDS_MAX {
            if *stop.borrow() || !self.cx.cluster.leads() {
                return Ok(Next::OnChange);
            }
            if self.is_in_doubt {
                // What we wrote last may be true, and not yet watched: acting upon what was before it
                // would undo it.
                self.refresh().await?;
                self.is_in_doubt = false;
            }
            let look = observe::look(self, &answers);
            let seen = match look {
                Look::Gone => return Ok(Next::Gone),
                // Rung when the list is complete, or has failed.
                Look::Listing => return Ok(Next::At(self.cx.clock.monotonic() + PAUSE_MIN)),
                Look::Unreadable(why) => {
                    self.refuse(&why).await?;
                    return Ok(Next::OnChange);
                }
                Look::Seen(seen) => *seen,
            };
            if about.as_ref().is_some_and(|about| *about != seen.checksum()) {
                // A yes to one revision is none to the one that came while it was waited for.
                (answers, about) = (Answers::default(), None);
                continue;
            }
            self.tell_lost_alerts(&seen).await;
            match decide(&seen.observed) {
                Step::Ask(question) => {
                    about = Some(seen.checksum());
                    let answer = ask::answer(self, &seen, question);
                    tokio::select! {
                        biased;
                        _ = stop.wait_for(|stop| *stop) => return Ok(Next::OnChange),
                        answered = answer => ask::note(&mut answers, question, answered),
                    }
                    if let Some(checks) = &answers.checks {
                        self.checks = Some(checks.clone());
                    }
                    if question == Question::Checks {
                        self.count_check(&seen);
                    }
                }
                Step::Do(decision) => {
                    if let Some(next) = self.carry_out(&seen, &decision).await? {
                        return Ok(next);
                    }
                    (answers, about) = (Answers::default(), None);
                }
            }
        }
        warn!(canary = %self.key, "Too many effects in a row; pausing");
        Ok(self.pause())
    }

    /// Carries a decision out. `None` if the world is to be looked at again at once.
    async fn carry_out(
        &mut self,
        seen: &Seen,
        decision: &Decision,
    ) -> Result<Option<Next>, WriteError> {
        debug!(reason = decision.why.reason(), actions = decision.actions.len(), "Decided");
        self.cx.telemetry.count_decision(decision.why.reason());
        if decision.starts_interval {
            let phase = seen.observed.memory.phase;
            let is_analysis = matches!(phase, Phase::Progressing | Phase::WaitingPromotion);
            self.timed = is_analysis.then(|| seen.gauge.clone());
        }
        let refused = self.refused;
        if matches!(decision.why, Fact::NewRevision | Fact::Restarted) {
            roads::check_schemas(&self.cx, seen);
        }
        match self.act(seen, decision).await {
            // Only now: what did not happen, or not in full, is not waited for.
            Ok(memory) => self.pace.done(decision.starts_interval, &memory, self.steady()),
            Err(error) if refused == 0 && self.refused > 0 => {
                debug!(%error, "Refused; deciding upon that");
                return Ok(None);
            }
            Err(error) if error.is_stale() => {
                debug!(%error, "Looking again");
                self.refresh().await?;
                self.troubles = self.troubles.saturating_add(1);
                if self.troubles > 5 {
                    return Ok(Some(self.pause()));
                }
                return Ok(None);
            }
            Err(error) => {
                self.is_in_doubt = matches!(error, WriteError::Unavailable { .. });
                self.complain(&error).await;
                return Err(error);
            }
        }
        Ok(match decision.again {
            Again::Now => None,
            Again::OnChange => Some(Next::OnChange),
            Again::At(at) => Some(Next::At(self.time_of(at))),
        })
    }

    /// Something was refused for good: the user should know, by an event and by the conditions.
    async fn complain(&mut self, error: &WriteError) {
        if !matches!(error, WriteError::Refused { .. }) {
            return;
        }
        // What was written before the refusal is the memory now.
        let Look::Seen(seen) = observe::look(self, &Answers::default()) else { return };
        let why = Fact::Obstructed(error.to_string());
        let actions = vec![Action::Announce(why.clone())];
        let decision = Decision { why, actions, again: Again::OnChange, starts_interval: false };
        if let Err(error) = self.act(&seen, &decision).await {
            debug!(%error, "Could not say so");
        }
    }

    /// After a conflict, or a write without an answer, nothing in the cache is believed: the objects
    /// are read again.
    async fn refresh(&mut self) -> Result<(), WriteError> {
        let Key { namespace, name } = &self.key;
        let cluster = self.cx.cluster.clone();
        cluster.refresh(Place { kind: CANARY, namespace, name, subresource: "" }).await?;
        for (kind, key) in cluster.cache.followed(&self.key) {
            if cluster.cache.get(kind, &key).is_some() {
                let Key { namespace, name } = &key;
                cluster.refresh(Place { kind, namespace, name, subresource: "" }).await?;
            }
        }
        Ok(())
    }

    fn time_of(&self, at: Moment) -> Duration {
        let now = status::moment(self.cx.clock.now());
        // At least a moment, so that a clock that stands still does not spin.
        let wait = at.since(now).max(Duration::from_millis(10));
        self.cx.clock.monotonic() + wait
    }

    /// Whether an interval has passed since the last step.
    pub(super) fn tempo(
        &mut self,
        memory: &Memory,
        interval: Duration,
        retry: bool,
    ) -> IntervalState {
        let wall = status::moment(self.cx.clock.now());
        let clocks = Clocks { wall, steady: self.steady() };
        self.pace.state(memory, clocks, interval, retry)
    }

    fn steady(&self) -> Moment {
        let passed = self.cx.clock.monotonic().as_millis();
        Moment(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    fn count_check(&self, seen: &Seen) {
        let Some(checks) = &self.checks else { return };
        let verdict = match checks.verdict {
            Verdict::Passed => telemetry::Verdict::Passed,
            Verdict::Failed(_) => telemetry::Verdict::Failed,
            Verdict::NoData(_) => telemetry::Verdict::NoData,
            Verdict::Held(_) => telemetry::Verdict::Held,
        };
        self.cx.telemetry.count_check(&seen.gauge, verdict);
    }

    /// The phase gauge and others that follow the phase and the spec.
    pub(super) fn gauge(&self, seen: &Seen, phase: Phase) {
        let (telemetry, analysis) = (&self.cx.telemetry, &seen.canary.spec.analysis);
        telemetry.set_status(&seen.gauge, status::api_phase(phase));
        telemetry.expect(&seen.gauge, strategy(analysis.strategy()));
        let is_asked = |name: &str| analysis.metrics.iter().any(|metric| metric.name == name);
        telemetry.keep_metrics(&seen.gauge, is_asked);
    }
}

/// What counts by this word.
pub(super) fn strategy(asked: tidegate_api::canary::Strategy) -> telemetry::Strategy {
    match asked {
        tidegate_api::canary::Strategy::Canary => telemetry::Strategy::Canary,
        tidegate_api::canary::Strategy::AbTesting => telemetry::Strategy::AbTesting,
        tidegate_api::canary::Strategy::BlueGreen => telemetry::Strategy::BlueGreen,
    }
}

/// A short pause that spreads canaries over a span of time. Another one with every seed: an operator that dies
/// before the span is over would not come to the same canaries each time.
pub(super) fn jitter(uid: &str, seed: u64, span: Duration) -> Duration {
    let bytes = seed.to_le_bytes().into_iter().chain(uid.bytes());
    let mixed =
        bytes.fold(0_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis((mixed >> 16) % span)
}
