//! One reconcile loop for every kind: canaries, game workloads and hook runs.
//!
//! ```text
//! start ─► wait ─► permit ─► Reconciler::reconcile ─► Next::At, OnChange ─► wait
//!           ▲ stop, wakeup, due time      │ error, panic, Next::Backoff
//!           └──────── backoff ◄───────────┘
//! ```
//!
//! [`crate::supervisor`] starts a loop for each object; between two passes a loop costs nothing.
//!
//! Guarantees:
//! - A pass holds a permit while it observes and writes, and releases it while it waits for others: a
//!   hook, a metric query, an alert or a retry delays its own object only.
//! - Waiting for a permit, for an answer or for the next pass ends at once when the loop is to stop. A decision
//!   in progress is finished first.
//! - Losing the lease is no error: the pass ends, and nothing is written.
//! - After a panic or an error the object is tried again with a backoff from one second to one minute, or when
//!   an object that it depends on changes.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tidegate_engine::Moment;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tracing::{Instrument as _, Span, error, warn};

use crate::{
    clock::Clock,
    cluster::{cache::Key, write::WriteError},
    context::Context,
};

/// The first pause after an error; each further error in a row doubles it.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_secs(1);
pub(crate) const BACKOFF_MAX: Duration = Duration::from_mins(1);
/// The shortest wait for a time: a clock that stands still must not make a loop spin.
const WAIT_MIN: Duration = Duration::from_millis(10);

/// The work of one object's loop.
pub(crate) trait Reconciler: Send {
    /// Brings the object closer to its spec, and returns when the next pass is due.
    fn reconcile(
        &mut self,
        pass: &mut Pass<'_>,
    ) -> impl Future<Output = Result<Next, WriteError>> + Send;

    /// The span of a pass, with the field that names the object in logs.
    fn span(&self) -> Span;

    /// A pass is over. For metrics.
    fn observe_pass(&mut self, is_ok: bool, took: Duration);

    /// The loop ends: the object is gone, or the operator stops.
    fn end(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// When the next pass begins. A change of anything the object depends on always begins one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// At this time of the steady clock, at the latest.
    At(Duration),
    OnChange,
    /// After a pause that grows with each pass that ends so.
    Backoff,
    /// Never: the object is gone.
    Gone,
}

/// One pass of a loop: its permit, and the signals that end or change it.
pub(crate) struct Pass<'a> {
    permits: &'a Semaphore,
    permit: Option<SemaphorePermit<'a>>,
    stop: watch::Receiver<bool>,
    wakeup: &'a Notify,
}

/// How the waiting for an answer ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited<T> {
    Done(T),
    /// The loop is to stop.
    Stopped,
    /// The object changed so that the answer is no longer needed.
    Interrupted,
}

// === impl Next ===

impl Next {
    /// The time of the steady clock at which the wall clock will say this.
    pub(crate) fn at(clock: &dyn Clock, moment: Moment) -> Self {
        let now = Moment(clock.now().as_millisecond());
        Self::At(clock.monotonic() + moment.since(now).max(WAIT_MIN))
    }
}

// === impl Pass ===

impl<'a> Pass<'a> {
    fn new(permits: &'a Semaphore, stop: watch::Receiver<bool>, wakeup: &'a Notify) -> Self {
        Self { permits, permit: None, stop, wakeup }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits for a permit, unless the pass holds one. [`WriteError::Stopped`] if none is free and the loop is to
    /// stop.
    pub(crate) async fn take_permit(&mut self) -> Result<(), WriteError> {
        if self.permit.is_some() {
            return Ok(());
        }
        let mut stop = self.stop.clone();
        let taken = tokio::select! {
            biased;
            taken = self.permits.acquire() => taken.ok(),
            _ = stop.wait_for(|stop| *stop) => None,
        };
        self.permit = Some(taken.ok_or(WriteError::Stopped)?);
        Ok(())
    }

    /// Releases the permit for a wait in the middle of a decision, then takes it again. A decision in progress is
    /// finished: the wait does not end when the loop is to stop. The caller bounds it.
    pub(crate) async fn without_permit<T>(
        &mut self,
        wait: impl Future<Output = T>,
    ) -> Result<T, WriteError> {
        self.permit = None;
        let done = wait.await;
        let taken = self.permits.acquire().await;
        self.permit = Some(taken.map_err(|_| WriteError::Stopped)?);
        Ok(done)
    }

    /// Waits for work that needs no permit; `None` if the loop is to stop before.
    pub(crate) async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        match self.wait_for(work, || false).await {
            Waited::Done(done) => Some(done),
            Waited::Stopped | Waited::Interrupted => None,
        }
    }

    /// Waits for work that needs no permit. It is given up when the loop is to stop, and when a wakeup finds
    /// `is_interrupted` true. Other wakeups are consumed: the caller observes the object again, so that no change is lost.
    pub(crate) async fn wait_for<T>(
        &mut self,
        work: impl Future<Output = T>,
        is_interrupted: impl Fn() -> bool,
    ) -> Waited<T> {
        self.permit = None;
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => return Waited::Stopped,
                done = &mut work => return Waited::Done(done),
                () = self.wakeup.notified() => {
                    if is_interrupted() {
                        return Waited::Interrupted;
                    }
                }
            }
        }
    }
}

/// Runs an object's loop until the object is gone or `stop` says so. `follower` is the name under which the
/// cache wakes it.
pub(crate) async fn run<R: Reconciler>(
    cx: Arc<Context>,
    follower: Key,
    mut reconciler: R,
    delay: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let wakeup = cx.cluster.cache.wakeup(&follower);
    let mut due = Some(cx.clock.monotonic() + delay);
    // Wakeups before the first pass do not count: a list that is complete wakes every loop at once.
    let mut is_first = true;
    let mut failures_in_a_row = 0_u32;
    loop {
        let time = wait_until(&*cx.clock, due);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            () = wakeup.notified(), if !is_first => {}
            () = time => {}
        }
        is_first = false;
        let mut pass = Pass::new(&cx.reconcile_permits, stop.clone(), &wakeup);
        if pass.take_permit().await.is_err() {
            break;
        }
        let start = cx.clock.monotonic();
        let span = reconciler.span();
        let outcome = AssertUnwindSafe(reconciler.reconcile(&mut pass)).catch_unwind();
        let outcome = outcome.instrument(span.clone()).await;
        drop(pass);
        let (word, next) = span.in_scope(|| label_and_next(&cx, outcome));
        let took = cx.clock.monotonic().saturating_sub(start);
        cx.telemetry.count_reconcile(word, took);
        reconciler.observe_pass(word == "ok", took);
        due = match next {
            Next::Gone => break,
            Next::At(at) => Some(at),
            Next::OnChange => None,
            Next::Backoff => Some(cx.clock.monotonic() + backoff(failures_in_a_row)),
        };
        let is_failure = next == Next::Backoff;
        failures_in_a_row = if is_failure { failures_in_a_row.saturating_add(1) } else { 0 };
    }
    reconciler.end().await;
    cx.cluster.cache.leave(&follower);
}

async fn wait_until(clock: &dyn Clock, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due.saturating_sub(clock.monotonic())).await,
        None => std::future::pending().await,
    }
}

/// The metric label of a pass, and when the next one is due.
fn label_and_next(
    cx: &Context,
    outcome: Result<Result<Next, WriteError>, Box<dyn std::any::Any + Send>>,
) -> (&'static str, Next) {
    match outcome {
        Ok(Ok(Next::Backoff)) => ("error", Next::Backoff),
        Ok(Ok(next)) => ("ok", next),
        Ok(Err(WriteError::NotLeading | WriteError::Stopped)) => ("ok", Next::OnChange),
        Ok(Err(error)) => {
            warn!(%error, "The pass failed and is retried");
            ("error", Next::Backoff)
        }
        Err(_) => {
            error!("The pass panicked; this object waits, others continue");
            cx.telemetry.count_panic();
            ("panic", Next::Backoff)
        }
    }
}

/// The pause after so many failures in a row.
fn backoff(failures: u32) -> Duration {
    BACKOFF_MIN.saturating_mul(1 << failures.min(6)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests;
